"""CF decoding against xarray on the same stored values, and by itself where xarray gives wrong numbers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import cftime
import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab.array import cf
from hyperslab.errors import FormatError, Unsupported
from old_peers import needs

INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i2", ">i4")
FLOATS = ("f2", "f4", "f8", ">f4", ">f8")
PACKING = (np.float32(0.1), np.float64(0.01), np.float64(-3.5), 0.25)


def by_xarray(values: np.ndarray[Any, Any], attrs: dict[str, Any]) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Values and attributes as xarray decodes a variable of these."""
    dims = tuple(f"d{i}" for i in range(values.ndim))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decoded = xarray.conventions.decode_cf_variable("x", xarray.Variable(dims, values.copy(), dict(attrs)))
        return decoded.values, dict(decoded.attrs)


def check(values: np.ndarray[Any, Any], attrs: dict[str, Any]) -> None:
    """Same dtype, shape, values and left-over attributes as xarray; what is stored stays as it was."""
    before = values.copy()
    wanted, left = by_xarray(values, attrs)
    found = cf.decode(values, attrs)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype == object:
        assert found.tolist() == wanted.tolist()
    else:
        np.testing.assert_array_equal(found, wanted)
    assert list(cf.decoding(values.dtype, attrs).attrs) == list(left)
    np.testing.assert_array_equal(values, before)


@st.composite
def stored(draw: st.DrawFn, dtypes: tuple[str, ...]) -> np.ndarray[Any, Any]:
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    low = 0 if dtype.kind == "u" else -100
    cells = draw(st.lists(st.integers(low, 100), min_size=1, max_size=6))
    values = np.array(cells).astype(dtype)
    if dtype.kind == "f":
        values += np.array(draw(st.sampled_from((0, 0.25, 0.3)))).astype(dtype)
        if draw(st.booleans()):
            values[-1] = np.nan
    return values.reshape(draw(st.sampled_from(((-1,), (1, -1), (-1, 1, 1)))))


