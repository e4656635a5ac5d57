"""Cells, names and dimensions that netCDF spells otherwise than NumPy does: nothing of them is lost on the way."""

from __future__ import annotations

import os
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import Conflict, CorruptChunk, Invalid, StorageError

ROWS = np.array([(1, b"abcd"), (2, b"xy")], [("a", "i4"), ("s", "S4")])


@pytest.mark.parametrize("suffix", [".nc", ".nczarr", ".zarr"])
def test_bytes_in_fields_are_stored_whole(tmp_path: Path, suffix: str) -> None:
    url = tmp_path / f"rows{suffix}"
    options = {"dialect": "draft"} if suffix == ".nczarr" else {}
    with hs.create(url, **options) as root:
        root.create_array("saved", data=ROWS, dims=["n"])
        root.create_array("listed", shape=2, dtype=ROWS.dtype, dims=["n"])[:] = [(1, b"abcd"), (2, "xy")]
        one = root.create_array("one", shape=2, dtype=ROWS.dtype, dims=["n"])
        one[0] = ROWS[0]
        one[1] = (2, b"xy")
        renamed = root.create_array("renamed", shape=2, dtype=ROWS.dtype, dims=["n"])
        renamed[:] = ROWS.view([("b", "i4"), ("t", "S4")])
    with hs.open_group(url) as root:
        for name in ("saved", "listed", "one", "renamed"):
            assert root[name][:].tobytes() == ROWS.tobytes(), name


def test_rows_are_saved_whole(tmp_path: Path) -> None:
    hs.save(tmp_path / "rows.nc", ROWS)
    with netCDF4.Dataset(tmp_path / "rows.nc") as file:
        cells = file["data"][:]
    assert [bytes(row.tobytes()).rstrip(b"\0") for row in cells["s"]] == [b"abcd", b"xy"]


TIMES = np.array([b"2013-01-01_00:00:00", b"2013-01-01_01:00:00"])


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    """A file of WRF's kind, whose times are rows of chars."""
    with netCDF4.Dataset(tmp_path / "wrf.nc", "w") as file:
        file.createDimension("Time", None)
        file.createDimension("DateStrLen", 19)
        file.createVariable("Times", "S1", ("Time", "DateStrLen"))[:] = netCDF4.stringtochar(TIMES)
        file.createVariable("T", "f4", ("Time",))[:] = [1, 2]
    return tmp_path / "wrf.nc"


@pytest.mark.parametrize("engine", ["hyperslab", "netcdf4"])
@pytest.mark.parametrize("suffix", [".nc", ".nczarr"])
def test_arrays_of_chars_are_saved_and_appended_to(weather: Path, tmp_path: Path, engine: str, suffix: str) -> None:
    target = tmp_path / f"again{suffix}"
    with xr.open_dataset(weather, engine=engine) as dataset:
        hs.save(target, dataset)
        hs.save(target, dataset, append_dim="Time")
    with hs.open_group(target) as root:
        assert (root["Times"].dims, root["Times"].shape) == (("Time", "DateStrLen"), (4, 19))
    with xr.open_dataset(target, engine="hyperslab") as found:
        assert found["Times"].values.tolist() == [*TIMES, *TIMES]
        assert found["T"].values.tolist() == [1, 2, 1, 2]


def test_shorter_text_is_appended_and_longer_refused(weather: Path) -> None:
    rows = xr.Dataset({"Times": ("Time", np.array([b"short"])), "T": ("Time", np.array([3], "f4"))})
    hs.save(weather, rows, append_dim="Time")
    text = xr.Dataset({"Times": ("Time", np.array(["word"])), "T": ("Time", np.array([3], "f4"))})
    hs.save(weather, text, append_dim="Time")
    long = xr.Dataset({"Times": ("Time", np.array([b"x" * 20])), "T": ("Time", np.array([3], "f4"))})
    with pytest.raises(Invalid, match="20 cells along 'DateStrLen'"):
        hs.save(weather, long, append_dim="Time")
    with xr.open_dataset(weather) as found:
        assert found["Times"].values.tolist() == [*TIMES, b"short", b"word"]


