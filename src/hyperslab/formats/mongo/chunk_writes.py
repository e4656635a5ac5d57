"""Chunks changed so that whoever opens an object sees the old chunk or the new one: swap, transactions, undo.

A chunk of several documents is changed one document after the other. So its documents are first copied under an id of
their own, and the document of the object says so (``hyperslab.undo``): readers that open the object from then on take
the copies, until the change is done and the entry gone; one that was open before may see old documents beside new ones.
An entry that has expired (whoever made it died) is rolled back by the next one who changes the object. The entry of a
chunk whose length changes stays until the same change of the object's document that says the new length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from bson import ObjectId
from pymongo import DeleteMany, InsertOne, MongoClient, ReplaceOne, WriteConcern
from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError, PyMongoError

from hyperslab.errors import Conflict, CorruptChunk, HyperslabError
from hyperslab.formats.mongo.bson_values import Document, DocumentCollection, MutableDocument, subdocument
from hyperslab.formats.mongo.chunk_documents import ChunkIndex, DerivedIds, Key, Segment, format_key, parse_key
from hyperslab.formats.mongo.chunk_queries import (
    chunk_query,
    conditions,
    document_batches,
    fetch_segments,
    queries_of_chunks,
)
from hyperslab.formats.mongo.document import EXTENSION, LEASE, UNDO, VERSION, load_extension
from hyperslab.formats.mongo.server import is_replicated
from hyperslab.stores.attempts import attempts, beaten

# As long as a lease: half a minute is far more than the copies of one chunk (8 MiB are sent at a time) take, and what
# others wait at most for a writer who died.
UNDO_SECONDS = 30.0
"""How long a change may take at least; one of many bytes takes longer."""
# Bytes of copies for which an entry lasts a second longer: a slow server must not let it expire under its maker. The
# slowest writes that were measured (of documents of 16 MiB) pass 148 of these in a second.
_PER_SECOND = 1 << 20
_ORIGINAL_ID = "was"
_NEXT_VERSION = {VERSION: {"$add": [{"$ifNull": [f"${VERSION}", 0]}, 1]}}
# A reader may find that a change ended, or that another began, between two of its queries.
UNDO_COPY_TRIES = 3


@dataclass(frozen=True, slots=True)
class UndoEntry:
    """A chunk that is being changed: ``place`` in the field, ``id`` that its copies lie under, and how many there are;
    None while they are made, when the chunk itself is still what it was."""

    place: str
    id: ObjectId
    key: Key
    count: int | None = None

    @property
    def path(self) -> str:
        """Of the entry in the document of the object."""
        return f"{UNDO}.{self.place}"


def undo_entries(extension: Document) -> dict[Key, UndoEntry]:
    """Return the entries of chunks that are being changed, of the field ``hyperslab`` of an object."""
    found = {}
    for place, value in subdocument(extension, "undo").items():
        with suppress(HyperslabError, AttributeError):
            key = parse_key(value)
            found[key] = UndoEntry(place, value.get("id"), key, value.get("documents"))
    return found


def undo_copy_ids(doc: Document | None) -> list[ObjectId]:
    """Return the ids that copies lie under, by the document of an object."""
    return [entry.id for entry in undo_entries(subdocument(doc, EXTENSION)).values()]


def all_undo_copy_ids(meta: DocumentCollection) -> set[ObjectId]:
    """Return the ids that copies lie under, of all objects."""
    return {id for doc in meta.find({UNDO: {"$exists": True}}, {UNDO: 1}) for id in undo_copy_ids(doc)}


def _read_entries(meta: DocumentCollection, meta_id: ObjectId) -> dict[Key, UndoEntry]:
    return undo_entries(subdocument(meta.find_one({"_id": {"$eq": meta_id}}, {UNDO: 1}), EXTENSION))


# -- reading ----------------------------------------------------------------------------------------------------------


class UndoView:
    """The chunks that a reader takes from copies of their old documents: all that somebody changes, but for
    ``own_changes``: those of the reader's own handle."""

    def __init__(
        self,
        meta: DocumentCollection,
        meta_id: ObjectId,
        entries: Mapping[Key, UndoEntry],
        own_changes: Mapping[Key, UndoEntry] | None = None,
    ) -> None:
        self._meta = meta
        self._meta_id = meta_id
        self._entries = entries
        self._own_changes: Mapping[Key, UndoEntry] = {} if own_changes is None else own_changes

    def holds(self, key: Key) -> bool:
        """Return True if a chunk is being changed, as far as is known."""
        entry = self._entries.get(key)
        return entry is not None and entry.count is not None and self._own_changes.get(key) != entry

    def fetch(
        self,
        chunks: DocumentCollection,
        name: str,
        wanted: Sequence[ChunkIndex],
        *,
        derived: bool = False,
        counts: Mapping[ChunkIndex, int] | None = None,
    ) -> dict[ChunkIndex, list[Segment]]:
        """Fetch the documents of these chunks, of those that are being changed as they were; a chunk that had none
        then has none. CorruptDocument. ``derived``, ``counts``: as of :func:`fetch_segments`."""
        found = {}
        for chunk in wanted:
            if self.holds((name, chunk)) and (old := self._old(chunks, (name, chunk))) is not None:
                found[chunk] = old
        rest = [chunk for chunk in wanted if chunk not in found]
        return found | fetch_segments(chunks, self._meta_id, name, rest, derived=derived, counts=counts)

    def _old(self, chunks: DocumentCollection, key: Key) -> list[Segment] | None:
        """Return the copies of a chunk's old documents; None once its change is done, and it is read from its place."""
        for _ in range(UNDO_COPY_TRIES):
            if not self.holds(key):
                return None
            entry = self._entries[key]
            segments = fetch_segments(chunks, entry.id, key[0], [key[1]]).get(key[1], [])
            if segments and len(segments) == entry.count:
                return segments
            self._entries = _read_entries(self._meta, self._meta_id)
            if not entry.count and self._entries.get(key) == entry:
                return []
        return None


