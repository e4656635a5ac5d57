"""A dimension that is made after a variable of its name, which runs along others."""

from __future__ import annotations

from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
from xarray.testing import assert_identical

import hyperslab as hs
from hyperslab.errors import Invalid

MODELS = ("NETCDF4", "NETCDF3_CLASSIC")


@pytest.mark.parametrize("length", [0, 4])
@pytest.mark.parametrize("model", MODELS)
def test_a_dimension_called_like_a_variable(tmp_path: Path, model: str, length: int) -> None:
    path = tmp_path / "a.nc"
    with hs.create(path, model=model) as root:
        shadowing = root.create_array("t", data=np.ones((2, 3)), dims=("y", "x"), attrs={"units": "K"})
        array = root.create_array("u", shape=(length,), dtype="i4", dims=("t",))
        if length:
            array[:] = np.arange(4)
        else:
            array.append(np.arange(4, dtype="i4"))
        shadowing[0] = 2
    with netCDF4.Dataset(path) as file:
        assert file["t"].dimensions == ("y", "x")
        assert file["t"].units == "K"
        assert file["t"][:].tolist() == [[2, 2, 2], [1, 1, 1]]
        assert file["u"][:].tolist() == [0, 1, 2, 3]
    with hs.open(path, "r+") as root:
        root["t"][1] = 3
    root = hs.open(path)
    assert root["t"][:].tolist() == [[2, 2, 2], [3, 3, 3]]
    assert root["u"].dims == ("t",)


def test_a_dataset_with_such_a_variable_is_saved(tmp_path: Path) -> None:
    dataset = xr.Dataset({"t": (("y", "x"), np.ones((2, 3))), "u": ("t", np.arange(4))})
    for place in ("a.nc", "a.nczarr", "a.zarr"):
        dataset.hyperslab.save(tmp_path / place)
        assert_identical(xr.open_dataset(tmp_path / place, engine="hyperslab").load(), dataset)
    assert_identical(xr.open_dataset(tmp_path / "a.nc", engine="netcdf4").load(), dataset)


def test_the_classic_model_in_hdf5_refuses_it(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc", model="NETCDF4_CLASSIC") as root:
        root.create_array("t", data=np.ones((2, 3)), dims=("y", "x"))
        with pytest.raises(Invalid, match="a variable is called 't' as the new dimension"):
            root.create_array("u", data=np.arange(4.0), dims=("t",))


@pytest.mark.parametrize("cache", [0, 1 << 20])
def test_the_variable_is_changed_and_not_the_dimension(tmp_path: Path, cache: int) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("u", data=np.arange(4.0), dims=("t",))
        root.create_array("t", data=np.ones((2, 3)), dims=("y", "x"), chunks=(1, 3), codec="zlib:3")
    with hs.open(tmp_path / "a.nc", "r+", cache_bytes=cache) as root:
        root["t"][0, 1] = 7
        root["u"][:] = root["u"][:] + 1
    root = hs.open(tmp_path / "a.nc")
    assert root["t"][:].tolist() == [[1, 7, 1], [1, 1, 1]]
    assert root["u"][:].tolist() == [1, 2, 3, 4]
