"""Dimension schemas: a name, a size, and what their positions are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from math import isfinite, ulp
from typing import Any, NamedTuple

import numpy as np

from hyperslab.errors import SchemaError
from hyperslab.model import dims
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.cells import Values

LARGEST = 2**63 - 1


_SCALE_KEYS = {"start_value", "step", "name"}


class Scale(NamedTuple):
    """A regular scale: position ``i`` is ``start_value + i * step``; the name is optional."""

    start_value: float
    step: float
    name: str | None = None

    def value(self, position: int) -> float:
        """Return the value of a position, rounded to the decimals of the scale: 2.54 and not 2.5400000000000005."""
        return dims.scale_value(self.start_value, self.step, position)


def require_name(name: object, what: str) -> str:
    """Return a name that is not blank."""
    if not isinstance(name, str) or not name.strip():
        raise SchemaError(f"{what} has the name {name!r}", remedy="a name is text that is not blank")
    return str(name)


def check_size(size: object, name: str) -> int | None:
    """Return a count of cells from 1 on; None for a dimension that grows."""
    if size is None:
        return None
    if not is_whole_number(size) or not 0 < size <= LARGEST:
        raise SchemaError(
            f"dimension {name!r} has the size {size!r}",
            remedy="a size is a whole number from 1 on, or None for an unlimited dimension",
        )
    return int(size)


@dataclass(frozen=True, slots=True, init=False)
class DimensionSchema:
    """A dimension of ``size`` cells (None: unlimited, it grows by ``append``), with labels or a scale or neither.

    ``labels`` are texts or floats, one per cell and all different; ``scale`` is a `Scale` or a mapping of its fields.
    SchemaError says what does not hold.
    """

    name: str
    size: int | None
    labels: tuple[str, ...] | tuple[float, ...] | None
    scale: Scale | None
    _names: dims.Labels | dims.FloatLabels | None = field(repr=False, compare=False)

    def __init__(
        self,
        name: str,
        size: int | None,
        labels: Sequence[str] | Sequence[float] | None = None,
        scale: Scale | Mapping[str, Any] | None = None,
    ) -> None:
        name = require_name(name, "a dimension")
        size = check_size(size, name)
        if labels is not None and scale is not None:
            raise SchemaError(f"dimension {name!r} has labels and a scale", remedy="give one of them")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "labels", None if labels is None else _check_labels(labels, name, size))
        object.__setattr__(self, "scale", None if scale is None else _check_scale(scale, name, size))
        # Made once: the labels of every array of the collection are the same object.
        texts = tuple(label for label in self.labels or () if isinstance(label, str))
        numbers = tuple(label for label in self.labels or () if isinstance(label, float))
        names = dims.Labels(texts) if texts else dims.FloatLabels(numbers) if numbers else None
        object.__setattr__(self, "_names", names)

    @property
    def step(self) -> int:
        """The distance of neighbouring positions: always 1."""
        return 1

    @property
    def as_dict(self) -> dict[str, object]:
        """The dimension as a collection document has it."""
        return {
            "name": self.name,
            "size": self.size,
            "labels": None if self.labels is None else list(self.labels),
            "scale": None if self.scale is None else self.scale._asdict(),
            "type": "generic",
        }

    def index(self, size: int) -> dims.Index | None:
        """Return the labels of the first ``size`` positions; None when only the positions themselves name them."""
        if self._names is not None:
            return self._names
        return None if self.scale is None else dims.ScaleIndex(self.scale.start_value, self.scale.step, size)


@dataclass(frozen=True, slots=True, init=False)
class TimeDimensionSchema:
    """A dimension of times, ``start_value + i * step``.

    ``start_value`` is a datetime (or ISO text) that all arrays share, kept in UTC, or ``"$name"``: each array takes it
    from its attribute of this name. ``step`` is a timedelta, not zero. ``size`` None: unlimited.
    """

    name: str
    size: int | None
    start_value: datetime | str
    step: timedelta

    def __init__(self, name: str, size: int | None, start_value: datetime | str, step: timedelta) -> None:
        name = require_name(name, "a dimension")
        size = check_size(size, name)
        if not isinstance(step, timedelta) or not step:
            raise SchemaError(
                f"dimension {name!r} has the step {step!r}", remedy="give a datetime.timedelta that is not zero"
            )
        start = _check_start(start_value, name)
        if isinstance(start, datetime):
            check_span(name, start, step, size)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "start_value", start)
        object.__setattr__(self, "step", step)

    @property
    def attribute(self) -> str | None:
        """The attribute that the start is taken from; None when all arrays share it."""
        return self.start_value[1:] if isinstance(self.start_value, str) else None

    @property
    def as_dict(self) -> dict[str, object]:
        """The dimension as a collection document has it."""
        return {
            "name": self.name,
            "size": self.size,
            "type": "time",
            "start_value": self.start_value if isinstance(self.start_value, str) else iso_text(self.start_value),
            "step": {
                "days": self.step.days,
                "seconds": self.step.seconds,
                "microseconds": self.step.microseconds,
            },
        }

    def start_of(self, values: Mapping[str, Any]) -> datetime | None:
        """Return the start of one array's axis by the values of its attributes; None where the attribute is unset."""
        if not isinstance(self.start_value, str):
            return self.start_value
        start = values.get(self.start_value[1:])
        return None if start is None else get_utc(start)

    def index(self, start: datetime, size: int) -> dims.TimeScale:
        """Return the times of the first ``size`` positions."""
        moment = np.datetime64(start.replace(tzinfo=None), "us")
        return dims.TimeScale(moment, np.timedelta64(self.step, "us"), size)


