"""The shipped suite and state machine, run against each of our stores."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from hyperslab.errors import ReadOnly, Unsupported
from hyperslab.stores import DirectoryStore, MemoryStore, ZipStore
from hyperslab.stores.base import Buffer, Store
from hyperslab.stores.keys import below, check_key, check_prefix
from hyperslab.stores.wrapped import WrappedStore
from hyperslab.testing.store_machine import store_machine
from hyperslab.testing.stores import StoreTests


class TestDirectoryStore(StoreTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> DirectoryStore:
        return DirectoryStore(tmp_path / "x.zarr")


class TestMemoryStore(StoreTests):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestZipStore(StoreTests):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[ZipStore]:
        store = ZipStore(tmp_path / "x.zip")
        yield store
        store.close()


class TestZipStoreGoingOn(StoreTests):
    """An archive that was closed and is opened again to be changed."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[ZipStore]:
        first = ZipStore(tmp_path / "x.zip")
        first.put("old", b"old")
        first.close()
        store = ZipStore(tmp_path / "x.zip")
        store.delete("old")
        yield store
        store.close()


class _Least(Store):
    """A store with the four methods that one must have; all others are the defaults."""

    def __init__(self) -> None:
        super().__init__("least://")
        self._values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self._values.get(check_key(key))

    def list(self, prefix: str = "") -> Iterator[str]:
        start = below(check_prefix(prefix))
        return iter(sorted(key for key in self._values if key.startswith(start)))

    def put(self, key: str, value: Buffer, *, durable: bool = False) -> None:
        self._values[check_key(key)] = bytes(value)

    def delete(self, key: str, *, durable: bool = False) -> None:
        self._values.pop(check_key(key), None)


class TestLeastStore(StoreTests):
    @pytest.fixture
    def store(self) -> _Least:
        return _Least()


class TestWrappedStore(StoreTests):
    """One that forwards to a store in memory."""

    @pytest.fixture
    def store(self) -> WrappedStore:
        return WrappedStore(MemoryStore())


def test_a_store_that_only_reads_refuses_every_write() -> None:
    class Constant(Store):
        def get(self, key: str) -> bytes | None:
            return b"1" if key == "a" else None

        def list(self, prefix: str = "") -> Iterator[str]:
            return iter(["a"])

    for store, error in ((Constant("x://"), Unsupported), (Constant("x://", read_only=True), ReadOnly)):
        assert store.list_dir() == (["a"], [])
        assert (store.size("a"), store.nbytes_below("")) == (1, 1)
        for write in (
            lambda store=store: store.put("a", b"2"),
            lambda store=store: store.put_many([("a", b"2")]),
            lambda store=store: store.put_if("a", b"2", None),
            lambda store=store: store.put_new([("b", b"2")]),
            lambda store=store: store.touch("a"),
            lambda store=store: store.delete("a"),
            lambda store=store: store.delete_prefix(""),
            lambda store=store: store.move([("a", "b")]),
            lambda store=store: store.rename("a", "b") if store.read_only else store.flush(),
        ):
            with pytest.raises(error):
                write()


class _Scratch(DirectoryStore):
    """A folder that is gone when the store is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp()
        super().__init__(self._folder)

    def close(self) -> None:
        shutil.rmtree(self._folder)


class _ScratchZip(ZipStore):
    """An archive that is gone when the store is closed."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp()
        super().__init__(f"{self._folder}/x.zip")

    def close(self) -> None:
        self.abandon()
        shutil.rmtree(self._folder)


def _machine(make: type[Store]) -> type:
    case = store_machine(make).TestCase
    case.settings = settings(max_examples=25, stateful_step_count=25, parent=settings.default)
    return case


TestDirectoryMachine = _machine(_Scratch)
TestMemoryMachine = _machine(MemoryStore)
TestZipMachine = _machine(_ScratchZip)
TestLeastMachine = _machine(_Least)
