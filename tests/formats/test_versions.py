"""Readers never mix two versions of a shard or file, whenever the writer beside them comes."""

from __future__ import annotations

from typing import Any

import numpy as np
import obstore.store
import pytest

import hyperslab as hs
from hyperslab.errors import Conflict
from hyperslab.formats.bloscpack.chunk_table import TableCache
from hyperslab.stores.memory import MemoryStore
from hyperslab.stores.object import ObjectStore

KINDS = {"zarr3": ("zarr3", "a/c/0/0"), "blaze": ("blaze", None)}


class Appears(MemoryStore):
    """A store where a missing value appears right after its stamp was asked for, and is another one at each request."""

    def __init__(self, key: str, versions: list[bytes]) -> None:
        super().__init__()
        self.changing = key
        self.versions = versions

    def _turn(self, key: str) -> None:
        if key == self.changing and self.versions:
            self.put(key, self.versions.pop(0))

    def stamp(self, key: str) -> Any:
        found = super().stamp(key)
        if found is None:
            self._turn(key)
        return found

    def get_ranges(self, key: str, ranges: Any) -> Any:
        found = super().get_ranges(key, ranges)
        self._turn(key)
        return found


@pytest.mark.parametrize(("name", "key"), KINDS.values(), ids=list(KINDS))
def test_a_shard_that_appears_while_it_is_read(name: str, key: str | None) -> None:
    """None of it, or all of one version: an index of one is not used for the other."""
    made, versions = MemoryStore(), []
    with hs.create(made, name) as root:
        root.create_array("a", (32, 8), "i8", chunks=(4, 8), shards=(32, 8), fill_value=-1)
    for number in (7, 10**15):
        with hs.open_group(made, "r+") as root:
            root["a"][...] = np.arange(256).reshape(32, 8) * number
        found = {place: made.get(place) for place in made.list("")}
        changing = key or max(found, key=lambda place: len(found[place] or b""))
        versions.append(bytes(found[changing] or b""))
    assert len(versions[0]) != len(versions[1])
    store = Appears(changing, versions)
    for place, value in found.items():
        if place != changing and value is not None:
            store.put(place, value)
    cells = hs.open_array(store, path="a", cache_bytes=0, workers=1)[5]
    assert any((cells == wanted).all() for wanted in (np.full(8, -1), *(np.arange(40, 48) * n for n in (7, 10**15))))


class Changing:
    """A file that becomes another one when its stamp is asked for the ``nth`` time."""

    url, size = "x.blp", 0

    def __init__(self, nth: int) -> None:
        self.asked, self.nth = 0, nth

    def stamp(self) -> int:
        self.asked += 1
        return int(self.asked >= self.nth)

    def pread(self, size: int, offset: int) -> bytes:
        return b""

    def close(self) -> None: ...


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_table_is_of_the_version_that_it_is_remembered_for(nth: int) -> None:
    file = Changing(nth)
    tables = TableCache(file, lambda: ("table of", int(file.asked >= file.nth)))  # type: ignore[arg-type, return-value]
    first: Any = tables.get()
    again: Any = tables.refreshed(first)
    assert again == ("table of", int(file.asked >= file.nth))


class NeverRests(MemoryStore):
    """A store where every look at a shard finds another version of it; ``asked``: how often one was looked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.rests = True

    def stamp(self, key: str) -> Any:
        found = super().stamp(key)
        if self.rests or "/c/" not in key:
            return found
        self.asked += 1
        return found, self.asked


@pytest.mark.parametrize("read", [lambda a: a[5], lambda a: a.isel(x=5), lambda a: a.lazy[5].read()])
def test_a_shard_that_is_replaced_all_the_time_is_tried_20_times(read: Any) -> None:
    store = NeverRests()
    with hs.create(store, "zarr3") as root:
        root.create_array("a", data=np.arange(64), chunks=(4,), shards=(32,), dims=("x",))
    array = hs.open_array(store, path="a", cache_bytes=0, workers=1)
    store.rests = False
    with pytest.raises(Conflict, match="all the time"):
        read(array)
    assert store.asked == 2 * 20  # before and after


class NeverRestsInABucket(ObjectStore):
    """A bucket where ranges are always of another version."""

    rests = True

    def __init__(self) -> None:
        super().__init__(obstore.store.MemoryStore(), "memory://")
        self.asked = 0

    def get_ranges_of(self, key: str, ranges: Any, stamp: Any) -> Any:
        if self.rests:
            return super().get_ranges_of(key, ranges, stamp)
        self.asked += 1
        raise Conflict("it is another version by now", key=key)


def test_a_shard_in_a_bucket_is_waited_for_once() -> None:
    store = NeverRestsInABucket()
    with hs.create(store, "zarr3") as root:
        root.create_array("a", data=np.arange(64), chunks=(4,), shards=(32,), dims=("x",))
    array = hs.open_array(store, path="a", cache_bytes=0, workers=1, lock_timeout=0)
    store.rests = False
    with pytest.raises(Conflict):
        array[5]
    assert store.asked == 1
