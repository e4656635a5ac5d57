"""The shipped suite and state machine, run against each of our stores."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from hyperslab.stores import DirectoryStore, MemoryStore, ZipStore
from hyperslab.stores.base import WritableStore
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


def _machine(make: type[WritableStore]) -> type:
    case = store_machine(make).TestCase
    case.settings = settings(max_examples=25, stateful_step_count=25, parent=settings.default)
    return case


TestDirectoryMachine = _machine(_Scratch)
TestMemoryMachine = _machine(MemoryStore)
TestZipMachine = _machine(_ScratchZip)
