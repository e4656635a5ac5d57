"""XarrayMongoDB: xarray objects in two collections of a database; XarrayMongoDBAsyncIO: the same as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar, cast

import xarray as xr
from bson import ObjectId
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.collection import Collection
from pymongo.database import Database

from hyperslab.bridges.extras import library
from hyperslab.bridges.mongo import compaction, put_tasks, updates
from hyperslab.bridges.mongo.origin import STATUS, ObjectOrigin, ServerAddress, has_user
from hyperslab.bridges.mongo.put_plan import (
    ChunkIds,
    Commit,
    Layout,
    Positional,
    PutOptions,
    plan_put,
)
from hyperslab.bridges.mongo.put_tasks import put_object
from hyperslab.bridges.mongo.reads import Load, build_object, eager_names, lazy_variables
from hyperslab.errors import HyperslabError, Invalid, NotFound, Problem, WrongType
from hyperslab.formats.mongo import completeness, objects, rules, search
from hyperslab.formats.mongo.bson_values import Collections, Document, parse_byte_options
from hyperslab.formats.mongo.document import Meta
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.formats.mongo.indexes import SearchIndex, ensure_index, ensure_write_indexes
from hyperslab.formats.mongo.object_changes import version_query
from hyperslab.formats.mongo.retention import expire_objects
from hyperslab.formats.mongo.variables import load_object, raise_if_incomplete, read_variables
from hyperslab.model.amounts import parse_retention

Answer = TypeVar("Answer")
Parameters = ParamSpec("Parameters")
Id = ObjectId | str
"""An object's ``_id``, or its name where it is the only one of that name."""


