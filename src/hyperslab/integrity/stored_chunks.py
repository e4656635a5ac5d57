"""The stored objects of one array, chunks or shards: what is wrong with each, what of it can be saved, what a chunk
holds that is whole and not what its document describes; and the meaning of names in the array's folder."""

from __future__ import annotations

import json
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.memory import require
from hyperslab.chunks.settings import Settings
from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.chain import Chain
from hyperslab.codecs.registry import CODECS, as_codecs, build_chain, canonical, shard_index
from hyperslab.codecs.sharding import MISSING, Entries
from hyperslab.errors import CorruptChunk, HyperslabError, UnsafePickle
from hyperslab.formats.rules import join_spans, span
from hyperslab.formats.zarr.chunks import MOST_DIGITS, ChunkKeys, KeyedChunks, KeyOf, coords_of_key
from hyperslab.formats.zarr.shards import ShardedChunks, open_chunks
from hyperslab.model.cells import Values
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.stores.base import Store
from hyperslab.stores.ranges import fetch_coalesced

OTHER_CELLS, UNREADABLE = "other-cells", "unreadable-chunk"
# Larger chunks are not tried under other codecs: to tell what they hold would take several times their memory.
_LARGEST = 64 << 20
_CHECKED = frozenset(name for name, entry in CODECS.items() if entry.is_checked)
_MEASURED = frozenset(name for name, entry in CODECS.items() if entry.is_measured)
_SELF_DESCRIBING = frozenset(name for name, entry in CODECS.items() if entry.is_self_describing)
# Cells of the chunk that a foreign compressor is tried as: it only sets how much memory may be taken.
_ROOM = 1 << 20


def content_of(chain: Chain, codecs: Sequence[Codec], data: Buffer, error: str) -> str | None:
    """Return what a chunk that does not decode holds, in words, if it is whole; None where its bytes may be damaged.

    ``error``: why it does not decode.
    """
    if len(data) > _LARGEST:
        return None
    names = {canonical(codec.name) for codec in codecs}
    wanted = chain.unpacked_size
    is_checked, is_measured = not names.isdisjoint(_CHECKED), not names.isdisjoint(_MEASURED)
    try:
        raw = chain.unpack(data)
    except (HyperslabError, MemoryError):
        if len(data) == wanted and is_measured | is_checked:
            return "bare cells"
        return _packed_by_another(data, names)
    if wanted is not None and len(raw) != wanted and (is_checked or is_measured):
        return f"{len(raw)} bytes in place of {wanted}"
    if (wanted is None or len(raw) == wanted) and (is_checked or _is_structured(raw)):
        return f"other cells ({error})"
    return _packed_by_another(data, names)


def _packed_by_another(data: Buffer, names: set[str]) -> str | None:
    """Return which compressor packed all bytes, in words, where the document does not name it; None where none did."""
    cells = ChunkLayout(np.dtype("u1"), (_ROOM,))
    for name in _SELF_DESCRIBING - names:
        with suppress(HyperslabError, MemoryError):
            if len(build_chain([Codec("bytes"), Codec(name)], cells).unpack(data)):
                return f"bytes that {name} packed"
    return None


def unpacked_size(data: Buffer) -> int | None:
    """Return how many bytes a chunk holds that some compressor packed whole; None where none did."""
    cells = ChunkLayout(np.dtype("u1"), (_ROOM,))
    for name in _SELF_DESCRIBING:
        with suppress(HyperslabError, MemoryError):
            return len(build_chain([Codec("bytes"), Codec(name)], cells).unpack(data))
    return None


def _is_structured(raw: Buffer) -> bool:
    """Return True if bytes are a sound chunk of an object codec, of whatever cells: a list of JSON, or counted
    items.
    """
    with suppress(ValueError, RecursionError):
        found = json.loads(bytes(raw))
        return isinstance(found, list) and len(found) > 2 and isinstance(found[-2], str) and isinstance(found[-1], list)
    return _is_counted(memoryview(raw))


def _is_counted(raw: memoryview) -> bool:
    """Return True if bytes are a count and so many items, each behind its length, and nothing else."""
    if len(raw) < 4:
        return False
    (count,), at = struct.unpack_from("<I", raw), 4
    if not 0 < count <= len(raw) // 4:
        return False
    for _ in range(count):
        if at + 4 > len(raw):
            return False
        at += 4 + struct.unpack_from("<I", raw, at)[0]
    return at == len(raw)


@dataclass(frozen=True, slots=True)
class ObjectFlaw:
    """A flaw of one stored object. ``cells``: of the inner chunks that it is about, as text; None: of all."""

    kind: str
    message: str
    cells: str | None = None


