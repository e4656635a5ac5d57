"""Tiles in a real S3 server: against NumPy, what requests cost, writers beside one another and writers that die."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tiled import JOURNAL, aside, dies, made, opened

import hyperslab as hs
from hyperslab.formats.collections.own.tile_transaction import parse_journal
from hyperslab.stores.buckets import open_objects
from servers.s3 import S3

OLD = np.arange(1, 65, dtype="i4").reshape(8, 8)


@pytest.fixture
def url(s3: S3) -> str:
    return f"s3://{s3.bucket()}/root"


def store_of(url: str, s3: S3) -> Any:
    return open_objects(url, s3.options, read_only=False)


def test_round_trip(url: str, s3: S3) -> None:
    store, expected = store_of(url, s3), OLD.copy()
    array = made(store, durable=True)
    array[...] = OLD
    for seed in range(12):
        rng = np.random.default_rng(seed)
        key = tuple(slice(*sorted(rng.integers(0, 9, 2))) for _ in range(2))
        array[key] = expected[key] = rng.integers(0, 2) * seed
        np.testing.assert_array_equal(opened(store_of(url, s3))[...], expected)
    array.append(OLD[:3])
    np.testing.assert_array_equal(opened(store)[8:], OLD[:3])
    assert aside(store) == []


def test_requests(url: str, s3: S3) -> None:
    """A read of four tiles asks the journal twice besides; one of a cell asks it once."""
    store = store_of(url, s3)
    made(store)[...] = OLD
    array = opened(store_of(url, s3), cache_bytes=0)
    with hs.trace() as cost:
        np.testing.assert_array_equal(array[...], OLD)
    assert (cost.requests, cost.chunks) == (6, 16)
    with hs.trace() as cost:
        assert array[0, 0] == 1
    assert cost.requests == 3
    with hs.trace() as cost:
        array[...] = 5
    assert cost.requests <= 24


@pytest.mark.sampled(0)
def test_writers_beside_one_another(url: str, s3: S3) -> None:
    """Each through a store of its own, over several tiles and over one; a reader meanwhile sees whole writes."""
    made(store_of(url, s3))[...] = np.zeros((8, 8), "i4")

    def write(number: int) -> None:
        array = opened(store_of(url, s3), lock_timeout=60.0)
        for rounds in range(1, 6):
            if number == 3:
                array[7, rounds] = rounds
            else:
                array[1:7, 1:7] = 10 * rounds + number

    def read(number: int) -> int:
        array, seen = opened(store_of(url, s3), lock_timeout=60.0), set()
        while 50 not in {value - value % 10 for value in seen}:
            cells = array[1:7, 1:7]
            assert (cells == cells[0, 0]).all(), cells
            seen.add(int(cells[0, 0]))
        return len(seen)

    with ThreadPoolExecutor(4) as threads:
        reader = threads.submit(read, 0)
        list(threads.map(write, (1, 2, 3)))
        assert reader.result() > 1
    array = opened(store_of(url, s3))
    assert array[7, 1:6].tolist() == [1, 2, 3, 4, 5]
    assert array[3, 3] in (51, 52)


@pytest.mark.sampled(0)
def test_writers_that_die(url: str, s3: S3) -> None:
    """Between any two requests: old or new, and the next writer settles it."""
    store, outcomes, at, died = store_of(url, s3), set(), 1, True
    while died:
        made(store)[...] = OLD
        died = dies(at, store, lambda array: array.__setitem__(np.s_[2:6, 2:8], 7))
        found = opened(store_of(url, s3))[...]
        new = bool((found[2:6, 2:8] == 7).all())
        assert (found[2:6, 2:8] == (7 if new else OLD[2:6, 2:8])).all()
        outcomes.add(new)
        opened(store_of(url, s3))[0, 0] = 8
        found[0, 0] = 8
        np.testing.assert_array_equal(opened(store)[...], found)
        entry = parse_journal(store.get(JOURNAL), JOURNAL)
        assert entry is not None
        assert not entry.pending
        at += 3 if at < 12 else 1
    assert outcomes == {False, True}
    opened(store)[...] = 5
    assert aside(store) == []