def _locate_errors(method: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Return a method of :class:`XarrayMongoDB` whose errors tell the database, where they tell no place."""

    @wraps(method)
    def located(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        try:
            return method(*args, **kwargs)
        except HyperslabError as error:
            origin = cast(XarrayMongoDB, args[0])._origin()
            raise error.locate(url=origin.url, node="") from error.__cause__

    return located


class XarrayMongoDB:
    """Datasets and DataArrays in the collections ``<collection>.meta`` and ``<collection>.chunks`` of a database.

    ``database``: of a ``pymongo.MongoClient``, which is used as it is by all threads of this process. The documents
    are those of xarray_mongodb, which reads what is written with the default options, and whose objects are read here.

    - ``chunk_size_bytes``: the most bytes of cells in one document; ``embed_threshold_bytes``: how many bytes of small
      variables stand in the document of their object. Both 255 KiB unless ``layout`` says otherwise.
    - ``ureg``: the registry that Quantities are made of, by default pint's application registry at that time.
    - ``layout="extended"`` chooses ``chunk_size_bytes`` of nearly 1 MiB, ``chunk_ids="derived"``,
      ``positional_index="unique"``, ``commit="meta_last"`` and ``verify=True``; what is given besides counts.
    - ``chunk_ids``: ``"objectid"``, or ``"derived"`` from object, name, chunk and n, by which chunks are found at once.
    - ``positional_index``: an index by which one chunk is found by one key; ``"unique"`` also keeps doubles out.
    - ``verify``: look whether all chunks are there, at the end of writing and before ``get`` returns.
    - ``read_index=False``: ``get`` makes no index.
    - ``search_index``: ``put``, ``replace`` and ``copy`` make the indexes by which objects are found, where they are
      missing. Names of attributes: by these, too. False: they make none.
    - ``commit``: the document of an object is written before its chunks (``"meta_first"``) or after (``"meta_last"``).
    - ``durable``: writes are in the journal, of most members of a replica set, before they count as made.
    - ``densify``: sparse arrays are stored dense.
    - ``keep_versions``: what ``replace`` takes the place of is kept as an older version, for so many seconds (or a
      ``timedelta``; True: until it is removed by ``expire`` or ``delete``). Readers of it read on.
    - ``uri_env``, ``credentials``: the environment variable that holds the connection string, and the function
      (``"module:function"``) that gives user and password, in processes that tasks of dask are sent to. ``uri``: the
      connection string for those without a secret in it, where the client has settings that it does not tell, as TLS.

    What the driver raises passes as it is. Invalid for options that contradict each other.
    """

    def __init__(
        self,
        database: Database[Any],
        collection: str = "xarray",
        *,
        chunk_size_bytes: int | None = None,
        embed_threshold_bytes: int | None = None,
        ureg: Any = None,
        layout: Layout = "compatible",
        chunk_ids: ChunkIds | None = None,
        positional_index: Positional | None = None,
        verify: bool | None = None,
        read_index: bool | None = None,
        search_index: SearchIndex | None = None,
        commit: Commit | None = None,
        durable: bool = True,
        densify: bool = False,
        keep_versions: bool | float | timedelta = False,
        uri: str | None = None,
        uri_env: str | None = None,
        credentials: str | None = None,
    ) -> None:
        if not isinstance(database, Database):
            remedy = "give a database of pymongo.MongoClient, or use XarrayMongoDBAsyncIO"
            raise WrongType(f"a {type(database).__name__} is no database", remedy=remedy)
        self._options = PutOptions.of(
            layout,
            chunk_size_bytes=chunk_size_bytes,
            embed_threshold_bytes=embed_threshold_bytes,
            chunk_ids=chunk_ids,
            positional_index=positional_index,
            verify=verify,
            read_index=read_index,
            search_index=search_index,
            commit=commit,
            durable=durable,
            densify=densify,
            keep_versions=keep_versions,
        )
        self._address = ServerAddress(database.client, uri=uri, uri_env=uri_env, credentials=credentials)
        self.meta: Collection[Any] = database[f"{collection}.meta"]
        self.chunks: Collection[Any] = database[f"{collection}.chunks"]
        self.chunk_size_bytes: int = self._options.chunk_size_bytes
        self.embed_threshold_bytes: int = self._options.embed_threshold_bytes
        self._ureg = ureg
        self._indexed: Collection[Any] | None = None

    def __repr__(self) -> str:
        return f"<XarrayMongoDB {self.meta.full_name} {self.chunks.full_name}>"

    @property
    def ureg(self) -> Any:
        """The registry of units: the one that was given, else pint's application registry."""
        if self._ureg is not None:
            return self._ureg
        return library("pint").get_application_registry().get()

    @ureg.setter
    def ureg(self, registry: Any) -> None:
        self._ureg = registry

    def _origin(self) -> ObjectOrigin:
        return ObjectOrigin(self.meta, self.chunks, self._address, durable=self._options.durable)

    def _current_options(self) -> PutOptions:
        """Return the options, with the sizes that may have been assigned since."""
        chunk_size, threshold = parse_byte_options(self.chunk_size_bytes, self.embed_threshold_bytes)
        return replace(self._options, chunk_size_bytes=chunk_size, embed_threshold_bytes=threshold)

    # -- the two of xarray_mongodb --------------------------------------------------------------------------------

    @_locate_errors
    def put(
        self,
        x: xr.Dataset | xr.DataArray,
        *,
        name: Any = None,
        _id: ObjectId | None = None,
        replace: bool = False,
    ) -> tuple[ObjectId, Any]:
        """Store an object: its new ``_id``, and the Delayed that stores its dask arrays (None where there are none).

        The Delayed may be computed anywhere, and more than once. ``name``: other than that of a DataArray, or of a
        Dataset, which has none of its own; ``replace``: the new object takes the place of the one that has this name,
        as :meth:`replace` does. DataArrays that are called alike, and get no ``name``, may share theirs. ``_id``: one
        that no object has yet.

        Nothing is written of what cannot be stored: Unsupported and Invalid name the variable or attribute; WrongType
        for what is no Dataset or DataArray. AlreadyExists for an ``_id`` or a ``name`` that is taken.
        """
        options = self._current_options()
        if name is not None:
            objects.check_object_name(name)
        if replace:
            if not isinstance(name, str) or _id is not None:
                raise Invalid("replace=True is for an object with a name", remedy="give name=, and no _id")
            return put_tasks.replace_object(self._origin(), options, name, x)
        plan = plan_put(x, options, name=name, id=_id)
        return plan.meta.id, put_object(
            self._origin(), plan, options, is_new=_id is None, has_unique_name=name is not None
        )

    @_locate_errors
    def get(self, _id: Any, load: Load = None, *, at: Any = None) -> Any:
        """Return the object of this ``_id``, or of this name where it is the only one, a Dataset or DataArray.

        ``load``: None reads now what was stored whole, and later, as dask arrays, what was stored in chunks; True reads
        all now; False reads all later; names read these variables now. Index coordinates, and what stands in the
        object's document, are always read now.

        ``at``: a moment (a datetime, UTC unless it says otherwise, or ISO text): the version that was the present one
        then, of those that are kept (``keep_versions``). Changes in place, as ``append`` and ``update``, make none.

        DocumentNotFoundError when the object is not there, or a chunk of it (of dask arrays when they are computed);
        Invalid for a name that several objects have.
        """
        origin = self._origin()
        here = origin.open()
        if self._options.read_index and self._indexed is not self.chunks:
            ensure_index(here.chunks, best_effort=True)
            self._indexed = self.chunks
        id = _resolve(here.meta, _id)
        if at is not None:
            id = search.find_version(here.meta, id, at)
        while True:
            meta = load_object(here, id) if at is not None else self._load_present(here, _id, id)
            try:
                now = eager_names(meta, load)
                later = [name for name in meta.variables if name not in now]
                if self._options.verify and later:
                    raise_if_incomplete(meta, here.chunks)
                loaded = read_variables(here, meta, now) | lazy_variables(origin, here, meta, later)
                return build_object(meta, loaded, self._ureg)
            except DocumentNotFoundError:
                # While it was read the object may have grown, so that what was in one piece is in chunks, or another
                # one may have taken its place.
                if here.meta.find_one(version_query(meta.id, meta.extension.get("version")), {"_id": 1}) is not None:
                    raise

    def _load_present(self, here: Collections, wanted: Any, id: Any) -> Meta:
        """Return the object of an id, or the one that has taken its place under the name by which it is wanted."""
        while True:
            try:
                return load_object(here, id)
            except DocumentNotFoundError:
                gone, id = id, _resolve(here.meta, wanted)
                if id == gone:
                    raise

    # -- what lies there ------------------------------------------------------------------------------------------

    @_locate_errors
    def find(self, attrs: Document | Sequence[Document] | None = None, **criteria: Any) -> Iterator[search.ObjectInfo]:
        """Yield the objects with these attributes, or with those of one of several mappings; by ``dims``, ``names`` of
        variables, ``name``, ``since`` and ``until`` too: see :func:`hyperslab.formats.mongo.search.find_objects`."""
        return search.find_objects(self._origin().open().meta, attrs, **criteria)

    def list(self) -> list[search.ObjectInfo]:
        """Return all objects, the oldest first."""
        return [*self.find()]

    @_locate_errors
    def versions(self, _id: Id) -> Sequence[search.ObjectInfo]:
        """Return the older versions of an object that are kept, the oldest first, and the object itself, which is the
        last.

        Each is read by its id, or by ``get(name, at=...)``; ``copy`` makes an object of it. NotFound.
        """
        here = self._origin().open()
        return search.find_versions(here.meta, objects.resolve_id(here.meta, _id))

    @_locate_errors
    def compact(
        self,
        _id: Id,
        *,
        chunk_bytes: int = compaction.CHUNK_BYTES,
        keep_old: bool | float | timedelta = rules.GARBAGE_AGE,
    ) -> ObjectId:
        """Join the small chunks of an object, as many appends leave them, to ones of ``chunk_bytes`` of cells at most.

        Where there are some, a new object with the same cells takes the place and the name of the old one, as by
        :meth:`replace`; its id is returned. The old one is a version for ``keep_old`` (seconds, a ``timedelta``, or
        True), so that its readers read on; :meth:`collect_garbage` removes it afterwards. NotFound, Conflict, Invalid.
        """
        keeps = parse_retention(keep_old, "keep_old")
        return compaction.compact_object(
            self._origin(), self._current_options(), _id, chunk_bytes, 0 if keeps is None else keeps
        )

    @_locate_errors
    def delete(self, _id: Id) -> None:
        """Remove an object with its chunks and its older versions, or one of the versions alone. NotFound."""
        here = self._origin().open()
        objects.delete_object(here.meta, here.chunks, objects.resolve_id(here.meta, _id))

    @_locate_errors
    def expire(
        self,
        attrs: Document | None = None,
        *,
        older_than: float | timedelta | None = None,
        keep_newest: int | None = None,
        dry_run: bool = False,
        **criteria: Any,
    ) -> Sequence[search.ObjectInfo]:
        """Remove objects that were made more than ``older_than`` seconds ago, but for the ``keep_newest`` newest ones
        of each name, and return what was known of them; with ``dry_run`` only say which they are.

        One of the two is enough. ``attrs`` and ``criteria`` are those of :meth:`find`: others stay, and do not count.
        Objects without a name go by age alone. Each is removed as by :meth:`delete`. Invalid.
        """
        here = self._origin().open()
        found = expire_objects(
            here.meta,
            here.chunks,
            attrs,
            older_than=older_than,
            keep_newest=keep_newest,
            dry_run=dry_run,
            **criteria,
        )
        return [*found]

    @_locate_errors
    def rename(self, _id: Id, name: str | None, *, replace: bool = False) -> None:
        """Give an object another name, or none; ``replace`` removes the object that has it. NotFound, AlreadyExists."""
        here = self._origin().open()
        objects.rename_object(here.meta, here.chunks, objects.resolve_id(here.meta, _id), name, replace=replace)

    @_locate_errors
    def copy(self, _id: Id, target: XarrayMongoDB | None = None, *, name: str | None = None) -> ObjectId:
        """Copy an object, also to other collections or another server; the new ``_id``. NotFound, AlreadyExists.

        Without ``name`` it keeps its name, whoever has it there; within the same collection that is refused.
        """
        if target is not None and not isinstance(target, XarrayMongoDB):
            remedy = "give an XarrayMongoDB, or name= for the name of the copy"
            raise WrongType(f"the target is a {type(target).__name__}", remedy=remedy)
        target = target or self
        here, there = self._origin().open(), target._origin().open()
        id = objects.resolve_id(here.meta, _id)
        if name is None and here.meta == there.meta:
            objects.raise_if_named_alike(here.meta, id)
        ensure_write_indexes(there, target._options.search_index)
        return objects.copy_object(*here, *there, id, name=name)

    # -- what changes it ------------------------------------------------------------------------------------------

    @_locate_errors
    def replace(self, _id: Id, x: xr.Dataset | xr.DataArray) -> tuple[ObjectId, Any]:
        """Store ``x`` in the place of an object: whoever looks by name finds the one or the other, whole.

        As :meth:`put`; the name passes to the new object, and the old one is removed, when all is stored: at once, or
        at the end of the Delayed. A name that no object has yet is taken.
        """
        return put_tasks.replace_object(self._origin(), self._current_options(), _id, x)

    @_locate_errors
    def append(
        self, _id: Id, x: xr.Dataset | xr.DataArray, dim: str, *, repeated: Literal["error", "allow"] = "error"
    ) -> None:
        """Add the cells of ``x`` along a dimension of an object. Others see all of it or nothing. Invalid, Conflict.

        Labels of ``dim`` that the object has, or that would no longer be in order, are an error, unless
        ``repeated="allow"``; ``update`` writes over them. Other labels than the stored ones along the other dimensions
        are an error.
        """
        updates.append_object(self._origin(), self._current_options(), _id, x, dim, repeated)

    @_locate_errors
    def update(self, _id: Id, x: xr.Dataset | xr.DataArray, region: Mapping[Any, slice]) -> None:
        """Put the cells of ``x`` over those in a region of an object (positions by dimension). Invalid, also for labels
        that are not those of the region; without labels cells go by position, and labels without cells are changed."""
        updates.update_region(self._origin(), self._current_options(), _id, x, region)

    @_locate_errors
    def resume(self, _id: Id, x: xr.Dataset | xr.DataArray) -> Any:
        """Store the chunks of ``x`` that a put of it did not come to; a Delayed or None, as :meth:`put`. Invalid."""
        return put_tasks.resume_put(self._origin(), self._current_options(), _id, x)

    # -- whether it is whole --------------------------------------------------------------------------------------

    @_locate_errors
    def is_complete(self, _id: Id) -> bool:
        """Return True if all chunks of an object are stored; no cells are moved. NotFound."""
        here = self._origin().open()
        return completeness.is_complete(here.meta, here.chunks, objects.resolve_id(here.meta, _id))

    @_locate_errors
    def check(self, _id: Id | None = None, *, deep: bool = False) -> Sequence[Problem]:
        """Return every problem of one object, or of all and of what belongs to none; ``deep`` decodes sparse chunks
        too."""
        here = self._origin().open()
        id = None if _id is None else objects.resolve_id(here.meta, _id)
        return [*rules.find_problems(here.meta, here.chunks, id, deep=deep)]

    @_locate_errors
    def collect_garbage(
        self, *, age: float | timedelta = rules.GARBAGE_AGE, dry_run: bool = False
    ) -> rules.GarbageReport:
        """Remove documents that belong to nothing and are older than ``age`` (seconds): of puts that were broken off,
        and of objects that were replaced; ``dry_run`` only tells of them. Invalid."""
        here = self._origin().open()
        return rules.collect_garbage(here.meta, here.chunks, age=age, dry_run=dry_run)


def _resolve(meta: Collection[Any], wanted: Any) -> Any:
    """Return the id that a text means; what is no text is an id as it is. DocumentNotFoundError, Invalid."""
    if not isinstance(wanted, str):
        return wanted
    try:
        return objects.resolve_id(meta, wanted)
    except NotFound as error:
        raise DocumentNotFoundError(wanted, remedy=error.remedy) from None


# -- asyncio ----------------------------------------------------------------------------------------------------------


class XarrayMongoDBAsyncIO:
    """As :class:`XarrayMongoDB`, on a database of ``pymongo.AsyncMongoClient`` or of motor; methods are coroutines.

    ``meta`` and ``chunks`` are collections of that database. A Delayed is computed as any other, without ``await``.

    The work is done by threads with a client that waits for the server. An ``AsyncMongoClient`` tells neither its
    password nor whether it speaks TLS: where it has one of them, ``uri`` (which stays in this process, and may hold the
    password), ``uri_env`` or ``credentials`` say how that client gets it. Invalid at the first call where it does not.
    """

    def __init__(
        self,
        database: Any,
        collection: str = "xarray",
        *,
        uri: str | None = None,
        uri_env: str | None = None,
        credentials: str | None = None,
        **options: Any,
    ) -> None:
        self._access: dict[str, Any] = {"uri": uri, "uri_env": uri_env, "credentials": credentials}
        plain = self._plain_database(database)
        self._plain = XarrayMongoDB(plain, collection, **self._access, **options)
        self._meta, self._chunks = database[f"{collection}.meta"], database[f"{collection}.chunks"]
        self._to_ask = (
            database.client if isinstance(database, AsyncDatabase) and not any(self._access.values()) else None
        )

    def __repr__(self) -> str:
        return repr(self._plain).replace("XarrayMongoDB", "XarrayMongoDBAsyncIO")

    # -- attributes -----------------------------------------------------------------------------------------------

    @property
    def meta(self) -> Any:
        """The collection of the objects' documents."""
        return self._meta

    @meta.setter
    def meta(self, collection: Any) -> None:
        self._meta, self._plain.meta = collection, self._plain_collection(collection)

    @property
    def chunks(self) -> Any:
        """The collection of their chunks."""
        return self._chunks

    @chunks.setter
    def chunks(self, collection: Any) -> None:
        self._chunks, self._plain.chunks = collection, self._plain_collection(collection)

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
        return await self._run(lambda: self._plain.put(x, name=name, _id=_id, replace=replace))

    async def get(self, _id: Any, load: Load = None, *, at: Any = None) -> Any:
        """See :meth:`XarrayMongoDB.get`."""
        return await self._run(lambda: self._plain.get(_id, load=load, at=at))

    async def find(self, attrs: Mapping[str, Any] | None = None, **criteria: Any) -> list[search.ObjectInfo]:
        """See :meth:`XarrayMongoDB.find`."""
        return await self._run(lambda: list(self._plain.find(attrs, **criteria)))

    async def list(self) -> list[search.ObjectInfo]:
        """See :meth:`XarrayMongoDB.list`."""
        return await self._run(self._plain.list)

    async def versions(self, _id: Id) -> Sequence[search.ObjectInfo]:
        """See :meth:`XarrayMongoDB.versions`."""
        return await self._run(lambda: self._plain.versions(_id))

    async def compact(self, _id: Id, **how: Any) -> ObjectId:
        """See :meth:`XarrayMongoDB.compact`."""
        return await self._run(lambda: self._plain.compact(_id, **how))

    async def delete(self, _id: Id) -> None:
        """See :meth:`XarrayMongoDB.delete`."""
        await self._run(lambda: self._plain.delete(_id))

    async def expire(self, attrs: Mapping[str, Any] | None = None, **how: Any) -> Sequence[search.ObjectInfo]:
        """See :meth:`XarrayMongoDB.expire`."""
        return await self._run(lambda: self._plain.expire(attrs, **how))

    async def rename(self, _id: Id, name: str | None, *, replace: bool = False) -> None:
        """See :meth:`XarrayMongoDB.rename`."""
        await self._run(lambda: self._plain.rename(_id, name, replace=replace))

    async def copy(self, _id: Id, target: XarrayMongoDBAsyncIO | None = None, *, name: str | None = None) -> ObjectId:
        """See :meth:`XarrayMongoDB.copy`."""
        plain = target._plain if isinstance(target, XarrayMongoDBAsyncIO) else target
        return await self._run(lambda: self._plain.copy(_id, plain, name=name))

    async def replace(self, _id: Id, x: Any) -> tuple[ObjectId, Any]:
        """See :meth:`XarrayMongoDB.replace`."""
        return await self._run(lambda: self._plain.replace(_id, x))

    async def append(self, _id: Id, x: Any, dim: str, *, repeated: Literal["error", "allow"] = "error") -> None:
        """See :meth:`XarrayMongoDB.append`."""
        await self._run(lambda: self._plain.append(_id, x, dim, repeated=repeated))

    async def update(self, _id: Id, x: Any, region: Mapping[Any, slice]) -> None:
        """See :meth:`XarrayMongoDB.update`."""
        await self._run(lambda: self._plain.update(_id, x, region))

    async def resume(self, _id: Id, x: Any) -> Any:
        """See :meth:`XarrayMongoDB.resume`."""
        return await self._run(lambda: self._plain.resume(_id, x))

    async def is_complete(self, _id: Id) -> bool:
        """See :meth:`XarrayMongoDB.is_complete`."""
        return await self._run(lambda: self._plain.is_complete(_id))

    async def check(self, _id: Id | None = None, *, deep: bool = False) -> Sequence[Problem]:
        """See :meth:`XarrayMongoDB.check`."""
        return await self._run(lambda: self._plain.check(_id, deep=deep))

    async def collect_garbage(
        self, *, age: float | timedelta = rules.GARBAGE_AGE, dry_run: bool = False
    ) -> rules.GarbageReport:
        """See :meth:`XarrayMongoDB.collect_garbage`."""
        return await self._run(lambda: self._plain.collect_garbage(age=age, dry_run=dry_run))

    # -- the client behind ----------------------------------------------------------------------------------------

    async def _run(self, work: Callable[[], Answer]) -> Answer:
        if self._to_ask is not None:
            if has_user(await self._to_ask.admin.command(STATUS)):
                remedy = "give uri=, the connection string; or uri_env= or credentials='module:function'"
                raise Invalid("the client has a password, which it does not tell", remedy=remedy)
            self._to_ask = None
        return await asyncio.to_thread(work)

    def _plain_database(self, database: Any) -> Database[Any]:
        """Return the same database by a client that is not asynchronous. WrongType."""
        if isinstance(database, AsyncDatabase):
            client = ServerAddress(database.client, **self._access).open(self._access["uri"])
            codec, preference = database.codec_options, database.read_preference
            return client.get_database(database.name, codec, preference, database.write_concern, database.read_concern)
        inner = None if isinstance(database, Database) else getattr(database, "delegate", None)  # motor's
        if isinstance(inner, Database):
            return inner
        remedy = "give a database of pymongo.AsyncMongoClient or of motor, or use XarrayMongoDB"
        raise WrongType(f"a {type(database).__name__} is no database for asyncio", remedy=remedy)

    def _plain_collection(self, collection: Any) -> Collection[Any]:
        if isinstance(collection, AsyncCollection):
            return self._plain_database(collection.database)[collection.name]
        inner: Collection[Any] = collection.delegate
        return inner
