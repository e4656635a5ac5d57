"""Readers that were written from the pages of the formats alone read what hyperslab writes; NumPy knows what it was."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.model.dtypes import (
    Char,
    Compound,
    Enum,
    ObjectRef,
    Opaque,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    tagged,
)
from second_readers import blaze, bloscpack, hdmf, nczarr
from second_readers.cells import ATTRIBUTES, NUMBERS, PLAIN, ROWS, assert_cells, assert_values, make

GOLDEN = Path(__file__).parents[1] / "golden"
OBJECT = np.dtype(object)
POINT = Compound(np.dtype([("lat", "<f4"), ("lon", ">f8")]), "point")
SKY = Enum(np.dtype("i2"), (("clear", 0), ("cloudy", 1)), "sky")
BLOB = Opaque(3, "blob")


@pytest.mark.parametrize("layout", ["v3", "blaze"])
@pytest.mark.parametrize("kind", [*PLAIN, *ROWS], ids=str)
def test_bloscpack_types(tmp_path: Path, kind: Any, layout: str) -> None:
    cells = make(kind, 7, 5)
    with hs.create(tmp_path / "x.blp", layout=layout) as root:
        root.create_array("x", data=cells, chunks=(2, 5), dims=["y", None], fill_value=cells[0, 0])
    array = bloscpack.File(tmp_path / "x.blp").arrays["x"]
    assert array.dims == ("y", None)
    assert_cells(array.read(), cells)
    assert_cells(np.full(1, array.fill_value, kind), cells[:1, 0])
    with hs.open(tmp_path / "x.blp", "r+") as root:
        root.append(cells[:4])
        root[1] = cells[5]
    wanted = np.concatenate([cells, cells[:4]], dtype=kind)
    wanted[1] = cells[5]
    assert_cells(bloscpack.File(tmp_path / "x.blp").arrays["x"].read(), wanted)


OPTIONS: list[dict[str, Any]] = [
    *({"checksum": name} for name in ("none", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512")),
    {"offsets": False}, {"slack": "full"}, {"slack": 100}, {"order": "F"}, {"metadata_codec": "none"},
    {"layout": "blaze", "order": "F", "offsets": False, "checksum": "crc32"},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_bloscpack_options(tmp_path: Path, options: dict[str, Any]) -> None:
    cells = make("<f8", 10, 7)
    with hs.create(tmp_path / "x.blp", **options) as root:
        root.create_array("x", data=cells, chunks=(10, 2) if "order" in options else (3, 7))
    assert_cells(bloscpack.File(tmp_path / "x.blp").arrays["x"].read(), cells)


@pytest.mark.parametrize(
    "codec", ["none", *(f"blosc:{name}:5" for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"))]
)
def test_bloscpack_compressors(tmp_path: Path, codec: str) -> None:
    cells = np.arange(5000.0)
    with hs.create(tmp_path / "x.blp") as root:
        root.create_array("x", data=cells, chunks=(700,), codec=codec)
    assert_cells(bloscpack.File(tmp_path / "x.blp").arrays["x"].read(), cells)


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 0), (1,)])
def test_bloscpack_small_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with hs.create(tmp_path / "x.blp") as root:
        root.create_array("x", data=np.full(shape, 2.5))
    assert_cells(bloscpack.File(tmp_path / "x.blp").arrays["x"].read(), np.full(shape, 2.5))


def make_labelled(root: Any, size: int) -> dict[str, np.ndarray[Any, Any]]:
    """Make an array with coordinates of every kind; return them."""
    row = np.dtype([("a", "<i4"), ("b", ">c8"), ("c", "<U2")])
    cells = {"x": make(">f4", size, 3), "time": np.arange(size, dtype=">f8"), "where": np.array([(1, 2, "a")] * 3, row)}
    cells |= {"scalar": np.array(7, ">i2"), "name": np.array(["a", "é", ""], np.dtypes.StringDType())}
    root.create_dimension("time", None)
    root.create_array("x", data=cells["x"], dims=["time", "where"], attrs={**ATTRIBUTES, "coordinates": "name"})
    root.create_array("time", data=cells["time"], dims=["time"], attrs={"units": "K"}, fill_value=-1)
    root.create_array("where", data=cells["where"], dims=["where"])
    root.create_array("scalar", data=cells["scalar"])
    root.create_array("name", data=["a", "é", ""], dtype=str, dims=["where"])
    root.attrs.update(ATTRIBUTES)
    return cells


@pytest.mark.parametrize("size", [5, 2000])
@pytest.mark.parametrize(("name", "read"), [("x.blp", bloscpack.File), ("x.blaze", blaze.Directory)])
def test_labels_of_single_arrays(tmp_path: Path, name: str, read: Callable[[Path], Any], size: int) -> None:
    with hs.create(tmp_path / name) as root:
        cells = make_labelled(root, size)
    file = read(tmp_path / name)
    assert file.unlimited == ("time",) and file.arrays["time"].fill_value == -1
    assert {key: array.dims for key, array in file.arrays.items()} == {
        "x": ("time", "where"), "time": ("time",), "where": ("where",), "scalar": (), "name": ("where",)
    }  # fmt: skip
    for key, wanted in cells.items():
        assert_cells(file.arrays[key].read(), wanted) if key != "name" else None
    assert file.arrays["name"].read().tolist() == ["a", "é", ""]
    assert_values(file.arrays["x"].attrs, ATTRIBUTES)
    assert_values(file.attrs, ATTRIBUTES)


def test_bloscpack_file_of_a_writer_that_died(tmp_path: Path) -> None:
    path, cells = tmp_path / "x.blp", np.arange(10.0)
    with hs.create(path) as root:
        root.create_array("x", data=cells, chunks=(3,))
    data, chunks = bytearray(path.read_bytes()), bloscpack.Chunks(path.read_bytes())
    assert chunks.offsets is not None
    struct.pack_into("<4q", data, chunks.begin - 8 * len(chunks.offsets), -1, -1, -1, -1)
    path.write_bytes(data)
    assert_cells(bloscpack.File(path).arrays["x"].read(), cells)
    assert bloscpack.Chunks(bytes(data[: chunks.offsets[2]])).cells == cells[:6].tobytes()


def test_bloscpack_journal(tmp_path: Path) -> None:
    path = tmp_path / "x.blp"
    with hs.create(path) as root:
        root.create_array("x", data=np.arange(3000.0), chunks=(100,))
    old = path.read_bytes()
    with hs.open_group(path, "r+") as root:
        root["x"].append(np.arange(100.0))
    new = path.read_bytes()
    begin, end = (np.flatnonzero(np.frombuffer(old, "u1") != np.frombuffer(new[: len(old)], "u1"))[[0, -1]]).tolist()
    journal = b"hslabjnl" + struct.pack("<3Q", 1, len(old), 1) + hashlib.sha256(old[:4096]).digest()
    journal += struct.pack("<2Q", begin, end + 1 - begin) + old[begin : end + 1]
    path.write_bytes(new[: len(old) + 20])
    (tmp_path / ".x.blp.journal").write_bytes(journal + hashlib.sha256(journal).digest())
    for cells in (bloscpack.File(path).arrays["x"].read(), hs.open(path)[:]):
        assert_cells(cells, np.arange(3000.0))


def test_bloscpack_blaze_of_2012(tmp_path: Path) -> None:
    chunk = bloscpack.numcodecs.blosc.compress(np.arange(6.0), b"lz4", 5, 1)
    header = struct.pack("<4s4Biiqq", b"blpk", 2, 0, 0, 8, 48, 48, 1, 0)
    (tmp_path / "x.blp").write_bytes(header + chunk + b'{"dtype": "float64", "shape": [2, 3], "others": []}')
    for cells in (bloscpack.File(tmp_path / "x.blp").arrays["data"].read(), hs.open(tmp_path / "x.blp")[...]):
        assert_cells(cells, np.arange(6.0).reshape(2, 3))


def test_bloscpack_metadata_of_others(tmp_path: Path) -> None:
    """A Python literal, words of others, codes of user types, a code that does not fit its value."""
    sky, rows = {"type": "enum", "base": "|u1", "members": {"clear": 0}}, {"type": "vlen", "base": "<i4"}
    codes = {"sky": {"type": sky}, "rows": {"type": rows, "array": "[]"}, "wrong": "<f4"}
    said = {
        "dtype": "<f8",
        "shape": [6],
        "others": ["a"],
        "name": 3,
        "attrs": {"sky": 1, "rows": [[1], []], "wrong": "x"},
    }
    text = repr(said | {"types": codes}).encode()
    chunk = bloscpack.numcodecs.blosc.compress(np.arange(6.0), b"lz4", 5, 1)
    header = struct.pack("<4s4Biiqii", b"blpk", 2, 2, 0, 8, 48, 48, 1, len(text), 0)
    (tmp_path / "x.blp").write_bytes(header + text + chunk)
    found = bloscpack.File(tmp_path / "x.blp").arrays["data"].attrs
    assert found == dict(hs.open(tmp_path / "x.blp").attrs) | {"rows": found["rows"]}
    assert (found["sky"].dtype, found["others"], found["name"], found["wrong"]) == ("u1", ["a"], 3, "x")
    assert [cell.tolist() for cell in found["rows"]] == [[1], []]


def unpack(tmp_path: Path, name: str) -> Path:
    with ZipFile(GOLDEN / name) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_bloscpack_of_peers(tmp_path: Path) -> None:
    truths = sorted(unpack(tmp_path, "bloscpack/bloscpack-0.16.0.zip").glob("*.npy"))
    assert len(truths) > 10
    for truth in truths:
        (array,) = bloscpack.File(truth.with_suffix(".blp")).arrays.values()
        assert array.read().tobytes() == np.load(truth).tobytes(), truth.name


@pytest.mark.parametrize(
    "options", [{"superchunk": 2}, {}, {"layout": "bcolz"}, {"checksum": "sha1", "slack": 50}], ids=str
)
@pytest.mark.parametrize("kind", [*PLAIN, *ROWS], ids=str)
def test_blaze_types(tmp_path: Path, kind: Any, options: dict[str, Any]) -> None:
    if isinstance(kind, list) and "layout" in options:
        pytest.skip("bcolz has no structures")
    cells, path = make(kind, 7, 5), tmp_path / "x.blaze"
    with hs.create(path, **options) as root:
        root.create_array("x", data=cells, chunks=(2, 5), dims=["y", "x"], fill_value=cells[0, 1])
    assert_cells(blaze.Directory(path).arrays["x"].read(), cells)
    with hs.open(path, "r+") as root:
        root.append(cells)
        root[1] = cells[5]
        root.resize((6, 5))
        root.append(cells)
        root.resize((15, 5))
    wanted = np.full((15, 5), cells[0, 1], cells.dtype)
    wanted[:6], wanted[6:13] = cells[:6], cells
    wanted[1] = cells[5]
    assert_cells(blaze.Directory(path).arrays["x"].read(), wanted)
    assert blaze.Directory(path).arrays["x"].dims == ("y", "x")


def test_blaze_missing_files_and_rows_that_lie_whole(tmp_path: Path) -> None:
    with hs.create(tmp_path / "x.blaze", superchunk=2) as root:
        root.create_array("x", data=np.arange(20.0), chunks=(3,), fill_value=-1)
    (tmp_path / "x.blaze/data/__2__.bin").unlink()
    wanted = np.arange(20.0)
    wanted[6:12] = -1
    assert_cells(blaze.Directory(tmp_path / "x.blaze").arrays["x"].read(), wanted)
    rows = make(ROWS[1], 2)
    with hs.create(tmp_path / "r.blaze", superchunk=1) as root:
        root.create_array("x", data=rows)
    for path in [*(tmp_path / "r.blaze/data").rglob("*.bin"), tmp_path / "r.blaze/meta/superchunks"]:
        path.unlink()
    chunk = bloscpack.numcodecs.blosc.compress(rows.tobytes(), b"lz4", 5, 1)
    header = struct.pack("<4s4Biiqqq", b"blpk", 2, 1, 0, 1, rows.nbytes, rows.nbytes, 1, 0, 40)
    (tmp_path / "r.blaze/data/__1__.bin").write_bytes(header + chunk)
    for cells in (blaze.Directory(tmp_path / "r.blaze").arrays["x"].read(), hs.open(tmp_path / "r.blaze")[:]):
        assert_cells(cells, rows)


def test_blaze_of_peers(tmp_path: Path) -> None:
    truths = sorted(unpack(tmp_path, "bcolz/bcolz-1.2.1.zip").glob("*/*.npy"))
    assert len(truths) > 15
    for truth in truths:
        if "snappy" not in truth.name:
            cells, arrays = np.load(truth), blaze.Directory(truth.with_suffix("")).arrays
            parts = (
                {name: cells[name] for name in cells.dtype.names} if len(arrays) > 1 else {next(iter(arrays)): cells}
            )
            for name, part in parts.items():
                assert arrays[name].read().tobytes() == part.tobytes(), truth.name


def as_netcdf(cells: np.ndarray[Any, Any]) -> list[Any]:
    return [bytes(each) if isinstance(each, bytes) else each for each in cells.ravel().tolist()]


@pytest.mark.parametrize("codec", ["none", "zlib:3", "zstd:3", "bz2:1", "blosc:zstd:5", "shuffle+zlib:1", "gzip:1"])
@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_nczarr_types(tmp_path: Path, dialect: str, codec: str) -> None:
    encoding = "zarr" if codec in ("none", "zlib:3") else "netcdf"
    with hs.create(tmp_path / "x.nczarr", dialect=dialect, char_encoding=encoding) as root:
        root.create_dimension("t", None)
        for kind in NUMBERS:
            array = root.create_array(
                f"n{kind[1:]}{kind[0]}", (0, 5), kind, dims=["t", "y"], chunks=(2, 3), codec=codec
            )
            array.append(make(kind, 7, 5), dim="t")
        shorter = root.create_array("short", (0,), ">i2", dims=["t"], chunks=(2,), fill_value=-7)
        shorter[:3] = np.arange(3)
        root.create_array("hole", (7, 5), "<f4", dims=["t", "y"], chunks=(3, 3), fill_value=np.nan)[4, 4] = 1
        root.create_array("char", dtype=Char(), data=np.array([b"a", b"", b"\xff"], "S1"), dims=["z"])
        root.create_array("chars", (3,), Char(), dims=["z"], fill_value=b"q")
        root.create_array("text", dtype=str, data=["x", "é", ""], dims=["z"])
        root.create_array("texts", (3,), str, dims=["z"], fill_value="zé")
        root.create_array("scalar", data=np.float32(3.5))
        root.create_array("word", dtype=str, data="one")
    group = nczarr.Group(tmp_path / "x.nczarr")
    assert group.draft == (dialect == "draft") and group.dims["t"] == (7, True) and group.dims["y"] == (5, False)
    assert list(group.arrays)[-2:] == ["scalar", "word"]
    for kind in NUMBERS:
        assert_cells(group.arrays[f"n{kind[1:]}{kind[0]}"].read(), make(kind, 7, 5))
    assert_cells(group.arrays["short"].read(), np.array([0, 1, 2, -7, -7, -7, -7], ">i2"))
    hole = np.full((7, 5), np.nan, "f4")
    hole[4, 4] = 1
    assert_cells(group.arrays["hole"].read(), hole)
    assert_cells(group.arrays["char"].read(), np.array([b"a", b"", b"\xff"], "S1"))
    assert_cells(group.arrays["chars"].read(), np.array([b"q"] * 3, "S1"))
    assert group.arrays["text"].read().tolist() == ["x", "é", ""]
    assert group.arrays["texts"].read().tolist() == ["zé"] * 3 and group.arrays["texts"].fill_value == "zé"
    assert_cells(group.arrays["scalar"].read(), np.array(3.5, "f4"))
    assert (group.arrays["word"].shape, group.arrays["word"].read()[()]) == ((), "one")


@pytest.mark.parametrize("dialect", ["current", "draft"])
def test_nczarr_groups_and_attributes(tmp_path: Path, dialect: str) -> None:
    numbers = {kind[1:]: np.array(3, kind)[()] for kind in NUMBERS if kind[0] != ">"}
    more: dict[str, Any] = {
        "text": "plain",
        "json": "[1, 2]",
        "empty": "",
        "str": np.str_("q"),
        "texts": np.array(["a", "bé"]),
    }
    more |= {"floats": np.array([1.5, np.nan, -np.inf]), "ints": np.array([1, -2], "i2"), "nan": np.float32(np.nan)}
    with hs.create(tmp_path / "x.nczarr", dialect=dialect) as root:
        root.attrs.update(numbers | more)
        root.create_dimension("unused", 7)
        inner = root.create_group("g/sub", attrs=more)
        inner.create_array(
            "v", data=make("<i2", 2, 3), dims=["x", "unused2"], attrs={**numbers, "_FillValue": np.int16(-1)}
        )
        inner.create_array("anonymous", data=make("<i2", 2, 3))
    group = nczarr.Group(tmp_path / "x.nczarr")
    nodes = dict(group.walk())
    assert list(nodes) == ["g", "g/sub", "g/sub/v", "g/sub/anonymous"]
    assert_values(group.attrs, numbers | more)
    assert_values(nodes["g/sub"].attrs, more)
    assert_values(nodes["g/sub/v"].attrs, {**numbers, "_FillValue": np.int16(-1)})
    array, anonymous = nodes["g/sub/v"], nodes["g/sub/anonymous"]
    assert isinstance(array, nczarr.Array) and isinstance(anonymous, nczarr.Array)
    assert (array.dims, array.references) == (("x", "unused2"), ("/g/sub/x", "/g/sub/unused2"))
    assert anonymous.dims == (
        ("_anonymous2", "_anonymous3") if dialect == "draft" else ("_Anonymous_Dim_2", "_Anonymous_Dim_3")
    )
    assert group.dims["unused"] == (7, False)


def test_nczarr_types_of_users(tmp_path: Path) -> None:
    fields = [
        ("p", tagged(POINT.base, POINT)),
        ("s", tagged(np.dtype("i2"), SKY), (2,)),
        ("t", "S4"),
        ("f", ">f4", (2, 2)),
    ]
    box = Compound(np.dtype([*fields, ("o", tagged(np.dtype("V3"), BLOB))]), "box")
    cells = np.zeros(3, tagged(box.base, box))
    cells[1] = ((2, np.nan), [1, 0], b"ab", [[1, 2], [3, np.inf]], b"abc")
    with hs.create(tmp_path / "x.nczarr", dialect="draft") as root:
        group = root.create_group("g")
        group.create_array("boxes", (3,), box, dims=["y"], chunks=(2,), fill_value=cells[1])[0] = cells[0]
        group.create_array("sky", dtype=SKY, data=np.array([0, 1], "i2"), dims=["z"])
        group.create_array("blob", dtype=BLOB, data=np.array([b"abc", b"a\0c"], "V3"), dims=["z"])
        group.attrs["boxes"] = cells
        group.attrs["skies"] = np.array([1, 0], tagged(np.dtype("i2"), SKY))
    found = nczarr.Group(tmp_path / "x.nczarr").groups["g"]
    wanted = np.array([cells[0], cells[1], cells[1]], box.base)
    assert found.arrays["boxes"].read().tobytes() == wanted.tobytes() and found.arrays["boxes"].type == "/g/box"
    assert found.attrs["boxes"].tobytes() == cells.tobytes() and found.attrs["skies"].tolist() == [1, 0]
    assert set(found.attrs) == {"boxes", "skies"}
    assert found.arrays["sky"].read().tolist() == [0, 1]
    assert_cells(found.arrays["blob"].read(), np.array([b"abc", b"a\0c"], "V3"))
    assert found.find_type("/g/sky")[1]["members"] == {"clear": 0, "cloudy": 1}


@pytest.mark.parametrize("release", ["4.9.0", "4.9.3", "4.10.1"])
def test_nczarr_of_peers(tmp_path: Path, release: str) -> None:
    folder, count = unpack(tmp_path, f"nczarr/netcdf{release}.zip"), 0
    truth = json.loads((folder / "truth.json").read_text())
    for store in sorted(set(truth) - {"attrs", "attrs_badjson", "quantize"}):
        for path, said in () if store.startswith("_") else truth[store]["vars"].items():
            if said.get("sel") or "hex_le" not in said or path == "/szip":
                continue
            cells = dict(nczarr.Group(folder / store).walk())[path.strip("/")].read()  # type: ignore[union-attr]
            assert cells.astype(cells.dtype.newbyteorder("<")).tobytes().hex() == said["hex_le"], (store, path)
            count += 1
    assert count > 15


@pytest.mark.parametrize(
    "options",
    [{"profile": "v2"}, {"profile": "v2", "object_codec": "pickle"}, {"profile": "v3"}],
    ids=["json2", "pickle", "v3"],
)
def test_hdmf_cells(tmp_path: Path, options: dict[str, Any]) -> None:
    is_v3 = options["profile"] == "v3"
    kinds = [*PLAIN, ROWS[0]] if is_v3 else [*PLAIN, *ROWS]
    shards: dict[str, Any] = {"shards": (4, 6)} if is_v3 else {}
    row = np.dtype(
        [("a", ">i4"), ("text", tagged(OBJECT, VlenString())), ("of", tagged(OBJECT, ObjectRef())), ("f", "f4")]
    )
    with hs.create(tmp_path / "x.hdmf.zarr", **options) as root:
        for number, kind in enumerate(kinds):
            cells = make(kind, 7, 5)
            root.create_array(f"n{number}", data=cells, dims=["y", "x"], chunks=(2, 3), **shards)
            root.create_array(f"h{number}", (3,), kind, chunks=(2,), fill_value=cells[0, 0])
        root.create_array("text", data=["a", "é", ""], dtype=str, chunks=(2,))
        root.create_array("none", (3, 2), str, chunks=(2, 2))[0, 0] = "q"
        root.create_array("bytes", data=[b"a", b"\xc3\xa9\0"], dtype=VlenBytes())
        root.create_array("scalar", data=np.float32(3))
        lists = root.create_array("lists", (3,), VlenArray(np.dtype("<i2")))
        lists[1] = np.array([3, 4], "i2")
        sparse = root.create_array("sparse", (9, 9), ">i4", fill_value=-1, chunks=(2, 2), **shards)
        sparse[3:5, 3] = 7
        root.create_array("word", data="one", dtype=str)
        rows = root.create_array("rows", (4,), row, chunks=(3,))
        rows[0] = (7, "é", root["text"].ref, 0.5)
        root.create_array("refs", data=[[root["n0"].ref, None], [root.ref, None]], dtype=ObjectRef(), chunks=(2, 1))
        root.create_array("ref", data=root["n0"].ref, dtype=ObjectRef())
    dataset = hdmf.Dataset(tmp_path / "x.hdmf.zarr")

    def read(name: str) -> np.ndarray[Any, Any]:
        array = dataset[name]
        assert isinstance(array, hdmf.Array)
        return array.read()

    for number, kind in enumerate(kinds):
        cells = make(kind, 7, 5)
        if is_v3:  # which has no byte order
            kind = np.dtype(kind).newbyteorder("=")
            cells = cells.astype(kind)
        assert_cells(read(f"n{number}"), cells)
        assert_cells(read(f"h{number}"), np.full(3, cells[0, 0], kind))
    assert read("text").tolist() == ["a", "é", ""] and read("none").tolist() == [["q", ""], ["", ""], ["", ""]]
    assert read("bytes").tolist() == [b"a", b"\xc3\xa9\0"] and read("word")[()] == "one"
    assert_cells(read("scalar"), np.array(3, "f4"))
    assert [each.tolist() for each in read("lists")] == [[], [3, 4], []]
    wanted = np.full((9, 9), -1)
    wanted[3:5, 3] = 7
    assert read("sparse").tolist() == wanted.tolist()
    (first, *others) = read("rows").tolist()
    assert (first[:2], first[3], others) == ((7, "é"), 0.5, [(0, "", None, 0.0)] * 3)
    references = [first[2], *read("refs")[:, 0], read("ref")[()]]
    assert [dataset.resolve(each).folder.name for each in references] == ["text", "n0", "x.hdmf.zarr", "n0"]
    assert read("refs")[:, 1].tolist() == [None, None]


@pytest.mark.parametrize("profile", ["v2", "v3"])
def test_hdmf_links_references_regions_and_attributes(tmp_path: Path, profile: str) -> None:
    cells = np.arange(40).reshape(8, 5)
    with hs.create(tmp_path / "other.hdmf.zarr", profile=profile) as root:
        root.create_array("lfp", data=cells)
    (tmp_path / "deep").mkdir()
    with hs.create(tmp_path / "deep/far.hdmf.zarr", profile=profile) as root:
        root.create_array("lfp", data=cells)
    with hs.create(tmp_path / "x.hdmf.zarr", profile=profile) as root:
        root.attrs["object_id"] = "root"
        raw = root.create_array("g/raw", data=cells, dims=["t", "c"], attrs={"object_id": "raw", **ATTRIBUTES})
        raw.attrs["of"] = raw.ref
        root.create_array("g/c", (3,), "c8", attrs={"_FillValue": np.complex64(1j), "units": "K"})
        root.create_link("signal", raw)
        root.create_link("lost", "/nowhere")
        root.create_link("far", "/lfp", "../other.hdmf.zarr")
        root.create_link("out", "/lfp", "../deep/../../out.hdmf.zarr")
        keys: list[Any] = [(slice(2, 4), slice(None, None, 2)), (slice(None), [0, 1, 4]), cells % 13 == 0, ...]
        root.create_array("parts", data=[raw.regionref[key] for key in keys], dtype=RegionRef())
        root.create_dimension("t2", None)
    dataset = hdmf.Dataset(tmp_path / "x.hdmf.zarr")
    raw2, parts, far = dataset["g/raw"], dataset["parts"], dataset["far"]
    assert isinstance(raw2, hdmf.Array) and isinstance(parts, hdmf.Array) and isinstance(far, hdmf.Array)
    assert dataset["signal"].folder == raw2.folder == dataset.resolve(raw2.attrs["of"]).folder
    assert_cells(far.read(), cells)
    assert raw2.dims == ("t", "c") and dataset.root.unlimited == ["t2"]
    assert_values(raw2.attrs, ATTRIBUTES)
    assert_values(dataset["g/c"].attrs, {"_FillValue": np.complex64(1j), "units": "K"})
    for name in ("lost", "out"):
        with pytest.raises(KeyError):
            dataset[name]
    for key, part in zip(keys, parts.read(), strict=True):
        target = dataset.resolve(part)
        assert isinstance(target, hdmf.Array)
        assert_cells(target.read_region(part.region), cells[key])
    with hs.open(tmp_path / "x.hdmf.zarr", "r+") as root:
        root.move("g/raw", "g/moved")
    assert hdmf.Dataset(tmp_path / "x.hdmf.zarr")["signal"].folder.name == "moved"


@pytest.mark.parametrize("name", ["hdmf_zarr_v2_0130", "hdmf_zarr_v2_old_060", "hdmf_zarr_v3_0140"])
def test_hdmf_of_peers(tmp_path: Path, name: str) -> None:
    stores = [
        path.parent
        for path in unpack(tmp_path, f"hdmf/{name}.zip").glob("*/*")
        if path.name in (".zgroup", "zarr.json")
    ]
    assert len(stores) > 3
    for store in stores:
        dataset, root = hdmf.Dataset(store), hs.open(store, format="hdmf")
        for array in dataset.walk():
            if isinstance(array, hdmf.Array) and array.word not in ("object", "object_reference") and not array.rows:
                cells = root[array.folder.relative_to(store).as_posix()][...]
                assert array.read().tolist() == np.asarray(cells).tolist(), array.folder
    nwb = next(store for store in stores if "nwb" in store.name)
    assert "nwb.base" in next(iter(hdmf.Dataset(nwb).read_specifications()["core"].values()))
