"""Times put into groups: the same month of all years (``by``), or one month after another (``every``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.cells import Values

BY = ("month", "season", "year", "day", "dayofyear", "hour")
EVERY = ("month", "season", "year", "day", "hour")
_SEASONS = ("DJF", "MAM", "JJA", "SON")


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group each chosen position along ``axis`` belongs to: ``owners`` are places in ``labels``, which stand
    below ``head``."""

    axis: int
    head: str
    labels: Sequence[object]
    owners: Values

    @property
    def firsts(self) -> list[int]:
        """The first position of each group."""
        return [int(place) for place in np.unique(self.owners, return_index=True)[1]]

    @property
    def first_stops(self) -> list[int]:
        """The position behind the first run of each group: of January that of the first year."""
        stops = []
        for number, first in enumerate(self.firsts):
            others = np.flatnonzero(self.owners[first:] != number)
            stops.append(first + int(others[0]) if len(others) else len(self.owners))
        return stops


def find_lanes(owners: Values) -> list[list[slice]]:
    """Return slices of equal length that lie side by side: the n-th positions of all slices of a list are one group,
    the n-th positions of the next list one of those behind. ``owners``: the group of each position, counted from 0 in
    the order in which they first come.

    Of the days of two years there are the slices of both up to 28 February, the day that one of them has more, and the
    slices behind it; of four times a day those of 0, 6, 12 and 18 o'clock.
    """
    order = np.argsort(owners, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(owners[order])) + 1)
    found: list[list[slice]] = []
    start = 0
    while start < len(groups):
        firsts, stop, step = groups[start], start + 1, 0
        while stop < len(groups) and len(groups[stop]) == len(firsts):
            steps = groups[stop] - groups[stop - 1]
            step = step or int(steps[0])
            if (steps != step).any():
                break
            stop += 1
        length = (stop - start - 1) * step + 1
        found.append([slice(int(first), int(first) + length, step or 1) for first in firsts])
        start = stop
    return found


def group_times(times: Values, axis: int, by: str | None = None, every: str | None = None) -> Groups:
    """Put times (``datetime64`` or cftime objects, of any calendar) into groups, in their order.

    ``by`` is one of :data:`BY`: the months of all years are one group; ``day`` is a date such as 03-01, ``dayofyear``
    the number of the day in its year, as in xarray: 061 for 03-01 in leap years, else 060. ``every`` is one of
    :data:`EVERY`. A winter belongs to the year that it ends in. Invalid for times that are missing, or are none.
    """
    year, month, day, hour = _fields(times)
    season = month % 12 // 3
    winter_year = year + (month == 12)
    word = by or every
    if word is None or (by and every):
        raise Invalid(f"by={by!r} with every={every!r}", remedy="give one of the two")
    if word == "year":
        keys, names = year, [f"{y:04d}" for y in year]
    elif by == "month":
        keys, names = month, [f"{m:02d}" for m in month]
    elif by == "season":
        keys, names = season, [_SEASONS[s] for s in season]
    elif by == "dayofyear":
        keys = _days_of_year(times)
        names = [f"{number:03d}" for number in keys]
    elif by == "day":
        keys, names = month * 100 + day, [f"{m:02d}-{d:02d}" for m, d in zip(month, day, strict=True)]
    elif by == "hour":
        keys, names = hour, [f"{h:02d}" for h in hour]
    elif every == "month":
        keys, names = year * 12 + month, [f"{y:04d}-{m:02d}" for y, m in zip(year, month, strict=True)]
    elif every == "season":
        keys = winter_year * 4 + season
        names = [f"{y:04d}-{_SEASONS[s]}" for y, s in zip(winter_year, season, strict=True)]
    elif every in ("day", "hour"):
        keys = (year * 12 + month) * 31 + day
        names = [f"{y:04d}-{m:02d}-{d:02d}" for y, m, d in zip(year, month, day, strict=True)]
        if every == "hour":
            keys = keys * 24 + hour
            names = [f"{name}T{h:02d}" for name, h in zip(names, hour, strict=True)]
    else:
        allowed = f"by: {', '.join(BY)}; every: {', '.join(EVERY)}"
        raise Invalid(f"no periods by={by!r}, every={every!r}", remedy=f"give one of them: {allowed}")
    _, firsts, owners = np.unique(keys, return_index=True, return_inverse=True)
    return Groups(axis, word, [names[first] for first in firsts], owners.reshape(-1))


def is_time(labels: Values) -> bool:
    """Return True for labels that are times of any calendar."""
    return labels.dtype.kind == "M" or (
        labels.dtype == object and labels.size > 0 and all(hasattr(each, "year") for each in labels)
    )


def _fields(times: Values) -> tuple[Values, Values, Values, Values]:
    """Return year, month, day and hour of each time as integers."""
    if times.dtype.kind == "M":
        if np.isnat(times).any():
            raise Invalid("times are missing", remedy="choose those that are there by -s")
        months = times.astype("M8[M]")
        days = times.astype("M8[D]")
        number = months.astype(np.int64)
        since = (days - months.astype("M8[D]")).astype(np.int64)
        hours = (times.astype("M8[h]") - days.astype("M8[h]")).astype(np.int64)
        return number // 12 + 1970, number % 12 + 1, since + 1, hours
    if is_time(times):
        year, month, day, hour = (np.array([getattr(time, name) for time in times], np.int64) for name in _FIELDS)
        return year, month, day, hour
    raise Invalid("these are no times", remedy="name a dimension whose coordinate is counted 'days since …'")


def _days_of_year(times: Values) -> Values:
    """Return the number of each day in the year of its own calendar, from 1 on."""
    if times.dtype.kind == "M":
        days = times.astype("M8[D]")
        since: Values = (days - days.astype("M8[Y]").astype("M8[D]")).astype(np.int64)
        return since + 1
    return np.array([time.timetuple().tm_yday for time in times], np.int64)


_FIELDS = ("year", "month", "day", "hour")
