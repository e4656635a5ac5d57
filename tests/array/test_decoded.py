"""``Array.decoded()``: every file of iris-sample-data against xarray; keys, labels, text and bounds by themselves."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import iris_sample_data
import netCDF4
import numpy as np
import pytest
import xarray

import hyperslab as hs
from hyperslab.errors import FormatError, Invalid, SelectionError
from hyperslab.model.dtypes import VlenString
from hyperslab.stores import MemoryStore

FILES = sorted(Path(iris_sample_data.path).rglob("*.nc"))


def by_xarray(source: Any) -> Any:
    """The dataset that xarray decodes, with attributes that name coordinates left where they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(source, Path):
            with xarray.open_dataset(source, engine="netcdf4", decode_coords=False, decode_timedelta=False) as dataset:
                return dataset.load()
        return xarray.decode_cf(source, decode_coords=False, decode_timedelta=False).load()


def same(found: Any, wanted: Any) -> None:
    """Same dtype and cells; text is StringDType here and objects there."""
    assert found.dtype == (np.dtypes.StringDType() if found.dtype.kind == "T" else wanted.dtype)
    np.testing.assert_array_equal(found.astype(object) if wanted.dtype == object else found, wanted)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_real_files_as_xarray(file: Path) -> None:
    dataset = by_xarray(file)
    with hs.open(file) as root:
        arrays = dict(root.arrays())
        assert set(arrays) == set(dataset.variables)
        for name, array in arrays.items():
            decoded, wanted = array.decoded(), dataset.variables[name]
            cells = np.asarray(decoded)
            same(cells, wanted.values)
            assert decoded.dtype == cells.dtype
            assert decoded.shape == wanted.shape
            assert decoded.dims == wanted.dims
            assert list(decoded.attrs) == list(wanted.attrs)


@pytest.fixture
def root() -> Any:
    """Packed temperatures over time and latitude, with time bounds."""
    root = hs.create(MemoryStore(), format="zarr3")
    root.create_array("time", data=np.arange(6) * 12, dims=("time",), attrs=TIME | {"bounds": "time_bnds"})
    root.create_array("lat", data=np.array([10.0, 20.0, 30.0], "f4"), dims=("lat",))
    bounds = np.stack([np.arange(6) * 12, np.arange(6) * 12 + 12], 1)
    root.create_array("time_bnds", data=bounds, dims=("time", "nv"), attrs={"long_name": "bounds"})
    cells = np.arange(18, dtype="i2").reshape(6, 3)
    attrs = {"scale_factor": 0.5, "add_offset": 273.15, "_FillValue": np.int16(7), "units": "K", "valid_min": 1}
    root.create_array("t", data=cells, dims=("time", "lat"), chunks=(4, 2), attrs=attrs)
    return root


TIME = {"units": "hours since 2000-01-01", "calendar": "gregorian"}
CELLS = np.where(np.arange(18) == 7, np.nan, np.arange(18) * 0.5 + 273.15).reshape(6, 3)


def test_what_a_decoded_array_says(root: Any) -> None:
    decoded = root["t"].decoded()
    assert (decoded.shape, decoded.ndim, decoded.size, len(decoded)) == ((6, 3), 2, 18, 6)
    assert decoded.dims == ("time", "lat")
    assert decoded.dtype == np.float64
    assert decoded.attrs == {"units": "K", "valid_min": 1}
    assert repr(decoded) == "<hyperslab Decoded /t (time: 6, lat: 3) stored as int16>"
    np.testing.assert_array_equal(decoded, CELLS)
    np.testing.assert_array_equal(np.stack(list(decoded)), CELLS)
    assert np.asarray(decoded, "f4").dtype == np.float32
    with pytest.raises(ValueError, match="without a copy"):
        np.array(decoded, copy=False)


