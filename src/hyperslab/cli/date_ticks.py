"""Ticks of a time axis in any CF calendar: round dates, as few as fit, with no more text than tells them apart.

Places are instants of :mod:`hyperslab.model.calendars` in seconds, as floats: exact to some microseconds, which no
picture shows.
"""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.model.calendars import DAY, Moment, date_of, iso_text

SECOND = 10**9
MOST = 7

_YEARS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_MONTHS = (1, 2, 3, 6)
_DAYS = (1, 2, 5, 10)
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)

Tick = tuple[float, str]


def date_ticks(first: float, last: float, calendar: str, most: int = MOST) -> list[Tick]:
    """Place and text of at most ``most`` ticks from ``first`` to ``last``; none where these are less than 2 s apart."""
    low, high = round(min(first, last) * SECOND), round(max(first, last) * SECOND)
    for kind in (_clock_ticks, _day_ticks, _month_ticks, _year_ticks):
        found = kind(low, high, calendar, most)
        if found:
            return [(instant / SECOND, text) for instant, text in found]
    return []


def date_text(place: float, calendar: str) -> str:
    """One place as ISO 8601 text, to the second."""
    return iso_text(round(place) * SECOND, calendar)


def _clock_ticks(low: int, high: int, calendar: str, most: int) -> list[tuple[int, str]]:
    """Times of day; the date stands below the first one of each day."""
    for step in (seconds * SECOND for seconds in _SECONDS):
        if (high - low) // step < most:
            instants = range(-(-low // step) * step, high + 1, step)
            found: list[tuple[int, str]] = []
            for before, instant in zip((None, *instants), instants, strict=False):
                date, _, clock = iso_text(instant, calendar).partition("T")
                text = (clock or "00:00:00")[: 8 if step < 60 * SECOND else 5]
                new_day = before is None or before // DAY != instant // DAY
                found.append((instant, f"{text}\n{date}" if new_day else text))
            return found if len(found) > 1 else []
    return []


def _day_ticks(low: int, high: int, calendar: str, most: int) -> list[tuple[int, str]]:
    for step in _DAYS:
        if (high - low) // (step * DAY) >= 2 * most:
            continue
        found = [instant for instant in _days(low, high, calendar, step) if low <= instant <= high]
        if 1 < len(found) <= most:
            return [(instant, iso_text(instant, calendar)) for instant in found]
    return []


def _days(low: int, high: int, calendar: str, step: int) -> Iterator[int]:
    """Midnights of days 1, 1 + step … of each month (of steps over 1 those that are not close to the next month)."""
    for number in range(low // DAY, high // DAY + 1):
        day = date_of(number, calendar)[2]
        if (day - 1) % step == 0 and (step == 1 or day + step // 2 <= 29):
            yield number * DAY


def _month_ticks(low: int, high: int, calendar: str, most: int) -> list[tuple[int, str]]:
    first, last = date_of(low // DAY, calendar)[0], date_of(high // DAY, calendar)[0]
    if last - first > most:
        return []
    for step in _MONTHS:
        months = [(year, number) for year in range(first, last + 1) for number in range(1, 13, step)]
        found = _inside(low, high, [(Moment(year, number), calendar) for year, number in months])
        if 1 < len(found) <= most:
            return [(instant, iso_text(instant, calendar)[:-3]) for instant in found]
    return []


def _year_ticks(low: int, high: int, calendar: str, most: int) -> list[tuple[int, str]]:
    first, last = date_of(low // DAY, calendar)[0], date_of(high // DAY, calendar)[0]
    steps = (unit * thousand for thousand in (1000**power for power in range(8)) for unit in _YEARS)
    step = next((step for step in steps if (last - first) // step < most), None)
    if step is None:
        return []
    years = range(-(-first // step) * step, last + 1, step)
    found = _inside(low, high, [(Moment(year), calendar) for year in years])
    return [(instant, iso_text(instant, calendar)[:-6]) for instant in found]


def _inside(low: int, high: int, moments: list[tuple[Moment, str]]) -> list[int]:
    starts = [moment.start(calendar) for moment, calendar in moments]
    return [start for start in starts if start is not None and low <= start <= high]
