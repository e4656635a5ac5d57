"""A document that is wrong costs no cell: whatever it says, a repair leaves the bytes of sound chunks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyperslab as hs

Document = dict[str, Any]
Edit = Callable[[Document], Any]
MAKES: dict[str, dict[str, Any]] = {
    "zarr2": {"format": "zarr2"},
    "zarr3": {"format": "zarr3"},
    "shards": {"format": "zarr3"},
    "nczarr": {"format": "nczarr"},
    "nczarr draft": {"format": "nczarr", "dialect": "draft"},
    "hdmf v2": {"format": "hdmf", "profile": "v2"},
    "hdmf v3": {"format": "hdmf", "profile": "v3"},
}
CODECS = ("none", "zlib", "zstd", "blosc")


def _v3(name: str) -> bool:
    return name in ("zarr3", "shards", "hdmf v3")


def made(folder: Path, name: str) -> Path:
    """Arrays of several chunks under each codec, text, and in HDMF references."""
    place = folder / "x.zarr"
    cut: dict[str, Any] = {"chunks": (2, 3), "shards": (4, 6)} if name == "shards" else {"chunks": (4, 6)}
    with hs.create(place, durable=False, **MAKES[name]) as root:
        for codec in ("none", "gzip" if _v3(name) else "zlib", "zstd", "blosc"):
            data = np.arange(1, 97, dtype="<i4").reshape(8, 12)
            label = "zlib" if codec == "gzip" else codec
            root.create_array(label, data=data, dims=("y", "x"), codec=codec, **cut)
        if not name.startswith("nczarr"):
            root.create_array("text", data=np.array(["a", "bc", "def"], np.dtypes.StringDType()), chunks=(2,))
        if name.startswith("hdmf"):
            root.attrs["object_id"] = "root"
            root.create_array("references", data=[root["zlib"].ref, None, root["none"].ref])
    return place


def chunks(place: Path) -> dict[str, bytes]:
    """Every file but documents."""
    documents = (".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json", ".lock")
    documents += (".zdims", ".zattr_type", ".ztypedefs", ".zdataset")
    files = (path for path in place.rglob("*") if path.is_file() and path.name not in documents)
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def edit(place: Path, array: str, how: Edit, *, name: str = "") -> None:
    path = place / array / (name or ("zarr.json" if (place / array / "zarr.json").exists() else ".zarray"))
    document = json.loads(path.read_bytes())
    how(document)
    path.write_text(json.dumps(document))
    (place / ".zmetadata").unlink(missing_ok=True)


def _dtype(v2: str, v3: str) -> Edit:
    return lambda doc: doc.update(data_type=v3, fill_value=0) if "data_type" in doc else doc.update(dtype=v2)


def _chunks(*shape: int) -> Edit:
    def change(doc: Document) -> None:
        if "chunk_grid" in doc:
            doc["chunk_grid"]["configuration"]["chunk_shape"] = list(shape)
        else:
            doc["chunks"] = list(shape)

    return change


def _codec(v2: Document | None, v3: Document | None) -> Edit:
    """The compressor, which stands last but for a checksum."""

    def change(doc: Document) -> None:
        if "codecs" not in doc:
            doc["compressor"] = v2
            return
        codecs = doc["codecs"]
        if codecs[0]["name"] == "sharding_indexed":
            codecs = codecs[0]["configuration"]["codecs"]
        codecs[1:] = [] if v3 is None else [v3]

    return change


EDITS: dict[str, Edit] = {
    "of 8 bytes": _dtype("<i8", "int64"),
    "of one byte": _dtype("|i1", "int8"),
    "of half the rows": _chunks(2, 6),
    "of twice the rows": _chunks(8, 6),
    "of other axes": _chunks(6, 4),
    "without compressor": _codec(None, None),
    "of another compressor": _codec(
        {"id": "bz2", "level": 1}, {"name": "numcodecs.bz2", "configuration": {"level": 1}}
    ),
    "with a filter": lambda doc: doc.update(filters=[{"id": "delta", "dtype": "<i8"}]) if "dtype" in doc else None,
}


@pytest.mark.covering
@pytest.mark.parametrize("case", EDITS)
@pytest.mark.parametrize("name", MAKES)
def test_sound_chunks_stay_whatever_the_document_says(name: str, case: str, tmp_path: Path) -> None:
    place = made(tmp_path, name)
    before = chunks(place)
    for codec in CODECS:
        edit(place, codec, EDITS[case])
    list(hs.repair(place, deep=True, dry_run=False))
    assert chunks(place) == before
    assert not (tmp_path / "x.zarr.quarantine").exists() or chunks(tmp_path / "x.zarr.quarantine") == {}


def test_a_chunk_in_question_is_told(tmp_path: Path) -> None:
    place = made(tmp_path, "zarr2")
    edit(place, "zlib", _dtype("<i8", "int64"))
    found = [problem for problem in hs.check(place, deep=True) if problem.node == "zlib"]
    assert {problem.kind for problem in found} == {"other-cells"}
    assert all("96 bytes in place of 192" in problem.message for problem in found)


@pytest.mark.parametrize("codec", CODECS)
def test_the_table_of_the_draft_is_offered(codec: str, tmp_path: Path) -> None:
    """It counts bits, so that ``<i8`` is a byte."""
    place = tmp_path / "x.zarr"
    with hs.create(place, "nczarr", dialect="draft") as root:
        root.create_array(
            "b", data=np.arange(-6, 6, dtype="i1").reshape(3, 4), dims=("y", "x"), chunks=(2, 4), codec=codec
        )
    edit(place, "b", lambda doc: doc.update(dtype="<i8"))
    assert {mend.kind: mend.action for mend in hs.repair(place)}["bit-count dtype"] == "write the dtype |i1"
    list(hs.repair(place, deep=True, dry_run=False))
    assert hs.open(place)["b"][...].tolist() == np.arange(-6, 6).reshape(3, 4).tolist()


@pytest.mark.parametrize("codec", ["json2", "pickle"])
def test_references_that_lost_their_word_get_it_back(codec: str, tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    with hs.create(place, "hdmf", object_codec=codec) as root:
        one = root.create_array("one", data=[1])
        root.create_array("references", data=[one.ref, None])
        root.create_array("text", data=["a", "b"])
    before = chunks(place)
    edit(place, "references", lambda doc: doc.pop("zarr_dtype"), name=".zattrs")
    (place / ".zmetadata").unlink(missing_ok=True)
    list(hs.repair(place, deep=True, dry_run=False))
    assert chunks(place) == before
    with hs.open(place) as root:
        assert root[root["references"][0]].path == "one"
        assert root["references"][1] is None
        assert list(root["text"]) == ["a", "b"]


def test_references_of_profile_v3_that_lost_their_word_get_it_back(tmp_path: Path) -> None:
    place = made(tmp_path, "hdmf v3")
    edit(place, "references", lambda doc: doc["attributes"].pop("_DTYPE"))
    edit(place, "text", lambda doc: doc["attributes"].pop("_DTYPE"))
    list(hs.repair(place, dry_run=False))
    with hs.open(place) as root:
        assert root[root["references"][0]].path == "zlib"
        assert list(root["text"]) == ["a", "bc", "def"]


@pytest.mark.parametrize("region", [[1, 3], {"points": [[1], [3]]}, "1:3"])
def test_regions_of_another_spelling_stay(region: Any, tmp_path: Path) -> None:
    """The specification of HDMF leaves open how they are spelled."""
    place = tmp_path / "x.zarr"
    with hs.create(place, "hdmf", object_codec="json2") as root:
        one = root.create_array("one", data=[1, 2, 3, 4])
        root.create_array("regions", data=[one.regionref[1:3]], codec="none")
    chunk = place / "regions" / "0"
    said = json.loads(chunk.read_bytes())
    said[0]["region"] = region
    chunk.write_text(json.dumps(said))
    before = chunks(place)
    assert {problem.kind for problem in hs.check(place, deep=True) if problem.node == "regions"} == {"other-cells"}
    list(hs.repair(place, deep=True, dry_run=False))
    assert chunks(place) == before
