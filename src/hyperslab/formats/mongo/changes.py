"""Chunk documents put in the place of others: whole chunks, or those that are still what was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperslab.errors import Conflict, CorruptChunk
from hyperslab.formats.mongo import stored
from hyperslab.formats.mongo.segments import Key, Segment, show
from hyperslab.formats.mongo.undo import ChunkUndo, Mark
from hyperslab.stores.attempts import beaten

if TYPE_CHECKING:
    from pymongo.collection import Collection

_TRANSIENT = "TransientTransactionError"


def durably(collection: Collection[Any], durable: bool) -> Collection[Any]:
    """The collection with writes that are acknowledged once most members have them, in their journal if ``durable``."""
    from pymongo import WriteConcern

    return collection.with_options(write_concern=WriteConcern(w="majority", j=True) if durable else WriteConcern(w=1))


def replace_chunk(collection: Collection[Any], meta_id: Any, key: Key, docs: Sequence[dict[str, Any]]) -> None:
    """Store a chunk in the place of one that may be there under any ids."""
    from pymongo import DeleteMany, InsertOne, ReplaceOne

    name, chunk = key
    ids: dict[int, list[Any]] = {}
    for row in collection.find(stored.query(meta_id, name, [chunk]), {"n": 1}):
        ids.setdefault(int(row["n"]), []).append(row["_id"])
    orders: list[Any] = []
    for doc in docs:
        here = ids.get(doc["n"])
        orders.append(ReplaceOne({"_id": here[0]}, doc | {"_id": here[0]}) if here else InsertOne(doc))
    surplus = [each for n, here in ids.items() for each in (here if n >= len(docs) else here[1:])]
    if surplus:
        orders.append(DeleteMany({"meta_id": meta_id, "_id": {"$in": surplus}}))
    collection.bulk_write(orders, ordered=True)


@dataclass(frozen=True, slots=True)
class ChunkSwap:
    """A chunk that is to become ``docs`` where it is made of the documents ``old``."""

    key: Key
    docs: Sequence[dict[str, Any]]
    old: Sequence[Segment]


def swap(
    collection: Collection[Any], meta_id: Any, swaps: Sequence[ChunkSwap], url: str, undo: ChunkUndo | None = None
) -> None:
    """Put all chunks in the place of the old ones; Conflict, without any change, where one is another by now.

    In a transaction, or one after the other so that each can be taken back (``undo``)."""
    steps = [[*_steps(each, meta_id)] for each in swaps]
    if undo is not None and (undo.held is not None or not _has_transactions(collection.database.client)):
        for each, own in zip(swaps, steps, strict=True):
            _swap_one(collection, each, own, undo)
        return
    if undo is not None:
        undo.free(each.key for each in swaps)
    with _transaction(collection, several=sum(map(len, steps)) > 1, url=url) as session:
        for step in (step for own in steps for step in own):
            if not step.run(collection, session):
                raise beaten(url, show(step.key))


def _swap_one(collection: Collection[Any], each: ChunkSwap, steps: Sequence[_Step], undo: ChunkUndo) -> None:
    several = len(steps) > 1 or (undo.held is not None and undo.shown(each.key) and bool(steps))
    if not several:
        version = undo.version()
        undo.free([each.key])
    with undo.during(each.key) if several else nullcontext(Mark()) as mark:
        for step in steps:
            if not step.run(collection, None):
                raise beaten(undo.url, show(step.key))
            mark.changed = True
    if steps and not several and undo.version() != version:  # who began between may take back what is older than this
        raise beaten(undo.url, show(each.key))


def replace_undoably(
    collection: Collection[Any], meta_id: Any, key: Key, docs: Sequence[dict[str, Any]], undo: ChunkUndo
) -> None:
    """The same as :func:`replace_chunk`, so that it can be taken back."""
    with undo.during(key) as mark:
        mark.changed = True
        replace_chunk(collection, meta_id, key, docs)


@dataclass(frozen=True, slots=True)
class _Step:
    """One document: ``known`` finds it as it was read (None: it must not be there), ``doc`` it becomes (None: goes)."""

    key: Key
    known: dict[str, Any] | None
    doc: dict[str, Any] | None

    def run(self, collection: Collection[Any], session: Any) -> bool:
        """Return whether it was still what was read."""
        from pymongo.errors import DuplicateKeyError

        if self.known is None and self.doc is not None:
            try:
                collection.insert_one(self.doc, session=session)
            except DuplicateKeyError:
                self._raise_if_damaged(collection, self.doc)
                return False
            return True
        if self.doc is None:
            return bool(collection.delete_one(self.known or {}, session=session).deleted_count)
        content = {name: value for name, value in self.doc.items() if name != "_id"}
        # Fields of the other kind go, so that a chunk that was sparse and is dense says nothing of listed cells.
        other = {name: 1 for name in _CONTENT if name not in content}
        change = {"$set": content, "$unset": other}
        is_changed = bool(collection.update_one(self.known or {}, change, session=session).matched_count)
        if not is_changed:
            self._raise_if_damaged(collection, self.doc)
        return is_changed

    def _raise_if_damaged(self, collection: Collection[Any], doc: dict[str, Any]) -> None:
        """Raise CorruptChunk where the ``_id`` of this chunk is that of a document that says it is of another: no
        waiting changes that, as it does where another writer was faster."""
        known = ("meta_id", "name", "chunk", "n")
        there = collection.find_one({"_id": doc["_id"]}, dict.fromkeys(known, 1))
        if there is None or all(there.get(field) == doc[field] for field in known):
            return
        message = "the document of this chunk says that it is of another"
        raise CorruptChunk(message, key=show(self.key), remedy="repair the object, or write the chunk whole")


def _steps(each: ChunkSwap, meta_id: Any) -> Iterator[_Step]:
    name, chunk = each.key
    where = {"meta_id": meta_id, "name": {"$eq": name}, "chunk": {"$eq": None if chunk is None else list(chunk)}}
    old = {segment.n: segment for segment in each.old}
    for doc in each.docs:
        before = old.pop(doc["n"], None)
        if before is None:
            yield _Step(each.key, None, doc)
        elif not _is_same(before, doc):
            yield _Step(each.key, {**where, **_as_read(before)}, doc)
    for before in old.values():
        yield _Step(each.key, {**where, **_as_read(before)}, None)


_CONTENT = ("data", "sparse_data", "sparse_coords", "nnz", "fill_value")
"""What a document says of its own cells, and of how many the whole chunk lists."""


def _content(segment: Segment) -> dict[str, Any]:
    """Return the fields of :data:`_CONTENT` that were read."""
    if not segment.sparse:
        return {"data": segment.data}
    listed = {"sparse_data": segment.data, "sparse_coords": segment.coords}
    return {**listed, "nnz": segment.nnz, "fill_value": segment.fill}


def _as_read(segment: Segment) -> dict[str, Any]:
    return {"n": segment.n, "shape": {"$eq": list(segment.shape)}, **_content(segment)}


def _is_same(segment: Segment, doc: dict[str, Any]) -> bool:
    """Return whether a document stays as it is: each one of a sparse chunk repeats how many cells are listed in all."""
    same = _content(segment) == {name: doc[name] for name in _CONTENT if name in doc}
    return same and list(segment.shape) == doc["shape"] and segment.dtype.str == doc["dtype"]


@contextmanager
def _transaction(collection: Collection[Any], *, several: bool, url: str) -> Iterator[Any]:
    """A session in which all happens or nothing; None where one document is changed, or on a server without them."""
    from pymongo.errors import PyMongoError

    client = collection.database.client
    if not several or not _has_transactions(client):
        yield None
        return
    with client.start_session() as session:
        try:
            with session.start_transaction():
                yield session
        except PyMongoError as error:
            if error.has_error_label(_TRANSIENT):
                raise Conflict("another writer changes the same chunk", url=url) from error
            raise


def _has_transactions(client: Any) -> bool:
    """Return whether the server is a member of a replica set, or a router."""
    hello = client.admin.command("hello")
    return "setName" in hello or hello.get("msg") == "isdbgrid"
