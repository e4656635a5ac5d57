"""Variables that are never filled (NC_NOFILL) stay so, where netCDF-4 files are written anew."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Event, Thread

import netCDF4
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.conversion import Pack

CELLS = {"plain": np.arange(6.0).reshape(2, 3), "chunked": np.arange(6, dtype="i4").reshape(2, 3), "words": None}
ARGUMENTS: dict[str, dict[str, object]] = {"chunked": {"chunksizes": (1, 3), "zlib": True}}
WORDS = np.array([list("abc"), list("def")], "S1")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of netCDF-C with variables that are never filled, one that is, and one with a fill value."""
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        for name, cells in CELLS.items():
            kind = "S1" if cells is None else cells.dtype
            made = file.createVariable(name, kind, ("t", "x"), fill_value=False, **ARGUMENTS.get(name, {}))
            made[:] = WORDS if cells is None else cells
        file.createVariable("point", "f8", (), fill_value=False)[...] = 4.0
        file.createVariable("filled", "f4", ("t", "x"))[:1] = 1
        file.createVariable("own", "f4", ("t", "x"), fill_value=-1)[:1] = 1
    return path


def never_filled(path: Path) -> set[str]:
    """The names of variables that netCDF-C fills with nothing."""
    with netCDF4.Dataset(path) as file:
        return {name for name, variable in file.variables.items() if variable.get_fill_value() is None}


def test_conversion_keeps_it(source: Path, tmp_path: Path) -> None:
    names = never_filled(source)
    assert names == {*CELLS, "point"}
    hs.convert(source, tmp_path / "b.nc", verify=True)
    hs.convert(source, tmp_path / "c.nc", chunks={"x": 2}, codec="zlib", verify=True)
    hs.convert(source, tmp_path / "d.nc", select={"t": 1}, verify=True)
    for name in ("b.nc", "c.nc", "d.nc"):
        assert never_filled(tmp_path / name) == names, name
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert file["filled"].get_fill_value() == netCDF4.default_fillvals["f4"] and file["own"].get_fill_value() == -1
        np.testing.assert_array_equal(file["plain"][:], CELLS["plain"])
        np.testing.assert_array_equal(file["words"][:], WORDS)


def test_changes_keep_it(source: Path) -> None:
    with hs.open(source, mode="r+") as root:
        root["plain"].attrs["units"] = "m"
    assert never_filled(source) == {*CELLS, "point"}
    with hs.open(source, mode="r+") as root:
        root.move("plain", "moved")  # writes the file anew
    assert never_filled(source) == {*CELLS, "point", "moved"} - {"plain"}
    with hs.open(source) as root:
        np.testing.assert_array_equal(root["moved"][...], CELLS["plain"])


def test_what_gets_a_fill_value_is_filled(source: Path, tmp_path: Path) -> None:
    hs.convert(source, tmp_path / "b.nc", recode=[Pack("i2")])
    assert never_filled(tmp_path / "b.nc") == {"words"}
    hs.convert(source, tmp_path / "c.nc", model="NETCDF3_CLASSIC", verify=True)
    hs.convert(source, tmp_path / "c.zarr")
    hs.convert(tmp_path / "c.zarr", tmp_path / "d.nc")  # Zarr says what unwritten cells are
    assert never_filled(tmp_path / "d.nc") == set()


def test_fill_values_beside_other_threads(tmp_path: Path) -> None:
    """netCDF4 1.7.5 frees the name of an attribute that it renames too early; other threads write there."""
    names, stop, interval = [f"v{number}" for number in range(300)], Event(), sys.getswitchinterval()
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 2)
        for name in names:
            file.createVariable(name, "f8", ("x",), fill_value=False)[:] = 1, 2

    def fill_memory() -> None:
        while not stop.is_set():
            _ = [bytes([65 + number % 26]) * 9 for number in range(200)]

    threads = [Thread(target=fill_memory) for _ in range(2)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        hs.convert(tmp_path / "a.nc", tmp_path / "b.nc", recode=[Pack("i2")])
    finally:
        stop.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    with netCDF4.Dataset(tmp_path / "b.nc") as file:
        assert all("_FillValue" in file[name].ncattrs() for name in names)
