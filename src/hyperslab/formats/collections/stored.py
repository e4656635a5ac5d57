"""What is stored of one collection: records, key entries, listings; what creations, changes and checks begin with."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

from hyperslab.chunks.pool import batched
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, HyperslabError, NodeNotFound, ReadOnly
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.formats.collections.array_document import ArrayDocuments
from hyperslab.formats.collections.batches import BatchCommits, read_entry
from hyperslab.formats.collections.places import (
    ARRAY,
    GENERATIONS,
    JOURNAL,
    PART,
    STAGED,
    UNSETTLED,
    Places,
    part_of,
)
from hyperslab.formats.collections.store_fallbacks import (
    BATCH,
    entries,
    get_many,
    lock_node,
    nbytes_below,
    stamp_of,
)
from hyperslab.formats.collections.tiles import open_shard, open_tiles
from hyperslab.model.schemas.records import Record, is_id
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Stamp, Store, Unversioned, WritableStore

LOGGER = logging.getLogger("hyperslab.database")


class StoredCollection:
    """The arrays of one collection. ``data``: the collection's document as it is stored."""

    def __init__(self, store: Store, document: CollectionDocument, data: bytes, settings: Settings) -> None:
        self.store = cast(WritableStore, store)
        self.settings = settings
        self.places = Places(document.name)
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
