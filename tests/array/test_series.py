"""Series of NWB decoded: conversion, channel_conversion and offset give their unit, whatever the key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.stores.memory import MemoryStore

CELLS = np.random.default_rng(4).integers(-3000, 3000, (50, 6), dtype="i2")
FACTORS = np.array([1.0, 2, 0.5, 1, 3, 0.25])
VOLTS = CELLS * 1e-6 * FACTORS + 0.5


@pytest.fixture
def root() -> Iterator[hs.Group]:
    with hs.create(MemoryStore(), "hdmf") as made:
        probe = made.create_group("acquisition/probe", {"neurodata_type": "ElectricalSeries", "namespace": "core"})
        volts = {"conversion": 1e-6, "offset": 0.5, "unit": "volts", "resolution": -1.0}
        probe.create_array("data", data=CELLS, chunks=(20, 6), attrs=volts)
        probe.create_array("channel_conversion", data=FACTORS, attrs={"axis": 1})
        series = made.create_group("acquisition/angle", {"neurodata_type": "TimeSeries"})
        series.create_array("data", data=CELLS[:, 0], attrs={"conversion": np.float32(0.25), "unit": "degrees"})
        as_it_is = made.create_group("acquisition/counts", {"neurodata_type": "TimeSeries"})
        as_it_is.create_array("data", data=CELLS[:, 0], attrs={"conversion": 1.0, "offset": 0.0, "unit": "n.a."})
        odd = made.create_group("acquisition/odd", {"neurodata_type": "TimeSeries"})
        odd.create_array("data", data=CELLS, attrs={"conversion": "much", "offset": [1.0, 2.0], "unit": 3})
        odd.create_array("channel_conversion", data=FACTORS[:3])
        plain = made.create_group("plain")
        plain.create_array("data", data=CELLS[:, 0], attrs={"conversion": 2.0, "unit": "m"})
        yield made


@pytest.mark.parametrize(
    "key",
    [
        (),
        np.s_[3],
        np.s_[3, 4],
        np.s_[-1, -2],
        np.s_[10:40:3, 1:5],
        np.s_[..., 2],
        np.s_[:, ::-1],
        np.s_[:, np.array([5, 0, 0])],
        np.s_[np.array([7, 3]), np.array([5, 0])],
        np.s_[np.array([7, 3])],
        np.s_[np.newaxis, 4:6, np.newaxis],
        np.s_[0:0],
    ],
)
def test_any_key_gives_volts(root: hs.Group, key: Any) -> None:
    decoded = root["acquisition/probe/data"].decoded()
    found = decoded[key]
    np.testing.assert_allclose(found, VOLTS[key], rtol=1e-12)
    assert np.shape(found) == np.shape(VOLTS[key])


def test_what_decoding_tells(root: hs.Group) -> None:
    decoded = root["acquisition/probe/data"].decoded()
    assert (decoded.units, decoded.dtype, decoded.is_packed, decoded.shape) == ("volts", np.dtype("f8"), True, (50, 6))
    assert decoded.attrs == {"unit": "volts", "resolution": -1.0, "units": "volts"}
    np.testing.assert_allclose(np.stack(list(decoded)), VOLTS)
    np.testing.assert_allclose(decoded, VOLTS)
    np.testing.assert_array_equal(root["acquisition/probe/data"][...], CELLS)  # what is stored never changes


def test_names_and_labels() -> None:
    with hs.create(MemoryStore(), "zarr3") as named:
        series = named.create_group("probe", {"neurodata_type": "ElectricalSeries"})
        attrs = {"conversion": 1e-6, "offset": 0.5, "unit": "volts"}
        series.create_array("data", data=CELLS, dims=("time", "channel"), attrs=attrs)
        series.create_array("channel_conversion", data=FACTORS)
        series.create_array("channel", data=np.arange(6) * 10.0, dims=("channel",))
        decoded = named["probe/data"].decoded()
        np.testing.assert_allclose(decoded.isel(channel=[4, 1], time=slice(3, 9)), VOLTS[3:9, [4, 1]])
        np.testing.assert_allclose(decoded.sel(channel=40.0), VOLTS[:, 4])
        np.testing.assert_allclose(decoded.sel(channel=41.0, method="nearest", tolerance=2), VOLTS[:, 4])


def test_series_without_channels(root: hs.Group) -> None:
    angle, counts = root["acquisition/angle/data"].decoded(), root["acquisition/counts/data"].decoded()
    np.testing.assert_allclose(angle[:], CELLS[:, 0] * 0.25)
    assert (angle.units, angle.is_packed) == ("degrees", True)
    np.testing.assert_array_equal(counts[:], CELLS[:, 0])
    assert (counts.units, counts.dtype, counts.is_packed) == ("n.a.", np.dtype("i2"), False)


def test_what_makes_no_sense_changes_nothing(root: hs.Group) -> None:
    for path in ("acquisition/odd/data", "plain/data"):
        decoded = root[path].decoded()
        np.testing.assert_array_equal(decoded[...], root[path][...])
        assert (decoded.units, decoded.is_packed) == (None, False)
