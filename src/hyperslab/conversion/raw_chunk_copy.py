"""Stored Blosc chunks from one format into another as they are: nothing is decoded and compressed again.

Chunks at an edge that one side pads and the other does not, and those that not every reader of Blosc knows (Snappy),
go the long way.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from hyperslab.chunks.boxes import Box
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.settings import Settings
from hyperslab.codecs.blosc import may_move
from hyperslab.conversion.copying import ArrayCopy, Check
from hyperslab.errors import CorruptChunk, MissingChunks


def copy_box(copy: ArrayCopy, box: Box, settings: Settings, check: Check | None = None) -> None:
    """One box of one array."""
    if copy.lists:
        copy.copy_lists(box, settings, check)
        return
    if not copy.carries:
        copy.write_target(box, copy.read_source(box, settings, check), settings, check)
        return
    source: Any = copy.source
    target: Any = copy.target
    moved, rest = [], []
    for coords in _chunks_in(copy, box):
        if check is not None:
            check()
        size = _stored_size(copy, coords)
        try:
            data = b"" if size is None else source.raw(coords)
        except (CorruptChunk, MissingChunks):  # a reader of cells tries again where a writer may be at work
            data = b""
        if data is not None and size is not None and may_move(data, size):
            moved.append((coords, data))
        elif data is not None:
            rest.append(coords)
    if moved:
        target.put_raw(moved, durable=settings.durable)
    for coords in rest:
        part = copy.target.grid.extent(coords)
        copy.write_target(part, copy.read_source(part, settings, check), settings, check)


def _chunks_in(copy: ArrayCopy, box: Box) -> Any:
    """The target's chunks in a box of whole ones."""
    axes = copy.target.grid.axes
    return product(
        *(range(axis.find(part.start), axis.find(part.stop - 1) + 1) for axis, part in zip(axes, box, strict=True))
    )


def _stored_size(copy: ArrayCopy, coords: Coords) -> int | None:
    """Decoded bytes of a chunk, the same in both; None where one side pads it and the other does not."""
    source: Any = copy.source
    target: Any = copy.target
    grid = copy.target.grid
    whole = grid.chunk_shape(coords)
    within = tuple(part.stop - part.start for part in grid.extent(coords))
    if whole != within and source.pads != target.pads:
        return None
    cells = prod(whole if target.pads else within)
    return cells * copy.target_spec.numpy_dtype.itemsize
