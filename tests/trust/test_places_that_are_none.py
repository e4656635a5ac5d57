"""Places that hold no dataset, and documents that lead nowhere: errors of the house that say what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import hyperslab as hs
from hyperslab.errors import FormatError, HyperslabError, Invalid, NotFound


@pytest.mark.parametrize("opening", [hs.open, lambda url: xr.open_dataset(url, engine="hyperslab"), hs.check])
def test_a_path_that_leads_to_nothing_is_a_missing_file(tmp_path: Path, opening: Any) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        opening(str(tmp_path / "none.zarr"))
    assert isinstance(caught.value, NotFound) and isinstance(caught.value, KeyError)


def test_a_pipe_is_told_as_such(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HyperslabError, match="pipe"):
        hs.open(tmp_path / "pipe")


@pytest.mark.parametrize("obj", [np.arange(3), xr.Dataset({"a": ("x", [1, 2])})])
def test_save_says_what_replaces(tmp_path: Path, obj: Any) -> None:
    with pytest.raises(Invalid, match="mode='w'"):
        hs.save(tmp_path / "x.zarr", obj, overwrite=True)


@pytest.mark.parametrize(
    "document",
    [
        b'{"version": 1, "refs": {"a/\xff": "x"}}',
        b'{"version": 1, "refs": {".zgroup": "{\\"zarr_format\\":2}", "a": "\xff\xfe"}}',
        b'{"version": 1, "refs": {".zgroup": ["a\\u0000b", 0, 4]}}',
        b'{"version": 1, "refs": {".zgroup": ["a\\ud83d", 0, 4]}}',
        b'{"version": 1, "refs": {".zgroup": ["http://h/a\\u0000b"]}}',
    ],
)
def test_references_of_no_text(tmp_path: Path, document: bytes) -> None:
    (tmp_path / "x.json").write_bytes(document)
    with pytest.raises(FormatError):
        hs.open(tmp_path / "x.json")
    with pytest.raises(FormatError):
        hs.check(tmp_path / "x.json")


class OtherStore(zarr.storage.MemoryStore):
    """A store as another library makes it."""


OtherStore.__module__ = "icechunk.store"


def test_a_kind_of_zarrs_store_that_another_library_makes(tmp_path: Path) -> None:
    store = OtherStore()
    zarr.create_array(store, shape=(4,), dtype="i4", chunks=(2,))[:] = 7
    found: Any = hs.open(store)
    assert found[...].tolist() == [7] * 4
    with hs.open_group(OtherStore(), "x", format="zarr3") as root:
        root["a"] = np.arange(3)


@pytest.mark.parametrize("suffix", [".nc", ".blp", ".zarr.zip"])
def test_a_place_below_a_file_names_the_file_and_the_path(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"f{suffix}"
    other = tmp_path / "other.zarr"
    for place in (file, other):
        hs.save(place, xr.Dataset({"t": ("x", np.arange(3))}))
    before = file.read_bytes()
    for mode in ("r", "r+", "a", "w", "x"):
        with pytest.raises(NotFound, match=rf"f{suffix} is a file, and no folder .*; open it with path='g/t'$"):
            hs.open(file / "g/t", mode)
    for making in (hs.create, lambda place: hs.save(place, np.arange(3)), lambda place: hs.convert(other, place)):
        with pytest.raises(NotFound, match=r"is a file, and no folder .*; open it with path='t'$"):
            making(file / "t")
    assert file.read_bytes() == before


@pytest.mark.parametrize("form", ["zarr2", "zarr3"])
def test_a_place_within_an_array_names_the_array(tmp_path: Path, form: str) -> None:
    with hs.create(tmp_path / "x.zarr", form) as root:
        root.create_array("g/t", data=np.arange(8.0).reshape(2, 2, 2), codec=None)
    array = tmp_path / "x.zarr/g/t"
    inside = ["c", "c/0", "c/0/0/0", "zarr.json"] if form == "zarr3" else [".zarray", ".zattrs", "0.0.0"]
    for name in filter(lambda name: (array / name).exists(), inside):
        with pytest.raises(FormatError, match=rf"lies within the array {array} .*; open that$"):
            hs.open(array / name)
    for name in ("zarr.json", ".zgroup"):
        if (tmp_path / "x.zarr" / name).exists():
            with pytest.raises(FormatError, match=r"is a document of the dataset \S*x.zarr .*; open that$"):
                hs.open(tmp_path / "x.zarr" / name)
    for mode in ("a", "w", "x"):
        with pytest.raises(Invalid, match="within the array"):
            hs.open(array / "new", mode)
    assert not (array / "new").exists()


def test_only_who_named_a_mode_is_told_of_another(tmp_path: Path) -> None:
    place = tmp_path / "none.zarr"
    readers = (hs.open, lambda url: xr.open_dataset(url, engine="hyperslab"), lambda url: hs.convert(url, "b.zarr"))
    for reading in readers:
        with pytest.raises(NotFound, match=r"; check the spelling$"):
            reading(place)
    with pytest.raises(NotFound, match=r"; check the spelling, or make it with mode='a'$"):
        hs.open(place, "r+")


def test_a_pattern_where_one_dataset_is_wanted(tmp_path: Path) -> None:
    hs.create(tmp_path / "a.zarr").close()
    with pytest.raises(NotFound, match="patterns join datasets that are read; here name one"):
        hs.check(tmp_path / "*.zarr")
