"""Creations of many arrays that are under way: what one has made no key leads to yet, and repairs leave it alone.

Each holds a folder ``creating/<name>`` of its own, with an empty value in it, which is removed at its end.


Arrays that were made together: key entries that count once their batch does, which one value says for all.

The key entry of an array that was made alone holds its id. One of a batch holds the id, a space and the name of the
batch, and leads nowhere until ``batches/<name>`` says ``committed``: that value, put where there is none, makes all of
the arrays exist at one stroke. Where the maker died before it, whoever needs one of the keys says ``aborted`` there,
which keeps the maker from committing should it live after all; then the entry may go.


What is stored of one collection: records, key entries, listings; what creations, changes and checks begin with.

New arrays of a collection: documents, then generations, then key entries, which are the commit of one array; several
are committed by one value more (:mod:`.batches`), all of them or none.

A writer that dies before that leaves documents that nothing leads to. As nobody looks for these before, they need not
be on the medium one by one: all of it is flushed together before the first key entry shows. Without primary attributes
there are no key entries: each document is the commit of its array.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any, cast

from hyperslab.chunks.pool import batched
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import (
    AlreadyExists,
    CollectionNotFound,
    Conflict,
    FormatError,
    HyperslabError,
    NodeNotFound,
    ReadOnly,
)
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.formats.collections.own.documents import (
    ARRAY,
    CREATING,
    GENERATIONS,
    JOURNAL,
    PART,
    STAGED,
    UNSETTLED,
    ArrayDocuments,
    CollectionKeys,
    part_of,
)
from hyperslab.formats.collections.own.store_fallbacks import (
    BATCH,
    entries,
    get_many,
    lock_node,
    nbytes_below,
    put_new,
    stamp_of,
    touch,
)
from hyperslab.formats.collections.own.tiles import open_shard, open_tiles
from hyperslab.model.schemas.arrays import Record, is_id, new_id
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Flushes, PutLast, Stamp, Store, Unversioned, WritableStore

_MARK = "mark"


@contextmanager
def creation_marker(store: Any, places: CollectionKeys, timeout: float, name: str) -> Iterator[None]:
    """For the block others know that a creation is under way, or, when they find nobody holding it, that it died.
    ``name``: one that no other creation has."""
    folder = f"{places.folder(CREATING)}/{name}"
    with ExitStack() as held:
        held.enter_context(lock_node(store, folder, timeout))
        try:
            store.put(f"{folder}/{_MARK}", b"")
            yield
        finally:
            with suppress(HyperslabError):  # all that counts is done by now, or undone
                held.close()
            with suppress(HyperslabError):
                store.delete(f"{folder}/{_MARK}")


def creation_names(store: Any, places: CollectionKeys) -> list[str]:
    """The names of those that are under way, or whose makers died."""
    names: list[str] = store.list_dir(places.folder(CREATING))[1]
    return names


def is_under_way(store: Any, places: CollectionKeys) -> bool:
    """Return whether any is, as far as the store can tell."""
    return not all(is_dead(store, places, name) for name in creation_names(store, places))


def is_dead(store: Any, places: CollectionKeys, name: str) -> bool:
    """Return whether the maker of this name is at work no more.

    A store that was opened for reading takes no locks and cannot tell; the maker counts as dead there, and problems say
    that it may be at work.
    """
    if store.read_only or name not in creation_names(store, places):
        return True
    try:
        with lock_node(store, f"{places.folder(CREATING)}/{name}", 0):
            return True
    except Conflict:
        return False


def remove_creation_marker(store: Any, places: CollectionKeys, name: str) -> None:
    """Remove what a creation left whose maker died; held meanwhile, as one may just be about to hold it."""
    folder = f"{places.folder(CREATING)}/{name}"
    with suppress(Conflict), lock_node(store, folder, 0):
        store.delete_prefix(folder)


_COMMITTED, _ABORTED = b"committed", b"aborted"


def entry_value(id: str, txn: str | None) -> bytes:
    """Return the value of the key entry of an array, made alone or in the batch ``txn``."""
    return id.encode() if txn is None else f"{id} {txn}".encode()


def read_entry(value: bytes) -> tuple[str, str | None]:
    """Return the id that the value of a key entry names, and the batch that it was made in."""
    id, _, txn = value.decode("ascii", "replace").partition(" ")
    return id, txn or None


class BatchCommits:
    """The batches of one collection. A batch that was committed stays so, and is asked for once."""

    def __init__(self, store: WritableStore, places: CollectionKeys) -> None:
        self._store = store
        self._places = places
        self._committed: set[str] = set()

    def ids(self, values: Sequence[bytes | None]) -> list[str | None]:
        """Return the ids that the values of key entries lead to, as of one moment for each batch; None where to
        none."""
        looked: dict[str, bool] = {}
        found: list[str | None] = []
        for value in values:
            id, txn = (None, None) if value is None else read_entry(value)
            if txn is not None and txn not in looked:
                looked[txn] = self._is_committed(txn)
            found.append(id if txn is None or looked[txn] else None)
        return found

    def _is_committed(self, txn: str) -> bool:
        if txn not in self._committed and self._store.get(self._places.batch(txn)) == _COMMITTED:
            self._committed.add(txn)
        return txn in self._committed

    def commit(self, txn: str, *, durable: bool) -> None:
        """Let all entries of a batch count; ``Conflict`` when another writer has taken its maker for dead."""
        put_new(self._store, [(self._places.batch(txn), _COMMITTED)], durable=durable)

    def release(self, entry: str, value: bytes) -> bool:
        """Remove a key entry whose batch was not committed and whose maker died; False for any other."""
        txn = read_entry(value)[1]
        if txn is None or self._is_committed(txn) or not is_dead(self._store, self._places, txn):
            return False
        try:
            put_new(self._store, [(self._places.batch(txn), _ABORTED)], durable=True)
        except Conflict:
            if self._is_committed(txn):
                return False
        if self._store.get(entry) == value:
            self._store.delete(entry, durable=True)
        return True


LOGGER = logging.getLogger("hyperslab.database")


class StoredCollection:
    """The arrays of one collection. ``data``: the collection's document as it is stored."""

    def __init__(self, store: Store, document: CollectionDocument, data: bytes, settings: Settings) -> None:
        self.store = cast(WritableStore, store)
        self.settings = settings
        self.places = CollectionKeys(document.name)
        self.documents = ArrayDocuments(document)
        self.document = document
        self._data = data
        self._stamp = stamp_of(store, self.places.document)
        self.batches = BatchCommits(self.store, self.places)
        self.keyed = bool(document.schema.primary_attributes)

    def exists(self) -> bool:
        """Return whether the collection is still there, and no other one in its place."""
        stamp = stamp_of(self.store, self.places.document)
        if stamp is None or (stamp == self._stamp and not isinstance(stamp, Unversioned)):
            return stamp is not None
        if self.store.get(self.places.document) != self._data:
            return False
        self._stamp = stamp
        return True

    def node(self, id: str) -> str:
        """The path of an array, for messages."""
        return f"{self.places.name}/{id}"

    # -- records ----------------------------------------------------------------------------------------------------

    def record(self, id: str) -> Record:
        """One array's record as it is stored now; NodeNotFound, FormatError."""
        record = self.parsed(self.stored(id), id)
        if not self.is_committed(record):
            raise self.missing(id)
        return record

    def stored(self, id: str) -> bytes:
        """The document of an array; NodeNotFound."""
        data = self.store.get(self.places.array_document(id)) if is_id(id) else None
        if data is None:
            raise self.missing(id)
        return data

    def parsed(self, data: bytes, id: str) -> Record:
        """The record of a stored document; FormatError."""
        with self.located(id):
            return self.documents.record(data, id)

    def missing(self, id: str) -> NodeNotFound:
        """The error for an array that is not there."""
        message = f"the collection {self.places.name!r} has no array {id!r}"
        return NodeNotFound(message, url=self.store.url, node=self.node(id))

    @contextmanager
    def located(self, id: str) -> Iterator[None]:
        """Errors of the block say where they are."""
        try:
            yield
        except HyperslabError as error:
            key = self.places.array_document(id)
            raise error.locate(url=self.store.url, node=self.node(id), key=key) from error.__cause__

    def is_committed(self, record: Record) -> bool:
        """Return whether the array's creation was completed and it was not removed: its key entry names it."""
        return not self.keyed or self.batches.ids([self.store.get(self.entry(record))]) == [record.id]

    def entry(self, record: Record) -> str:
        """The key entry of an array."""
        return self.places.entry(self.document.schema, record)

    def records(self, ids: Iterable[str]) -> Iterator[Record]:
        """The records of these arrays; those that are gone or damaged are left out, and damage is logged."""
        for batch in batched((id for id in ids if is_id(id)), BATCH):
            found = get_many(self.store, [self.places.array_document(id) for id in batch])
            for id, data in zip(batch, found, strict=True):
                try:
                    record = None if data is None else self.documents.record(data, id)
                except FormatError as error:
                    where = {"url": self.store.url, "node": self.node(id)}
                    LOGGER.error("an array is passed over: %s", error.locate(**where))
                    continue
                if record is not None:
                    yield record

    def committed(self, records: Iterable[Record]) -> Iterator[Record]:
        """Those of the records whose key entries name them."""
        if not self.keyed:
            yield from records
            return
        for batch in batched(records, BATCH):
            found = get_many(self.store, [self.entry(record) for record in batch])
            for record, id in zip(batch, self.batches.ids(found), strict=True):
                if id == record.id:
                    yield record

    def id_of(self, key: tuple[object, ...]) -> str | None:
        """The array with these values of its primary attributes, in the schema's order; None when there is none."""
        names = (attribute.name for attribute in self.document.schema.primary_attributes)
        data = self.store.get(self.places.entry(self.document.schema, dict(zip(names, key, strict=True))))
        (id,) = self.batches.ids([data])
        return id if id is not None and is_id(id) else None

    # -- changes ----------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, id: str) -> Iterator[None]:
        """Hold the document of an array; NodeNotFound, Conflict."""
        self.stored(id)
        folder = self.places.array(id)
        with lock_node(self.store, folder, self.settings.lock_timeout):
            if self.store.get(self.places.array_document(id)) is None:
                self.store.delete_prefix(folder)  # which the lock may have made
                raise self.missing(id)
            yield

    def drop_entry(self, key: str, id: str) -> None:
        """Remove a key entry if it is that of the array."""
        value = self.store.get(key)
        if value is not None and read_entry(value)[0] == id:
            self.store.delete(key, durable=self.settings.durable)

    def drop_array(self, id: str) -> None:
        """Remove what belongs to an array that no key leads to, but what says that it is unsettled."""
        durable = self.settings.durable
        self.store.delete_prefix(
            self.places.array(id), durable=durable
        )  # writers who find it gone remove what they wrote
        for folder in (JOURNAL, STAGED):
            self.store.delete_prefix(f"{self.places.folder(folder)}/{id}", durable=durable)

    def require_writable(self) -> None:
        """ReadOnly when the store takes no writes."""
        if self.store.read_only:
            remedy = "open it for writing"
            raise ReadOnly("the collection was opened for reading", url=self.store.url, remedy=remedy)

    # -- listings ----------------------------------------------------------------------------------------------------

    def generations(self) -> Mapping[str, Stamp]:
        """The parts that the arrays are listed by, each with what changes when one of its arrays does."""
        found = entries(self.store, self.places.folder(GENERATIONS))
        return {name: stamp for name, stamp, _ in found if len(name) == PART}

    def listing(self, part: str) -> Mapping[str, Stamp]:
        """The ids of a part with the stamps of their documents, those included that are not committed yet."""
        found = entries(self.store, self.places.part(part), ARRAY)
        return {name: stamp for name, stamp, _ in found if is_id(name) and part_of(name) == part}

    def ids(self, part: str) -> Iterable[str]:
        """The ids of a part's arrays that exist, sorted: with keys those of sound records that their keys lead to."""
        listed = sorted(self.listing(part))
        return (record.id for record in self.committed(self.records(listed))) if self.keyed else listed

    def unsettled(self) -> Collection[str]:
        """Ids whose documents may have changed without a change of their part's generation."""
        return {name for name in self.store.list_dir(self.places.folder(UNSETTLED))[0] if is_id(name)}

    def spec(self, id: str) -> ArraySpec:
        """What the array is. NodeNotFound, FormatError."""
        data = self.stored(id)
        with self.located(id):
            return self.documents.spec(data, id)

    def chunks(self, id: str, spec: ArraySpec) -> ChunkSource:
        """The cells of an array under a spec."""
        folder = self.places.array(id)
        if self.documents.is_one_shard(spec):
            return open_shard(self.store, folder, spec, self.settings)
        journal, staged = (f"{self.places.folder(name)}/{id}" for name in (JOURNAL, STAGED))
        return open_tiles(self.store, folder, spec, self.settings, journal_key=journal, staged_folder=staged)

    def stamp(self, id: str) -> Stamp | None:
        """What identifies the present version of an array's document."""
        return stamp_of(self.store, self.places.array_document(id)) if is_id(id) else None

    def nbytes_stored(self) -> int:
        """Bytes that all that belongs to the collection takes."""
        return nbytes_below(self.store, self.places.base)


