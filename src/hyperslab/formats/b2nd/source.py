"""The chunks of an array of blosc2, or of a coordinate in memory, as slices of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block
from hyperslab.errors import HyperslabError
from hyperslab.formats.library_array import Part, SlicedArray
from hyperslab.model.spec import ArraySpec


class B2ndCells(Protocol):
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


class SlicedChunks(SlicedArray):
    """Chunks as slices of the cells that ``find`` gives. Read-only."""

    def __init__(self, spec: ArraySpec, find: Callable[[], B2ndCells], place: tuple[str, str]) -> None:
        super().__init__(spec)
        self._find = find
        self._url, self._node = place

    def read_part(self, coords: Coords, within: Part, out: Block) -> bool:
        """Read only the blocks that hold the cells ``within``. Always True."""
        if any((cut.step or 1) != 1 for cut in within) or out.ndim != len(within):
            out[...] = self.read(coords)[within]
            return True
        origin = self._grid.origin(coords)
        part = tuple(slice(at + cut.start, at + cut.stop) for at, cut in zip(origin, within, strict=True))
        self.take(coords, part, out)
        return True

    def take(self, coords: Coords, part: Part, out: Block) -> None:
        """A part of the cells, read by blosc2."""
        try:
            self._find().read(part, out)
        except HyperslabError as error:
            key = f"chunk {', '.join(map(str, coords))}"
            raise error.locate(url=self._url, node=self._node, key=key) from error.__cause__


class ChangedSlices(SlicedChunks):
    """The same of an array that is being written: ``changing`` gives its cells for a change, for which ``hold`` keeps
    other threads away, whatever they have it from."""

    def __init__(
        self,
        spec: ArraySpec,
        find: Callable[[], B2ndCells],
        place: tuple[str, str],
        changing: Callable[[], AbstractContextManager[B2ndCells]],
        hold: AbstractContextManager[Any],
    ) -> None:
        super().__init__(spec, find, place)
        self._changing = changing
        self._hold = hold

    def give(self, part: Part, cells: Block) -> None:
        """Put cells into the array."""
        with self._changing() as whole:
            whole.write(part, cells)

    @contextmanager
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> Iterator[None]:
        """Hold the array, which no other process sees yet, against other threads."""
        with self._hold:
            yield


class StoredSlices(SlicedChunks):
    """The same where the size of what is stored is known: of each chunk, by ``sizes``, in C order."""

    def __init__(
        self,
        spec: ArraySpec,
        find: Callable[[], B2ndCells],
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


def all_cells(cells: B2ndCells, spec: ArraySpec) -> np.ndarray[Any, Any]:
    """All cells of an array in memory."""
    out = np.empty(spec.shape, spec.numpy_dtype)
    cells.read(whole(spec.shape), out)
    return out
