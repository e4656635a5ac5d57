"""Units of time of the CF conventions, and times that are counted from one epoch as counted from another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.calendars import DAY as _DAY
from hyperslab.model.calendars import REAL, calendar_name, day_number, parse_moment, unit_length
from hyperslab.model.cells import Values
from hyperslab.model.dims import split_units

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

    def rebase(self, values: Values, old: TimeUnits, missing: Sequence[object] = ()) -> Values:
        """Return times that are counted in ``old`` units as counted in these, in the same type; cells that are
        ``missing`` stay as they are. Invalid where that cannot be: other calendars, a number that the type cannot hold,
        a time that would move."""
        known = ~np.isin(values, np.array(missing, values.dtype))
        if not known.all():
            found = values.copy()
            found[known] = self.rebase(values[known], old)
            return found
        instants = old.instants(values)
        if self.calendar != old.calendar:
            are_real = {self.calendar, old.calendar} <= set(REAL)
            if not are_real or (values.size and not (np.asarray(instants >= _REFORM)).all()):
                remedy = "convert the pieces to one calendar"
                raise Invalid(f"times in the calendar {old.calendar}, others in {self.calendar}", remedy=remedy)
        if values.dtype.kind in "iu":
            counts = instants - self.start
            limits = np.iinfo(values.dtype)
            whole = [divmod(count, self.length) for count in counts.flat]
            fits = all(rest == 0 and limits.min <= count <= limits.max for count, rest in whole)
            if not fits:
                message = f"times in {old.text!r} are no whole numbers of {self.text!r} in {values.dtype}"
                raise Invalid(message, remedy="convert the pieces to units that hold both")
            return np.asarray(counts // self.length).astype(values.dtype)
        found = ((instants - self.start) / self.length).astype(values.dtype)
        moved = np.abs(self.instants(found) - instants)
        if bool((moved > _EXACT).any()):
            message = f"times in {old.text!r} cannot be counted in {self.text!r} by {values.dtype}"
            raise Invalid(message, remedy="convert the pieces to wider numbers")
        return found
