"""The journal: what is written down is found again, what is damaged or may be lost in a power cut is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.conversion.journal import ConversionJournal
from hyperslab.stores.memory import MemoryStore

HEAD = {"journal": 1, "source": "a.nc"}


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _reopened(store: MemoryStore, prefix: str = "", **more: Any) -> ConversionJournal:
    journal = ConversionJournal(store, prefix, **more)
    journal.load()
    return journal


@pytest.mark.parametrize("prefix", ["", ".hidden"])
def test_what_was_noted_is_done(prefix: str) -> None:
    store = MemoryStore()
    journal = ConversionJournal(store, prefix)
    assert (journal.head(), journal.documents()) == (None, None)
    journal.begin(HEAD)
    assert (journal.head(), journal.documents()) == (HEAD, None)
    journal.documents_written([["zarr.json", "e30="]])
    for number in (0, 1, 3):
        journal.add_box(("g/a", (2,), number))
    journal.add_box(("b", (), 0))
    journal.write()
    found = _reopened(store, prefix)
    assert found.documents() == [["zarr.json", "e30="]]
    done = found.finished_boxes("g/a", (2,), (9,))
    assert done is not None and done.tolist() == [True, True, False, True, False]
    whole = found.finished_boxes("b", (), ())
    assert whole is not None and whole.shape == () and whole
    assert found.finished_boxes("other", (2,), (9,)) is None
    found.end()
    assert list(store.list()) == []


def test_a_second_run_adds_to_the_first() -> None:
    store = MemoryStore()
    first = ConversionJournal(store)
    first.begin(HEAD)
    first.add_box(("a", (1,), 0))
    first.write()
    second = _reopened(store)
    second.add_box(("a", (1,), 2))
    second.write()
    done = _reopened(store).finished_boxes("a", (1,), (4,))
    assert done is not None and done.tolist() == [True, False, True, False]
    second.begin(HEAD)
    assert _reopened(store).finished_boxes("a", (1,), (4,)) is None


@given(st.data())
def test_other_boxes_are_done_when_all_their_chunks_are(data: st.DataObject) -> None:
    chunks = tuple(data.draw(st.lists(st.integers(1, 9), max_size=3)))
    before = tuple(data.draw(st.integers(1, 4)) for _ in chunks)
    after = tuple(data.draw(st.integers(1, 4)) for _ in chunks)
    boxes = tuple(-(-size // count) for size, count in zip(chunks, before, strict=True))
    numbers = data.draw(st.sets(st.integers(0, int(np.prod(boxes, dtype=int)) - 1), min_size=1))
    store = MemoryStore()
    journal = ConversionJournal(store)
    for number in numbers:
        journal.add_box(("a", before, number))
    journal.write()
    done = _reopened(store).finished_boxes("a", after, chunks)
    assert done is not None
    owners = np.arange(int(np.prod(boxes, dtype=int))).reshape(boxes)
    for place in np.ndindex(done.shape):
        inside = np.ndindex(*(min(n, size - i * n) for i, n, size in zip(place, after, chunks, strict=True)))
        cells = [tuple(i * n + j for i, n, j in zip(place, after, cell, strict=True)) for cell in inside]
        held = [owners[tuple(i // n for i, n in zip(cell, before, strict=True))] in numbers for cell in cells]
        assert done[place] == all(held)


def test_damage_counts_as_not_done() -> None:
    store = MemoryStore()
    journal = ConversionJournal(store)
    journal.begin(HEAD)
    journal.add_box(("a", (1,), 0))
    journal.write()
    journal.add_box(("a", (1,), 1))
    journal.write()
    value = store.get("done-00000001")
    assert value is not None
    for damaged in (value[:-3], b"", value[:12] + bytes([value[12] ^ 1]) + value[13:]):
        store.put("done-00000001", damaged)
        done = _reopened(store).finished_boxes("a", (1,), (3,))
        assert done is not None and done.tolist() == [False, True, False]
    store.put("head", b"half")
    assert ConversionJournal(store).head() is None


def test_after_a_power_cut_only_what_was_synced_counts() -> None:
    store, clock, synced = MemoryStore(), Clock(), []
    journal = ConversionJournal(store, sync=lambda: synced.append(clock()), clock=clock, boot="monday")
    journal.begin(HEAD)
    for number in range(80):
        clock.now += 0.1
        journal.add_box(("a", (1,), number))
    journal.write()
    assert synced == [pytest.approx(5.0, abs=0.2)]
    same = _reopened(store, sync=lambda: None, boot="monday").finished_boxes("a", (1,), (100,))
    assert same is not None and same.sum() == 80
    other = _reopened(store, sync=lambda: None, boot="tuesday").finished_boxes("a", (1,), (100,))
    assert other is not None and 45 <= other.sum() <= 55 and other[: other.sum()].all()


def test_few_records_hold_much() -> None:
    store, clock = MemoryStore(), Clock()
    journal = ConversionJournal(store, clock=clock)
    for number in range(100_000):
        clock.now += 0.01
        journal.add_box(("a", (1,), number))
    journal.write()
    assert len(store.list_dir("")[0]) < 1000
    done = _reopened(store).finished_boxes("a", (1,), (100_000,))
    assert done is not None and done.all()