def without_entries(extension: Document, done: Mapping[Key, UndoEntry]) -> MutableDocument | None:
    """Return the field ``hyperslab`` once these changes are done; None where somebody has taken one of them back."""
    entries = dict(subdocument(extension, "undo"))
    for entry in done.values():
        if subdocument(entries, entry.place).get("id") != entry.id:
            return None
        del entries[entry.place]
    rest = {name: value for name, value in extension.items() if name != "undo"}
    return {**rest, "undo": entries} if entries else rest


# -- changing ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ChangeMark:
    """``changed`` once anything of a chunk is changed."""

    changed: bool = False


@dataclass(slots=True, kw_only=True)
class ChunkUndo:
    """Changes of the chunks of one object. ``owner``: the name under which the object is held.

    ``open_entries``: entries that stay until :meth:`end`, since the length of chunks changes; None where a change is
    done once the chunk is. ``is_visible``: whether others see a chunk at all.
    """

    meta: DocumentCollection
    chunks: DocumentCollection
    meta_id: ObjectId
    url: str
    patience: float | None = 60
    owner: str | None = None
    open_entries: dict[Key, UndoEntry] | None = None
    is_visible: Callable[[Key], bool] = field(default=lambda key: True)

    def keys_needing_undo(self, counts: Mapping[Key, int]) -> set[Key]:
        """Return which of these chunks, that are to have so many documents, are not changed by one command."""
        if self.open_entries is not None:
            return {key for key in counts if self.is_visible(key)}
        found: dict[Key, int] = dict(counts)
        for name in dict.fromkeys(name for name, _ in counts):
            present: dict[Key, int] = {}
            for query in queries_of_chunks(self.meta_id, name, [chunk for one, chunk in counts if one == name]):
                for row in self.chunks.find(query, {"name": 1, "chunk": 1}):
                    present[parse_key(row)] = present.get(parse_key(row), 0) + 1
            found |= {key: max(count, found.get(key, 0)) for key, count in present.items()}
        return {key for key, count in found.items() if count > 1}

    def wait_until_free(self, keys: Iterable[Key] = ()) -> int | None:
        """Wait until nobody else changes these chunks, which one command is about to change, or makes a new object of
        all; take back what the dead changed. Without keys behind a change: what was stored while a new object was being
        made may be in neither. Return the version of the object's document, which counts the changes that others
        begin, end and take back; None where there were none. Conflict, NotFound."""
        keys, own = list(keys), self.open_entries or {}
        version: int | None = None
        for attempt in attempts(self.patience):
            with attempt:
                extension = load_extension(self.meta, self.meta_id, self.url, self.owner)
                version, entries = extension.get("version"), undo_entries(extension)
                for key in keys:
                    if key in entries and entries[key] != own.get(key):
                        self._roll_back_or_raise(entries[key])
        return version

    def _roll_back_or_raise(self, entry: UndoEntry) -> None:
        if not roll_back(self.meta, self.chunks, self.meta_id, entry):
            raise beaten(self.url, format_key(entry.key))

    @contextmanager
    def undoable_change(self, key: Key) -> Iterator[ChangeMark]:
        """Change one chunk: it is as it was until the end of the block, and again where that fails. Conflict."""
        mark = ChangeMark()
        if self.open_entries is not None and key in self.open_entries:
            yield mark
            return
        entry = self._begin(key)
        if self.open_entries is not None:
            self.open_entries[key] = entry
        try:
            yield mark
        except BaseException:
            if self.open_entries is not None:
                self.open_entries.pop(key, None)
            with suppress(PyMongoError, HyperslabError):  # else it is rolled back by the next one
                # A chunk that was not changed yet may hold what another writer has stored: that stays.
                if mark.changed:
                    roll_back(self.meta, self.chunks, self.meta_id, entry, lapsed=False)
                else:
                    self._end(entry)
            raise
        if self.open_entries is None:
            self._end(entry)

    def _begin(self, key: Key) -> UndoEntry:
        entry = UndoEntry(str(DerivedIds(self.meta_id)(*key, 0)), ObjectId(), key)
        for attempt in attempts(self.patience):
            with attempt:
                self._add_entry(entry)
        count = nbytes = 0
        docs = self.chunks.find(chunk_query(self.meta_id, *key))
        for batch in document_batches(
            {**doc, "_id": ObjectId(), _ORIGINAL_ID: doc["_id"], "meta_id": entry.id} for doc in docs
        ):
            self.chunks.insert_many(batch)
            count += len(batch)
            nbytes += sum(len(value) for doc in batch for value in doc.values() if isinstance(value, bytes))
        change = {f"{entry.path}.documents": count, f"{entry.path}.until": _deadline(nbytes), **_NEXT_VERSION}
        found = self.meta.update_one({"_id": self.meta_id, f"{entry.path}.id": entry.id}, [{"$set": change}])
        if not found.matched_count:
            raise beaten(self.url, format_key(key))
        return replace(entry, count=count)

    def _add_entry(self, entry: UndoEntry) -> None:
        name, chunk = entry.key
        where = {"name": {"$literal": name}, "chunk": {"$literal": None if chunk is None else list(chunk)}}
        value = {"id": entry.id, **where, "owner": {"$literal": self.owner}, "until": _deadline(0)}
        free: MutableDocument = {"_id": self.meta_id, entry.path: {"$exists": False}}
        if self.owner is not None:
            free[f"{LEASE}.owner"] = self.owner
        if self.meta.update_one(free, [{"$set": {entry.path: value, **_NEXT_VERSION}}]).matched_count:
            return
        other = undo_entries(load_extension(self.meta, self.meta_id, self.url, self.owner)).get(entry.key)
        if other is not None:
            self._roll_back_or_raise(other)
            self._add_entry(entry)
            return
        raise beaten(self.url, format_key(entry.key))

    def _end(self, entry: UndoEntry) -> None:
        """Let readers take a chunk from its place; only then the copies of its old documents go."""
        _remove_entry(self.meta, self.meta_id, entry)
        self.chunks.delete_many({"meta_id": entry.id})

    def close(self, *, failed: bool = False, keep: Iterable[Key] = ()) -> None:
        """End the changes that are open but for those of the chunks ``keep``, or take them back."""
        entries = {} if self.open_entries is None else self.open_entries
        kept = set(keep)
        for key in [key for key in entries if key not in kept]:
            if failed:
                roll_back(self.meta, self.chunks, self.meta_id, entries[key], lapsed=False)
            else:
                self._end(entries[key])
            del entries[key]


