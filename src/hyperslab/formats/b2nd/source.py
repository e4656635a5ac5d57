"""The chunks of an array of blosc2, or of a coordinate in memory, as slices of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.errors import HyperslabError, ReadOnly
from hyperslab.model.spec import ArraySpec

Part = tuple[slice, ...]


class Cells(Protocol):
    """What the cells of one array are read from, and written to."""

    def read(self, part: Part, out: Block) -> None: ...
    def write(self, part: Part, cells: Block) -> None: ...


class MemoryCells:
    """All cells of a small array."""

    def __init__(self, array: Block) -> None:
        self.array = array

    def read(self, part: Part, out: Block) -> None:
        out[...] = self.array[part]

    def write(self, part: Part, cells: Block) -> None:
        self.array[part] = cells


class SlicedChunks:
    """Chunks as slices of the cells that ``find`` gives; without ``changing``, which gives them for a change, writes
    are refused."""

    def __init__(
        self,
        spec: ArraySpec,
        find: Callable[[], Cells],
        place: tuple[str, str],
        changing: Callable[[], AbstractContextManager[Cells]] | None = None,
    ) -> None:
        self._spec = spec
        self._grid = Grid.of(spec.shape, spec.chunks)
        self._find = find
        self._url, self._node = place
        self._changing = changing
        self._lock = threading.RLock()

    @property
    def grid(self) -> Grid:
        """The chunk grid of the file; of a coordinate, the one that it was made with."""
        return self._grid

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read the chunk into ``out``; what reaches past the array's edge holds the fill value. Always True."""
        extent = self._grid.extent(coords)
        inside: tuple[Any, ...] = tuple(slice(0, part.stop - part.start) for part in extent)
        if out[(*inside, ...)].shape != out.shape:
            out[...] = self._spec.fill_cell()
        self._read(coords, extent, out[(*inside, ...)])
        return True

    def read(self, coords: Coords) -> Block:
        """The chunk in memory of its own."""
        block = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        self.read_into(coords, block)
        return block

    def read_part(self, coords: Coords, within: Part, out: Block) -> bool:
        """Read only the blocks that hold the cells ``within``. Always True."""
        if any((cut.step or 1) != 1 for cut in within) or out.ndim != len(within):
            out[...] = self.read(coords)[within]
            return True
        origin = self._grid.origin(coords)
        part = tuple(slice(at + cut.start, at + cut.stop) for at, cut in zip(origin, within, strict=True))
        self._read(coords, part, out)
        return True

    def _read(self, coords: Coords, part: Part, out: Block) -> None:
        try:
            self._find().read(part, out)
        except HyperslabError as error:
            key = f"chunk {', '.join(map(str, coords))}"
            raise error.locate(url=self._url, node=self._node, key=key) from error.__cause__

    def write(self, coords: Coords, block: Block) -> None:
        """Put the chunk's cells inside the array."""
        if self._changing is None:
            raise ReadOnly("this array is open for reading", remedy="open it with mode='r+'")
        extent = self._grid.extent(coords)
        inside: tuple[Any, ...] = tuple(slice(0, part.stop - part.start) for part in extent)
        with self._changing() as cells:
            cells.write(extent, block[(*inside, ...)])

    def erase(self, coords: Coords) -> None:
        """Write the fill value, which blosc2 stores in a few bytes."""
        self.write(coords, np.full(self._grid.chunk_shape(coords), self._spec.fill_cell(), self._spec.numpy_dtype))

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """One after the other; they become visible, and durable, when the dataset is closed."""
        for coords, block in pairs:
            self.write(coords, block)

    def stored(self) -> Iterator[Coords]:
        """Every chunk."""
        return iter(self._grid)

    @contextmanager
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> Iterator[None]:
        """Hold the array, which no other process sees yet, against other threads."""
        with self._lock:
            yield


class StoredSlices(SlicedChunks):
    """The same where the size of what is stored is known: of each chunk, by ``sizes``, in C order."""

    def __init__(
        self,
        spec: ArraySpec,
        find: Callable[[], Cells],
        place: tuple[str, str],
        sizes: Callable[[], list[int]],
        stored: Callable[[int], bytes | None],
    ) -> None:
        super().__init__(spec, find, place)
        self._sizes = sizes
        self._stored = stored

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes that these chunks take."""
        sizes = self._sizes()
        return sum(sizes[number] for number in map(self._number, coords) if number < len(sizes))

    def stored_bytes(self, coords: Coords) -> bytes | None:
        """What is stored of a chunk, whatever is wrong with it; None when blosc2 does not give it."""
        return self._stored(self._number(coords))

    def _number(self, coords: Coords) -> int:
        return int(np.ravel_multi_index(coords, self._grid.counts)) if coords else 0

    def nbytes_stored(self) -> int:
        """Bytes that all chunks take."""
        return sum(self._sizes())


def whole(shape: tuple[int, ...]) -> Part:
    """All cells."""
    return tuple(slice(0, length) for length in shape)


def all_cells(cells: Cells, spec: ArraySpec) -> np.ndarray[Any, Any]:
    """All cells of an array in memory."""
    out = np.empty(spec.shape, spec.numpy_dtype)
    cells.read(whole(spec.shape), out)
    return out
