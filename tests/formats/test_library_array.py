"""Neighbouring parts of an array are put together; all of them come to the same cells."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.chunks.grid import Grid
from hyperslab.formats.library_array import join_parts


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
