"""Cells of one box of an array, and of one chunk in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hyperslab.chunks import sparse_io
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.memory import empty_cells
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.model.cells import Values
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.region import Range, Region

# Bytes of cells that are read at once where a chunk is larger: a chunk of any size takes bounded memory.
BOX_BYTES = 64 << 20


def read_box(source: ChunkSource, spec: ArraySpec, box: Box, settings: Settings) -> Values:
    """Return the stored cells of a box."""
    plan = make_plan(Region(tuple(Range(cut.start, cut.stop - cut.start, 1) for cut in box)), source.grid)
    out = empty_cells(plan.shape, spec.numpy_dtype)
    sparse_io.reader_of(spec)(source, plan, out, spec.fill_cell(), settings)
    return out


def read_through(source: ChunkSource, spec: ArraySpec, coords: Coords, settings: Settings) -> None:
    """Read all cells of one chunk, a part at a time where it is large; its damage is an error."""
    for part in parts(source.grid.extent(coords), max(BOX_BYTES // max(spec.numpy_dtype.itemsize, 1), 1)):
        read_box(source, spec, part, settings)


def parts(box: Box, most: int) -> Iterator[Box]:
    """Return boxes of at most ``most`` cells that cover one box: the first axes are cut first."""
    left = most
    steps = []
    for cut in reversed(box):
        step = max(1, min(cut.stop - cut.start, left))
        steps.append(step)
        left = max(1, left // step)
    cuts = [
        [slice(start, min(start + step, cut.stop)) for start in range(cut.start, cut.stop, step)]
        for cut, step in zip(box, reversed(steps), strict=True)
    ]
    return product(*cuts)
