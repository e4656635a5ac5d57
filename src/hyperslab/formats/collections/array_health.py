"""What is wrong with one array of a collection: its document beside the schema, its shards and the chunks in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, HyperslabError, Problem, StorageError
from hyperslab.formats.base import Remedy
from hyperslab.formats.collections.pending import PendingTiles
from hyperslab.formats.collections.places import ARRAY
from hyperslab.formats.collections.stored import StoredCollection
from hyperslab.formats.collections.tiles import Tiles
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.shards import ShardedChunks, open_chunks
from hyperslab.formats.zarr3.document import key_of
from hyperslab.model.spec import ArraySpec
from hyperslab.stores import counting


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
