"""What netcdf-c and the draft spell in their own way keeps its meaning through every conversion."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs

_HIDDEN = {"_nczarr_superblock": {"version": "2.0.0"}}


def _write(place: Path, documents: dict[str, Any]) -> Path:
    for name, document in documents.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(json.dumps(document))
    return place


def _with_empty_fill(place: Path) -> Path:
    """A char array of netcdf-c whose fill value is the char NUL."""
    group = {"dimensions": {"x": 3}, "arrays": ["c"], "groups": []}
    own = {"dimension_references": ["/x"], "storage": "chunked"}
    array = {"zarr_format": 2, "shape": [3], "dtype": ">S1", "chunks": [3], "fill_value": "", "order": "C"}
    attrs = {"_FillValue": "", "note": "", "_ARRAY_DIMENSIONS": ["x"], "_nczarr_array": own}
    found = _write(
        place,
        {
            ".zgroup": {"zarr_format": 2},
            ".zattrs": {"_nczarr_group": group, **_HIDDEN, "_nczarr_attr": {"types": {}}},
            "c/.zarray": {**array, "compressor": None, "filters": None},
            "c/.zattrs": {**attrs, "_nczarr_attr": {"types": {"_FillValue": ">S1", "note": ">S1"}}},
        },
    )
    (found / "c/0").write_bytes(b"ab\0")
    return found


@pytest.mark.parametrize("target", ["current", "draft", "netcdf", "zarr3", "hdmf"])
def test_the_char_nul_as_fill_value(target: str, tmp_path: Path) -> None:
    source = _with_empty_fill(tmp_path / "a.zarr")
    options = {"dialect": target} if target in ("current", "draft") else {}
    place = tmp_path / ("b.nc" if target == "netcdf" else "b.zarr")
    report = hs.convert(source, place, format="nczarr" if options else target, verify=True, **options)
    assert report.losses == ()
    array = hs.open(place)["c"]
    assert (array.attrs["_FillValue"], array.attrs["note"]) == ("\0", "")
    assert bytes(array.fill_value) in (b"", b"\0")


def test_netcdf_c_finds_its_own_spelling(tmp_path: Path) -> None:
    hs.convert(_with_empty_fill(tmp_path / "a.zarr"), tmp_path / "b.zarr", format="nczarr")
    assert json.loads((tmp_path / "b.zarr/c/.zattrs").read_bytes())["_FillValue"] == ""
    assert json.loads((tmp_path / "b.zarr/c/.zarray").read_bytes())["fill_value"] == ""


@pytest.mark.parametrize("dialect", ["current", "draft"])
@pytest.mark.parametrize("name", ["_Anonymous_Dim_3", "_anonymous3"])
def test_a_name_that_is_given_is_kept(dialect: str, name: str, tmp_path: Path) -> None:
    other = {"current": "draft", "draft": "current"}[dialect]
    with hs.create(tmp_path / "a.zarr", "nczarr", dialect=other) as root:
        root.create_array("v", data=np.arange(3), dims=(name,))
    hs.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="nczarr", dialect=dialect, verify=True)
    assert hs.open(tmp_path / "b.zarr")["v"].dims == (name,)


@pytest.mark.covering
@pytest.mark.parametrize("dialect", ["current", "draft"])
@pytest.mark.parametrize("key", ["dtype", "shape", "chunks", "order", "filters", "fill_value", "compressor"])
@pytest.mark.parametrize("value", ["gone", None, 5, "x", [], {}, [[]]])
def test_a_document_with_a_damaged_key_is_told(dialect: str, key: str, value: Any, tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", "nczarr", dialect=dialect) as root:
        root.create_array("v", data=np.arange(6).reshape(2, 3), dims=("y", "x"))
    path = tmp_path / "a.zarr/v/.zarray"
    document = json.loads(path.read_bytes())
    document.pop(key) if value == "gone" else document.update({key: value})
    path.write_text(json.dumps(document))
    (tmp_path / "a.zarr/.zmetadata").unlink(missing_ok=True)
    kinds = {problem.kind for problem in hs.check(tmp_path / "a.zarr", deep=True) if problem.node == "v"}
    assert kinds or key not in ("dtype", "shape", "chunks")
    list(hs.repair(tmp_path / "a.zarr"))


@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_bytes_of_one_char_keep_their_dimensions(dialect: str, tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    cells = np.array([[b"a", b"b", b"c"]] * 2, "S1")
    hs.save(str(tmp_path / "a.zarr"), xr.Dataset({"v": (("y", "x"), cells)}), format="nczarr", dialect=dialect)
    with xr.open_dataset(tmp_path / "a.zarr", engine="hyperslab") as found:
        assert (found["v"].dims, found["v"].dtype) == (("y", "x"), np.dtype("S1"))
        assert found["v"].values.tolist() == cells.tolist()


def _draft(place: Path, provenance: dict[str, Any]) -> Path:
    array = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i4", "fill_value": 0, "order": "C"}
    documents = {
        ".zdataset": {"nczarr_version": "0.1-2018"},
        ".zgroup": {"zarr_format": 2},
        ".zattrs": provenance,
        ".zdims": {"x": 2},
        "v/.zarray": {**array, "compressor": None, "filters": None, "dimensions": ["/x"]},
        "v/.zattrs": {"s": 1, "u": 2, "f": 1.5, "n": "a"},
        "v/.zattr_type": {"s": "<i16", "u": "<u32", "f": "<f32", "n": "char"},
    }
    return _write(place, documents)


def test_the_draft_s_own_words_for_types_of_attributes(tmp_path: Path) -> None:
    """Its table counts bits."""
    root = hs.open(_draft(tmp_path / "x.zarr", {"_NCProperties": "version=2,nczarr=0.1-2018"}))
    kinds = {name: np.asarray(value).dtype.str for name, value in root["v"].attrs.items() if name != "n"}
    assert kinds == {"s": "<i2", "u": "<u4", "f": "<f4"}
    assert [problem for problem in hs.check(tmp_path / "x.zarr") if problem.kind == "attribute"] == []


def test_the_draft_without_provenance_is_only_read(tmp_path: Path) -> None:
    """A dataset is NCZarr's if its ``_NCProperties`` say so (R2, R46)."""
    place = _draft(tmp_path / "x.zarr", {})
    assert hs.open(place).format == "nczarr"
    assert hs.open(place)["v"][...].tolist() == [0, 0]
    with pytest.raises(hs.errors.ReadOnly, match="_NCProperties"):
        hs.open(place, "r+")
    hs.convert(place, tmp_path / "y.zarr", format="nczarr", dialect="draft", verify=True)
    with hs.open(tmp_path / "y.zarr", "r+") as root:
        root["v"][0] = 1
