"""Attributes of one string: HDF5 stores one as a scalar and as an array of one, and so do copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr
from netcdf_files import raw

import hyperslab as hs
from cdl.compiling import ncdump
from hyperslab.model.attrs import equal
from hyperslab.model.dtypes import Opaque

STRING = h5py.string_dtype()
VALUES = {
    "scalar": "zwölf",
    "empty": "",
    "one": np.array(["abc"], object),
    "number": np.float32(2.5),
    "two": np.array(["a", "bc"], object),
    "fixed": np.bytes_(b"abc"),
    "last": "end",
}


def write_h5py(path: Path) -> None:
    """Write the attributes to the root, a group and arrays, in their order."""
    with h5py.File(path, "w", track_order=True) as file:
        file.create_dataset("x", data=np.arange(4.0), track_order=True)
        file.create_group("g", track_order=True).create_dataset("y", data=np.arange(3), track_order=True)
        for node in (file, file["x"], file["g"], file["g/y"]):
            for name, value in VALUES.items():
                node.attrs.create(name, value, dtype=STRING if isinstance(value, np.ndarray) else None)


def read_shapes(path: Path, node: str = "/") -> dict[str, tuple[int, ...] | None]:
    """Return the shapes of the strings of any length among the attributes of a node, as h5py sees them."""
    with h5py.File(path) as file:
        handles = {name: file[node].attrs.get_id(name) for name in file[node].attrs}
        strings = {name: handle for name, handle in handles.items() if h5py.check_string_dtype(handle.dtype)}
        return {name: handle.shape for name, handle in strings.items() if handle.dtype == object}


def assert_same_strings(path: Path, source: Path) -> None:
    """Compare type, shape and value of each text, and the order of all attributes, through h5py."""
    with h5py.File(source) as there, h5py.File(path) as here:
        for node in ("/", "x", "g", "g/y"):
            assert [name for name in here[node].attrs if name in VALUES] == list(there[node].attrs)
            for name in ("scalar", "empty", "one", "two", "fixed", "last"):
                handle, other = here[node].attrs.get_id(name), there[node].attrs.get_id(name)
                assert (handle.shape, handle.dtype) == (other.shape, other.dtype)
                np.testing.assert_array_equal(here[node].attrs[name], there[node].attrs[name])


def test_a_scalar_is_no_array_of_one(tmp_path: Path) -> None:
    write_h5py(tmp_path / "a.h5")
    with hs.open(tmp_path / "a.h5") as root:
        for node in (root, root["x"], root["g"], root["g/y"]):
            assert equal(node.attrs["scalar"], np.str_("zwölf"))
            assert equal(node.attrs["empty"], np.str_(""))
            assert equal(node.attrs["one"], np.array(["abc"], np.dtypes.StringDType()))
            assert type(node.attrs["fixed"]) is str and node.attrs["fixed"] == "abc"


@pytest.mark.parametrize("way", [("nc",), ("nc", "nc"), ("zarr", "nc"), ("nc", "zarr", "nc")])
def test_copies_keep_both(tmp_path: Path, way: tuple[str, ...]) -> None:
    write_h5py(tmp_path / "a.h5")
    place, formats = tmp_path / "a.h5", {"nc": "netcdf", "zarr": "zarr3"}
    for number, name in enumerate(way):
        source, place = place, tmp_path / f"{number}.{name}"
        assert hs.convert(source, place, formats[name], verify=True).losses == ()
        if name == "zarr":
            there: Any = zarr.open_group(place, mode="r").attrs
            assert (there["scalar"], there["one"], there["two"]) == ("zwölf", ["abc"], ["a", "bc"])
    assert_same_strings(place, tmp_path / "a.h5")
    assert not hs.diff(tmp_path / "a.h5", place)
    assert hs.check(place) == []


def test_other_programs_read_them(tmp_path: Path) -> None:
    write_h5py(tmp_path / "a.h5")
    hs.convert(tmp_path / "a.h5", tmp_path / "a.nc")
    expected = {"scalar": "zwölf", "empty": "", "one": "abc", "two": ["a", "bc"], "fixed": "abc", "last": "end"}
    with raw(tmp_path / "a.nc") as dataset:
        for node in (dataset, dataset["x"], dataset["g"], dataset["g/y"]):
            assert node.ncattrs() == list(VALUES)
            assert {name: node.getncattr(name) for name in expected} == expected
    lines = set(ncdump(tmp_path / "a.nc"))
    assert {'\t\tstring x:scalar = "zwölf" ;', '\t\tstring x:one = "abc" ;', '\t\tx:fixed = "abc" ;'} <= lines
    with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as there:
        assert {name: there["x"].attrs[name] for name in expected} == expected


def test_xarray_gets_what_its_own_engine_gives(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3.0)
        for name, value in (("units", ["days since 2000-01-01"]), ("two", ["a", "bc"]), ("scalar", "abc")):
            file["x"].attrs.create(name, value, dtype=STRING)
        file.attrs.create("one", ["abc"], dtype=STRING)
    with xr.open_dataset(tmp_path / "a.h5", engine="hyperslab") as ours:
        ours.to_netcdf(tmp_path / "a.nc", engine="netcdf4")
        with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4") as theirs:
            xr.testing.assert_identical(ours, theirs)
        assert ours.attrs == {"one": "abc"}
        assert ours["x"].attrs == {"two": ["a", "bc"], "scalar": "abc"}
        assert ours["x"].dtype.kind == "M"


def test_one_string_of_the_netcdf_library_is_the_string(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as dataset:
        dataset.setncattr_string("title", "air")
        dataset.setncattr_string("parts", ["a", "b"])
    assert read_shapes(tmp_path / "a.nc") == {"title": (1,), "parts": (2,)}
    with hs.open(tmp_path / "a.nc") as root:
        assert equal(root.attrs["title"], np.str_("air"))


def test_so_it_is_in_files_with_dimensions_of_before_there_was_a_provenance(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["x"] = np.arange(3.0)
        file["x"].make_scale("x")
        file["x"].attrs.create("units", ["m"], dtype=STRING)
    with hs.open(tmp_path / "a.nc") as root:
        assert equal(root["x"].attrs["units"], np.str_("m"))


def test_a_file_that_is_changed_keeps_what_is_not_touched(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as dataset:
        for name in ("old", "new"):
            dataset.createDimension(name, 2)
            variable = dataset.createVariable(name, "f4", (name,), fill_value=-1)
            variable.setncattr_string("units", "m")
            variable.setncattr("number", 3)
    with hs.open(tmp_path / "a.nc", "r+") as root:
        root["new"].attrs["one"] = ["abc"]
        root["new"].attrs["text"] = "chars"
        root["new"].attrs["scalar"] = np.str_("abc")
    assert read_shapes(tmp_path / "a.nc", "old") == {"units": (1,)}
    assert read_shapes(tmp_path / "a.nc", "new") == {"units": (), "one": (1,), "scalar": ()}
    with raw(tmp_path / "a.nc") as dataset:
        assert dataset["new"].ncattrs() == ["_FillValue", "units", "number", "one", "text", "scalar"]
        assert dataset["new"]._FillValue == -1 and dataset["new"].number == 3 and dataset["new"].text == "chars"
    with hs.open(tmp_path / "a.nc", "r+") as root:
        assert equal(root["new"].attrs["one"], np.array(["abc"], np.dtypes.StringDType()))
        root.move("new", "other")
        root["other"].attrs["one"] = np.str_("abc")
    assert read_shapes(tmp_path / "a.nc", "other") == {"units": (), "one": (), "scalar": ()}


def test_attributes_behind_a_string_keep_their_types_and_order(tmp_path: Path) -> None:
    values = {
        "first": np.str_("abc"),
        "nul": "a\0b\0",
        "_FillValue": np.int16(-9),
        "empty": np.array([], np.float32),
        "flags": np.array([True, False]),
        "row": np.array((1, 2.5), dtype=[("n", "i4"), ("f", "f8")])[()],
        "none": "",
        "numbers": np.array([1, 2], ">i8"),
    }
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("x", data=np.arange(3, dtype="i2"), dims=["x"], attrs=values)
    with hs.open(tmp_path / "a.nc") as root:
        assert list(root["x"].attrs) == list(values)
        for name, value in values.items():
            np.testing.assert_array_equal(root["x"].attrs[name], value)
    with raw(tmp_path / "a.nc") as dataset:
        assert dataset["x"].ncattrs() == list(values)
        assert dataset["x"]._FillValue == -9


def test_arrays_that_h5py_alone_writes_have_both(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        attrs = {"scalar": np.str_("abc"), "one": ["abc"]}
        root.create_array("o", shape=(2,), dtype=Opaque(3, "o_t"), dims=["x"], attrs=attrs)
    assert read_shapes(tmp_path / "a.nc", "o") == {"scalar": (), "one": (1,)}
    with hs.open(tmp_path / "a.nc") as root:
        assert equal(root["o"].attrs["one"], np.array(["abc"], np.dtypes.StringDType()))
        assert equal(root["o"].attrs["scalar"], np.str_("abc"))


@pytest.mark.parametrize("value", [True, np.array([True]), np.array([True, False])])
def test_a_boolean_attribute_needs_no_boolean_array(tmp_path: Path, value: bool | np.ndarray[Any, Any]) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(3.0)
        for node in (file, file["x"]):
            node.attrs["flag"] = value
    with hs.open(tmp_path / "a.h5") as root:
        assert equal(root.attrs["flag"], value) and equal(root["x"].attrs["flag"], value)
    assert hs.check(tmp_path / "a.h5") == []


def test_units_in_an_array_of_one_are_units(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        time = file.create_dataset("time", data=np.arange(3))
        time.attrs.create("units", np.array(["days since 2020-01-01"], object), dtype=STRING)
        time.attrs.create("sensors", np.array(["first"], object), dtype=STRING)
    with hs.open(tmp_path / "a.h5") as root:
        assert root["time"].units == "days since 2020-01-01"
        assert equal(root["time"].attrs["sensors"], np.array(["first"], np.dtypes.StringDType()))
        assert root["time"].decoded()[2] == np.datetime64("2020-01-03")