@pytest.mark.parametrize("suffix", [".nc", ".nczarr"])
def test_single_bytes_keep_their_dimension(tmp_path: Path, suffix: str) -> None:
    cells = xr.Dataset({"flag": ("n", np.array([b"a", b"b", b""], "S1")), "alone": ((), np.array(b"ab"))})
    hs.save(tmp_path / f"s{suffix}", cells)
    with xr.open_dataset(tmp_path / f"s{suffix}", engine="hyperslab") as found:
        assert found["flag"].dims == ("n",)
        assert found["flag"].values.tolist() == [b"a", b"b", b""]
        assert found["alone"].values == b"ab"


def test_an_array_may_be_called_as_the_type_of_bytes(tmp_path: Path) -> None:
    cells = np.array([b"a", b"bcd"], object)
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("other", shape=2, dtype=bytes, dims=["n"])[:] = cells
        root.create_array("bytes", shape=2, dtype=bytes, dims=["n"])[:] = cells
        root.create_array("row", data=ROWS, dims=["n"])
        with pytest.raises(Invalid, match="called 'row_t' already"):
            root.create_array("row_t", shape=2, dtype="f4", dims=["n"])
    with hs.open_group(tmp_path / "a.nc") as root:
        assert root["bytes"][:].tolist() == root["other"][:].tolist() == [b"a", b"bcd"]


def test_files_with_the_former_name_of_that_type_are_read(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("n", 1)
        kind = file.createVLType(np.uint8, "bytes")
        file.createVariable("v", kind, ("n",))[0] = np.frombuffer(b"abc", "u1")
    with hs.open_group(tmp_path / "a.nc", "r+") as root:
        assert root["v"][0] == b"abc"
        root.create_array("w", shape=1, dtype=bytes, dims=["n"])[0] = b"x"
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert list(file.vltypes) == ["bytes"]


def test_cells_of_any_length_are_opened_by_xarray(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("n", 2)
        kind = file.createVLType(np.int32, "ragged_t")
        ragged = file.createVariable("ragged", kind, ("n",))
        ragged[0], ragged[1] = np.array([1, 2], "i4"), np.array([3], "i4")
        file.createVariable("plain", "f4", ("n",))[:] = [1, 2]
    with xr.open_dataset(tmp_path / "a.nc", engine="hyperslab") as found:
        assert [row.tolist() for row in found["ragged"].values] == [[1, 2], [3]]
        assert found["ragged"][0].values[()].tolist() == [1, 2]
        assert found["plain"].values.tolist() == [1, 2]


def test_text_of_one_width_becomes_strings_without_a_loss(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", format="zarr3") as root:
        root.create_array("t", data=np.array(["abc", "d"], "<U9"), dims=["n"])
    assert not hs.convert(tmp_path / "a.zarr", tmp_path / "a.nc", verify=True).losses
    with hs.open_group(tmp_path / "a.nc") as root:
        assert root["t"][:].tolist() == ["abc", "d"]


def test_a_file_that_was_overwritten_in_place_is_read_as_it_is(tmp_path: Path) -> None:
    path, other = tmp_path / "a.nc", tmp_path / "b.nc"
    for place, size, dtype in ((path, 4, "i4"), (other, 9, "f8")):
        with netCDF4.Dataset(place, "w") as file:
            file.createDimension("x", size)
            file.createVariable("v", dtype, ("x",))[:] = np.arange(size)
    before = hs.open_group(path)
    cells = before["v"]
    assert cells[:].tolist() == [0, 1, 2, 3]
    inode = os.stat(path).st_ino
    path.write_bytes(other.read_bytes())
    assert os.stat(path).st_ino == inode
    with hs.open_group(path) as after:
        assert after["v"].dtype == "f8"
        assert after["v"][:].tolist() == list(range(9))
        with pytest.raises(Conflict, match="overwritten in place"):
            before["v"]
        with pytest.raises((Conflict, CorruptChunk, StorageError)):
            cells[:]
    before.close()
