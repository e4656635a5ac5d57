"""Folders that are no dataset are not walked without a bound, and not into other file systems."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.zarr.node_search import MOST_FOLDERS, NodeSearch
from hyperslab.stores import MemoryStore, WrappedStore
from hyperslab.stores.location import Location


class WatchedStore(WrappedStore):
    """Notes the folders that are listed; ``mounts``: those of other file systems."""

    def __init__(self, store: MemoryStore, mounts: Sequence[str] = ()) -> None:
        super().__init__(store)
        self.listed: list[str] = []
        self.mounts = mounts

    def list_dir(self, prefix: str = "") -> tuple[Sequence[str], Sequence[str]]:
        self.listed.append(prefix)
        return super().list_dir(prefix)

    def is_mount(self, folder: str) -> bool:
        return folder in self.mounts


def filled(store: MemoryStore, name: str, count: int) -> MemoryStore:
    """The store with so many folders below one, each with a value, none of which is a document."""
    for number in range(count):
        store.put(f"{name}/{number // 50}/{number}/value", b"x")
    return store


def with_array(store: MemoryStore, path: str) -> MemoryStore:
    made = MemoryStore()
    with hs.create(made, "zarr3") as root:
        root.create_array("a", data=np.arange(3))
    for key in made.list():
        store.put(f"{path}/{key}", made.get(key) or b"")
    return store


def test_a_folder_of_anything_is_given_up() -> None:
    store = WatchedStore(with_array(filled(MemoryStore(), "junk", 2 * MOST_FOLDERS), "z.zarr"))
    with pytest.raises(FormatError, match="1,000 folders of it were looked at"):
        hs.open(store)
    assert len(store.listed) < 3 * MOST_FOLDERS  # by each format that looks


def test_a_folder_of_datasets_and_other_things_is_walked_up_to_the_bound(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    for name in ("b", "c", "d", "e"):
        filled(store, name, MOST_FOLDERS * 2 // 3)
    watched = WatchedStore(with_array(with_array(with_array(store, "a.zarr"), "deep/er/x.zarr"), "z.zarr"))
    with caplog.at_level(logging.WARNING, "hyperslab"), hs.open_group(watched) as root:
        assert sorted(root) == ["a.zarr", "z.zarr"]  # what has a document is found; "deep" is behind the bound
        assert [int(cell) for cell in root["z.zarr/a"][...]] == [0, 1, 2]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1 and "folders were looked at for zarr.json, and no more are" in told[0]
    assert len(watched.listed) < 2 * MOST_FOLDERS


def test_many_groups_without_documents_are_no_folders_in_vain() -> None:
    store = MemoryStore()
    for number in range(MOST_FOLDERS // 2):
        with_array(store, f"g{number}/inner/deep")
    with hs.open_group(store) as root:
        assert sum("inner/deep/a" in root[name] for name in root) == MOST_FOLDERS // 2


def test_other_file_systems_are_not_looked_into() -> None:
    store = WatchedStore(with_array(with_array(MemoryStore(), "proc/1"), "z"), mounts=["proc", "z/proc"])
    assert NodeSearch.of(store, ["zarr.json"]).holds_nodes("")
    assert "proc" not in store.listed and "proc/1" not in store.listed
    assert not NodeSearch.of(store, ["zarr.json"]).holds_nodes("proc")
    with hs.open_group(store) as root:
        assert list(root) == ["z"]


def test_a_folder_of_datasets_says_which_are_of_other_formats(tmp_path: Path) -> None:
    for name, format in (("a.zarr", "zarr3"), ("b.zarr", "zarr2"), ("c.nc", "netcdf")):
        hs.save(tmp_path / "mixed" / name, np.arange(3), format=format)
    (tmp_path / "mixed" / "notes.txt").write_text("of anything")
    for mode in ("r", "r+"):
        with hs.open_group(tmp_path / "mixed", mode) as root:
            lines = [line.partition(" !! ") for line in root.tree().splitlines()]
            assert [line[4:] for line, _, why in lines if why.startswith("not shown: a dataset")] == ["b.zarr", "c.nc"]
    with pytest.raises(Unsupported, match=r"/b\.zarr: a dataset of another format"):
        hs.convert(tmp_path / "mixed", tmp_path / "copy.zarr")
    report = hs.convert(tmp_path / "mixed", tmp_path / "copy.zarr", allow_loss=True)
    assert [loss.node for loss in report.losses] == ["b.zarr", "c.nc"]
    with hs.open_group(tmp_path / "copy.zarr") as root:
        assert list(root) == ["a.zarr"] and "not shown" not in root.tree()


@pytest.mark.skipif(not os.path.ismount("/proc"), reason="needs /proc")
def test_a_folder_knows_its_mounts(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert Location.of("/").store(read_only=True).is_mount("proc")
    here = Location.of(tmp_path).store(read_only=True)
    assert not here.is_mount("plain") and not here.is_mount("missing") and not here.is_mount("")
