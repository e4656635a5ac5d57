"""``save`` with words as users of xarray have them: taken as they are meant, or refused in ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from hyperslab.errors import FormatError, HyperslabError, Invalid, Unsupported


def dataset() -> xr.Dataset:
    return xr.Dataset({"air": (("time", "x"), np.arange(24.0).reshape(6, 4)), "n": ("time", np.arange(6))})


@pytest.mark.covering
@pytest.mark.parametrize("place", ["a.nc", "a.zarr", "a.nczarr"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unlimited_dims": True}, "unlimited_dims=True"),
        ({"encoding": ["air"]}, r"encoding=\['air'\]"),
        ({"encoding": {"air": {"dtype": "wat"}}}, "encoding of 'air': dtype 'wat'"),
        ({"encoding": {"air": {"chunksizes": (2,)}}}, r"chunks \(2,\) for 2 dimensions"),
        ({"encoding": {"air": {"chunksizes": "big"}}}, "chunks='big'"),
        ({"encoding": {"air": {"chunks": {"tyme": 2}}}}, "tyme"),
        ({"group": ["a"]}, r"group=\['a'\]"),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, place: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        dataset().hyperslab.save(tmp_path / place, **options)
    assert not (tmp_path / place).exists()


def test_two_versions_of_zarr(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="zarr_format=2 and format='zarr3'"):
        dataset().hyperslab.save(tmp_path / "a.zarr", zarr_format=2, format="zarr3")
    dataset().hyperslab.save(tmp_path / "a.zarr", zarr_format=2, format="zarr2")
    assert hs.open(tmp_path / "a.zarr").format == "zarr2"


@pytest.mark.parametrize("key", ["chunks", "chunksizes"])
def test_chunks_of_one_variable_by_dimension(tmp_path: Path, key: str) -> None:
    dataset().hyperslab.save(tmp_path / "a.zarr", encoding={"air": {key: {"time": 2}}})
    assert hs.open(tmp_path / "a.zarr")["air"].chunks == (2, 4)
    dataset().hyperslab.save(tmp_path / "b.zarr", encoding={"air": {key: {"time": 2}}}, chunks={"x": 3})
    assert hs.open(tmp_path / "b.zarr")["air"].chunks == (2, 3)


def test_the_mode_of_to_zarr_that_creates(tmp_path: Path) -> None:
    dataset().hyperslab.save(tmp_path / "a.zarr", mode="w-")
    with pytest.raises(hs.errors.AlreadyExists):
        dataset().hyperslab.save(tmp_path / "a.zarr", mode="w-")


def test_the_format_of_to_netcdf(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="did you mean 'netcdf'"):
        dataset().hyperslab.save(tmp_path / "a.nc", format="NETCDF4")


@pytest.mark.parametrize("place", ["a.nc", "a.nczarr"])
def test_a_dimension_with_a_slash(tmp_path: Path, place: str) -> None:
    with pytest.raises(Invalid, match="slash"):
        xr.Dataset({"a": ("x/y", [1])}).hyperslab.save(tmp_path / place)


def test_a_file_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    for name in ("a.nc", "a.blp", "a.b2nd"):
        with pytest.raises(HyperslabError, match="make the folder first") as caught:
            dataset()[["n"]].hyperslab.save(tmp_path / "no" / name)
        assert "disk" not in str(caught.value)


@pytest.mark.parametrize("place", ["a.nc", "a.zarr"])
def test_what_has_no_place_in_what_is_there(tmp_path: Path, place: str) -> None:
    dataset().hyperslab.save(tmp_path / place)
    with pytest.raises(Invalid, match=r"region of 'time' is slice.*positions, or 'auto'"):
        dataset().hyperslab.save(tmp_path / place, region={"time": slice("2024-01-01", "2024-01-06")})
    numbers = da.arange(6, chunks=2)
    with pytest.raises(Invalid, match=r"'k' .*compute_chunk_sizes"):
        xr.Dataset({"k": ("q", numbers[numbers > 2])}).hyperslab.save(tmp_path / place, mode="a")


def test_rows_for_another_version_of_zarr(tmp_path: Path) -> None:
    dataset().hyperslab.save(tmp_path / "a.zarr")
    with pytest.raises(FormatError, match="leave format out") as caught:
        dataset().hyperslab.save(tmp_path / "a.zarr", append_dim="time", zarr_format=2)
    assert "restore" not in str(caught.value)


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize("kind", ["M", "m"])
@pytest.mark.parametrize("units", ["nanoseconds", "microseconds", "milliseconds", "seconds", "days"])
@pytest.mark.parametrize("resolution", ["s", "ms", "us", "ns"])
def test_times_coarser_than_their_units(tmp_path: Path, resolution: str, units: str, kind: str, lazily: bool) -> None:
    """xarray 2026.9 stores times of whole seconds in milliseconds as missing, and the like."""
    cells = np.array(["2026-01-02", "NaT", "1969-12-30"], f"M8[{resolution}]")
    if kind == "m":
        cells = cells - np.datetime64("1970-01-01", "s")
    given = xr.Dataset({"t": ("x", da.from_array(cells, chunks=2) if lazily else cells)})
    given["t"].encoding = {"units": units if kind == "m" else f"{units} since 1970-01-01", "dtype": "int64"}
    given.hyperslab.save(tmp_path / "a.zarr")
    with hs.open(tmp_path / "a.zarr") as root:
        assert root["t"].dtype == np.dtype("i8")
        np.testing.assert_array_equal(root["t"].decoded()[...], cells)


@pytest.mark.parametrize("lazily", [False, True])
def test_times_that_their_units_do_not_reach(tmp_path: Path, lazily: bool) -> None:
    cells = np.array(["2026-01-02", "2300-01-01"], "M8[s]")
    given = xr.Dataset({"t": ("x", da.from_array(cells, chunks=1) if lazily else cells)})
    given["t"].encoding = {"units": "nanoseconds since 1970-01-01", "dtype": "int64"}
    with pytest.raises(Invalid, match=r"'t' holds 2300-01-01T00:00:00, which is out of reach.*coarser units"):
        given.hyperslab.save(tmp_path / "a.zarr")


def test_rows_of_times_coarser_than_the_stored_units(tmp_path: Path) -> None:
    days = np.array(["2026-01-01", "2026-01-02"], "M8[ns]")
    first = xr.Dataset({"v": ("time", [1.0, 2.0])}, {"time": days})
    first["time"].encoding["units"] = "nanoseconds since 1970-01-01"
    first.hyperslab.save(tmp_path / "a.zarr", unlimited_dims=["time"])
    first.assign_coords(time=(days + np.timedelta64(2, "D")).astype("M8[s]")).hyperslab.save(
        tmp_path / "a.zarr", append_dim="time"
    )
    with xr.open_dataset(tmp_path / "a.zarr", engine="hyperslab") as found:
        np.testing.assert_array_equal(found["time"], np.arange("2026-01-01", "2026-01-05", dtype="M8[D]"))


def test_days_of_dask_in_finer_units(tmp_path: Path) -> None:
    days = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
    given = xr.Dataset({"t": ("x", da.from_array(days, chunks=1))})
    given["t"].encoding = {"units": "milliseconds since 2000-01-01", "dtype": "i8"}
    given.hyperslab.save(tmp_path / "a.zarr")
    with hs.open(tmp_path / "a.zarr") as root:
        np.testing.assert_array_equal(root["t"].decoded()[...], days)
