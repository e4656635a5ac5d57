"""References in Parquet: those that kerchunk wrote read as their JSON; what lies elsewhere is not read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import iris_sample_data
import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import FormatError, HyperslabError, NotFound
from hyperslab.stores.parquet import ParquetColumn, write_table
from hyperslab.stores.references import ReferenceStore

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "kerchunk").glob("*.parquet"))
SOURCES = Path(iris_sample_data.path)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name.partition(".")[0])
def test_what_kerchunk_wrote_reads_as_its_json(tmp_path: Path, golden: Path) -> None:
    shutil.copytree(golden, tmp_path / golden.name)
    shutil.copy(golden.with_suffix(".json"), tmp_path)
    shutil.copy(SOURCES / golden.name.removesuffix(".parquet"), tmp_path)
    document = tmp_path / golden.with_suffix(".json").name
    assert not hs.diff(tmp_path / golden.name, document)
    table, text = ReferenceStore(str(tmp_path / golden.name)), ReferenceStore(str(document))
    assert sorted(table.list()) == sorted(text.list())
    for key in text.list():
        if ".z" not in key:
            assert table.get(key) == text.get(key) and table.size(key) == text.size(key)


def made(folder: Path) -> Path:
    """References to a file, in tables of two rows each."""
    cells = np.arange(5 * 6000, dtype="f4").reshape(5, 6000)
    hs.convert(_saved(folder, cells), folder / "a.nc", chunks={"t": 1}, codec="none")
    hs.virtual(folder / "a.nc", folder / "a.parquet")
    return folder / "a.parquet"


def _saved(folder: Path, cells: np.ndarray) -> Path:
    with hs.create(folder / "a.zarr") as root:
        array = root.create_array("sub/a", shape=cells.shape, dtype="f4", dims=("t", "x"), chunks=(1, 6000))
        array[...] = cells
        root["sub"].create_array("b", shape=(5,), dtype="i4", dims=("t",))[...] = np.arange(5)
    return folder / "a.zarr"


def test_keys(tmp_path: Path) -> None:
    store = ReferenceStore(str(made(tmp_path)))
    assert store.list_dir("")[1] == ["sub"]
    assert store.list_dir("sub")[1] == ["a", "b"]
    names, folders = store.list_dir("sub/a")
    assert names == [".zarray", ".zattrs", "0.0", "1.0", "2.0", "3.0", "4.0"] and not folders
    assert list(store.list("sub/a"))[-1] == "sub/a/4.0" and ".zmetadata" in list(store.list())
    for key in (
        "sub/a/5.0",
        "sub/a/0",
        "sub/a/00.0",
        "sub/a/-1.0",
        "sub/a/0.0.0",
        "sub/c/0",
        "sub/a/x",
        "0.0",
        "sub/a",
    ):
        assert store.get(key) is None
    assert len(store.get("sub/a/4.0") or b"") == 24000


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_documents_with_nan(tmp_path: Path, form: str) -> None:
    """As VirtualiZarr writes them, though JSON has no such number."""
    made(tmp_path)
    if form == "json":
        hs.virtual(tmp_path / "a.nc", tmp_path / "a.json")
        document, holder = tmp_path / "a.json", "refs"
    else:
        document, holder = tmp_path / "a.parquet" / ".zmetadata", "metadata"
    content = json.loads(document.read_text())
    attrs = content[holder]["sub/a/.zattrs"]
    attrs = json.loads(attrs) if isinstance(attrs, str) else attrs
    content[holder]["sub/a/.zattrs"] = {**attrs, "limit": float("nan")}
    content[holder].pop(".zmetadata", None)
    document.write_text(json.dumps(content))
    array = hs.open(tmp_path / f"a.{form}")["sub/a"]
    assert np.isnan(array.attrs["limit"]) and array[4, 0] == 4 * 6000


def test_only_tables_of_what_is_read_are_read(tmp_path: Path) -> None:
    place = made(tmp_path)
    (place / "sub" / "a" / "refs.0.parq").write_bytes(b"damage")
    root = hs.open(place)
    assert root["sub/b"][...].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(FormatError, match="Parquet"):
        root["sub/a"][0]


def test_a_table_elsewhere(tmp_path: Path) -> None:
    place = made(tmp_path)
    shutil.move(place / "sub" / "a" / "refs.0.parq", tmp_path / "other.parq")
    os.symlink(tmp_path / "other.parq", place / "sub" / "a" / "refs.0.parq")
    with pytest.raises(FormatError, match="leads out"):
        hs.open(place)["sub/a"][0]


def test_a_file_elsewhere(tmp_path: Path) -> None:
    place = made(tmp_path)
    (tmp_path / "inner").mkdir()
    shutil.move(place, tmp_path / "inner")
    shutil.move(tmp_path / "a.nc", tmp_path / "inner" / "a.nc")
    hs.open(tmp_path / "inner" / "a.parquet")["sub/a"][0]
    os.rename(tmp_path / "inner" / "a.nc", tmp_path / "a.nc")
    os.symlink(tmp_path / "a.nc", tmp_path / "inner" / "a.nc")
    with pytest.raises(HyperslabError, match="outside"):
        hs.open(tmp_path / "inner" / "a.parquet")["sub/a"][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda doc: doc.pop("record_size"),
        lambda doc: doc.update(record_size=0),
        lambda doc: doc.update(record_size=True),
        lambda doc: doc.update(metadata=[]),
        lambda doc: doc.update(hyperslab={"files": [1]}),
        lambda doc: doc["metadata"]["sub/a/.zarray"].update(chunks=[0, 1]),
        lambda doc: doc["metadata"]["sub/a/.zarray"].update(shape="x"),
        lambda doc: doc["metadata"].update({"sub/a/.zarray": 1}),
    ],
)
def test_documents_that_make_no_sense(tmp_path: Path, change: object) -> None:
    place = made(tmp_path)
    document = json.loads((place / ".zmetadata").read_text())
    change(document)  # type: ignore[operator]
    (place / ".zmetadata").write_text(json.dumps(document))
    with pytest.raises(HyperslabError):
        hs.open(place)["sub/a"][0]


def test_a_limit(tmp_path: Path) -> None:
    place = made(tmp_path)
    with pytest.raises(FormatError, match="more than 99 bytes"):
        hs.open(place, storage_options={"limit": 99})


def test_no_references(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").mkdir()
    with pytest.raises(NotFound):
        ReferenceStore(str(tmp_path / "a.parquet"))


def changed(place: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """References with another document."""
    document = json.loads((place / ".zmetadata").read_text())
    change(document)
    (place / ".zmetadata").write_text(json.dumps(document))
    return place


@pytest.mark.parametrize("length", [2**50, 2**70])
def test_few_chunks_of_a_grid_without_bounds_are_listed_at_once(tmp_path: Path, length: int) -> None:
    place = changed(made(tmp_path), lambda doc: doc["metadata"]["sub/a/.zarray"].update(shape=[length, 6000]))
    names, _ = ReferenceStore(str(place)).list_dir("sub/a")
    assert names == [".zarray", ".zattrs", "0.0", "1.0", "2.0", "3.0", "4.0"]
    (place / "sub" / "a" / "refs.0.parq").rename(place / "sub" / "a" / "refs.100000000000.parq")
    (place / "sub" / "a" / "refs.0.parq.txt").touch()
    names, _ = ReferenceStore(str(place)).list_dir("sub/a")
    assert f"{100_000_000_000 * 10_000 + 4}.0" in names and len(names) == 7


def test_a_table_of_more_rows_than_the_document_has(tmp_path: Path) -> None:
    place = made(tmp_path)
    (place / "sub" / "a" / "refs.0.parq").write_bytes(write_table(2**31, {}))
    with pytest.raises(FormatError, match="rows"):
        hs.open(place)["sub/a"][0]
    changed(place, lambda doc: doc.update(record_size=2**31))
    with pytest.raises(FormatError, match="rows") as caught:
        hs.open(place)
    assert "record_size" in str(caught.value.remedy)


def test_a_path_that_is_no_text(tmp_path: Path) -> None:
    place = made(tmp_path)
    rows = np.arange(5)
    columns = {"path": ParquetColumn(rows, [b"\xff"], np.zeros(5, np.int64))}
    (place / "sub" / "a" / "refs.0.parq").write_bytes(write_table(5, columns))
    with pytest.raises(FormatError, match="text"):
        hs.open(place)["sub/a"][0]
