"""Numbers counted in a unit since an epoch as times, and numbers of a unit as durations (CF 1.11, section 4.4).

Times of the real calendars become ``datetime64[ns]`` where that reaches (1677 to 2262), else ``cftime`` objects, as in
xarray; a missing number becomes NaT or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hyperslab.errors import Unsupported
from hyperslab.model.attrs import Attrs
from hyperslab.model.calendars import REAL, calendar_name, parse_moment, unit_length
from hyperslab.model.cells import Values

MISSING = np.iinfo(np.int64).min
"""The integer of a missing time, as in datetime64."""
SPANS = ("nanoseconds", "microseconds", "milliseconds", "seconds", "minutes", "hours", "days")

_AS_STORED = "read the numbers as stored, without decoded()"
_NUMPY = {"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms"}
_FINENESS = ("s", "ms", "us", "ns")
_BLANKS = " \t\n\0"  # programs in C end texts with a NUL, which netCDF keeps
_VARYING = ("month", "year", "common_year")


@dataclass(frozen=True, slots=True)
class Clock:
    """``unit since epoch`` in a CF ``calendar``, as the attributes spell them."""

    unit: str
    epoch: str
    calendar: str

    @property
    def units(self) -> str:
        """The attribute ``units`` in full."""
        return f"{self.unit} since {self.epoch}"

    @property
    def is_real(self) -> bool:
        """Return True if dates of the calendar are those of ``datetime64`` (from 1582-10-15 on, for ``standard``)."""
        return calendar_name(self.calendar) in REAL


@dataclass(frozen=True, slots=True)
class Duration:
    """A count of ``unit`` that becomes ``timedelta64[resolution]``, or finer where the numbers need it."""

    unit: str
    resolution: str


def clock(attrs: Attrs) -> Clock | None:
    """Return the clock that ``units`` and ``calendar`` describe; None for other units."""
    units = attrs.get("units")
    match = re.match(r"(.+) since (.+)", units) if isinstance(units, str) else None
    if match is None:
        return None
    return Clock(
        match[1].strip(), match[2].strip(_BLANKS), str(attrs.get("calendar", "standard")).strip(_BLANKS).lower()
    )


def duration(attrs: Attrs) -> Duration | None:
    """Return the unit and fineness of durations, None for other numbers. An attribute ``dtype`` of
    ``timedelta64[...]`` beside the units tells durations, as xarray writes it."""
    kind = attrs.get("dtype")
    if not is_span(attrs) or not isinstance(kind, str) or not kind.startswith("timedelta64"):
        return None
    match = re.fullmatch(r"timedelta64\[(\w+)\]", kind)
    resolution = match[1] if match else "ns"
    coarse, fine = ("D", "h", "m", "W"), ("ps", "fs", "as")
    resolution = "s" if resolution in coarse else "ns" if resolution in fine else resolution
    return Duration(str(attrs["units"]).rstrip("\0"), resolution) if resolution in _FINENESS else None


def is_span(attrs: Attrs) -> bool:
    """Return True if the units are a plain length of time, such as ``days``."""
    units = attrs.get("units")
    return isinstance(units, str) and units.rstrip("\0") in SPANS


def decode_times(values: Values, by: Clock) -> Values:
    """Return times of the same shape: ``datetime64[ns]`` or, where that does not reach, cftime objects and None.

    ``Unsupported`` when cftime is needed and not installed, or knows no such units or calendar.
    """
    missing = np.isnan(values) if values.dtype.kind == "f" else values == MISSING
    known = values[~missing]
    counted = _nanoseconds(known, by) if by.is_real else None
    if counted is not None:
        result = np.full(values.shape, MISSING, np.int64)
        result[~missing] = counted
        return result.view("M8[ns]")
    objects = np.full(values.shape, None, object)
    if known.size:
        objects[~missing] = _cftimes(known, by)
    return objects


def decode_durations(values: Values, by: Duration) -> Values:
    """Return durations of the same shape as ``timedelta64``; fractions make the resolution finer, down to
    nanoseconds."""
    missing = np.isnan(values) if values.dtype.kind == "f" else values == MISSING
    known = values[~missing]
    resolution = _NUMPY.get(by.unit, "s")
    factor = (unit_length(by.unit, "standard") or 0) // 10**9 or 1
    if known.dtype.kind == "f":
        known = known.astype("f8") * factor
        while resolution != "ns" and (known % 1 > 0).any():
            known *= 1000
            resolution = _FINENESS[_FINENESS.index(resolution) + 1]
        factor = 1
    counted = _scaled(known, factor, 0, _truncated)
    finest = max(resolution, by.resolution, key=_FINENESS.index) if known.size else by.resolution
    if counted is not None:
        counted = _scaled(counted, 1000 ** (_FINENESS.index(finest) - _FINENESS.index(resolution)), 0, _truncated)
    if counted is None:
        raise Unsupported(f"{by.unit} up to {known.max()} are too long for timedelta64[{finest}]", remedy=_AS_STORED)
    result = np.full(values.shape, MISSING, np.int64)
    result[~missing] = counted
    return result.view(f"m8[{finest}]")


def _nanoseconds(known: Values, by: Clock) -> Values | None:
    """Return nanoseconds since 1970; None where int64 does not reach, or unit or epoch are none of ours.

    Counts that start within the range of ``datetime64[ns]`` are cut to nanoseconds; others, as cftime counts, are
    rounded to microseconds.
    """
    calendar = calendar_name(by.calendar) or ""
    unit = by.unit.lower()
    moment = parse_moment(by.epoch)
    start = moment.start(calendar) if moment else None
    factor = None if unit.removesuffix("s") in _VARYING else unit_length(unit, calendar)
    if moment is None or start is None or factor is None:
        return None
    julian = calendar == "standard" and (moment.year, moment.month, moment.day) < (1582, 10, 15)
    if f"{unit.removesuffix('s')}s" in SPANS and not julian and abs(start) < 2**63:
        return _scaled(known, factor, start, _truncated)
    if factor < 1000:
        return None
    micros = _scaled(known, factor // 1000, start // 1000, _rounded if factor >= 10**9 else _nearest)
    if micros is None or (known.size and not _in_nanoseconds(micros)):
        return None
    return micros * 1000


def _in_nanoseconds(micros: Values) -> bool:
    limit = 2**63 // 1000
    return bool(-limit < micros.min() and micros.max() < limit)


def _scaled(known: Values, factor: int, start: int, whole: Callable[[Values], Values]) -> Values | None:
    """Return ``start + known * factor`` in int64, fractions made ``whole``; None where it does not fit."""
    if not known.size:
        return np.zeros(0, np.int64)
    if known.dtype.kind == "f" and not np.isfinite(known).all():
        return None
    low, high = (start + int(edge) * factor for edge in (known.min(), known.max()))
    if not (low > -(2**63) and high < 2**63):
        return None
    if known.dtype.kind == "f":
        return whole(known * np.longdouble(factor) if whole is not _truncated else known.astype("f8") * factor) + start
    return known.astype(np.int64) * factor + start


def _truncated(scaled: Values) -> Values:
    return scaled.astype(np.int64)


def _nearest(scaled: Values) -> Values:
    nearest: Values = np.rint(scaled).astype(np.int64)
    return nearest


def _rounded(scaled: Values) -> Values:
    """Return the nearest microsecond; one microsecond off a whole second gives way to the side that the number lies
    on."""
    nearest = _nearest(scaled)
    nearest = np.where(nearest % 1_000_000 == 1, np.floor(scaled).astype(np.int64), nearest)
    return np.where(nearest % 1_000_000 == 999_999, np.ceil(scaled).astype(np.int64), nearest)


def _cftimes(known: Values, by: Clock) -> Values:
    if known.dtype.kind == "f" and not np.isfinite(known).all():
        raise Unsupported(f"an infinite count of {by.units!r} is no time", remedy=_AS_STORED)
    try:
        import cftime
    except ImportError:
        raise Unsupported(
            f"times {by.units!r} of calendar {by.calendar!r} are no datetime64[ns]",
            remedy=f"install cftime, or {_AS_STORED}",
        ) from None
    try:
        dates = cftime.num2date(known, by.units, by.calendar, only_use_cftime_datetimes=True)
    except (ValueError, OverflowError, TypeError) as error:
        raise Unsupported(
            f"times {by.units!r} of calendar {by.calendar!r} cannot be decoded: {error}", remedy=_AS_STORED
        ) from error
    return np.asarray(dates, object)