AnyDimensionSchema = DimensionSchema | TimeDimensionSchema


def _check_labels(labels: object, name: str, size: int | None) -> tuple[str, ...] | tuple[float, ...]:
    if not isinstance(labels, list | tuple) or not labels:
        raise SchemaError(f"dimension {name!r} has labels {labels!r}", remedy="give a list of texts or of floats")
    if size is None:
        raise SchemaError(f"dimension {name!r} is unlimited and has labels", remedy="give it a size, or a scale")
    if len(labels) != size:
        raise SchemaError(f"dimension {name!r} has {len(labels)} labels for {size} cells", remedy="give one per cell")
    found: tuple[str, ...] | tuple[float, ...]
    if all(isinstance(label, str) for label in labels):
        found = tuple(map(str, labels))
    elif all(isinstance(label, float | np.floating) for label in labels):
        found = tuple(map(float, labels))
        if not all(map(isfinite, found)):
            raise SchemaError(f"dimension {name!r} has labels that are not finite", remedy="give finite floats")
    else:
        raise SchemaError(
            f"dimension {name!r} has labels that are not all texts or all floats",
            remedy="convert ints to floats or to text: an int is always a position",
        )
    if len(set(found)) != len(found):
        raise SchemaError(f"dimension {name!r} has labels twice", remedy="each label names one cell")
    return found


def _check_scale(scale: object, name: str, size: int | None) -> Scale:
    if isinstance(scale, Mapping):
        if not {"start_value", "step"} <= set(scale) <= _SCALE_KEYS:
            raise SchemaError(
                f"dimension {name!r} has a scale with the keys {list(scale)}",
                remedy="they are start_value, step and, if you like, name",
            )
        scale = Scale(**scale)
    if not isinstance(scale, Scale):
        raise SchemaError(
            f"dimension {name!r} has the scale {scale!r}", remedy="give a Scale or a mapping of its fields"
        )
    for word, number in (("start_value", scale.start_value), ("step", scale.step)):
        if not isinstance(number, float | np.floating):
            instead = f"{number}.0 instead of {number}" if type(number) is int else "0.0 instead of 0"
            raise SchemaError(
                f"dimension {name!r}: {word} of the scale is {number!r}", remedy=f"give a float: {instead}"
            )
        if not isfinite(number):
            raise SchemaError(f"dimension {name!r}: {word} of the scale is {number!r}", remedy="give a finite float")
    if scale.name is not None:
        require_name(scale.name, f"the scale of dimension {name!r}")
    made = Scale(float(scale.start_value), float(scale.step), scale.name)
    _check_distinct(made, name, size)
    return made


