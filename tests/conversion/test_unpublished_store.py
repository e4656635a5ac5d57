"""A store that is built in place: a store like any other to its writer, nothing to others until it is published."""

from __future__ import annotations

from typing import Any

import pytest

from hyperslab.conversion.staging import UnpublishedStore, parse_documents
from hyperslab.errors import Invalid, StorageError
from hyperslab.stores.keys import UNFINISHED
from hyperslab.stores.memory import MemoryStore
from hyperslab.testing.stores import StoreTests


class TestSealed(StoreTests):
    @pytest.fixture
    def store(self) -> UnpublishedStore:
        return UnpublishedStore(MemoryStore(), {})


def test_documents_are_held_and_cells_are_not() -> None:
    below = MemoryStore()
    store = UnpublishedStore(below)
    store.put("zarr.json", b"1")
    store.put_many([("a/zarr.json", b"2"), ("zarr.json", b"3")])
    below.put(f"{UNFINISHED}/head", b"journal")
    with pytest.raises(Invalid):
        store.put("../zarr.json", b"4")
    documents = store.seal()
    store.put_many([("a/c/0", b"cells"), ("0.0", b"more")])
    assert sorted(below.list()) == [f"{UNFINISHED}/head", "0.0", "a/c/0"]
    assert list(store.list()) == ["0.0", "a/c/0", "a/zarr.json", "zarr.json"]
    assert list(store.list("a")) == ["a/c/0", "a/zarr.json"]
    assert store.list_dir() == (["0.0", "zarr.json"], ["a"])
    assert store.list_dir("a") == (["zarr.json"], ["c"])
    assert (store.get("zarr.json"), store.get("a/c/0"), store.get("b")) == (b"3", b"cells", None)
    again = UnpublishedStore(below, parse_documents(documents))
    assert again.get("a/zarr.json") == b"2"
    again.publish()
    assert list(below.list("a")) == ["a/c/0", "a/zarr.json"]
    assert below.get("zarr.json") == b"3"


def test_what_is_removed_is_not_published() -> None:
    below = MemoryStore()
    store = UnpublishedStore(below)
    for key in ("zarr.json", "a/zarr.json", "a/b/zarr.json", "ab/zarr.json"):
        store.put(key, b"1")
    store.delete_prefix("a")
    store.delete("zarr.json")
    store.seal()
    store.publish()
    assert list(below.list()) == ["ab/zarr.json"]


class _Forgetful(MemoryStore):
    """A store whose medium is at fault: the last bit of what is put is lost."""

    def put(self, key: str, value: bytes | bytearray | memoryview, *, durable: bool = False) -> None:
        super().put(key, bytes(value)[:-1] + bytes([bytes(value)[-1] & 0xFE]), durable=durable)


def test_what_is_not_there_is_an_error() -> None:
    store = UnpublishedStore(_Forgetful(), {"zarr.json": b"{}"})
    with pytest.raises(StorageError, match="not what is read"):
        store.publish()


def test_what_is_held_back_is_told_as_what_is_stored() -> None:
    store = MemoryStore()
    store.put("stored", b"0123456789")
    target: Any = UnpublishedStore(store)
    target.put("held", b"0123456789")
    for key in ("stored", "held"):
        assert target.size(key) == 10
        assert target.get_ranges(key, [(2, 4), (-3, 0), (8, 99)]) == [b"23", b"789", b"89"]
        assert target.stamp(key) == target.stamp(key) is not None
    before = target.stamp("held")
    target.put("held", b"other")
    assert target.stamp("held") != before
    assert (target.size("missing"), target.stamp("missing"), target.get_ranges("missing", [(0, 1)])) == (
        None,
        None,
        None,
    )
