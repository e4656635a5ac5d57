"""``hs.trace()``: what a block costs, in every kind of store, from every thread, within other blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.stores import DirectoryStore, MemoryStore, ZipStore, counting
from hyperslab.testing.stores import in_threads


@pytest.fixture(params=["folder", "memory", "zip"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    kinds = {
        "folder": lambda: DirectoryStore(tmp_path / "x"),
        "memory": MemoryStore,
        "zip": lambda: ZipStore(tmp_path / "x.zip"),
    }
    made = kinds[request.param]()
    yield made
    if isinstance(made, ZipStore):
        made.close()


def test_stores(store: Any) -> None:
    """Each read and write of a value is a request; a miss is one of no bytes."""
    with hs.trace() as cost:
        store.put("a/b", b"12345")
        store.put("c", memoryview(bytes(24)).cast("I", (2, 3)))
    assert (cost.requests, cost.bytes_written, cost.bytes_read) == (2, 29, 0)
    with hs.trace() as cost:
        store.get("a/b")
        store.get("a/none")
    assert (cost.requests, cost.bytes_read) == (2, 5)
    with hs.trace() as cost:
        store.get_ranges("a/b", [(0, 2), (4, 9)])
    assert cost.requests == 1
    assert cost.bytes_read in (3, 5)  # memory has the whole at hand


def test_a_dataset(tmp_path: Path) -> None:
    """Chunks are counted when they are wanted; threads add up."""
    array = hs.create(tmp_path / "x.zarr").create_array("a", shape=(64, 64), chunks=(8, 8), dtype="f8", codec="none")
    with hs.trace() as cost:
        array[...] = np.random.default_rng(1).random((64, 64))
    assert (cost.chunks, cost.requests) == (64, 64 + 1), "the document, to learn whether the array is there still"
    assert cost.bytes_written >= 64 * 64 * 8
    with hs.trace() as outer:
        in_threads(4, lambda: array[:])
        with hs.trace() as inner:
            array[0, 0]
    assert (outer.chunks, inner.chunks) == (4 * 64 + 1, 1)
    assert outer.bytes_read >= 4 * 64 * 64 * 8
    assert outer.requests == 4 * 64 + inner.requests
    assert not counting.traces
    before = repr(outer)
    array[:]
    assert repr(outer) == before
