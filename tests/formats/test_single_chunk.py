"""Arrays in one piece: read, fitted to a new shape, found damaged, held against other writers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperslab.errors import Conflict, CorruptChunk, Unsupported
from hyperslab.formats.authoring import PLAIN, SingleChunkArray, whole_wish
from hyperslab.formats.base import Feature
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import ArraySpec
from hyperslab.stores import DirectoryStore, MemoryStore
from hyperslab.stores.base import Store


def spec_of(*shape: int) -> ArraySpec:
    return ArraySpec(shape=shape, dtype=np.dtype("<i2"), chunks=shape, fill_value=-1)


def whole(store: Any, spec: ArraySpec) -> SingleChunkArray:
    def decode(stored: bytes) -> Any:
        return np.frombuffer(stored, "<i2").reshape(spec.shape)

    return SingleChunkArray(spec, store, "g/v.raw", decode, lambda cells: cells.tobytes(), durable=False)


def test_cells_come_back_and_what_was_never_stored_is_nothing() -> None:
    array = whole(MemoryStore(), spec_of(2, 3))
    assert (array.read((0, 0)), array.nbytes_stored(), array.stamp((0, 0))) == (None, 0, None)
    array.write((0, 0), np.arange(6, dtype="<i2").reshape(2, 3))
    before = array.stamp((0, 0))
    found = array.read((0, 0))
    assert found is not None and found.tolist() == [[0, 1, 2], [3, 4, 5]]
    array.erase((0, 0))
    found = array.read((0, 0))
    assert found is not None and (found == -1).all()
    assert array.stamp((0, 0)) != before
    assert (array.nbytes_stored(), array.stored_sizes([(0, 0)]), array.stored_sizes([])) == (12, 12, 0)


@pytest.mark.parametrize("shape", [(4, 2), (1, 5), (0, 3), (2, 3)])
def test_another_shape_keeps_the_cells_that_are_in_both(shape: tuple[int, int]) -> None:
    store, cells = MemoryStore(), np.arange(6, dtype="<i2").reshape(2, 3)
    whole(store, spec_of(2, 3)).write((0, 0), cells)
    expected = np.full(shape, -1, "<i2")
    common = tuple(slice(0, min(pair)) for pair in zip(shape, cells.shape, strict=True))
    expected[common] = cells[common]
    old = SingleChunkArray(spec_of(2, 3), store, "g/v.raw", lambda stored: cells, lambda block: block.tobytes())
    SingleChunkArray(spec_of(*shape), store, "g/v.raw", old.decode, old.encode).fit(before=old.spec)
    assert store.get("g/v.raw") == expected.tobytes()


def test_a_new_array_is_all_fill_values() -> None:
    store = MemoryStore()
    whole(store, spec_of(3)).fit(before=None)
    assert store.get("g/v.raw") == np.full(3, -1, "<i2").tobytes()


@pytest.mark.parametrize("stored", [b"", b"12345", bytes(10)])
def test_damage_names_the_file(stored: bytes) -> None:
    store = MemoryStore()
    store.put("g/v.raw", stored)
    with pytest.raises(CorruptChunk) as caught:
        whole(store, spec_of(2, 3)).read((0, 0))
    assert caught.value.key == "g/v.raw"


def test_cells_of_another_type_than_was_said_are_damage() -> None:
    store = MemoryStore()
    store.put("g/v.raw", b"x")
    array = SingleChunkArray(spec_of(2), store, "g/v.raw", lambda stored: np.zeros(2, "<f8"), lambda cells: b"")
    with pytest.raises(CorruptChunk, match="another shape or type"):
        array.read((0,))


def test_it_is_held_against_other_writers(tmp_path: Path) -> None:
    store, other = DirectoryStore(tmp_path), DirectoryStore(tmp_path)
    with whole(store, spec_of(2)).lock([(0,)], 1.0):
        with pytest.raises(Conflict), whole(other, spec_of(2)).lock([(0,)], 0.0):
            pass
        beside = SingleChunkArray(spec_of(2), other, "g/w.raw", np.frombuffer, bytes)
        with beside.lock([(0,)], 0.0):
            pass


class Least(Store):
    """A store that can do what a dataset needs and no more."""

    def __init__(self) -> None:
        super().__init__("least://")
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def put(self, key: str, value: Any, *, durable: bool = False) -> None:
        self.values[key] = bytes(value)

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter(sorted(self.values))


def test_a_store_that_locks_and_stamps_nothing_serves_too() -> None:
    array = whole(Least(), spec_of(2))
    array.erase((0,))
    with array.lock([(0,)], None):
        assert array.nbytes_stored() == 4
    assert array.stamp((0,)) != array.stamp((0,))


def test_wishes() -> None:
    made = whole_wish(spec_of(5, 0).evolve(chunks=(2, 2)), "mine")
    assert (made.chunks, made.codecs) == ((5, 1), ())
    with pytest.raises(Unsupported, match="mine has no cells of type"):
        whole_wish(spec_of(5).evolve(dtype=VlenString()), "mine")
    assert Feature.CHUNKS not in PLAIN and Feature.UNLIMITED in PLAIN
