"""One collection in the layout of our own, on any store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hyperslab.errors import FormatError, NodeNotFound
from hyperslab.formats.base import Remedy
from hyperslab.formats.collection_document import record_of
from hyperslab.formats.collections.creating import CollectionCreation
from hyperslab.formats.collections.health import Health
from hyperslab.formats.collections.places import COLLECTIONS, KEYS, LARGEST_INDEX, part_of
from hyperslab.formats.collections.store_fallbacks import keep_folder, lock_node, touch
from hyperslab.formats.collections.stored import StoredCollection
from hyperslab.model.schemas.records import Record
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Size


class CollectionHolding(StoredCollection):
    """The arrays of one collection, with all that can be done to them."""

    # -- changes ----------------------------------------------------------------------------------------------------

    def create(self, records: Sequence[Record]) -> None:
        """New arrays, all of them or none; AlreadyExists names the id or the key that is taken."""
        self.require_writable()
        if records:
            CollectionCreation(self, records).run()

    def update(self, id: str, change: Callable[[Record], Record]) -> Record:
        """Replace a record by what ``change`` makes of the stored one, under its lock; Conflict, NodeNotFound."""
        made: list[Record] = []

        def renewed(data: bytes) -> bytes | None:
            record = self.parsed(data, id)
            made.append(change(record))
            return None if made[0] == record else self.documents.renewed(self.documents.spec(data, id), made[0])

        self._rewrite(id, renewed)
        return made[0]

    def put_spec(self, id: str, spec: ArraySpec) -> None:
        """Store another shape or other attributes of an array: what ``spec`` changes of the one that was read."""

        def renewed(data: bytes) -> bytes:
            merged = self.documents.merged(self.documents.spec(data, id), spec)
            return self.documents.renewed(merged, record_of(self.document, merged.attrs))

        self._rewrite(id, renewed)

    def _rewrite(self, id: str, renewed: Callable[[bytes], bytes | None]) -> None:
        """Put another document in place of an array's; until its generation tells so, it is among the unsettled."""
        self.require_writable()
        durable = self.settings.durable
        with self.lock(id):
            data = self.stored(id)
            if not self.is_committed(self.parsed(data, id)):
                raise self.missing(id)
            with self.located(id):
                new = renewed(data)
            if new is None:
                return
            self.store.put(self.places.unsettled(id), b"", durable=durable)
            self.store.put(self.places.array_document(id), new, durable=durable)
            touch(self.store, self.places.generation(part_of(id)), durable=durable)
            self.store.delete(self.places.unsettled(id))

    def remove(self, id: str) -> None:
        """Remove an array, its key entry first; one that is gone, or not committed yet, is fine."""
        self.require_writable()
        if self._remove_if_there(id):
            self._tell_of(part_of(id), [id])

    def _tell_of(self, part: str, removed: Iterable[str]) -> None:
        """Have whoever knows a part look at it anew; until then what was removed is among the unsettled."""
        touch(self.store, self.places.generation(part), durable=self.settings.durable)
        for id in removed:
            self.store.delete(self.places.unsettled(id))

    def _remove_if_there(self, id: str) -> bool:
        try:
            with self.lock(id):
                self._remove(id)
        except NodeNotFound:
            return False
        return True

    def _remove(self, id: str) -> None:
        """What :meth:`remove` does under the lock. A damaged document does not tell its key."""
        data = self.stored(id)
        try:
            record = self.documents.record(data, id)
            if not self.is_committed(record):
                raise self.missing(id)
            self._unsettle(id)
            if self.keyed:
                self.store.delete(self.entry(record), durable=self.settings.durable)
        except FormatError:
            self._unsettle(id)
            for name in self.store.list_dir(self.places.folder(KEYS))[0]:
                self.drop_entry(f"{self.places.folder(KEYS)}/{name}", id)
        self.drop_array(id)

    def _unsettle(self, id: str) -> None:
        self.store.put(self.places.unsettled(id), b"", durable=self.settings.durable)

    def clear(self) -> None:
        """Remove all arrays of the collection; those that others make meanwhile stay."""
        self.require_writable()
        for part in self.generations():
            removed = [id for id in self.listing(part) if self._remove_if_there(id)]
            if removed:
                self._tell_of(part, removed)

    def drop(self) -> None:
        """Remove the collection with all that belongs to it; one that is gone is fine."""
        self.require_writable()
        if not self.exists():
            return
        timeout = self.settings.lock_timeout
        with keep_folder(self.store, COLLECTIONS, timeout), lock_node(self.store, self.places.base, timeout):
            if self.exists():
                self.store.delete(self.places.document, durable=self.settings.durable)
                self.store.delete_prefix(self.places.base, durable=self.settings.durable)

    # -- what an index needs ----------------------------------------------------------------------------------------

    @property
    def keeps_index(self) -> bool:
        """Return whether the collection's document asks for a stored index."""
        return self.document.extra.get("index") == "stored"

    def cached_index(self) -> bytes | None:
        """The index that was stored last; None when there is nothing, or too much."""
        size = self.store.size(self.places.index) if isinstance(self.store, Size) else 0
        return self.store.get(self.places.index) if size is not None and size <= LARGEST_INDEX else None

    def keep_index(self, data: bytes) -> None:
        """Store an index; ReadOnly."""
        self.require_writable()
        if len(data) <= LARGEST_INDEX and self.exists():
            self.store.put(self.places.index, data)

    # -- arrays -----------------------------------------------------------------------------------------------------

    def remedies(self, *, deep: bool) -> Iterable[Remedy]:
        """Every problem of the collection with what mends it; ``deep`` reads every cell besides."""
        return Health(self, deep=deep).remedies()
