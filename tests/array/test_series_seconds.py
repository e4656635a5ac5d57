"""Samples of series of NWB by seconds: from timestamps, from those of another series, and from a rate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import BrokenLink, Invalid, LabelError
from hyperslab.stores.memory import MemoryStore

CELLS = np.arange(300, dtype="i2").reshape(100, 3)
IRREGULAR = np.cumsum(np.random.default_rng(3).uniform(0.01, 0.2, 100))


def make_series(root: hs.Group, name: str, *, dims: Any = ("num_times", "num_channels")) -> hs.Group:
    """Return a new series with data."""
    series = root.create_group(name, {"neurodata_type": "ElectricalSeries"})
    series.create_array("data", data=CELLS, dims=dims, chunks=(10, 3), attrs={"conversion": 0.5, "unit": "V"})
    return series


@pytest.fixture
def root() -> Iterator[hs.Group]:
    with hs.create(MemoryStore(), "hdmf") as made:
        steady = make_series(made, "steady")
        steady.create_array("starting_time", data=np.float64(5), attrs={"rate": np.float32(1000), "unit": "seconds"})
        make_series(made, "stamped").create_array("timestamps", data=IRREGULAR, dims=["num_times"])
        make_series(made, "linked").create_link("timestamps", "/stamped/timestamps")
        nameless = make_series(made, "nameless", dims=None)
        nameless.create_array("timestamps", data=IRREGULAR)
        scaled = make_series(made, "scaled")
        scaled.create_array("starting_time", data=np.float64(0), attrs={"rate": 3.0, "unit": "seconds"})
        scaled.create_array("channel_conversion", data=np.array([1.0, 2, 3]))
        make_series(made, "lost").create_link("timestamps", "/nowhere")
        yield made


@pytest.mark.parametrize("name", ["stamped", "linked", "nameless"])
def test_timestamps(root: hs.Group, name: str) -> None:
    array: Any = root[f"{name}/data"]
    inside = (IRREGULAR >= 2) & (IRREGULAR <= 4)
    np.testing.assert_array_equal(array.sel(time=slice(2, 4)), CELLS[inside])
    np.testing.assert_array_equal(array.decoded().sel(time=slice(2, 4)), CELLS[inside] * 0.5)
    np.testing.assert_array_equal(array.sel(time=IRREGULAR[7]), CELLS[7])
    np.testing.assert_array_equal(array.sel(time=[IRREGULAR[7], IRREGULAR[3]]), CELLS[[7, 3]])
    nearest = np.abs(IRREGULAR - 3).argmin()
    np.testing.assert_array_equal(array.sel(time=3, method="nearest"), CELLS[nearest])
    np.testing.assert_array_equal(array.isel(time=4), CELLS[4])


def test_a_rate(root: hs.Group) -> None:
    array: Any = root["steady/data"]
    np.testing.assert_array_equal(array.sel(time=slice(5.01, 5.02)), CELLS[10:21])
    np.testing.assert_array_equal(array.sel(num_times=slice(5.01, 5.02)), CELLS[10:21])
    np.testing.assert_array_equal(array[5.01:5.02], CELLS[10:20])  # a stop in [] is not included
    np.testing.assert_array_equal(array[5.01, 1], CELLS[10, 1])
    assert array.sel(time=slice(9, 10)).shape == (0, 3)
    with pytest.raises(LabelError, match=r"time 6.0 lies beyond the last cell, 5\.099.*node=/steady/data"):
        array.sel(time=6.0)
    with pytest.raises(Invalid, match="no dimension 'tme'"):
        array.isel(tme=4)


def test_factors_of_channels(root: hs.Group) -> None:
    volts = root["scaled/data"].decoded()
    wanted = CELLS * 0.5 * [1.0, 2, 3]
    np.testing.assert_allclose(volts.sel(time=slice(1, 2)), wanted[3:7])
    np.testing.assert_allclose(volts.isel(time=slice(1, 2)), wanted[1:2])


@pytest.mark.parametrize("rate", [30_000.0, 24_414.0625, 1000 / 3])
def test_every_sample_of_hours_is_found(rate: float) -> None:
    samples = 10**9
    with hs.create(MemoryStore(), "hdmf") as root:
        series = root.create_group("raw", {"neurodata_type": "TimeSeries"})
        data: Any = series.create_array("data", shape=(samples,), dtype="i2", chunks=(1 << 20,))
        series.create_array("starting_time", data=np.float64(1.25), attrs={"rate": rate})
        for place in (0, 1, 12_345_678, samples // 2, samples - 1):
            data[place] = 7
            assert data.sel(time=1.25 + place / rate) == 7
            assert data.sel(time=slice(1.25 + place / rate, 1.25 + (place + 2) / rate)).size == min(3, samples - place)
            assert data.sel(time=1.25 + (place + 0.3) / rate, method="nearest") == 7


def test_a_link_that_leads_nowhere(root: hs.Group) -> None:
    with pytest.raises(BrokenLink, match="nowhere"):
        root["lost/data"].sel(time=slice(0, 1))  # type: ignore[union-attr]
    assert root["lost/data"][0, 0] == 0


def test_a_dimension_called_time_is_itself(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "hdmf") as root:
        series = root.create_group("wide", {"neurodata_type": "TimeSeries"})
        data: Any = series.create_array("data", data=CELLS, dims=["frame", "time"])
        series.create_array("starting_time", data=np.float64(0), attrs={"rate": 10.0})
        np.testing.assert_array_equal(data.sel(time=1), CELLS[:, 1])
        np.testing.assert_array_equal(data.sel(frame=slice(1.0, 1.2)), CELLS[10:13])
