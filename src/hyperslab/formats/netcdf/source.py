"""One variable's cells through the netCDF library, and through h5py where netCDF4 has no such cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.source import Block
from hyperslab.errors import Unsupported
from hyperslab.formats.hdf5.lock import LOCK
from hyperslab.formats.library_array import Part, SlicedArray
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


class LibraryChunks(SlicedArray):
    """Chunks as slices of the variable that ``find`` gives. Read-only."""

    def __init__(self, find: Find, spec: ArraySpec, url: str, node: str) -> None:
        super().__init__(spec)
        self._find = find
        self._url = url
        self._node = node

    def take(self, coords: Coords, part: Part, out: Block) -> None:
        """A part of the variable, as cells of the model."""
        with library.reading(self._url, self._node):
            cells = from_library(self._find()[part or ...], self._spec)
        if (
            cells.ndim == out.ndim and cells.shape != out.shape
        ):  # h5py's dataset ends before its dimension, which others made longer
            out[...] = self._spec.fill_cell()
            out = out[tuple(slice(size) for size in cells.shape)]
        out[...] = cells


class WorkingChunks(LibraryChunks):
    """The same of a working copy."""

    def __init__(self, find: Find, spec: ArraySpec, url: str, node: str, changing: Changing, wrote: Wrote) -> None:
        super().__init__(find, spec, url, node)
        self._changing = changing
        self._wrote = wrote

    def give(self, part: Part, cells: Block) -> None:
        """Put cells into the working copy."""
        with self._changing():
            write_cells(self._find(), part, cells, self._spec)
            self._wrote(tuple(cut.stop for cut in part))

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
            found[()] = np.atleast_1d(cells)  # the library gives a lone number for a lone cell of one
        return found if isinstance(spec.dtype, VlenArray) else _each(found, lambda cell: cell.tobytes())
    values = np.asarray(cells)
    return values if values.dtype == spec.numpy_dtype else values.astype(spec.numpy_dtype)


def write_cells(variable: Any, extent: Part, cells: Block, spec: ArraySpec) -> None:
    """Put cells of the model into a slice of the library's variable, as the library wants them."""
    if not cells.size:
        return
    match spec.dtype:
        case VlenString():
            texts = cells.astype(object)
            _refuse_nul(texts)
            variable[extent or ...] = texts if cells.ndim else str(cells[()])
        case VlenArray() | VlenBytes():
            arrays = _each(cells, _array_of(spec.dtype))
            variable[extent or ...] = arrays if cells.ndim else arrays[()]
        case Enum(base=base):
            # assignment refuses values without a name, such as the fill value of unwritten cells
            start = [part.start for part in extent]
            variable._put(np.ascontiguousarray(cells, base), start, list(cells.shape), [1] * cells.ndim)
        case kind if is_hidden(kind):
            _write_hidden(variable, extent, cells)
        case _:
            variable[extent or ...] = cells if cells.ndim else cells[()]


def _write_hidden(dataset: Any, extent: Part, cells: Block) -> None:
    """Put the bytes of cells into a slice of an h5py dataset as they are: netCDF's chars are text of HDF5 that ends
    with a NUL, and HDF5, asked to convert, has no room for one."""
    from h5py import h5s

    place, memory = dataset.id.get_space(), h5s.create(h5s.SCALAR)
    if extent:
        place.select_hyperslab(tuple(part.start for part in extent), cells.shape)
        memory = h5s.create_simple(cells.shape)
    dataset.id.write(memory, place, np.ascontiguousarray(cells, dataset.dtype), mtype=dataset.id.get_type())


def _refuse_nul(texts: Block) -> None:
    """Raise Unsupported for a text that the library would store up to its first NUL."""
    cut = next((text for text in texts.flat if "\0" in str(text)), None)
    if cut is not None:
        remedy = "leave the NUL out, or use format zarr3, which keeps it"
        raise Unsupported(f"text in netCDF ends at its first NUL: {cut!r:.60}", remedy=remedy)


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