def test_what_is_stored_stays(root: Any) -> None:
    before = dict(root["t"].attrs)
    root["t"].decoded().attrs["units"] = "other"
    root["t"].decoded()[...]
    assert dict(root["t"].attrs) == before
    np.testing.assert_array_equal(root["t"], np.arange(18).reshape(6, 3))


@pytest.mark.parametrize(
    "key",
    [
        (),
        ...,
        2,
        (2, 1),
        (-1, slice(None, None, -1)),
        (slice(1, 5, 2), [2, 0]),
        (None, 3),
        np.arange(18).reshape(6, 3) % 5 == 2,
        (..., 0),
        ([5, 0], [1, 1]),
    ],
    ids=str,
)
def test_keys_mean_what_they_mean_to_numpy(root: Any, key: Any) -> None:
    found, wanted = root["t"].decoded()[key], CELLS[key]
    np.testing.assert_array_equal(found, wanted)
    assert type(found) is type(wanted)


def test_labels_and_named_positions(root: Any) -> None:
    decoded = root["t"].decoded()
    np.testing.assert_array_equal(decoded.sel(time="2000-01-02T12", lat=20.0), CELLS[3, 1])
    np.testing.assert_array_equal(decoded.sel(lat=21, method="nearest"), CELLS[:, 1])
    np.testing.assert_array_equal(decoded.isel(time=[0, 3], lat=slice(2)), CELLS[[0, 3], :2])
    np.testing.assert_array_equal(decoded["2000-01-02", 10.0], CELLS[2, 0])
    with pytest.raises(Invalid, match="depth"):
        decoded.isel(depth=1)


def test_positions_along_dimensions_without_names(root: Any) -> None:
    cells = np.arange(20, dtype="i2").reshape(5, 4)
    bare = root.create_array("bare", data=cells, attrs={"scale_factor": 0.5})
    np.testing.assert_array_equal(bare.decoded().isel(dim_0=[0, 2, 4], dim_1=[3, 1]), cells[[0, 2, 4]][:, [3, 1]] / 2)
    with pytest.raises(Invalid, match="there are dim_0, dim_1"):
        bare.decoded().isel(x=1)
    half = root.create_array("half", data=cells, dims=("dim_1", None), attrs={"scale_factor": 0.5})
    for array, wanted in ((half, cells), (half.decoded(), cells / 2)):
        np.testing.assert_array_equal(array.isel(dim_1=2), wanted[2])
        np.testing.assert_array_equal(array.isel(dim_1_=2), wanted[:, 2])


def test_times_and_their_bounds(root: Any) -> None:
    times = root["time"].decoded()
    wanted = np.datetime64("2000-01-01", "ns") + np.arange(6) * np.timedelta64(12, "h")
    assert times.dtype == np.dtype("M8[ns]")
    np.testing.assert_array_equal(times, wanted)
    assert times[3] == wanted[3]
    assert isinstance(times[3], np.datetime64)
    assert times.attrs == {"bounds": "time_bnds"}
    bounds = root["time_bnds"].decoded()
    np.testing.assert_array_equal(bounds[:, 0], wanted)
    assert bounds.attrs == {"long_name": "bounds"}


def test_the_dtype_of_times_follows_the_first_and_the_last(root: Any) -> None:
    root.create_array("late", data=np.array([0, 10**6]), attrs={"units": "days since 2000-01-01"})
    assert root["late"].decoded().dtype == object
    root.create_array("none", shape=(0,), dtype="i4", attrs={"units": "days since 2000-01-01"})
    assert root["none"].decoded().dtype == np.dtype("M8[ns]")
    root.create_array("point", data=np.array(31), attrs={"units": "days since 2000-01-01"})
    assert root["point"].decoded()[()] == np.datetime64("2000-02-01")
    assert root["point"].decoded().dtype == np.dtype("M8[ns]")


