"""Where a number stands along a dimension: one face for computed scales and for listed coordinates.

Numbers are floats or ints on plain coordinates, and whole nanoseconds since 1970 of the calendar on time axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, frexp, gcd, inf, ldexp
from typing import Any

import numpy as np

from hyperslab.model.calendars import DAY, LENGTHS, RESOLUTIONS, iso_text, parse_moment, unit_length
from hyperslab.model.cells import Values
from hyperslab.model.dims import CFTime, Coordinate, FloatLabels, ScaleIndex, TimeScale, scale_value
from hyperslab.model.dtypes import NumpyDType

Number = Any
_DOUBLE = np.dtype("f8")
_TICKS = {"W": 7 * DAY, "D": DAY, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_INT64 = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateAxis:
    """The numbers of ``size`` positions.

    ``trend`` is 1 ascending, -1 descending, 0 neither; equal neighbours are both. ``calendar`` is None when the numbers
    are no times. ``grain`` is the float type in which they are stored, ``slack`` what it may put a time off.
    """

    size: int
    trend: int = 1
    calendar: str | None = None
    grain: NumpyDType = _DOUBLE
    slack: float = 0.0

    def at(self, position: int) -> Number:
        """Return the number of one position."""
        raise NotImplementedError

    def rank(self, number: Number) -> int:
        """Return how many positions come before ``number`` in the direction of the trend."""
        raise NotImplementedError

    def same(self, position: int) -> Values:
        """Return all positions with the same number, in order."""
        return np.array([position])

    def has_missing(self, low: int, high: int) -> bool:
        """Return True if a position from ``low`` to before ``high`` has no number."""
        return False

    def nearest(self, number: Number) -> int:
        """Return the position of the closest number; of two the larger one, as pandas has it."""
        place = self.rank(number)
        if place == self.size:
            return place - 1
        if not place:
            return place
        before, here = abs(self.at(place - 1) - number), abs(self.at(place) - number)
        return place - 1 if before < here or (before == here and self.trend < 0) else place

    def gap(self, position: int) -> Number:
        """Return the smaller distance to the neighbours that differ; infinite without any."""
        here = self.at(position)
        near = [abs(self.at(place) - here) for place in (position - 1, position + 1) if 0 <= place < self.size]
        return min((distance for distance in near if distance > 0), default=inf)

    def spacing(self, number: Number, grain: NumpyDType) -> float:
        """Return the distance of two neighbouring floats at ``number``, in the coarser of ``grain`` and the stored
        type."""
        coarse = max(grain, self.grain, key=lambda dtype: float(np.finfo(dtype).eps))
        return ldexp(float(np.finfo(coarse).eps), frexp(float(number))[1] - 1) if number else 0.0

    def resolution(self) -> int:
        """Return the index in `RESOLUTIONS` of the coarsest one, from the day on, that tells all times (pandas's
        rule)."""
        raise NotImplementedError

    def show(self, position: int) -> str:
        """Return one position's number for people."""
        number = self.at(position)
        return f"{number}" if self.calendar is None else iso_text(number, self.calendar)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedAxis(CoordinateAxis):
    """``start + i * step``."""

    start: Number
    step: Number

    def at(self, position: int) -> Number:
        if isinstance(self.step, int):
            return self.start + position * self.step
        return scale_value(self.start, self.step, position)  # the label that is shown, to the last bit

    def rank(self, number: Number) -> int:
        if isinstance(self.step, int):
            place = -((self.start - number) // self.step)
        else:
            steps = (number - self.start) / self.step
            place = ceil(min(max(steps, -1.0), float(self.size)))
        return int(min(max(place, 0), self.size))

    def gap(self, position: int) -> Number:
        return abs(self.step)

    def spacing(self, number: Number, grain: NumpyDType) -> float:
        return CoordinateAxis.spacing(self, max(abs(number), abs(self.start)), grain)

    def resolution(self) -> int:
        whole = gcd(self.start, self.step)
        return next(RESOLUTIONS.index(name) for name, length in LENGTHS.items() if not whole % length)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAxis(CoordinateAxis):
    """``values * tick + offset``: whole numbers; or float ``values`` as they are."""

    values: Values
    tick: int = 1
    offset: int = 0

    def at(self, position: int) -> Number:
        value = self.values[position]
        return float(value) if self.values.dtype.kind == "f" else int(value) * self.tick + self.offset

    def rank(self, number: Number) -> int:
        sought, between = self._locate(number)
        if self.trend >= 0:
            return int(np.searchsorted(self.values, sought, "right" if between else "left"))
        return self.size - int(np.searchsorted(self.values[::-1], sought, "right"))

    def same(self, position: int) -> Values:
        return np.flatnonzero(self.values == self.values[position])

    def has_missing(self, low: int, high: int) -> bool:
        values = self.values[low:high]
        if values.dtype.kind == "f":
            return bool(np.isnan(values).any())
        return self.calendar is not None and bool((values == _INT64[0]).any())

    def nearest(self, number: Number) -> int:
        if self.trend:
            return CoordinateAxis.nearest(self, number)
        sought, between = self._locate(number)
        equal = np.flatnonzero(self.values == sought)
        if equal.size and not between:
            return int(equal[0])
        distance = np.abs(self.values.astype("f8") * self.tick - float(number - self.offset))
        return int(np.argmin(np.where(np.isnan(distance), inf, distance)))

    def gap(self, position: int) -> Number:
        if self.trend:
            return CoordinateAxis.gap(self, position)
        distance = np.abs(self.values.astype("f8") - float(self.values[position])) * self.tick
        return min(distance[distance > 0].tolist(), default=inf)

    def resolution(self) -> int:
        for name, length in LENGTHS.items():
            period = length // gcd(self.tick, length)
            rest = (self.values % period * (self.tick % length) + self.offset % length) % length
            if np.all(np.minimum(rest, length - rest) <= 4 * self.slack):
                return RESOLUTIONS.index(name)
        return len(RESOLUTIONS) - 1

    def show(self, position: int) -> str:
        return f"{self.values[position]}" if self.calendar is None else CoordinateAxis.show(self, position)

    def _locate(self, number: Number) -> tuple[Number, bool]:
        """Return what to seek among the values; True when the number lies behind it, before the next tick."""
        if self.values.dtype.kind == "f" or not isinstance(number, int):
            return number, False
        ticks, rest = divmod(number - self.offset, self.tick)
        low, high = _INT64 if self.values.dtype.kind == "i" else (0, 2**64 - 1)
        return min(max(ticks, low), high), bool(rest) or ticks > high


def axis_of_floats(index: FloatLabels) -> StoredAxis:
    """Return the axis of floats that are names."""
    coordinate = Coordinate(np.array(index.values, _DOUBLE))
    return StoredAxis(size=index.size, trend=coordinate.trend, values=coordinate.values)


def axis_of_index(index: ScaleIndex | TimeScale | CFTime | Coordinate) -> CoordinateAxis:
    """Return the axis of an index of numbers or times."""
    match index:
        case ScaleIndex(start=start, step=step, size=size):
            return ComputedAxis(size=size, trend=1 if step > 0 else -1, start=float(start), step=float(step))
        case TimeScale(start=start, step=step, size=size):
            first, stride = _nanoseconds(start), _nanoseconds(step)
            calendar = "proleptic_gregorian"
            return ComputedAxis(size=size, trend=1 if stride > 0 else -1, calendar=calendar, start=first, step=stride)
        case CFTime():
            return _counted(index)
        case Coordinate(values=values) if values.dtype.kind == "M":
            values = _within_ticks(values)
            unit, count = np.datetime_data(values.dtype)
            return StoredAxis(
                size=values.size,
                trend=index.trend,
                calendar="proleptic_gregorian",
                values=values.view("i8"),
                tick=_TICKS[unit] * count,
            )
        case Coordinate(values=values):
            grain = values.dtype if values.dtype.kind == "f" else _DOUBLE
            return StoredAxis(size=values.size, trend=index.trend, grain=grain, values=values)


def _counted(index: CFTime) -> StoredAxis:
    """Return times as stored whole numbers of the unit; float ones as whole microseconds."""
    moment = parse_moment(index.epoch)
    offset = (moment.start(index.calendar) if moment else None) or 0
    unit = unit_length(index.unit, index.calendar) or 1
    values, slack, tick = index.values, 0.0, unit
    if values.dtype.kind == "f":
        known = np.where(np.isfinite(values), values, np.nan)
        largest = np.nanmax(np.abs(known)) if np.isfinite(known).any() else known.dtype.type(1)
        slack = float(np.spacing(largest)) * unit
        whole = np.rint(known.astype("f8") * (unit / 1000))
        values, tick = np.where(np.isnan(whole), _INT64[0], whole), 1000
    values = values.astype("i8", copy=False)
    return StoredAxis(
        size=values.size,
        trend=index.trend,
        calendar=index.calendar,
        slack=slack,
        values=values,
        tick=tick,
        offset=offset,
    )


def _within_ticks(values: Values) -> Values:
    """Return times of a unit of fixed length, a nanosecond or longer, in native byte order."""
    unit = np.datetime_data(values.dtype)[0]
    fixed = values.dtype.newbyteorder("=") if unit in _TICKS else np.dtype("M8[D]" if unit in "YM" else "M8[ns]")
    return np.ascontiguousarray(values, fixed)


def _nanoseconds(value: np.datetime64 | np.timedelta64) -> int:
    """Return an exact count of nanoseconds, which may reach beyond int64."""
    unit, count = np.datetime_data(value.dtype)
    if unit not in _TICKS:
        value = value.astype("M8[D]")
        unit, count = "D", 1
    return int(value.astype("i8")) * _TICKS[unit] * count
