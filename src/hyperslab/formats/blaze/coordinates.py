"""A coordinate of a dataset that is open for writing: its cells stand in a document, which each write renews."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.model.spec import ArraySpec

Values = np.ndarray[Any, Any]


class CoordinateCells:
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
        self._grid = Grid.of(spec.shape, tuple(max(1, length) for length in spec.shape))

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
        self._put(np.full(self._spec.shape, self._spec.fill_cell(), self._spec.numpy_dtype))

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the document against other writers."""
        return self._hold()


def resized(cells: Values, spec: ArraySpec) -> Values:
    """The cells in another shape: cut off, or filled up with the fill value."""
    if cells.shape == spec.shape:
        return cells.copy()
    out = np.full(spec.shape, spec.fill_cell(), spec.numpy_dtype)
    common = tuple(slice(0, min(a, b)) for a, b in zip(cells.shape, spec.shape, strict=True))
    out[common] = cells[common]
    return out
