"""One column of a Blaze directory: its data files, the numbers of the chunks in them, and how chunks are read.

Each data file holds the chunks of a superchunk: as many in each, or as many as each file's header says. A read fetches
a file's offsets and the ranges that it needs, or the whole file when most of it is wanted. What was never written, or
is shorter than the array is long, reads as the fill value.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkReader, DecodingSource
from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.blosc import Blosc, container
from hyperslab.errors import Conflict, CorruptChunk, FormatError, HyperslabError
from hyperslab.formats.blaze.data_file import ChunkOffsets, read_index, verify_chunk
from hyperslab.formats.blaze.document import DATA, ColumnStorage, row_bytes
from hyperslab.formats.bloscpack.preamble import SIZE
from hyperslab.formats.zarr.chunks import ChunkKeys, KeyOf
from hyperslab.formats.zarr.shards import ShardIndexCache
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store
from hyperslab.stores.ranges import fetch_coalesced

# `data/__1__.bin` of Blaze counts from 1, `data/__0.blp` of bcolz from 0; 18 digits fit in 64 bits.
_NAMES = {"blaze": re.compile(r"__([1-9]\d{0,17})__\.bin"), "bcolz": re.compile(r"__(0|[1-9]\d{0,17})\.blp")}


class DataKeys(ChunkKeys):
    """The data files of one column; all columns of an array share the lock in its folder ``root``."""

    def __init__(
        self,
        store: Store,
        root: str,
        column: Sequence[str],
        layout: str,
        settings: Settings,
        on_write: Callable[[], None] | None = None,
    ) -> None:
        folder = "/".join((*([root] if root else []), DATA, *column))
        super().__init__(store, folder, _FILE_NAMES[layout], settings)
        self._root = root
        self._locks = ChunkKeys(store, root, _FILE_NAMES[layout], settings)
        self._on_write = on_write
        self._pattern = _NAMES[layout]
        self._first = 1 if layout == "blaze" else 0

    @property
    def data(self) -> str:
        """The folder of the data files of all columns."""
        return f"{self._root}/{DATA}" if self._root else DATA

    def key(self, place: int) -> str:
        """Return the key of a superchunk."""
        return self.prefix + self.key_of((place,))

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold superchunks against other writers."""
        return self._locks.lock(coords, timeout)

    def require_writable(self) -> None:
        """Raise ReadOnly when the store takes no writes; this comes before each of them."""
        super().require_writable()
        if self._on_write is not None:
            self._on_write()

    def places(self) -> tuple[list[int], list[str]]:
        """Return the superchunks that are there, and the names of whatever else is."""
        names = self.store.list_dir(self.folder)[0]
        found = [(name, self._pattern.fullmatch(name)) for name in names]
        return (
            sorted(int(match[1]) - self._first for _, match in found if match),
            [name for name, match in found if match is None],
        )


_FILE_NAMES: dict[str, KeyOf] = {
    "blaze": lambda place: f"__{place[0] + 1}__.bin",
    "bcolz": lambda place: f"__{place[0]}.blp",
}


@dataclass(frozen=True)
class Numbering:
    """``per`` chunks in each file; with ``edges`` file ``i`` begins with chunk ``edges[i]``, ``per`` is the most."""

    per: int
    edges: tuple[int, ...] | None = None

    @classmethod
    def of(cls, per: int, counts: Sequence[int] | None) -> Numbering:
        """Return the numbering of files with so many chunks each; None: all have ``per``."""
        return cls(per) if counts is None else cls(max(counts, default=1), (0, *accumulate(counts)))

    def find(self, number: int) -> tuple[int, int]:
        """Return the file of a chunk, and the chunk's number in it."""
        if self.edges is None:
            return divmod(number, self.per)
        place = bisect_right(self.edges, number) - 1
        return place, number - self.edges[place]

    def first(self, place: int) -> int:
        """Return the first chunk of a file."""
        if self.edges is None:
            return place * self.per
        return self.edges[min(place, len(self.edges) - 1)]

    def places(self, chunks: int) -> int:
        """Return how many files so many chunks take."""
        return self.find(chunks - 1)[0] + 1 if chunks else 0


