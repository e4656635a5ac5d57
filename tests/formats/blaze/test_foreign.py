"""What others may have written by the specification: nothing of ours, other versions, no offsets, metadata in files."""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import CorruptChunk, FormatError, Unsupported

CELLS = np.arange(95, dtype="<f8")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Ten chunks of ten rows in superchunks of four, without documents of ours."""
    with hs.create(tmp_path / "a.blaze", superchunk=4) as root:
        root.create_array("data", data=CELLS, chunks=10)
    (tmp_path / "a.blaze/meta/superchunks").unlink()
    return tmp_path / "a.blaze"


def rebuilt(path: Path, *, version: int = 2, offsets: str = "all", meta: bytes = b"", gap: int = 0) -> None:
    """The same chunks behind another header."""
    data = path.read_bytes()
    typesize, chunk_size, last, count = struct.unpack_from("<Biiq", data, 7)
    starts = [*struct.unpack_from(f"<{count}q", data, 32), len(data)]
    chunks = [data[start:stop] + b"\1" * gap for start, stop in pairwise(starts)]
    options = (offsets != "none") | 2 * bool(meta)
    table = 8 * count * (offsets != "none")
    at = np.cumsum([32 + len(meta) + table, *map(len, chunks)])[:-1]
    places = np.full(count, -1) if offsets == "unknown" else at
    head = struct.pack("<4s4Biiqii", b"blpk", version, options, 1, typesize, chunk_size, last, count, len(meta), 0)
    path.write_bytes(head + meta + (places.astype("<i8").tobytes() if table else b"") + b"".join(chunks))


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"version": 3},
        {"offsets": "none"},
        {"offsets": "unknown"},
        {"meta": b'{"dtype": "float64", "shape": [95], "others": []}'},
        {"meta": b'{"dtype": "float64"}', "version": 3, "offsets": "unknown"},
        {"gap": 100},
    ],
)
def test_headers(place: Path, how: dict) -> None:
    for path in (place / "data").iterdir():
        rebuilt(path, **how)
    array = hs.open_array(place)
    assert (array.chunks, array.shards) == ((10,), (40,))
    np.testing.assert_array_equal(array[...], CELLS)
    assert array[33] == 33
    assert not hs.check(place, deep=True)
    with hs.open_group(place, "r+") as root:
        root["data"][35:52] = -1
        root["data"].append(CELLS[:7])
    wanted = np.concatenate([CELLS, CELLS[:7]])
    wanted[35:52] = -1
    np.testing.assert_array_equal(hs.open_array(place)[...], wanted)


@pytest.mark.parametrize(
    ("dtype", "dflt", "wanted"),
    [
        ("complex128", None, 0),
        ("complex128", "(1+2j)", 1 + 2j),
        ("complex128", [0, 1, 0], 0),
        ("float64", None, 0),
        ("|S3", "abcd", b"abc"),
        ("|S3", 5, b""),
    ],
)
def test_what_nobody_wrote(place: Path, dtype: str, dflt: object, wanted: object) -> None:
    path = place / "meta/storage"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dtype": dtype, "dflt": dflt}))
    for file in (place / "data").iterdir():
        file.unlink()
    assert set(hs.open_array(place)[...].tolist()) == {wanted}


@pytest.mark.parametrize(
    "text", ["float64", "<f8", "'<f8'", "d8", "[('a', '<f8')]", [["a", "<f8"]], "[('a', '<f4'), ('', '|V4')]"]
)
def test_spellings_of_types(place: Path, text: str) -> None:
    path = place / "meta/storage"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"dtype": text, "dflt": None}))
    if text == "d8":
        with pytest.raises(FormatError):
            hs.open(place)
    elif isinstance(text, str) and text[0] != "[":
        np.testing.assert_array_equal(hs.open_array(place)[...], CELLS)
    else:
        with hs.open_group(place, "r+") as root:
            root["data"][0] = (2,)
        names = [path.name for path in (place / "data").iterdir()]
        assert sorted(names) == ["__1__.bin", "__2__.bin", "__3__.bin"]  # whole rows, as they were
        found = hs.open_array(place)["a"]
        assert found[0] == 2
        np.testing.assert_array_equal(found[1:], CELLS.view(found.dtype)[:: 8 // found.itemsize][1:])


def test_a_default_codec(place: Path) -> None:
    path = place / "meta/storage"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "cparams"}))
    with hs.open_group(place, "r+") as root:
        assert root["data"].codec[0].config["codecs"][0].config["cname"] == "blosclz"
        root["data"][3] = -1
    assert hs.open_array(place)[3] == -1


@pytest.mark.parametrize("value", [None, [], [1], "x", 3, {"clevel": [1], "shuffle": {}, "cname": 4}])
def test_parameters_of_another_kind(place: Path, value: object) -> None:
    path = place / "meta/storage"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"cparams": value}))
    np.testing.assert_array_equal(hs.open_array(place)[...], CELLS)
    with hs.open_group(place, "r+") as root:
        root["data"].attrs["a"] = 1
        root["data"].append(CELLS[:2])
    np.testing.assert_array_equal(hs.open_array(place)[93:], [93, 94, 0, 1])


def test_other_documents_are_kept(place: Path) -> None:
    (place / "meta/mine").write_text('{"a": 1}')
    path = place / "meta/storage"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"mine": [1, 2]}))
    with hs.open_group(place, "r+") as root:
        root["data"].append(CELLS)
        root["data"].attrs["b"] = 2
    assert (place / "meta/mine").read_text() == '{"a": 1}'
    assert json.loads(path.read_text())["mine"] == [1, 2]


def test_superchunks_of_unequal_length_are_refused(place: Path) -> None:
    first, second = (place / f"data/__{number}__.bin" for number in (1, 3))
    second.write_bytes(first.read_bytes())
    rebuilt(second)
    data = bytearray(first.read_bytes())
    struct.pack_into("<q", data, 16, 2)
    first.write_bytes(data)
    with pytest.raises((FormatError, CorruptChunk)):
        hs.open_array(place)[...]


def test_sections_of_bloscpack_s_own_are_refused(place: Path) -> None:
    rebuilt(place / "data/__2__.bin", version=3, meta=b"JSON" + b"\0" * 60)
    with pytest.raises(Unsupported, match="metadata section"):
        hs.open_array(place)[45]
    np.testing.assert_array_equal(hs.open_array(place)[:40], CELLS[:40])


@pytest.mark.parametrize(
    "doc",
    [
        {"names": ["../a"]},
        {"names": ["a"], "dirs": {"a": "../../a"}},
        {"names": ["/etc"]},
        {"names": ["a", "a"]},
        {"names": "ab"},
        {"names": [1]},
        {"names": ["a"], "dirs": [1]},
        {},
    ],
)
def test_tables_that_lead_elsewhere(tmp_path: Path, doc: dict) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/__rootdirs__").write_text(json.dumps(doc))
    with pytest.raises(FormatError, match="columns"):
        hs.open(tmp_path / "t")


@pytest.mark.parametrize(
    "labels",
    [
        {"dims": ["x", "y"]},
        {"dims": "x"},
        {"name": "a/b"},
        {"coords": {"x": {"dtype": "O", "shape": [1]}}},
        {"coords": 1},
    ],
)
def test_labels_that_make_no_sense(place: Path, labels: dict) -> None:
    (place / "meta/labels").write_text(json.dumps(labels))
    with pytest.raises(FormatError):
        hs.open(place)