def _deadline(nbytes: int) -> MutableDocument:
    return {"$add": ["$$NOW", int(1000 * (UNDO_SECONDS + nbytes / _PER_SECOND))]}


def _remove_entry(meta: DocumentCollection, meta_id: ObjectId, entry: UndoEntry) -> None:
    """Remove an entry, and the field with the last one."""
    rest = {"$cond": [{"$eq": [f"${UNDO}", {}]}, "$$REMOVE", f"${UNDO}"]}
    wanted = {"_id": meta_id, f"{entry.path}.id": entry.id}
    meta.update_one(wanted, [{"$unset": entry.path}, {"$set": {UNDO: rest, **_NEXT_VERSION}}])


# -- taking back ------------------------------------------------------------------------------------------------------


def _is_expired(entry: UndoEntry) -> MutableDocument:
    """Return the expression for: its time has passed, and whoever made it does not hold the object any more."""
    is_holder = [{"$eq": [f"${entry.path}.owner", f"${LEASE}.owner"]}, {"$gt": [f"${LEASE}.until", "$$NOW"]}]
    return {"$and": [{"$lt": [f"${entry.path}.until", "$$NOW"]}, {"$not": [{"$and": is_holder}]}]}


def expired_entries(meta: DocumentCollection, meta_id: ObjectId) -> list[UndoEntry]:
    """Return the entries whose time has passed."""

    def has_expired(entry: UndoEntry) -> bool:
        return meta.find_one({"_id": meta_id, "$expr": _is_expired(entry)}, {"_id": 1}) is not None

    return list(filter(has_expired, _read_entries(meta, meta_id).values()))


