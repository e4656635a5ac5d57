"""Which labels of new rows are there already, and where."""

from __future__ import annotations

from typing import Any

import cftime
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.array.row_labels import Repeated, check_order, check_other_labels, find_repeated, repeated_runs
from hyperslab.errors import Invalid


@given(st.lists(st.integers(0, 20), unique=True), st.lists(st.integers(0, 20), unique=True))
def test_labels_are_found_as_by_a_look_at_all(stored: list[int], labels: list[int]) -> None:
    places = find_repeated("x", np.array(stored, "i8"), np.array(labels, "i8"), "overwrite")
    assert places.tolist() == [stored.index(each) if each in stored else -1 for each in labels]
    written = {}
    for mine, theirs in repeated_runs(places):
        assert mine.stop - mine.start == theirs.stop - theirs.start > 0
        written.update(zip(range(mine.start, mine.stop), range(theirs.start, theirs.stop), strict=True))
    assert written == {row: place for row, place in enumerate(places.tolist()) if place >= 0}


def test_the_error_names_the_label_and_the_remedy() -> None:
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "M8[D]")
    with pytest.raises(
        Invalid, match="'time' has the label 2026-01-02 already, and 1 more of the 3 that come"
    ) as caught:
        find_repeated("time", days, days + np.timedelta64(1, "D"), "error")
    assert "overwrite" in str(caught.value)
    assert find_repeated("time", days, days + np.timedelta64(3, "D"), "error").tolist() == [-1, -1, -1]
    with pytest.raises(Invalid, match="error, allow, overwrite"):
        find_repeated("time", days, days, "replace")  # type: ignore[arg-type]


def test_labels_that_new_rows_repeat_among_themselves() -> None:
    """An error, as labels that are there, unless such are stored."""
    stored, twice = np.array([1, 2]), np.array([3, 4, 3, 5, 4])
    choices: tuple[Repeated, ...] = ("error", "overwrite")
    for repeated in choices:
        with pytest.raises(Invalid, match=r"repeat the label 3 of 'x', and 1 more.*repeated='allow'"):
            find_repeated("x", stored, twice, repeated)
    assert find_repeated("x", stored, twice, "allow").tolist() == [-1] * 5
    assert find_repeated("x", np.array([1, 1]), twice, "error").tolist() == [-1] * 5
    missing = np.array(["2026-01-01", "NaT", "NaT"], "M8[D]")
    assert find_repeated("x", missing[:0], missing, "error").tolist() == [-1] * 3
    mixed = np.array([1, "a", 1], object)
    assert find_repeated("x", mixed[:0], mixed, "error").tolist() == [-1] * 3


def test_labels_that_are_of_other_kinds_are_not_there() -> None:
    words = np.array(["a", "b"], object)
    assert find_repeated("x", words, np.array(["b", "c"], object), "allow").tolist() == [1, -1]
    assert find_repeated("x", words, np.array([1, 2]), "error").tolist() == [-1, -1]
    nan = np.array([1.0, np.nan])
    assert find_repeated("x", nan, np.array([np.nan]), "error").tolist() == [-1]
    assert find_repeated("x", nan[:0], nan, "error").tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("stored", "labels", "are_times", "is_refused"),
    [
        ([1, 2], [3, 4], False, False),
        ([1, 2], [4, 3], False, True),
        ([2, 1], [0], True, False),
        ([2, 1], [3], True, True),
        ([1, 3, 2], [0], True, False),  # in no order
        ([1, 1], [2], True, False),
        ([1, 1], [0], True, True),
        ([5], [6], True, False),
        ([5], [4], True, True),
        ([5], [6, 7], True, False),
        ([5], [7, 6], True, True),
        ([5], [4, 3], True, True),
        ([1000.0], [850.0], False, False),  # levels and latitudes may fall
        ([1000.0], [850.0, 700.0], False, False),
        ([1000.0], [700.0, 850.0], False, True),
        ([17], [4, 9, 2], False, False),  # numbers of stations
        (["Oban"], ["Lerwick", "Ulm"], False, False),
        ([np.nan], [1.0], True, False),
        ([], [2, 1], True, False),
        ([5], [], True, False),
    ],
)
def test_labels_go_on_in_order(stored: list[Any], labels: list[Any], are_times: bool, is_refused: bool) -> None:
    new = np.array(labels, np.array(stored).dtype)
    if is_refused:
        with pytest.raises(Invalid, match=r"'x' would no longer be sorted.*repeated='allow'"):
            check_order("x", np.array(stored), new, are_times=are_times)
    else:
        check_order("x", np.array(stored), new, are_times=are_times)


@pytest.mark.parametrize("labels", [np.array([5.0]), np.array([5]), np.array(["a"]), np.array(["a"], "T")])
def test_labels_that_cannot_be_compared_are_in_no_order(labels: np.ndarray) -> None:
    times = np.array(["2020-01-01", "2020-01-02"], "M8[ns]")
    for stored, new in ((times, labels), (np.array(["a", "b"], "T"), times)):
        with pytest.raises(Invalid, match="'x' would no longer be sorted"):
            check_order("x", stored, new, are_times=True)


def test_times_of_two_calendars_are_other_labels() -> None:
    times = [[kind(2021, 1, day) for day in (1, 2)] for kind in (cftime.Datetime360Day, cftime.DatetimeNoLeap)]
    stored, labels = (np.array(each, object) for each in times)
    check_other_labels("time", stored, stored.copy(), ["time"])
    with pytest.raises(Invalid, match="the labels of 'time' are not those that are stored"):
        check_other_labels("time", stored, labels, ["time"])
