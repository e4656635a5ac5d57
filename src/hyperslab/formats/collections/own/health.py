"""A collection looked through: what is wrong with its arrays and key entries, what is left over; the remedies.

Every remedy looks again before it acts, under the lock of the array or with its key held, so that no living writer
loses anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.pool import batched
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import Conflict, FormatError, HyperslabError, NodeNotFound, Problem, StorageError
from hyperslab.formats.base import Remedy
from hyperslab.formats.collections.own.documents import ARRAY, ARRAYS, KEYS, is_entry, part_of
from hyperslab.formats.collections.own.orphans import CollectionOrphans, mark_settled, remedy_at
from hyperslab.formats.collections.own.store import StoredCollection, creation_names, is_dead, is_under_way, read_entry
from hyperslab.formats.collections.own.store_fallbacks import BATCH, put_new, read_many, stamp_of, touch
from hyperslab.formats.collections.own.tiles import PendingTiles, Tiles
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.shards import ShardedChunks, open_chunks
from hyperslab.formats.zarr3.document import key_of
from hyperslab.model.schemas.arrays import Record, is_id
from hyperslab.model.spec import ArraySpec
from hyperslab.stores import counting

# -- ------------------------------------------------------------------------------------------------------------------
# What is wrong with one array of a collection: its document beside the schema, its shards and the chunks in them.


class ArrayHealth:
    """The arrays of one collection; ``deep`` reads every cell."""

    def __init__(self, holding: StoredCollection, *, deep: bool) -> None:
        self._holding = holding
        self._deep = deep

    def examine(self, id: str, data: bytes) -> Iterator[Remedy]:
        """Every problem of an array whose record is sound, with what mends it."""
        node = f"{self._holding.places.name}/{id}"
        key = self._holding.places.array_document(id)
        try:
            spec = self._holding.documents.spec(data, id)
        except FormatError as error:
            for problem in error.problems or [Problem(node, "damaged", error.said)]:
                yield Remedy(Problem(node, problem.kind, f"{problem.message} [key={key}]"), at=key)
            return
        for kind, message in self._differences(spec):
            yield Remedy(Problem(node, kind, f"{message} [key={key}]"), at=key)
        if spec.problem is None:
            yield from self._cells(id, spec)

    def _differences(self, spec: ArraySpec) -> Iterator[tuple[str, str]]:
        """Where the array is not as the schema says."""
        bare = self._holding.documents.bare
        sizes = [dimension.size for dimension in self._holding.document.schema.dimensions]
        if any(size is not None and size != length for size, length in zip(sizes, spec.shape, strict=True)):
            yield "wrong-shape", f"the array has the shape {spec.shape}, the schema says {bare.shape}"
        if spec.dtype != bare.dtype:
            yield "wrong-dtype", f"the array has cells of type {spec.dtype}, the schema says {bare.dtype}"
        if spec.dims != bare.dims:
            yield "wrong-dimensions", f"the array has the dimensions {spec.dims}, the schema says {bare.dims}"
        if spec.problem is not None:
            yield "unreadable-cells", spec.problem

    def _cells(self, id: str, spec: ArraySpec) -> Iterator[Remedy]:
        """Stray keys, damaged indexes of shards, and, looking deep, chunks that cannot be decoded."""
        store, folder = self._holding.store, self._holding.places.array(id)
        node = f"{self._holding.places.name}/{id}"
        keys = ChunkKeys(store, folder, key_of(spec), self._holding.settings)
        places = list(keys.stored(len(spec.shape)))
        counts = Grid.of(spec.shape, spec.chunks).counts
        inside = [place for place in places if all(0 <= i < n for i, n in zip(place, counts, strict=True))]
        known = {keys.prefix + keys.key_of(place) for place in inside}
        for key in store.list(folder):
            if key not in known and key != f"{folder}/{ARRAY}":
                yield Remedy(Problem(node, "stray", f"this is no part of the array [key={key}]"), at=key)
        source = open_chunks(store, folder, key_of(spec), spec, self._holding.settings)
        if isinstance(source, ShardedChunks):
            held = self._holding.chunks(id, spec)
            pending = _pending_of(held)
            is_questioned = not self._holding.documents.stores_as_schema(spec)
            for place in inside:
                if pending is None or not pending.hides(place):
                    found = self._shard(node, keys.prefix + keys.key_of(place), _Shard(source, place, held))
                    yield from map(_withhold, found) if is_questioned else found
            yield from self._aside(node, pending) if pending is not None and self._deep else ()

    def _aside(self, node: str, pending: PendingTiles) -> Iterator[Remedy]:
        """Tiles of a committed write that do not have their keys yet: once they have, what is damaged is mended."""
        for place in pending.places_aside():
            try:
                for coords in pending.stored_in(place):
                    pending.read(coords)
            except HyperslabError as error:
                key = pending.key_aside(place)
                yield Remedy(Problem(node, "corrupt-chunk", f"{error.said} [key={key}]"), at=key)

    def _shard(self, node: str, key: str, shard: _Shard) -> Iterator[Remedy]:
        try:
            stored = list(shard.stored())
        except HyperslabError as error:
            act = partial(self._take_out, key, shard)
            action = "take it out: its cells read as the fill value"
            yield Remedy(Problem(node, "corrupt-shard", f"{error.said} [key={key}]"), action, act, (key,), at=key)
            return
        for coords in stored if self._deep else ():
            try:
                shard.source.read(coords)
            except HyperslabError as error:
                action = "take it out: it reads as the fill value"
                problem = Problem(node, "corrupt-chunk", f"{error.said} [key={key} inner chunk {coords}]")
                yield Remedy(problem, action, partial(self._erase, shard, coords), (key,), at=key)
        if self._deep and counting.watchers:
            counting.done(1)

    def _take_out(self, key: str, shard: _Shard) -> None:
        with shard.held.lock([shard.first], self._holding.settings.lock_timeout):
            try:
                list(shard.stored())
            except HyperslabError:
                self._holding.store.delete(key)

    def _erase(self, shard: _Shard, coords: Coords) -> None:
        with shard.held.lock([coords], self._holding.settings.lock_timeout):
            try:
                shard.source.read(coords)
            except HyperslabError:
                shard.source.erase(coords)


def _withhold(remedy: Remedy) -> Remedy:
    """Return the problem alone: the document is not as the schema says, so that the cells may well be sound."""
    problem = remedy.problem
    message = f"{problem.message}: the document, which is not as the schema says, is in question"
    return Remedy(Problem(problem.node, problem.kind, message), at=remedy.at)


@dataclass(frozen=True, slots=True)
class _Shard:
    """The shard of ``source`` at a place; ``held`` is the same source as writers hold it, what dead ones began being
    settled then."""

    source: ShardedChunks
    place: Coords
    held: Any

    @property
    def first(self) -> Coords:
        """One of its chunks."""
        return tuple(i * n for i, n in zip(self.place, self.source.grid.members, strict=True))

    def stored(self) -> Iterator[Coords]:
        """Its chunks that are written."""
        return self.source.stored_in(self.place)


def _pending_of(source: ChunkSource) -> PendingTiles | None:
    """The tiles as of a committed write that is not settled yet; a damaged journal tells of none."""
    try:
        return source.pending() if isinstance(source, Tiles) else None
    except (FormatError, StorageError):
        return None


_CLAIM = b"taken-by-a-repair-"
"""What a key entry begins with while nobody may complete the array that had no entry."""


class CollectionHealth:
    """One look through a collection; ``deep`` reads every cell besides."""

    def __init__(self, holding: StoredCollection, *, deep: bool) -> None:
        self._holding = holding
        self._store = holding.store
        self._places = holding.places
        self._arrays = ArrayHealth(holding, deep=deep)
        self._keyed = holding.keyed
        self._right: set[str] = set()
        self._lacking: dict[str, list[str]] = {}
        self._damaged: set[str] = set()
        self._blank: dict[str, FormatError] = {}
        self._led_to: set[str] = set()
        self._ids: set[str] = set()
        self._waiting: list[Record] = []
        self._questioned: set[str] = set()

    def remedies(self) -> Iterator[Remedy]:
        """Every problem with what mends it. What a living writer is at work on is looked at twice."""
        remains = CollectionOrphans(self._holding)
        for part in self._store.list_dir(self._places.folder(ARRAYS))[1]:
            yield from self._part(part)
        yield from self._seen_again()
        yield from self._key_entries()
        yield from self._blanks()
        yield from remains.remedies(self._ids)

    # -- arrays -----------------------------------------------------------------------------------------------------

    def _part(self, part: str) -> Iterator[Remedy]:
        folder = self._places.part(part)
        generation = self._places.generation(part)
        files, names = self._store.list_dir(folder)
        ids = [name for name in names if is_id(name) and part_of(name) == part]
        for name in sorted({*files, *names} - set(ids)):
            yield remedy_at(self._places.name, "stray", "this is no array", f"{folder}/{name}")
        try:
            listed = stamp_of(self._store, generation) is not None
        except StorageError as error:
            yield remedy_at(self._places.name, "missing-generation", error.said, generation)
            listed = True
        if not listed and any(self._holding.listing(part)):
            renew = partial(touch, self._store, generation, durable=True)
            message = f"the arrays {part}… are not listed: their generation is missing"
            yield remedy_at(self._places.name, "missing-generation", message, generation, "make it", renew)
        for batch in batched(ids, BATCH):
            found = read_many(self._store, [self._places.array_document(id) for id in batch])
            self._ids.update(id for id, data in zip(batch, found, strict=True) if data is not None)
            for id, data in zip(batch, found, strict=True):
                if isinstance(data, StorageError):
                    yield self._unreadable(id, data, self._places.array_document(id))
                else:
                    yield from self._without_document(id) if data is None else self._array(id, data)

    def _unreadable(self, id: str, error: HyperslabError, key: str) -> Remedy:
        self._damaged.add(id)
        return remedy_at(self._holding.node(id), "unreadable-node", error.said, key)

    def _without_document(self, id: str) -> Iterator[Remedy]:
        folder = self._places.array(id)
        keys = tuple(self._store.list(folder))
        if keys and id in self._entered:
            self._questioned.add(id)
            message = "the array has lost its document, and its cells are there"
            yield remedy_at(self._holding.node(id), "missing-document", message, self._places.array_document(id))
        elif keys:
            act = partial(self._drop_bare, id)
            yield remedy_at(
                self._holding.node(id), "leftover", "cells without a document", folder, "remove them", act, keys
            )

    def _drop_bare(self, id: str) -> None:
        if stamp_of(self._store, self._places.array_document(id)) is None:
            self._store.delete_prefix(self._places.array(id))

    def _array(self, id: str, data: bytes) -> Iterator[Remedy]:
        key, node = self._places.array_document(id), self._holding.node(id)
        try:
            record = self._holding.documents.record(data, id)
        except FormatError as error:
            self._damaged.add(id)
            if self._keyed and _is_blank(data):
                self._blank[id] = error
            else:
                yield from self._unparsed(id, error)
            return
        for problem in self._holding.documents.problems(data, id):
            yield remedy_at(node, problem.kind, problem.message, key)
        try:
            committed = not self._keyed or self._holding.is_committed(record)
        except StorageError as error:
            self._right.add(self._holding.entry(record))
            yield self._unreadable(id, error, self._holding.entry(record))
            return
        if committed:
            if self._keyed:
                self._right.add(self._holding.entry(record))
            try:
                yield from self._arrays.examine(id, data)
            except StorageError as error:
                yield self._unreadable(id, error, error.key or key)
        else:
            self._waiting.append(record)

    def _unparsed(self, id: str, error: FormatError) -> Iterator[Remedy]:
        for problem in error.problems or [Problem(self._holding.node(id), "damaged", error.said)]:
            yield remedy_at(self._holding.node(id), problem.kind, problem.message, self._places.array_document(id))

    def _blanks(self) -> Iterator[Remedy]:
        """Documents that are blank: of a creation that lost its power, which nobody was told of, unless a key leads
        there."""
        for id, error in self._blank.items():
            if id in self._led_to:
                yield from self._unparsed(id, error)
                continue
            key, keys = self._places.array_document(id), tuple(self._store.list(self._places.array(id)))
            message = "the document is blank and no key leads to it: the array was not made to the end"
            yield remedy_at(
                self._holding.node(id), "leftover", message, key, "remove it", partial(self._drop_blank, id), keys
            )

    def _drop_blank(self, id: str) -> None:
        with suppress(NodeNotFound), self._holding.lock(id):
            if not _is_blank(self._holding.stored(id)):
                return
            self._holding.drop_array(id)
        mark_settled(self._holding, id)

    def _seen_again(self) -> Iterator[Remedy]:
        """Arrays that had no key a moment ago: some may have been made, or removed, to the end by now, or are being
        made still."""
        under_way = is_under_way(self._store, self._places)
        for record in self._waiting:
            data = self._store.get(self._places.array_document(record.id))
            if data is None:
                continue
            if not self._holding.is_committed(record):
                yield from () if under_way else self._uncommitted(record)
            else:
                self._right.add(self._holding.entry(record))
                yield from self._arrays.examine(record.id, data)

    # -- key entries ------------------------------------------------------------------------------------------------

    @cached_property
    def _entered(self) -> frozenset[str]:
        """The ids that key entries lead to, whatever the attributes of their arrays."""
        folder = self._places.folder(KEYS)
        found: set[str] = set()
        for batch in batched(map(f"{folder}/{{}}".format, filter(is_entry, self._store.list_dir(folder)[0])), BATCH):
            values = [each if isinstance(each, bytes) else None for each in read_many(self._store, batch)]
            found.update(filter(None, self._holding.batches.ids(values)))
        return frozenset(found)

    def _made_to_the_end(self, record: Record, entry: str, said: bytes | None) -> Iterator[Remedy]:
        """Return the problem of an array whose key does not lead to it though it was made to the end; nothing of any
        other.

        Another entry leads to it, or it has cells, which none has that is being made, and is not unsettled, as those
        are that are being removed.
        """
        key = self._places.array_document(record.id)
        has_cells = any(each != key for each in self._store.list(self._places.array(record.id)))
        if record.id in self._entered:
            said = said or b""
        elif not has_cells or record.id in self._holding.unsettled() or self._holding.is_committed(record):
            return
        self._questioned.add(record.id)
        node = self._holding.node(record.id)
        if said is None:
            act = partial(self._enter, record, entry)
            yield remedy_at(node, "missing-key", "its key entry is missing", key, "let its key lead to it", act)
        else:
            message = "its key entry is not that of its primary attributes: these, or the schema, are in question"
            yield remedy_at(node, "other-key", message, key)

    def _enter(self, record: Record, entry: str) -> None:
        put_new(self._store, [(entry, record.id.encode())], durable=True)
        mark_settled(self._holding, record.id)

    def _uncommitted(self, record: Record) -> Iterator[Remedy]:
        """An array that its key does not lead to: it goes, unless its entry makes no sense, which then leads to it."""
        entry = self._holding.entry(record)
        said = self._store.get(entry)
        if said is not None and said.startswith(_CLAIM):
            said = None
        other, batch = ("", None) if said is None else read_entry(said)
        if batch is not None and other == record.id:
            said = None  # its batch was not committed
        if said is not None and not self._is_array_of(other, entry):
            self._lacking.setdefault(entry, []).append(record.id)
            return
        yield from self._made_to_the_end(record, entry, said)
        if record.id in self._questioned:
            return
        message = "no key leads to it: it was not made, or not removed, to the end"
        if creation_names(self._store, self._places):
            message = "no key leads to it: it was not made to the end, or is being made"
        if said is not None:
            message = f"its primary attributes are those of {other}, which their key leads to"
        keys = tuple(self._store.list(self._places.array(record.id)))
        act = partial(self._remove_orphan, record)
        yield remedy_at(
            self._holding.node(record.id),
            "orphan",
            message,
            self._places.array_document(record.id),
            "remove it",
            act,
            keys,
        )

    def _is_array_of(self, id: str, entry: str) -> bool:
        """Return whether an array with this id is there whose key this is; a damaged one may be."""
        try:
            data = self._store.get(self._places.array_document(id)) if is_id(id) else None
            if data is None:
                return False
            return self._holding.entry(self._holding.documents.record(data, id)) == entry
        except (FormatError, StorageError):
            return True

    def _remove_orphan(self, record: Record) -> None:
        """Nobody completes it while its key is held."""
        entry = self._holding.entry(record)
        claim = _CLAIM + os.urandom(8).hex().encode()
        try:
            put_new(self._store, [(entry, claim)], durable=False)
        except Conflict:
            value = self._store.get(entry) or b""
            id, batch = read_entry(value)
            if id == record.id and batch is not None and not self._holding.batches.release(entry, value):
                return
            if self._holding.is_committed(record):
                return
            claim = b""
        try:
            with self._holding.lock(record.id):
                self._holding.drop_array(record.id)
        except NodeNotFound:
            pass
        finally:
            if claim and self._store.get(entry) == claim:
                self._store.delete(entry)
        mark_settled(self._holding, record.id)

    def _key_entries(self) -> Iterator[Remedy]:
        folder = self._places.folder(KEYS)
        files, names = self._store.list_dir(folder)
        for name in sorted([*names, *(name for name in files if not is_entry(name))]):
            yield remedy_at(self._places.name, "stray", "this is no key entry", f"{folder}/{name}")
        entries = [f"{folder}/{name}" for name in files if is_entry(name)]
        for batch in batched((entry for entry in entries if entry not in self._right), BATCH):
            for entry, said in zip(batch, read_many(self._store, batch), strict=True):
                if isinstance(said, StorageError):
                    self._led_to.update(self._blank)  # any of them, for what is known
                    yield remedy_at(self._places.name, "stray", said.said, entry)
                elif said is not None:
                    yield from self._wrong_entry(entry, said)

    def _wrong_entry(self, entry: str, said: bytes) -> Iterator[Remedy]:
        id, batch = read_entry(said)
        self._led_to.add(id)
        if id in self._questioned:
            return
        if batch is not None and self._holding.batches.ids([said]) == [None]:
            if is_dead(self._store, self._places, batch):
                act = partial(self._release_entry, entry, said)
                message = "a writer died, or is at work, while it made the arrays of this key entry"
                yield remedy_at(self._places.name, "dangling-key", message, entry, "remove it", act, (entry,))
            return
        if not self._keyed or id in self._damaged or self._is_array_of(id, entry):
            if not self._keyed:
                yield remedy_at(self._places.name, "stray", "the schema has no primary attributes", entry)
            return
        ids = self._lacking.get(entry, [])
        if len(ids) == 1:
            message = "the key entry of the array leads elsewhere"
            act = partial(self._renew_entry, entry, said, ids[0])
            yield remedy_at(self._holding.node(ids[0]), "dangling-key", message, entry, "let it lead to the array", act)
            return
        act = partial(self._drop_entry, entry, said)
        yield remedy_at(
            self._places.name, "dangling-key", "a key entry leads to no array", entry, "remove it", act, (entry,)
        )

    def _renew_entry(self, entry: str, said: bytes, id: str) -> None:
        with self._holding.lock(id):
            if self._store.get(entry) == said:
                self._store.put(entry, id.encode(), durable=True)
        touch(self._store, self._places.generation(part_of(id)), durable=True)

    def _release_entry(self, entry: str, said: bytes) -> None:
        self._holding.batches.release(entry, said)

    def _drop_entry(self, entry: str, said: bytes) -> None:
        if self._store.get(entry) == said and not self._is_array_of(read_entry(said)[0], entry):
            self._store.delete(entry)


def _is_blank(document: bytes) -> bool:
    """Return whether it is what a file system leaves of a file whose bytes were never flushed."""
    return not document.strip(b"\0")
