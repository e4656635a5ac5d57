"""Units of time of the CF conventions, and times that are counted from one epoch as counted from another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.calendars import DAY as _DAY
from hyperslab.model.calendars import REAL, calendar_name, day_number, parse_moment, unit_length
from hyperslab.model.cells import Values
from hyperslab.model.dims import split_units

# The integer of NaT in datetime64.
_NOT_A_TIME = np.iinfo(np.int64).min
# CF's names of the units of datetime64 that are of one length.
_NUMPY_UNITS = {
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}

# Nanoseconds by which a time may differ that a float cannot hold exactly: half a microsecond, finer than which no
# calendar of CF is written.
_EXACT = 500
# From this day on the dates of the calendars in REAL are the same.
_REFORM = day_number(1582, 10, 15, "proleptic_gregorian") * _DAY


class TimeUnits:
    """Units such as ``days since 1990-01-01`` of a CF calendar. Invalid for what is none."""

    def __init__(self, units: object, calendar: object) -> None:
        parts = split_units(units) if isinstance(units, str) else None
        name = calendar_name(None if calendar is None else str(calendar))
        moment = None if parts is None else parse_moment(parts[1])
        start = None if moment is None or name is None else moment.start(name)
        length = None if parts is None or name is None else unit_length(parts[0], name)
        if name is None or start is None or length is None:
            raise Invalid(f"{units!r} in the calendar {calendar!r} are no units of time", remedy="mend the attributes")
        self.text, self.calendar, self.start, self.length = str(units), name, start, length

    def instants(self, values: Values) -> Values:
        """Return times as nanoseconds since 1970, as Python's numbers where they are whole, else as long doubles."""
        if values.dtype.kind in "iu":
            return values.astype(object) * self.length + self.start
        return values.astype(np.longdouble) * self.length + self.start

    @classmethod
    def of_datetimes(cls, dtype: np.dtype) -> TimeUnits:
        """Return the units in which ``datetime64`` counts. Invalid for months, years, and less than nanoseconds."""
        unit, count = np.datetime_data(dtype)
        if unit not in _NUMPY_UNITS or count != 1:
            raise Invalid(f"times of {dtype} are of no unit of CF", remedy="astype('datetime64[us]') them")
        return cls(f"{_NUMPY_UNITS[unit]} since 1970-01-01", "proleptic_gregorian")

    def from_datetimes(self, values: Values, dtype: np.dtype, missing: Sequence[object]) -> Values:
        """Return ``datetime64`` as counted in these units by numbers of ``dtype``. NaT becomes the first of ``missing``
        that the dtype holds. Invalid without one, and for times that cannot be counted so."""
        known, marks = ~np.isnat(values), _numbers_of(missing, dtype)
        if not marks.size and not known.all():
            raise Invalid(f"a missing time (NaT) has no number in {self.text!r}", remedy="leave it out, or fill it")
        found = np.full(values.shape, marks[0] if marks.size else 0, dtype)
        found[known] = self.rebase(values[known].astype("i8"), self.of_datetimes(values.dtype), dtype=dtype)
        return found

    def to_datetimes(self, values: Values, dtype: np.dtype, missing: Sequence[object] = ()) -> Values:
        """Return numbers that are counted in these units as ``datetime64`` of ``dtype``, NaT where one is NaN or
        ``missing``. Invalid for times that it cannot hold."""
        lost = np.isin(values, _numbers_of(missing, values.dtype)) | (values != values)
        found = np.full(values.shape, _NOT_A_TIME, "i8")
        found[~lost] = self.of_datetimes(dtype).rebase(values[~lost], self, dtype=found.dtype)
        return found.view(dtype.newbyteorder("="))

    def rebase(
        self, values: Values, old: TimeUnits, missing: Sequence[object] = (), dtype: np.dtype | None = None
    ) -> Values:
        """Return times that are counted in ``old`` units as counted in these, in the same type, or in ``dtype``; cells
        that are ``missing`` stay as they are. Invalid where that cannot be: other calendars, a number that the type
        cannot hold, a time that would move."""
        dtype = values.dtype if dtype is None else dtype
        known = ~np.isin(values, _numbers_of(missing, values.dtype))
        if not known.all():
            found = values.astype(dtype)
            found[known] = self.rebase(values[known], old, dtype=dtype)
            return found
        instants = old.instants(values)
        if self.calendar != old.calendar:
            are_real = {self.calendar, old.calendar} <= set(REAL)
            if not are_real or (values.size and not (np.asarray(instants >= _REFORM)).all()):
                remedy = "convert the pieces to one calendar"
                raise Invalid(f"times in the calendar {old.calendar}, others in {self.calendar}", remedy=remedy)
        if dtype.kind in "iu":
            return self._count_whole(instants, old, dtype)
        found = ((instants - self.start) / self.length).astype(dtype)
        moved = np.abs(self.instants(found) - instants)
        if bool((moved > _EXACT).any()):
            message = f"times in {old.text!r} cannot be counted in {self.text!r} by {dtype}"
            raise Invalid(message, remedy="convert the pieces to wider numbers")
        return found

    def _count_whole(self, instants: Values, old: TimeUnits, dtype: np.dtype) -> Values:
        """Return instants as whole numbers of ``dtype`` of these units. Invalid where they are none."""
        limits, slack = np.iinfo(dtype), 0 if instants.dtype == object else _EXACT
        if slack and not np.isfinite(instants).all():
            remedy = "mark missing times by _FillValue, or leave them out"
            raise Invalid(f"times in {old.text!r} that are no numbers (NaN, infinity)", remedy=remedy)
        # Long doubles, which come of floats, may differ by what a float cannot hold exactly.
        counts = [int(instant) - self.start for instant in (instants if slack == 0 else np.rint(instants)).flat]
        whole = [(count + self.length // 2) // self.length if slack else count // self.length for count in counts]
        pairs = zip(whole, counts, strict=True)
        if any(
            abs(each * self.length - count) > slack or not limits.min <= each <= limits.max for each, count in pairs
        ):
            message = f"times in {old.text!r} are no whole numbers of {self.text!r} in {dtype}"
            raise Invalid(message, remedy="convert the pieces to units that hold both")
        return np.array(whole, dtype).reshape(instants.shape)


def _numbers_of(missing: Sequence[object], dtype: np.dtype) -> Values:
    """Return the marks of missing numbers that are numbers of ``dtype``: others mark none of its cells."""
    found = []
    for mark in missing:
        number = np.asarray(mark).reshape(-1)
        if number.dtype.kind in "iuf" and number.size == 1:
            with np.errstate(invalid="ignore", over="ignore"):
                cast = number.astype(dtype)
            if cast[0] == number[0] or (cast[0] != cast[0] and number[0] != number[0]):
                found.append(cast[0])
    return np.array(found, dtype)
