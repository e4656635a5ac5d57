"""Selections by position against NumPy: same value, shape and kind of result, or the same type of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.errors import HyperslabError, Invalid, SelectionError, WrongType
from hyperslab.selection.positional import outer, select, vectorised
from hyperslab.selection.region import PositionList, Range, Region, Selection
from hyperslab.testing import datasets
from hyperslab.testing.selections import canonical_index, random_key, random_orthogonal_key, random_shape, take

CASES = 4000


def base_of(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype="i4").reshape(shape)


def taken(base: np.ndarray, selection: Selection) -> np.ndarray:
    result = selection.finish(take(base, selection.region))
    assert result.shape == selection.shape
    return result


def check_region(region: Region, shape: tuple[int, ...]) -> None:
    assert len(region.axes) == len(shape)
    assert len({region.axes[axis].count for axis in region.coupled}) <= 1
    if 0 in region.shape:
        return
    for axis, length in zip(region.axes, shape, strict=True):
        if isinstance(axis, PositionList):
            assert axis.positions.dtype == np.int64 and axis.positions.ndim == 1
            assert ((axis.positions >= 0) & (axis.positions < length)).all()
        else:
            assert axis.step and 0 <= axis.start < length
            assert 0 <= axis.start + (axis.count - 1) * axis.step < length


def check_as_numpy(key: Any, shape: tuple[int, ...]) -> bool:
    """Compare with NumPy; True when NumPy takes the key."""
    base = base_of(shape)
    try:
        expected = base[key]
    except Exception as refusal:
        # NumPy before 2.4 warns of some indices that it refuses since.
        with pytest.raises(IndexError if isinstance(refusal, DeprecationWarning) else type(refusal)) as caught:
            select(key, shape)
        assert isinstance(caught.value, HyperslabError)
        return False
    selection = select(key, shape)
    check_region(selection.region, shape)
    result = taken(base, selection)
    np.testing.assert_array_equal(result, expected, strict=True)
    assert selection.scalar == (not isinstance(expected, np.ndarray))
    return True


@settings(max_examples=min(settings.default.max_examples, 600))
@given(st.data())
def test_a_key_selects_what_numpy_selects(data: st.DataObject) -> None:
    shape = data.draw(datasets.shapes(max_dims=4, max_side=5))
    check_as_numpy(data.draw(datasets.numpy_keys(shape)), shape)


@settings(max_examples=min(settings.default.max_examples, 200))
@given(st.data())
def test_keys_that_numpy_refuses_are_refused_alike(data: st.DataObject) -> None:
    shape = data.draw(datasets.shapes(max_dims=3, min_dims=1))
    assert not check_as_numpy(data.draw(datasets.wrong_keys(shape)), shape)


def test_thousands_of_random_keys_select_what_numpy_selects() -> None:
    rng = np.random.default_rng(20)
    advanced = fitting = 0
    for _ in range(CASES):
        shape = random_shape(rng)
        key = random_key(rng, shape)
        items = key if isinstance(key, tuple) else (key,)
        fits = check_as_numpy(key, shape)
        fitting += fits
        advanced += fits and any(isinstance(item, list | np.ndarray) for item in items)
    assert fitting > 0.95 * CASES
    assert advanced > 0.3 * CASES


class Indexed:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


ODD_KEYS: list[Callable[[], Any]] = [
    lambda: Indexed(1),
    lambda: (Indexed(-1), np.uint8(2)),
    lambda: slice(Indexed(0), np.int64(2)),
    lambda: (np.array(1), np.array(-1)),
    lambda: (np.array(1), ...),
    lambda: np.array(1),
    lambda: True,
    lambda: False,
    lambda: np.True_,
    lambda: np.array(False),
    lambda: (True, 0),
    lambda: (True, [0, 1]),
    lambda: (True, [0, 1], slice(None), [0, 1]),
    lambda: (np.array([1]), True, False),
    list,
    lambda: [[]],
    lambda: ((),),
    lambda: (),
    lambda: range(2),
    lambda: ([0], ..., [0], None),
    lambda: (slice(None), [0], ..., [1]),
    lambda: (slice(None), [0], [1], ...),
    lambda: (slice(None), 0, ..., [1]),
    lambda: ([0], None, [1]),
    lambda: ([[0], [1]], slice(None), [[0, 1, 2]]),
    lambda: np.ix_([0, 1], [2, 0], [3, 3]),
    lambda: (0, slice(None), [1, 2]),
    lambda: (slice(None), 0, [1, 2]),
    lambda: ([5], []),
    lambda: (slice(0, 0), [9]),
    lambda: np.zeros((2, 0), bool),
    lambda: (np.ones((2, 3), bool), [0, 1, 2, 3, 0, 1]),
    lambda: slice(None, 2**70),
    lambda: slice(2**70, None, -(2**70)),
    lambda: 2**70,
    lambda: [2**70],
    lambda: (None,) * 5,
    lambda: (..., None, -1),
    lambda: (..., 5, [True, False, True, True]),
    lambda: (..., -2, np.ones((3, 4), bool)),
    lambda: {0: 1},
    lambda: {0, 1},
    lambda: b"a",
    lambda: np.timedelta64(1, "s"),
    lambda: np.datetime64("2000"),
    lambda: np.array([0, 1], dtype=object),
    lambda: [None],
    lambda: [slice(0, 1)],
    lambda: (0, 0, 0, slice("a", None)),
]


@pytest.mark.parametrize("make", ODD_KEYS, ids=range(len(ODD_KEYS)))
@pytest.mark.parametrize("shape", [(2, 3, 4), (2,), (), (2, 0, 3, 1)], ids=str)
def test_odd_keys(make: Callable[[], Any], shape: tuple[int, ...]) -> None:
    check_as_numpy(make(), shape)


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(SelectionError, match="index 3 is out of bounds for axis 1 with size 3"):
        select((0, 3), (2, 3))
    with pytest.raises(SelectionError, match="index -4 is out of bounds for axis 1 with size 3"):
        select((0, [0, -4]), (2, 3))
    with pytest.raises(SelectionError, match="the array has 1 dimensions, the key selects along 2"):
        select((0, 0), (2,))
    with pytest.raises(Invalid, match="step is not zero"):
        select(slice(None, None, 0), (2,))
    with pytest.raises(WrongType, match="bounds are ints"):
        select(slice("a", None), (2,))


def test_slices_and_ints_stay_ranges() -> None:
    selection = select((slice(5, None, -2), -1), (6, 7))
    assert selection.region == Region((Range(5, 3, -2), Range(6, 1, 1)))
    assert selection.middle is None


def test_an_open_mesh_is_planned_as_an_outer_product() -> None:
    region = select(np.ix_([4, 0], [1, 2, 2]), (6, 7)).region
    assert region.coupled == ()
    assert region.shape == (2, 3)


def test_arrays_that_run_together_are_coupled() -> None:
    region = select(([4, 0], slice(None), [1, 2]), (6, 3, 7)).region
    assert region.coupled == (0, 2)
    assert region.shape == (2, 3)


@settings(max_examples=min(settings.default.max_examples, 200))
@given(st.data())
def test_outer_takes_each_axis_for_itself(data: st.DataObject) -> None:
    shape = data.draw(datasets.shapes(max_dims=3, max_side=5))
    check_outer(data.draw(datasets.outer_keys(shape)), shape)


def test_outer_for_many_random_keys() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        shape = random_shape(rng, 4, 6)
        check_outer(random_orthogonal_key(rng, shape), shape)


def check_outer(key: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    base = base_of(shape)
    expected = base
    for axis in range(len(shape) - 1, -1, -1):
        expected = expected[(slice(None),) * axis + (key[axis],)]
    selection = outer(key, shape)
    check_region(selection.region, shape)
    assert not selection.region.coupled
    np.testing.assert_array_equal(taken(base, selection), expected)


@pytest.mark.parametrize("key", [(None, 0), ([[0, 1]],), np.ones((2, 3), bool), True])
def test_outer_refuses_what_is_not_orthogonal(key: Any) -> None:
    if isinstance(key, np.ndarray):
        np.testing.assert_array_equal(outer(key.nonzero(), (2, 3)).shape, (6, 6))
        return
    with pytest.raises(SelectionError):
        outer(key, (2, 3))


@settings(max_examples=min(settings.default.max_examples, 200))
@given(st.data())
def test_vectorised_puts_the_points_first(data: st.DataObject) -> None:
    shape = data.draw(datasets.shapes(max_dims=3, max_side=5))
    key = data.draw(datasets.vectorised_keys(shape))
    base = base_of(shape)
    try:
        base[key]
    except IndexError:
        with pytest.raises(SelectionError):
            vectorised(key, shape)
        return
    selection = vectorised(key, shape)
    check_region(selection.region, shape)
    np.testing.assert_array_equal(taken(base, selection), points_first(base, key))


def points_first(base: np.ndarray, key: tuple[Any, ...]) -> np.ndarray:
    """The slices are taken first, then the points of the axes moved to the front."""
    fancy = [axis for axis, item in enumerate(key) if not isinstance(item, slice)]
    cut = base[tuple(item if isinstance(item, slice) else slice(None) for item in key)]
    moved = np.moveaxis(cut, fancy, range(len(fancy)))
    arrays = [np.asarray(key[axis]) for axis in fancy]
    return moved[tuple(array.astype(int) for array in arrays)]


def test_vectorised_takes_no_new_axis() -> None:
    with pytest.raises(SelectionError):
        vectorised((None, [0]), (2,))


def test_writing_through_a_region_is_numpys_assignment() -> None:
    rng = np.random.default_rng(5)
    for _ in range(1500):
        shape = random_shape(rng, 4, 6)
        key = random_key(rng, shape, invalid=0)
        base = base_of(shape)
        try:
            wanted = base[key]
        except IndexError:
            continue
        full_mask = isinstance(key, np.ndarray) and key.dtype == bool
        lengths = [1 if rng.random() < 0.2 and not full_mask else side for side in wanted.shape]
        value = rng.integers(100, 200, lengths[int(rng.integers(0, 2)) :])
        expected = base.copy()
        expected[key] = value
        selection = select(key, shape)
        spread = selection.spread(value, base.dtype)
        assert spread.shape == selection.region.shape
        assert spread.dtype == base.dtype
        if spread.size:
            base[canonical_index(selection.region, shape)] = spread
        np.testing.assert_array_equal(base, expected)


def test_a_value_that_does_not_broadcast_is_refused() -> None:
    with pytest.raises(ValueError, match="does not broadcast") as caught:
        select(slice(0, 2), (3,)).spread([1, 2, 3])
    assert isinstance(caught.value, Invalid)


def test_leading_ones_of_a_value_are_dropped() -> None:
    assert select(slice(0, 2), (3,)).spread(np.ones((1, 1, 2))).shape == (2,)


def test_a_list_is_one_cell_of_objects() -> None:
    cell = select(0, (3,)).spread([1, 2], np.dtype(object))
    assert cell.shape == (1,)
    assert cell[0] == [1, 2]


def test_finishing_copies_nothing() -> None:
    selection = select((slice(None), 0, [1, 2]), (3, 4, 5))
    canonical = take(base_of((3, 4, 5)), selection.region)
    assert np.shares_memory(selection.finish(canonical), canonical)


@pytest.mark.parametrize("dialect", [select, outer, vectorised])
def test_a_step_of_zero_beside_an_integer_of_numpy(dialect: Callable[..., object]) -> None:
    with pytest.raises(Invalid, match="a slice step is not zero"):
        dialect((np.int16(1), slice(None, None, 0)), (3, 4))


@pytest.mark.parametrize("dialect", [select, outer, vectorised])
def test_ellipsis_of_a_cell_is_no_scalar(dialect: Callable[..., Selection]) -> None:
    """As in NumPy: ``a[...]`` of a 0-d array is one, and keeps its dtype; ``a[()]`` is a scalar."""
    assert not dialect(..., ()).scalar
    assert dialect((), ()).scalar
    assert not dialect((1, ...), (3,)).scalar
    assert dialect((1,), (3,)).scalar