class ArrayObjects(ABC):
    """The stored objects of one array. ``grid``: of chunks, or shards; ``keys``: where they lie, with their locks."""

    grid: Grid
    keys: ChunkKeys

    @abstractmethod
    def examine(self, coords: Coords, key: str, *, deep: bool) -> Iterator[ObjectFlaw]:
        """Yield what is wrong with the object under ``key``; ``deep``: every cell is decoded."""

    @abstractmethod
    def salvage(self, coords: Coords, key: str) -> tuple[Any, str]:
        """Return what can be saved of a damaged object, as new bytes (None: nothing), and the cells that are lost, as
        text."""

    @abstractmethod
    def blank(self, coords: Coords) -> Any:
        """Return an object of nothing but fill values, as bytes: what takes the place of a lost one that cannot be
        deleted."""


class Chunks(ArrayObjects):
    """One object per chunk, under a chain of codecs."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, source: KeyedChunks) -> None:
        self.keys = keys
        self.grid = source.grid
        self._spec = spec
        self._chain = source.chain_for

    def examine(self, coords: Coords, key: str, *, deep: bool) -> Iterator[ObjectFlaw]:
        """Look at its length where that is known, and at its cells when ``deep``."""
        try:
            chain = self._chain(self.grid.chunk_shape(coords))
            size = self.keys.size(key)
            if size is None:
                return
            flaw = length_flaw(size, chain.size, chain.most_stored)
            if flaw is not None:
                is_too_long = chain.most_stored is not None and size > chain.most_stored
                data = None if is_too_long else self.keys.store.get(key)
                content = None if data is None else content_of(chain, self._spec.codecs, data, flaw.message)
                yield flaw if content is None else mismatch(content)
            elif deep:
                require(2 * (chain.cells.nbytes or 0) + size, self.keys.settings.memory_limit)
                data = self.keys.store.get(key)
                flaw = None if data is None else decode_flaw(chain, self._spec.codecs, data)
                if flaw is not None:
                    yield flaw
        except HyperslabError as error:
            yield flaw_of(error)

    def salvage(self, coords: Coords, key: str) -> tuple[Any, str]:
        """Return nothing: a chunk is whole or lost."""
        return None, span(self.grid.extent(coords))

    def blank(self, coords: Coords) -> Any:
        """Return a chunk of fill values."""
        shape = self.grid.chunk_shape(coords)
        return self._chain(shape).encode(np.ascontiguousarray(np.broadcast_to(self._spec.fill_cell(), shape)))


def length_flaw(size: int, fixed: int | None, most: int | None) -> ObjectFlaw | None:
    """Return what the stored length alone tells: ``fixed`` bytes are right where known, ``most`` never exceeded."""
    if not size and fixed != 0:
        return ObjectFlaw("empty-chunk", "the chunk has no bytes")
    if fixed is not None and size < fixed:
        return ObjectFlaw("truncated-chunk", f"the chunk has {size} bytes in place of {fixed}")
    if fixed is not None and size > fixed:
        return ObjectFlaw("oversized-chunk", f"the chunk has {size} bytes in place of {fixed}")
    if most is not None and size > most:
        return ObjectFlaw("oversized-chunk", f"the chunk has {size} bytes, more than its cells can take")
    return None


def mismatch(content: str) -> ObjectFlaw:
    """Return the flaw of a chunk that is whole, and holds something else than its document says."""
    return ObjectFlaw(OTHER_CELLS, f"the chunk holds {content}: its document is in question, and not the chunk")


def flaw_of(error: HyperslabError, content: str | None = None) -> ObjectFlaw:
    """Return what an error at reading means; ``content``: what the chunk holds, where it is whole."""
    match error:
        case CorruptChunk() if content is not None:
            return mismatch(content)
        case CorruptChunk():
            return ObjectFlaw("corrupt-chunk", error.said)
        case UnsafePickle():
            return ObjectFlaw("unsafe-pickle", error.said)
    return ObjectFlaw(UNREADABLE, error.said)


def decode_flaw(chain: Chain, codecs: Sequence[Codec], data: Buffer) -> ObjectFlaw | None:
    """Decode a chunk, and return why it cannot be decoded; None where it can."""
    try:
        chain.decode(data)
    except HyperslabError as error:
        return flaw_of(error, content_of(chain, codecs, data, error.said))
    return None


# Stored bytes of inner chunks that are fetched at once: many small ones come by one request, and a shard of any size is
# looked at in bounded memory.
_FETCHED = 16 << 20
KEPT = frozenset({OTHER_CELLS, UNREADABLE})
"""Kinds of inner chunks that are kept when their shard is written anew, as no rule mends them: their bytes may be sound
where their document is in question, or a limit refuses. Under any other kind they are lost."""


class Shards(ArrayObjects):
    """One object per shard: inner chunks and the index of them."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, source: ShardedChunks) -> None:
        self.keys = keys
        self.grid = source.grid.outer or source.grid
        self._inner = source.grid
        self._inner_chain = source.chain
        self._index = source.index
        self._codecs = as_codecs(spec.codecs[0].config["codecs"])
        self._checked = not _CHECKED.isdisjoint(codec.name for codec in self._codecs)

    # -- looking ----------------------------------------------------------------------------------------------------

    def examine(self, coords: Coords, key: str, *, deep: bool) -> Iterator[ObjectFlaw]:
        """Look at the index always, at the inner chunks when ``deep``."""
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
            written, bad = self._written(entries), self._index.unsound(entries, total)
            if bad.any():
                cells = self._cells_of_all(coords, bad)
                message = f"the inner chunks {cells} lie outside the shard, or over its index"
                yield ObjectFlaw("shard-range", message, cells)
            over = self._overlapping(entries, written & ~bad)
            if over.any():
                cells = self._cells_of_all(coords, over)
                yield ObjectFlaw("shard-overlap", f"the inner chunks {cells} share bytes of the shard", cells)
            for number, part in self._parts(key, entries, written & ~bad) if deep else ():
                flaw = decode_flaw(self._inner_chain, self._codecs, part)
                if flaw is not None:
                    cells = self._cells_of(coords, number)
                    yield ObjectFlaw(flaw.kind, f"inner chunk {cells}: {flaw.message}", cells)
        except _BrokenIndex as error:
            yield ObjectFlaw("shard-index", str(error))
        except HyperslabError as error:
            yield flaw_of(error)

    def _read_index(self, key: str, total: int) -> Any:
        size = self._index.nbytes
        place = (0, size) if self._index.location == "start" else (total - size, total)
        return self._get(key, [place])[0]

    def _get(self, key: str, ranges: list[tuple[int, int]]) -> list[Any]:
        parts = fetch_coalesced(partial(self.keys.store.get_ranges, key), ranges)
        if parts is None:
            raise CorruptChunk("the shard is gone")
        return parts

    def _entries(self, data: Any) -> Entries:
        try:
            return self._index.chain.decode(data).reshape(-1, 2)
        except CorruptChunk as error:
            raise _BrokenIndex(f"the index of the shard is damaged: {error.said}") from None

    @staticmethod
    def _written(entries: Entries) -> Values:
        """Return which entries are those of an inner chunk that was written."""
        return np.asarray((entries != np.uint64(MISSING)).any(axis=1))

    @staticmethod
    def _overlapping(entries: Entries, chosen: Values) -> Values:
        """Return which of the chosen entries share bytes with another one."""
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

    def _parts(self, key: str, entries: Entries, chosen: Values) -> Iterator[tuple[int, Any]]:
        """Yield the stored bytes of the chosen inner chunks by number, fetched some MiB at a time."""
        numbers: list[int] = []
        ranges: list[tuple[int, int]] = []
        nbytes = 0
        for number in np.flatnonzero(chosen).tolist():
            start, size = map(int, entries[number])
            if numbers and nbytes + size > _FETCHED:
                yield from zip(numbers, self._get(key, ranges), strict=True)
                numbers, ranges, nbytes = [], [], 0
            numbers.append(number)
            ranges.append((start, start + size))
            nbytes += size
        if numbers:
            yield from zip(numbers, self._get(key, ranges), strict=True)

    def _cells_of(self, coords: Coords, number: int) -> str:
        """Return the cells of an inner chunk of a shard."""
        local = np.unravel_index(number, self._index.counts) if self._index.counts else ()
        place = tuple(int(i * n + j) for i, n, j in zip(coords, self._index.counts, local, strict=True))
        return span(self._inner.extent(place))

    def _cells_of_all(self, coords: Coords, chosen: Values) -> str:
        """Return the cells of the chosen inner chunks of a shard, of the first ones by name."""
        return join_spans([self._cells_of(coords, number) for number in np.flatnonzero(chosen).tolist()])

    # -- saving -----------------------------------------------------------------------------------------------------

    def salvage(self, coords: Coords, key: str) -> tuple[Any, str]:
        """Return a shard without the inner chunks that are damaged, or a pickle that would run something; under a
        damaged index only of those with checksums."""
        whole = span(self.grid.extent(coords))
        total = self.keys.size(key) or 0
        entries = self._entries_or_guess(key, total) if total >= self._index.nbytes else None
        if entries is None:
            return None, whole
        written, bad = self._written(entries), self._index.unsound(entries, total)
        lost = [self._cells_of(coords, number) for number in np.flatnonzero(written & bad).tolist()]
        parts: list[Any] = [None] * len(entries)
        for number, part in self._parts(key, entries, written & ~bad):
            flaw = decode_flaw(self._inner_chain, self._codecs, part)
            if flaw is not None and flaw.kind not in KEPT:
                lost.append(self._cells_of(coords, number))
                continue
            parts[number] = bytes(part)
        saved = None if all(part is None for part in parts) else self._index.join(parts)
        return saved, join_spans(lost)

    def blank(self, coords: Coords) -> Any:
        """Return a shard in which nothing is written."""
        return self._index.join([None] * self._index.size)

    def _entries_or_guess(self, key: str, total: int) -> Entries | None:
        raw = self._read_index(key, total)
        try:
            return self._entries(raw)
        except _BrokenIndex:
            names = [codec.name for codec in self._index.codecs]
            if not self._checked or names != ["bytes", "crc32c"]:
                return None
            guess = shard_index(self._index.counts, self._index.codecs[:1], self._index.location, self._index.most)
            return guess.chain.decode(raw[: guess.nbytes]).reshape(-1, 2)