def roll_back(
    meta: DocumentCollection, chunks: DocumentCollection, meta_id: ObjectId, entry: UndoEntry, *, lapsed: bool = True
) -> bool:
    """Make a chunk what it was. Return False where that is not to be done: with ``lapsed``, as long as its time has not
    passed."""
    wanted = {"_id": meta_id, f"{entry.path}.id": entry.id, **({"$expr": _is_expired(entry)} if lapsed else {})}
    claimed = {f"{entry.path}.until": _deadline(0), f"{entry.path}.owner": None, **_NEXT_VERSION}
    if not meta.update_one(wanted, [{"$set": claimed}]).matched_count:
        return False
    # Copies that are not all there were still being made, or are being removed: the chunk is whole in its place.
    if entry.count is not None and chunks.count_documents({"meta_id": entry.id}) == entry.count:
        known = []
        for batch in document_batches(chunks.find({"meta_id": entry.id})):
            for doc in batch:
                doc["_id"], doc["meta_id"] = doc.pop(_ORIGINAL_ID), meta_id
            known += [doc["_id"] for doc in batch]
            chunks.bulk_write([ReplaceOne({"_id": doc["_id"], "meta_id": meta_id}, doc, upsert=True) for doc in batch])
        chunks.delete_many({**chunk_query(meta_id, *entry.key), "_id": {"$nin": known}})
    _remove_entry(meta, meta_id, entry)
    chunks.delete_many({"meta_id": entry.id})
    return True


def roll_back_all(meta: DocumentCollection, chunks: DocumentCollection, meta_id: ObjectId) -> bool:
    """Roll back all changes whose time has passed, and return whether there were any."""
    return bool(sum(roll_back(meta, chunks, meta_id, entry) for entry in expired_entries(meta, meta_id)))


