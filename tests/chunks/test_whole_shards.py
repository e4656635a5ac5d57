"""A shard of which half or more is wanted comes by one request, however many batches decode it; ``plan`` says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import obstore.store
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk
from hyperslab.stores.base import Store
from hyperslab.stores.memory import MemoryStore
from hyperslab.stores.object import ObjectStore

CELLS = np.arange(1, 64 * 64 + 1, dtype="i4").reshape(64, 64)
"""Two shards of 512 chunks of 2 x 2 cells."""


class CountedShards:
    """A store with a ``log`` of what is asked of it for cells, but for what it asks of itself."""

    log: list[str]
    inside = threading.local()

    def _counted(self, key: str, what: str, ask: Callable[..., Any], *arguments: Any, **how: Any) -> Any:
        if "/c/" not in key or getattr(self.inside, "depth", 0):
            return ask(key, *arguments, **how)
        self.log += [what] if what else []
        self.inside.depth = 1
        try:
            return ask(key, *arguments, **how)
        finally:
            self.inside.depth = 0

    def get(self, key: str) -> Any:
        return self._counted(key, "whole", super().get)  # type: ignore[misc]

    def get_into(self, key: str, *arguments: Any) -> Any:
        return self._counted(key, "whole", super().get_into, *arguments)  # type: ignore[misc]

    def size(self, key: str) -> Any:
        return self._counted(key, "", super().size)  # type: ignore[misc]

    def get_ranges(self, key: str, ranges: Any) -> Any:
        return self._counted(key, "ranges", super().get_ranges, ranges)  # type: ignore[misc]

    def get_version(self, key: str, part: Any = None, **how: Any) -> Any:
        what = "whole" if part is None else "ranges"
        return self._counted(key, what, super().get_version, part, **how)  # type: ignore[misc]

    def get_ranges_of(self, key: str, *arguments: Any) -> Any:
        return self._counted(key, "ranges", super().get_ranges_of, *arguments)  # type: ignore[misc]


class CountedMemory(CountedShards, MemoryStore):
    """Under locks."""


class CountedBucket(CountedShards, ObjectStore):
    """With compare-and-swap."""

    def __init__(self) -> None:
        super().__init__(obstore.store.MemoryStore(), "memory://")


STORES: dict[str, Callable[[], Any]] = {"locks": CountedMemory, "bucket": CountedBucket}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Store:
    made: Any = STORES[request.param]()
    made.log = []
    with hs.create(made, "zarr3") as root:
        root.create_array("a", data=CELLS, chunks=(2, 2), shards=(32, 64), fill_value=0)
    return made  # type: ignore[no-any-return]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("cache", [0, 1 << 20])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    ("key", "requests"),
    [
        (np.s_[:, :], 2),
        (np.s_[:32, :], 1),
        (np.s_[1:31, 1:63], 1),
        (np.s_[:32, ::2], 1),
        (np.s_[::-1, 3::3], 2),
        (np.s_[:32, :32], 1),
    ],
    ids=str,
)
def test_one_request_for_each_shard(store: Any, key: Any, requests: int, workers: int, cache: int) -> None:
    array = hs.open_array(store, path="a", cache_bytes=cache, workers=workers)
    store.log = []
    np.testing.assert_array_equal(array[key], CELLS[key])
    assert store.log == ["whole"] * requests
    assert array.plan(key).requests == requests
    np.testing.assert_array_equal(array[key], CELLS[key])


def test_less_than_half_of_a_shard_comes_by_its_index_and_parts(store: Any) -> None:
    array = hs.open_array(store, path="a", cache_bytes=0, workers=1)
    store.log = []
    key = np.s_[:12, :]  # 192 chunks, which three batches take
    np.testing.assert_array_equal(array[key], CELLS[key])
    assert array.plan(key).requests == len(store.log) == 1 + 3


def test_a_shard_that_does_not_fit_into_memory_comes_in_parts(store: Any) -> None:
    array = hs.open_array(store, path="a", cache_bytes=0, workers=1, memory_limit=32 * 64 * 4 - 1)
    store.log = []
    key = np.s_[:32, :62]
    np.testing.assert_array_equal(array[key], CELLS[key])
    assert "whole" not in store.log
    assert array.plan(key).requests == len(store.log) == 1 + 8


def test_blocks_are_kept_under_the_version_that_they_are_of(store: Any) -> None:
    array, expected = hs.open_array(store, path="a", workers=2), CELLS.copy()
    key = np.s_[1:63, 1:63]
    for number in range(3):
        np.testing.assert_array_equal(array[key], expected[key])
        with hs.open_group(store, "r+") as root:
            root["a"][1, 1] = root["a"][40, 7] = expected[1, 1] = expected[40, 7] = -number
    np.testing.assert_array_equal(array[key], expected[key])


def test_what_was_fetched_is_let_go(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hyperslab.chunks import execute

    made: list[Any] = []

    class Seen(execute._SharedFetch):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(execute, "_SharedFetch", Seen)
    threads = threading.active_count()  # other tests of this process leave pools
    array = hs.open_array(store, path="a", cache_bytes=0, workers=3)
    np.testing.assert_array_equal(array[...], CELLS)
    assert [each._fetched for each in made] == [None, None]
    assert threading.active_count() - threads < 20


def test_a_damaged_shard_names_its_key(store: Any) -> None:
    data = bytearray(store.get("a/c/1/0"))
    data[-1] ^= 1
    store.put("a/c/1/0", bytes(data))
    array = hs.open_array(store, path="a", cache_bytes=0, workers=2)
    with pytest.raises(CorruptChunk, match="index of the shard") as caught:
        array[...]
    assert caught.value.key == "a/c/1/0"
