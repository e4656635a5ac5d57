"""Rules and damage of a collection of our own layout: arrays, key entries, shards, and what dead writers left.

Every mend looks again before it acts, under the lock of the array or with its key held, so that no living writer
loses anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.plan import batched
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import Conflict, FormatError, HyperslabError, NodeNotFound, Problem, StorageError, Unsupported
from hyperslab.formats.collections.own.batches import (
    creation_names,
    is_dead,
    is_under_way,
    read_entry,
    remove_creation_marker,
    wait_for_makers,
)
from hyperslab.formats.collections.own.documents import (
    ARRAY,
    ARRAYS,
    BATCH,
    CREATING,
    DOCUMENT,
    FOLDERS,
    GENERATIONS,
    INDEX_FILES,
    JOURNAL,
    KEYS,
    STAGED,
    UNSETTLED,
    is_entry,
    part_of,
)
from hyperslab.formats.collections.own.store import StoredCollection
from hyperslab.formats.collections.own.tiles import PendingTiles, Tiles, tile_orphans
from hyperslab.formats.rules import FOREIGN, Finding, Rule, Rules, found_at, found_foreign, span
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.shards import ShardedChunks, open_chunks
from hyperslab.formats.zarr3.document import key_of
from hyperslab.model.schemas.arrays import Record, allows_shape, is_id
from hyperslab.model.spec import ArraySpec
from hyperslab.stores import counting

# What a key entry begins with while nobody may complete the array that had no entry.
_CLAIM = b"taken-by-a-repair-"


class CollectionDamage:
    """One look through a collection; ``deep`` reads every cell besides."""

    def __init__(self, collection: StoredCollection, *, deep: bool) -> None:
        self._collection = collection
        self._store = collection.store
        self._keys = collection.keys
        self._deep = deep
        self._has_key = collection.has_key
        self._sound_entries: set[str] = set()
        self._ids_by_wrong_entry: dict[str, list[str]] = {}
        self._damaged: set[str] = set()
        self._blank: dict[str, FormatError] = {}
        self._entry_targets: set[str] = set()
        self._ids: set[str] = set()
        self._uncommitted_records: list[Record] = []
        self._questioned_ids: set[str] = set()

    def find_damage(self) -> Iterator[Finding]:
        """Yield every problem with what mends it. What a living writer is at work on is looked at twice."""
        wait_for_makers(self._store, self._keys)
        # Asked before the arrays are looked at: what a living writer unsettles later is none of a dead one's.
        unsettled = set(self._collection.unsettled_ids())
        for part in self._store.list_dir(self._keys.folder(ARRAYS))[1]:
            yield from self._examine_part(part)
        yield from self._recheck_uncommitted()
        yield from self._key_entries()
        yield from self._blank_documents()
        yield from self._leftovers(unsettled)
        if (index := self._collection.manifests) is not None:
            yield from index.find_damage(self._keys.name)
        yield from self._strays()

    # -- arrays -----------------------------------------------------------------------------------------------------

    def _examine_part(self, part: str) -> Iterator[Finding]:
        folder = self._keys.part(part)
        generation = self._keys.generation(part)
        files, names = self._store.list_dir(folder)
        ids = [name for name in names if is_id(name) and part_of(name) == part]
        for name in sorted({*files, *names} - set(ids)):
            if is_id(name):
                message = "the array is in the wrong place for its id"
                yield found_at(self._keys.name, "misplaced-file", message, f"{folder}/{name}")
            else:
                yield found_foreign(self._keys.name, "this is no array", f"{folder}/{name}")
        try:
            has_generation = self._store.stamp(generation) is not None
        except StorageError as error:
            yield found_at(self._keys.name, "missing-generation", error.said, generation)
            has_generation = True
        if not has_generation and any(self._collection.list_part(part)):
            renew = partial(self._store.touch, generation, durable=True)
            message = f"the arrays {part}… are not listed: their generation is missing"
            yield found_at(self._keys.name, "missing-generation", message, generation, "make it", renew)
        for batch in batched(ids, BATCH):
            found = self._store.get_many([self._keys.array_document(id) for id in batch])
            self._ids.update(id for id, data in zip(batch, found, strict=True) if data is not None)
            for id, data in zip(batch, found, strict=True):
                if isinstance(data, StorageError):
                    yield self._unreadable(id, data, self._keys.array_document(id))
                else:
                    yield from self._without_document(id) if data is None else self._examine_array(id, data)

    def _unreadable(self, id: str, error: HyperslabError, key: str) -> Finding:
        self._damaged.add(id)
        return found_at(self._collection.node(id), "unreadable-node", error.said, key)

    def _without_document(self, id: str) -> Iterator[Finding]:
        folder, node = self._keys.array(id), self._collection.node(id)
        keys = tuple(self._store.list(folder))
        if keys and id in self._ids_with_entry:
            self._questioned_ids.add(id)
            message = "the array has lost its document, and its cells are there"
            yield found_at(node, "missing-document", message, self._keys.array_document(id))
        elif keys:
            act = partial(self._drop_bare, id)
            yield found_at(node, "leftover", "cells without a document", folder, "remove them", act, keys)

    def _drop_bare(self, id: str) -> None:
        if self._store.stamp(self._keys.array_document(id)) is None:
            self._store.delete_prefix(self._keys.array(id))

    def _examine_array(self, id: str, data: bytes) -> Iterator[Finding]:
        key, node = self._keys.array_document(id), self._collection.node(id)
        try:
            record = self._collection.documents.parse_record(data, id)
        except FormatError as error:
            self._damaged.add(id)
            if self._has_key and _is_blank(data):
                self._blank[id] = error
            else:
                yield from self._unparsed(id, error)
            return
        # Not by the rule of all documents: a collection has no consolidated metadata to take a document from, and one
        # that was rewritten as it is understood might not be as the schema says. So it is only told.
        for problem in self._collection.documents.problems(data, id):
            yield found_at(node, problem.kind, problem.message, key)
        try:
            committed = not self._has_key or self._collection.is_committed(record)
        except StorageError as error:
            self._sound_entries.add(self._collection.key_entry(record))
            yield self._unreadable(id, error, self._collection.key_entry(record))
            return
        if committed:
            if self._has_key:
                self._sound_entries.add(self._collection.key_entry(record))
            try:
                yield from self._examine_readable_array(id, data)
            except StorageError as error:
                yield self._unreadable(id, error, error.key or key)
        else:
            self._uncommitted_records.append(record)

    def _unparsed(self, id: str, error: FormatError) -> Iterator[Finding]:
        for problem in error.problems or [Problem(self._collection.node(id), "damaged", error.said)]:
            yield found_at(self._collection.node(id), problem.kind, problem.message, self._keys.array_document(id))

    def _blank_documents(self) -> Iterator[Finding]:
        """Yield documents that are blank: of a creation that lost its power, which nobody was told of, unless a key
        leads there."""
        for id, error in self._blank.items():
            if id in self._entry_targets:
                yield from self._unparsed(id, error)
                continue
            key, node = self._keys.array_document(id), self._collection.node(id)
            message = "the document is blank and no key leads to it: the array was not made to the end"
            keys, act = tuple(self._store.list(self._keys.array(id))), partial(self._drop_blank, id)
            yield found_at(node, "leftover", message, key, "remove it", act, keys)

    def _drop_blank(self, id: str) -> None:
        with suppress(NodeNotFound), self._collection.lock(id):
            if not _is_blank(self._collection.read_document(id)):
                return
            self._collection.drop_array(id)
        self._mark_settled(id)

    def _recheck_uncommitted(self) -> Iterator[Finding]:
        """Examine arrays that had no key a moment ago: some may have been made, or removed, to the end by now, or are
        being made still."""
        under_way = is_under_way(self._store, self._keys)
        for record in self._uncommitted_records:
            data = self._store.get(self._keys.array_document(record.id))
            if data is None:
                continue
            if not self._collection.is_committed(record):
                yield from () if under_way else self._examine_uncommitted(record)
            else:
                self._sound_entries.add(self._collection.key_entry(record))
                yield from self._examine_readable_array(record.id, data)

    # -- one array: its document beside the schema, its shards and their chunks ----------------------------------------

    def _examine_readable_array(self, id: str, data: bytes) -> Iterator[Finding]:
        """Yield every problem of an array whose record is sound, with what mends it."""
        node = self._collection.node(id)
        key = self._keys.array_document(id)
        try:
            spec = self._collection.documents.parse_spec(data, id)
        except FormatError as error:
            yield from self._unparsed(id, error)
            return
        bare = self._collection.documents.template
        if not allows_shape(self._collection.document.schema, spec.shape):
            message = f"the array has the shape {spec.shape}, the schema says {bare.shape}"
            yield found_at(node, "wrong-shape", message, key)
        if spec.dtype != bare.dtype:
            message = f"the array has cells of type {spec.dtype}, the schema says {bare.dtype}"
            yield found_at(node, "wrong-dtype", message, key)
        if spec.dims != bare.dims:
            message = f"the array has the dimensions {spec.dims}, the schema says {bare.dims}"
            yield found_at(node, "wrong-dimensions", message, key)
        if spec.problem is None:
            yield from self._examine_cells(id, spec)
        else:
            yield found_at(node, "unreadable-cells", spec.problem, key)

    def _examine_cells(self, id: str, spec: ArraySpec) -> Iterator[Finding]:
        """Yield keys of others, damaged indexes of shards, and, looking deep, chunks that cannot be decoded."""
        store, folder, node = self._store, self._keys.array(id), self._collection.node(id)
        keys = ChunkKeys(store, folder, key_of(spec), self._collection.settings)
        listed = list(store.list(folder))  # before the chunks: one that is written meanwhile is none of others
        places = list(keys.stored(len(spec.shape)))
        counts = Grid.of(spec.shape, spec.chunks).counts
        inside = dict.fromkeys(p for p in places if all(0 <= i < n for i, n in zip(p, counts, strict=True)))
        chunks = {keys.prefix + keys.key_of(place): place in inside for place in places}
        for key in listed:
            if key not in chunks and key != f"{folder}/{ARRAY}":
                yield found_foreign(node, "this is no part of the array", key)
            elif not chunks.get(key, True):
                message = f"the chunk lies outside the grid of {counts} chunks, and is not read"
                yield found_at(node, "outside-grid", message, key, is_note=True)
        source = open_chunks(keys, spec)
        if not isinstance(source, ShardedChunks):
            return
        writable = self._collection.chunks(id, spec)
        pending = None
        if isinstance(writable, Tiles):
            with suppress(FormatError, StorageError):  # a damaged journal tells of no write that is not settled
                pending = writable.pending()
        is_questioned = not self._collection.documents.stores_as_schema(spec)
        for place in inside:
            if pending is None or not pending.has_changed(place):
                cells = partial(span, dims=spec.dims, indexes=spec.indexes)
                found = self._examine_shard(node, keys.prefix + keys.key_of(place), source, place, writable, cells)
                yield from map(_without_action, found) if is_questioned else found
        if pending is not None and self._deep:
            yield from self._staged_tiles(node, pending, spec)

    def _staged_tiles(self, node: str, pending: PendingTiles, spec: ArraySpec) -> Iterator[Finding]:
        """Yield tiles of a committed write that do not have their keys yet: once they have, what is damaged is
        mended."""
        for place in pending.staged_tiles():
            try:
                for coords in pending.stored_in(place):
                    pending.read(coords)
            except HyperslabError as error:
                cells = span(Grid.of(spec.shape, spec.chunks).extent(place), spec.dims, spec.indexes)
                yield found_at(node, "corrupt-chunk", error.said, pending.staged_key(place), cells=cells)

    def _examine_shard(
        self,
        node: str,
        key: str,
        source: ShardedChunks,
        place: Coords,
        writable: ChunkSource,
        cells: Callable[[Sequence[slice]], str],
    ) -> Iterator[Finding]:
        """Yield the damage of the shard at ``place``. Mends hold it through ``writable``, which settles what dead
        writers began. ``cells``: spells cells and their labels."""
        try:
            stored = list(source.stored_in(place))
        except HyperslabError as error:
            act = partial(self._take_out, key, source, place, writable)
            action = "take it out: its cells read as the fill value"
            where = cells((source.grid.outer or source.grid).extent(place))
            yield found_at(node, "corrupt-shard", error.said, key, action, act, (key,), cells=where)
            return
        for coords in stored if self._deep else ():
            try:
                source.read(coords)
            except HyperslabError as error:
                action, act = "take it out: it reads as the fill value", partial(self._erase, source, coords, writable)
                where = cells(source.grid.extent(coords))
                yield found_at(node, "corrupt-chunk", error.said, key, action, act, (key,), cells=where)
        if self._deep and counting.watchers:
            counting.done(1)

    def _take_out(self, key: str, source: ShardedChunks, place: Coords, writable: ChunkSource) -> None:
        first = tuple(i * n for i, n in zip(place, source.grid.members, strict=True))
        with writable.lock([first], self._collection.settings.lock_timeout):
            try:
                list(source.stored_in(place))
            except HyperslabError:
                self._store.delete(key)

    def _erase(self, source: ShardedChunks, coords: Coords, writable: ChunkSource) -> None:
        with writable.lock([coords], self._collection.settings.lock_timeout):
            try:
                source.read(coords)
            except HyperslabError:
                source.erase(coords)

    # -- key entries ------------------------------------------------------------------------------------------------

    @cached_property
    def _ids_with_entry(self) -> frozenset[str]:
        """The ids that key entries lead to, whatever the attributes of their arrays."""
        folder = self._keys.folder(KEYS)
        found: set[str] = set()
        for batch in batched(map(f"{folder}/{{}}".format, filter(is_entry, self._store.list_dir(folder)[0])), BATCH):
            values = [each if isinstance(each, bytes) else None for each in self._store.get_many(batch)]
            found.update(filter(None, self._collection.batches.ids(values)))
        return frozenset(found)

    def _lost_entry(self, record: Record, entry: str, value: bytes | None) -> Iterator[Finding]:
        """Return the problem of an array whose key does not lead to it though it was made to the end; nothing of any
        other.

        Another entry leads to it, or it has cells, which none has that is being made, and is not unsettled, as those
        are that are being removed.
        """
        key = self._keys.array_document(record.id)
        has_cells = any(each != key for each in self._store.list(self._keys.array(record.id)))
        if record.id in self._ids_with_entry:
            value = value or b""
        elif not has_cells or record.id in self._collection.unsettled_ids() or self._collection.is_committed(record):
            return
        self._questioned_ids.add(record.id)
        node = self._collection.node(record.id)
        if value is None:
            act = partial(self._restore_entry, record, entry)
            yield found_at(node, "missing-key", "its key entry is missing", key, "let its key lead to it", act)
        else:
            message = "its key entry is not that of its primary attributes: these, or the schema, are in question"
            yield found_at(node, "other-key", message, key)

    def _restore_entry(self, record: Record, entry: str) -> None:
        self._store.put_new([(entry, record.id.encode())], durable=True)
        self._mark_settled(record.id)

    def _examine_uncommitted(self, record: Record) -> Iterator[Finding]:
        """Yield an array that its key does not lead to: it goes, unless its entry makes no sense, which then leads to
        it."""
        entry = self._collection.key_entry(record)
        value = self._store.get(entry)
        if value is not None and value.startswith(_CLAIM):
            value = None
        other, batch = ("", None) if value is None else read_entry(value)
        if batch is not None and other == record.id:
            value = None  # its batch was not committed
        if value is not None and not self._is_array_of(other, entry):
            self._ids_by_wrong_entry.setdefault(entry, []).append(record.id)
            return
        yield from self._lost_entry(record, entry, value)
        if record.id in self._questioned_ids:
            return
        message = "no key leads to it: it was not made, or not removed, to the end"
        if creation_names(self._store, self._keys):
            message = "no key leads to it: it was not made to the end, or is being made"
        if value is not None:
            message = f"its primary attributes are those of {other}, which their key leads to"
        node, key = self._collection.node(record.id), self._keys.array_document(record.id)
        keys, act = tuple(self._store.list(self._keys.array(record.id))), partial(self._remove_orphan, record)
        yield found_at(node, "orphan", message, key, "remove it", act, keys)

    def _is_array_of(self, id: str, entry: str) -> bool:
        """Return True if the key entry ``entry`` is that of the array ``id``; a damaged array may be its."""
        try:
            data = self._store.get(self._keys.array_document(id)) if is_id(id) else None
            if data is None:
                return False
            return self._collection.key_entry(self._collection.documents.parse_record(data, id)) == entry
        except (FormatError, StorageError):
            return True

    def _remove_orphan(self, record: Record) -> None:
        """Remove an array that nobody completes while its key is held."""
        entry = self._collection.key_entry(record)
        claim = _CLAIM + os.urandom(8).hex().encode()
        try:
            self._store.put_new([(entry, claim)], durable=False)
        except Conflict:
            value = self._store.get(entry) or b""
            id, batch = read_entry(value)
            if id == record.id and batch is not None and not self._collection.batches.release(entry, value):
                return
            if self._collection.is_committed(record):
                return
            claim = b""
        try:
            with self._collection.lock(record.id):
                self._collection.drop_array(record.id)
        except NodeNotFound:
            pass
        finally:
            if claim and self._store.get(entry) == claim:
                self._store.delete(entry)
        self._mark_settled(record.id)

    def _key_entries(self) -> Iterator[Finding]:
        folder = self._keys.folder(KEYS)
        files, names = self._store.list_dir(folder)
        for name in sorted([*names, *(name for name in files if not is_entry(name))]):
            yield found_foreign(self._keys.name, "this is no key entry", f"{folder}/{name}")
        entries = [f"{folder}/{name}" for name in files if is_entry(name)]
        for batch in batched((entry for entry in entries if entry not in self._sound_entries), BATCH):
            for entry, value in zip(batch, self._store.get_many(batch), strict=True):
                if isinstance(value, StorageError):
                    self._entry_targets.update(self._blank)  # any of them, for what is known
                    yield found_at(self._keys.name, "unreadable-key", value.said, entry)
                elif value is not None:
                    yield from self._wrong_entry(entry, value)

    def _wrong_entry(self, entry: str, value: bytes) -> Iterator[Finding]:
        id, batch = read_entry(value)
        self._entry_targets.add(id)
        if id in self._questioned_ids:
            return
        if batch is not None and self._collection.batches.ids([value]) == [None]:
            if is_dead(self._store, self._keys, batch):
                act = partial(self._collection.batches.release, entry, value)
                message = "a writer died, or is at work, while it made the arrays of this key entry"
                yield found_at(self._keys.name, "dangling-key", message, entry, "remove it", act, (entry,))
            return
        if not self._has_key or id in self._damaged or self._is_array_of(id, entry):
            if not self._has_key:
                yield found_at(self._keys.name, "other-key", "the schema has no primary attributes", entry)
            return
        ids = self._ids_by_wrong_entry.get(entry, [])
        if len(ids) == 1:
            message, node = "the key entry of the array leads elsewhere", self._collection.node(ids[0])
            renew = partial(self._renew_entry, entry, value, ids[0])
            yield found_at(node, "dangling-key", message, entry, "let it lead to the array", renew)
        else:
            message, drop = "a key entry leads to no array", partial(self._drop_entry, entry, value)
            yield found_at(self._keys.name, "dangling-key", message, entry, "remove it", drop, (entry,))

    def _renew_entry(self, entry: str, value: bytes, id: str) -> None:
        with self._collection.lock(id):
            if self._store.get(entry) == value:
                self._store.put(entry, id.encode(), durable=True)
        self._store.touch(self._keys.generation(part_of(id)), durable=True)

    def _drop_entry(self, entry: str, value: bytes) -> None:
        if self._store.get(entry) == value and not self._is_array_of(read_entry(value)[0], entry):
            self._store.delete(entry)

    # -- what dead writers left, and keys that are no part of a collection ---------------------------------------------

    def _leftovers(self, unsettled: set[str]) -> Iterator[Finding]:
        for id in sorted(unsettled.intersection(self._collection.unsettled_ids())):
            key = self._keys.unsettled(id)
            act = partial(self._settle, id)
            message = "a writer died, or is at work, while it changed or removed the array"
            yield found_at(self._collection.node(id), "unsettled", message, key, "look at the array anew", act)
        for name in () if is_under_way(self._store, self._keys) else creation_names(self._store, self._keys):
            key = f"{self._keys.folder(CREATING)}/{name}"
            act = partial(remove_creation_marker, self._store, self._keys, name)
            message = "a writer died, or is at work, while it made many arrays"
            yield found_at(self._keys.name, "leftover", message, key, "remove what tells of it", act)
        tiled = set()
        for folder, place in ((JOURNAL, 0), (STAGED, 1)):
            for name in self._store.list_dir(self._keys.folder(folder))[place]:
                if name in self._ids:
                    tiled.add(name)
                else:
                    key = f"{self._keys.folder(folder)}/{name}"
                    act, node = partial(self._drop_prefix, name, key), self._collection.node(name)
                    yield found_at(node, "leftover", "the array is gone", key, "remove it", act)
        for id in sorted(tiled):
            with suppress(NodeNotFound, FormatError, Unsupported):
                source = self._collection.chunks(id, self._collection.spec(id))
                if isinstance(source, Tiles):
                    yield from tile_orphans(source, self._collection.node(id))

    def _mark_settled(self, id: str) -> None:
        """Have whoever knows an array look at it anew: it is settled."""
        self._store.touch(self._keys.generation(part_of(id)), durable=True)
        self._store.delete(self._keys.unsettled(id))

    def _settle(self, id: str) -> None:
        try:
            with self._collection.lock(id):
                if not self._is_uncommitted(id):
                    self._mark_settled(id)
        except NodeNotFound:
            self._mark_settled(id)

    def _is_uncommitted(self, id: str) -> bool:
        """Return True for an array that no key leads to. Its mark stays until it is removed: nothing else tells one
        with cells that was not removed to the end from one that has lost its key."""
        try:
            record = self._collection.parse_record(self._collection.read_document(id), id)
            return self._has_key and not self._collection.is_committed(record)
        except (FormatError, StorageError):
            return False

    def _drop_prefix(self, id: str, key: str) -> None:
        if not is_id(id) or self._store.stamp(self._keys.array_document(id)) is None:
            self._store.delete_prefix(key)

    def _strays(self) -> Iterator[Finding]:
        """Yield keys that belong to no collection, and unfinished writes."""
        files, names = self._store.list_dir(self._keys.base)
        for name in sorted({*files, *names} - {DOCUMENT, *INDEX_FILES, *FOLDERS}):
            key = f"{self._keys.base}/{name}"
            yield found_foreign(self._keys.name, "this is no part of a collection", key)
        folders = [self._keys.folder(name) for name in (KEYS, GENERATIONS, UNSETTLED, JOURNAL)]
        arrays = [self._keys.array(id) for id in sorted(self._ids)]
        for folder in [self._keys.base, *folders, *arrays]:
            for stray in self._store.strays(folder):
                key = f"{folder}/{stray.name}"
                if stray.kind != "temporary":
                    yield found_at(self._keys.name, stray.kind, "this is no value", key)
                elif stray.is_abandoned:
                    act = partial(self._store.expel, key, None)
                    yield found_at(self._keys.name, "unfinished-write", "a writer died", key, "remove it", act)


def _is_blank(document: bytes) -> bool:
    """Return True for the zero bytes that a file system leaves of a file whose bytes were never flushed."""
    return not document.strip(b"\0")


def _without_action(finding: Finding) -> Finding:
    """Return the problem alone: the document is not as the schema says, so that the cells may well be sound."""
    problem = finding.problem
    message = f"{problem.message}: the document, which is not as the schema says, is in question"
    return Finding(Problem(problem.node, problem.kind, message), key=finding.key)


# -- the table: all of it is found by the look above ------------------------------------------------------------------

RULES = Rules(
    Rule(("missing-document",), "an array of a collection with a key but without its document", "not repairable"),
    Rule(("missing-key",), "an array with cells but without a key", "its key is restored"),
    Rule(
        ("other-key",),
        "an array whose key does not match its primary attributes: these, or the schema, are wrong",
        "not repairable",
    ),
    Rule(
        ("wrong-dtype", "wrong-shape", "wrong-dimensions"),
        "an array or tile that contradicts the schema",
        "a DEKER file whose cells all fit the type of the others is rewritten; nothing is removed",
    ),
    Rule(("dangling-key",), "a key without an array, or of a different array", "corrected, or removed"),
    Rule(
        ("missing-generation",),
        "arrays that are not listed because their change marker is missing",
        "the marker is restored",
    ),
    Rule(("unsettled", "leftover", "unfinished-write"), "leftovers of a dead writer", "removed, or completed"),
    Rule(
        ("journal",),
        "a damaged journal of a write over several tiles",
        "removed; an unfinished write over several tiles stays partial",
    ),
    Rule(
        ("unusable-index",), "an index in a bucket that cannot be read", "removed; a client that may write rebuilds it"
    ),
    Rule(
        (FOREIGN,),
        "a note: files and folders that are not part of a collection",
        "left alone; `--drop-foreign` moves them to quarantine",
    ),
    Rule(("misplaced-file",), "an array in the wrong place for its id", "not repairable"),
    Rule(("outside-grid",), "a note: a chunk outside the array", "left alone"),
    Rule(
        ("corrupt-shard", "corrupt-chunk"),
        "chunks that cannot be decoded",
        "moved to quarantine; the cells read as the fill value",
    ),
    Rule(
        ("damaged", "array", "invalid-document", "unreadable-node", "unreadable-key", "unreadable-cells"),
        "an array, tile or collection that cannot be read",
        "not repairable",
    ),
    Rule(("missing-collection",), "an array whose collection is gone", "not repairable"),
)
