"""Labels in ``[]``: floats, names and times become positions, stops are excluded, ints are never labels."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import cftime
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import Invalid, LabelError, SelectionError, Unsupported, WrongType
from hyperslab.model.dims import Coordinate, Index, Labels, ScaleIndex, TimeScale, cf_time
from hyperslab.selection.labels import resolve_key, resolve_sel
from hyperslab.selection.positional import select

SIX_HOURS = np.timedelta64(6, "h")
INDEXES: dict[str, Index] = {
    "lat": Coordinate(np.linspace(90, -90, 97, dtype="f4")),
    "lon": Coordinate(np.arange(0, 360, 1.875)),
    "time": TimeScale(np.datetime64("2023-01-01"), SIX_HOURS, 8),
    "back": TimeScale(np.datetime64("2023-01-02T18"), -SIX_HOURS, 8),
    "depth": ScaleIndex(90.0, -0.25, 8),
    "name": Labels(("temperature", "humidity", "pressure", "wind")),
    "day": cf_time(np.arange(10), "days since 2000-02-25", "360_day") or Labels(()),
    "real": cf_time(np.arange(10) / 4, "days since 1850-01-01 00:00:0.0", None) or Labels(()),
    "word": Coordinate(np.array([b"a", b"b", b"a"])),
}


def resolved(dims: str | list[str | None], key: Any) -> Any:
    return resolve_key(key, dims.split() if isinstance(dims, str) else dims, INDEXES.get)


@pytest.mark.parametrize(
    ("dim", "label", "position"),
    [
        ("lon", 260.625, 139),
        ("lon", np.float32(1.875), 1),
        ("lat", 88.125, 1),
        ("depth", 89.5, 2),
        ("depth", np.float32(88.25), 7),
        ("time", "2023-01-01T06", 1),
        ("time", "2023-01-02", 4),
        ("time", "2023-01-01T08:00:00+02:00", 1),
        ("time", dt.datetime(2023, 1, 1, 18), 3),
        ("time", dt.datetime(2023, 1, 1, 20, tzinfo=dt.timezone(dt.timedelta(hours=2))), 3),
        ("time", dt.date(2023, 1, 2), 4),
        ("time", np.datetime64("2023-01-02T06", "ns"), 5),
        ("time", 1672552800.0, 1),
        ("time", cftime.datetime(2023, 1, 1, 12, calendar="standard"), 2),
        ("back", "2023-01-01", 7),
        ("name", "pressure", 2),
        ("day", "2000-02-30", 5),
        ("day", cftime.datetime(2000, 3, 1, calendar="360_day"), 6),
        ("real", "1850-01-01T06", 1),
        ("real", cftime.datetime(1850, 1, 2, calendar="proleptic_gregorian"), 4),
        ("word", "b", 1),
        ("word", b"b", 1),
    ],
)
def test_a_label_is_a_position(dim: str, label: Any, position: int) -> None:
    assert resolved(dim, label) == position
    assert resolved(f"x {dim}", (..., label)) == (..., position)


@pytest.mark.parametrize(
    ("dim", "item", "positions"),
    [
        ("lat", slice(88.125, 84.375), slice(1, 3)),
        ("depth", slice(89.75, 89.0), slice(1, 4)),
        ("depth", slice(89.0, None), slice(4, None)),
        ("depth", slice(None, 88.0), slice(None, 8)),
        ("depth", slice(90.0, 88.5, 2), slice(0, 6, 2)),
        ("depth", slice(None, None, -0.5), slice(None, None, 2)),
        ("depth", slice(89.0, 90.0), slice(4, 0)),
        ("time", slice("2023-01-01T06", "2023-01-02"), slice(1, 4)),
        ("time", slice(1672552800.0, dt.datetime(2023, 1, 3)), slice(1, 8)),
        ("time", slice(None, None, dt.timedelta(hours=12)), slice(None, None, 2)),
        ("name", slice("humidity", "wind"), slice(1, 3)),
        ("name", slice(None, None, -1), slice(None, None, -1)),
        ("day", slice("2000-02-26", "2000-03-01"), slice(1, 6)),
    ],
)
def test_slices_exclude_their_stop(dim: str, item: slice, positions: slice) -> None:
    assert resolved(dim, item) == positions


@pytest.mark.parametrize(
    ("dim", "labels", "positions"),
    [
        ("lon", [1.875, 0.0], [1, 0]),
        ("lon", np.array([[0.0], [3.75]], "f4"), [[0], [2]]),
        ("lon", [[0.0, 1.875]], [[0, 1]]),
        ("name", ["wind", "temperature"], [3, 0]),
        ("time", np.array(["2023-01-02", "2023-01-01"], "M8[D]"), [4, 0]),
        ("time", ["2023-01-02", dt.datetime(2023, 1, 1)], [4, 0]),
    ],
)
def test_a_list_of_labels_is_an_array_of_positions(dim: str, labels: Any, positions: list[Any]) -> None:
    result = resolved(dim, labels)
    np.testing.assert_array_equal(result, np.array(positions, np.int64), strict=True)


def test_labels_find_their_dimension() -> None:
    mask = np.ones((192, 8), bool)
    assert resolved("lat lon time name", (..., "2023-01-02", "wind")) == (..., 4, 3)
    assert resolved("lat lon time name", (None, 90.0, ..., "wind")) == (None, 0, ..., 3)
    key = resolved("lat lon time name", (90.0, mask, "wind"))
    assert key == (0, mask, 3)
    assert resolved("lat name", (True, [True] * 97, "wind")) == (True, [True] * 97, 3)
    assert resolved("lat name", (0, "wind", 3)) == (0, 3, 3)


@pytest.mark.parametrize(
    "key",
    [0, -1, slice(1, 5, 2), (0, slice(None), ...), [0, 1], np.arange(3), np.int64(2), None, [True, False], ()],
    ids=repr,
)
def test_a_key_without_labels_is_handed_back(key: Any) -> None:
    assert resolved("lon lat time", key) is key


@pytest.mark.parametrize("label", [1.0, "a", slice(1.0, 2.0), dt.date(2023, 1, 1), [0.5]], ids=repr)
def test_a_dimension_without_an_index_leaves_numpys_error(label: Any) -> None:
    for dims in ("plain", [None]):
        key = resolved(dims, label)
        assert key is label
        kind = TypeError if isinstance(label, slice) else IndexError
        with pytest.raises(kind):
            select(key, (3,))
        with pytest.raises(kind):
            np.arange(3)[label]


@pytest.mark.parametrize(
    ("dim", "label", "says"),
    [
        ("lon", 260.0, "lon 260.0 lies between 258.75 and 260.625"),
        ("lon", -1.0, "lon -1.0 lies beyond the first cell, 0.0"),
        ("lon", 1e9, "lies beyond the last cell, 358.125"),
        ("lon", float("nan"), "lon has numbers, nan is none of them"),
        ("lon", "east", "lon has numbers, 'east' is none of them"),
        ("depth", 88.0, "lies beyond the last cell, 88.25"),
        ("depth", slice(88.0, None), "lies beyond the last cell, 88.25; sel(depth=slice(...)) takes the cells within"),
        ("depth", slice(None, 89.1), "lies between 89.25 and 89.0; sel(depth=slice(...)) takes the cells within"),
        ("time", "2023-01-01T01", "between 2023-01-01 and 2023-01-01T06:00:00"),
        ("time", "noon", "'noon' is none"),
        ("time", slice(None, "2023-01-04"), "beyond the last cell, 2023-01-02T18:00:00"),
        ("day", "2000-02-31", "times of the calendar 360_day"),
        ("day", cftime.datetime(2000, 2, 26, calendar="noleap"), "times of the calendar 360_day"),
        ("day", "2000", "beyond the first cell, 2000-02-25; sel(...) takes '2000' for the whole period"),
        ("name", "presure", "did you mean 'pressure'"),
        ("name", 1.0, "1.0 is none"),
    ],
)
def test_an_unknown_label_is_an_error_that_helps(dim: str, label: Any, says: str) -> None:
    with pytest.raises(LabelError) as caught:
        resolved(dim, label)
    assert says in str(caught.value)
    assert isinstance(caught.value, KeyError | IndexError)


@pytest.mark.parametrize(
    ("dim", "item"),
    [
        ("depth", slice(1, 89.0)),
        ("depth", [1, 89.0]),
        ("depth", slice(None, None, 0.3)),
        ("lon", slice(0.0, None, 1.875)),
    ],
)
def test_labels_and_positions_do_not_mix(dim: str, item: Any) -> None:
    with pytest.raises(SelectionError):
        resolved(dim, item)


def test_names_have_no_distance() -> None:
    with pytest.raises(WrongType):
        resolved("name", slice("humidity", None, 2.0))


def test_a_repeated_label_selects_all_its_cells() -> None:
    np.testing.assert_array_equal(resolved("word", "a"), [0, 2])
    index = Coordinate(np.array([1.0, 2.0, 2.0, 3.0]))
    assert resolve_key(2.0, ["x"], lambda _: index) == slice(1, 3)
    with pytest.raises(LabelError):
        resolve_key([2.0, 1.0], ["x"], lambda _: index)


@given(st.integers(2, 400), st.floats(-1e4, 1e4), st.floats(0.001, 1e3), st.sampled_from(["f4", "f8"]), st.data())
def test_floats_match_within_a_millionth_of_a_step(n: int, start: float, step: float, kind: str, data: Any) -> None:
    values = (start + np.arange(n) * step).astype(kind)
    place = data.draw(st.integers(0, n - 1))
    gap = float(np.abs(np.diff(values)).min())
    spacing = float(np.spacing(np.abs(values).max()))
    for index in (Coordinate(values), ScaleIndex(start, step, n)):
        exact = float(values[place]) if isinstance(index, Coordinate) else start + place * step
        if gap > 100 * spacing:
            assert resolve_key(exact + 0.9e-6 * gap, ["x"], lambda _, index=index: index) == place
            with pytest.raises(LabelError):
                resolve_key(exact + max(3e-6 * gap, 20 * spacing), ["x"], lambda _, index=index: index)
            with pytest.raises(LabelError):
                resolve_key(exact + 0.3 * gap, ["x"], lambda _, index=index: index)


def test_labels_of_the_other_float_type_match() -> None:
    coarse = Coordinate(np.array([0.1, 0.2, 0.3], "f4"))
    fine = Coordinate(np.array([0.1, 0.2, 0.3]))
    for index in (coarse, fine):
        for label in (0.2, np.float32(0.2)):
            assert resolve_key(label, ["x"], lambda _, index=index: index) == 1


def test_no_label_matches_beyond_a_quarter_of_a_step() -> None:
    close = Coordinate(np.array([1.0, np.nextafter(1.0, 2), 2.0]))
    assert resolve_key(1.0, ["x"], lambda _: close) == 0
    assert resolve_key(float(np.nextafter(1.0, 2)), ["x"], lambda _: close) == 1


def test_times_match_exactly() -> None:
    with pytest.raises(LabelError):
        resolved("time", "2023-01-01T06:00:00.000001")
    assert resolved("time", 1672552800.0 + 1e-6) == 1
    with pytest.raises(LabelError):
        resolved("time", 1672552800.0 + 1)


def test_times_beyond_the_reach_of_nanoseconds() -> None:
    years = Coordinate(np.array(["0001", "1066", "9999"], "M8[Y]"))
    assert resolve_key("1066", ["x"], lambda _: years) == 1
    assert resolve_sel({"x": slice("0500", None)}, ["x"], lambda _: years) == (slice(1, 3),)


def test_missing_times_are_no_cells() -> None:
    index = Coordinate(np.array(["2000-01-01", "NaT", "2000-01-03"], "M8[D]"))
    assert resolve_key("2000-01-03", ["x"], lambda _: index) == 2
    real = cf_time(np.array([0.0, np.nan, 2.0]), "days since 2000-01-01", None)
    assert resolve_key("2000-01-03", ["x"], lambda _: real) == 2


def test_a_range_over_a_cell_without_a_label_is_refused() -> None:
    """NaN is in no range; xarray takes it, as whatever lies between two labels that are not sorted."""
    seconds = np.array([0.0, 0.5, np.nan, 1.5, 2.0])
    days = np.array(["2000-01-01", "2000-01-02", "NaT", "2000-01-04", "2000-01-05"], "M8[D]")
    counted = cf_time(np.array([0, 1, np.nan, 3, 4]), "days since 2000-01-01", None)
    for index, ends in (
        (Coordinate(seconds), (0.5, 1.5, 2.0)),
        (Coordinate(days), ("2000-01-02", "2000-01-04", "2000-01-05")),
        (counted, ("2000-01-02", "2000-01-04", "2000-01-05")),
    ):
        for item in (slice(ends[0], ends[1]), slice(None, ends[1]), slice(ends[0], None), slice(ends[1], ends[0], -1)):
            with pytest.raises(LabelError, match=r"without a label.*between \d and \d.*isel"):
                resolve_sel({"x": item}, ["x"], lambda _, index=index: index)
        assert resolve_sel({"x": slice(ends[1], ends[2])}, ["x"], lambda _, index=index: index) == (slice(3, 5),)
        assert resolve_sel({"x": slice(None, None, 2)}, ["x"], lambda _, index=index: index) == (slice(0, 5, 2),)


def test_the_remedy_of_nearest_between_doubled_labels() -> None:
    numbers = Coordinate(np.array([1.0, 2.0, 2.0, 5.0]))
    times = Coordinate(np.array(["2000-01-01T06", "2000-01-02", "2000-01-02", "2000-01-02T18"], "M8[h]"))
    for index, label in ((numbers, 2.25), (times, "2000-01-02T01:00")):
        with pytest.raises(LabelError, match="several positions") as caught:
            resolve_sel({"x": label}, ["x"], lambda _, index=index: index, method="nearest")
        found = re.search(r"; x=(\S+) without a method takes all of them", str(caught.value))
        assert found is not None
        written = float(found[1]) if index is numbers else found[1]
        assert resolve_sel({"x": written}, ["x"], lambda _, index=index: index) == (slice(1, 3),)


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "u8", "f4", "f8", ">i4", ">f8"])
def test_times_are_read_in_any_type_of_number(dtype: str) -> None:
    index = cf_time(np.arange(0, 240, 24).astype(dtype), "hours since 1850-1-1", "noleap")
    assert resolve_sel({"x": "1850-01-03"}, ["x"], lambda _: index) == (2,)
    assert resolve_sel({"x": "1850-01"}, ["x"], lambda _: index) == (slice(0, 10),)


@pytest.mark.parametrize(
    ("units", "calendar"),
    [
        ("m", None),
        ("days", None),
        ("days since then", None),
        ("days since 2001-02-30", "standard"),
        ("days since 2001-02-03", "lunar"),
        ("furlongs since 2001-02-03", None),
    ],
)
def test_other_units_are_no_times(units: str, calendar: str | None) -> None:
    assert cf_time(np.arange(3), units, calendar) is None
    assert cf_time(np.array(["a"]), "days since 2000-01-01", None) is None


def test_sel_takes_ints_as_labels_where_there_are_numbers() -> None:
    def key(**labels: Any) -> Any:
        (item,) = resolve_sel(labels, list(labels), INDEXES.get)
        return item

    assert key(depth=90) == 0
    assert key(lon=slice(15, 30)) == slice(8, 17, None)
    assert key(name=1) == 1
    assert key(name=slice(0, 2)) == slice(0, 2)
    assert key(plain=slice(0, 2)) == slice(0, 2)
    assert key(plain=-1) == -1
    with pytest.raises(LabelError):
        key(time=3)


def test_sel_gives_one_item_for_each_dimension() -> None:
    key = resolve_sel({"lon": 3.75, "time": "2023-01-01"}, ["time", None, "lon"], INDEXES.get)
    assert key == (slice(0, 4), slice(None), 2)


@pytest.mark.parametrize(
    ("mapping", "options", "error"),
    [
        ({"longitude": 1}, {}, LabelError),
        ({"lon": 1.0}, {"method": "pad"}, Unsupported),
        ({"lon": 1.0}, {"tolerance": 1}, Invalid),
        ({"lon": slice(0, 1)}, {"method": "nearest"}, Unsupported),
        ({"lon": slice(0, 1, 0.5)}, {}, WrongType),
        ({"lon": 1.0}, {"method": "nearest", "tolerance": "1h"}, WrongType),
        ({"time": "2023"}, {"method": "nearest", "tolerance": 1}, WrongType),
        ({"time": "2023-01-01T02"}, {"method": "nearest", "tolerance": SIX_HOURS / 6}, LabelError),
        ({"name": "win"}, {"method": "nearest"}, LabelError),
        ({"time": "2019"}, {}, LabelError),
    ],
)
def test_what_sel_refuses(mapping: dict[str, Any], options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve_sel(mapping, ["lon", "time", "name"], INDEXES.get, **options)
