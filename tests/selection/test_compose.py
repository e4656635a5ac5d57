"""Views of views: one selection on the base array, equal to NumPy applied in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.errors import SelectionError
from hyperslab.selection.positional import compose, outer, select, vectorised
from hyperslab.selection.region import Range
from hyperslab.testing import datasets
from hyperslab.testing.selections import canonical_index, random_key, random_shape, take

CHAINS = 1500


def base_of(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype="i4").reshape(shape)


@pytest.mark.sampled(0)
def test_chains_of_random_keys_equal_numpy_in_turn() -> None:
    rng = np.random.default_rng(7)
    links = coupled = 0
    for _ in range(CHAINS):
        base = base_of(random_shape(rng))
        expected, selection = base, select((), base.shape)
        for _ in range(int(rng.integers(2, 5))):
            key = random_key(rng, expected.shape, invalid=0)
            try:
                chosen = expected[key]
            except IndexError:
                break
            if not isinstance(chosen, np.ndarray) or chosen.ndim > 8 or chosen.size > 50_000:
                break
            expected, selection = chosen, compose(selection, key)
            links += 1
            coupled += bool(selection.region.coupled)
            assert selection.shape == expected.shape
            result = selection.finish(take(base, selection.region))
            np.testing.assert_array_equal(result, expected)
    assert links > 2 * CHAINS
    assert coupled > 0.05 * CHAINS


@settings(max_examples=min(settings.default.max_examples, 200))
@given(st.data())
def test_chains_of_keys_equal_numpy_in_turn(data: st.DataObject) -> None:
    base = base_of(data.draw(datasets.shapes(max_dims=3, max_side=4)))
    expected, selection = base, select((), base.shape)
    for _ in range(3):
        key = data.draw(datasets.basic_keys(expected.shape) | datasets.advanced_keys(expected.shape))
        try:
            chosen = expected[key]
        except IndexError:
            with pytest.raises(SelectionError):
                compose(selection, key)
            return
        expected, selection = np.asarray(chosen), compose(selection, key)
        np.testing.assert_array_equal(selection.finish(take(base, selection.region)), expected)


@pytest.mark.parametrize(
    ("shape", "keys"),
    [
        ((), [None, [0, 0, 0]]),
        ((), [None, slice(0, 0)]),
        ((), [(None, None), ([0, 0], 0)]),
        ((5,), [None, ([0, 0], slice(None, None, 2))]),
        ((5,), [None, (slice(0, 0), slice(None))]),
        ((4, 5), [([0, 1], [2, 3]), [1, 0, 1]]),
        ((4, 5, 6), [([[0], [3]], slice(None), [[1, 2, 2]]), (0, [1, 0, 2])]),
        ((4, 5, 6), [([0, 3], [1, 1]), ([1, 0, 1], [5, 5, 2])]),
        ((4, 5, 6, 2), [([0, 3], [1, 1]), (slice(None), [5, 0], [1, 1])]),
        ((9,), [[[8, 0, 4], [1, 2, 3]], (slice(None), [0, 2])]),
        ((9,), [[[8, 0, 4], [1, 2, 3]], ([1, 0], [0, 2])]),
        ((3, 4), [np.ones((3, 4), bool), slice(None, None, -5)]),
    ],
)
def test_chains_that_need_care(shape: tuple[int, ...], keys: list[Any]) -> None:
    expected, selection = base_of(shape), select((), shape)
    for key in keys:
        expected, selection = expected[key], compose(selection, key)
    np.testing.assert_array_equal(selection.finish(take(base_of(shape), selection.region)), expected)


def test_slices_of_slices_stay_ranges() -> None:
    selection = compose(select(slice(10, 90, 2), (100,)), slice(None, 4, -3))
    assert selection.region.axes == (Range(88, 12, -6),)


def test_a_cell_of_a_view_is_a_scalar() -> None:
    view = select(slice(2, 5), (9,))
    assert compose(view, 1).scalar
    assert not compose(view, (..., 1)).scalar


def test_each_dialect_composes() -> None:
    base = base_of((6, 7))
    view = select((slice(1, None), slice(None, None, -1)), base.shape)
    seen = base[1:, ::-1]
    crossed = compose(view, ([0, 2], [1, 1, 3]), outer)
    np.testing.assert_array_equal(crossed.finish(take(base, crossed.region)), seen[np.ix_([0, 2], [1, 1, 3])])
    points = compose(view, ([0, 2], [1, 3]), vectorised)
    np.testing.assert_array_equal(points.finish(take(base, points.region)), seen[[0, 2], [1, 3]])


def test_writing_to_a_repeated_new_axis_keeps_the_last() -> None:
    selection = compose(select((None,), (2,)), ([0, 0, 0], slice(None)))
    spread = selection.spread(np.arange(6).reshape(3, 2))
    base = np.zeros(2, int)
    base[canonical_index(selection.region, (2,))] = spread
    np.testing.assert_array_equal(base, [4, 5])
