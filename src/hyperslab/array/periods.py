"""Times put into groups: the same month of all years (``by``), or one month after another (``every``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.cells import Values

BY = ("month", "season", "year", "day", "dayofyear", "hour")
EVERY = ("month", "season", "year", "day", "hour")
_LETTERS = {"month": "M", "year": "Y", "day": "D", "hour": "h"}
# Steps of a series that may be missing at both ends of a period together, which is one where all samples are there;
# the half is for months, which are of unequal length.
_WHOLE = 1.5
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


def widen_to_periods(times: Values, word: str) -> tuple[Values, Values]:
    """Return for each time where its sample begins and ends, which is at the time itself but for the first and last
    one of each period (one of :data:`EVERY`): these reach to the limits of the period, such as midnight of the first of
    this and of the next month, where the samples of the period reach there.

    They do where what lies before the first and behind the last sample, one step in all where none is missing, is less
    than one and a half steps; else on a side of no more than a step. Samples that are farther from one another than a
    period is long stay as they are.
    """
    groups = group_times(times, 0, every=word)
    order = np.argsort(times, kind="stable")
    order = order[np.argsort(groups.owners[order], kind="stable")]
    heads = np.flatnonzero(np.diff(groups.owners[order], prepend=-1))
    counts = np.diff(np.append(heads, times.size))
    firsts, lasts = order[heads], order[heads + counts - 1]
    starts, stops = _limits(times[firsts], word)
    before, behind = _seconds(times[firsts] - starts), _seconds(stops - times[lasts])
    between = np.diff(np.unique(times)) if times.size > 1 else times[:0]
    usual = np.median(_seconds(between)) if between.size else np.nan
    steps = np.where(counts > 1, _seconds(times[lasts] - times[firsts]) / np.maximum(counts - 1, 1), usual)
    is_whole = before + behind < _WHOLE * steps
    is_dense = steps <= _WHOLE * _seconds(stops - starts)
    lower, upper = times.copy(), times.copy()
    # A sample at the start of a period is in it: before a first one that is a step behind it, another one is missing.
    begins, ends = is_dense & (is_whole | (before < steps)), is_dense & (is_whole | (behind <= steps))
    lower[firsts[begins]], upper[lasts[ends]] = starts[begins], stops[ends]
    return lower, upper


def _limits(times: Values, word: str) -> tuple[Values, Values]:
    """Return where the period of each time begins, and where the next one does, as times of the same kind."""
    if times.dtype.kind == "M":
        if word in _LETTERS:
            begins = times.astype(f"M8[{_LETTERS[word]}]")
            return begins.astype(times.dtype), (begins + 1).astype(times.dtype)
        months = times.astype("M8[M]").astype(np.int64)
        begins = ((months + 1) // 3 * 3 - 1).astype("M8[M]")
        return begins.astype(times.dtype), (begins + 3).astype(times.dtype)
    pairs = [_cftime_limits(time, word) for time in times]
    starts, stops = (np.array(each, object) for each in zip(*pairs, strict=True))
    return starts, stops


def _cftime_limits(time: Any, word: str) -> tuple[Any, Any]:
    """Return where the period of a time of cftime begins, and where the next one does."""
    begin = time.replace(minute=0, second=0, microsecond=0)
    if word == "hour":
        return begin, begin + timedelta(hours=1)
    begin = begin.replace(hour=0)
    if word == "day":
        return begin, begin + timedelta(days=1)
    length = {"month": 1, "season": 3, "year": 12}[word]
    shift = 1 if word == "season" else 0  # December begins a winter
    first = (time.month - 1 + shift) // length * length - shift
    return _month_of(begin, first), _month_of(begin, first + length)


def _month_of(time: Any, month: int) -> Any:
    """Return the first of a month, counted from 0 in the year of a time of cftime."""
    has_gap = not time.has_year_zero  # the year before 1 is -1 then
    year = time.year + (has_gap and time.year < 0) + month // 12
    return time.replace(year=year - (has_gap and year <= 0), month=month % 12 + 1, day=1)


def _seconds(spans: Values) -> Values:
    """Return durations, of NumPy or as objects of Python, in seconds (f8)."""
    found: Values = spans.astype("m8[us]").astype("f8") / 1e6
    return found


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
