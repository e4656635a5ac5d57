"""Selections by words of CF and across the seam of longitudes, as xarray takes the same cells."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import hyperslab as hs
from command_line import run
from hyperslab.array import Array
from hyperslab.conversion.selection import ArraySelection, Select, Selector, select_labels
from hyperslab.errors import Invalid, LabelError, Unsupported, WrongType
from hyperslab.group.walk import arrays_of
from hyperslab.model.cells import Values
from hyperslab.model.dims import FloatLabels, ScaleIndex
from hyperslab.selection.region import PositionList, Range
from hyperslab.stores import MemoryStore
from old_peers import reads_zarr


def air(first: float = 0.0) -> xr.Dataset:
    """A global grid of 10 degrees with bounds, pressure levels and two days; longitudes from ``first`` on."""
    lat, lon = np.arange(80.0, -81, -20), first + np.arange(0.0, 360, 10)
    rng = np.random.default_rng(5)
    return xr.Dataset(
        {
            "t": (("time", "plev", "y_lat", "lon"), rng.random((2, 3, lat.size, lon.size)).astype("f4")),
            "orog": (("y_lat", "lon"), rng.random((lat.size, lon.size))),
        },
        {
            "time": ("time", [0.0, 1.0], {"units": "days since 2001-05-01"}),
            "plev": ("plev", [1000.0, 850.0, 500.0], {"units": "hPa", "standard_name": "air_pressure"}),
            "y_lat": ("y_lat", lat, {"units": "degrees_north"}),
            "lon": ("lon", lon, {"units": "degrees_east", "bounds": "lon_bnds"}),
            "lon_bnds": (("lon", "bnds"), np.stack([lon - 5, lon + 5], 1)),
        },
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cf") / "air.zarr"
    air().chunk(lon=7, y_lat=4).to_zarr(path, zarr_format=3, consolidated=False)
    return path


def reading(path: Path) -> xr.Dataset:
    with xr.open_dataset(path, engine="zarr", decode_times=False, consolidated=False) as found:
        return found.load()


@reads_zarr
def test_words_of_cf_mean_dimensions(source: Path, tmp_path: Path) -> None:
    select = Select({"T": 1}, {"air_pressure": 850.0, "Y": slice(40.0, -40.0), "longitude": slice(20.0, 90.0)})
    hs.convert(source, tmp_path / "a.zarr", select=select, verify=True)
    expected = air().isel(time=1).sel(plev=850.0, y_lat=slice(40, -40), lon=slice(20, 90))
    assert np.array_equal(reading(tmp_path / "a.zarr")["t"], expected["t"])
    assert np.array_equal(reading(tmp_path / "a.zarr")["orog"], expected["orog"])
    out = tmp_path / "part.npy"
    result = run(
        "get", str(source), "t", "-s", "T=1", "-s", "Z=@850", "-s", "Y=40.0..-40.0", "-s", "X=2..10", "-o", str(out)
    )
    assert result.exit_code == 0, result.stderr
    assert np.array_equal(np.load(out), expected["t"])


def test_a_word_that_nothing_knows_is_answered_by_what_there_is(source: Path, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"no dimension 'ocean_depth'.*plev \(air_pressure, Z\).*y_lat \(latitude, Y\)"):
        hs.convert(source, tmp_path / "a.zarr", select={"ocean_depth": 5.0})
    assert not (tmp_path / "a.zarr").exists()
    result = run("get", str(source), "orog", "-s", "Z=0")
    assert result.exit_code == 2
    assert "there are lon (longitude, X), y_lat (latitude, Y)" in result.stderr
    with pytest.raises(Invalid, match="selected twice"):
        hs.convert(source, tmp_path / "a.zarr", select={"X": 5, "lon": 5})


def test_a_dimension_of_that_name_wins(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("v", data=np.arange(6).reshape(2, 3), dims=("X", "lon"))
        root.create_array("lon", data=[0.0, 1, 2], dims=("lon",), attrs={"units": "degrees_east"})
    assert run("get", str(tmp_path / "a.zarr"), "v", "-s", "X=1", "-s", "longitude=2.0").stdout.strip() == "5"


def test_two_dimensions_that_a_word_may_mean_are_not_guessed(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("v", data=np.zeros((2, 2)), dims=("a", "b"))
        for name in "ab":
            root.create_array(name, data=[0.0, 1], dims=(name,), attrs={"units": "days since 2000-01-01"})
    result = run("get", str(tmp_path / "a.zarr"), "v", "-s", "T=0")
    assert "T may mean a and b" in result.stderr
    with hs.open(tmp_path / "a.zarr", mode="r+") as root:
        root["b"].attrs["axis"] = "T"
    assert run("get", str(tmp_path / "a.zarr"), "v", "-s", "T=0", "--json").exit_code == 0


def test_an_auxiliary_coordinate_selects_all_along_its_dimension(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        about = {"coordinates": "station_name lat"}
        root.create_array("v", data=np.arange(6).reshape(2, 3), dims=("time", "station"), attrs=about)
        root.create_array("station_name", data=np.array(["KTOP", "EDDM", "UUWW"]), dtype=str, dims=("station",))
        root.create_array("lat", data=[1.0, 2, 3], dims=("station",), attrs={"units": "degrees_north"})
        root.create_array("other", data=np.zeros(3), dims=("z",))
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", select={"station_name": "EDDM"}, verify=True)
    with hs.open_group(tmp_path / "b.zarr") as root:
        assert root["v"][...].tolist() == [1, 4]
        assert root["lat"][...] == 2.0
        assert root["other"].shape == (3,)
    assert run("get", str(tmp_path / "a.zarr"), "v", "-s", "latitude=3.0", "-s", "time=0").stdout.strip() == "2"


@reads_zarr
@pytest.mark.parametrize(
    ("first", "last", "labels"),
    [
        (350.0, 10.0, [350, 360, 370]),
        (-10.0, 10.0, [-10, 0, 10]),
        (-20.0, -10.0, [-20, -10]),
        (340.0, 370.0, [340, 350, 360, 370]),
        (10.0, 30.0, [10, 20, 30]),
    ],
)
def test_a_range_goes_across_the_seam(
    source: Path, tmp_path: Path, first: float, last: float, labels: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "hyperslab"):
        hs.convert(source, tmp_path / "a.zarr", select={"lon": slice(first, last)}, verify=True)
    expected = air().sel(lon=np.array(labels) % 360)
    found = reading(tmp_path / "a.zarr")
    assert found["lon"].values.tolist() == labels
    assert np.array_equal(found["t"], expected["t"])
    assert np.array_equal(found["lon_bnds"], np.stack([np.array(labels) - 5, np.array(labels) + 5], 1))
    assert ("goes across the seam of /lon" in caplog.text) is (0 in labels or 360 in labels)
    assert ("lon: 340 to 350 of /lon are counted as -20 to -10" in caplog.text) is (labels == [-20, -10])
    result = run("get", str(source), "orog", "-s", f"lon={first}..{last}", "-o", str(tmp_path / "b.zarr"))
    assert result.exit_code == 0, result.stderr
    part = reading(tmp_path / "b.zarr")
    assert part["lon"].values.tolist() == labels
    assert np.array_equal(part["orog"], expected["orog"])
    assert np.array_equal(part["lon_bnds"], np.stack([np.array(labels) - 5, np.array(labels) + 5], 1))
    assert run("plot", str(source), "orog", "-s", f"lon={first}..{last}", "-o", str(tmp_path / "a.png")).exit_code == 0


@given(
    first=st.integers(-36, 36),
    low=st.integers(-720, 720),
    high=st.integers(-720, 720),
    falls=st.booleans(),
)
def test_ranges_of_any_grid_are_those_of_a_search(first: int, low: int, high: int, falls: bool) -> None:
    lon = first * 10 + np.arange(0.0, 360, 10)[:: -1 if falls else 1]
    root = hs.create(MemoryStore())
    root.create_array("lon", data=lon, dims=("lon",), attrs={"standard_name": "longitude"})
    array = root.create_array("v", data=np.arange(36), dims=("lon",))

    selector = Selector([array], Select({}, {"lon": slice(float(low), float(high))}))
    cells = array.oindex[selector.key(array)]
    labels = lon[cells] + selector.shifts(array).get("lon", 0.0)
    sign = -1 if falls else 1
    width = (high - low) * sign % 360 if (high - low) * sign < 0 else (high - low) * sign
    inside = [at for at in np.arange(low, low + sign * min(width, 360) + sign, sign) if (at - first * 10) % 10 == 0]
    inside = [] if falls and high > low else inside[:36]  # as of latitudes, and of labels in xarray
    within = lon.min() <= min(low, high) and max(low, high) <= lon.max() and (high - low) * sign >= 0
    assert labels.tolist() == (inside if not within else [at for at in lon if min(low, high) <= at <= max(low, high)])


@reads_zarr
def test_labels_wrap_and_the_nearest_too(source: Path, tmp_path: Path) -> None:
    for text, expected in (("-10.0", 350), ("370.0", 10), ("360.0", 0)):
        result = run("get", str(source), "orog", "-s", f"lon={text}", "-s", "y_lat=0", "--json")
        assert json.loads(result.stdout)["coordinates"]["lon"] == expected, result.stderr
    hs.convert(source, tmp_path / "a.zarr", path="orog", select={"lon": 357.0}, method="nearest")
    assert reading(tmp_path / "a.zarr")["lon"] == 0.0
    result = run("convert", str(source), str(tmp_path / "b.zarr"), "-s", "lon=357.0", "--tolerance", "2")
    assert result.exit_code == 2
    assert "further than 2.0" in result.stderr
    with pytest.raises(LabelError, match=r"lon 357\.0 lies beyond the last cell"):
        hs.convert(source, tmp_path / "b.zarr", select={"lon": 357.0})
    assert run("convert", str(source), str(tmp_path / "b.zarr"), "-s", "lon=357.0", "--tolerance", "3").exit_code == 0


def test_a_tolerance_fits_its_labels(source: Path, tmp_path: Path) -> None:
    about = ["-s", "time=2001-05-01T05:00", "-s", "lon=12.0", "-s", "Z=@1000", "-s", "Y=0.0", "--tolerance", "3"]
    assert run("get", str(source), "t", *about).exit_code == 0
    assert run("get", str(source), "t", *about, "--tolerance", "6h").exit_code == 0
    result = run("get", str(source), "t", *about, "--tolerance", "4h")
    assert (result.exit_code, "further than 4h from" in result.stderr) == (2, True)
    assert "--tolerance '3 pints'" in run("get", str(source), "t", "--tolerance", "3 pints").stderr


@reads_zarr
@pytest.mark.parametrize("label", [-176.0, -5.1, -4.9, 0.0, 4.9, 5.1, 12.0, 182.0, 356.0, 364.9, 715.0])
def test_the_nearest_in_python_is_that_of_xarray_around_the_globe(label: float, source: Path, tmp_path: Path) -> None:
    theirs = reading(source)
    turned = np.concatenate([theirs["lon"] - 720, theirs["lon"] - 360, theirs["lon"], theirs["lon"] + 360])
    around = xr.concat([theirs["orog"]] * 5, "lon").assign_coords(lon=np.append(turned, theirs["lon"] + 720))
    wanted = {"lon": label, "y_lat": [57.0, -71.0]}
    hs.convert(source, tmp_path / "a.zarr", path="orog", select=wanted, method="nearest", tolerance=9.5)
    expected = around.sel(wanted, method="nearest", tolerance=9.5)
    found = reading(tmp_path / "a.zarr")
    np.testing.assert_array_equal(found["orog"], expected)
    assert found["lon"] % 360 == expected["lon"] % 360
    gap = abs(float(expected["lon"]) - label)
    if gap > 1:
        with pytest.raises(LabelError, match=r"is further than 1\.0"):
            hs.convert(source, tmp_path / "b.zarr", select={"lon": label}, method="nearest", tolerance=1.0)


@reads_zarr
def test_the_nearest_time_in_python_is_that_of_xarray(source: Path, tmp_path: Path) -> None:
    wanted = {"time": "2001-05-01T05:00", "plev": 870.0}
    limits = (timedelta(hours=6), 25)
    hs.convert(source, tmp_path / "a.zarr", path="t", select=wanted, method="nearest", tolerance=limits)
    with xr.open_dataset(source, engine="zarr", consolidated=False) as theirs:
        expected = theirs["t"].sel(time=wanted["time"], method="nearest", tolerance=limits[0])
        expected = expected.sel(plev=870.0, method="nearest", tolerance=limits[1])
    np.testing.assert_array_equal(reading(tmp_path / "a.zarr")["t"], expected)
    for tolerance in ((timedelta(hours=4), 25), (timedelta(hours=6), 15)):
        with pytest.raises(LabelError, match="is further than"):
            hs.convert(source, tmp_path / "b.zarr", select=wanted, method="nearest", tolerance=tolerance)


def test_a_tolerance_that_limits_nothing_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="a tolerance without a method"):
        hs.convert(source, tmp_path / "b.zarr", select={"lon": 12.0}, tolerance=1.0)
    with pytest.raises(Unsupported, match="method 'pad'"):
        hs.convert(source, tmp_path / "b.zarr", select={"lon": 12.0}, method="pad")  # type: ignore[arg-type]
    with pytest.raises(WrongType, match="it is a number"):
        hs.convert(source, tmp_path / "b.zarr", select={"lon": 12.0}, method="nearest", tolerance=timedelta(hours=1))
    result = run("convert", str(source), str(tmp_path / "b.zarr"), "-s", "time=2001-05-01T05:00", "--tolerance", "3")
    assert (result.exit_code, "it is a timedelta (3h)" in result.stderr) == (2, True)
    result = run("stats", str(source), "-s", "time=2001-05-01T05:00", "--tolerance", "3")
    assert (result.exit_code, "it is a timedelta (3h)" in result.stderr) == (2, True)
    result = run("get", str(source), "t", "-s", "time=2001-05-01T05:00", "--tolerance", "6h", "--tolerance", "3")
    assert (result.exit_code, "it is a timedelta (3h)" in result.stderr) == (2, True)


@pytest.mark.parametrize("words", [[], ["-s", "time=0"], ["-s", "lon=10.0..30.0"], ["--bbox", "0,0,20,20"]])
@pytest.mark.parametrize("command", ["get", "stats", "convert", "aggregate"])
def test_a_tolerance_without_a_label_is_refused(command: str, words: list[str], source: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "b.zarr")
    places = {"get": ["t"], "stats": [], "convert": [target], "aggregate": [target, "--how", "mean", "--over", "lon"]}
    result = run(command, str(source), *places[command], *words, "--tolerance", "3")
    assert result.exit_code == 2
    assert "a tolerance of 3.0 and no label that it is for" in result.stderr
    assert "select by a label (@10)" in result.stderr
    assert not (tmp_path / "b.zarr").exists()


def test_axes_that_are_no_longitudes_stay_as_they_are(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("a", data=np.arange(0.0, 360, 10), dims=("a",), attrs={"units": "degree"})
        root.create_array("v", data=np.arange(0.0, 360, 10), dims=("a",))
    assert "is an empty range" in run("get", str(tmp_path / "a.zarr"), "v", "-s", "a=280.0..10.0").stderr
    assert run("get", str(tmp_path / "a.zarr"), "v", "-s", "a=-10.0").exit_code == 2


@pytest.fixture
def region(tmp_path: Path) -> str:
    """North America from 225 to 315 degrees east, and Europe from -20 to 40: the cells are the labels."""
    with hs.create(tmp_path / "region.zarr") as root:
        for name, labels in (("america", np.arange(225.0, 316, 15)), ("europe", np.arange(-20.0, 41, 10))):
            root.create_array(name, data=labels, dims=(name,), attrs={"units": "degrees_east"})
            root.create_array(f"v_{name}", data=labels, dims=(name,))
    return str(tmp_path / "region.zarr")


@pytest.mark.parametrize(
    ("name", "text", "cells"),
    [
        ("america", "-120.0", [240]),
        ("america", "240.0", [240]),
        ("america", "-120.0..-90.0", [240, 255, 270]),
        ("america", "-120.0..", [240, 255, 270, 285, 300, 315]),
        ("america", "..-105.0", [225, 240, 255]),
        ("america", "200.0..245.0", [225, 240]),
        ("america", "0.0..", [225, 240, 255, 270, 285, 300, 315]),
        ("america", "0.0..90.0", []),
        ("america", "300.0..240.0", []),
        ("europe", "350.0", [-10]),
        ("europe", "350.0..10.0", [-10, 0, 10]),
        ("europe", "340.0..350.0", [-20, -10]),
        ("europe", "0.0..359.0", [0, 10, 20, 30, 40]),
        ("europe", "30.0..0.0", []),
    ],
)
def test_longitudes_of_a_region_are_found_by_whole_turns(region: str, name: str, text: str, cells: list[float]) -> None:
    result = run("get", region, f"v_{name}", "-s", f"X={text}", "--json")
    assert result.exit_code == 0, result.stderr
    assert np.ravel(json.loads(result.stdout)["values"]).tolist() == cells
    assert "seam" not in result.stderr


def test_the_nearest_longitude_of_a_region_is_found_by_whole_turns(region: str, tmp_path: Path) -> None:
    assert run("get", region, "v_america", "-s", "X=-118.0", "--nearest").stdout.strip() == "240.0"
    assert run("get", region, "v_america", "-s", "X=-118.0", "--nearest", "--tolerance", "1").exit_code == 2
    result = run("get", region, "v_america", "-s", "X=-120.0..-105.0")
    assert "X: 240 to 255 of /america are counted as -120 to -105" in result.stderr
    assert result.stdout.split() == ["america", "v_america", "-120.0", "240.0", "-105.0", "255.0"]
    hs.convert(region, tmp_path / "b.zarr", path="v_america", select={"america": slice(-120.0, -105.0)}, verify=True)
    with hs.open_group(tmp_path / "b.zarr") as root:
        assert root["america"][...].tolist() == [-120, -105]


def test_a_month_that_has_cells_is_no_neighbour(tmp_path: Path) -> None:
    """The middle of June is nearer to the beginning of July than the middle of July, which is meant."""
    place = str(tmp_path / "a.zarr")
    with hs.create(place) as root:
        units = {"units": "days since 1995-01-01", "calendar": "noleap"}
        root.create_array("time", data=np.array([166.0, 196.5]), dims=("time",), attrs=units)
        root.create_array("lat", data=np.array([-1.0, 1.0]), dims=("lat",), attrs={"units": "degrees_north"})
        root.create_array("t", data=np.array([[6, -6], [7, -7]]), dims=("time", "lat"))

    def taken(time: str) -> list[int]:
        result = run("get", place, "t", "-s", f"time={time}", "-s", "lat=-0.5", "--nearest", "--json")
        return cast("list[int]", np.ravel(json.loads(result.stdout)["values"]).tolist())

    assert taken("1995-07") == [7]
    assert taken("@1995") == [6, 7]
    assert taken("1995-07-01") == [6]
    assert hs.open(place)["t"].sel(time="1995-07", lat=-0.5, method="nearest") == 6  # as in xarray


def test_cells_that_cannot_be_turned_are_refused(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("lon", data=np.arange(0, 250, 10, "u1"), dims=("lon",), attrs={"units": "degrees_east"})
    with hs.create(tmp_path / "b.zarr") as root:
        root.create_array("lon", data=np.arange(0, 360, 10, "u2"), dims=("lon",), attrs={"units": "degrees_east"})
    with pytest.raises(Invalid, match="have no label -10"):
        hs.convert(tmp_path / "b.zarr", tmp_path / "c.zarr", select={"lon": slice(-10.0, 10.0)})
    hs.convert(tmp_path / "b.zarr", tmp_path / "c.zarr", select={"lon": slice(350.0, 10.0)}, verify=True)
    with hs.open_group(tmp_path / "c.zarr") as root:
        assert root["lon"].dtype == np.dtype("u2")
        assert root["lon"][...].tolist() == [350, 360, 370]


def test_a_longitude_between_cells_is_told_as_it_is_counted(source: Path, region: str) -> None:
    result = run("get", str(source), "orog", "-s", "X=-13.0", "-s", "Y=0.0")
    assert "X -13.0 is counted as 347 here: lon 347.0 lies between 340.0 and 350.0" in result.stderr
    assert "--nearest takes the closest cell" in result.stderr
    assert "america -119.0 is counted as 241" in run("get", region, "v_america", "-s", "america=-119.0").stderr
    assert "america 10.0 lies beyond" in run("get", region, "v_america", "-s", "america=10.0").stderr


def test_longitudes_around_rotated_poles_are_matched_by_whole_turns(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        attrs = {"units": "degrees", "standard_name": "grid_longitude"}
        root.create_array("rlon", data=np.arange(340.0, 381, 10), dims=("rlon",), attrs=attrs)
        root.create_array("v", data=np.arange(5), dims=("rlon",))
    assert run("get", str(tmp_path / "a.zarr"), "v", "-s", "X=0.0").stdout.strip() == "2"
    assert run("get", str(tmp_path / "a.zarr"), "v", "-s", "rlon=-12.0", "--nearest").stdout.strip() == "1"


def test_a_word_of_cf_with_years_as_positions_gets_the_hint(source: Path, tmp_path: Path) -> None:
    for command in (["get", str(source), "t"], ["convert", str(source), str(tmp_path / "a.zarr")]):
        for text in ("T=2001", "T=2001..2002"):
            result = run(*command, "-s", text)
            assert result.exit_code == 2
            assert "write @2001 for the label 2001" in result.stderr
    assert not (tmp_path / "a.zarr").exists()


def _calls(work: Callable[[], object]) -> int:
    """Count the Python functions that are called."""
    calls = 0

    def notice(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(notice)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def _many(count: int) -> list[Array]:
    """Arrays of two groups over the coordinates of the root, every other one with an auxiliary coordinate."""
    root = hs.create(MemoryStore(), "zarr3")
    with root.batch():
        for name, units in (("y", "degrees_north"), ("x", "degrees_east")):
            root.create_array(name, data=np.arange(0.0, 90, 10), dims=(name,), attrs={"units": units})
        root.create_array("row", data=np.arange(9), dims=("y",))
        for number in range(count):
            about = {"coordinates": "row"} if number % 2 else {}
            root.create_array(f"g{number % 2}/v{number}", shape=(9, 9), dtype="f4", dims=("y", "x"), attrs=about)
    return [array for _, array in arrays_of(root)]


@pytest.mark.parametrize(
    "select",
    [
        {"Y": slice(20.0, 50.0)},
        {"x": slice(20.0, 50.0)},
        {"row": 4},
        {"row": 4.0},
        {"bbox": (10, 20, 30, 50)},
    ],
    ids=str,
)
def test_each_coordinate_is_looked_for_once(select: Any) -> None:
    """The budget of one array more: 250 calls, no request."""

    def pick(arrays: list[Array]) -> None:
        selector = Selector(arrays, Select.of(select))
        for array in arrays:
            selector.pick(array)

    few, many = _many(100), _many(300)
    pick(_many(2))  # imports
    with hs.trace() as cost:
        calls = _calls(lambda: pick(few))
    with hs.trace() as more:
        assert _calls(lambda: pick(many)) - calls < 250 * 200
    assert cost.requests == more.requests <= 10


# -- the coordinates of a point ----------------------------------------------------------------------------------------


def _opened(path: Path) -> xr.Dataset:
    engine, options = ("netcdf4", {}) if path.suffix == ".nc" else ("zarr", {"consolidated": False})
    with xr.open_dataset(path, engine=engine, **options) as found:
        found.load()
    found.attrs.pop("_hyperslab", None)
    return found


@reads_zarr
@pytest.mark.parametrize("source_name", ["a.nc", "a.zarr"])
@pytest.mark.parametrize("target_name", ["b.nc", "b.zarr"])
def test_coordinates_of_a_point_are_those_of_xarray(source_name: str, target_name: str, tmp_path: Path) -> None:
    """There and back: the scalars are named by the arrays that had the dimension, but not by bounds."""
    made = air().assign_coords(height=((), 2.0, {"units": "m"}), day=("time", [5, 6]))
    made = made.assign(zonal=("lat", np.arange(3.0))).assign_coords(lat=[10.0, 20.0, 30.0])
    made = made.reset_coords("lon_bnds")
    wanted = {"lon": 30.0, "y_lat": 20.0, "time": 1}
    expected = made.isel(time=1).sel(lon=30.0, y_lat=20.0)
    source, target, back = tmp_path / source_name, tmp_path / target_name, tmp_path / f"back-{source_name}"
    for dataset, path in ((made, source), (expected, tmp_path / f"x-{target_name}")):
        write = dataset.to_netcdf if path.suffix == ".nc" else dataset.to_zarr
        write(path, **({"engine": "netcdf4"} if path.suffix == ".nc" else {"consolidated": False}))
    theirs = _opened(tmp_path / f"x-{target_name}")
    hs.convert(source, target, select=wanted, verify=True)
    xr.testing.assert_identical(_opened(target), theirs)
    hs.convert(target, back, verify=True)
    xr.testing.assert_identical(_opened(back), theirs)
    with hs.open_group(target) as root:
        for name in ("lon_bnds", "zonal"):
            assert "lon" not in root[name].attrs.get("coordinates", "").split()
    part = tmp_path / f"part-{target_name}"
    words = ["-s", "lon=30.0", "-s", "y_lat=20.0", "-s", "time=1"]
    result = run("get", str(source), "-v", "t,orog", *words, "-o", str(part))
    assert result.exit_code == 0, result.output
    xr.testing.assert_identical(_opened(part), theirs.drop_vars(["zonal", "lat"]))


# -- targets and sources whose arrays have their labels themselves ----------------------------------------------------


def _rolled(first: float, last: float) -> tuple[Values, Values]:
    """Return the longitudes from ``first`` to ``last`` and the first row of cells there, by xarray with rolled
    longitudes."""
    lon = np.arange(0.0, 360, 10)
    theirs = xr.DataArray(np.arange(72.0).reshape(2, 36), dims=("lat", "lon"), coords={"lon": lon})
    around = xr.concat([theirs.assign_coords(lon=lon + turn) for turn in (-360, 0, 360)], "lon")
    part = around.sel(lon=slice(first, last))
    return part["lon"].values, part[0].values


@pytest.mark.parametrize("format", ["collections", "deker", "netcdf", "zarr3"])
@pytest.mark.parametrize(("first", "last"), [(-20.0, 20.0), (340.0, 380.0), (-110.0, -80.0), (100.0, 130.0)])
def test_labels_of_arrays_go_on_across_the_seam(format: str, first: float, last: float, tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("lon", data=np.arange(0.0, 360, 10), dims=("lon",), attrs={"units": "degrees_east"})
        root.create_array("t", data=np.arange(72.0).reshape(2, 36), dims=("lat", "lon"))
    wanted = {"lon": slice(first, last)}
    labels, cells = _rolled(first, last)
    hs.convert(tmp_path / "a.nc", tmp_path / "whole", format, allow_loss=True)
    hs.convert(tmp_path / "a.nc", tmp_path / "b", format, select=wanted, allow_loss=True, verify=True)
    hs.convert(tmp_path / "whole", tmp_path / "c", format, select=wanted, allow_loss=True, verify=True)
    hs.convert(tmp_path / "whole", tmp_path / "d.nc", select=wanted, allow_loss=True, verify=True)
    for target in ("b", "c", "d.nc"):
        with hs.open_group(tmp_path / target) as root:
            np.testing.assert_array_equal(root["lon"][...], labels)
            np.testing.assert_array_equal(root["t"][0], cells)
            for label, cell in zip(labels, cells, strict=True):
                assert root["t"].sel(lon=label)[0] == cell


def test_labels_of_an_array_alone_go_around() -> None:
    """Computed labels stay computed, and floats that are names stay names."""
    index = {"lon": ScaleIndex(0.0, 10.0, 36)}
    picked = ArraySelection((Range(30, 2, 1),), (0,), (2,), turns={0: np.array([-360.0, -360.0])})
    assert select_labels(index, ("lon",), picked) == {"lon": ScaleIndex(-60.0, 10.0, 2)}
    picked = ArraySelection((PositionList(np.array([35, 0])),), (0,), (2,), turns={0: np.array([-360.0, 0.0])})
    (found,) = select_labels({"lon": FloatLabels(tuple(np.arange(0.0, 360, 10)))}, ("lon",), picked).values()
    assert found == FloatLabels((-10.0, 0.0))


def write_samples(place: Path, numbered: bool) -> None:
    """Write two, three and one samples of three stations: counted by station, or each with the number of its own."""
    with hs.create(place) as root:
        root.attrs.update(Conventions="CF-1.8", featureType="timeSeries")
        role = {"cf_role": "timeseries_id"}
        root.create_array("station", data=np.array(["KTOP", "EDDM", "UUWW"]), dtype=str, dims=("stn",), attrs=role)
        root.create_array("lat", data=[10.0, 20, 30], dims=("stn",), attrs={"units": "degrees_north"})
        root.create_array("lon", data=[0.0, 5, 10], dims=("stn",), attrs={"units": "degrees_east"})
        if numbered:
            owners = [0, 1, 2, 0, 1, 1]
            root.create_array("owner", data=owners, dims=("obs",), attrs={"instance_dimension": "stn"})
        else:
            root.create_array("rows", data=[2, 3, 1], dims=("stn",), attrs={"sample_dimension": "obs"})
        root.create_array("v", data=np.arange(6.0), dims=("obs",), attrs={"coordinates": "lat lon station"})


@pytest.mark.parametrize(("numbered", "cells"), [(False, [2, 3, 4]), (True, [1, 4, 5])])
@pytest.mark.parametrize("chosen", [("-s", "station=EDDM"), ("-s", "stn=1"), ("--bbox", "4,15,6,25")])
def test_samples_alone_are_chosen_by_their_station(
    tmp_path: Path, numbered: bool, cells: list[float], chosen: tuple[str, str]
) -> None:
    write_samples(tmp_path / "a.nc", numbered)
    place = str(tmp_path / "a.nc")
    found = run("get", place, "v", *chosen, "--json")
    assert found.exit_code == 0 and json.loads(found.stdout)["values"] == cells, found.stderr
    assert json.loads(run("stats", place, "v", *chosen, "--json").stdout)["arrays"][0]["rows"][0]["cells"] == 3
    assert run("get", place, "v", *chosen, "-o", str(tmp_path / "b.nc")).exit_code == 0
    with hs.open_group(tmp_path / "b.nc") as root:
        assert root["v"][...].tolist() == cells
        if numbered:
            assert root["owner"][...].tolist() == [1, 1, 1] and root["station"].shape == (3,)
        else:
            assert root["rows"][...] == 3 and root["station"][...].item() == "EDDM"


def test_samples_that_are_chosen_one_by_one_are_not_counted(tmp_path: Path) -> None:
    write_samples(tmp_path / "a.nc", numbered=False)
    assert run("get", str(tmp_path / "a.nc"), "v", "-s", "obs=1..3", "-o", str(tmp_path / "b.nc")).exit_code == 0
    with hs.open_group(tmp_path / "b.nc") as root:
        assert root["v"][...].tolist() == [1, 2] and "rows" not in root and "station" in root
    unknown = run("get", str(tmp_path / "a.nc"), "v", "-s", "station=KLAX")
    assert unknown.exit_code == 2 and "KTOP, EDDM, UUWW" in unknown.stderr


def test_names_of_stations_may_be_chars(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        chars = np.array(["OBAN    ", "KEW", "LERWICK"], "S8").view("S1").reshape(3, 8)
        root.create_array("name", data=chars, dims=("station", "strlen"), attrs={"cf_role": "timeseries_id"})
        about = {"coordinates": "name"}
        root.create_array("t", data=np.arange(6.0).reshape(2, 3), dims=("time", "station"), attrs=about)
    assert run("get", str(tmp_path / "a.nc"), "t", "-s", "name=KEW", "-s", "time=1").stdout.strip() == "4.0"
    hs.convert(tmp_path / "a.nc", tmp_path / "b.nc", select={"name": "OBAN"})
    with hs.open_group(tmp_path / "b.nc") as root:
        assert root["t"][...].tolist() == [0, 3] and b"".join(root["name"][...].tolist()).strip() == b"OBAN"


def test_numbers_of_a_mesh_that_is_cut_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        mesh = {"cf_role": "mesh_topology", "topology_dimension": 2, "node_coordinates": "node_x node_y"}
        mesh |= {"face_node_connectivity": "corners", "face_face_connectivity": "neighbours"}
        mesh |= {"face_coordinates": "face_x face_y"}
        root.create_array("mesh", data=np.int32(0), attrs=mesh)
        for name, units in (("x", "degrees_east"), ("y", "degrees_north")):
            root.create_array(f"node_{name}", data=np.arange(4.0), dims=("node",), attrs={"units": units})
            root.create_array(f"face_{name}", data=[10.0, 20.0], dims=("face",), attrs={"units": units})
        for name in ("corners", "neighbours"):
            root.create_array(name, data=np.zeros((2, 3), "i4"), dims=("face", "three"))
        root.create_array("v", data=[1.0, 2.0], dims=("face",), attrs={"mesh": "mesh", "location": "face"})
    hs.convert(tmp_path / "a.nc", tmp_path / "all.nc")
    assert not caplog.messages
    hs.convert(tmp_path / "a.nc", tmp_path / "b.nc", select={"bbox": (15, 15, 25, 25)})
    assert caplog.messages == ["/neighbours has numbers as of the whole mesh, of which a part is chosen"]


def test_a_label_of_a_curved_grid_points_to_the_box(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("v", data=np.zeros((2, 3)), dims=("j", "i"), attrs={"coordinates": "lat lon"})
        for name, units in (("lat", "degrees_north"), ("lon", "degrees_east")):
            root.create_array(name, data=np.ones((2, 3)), dims=("j", "i"), attrs={"units": units})
    for word in ("lat", "longitude"):
        result = run("get", str(tmp_path / "a.zarr"), "v", "-s", f"{word}=1.0")
        assert result.exit_code == 2 and "runs along j and i: --bbox W,S,E,N" in result.stderr