class _BrokenIndex(Exception):
    """The index cannot be read."""


def open_objects(store: Store, path: str, key_of: KeyOf, spec: ArraySpec, settings: Settings) -> ArrayObjects:
    """Return the objects of an array; the errors of a chain that cannot be built are those of opening the array."""
    keys = ChunkKeys(store, path, key_of, settings)
    source = open_chunks(keys, spec)
    if isinstance(source, ShardedChunks):
        return Shards(keys, spec, source)
    if not isinstance(source, KeyedChunks):
        raise TypeError(f"chunks under keys are {type(source).__name__}")
    return Chunks(keys, spec, source)


# -- names of chunks ---------------------------------------------------------------------------------------------------

_NUMBER = rf"[0-9]{{1,{MOST_DIGITS}}}"
_LIKE_A_KEY = re.compile(rf"(?:c[./]?)?{_NUMBER}(?:[./]{_NUMBER})*|c")
_LIKE_A_FOLDER = re.compile(rf"(?:c|(?:c/)?{_NUMBER}(?:[./]{_NUMBER})*)")
_NUMBERS = re.compile(r"[0-9]+")


class ChunkNames:
    """The key rule of one array, read backwards."""

    def __init__(self, key_of: KeyOf, grid: Grid) -> None:
        self._key_of = key_of
        self._grid = grid
        self._ndim = len(grid.axes)

    def coords(self, name: str) -> Coords | None:
        """Return the coordinates of which this is the key, within the grid or not; None when it is no key."""
        return coords_of_key(self._key_of, self._ndim, name)

    def within(self, coords: Coords) -> bool:
        """Return True if the grid has this chunk."""
        return has_chunk(self._grid, coords)

    def meant(self, name: str) -> Coords | None:
        """Return the chunk of the grid that a key in another spelling seems to mean."""
        if not _LIKE_A_KEY.fullmatch(name):
            return None
        numbers = tuple(map(int, _NUMBERS.findall(name)))
        return numbers if len(numbers) == self._ndim and self.within(numbers) else None

    def leads_to_keys(self, folder: str) -> bool:
        """Return True if chunks may lie below a folder, by its name."""
        return _LIKE_A_FOLDER.fullmatch(folder) is not None and len(_NUMBERS.findall(folder)) < max(self._ndim, 1)

    def is_alike(self, name: str) -> bool:
        """Return True if a name looks like a chunk's, of whatever array."""
        return _LIKE_A_KEY.fullmatch(name) is not None


def has_chunk(grid: Grid, coords: Coords) -> bool:
    """Return True if a grid has the chunk of these coordinates, which are not negative."""
    return all(index < axis.count for index, axis in zip(coords, grid.axes, strict=True))


def looks_like_chunks(names: Iterable[str], folders: Iterable[str]) -> bool:
    """Return True if a folder without documents holds what seem to be chunks of an array."""
    return any(map(_LIKE_A_KEY.fullmatch, names)) or any(map(_LIKE_A_FOLDER.fullmatch, folders))
