"""One variable's cells through the netCDF library, and through h5py where netCDF4 has no such cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.errors import ReadOnly
from hyperslab.formats.hdf5_lock import LOCK
from hyperslab.formats.netcdf import library
from hyperslab.formats.netcdf.document import is_hidden
from hyperslab.model.dtypes import Enum, VlenArray, VlenBytes, VlenString
from hyperslab.model.spec import ArraySpec

Find = Callable[[], Any]
"""Gives the library's variable (h5py's dataset where netCDF4 has none) of the file that is open at that moment."""
Changing = Callable[[], AbstractContextManager[None]]
"""Guards a change of the working copy: holds the lock, and remembers a failure."""
Wrote = Callable[[tuple[int, ...]], None]
"""Is told where a chunk ends that was written."""


class LibraryChunks:
    """Chunks as slices of the variable that ``find`` gives; without ``changing`` writes are refused."""

    def __init__(
        self,
        find: Find,
        spec: ArraySpec,
        url: str,
        node: str,
        changing: Changing | None = None,
        wrote: Wrote | None = None,
    ) -> None:
        self._find = find
        self._spec = spec
        self._grid = Grid.of(spec.shape, spec.chunks)
        self._url = url
        self._node = node
        self._changing = changing
        self._wrote = wrote

    @property
    def grid(self) -> Grid:
        """The chunk grid of the file, or one laid over a variable that lies in one piece."""
        return self._grid

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read the chunk into ``out``; what reaches past the array's edge holds the fill value. Always True."""
        extent = self._grid.extent(coords)
        inside: tuple[Any, ...] = tuple(slice(0, part.stop - part.start) for part in extent)
        with library.reading(self._url, self._node):
            cells = self._find()[extent or ...]
        if out[(*inside, ...)].shape != out.shape:
            out[...] = self._spec.fill_cell()
        out[(*inside, ...)] = from_library(cells, self._spec)
        return True

    def read(self, coords: Coords) -> Block | None:
        """The chunk in memory of its own."""
        block = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        self.read_into(coords, block)
        return block

    def write(self, coords: Coords, block: Block) -> None:
        """Put the chunk's cells inside the array into the working copy."""
        if self._changing is None:
            raise ReadOnly("this file is open for reading", remedy="open it with mode='r+'")
        extent = self._grid.extent(coords)
        inside: tuple[Any, ...] = tuple(slice(0, part.stop - part.start) for part in extent)
        with self._changing():
            write_cells(self._find(), extent, block[(*inside, ...)], self._spec)
            if self._wrote is not None:
                self._wrote(tuple(part.stop for part in extent))

    def erase(self, coords: Coords) -> None:
        """Write the fill value: netCDF has no way to forget a chunk."""
        self.write(coords, np.full(self._grid.chunk_shape(coords), self._spec.fill_cell(), self._spec.numpy_dtype))

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """One after the other; they become visible, and durable, when the dataset is closed."""
        for coords, block in pairs:
            self.write(coords, block)

    def stored(self) -> Iterator[Coords]:
        """Every chunk: the library does not tell which were written."""
        return iter(self._grid)

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the working copy, which no other process knows of, against other threads."""
        return _held()


@contextmanager
def _held() -> Iterator[None]:
    with LOCK:
        yield


def from_library(cells: Any, spec: ArraySpec) -> Block:
    """What the library gives for a slice, as cells of the model."""
    if isinstance(spec.dtype, VlenArray | VlenBytes):
        found = cells
        if not (isinstance(cells, np.ndarray) and cells.dtype == object):
            found = np.empty((), object)
            found[()] = np.asarray(cells)
        return found if isinstance(spec.dtype, VlenArray) else _each(found, lambda cell: cell.tobytes())
    values = np.asarray(cells)
    return values if values.dtype == spec.numpy_dtype else values.astype(spec.numpy_dtype)


def write_cells(variable: Any, extent: tuple[slice, ...], cells: Block, spec: ArraySpec) -> None:
    """Put cells of the model into a slice of the library's variable, as the library wants them."""
    if not cells.size:
        return
    match spec.dtype:
        case VlenString():
            variable[extent or ...] = cells.astype(object) if cells.ndim else str(cells[()])
        case VlenArray() | VlenBytes():
            arrays = _each(cells, _array_of(spec.dtype))
            variable[extent or ...] = arrays if cells.ndim else arrays[()]
        case Enum(base=base):
            # assignment refuses values without a name, such as the fill value of unwritten cells
            start = [part.start for part in extent]
            variable._put(np.ascontiguousarray(cells, base), start, list(cells.shape), [1] * cells.ndim)
        case kind if is_hidden(kind):
            variable[extent or ...] = cells.astype(variable.dtype)  # which tells h5py of enums in fields
        case _:
            variable[extent or ...] = cells if cells.ndim else cells[()]


def _array_of(dtype: VlenArray | VlenBytes) -> Callable[[Any], Block]:
    """What makes the 1-D array that the library wants of a cell; None counts as empty."""
    if isinstance(dtype, VlenBytes):
        return lambda cell: np.frombuffer(cell or b"", np.uint8)
    base = dtype.base
    return lambda cell: np.empty(0, base) if cell is None else np.atleast_1d(np.asarray(cell, base))


def _each(cells: Block, change: Callable[[Any], Any]) -> Block:
    """Object cells, each changed."""
    out = np.empty(cells.shape, object)
    for place, cell in np.ndenumerate(cells):
        out[place] = change(cell)
    return out