def chunk_counts(found: Sequence[int | None], chunks: int, column: str) -> tuple[int, list[int] | None]:
    """Return the chunks in a file, and those in each file where they differ, of an array of so many chunks.

    ``found``: what the header of each file says, None where it cannot be read. FormatError where it must be known.
    """
    per = next((count for count in found if count is not None), 1)
    needed = found[: max(1, -(-chunks // per))]
    last = needed[-1] if needed else None
    if all(count in (None, per) for count in needed[:-1]) and (last is None or last <= per):
        return per, None
    counts: list[int] = []
    for count in found:
        if count is None or sum(counts) >= chunks:
            break
        counts.append(count)
    if sum(counts) != chunks:
        text = ", ".join("?" if count is None else str(count) for count in found[:20])
        where = f" of {column}" if column else ""
        raise FormatError(
            f"the superchunks{where} hold {text} chunks, the array has {chunks}: nobody can tell which are where",
            remedy="look for a file that is damaged or missing",
        )
    return max(counts), counts


SUPERCHUNK_TRIES = 20  # a file replaced this often while its parts are fetched has a writer that never rests
Stored = tuple[Buffer, ChunkOffsets, int] | None
"""What lies in the span of a chunk, the index of its file, its number there; None where nothing was written."""


class FetchedChunks(ChunkReader):
    """Stored chunks, to be decoded; the ``version`` of the file where it came with them."""

    def __init__(self, column: Column, parts: Mapping[Coords, Stored], version: Any = None) -> None:
        self.version = version
        self.grid = column.grid
        self._column = column
        self._parts = parts

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written. CorruptChunk names file and chunk."""
        stored, column = self._parts[coords], self._column
        if stored is None:
            return False
        try:
            chunk, nbytes = verify_chunk(*stored)
            if nbytes == out.nbytes:
                column.decode(chunk, out.reshape(-1).view(np.uint8).data)
                return True
            row = column.row
            rows = nbytes // row if row else 0
            if rows * row != nbytes or nbytes > out.nbytes:
                raise CorruptChunk("the chunk is of no whole number of rows", expected=row, found=nbytes)
            column.decode(chunk, out[:rows].reshape(-1).view(np.uint8).data)
            out[rows:] = column.fill
        except HyperslabError as error:
            raise column.locate_error(error, coords) from error.__cause__
        return True


class Column(DecodingSource):
    """The chunks of a column. ``fill``: the fill value of its last axes, where it is no single cell; ``counts``: the
    chunks in each file, where they differ; ``exact``: a write cuts off what lies behind the last row of ``spec``, else
    it is kept, for another writer may have made the array longer."""

    uses_compare_and_swap = False

    def __init__(
        self,
        keys: DataKeys,
        spec: ArraySpec,
        fill: Any = None,
        *,
        exact: bool = False,
        counts: Sequence[int] | None = None,
    ) -> None:
        storing = ColumnStorage.of(spec)
        self.numbering = Numbering.of(storing.per, counts)
        storing = replace(storing, per=self.numbering.per)
        self.keys = keys
        self.dtype = spec.numpy_dtype
        self._spec = spec
        self._exact = exact
        outer = Grid.of(spec.shape, spec.chunks) if spec.inner_chunks else None
        self.grid = Grid.of(spec.shape, spec.inner_chunks or spec.chunks, outer)
        self.per = self.numbering.per
        # A superchunk of several chunks is fetched with the stamp that comes with its index.
        swaps = self.uses_compare_and_swap
        self.traits = replace(
            keys.source_traits, in_files=False, fetches=True, swaps=swaps, reads_stamps=swaps and self.per > 1
        )
        self.row = row_bytes(spec)
        self._rows = spec.shape[0] if spec.shape else 1
        self.chunk_rows = storing.rows if spec.shape else 1
        self.shape = storing.shape_of(self.row, spec.numpy_dtype.itemsize)
        self.fill = spec.fill_cell() if fill is None else fill
        self._blosc = Blosc(storing.codec.config, ChunkLayout(spec.numpy_dtype, (self.chunk_rows,)))
        self.decode = self._blosc.decode_into
        self.chunks = -(-self._rows // self.chunk_rows)
        """Chunks that the array has."""
        self.places = self.numbering.places(self.chunks)
        """Superchunks that the array has."""
        self._indexes: ShardIndexCache[ChunkOffsets] = ShardIndexCache()
        self._blanks: dict[int, bytes] = {}

    def count(self, place: int) -> int:
        """Return the chunks of the array in a superchunk."""
        if self.numbering.edges is None:  # without calls: it is asked for each chunk that is read
            return max(0, min(self.per, self.chunks - place * self.per))
        first, behind = self.numbering.first(place), self.numbering.first(place + 1)
        return max(0, min(behind, self.chunks) - first)

    def size(self, number: int) -> int:
        """Return the decoded bytes of a chunk of the array."""
        return max(0, min(self.chunk_rows, self._rows - number * self.chunk_rows)) * self.row

    def _number(self, coords: Coords) -> int:
        return coords[0] if coords else 0

    def _by_place(self, coords: Iterable[Coords]) -> dict[int, dict[Coords, int]]:
        """Return the chunks of each superchunk, with their numbers in it."""
        found: dict[int, dict[Coords, int]] = {}
        is_even = self.numbering.edges is None
        for each in coords:
            number = each[0] if each else 0
            place, number = divmod(number, self.per) if is_even else self.numbering.find(number)
            found.setdefault(place, {})[each] = number
        return found

    # -- reading ----------------------------------------------------------------------------------------------------

    def fetch(self, coords: Sequence[Coords]) -> FetchedChunks:
        """Get what is stored of these chunks: by ranges, or files whole when most of them is wanted."""
        parts: dict[Coords, Stored] = {}
        version = None
        for place, members in self._by_place(coords).items():
            key = self.keys.key(place)
            try:
                found, version = self._stored(place, key, list(members.values()))
            except HyperslabError as error:
                raise error.locate(url=self.keys.store.url, key=key) from error.__cause__
            parts |= zip(members, found, strict=True)
        return FetchedChunks(self, parts, version)

    def _stored(self, place: int, key: str, numbers: Sequence[int]) -> tuple[list[Stored], Any]:
        if self._wants_most(place, numbers) and (self.keys.size(key) or 0) <= self._most(self.count(place)):
            data = self.keys.store.get(key)
            return ([None] * len(numbers) if data is None else self._cut(data, numbers)), None
        # Index and chunks must be of one version of the file: its stamp is compared after the chunks were read.
        for _ in range(SUPERCHUNK_TRIES):
            stamp, index = self._index_now(place, key)
            if index is None:
                return [None] * len(numbers), None
            there = [number for number in numbers if number < index.count]
            get_ranges, spans = self.keys.store.get_ranges, index.spans(there)
            found = get_ranges(key, spans) if len(spans) == 1 else fetch_coalesced(partial(get_ranges, key), spans)
            if found is not None and (stamp is None or self.keys.stamp(key) == stamp):
                return align_parts(numbers, there, found, index), None
        raise Conflict("the superchunk is being replaced all the time", remedy="try again")

    def _wants_most(self, place: int, numbers: Sequence[int]) -> bool:
        # From half of the chunks on, one request for the whole file takes the place of two: its index, and ranges.
        return 2 * len(numbers) >= (self.count(place) or self.per)

    def _most(self, chunks: int) -> int:
        """Return the bytes of a file beyond which it is not read whole: twice what its chunks may take."""
        return 4096 + 2 * (SIZE + max(chunks, 1) * (8 + self.shape.most_stored))

    @property
    def _limit(self) -> int:
        """Bytes of a file beyond which it is damaged: twice what a whole superchunk may take, for the file may be of a
        time when the array was longer."""
        return self._most(self.per)

    def _head(self, place: int) -> int:
        """Return the bytes from which the places of a superchunk's chunks should be known."""
        return SIZE + 8 * max(self.count(place), 1)

    def _cut(self, data: Buffer, numbers: Sequence[int]) -> list[Stored]:
        index, view = self.index_of(data), memoryview(data)
        there = [number for number in numbers if number < index.count]
        return align_parts(numbers, there, [view[start:stop] for start, stop in index.spans(there)], index)

    def index_of(self, data: Buffer) -> ChunkOffsets:
        """Return the index of a whole file."""
        index = read_index(data, len(data), self.shape)
        assert isinstance(index, ChunkOffsets)
        return index

    def _index_now(self, place: int, key: str) -> tuple[object, ChunkOffsets | None]:
        """Return the stamp of a file and its index, of one version."""
        for _ in range(SUPERCHUNK_TRIES):
            stamp = self.keys.stamp(key)
            if stamp is None and self.keys.has_stamps:  # one that appears now would have no stamp to hold it to
                return None, None
            known = self._indexes.get(key)
            if known is not None and stamp is not None and known[0] == stamp:
                return known
            try:
                index = self._read_index(place, key)
            except HyperslabError:
                if stamp is None or self.keys.stamp(key) == stamp:
                    raise
                continue
            if index is not None and self.keys.stamp(key) == stamp:
                self._indexes.remember(key, stamp, index)
            elif index is not None:
                continue
            return stamp, index
        raise Conflict("the superchunk is being replaced all the time", key=key, remedy="try again")

    def _read_index(self, place: int, key: str) -> ChunkOffsets | None:
        total = self.keys.size(key)
        need = None if total is None else min(self._head(place), total)
        while total is not None and need is not None:
            found = self.keys.store.get_ranges(key, [(0, need)])
            if found is None:
                break
            if len(found[0]) < need:
                raise CorruptChunk("the file became shorter while it was read", expected=need, found=len(found[0]))
            index = read_index(found[0], total, self.shape)
            if isinstance(index, ChunkOffsets):
                return index
            need = index
            if need > self._limit:
                raise CorruptChunk("the file is longer than its chunks can be", expected=self._limit, found=total)
        return None

    def locate_error(self, error: HyperslabError, coords: Coords) -> HyperslabError:
        """Return the error with the file and the number in it of a chunk."""
        place, number = self.numbering.find(self._number(coords))
        return error.locate(url=self.keys.store.url, key=f"{self.keys.key(place)} chunk {number}")

    def read_into(self, coords: Coords, out: Block) -> bool:
        return self.fetch([coords]).read_into(coords, out)

    @property
    def blosc_container(self) -> Hashable | None:
        """The contents of the chunks, which are bare Blosc buffers."""
        return container(self._spec.numpy_dtype, self.grid.fixed or ())

    pads_edges = False

    def read_blosc(self, coords: Coords) -> bytes | None:
        """Return the bare Blosc chunk, its digest verified; None when it was never written, CorruptChunk names it."""
        stored = self.fetch([coords])._parts[coords]
        try:
            return None if stored is None else bytes(verify_chunk(*stored)[0])
        except HyperslabError as error:
            raise self.locate_error(error, coords) from error.__cause__

    def index_at(self, place: int) -> ChunkOffsets | None:
        """Return where the chunks of a superchunk lie; None when it is missing."""
        return self._index_now(place, self.keys.key(place))[1]

    def rows_of(self, place: int) -> tuple[int, int]:
        """Return the first row of a superchunk, and the one behind its last."""
        first, behind = (self.numbering.first(each) * self.chunk_rows for each in (place, place + 1))
        return first, max(first, min(behind, self._rows))

    def is_short(self, place: int) -> bool:
        """Return True if a superchunk holds fewer rows than the array has there."""
        index = self.index_at(place)
        count = self.count(place)
        if index is None or index.count < count:
            return True
        return bool(count) and index.count == count and index.last < self.size(self.numbering.first(place) + count - 1)

    # -- what is there ----------------------------------------------------------------------------------------------

    def stamp(self, coords: Coords) -> object:
        """Return what identifies the stored version of the chunk's superchunk."""
        return self.keys.stamp(self.keys.key(self.numbering.find(self._number(coords))[0]))

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the superchunks of these chunks against other writers."""
        return self.keys.lock({self.numbering.find(self._number(each))[:1] for each in coords}, timeout)

    def stored_coords(self) -> Iterator[Coords]:
        rest = (0,) * (len(self.grid.axes) - 1)
        for place in self.keys.places()[0]:
            index = self.index_at(place)
            for local in range(0 if index is None else index.count):
                yield (self.numbering.first(place) + local, *rest) if self.grid.axes else ()

    def nbytes_stored(self) -> int:
        """Return the bytes of all data files."""
        return self.keys.stored_sizes(map(self.keys.key, self.keys.places()[0]))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return the bytes of these chunks within their files, of which the headers are read."""
        found = 0
        for place, members in self._by_place(coords).items():
            index = self.index_at(place)
            there = [] if index is None else [number for number in members.values() if number < index.count]
            spans = [] if index is None else index.spans(there)
            found += sum(stop - start for start, stop in spans)
        return found


def align_parts(
    numbers: Sequence[int], there: Sequence[int], found: Sequence[Buffer], index: ChunkOffsets
) -> list[Stored]:
    """Return what was ``found`` of the chunks that are ``there`` in the order of all ``numbers``, None for the
    others."""
    parts = dict(zip(there, found, strict=True))
    return [(parts[number], index, number) if number in parts else None for number in numbers]
