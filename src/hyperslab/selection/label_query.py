"""Labels as users write them -> the numbers that an axis is asked for."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from hyperslab.errors import LabelError, WrongType
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.calendars import DAY, REAL, RESOLUTIONS, Moment, calendar_name, date_of, parse_moment
from hyperslab.model.dtypes import NumpyDType

_DOUBLE = np.dtype("f8")
_LARGEST = 2.0**80


class LabelQuery(NamedTuple):
    """What a label asks for: the number ``first``, or the period from there to ``stop`` (not included).

    ``resolution`` is an index in `RESOLUTIONS`; ``grain`` is the float type of a label that is a float, else None.
    """

    first: Any
    stop: Any = None
    resolution: int = len(RESOLUTIONS) - 1
    grain: NumpyDType | None = None


def is_label(item: object) -> bool:
    """Return True if an item of a ``[]`` key is a label on a dimension that has them: never an int."""
    return isinstance(item, float | str | bytes | date | np.floating | np.datetime64) or _is_cftime(item)


def seek(label: Any, calendar: str | None, dim: str) -> LabelQuery:
    """Return the number of a plain coordinate (``calendar`` None), or the instants of a date or time stamp.

    A float on a time axis counts seconds since 1970; datetimes without a zone are UTC. ``LabelError`` for a label
    of another kind.
    """
    if isinstance(label, np.ndarray) and not label.ndim:
        label = label[()]
    if isinstance(label, float | np.floating) and isfinite(value := float(label)):
        grain = label.dtype if isinstance(label, np.floating) else _DOUBLE
        if calendar is None:
            return LabelQuery(value, grain=grain)
        if abs(value) < _LARGEST:
            return LabelQuery(round(value * 10**6) * 1000, grain=grain)
    if calendar is not None:
        moment = _moment(label, calendar)
        first = moment.start(calendar) if moment is not None else None
        if moment is None or first is None:
            raise LabelError(
                f"{dim} has times of the calendar {calendar}, {label!r} is none",
                remedy="give ISO 8601 text, datetimes, cftime objects of the calendar or seconds since 1970 as floats",
            )
        stop = None if moment.resolution == "instant" else moment.stop(calendar)
        return LabelQuery(first, stop, RESOLUTIONS.index(moment.resolution))
    if is_whole_number(label) and not isinstance(label, np.timedelta64) and abs(int(label)) < _LARGEST:
        return LabelQuery(int(label))
    raise LabelError(f"{dim} has numbers, {label!r} is none of them", remedy="give a finite number")


def span_of(tolerance: object, calendar: str | None) -> object:
    """Return a tolerance as a distance of numbers: a number as it is; a timedelta on time axes, in nanoseconds."""
    if calendar is not None:
        if isinstance(tolerance, np.timedelta64 | timedelta):
            return int(np.timedelta64(tolerance).astype("m8[ns]").astype("i8"))
    elif isinstance(tolerance, int | float | np.number) and not isinstance(tolerance, np.timedelta64):
        return float(tolerance)
    wanted = "a number" if calendar is None else "a timedelta"
    raise WrongType(f"a tolerance of {tolerance!r}", remedy=f"on this dimension it is {wanted}")


def span_text(tolerance: object) -> str:
    """Return a tolerance as it is written: times in the largest unit of which they are a whole number, such as 3h."""
    if not isinstance(tolerance, np.timedelta64 | timedelta):
        return str(tolerance)
    count = int(np.timedelta64(tolerance).astype("m8[ns]").astype("i8"))
    sizes = {"D": 864 * 10**11, "h": 36 * 10**11, "min": 6 * 10**10, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
    unit = next(unit for unit, size in sizes.items() if count % size == 0)
    return f"{count // sizes[unit]}{unit}"


def _moment(label: Any, calendar: str) -> Moment | None:
    if isinstance(label, bytes):
        label = label.decode("utf-8", "replace")
    match label:
        case str():
            return parse_moment(label)
        case np.datetime64():
            if np.isnat(label):
                return None
            day = label.astype("M8[D]")
            nanosecond = int((label - day).astype("m8[ns]").astype("i8")) if label.dtype != day.dtype else 0
            return Moment(*date_of(int(day.astype("i8")), "proleptic_gregorian"), nanosecond % DAY)
        case datetime():
            label = label.astimezone(UTC) if label.tzinfo is not None else label
            return _of_fields(label)
        case date():
            return Moment(label.year, label.month, label.day)
    if _is_cftime(label):
        theirs = calendar_name(label.calendar) if label.calendar else calendar
        return _of_fields(label) if theirs == calendar or (theirs in REAL and calendar in REAL) else None
    return None


def _of_fields(time: Any) -> Moment:
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    nanosecond = (seconds * 10**6 + time.microsecond) * 1000 + getattr(time, "nanosecond", 0)
    return Moment(time.year, time.month, time.day, nanosecond)


def _is_cftime(item: object) -> bool:
    return hasattr(item, "calendar") and hasattr(item, "microsecond")
