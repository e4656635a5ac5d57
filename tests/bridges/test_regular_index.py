"""Regular scales in xarray: labels that are computed, and selected as those of an Array."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.bridges.xarray.scales import RegularIndex, coordinates_with
from hyperslab.errors import LabelError
from hyperslab.model.dims import ScaleIndex

SCALE = ScaleIndex(60.0, -2.5, 20)
LABELS = 60 - 2.5 * np.arange(20)


@pytest.fixture(params=["y", "lat"])
def array(request: pytest.FixtureRequest) -> xr.DataArray:
    """Cells along ``y``, whose coordinate has its name or another one."""
    found = xr.DataArray(np.arange(40).reshape(20, 2), dims=("y", "x"))
    return found.assign_coords(coordinates_with(RegularIndex(SCALE, "y", request.param), request.param))


def check_same(found: xr.DataArray, wanted: xr.DataArray) -> None:
    """Compare all but which kind of index a coordinate has."""
    bare = [each.drop_indexes(list(each.xindexes)) for each in (found.load(), wanted)]
    assert list(found.xindexes) == list(wanted.xindexes)
    xr.testing.assert_identical(*bare)


def test_selections_are_those_of_listed_labels(array: xr.DataArray) -> None:
    name = next(iter(array.coords))
    listed = xr.DataArray(array.values, dims=array.dims).assign_coords({name: ("y", LABELS)})
    listed = listed if name == "y" else listed.set_xindex(name)
    points = xr.DataArray([57.5, 50.0], dims="p", coords={"p": [1, 2]})
    for label in (57.5, [57.5, 60.0], np.array([50.0]), slice(57.5, 50), slice(50, None), slice(None), points):
        check_same(array.sel({name: label}), listed.sel({name: label}))
    bounds = slice(listed[name][1], listed[name][4] + 0.1)
    check_same(array.sel({name: bounds}), listed.sel({name: bounds}))
    for label in (57.4, [57.4, 12.6]):
        check_same(array.sel({name: label}, method="nearest"), listed.sel({name: label}, method="nearest"))
    with pytest.raises(LabelError):
        array.sel({name: 57.4})
    with pytest.raises(LabelError):
        array.sel({name: 57.0}, method="nearest", tolerance=0.1)


def test_an_index_stays_through_positions_names_and_pickles(array: xr.DataArray) -> None:
    name = next(iter(array.coords))
    part = array.isel(y=slice(2, 12, 3))
    np.testing.assert_array_equal(part[name], LABELS[2:12:3])
    assert part.sel({name: LABELS[5]}).values.tolist() == [10, 11]
    np.testing.assert_array_equal(array.isel(y=[3, 1])[name], LABELS[[3, 1]])
    assert array.isel(y=[3, 1]).sel({name: LABELS[1]}).values.tolist() == [2, 3]
    assert float(array.isel(y=3)[name]) == LABELS[3]
    renamed = array.rename({name: "latitude"})
    assert renamed.sel(latitude=57.5).values.tolist() == [2, 3]
    again = pickle.loads(pickle.dumps(array))
    xr.testing.assert_identical(again.load(), array.load())
    assert again.sel({name: 57.5}).values.tolist() == [2, 3]
    np.testing.assert_array_equal((array + array)[name], LABELS)
    np.testing.assert_array_equal(array.isel(y=[-1, -20])[name], LABELS[[-1, 0]])
    both = xr.concat([array.isel(y=slice(12, 15)), array.isel(y=slice(2, 5))], "y")
    np.testing.assert_array_equal(both[name], LABELS[[12, 13, 14, 2, 3, 4]])
    np.testing.assert_array_equal(both.sel({name: LABELS[3]}), array.isel(y=3))
    masks = (LABELS > 30, np.zeros(20, bool), np.array([0, 19], "u1"), [])
    for positions in masks:
        np.testing.assert_array_equal(array.isel(y=positions)[name], LABELS[positions if len(positions) else slice(0)])
    np.testing.assert_array_equal(array.where(array[name] > 30, drop=True)[name], LABELS[LABELS > 30])
    for positions in ([20], [-21], np.zeros(19, bool)):
        with pytest.raises(IndexError):
            array[name].isel(y=positions)
    assert array.to_series().index.get_level_values("y").size == 40


def test_positions_take_no_memory_for_the_other_labels() -> None:
    """A recording of a day has 2.6e9 samples."""
    rate = 30_000.0
    scale = ScaleIndex(5.0, 1 / rate, 86_400 * int(rate), rate)
    dataset = xr.Dataset(coords=coordinates_with(RegularIndex(scale, "samples", "time"), "time"))
    tracemalloc.start()
    part = dataset.isel(samples=[-1, 30_000])
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert part["time"].values.tolist() == [5 + (86_400 * rate - 1) / rate, 6.0]


def labelled(scale: ScaleIndex, first: float) -> xr.DataArray:
    cells = xr.DataArray(first + np.arange(scale.size), dims="y")
    return cells.assign_coords(coordinates_with(RegularIndex(scale, "y", "y"), "y"))


def listed(scale: ScaleIndex, positions: range, first: float) -> xr.DataArray:
    labels = scale.labels(range(-50, 50))[positions.start + 50 : positions.stop + 50]
    return xr.DataArray(first + np.arange(len(positions)), coords={"y": labels}, dims="y")


@pytest.mark.parametrize("join", ["inner", "outer", "left", "right", "exact", "override"])
@given(
    scale=st.builds(
        ScaleIndex,
        st.sampled_from([0.0, 0.3, 60.0, -7.5]),
        st.sampled_from([0.1, -0.1, 0.25, -2.5, 1 / 3]),
        st.integers(0, 12),
    ),
    rate=st.sampled_from([None, 3.0, 30_000.0]),
    place=st.integers(-15, 15),
    size=st.integers(0, 12),
)
def test_parts_of_a_scale_join_as_listed_labels(
    join: str, scale: ScaleIndex, rate: float | None, place: int, size: int
) -> None:
    scale = scale if rate is None else ScaleIndex(scale.start, 1 / rate, scale.size, rate)
    parts = range(scale.size), range(place, place + size)
    pairs = (
        (labelled(scale, 0.0), labelled(scale.take(parts[1]), 100.0)),
        (listed(scale, parts[0], 0.0), listed(scale, parts[1], 100.0)),
    )
    found, wanted = (outcome(xr.align, *pair, join=join) for pair in pairs)
    assert isinstance(found, type(wanted))
    if not isinstance(wanted, tuple):
        return
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_allclose(ours["y"], theirs["y"], rtol=1e-14, atol=1e-14)


def outcome(call: Callable[..., Any], *args: object, **options: object) -> object:
    try:
        return call(*args, **options)
    except (ValueError, NotImplementedError) as error:
        return error


def test_scales_of_several_grids_join_as_listed_labels() -> None:
    scales = ScaleIndex(0.0, 0.5, 10), ScaleIndex(1.0, 0.25, 10), ScaleIndex(0.5, 0.5, 3), ScaleIndex(40.0, 0.5, 2)
    scaled = [labelled(each, 0.0) for each in scales]
    plain = [xr.DataArray(each.values, coords={"y": each["y"].values}, dims="y") for each in scaled]
    for join in ("inner", "outer"):
        for ours, theirs in zip(xr.align(*scaled, join=join), xr.align(*plain, join=join), strict=True):
            check_same(ours, theirs)
    check_same(scaled[0].combine_first(scaled[2]), plain[0].combine_first(plain[2]))
    check_same(scaled[0].reindex_like(scaled[1]), plain[0].reindex_like(plain[1]))
    check_same(scaled[0] - scaled[0].isel(y=slice(3, 7)), plain[0] - plain[0].isel(y=slice(3, 7)))
    with pytest.raises(ValueError, match="conflicting indexes"):
        scaled[0] - plain[2]
    check_same(scaled[0].drop_indexes("y").set_xindex("y") - plain[2], plain[0] - plain[2])


def test_one_part_taken_in_two_ways_is_equal() -> None:
    seconds = labelled(ScaleIndex(5.0, 1 / 7, 200, 7.0), 0.0)
    once, twice = seconds.isel(y=slice(4, None)), seconds.isel(y=slice(1, None)).isel(y=slice(3, None))
    assert once["y"].values.tolist() != twice["y"].values.tolist()  # to the last bit
    np.testing.assert_array_equal(xr.align(once, twice, join="exact")[1], once)


def test_a_joined_scale_lists_no_labels() -> None:
    rate = 30_000.0
    day = RegularIndex(ScaleIndex(0.0, 1 / rate, 86_400 * int(rate), rate), "y", "y")
    second = RegularIndex(day.scale.take(range(90_000, 120_000)), "y", "y")
    tracemalloc.start()
    joined = day.join(second), day.join(second, "outer")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert [each.scale.size for each in joined] == [30_000, 86_400 * 30_000]
    assert day.reindex_like(second)["y"].tolist() == list(range(90_000, 120_000))


def test_steps_of_a_scale_keep_its_labels() -> None:
    scale = ScaleIndex(-179.9, 0.1, 400)
    for step in (2, 3, 7, -1, -3):
        chosen = range(400)[::step]
        assert scale.take(chosen).labels(range(len(chosen))).tolist() == scale.labels(chosen).tolist()
    whole = labelled(scale, 0.0)
    part = whole.isel(y=slice(None, None, 3))
    assert (whole - part).sizes["y"] == part.sizes["y"]
    assert whole.combine_first(part).sizes["y"] == 400


def test_reindex_like_takes_the_nearest() -> None:
    whole, other = labelled(SCALE, 0.0), labelled(ScaleIndex(59.0, -5.0, 3), 0.0)
    plain = xr.DataArray(whole.values, coords={"y": LABELS}, dims="y")
    wanted = plain.reindex(y=other["y"].values, method="nearest")
    check_same(whole.reindex_like(other, method="nearest"), wanted)


def test_an_error_names_the_coordinate(array: xr.DataArray) -> None:
    name = str(next(iter(array.coords)))
    with pytest.raises(LabelError, match=f"^{name} 57.4 lies between"):
        array.sel({name: 57.4})


def test_labels_between_two_cells_are_those_of_pandas() -> None:
    tenths = labelled(ScaleIndex(0.0, 0.1, 36), 0.0)
    plain = xr.DataArray(tenths.values, coords={"y": tenths["y"].values}, dims="y")
    for label in (0.25, 0.05, 1.15, 2.999):
        check_same(tenths.sel(y=label, method="nearest"), plain.sel(y=label, method="nearest"))
    with pytest.raises(LabelError, match=r"^y 0\.25 lies between 0\.2 and 0\.3;"):
        tenths.sel(y=0.25)
