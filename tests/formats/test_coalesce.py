"""Few requests give the same bytes as many."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hyperslab.stores.ranges import fetch_coalesced, merge

DATA = bytes(range(256)) * 4

spans = st.tuples(st.integers(0, 900), st.integers(0, 120))
ranges = st.lists(spans.map(lambda span: (span[0], sum(span))), max_size=12)


@given(ranges)
def test_the_bytes_are_those_of_single_requests(wanted):
    found = fetch_coalesced(lambda merged: [DATA[start:stop] for start, stop in merged], wanted)
    assert [bytes(part) for part in found] == [DATA[start:stop] for start, stop in wanted]


@given(ranges, st.integers(0, 50))
def test_merged_ranges_are_ascending_and_apart(wanted, gap):
    merged = merge(wanted, gap)
    assert all(after[0] > before[1] + gap for before, after in pairwise(merged))


def test_nothing_is_there():
    assert fetch_coalesced(lambda merged: None, [(0, 4)]) is None


def test_neighbours_are_one_request():
    assert merge([(8, 16), (0, 8), (16, 20)], gap=0) == [(0, 20)]
