"""Parts of cells, whatever they are: NumPy's, sparse ones, or a dask array."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from hyperslab.formats.mongo.ids import Chunk
from hyperslab.formats.mongo.numbers import Sizes
from hyperslab.model.coo import Coo

Place = tuple[slice, ...]


def place_of(chunks: tuple[Sizes, ...], chunk: tuple[int, ...]) -> Place:
    """The cells of a chunk whose sizes, and those of the chunks before it, are known."""
    ends = [list(accumulate((size or 0 for size in sizes), initial=0)) for sizes in chunks]
    return tuple(slice(end[index], end[index + 1]) for end, index in zip(ends, chunk, strict=True))


def block_of(cells: Any, chunks: tuple[Sizes, ...] | None, chunk: Chunk) -> Any:
    """The cells of one chunk; of a dask array in these chunks its block."""
    if chunk is None or chunks is None or not chunk:
        return cells
    return cells.blocks[chunk] if hasattr(cells, "blocks") else part_of(cells, place_of(chunks, chunk))


def part_of(cells: Any, place: Place) -> Any:
    """The cells of a place with step 1."""
    return cells.part(place) if isinstance(cells, Coo) else cells[place]


def joined_along(axis: int, one: Any, other: Any) -> Any:
    """Cells behind others, both dense or both sparse with the same fill value."""
    if not isinstance(one, Coo):
        return np.concatenate([one, other], axis)
    moved = np.zeros((len(one.shape), 1), np.intp)
    moved[axis] = one.shape[axis]
    shape = (*one.shape[:axis], one.shape[axis] + other.shape[axis], *one.shape[axis + 1 :])
    coords = np.concatenate([one.coords, other.coords + moved], axis=1)
    return Coo(shape, coords, np.concatenate([one.data, other.data]), one.fill)
