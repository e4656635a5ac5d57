"""The calendars of the CF conventions in whole numbers: dates to days and back, ISO 8601 text, units "... since ...".

An instant is a number of nanoseconds since 1970-01-01 of its own calendar. ``standard`` is Julian before 1582-10-15 and
Gregorian from then on, without the ten days between (CF 1.11, section 4.4.1). Years are astronomical. Day numbers of
the real calendars follow Richards, "Calendars" (Explanatory Supplement to the Astronomical Almanac, 3rd ed., 15.11).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate

DAY = 86_400_000_000_000
YEAR = 31_556_925_974_678_400
"""The tropical year of UDUNITS, 365.242198781 days; its month is a twelfth."""

_SPELLINGS = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
CALENDARS = ("standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day")
RESOLUTIONS = ("year", "month", "day", "hour", "minute", "second", "instant")

REAL = ("standard", "proleptic_gregorian")
"""The calendars with the dates of ``datetime64`` (from 1582-10-15 on, for ``standard``)."""
LENGTHS = {"day": DAY, "hour": 3600 * 10**9, "minute": 60 * 10**9, "second": 10**9, "instant": 1}
"""Nanoseconds of the resolutions that are of one length."""
_UNITS = {
    1: "nanosecond nanoseconds nanosec nanosecs nsec nsecs ns",
    10**3: "microsecond microseconds microsec microsecs usec usecs us",
    10**6: "millisecond milliseconds millisec millisecs msec msecs ms",
    10**9: "second seconds sec secs s",
    60 * 10**9: "minute minutes min mins",
    3600 * 10**9: "hour hours hr hrs h",
    DAY: "day days d",
    7 * DAY: "week weeks",
}
_LENGTH_OF = {name: length for length, names in _UNITS.items() for name in names.split()}
_MONTHS = {
    "noleap": (0, *accumulate((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))),
    "all_leap": (0, *accumulate((31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))),
    "360_day": tuple(range(0, 361, 30)),
}
_UNIX_DAY = 2_440_588
_ISO = re.compile(
    r"\s*(?P<year>[+-]?\d{1,5})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
    r"(?:(?:[ tT]\s*|\s+)(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?P<fraction>\.\d*)?)?)?)?)?)?"
    r"\s*(?P<zone>z|Z|UTC|GMT|(?P<sign>[+-])(?P<zone_hour>\d{1,2}):?(?P<zone_minute>\d{2})?)?\s*"
)
# ISO 8601's basic format: ``20200228``, ``20200228T0630``.
_COMPACT = re.compile(r"\s*(\d{4})(\d{2})(\d{2})(?:[tT](\d{2})(?:(\d{2})(\d{2})?)?)?\s*")


@dataclass(frozen=True, slots=True)
class Moment:
    """A date and the ``nanosecond`` of its day (a time zone may put it outside), as exact as ``resolution`` says."""

    year: int
    month: int = 1
    day: int = 1
    nanosecond: int = 0
    resolution: str = "instant"

    def start(self, calendar: str) -> int | None:
        """Return the instant at which it begins; None when the calendar has no such date."""
        number = day_number(self.year, self.month, self.day, calendar)
        if date_of(number, calendar) != (self.year, self.month, self.day):
            return None
        return number * DAY + self.nanosecond

    def stop(self, calendar: str) -> int:
        """Return the instant at which the year, month, day ... ends (the first one after it)."""
        if self.resolution == "year":
            return day_number(self.year + 1, 1, 1, calendar) * DAY + self.nanosecond
        if self.resolution == "month":
            year, month = (self.year, self.month + 1) if self.month < 12 else (self.year + 1, 1)
            return day_number(year, month, 1, calendar) * DAY + self.nanosecond
        number = day_number(self.year, self.month, self.day, calendar)
        return number * DAY + self.nanosecond + LENGTHS[self.resolution]


def calendar_name(spelling: str | None) -> str | None:
    """Return one of `CALENDARS` for any of CF's spellings (none means ``standard``); None for an unknown one."""
    name = (spelling or "standard").rstrip("\0").strip().lower()
    name = _SPELLINGS.get(name, name)
    return name if name in CALENDARS else None


