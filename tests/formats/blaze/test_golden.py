"""What bcolz 1.2.1 and BLZ 0.6.2 wrote reads as they say; what is written for bcolz looks as what it wrote itself."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numcodecs import blosc
from spec_reader import read

import hyperslab as hs
from hyperslab.errors import ReadOnly, Unsupported

ARCHIVE = Path(__file__).parents[2] / "golden" / "bcolz" / "bcolz-1.2.1.zip"
MANIFEST = json.loads(zipfile.ZipFile(ARCHIVE).read("manifest.json"))
ARRAYS = [name for name, said in MANIFEST.items() if said["truth"] and said["kind"] != "bcolz-ctable"]
TABLE = "bcolz/ctable"


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    zipfile.ZipFile(ARCHIVE).extractall(folder)
    return folder


def truth(golden: Path, name: str) -> np.ndarray:
    return np.load(golden / MANIFEST[name]["truth"])


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(golden, name):
    wanted = truth(golden, name)
    array = hs.open_array(golden / name)
    assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(array[...], wanted)
    np.testing.assert_array_equal(array[1::3], wanted[1::3])
    assert dict(array.attrs) == MANIFEST[name].get("attrs", {})
    assert not hs.check(golden / name, deep=True)


def test_a_table_is_a_group_of_its_columns(golden):
    wanted, root = truth(golden, TABLE), hs.open(golden / TABLE)
    assert list(root) == list(wanted.dtype.names) == ["a", "b", "c"]
    for name in root:
        np.testing.assert_array_equal(root[name][...], wanted[name])
    assert dict(root.attrs) == {"title": "tbl"}
    assert not hs.check(golden / TABLE, deep=True)


def test_pickled_objects_are_refused(golden):
    with pytest.raises(Unsupported, match="pickle"):
        hs.open(golden / "bcolz/object_pickled")
    with pytest.raises(Unsupported, match="pickle"):
        hs.check(golden / "bcolz/object_pickled")


def test_the_default_value_fills_what_is_added(golden, tmp_path):
    name, place = "bcolz/i8_dflt_resize", tmp_path / "a"
    shutil.copytree(golden / name, place)
    with hs.open_group(place, "r+") as root:
        array = root["data"]
        assert array.fill_value == -7
        array.resize(170)
        np.testing.assert_array_equal(array[150:], np.full(20, -7))
    assert read(place).tolist() == [*truth(golden, name).tolist(), *[-7] * 20]


@pytest.mark.parametrize("name", ["bcolz/f8_chunks_leftover", "bcolz/i4_2d", "blz/f8", "blz/i4_2d", "bcolz/f8_lz4"])
def test_they_are_changed_as_they_are(golden, tmp_path, name):
    """Documents keep their keys, files their names."""
    wanted, place = truth(golden, name), tmp_path / "a"
    shutil.copytree(golden / name, place)
    before = json.loads((place / "meta/storage").read_text())
    with hs.open_group(place, "r+") as root:
        array = root["data"]
        array.append(wanted[:70])
        array[5:9] = 1
        array.attrs["n"] = 1
    wanted = np.concatenate([wanted, wanted[:70]])
    wanted[5:9] = 1
    np.testing.assert_array_equal(hs.open_array(place)[...], wanted)
    np.testing.assert_array_equal(read(place), wanted)
    assert json.loads((place / "meta/storage").read_text()) == before
    assert json.loads((place / "__attrs__").read_text())["n"] == 1
    assert not hs.check(place, deep=True)


@pytest.mark.parametrize("name", [name for name in ARRAYS if not name.endswith("struct_rowwise") and name[:3] != "blz"])
def test_what_is_written_looks_alike(golden, tmp_path, name):
    theirs = golden / name
    storage = json.loads((theirs / "meta/storage").read_text())
    params = storage["cparams"]
    shuffle = ("noshuffle", "shuffle", "bitshuffle")[params["shuffle"]]
    cname = "zlib" if params["cname"] == "snappy" else params["cname"]
    codec = {"id": "blosc", "cname": cname, "clevel": params["clevel"], "shuffle": shuffle}
    cells, ours = truth(golden, name), tmp_path / "ours.blaze"
    chunks = (storage["chunklen"], *cells.shape[1:])
    attrs = json.loads((theirs / "__attrs__").read_text())
    fill = storage["dflt"] or None
    with hs.create(ours, layout="bcolz") as root:
        root.create_array("data", data=cells, chunks=chunks, codec=codec, attrs=attrs, fill_value=fill)
    for document in ("meta/sizes", "meta/storage", "__attrs__"):
        left, right = (json.loads((folder / document).read_bytes().decode("ascii")) for folder in (ours, theirs))
        for unlike in ("cbytes", "expectedlen"):
            assert (left.pop(unlike, None) is None) == (right.pop(unlike, None) is None)
        if document == "meta/storage":
            right["cparams"] |= {"cname": cname, "quantize": 0}
        assert left == right
        assert list(left) == list(right)
    assert sorted(path.name for path in (ours / "data").glob("*")) == sorted(
        p.name for p in (theirs / "data").glob("*")
    )
    for path in (ours / "data").glob("*"):
        data = path.read_bytes()
        assert data[:16] == (theirs / "data" / path.name).read_bytes()[:16] == b"blpk\1\0\0\0" + struct.pack("<q", 1)
        if params["cname"] == cname:
            assert blosc.decompress(data[16:]) == blosc.decompress((theirs / "data" / path.name).read_bytes()[16:])
    np.testing.assert_array_equal(read(ours) if cells.size else cells, cells)


def test_what_bcolz_cannot_open_is_not_written(tmp_path):
    with hs.create(tmp_path / "a.blaze", layout="bcolz") as root:
        with pytest.raises(Unsupported, match="structures"):
            root.create_array("data", data=np.zeros(3, [("a", "i4")]))
        with pytest.raises(Unsupported, match="dimensions"):
            root.create_array("data", data=np.float64(1))
        with pytest.raises(Unsupported, match="superchunks"):
            root.create_array("data", data=np.zeros(30), chunks=3, shards=6)


def test_a_table_keeps_its_length(golden, tmp_path):
    place = tmp_path / "a"
    shutil.copytree(golden / TABLE, place)
    root = hs.open(place, "r+")
    root["a"][3] = -5
    assert hs.open(place)["a"][3] == -5
    root["a"].attrs["units"] = "K"
    root.attrs["title"] = "mine"
    assert dict(hs.open(place).attrs) == {"title": "mine"}
    for change in (
        lambda: root["a"].resize(10),
        lambda: root["a"].append([1]),
        lambda: root.create_array("d", shape=60),
    ):
        with pytest.raises((Unsupported, KeyError)):
            change()
    with pytest.raises(ReadOnly):
        hs.open(place)["a"][3] = 1
