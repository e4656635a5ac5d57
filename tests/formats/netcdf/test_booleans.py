"""Booleans: the enum FALSE, TRUE of int8 that h5py stores those of NumPy as, in cells, fields and attributes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import zarr

import hyperslab as hs
from hyperslab.errors import Unsupported
from hyperslab.model.dtypes import Enum

MASK = np.array([True, False, True, True, False])
ROWS = np.array([(True, 1), (False, 2)], dtype=[("seen", "?"), ("n", "i4")])


def write_h5py(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["ordered"] = False
        file["mask"] = MASK
        file["lone"] = True
        file["rows"] = ROWS
        file.create_dataset("g/packed", data=np.tile(MASK, 20), chunks=(30,), compression="gzip", shuffle=True)
        file["mask"].attrs["each"] = np.array([True, False])
        file["mask"].attrs["one"] = np.array([True])
        file["mask"].attrs["number"] = np.int8(1)


def write_netcdf4(path: Path) -> None:
    with netCDF4.Dataset(path, "w") as dataset:
        kind = dataset.createEnumType("i1", "flag_t", {"FALSE": 0, "TRUE": 1})
        dataset.createDimension("x", 5)
        dataset.createVariable("mask", kind, ("x",))[:] = MASK.astype("i1")


def check_h5py(path: Path) -> None:
    with h5py.File(path) as file:
        assert file["mask"].dtype == file["lone"].dtype == file["g/packed"].dtype == np.dtype(bool)
        np.testing.assert_array_equal(file["mask"][:], MASK)
        np.testing.assert_array_equal(file["g/packed"][:], np.tile(MASK, 20))
        np.testing.assert_array_equal(file["rows"][:], ROWS)
        assert file["rows"].dtype["seen"] == np.dtype(bool)
        assert file["lone"][()] == np.True_
        assert file.attrs["ordered"].dtype == bool and not file.attrs["ordered"]
        assert file["mask"].attrs["each"].tolist() == [True, False]
        assert file["mask"].attrs["one"].tolist() == [True]
        assert file["mask"].attrs["number"].dtype == np.int8


def test_booleans_of_h5py_are_booleans(tmp_path: Path) -> None:
    write_h5py(tmp_path / "a.h5")
    for fast in (True, False):
        with hs.open(tmp_path / "a.h5", fast=fast) as root:
            assert root["mask"].dtype == root["g/packed"].dtype == np.dtype(bool)
            np.testing.assert_array_equal(root["g/packed"][...], np.tile(MASK, 20))
            np.testing.assert_array_equal(root["mask"][...], MASK)
            np.testing.assert_array_equal(root["rows"][...], ROWS)
            assert root["rows"].dtype == ROWS.dtype
            assert root["lone"][()] and root["lone"].dtype == np.dtype(bool)
            assert root.attrs["ordered"] is False
            assert root["mask"].attrs["each"].tolist() == [True, False]
            assert (root["mask"].attrs["number"], root["mask"].attrs["number"].dtype) == (1, np.int8)
            assert not root.types


def test_a_named_type_of_booleans_is_too(tmp_path: Path) -> None:
    write_netcdf4(tmp_path / "a.nc")
    with hs.open(tmp_path / "a.nc") as root:
        assert root["mask"].dtype == np.dtype(bool)
        np.testing.assert_array_equal(root["mask"][...], MASK)
    with hs.open(tmp_path / "a.nc", "r+") as root:
        root["mask"][0] = False
        root.create_array("other", data=~MASK, dims=("x",))
        assert root["other"].dtype == np.dtype(bool)
        root["other"].attrs["good"] = True
    with netCDF4.Dataset(tmp_path / "a.nc") as dataset:
        assert list(dataset.enumtypes) == ["flag_t"]
        assert dataset["mask"][:].tolist() == [0, *MASK[1:].astype(int)]
        assert dataset["other"][:].tolist() == (~MASK).astype(int).tolist()
        assert dataset["other"].good == 1


@pytest.mark.parametrize("members", [{"FALSE": 0, "TRUE": 2}, {"no": 0, "yes": 1}, {"FALSE": 0, "TRUE": 1, "NA": 2}])
def test_another_enum_stays_one(tmp_path: Path, members: dict[str, int]) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as dataset:
        dataset.createVariable("a", dataset.createEnumType("i1", "flag_t", members), ())[...] = 0
    assert hs.open(tmp_path / "a.nc", path="a").data_type == Enum(np.dtype("i1"), tuple(members.items()), "flag_t")


@pytest.mark.parametrize("way", [("h5",), ("zarr", "h5"), ("zarr2", "h5"), ("h5", "zarr", "h5")])
def test_conversions_keep_booleans(tmp_path: Path, way: tuple[str, ...]) -> None:
    write_h5py(tmp_path / "a.h5")
    place, formats = tmp_path / "a.h5", {"h5": "netcdf", "zarr": "zarr3", "zarr2": "zarr2"}
    for number, name in enumerate(way):
        source, place = place, tmp_path / f"{number}.{name}"
        report = hs.convert(source, place, formats[name], verify=True)
        assert report.losses == ()
        if name != "h5":
            there: Any = zarr.open_group(place, mode="r")
            assert there["mask"].dtype == there["g/packed"].dtype == np.dtype(bool)
            np.testing.assert_array_equal(there["mask"][...], MASK)
            assert there.attrs["ordered"] is False
    check_h5py(place)
    assert not hs.diff(tmp_path / "a.h5", place)


def test_unwritten_booleans_are_the_fill_value(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        for fill in (False, True):
            root.create_array(f"a{fill}", shape=(4,), chunks=(2,), dims=("x",), dtype=bool, fill_value=fill)
    with h5py.File(tmp_path / "a.nc") as file:
        assert [file[f"a{fill}"][:].tolist() for fill in (False, True)] == [[False] * 4, [True] * 4]
    with hs.open(tmp_path / "a.nc") as root:
        assert [root[f"a{fill}"][...].tolist() for fill in (False, True)] == [[False] * 4, [True] * 4]


def test_netcdf3_has_no_booleans(tmp_path: Path) -> None:
    with (
        pytest.raises(Unsupported, match="NETCDF3_CLASSIC"),
        hs.create(tmp_path / "a.nc", model="NETCDF3_CLASSIC") as root,
    ):
        root.create_array("a", data=MASK, dims=("x",))
