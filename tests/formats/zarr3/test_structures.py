"""Rows in Zarr v3: the spelling that zarr-python 3.1 and later read; a copy keeps that of its source."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from zarr.errors import UnstableSpecificationWarning

import hyperslab as hs

ROWS = {
    "numbers": np.array([(1, 1.5), (-2, 0.25)], dtype=[("a", "<i4"), ("b", "<f8")]),
    "texts": np.array([("ab", 1, b"x"), ("cd\u00e9", 2, b"")], dtype=[("s", "<U5"), ("n", "<i2"), ("c", "S3")]),
    "rows in rows": np.array([((1, True), 2)], dtype=[("p", [("x", "<i8"), ("y", "?")]), ("q", "u1")]),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("source", ["zarr2", "zarr3"])
def test_zarr_python_reads_rows(tmp_path: Path, source: str, name: str) -> None:
    rows = ROWS[name]
    fill = rows[-1]
    with hs.create(tmp_path / "a.zarr", source) as root:
        root.create_array("a", shape=(4,), dtype=rows.dtype, chunks=(2,), fill_value=fill)[: len(rows)] = rows
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", "zarr3", verify=True)
    there = zarr.open_group(tmp_path / "b.zarr", mode="r")["a"]
    assert isinstance(there, zarr.Array)
    wanted = np.array([*rows.tolist(), *[fill.tolist()] * (4 - len(rows))], rows.dtype)
    np.testing.assert_array_equal(there[...], wanted)
    assert json.loads((tmp_path / "b.zarr/a/zarr.json").read_text())["data_type"]["name"] == "structured"
    np.testing.assert_array_equal(hs.open(tmp_path / "b.zarr")["a"][...], wanted)


@pytest.mark.parametrize("name", ["numbers", "texts"])
def test_a_copy_of_zarr_pythons_rows_has_its_type_and_fill_value(tmp_path: Path, name: str) -> None:
    rows = ROWS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstableSpecificationWarning)  # not every zarr-python warns of it
        array = zarr.create_array(tmp_path / "a.zarr", shape=(4,), chunks=(2,), dtype=rows.dtype, fill_value=rows[0])
        array[:2] = rows
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", "zarr3", verify=True)
    old, new = (json.loads((tmp_path / f"{place}.zarr/zarr.json").read_text()) for place in "ab")
    assert [new[key] for key in ("data_type", "fill_value")] == [old[key] for key in ("data_type", "fill_value")]
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "b.zarr", mode="r")[:2], rows)


def test_the_newer_spelling_stays(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "zarr3") as root:
        root.create_array("a", data=ROWS["numbers"])
    place = tmp_path / "a.zarr/a/zarr.json"
    document = json.loads(place.read_text())
    fields = [{"name": name, "data_type": kind} for name, kind in document["data_type"]["configuration"]["fields"]]
    document |= {
        "data_type": {"name": "struct", "configuration": {"fields": fields}},
        "fill_value": {"a": 7, "b": 0.0},
    }
    place.write_text(json.dumps(document))
    with hs.open(tmp_path / "a.zarr", "r+") as root:
        root["a"].attrs["units"] = "K"
    changed = json.loads(place.read_text())
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", "zarr3", verify=True)
    copied = json.loads((tmp_path / "b.zarr/a/zarr.json").read_text())
    for found in (changed, copied):
        assert (found["data_type"], found["fill_value"]) == (document["data_type"], document["fill_value"])