def unit_length(unit: str, calendar: str) -> int | None:
    """Return nanoseconds of a unit of time; months and years are the calendar's where all are equal, else UDUNITS's."""
    name = unit.strip().lower()
    if name in ("month", "months", "year", "years", "common_year", "common_years"):
        days = {"noleap": 365, "all_leap": 366, "360_day": 360}.get(calendar)
        year = YEAR if days is None else days * DAY
        if name.startswith("common"):
            return year if days else 365 * DAY
        return year if name.startswith("year") else year // 12
    return _LENGTH_OF.get(name)


def parse_moment(text: str) -> Moment | None:
    """Parse ISO 8601 text, also partial (``2013``, ``2013-01``, ``2013-01-05T12``) and with a time zone; None if it is
    none.

    Without a zone it is UTC. CF's epochs (``1-1-1 0:0:0``) are read as well, and dates without hyphens (``20130105``).
    """
    if compact := _COMPACT.fullmatch(text):
        year, month, day, *clock = filter(None, compact.groups())
        text = f"{year}-{month}-{day}" + (f"T{':'.join(clock)}" if clock else "")
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    names = [name for name in RESOLUTIONS[:-1] if match[name] is not None]
    year, month, day = (int(match[name] or 1) for name in ("year", "month", "day"))
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 24 or minute > 59 or second > 59 or not (1 <= month <= 12 and day >= 1):
        return None
    fraction = int(f"{match['fraction'] or '.'}000000000"[1:10])
    ahead = int(match["zone_hour"] or 0) * 60 + int(match["zone_minute"] or 0)
    ahead = -ahead if match["sign"] == "-" else ahead
    nanosecond = ((hour * 60 + minute - ahead) * 60 + second) * 10**9 + fraction
    return Moment(year, month, day, nanosecond, "instant" if match["fraction"] else names[-1])


def day_number(year: int, month: int, day: int, calendar: str) -> int:
    """Return days from 1970-01-01 of the calendar to a date (for the real ones: of the Gregorian calendar)."""
    if calendar in _MONTHS:
        table = _MONTHS[calendar]
        return (year - 1970) * table[12] + table[month - 1] + day - 1
    late = (14 - month) // 12
    march = year + 4800 - late
    number = day + (153 * (month + 12 * late - 3) + 2) // 5 + 365 * march + march // 4
    if _julian(calendar, (year, month, day) < (1582, 10, 15)):
        return number - 32083 - _UNIX_DAY
    return number - march // 100 + march // 400 - 32045 - _UNIX_DAY


def date_of(number: int, calendar: str) -> tuple[int, int, int]:
    """Return year, month and day of a day number; the inverse of `day_number`."""
    if calendar in _MONTHS:
        table = _MONTHS[calendar]
        year, rest = divmod(number, table[12])
        month = next(m for m in range(12, 0, -1) if table[m - 1] <= rest)
        return year + 1970, month, rest - table[month - 1] + 1
    place = number + _UNIX_DAY + 1401
    if not _julian(calendar, number < day_number(1582, 10, 15, "proleptic_gregorian")):
        place += (4 * (number + _UNIX_DAY) + 274277) // 146097 * 3 // 4 - 38
    years, rest = divmod(4 * place + 3, 1461)
    months, days = divmod(5 * (rest // 4) + 2, 153)
    month = (months + 2) % 12 + 1
    return years - 4716 + (14 - month) // 12, month, days // 5 + 1


def iso_text(instant: int, calendar: str) -> str:
    """Return an instant as ISO 8601 text: the date alone at midnight, else with the time."""
    number, rest = divmod(instant, DAY)
    year, month, day = date_of(number, calendar)
    text = f"{year:04d}-{month:02d}-{day:02d}"
    if not rest:
        return text
    seconds, fraction = divmod(rest, 10**9)
    text += f"T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:09d}".rstrip("0") if fraction else text


def _julian(calendar: str, early: bool) -> bool:
    return calendar == "julian" or (calendar == "standard" and early)
