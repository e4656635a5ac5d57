"""Chunk lengths by dimension cut cells; the coordinates along those dimensions stay whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "netcdf", "nczarr"])
@pytest.mark.parametrize("how", [{}, {"shards": {"time": 10}}])
def test_coordinates_stay_whole(tmp_path: Path, format: str, how: dict[str, Any]) -> None:
    if how and format != "zarr3":
        pytest.skip("no shards")
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("time", data=np.arange(50), dims=("time",), chunks=50)
        root.create_array("t", data=np.zeros((50, 4)), dims=("time", "x"))
        root.create_array("g/time", data=np.arange(50), dims=("time",), chunks=5)
        root.create_array("hours", data=np.arange(50), dims=("time",), chunks=50)
    hs.convert(tmp_path / "a.zarr", tmp_path / "b", format=format, chunks={"time": 1}, verify=True, **how)
    with hs.open(tmp_path / "b") as root:
        assert root["time"].chunks in (None, (50,)) and root["g/time"].chunks in (None, (50,))
        assert root["t"].chunks == (1, 4) and root["hours"].chunks == (1,)


def test_the_coordinate_of_an_unlimited_dimension_has_chunks_for_what_comes(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("time", shape=(0,), dtype="i4", dims=("time",))
        root.create_array("t", shape=(0, 4), dtype="f4", dims=("time", "x"))
        root["t"].append(np.zeros((24, 4), "f4"), dim="time")
        root["time"].append(np.arange(24), dim="time")
    hs.convert(tmp_path / "a.nc", tmp_path / "long.zarr", chunks={"time": 240}, verify=True)
    hs.convert(tmp_path / "a.nc", tmp_path / "short.zarr", chunks={"time": 6}, verify=True)
    with hs.open(tmp_path / "long.zarr") as long, hs.open(tmp_path / "short.zarr") as short:
        assert (long["time"].chunks, long["t"].chunks) == ((240,), (240, 4))
        assert (short["time"].chunks, short["t"].chunks) == ((24,), (6, 4))
