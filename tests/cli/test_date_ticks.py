"""Ticks of time axes: round dates of the calendar, as cftime counts them, few and in order."""

from __future__ import annotations

import cftime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.cli.plot_axes import MOST_TICKS, date_text, date_ticks
from hyperslab.model.calendars import CALENDARS

UNITS = {"julian": "seconds since 1969-12-19"} | dict.fromkeys(set(CALENDARS) - {"julian"}, "seconds since 1970-01-01")
"""The instant 0 is 1970-01-01 of the calendar, of the Julian one the same day."""
calendars = st.sampled_from(CALENDARS)
starts = st.floats(-5e10, 5e10)
spans = st.floats(0.5, 11.5).map(lambda power: 10.0**power)


def seconds(calendar: str, *date: int) -> float:
    """Where a date lies, by cftime."""
    return float(cftime.date2num(cftime.datetime(*date, calendar=calendar), UNITS[calendar], calendar))


@given(calendars, starts, spans)
def test_ticks_are_few_and_lie_where_cftime_has_their_dates(calendar: str, start: float, span: float) -> None:
    ticks = date_ticks(start, start + span, calendar)
    assert 1 <= len(ticks) <= MOST_TICKS
    places = [place for place, _ in ticks]
    assert places == sorted(set(places))
    assert start - 1e-3 <= places[0] and places[-1] <= start + span + 1e-3
    date = ""
    for place, text in ticks:
        clock, _, day = text.partition("\n")
        date = day or date
        known = cftime.num2date(round(place), UNITS[calendar], calendar)
        whole = (
            f"{known.year:04d}-{known.month:02d}-{known.day:02d}T{known.hour:02d}:{known.minute:02d}:{known.second:02d}"
        )
        told = f"{date}T{clock}" if date else clock
        assert whole.startswith(told)
        assert set(whole[len(told) :].replace("-01", "")) <= set("T0:")


@pytest.mark.parametrize(
    ("first", "last", "texts"),
    [
        ((1859, 12, 1), (2099, 12, 1), ["1900", "1950", "2000", "2050"]),
        ((2013, 1, 1), (2013, 6, 1), [f"2013-{month:02d}" for month in range(1, 7)]),
        ((2013, 1, 1), (2014, 12, 30), ["2013-01", "2013-07", "2014-01", "2014-07"]),
        ((2013, 2, 20), (2013, 3, 12), ["2013-02-21", "2013-02-26", "2013-03-01", "2013-03-06", "2013-03-11"]),
        ((2013, 1, 1), (2013, 1, 5), [f"2013-01-0{day}" for day in range(1, 6)]),
        ((2013, 1, 1, 3), (2013, 1, 1, 9), [f"0{hour}:00" for hour in range(3, 10)]),
    ],
)
def test_ticks_of_the_days_of_360(first: tuple[int, ...], last: tuple[int, ...], texts: list[str]) -> None:
    found = [text for _, text in date_ticks(seconds("360_day", *first), seconds("360_day", *last), "360_day")]
    assert [text.partition("\n")[0] for text in found] == texts


def test_the_date_stands_below_the_first_time_of_each_day() -> None:
    ticks = date_ticks(20 * 3600.0, 28 * 3600.0, "standard")
    assert [text for _, text in ticks] == ["20:00\n1970-01-01", "22:00", "00:00\n1970-01-02", "02:00", "04:00"]


@pytest.mark.parametrize("calendar", CALENDARS)
def test_the_order_of_the_ends_does_not_matter(calendar: str) -> None:
    assert date_ticks(5e8, -5e8, calendar) == date_ticks(-5e8, 5e8, calendar)


def test_less_than_two_seconds_have_no_ticks() -> None:
    assert date_ticks(0.2, 0.9, "standard") == []
    assert date_text(0.2, "standard") == "1970-01-01"
