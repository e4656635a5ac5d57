"""Chunks of an array that a library, or memory, has as a whole: each is a slice of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hyperslab.chunks.boxes import SMALL_BOX, AxisCut, box_counts, boxes, source_edges
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, DecodingSource
from hyperslab.formats.format_errors import read_only_error
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.region import Range

Part = tuple[slice, ...]
"""Cells of the array, along each axis from one to another, none left out."""


class SlicedArray(DecodingSource):
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

    def write(self, coords: Coords, block: Block) -> None:
        """Put the chunk's cells inside the array."""
        self.give(*self.extent_of(coords, block))

    def erase(self, coords: Coords) -> None:
        """Write the fill value: there is no way to forget a chunk."""
        self.write(coords, self._spec.filled(self.grid.chunk_shape(coords)))

    def parts(self) -> Iterator[Part]:
        """Yield the array in parts of whole chunks, small ones together."""
        cuts = [AxisCut(axis, source_edges(axis, Range(0, axis.length, 1))) for axis in self.grid.axes]
        dtype = self._spec.numpy_dtype
        small = 0 if dtype.hasobject else SMALL_BOX  # how much objects take is not known
        return boxes(cuts, box_counts(cuts, max(dtype.itemsize, 1), small, small))

    def extent_of(self, coords: Coords, block: Block) -> tuple[Part, Block]:
        """Return the cells of a chunk that are inside the array, and where they are."""
        extent, inside = self._inside(coords)
        return extent, block[inside]

    def _inside(self, coords: Coords) -> tuple[Part, tuple[Any, ...]]:
        """Return the cells of a chunk that are inside the array: their place in the array, and in the chunk."""
        extent = self.grid.extent(coords)
        return extent, (*[slice(0, part.stop - part.start) for part in extent], ...)


def join_parts(parts: Iterable[tuple[Part, Block]]) -> Iterator[tuple[Part, Block]]:
    """Yield parts of an array with their cells, small ones that continue one another along an axis as one."""
    place: Part = ()
    run: list[Block] = []
    axis: int | None = None
    for part, cells in parts:
        along = _axis_between(place, part) if run else None
        if along is None or axis not in (None, along) or sum(each.nbytes for each in run) + cells.nbytes > SMALL_BOX:
            if run:
                yield place, _joined(run, axis)
            place, run, axis = part, [cells], None
        else:
            place = (*place[:along], slice(place[along].start, part[along].stop), *place[along + 1 :])
            run.append(cells)
            axis = along
    if run:
        yield place, _joined(run, axis)


def _axis_between(first: Part, second: Part) -> int | None:
    """Return the axis along which the second part begins where the first one ends; None unless all others agree."""
    others = [axis for axis, (one, other) in enumerate(zip(first, second, strict=True)) if one != other]
    return others[0] if len(others) == 1 and first[others[0]].stop == second[others[0]].start else None


def _joined(run: list[Block], axis: int | None) -> Block:
    return run[0] if axis is None else np.concatenate(run, axis)
