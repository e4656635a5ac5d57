"""Neighbouring parts of an array are put together; all of them come to the same cells."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.chunks.grid import Grid
from hyperslab.formats.library_array import SlicedArray, join_parts
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import ArraySpec


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4)), max_size=3), st.data())
def test_joined_parts_have_the_same_cells(axes: list[tuple[int, int]], data: st.DataObject) -> None:
    grid = Grid.of(tuple(length for length, _ in axes), tuple(size for _, size in axes))
    cells = np.arange(float(np.prod([length for length, _ in axes]))).reshape([length for length, _ in axes])
    extents = [grid.extent(coords) for coords in product(*(range(axis.count) for axis in grid.axes))]
    if data.draw(st.booleans(), "out of order"):
        extents = data.draw(st.permutations(extents))
    found = np.full_like(cells, np.nan)
    for part, joined in join_parts((extent, cells[extent]) for extent in extents):
        assert np.isnan(found[part]).all()
        found[part] = joined
    assert (found == cells).all()


def test_rows_become_one_part() -> None:
    cells = np.arange(24).reshape(6, 4)
    rows = [((slice(row, row + 2), slice(0, 4)), cells[row : row + 2]) for row in range(0, 6, 2)]
    [(part, joined)] = join_parts(rows)
    assert part == (slice(0, 6), slice(0, 4))
    assert (joined == cells).all()


def test_large_parts_stay_alone() -> None:
    cells = np.zeros(3 << 16)
    parts = [((slice(at, at + (1 << 16)),), cells[at : at + (1 << 16)]) for at in range(0, len(cells), 1 << 16)]
    assert [part for part, _ in join_parts(parts)] == [(slice(0, 1 << 17),), (slice(1 << 17, 3 << 16),)]


def test_parts_are_chunks_and_small_ones_come_together() -> None:
    def parts(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: object) -> list[tuple[slice, ...]]:
        return list(SlicedArray(ArraySpec(shape=shape, dtype=dtype, chunks=chunks)).parts())

    small, large = np.dtype("f4"), np.dtype("f8")
    assert parts((730, 3, 4), (1, 3, 4), small) == [(slice(0, 730), slice(0, 3), slice(0, 4))]
    assert parts((2, 1 << 17), (1, 1 << 17), large) == [
        (slice(0, 1), slice(0, 1 << 17)),
        (slice(1, 2), slice(0, 1 << 17)),
    ]
    assert parts((3,), (2,), VlenString()) == [(slice(0, 2),), (slice(2, 3),)]
    assert parts((), (), small) == [()]
    assert parts((0, 3), (1, 3), small) == []
