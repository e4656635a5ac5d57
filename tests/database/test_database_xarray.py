"""Defect 23: what ``read_xarray`` gives has plain times and attributes, is selected by label and saved anywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.database import (
    ArraySchema,
    AttributeSchema,
    DimensionSchema,
    Scale,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.errors import Invalid

pytestmark = pytest.mark.covering  # layouts and flavours of arrays take turns

DATA = np.arange(6 * 8 * 4 * 3, dtype=float).reshape(6, 8, 4, 3)
DIMENSIONS = [
    TimeDimensionSchema("time", 6, "$dt", timedelta(hours=1)),
    DimensionSchema("y", 8, scale=Scale(90.0, -0.25, "lat")),
    DimensionSchema("what", 4, labels=["a", "b", "c", "d"]),
    DimensionSchema("p", 3),
]
ATTRIBUTES = [
    AttributeSchema("dt", datetime, True),
    AttributeSchema("i", int, False),
    AttributeSchema("big", int, False),
    AttributeSchema("f", float, False),
    AttributeSchema("c", complex, False),
    AttributeSchema("s", str, False),
    AttributeSchema("ints", tuple, False),
    AttributeSchema("mixed", tuple, False),
    AttributeSchema("unset", str, False),
]


@pytest.fixture(params=["array", "varray"])
def array(request, client, layout):
    grid = {} if request.param == "array" else {"vgrid": (2, 2, 1, 1)}
    schema = (VArraySchema if grid else ArraySchema)(DIMENSIONS, float, ATTRIBUTES, **grid)
    custom = {"i": 3, "big": 2**70, "f": 1.5, "c": 1 + 2j, "s": "é", "ints": (1, 2), "mixed": (1, "a", (2.0,))}
    made = client.create_collection("weather", schema, layout=layout).create({"dt": datetime(2023, 1, 1)}, custom)
    made[:].update(DATA)
    return made


def test_defect_23_coordinates_are_times_values_labels_and_positions(array):
    found = array[1:4, 89.5:88.5, "b":, 2].read_xarray()
    assert found.dims == ("time", "y", "what", "p") and found.shape == (3, 4, 3, 1) and found.name == "weather"
    np.testing.assert_array_equal(found.values, DATA[1:4, 2:6, 1:, 2:])
    assert found.time.dtype == "datetime64[ns]" and str(found.time.values[0]) == "2023-01-01T01:00:00.000000000"
    assert found.y.values.tolist() == [89.5, 89.25, 89.0, 88.75] and found.what.values.tolist() == ["b", "c", "d"]
    assert found.p.values.tolist() == [2]
    assert found.sel(time="2023-01-01T02", y=89.25, what="c").item() == DATA[2, 3, 2, 2]


def test_defect_23_attributes_are_nested_and_plain(array):
    assert array[:].read_xarray().attrs == {
        "id": array.id,
        "collection": "weather",
        "primary_attributes": {"dt": "2023-01-01T00:00:00+00:00"},
        "custom_attributes": {
            "i": 3,
            "big": str(2**70),
            "f": 1.5,
            "c": "(1+2j)",
            "s": "é",
            "ints": [1, 2],
            "mixed": "(1, 'a', (2.0,))",
        },
    }


@pytest.mark.parametrize("key", [..., np.s_[1, 90.0], np.s_[::-2, :, "d"::-1], np.s_[:0]], ids=str)
def test_defect_23_it_is_saved_to_netcdf_and_zarr(array, tmp_path, key):
    found = array[key].read_xarray()
    found.drop_attrs().to_netcdf(tmp_path / "a.nc")
    with xr.open_dataarray(tmp_path / "a.nc") as again:
        xr.testing.assert_equal(again.load(), found)
    import hyperslab as hs

    hs.save(tmp_path / "a.zarr", found)
    with xr.open_dataset(tmp_path / "a.zarr", engine="hyperslab") as again:
        xr.testing.assert_identical(again["weather"].load(), found)


def test_labels_of_a_scale_align_with_those_of_another_source(array):
    whole = array.array.to_xarray().drop_attrs()
    part = whole.isel(y=[1, 5])
    assert (whole - part)["y"].values.tolist() == [89.75, 88.75]
    listed = xr.DataArray(np.ones(2), coords={"y": [89.5, 80.0]}, dims="y")
    assert (whole * listed)["y"].values.tolist() == [89.5]
    assert whole.reindex(y=[89.5, 80.0])["y"].values.tolist() == [89.5, 80.0]
    xr.testing.assert_equal(whole.sel(y=slice(89.6, 89.2)), whole[:, 2:4])


def test_one_cell_is_no_data_array(array):
    with pytest.raises(Invalid):
        array[0, 0, 0, 0].read_xarray()


def test_describe_tells_what_the_cells_are_called(array):
    assert array[1, 89.5:88.75, "b":, 2].describe() == {
        "time": [datetime(2023, 1, 1, 1, tzinfo=UTC)],
        "y": [89.5, 89.25, 89.0],
        "what": ["b", "c", "d"],
        "p": [2],
    }
    assert list(array[:].describe()) == ["time", "y", "what", "p"] and array[3:1].describe()["time"] == []
    assert array[-1].describe()["time"] == [datetime(2023, 1, 1, 5, tzinfo=UTC)]
    assert array[..., ::-1].describe()["p"] == [2, 1, 0]


def test_times_beyond_nanoseconds_are_microseconds(client, layout):
    dims = [TimeDimensionSchema("t", 2, datetime(1066, 10, 14), timedelta(days=1))]
    found = client.create_collection("old", ArraySchema(dims, int), layout=layout).create()[:].read_xarray()
    assert found.t.values.astype("M8[D]").astype(str).tolist() == ["1066-10-14", "1066-10-15"]


def test_many_arrays_are_one_dataset(client, layout):
    schema = ArraySchema(
        [DimensionSchema("y", 2, scale=Scale(0.0, 0.5))], float, [AttributeSchema("dt", datetime, True)]
    )
    collection = client.create_collection("many", schema, layout=layout)
    for day, array in enumerate(collection.create_many({"dt": datetime(2023, 1, day)} for day in (3, 1, 2))):
        array[:].update([day, 10.0 + day])
    found = collection.to_xarray(stack="dt", dt=("2023-01-02", None))
    assert found["many"].dims == ("dt", "y")
    assert found["many"].values.tolist() == [[2.0, 12.0], [0.0, 10.0]]
    assert found.y.values.tolist() == [0.0, 0.5]


def test_attributes_that_are_not_set_are_missing(client, layout, tmp_path):
    attributes = [AttributeSchema("day", int, True), AttributeSchema("note", str, False)]
    attributes += [AttributeSchema(f"a{number}", kind, False) for number, kind in enumerate((int, float, tuple))]
    collection = client.create_collection(
        "some", ArraySchema([DimensionSchema("x", 2)], float, attributes), layout=layout
    )
    collection.create({"day": 1}, {"note": "", "a0": 1, "a1": 1.5, "a2": (1, 2)})
    collection.create({"day": 2}, {"note": "b"})
    collection.create({"day": 3})
    found = collection.to_xarray(stack="day")
    frame = found.to_dataframe().reset_index().drop_duplicates("day").set_index("day")
    assert frame.note[1] == "" and frame.note[2] == "b"
    assert frame.isna()[["note", "a0", "a1", "a2"]].values.tolist() == [[False] * 4, [False, *[True] * 3], [True] * 4]
    grid = collection.to_xarray(stack=("note", "day"))
    assert grid.sizes == {"note": 3, "day": 3, "x": 2}
    assert grid.note.values[:2].tolist() == ["", "b"] and grid.note.isnull().values.tolist() == [False, False, True]
    for end in ("zarr", "nc"):  # of text no file tells what is missing
        hs.save(tmp_path / f"a.{end}", found)
        assert hs.open(tmp_path / f"a.{end}")["note"][:].tolist() == ["", "b", ""]
