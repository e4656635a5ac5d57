"""Regions of keys, masks, points and boxes against NumPy, which knows the cells; their one form; their bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hyperslab.errors import Invalid, RegionOutOfBounds, SelectionError
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Shape, Steps
from hyperslab.selection.region_bounds import checked, isel_of, region_shape, require_fits
from hyperslab.selection.regions import blocks_region, region_of_key, strided_region
from hyperslab.selection.spans import boxes_of, count, spans_of_boxes, spans_of_mask
from hyperslab.testing.datasets import advanced_keys, basic_keys, shapes

Array = np.ndarray[Any, Any]
SHAPE = (5, 8)


def numbered(shape: Shape) -> Array:
    """Each cell is its own number."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


def cells_of(region: Region, base: Array) -> Array:
    """The region's cells straight by NumPy, in a way that knows nothing of spans."""
    match region:
        case Everything():
            return base if region.shape is None else base[tuple(map(slice, region.shape))]
        case Nothing():
            return np.empty(0, base.dtype)
        case Product():
            axes = [
                range(part.start, part.stop, part.step) if isinstance(part, Steps) else part for part in region.axes
            ]
            return base[np.ix_(*(np.array(axis, int) for axis in axes))]
        case Points():
            return np.array([base[point] for point in region.points], base.dtype)
        case Blocks():
            mask = np.zeros(base.shape, bool)
            for starts, stops in region.blocks:
                mask[tuple(map(slice, starts, stops))] = True
            return base[mask]


def kept(key: Any, shape: Shape) -> Any:
    """The key with a slice in place of each int, so that NumPy keeps the axis."""
    items = key if isinstance(key, tuple) else (key,)
    return tuple(
        slice(int(item), int(item) + 1 or None) if isinstance(item, int | np.integer) else item for item in items
    )


def is_backwards(key: Any) -> bool:
    items = key if isinstance(key, tuple) else (key,)
    return any(isinstance(item, slice) and item.step is not None and item.step < 0 for item in items)


@given(st.data())
def test_slices_and_ints_are_numpys(data: st.DataObject) -> None:
    shape = data.draw(shapes(max_dims=4))
    key = data.draw(basic_keys(shape).filter(lambda key: None not in (key if isinstance(key, tuple) else (key,))))
    base = numbered(shape)
    try:
        region = region_of_key(key, shape)
    except SelectionError:
        assert is_backwards(key)
        return
    expected = base[kept(key, shape)]
    assert checked(region) is region
    assert region_shape(region, shape) == expected.shape
    np.testing.assert_array_equal(cells_of(region, base), expected)
    assert isinstance(region, Everything) == (expected.shape == shape)


@given(st.data())
def test_keys_with_arrays_are_numpys_cells_in_its_order(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=1, max_dims=3, min_side=1))
    key = data.draw(advanced_keys(shape))
    items = key if isinstance(key, tuple) else (key,)
    base = numbered(shape)
    try:
        region = region_of_key(key, shape)
    except SelectionError:
        return  # what no region says: test_refused names each
    found = cells_of(checked(region), base).reshape(-1)
    expected = np.asarray(base[key]).reshape(-1)
    lists = [np.asarray(item) for item in items if isinstance(item, list | np.ndarray)]
    masks = sum(item.dtype == bool and item.ndim > 1 for item in lists)
    if len(lists) == 1 and (masks or sum(isinstance(item, int | np.integer) for item in items)):
        found, expected = np.sort(found), np.sort(expected)  # axes stay where they are
    np.testing.assert_array_equal(found, expected)


@given(st.data())
def test_open_meshes_are_orthogonal(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=2, max_dims=4, min_side=1))
    lists = [sorted(data.draw(st.sets(st.integers(0, side - 1), min_size=1, max_size=side))) for side in shape]
    region = region_of_key(np.ix_(*lists), shape)
    assert isinstance(region, Product | Everything)
    base = numbered(shape)
    np.testing.assert_array_equal(cells_of(region, base), base[np.ix_(*lists)])


@given(shapes(min_dims=1, max_dims=4).flatmap(lambda shape: npst.arrays(bool, shape)))
def test_a_mask_is_its_cells_in_the_smallest_form(mask: Array) -> None:
    base = numbered(mask.shape)
    region = checked(region_of_key(mask, mask.shape))
    np.testing.assert_array_equal(cells_of(region, base).reshape(-1), base[mask])
    along = [mask.any(axis=tuple(i for i in range(mask.ndim) if i != axis)) for axis in range(mask.ndim)]
    is_product = np.prod([int(axis.sum()) for axis in along]) == mask.sum()
    if mask.all():
        assert region == Everything(mask.shape)
    elif not mask.any():
        assert region == Nothing()
    elif is_product:
        assert isinstance(region, Product)
        for axis, part in zip(along, region.axes, strict=True):
            places = np.flatnonzero(axis)
            assert isinstance(part, Steps) == (len(set(np.diff(places).tolist())) < 2)
    else:
        assert isinstance(region, Blocks)
        assert list(region.blocks) == sorted(region.blocks)
        assert blocks_region(region.blocks, mask.shape) == region


