"""Groups of times as slices that lie side by side."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.array.periods import find_lanes, group_times


def groups_of(lanes):
    """Return the positions of each group that slices side by side stand for."""
    found = []
    for side_by_side in lanes:
        columns = [range(10**6)[lane] for lane in side_by_side]
        found += [list(group) for group in zip(*columns, strict=True)]
    return found


@given(st.lists(st.integers(0, 5), max_size=40))
def test_lanes_hold_each_position_once(keys):
    owners = np.array([list(dict.fromkeys(keys)).index(key) for key in keys], np.intp)
    assert groups_of(find_lanes(owners)) == [np.flatnonzero(owners == each).tolist() for each in range(len({*keys}))]


@pytest.mark.parametrize(
    ("step", "count", "by", "expected"),
    [
        ("1D", 730, {"by": "day"}, [[(0, 365, 1), (365, 730, 1)]]),
        ("6h", 16, {"every": "day"}, [[(0, 13, 4), (1, 14, 4), (2, 15, 4), (3, 16, 4)]]),
        ("1h", 48, {"by": "hour"}, [[(0, 24, 1), (24, 48, 1)]]),
        ("1D", 4, {"every": "day"}, [[(0, 4, 1)]]),
    ],
)
def test_lanes_of_regular_times(step, count, by, expected):
    number, unit = int(step[:-1]), step[-1]
    times = np.datetime64("2001-01-01", "s") + np.arange(count) * np.timedelta64(number, unit)
    lanes = find_lanes(group_times(times.astype("M8[ns]"), 0, **by).owners)
    assert [[(lane.start, lane.stop, lane.step) for lane in each] for each in lanes] == expected


def test_a_leap_day_parts_the_lanes():
    times = np.arange("2003-01-01", "2005-01-01", dtype="M8[D]").astype("M8[ns]")
    owners = group_times(times, 0, by="day").owners
    order = np.unique(owners, return_index=True)[1].argsort().argsort()  # in the order in which they first come
    lanes = find_lanes(order[owners])
    assert [len(each) for each in lanes] == [2, 2, 1]
    assert [len(range(10**6)[each[0]]) for each in lanes] == [59, 306, 1]
