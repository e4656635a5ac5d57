"""Shards: the index of each is checked entry by entry, its inner chunks one by one; the sound ones can be saved."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import numpy as np

from hyperslab.checks.chunk_content import CHECKED, content_of
from hyperslab.checks.objects import ObjectFlaw, flaw_of, span
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import as_codecs, build_chain
from hyperslab.codecs.shard_index import MISSING, Entries, ShardIndex
from hyperslab.errors import CorruptChunk, HyperslabError
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import GetRanges
from hyperslab.stores.ranges import fetch_coalesced

_BATCH = 16 << 20
"""Stored bytes of inner chunks that are fetched at once."""
_SHOWN = 6
Inner = tuple[int, int, int]
"""Number, offset and length of an inner chunk."""


class Shards:
    """One object per shard: inner chunks and the index of them."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, grid: Grid) -> None:
        config = spec.codecs[0].config
        inner = tuple(int(size) for size in config["chunk_shape"])
        codecs = as_codecs(config["codecs"])
        self.keys = keys
        self.grid = grid
        self._inner = Grid.of(spec.shape, inner, grid)
        self._chain = build_chain(codecs, ChunkLayout(spec.dtype, inner, spec.fill_value))
        self._codecs = codecs
        self._checked = not CHECKED.isdisjoint(codec.name for codec in codecs)
        counts = tuple(a // b for a, b in zip(grid.fixed or (), inner, strict=True))
        location = config.get("index_location", "end")
        self._index = ShardIndex.of(counts, as_codecs(config["index_codecs"]), location, self._chain.most_stored)

    # -- looking ----------------------------------------------------------------------------------------------------

    def examine(self, coords: Coords, key: str, *, deep: bool) -> Iterator[ObjectFlaw]:
        """The index always, the inner chunks when ``deep``."""
        try:
            total = self.keys.size(key)
            if total is None:
                return
            if not total:
                yield ObjectFlaw("empty-chunk", "the shard has no bytes")
                return
            if total < self._index.nbytes:
                expected = self._index.nbytes
                yield ObjectFlaw(
                    "truncated-chunk", f"the shard has {total} bytes, fewer than the {expected} of its index"
                )
                return
            entries = self._entries(self._read_index(key, total))
            sound = yield from self._ranges(coords, entries, total)
            if deep:
                yield from self._cells(coords, key, sound)
        except _BrokenIndex as error:
            yield ObjectFlaw("shard-index", str(error))
        except HyperslabError as error:
            yield flaw_of(error)

    def _read_index(self, key: str, total: int) -> Any:
        size = self._index.nbytes
        span = (0, size) if self._index.location == "start" else (total - size, total)
        return self._get(key, [span])[0]

    def _get(self, key: str, ranges: list[tuple[int, int]]) -> list[Any]:
        store = self.keys.store
        if isinstance(store, GetRanges):
            parts: list[Any] | None = fetch_coalesced(partial(store.get_ranges, key), ranges)
        else:
            data = store.get(key)
            parts = None if data is None else [data[start:stop] for start, stop in ranges]
        if parts is None:
            raise CorruptChunk("the shard is gone")
        return parts

    def _entries(self, data: Any) -> Entries:
        try:
            return self._index.chain.decode(data).reshape(-1, 2)
        except CorruptChunk as error:
            raise _BrokenIndex(f"the index of the shard is damaged: {error.said}") from None

    def _ranges(self, coords: Coords, entries: Entries, total: int) -> Generator[ObjectFlaw, None, list[Inner]]:
        """A flaw for the entries that lead out of the shard, one for those that overlap; the others are given."""
        bad = self._index.unsound(entries, total)
        written = (entries != np.uint64(MISSING)).any(axis=1)
        if bad.any():
            yield ObjectFlaw("shard-range", f"{self._named(coords, bad)} lie outside the shard, or over its index")
        over = written & ~bad & self._overlapping(entries, written & ~bad)
        if over.any():
            yield ObjectFlaw("shard-overlap", f"{self._named(coords, over)} share bytes of the shard")
        return _ranges_of(entries, np.flatnonzero(written & ~bad).tolist())

    @staticmethod
    def _overlapping(entries: Entries, chosen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Which of the chosen entries share bytes with another one."""
        over = np.zeros(len(entries), bool)
        numbers = np.flatnonzero(chosen & (entries[:, 1] > 0))
        numbers = numbers[np.argsort(entries[numbers, 0], kind="stable")]
        if not numbers.size:
            return over
        starts, stops = entries[numbers, 0], entries[numbers, 0] + entries[numbers, 1]
        reached = np.maximum.accumulate(stops)
        clash = np.flatnonzero(starts[1:] < reached[:-1])
        over[numbers[clash + 1]] = True
        over[numbers[clash]] = True
        return over

    def _cells(self, coords: Coords, key: str, sound: list[Inner]) -> Iterator[ObjectFlaw]:
        for number, part in self._parts(key, sound):
            try:
                self._chain.decode(part)
            except HyperslabError as error:
                flaw = flaw_of(error, content_of(self._chain, self._codecs, part, error.said))
                yield ObjectFlaw(flaw.kind, f"inner chunk {self._cells_of(coords, number)}: {flaw.message}")

    def _parts(self, key: str, sound: list[Inner]) -> Iterator[tuple[int, Any]]:
        """The stored bytes of inner chunks by number, fetched some MiB at a time."""
        for batch in _batches(sound):
            ranges = [(start, start + size) for _, start, size in batch]
            yield from zip((number for number, _, _ in batch), self._get(key, ranges), strict=True)

    def _cells_of(self, coords: Coords, number: int) -> str:
        """The cells of an inner chunk of a shard."""
        local = np.unravel_index(number, self._index.counts) if self._index.counts else ()
        place = tuple(int(i * n + j) for i, n, j in zip(coords, self._index.counts, local, strict=True))
        return span(self._inner, place)

    def _named(self, coords: Coords, chosen: np.ndarray[Any, Any]) -> str:
        numbers = np.flatnonzero(chosen).tolist()
        return f"the inner chunks {_listed([self._cells_of(coords, number) for number in numbers])}"

    # -- saving -----------------------------------------------------------------------------------------------------

    def salvage(self, coords: Coords, key: str) -> tuple[Any, str]:
        """A shard of the inner chunks that decode; under a damaged index only those with checksums of their own."""
        whole = span(self.grid, coords)
        total = self.keys.size(key) or 0
        entries = self._entries_or_guess(key, total) if total >= self._index.nbytes else None
        if entries is None:
            return None, whole
        written = (entries != np.uint64(MISSING)).any(axis=1)
        bad = self._index.unsound(entries, total)
        lost = [self._cells_of(coords, number) for number in np.flatnonzero(written & bad).tolist()]
        sound = np.flatnonzero(written & ~bad).tolist()
        parts: list[Any] = [None] * len(entries)
        for number, part in self._parts(key, _ranges_of(entries, sound)):
            if self._is_kept(part):
                parts[number] = bytes(part)
            else:
                lost.append(self._cells_of(coords, number))
        saved = None if all(part is None for part in parts) else self._index.join(parts)
        return saved, _listed(lost)

    def blank(self, coords: Coords) -> Any:
        """A shard in which nothing is written."""
        return self._index.join([None] * self._index.size)

    def _entries_or_guess(self, key: str, total: int) -> Entries | None:
        raw = self._read_index(key, total)
        try:
            return self._entries(raw)
        except _BrokenIndex:
            names = [codec.name for codec in self._index.codecs]
            if not self._checked or names != ["bytes", "crc32c"]:
                return None
            guess = ShardIndex(self._index.counts, self._index.codecs[:1], self._index.location, self._index.most)
            return guess.chain.decode(raw[: guess.nbytes]).reshape(-1, 2)

    def _is_kept(self, part: bytes) -> bool:
        """Return whether an inner chunk is kept: its cells are those of the document, or the document is in
        question.
        """
        try:
            self._chain.decode(part)
        except HyperslabError as error:
            return content_of(self._chain, self._codecs, part, error.said) is not None
        return True


class _BrokenIndex(Exception):
    """The index cannot be read."""


def _ranges_of(entries: Entries, numbers: list[int]) -> list[Inner]:
    return [(number, int(entries[number, 0]), int(entries[number, 1])) for number in numbers]


def _batches(sound: list[Inner]) -> Iterator[list[Inner]]:
    """Inner chunks, as many at a time as have some MiB together."""
    batch: list[Inner] = []
    held = 0
    for entry in sound:
        if batch and held + entry[2] > _BATCH:
            yield batch
            batch, held = [], 0
        batch.append(entry)
        held += entry[2]
    if batch:
        yield batch


def _listed(places: list[str]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more