@given(st.data())
def test_a_mask_of_some_axes_goes_with_slices_of_others(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=3, max_dims=4, min_side=1, max_side=5))
    first = data.draw(st.integers(0, len(shape) - 2))
    mask = data.draw(npst.arrays(bool, shape[first : first + 2]))
    others = [slice(data.draw(st.integers(0, 2)), None, data.draw(st.integers(1, 3))) for _ in shape]
    before, after = others[:first], others[first + 2 :]
    base = numbered(shape)
    region = checked(region_of_key((*before, mask, *after), shape))
    inside = np.zeros(shape, bool)
    inside[(*before, slice(None), slice(None), *after)] = True
    inside &= mask.reshape([1] * first + list(mask.shape) + [1] * len(after))
    np.testing.assert_array_equal(cells_of(region, base).reshape(-1), base[inside])


@st.composite
def boxes(draw: st.DrawFn, shape: Shape) -> list[Any]:
    """Boxes within a shape, overlapping and empty ones among them."""
    found = []
    for _ in range(draw(st.integers(0, 6))):
        sides = [sorted((draw(st.integers(0, side)), draw(st.integers(0, side)))) for side in shape]
        found.append(tuple(zip(*sides, strict=True)))
    return found


@given(st.data())
def test_equal_unions_have_equal_regions(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=1, max_dims=4))
    union = data.draw(boxes(shape))
    mask = np.zeros(shape, bool)
    for starts, stops in union:
        mask[tuple(map(slice, starts, stops))] = True
    assert spans_of_boxes(union) == spans_of_mask(mask)
    assert count(spans_of_boxes(union)) == mask.sum()
    disjoint = np.zeros(shape, int)
    for starts, stops in boxes_of(spans_of_boxes(union)):
        disjoint[tuple(map(slice, starts, stops))] += 1
    np.testing.assert_array_equal(disjoint, mask)
    region = blocks_region(union, shape)
    assert region == region_of_key(mask, shape) or not mask.size
    assert region_shape(Blocks(tuple(union), shape), shape) == (mask.sum(),)


@pytest.mark.parametrize(
    ("key", "region"),
    [
        (np.s_[1:4, ::2], Product((Steps(1, 4), Steps(0, 8, 2)), SHAPE)),
        (np.s_[:, [1, 5]], Product((Steps(0, 5), Steps(1, 8, 4)), SHAPE)),
        (np.s_[:, [1, 5, 6]], Product((Steps(0, 5), (1, 5, 6)), SHAPE)),
        (np.s_[:, [1, 3, 5]], Product((Steps(0, 5), Steps(1, 7, 2)), SHAPE)),
        (np.s_[..., 0:8:3], Product((Steps(0, 5), Steps(0, 8, 3)), SHAPE)),
        (np.s_[::4, 1:2:7], Product((Steps(0, 5, 4), Steps(1, 2)), SHAPE)),
        (np.s_[-1, -3:], Product((Steps(4, 5), Steps(5, 8)), SHAPE)),
        (np.s_[3:3, 2], Product((Steps(0, 0), Steps(2, 3)), SHAPE)),
        (np.s_[[], :], Product((Steps(0, 0), Steps(0, 8)), SHAPE)),
        (np.s_[[0, 3, 3], [1, -5, 3]], Points(((0, 1), (3, 3), (3, 3)), SHAPE)),
        (np.s_[...], Everything(SHAPE)),
        (np.s_[0:9, -9:], Everything(SHAPE)),
        (np.s_[4:2:-1, 0], None),
        (np.s_[3:2:-1, 0], Product((Steps(3, 4), Steps(0, 1)), SHAPE)),
    ],
)
def test_the_forms_of_the_specification(key: Any, region: Region | None) -> None:
    if region is None:
        with pytest.raises(SelectionError, match="backwards"):
            region_of_key(key, SHAPE)
    else:
        assert region_of_key(key, SHAPE) == region


