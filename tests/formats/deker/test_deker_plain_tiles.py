"""Tiles that are found and read by the shortest way give what the long one gives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from deker_arrays import START, TILED, make, new, read, reopen, write

from hyperslab.errors import StorageError
from hyperslab.formats.collections.deker import links
from hyperslab.formats.collections.deker.folder import data_path, tile_folder
from hyperslab.formats.collections.deker.store import DekerCollectionStore
from permissions import unreadable

COORDS = (1, 0)
CELLS = np.arange(48, dtype=np.int32).reshape(8, 6)


@pytest.fixture
def holding(tmp_path: Path) -> DekerCollectionStore:
    return make(tmp_path / "store", TILED)


def _whole(holding: DekerCollectionStore) -> tuple[str, Path, Path]:
    """An array of eight tiles; the folder of the link of one of them, and its file."""
    id = new(holding, {"dt": START})
    write(holding, id, CELLS, slice(0, 8), slice(0, 6))
    folder = Path(holding.folder.path, tile_folder(id, COORDS))
    (link,) = folder.iterdir()
    return id, folder, Path(holding.folder.path, data_path("array", link.stem))


def _as_it_is(folder: Path, file: Path) -> None:
    pass


def _another_name(folder: Path, file: Path) -> None:
    (folder / "README").touch()


def _only_another_name(folder: Path, file: Path) -> None:
    (folder / file.name).rename(folder / "README")


def _nothing(folder: Path, file: Path) -> None:
    (folder / file.name).unlink()


def _no_folder(folder: Path, file: Path) -> None:
    _nothing(folder, file)
    folder.rmdir()


def _no_file(folder: Path, file: Path) -> None:
    file.unlink()


def _a_folder(folder: Path, file: Path) -> None:
    file.unlink()
    file.mkdir()


def _moved_within(folder: Path, file: Path) -> None:
    file.rename(file.with_name("moved"))
    file.symlink_to(file.with_name("moved"))


def _moved_out(folder: Path, file: Path) -> None:
    outside = folder.parents[5] / "outside"
    file.parent.rename(outside)
    file.parent.symlink_to(outside)


def _links_out(folder: Path, file: Path) -> None:
    outside = folder.parents[5] / "links"
    folder.rename(outside)
    folder.symlink_to(outside)


WAYS = [_as_it_is, _another_name, _only_another_name, _nothing, _no_folder]
WAYS += [_no_file, _a_folder, _moved_within, _moved_out, _links_out]


@pytest.mark.parametrize("change", WAYS)
def test_a_tile_is_found_by_the_shortest_way_or_not_at_all(
    holding: DekerCollectionStore, change: Callable[[Path, Path], None]
) -> None:
    id, folder, file = _whole(holding)
    change(folder, file)
    root, place = holding.folder.path, tile_folder(id, COORDS)
    followed = [links.follow(root, "array", place, each) for each in links.linked_ids(root, "array", place)]
    assert links.plain_file(root, "array", place) in (None, *followed)
    assert (links.plain_file(root, "array", place) == str(file)) == (change is _as_it_is)


def _in_place(file: Path) -> None:
    with h5py.File(file, "r+", locking=False) as opened:
        opened["data"][...] = 7
    os.utime(file, ns=(1, 1))  # whatever the clock of the file system is


def _cut_into_chunks(file: Path) -> None:
    with h5py.File(file, "r+", locking=False) as opened:
        del opened["data"]
        opened.create_dataset("data", data=np.full((2, 3), 7, ">i4"), chunks=(1, 2))


def _longer_before(file: Path) -> None:
    """The cells lie elsewhere in the file."""
    text = h5py.File(file, locking=False)["meta"][()]
    file.unlink()
    with h5py.File(file, "w", libver="earliest") as opened:
        opened["meta"] = np.array(text, "S4000")
        opened["empty_cells"] = np.int64(0)
        opened["data"] = np.full((2, 3), 7, np.int32)


@pytest.mark.parametrize("change", [_in_place, _cut_into_chunks, _longer_before])
def test_a_tile_that_was_read_is_read_as_it_is_now(
    holding: DekerCollectionStore, change: Callable[[Path], None]
) -> None:
    id, _, file = _whole(holding)
    for _ in range(2):
        np.testing.assert_array_equal(read(holding, id), CELLS)
        np.testing.assert_array_equal(read(holding, id, slice(2, 4), slice(0, 3)), CELLS[2:4, :3])
    change(file)
    expected = CELLS.copy()
    expected[2:4, :3] = 7
    np.testing.assert_array_equal(read(holding, id), expected)
    np.testing.assert_array_equal(read(holding, id, slice(2, 4), slice(0, 3)), expected[2:4, :3])


@pytest.mark.parametrize("whole", [True, False])
def test_a_folder_that_may_not_be_read_is_an_error_of_ours(holding: DekerCollectionStore, whole: bool) -> None:
    id, folder, _ = _whole(holding)
    rows = slice(2, 4) if whole else slice(2, 3)
    with unreadable(folder), pytest.raises(StorageError) as raised:
        read(holding, id, rows, slice(0, 3))
    assert raised.value.url == str(folder)


def test_tiles_that_others_replace_and_remove(holding: DekerCollectionStore, tmp_path: Path) -> None:
    id, _, _ = _whole(holding)
    np.testing.assert_array_equal(read(holding, id), CELLS)
    other, expected = reopen(tmp_path / "store"), CELLS.copy()
    write(other, id, np.full((2, 3), 5, np.int32), slice(2, 4), slice(0, 3))
    expected[2:4, :3] = 5
    np.testing.assert_array_equal(read(holding, id), expected)
    write(other, id, np.full((2, 3), -1, np.int32), slice(2, 4), slice(0, 3))
    expected[2:4, :3] = -1
    np.testing.assert_array_equal(read(holding, id), expected)
