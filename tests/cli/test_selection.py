"""The text syntax of selections."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.cli.arguments import parse_selections, parse_value
from hyperslab.errors import Invalid


@pytest.mark.parametrize(
    ("text", "by_label", "value"),
    [
        ("3", False, 3),
        ("-1", False, -1),
        ("50.0", True, 50.0),
        ("-7.5e1", True, -75.0),
        ("2013-01-01", True, "2013-01-01"),
        ("2013-01", True, "2013-01"),
        ("@850", True, 850),
        ("@2013", True, 2013),
        ("@'2013'", True, "2013"),
        ("'3'", True, "3"),
        ("Lerwick", True, "Lerwick"),
        ("50.0..40.0", True, slice(50.0, 40.0, None)),
        ("1..5", False, slice(1, 5, None)),
        ("1..9..2", False, slice(1, 9, 2)),
        ("..", False, slice(None, None, None)),
        ("..5", False, slice(None, 5, None)),
        ("40.0..", True, slice(40.0, None, None)),
        ("2013-01..2013-03", True, slice("2013-01", "2013-03", None)),
        ("2013-01-01T00:00..2013-01-02T12:00..3", True, slice("2013-01-01T00:00", "2013-01-02T12:00", 3)),
        ("2013-01-01 06:00", True, "2013-01-01 06:00"),
        ("1:5", False, slice(1, 5, None)),
        ("::2", False, slice(None, None, 2)),
        ("40.0:50.0", True, slice(40.0, 50.0, None)),
        ("'a:b'..'c..d'", True, slice("a:b", "c..d", None)),
        ("@850..@500", True, slice(850, 500, None)),
        ("-0.5..-0.25", True, slice(-0.5, -0.25, None)),
    ],
)
def test_values(text: str, by_label: bool, value: Any) -> None:
    assert parse_value(text) == (by_label, value)


@pytest.mark.parametrize("text", ["time", "=3", "time=", "t=1..2..3..4", "t=1..2.5", "t=1..5..0", "t=1..5..x"])
def test_nonsense_is_refused_with_the_syntax(text: str) -> None:
    with pytest.raises(Invalid, match=r"\S"):
        parse_selections([text])


def test_a_dimension_is_named_once() -> None:
    with pytest.raises(Invalid, match="twice"):
        parse_selections(["t=1", "t=2"])


def test_sorted_by_meaning() -> None:
    selection = parse_selections(["t=1", "lat=50.0"])
    assert (selection.isel, selection.sel) == ({"t": 1}, {"lat": 50.0})


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_any_two_floats_make_a_range(a: float, b: float) -> None:
    assert parse_value(f"{a!r}..{b!r}") == (True, slice(a, b, None))


@given(st.text(st.characters(exclude_characters="'"), min_size=1))
def test_quoted_text_is_that_word(word: str) -> None:
    assert parse_value(f"'{word}'") == (True, word)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("0:5", r"'0:5' names no dimension; write the dimension, too: time=0\.\.5 "),
        ("3..", r"'3\.\.' names no dimension; write the dimension, too: time=3\.\. "),
        ("c=0,1", r"'c=0,1' lists positions; a selection is one range: c=0\.\.2 "),
        ("c=5,3", r"'c=5,3' lists positions; a selection is one range: c=3\.\.6 "),
    ],
)
def test_what_other_tools_take_is_told_how_it_is_written(typed: str, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        parse_selections([typed])
    assert parse_selections(['c="0,1"']).sel == {"c": "0,1"}