def _check_distinct(scale: Scale, name: str, size: int | None) -> None:
    """Refuse a scale whose neighbouring cells floats cannot tell apart, or whose values are not finite."""
    if not scale.step:
        raise SchemaError(f"dimension {name!r} has a scale of step 0", remedy="give a step that is not zero")
    last = scale.start_value + ((size or 1) - 1) * scale.step
    largest = max(abs(scale.start_value), abs(last))
    # Two units in the last place: with less, rounding may give two neighbours one value.
    if size != 1 and not (isfinite(largest) and abs(scale.step) > 2 * ulp(largest)):
        raise SchemaError(
            f"dimension {name!r}: floats cannot tell {size or 'the'} cells from {scale.start_value} to {last} apart "
            f"in steps of {scale.step}",
            remedy="give a longer step, or fewer cells",
        )


def _check_start(start: object, name: str) -> datetime | str:
    if isinstance(start, str) and start.startswith("$"):
        require_name(start[1:], f"the start_value {start!r} of dimension {name!r}")
        return str(start)
    if not isinstance(start, datetime | str):
        raise SchemaError(
            f"dimension {name!r} has the start_value {start!r}",
            remedy='give a datetime, ISO 8601 text, or "$" and the name of an attribute',
        )
    try:
        return get_utc(start)
    except SchemaError as error:
        text = f'give ISO 8601 text, or "${start}" for the attribute {start!r}'
        remedy = text if isinstance(start, str) else error.remedy
        raise SchemaError(f"the start_value of dimension {name!r}: {error.message}", remedy=remedy) from error.__cause__


# -- moments: aware datetimes in UTC, exact to the microsecond --------------------------------------------------------


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_MICROSECOND = timedelta(microseconds=1)


# Microseconds around 1970 that datetime64[ns] can tell.
_NANOSECONDS = 2**63 // 1000


_STEP_PARTS = ("days", "seconds", "microseconds")


def get_utc(value: datetime | str) -> datetime:
    """Return a datetime, or ISO 8601 text, in UTC: an aware one is converted, a naive one is taken to be UTC."""
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            remedy = "ISO 8601 text is needed, such as '2023-01-01T00:00:00+00:00'"
            raise SchemaError(f"{value!r} is no time", remedy=remedy) from None
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
    match value:
        case np.datetime64():
            exact = value.astype("M8[us]")
            moment = exact.item()
            if np.isnat(value) or exact != value or not isinstance(moment, datetime):
                raise SchemaError(f"{value!r} is no whole microsecond", remedy="the years go from 1 to 9999")
            return get_utc(moment)
        case datetime() | str():
            return get_utc(value)
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise SchemaError(f"{value!r} is no moment", remedy="give a datetime, a date or ISO 8601 text")


def iso_text(moment: datetime) -> str:
    """Return a text such as ``2023-01-01T00:00:00+00:00``, with microseconds only where there are some."""
    return get_utc(moment).isoformat()


def microseconds(moment: datetime) -> int:
    """Return the microseconds since 1970, exactly."""
    return (moment - EPOCH) // _MICROSECOND


def as_nanoseconds(times: Values) -> Values:
    """Return times in microseconds (datetime64) as datetime64[ns], as xarray has them; as they are where some are too
    far."""
    known = times[~np.isnat(times)].view("i8")
    near = not known.size or int(np.abs(known).max()) < _NANOSECONDS
    return times.astype("M8[ns]") if near else times


def step_from_json(value: object) -> timedelta:
    """Return a timedelta from its parts, each a whole number, any of them left out; SchemaError."""
    if not isinstance(value, Mapping) or not set(value) <= set(_STEP_PARTS):
        raise SchemaError(f"a step of {value!r}", remedy=f"it has the keys {', '.join(_STEP_PARTS)}")
    if not all(type(part) is int for part in value.values()):
        raise SchemaError(f"a step of {dict(value)!r}", remedy="its parts are whole numbers")
    try:
        return timedelta(**value)
    except OverflowError:
        raise SchemaError(f"a step of {dict(value)!r} is too long", remedy="at most 999999999 days") from None


def check_span(name: str, start: datetime, step: timedelta, size: int | None) -> None:
    """Refuse a time axis of which a cell lies outside the years 1 to 9999."""
    try:
        start + (max(size or 1, 1) - 1) * step
    except OverflowError:
        raise SchemaError(
            f"dimension {name!r}: {size} steps of {step} from {start} leave the years 1 to 9999",
            remedy="give fewer or shorter steps",
        ) from None
