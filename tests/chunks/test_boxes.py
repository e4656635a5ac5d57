"""Boxes cover the target once, stay within the memory, and never decode more than going chunk by chunk."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.chunks.boxes import AxisCut, box_counts, boxes, source_edges
from hyperslab.chunks.grid import Grid
from hyperslab.selection.region import PositionList, Range


@st.composite
def cuts(draw: st.DrawFn) -> list[AxisCut]:
    shape = tuple(draw(st.lists(st.integers(0, 40), max_size=3)))
    source = Grid.of(shape, tuple(draw(st.integers(1, 45)) for _ in shape))
    target = Grid.of(shape, tuple(draw(st.integers(1, 45)) for _ in shape))
    return [AxisCut(t, source_edges(s, Range(0, s.length, 1))) for s, t in zip(source.axes, target.axes, strict=True)]


def _decoded(cuts: list[AxisCut], counts: tuple[int, ...]) -> int:
    """Counted the slow way: for each box, the source chunks that own one of its cells."""
    total = 0
    for box in boxes(cuts, counts):
        owners = [
            len({int(np.searchsorted(cut.edges, i, "right")) for i in range(part.start, part.stop)})
            for cut, part in zip(cuts, box, strict=True)
        ]
        total += prod(owners)
    return total


@given(cuts(), st.integers(1, 8), st.integers(1, 20000))
def test_boxes_cover_once_within_the_budget(cuts: list[AxisCut], item: int, budget: int) -> None:
    counts = box_counts(cuts, item, budget)
    seen = np.zeros(tuple(cut.target.length for cut in cuts), int)
    single = item * prod(cut.longest(1) for cut in cuts)
    for box in boxes(cuts, counts):
        seen[box] += 1
        assert item * seen[box].size <= max(budget, single)
    assert (seen == 1).all()
    assert _decoded(cuts, counts) <= _decoded(cuts, (1,) * len(cuts))
    if seen.size:
        assert _decoded(cuts, counts) == prod(cut.reads(count) for cut, count in zip(cuts, counts, strict=True))


@given(cuts())
def test_with_memory_enough_each_source_chunk_is_decoded_once(cuts: list[AxisCut]) -> None:
    counts = box_counts(cuts, 1, 10**9)
    if all(cut.target.length for cut in cuts):
        assert _decoded(cuts, counts) == prod(cut.ideal for cut in cuts)


@given(cuts(), st.integers(1, 8), st.integers(1, 20000), st.integers(0, 20000))
def test_small_boxes_are_joined_within_the_budget(cuts: list[AxisCut], item: int, budget: int, small: int) -> None:
    alone, joined = box_counts(cuts, item, budget), box_counts(cuts, item, budget, small)
    assert all(one <= other for one, other in zip(alone, joined, strict=True))
    assert _decoded(cuts, joined) <= _decoded(cuts, alone)
    seen = np.zeros(tuple(cut.target.length for cut in cuts), int)
    for box in boxes(cuts, joined):
        seen[box] += 1
    assert (seen == 1).all()
    cells = item * prod(cut.longest(count) for cut, count in zip(cuts, joined, strict=True))
    assert joined == alone or cells <= min(small, budget)


def test_small_chunks_are_joined_along_the_last_axis_first() -> None:
    grid = Grid.of((100, 100), (10, 10))
    same = [AxisCut(axis, source_edges(axis, Range(0, axis.length, 1))) for axis in grid.axes]
    assert box_counts(same, 8, 10**9, 8 * 100 * 25) == (2, 10)
    assert box_counts(same, 8, 10**9, 8 * 100 * 9) == (1, 8)


def test_equal_grids_are_copied_chunk_by_chunk() -> None:
    grid = Grid.of((100, 100), (10, 10))
    same = [AxisCut(axis, source_edges(axis, Range(0, axis.length, 1))) for axis in grid.axes]
    assert box_counts(same, 8, 10**9) == (1, 1)


def test_a_selection_moves_the_edges() -> None:
    axis = Grid.of((100,), (10,)).axes[0]
    assert source_edges(axis, Range(5, 15, 2)).tolist() == [0, 3, 8, 13]
    assert source_edges(axis, PositionList(np.array([95, 5, 6, 50]))).tolist() == [0, 1, 3]


@given(st.integers(1, 30), st.integers(1, 60), st.integers(-40, 40).filter(bool), st.data())
def test_edges_of_a_range_are_those_of_its_points(size: int, length: int, step: int, data: st.DataObject) -> None:
    axis = Grid.of((length,), (size,)).axes[0]
    positions = np.arange(length)[data.draw(st.integers(0, length - 1)) :: step]
    chosen = Range(int(positions[0]), len(positions), step)
    assert source_edges(axis, chosen).tolist() == source_edges(axis, PositionList(positions)).tolist()
