"""Cells of Zarr v2 under the filter ``json2`` as numcodecs writes them: in either order, with None and mixed cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hyperslab as hs
from hyperslab.errors import Unsupported


def stored(place: Path, cells: list[Any], shape: list[int], order: str = "C") -> Path:
    (place / "a").mkdir(parents=True)
    array = {"zarr_format": 2, "shape": shape, "chunks": shape, "dtype": "|O", "fill_value": None, "order": order}
    (place / ".zgroup").write_text('{"zarr_format": 2}')
    (place / "a/.zarray").write_text(json.dumps({**array, "compressor": None, "filters": [{"id": "json2"}]}))
    (place / "a" / ".".join("0" * len(shape))).write_text(json.dumps([*cells, "|O", shape]))
    return place


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("cells", [[["a", "b", "c"], ["d", "e", "f"]], [["a", "b"], ["c", "d"]]])
def test_the_lists_say_which_cell_is_where(order: str, cells: list[Any], tmp_path: Path) -> None:
    place = stored(tmp_path / "x.zarr", cells, [len(cells), len(cells[0])], order)
    assert hs.open(place)["a"][...].tolist() == cells
    with hs.open(place, "r+") as root:
        root["a"][0, 1] = "new"
    cells[0][1] = "new"
    assert hs.open(place)["a"][...].tolist() == cells
    assert json.loads((place / "a/0.0").read_bytes())[:-2] == cells
    assert list(hs.check(place, deep=True)) == []
    hs.convert(place, tmp_path / "y.zarr", format="zarr2", verify=True)
    assert hs.open(tmp_path / "y.zarr")["a"][...].tolist() == cells


def test_none_and_numbers_among_text(tmp_path: Path) -> None:
    place = stored(tmp_path / "x.zarr", ["a", None, 1, 2.5, True], [5])
    assert hs.open(place)["a"][...].tolist() == ["a", "", "1", "2.5", "true"]
    assert list(hs.check(place, deep=True)) == []


@pytest.mark.parametrize("cell", [{"a": 1}, ["a"]])
def test_objects_and_lists_are_not_supported_and_not_corrupt(cell: Any, tmp_path: Path) -> None:
    place = stored(tmp_path / "x.zarr", [cell, "b"], [2])
    with pytest.raises(Unsupported, match="json2"):
        hs.open(place)["a"][...]
    assert {problem.kind for problem in hs.check(place, deep=True)} == {"unreadable-chunk"}
    before = (place / "a/0").read_bytes()
    list(hs.repair(place, deep=True, dry_run=False))
    assert (place / "a/0").read_bytes() == before
