"""A label on a dimension that has none: the error names the dimension, and what is the matter with its coordinate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import SelectionError, WrongType

CASES = {
    "missing": (None, "there is no coordinate 'time'"),
    "short": ({"data": np.arange(3), "dims": ["time"]}, "the coordinate /time has the length 3, the dimension 4"),
    "other": ({"data": np.arange(4), "dims": ["x"]}, "the array /time does not run along it alone"),
    "truth": ({"data": np.ones(4, bool), "dims": ["time"]}, "the cells of the coordinate /time are no labels"),
}


@pytest.mark.parametrize("stamps", [None, 3])
def test_a_series_of_nwb_without_seconds(tmp_path: Path, stamps: int | None) -> None:
    with hs.create(tmp_path / "x.zarr", "hdmf") as root:
        root.create_group("lfp", {"neurodata_type": "TimeSeries"})
        root.create_array("lfp/data", data=np.zeros((2, 4)), dims=["num_times", "num_channels"])
        if stamps is not None:
            root.create_array("lfp/timestamps", data=np.arange(stamps))
    array: Any = hs.open_array(tmp_path / "x.zarr", path="lfp/data")
    why = "the series has neither timestamps nor a starting_time with a rate"
    if stamps is not None:
        why = "the timestamps /lfp/timestamps have the length 3, the dimension 2"
    with pytest.raises(WrongType, match=f"'num_times', and {why}"):
        array.sel(num_times=slice(0.0, 1.0))
    for view in (array, array.decoded()):  # whole numbers are no positions there, which they are of num_times
        with pytest.raises(SelectionError, match=f"no seconds, for {why}.* with isel"):
            view.sel(time=slice(0, 1))
        assert view.isel(time=slice(0, 1)).shape == (1, 4)
    with pytest.raises(WrongType, match="there is no coordinate 'num_channels'"):
        array.sel(num_channels=slice(0.0, 1.0))


@pytest.mark.parametrize("case", CASES)
def test_the_reason_is_named(tmp_path: Path, case: str) -> None:
    coordinate, why = CASES[case]
    with hs.create(tmp_path / "x.zarr") as root:
        root.create_array("g/t", data=np.zeros((2, 4)), dims=["y", "time"])
        if coordinate is not None:
            root.create_array("time", **coordinate)
    array: Any = hs.open_array(tmp_path / "x.zarr", path="g/t")
    for choose in (lambda: array[0, "2020-01-01"], lambda: array.sel(time="2020-01-01")):
        with pytest.raises(SelectionError, match=f"'2020-01-01' is no position of 'time', and {why}"):
            choose()
    with pytest.raises(WrongType, match=f"is no position of 'time', and {why}"):
        array[:, "2020-01-01":]
    assert array[0, 1] == array.sel(time=1)[0] == 0
