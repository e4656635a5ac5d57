"""Small arrays whose cells are in memory: the coordinates that stand in a document."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.errors import ReadOnly
from hyperslab.model.spec import ArraySpec


class CellsInMemory:
    """One chunk that holds all cells. Read-only."""

    def __init__(self, cells: np.ndarray[Any, Any]) -> None:
        self._cells = cells
        self._grid = Grid.of(cells.shape, tuple(max(1, length) for length in cells.shape))

    @property
    def grid(self) -> Grid:
        """The grid of one chunk."""
        return self._grid

    def read(self, coords: Coords) -> Block:
        """The cells, in memory of their own."""
        return self._cells.copy()

    def write(self, coords: Coords, block: Block) -> None:
        """Refused."""
        raise _read_only()

    def erase(self, coords: Coords) -> None:
        """Refused."""
        raise _read_only()


def _read_only() -> ReadOnly:
    return ReadOnly("this dataset is open for reading", remedy="open it with mode='r+'")


def resized(cells: Block, spec: ArraySpec) -> Block:
    """The cells in another shape: cut off, or filled up with the fill value."""
    if cells.shape == spec.shape:
        return cells.copy()
    out = np.full(spec.shape, spec.fill_cell(), spec.numpy_dtype)
    common = tuple(slice(0, min(a, b)) for a, b in zip(cells.shape, spec.shape, strict=True))
    out[common] = cells[common]
    return out
