"""Reading the cells of regions against NumPy, and what it costs: the chunks that are touched and little memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab as hs
from hyperslab.array import region_reading
from hyperslab.array.cells import CellAccess
from hyperslab.array.region_reading import read_region
from hyperslab.errors import MemoryLimit, RegionOutOfBounds, SelectionError
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Shape, Steps
from hyperslab.selection import spans
from hyperslab.selection.region_bounds import region_shape
from hyperslab.selection.regions import blocks_region, region_of_key
from hyperslab.stores.memory import MemoryStore
from hyperslab.testing.datasets import advanced_keys, basic_keys, chunk_grids, shapes

Array = np.ndarray[Any, Any]


def cells_of(array: hs.Array) -> CellAccess:
    return array.lazy[()].cells


def stored(values: Array, chunks: Any = "auto") -> hs.Array:
    root = hs.create(MemoryStore(), format="zarr3")
    array = root.create_array("a", shape=values.shape, dtype=values.dtype, chunks=chunks)
    array[...] = values
    return array


@st.composite
def unions(draw: st.DrawFn, shape: Shape) -> Region:
    """Boxes as a document may have them: overlapping, empty, in any order."""
    found = []
    for _ in range(draw(st.integers(0, 7))):
        sides = [sorted((draw(st.integers(0, side)), draw(st.integers(0, side)))) for side in shape]
        found.append(tuple(zip(*sides, strict=True)))
    return Blocks(tuple(found), shape)


def masked(values: Array, region: Blocks) -> Array:
    mask = np.zeros(values.shape, bool)
    for starts, stops in region.blocks:
        mask[tuple(map(slice, starts, stops))] = True
    return values[mask]


@pytest.mark.parametrize("few", [1, 7, 1 << 16])
@given(data=st.data())
@settings(max_examples=min(settings.default.max_examples, 60))
def test_blocks_are_numpys_mask(few: int, data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=1, max_dims=4, min_side=1))
    values = np.arange(np.prod(shape)).reshape(shape)
    array = stored(values, data.draw(chunk_grids(shape, varying=False)))
    region = data.draw(unions(shape))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(region_reading, "CELLS_LISTED_AT_ONCE", few)
        found = read_region(cells_of(array), region)
    expected = masked(values, region)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@given(st.data())
@settings(max_examples=min(settings.default.max_examples, 60))
def test_products_are_numpys_open_mesh(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=1, max_dims=3, min_side=1))
    values = np.arange(np.prod(shape)).reshape(shape)
    array = stored(values, data.draw(chunk_grids(shape, varying=False)))
    lists = [tuple(sorted(data.draw(st.sets(st.integers(0, side - 1))))) for side in shape]
    found = read_region(cells_of(array), Product(tuple(lists), shape))
    np.testing.assert_array_equal(found, values[np.ix_(*(np.array(one, int) for one in lists))])


@given(st.data())
@settings(max_examples=min(settings.default.max_examples, 60))
def test_points_keep_their_order_and_are_repeated(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=1, max_dims=3, min_side=1))
    values = np.arange(np.prod(shape)).reshape(shape)
    array = stored(values, data.draw(chunk_grids(shape, varying=False)))
    points = tuple(data.draw(st.lists(st.tuples(*(st.integers(0, side - 1) for side in shape)), max_size=9)))
    found = read_region(cells_of(array), Points(points, shape))
    assert found.shape == (len(points),)
    assert found.tolist() == [values[point] for point in points]


@given(st.data())
@settings(max_examples=min(settings.default.max_examples, 60))
def test_a_region_of_a_key_is_the_keys_cells(data: st.DataObject) -> None:
    shape = data.draw(shapes(min_dims=1, max_dims=3, min_side=1))
    values = np.arange(np.prod(shape)).reshape(shape)
    key = data.draw(advanced_keys(shape))
    try:
        region = region_of_key(key, shape)
    except SelectionError:
        return  # backwards, say; tests of the selection name each
    array = stored(values)
    found = read_region(cells_of(array), region)
    assert found.shape == region_shape(region, shape)
    assert sorted(found.reshape(-1).tolist()) == sorted(np.asarray(values[key]).reshape(-1).tolist())


VALUES = np.arange(40).reshape(5, 8)


@pytest.mark.parametrize("kind", [np.dtypes.StringDType(), np.dtype("U4"), np.dtype([("x", "i4"), ("y", "f8")])])
def test_cells_of_every_kind(kind: np.dtype[Any]) -> None:
    values = np.zeros((5, 8), kind)
    if kind.names:
        values["x"], values["y"] = VALUES, VALUES / 2
    else:
        values[...] = VALUES.astype(kind)
    cells = cells_of(stored(values, (2, 3)))
    mask = VALUES % 3 == 0
    for region in (region_of_key(mask, mask.shape), region_of_key(mask.nonzero(), mask.shape)):
        assert read_region(cells, region).tolist() == values[mask].tolist()
    assert read_region(cells, region_of_key(np.s_[1:4, [0, 1, 7]], (5, 8))).tolist() == values[1:4, [0, 1, 7]].tolist()
    assert read_region(cells, Everything()).tolist() == values.tolist()
    assert read_region(cells, Nothing()).dtype == values.dtype


def test_growth_moves_no_cell() -> None:
    array = stored(VALUES, (2, 3))
    mask = VALUES % 7 == 1
    regions = [
        region_of_key(key, array.shape)
        for key in (np.s_[1:4, ::2], np.s_[:, [0, 1, 5]], mask, mask.nonzero(), ..., np.s_[1:1])
    ]
    before = [read_region(cells_of(array), region) for region in regions]
    array.resize((9, 20))
    array[5:] = -1
    array[:, 8:] = -1
    for region, cells in zip(regions, before, strict=True):
        np.testing.assert_array_equal(read_region(cells_of(array), region), cells)
    assert read_region(cells_of(array), Everything()).shape == (9, 20)


def test_a_smaller_array_or_one_of_another_rank_is_refused() -> None:
    array = stored(VALUES, (2, 3))
    mask = VALUES % 7 == 1
    for key in (np.s_[1:5, ::2], np.s_[[0, 1, 4], :], mask, mask.nonzero(), ...):
        region = region_of_key(key, (5, 8))
        for other in (stored(VALUES[:4]), stored(VALUES[0]), stored(VALUES[None])):
            with pytest.raises(RegionOutOfBounds, match="node=/a"):
                read_region(cells_of(other), region)
    region = region_of_key(np.s_[1:3, 0:2], (5, 8))
    array.resize((3, 2))
    np.testing.assert_array_equal(read_region(cells_of(array), region), VALUES[1:3, 0:2])


def test_scalars_have_no_axis_or_one() -> None:
    cells = cells_of(stored(np.array(7)))
    for everything in (Everything(), Everything(()), Everything((1,))):
        assert read_region(cells, everything).shape == ()
        assert read_region(cells, everything) == 7
    assert read_region(cells, Nothing()).shape == (0,)
    assert read_region(cells, Product((Steps(0, 1),), (1,))).tolist() == [7]
    assert read_region(cells, Product((Steps(0, 0),), (1,))).tolist() == []
    assert read_region(cells, Points(((0,), (0,)), (1,))).tolist() == [7, 7]
    assert read_region(cells, Blocks((((0,), (1,)), ((0,), (1,))), (1,))).tolist() == [7]
    with pytest.raises(RegionOutOfBounds):
        read_region(cells, Everything((2,)))


def test_hostile_shapes_are_refused_before_anything_is_allocated() -> None:
    cells = cells_of(stored(VALUES))
    huge = 2**62
    for region in (
        Everything((huge, 0)),
        Everything((huge, huge)),
        Product((Steps(0, huge), Steps(0, 0)), (huge, 8)),
        Blocks((((0, 0), (huge, huge)),), (huge, huge)),
    ):
        with pytest.raises(RegionOutOfBounds):
            read_region(cells, region)


SIDE = 1 << 14  # of a square of 1 GiB in chunks of 1 MiB, of which a few exist


@pytest.fixture(params=["memory", "folder"])
def vast(request: pytest.FixtureRequest, tmp_path: Path) -> hs.Array:
    where = MemoryStore() if request.param == "memory" else tmp_path / "vast.zarr"
    root = hs.create(where, format="zarr3", cache_bytes=0)
    array = root.create_array("a", shape=(SIDE, SIDE), dtype="f4", chunks=(512, 512), fill_value=3)
    array[600:602, 5000] = [1, 2]
    return array


@pytest.mark.parametrize(
    ("key", "chunks"),
    [
        (np.s_[600:602, 4999:5002], 1),
        (np.s_[:: SIDE // 4, 5000], 4),
        (np.s_[600, [0, 5000, SIDE - 1]], 3),
        (np.s_[[600, 601, 600, SIDE - 1], [5000, 5000, 0, SIDE - 1]], 3),
    ],
)
def test_only_chunks_that_are_touched_are_decoded(vast: hs.Array, key: Any, chunks: int) -> None:
    region = region_of_key(key, vast.shape)
    with hs.trace() as cost:
        found = read_region(cells_of(vast), region)
    assert cost.chunks == chunks
    np.testing.assert_array_equal(found.reshape(-1), np.asarray(vast[key]).reshape(-1))


def test_scattered_blocks_touch_each_chunk_once(vast: hs.Array) -> None:
    boxes = [((600, 5000), (601, 5001)), ((601, 4990), (602, 5003)), ((9000, 0), (9002, 2)), ((601, 4995), (602, 5000))]
    region = blocks_region(boxes, vast.shape)
    assert isinstance(region, Blocks)
    with hs.trace() as cost:
        found = read_region(cells_of(vast), region)
    assert cost.chunks == 2
    assert found.tolist() == [1, *[3] * 10, 2, 3, 3, *[3] * 4]


def test_memory_is_that_of_the_cells(vast: hs.Array) -> None:
    """Two bands that overlap in part, 16 MiB of cells: no list of their positions, which would take 64 MiB."""
    region = blocks_region([((0, 0), (128, SIDE)), ((64, 0), (256, SIDE // 2))], vast.shape)
    nbytes = 4 * int(np.prod(region_shape(region, vast.shape)))
    tracemalloc.start()
    try:
        found = read_region(cells_of(vast), region)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.nbytes == nbytes > 10 << 20
    assert peak < nbytes + (8 << 20)


def test_a_region_that_does_not_fit_in_memory_is_refused(tmp_path: Path) -> None:
    root = hs.create(str(tmp_path / "a.zarr"), format="zarr3", memory_limit=1 << 20)
    array = root.create_array("a", shape=(SIDE, SIDE), dtype="f4", chunks=(256, 256))
    for region in (Everything(), blocks_region([((0, 0), (3, SIDE)), ((9, 0), (99, SIDE - 1))], array.shape)):
        with pytest.raises(MemoryLimit, match="node=/a"):
            read_region(cells_of(array), region)


def test_blocks_that_cut_each_other_into_parts_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of a few lines can say boxes whose union has more parts than any memory."""
    monkeypatch.setattr(spans, "MOST_CUTS", 1 << 12)
    rank, sides = 6, np.random.default_rng(1).integers(0, 50, (60, 2, 6))
    boxes = [(tuple(low.tolist()), tuple((low + 20 + more).tolist())) for low, more in sides]
    array = hs.create(MemoryStore(), format="zarr3").create_array("a", shape=(120,) * rank, dtype="i1")
    with pytest.raises(MemoryLimit, match=r"too many parts.*node=/a"):
        read_region(cells_of(array), Blocks(tuple(boxes), array.shape))


@given(st.data())
@settings(max_examples=min(settings.default.max_examples, 60))
def test_a_view_is_read_into_a_part_of_another_array(data: st.DataObject) -> None:
    """In place where shape and dtype are those of the cells, else by a copy: the same result, and nothing beside it."""
    shape = data.draw(shapes(min_dims=1, max_dims=3, min_side=1))
    values = np.arange(np.prod(shape)).reshape(shape)
    array = stored(values, data.draw(chunk_grids(shape, varying=False)))
    view = array.lazy[data.draw(st.one_of(basic_keys(shape), st.sampled_from([np.arange(shape[0])[::-1], [0, 0]])))]
    around = np.full((2, *(side + 1 for side in view.shape), 2), -1, data.draw(st.sampled_from(["i8", "f8", ">i8"])))
    part = around[(1, *(slice(side) for side in view.shape), 0, ...)]
    assert view.read(out=part) is part
    expected = np.full_like(around, -1)
    expected[(1, *(slice(side) for side in view.shape), 0)] = view.read()
    np.testing.assert_array_equal(around, expected)
