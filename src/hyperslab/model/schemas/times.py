"""Moments of collections: aware datetimes in UTC, exact to the microsecond."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from hyperslab.errors import SchemaError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NANOSECONDS = 2**63 // 1000
"""Microseconds around 1970 that datetime64[ns] can tell."""
_STEP_PARTS = ("days", "seconds", "microseconds")


def get_utc(value: datetime | str) -> datetime:
    """A datetime, or ISO 8601 text, in UTC: an aware one is converted, a naive one is taken to be UTC."""
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    if isinstance(value, str):
        value = _parsed(value)
    if not isinstance(value, datetime):
        raise SchemaError(f"{value!r} is no datetime", remedy="give a datetime.datetime or ISO 8601 text")
    nanosecond = getattr(value, "nanosecond", 0)
    if nanosecond or value != value:
        raise SchemaError(f"{value!r} is not a whole microsecond", remedy="give a datetime.datetime")
    try:
        moment = value.astimezone(UTC) if value.tzinfo is not None else value.replace(tzinfo=UTC)
    except (OverflowError, ValueError) as error:
        raise SchemaError(f"{value!r} has no time in UTC: {error}", remedy="years go from 1 to 9999") from None
    return datetime.combine(moment.date(), moment.time(), UTC)


def as_moment(value: date | str | np.datetime64) -> datetime:
    """Return the datetime in UTC of a datetime, a date (its midnight), ISO 8601 text or a datetime64; SchemaError."""
    if isinstance(value, np.datetime64):
        exact = value.astype("M8[us]")
        moment = exact.item()
        if np.isnat(value) or exact != value or not isinstance(moment, datetime):
            raise SchemaError(f"{value!r} is no whole microsecond", remedy="the years go from 1 to 9999")
        return get_utc(moment)
    if isinstance(value, datetime | str):
        return get_utc(value)
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _parsed(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise SchemaError(
            f"{text!r} is no time", remedy="ISO 8601 text is needed, such as '2023-01-01T00:00:00+00:00'"
        ) from None


def iso(moment: datetime) -> str:
    """``2023-01-01T00:00:00+00:00``, with microseconds only where there are some."""
    return get_utc(moment).isoformat()


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def as_nanoseconds(times: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Times in microseconds (datetime64) as datetime64[ns], as xarray has them; as they are where some are too far."""
    known = times[~np.isnat(times)].view("i8")
    near = not known.size or int(np.abs(known).max()) < _NANOSECONDS
    return times.astype("M8[ns]") if near else times


def step_to_json(step: timedelta) -> dict[str, int]:
    """The three parts of a normalised timedelta."""
    return {"days": step.days, "seconds": step.seconds, "microseconds": step.microseconds}


def step_from_json(said: Any) -> timedelta:
    """A timedelta from its parts, each a whole number, any of them left out; SchemaError."""
    if not isinstance(said, Mapping) or not set(said) <= set(_STEP_PARTS):
        raise SchemaError(f"a step of {said!r}", remedy=f"it has the keys {', '.join(_STEP_PARTS)}")
    if not all(type(part) is int for part in said.values()):
        raise SchemaError(f"a step of {dict(said)!r}", remedy="its parts are whole numbers")
    try:
        return timedelta(**said)
    except OverflowError:
        raise SchemaError(f"a step of {dict(said)!r} is too long", remedy="at most 999999999 days") from None


def check_span(name: str, start: datetime, step: timedelta, size: int | None) -> None:
    """Refuse a time axis of which a cell lies outside the years 1 to 9999."""
    try:
        start + (max(size or 1, 1) - 1) * step
    except OverflowError:
        raise SchemaError(
            f"dimension {name!r}: {size} steps of {step} from {start} leave the years 1 to 9999",
            remedy="give fewer or shorter steps",
        ) from None