# The label of the driver for a transaction that lost against another one and may be repeated.
_TRANSIENT = "TransientTransactionError"


# -- compare-and-swap -------------------------------------------------------------------------------------------------
# A chunk is replaced whole, or as long as its documents are still those that were read.


def with_write_concern(collection: DocumentCollection, durable: bool) -> DocumentCollection:
    """Return the collection with writes that are acknowledged once most members have them in their journal; without
    ``durable`` once one member has them, in memory.
    """
    return collection.with_options(write_concern=WriteConcern(w="majority", j=True) if durable else WriteConcern(w=1))


def replace_chunk(collection: DocumentCollection, meta_id: ObjectId, key: Key, docs: Sequence[MutableDocument]) -> None:
    """Store a chunk in the place of one that may be there under any ids."""
    name, chunk = key
    ids: dict[int, list[ObjectId]] = {}
    for row in collection.find(chunk_query(meta_id, name, chunk), {"n": 1}):
        n = row.get("n", 0)
        # What has no n of its own belongs behind the last document, and goes.
        ids.setdefault(int(n) if isinstance(n, int | float) and n >= 0 else len(docs), []).append(row["_id"])
    orders: list[InsertOne[MutableDocument] | ReplaceOne[MutableDocument] | DeleteMany] = []
    for doc in docs:
        here = ids.get(doc["n"])
        own = {"_id": here[0], "meta_id": meta_id} if here else {}
        orders.append(ReplaceOne(own, doc | {"_id": own["_id"]}) if own else InsertOne(doc))
    surplus = [each for n, here in ids.items() for each in (here if n >= len(docs) else here[1:])]
    orders += [DeleteMany({"meta_id": meta_id, "_id": condition}) for condition in conditions(surplus)]
    collection.bulk_write(orders, ordered=True)


@dataclass(frozen=True, slots=True)
class ChunkSwap:
    """A chunk that is to become ``docs`` where it is made of the documents ``old``."""

    key: Key
    docs: Sequence[MutableDocument]
    old: Sequence[Segment]


def swap_chunks(
    collection: DocumentCollection,
    meta_id: ObjectId,
    swaps: Sequence[ChunkSwap],
    url: str,
    undo: ChunkUndo | None = None,
) -> None:
    """Put all chunks in the place of the old ones; Conflict, without any change, where one is another by now.

    In a transaction, or one after the other so that each can be taken back (``undo``). A chunk of which documents are
    there more than once is replaced whole: of two copies only one would be changed."""
    for each in [each for each in swaps if len({segment.n for segment in each.old}) < len(each.old)]:
        swaps = [other for other in swaps if other is not each]
        with nullcontext(ChangeMark()) if undo is None else undo.undoable_change(each.key) as mark:
            name, chunk = each.key
            if fetch_segments(collection, meta_id, name, [chunk]).get(chunk, []) != list(each.old):
                raise beaten(url, format_key(each.key))
            mark.changed = True
            replace_chunk(collection, meta_id, each.key, each.docs)
        if undo is not None:
            undo.wait_until_free()
    steps = [[*_steps(each, meta_id)] for each in swaps]
    if undo is not None and (undo.open_entries is not None or not _has_transactions(collection.database.client)):
        for each, own in zip(swaps, steps, strict=True):
            _swap_one(collection, each, own, undo)
        return
    if undo is not None:
        undo.wait_until_free(each.key for each in swaps)
    with _transaction(collection, several=sum(map(len, steps)) > 1, url=url) as session:
        for step in (step for own in steps for step in own):
            if not step.run(collection, session):
                raise beaten(url, format_key(step.key))
    if undo is not None:
        undo.wait_until_free()


def _swap_one(collection: DocumentCollection, each: ChunkSwap, steps: Sequence[_Step], undo: ChunkUndo) -> None:
    several = len(steps) > 1 or (undo.open_entries is not None and undo.is_visible(each.key) and bool(steps))
    version = undo.wait_until_free(() if several else [each.key])
    with undo.undoable_change(each.key) if several else nullcontext(ChangeMark()) as mark:
        for step in steps:
            if not step.run(collection, None):
                raise beaten(undo.url, format_key(step.key))
            mark.changed = True
    # Who began between may take back what is older than this.
    if steps and undo.wait_until_free() != version and not several:
        raise beaten(undo.url, format_key(each.key))