_MANY = 64
"""Arrays for which one flush of all takes less time than one of each."""
_ENTRIES = 1 << 14
"""Key entries that are made at once."""


class CollectionCreation:
    """One creation of arrays. ``made``: those whose documents it has stored; ``committed``: those with entries."""

    def __init__(self, holding: StoredCollection, records: Sequence[Record]) -> None:
        self._holding = holding
        self._store = holding.store
        self._places = holding.places
        self._records = records
        self._keyed = holding.keyed
        self._entries = {self._commit_key(record): record for record in records}
        self._batch = new_id() if self._keyed and len(records) > 1 else None
        self._made: list[Record] = []
        self._committed: list[tuple[str, Record]] = []
        settings = holding.settings
        self._timeout = settings.lock_timeout
        self._lasting = settings.durable
        self._waits = self._keyed and isinstance(self._store, PutLast)
        self._at_once = (
            settings.durable and len(records) >= _MANY and isinstance(self._store, Flushes) and self._store.flushes
        )
        self._each = settings.durable and not self._at_once and not self._waits

    def _commit_key(self, record: Record) -> str:
        """What makes the array exist when it is there."""
        if not self._keyed:
            return self._places.array_document(record.id)
        return self._places.entry(self._holding.document.schema, record)

    def run(self) -> None:
        """AlreadyExists names the id or the key that is taken; CollectionNotFound."""
        self._check_distinct()
        for keys in batched(self._entries, BATCH):
            for key, value in zip(keys, get_many(self._store, keys), strict=True):
                if value is not None and not (self._keyed and self._holding.batches.release(key, value)):
                    raise self._taken(key)
        with self._batch_under_way():
            self._make()

    def _batch_under_way(self) -> AbstractContextManager[None]:
        """Hold what says that the maker of several arrays lives."""
        if self._batch is None:
            return nullcontext()
        return creation_marker(self._store, self._places, self._timeout, self._batch)

    def _make(self) -> None:
        try:
            self._put_documents()
            self._touch()
            self._commit()
        except BaseException as error:
            self._undo()
            if isinstance(error, Conflict) and error.key is not None:
                raise self._taken(error.key) from None
            raise

    def _check_distinct(self) -> None:
        if len({record.id for record in self._records}) < len(self._records):
            raise AlreadyExists("two of the arrays have one id", url=self._store.url, node=self._places.name)
        if len(self._entries) < len(self._records):
            message = "two of the arrays have the same primary attributes"
            raise AlreadyExists(message, url=self._store.url, node=self._places.name)

    def _taken(self, key: str) -> AlreadyExists | Conflict:
        if self._batch is not None and key == self._places.batch(self._batch):
            remedy = "try again"
            return Conflict("another writer took this creation for dead", url=self._store.url, key=key, remedy=remedy)
        record = self._entries.get(key)
        if record is not None and self._keyed:
            message = f"there is an array with the primary attributes {dict(record.primary)}"
            return AlreadyExists(message, url=self._store.url, node=self._places.name)
        id = key.split("/")[-2]
        remedy = "leave the id out; what a dead writer left is taken away by hyperslab repair"
        return AlreadyExists(f"there is an array with the id {id}", url=self._store.url, node=id, remedy=remedy)

    def _put_documents(self) -> None:
        text = self._holding.documents.text
        for batch in batched(self._records, BATCH):
            if not self._keyed:
                self._unsettle(batch)
            pairs = [(self._places.array_document(record.id), text(record)) for record in batch]
            put_new(self._store, pairs, durable=self._each)
            self._made += batch

    def _unsettle(self, batch: Sequence[Record]) -> None:
        """Where documents are the commit, whoever reads must look for them until the generation tells of them."""
        for record in batch:
            self._store.put(self._places.unsettled(record.id), b"", durable=self._each)

    def _touch(self) -> None:
        for part in sorted({part_of(record.id) for record in self._records}):
            touch(self._store, self._places.generation(part), durable=self._each)
        if self._at_once and not self._waits and isinstance(self._store, Flushes):
            self._store.flush()
        if not self._keyed:
            for record in self._records:
                self._store.delete(self._places.unsettled(record.id))

    def _commit(self) -> None:
        if self._keyed:
            for batch in batched(self._entries.items(), _ENTRIES):
                pairs = [(key, entry_value(record.id, self._batch)) for key, record in batch]
                if isinstance(self._store, PutLast):
                    self._store.put_last(pairs, self._led_to(batch), durable=self._lasting)
                else:
                    put_new(self._store, pairs, durable=self._lasting)
                self._committed += batch
        if not self._holding.exists():
            raise CollectionNotFound("the collection was removed", url=self._store.url, node=self._places.name)
        if self._batch is not None:
            self._holding.batches.commit(self._batch, durable=self._lasting)

    def _led_to(self, batch: Sequence[tuple[str, Record]]) -> Iterator[str]:
        """What must be on the medium before the key entries are; one at a time, as not all stores ask."""
        for _, record in batch:
            yield self._places.array_document(record.id)
        for part in sorted({part_of(record.id) for _, record in batch}):
            yield self._places.generation(part)

    def _undo(self) -> None:
        """Entries first, so that no reader finds one that leads to nothing."""
        with suppress(HyperslabError):
            for key, record in self._committed:
                self._holding.drop_entry(key, record.id)
            for record in self._made:
                self._store.delete_prefix(self._places.array(record.id))
                self._store.delete(self._places.unsettled(record.id))
            for part in sorted({part_of(record.id) for record in self._made}):
                touch(self._store, self._places.generation(part), durable=False)