@st.composite
def packed(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Cells with fill values, scale, offset and ``_Unsigned``."""
    values = draw(stored(INTEGERS + FLOATS))
    attrs: dict[str, Any] = {}
    native = values.ravel().astype(values.dtype.newbyteorder("="))
    plain = values.dtype.kind in "iu" and values.dtype.isnative
    unsigned = draw(st.sampled_from((None, "true", "false", "neither"))) if plain else None
    if draw(st.booleans()):
        attrs["_FillValue"] = draw(st.sampled_from((native[0], native[-1], native.dtype.type(7))))
    if unsigned is None and draw(st.booleans()):
        attrs["missing_value"] = draw(st.sampled_from((native[0], native[:2], np.float64("nan"))))
    wide = values.dtype.kind == "f" and values.dtype.itemsize == 8
    for name in ("scale_factor", "add_offset"):
        if not wide and draw(st.booleans()):
            attrs[name] = draw(st.sampled_from(PACKING))
    if unsigned is not None:
        attrs["_Unsigned"] = unsigned
    return values, attrs


def is_exact(values: np.ndarray[Any, Any], attrs: dict[str, Any]) -> bool:
    """Whether xarray looks for missing cells before it loses precision: not in wide integers read as float32."""
    scale, offset = attrs.get("scale_factor"), attrs.get("add_offset")
    return not (values.dtype.itemsize > 2 and offset is None and isinstance(scale, np.float32))


@settings(max_examples=min(settings.default.max_examples, 400), deadline=None)
@given(packed())
def test_missing_scale_offset_and_unsigned_as_xarray(case: tuple[np.ndarray[Any, Any], dict[str, Any]]) -> None:
    values, attrs = case
    if is_exact(values, attrs) or "_Unsigned" not in attrs:
        check(values, attrs)


UNITS = ("days", "hours", "Seconds", "minute", "milliseconds", "microseconds", "h", "secs")
EPOCHS = (
    "2000-01-01",
    "1850-1-1",
    "1970-01-01T00:00:00Z",
    "0001-01-01 00:00:0.0",
    "1500-01-01",
    "2000-01-01 12:30:15.25",
)
CALENDARS = (None, "standard", "gregorian", "proleptic_gregorian", "noleap", "360_day", "julian", "all_leap")


@settings(max_examples=min(settings.default.max_examples, 400), deadline=None)
@given(
    stored(("i1", "u2", "i4", "i8", "f4", "f8", ">i4")),
    st.sampled_from(UNITS),
    st.sampled_from(EPOCHS),
    st.sampled_from(CALENDARS),
    st.sampled_from((1, 7, 365)),
)
def test_times_as_xarray(values: np.ndarray[Any, Any], unit: str, epoch: str, calendar: str | None, times: int) -> None:
    values = np.nan_to_num(values) if "0001" not in epoch else np.abs(np.nan_to_num(values))
    values = values if values.dtype.itemsize < 4 else values * values.dtype.type(times)
    attrs = {"units": f"{unit} since {epoch}"} | ({"calendar": calendar} if calendar else {})
    check(values, attrs)


@given(st.sampled_from(("i2", "i4", "f8")), st.sampled_from(UNITS[:4]), st.sampled_from((0, 1, 2)))
def test_missing_times_are_nat(dtype: str, unit: str, place: int) -> None:
    values = np.array([3, 40, 5], dtype)
    check(values, {"units": f"{unit} since 1999-12-31", "_FillValue": values[place]})


@needs("xarray", (2026, 4), "decodes other spans of time")
@given(
    stored(("i2", "i4", "i8", "u1", "f8")),
    st.sampled_from(("days", "hours", "seconds", "milliseconds", "nanoseconds", "K")),
    st.sampled_from(("timedelta64[s]", "timedelta64[ms]", "timedelta64[ns]", "timedelta64[D]", "float32", None)),
)
def test_durations_as_xarray(values: np.ndarray[Any, Any], unit: str, kind: str | None) -> None:
    check(values, {"units": unit} | ({"dtype": kind} if kind else {}))


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"dtype": "bool"},
        {"scale_factor": 2},
        {"scale_factor": 2, "add_offset": 1},
        {"scale_factor": np.float32(0.5), "add_offset": np.float32(1)},
        {"scale_factor": 0.5, "add_offset": np.float32(1)},
        {"missing_value": np.array([1, 7], "i2"), "_FillValue": np.int16(2)},
        {"_FillValue": np.nan},
        {"valid_min": np.int16(2), "valid_range": np.array([0, 1], "i2"), "flag_values": np.array([1, 2], "i2")},
        {"units": "K", "long_name": "x"},
        {"units": "days accumulated"},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["i2", ">i2", "i4", "f4", "f8", "?"])
def test_single_attributes_as_xarray(attrs: dict[str, Any], dtype: str) -> None:
    check(np.array([[1, 0], [2, 1]], dtype), attrs)


def test_empty_and_single_cells_as_xarray() -> None:
    for attrs in ({"units": "days since 2000-01-01"}, {"scale_factor": 0.1, "_FillValue": np.int16(1)}):
        check(np.zeros((0, 3), "i2"), attrs)
        check(np.array(5, "i2"), attrs)


def test_datetimes_and_records_are_left_alone() -> None:
    attrs = {"units": "days since 2000-01-01", "_FillValue": 1}
    for values in (np.array([1, 2], "M8[s]"), np.array([1, 2], "m8[s]")):
        check(values, attrs)
    records = np.zeros(2, [("a", "i4")])
    assert cf.decode(records, attrs) is records


def test_bytes_become_text_by_their_encoding() -> None:
    values = np.array([b"ab", "\xe9".encode()], "S4")
    found = cf.decode(values, {"_Encoding": "utf-8"})
    assert found.dtype == np.dtypes.StringDType()
    assert found.tolist() == by_xarray(values, {"_Encoding": "utf-8"})[0].tolist() == ["ab", "\xe9"]


def test_missing_text_is_nan_as_in_xarray() -> None:
    for values, fill in ((np.array([b"aa", b"b"]), b"aa"), (np.array(["a", "b"]), "a")):
        wanted, found = by_xarray(values, {"_FillValue": fill})[0], cf.decode(values, {"_FillValue": fill})
        assert found.dtype == wanted.dtype == object
        assert math.isnan(found[0])
        assert found[1] == wanted[1]
    text = np.array(["a", "b"], np.dtypes.StringDType())
    assert math.isnan(cf.decode(text, {"_FillValue": "a"})[0])
    assert math.isnan(cf.decode(np.array([b"a"]), {"_FillValue": "a"})[0])


# -- where xarray gives wrong numbers or none -------------------------------------------------------------------------


def test_a_missing_cell_of_a_plain_duration_is_nan() -> None:
    found = cf.decode(np.array([1, -9], "i2"), {"units": "days", "_FillValue": np.int16(-9)})
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [1, np.nan])


def test_missing_cells_are_compared_before_precision_is_lost() -> None:
    values = np.array([16777217, 16777216, -2147483647], "i4")
    found = cf.decode(values, {"scale_factor": np.float32(1), "_FillValue": np.int32(16777216)})
    np.testing.assert_array_equal(np.isnan(found), [False, True, False])
    found = cf.decode(values, {"scale_factor": np.float32(1), "_FillValue": np.int32(-2147483647)})
    np.testing.assert_array_equal(np.isnan(found), [False, False, True])


def test_an_untyped_fill_value_is_one_of_the_cells_type() -> None:
    values = np.array([1e20, 0.1, 2], "f4")
    np.testing.assert_array_equal(np.isnan(cf.decode(values, {"_FillValue": 1e20})), [True, False, False])
    np.testing.assert_array_equal(np.isnan(cf.decode(values, {"missing_value": [0.1, 2]})), [False, True, True])
    np.testing.assert_array_equal(np.isnan(cf.decode(values, {"_FillValue": 1e300})), [False, False, False])
    assert np.isnan(cf.decode(np.array([np.inf, 1], "f4"), {"_FillValue": 1e300})).sum() == 0


@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
@pytest.mark.parametrize("fill", [-1, 255, np.int8(-1), np.uint8(255)])
def test_missing_unsigned_cells(name: str, fill: Any) -> None:
    found = cf.decode(np.array([1, -1, -2], "i1"), {"_Unsigned": "true", name: fill})
    np.testing.assert_array_equal(found, np.array([1, np.nan, 254], "f4"))


def test_an_integer_scale_with_missing_cells_gives_doubles() -> None:
    found = cf.decode(np.array([1, -9], "i2"), {"scale_factor": 2, "_FillValue": np.int16(-9)})
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [2, np.nan])


def test_a_missing_time_of_another_calendar_is_none() -> None:
    attrs = {"units": "days since 2000-02-28", "calendar": "360_day"}
    wanted = [cftime.Datetime360Day(2000, 2, 30), None]
    assert cf.decode(np.array([2, -9]), attrs | {"_FillValue": -9}).tolist() == wanted
    assert cf.decode(np.array([2, np.nan]), attrs).tolist() == wanted
    assert cf.decode(np.zeros((0, 2)), attrs).shape == (0, 2)


def test_missing_times_before_the_reform_epoch_are_nat() -> None:
    found = cf.decode(np.array([730000.5, np.nan]), {"units": "days since 0001-01-01"})
    np.testing.assert_array_equal(found, np.array(["1999-09-02T12", "NaT"], "M8[ns]"))


@pytest.mark.parametrize(
    ("epoch", "wanted"),
    [
        ("2000-01-01 00:00 +2:00", "1999-12-31T22:00"),
        ("2000-01-01T00:00:00-05:30", "2000-01-01T05:30"),
        ("2000-01-01 00:00:00 UTC", "2000-01-01"),
        ("2000-03", "2000-03-01"),
        ("2000", "2000-01-01"),
        ("1900-02-28 23:59:59.123456789", "1900-02-28T23:59:59.123456789"),
    ],
)
def test_spellings_of_an_epoch(epoch: str, wanted: str) -> None:
    found = cf.decode(np.array([0]), {"units": f"days since {epoch}"})
    assert found[0] == np.datetime64(wanted, "ns")


def test_weeks_that_xarray_does_not_know() -> None:
    found = cf.decode(np.array([1, -1]), {"units": "weeks since 2000-01-01"})
    np.testing.assert_array_equal(found, np.array(["2000-01-08", "1999-12-25"], "M8[ns]"))


def test_times_beyond_nanoseconds_are_objects() -> None:
    found = cf.decode(np.array([0, 10**6]), {"units": "days since 2000-01-01"})
    assert found.dtype == object
    assert found[1] == cftime.DatetimeGregorian(4737, 11, 28)


@pytest.mark.parametrize(
    ("dtype", "attrs"),
    [
        ("i2", {"_FillValue": "AAAA"}),
        ("f4", {"missing_value": {"a": 1}}),
        ("i2", {"scale_factor": "0.1"}),
        ("i2", {"add_offset": np.array([1, 2])}),
        ("S2", {"_Encoding": "no such encoding"}),
        ("S2", {"_Encoding": "zlib_codec"}),
        ("S2", {"_Encoding": "a\0b"}),
    ],
)
def test_attributes_that_make_no_sense(dtype: str, attrs: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="as stored, without decoded"):
        cf.decode(np.ones(2, dtype), attrs)


@pytest.mark.parametrize(
    ("value", "attrs"),
    [
        (1, {"units": "months since 2000-01-01"}),
        (1, {"units": "counts since start"}),
        (1, {"units": "days since 1582-10-10"}),
        (1, {"units": "days since 2000-01-01", "calendar": "martian"}),
        (np.inf, {"units": "days since 2000-01-01"}),
        (-np.inf, {"units": "days since 2000-01-01"}),
        (1e300, {"units": "seconds", "dtype": "timedelta64[s]"}),
    ],
)
def test_times_that_cannot_be_told(value: float, attrs: dict[str, str]) -> None:
    with pytest.raises(Unsupported, match="without decoded"):
        cf.decode(np.array([value, 0]), attrs)


def test_one_cell_scale_factors_are_numbers() -> None:
    found = cf.decode(np.array([1, 2], "i2"), {"scale_factor": np.array([0.5], "f4"), "add_offset": [1]})
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [1.5, 2])


@pytest.mark.parametrize(
    ("attrs", "limits"),
    [
        ({}, (-np.inf, np.inf)),
        ({"valid_min": np.int16(2), "scale_factor": 0.5, "add_offset": 10.0}, (11.0, np.inf)),
        ({"valid_range": np.array([0, 4], "i2"), "scale_factor": -0.5}, (-2.0, 0.0)),
        ({"valid_range": np.array([250.0, 320.0]), "scale_factor": 0.5}, (250.0, 320.0)),  # of the unpacked numbers
        ({"valid_range": [0, 200], "_Unsigned": "true"}, (0.0, 200.0)),
        ({"valid_range": "0 to 4", "valid_max": np.array([7, 8])}, (-np.inf, np.inf)),
    ],
)
def test_limits_of_valid_cells_are_of_decoded_numbers(attrs, limits):
    assert cf.valid_limits(cf.decoding(np.dtype("i2"), attrs), attrs) == limits
