"""Calendar arithmetic against cftime, and the text that it reads and writes."""

from __future__ import annotations

import cftime
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.model.calendars import (
    CALENDARS,
    DAY,
    Moment,
    calendar_name,
    date_of,
    day_number,
    iso_text,
    parse_moment,
    unit_length,
)

EPOCHS = ["1970-01-01", "1900-03-01", "1-1-1", "2000-02-28 12:00:00", "1582-10-15"]


@pytest.mark.parametrize("calendar", CALENDARS)
@pytest.mark.parametrize("epoch", EPOCHS)
def test_days_since_an_epoch_are_cftimes(calendar: str, epoch: str) -> None:
    start = parse_moment(epoch).start(calendar)
    for number in np.random.default_rng(1).integers(-700_000, 900_000, 300).tolist():
        year, month, day = date_of(number, calendar)
        assert day_number(year, month, day, calendar) == number
        if year > 0:
            date = cftime.datetime(year, month, day, calendar=calendar)
            seconds = int(cftime.date2num(date, f"seconds since {epoch}", calendar=calendar))
            assert number * DAY - start == seconds * 10**9


@given(st.integers(-4000 * 365, 4000 * 365), st.sampled_from(CALENDARS))
def test_dates_follow_one_another(number: int, calendar: str) -> None:
    today, tomorrow = date_of(number, calendar), date_of(number + 1, calendar)
    assert today < tomorrow
    assert day_number(*today, calendar) == number


@pytest.mark.parametrize(
    ("year", "month", "day", "calendar"),
    [
        (2001, 2, 29, "standard"),
        (1900, 2, 29, "standard"),
        (2000, 2, 29, "noleap"),
        (2000, 1, 31, "360_day"),
        (1582, 10, 10, "standard"),
        (2001, 2, 30, "all_leap"),
    ],
)
def test_dates_that_a_calendar_has_not(year: int, month: int, day: int, calendar: str) -> None:
    assert Moment(year, month, day).start(calendar) is None


@pytest.mark.parametrize(
    ("year", "month", "day", "calendar"),
    [(1500, 2, 29, "standard"), (1900, 2, 29, "julian"), (2001, 2, 29, "all_leap"), (2001, 2, 30, "360_day")],
)
def test_dates_that_only_some_calendars_have(year: int, month: int, day: int, calendar: str) -> None:
    start = Moment(year, month, day).start(calendar)
    assert date_of(start // DAY, calendar) == (year, month, day)


@pytest.mark.parametrize(
    ("text", "shown", "resolution"),
    [
        ("2013", "2013-01-01", "year"),
        ("2013-02", "2013-02-01", "month"),
        ("2013-02-05", "2013-02-05", "day"),
        ("2013-02-05T12", "2013-02-05T12:00:00", "hour"),
        ("2013-02-05 12:30Z", "2013-02-05T12:30:00", "minute"),
        ("2013-02-05T23:30:01+02:00", "2013-02-05T21:30:01", "second"),
        ("2013-02-05T23:30:01-0130", "2013-02-06T01:00:01", "second"),
        ("2013-02-05 12:30:01.25", "2013-02-05T12:30:01.25", "instant"),
        ("20130205", "2013-02-05", "day"),
        ("20130205T1230", "2013-02-05T12:30:00", "minute"),
        ("1-1-1 0:0:0", "0001-01-01", "second"),
        ("1900-01-01 00:00:0.0", "1900-01-01", "instant"),
        ("1992-10-8 15:15:42.5 -6:00", "1992-10-08T21:15:42.5", "instant"),
        ("1970-01-01 00:00:00 UTC", "1970-01-01", "second"),
    ],
)
def test_text_of_times(text: str, shown: str, resolution: str) -> None:
    moment = parse_moment(text)
    assert moment.resolution == resolution
    assert iso_text(moment.start("proleptic_gregorian"), "proleptic_gregorian") == shown


@pytest.mark.parametrize("text", ["", "x", "2013-13", "2013-00-01", "2013-01-00", "2013-01-01T25", "2013-1-1T1:60"])
def test_text_that_is_no_time(text: str) -> None:
    assert parse_moment(text) is None


@pytest.mark.parametrize(
    ("text", "calendar", "days"),
    [
        ("2012", "standard", 366),
        ("2012", "noleap", 365),
        ("2013", "all_leap", 366),
        ("2013", "360_day", 360),
        ("2012-02", "standard", 29),
        ("1900-02", "julian", 29),
        ("2012-02", "360_day", 30),
        ("2012-12", "standard", 31),
        ("1582-10", "standard", 21),
        ("2012-02-03", "standard", 1),
    ],
)
def test_periods_last_until_the_next_one(text: str, calendar: str, days: int) -> None:
    moment = parse_moment(text)
    assert moment.stop(calendar) - moment.start(calendar) == days * DAY


@pytest.mark.parametrize(
    ("unit", "calendar", "length"),
    [
        ("days", "standard", DAY),
        ("Hours", "standard", DAY // 24),
        ("s", "standard", 10**9),
        ("microseconds", "noleap", 1000),
        ("weeks", "julian", 7 * DAY),
        ("months", "360_day", 30 * DAY),
        ("year", "noleap", 365 * DAY),
        ("common_years", "standard", 365 * DAY),
        ("months", "standard", 31_556_925_974_678_400 // 12),
        ("fortnight", "standard", None),
        ("m", "standard", None),
    ],
)
def test_lengths_of_units(unit: str, calendar: str, length: int | None) -> None:
    assert unit_length(unit, calendar) == length


def test_spellings_of_calendars() -> None:
    assert [calendar_name(name) for name in (None, "gregorian", "365_day", "366_day", "Standard", "lunar")] == [
        "standard",
        "standard",
        "noleap",
        "all_leap",
        "standard",
        None,
    ]
