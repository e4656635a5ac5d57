"""Coordinates of a dataset that is open for writing: their cells stand in a document, which each write renews.

Which array is the one may be seen late: until then arrays wait as coordinates, and cells move between both forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import Unsupported
from hyperslab.formats.in_memory import resized
from hyperslab.formats.one_array import StoredCoordinate
from hyperslab.model.spec import ArraySpec

_LARGEST = 64 << 20
"""Bytes of a coordinate's cells."""

Values = np.ndarray[Any, Any]


class CoordinateChunk:
    """One chunk that holds all cells: ``get`` gives them as they are now, ``put`` takes new ones."""

    def __init__(
        self,
        spec: ArraySpec,
        get: Callable[[], Values],
        put: Callable[[Values], None],
        hold: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._spec = spec
        self._get = get
        self._put = put
        self._hold = hold
        self._grid = Grid.of(spec.shape, whole_chunks(spec.shape))

    @property
    def grid(self) -> Grid:
        """The grid of one chunk."""
        return self._grid

    def read(self, coords: Coords) -> Block:
        """The cells, in memory of their own."""
        return resized(self._get(), self._spec).reshape(self._grid.chunk_shape(coords))

    def write(self, coords: Coords, block: Block) -> None:
        """Replace all cells."""
        self._put(np.array(block, self._spec.numpy_dtype).reshape(self._spec.shape))

    def erase(self, coords: Coords) -> None:
        """Set all cells to the fill value."""
        self._put(self._spec.filled())

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the document against other writers."""
        return self._hold()


def plain(spec: ArraySpec) -> ArraySpec:
    """The spec of a coordinate: its cells are not chunked or encoded."""
    return spec.evolve(chunks=whole_chunks(spec.shape), codecs=(), layout={}, indexes={})


def blank(spec: ArraySpec) -> StoredCoordinate:
    """A coordinate of nothing but fill values; Unsupported when it is too large."""
    check_size("", spec)
    return StoredCoordinate(plain(spec), spec.filled())


def check_size(name: str, spec: ArraySpec) -> None:
    """Unsupported for a coordinate that is too large for a document."""
    nbytes = spec.numpy_dtype.itemsize * int(np.prod(spec.shape, dtype=object))
    if nbytes > _LARGEST:
        remedy = "use zarr3, or leave it out"
        raise Unsupported(f"a coordinate of {nbytes} bytes in a document of format blaze", node=name, remedy=remedy)


def may_label(name: str, spec: ArraySpec) -> bool:
    """Return whether it may be a coordinate of an array that is not known yet."""
    return spec.dims == (name,) or spec.shape == ()


def all_cells(source: ChunkSource, spec: ArraySpec) -> Block:
    """All cells of an array that is small."""
    cells = spec.filled()
    for coords in source.grid:
        block = source.read(coords)
        if block is not None:
            extent = source.grid.extent(coords)
            cells[extent] = block[tuple(slice(0, cut.stop - cut.start) for cut in extent)]
    return cells


def store_cells(source: ChunkSource, cells: Block) -> None:
    """Write all cells of an array that is small."""
    for coords in source.grid:
        block = np.zeros(source.grid.chunk_shape(coords), cells.dtype)
        extent = source.grid.extent(coords)
        block[tuple(slice(0, cut.stop - cut.start) for cut in extent)] = cells[extent]
        source.write(coords, block)
