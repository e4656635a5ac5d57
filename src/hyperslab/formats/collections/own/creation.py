"""The creation of arrays of a collection: all of those that are made together, or none.

A creation stores documents, then generations, then key entries, which are the commit of one array. A writer that dies
before that leaves documents that nothing leads to. As nobody looks for these before, they need not be on the medium one
by one: all of it is flushed together before the first key entry shows. Without primary attributes there are no key
entries: each document is the commit of its array.

Several arrays that are made together are a batch. The key entry of an array that was made alone holds its id; one of a
batch holds the id, a space and the name of the batch, and leads nowhere until ``batches/<name>`` says ``committed``:
that value, put where there is none, makes all of the arrays exist at one stroke. Where the maker died before it,
whoever needs one of the keys says ``aborted`` there, which keeps the maker from committing should it live after all;
then the entry may go.

While it is under way the creation of a batch holds a folder ``creating/<name>`` with an empty value in it: what it has
made no key leads to yet, and repairs leave it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress

from hyperslab.chunks.plan import batched
from hyperslab.errors import AlreadyExists, CollectionNotFound, Conflict, HyperslabError
from hyperslab.formats.collections.own.batches import creation_marker, entry_value
from hyperslab.formats.collections.own.documents import BATCH, part_of
from hyperslab.formats.collections.own.store import StoredCollection, readable_values
from hyperslab.model.schemas.arrays import Record, new_id
from hyperslab.stores.base import Stamp

# Arrays for which one flush of all takes less time than one of each.
_MANY = 64


# Key entries that are made at once: of so many, 5 MB are in memory.
_ENTRIES = 1 << 14


class CollectionCreation:
    """One creation of arrays. ``made``: those whose documents it has stored; ``entered``: those that may have key
    entries."""

    def __init__(self, collection: StoredCollection, records: Sequence[Record]) -> None:
        self._collection = collection
        self._store = collection.store
        self._keys = collection.keys
        self._records = records
        self._has_key = collection.has_key
        self._entries = {self._commit_key(record): record for record in records}
        self._batch = new_id() if self._has_key and len(records) > 1 else None
        self._made: list[Record] = []
        self._stamps: dict[str, Stamp] = {}
        self._entered: list[tuple[str, Record]] = []
        self._durable = collection.settings.durable
        self._waits = self._has_key and self._store.traits.puts_last
        self._at_once = self._durable and len(records) >= _MANY and self._store.traits.flushes
        self._each = self._durable and not self._at_once and not self._waits

    def _commit_key(self, record: Record) -> str:
        """Return the key whose presence makes the array exist."""
        return self._collection.key_entry(record) if self._has_key else self._keys.array_document(record.id)

    def run(self) -> None:
        """Make all arrays, or none. AlreadyExists names the id or the key that is taken; CollectionNotFound."""
        self._check_distinct()
        for keys in batched(self._entries, BATCH):
            for key, value in zip(keys, readable_values(self._store, keys), strict=True):
                if value is not None and not (self._has_key and self._collection.batches.release(key, value)):
                    raise self._taken(key)
        with ExitStack() as stack:
            if self._batch is not None:
                timeout = self._collection.settings.lock_timeout
                stack.enter_context(creation_marker(self._store, self._keys, timeout, self._batch))
            try:
                # Key entries come last, since they are the commit: documents that nothing leads to are no arrays.
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
            raise AlreadyExists("two of the arrays have one id", url=self._store.url, node=self._keys.name)
        if len(self._entries) < len(self._records):
            message = "two of the arrays have the same primary attributes"
            raise AlreadyExists(message, url=self._store.url, node=self._keys.name)

    def _taken(self, key: str) -> AlreadyExists | Conflict:
        if self._batch is not None and key == self._keys.batch(self._batch):
            remedy = "try again"
            return Conflict("another writer took this creation for dead", url=self._store.url, key=key, remedy=remedy)
        record = self._entries.get(key)
        if record is not None and self._has_key:
            message = f"there is an array with the primary attributes {dict(record.primary)}"
            remedy = "collection.filter(the same attributes).first() gives it"
            return AlreadyExists(message, url=self._store.url, node=self._keys.name, remedy=remedy)
        id = key.split("/")[-2]
        remedy = "leave the id out; what a dead writer left is taken away by hyperslab repair"
        return AlreadyExists(f"there is an array with the id {id}", url=self._store.url, node=id, remedy=remedy)

    def _put_documents(self) -> None:
        text = self._collection.documents.new_document
        self._collection.prepare_changes()
        for batch in batched(self._records, BATCH):
            # Where documents are the commit, whoever reads must look for them until the generation tells of them.
            for record in () if self._has_key else batch:
                self._store.put(self._keys.unsettled(record.id), b"", durable=self._each)
            pairs = [(self._keys.array_document(record.id), text(record)) for record in batch]
            # Before the documents, which may be the commit: if its maker dies between, no array was there before.
            versions = self._collection.versions
            absent = [versions.keep_absent(record.id, durable=self._durable) for record in batch] if versions else []
            try:
                stamps = self._store.put_new(pairs, durable=self._each)
            except BaseException:
                for key in absent:  # an array that is there by now, under an id that was given, has been there before
                    self._store.delete(key)
                raise
            self._made += batch
            if stamps is not None:
                self._stamps.update((record.id, stamp) for record, stamp in zip(batch, stamps, strict=True))

    def _touch(self) -> None:
        parts = sorted({part_of(record.id) for record in self._records})
        self._collection.tell_changes(parts, durable=self._each, made=self._records, stamps=self._stamps)
        if self._at_once and not self._waits:
            self._store.flush()
        if not self._has_key:
            for record in self._records:
                self._store.delete(self._keys.unsettled(record.id))

    def _commit(self) -> None:
        if self._has_key:
            for batch in batched(self._entries.items(), _ENTRIES):
                pairs = [(key, entry_value(record.id, self._batch)) for key, record in batch]
                # Before they are put: a request whose answer never came may have put one, which leads to nothing once
                # the documents are gone, and would keep its key from everybody else.
                self._entered += batch
                if self._waits:
                    self._store.put_last(pairs, self._led_to(batch), durable=self._durable)
                else:
                    self._store.put_new(pairs, durable=self._durable)
        if not self._collection.exists():
            message = "the collection was removed, or its schema was changed"
            raise CollectionNotFound(message, url=self._store.url, node=self._keys.name, remedy="open it anew")
        if self._batch is not None:
            self._collection.batches.commit(self._batch, durable=self._durable)
        database = self._collection.index_database
        if database is not None and self._has_key:
            database.confirm([record.id for record in self._records])

    def _led_to(self, batch: Sequence[tuple[str, Record]]) -> Iterator[str]:
        """Yield the keys that must be on the medium before the key entries are; one at a time, as not all stores
        ask."""
        for _, record in batch:
            yield self._keys.array_document(record.id)
        for part in sorted({part_of(record.id) for _, record in batch}):
            yield self._keys.generation(part)

    def _undo(self) -> None:
        """Remove what was made, entries first, so that no reader finds one that leads to nothing."""
        with suppress(HyperslabError):
            for key, record in self._entered:
                self._collection.drop_entry(key, record.id)
            for record in self._made:
                self._store.delete_prefix(self._keys.array(record.id))
                self._store.delete(self._keys.unsettled(record.id))
            for part in sorted({part_of(record.id) for record in self._made}):
                self._store.touch(self._keys.generation(part), durable=False)
