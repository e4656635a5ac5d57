"""What the check of a DEKER collection finds, and what its repair makes of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from deker_arrays import (
    KEY,
    START,
    TILED,
    count_of,
    file_of,
    kinds,
    make,
    new,
    read,
    reopen,
    repair,
    values,
    write,
)

from hyperslab.formats.collections.deker.folder import data_path, tile_folder
from hyperslab.formats.collections.deker.store import DekerCollectionStore
from hyperslab.model.schemas import ArraySchema, DimensionSchema
from hyperslab.model.schemas.arrays import new_id

Damage = Callable[[DekerCollectionStore, str], Any]


def _tile(holding: DekerCollectionStore, id: str, coords: tuple[int, ...]) -> Path:
    (link,) = Path(holding.folder.path, tile_folder(id, coords)).iterdir()
    return file_of(holding, link.stem)


def _copy_tile(holding: DekerCollectionStore, id: str, **key: Any) -> Path:
    """A tile that says it is another one."""
    source, other = _tile(holding, id, (0, 0)), new_id()
    target = Path(holding.folder.path, data_path("array", other))
    target.parent.mkdir(parents=True)
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        said = json.loads(file["meta"][()])
        del file["meta"]
        said["id"] = other
        said["primary_attributes"] |= key
        file.create_dataset("meta", data=np.bytes_(json.dumps(said)))
    return target


def _retype(holding: DekerCollectionStore, id: str) -> None:
    with h5py.File(_tile(holding, id, (1, 1)), "r+") as file:
        cells = file["data"][()]
        del file["data"]
        file.create_dataset("data", data=cells.astype("f8"))


def _touch(place: str, age: float = 7200) -> Damage:
    def damage(holding: DekerCollectionStore, id: str) -> None:
        path = Path(holding.folder.path, place.format(id=id))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (path.stat().st_mtime - age,) * 2)

    return damage


def _second_link(holding: DekerCollectionStore, id: str) -> None:
    folder = Path(holding.folder.path, "varray_symlinks/elsewhere")
    folder.mkdir()
    (folder / f"{id}.json").symlink_to(file_of(holding, id, "varray"))


def _unlink(holding: DekerCollectionStore, id: str) -> None:
    shutil.rmtree(Path(holding.folder.path, "varray_symlinks"))


MENDED: dict[str, tuple[Damage, list[str]]] = {
    "a tile of an array that is gone": (lambda h, id: _copy_tile(h, id, vid=new_id()), ["orphan-tile"]),
    "cells of another type": (_retype, ["wrong-dtype"]),
    "an unfinished write": (_touch("varray_data/.x.0123456789abcdef.tmp"), ["temporary"]),
    "a second link": (_second_link, ["wrong-link"]),
    "no links": (_unlink, ["missing-link"]),
}
TOLD: dict[str, tuple[Damage, list[str]]] = {
    "a tile outside the grid": (lambda h, id: _copy_tile(h, id, v_position=[4, 0]), ["outside-tile"]),
    "a tile of another rank": (lambda h, id: _copy_tile(h, id, v_position=[0]), ["outside-tile"]),
    "two files for one tile": (lambda h, id: _copy_tile(h, id), ["duplicate-tile"]),
    "a file in the wrong folder": (_touch("array_data/x/{id}.hdf5"), ["misplaced-file"]),
    "a tile that says nothing": (lambda h, id: _copy_tile(h, id, vid=None), ["unreadable-tile"]),
}


@pytest.mark.parametrize("case", [*MENDED, *TOLD])
def test_what_is_wrong_is_told_and_mended_without_loss(tmp_path: Path, case: str) -> None:
    holding = make(tmp_path, TILED)
    id = new(holding, {"dt": START})
    truth = values((8, 6), "i4")
    write(holding, id, truth)
    damage, expected = (MENDED | TOLD)[case]
    damage(holding, id)
    assert kinds(holding) == expected
    repair(reopen(tmp_path))
    left = reopen(tmp_path)
    assert kinds(left, deep=True) == (expected if case in TOLD else [])
    assert np.array_equal(read(left, id), truth)
    assert left.id_of((START,)) == id


def test_young_unfinished_writes_are_waited_for(tmp_path: Path) -> None:
    holding = make(tmp_path)
    new(holding, {"k": 1})
    _touch("array_data/.x.0123456789abcdef.tmp", age=0)(holding, "")
    assert kinds(holding) == []


def test_two_arrays_of_one_key_are_told(tmp_path: Path) -> None:
    holding = make(tmp_path)
    first, second = new(holding, {"k": 1}), new(holding, {"k": 2})
    for link in Path(holding.folder.path, "array_symlinks").rglob("*.hdf5"):
        link.unlink()
    path = file_of(holding, second)
    with h5py.File(path, "r+") as file:
        text = file["meta"][()].replace(b'"k": 2', b'"k": 1')
        file["meta"][()] = text
    assert kinds(holding) == ["missing-link", "missing-link"]
    repair(holding)
    assert kinds(holding) == ["duplicate-key"]
    assert holding.id_of((1,)) in (first, second)


def test_a_count_that_drifted_is_a_note_that_a_repair_puts_right(tmp_path: Path) -> None:
    holding = make(tmp_path, ArraySchema([DimensionSchema("x", 10)], float, [KEY]))
    id = new(holding, {"k": 1})
    write(holding, id, [1.0, np.nan, 3.0], slice(0, 3))
    with h5py.File(file_of(holding, id), "r+") as file:
        file["empty_cells"][()] = 10
    assert kinds(holding, deep=True) == []
    notes = [remedy for remedy in holding.find_damage(deep=True) if remedy.is_note]
    assert [note.problem.kind for note in notes] == ["wrong-count"]
    repair(holding)
    assert count_of(file_of(holding, id)) == 8
    assert read(holding, id)[:3].tolist()[::2] == [1.0, 3.0]


def test_a_record_that_lacks_or_has_attributes_is_told(tmp_path: Path) -> None:
    holding = make(tmp_path, TILED)
    id = new(holding, {"dt": START})
    path = file_of(holding, id, "varray")
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "id": new_id(), "custom_attributes": {"more": 1}}))
    assert sorted(kinds(holding)) == ["id", "missing-attribute", "unknown-attribute"]
    assert holding.record(id).custom == {"note": None}


def test_a_file_that_only_its_link_leads_to_is_found_by_key_and_told(tmp_path: Path) -> None:
    holding = make(tmp_path)
    id = new(holding, {"k": 1})
    aside = tmp_path / "aside/below/a.hdf5"
    aside.parent.mkdir(parents=True)
    os.rename(file_of(holding, id), aside)
    link = Path(holding.folder.path, f"array_symlinks/1/{id}.hdf5")
    link.unlink()
    link.symlink_to(aside)
    assert holding.id_of((1,)) == id
    assert holding.record(id).primary == {"k": 1}
    write(holding, id, 2.0)
    assert (read(holding, id) == 2).all()
    assert kinds(holding) == ["misplaced-file"]
    holding.remove(id)
    assert kinds(holding) == []
    assert aside.parent.is_dir()


def test_problems_of_the_document_are_told(tmp_path: Path) -> None:
    holding = make(tmp_path)
    path = Path(holding.folder.document)
    said = json.loads(path.read_text())
    said["schema"]["inclusive"] = True
    path.write_text(json.dumps({**said, "name": "other"}))
    assert kinds(reopen(tmp_path)) == ["name", "unknown-key"]
