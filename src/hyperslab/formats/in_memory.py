"""Small arrays whose cells are in memory: the coordinates that stand in a document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.formats.one_array import cells_to_json
from hyperslab.model.spec import ArraySpec


class CellsInMemory(ReadOnlyChunks):
    """One chunk that holds all cells. Read-only."""

    def __init__(self, cells: np.ndarray[Any, Any]) -> None:
        self._cells = cells
        self._grid = Grid.of(cells.shape, whole_chunks(cells.shape))

    @property
    def grid(self) -> Grid:
        """The grid of one chunk."""
        return self._grid

    def read(self, coords: Coords) -> Block:
        """The cells, in memory of their own."""
        return self._cells.copy()

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes of the text of all cells, if it is asked for any."""
        return self.nbytes_stored() if any(True for _ in coords) else 0

    def nbytes_stored(self) -> int:
        """Bytes of the text that the cells are in a document."""
        return text_size(self._cells)


class CellsInDocument(CellsInMemory):
    """The same, of an array in a document that ``store`` changes."""

    def __init__(
        self, spec: ArraySpec, cells: np.ndarray[Any, Any], store: Callable[[np.ndarray[Any, Any]], None]
    ) -> None:
        super().__init__(cells)
        self._spec = spec
        self._store = store

    def write(self, coords: Coords, block: Block) -> None:
        """Store all cells."""
        cells = np.array(block, self._cells.dtype).reshape(self._cells.shape)
        self._store(cells)
        self._cells = cells

    def erase(self, coords: Coords) -> None:
        """Set all cells to the fill value."""
        self.write(coords, self._spec.filled())


def text_size(cells: np.ndarray[Any, Any]) -> int:
    """Bytes of the text that cells are in a document of JSON, whatever that is packed in."""
    return len(json.dumps(cells_to_json(cells)))


def resized(cells: Block, spec: ArraySpec) -> Block:
    """The cells in another shape: cut off, or filled up with the fill value."""
    if cells.shape == spec.shape:
        return cells.copy()
    out = spec.filled()
    common = tuple(slice(0, min(a, b)) for a, b in zip(cells.shape, spec.shape, strict=True))
    out[common] = cells[common]
    return out
