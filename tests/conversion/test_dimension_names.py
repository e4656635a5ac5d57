"""Names of dimensions with several lengths, and cells of any length, in targets that have neither: nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import Invalid
from hyperslab.formats.dimension_suffix import add_suffix, strip_suffix
from hyperslab.integrity.comparison import diff

TARGETS: dict[str, dict[str, Any]] = {
    "netcdf": {},
    "nczarr": {"dialect": "current"},
    "nczarr-draft": {"dialect": "draft"},
}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Columns of several lengths along dimensions of one name, in a group and in one below it."""
    path = tmp_path / "tables.zarr"
    with hs.create(path, format="hdmf") as root:
        for group in ("", "a/", "a/b/"):
            for place, length in enumerate((3, 5, 4, 5)):
                root.create_array(f"{group}c{length}-{place}", data=np.arange(length, dtype="i4"), dims=["dim0"])
        root.create_array("square", data=np.ones((2, 6)), dims=["dim0", "dim0"])
    return path


@pytest.mark.parametrize("target", TARGETS)
def test_dimensions_keep_their_names(tables: Path, target: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    report = hs.convert(tables, there, target.split("-")[0], verify=True, **TARGETS[target])
    assert not report.losses
    assert diff(tables, there) == []
    with hs.open(there) as root:
        assert {root[name].dims for name in root if name.startswith("c")} == {("dim0",)}
        assert root["square"].dims == ("dim0", "dim0")
    hs.convert(there, tmp_path / "back", "hdmf", verify=True)
    assert diff(tables, tmp_path / "back") == []


def test_in_a_changed_netcdf_file_they_stay(tables: Path, tmp_path: Path) -> None:
    hs.convert(tables, tmp_path / "a.nc")
    with hs.open(tmp_path / "a.nc", mode="r+") as root:
        root["a"].attrs["note"] = "changed"
        array = root[next(name for name in root if name.startswith("c4"))]
        array[...] = 7
    with hs.open(tmp_path / "a.nc") as root:
        assert array.dims == ("dim0",)
        assert root[array.path.strip("/")][...].tolist() == [7] * 4
    with hs.open(tmp_path / "a.nc", mode="r+") as root, pytest.raises(Invalid, match="give it another name"):
        root.create_array("new", data=np.ones(9), dims=["dim0"])


def test_a_name_is_only_taken_apart_beside_the_plain_one() -> None:
    stored = add_suffix("dim0", 3)
    assert stored == "dim0@3"
    assert strip_suffix(stored, 3, {"dim0"}.__contains__) == "dim0"
    assert strip_suffix(stored, 3, set().__contains__) == stored
    assert strip_suffix(stored, 4, {"dim0"}.__contains__) == stored
    assert strip_suffix("@3", 3, {""}.__contains__) == "@3"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Rows with text and references, bytes and text."""
    from hyperslab.model.dtypes import ObjectRef, VlenString, tagged

    kind = np.dtype([("n", "i4"), ("word", tagged(np.dtype(object), VlenString()))])
    kind = np.dtype([*((name, kind[name]) for name in kind.names or ()), ("to", tagged(np.dtype(object), ObjectRef()))])
    path = tmp_path / "rows.zarr"
    with hs.create(path, format="hdmf") as root:
        target = root.create_array("target", data=[1.0, 2.0]).ref
        root.create_array("rows", data=[(1, "é", target), (2, "", None)], dtype=kind)
        root.create_array("text", data=["a", "日本"], dtype=str)
    return path


@pytest.mark.parametrize("target", ["b2nd", "bloscpack", "blaze"])
def test_text_is_the_one_array_of_a_file(tmp_path: Path, target: str) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("words", data=["a", "日本", ""], dtype=str, dims=["place"])
        root.create_array("place", data=["x", "yy", "zzz"], dtype=str, dims=["place"])
    report = hs.convert(tmp_path / "a.zarr", tmp_path / "b", target, path="words", allow_loss=True, verify=True)
    assert [str(loss) for loss in report.losses] == ["/words: cells of type string become <U2"]
    with hs.open_array(tmp_path / "b") as words:
        assert words[...].tolist() == ["a", "日本", ""]
        assert words.sel(place="yy") == "日本"


@pytest.mark.parametrize("target", ["zarr2", "zarr3", "netcdf", "nczarr-draft"])
def test_rows_with_references_keep_their_numbers_and_text(rows: Path, target: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    options = TARGETS.get(target, {})
    report = hs.convert(rows, there, target.split("-")[0], allow_loss=True, verify=True, **options)
    assert [loss.node for loss in report.losses] == ["rows"]
    with hs.open(there) as root:
        found = root["rows"][...]
        assert found["n"].tolist() == [1, 2]
        words = [
            word if isinstance(word, str) else bytes(np.asarray(word)).rstrip(b"\0").decode() for word in found["word"]
        ]
        assert words == ["é", ""]


@pytest.mark.covering
@pytest.mark.parametrize("source", ["zarr2", "zarr3", "hdmf"])
@pytest.mark.parametrize("target", TARGETS)
def test_an_unlimited_dimension_is_as_long_as_its_arrays(source: str, target: str, tmp_path: Path) -> None:
    """The documents of Zarr name it without its length: arrays keep it, no second dimension ``t@2`` is made."""
    with hs.create(tmp_path / "a", source) as root:
        root.create_dimension("t", None)
        root.create_array("a", data=np.zeros((1, 2), "i1"), dims=("x", "t"))
    hs.convert(tmp_path / "a", tmp_path / "b", target.split("-")[0], **TARGETS[target])
    with hs.open_group(tmp_path / "b") as root:
        assert {name: (dim.size, dim.unlimited) for name, dim in root.dims.items()} == {"t": (2, True), "x": (1, False)}