@pytest.fixture
def words(tmp_path: Path) -> Any:
    """Characters of two names per station, in a netCDF-4 file."""
    with netCDF4.Dataset(tmp_path / "words.nc", "w") as file:
        for name, size in (("station", 3), ("part", 2), ("length", 4), ("flag", 3)):
            file.createDimension(name, size)
        names = file.createVariable("names", "S1", ("station", "part", "length"))
        names[:] = np.array([b"abcd", b"x", b"", b"yz", b"k", b"long"], "S4").view("S1").reshape(3, 2, 4)
        file.createVariable("one", "S1", ("length",))[:] = np.array([b"d", b"o", b"t", b""])
        file.createVariable("flags", "S1", ("flag",))[:] = np.array([b"a", b"b", b"c"])
        file.createVariable("flag", "i4", ("flag",))[:] = [1, 2, 3]
        kinds = file.createVariable("kinds", "S1", ("station",))
        kinds[:] = np.array([b"a", b"b", b"c"])
        file.createVariable("height", "f4", ("station",))[:] = [1, 2, 3]
    with hs.open(tmp_path / "words.nc") as root:
        yield root, by_xarray(tmp_path / "words.nc")


def test_characters_are_joined_where_they_are_texts(words: Any) -> None:
    root, dataset = words
    for name, array in root.arrays():
        decoded, wanted = array.decoded(), dataset.variables[name]
        assert (decoded.shape, decoded.dims, decoded.dtype) == (wanted.shape, wanted.dims, wanted.dtype)
        np.testing.assert_array_equal(decoded, wanted.values)
    assert root["names"].decoded().shape == (3, 2)
    assert root["flags"].decoded().dtype == root["kinds"].decoded().dtype == np.dtype("S1")


@pytest.mark.parametrize(
    "key", [(), 1, (2, 1), (..., 0), (slice(None), [1, 0]), (None, 0), ([0, 2], [1, 1]), ...], ids=str
)
def test_keys_of_joined_texts_take_them_whole(words: Any, key: Any) -> None:
    root, dataset = words
    found, wanted = root["names"].decoded()[key], dataset.variables["names"].values[key]
    np.testing.assert_array_equal(found, wanted)
    assert type(found) is type(wanted)


def test_the_joined_dimension_is_gone(words: Any) -> None:
    decoded = words[0]["names"].decoded()
    with pytest.raises(SelectionError):
        decoded[0, 0, 0]
    with pytest.raises(Invalid, match="length"):
        decoded.isel(length=0)
    np.testing.assert_array_equal(decoded.isel(station=0), [b"abcd", b"x"])
    assert words[0]["one"].decoded()[()] == b"dot"


def test_text_with_missing_values_and_encodings(root: Any) -> None:
    root.create_array("s", data=["a", "b"], dtype=VlenString(), attrs={"_FillValue": "a"})
    assert root["s"].decoded()[1] == "b"
    assert np.isnan(root["s"].decoded()[0])
    root.create_array("plain", data=["a", "b"], dtype=VlenString())
    assert root["plain"].decoded().dtype == np.dtypes.StringDType()
    assert root["plain"].decoded()[1] == "b"


def test_records_are_left_alone(root: Any) -> None:
    records = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    root.create_array("records", data=records, attrs={"_FillValue": 1})
    decoded = root["records"].decoded()
    assert decoded.dtype == records.dtype
    np.testing.assert_array_equal(decoded["b"], records["b"])
    np.testing.assert_array_equal(decoded[1:], records[1:])


def test_errors_name_the_array(root: Any) -> None:
    root["t"].attrs["scale_factor"] = "half"
    with pytest.raises(FormatError, match=r"scale_factor is 'half'.*node=/t"):
        root["t"].decoded()
    assert root["t"][0, 0] == 0


def test_damage_in_a_neighbour_does_not_matter(root: Any) -> None:
    root.store.put("lat/zarr.json", b"{")
    fresh = hs.open(root.store)
    with pytest.raises(FormatError):
        fresh["lat"]
    assert fresh["time_bnds"].decoded()[0, 1] == np.datetime64("2000-01-01T12")
