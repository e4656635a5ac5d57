"""Ranges of longitudes across the seam of an axis: equal to a search of every cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.selection.circle import Circle, add_turns


def axis(size: int, start: float, direction: int, wrapped: bool) -> np.ndarray:
    """Longitudes of a whole circle; ``wrapped``: each within 0 to 360, so that the axis may jump."""
    labels = start + direction * np.arange(size) * (360 / size)
    return labels % 360 if wrapped else labels


def search(labels: np.ndarray, start: float, stop: float, direction: int) -> list[tuple[int, float]]:
    """Every cell of which some number of turns lies in the range, less than one turn long, in its order."""
    while (stop - start) * direction < 0:
        stop += direction * 360
    found = {}
    for turn in range(-6, 7):
        for place, label in enumerate(labels):
            at = (label + 360 * turn - start) * direction
            if -1e-7 <= at <= (stop - start) * direction + 1e-7 and at < 360 - 1e-7:
                found[place] = (at, 360.0 * turn)
    return [(place, turn) for place, (_, turn) in sorted(found.items(), key=lambda pair: pair[1])]


@given(
    size=st.integers(2, 48),
    start=st.integers(-400, 400),
    direction=st.sampled_from([1, -1]),
    wrapped=st.booleans(),
    low=st.integers(-1440, 1440),
    high=st.integers(-1440, 1440),
)
def test_a_range_is_a_search_of_every_cell(
    size: int, start: int, direction: int, wrapped: bool, low: int, high: int
) -> None:
    labels = axis(size, start, direction, wrapped)
    circle = Circle.of(labels)
    if circle is None:  # two cells opposite to one another go either way
        assert size == 2
        return
    positions, shifts = circle.between(low / 4, high / 4)
    if circle.direction == direction:
        assert list(zip(positions.tolist(), shifts.tolist(), strict=True)) == search(
            labels, low / 4, high / 4, direction
        )
    steps = np.diff(labels[positions] + shifts) * circle.direction
    assert (steps > 0).all()
    assert np.unique(positions).size == positions.size


@given(size=st.integers(3, 48), start=st.integers(-400, 400), label=st.integers(-1440, 1440), wrapped=st.booleans())
def test_a_label_is_turned_to_its_nearest_cell(size: int, start: int, label: int, wrapped: bool) -> None:
    labels = axis(size, start, 1, wrapped)
    circle = Circle.of(labels)
    assert circle is not None
    turned = circle.turned(label / 4)
    assert (turned - label / 4) % 360 == pytest.approx(0, abs=1e-9)
    around = np.abs((labels - label / 4 + 180) % 360 - 180)
    assert np.abs(labels - turned).min() == pytest.approx(around.min(), abs=1e-9)


@pytest.mark.parametrize(
    "labels",
    [
        [0.0, 120, 120, 240],
        [0.0, np.nan, 180],
        [5.0],
        np.zeros((2, 2)),
        np.arange(0, 720, 10.0),
    ],
)
def test_what_does_not_go_around_is_no_circle(labels: object) -> None:
    assert Circle.of(np.asarray(labels)) is None


@pytest.mark.parametrize(
    ("labels", "start", "stop", "needs"),
    [
        (np.arange(225.0, 316, 10), -130.0, -100.0, True),  # nothing as it is written, cells by a turn
        (np.arange(225.0, 316, 10), 200.0, 240.0, False),  # cut at the end of the region
        (np.arange(225.0, 316, 10), -200.0, 600.0, False),
        (np.arange(225.0, 316, 10), 300.0, 240.0, False),  # bounds that were interchanged
        (np.arange(315.0, 224, -10), -100.0, -130.0, True),
        (np.arange(315.0, 224, -10), -130.0, -100.0, False),
        (np.arange(-20.0, 41, 10), 350.0, 20.0, True),  # west of Greenwich, counted to 360
        (np.arange(-20.0, 41, 10), 50.0, 10.0, False),
        (np.array([340.0, 350, 0, 10]), 340.0, 10.0, True),  # a jump within
    ],
)
def test_the_ranges_of_a_region_that_need_turns(labels: np.ndarray, start: float, stop: float, needs: bool) -> None:
    circle = Circle.of(labels)
    assert circle is not None
    assert not circle.is_whole
    assert circle.needs_turns(start, stop) is needs


@pytest.mark.parametrize(("start", "stop"), [(165.0, 195.0), (-10.0, 10.0), (10.0, 350.0), (-170.0, 170.0)])
def test_a_range_that_ascends_is_none_across_the_seam_of_labels_that_descend(start: float, stop: float) -> None:
    circle = Circle.of(np.arange(340.0, -1, -20))
    assert circle is not None
    assert circle.is_whole
    assert not circle.needs_turns(start, stop)
    assert circle.needs_turns(10.0, -20.0)
    assert not circle.needs_turns(195.0, 165.0)


def test_columns_that_are_repeated_come_once() -> None:
    labels = np.append(np.arange(0, 360, 10.0), [360.0, 370.0])  # as ocean models have them
    circle = Circle.of(labels)
    assert circle is not None
    positions, shifts = circle.between(340.0, 20.0)
    assert (labels[positions] + shifts).tolist() == [340, 350, 360, 370, 380]
    assert circle.is_whole
    assert not circle.needs_turns(0.0, 370.0)
    assert circle.needs_turns(-10.0, 10.0)


def test_radians() -> None:
    circle = Circle.of(np.deg2rad(np.arange(0, 360, 45.0)), 2 * np.pi)
    assert circle is not None
    positions, shifts = circle.between(-np.pi / 4, np.pi / 4)
    assert positions.tolist() == [7, 0, 1]
    assert np.allclose(shifts, [-2 * np.pi, 0, 0])


@pytest.mark.parametrize(("kind", "wanted"), [("i2", "i8"), ("f4", "f4"), ("f8", "f8")])
def test_turns_keep_whole_numbers_whole(kind: str, wanted: str) -> None:
    bounds = add_turns(np.array([[350, 355], [0, 5]], kind), np.array([-360.0, 0.0]))
    assert bounds.dtype == wanted and bounds.tolist() == [[-10, -5], [0, 5]]