@dataclass(frozen=True, slots=True)
class _Step:
    """One document: ``expected`` finds it as it was read (None: it must not be there), ``doc`` it becomes (None: it
    goes)."""

    key: Key
    expected: MutableDocument | None
    doc: MutableDocument | None

    def run(self, collection: DocumentCollection, session: ClientSession | None) -> bool:
        """Return True if it was still what was read."""
        if self.expected is None and self.doc is not None:
            try:
                collection.insert_one(self.doc, session=session)
            except DuplicateKeyError:
                self._raise_if_damaged(collection, self.doc)
                return False
            return True
        if self.doc is None:
            return bool(collection.delete_one(self.expected or {}, session=session).deleted_count)
        content = {name: value for name, value in self.doc.items() if name != "_id"}
        # Fields of the other kind go, so that a chunk that was sparse and is dense says nothing of listed cells.
        other = {name: 1 for name in _CONTENT if name not in content}
        change = {"$set": content, "$unset": other}
        is_changed = bool(collection.update_one(self.expected or {}, change, session=session).matched_count)
        if not is_changed:
            self._raise_if_damaged(collection, self.doc)
        return is_changed

    def _raise_if_damaged(self, collection: DocumentCollection, doc: MutableDocument) -> None:
        """Raise CorruptChunk where the ``_id`` of this chunk is that of a document that says it is of another: no
        waiting changes that, as it does where another writer was faster."""
        known = ("meta_id", "name", "chunk", "n")
        there = collection.find_one({"_id": doc["_id"]}, dict.fromkeys(known, 1))
        if there is None or all(there.get(field) == doc[field] for field in known):
            return
        message = "the document of this chunk says that it is of another"
        raise CorruptChunk(message, key=format_key(self.key), remedy="repair the object, or write the chunk whole")


def _steps(each: ChunkSwap, meta_id: ObjectId) -> Iterator[_Step]:
    name, chunk = each.key
    where = chunk_query(meta_id, name, chunk)
    old = {segment.n: segment for segment in each.old}
    for doc in each.docs:
        before = old.pop(doc["n"], None)
        if before is None:
            yield _Step(each.key, None, doc)
            continue
        # Each document of a sparse chunk repeats how many cells are listed in all, and so changes with the others.
        is_same = _content(before) == {name: doc[name] for name in _CONTENT if name in doc}
        if not is_same or list(before.shape) != doc["shape"] or before.dtype.str != doc["dtype"]:
            yield _Step(each.key, {**where, **_read_content(before)}, doc)
    for before in old.values():
        yield _Step(each.key, {**where, **_read_content(before)}, None)


_CONTENT = ("data", "sparse_data", "sparse_coords", "nnz", "fill_value")
"""The fields of a document about its own cells, and about how many the whole chunk lists."""


def _content(segment: Segment) -> MutableDocument:
    """Return the fields of :data:`_CONTENT` that were read."""
    if not segment.sparse:
        return {"data": segment.data}
    listed = {"sparse_data": segment.data, "sparse_coords": segment.coords}
    return {**listed, "nnz": segment.nnz, "fill_value": segment.fill}


def _read_content(segment: Segment) -> MutableDocument:
    return {"n": segment.n, "shape": {"$eq": list(segment.shape)}, **_content(segment)}


@contextmanager
def _transaction(collection: DocumentCollection, *, several: bool, url: str) -> Iterator[ClientSession | None]:
    """Return a session in which all happens or nothing; None where one document is changed, or on a server without
    them.
    """
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


def _has_transactions(client: MongoClient[MutableDocument]) -> bool:
    """Return True if the server is a member of a replica set, or a router."""
    return is_replicated(client.admin.command("hello"))
