"""Readers never mix two versions of a shard or file, whenever the writer beside them comes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.formats.bloscpack.chunk_table import TableCache
from hyperslab.stores.memory import MemoryStore

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
