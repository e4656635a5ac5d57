"""XarrayMongoDBAsyncIO: the same for asyncio. The work is done by threads, with a client that waits for the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, finalize

from bson import ObjectId
from pymongo import MongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.collection import Collection
from pymongo.database import Database

from hyperslab.bridges.mongo.database import Id, XarrayMongoDB
from hyperslab.bridges.mongo.eager_reads import Load
from hyperslab.errors import Problem, WrongType
from hyperslab.formats.mongo.repair import GARBAGE_AGE, GarbageReport
from hyperslab.formats.mongo.search import ObjectInfo

Answer = TypeVar("Answer")

_twins: WeakKeyDictionary[AsyncMongoClient[Any], MongoClient[Any]] = WeakKeyDictionary()


class XarrayMongoDBAsyncIO:
    """As :class:`XarrayMongoDB`, on a database of ``pymongo.AsyncMongoClient`` or of motor; methods are coroutines.

    ``meta`` and ``chunks`` are collections of that database. A Delayed is computed as any other, without ``await``.
    """

    def __init__(self, database: Any, collection: str = "xarray", **options: Any) -> None:
        self._plain = XarrayMongoDB(_plain_database(database), collection, **options)
        self._meta, self._chunks = database[f"{collection}.meta"], database[f"{collection}.chunks"]

    def __repr__(self) -> str:
        return repr(self._plain).replace("XarrayMongoDB", "XarrayMongoDBAsyncIO")

    # -- attributes -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> Any:
        """The collection of the objects' documents."""
        return self._meta

    @meta.setter
    def meta(self, collection: Any) -> None:
        self._meta, self._plain.meta = collection, _plain_collection(collection)

    @property
    def chunks(self) -> Any:
        """The collection of their chunks."""
        return self._chunks

    @chunks.setter
    def chunks(self, collection: Any) -> None:
        self._chunks, self._plain.chunks = collection, _plain_collection(collection)

    @property
    def chunk_size_bytes(self) -> int:
        """The most bytes of cells in one document."""
        return self._plain.chunk_size_bytes

    @chunk_size_bytes.setter
    def chunk_size_bytes(self, size: int) -> None:
        self._plain.chunk_size_bytes = size

    @property
    def embed_threshold_bytes(self) -> int:
        """How many bytes of small variables stand in the document of their object."""
        return self._plain.embed_threshold_bytes

    @embed_threshold_bytes.setter
    def embed_threshold_bytes(self, size: int) -> None:
        self._plain.embed_threshold_bytes = size

    @property
    def ureg(self) -> Any:
        """The registry of units."""
        return self._plain.ureg

    @ureg.setter
    def ureg(self, registry: Any) -> None:
        self._plain.ureg = registry

    # -- methods --------------------------------------------------------------------------------------------------

    async def put(
        self, x: Any, *, name: Any = None, _id: ObjectId | None = None, replace: bool = False
    ) -> tuple[ObjectId, Any]:
        """See :meth:`XarrayMongoDB.put`."""
        return await _in_thread(lambda: self._plain.put(x, name=name, _id=_id, replace=replace))

    async def get(self, _id: Any, load: Load = None) -> Any:
        """See :meth:`XarrayMongoDB.get`."""
        return await _in_thread(lambda: self._plain.get(_id, load=load))

    async def find(self, attrs: Mapping[str, Any] | None = None, **criteria: Any) -> list[ObjectInfo]:
        """See :meth:`XarrayMongoDB.find`."""
        return await _in_thread(lambda: list(self._plain.find(attrs, **criteria)))

    async def list(self) -> list[ObjectInfo]:
        """See :meth:`XarrayMongoDB.list`."""
        return await _in_thread(self._plain.list)

    async def delete(self, _id: Id) -> None:
        """See :meth:`XarrayMongoDB.delete`."""
        await _in_thread(lambda: self._plain.delete(_id))

    async def rename(self, _id: Id, name: str | None, *, replace: bool = False) -> None:
        """See :meth:`XarrayMongoDB.rename`."""
        await _in_thread(lambda: self._plain.rename(_id, name, replace=replace))

    async def copy(self, _id: Id, target: XarrayMongoDBAsyncIO | None = None, *, name: str | None = None) -> ObjectId:
        """See :meth:`XarrayMongoDB.copy`."""
        plain = target._plain if isinstance(target, XarrayMongoDBAsyncIO) else target
        return await _in_thread(lambda: self._plain.copy(_id, plain, name=name))

    async def replace(self, _id: Id, x: Any) -> tuple[ObjectId, Any]:
        """See :meth:`XarrayMongoDB.replace`."""
        return await _in_thread(lambda: self._plain.replace(_id, x))

    async def append(self, _id: Id, x: Any, dim: str) -> None:
        """See :meth:`XarrayMongoDB.append`."""
        await _in_thread(lambda: self._plain.append(_id, x, dim))

    async def update(self, _id: Id, x: Any, region: Mapping[Any, slice]) -> None:
        """See :meth:`XarrayMongoDB.update`."""
        await _in_thread(lambda: self._plain.update(_id, x, region))

    async def resume(self, _id: Id, x: Any) -> Any:
        """See :meth:`XarrayMongoDB.resume`."""
        return await _in_thread(lambda: self._plain.resume(_id, x))

    async def is_complete(self, _id: Id) -> bool:
        """See :meth:`XarrayMongoDB.is_complete`."""
        return await _in_thread(lambda: self._plain.is_complete(_id))

    async def check(self, _id: Id | None = None, *, deep: bool = False) -> Sequence[Problem]:
        """See :meth:`XarrayMongoDB.check`."""
        return await _in_thread(lambda: self._plain.check(_id, deep=deep))

    async def collect_garbage(self, *, age: float | timedelta = GARBAGE_AGE, dry_run: bool = False) -> GarbageReport:
        """See :meth:`XarrayMongoDB.collect_garbage`."""
        return await _in_thread(lambda: self._plain.collect_garbage(age=age, dry_run=dry_run))


async def _in_thread(work: Callable[[], Answer]) -> Answer:
    return await asyncio.to_thread(work)


def _plain_database(database: Any) -> Database[Any]:
    """The same database by a client that is not asynchronous. WrongType."""
    if isinstance(database, AsyncDatabase):
        return _twin(database.client).get_database(
            database.name,
            database.codec_options,
            database.read_preference,
            database.write_concern,
            database.read_concern,
        )
    inner = None if isinstance(database, Database) else getattr(database, "delegate", None)  # motor's
    if isinstance(inner, Database):
        return inner
    remedy = "give a database of pymongo.AsyncMongoClient or of motor, or use XarrayMongoDB"
    raise WrongType(f"a {type(database).__name__} is no database for asyncio", remedy=remedy)


def _plain_collection(collection: Any) -> Collection[Any]:
    if isinstance(collection, AsyncCollection):
        return _plain_database(collection.database)[collection.name]
    inner: Collection[Any] = collection.delegate
    return inner


def _twin(client: AsyncMongoClient[Any]) -> MongoClient[Any]:
    """A client of the same server with the same options, which lives as long as the asynchronous one."""
    if client not in _twins:
        _twins[client] = MongoClient(**client._init_kwargs)
        finalize(client, _twins[client].close)
    return _twins[client]
