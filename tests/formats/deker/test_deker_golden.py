"""The store that DEKER wrote equals its truth: with links that lead nowhere and with right ones, on read-only media."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import golden_deker
import numpy as np
import pytest
from deker_arrays import QUICK, kinds, read, reopen

from hyperslab.formats.collections.deker.store import LAYOUT
from hyperslab.formats.metadata_json import records
from hyperslab.stores.location import Location

MOVED = {"moved-link"}


@pytest.fixture(scope="module", params=["dangling", "absolute", "relative"])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    return golden_deker.unpack(folder, relink=request.param != "dangling", relative=request.param == "relative")


def _cases() -> Iterator[Any]:
    for name in golden_deker.collections():
        for array in golden_deker.arrays(name):
            extended = np.dtype(array["dtype"].removeprefix("numpy.")).char in "gG"
            lacks = extended and not golden_deker.EXTENDED
            yield pytest.param(
                name, array, id=f"{name}-{array['id'][:8]}", marks=[pytest.mark.skipif(lacks, reason="")]
            )


@pytest.mark.covering
@pytest.mark.parametrize(("name", "array"), list(_cases()))
def test_cells_and_attributes_are_the_truth(root: Path, name: str, array: dict[str, Any]) -> None:
    holding = reopen(root, name, writable=False)
    truth = golden_deker.truth(array)
    found = read(holding, array["id"])
    assert found.dtype == truth.dtype
    assert np.array_equal(found, truth, equal_nan=True)
    part = tuple(slice(1, length, 2) for length in truth.shape)
    assert np.array_equal(read(holding, array["id"], *part), truth[part], equal_nan=True)
    record = holding.record(array["id"])
    said = records.record_to_json(record, updated=" " in str(array["custom_attributes"].get("cd")))
    assert said["primary_attributes"] == array["primary_attributes"]
    assert said["custom_attributes"] == array["custom_attributes"]
    if record.primary:
        assert holding.id_of(tuple(record.primary.values())) == array["id"]


def test_every_collection_and_array_is_listed(root: Path) -> None:
    assert LAYOUT.names(Location.of(root)) == golden_deker.collections()
    for name in golden_deker.collections():
        holding = reopen(root, name, writable=False)
        assert set(holding.list_part("")) == {array["id"] for array in golden_deker.arrays(name)}
        assert holding.document.as_dict == golden_deker.manifest()["collections"][name]["as_dict"]


def test_nothing_is_wrong_but_links_of_another_place(root: Path) -> None:
    found = {kind for name in golden_deker.collections() for kind in kinds(reopen(root, name), deep=True)}
    assert found <= {*MOVED, "relative-link", "no-lock-file"}


def test_relinked_links_are_those_that_deker_follows(tmp_path: Path) -> None:
    root = golden_deker.unpack(tmp_path)
    for name in golden_deker.collections():
        holding = reopen(root, name)
        assert holding.relink() > 0
        assert holding.relink() == 0
        assert kinds(holding, deep=True) == []
    links = [path for path in root.rglob("*") if path.is_symlink()]
    assert len(links) == 51
    assert all(os.readlink(link).startswith(str(root)) and link.exists() for link in links)


def test_read_only_media_are_read(tmp_path: Path) -> None:
    root = golden_deker.unpack(tmp_path)
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    folders = [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]
    for folder in folders:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        for name in golden_deker.collections():
            holding = reopen(root, name, writable=False)
            for record in holding.records(holding.list_part("")):
                read(holding, record.id)
        assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before
    finally:
        for folder in folders:
            folder.chmod(stat.S_IRWXU)


def test_a_reader_makes_no_file(tmp_path: Path) -> None:
    root = golden_deker.unpack(tmp_path)
    before = sorted(root.rglob("*"))
    holding = reopen(root, "tiles_i64", writable=False, settings=QUICK)
    for id in holding.list_part(""):
        read(holding, id)
    list(holding.find_damage(deep=True))
    assert sorted(root.rglob("*")) == before
