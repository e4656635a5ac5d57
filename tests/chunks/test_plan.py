"""The planner's arithmetic: pieces are right, whole where they may be, and few."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.plan import make_plan
from hyperslab.errors import Invalid
from hyperslab.selection.positional import select
from hyperslab.testing.selections import random_grid, random_key, random_shape


def plan_of(key, shape, chunks):
    return make_plan(select(key, shape).region, Grid.of(shape, chunks))


def test_a_span_over_three_chunks():
    first, middle, last = plan_of(slice(2, 9), (12,), (4,))
    assert (first.coords, first.within, first.out, first.whole) == ((0,), (slice(2, 4),), (slice(0, 2),), False)
    assert (middle.coords, middle.within, middle.out, middle.whole) == ((1,), (slice(0, 4),), (slice(2, 6),), True)
    assert (last.coords, last.within, last.out, last.whole) == ((2,), (slice(0, 1),), (slice(6, 7),), False)


def test_a_chunk_on_the_edge_is_whole_when_all_its_cells_in_the_array_are_taken():
    *_, edge = plan_of(slice(None), (10,), (4,))
    assert edge.coords == (2,)
    assert edge.whole


def test_a_negative_step_turns_the_result_and_reads_chunks_forward():
    pieces = list(plan_of(slice(None, None, -1), (8,), (4,)))
    assert [piece.coords for piece in pieces] == [(0,), (1,)]
    assert all(piece.within == (slice(0, 4),) and piece.whole for piece in pieces)
    assert [piece.out for piece in pieces] == [(slice(7, 3, -1),), (slice(3, None, -1),)]


def test_points_of_one_chunk_are_one_piece():
    assert plan_of(([0, 5, 1, 4],), (8,), (4,)).count == 2


def test_a_stride_longer_than_a_chunk_skips_chunks():
    assert [piece.coords for piece in plan_of(slice(None, None, 9), (20,), (4,))] == [(0,), (2,), (4,)]


def test_nothing_selected_is_no_piece():
    assert list(plan_of(slice(3, 3), (8,), (4,))) == []
    assert plan_of(slice(3, 3), (8,), (4,)).count == 0


def test_a_huge_array_is_planned_without_looking_at_its_other_chunks():
    shape = (2**62, 2**40)
    assert [piece.coords for piece in plan_of((2**61, slice(5, 6)), shape, (7, 3))] == [(2**61 // 7, 1)]


def test_coupled_points_of_a_huge_grid_do_not_overflow():
    pieces = list(plan_of(([2**61, 0], [2**61, 1]), (2**62, 2**62), (1, 1)))
    assert sorted(piece.coords for piece in pieces) == [(0, 1), (2**61, 2**61)]


@pytest.mark.parametrize("chunks", [(0,), (-1,), ((2, 2),), ((4, 0, 6),), (3, 3)])
def test_a_grid_that_does_not_cover_the_array_is_refused(chunks):
    with pytest.raises(Invalid):
        Grid.of((10,), chunks)


def test_a_varying_axis():
    grid = Grid.of((10,), ((3, 5, 4),))
    assert grid.counts == (3,)
    assert [grid.extent((i,)) for i in range(3)] == [(slice(0, 3),), (slice(3, 8),), (slice(8, 10),)]
    assert grid.chunk_shape((2,)) == (4,)


@settings(max_examples=min(settings.default.max_examples, 300))
@given(seed=st.integers(0, 2**32))
def test_pieces_take_every_cell_once_and_whole_means_whole(seed):
    rng = np.random.default_rng(seed)
    shape = random_shape(rng)
    grid = Grid.of(shape, random_grid(rng, shape))
    try:
        selection = select(random_key(rng, shape), shape)
    except (IndexError, ValueError, TypeError):
        return
    plan = make_plan(selection.region, grid)
    written = np.zeros(plan.shape, int)
    pieces = list(plan)
    assert len(pieces) == plan.count
    assert len({piece.coords for piece in pieces}) == len(pieces)
    for piece in pieces:
        written[piece.out] += 1
        cells = np.ones(grid.chunk_shape(piece.coords), int)
        cells = cells if plan.order is None else cells.transpose(plan.order)
        assert cells[piece.within].shape == written[piece.out].shape
        if piece.whole:
            inside = tuple(slice(0, span.stop - span.start) for span in grid.extent(piece.coords))
            assert cells[piece.within].size == cells[inside].size
    assert (written == 1).all()
