"""Chunks of an array that a library, or memory, has as a whole: each is a slice of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.formats.format_errors import read_only_error
from hyperslab.model.spec import ArraySpec

Part = tuple[slice, ...]
"""Cells of the array, along each axis from one to another, none left out."""


class SlicedArray(ChunkSource):
    """A source whose :meth:`take` reads, and :meth:`give` writes, any part of the array that ``spec`` describes."""

    def __init__(self, spec: ArraySpec) -> None:
        self._spec = spec
        self.grid = Grid.of(spec.shape, spec.chunks)

    def take(self, coords: Coords, part: Part, out: Block) -> None:
        """Put a part of the array, within the chunk at ``coords``, into ``out``."""
        raise NotImplementedError

    def give(self, part: Part, cells: Block) -> None:
        """Put cells in the place of a part of the array; refused, unless it is open for writing."""
        raise read_only_error()

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read the chunk into ``out``; what reaches past the array's edge holds the fill value. Always True."""
        extent, inside = self._inside(coords)
        if out[inside].shape != out.shape:
            out[...] = self._spec.fill_cell()
        self.take(coords, extent, out[inside])
        return True

    def read(self, coords: Coords) -> Block:
        """Return the chunk in memory of its own."""
        block = np.empty(self.grid.chunk_shape(coords), self._spec.numpy_dtype)
        self.read_into(coords, block)
        return block

    def write(self, coords: Coords, block: Block) -> None:
        """Put the chunk's cells inside the array."""
        extent, inside = self._inside(coords)
        self.give(extent, block[inside])

    def erase(self, coords: Coords) -> None:
        """Write the fill value: there is no way to forget a chunk."""
        self.write(coords, self._spec.filled(self.grid.chunk_shape(coords)))

    def _inside(self, coords: Coords) -> tuple[Part, tuple[Any, ...]]:
        """Return the cells of a chunk that are inside the array: their place in the array, and in the chunk."""
        extent = self.grid.extent(coords)
        return extent, (*[slice(0, part.stop - part.start) for part in extent], ...)
