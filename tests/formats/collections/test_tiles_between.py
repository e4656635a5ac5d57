"""Readers and writers of several tiles, one between any two operations of the other; writers who die between any two.

Whoever reads sees the old cells or the new ones, never some of each, and never the old ones again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import obstore.store
import pytest
from tiled import JOURNAL, Between, Stopper, aside, dies, made, opened, tiles_of

from hyperslab.array import Array
from hyperslab.errors import Conflict
from hyperslab.formats.collections.own.tile_transaction import parse_journal
from hyperslab.stores.buckets import wrapped
from hyperslab.stores.memory import MemoryStore

OLD = np.arange(1, 65, dtype="i4").reshape(8, 8)
NEW = -OLD
MIDDLE = np.s_[2:6, 2:6]


def all_new(array: Array) -> None:
    array[...] = NEW


def middle_new(array: Array) -> None:
    array[MIDDLE] = NEW[MIDDLE]


def left_cleared(array: Array) -> None:
    array[:, :6] = 0


def after(change: Callable[[Array], None]) -> np.ndarray[Any, Any]:
    """The old cells with a change."""
    cells: Any = OLD.copy()
    change(cells)
    return cells


def is_new(found: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> bool:
    """Whether a whole read saw the change; a mixture fails."""
    if (found == new).all():
        return True
    np.testing.assert_array_equal(found, OLD)
    return False


CHANGES = [all_new, middle_new, left_cleared]


@pytest.mark.covering
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("durable", [False, True])
def test_a_reader_between_any_two_operations_of_a_writer(store: Any, change: Any, durable: bool) -> None:
    """Whole, by tile and by cell; each reader is fresh, and one has been there all the time."""
    new, seen = after(change), []
    made(store)[...] = OLD
    steady = opened(store)

    def look(operation: str, key: str) -> None:
        whole = is_new(opened(store)[...], new)
        assert is_new(steady[...], new) == whole
        for one in (np.s_[0, 0], np.s_[0:4, 4:8], np.s_[4, 3], np.s_[5:8, 5:8]):
            np.testing.assert_array_equal(steady[one], (new if whole else OLD)[one])
            np.testing.assert_array_equal(opened(store)[one], (new if whole else OLD)[one])
        stored = set(opened(store)._cells.source.stored_coords())
        assert stored == {tuple(place // 2) for place in np.argwhere(new if whole else OLD)}
        seen.append(whole)

    change(opened(Between(store, look), workers=1, durable=durable))
    assert seen == sorted(seen)
    assert seen.count(False) > 3
    assert seen.count(True) >= (2 if len(tiles_of(store)) else 1)
    assert is_new(steady[...], new)


@pytest.mark.covering
@pytest.mark.parametrize("key", [np.s_[...], MIDDLE, np.s_[0, :], np.s_[[1, 6], [1, 6]], np.s_[::-5, ::5]])
def test_a_writer_between_any_two_operations_of_a_reader(store: Any, key: Any) -> None:
    """It starts again, and again when another write comes."""
    for cache_bytes in (0, 1 << 20):
        at = 1
        while True:
            made(store)[...] = OLD
            writer, stopper = opened(store), Stopper(at, lambda: all_new(writer))  # noqa: B023
            reader = opened(Between(store, stopper), cache_bytes=cache_bytes)
            reader[0:2, 0:2], reader[4, 4]
            found = reader[key]
            assert (found == NEW[key]).all() or (found == OLD[key]).all()
            if stopper.count < at:
                break
            at += 1
        assert at > 6


def is_pending(store: Any) -> bool:
    data = store.get(JOURNAL)
    entry = None if data is None else parse_journal(data, JOURNAL)
    return entry is not None and entry.pending


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("key", [np.s_[...], np.s_[0, 0], np.s_[4:, 4:]])
def test_what_lies_aside_is_moved_between_any_two_operations_of_a_reader(store: Any, change: Any, key: Any) -> None:
    """A writer died after its commit, and another one settles it while a reader reads aside."""
    new, at, settled = after(change), 1, True
    while settled:
        made(store)[...] = OLD
        died = 1
        while not is_pending(store):
            assert dies(died, store, change)
            died += 1
        stopper = Stopper(at, lambda: opened(store).__setitem__((4, 4), new[4, 4]))
        reader = opened(Between(store, stopper), cache_bytes=0)
        np.testing.assert_array_equal(reader[key], new[key])
        settled = stopper.count >= at
        assert is_pending(store) != settled
        at += 1
    assert at > 4


def test_writes_over_other_tiles_do_not_make_a_reader_start_again() -> None:
    """Nor one that shares a single tile with what is read; two writes, of which only the last is told, do."""
    store = MemoryStore()
    made(store)[...] = OLD
    writer = opened(store)

    def restarts(*changes: Any) -> bool:
        """Whether a read of the upper tiles reads the first one again when these writes come after it."""
        asked: list[str] = []

        def hook(operation: str, key: str) -> None:
            asked.append(key)
            if key == "a/c/0/1" and asked.count(key) == 1:
                for change in changes:
                    writer[change] = writer[change] + 1

        opened(Between(store, hook), cache_bytes=0, workers=1)[:4]
        return "a/c/0/0" in asked[asked.index("a/c/0/1") :]

    upper, lower, left, cell = np.s_[:2, :], np.s_[4:, :], np.s_[:, :2], np.s_[0, 0]
    assert [restarts(each) for each in (cell, lower, left, upper)] == [False, False, False, True]
    assert restarts(lower, left)
    assert not restarts(cell, lower, cell)


def test_a_reader_that_never_comes_to_an_end_keeps_writers_waiting() -> None:
    """After some attempts, if it may; one that may not gives up after the timeout."""
    store = MemoryStore()
    made(store)[...] = OLD
    refused = []

    def change(operation: str, key: str) -> None:
        if operation == "get_ranges" or (operation == "get_into" and key == "a/c/1/1"):
            try:
                opened(store, lock_timeout=0.0)[...] = OLD + len(refused)
            except Conflict:
                refused.append(key)

    found = opened(Between(store, change), cache_bytes=0, workers=1)[...]
    np.testing.assert_array_equal(found, OLD)
    assert refused

    class Reads(Between):
        read_only = True

    with pytest.raises(Conflict, match="all the time"):
        opened(Reads(store, change), cache_bytes=0, workers=1, lock_timeout=0.05)[...]


def state(store: Any) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list()}


@pytest.mark.sampled(0)
@pytest.mark.covering
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("durable", [False, True])
def test_a_writer_who_dies_between_any_two_operations(store: Any, change: Any, durable: bool) -> None:
    """Old or new for everybody; the next writer, of one tile or of several, waits for nobody and leaves all settled."""

    def one(array: Array) -> None:
        array[0, 7] = 99

    def across(array: Array) -> None:
        array[3:5, :] = 98

    for following in (one, across, lambda array: array.append(OLD[:1])):
        at, died, outcomes = 1, True, set()
        while died:
            for key in list(store.list()):
                store.delete(key)
            made(store)[...] = OLD
            died = dies(at, store, change)
            new = is_new(opened(store)[...], after(change))
            outcomes.add(new)
            expected = after(change) if new else OLD.copy()
            for cell in ((0, 0), (0, 7), (7, 0), (7, 7)):
                assert opened(store)[cell] == expected[cell]
            array = opened(store, lock_timeout=0.5, durable=durable)
            following(array)
            if following in (one, across):
                following(expected)
            np.testing.assert_array_equal(opened(store)[:8], expected)
            entry = store.get(JOURNAL)
            assert entry is None or not parse_journal(entry, JOURNAL).pending
            array[...] = 5
            assert (opened(store)[...] == 5).all()
            assert aside(store) == []
            at += 1
        assert outcomes == {False, True}
        assert at > 8


def test_two_writers_over_tiles_that_they_share(store: Any) -> None:
    """What the second begins in the midst of the first waits for it; both are there afterwards."""
    made(store)[...] = OLD
    waited = []

    def other(operation: str, key: str) -> None:
        if operation in ("move", "put"):
            with pytest.raises(Conflict):
                opened(store, lock_timeout=0.0)[3:5, 3:5] = 7
            waited.append(key)

    opened(Between(store, other), workers=1)[0:5, :] = 6
    assert len(waited) >= 9
    opened(store)[3:5, 3:5] = 7
    expected = OLD.copy()
    expected[:5] = 6
    expected[3:5, 3:5] = 7
    np.testing.assert_array_equal(opened(store)[...], expected)


def test_what_a_write_costs_in_a_bucket() -> None:
    """Requests of a read and a write over four tiles, beside those for the tiles themselves."""
    store = wrapped(obstore.store.MemoryStore())
    made(store)[...] = OLD
    asked: list[str] = []

    def count(operation: str, key: str) -> None:
        if not key.startswith("a/c") and key != "a/zarr.json":
            asked.append(f"{operation} {key}")

    array = opened(Between(store, count), cache_bytes=0)
    array[0, 0]
    asked.clear()
    array[...]
    assert len(asked) == 2
    asked.clear()
    array[0, 0]
    assert len(asked) == 1
    asked.clear()
    array[...] = NEW
    assert sum(JOURNAL in each for each in asked) <= 4
