"""New arrays of a collection: documents, then generations, then key entries, which are the commit of one array; several
are committed by one value more (:mod:`.batches`), all of them or none.

A writer that dies before that leaves documents that nothing leads to. As nobody looks for these before, they need not
be on the medium one by one: all of it is flushed together before the first key entry shows. Without primary attributes
there are no key entries: each document is the commit of its array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from hyperslab.chunks.pool import batched
from hyperslab.errors import AlreadyExists, CollectionNotFound, Conflict, HyperslabError
from hyperslab.formats.collections.batches import entry_value
from hyperslab.formats.collections.creation_marker import making
from hyperslab.formats.collections.places import part_of
from hyperslab.formats.collections.store_fallbacks import BATCH, get_many, put_new, touch
from hyperslab.formats.collections.stored import StoredCollection
from hyperslab.model.schemas.records import Record, new_id
from hyperslab.stores.base import Flushes, PutLast

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
        return making(self._store, self._places, self._timeout, self._batch)

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