def test_blocks_of_a_mask_are_sorted_and_merged() -> None:
    mask = np.zeros(SHAPE, bool)
    mask[0:2, 0:3] = mask[4] = True
    assert region_of_key(mask, SHAPE) == Blocks((((0, 0), (2, 3)), ((4, 0), (5, 8))), SHAPE)


def test_lists_of_one_axis_keep_their_order() -> None:
    assert region_of_key([3, 1, -1], (5,)) == Points(((3,), (1,), (4,)), (5,))
    assert region_of_key([1, 3], (5,)) == Product((Steps(1, 5, 2),), (5,))


def test_arrays_without_dimensions() -> None:
    assert region_of_key((), ()) == region_of_key(..., ()) == region_of_key(np.True_, ()) == Everything(())
    assert region_of_key(False, ()) == Nothing()
    with pytest.raises(SelectionError):
        checked(Product((), ()))


def test_arrays_without_cells() -> None:
    assert region_of_key(..., (0, 3)) == Everything((0, 3))
    assert region_of_key(np.s_[:, 1], (0, 3)) == Product((Steps(0, 0), Steps(1, 2)), (0, 3))


@pytest.mark.parametrize(
    "key",
    [
        np.s_[None, 1],
        np.s_[::-1, 0],
        np.s_[[3, 1], :],
        np.s_[[1, 1], :],
        np.s_[5],
        np.s_[0, -9],
        np.s_[0, 0, 0],
        np.s_[[0, 5], :],
        (np.ones((5, 7), bool),),
        (np.ones((5, 8, 1), bool),),
        (np.ones((5, 8), bool), None),
        np.s_[[0, 1], [0, 1, 2]],
        np.s_[True],
        (np.ones((5, 8), bool), False),
        (np.array(True), np.ones((5, 8), bool)),
        1.5,
        "x",
    ],
)
def test_refused(key: Any) -> None:
    with pytest.raises(SelectionError):
        region_of_key(key, SHAPE)


@given(st.data())
def test_regular_hyperslabs(data: st.DataObject) -> None:
    axes, masks = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        start, number, block = (data.draw(st.integers(low, high)) for low, high in [(0, 3), (1, 3), (1, 3)])
        stride = data.draw(st.integers(block, block + 2))
        length = start + (number - 1) * stride + block + data.draw(st.integers(0, 2))
        axes.append((start, stride, number, block))
        masks.append(np.isin(np.arange(length), [start + i * stride + j for i in range(number) for j in range(block)]))
    shape = tuple(map(len, masks))
    whole = np.ones(shape, bool)
    for axis, along in enumerate(masks):
        whole &= along.reshape([-1 if i == axis else 1 for i in range(len(masks))])
    assert strided_region(axes, shape) == region_of_key(whole, shape)


@pytest.mark.parametrize(
    ("region", "fits", "too_small"),
    [
        (Everything(SHAPE), SHAPE, (5, 7)),
        (Product((Steps(1, 4), Steps(0, 8, 3)), SHAPE), (4, 7), (4, 6)),
        (Product((Steps(0, 5), (1, 6)), SHAPE), (5, 7), (4, 7)),
        (Points(((0, 1), (3, 3)), SHAPE), (4, 4), (4, 3)),
        (Blocks((((0, 0), (2, 3)), ((3, 7), (3, 8))), SHAPE), (2, 3), (1, 3)),
    ],
)
def test_bounds(region: Region, fits: Shape, too_small: Shape) -> None:
    require_fits(region, fits)
    require_fits(region, (9, 9))
    for shape in (too_small, (9,), (9, 9, 9), ()):
        with pytest.raises(RegionOutOfBounds):
            require_fits(region, shape)


def test_everything_of_now_and_nothing_fit_always() -> None:
    for shape in ((), (0,), (3, 4)):
        require_fits(Everything(), shape)
        require_fits(Nothing(), shape)
        assert region_shape(Everything(), shape) == shape
        assert region_shape(Nothing(), shape) == (0,)


def test_isel() -> None:
    region = region_of_key(np.s_[1:4, [1, 5, 6]], SHAPE)
    assert isel_of(region, ("y", "x")) == {"y": slice(1, 4, 1), "x": [1, 5, 6]}
    assert isel_of(region, ("y", None)) == {"y": slice(1, 4, 1), 1: [1, 5, 6]}
    assert isel_of(Everything(SHAPE), ("y", "x")) == {"y": slice(0, 5, 1), "x": slice(0, 8, 1)}
    assert isel_of(Everything(), ("y", "x")) == {"y": slice(None), "x": slice(None)}
    for other in (Nothing(), Points(((0, 0),), SHAPE), region):
        with pytest.raises(Invalid):
            isel_of(other, ("y",))
