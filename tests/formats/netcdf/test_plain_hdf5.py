"""The model HDF5: files as h5py writes them, without the scales and the names that netCDF adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Unsupported

TEXT = h5py.string_dtype()


def write_h5py(path: Path, *, track_order: bool = False) -> None:
    """Write a file of the kind that anndata makes: text, booleans, scalars, compressed chunks, cells that can grow."""
    with h5py.File(path, "w", track_order=track_order) as file:
        file.attrs["encoding-type"] = "anndata"
        file["X"] = np.arange(12, dtype="f4").reshape(4, 3)
        for name in ("obs", "uns/params", "empty"):
            file.create_group(name, track_order=track_order)
        file.create_dataset("obs/names", data=["a", "b", "ç", ""], dtype=TEXT)
        file.create_dataset(
            "obs/seen", data=[True, False, True, False], chunks=(2,), compression="gzip", maxshape=(None,)
        )
        file["obs"].attrs["column-order"] = np.array(["seen"], object)
        file["obs"].attrs["ordered"] = False
        file["uns/params/flag"] = True
        file["uns/params/title"] = "abc"
        file["uns/params/square"] = np.eye(3)


def describe(path: Path) -> dict[str, Any]:
    """Return all members of a file as h5py sees them, with types, shapes, cells and attributes."""
    found: dict[str, Any] = {}

    def add(name: str, node: Any) -> None:
        attrs = {key: (node.attrs.get_id(key).shape, repr(node.attrs[key])) for key in sorted(node.attrs)}
        attrs.pop("_NCProperties", None)
        cells = (
            (node.dtype, node.shape, node.maxshape, np.asarray(node[()]).tolist())
            if isinstance(node, h5py.Dataset)
            else ()
        )
        found[name] = (type(node).__name__, cells, attrs)

    with h5py.File(path) as file:
        add("", file)
        file.visititems(add)
    return found


def test_a_copy_has_the_same_members(tmp_path: Path) -> None:
    write_h5py(tmp_path / "a.h5")
    assert hs.convert(tmp_path / "a.h5", tmp_path / "b.h5", "netcdf", model="HDF5", verify=True).losses == ()
    assert describe(tmp_path / "b.h5") == describe(tmp_path / "a.h5")
    assert not hs.diff(tmp_path / "a.h5", tmp_path / "b.h5")
    report = hs.check(tmp_path / "b.h5", deep=True)
    assert report == [] and report.notes == []
    with netCDF4.Dataset(tmp_path / "b.h5") as dataset:
        assert dataset["X"][...].tolist() == np.arange(12).reshape(4, 3).tolist()


def test_a_part_is_verified_though_the_library_numbers_its_axes_anew(tmp_path: Path) -> None:
    write_h5py(tmp_path / "a.h5")
    hs.convert(
        tmp_path / "a.h5", tmp_path / "b.h5", "netcdf", model="HDF5", variables=["uns/params/square"], verify=True
    )
    with h5py.File(tmp_path / "b.h5") as file:
        assert list(file["uns/params"]) == ["square"]


def test_arrays_without_names_of_dimensions_are_made(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.h5", "netcdf", model="HDF5") as root:
        root.create_array("g/square", data=np.eye(3))
        root.create_array("g/mask", data=np.array([True, False, True]), attrs={"flag": True})
        root.create_array("one", data=np.float64(2.5))
        assert root["g/square"].dims is not None
    with h5py.File(tmp_path / "a.h5") as file:
        assert sorted(file) == ["g", "one"] and sorted(file["g"]) == ["mask", "square"]
        assert file["g/mask"].dtype == np.dtype(bool) and file["g/mask"].attrs["flag"]
        assert not set(file["g/square"].attrs)
    hs.convert(tmp_path / "a.h5", tmp_path / "a.zarr", verify=True)
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.h5", "netcdf", model="HDF5", verify=True)
    assert describe(tmp_path / "b.h5") == describe(tmp_path / "a.h5")


def test_names_of_dimensions_are_refused(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("t", data=np.arange(3.0), dims=["x"])
    with pytest.raises(Unsupported, match=r"model HDF5 has no names of dimensions such as 'x'"):
        hs.convert(tmp_path / "a.nc", tmp_path / "b.h5", "netcdf", model="HDF5")
    with (
        hs.create(tmp_path / "c.h5", "netcdf", model="HDF5") as root,
        pytest.raises(Unsupported, match=r"no names of dimensions such as 'x'.*/t"),
    ):
        root.create_array("t", data=np.arange(3.0), dims=["x"])


def test_a_file_of_h5py_that_is_changed_stays_plain(tmp_path: Path) -> None:
    write_h5py(tmp_path / "a.h5", track_order=True)
    before = describe(tmp_path / "a.h5")
    with hs.open(tmp_path / "a.h5", "r+") as root:
        root["X"][0, 0] = 7.0
        root["obs/seen"].append(np.array([True]))
        root["obs/seen"].attrs["flag"] = True
    after = describe(tmp_path / "a.h5")
    assert after.keys() == before.keys()
    assert after["X"][1][-1][0] == [7.0, 1.0, 2.0]
    assert after["obs/seen"][1][-1] == [True, False, True, False, True]
    assert set(after["obs/seen"][2]) == {"flag"}
    with hs.open(tmp_path / "a.h5", "r+") as root:
        del root["uns/params/square"]
        root.create_array("named", data=np.arange(4), dims=["row"])
    assert describe(tmp_path / "a.h5").keys() == {*before, "named", "row"} - {"uns/params/square"}
    with hs.open(tmp_path / "a.h5") as root:
        assert root["named"].dims == ("row",) and root["obs/seen"].shape == (5,)
        assert root["X"][0].tolist() == [7.0, 1.0, 2.0]


def test_a_named_type_of_booleans_stays_where_it_was(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", track_order=True) as file:
        file["flag_t"] = np.dtype(bool)
        file.create_dataset("x", data=[True, False], dtype=file["flag_t"])
    with hs.open(tmp_path / "a.h5", "r+") as root:
        root["x"].attrs["flag"] = True
    assert list(describe(tmp_path / "a.h5")) == ["", "flag_t", "x"]


def test_a_copy_is_changed_too(tmp_path: Path) -> None:
    write_h5py(tmp_path / "a.h5")
    hs.convert(tmp_path / "a.h5", tmp_path / "b.h5", "netcdf", model="HDF5")
    with hs.open(tmp_path / "b.h5", "r+") as root:
        root["uns/params/square"][0, 1] = 5.0
        root.attrs["note"] = True
    before, after = describe(tmp_path / "a.h5"), describe(tmp_path / "b.h5")
    assert after.keys() == before.keys()
    assert after["uns/params/square"][1][-1][0] == [1.0, 5.0, 0.0]
    assert after[""][2]["note"] == ((), "np.True_")
