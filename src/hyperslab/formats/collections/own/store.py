"""The stored parts of one collection: records, key entries, lists of ids, and the index that follows changes of them.

How arrays are created is in :mod:`.creation`; all that can be done to a collection is ``OwnCollectionStore`` in
:mod:`.layout`, which builds on this.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from weakref import ref

from hyperslab.chunks.plan import batched
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import (
    Conflict,
    FormatError,
    HyperslabError,
    NodeNotFound,
    ReadOnly,
    StorageError,
    Unsupported,
)
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.formats.collections.index_database import UNSURE, IndexChange, IndexDatabase, stamp_digest
from hyperslab.formats.collections.manifest_index import ManifestIndex
from hyperslab.formats.collections.own.batches import BatchCommits, read_entry
from hyperslab.formats.collections.own.documents import (
    ARRAY,
    ARRAYS,
    BATCH,
    GENERATIONS,
    INDEX_FILES,
    JOURNAL,
    MANIFESTS,
    PART,
    STAGED,
    UNSETTLED,
    ArrayDocuments,
    CollectionKeys,
    part_of,
)
from hyperslab.formats.collections.own.tiles import open_shard, open_tiles
from hyperslab.formats.collections.own.versions import ArrayVersions
from hyperslab.model.schemas.arrays import Record, is_id
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Stamp, Store
from hyperslab.stores.files import is_local
from hyperslab.stores.requests import each_request

LOGGER = logging.getLogger("hyperslab.database")

NONE_KNOWN: Mapping[str, Stamp] = {}
"""No stamps of documents."""

# Removed arrays of which one listing of their part costs less than a look at each.
_MANY_REMOVED = 8


class StoredCollection:
    """The arrays of one collection. ``data``: the collection's document as it is stored, ``stamp``: its, if known."""

    def __init__(
        self, store: Store, document: CollectionDocument, data: bytes, settings: Settings, stamp: Stamp | None = None
    ) -> None:
        self.store = store
        self.settings = settings
        self.keys = CollectionKeys(document.name)
        self.documents = ArrayDocuments(document)
        self.document = document
        self._stored = document.stored
        self._data = data
        self._stamp = stamp
        self.batches = BatchCommits(self.store, self.keys)
        self._generations = Generations(self.store, self.keys)
        seconds = document.keep_versions
        self.versions = None if seconds is None else ArrayVersions(store, self.keys, seconds)
        """The older versions of the arrays; None where they are not kept."""
        self.has_key = bool(document.schema.primary_attributes)
        self._has_changed_arrays = False

    def exists(self) -> bool:
        """Return True if the collection is still there, and no other one in its place: by one request, which brings the
        document only where it may be another one."""
        key, known = self.keys.document, self._stamp
        # a look at a file costs less than opening it
        if self.store.traits.concurrency is None and known is not None and self.store.stamp(key) == known:
            return True
        found = self.store.get_version(key, unless=known)
        if found is None or (found.data is not None and bytes(found.data) != self._data):
            return False
        self._stamp = found.stamp
        return True

    def node(self, id: str) -> str:
        """Return the path of an array, for messages."""
        return f"{self.keys.name}/{id}"

    # -- records ----------------------------------------------------------------------------------------------------

    def record(self, id: str) -> Record:
        """Return one array's record as it is stored now; NodeNotFound, FormatError."""
        record = self.parse_record(self.read_document(id), id)
        if not self.is_committed(record):
            raise self.not_found_error(id)
        return record

    def read_document(self, id: str) -> bytes:
        """Return the document of an array; NodeNotFound."""
        data = self.store.get(self.keys.array_document(id)) if is_id(id) else None
        if data is None:
            raise self.not_found_error(id)
        return data

    def parse_record(self, data: bytes, id: str) -> Record:
        """Return the record of a stored document; FormatError."""
        with self.locate_errors(id):
            return self.documents.parse_record(data, id)

    def not_found_error(self, id: str) -> NodeNotFound:
        """Return the error for an array that is not there."""
        message = f"the collection {self.keys.name!r} has no array {id!r}"
        return NodeNotFound(message, url=self.store.url, node=self.node(id))

    @contextmanager
    def locate_errors(self, id: str) -> Iterator[None]:
        """Add the URL, the node and the key to errors of the block."""
        try:
            yield
        except HyperslabError as error:
            key = self.keys.array_document(id)
            raise error.locate(url=self.store.url, node=self.node(id), key=key) from error.__cause__

    def is_committed(self, record: Record) -> bool:
        """Return True if the array's creation was completed and it was not removed: its key entry names it."""
        return not self.has_key or self.batches.ids([self.store.get(self.key_entry(record))]) == [record.id]

    def key_entry(self, record: Record) -> str:
        """Return the key entry of an array."""
        return self.keys.entry(self.document.schema, record)

    def records(self, ids: Iterable[str]) -> Iterator[Record]:
        """Yield the records of these arrays; those that are gone or damaged are left out, and damage is logged."""
        for batch in batched((id for id in ids if is_id(id)), BATCH):
            found = readable_values(self.store, [self.keys.array_document(id) for id in batch])
            for id, data in zip(batch, found, strict=True):
                try:
                    record = None if data is None else self.documents.parse_record(data, id)
                except FormatError as error:
                    where = {"url": self.store.url, "node": self.node(id)}
                    LOGGER.error("an array is passed over: %s", error.locate(**where))
                    continue
                if record is not None:
                    yield record

    def filter_committed(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield those of the records whose key entries name them."""
        if not self.has_key:
            yield from records
            return
        for batch in batched(records, BATCH):
            found = readable_values(self.store, [self.key_entry(record) for record in batch])
            for record, id in zip(batch, self.batches.ids(found), strict=True):
                if id == record.id:
                    yield record

    def id_of(self, key: tuple[object, ...]) -> str | None:
        """Return the array with these values of its primary attributes, in the schema's order; None when there is
        none."""
        names = (attribute.name for attribute in self.document.schema.primary_attributes)
        data = self.store.get(self.keys.entry(self.document.schema, dict(zip(names, key, strict=True))))
        (id,) = self.batches.ids([data])
        return id if id is not None and is_id(id) else None

    # -- changes ----------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, id: str) -> Iterator[None]:
        """Hold the document of an array; NodeNotFound, Conflict."""
        self.read_document(id)
        folder = self.keys.array(id)
        with self.store.lock_node(folder, self.settings.lock_timeout):
            if self.store.get(self.keys.array_document(id)) is None:
                self.store.delete_prefix(folder)  # which the lock may have made
                raise self.not_found_error(id)
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
            self.keys.array(id), durable=durable
        )  # writers who find it gone remove what they wrote
        for folder in (JOURNAL, STAGED):
            self.store.delete_prefix(f"{self.keys.folder(folder)}/{id}", durable=durable)

    def require_writable(self) -> None:
        """Raise ReadOnly when the store takes no writes."""
        if self.store.read_only:
            remedy = "open it for writing"
            raise ReadOnly("the collection was opened for reading", url=self.store.url, remedy=remedy)

    # -- the index ---------------------------------------------------------------------------------------------------

    @cached_property
    def index_database(self) -> IndexDatabase | None:
        """The index that is stored: a file beside the document, on a file system of this machine; objects, where values
        come by requests and can be swapped."""
        if self.document.extra.get("index", "stored") != "stored":
            return None
        attributes, traits = self._stored.attributes, self.store.traits
        if traits.concurrency is not None and traits.swaps:
            return ManifestIndex(attributes, self.store, self.keys.folder(MANIFESTS), self.exists)
        path = self.store.locate(self.keys.index)
        if path is None or not is_local(os.path.dirname(path)):
            return None
        if not self.store.read_only:
            with suppress(HyperslabError):
                if self.store.size(self.keys.old_index) is not None:
                    self.store.delete(self.keys.old_index)
        here = ref(self)  # no cycle: the file is closed with the collection

        def is_current() -> bool:
            return (found := here()) is None or found.exists()

        return IndexDatabase(attributes, path, writable=not self.store.read_only, is_current=is_current)

    @property
    def manifests(self) -> ManifestIndex | None:
        """The index, where it is one of objects."""
        database = self.index_database
        return database if isinstance(database, ManifestIndex) else None

    def leaves_index_behind(self) -> bool:
        """Return True if arrays were changed here, and the stored index may lack others. Of an index of objects that is
        known without a request."""
        if not self._has_changed_arrays:
            return False
        return self.manifests is None or self.manifests.lacks(self._generations.known_parts)

    def close(self) -> None:
        """Publish what the index keeps back."""
        if "index_database" in self.__dict__ and self.manifests is not None:
            self.manifests.close()

    def prepare_changes(self) -> None:
        """Look, before the first change, at what an index of objects has to know to follow changes."""
        if self.manifests is not None:
            self._generations.prepare()

    def tell_changes(
        self,
        parts: Collection[str],
        *,
        durable: bool,
        made: Sequence[Record] = (),
        changed: Sequence[Record] = (),
        removed: Collection[str] = (),
        stamps: Mapping[str, Stamp] = NONE_KNOWN,
    ) -> None:
        """Give the generations of parts other stamps, and have the index follow in the same step. ``made``: of arrays
        that have documents, and whose key entries come next; ``changed``: that have other documents; ``removed``: ids
        of arrays that are gone; ``stamps``: of documents, as far as they are known. All of them lie in these parts, and
        nothing else has changed there."""
        database = self.index_database
        if database is None:
            self._generations.touch(parts, durable=durable)
            return
        self._has_changed_arrays = True
        change = IndexChange(pending=bool(made) and self.has_key)
        for record in [*made, *changed]:
            stamp = stamps.get(record.id) or self.store.stamp(self.keys.array_document(record.id))
            mark = UNSURE if stamp is None else stamp_digest(stamp)
            change.rows.append(database.row(self._stored.record_to_stored(record), mark))
        with database.following(change) as follows:
            if self.manifests is not None:
                found = self._generations.swap(parts)
            else:  # others wait for this: what waits for the medium comes after it
                found = self._generations.touch(parts, durable=durable and not follows)
            for part, moved in zip(parts, found, strict=True):
                if moved is not None and follows and self._is_known_alone(part, moved[0], made):
                    before, after = moved
                    change.moves[part] = None if before is None else stamp_digest(before), stamp_digest(after)
            for id in self._gone(removed):
                change.removed.append(id)
            for id in set(removed).difference(change.removed):  # it was made again meanwhile
                change.moves.pop(part_of(id), None)
        if follows and durable and self.store.traits.puts_last:
            self.store.put_last([], map(self.keys.generation, parts), durable=True)

    def _gone(self, removed: Collection[str]) -> Sequence[str]:
        """Return those of the ids that have no documents."""
        if len(removed) < _MANY_REMOVED:
            return [id for id in removed if self.store.stamp(self.keys.array_document(id)) is None]
        there = {id for part in {part_of(id) for id in removed} for id in self.list_part(part)}
        return [id for id in removed if id not in there]

    def _is_known_alone(self, part: str, before: Stamp | None, made: Sequence[Record]) -> bool:
        """Return True unless a part that had no generation has other arrays than those that are made."""
        if before is not None or self._generations.is_new(part):
            return True
        return self.list_part(part).keys() <= {record.id for record in made}

    # -- listings ----------------------------------------------------------------------------------------------------

    def generations(self) -> Mapping[str, Stamp]:
        """Return the parts that the arrays are listed by, each with what changes when one of its arrays does."""
        return self._generations.read()

    def list_part(self, part: str) -> Mapping[str, Stamp]:
        """Return the ids of a part with the stamps of their documents, those included that are not committed yet."""
        found = self.store.entries(self.keys.part(part), ARRAY)
        return {name: stamp for name, stamp, _ in found if is_id(name) and part_of(name) == part}

    def ids(self, part: str) -> Iterable[str]:
        """Return the ids of a part's arrays that exist, sorted: with keys those of sound records that their keys lead
        to."""
        listed = sorted(self.list_part(part))
        return (record.id for record in self.filter_committed(self.records(listed))) if self.has_key else listed

    def unsettled_ids(self) -> Collection[str]:
        """Return ids whose documents may have changed without a change of their part's generation."""
        return {name for name in self.store.list_dir(self.keys.folder(UNSETTLED))[0] if is_id(name)}

    def list_changes(self) -> tuple[Mapping[str, Stamp], Collection[str]]:
        """Return :meth:`generations` and :meth:`unsettled_ids`; where both are requests they are sent at once."""
        if self.store.traits.concurrency is None:
            return self.generations(), self.unsettled_ids()
        generations, unsettled = list[Mapping[str, Stamp]](), list[str]()
        each_request([lambda: generations.append(self.generations()), lambda: unsettled.extend(self.unsettled_ids())])
        return generations[0], unsettled

    def spec(self, id: str) -> ArraySpec:
        """Return the array's spec; NodeNotFound, FormatError."""
        data = self.read_document(id)
        with self.locate_errors(id):
            return self.documents.parse_spec(data, id)

    def chunks(self, id: str, spec: ArraySpec) -> ChunkSource:
        """Return the cells of an array under a spec."""
        folder = self.keys.array(id)
        keep = None if self.versions is None else partial(self.keep_versions, id)
        if self.documents.is_single_shard(spec):
            return open_shard(self.store, folder, spec, self.settings, keep_versions=keep)
        journal, staged = (f"{self.keys.folder(name)}/{id}" for name in (JOURNAL, STAGED))
        return open_tiles(
            self.store, folder, spec, self.settings, journal_key=journal, staged_folder=staged, keep_versions=keep
        )

    def keep_versions(self, id: str, names: Iterable[str]) -> None:
        """Keep what lies under keys below an array's folder, where the collection keeps versions: they are locked."""
        if self.versions is not None:
            self.versions.keep(id, names, durable=self.settings.durable)

    def stamp(self, id: str) -> Stamp | None:
        """Return a value that identifies the present version of an array's document."""
        return self.store.stamp(self.keys.array_document(id)) if is_id(id) else None

    def nbytes_stored(self) -> int:
        """Return bytes that all that belongs to the collection takes, without the index, which is a cache."""
        cached = sum(self.store.size(f"{self.keys.base}/{name}") or 0 for name in INDEX_FILES)
        return self.store.nbytes_below(self.keys.base) - self.store.nbytes_below(self.keys.folder(MANIFESTS)) - cached


def readable_values(store: Store, keys: Sequence[str]) -> Sequence[bytes | None]:
    """Return the values of the keys; None for a file that cannot be read, too."""
    return [None if isinstance(value, StorageError) else value for value in store.get_many(keys)]


# -- generations of the parts of a collection --------------------------------------------------------------------------
# Values that change with each change below arrays/<part>. Where the store swaps values by requests, a change of one
# is a swap from the version that is known to another: so the writer knows that nobody else changed the part between
# the two, and an index can follow. That costs no request more than a change that knows nothing.


Change = tuple[Stamp | None, Stamp]
"""The stamps of a generation before and after a change; None: it was missing."""

# Times that a generation is swapped while others are faster; then it is changed without knowing from what.
_TRIES = 4


class Generations:
    """The generations of one collection, with the stamps that were seen last."""

    def __init__(self, store: Store, keys: CollectionKeys) -> None:
        self._store = store
        self._keys = keys
        self._known: dict[str, Stamp] | None = None
        self._unmarked: frozenset[str] | None = None

    def read(self) -> Mapping[str, Stamp]:
        """Return the parts that have generations, with the stamps of these."""
        found = self._store.entries(self._keys.folder(GENERATIONS))
        known = self._known = {name: stamp for name, stamp, _ in found if len(name) == PART}
        return dict(known)

    @property
    def known_parts(self) -> Collection[str]:
        """The parts that had generations when these were looked at last; none before."""
        return self._known or ()

    def prepare(self) -> None:
        """Look, once, which parts there are before something is changed."""
        if self._unmarked is None:
            self._unmarked = frozenset(self._store.list_dir(self._keys.folder(ARRAYS))[1]) - self.read().keys()

    def is_new(self, part: str) -> bool:
        """Return True if a part that has no generation is known to have had no arrays when this was prepared: who has
        made some since has made a generation, too."""
        return self._unmarked is not None and part not in self._unmarked

    def touch(self, parts: Collection[str], *, durable: bool) -> Sequence[Change | None]:
        """Give parts other stamps; return those before and after where it is known that nobody else did meanwhile."""
        keys = map(self._keys.generation, parts)
        touches = [partial(self._store.touch, key, durable=durable) for key in keys]
        if self._store.traits.concurrency is not None:
            return each_request(touches)
        return [touch() for touch in touches]

    def swap(self, parts: Collection[str]) -> Sequence[Change | None]:
        """Do the same by swaps, where the store has these."""
        return each_request([partial(self._swap, part) for part in parts])

    def _swap(self, part: str) -> Change | None:
        key, known = self._keys.generation(part), self._known
        before = (self.read() if known is None else known).get(part)
        for _ in range(_TRIES):
            try:
                after = self._store.put_if(key, os.urandom(16), before)
            except Conflict:
                before = self.read().get(part)
            except Unsupported:  # Google's listings tell no version to swap
                before = self._store.stamp(key)
            except StorageError:
                break
            else:
                if (known := self._known) is not None:
                    known[part] = after
                return before, after
        return self._store.touch(key)
