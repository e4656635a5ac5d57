"""Regular scales in xarray: labels that are computed, and selected as those of an Array."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import xarray as xr

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
