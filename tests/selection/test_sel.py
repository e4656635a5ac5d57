"""``sel`` against xarray and pandas: scalars, inclusive slices, lists, nearest, tolerance, partial dates, calendars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from hyperslab.errors import LabelError
from hyperslab.model.dims import Coordinate, Index, TimeScale, cf_time
from hyperslab.selection.labels import resolve_sel
from hyperslab.selection.positional import outer
from hyperslab.testing.selections import take

Random = np.random.Generator
Draw = Callable[[], Any]
FORMATS = ["%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%dT%H", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


def ours(index: Index, size: int, item: Any, options: dict[str, Any]) -> np.ndarray:
    (key,) = resolve_sel({"x": item}, ("x",), lambda _: index, **options)
    selection = outer(key, (size,))
    return selection.finish(take(np.arange(size), selection.region))


def check(index: Index, coordinate: Any, item: Any, **options: Any) -> bool:
    """Compare with xarray; True when both give cells. Where xarray demands unique labels at large we are content."""
    size = len(coordinate)
    array = xr.DataArray(np.arange(size), dims="x", coords={"x": coordinate})
    try:
        expected = array.sel(x=item, **options).values
    except pd.errors.InvalidIndexError:
        return False
    except (KeyError, ValueError) as refusal:
        with pytest.raises(type(refusal)):
            ours(index, size, item, options)
        return False
    np.testing.assert_array_equal(ours(index, size, item, options), expected, strict=True)
    return True


def ascending(rng: Random, size: int) -> np.ndarray:
    return np.sort(rng.choice(20, size, replace=False)).astype("f8")


def descending(rng: Random, size: int) -> np.ndarray:
    return ascending(rng, size)[::-1].copy()


def whole(rng: Random, size: int) -> np.ndarray:
    return ascending(rng, size).astype("i2")


def unsorted(rng: Random, size: int) -> np.ndarray:
    return rng.permutation(20)[:size].astype("f8")


def repeated(rng: Random, size: int) -> np.ndarray:
    return np.sort(rng.integers(0, 5, size)).astype("f8")


def repeated_descending(rng: Random, size: int) -> np.ndarray:
    return repeated(rng, size)[::-1].copy()


def chaotic(rng: Random, size: int) -> np.ndarray:
    return rng.integers(0, 4, size)


@pytest.mark.parametrize(
    "kind",
    [ascending, descending, whole, unsorted, repeated, repeated_descending, chaotic],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.parametrize("rounds", [25, pytest.param(800, marks=pytest.mark.soak)])
def test_numbers(kind: Callable[[Random, int], np.ndarray], rounds: int) -> None:
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(rounds):
        values = kind(rng, int(rng.integers(1, 9)))
        index = Coordinate(values)

        def label(values: np.ndarray = values) -> Any:
            if rng.random() < 0.6:
                return values[rng.integers(values.size)].item()
            return float(rng.integers(-2, 23)) + float(rng.choice([0, 0.5]))

        step = int(rng.choice([1, 2, -1, -2]))
        for item in (label(), int(rng.integers(0, 20)), *slices_of(label, step), [label(), label()]):
            found += check(index, values, item)
        for item in (label(), [label(), label()]):
            found += check(index, values, item, method="nearest")
            found += check(index, values, item, method="nearest", tolerance=0.75)
    assert found > rounds


def slices_of(label: Draw, step: int) -> list[slice]:
    return [slice(label(), label()), slice(label(), None), slice(None, label()), slice(label(), label(), step)]


@pytest.mark.covering
@pytest.mark.parametrize("freq", ["D", "6h", "MS", "h", "s", "YS"])
@pytest.mark.parametrize("stored", ["ns", "s", "scale", "days", "float32 hours"])
@pytest.mark.parametrize("rounds", [6, pytest.param(120, marks=pytest.mark.soak)])
def test_times(freq: str, stored: str, rounds: int) -> None:
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(rounds):
        times = pd.date_range(f"2012-11-{rng.integers(1, 28):02d}", periods=int(rng.integers(2, 50)), freq=freq)
        if stored != "scale" and rng.random() < 0.3:
            times = times[np.sort(rng.choice(len(times), (len(times) + 1) // 2, replace=False))]
        index = time_index(times, stored)
        if index is None:
            continue
        label = time_labels(rng, times)
        for item in (label(), *slices_of(label, int(rng.choice([2, -1]))), [times[0], times[-1]], ["2013-01-01"]):
            found += check(index, times.values, item)
        for item in (label(), [label()]):
            found += check(index, times.values, item, method="nearest")
            found += check(index, times.values, item, method="nearest", tolerance=np.timedelta64(7, "h"))
    assert found > 3 * rounds or time_index(times, stored) is None


def time_index(times: pd.DatetimeIndex, stored: str) -> Index | None:
    if stored == "scale":
        steps = np.diff(times.values)
        return TimeScale(times.values[0], steps[0], len(times)) if len(set(steps)) == 1 else None
    if stored in ("ns", "s"):
        return Coordinate(times.values.astype(f"M8[{stored}]"))
    if stored == "days":
        return cf_time(cftime.date2num(times.to_pydatetime(), "days since 1800-01-01"), "days since 1800-01-01", None)
    if (np.diff(times.values) < pd.Timedelta(hours=1)).any():
        return None
    units = "hours since 2012-11-01T06:00:00Z"
    return cf_time(np.asarray(cftime.date2num(times.to_pydatetime(), units), "f4"), units, "gregorian")


def time_labels(rng: Random, times: pd.DatetimeIndex) -> Draw:
    def label() -> Any:
        time = times[rng.integers(len(times))]
        if rng.random() < 0.3:
            time = pd.Timestamp("2012-12-01") + pd.Timedelta(hours=int(rng.integers(-999, 2000)))
        if rng.random() < 0.7:
            return time.strftime(str(rng.choice(FORMATS)))
        return [time, time.to_pydatetime(), time.to_datetime64()][rng.integers(3)]

    return label


def test_descending_times() -> None:
    times = pd.date_range("2012-12-20", periods=40)[::-1]
    index = Coordinate(times.values)
    for item in ("2013-01", "2013-01-05", times[3], slice(times[5], times[20]), slice(None, times[7]), [times[2]]):
        assert check(index, times.values, item)
    assert check(index, times.values, pd.Timestamp("2013-01-05T12"), method="nearest")


def test_descending_slices_of_partial_dates_take_whole_periods() -> None:
    """pandas cuts the first period of such a slice short."""
    times = pd.date_range("2012-12-01", "2013-04-30")[::-1]
    months = times[ours(Coordinate(times.values), len(times), slice("2013-03", "2013-02"), {})]
    assert (months[0], months[-1], len(months)) == (pd.Timestamp("2013-03-31"), pd.Timestamp("2013-02-01"), 59)


def test_unsorted_times() -> None:
    times = pd.to_datetime(["2013-02-01", "2013-01-05", "2013-02-03", "2013-01-01"])
    index = Coordinate(times.values)
    for item in ("2013-02", "2013-01-05", "2013-05", ["2013-01-01", "2013-02-03"]):
        check(index, times.values, item)
    assert check(index, times.values, "2013-01")
    for item, options in ((slice("2013-01-05", "2013-01-06"), {}), ("2013-01-05", {"method": "nearest"})):
        with pytest.raises(LabelError, match="x is not sorted"):
            ours(index, len(times), item, options)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("calendar", ["standard", "noleap", "360_day", "all_leap", "julian", "365_day", "366_day"])
def test_calendars(calendar: str) -> None:
    rng = np.random.default_rng(9)
    for _ in range(15):
        units = f"{rng.choice(['days', 'hours'])} since {rng.choice(['2000-01-01', '1850-01-01', '2001-02-03 12:00'])}"
        counts = np.arange(int(rng.integers(2, 50))) * int(rng.choice([1, 12, 24, 360])) + int(rng.integers(0, 40_000))
        counts = counts.astype(rng.choice(["i4", "f8"]))
        dates = cftime.num2date(counts, units, calendar, only_use_cftime_datetimes=True)
        index, coordinate = cf_time(counts, units, calendar), xr.CFTimeIndex(dates)

        def label(dates: np.ndarray = dates) -> Any:
            date = dates[rng.integers(len(dates))]
            return date.strftime(str(rng.choice(FORMATS))) if rng.random() < 0.6 else date

        for item in (*slices_of(label, 2), dates[0], list(dates[-2:])):
            assert check(index, coordinate, item)
        assert check(index, coordinate, dates[1], method="nearest")
        period = dates[0].strftime("%Y-%m")
        expected = xr.DataArray(np.arange(len(dates)), dims="x", coords={"x": coordinate}).sel(x=period).values
        np.testing.assert_array_equal(np.atleast_1d(ours(index, len(dates), period, {})), expected)


def test_names_slice_as_xarray_slices_them() -> None:
    for names in (["a", "c", "e"], ["c", "a", "e"], ["a", "a", "c"]):
        values = np.array(names)
        index = Coordinate(values)
        for item in ("c", "b", slice("a", "c"), slice("b", "e"), slice(None, "c"), slice("c", None), ["c"]):
            check(index, values, item)


def test_masks_in_sel_are_positions() -> None:
    values = np.array([1.0, 2.0, 4.0])
    assert check(Coordinate(values), values, [True, False, True])
