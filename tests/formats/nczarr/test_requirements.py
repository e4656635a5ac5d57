"""One test per requirement of the draft of 2018, R1 to R62, named after its number, and the store that shows them all.

What is read is written here with ``json.dumps`` and ``open`` alone; what hyperslab writes is compared as JSON. Those
that state no behaviour are tested by the nearest fact: R49 (the draft supplements Zarr and deviates where netCDF needs
it) by there being nothing but documents and chunks of Zarr under Zarr's keys, R57 (the types of Zarr mostly fit)
by the table of types, R62 (who may pass on the draft's text, and what it builds on) by the sources that the format's
docstrings name.
"""

from __future__ import annotations

import json
import os
from collections.abc import MutableMapping
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import FormatError, Invalid, NotFound, ReadOnly, SelectionError, Unsupported
from hyperslab.model.attrs import equal
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, Compound, Enum, Opaque, VlenArray, VlenString, tag_of, tagged
from hyperslab.model.spec import GroupSpec
from hyperslab.stores import KeyValueMap, MemoryStore

PROVENANCE = f"version=2,hyperslab={hs.__version__},nczarr=draft,zarr=2"
OTHER = np.dtype([("s", "S8"), ("q", "<f8")])
PAIR = np.dtype([("a", "<i4"), ("b", OTHER), ("c", "<f4", (2,))])
C_T, OTHER_T, O_T = Compound(PAIR, "c_t"), Compound(OTHER, "other_t"), Opaque(10, "o_t")
E_T = Enum(np.dtype("u1"), (("A", 0), ("B", 3)), "e_t")
NUMBERS = {
    "byte": "|i1",
    "ubyte": "|u1",
    "short": "<i2",
    "ushort": "<u2",
    "int": "<i4",
    "uint": "<u4",
    "int64": "<i8",
    "uint64": "<u8",
    "float": "<f4",
    "double": "<f8",
}


def array(dtype, shape=(2, 3), dims=("/y", "/x"), **more):
    """A ``.zarray`` of one uncompressed chunk."""
    said = {"zarr_format": 2, "shape": list(shape), "chunks": [max(size, 1) for size in shape], "dtype": dtype}
    said |= {"compressor": None, "fill_value": None, "order": "C", "filters": None}
    return said | ({} if dims is None else {"dimensions": list(dims)}) | more


def names(*dims, **attrs):
    """The ``.zattrs`` of an array."""
    return {**attrs, "_ARRAY_DIMENSIONS": list(dims)}


DRAFT = {
    ".zdataset": {"nczarr_version": "0.1-2018"},
    ".zgroup": {"zarr_format": 2},
    ".zdims": {"x": 3, "y": 2},
    ".zattrs": {"_NCProperties": PROVENANCE},
    ".zattr_type": {"_NCProperties": "char"},
}
SHOWN = {
    ".zdataset": {"nczarr_version": "0.1-2018"},
    ".zgroup": {"zarr_format": 2},
    ".zdims": {"x": 3, "y": 2, "t": {"size": 5, "unlimited": 1}},
    ".ztypedefs": {
        "other_t": {"class": "compound", "fields": [["s", "|S8"], ["q", "<f8"]]},
        "c_t": {"class": "compound", "fields": [["a", "<i4"], ["b", "/other_t"], ["c", "<f4", [2]]]},
        "o_t": {"class": "opaque", "size": 10},
        "e_t": {"class": "enum", "base": "|u1", "members": {"A": 0, "B": 3}},
    },
    ".zattrs": {"title": "x", "other_t.s": 8, "_NCProperties": PROVENANCE},
    ".zattr_type": {"title": "char", "other_t.s": "int", "_NCProperties": "char"},
    "a/.zarray": array("<i4", fill_value=0),
    "a/.zattrs": names("y", "x", units="m"),
    "a/.zattr_type": {"units": "char"},
    "ch/.zarray": array("|u1", fill_value=0, nc_type="char"),
    "ch/.zattrs": names("y", "x"),
    "cmp/.zarray": array(
        [["a", "<i4"], ["b", [["s", "|S8"], ["q", "<f8"]]], ["c", "<f4", [2]]], (2,), ["/y"], typedef="/c_t"
    ),
    "cmp/.zattrs": names("y"),
    "op/.zarray": array("|V10", (3,), ["/x"], typedef="/o_t"),
    "op/.zattrs": names("x"),
    "en/.zarray": array("|u1", (3,), ["/x"], typedef="/e_t"),
    "en/.zattrs": names("x"),
    "text/.zarray": array("|S8", (2,), ["/y"]),
    "text/.zattrs": names("y"),
    "time/.zarray": array("<f8", (5,), ["/t"], chunks=[4]),
    "time/.zattrs": names("t"),
    "g1/.zgroup": {"zarr_format": 2},
    "g1/.zdims": {"x": 4},
    "g1/.zattrs": {"note": "in g1"},
    "g1/.zattr_type": {"note": "char"},
    "g1/v/.zarray": array("<i2", (2, 4), ["/y", "/g1/x"]),
    "g1/v/.zattrs": names("y", "x"),
}
CELLS = np.arange(6, dtype="<i4").reshape(2, 3)
PAIRS = np.array([(1, ("one", 1.5), (1, 2)), (2, ("two", 2.5), (3, 4))], PAIR)
RAWS = np.array([b"0123456789", b"abcdefghij", bytes(10)], "V10")
CHUNKS = {
    "a/0.0": CELLS.tobytes(),
    "ch/0.0": b"abcdef",
    "cmp/0": PAIRS.tobytes(),
    "op/0": RAWS.tobytes(),
    "en/0": bytes([0, 3, 0]),
    "text/0": b"h\xc3\xa9llo\0\0" + bytes(8),
    "time/0": np.arange(4, dtype="<f8").tobytes(),
    "time/1": np.array([4, 0, 0, 0], "<f8").tobytes(),
    "g1/v/0.0": np.arange(8, dtype="<i2").tobytes(),
}


def write(folder, documents, chunks=()):
    """A store of these documents and chunks."""
    for place, content in [*documents.items(), *dict(chunks).items()]:
        os.makedirs(os.path.dirname(folder / place), exist_ok=True)
        with open(folder / place, "wb") as file:
            file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
    return str(folder)


def written(folder):
    """The documents of a store, without the copy that is made of them."""
    keys = [path for path in Path(folder).rglob(".z*") if path.name != ".zmetadata"]
    return {str(path.relative_to(folder)): json.loads(path.read_bytes()) for path in keys}


def document(folder, key):
    """One document of a store."""
    with open(Path(folder) / key) as file:
        return json.load(file)


def make(folder, **options):
    """A new dataset of the draft dialect."""
    return hs.create(str(folder), format="nczarr", dialect="draft", **options)


@pytest.fixture
def place(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def shown(place):
    return hs.open(write(place, SHOWN, CHUNKS))


def build(root):
    """The dataset that ``SHOWN`` and ``CHUNKS`` describe, through the public face."""
    dims = (Dimension("x", 3), Dimension("y", 2), Dimension("t", 5, True))
    types = {"other_t": OTHER_T, "c_t": C_T, "o_t": O_T, "e_t": E_T}
    declare(root, GroupSpec(attrs={"title": "x"}, dims=dims, types=types))
    plain = {"chunks": "one", "codec": "none"}

    def new(name, shape, dtype, dims, data, **more):
        options = plain | {"chunks": more.pop("chunks", shape)} | more
        root.create_array(name, shape, dtype, dims=dims, **options)[...] = data

    new("a", (2, 3), "i4", ("y", "x"), CELLS, fill_value=0, attrs={"units": "m"})
    new("ch", (2, 3), Char(), ("y", "x"), np.frombuffer(b"abcdef", "S1").reshape(2, 3), fill_value="")
    new("cmp", (2,), C_T, ("y",), PAIRS)
    new("op", (3,), O_T, ("x",), RAWS)
    new("en", (3,), E_T, ("x",), np.array([0, 3, 0], "u1"))
    new("text", (2,), str, ("y",), ["h\xe9llo", ""], attrs={"_nczarr_maxstrlen": 8})
    new("time", (5,), "f8", ("t",), np.arange(5.0), chunks=(4,))
    root.create_group("g1", {"note": "in g1"})
    declare(root["g1"], GroupSpec(attrs={"note": "in g1"}, dims=(Dimension("x", 4),)))
    new("g1/v", (2, 4), "i2", ("y", "x"), np.arange(8).reshape(2, 4))


def declare(group, spec):
    """Declare dimensions and types in a group."""
    group._session.writer().put(group.path, spec)


def one(folder, doc, attrs=None, chunks=(), /, **more):
    """The array ``v`` of a store of the draft dialect with this ``.zarray``, and its dataset."""
    documents = DRAFT | {"v/.zarray": doc} | ({"v/.zattrs": attrs} if attrs else {})
    documents |= {key: {**documents.get(key, {}), **value} for key, value in more.pop("change", {}).items()}
    root = hs.open(write(folder, documents, chunks), **more)
    return root["v"], root


def kinds(place):
    """The kinds of problems that ``check`` finds."""
    return {problem.kind for problem in hs.check(str(place))}


# -- the store of all of it -------------------------------------------------------------------------------------------


def test_the_store_that_shows_all_is_read(shown):
    assert shown.format == "nczarr"
    assert list(shown.dims.values()) == [Dimension("x", 3), Dimension("y", 2), Dimension("t", 5, True)]
    assert dict(shown.types) == {"other_t": OTHER_T, "c_t": C_T, "o_t": O_T, "e_t": E_T}
    assert dict(shown.attrs) == {"title": "x"}
    assert np.array_equal(shown["cmp"][...], PAIRS)
    found = {name: (node.dtype, node.dims, node[...].tolist()) for name, node in shown.arrays() if name != "cmp"}
    assert found == {
        "a": (np.dtype("i4"), ("y", "x"), CELLS.tolist()),
        "ch": (np.dtype("S1"), ("y", "x"), [[b"a", b"b", b"c"], [b"d", b"e", b"f"]]),
        "op": (np.dtype("V10"), ("x",), RAWS.tolist()),
        "en": (np.dtype("u1"), ("x",), [0, 3, 0]),
        "text": (np.dtypes.StringDType(), ("y",), ["h\xe9llo", ""]),
        "time": (np.dtype("f8"), ("t",), [0, 1, 2, 3, 4]),
    }
    assert [shown[name].spec.dtype for name in ("cmp", "op", "en", "ch", "text")] == [
        C_T,
        O_T,
        E_T,
        Char(),
        VlenString(),
    ]
    assert (dict(shown["g1"].attrs), shown["g1"].dims["x"]) == ({"note": "in g1"}, Dimension("x", 4))
    assert shown["g1/v"][...].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert not hs.check(shown.url)


def test_the_store_that_shows_all_is_written(place):
    with make(place) as root:
        build(root)
    assert written(place) == SHOWN | {
        "text/.zattrs": document(place, "text/.zattrs"),
        "text/.zattr_type": document(place, "text/.zattr_type"),
    }
    assert document(place, "text/.zattrs") == names("y", _nczarr_maxstrlen=8)
    assert {key: (place / key).read_bytes() for key in CHUNKS} == CHUNKS


# -- what a dataset is ------------------------------------------------------------------------------------------------

PLAIN = {
    ".zgroup": {"zarr_format": 2},
    ".zattrs": {"title": "plain"},
    "v/.zarray": array("<i4", dims=None),
    "w/.zarray": array("<i4", dims=None),
    "w/.zattrs": names("lat", "lon"),
}


def test_r01_plain_zarr_is_read_as_a_netcdf_model(place):
    write(place, PLAIN, {"v/0.0": CELLS.tobytes()})
    assert hs.open(str(place)).format == "zarr2"
    root = hs.open(str(place), format="nczarr")
    assert (root.format, dict(root.attrs)) == ("nczarr", {"title": "plain"})
    assert (root["v"].dims, root["w"].dims) == (("_Anonymous_Dim_2", "_Anonymous_Dim_3"), ("lat", "lon"))
    assert root["v"][...].tolist() == CELLS.tolist()


def test_r02_provenance_alone_does_not_make_a_dataset_nczarr(tmp_path):
    said = {".zattrs": {"_NCProperties": PROVENANCE}}
    assert hs.open(write(tmp_path / "a", PLAIN | said)).format == "zarr2"
    assert hs.open(write(tmp_path / "b", PLAIN | said | {".zdims": {"d": 7}})).dims["d"] == Dimension("d", 7)
    assert hs.open(write(tmp_path / "c", PLAIN | {".zdataset": DRAFT[".zdataset"]})).format == "nczarr"
    assert hs.open(write(tmp_path / "d", PLAIN | {".zdims": {"d": 7}})).format == "zarr2"


def test_r03_a_plain_reader_reads_it(place):
    zarr = pytest.importorskip("zarr")
    with make(place) as root:
        build(root)
    group = zarr.open_group(str(place), mode="r", zarr_format=2)
    assert group["a"][...].tolist() == CELLS.tolist()
    assert group["ch"][...].tobytes() == b"abcdef"
    assert group["g1/v"].attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]
    assert hs.open(str(place), format="zarr2")["time"][...].tolist() == [0, 1, 2, 3, 4]


# -- the map of keys to values ----------------------------------------------------------------------------------------


def test_r04_keys_are_ascii_where_that_is_asked_for():
    with pytest.raises(Invalid, match="US-ASCII"):
        KeyValueMap(MemoryStore(), ascii_only=True).set("h\xe9", b"1")
    assert KeyValueMap(MemoryStore()).contains("h\xe9") is False


def test_r05_newmap_makes_a_map(tmp_path):
    KeyValueMap.newmap(tmp_path / "map").set("a/b", b"1")
    assert (tmp_path / "map/a/b").read_bytes() == b"1"
    wanted = ("newmap", "freemap", "contains", "ith", "len", "keys", "get", "set", "remove", "clear")
    assert all(callable(getattr(KeyValueMap, name)) for name in wanted)


def test_r06_freemap_leaves_keys_and_values(tmp_path):
    pairs = KeyValueMap.newmap(tmp_path / "map")
    pairs.set("k", b"value")
    value = pairs.get("k")
    pairs.freemap()
    assert value == b"value" == (tmp_path / "map/k").read_bytes()
    with pytest.raises(Invalid, match="the map was freed"):
        pairs.get("k")


def filled(content):
    """A map in memory of these pairs."""
    made = KeyValueMap.newmap()
    made.update(content)
    return made


@pytest.fixture
def pairs():
    return filled({"b": b"2", "a": b"1", "c/d": b"3"})


def test_r07_contains(pairs):
    assert (pairs.contains("a"), pairs.contains("z"), "c/d" in pairs) == (True, False, True)


def test_r08_ith(pairs):
    assert [pairs.ith(i) for i in range(3)] == [("a", b"1"), ("b", b"2"), ("c/d", b"3")]
    with pytest.raises(IndexError, match="pair 3 of a map of 3"):
        pairs.ith(3)


def test_r09_len(pairs):
    assert pairs.len() == len(pairs) == 3


def test_r10_keys(pairs):
    assert pairs.keys() == ["a", "b", "c/d"]


def test_r11_get(pairs):
    assert (pairs.get("a"), pairs.get("z")) == (b"1", None)


def test_r12_set(pairs):
    pairs.set("a", b"new")
    pairs.set("e", b"5")
    assert (pairs.get("a"), pairs.get("e"), pairs.len()) == (b"new", b"5", 4)


def test_r13_remove(pairs):
    assert pairs.remove("a") == b"1"
    with pytest.raises(KeyError):
        pairs.remove("a")


def test_r14_clear(pairs):
    pairs.clear()
    assert (pairs.len(), pairs.keys()) == (0, [])


# -- groups -----------------------------------------------------------------------------------------------------------


def test_r15_the_dataset_is_the_root_group(shown):
    assert isinstance(shown, hs.Group)
    assert (shown.path, set(shown)) == ("", {"a", "ch", "cmp", "op", "en", "text", "time", "g1"})


def test_r16_the_dataset_names_the_version_of_the_format(place):
    make(place).close()
    assert document(place, ".zdataset") == {"nczarr_version": "0.1-2018"}
    write(place, {".zdataset": {"nczarr_version": "0.1-2018", "extra": 1}})
    with hs.open(str(place), "r+") as root:
        root.attrs["title"] = "new"
    assert document(place, ".zdataset") == {"nczarr_version": "0.1-2018", "extra": 1}
    write(place, {".zdataset": {"extra": 1}})
    (place / ".zmetadata").unlink(missing_ok=True)
    with pytest.raises(FormatError, match="nczarr_version is missing in"):
        hs.open(str(place))


def test_r17_attributes_inside_zgroup_are_read_and_written_beside_it(place):
    inside = {".zgroup": {"zarr_format": 2, ".zattrs": {"a": "in", "b": "in"}}}
    beside = {".zattrs": {"b": "beside", "_NCProperties": "version=2,nczarr=0.1-2018"}}
    write(place, {k: v for k, v in DRAFT.items() if k != ".zattr_type"} | inside | beside)
    root = hs.open(str(place), "r+")
    assert dict(root.attrs) == {"a": "in", "b": "beside"}
    root.attrs["c"] = "new"
    root.close()
    assert document(place, ".zgroup") == {"zarr_format": 2}
    found = document(place, ".zattrs")
    assert (found["a"], found["b"], found["c"]) == ("in", "beside", "new")


def test_r18_the_version_counts_in_the_root_alone(tmp_path):
    groups = {"g/.zgroup": {"zarr_format": 99}, "h/.zgroup": {}}
    assert set(hs.open(write(tmp_path / "a", DRAFT | groups))) == {"g", "h"}
    with pytest.raises(FormatError, match="zarr_format is 99, not 2"):
        hs.open(write(tmp_path / "b", DRAFT | {".zgroup": {"zarr_format": 99}}))
    with make(tmp_path / "c") as root:
        root.create_group("g/h")
    assert document(tmp_path / "c", "g/.zgroup") == document(tmp_path / "c", "g/h/.zgroup") == {"zarr_format": 2}


def test_r19_an_array_is_described_by_zarray(place):
    doc = array("<i2", (4,), ["/x"], fill_value=-1, order="F") | {
        "chunks": [2],
        "filters": [{"id": "delta", "dtype": "<i2"}],
    }
    doc |= {"compressor": {"id": "zlib", "level": 1}}
    found, _ = one(place, doc, change={".zdims": {"x": 4}})
    assert (found.shape, found.chunks, found.dtype, found.fill_value) == ((4,), (2,), np.dtype("i2"), -1)
    assert [codec.name for codec in found.spec.codecs] == ["delta", "bytes", "zlib"]
    with make(place.with_name("new")) as root:
        root.create_array("v", (4,), "i2", dims="x", chunks=2, codec="none", fill_value=-1)
    keys = {"zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters", "dimensions"}
    assert document(place.with_name("new"), "v/.zarray").keys() == keys


def test_r20_attributes_lie_beside_and_may_be_missing(place):
    found, _ = one(place, array("<i4"), change={"v/.zattr": {"a": "alias", "b": "alias"}, "v/.zattrs": {"b": "plain"}})
    assert dict(found.attrs) == {"a": "alias", "b": "plain"}
    none, _ = one(place.with_name("none"), array("<i4"))
    assert dict(none.attrs) == {}


def test_r21_types_of_attributes_lie_beside_them(place):
    values = {name: np.array([1, 2], dtype) for name, dtype in NUMBERS.items()}
    values |= {"char": "text", "string": np.str_("text"), "strings": np.array(["a", "b"], np.dtypes.StringDType())}
    values |= {"one": np.float32(1), "enum": np.array(3, tagged(E_T.base, E_T))}
    with make(place) as root:
        declare(root, GroupSpec(types={"e_t": E_T}))
        root.create_array("v", (2, 3), "i4", dims=("y", "x"), attrs=values)
    assert document(place, "v/.zattr_type") == dict.fromkeys(NUMBERS) | {name: name for name in NUMBERS} | {
        "char": "char",
        "string": "string",
        "strings": "string",
        "one": "float",
        "enum": "/e_t",
    }
    stored = document(place, "v/.zattrs")
    assert (stored["one"], stored["double"], stored["enum"], stored["char"]) == (1.0, [1.0, 2.0], 3, "text")
    back = hs.open(str(place))["v"].attrs
    assert list(back) == list(values)
    assert all(equal(back[name], value) for name, value in values.items())
    assert tag_of(back["enum"].dtype) == E_T


def test_r21_other_spellings_of_types_are_read(place):
    attrs, codes = {"a": 1, "b": 1, "c": 1, "d": [1, 2.5], "e": "x"}, {"a": "<f4", "b": "ushort"}
    found, _ = one(place, array("<i4"), change={"v/.zattrs": attrs, "v/.zattrs_type": codes})
    wanted = {"a": np.float32(1), "b": np.uint16(1), "c": np.int32(1), "d": np.array([1, 2.5]), "e": "x"}
    assert all(equal(found.attrs[name], value) for name, value in wanted.items())


# -- dimensions -------------------------------------------------------------------------------------------------------


def test_r22_dimensions_are_names_with_sizes(place):
    root = hs.open(write(place, DRAFT | {".zdims": {"lat": 73, "lon": 0}}))
    assert list(root.dims.values()) == [Dimension("lat", 73), Dimension("lon", 0)]
    with make(place.with_name("new")) as root:
        root.create_array("v", (2, 3), "i4", dims=("y", "x"))
    assert document(place.with_name("new"), ".zdims") == {"y": 2, "x": 3}


def test_r23_qualified_names(place):
    with make(place) as root:
        root.create_array("g/h/v", (2,), "i4", dims="x")
        root.create_array("w", (2,), "i4", dims="x")
        with pytest.raises(Invalid, match="holds no slash"):
            root.create_array("bad", (2,), "i4", dims="a/b")
    assert document(place, "g/h/v/.zarray")["dimensions"] == ["/g/h/x"]
    assert document(place, "w/.zarray")["dimensions"] == ["/x"]
    assert kinds(write(place.with_name("b"), DRAFT | {".zdims": {"a/b": 3}})) == {"dimension"}


def test_r24_no_dimension_stays_without_a_name(place):
    with make(place) as root:
        made = root.create_array("v", (2, 5), "i4", dims=("y", None))
        assert made.dims == ("y", "_anonymous5")


def test_r25_pseudo_dimensions_lie_in_the_root(place):
    with make(place) as root:
        for name in ("v", "g/w"):
            root.create_array(name, (5, 5, 7), "i4")
    assert document(place, ".zdims") == {"_anonymous5": 5, "_anonymous7": 7}
    assert document(place, "g/w/.zarray")["dimensions"] == ["/_anonymous5", "/_anonymous5", "/_anonymous7"]


@pytest.mark.parametrize("name", ["_anonymous3", "Anonymous3", "_Anonymous_Dim_3", "_zdim_3", ".zdim_3"])
def test_r25_names_that_others_made_up_are_read(place, name):
    found, _ = one(place, array("<i4", (3,), [f"/{name}"]), change={".zdims": {name: 3}})
    assert (found.dims, found.spec.problem) == ((name,), None)


def test_r26_unlimited_dimensions(place):
    _, root = one(place, array("<i4", (2,), ["/t"]), change={".zdims": {"t": {"size": 2, "unlimited": 1}}})
    assert root.dims["t"] == Dimension("t", 2, True)
    with hs.open(str(place), "r+") as root:
        root["v"].append(np.array([7], "i4"), dim="t")
    assert document(place, ".zdims")["t"] == {"size": 3, "unlimited": 1}
    assert document(place, "v/.zarray")["shape"] == [3]


def test_r27_an_array_lists_its_dimensions(place):
    found, _ = one(place, array("<i4"), names("wrong", "names"))
    assert found.dims == ("y", "x")
    lost, _ = one(place.with_name("lost"), array("<i4", dims=None), names("y", "x"))
    assert (lost.dims, lost.spec.layout["dimensions"]) == (("y", "x"), ("/y", "/x"))
    nothing, _ = one(place.with_name("nothing"), array("<i4", dims=None))
    assert nothing.dims == ("_anonymous2", "_anonymous3")


@pytest.mark.parametrize(
    ("doc", "said"),
    [
        (array("<i4", (2, 4)), "an axis of 4 cells has the dimension /x of size 3"),
        (array("<i4", dims=["/y"]), r"dimensions is \['/y'\], the shape \[2, 3\]"),
    ],
)
def test_r27_dimensions_that_do_not_fit_are_an_error(place, doc, said):
    found, root = one(place, doc, change={"w/.zarray": array("<i4")})
    assert (found.shape, root["w"][...].tolist()) == (tuple(doc["shape"]), [[0] * 3] * 2)
    with pytest.raises(Unsupported, match=said):
        found[...]


# -- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtype"), NUMBERS.items())
def test_r28_numbers_are_written_by_their_bytes(place, name, dtype):
    with make(place) as root:
        root.create_array("v", (2, 3), dtype, dims=("y", "x"))
    assert document(place, "v/.zarray")["dtype"] == dtype


@pytest.mark.parametrize(
    ("bits", "dtype"),
    [(f"<{kind}{8 * size}", f"<{kind}{size}") for kind, size in zip("iuiuiuff", (2, 2, 4, 4, 8, 8, 4, 8), strict=True)],
)
def test_r28_sizes_in_bits_are_read(place, bits, dtype):
    found, _ = one(place, array(bits), None, {"v/0.0": CELLS.astype(dtype).tobytes()})
    assert (found.dtype, found[...].tolist()) == (np.dtype(dtype), CELLS.tolist())
    assert "bit-count dtype" in kinds(place)


def test_r28_i8_is_always_of_64_bits(place):
    found, _ = one(place, array("<i8"))
    assert found.dtype == np.dtype("i8")


def test_r29_little_endian_unless_asked(place):
    with make(place) as root:
        root.create_array("v", (2, 3), "i4")[...] = CELLS
        root.create_array("b", (2, 3), ">i4", codec="none")[...] = CELLS
    assert document(place, "v/.zarray")["dtype"] == "<i4"
    assert document(place, "b/.zarray")["dtype"] == ">i4"
    assert (place / "b/0.0").read_bytes() == CELLS.astype(">i4").tobytes()


@pytest.mark.parametrize("dtype", ["bool", "M8[s]", "m8[s]", "c8", "c16", "f2", "U4", "S4"])
def test_r30_r31_r32_types_without_a_netcdf_form_are_not_defined(place, dtype):
    with make(place) as root, pytest.raises(Unsupported, match=r"dialect draft.* has no cells of type"):
        root.create_array("v", (2, 3), dtype)


def foreign(place, dtype, cells, fill=None, **options):
    """The array ``v`` of a plain store, as format nczarr sees it."""
    doc = array(dtype, (len(cells),), None, fill_value=fill)
    root = hs.open(
        write(place, {".zgroup": {"zarr_format": 2}, "v/.zarray": doc}, {"v/0": cells.tobytes()}),
        format="nczarr",
        **options,
    )
    return root["v"], root


def test_r30_booleans_are_unsigned_bytes(place):
    cells = np.array([True, False])
    found, _ = foreign(place, "|b1", cells, True, native=False)
    assert (found.dtype, found[...].tolist(), found.fill_value) == (np.dtype("u1"), [1, 0], 1)
    assert foreign(place, "|b1", cells)[0][...].tolist() == [True, False]


def test_r31_times_are_text_with_a_unit(place):
    cells = np.array(["2020-01-31T12:00:00", "NaT"], "M8[s]")
    found, _ = foreign(place, "<M8[s]", cells, 0, native=False)
    assert found[...].tolist() == ["2020-01-31T12:00:00", ""]
    assert (found.attrs["units"], found.fill_value) == ("s", "1970-01-01T00:00:00")
    steps, _ = foreign(place, "<m8[h]", np.array([36, -1], "m8[h]"), native=False)
    assert (steps[...].tolist(), steps.attrs["units"]) == (["PT36H", "-PT1H"], "h")
    assert foreign(place, "<M8[s]", cells)[0].dtype == np.dtype("M8[s]")


@pytest.mark.parametrize(("dtype", "name"), [("<c16", "_Complex"), ("<c8", "_ComplexFloat"), (">c16", "_Complex")])
def test_r32_complex_numbers_are_compounds_of_the_root(place, dtype, name):
    cells = np.array([1 + 2j, -3j], dtype)
    found, root = foreign(place, dtype, cells, [0.5, "NaN"], native=False)
    assert (found.spec.dtype.name, found[...].tolist()) == (name, [(1, 2), (0, -3)])
    assert found.fill_value["r"] == 0.5
    assert np.isnan(found.fill_value["i"])
    assert root.types[name].base.names == ("r", "i")
    assert foreign(place, dtype, cells)[0][...].tolist() == cells.tolist()


def test_r33_raw_bytes_are_opaque(place):
    found, _ = foreign(place, "|V29", np.zeros(2, "V29"))
    assert found.spec.dtype == Opaque(29, "_opaque29")


@pytest.mark.parametrize(
    ("dtype", "more"), [("|u1", {"nc_type": "char"}), (">S1", {}), ("|S1", {}), ("<U1", {"nc_type": "char"})]
)
def test_r34_characters_are_marked_bytes(place, dtype, more):
    found, _ = one(place, array(dtype, **more), None, {"v/0.0": b"abcdef"})
    assert (found.spec.dtype, found[1].tolist()) == (Char(), [b"d", b"e", b"f"])
    with hs.open(str(place), "r+") as root:
        root["v"].attrs["changed"] = "x"
    assert hs.open(str(place))["v"][0].tolist() == [b"a", b"b", b"c"]
    unmarked, _ = one(place.with_name("unmarked"), array("|u1"))
    assert unmarked.spec.dtype == np.dtype("u1")


def test_r35_opaque_is_raw_bytes(place):
    with make(place) as root:
        root.create_array("v", (3,), O_T, dims="x")
    doc = document(place, "v/.zarray")
    assert (doc["dtype"], doc["typedef"]) == ("|V10", "/o_t")
    assert document(place, ".ztypedefs") == {"o_t": {"class": "opaque", "size": 10}}


def test_r36_text_is_of_a_fixed_width(place):
    with make(place) as root:
        assert root.create_array("v", (2,), str, dims="y").spec.codecs[0].config["length"] == 128
        short = root.create_array("s", (2,), str, dims="y", attrs={"_nczarr_maxstrlen": 4}, codec="none")
        short[...] = ["h\xe9l", ""]
        with pytest.raises(Invalid, match="text of 6 bytes does not fit into cells of 4"):
            short[0] = "h\xe9llo"
    assert (document(place, "v/.zarray")["dtype"], document(place, "s/.zarray")["dtype"]) == ("|S128", "|S4")
    assert (place / "s/0").read_bytes() == b"h\xc3\xa9l\0\0\0\0"
    with hs.open(str(place), "r+", truncate=True) as root:
        root["s"][0] = "abc\xe9"
    assert hs.open(str(place))["s"][0] == "abc"


def test_r36_text_of_one_byte_is_told_from_characters(place):
    with make(place) as root:
        root.create_array("v", (2,), str, dims="y", attrs={"_nczarr_maxstrlen": 1})[...] = ["a", ""]
    assert hs.open(str(place))["v"][...].tolist() == ["a", ""]


def test_r36_a_field_of_text_has_its_length_in_the_group(place):
    with make(place) as root:
        declare(root, GroupSpec(types={"other_t": OTHER_T}))
    assert (document(place, ".zattrs")["other_t.s"], document(place, ".zattr_type")["other_t.s"]) == (8, "int")
    assert dict(hs.open(str(place)).types) == {"other_t": OTHER_T}
    types = {".ztypedefs": {"other_t": SHOWN[".ztypedefs"]["other_t"]}}
    without = write(place.with_name("without"), DRAFT | types)
    assert dict(hs.open(without).types) == {}
    (problem,) = hs.check(without)
    assert "text of 8 bytes needs the attribute 'other_t.s' of its group, which is missing" in problem.message


def test_r37_enumerations(place):
    with make(place) as root:
        made = root.create_array("v", (3,), E_T, dims="x", chunks=2, codec="none", fill_value=9)
        made[...] = [0, 3, 0]
        with pytest.raises(Invalid, match="7 is no member of enum e_t"):
            made[1] = 7
    assert document(place, ".ztypedefs") == {"e_t": {"class": "enum", "base": "|u1", "members": {"A": 0, "B": 3}}}
    assert document(place, "v/.zarray")["dtype"] == "|u1"
    assert (place / "v/1").read_bytes() == bytes([0, 9])
    (place / "v/0").write_bytes(bytes([0, 5]))
    assert hs.open(str(place))["v"][...].tolist() == [0, 5, 0]


def test_r38_no_arrays_of_variable_length(place):
    with make(place) as root, pytest.raises(Unsupported, match="has no cells of type vlen"):
        root.create_array("v", (3,), VlenArray(np.dtype("i4"), "v_t"))


def test_r39_user_types_are_declared_in_groups(place):
    inner = {"p_t": {"class": "compound", "fields": [["e", "/e_t"], ["raw", "/o_t", [2]]]}}
    documents = {".ztypedefs": {key: SHOWN[".ztypedefs"][key] for key in ("o_t", "e_t")}, "g/.zgroup": {}}
    root = hs.open(write(place, DRAFT | documents | {"g/.ztypedefs": inner}))
    found = root["g"].types["p_t"]
    assert found.base == np.dtype([("e", "u1"), ("raw", "V10", (2,))])
    assert [tag_of(found.base[name].base) for name in ("e", "raw")] == [E_T, O_T]
    with make(place.with_name("new")) as made:
        declare(made, GroupSpec(types=root.types))
        made.create_group("g")
        declare(made["g"], GroupSpec(types=root["g"].types))
    assert document(place.with_name("new"), "g/.ztypedefs") == inner


def test_r40_an_array_names_its_type_beside_the_dtype(place):
    types = {".ztypedefs": {"o_t": {"class": "opaque", "size": 10}}}
    other, _ = one(place, array("|V9", typedef="/o_t"), change=types)
    with pytest.raises(Unsupported, match=r"typedef /o_t is opaque\(10\) o_t"):
        other[...]
    missing, _ = one(place.with_name("b"), array("|V10"), change=types)
    assert missing.spec.dtype == Opaque(10, "_opaque10")
    unknown, _ = one(place.with_name("c"), array([["a", "<i4"]], typedef="/no_t"), change=types)
    assert (unknown.spec.dtype, unknown.spec.problem) == (np.dtype([("a", "<i4")]), None)


def test_r41_types_are_the_same_by_their_name(place):
    alike = {"class": "compound", "fields": [["a", "<i4"]]}
    types = {".ztypedefs": {"one_t": alike, "two_t": alike}}
    documents = {f"{name}/.zarray": array([["a", "<i4"]], typedef=f"/{name}_t") for name in ("one", "two")}
    root = hs.open(write(place, DRAFT | types | documents))
    assert [root[name].spec.dtype.name for name in ("one", "two")] == ["one_t", "two_t"]
    assert root["one"].spec.dtype != root["two"].spec.dtype


# -- data -------------------------------------------------------------------------------------------------------------


def test_r42_hyperslabs_with_strides(place):
    cells = np.arange(10 * 12).reshape(10, 12)
    with make(place) as root:
        made = root.create_array("v", (10, 12), "i4", dims=("y", "x"), chunks=(4, 5))
        made[...] = cells
        made[1:9:3, 11::-4] = cells[1:9:3, 11::-4] = -1
    found = hs.open(str(place))["v"]
    assert np.array_equal(found[...], cells)
    assert np.array_equal(found[8:2:-2, 1::3], cells[8:2:-2, 1::3])
    with hs.trace() as cost:
        assert found[1:3, 6:9].tolist() == cells[1:3, 6:9].tolist()
    assert cost.chunks == 1


def test_r43_a_chunk_is_an_object(place):
    with make(place) as root:
        made = root.create_array("v", (4, 6), "i4", dims=("y", "x"), chunks=(2, 3), codec="none")
        made[:2, 3:] = 1
    assert sorted(path.name for path in (place / "v").iterdir() if path.name[0] != ".") == ["0.1"]
    assert (place / "v/0.1").read_bytes() == np.ones((2, 3), "<i4").tobytes()


def test_r44_structures_are_packed(place):
    aligned = np.dtype([("a", "i4"), ("b", "f8"), ("c", "f4", (2,))], align=True)
    with make(place) as root:
        made = root.create_array("v", (2,), aligned, dims="x", codec="none")
        made[...] = np.array([(1, 2.5, (3, 4)), (5, 6.5, (7, 8))], aligned)
    assert document(place, "v/.zarray")["dtype"] == [["a", "<i4"], ["b", "<f8"], ["c", "<f4", [2]]]
    raw = (place / "v/0").read_bytes()
    assert len(raw) == 2 * 20
    assert raw[:12] == np.int32(1).tobytes() + np.float64(2.5).tobytes()


def test_r45_provenance(place):
    make(place).close()
    assert document(place, ".zattrs")["_NCProperties"] == PROVENANCE
    write(place, {".zattrs": {"_NCProperties": "version=2,netcdf=4.10.1,hdf5=1.14,nczarr=draft"}})
    (place / ".zmetadata").unlink()
    with hs.open(str(place), "r+") as root:
        root.attrs["title"] = "new"
        assert "_NCProperties" not in root.attrs
    pairs = document(place, ".zattrs")["_NCProperties"].split(",")
    assert {"netcdf=4.10.1", "hdf5=1.14", "nczarr=draft", f"hyperslab={hs.__version__}"} <= set(pairs)


def test_r46_plain_zarr_is_only_read(place):
    write(place, PLAIN | {"s/.zarray": array("|S4", (2,), None)}, {"s/0": b"ab\0\0abcd"})
    with pytest.raises(ReadOnly, match="adopt"):
        hs.open(str(place), "r+", format="nczarr")
    root = hs.open(str(place), format="nczarr", native=False)
    assert (root["s"].spec.dtype, root["s"][...].tolist()) == (VlenString(), ["ab", "abcd"])


def test_r46_each_use_of_a_structure_is_a_type_of_its_own(place):
    fields = [["a", "<i4"]]
    root = hs.open(
        write(place, PLAIN | {f"{name}/.zarray": array(fields, dims=None) for name in ("a", "g/b")}),
        format="nczarr",
        native=False,
    )
    assert [root[name].spec.dtype.name for name in ("a", "g/b")] == ["_compound1", "_compound2"]


@pytest.mark.parametrize("dialect", ["draft", "current"])
def test_r46_adopt_makes_it_nczarr_in_place(place, dialect):
    chunks = {"v/0.0": CELLS.tobytes(), "g/s/0": b"ab\0\0abcd"}
    documents = {
        "g/.zgroup": {"zarr_format": 2},
        "g/s/.zarray": array("|S4", (2,), None),
        "g/s/.zattrs": names("n", n=1),
    }
    write(place, PLAIN | documents, chunks)
    before = {key: (place / key).stat().st_mtime_ns for key in chunks}
    hs.adopt(str(place), dialect)
    assert {key: (place / key).stat().st_mtime_ns for key in chunks} == before
    root = hs.open(str(place), "r+")
    prefix = "_anonymous" if dialect == "draft" else "_Anonymous_Dim_"
    assert (root.format, dict(root.attrs)) == ("nczarr", {"title": "plain"})
    assert (root["v"].dims, root["w"].dims) == ((f"{prefix}2", f"{prefix}3"), ("lat", "lon"))
    assert (root["v"][...].tolist(), root["g/s"][...].tolist()) == (CELLS.tolist(), ["ab", "abcd"])
    assert (equal(root["g/s"].attrs["n"], np.int32(1)), root["g"].dims["n"]) == (True, Dimension("n", 2))
    assert (".zdataset" in written(place)) == (dialect == "draft")
    root["v"][0, 0] = 7
    assert not hs.check(str(place))
    with pytest.raises(Invalid, match="NCZarr already"):
        hs.adopt(str(place))


def test_r46_adopt_changes_nothing_where_something_cannot_be_held(place):
    documents = PLAIN | {"b/.zarray": array("|b1", dims=None), "c/.zarray": array("<c8", dims=None)}
    write(place, documents)
    with pytest.raises(Unsupported, match=r"/b: .* has no cells of type bool; /c: .* has no cells of type complex64"):
        hs.adopt(str(place), "draft")
    assert written(place) == documents


def test_r47_unknown_keys_are_kept(place):
    change = {".zgroup": {"new": 1}, ".zdims": {"t": {"size": 4, "unlimited": 1, "calendar": "none"}}}
    change |= {".ztypedefs": {"v_t": {"class": "vlen", "base": "<i4"}}}
    one(place, array("<i4", (4,), ["/t"], new={"deep": [1]}), change=change)
    with hs.open(str(place), "r+") as root:
        root["v"].append(np.array([1], "i4"), dim="t")
        root.attrs["title"] = "new"
    assert document(place, "v/.zarray")["new"] == {"deep": [1]}
    assert document(place, ".zgroup") == {"zarr_format": 2, "new": 1}
    assert document(place, ".zdims")["t"] == {"size": 5, "unlimited": 1, "calendar": "none"}
    assert document(place, ".ztypedefs") == {"v_t": {"class": "vlen", "base": "<i4"}}


@pytest.mark.parametrize(
    ("doc", "said"),
    [
        (array("<i4", compressor={"id": "secret"}), "codec 'secret' is not known"),
        (array("<q9"), "'<q9' is no data type that is known"),
    ],
)
def test_r48_what_cannot_be_decoded_is_known_on_opening(place, doc, said):
    bad, root = one(place, doc, change={"w/.zarray": array("<i4")})
    assert said in bad.spec.problem
    assert root["w"][...].tolist() == [[0] * 3] * 2
    with pytest.raises(Unsupported, match="known"):
        bad[...]


# -- what the draft stands on -----------------------------------------------------------------------------------------


def test_r49_nothing_but_documents_and_chunks_of_zarr(place):
    with make(place) as root:
        build(root)
    own = {".zdataset", ".zdims", ".ztypedefs", ".zattr_type"}
    keys = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file() and path.name != ".lock"}
    left = {key for key in keys if Path(key).name not in own}
    assert left == {key for key in SHOWN if Path(key).name not in own} | set(CHUNKS) | {".zmetadata"}


def test_r50_the_map_is_a_mutable_mapping(pairs):
    assert isinstance(pairs, MutableMapping)
    pairs["e"] = b"5"
    assert (pairs.pop("e"), list(pairs), dict(pairs)["a"]) == (b"5", ["a", "b", "c/d"], b"1")


def test_r51_places_follow_a_snapshot(pairs):
    assert pairs.ith(2) == ("c/d", b"3")
    pairs.remove("b")
    assert pairs.ith(1) == ("c/d", b"3")
    with pytest.raises(SelectionError):
        pairs.ith(2)


def test_r52_a_prefix_of_a_store_is_a_dataset(place):
    for name in ("one", "two"):
        with make(place / name) as root:
            root.create_array("v", (2, 3), "i4")
    assert set(KeyValueMap.newmap(place / "one").keys()) >= {".zdataset", ".zgroup", ".zdims", "v/.zarray"}
    with pytest.raises(NotFound):
        hs.open(str(place / "three"))


def test_r53_keys_are_paths_without_a_leading_slash(place):
    with make(place) as root:
        made = root.create_array("/gr\xfcn/\u2603", (2,), "i4", codec="none")
        made[...] = 1
        assert root["/gr\xfcn/\u2603"].path == "gr\xfcn/\u2603"
    assert (place / "gr\xfcn" / "\u2603" / "0").exists()


def test_r54_r55_keys_and_values_are_all_of_it(place):
    with make(place) as root:
        build(root)
        root["a"][0, 0] = 5
        root["a"][0, 0] = 6
    store = MemoryStore()
    KeyValueMap(store).update(KeyValueMap.newmap(place))
    copied = hs.open(store)
    assert copied["a"][0].tolist() == [6, 1, 2]
    assert np.array_equal(copied["cmp"][...], PAIRS)


def test_r56_groups_have_attributes(place):
    with make(place) as root:
        root.create_group("g", {"n": np.int16(3)})
    assert (document(place, "g/.zattrs"), document(place, "g/.zattr_type")) == ({"n": 3}, {"n": "short"})
    assert equal(hs.open(str(place))["g"].attrs["n"], np.int16(3))


@pytest.mark.parametrize("dtype", [*NUMBERS.values(), Char(), VlenString(), C_T, O_T, E_T], ids=str)
def test_r57_types_of_netcdf_are_types_of_zarr(place, dtype):
    with make(place) as root:
        declare(root, GroupSpec(types={"other_t": OTHER_T}))
        made = root.create_array("v", (2,), dtype, dims="y").spec.dtype
    found = hs.open(str(place))["v"].spec.dtype
    assert found == made == (np.dtype(dtype) if isinstance(dtype, str) else dtype)


def test_r58_filters_see_the_byte_order_of_the_dtype(place):
    doc = array(">i2", (4,), ["/d"], filters=[{"id": "shuffle", "elementsize": 2}])
    cells = np.array([1, 2, 258, -1], ">i2")
    found, _ = one(place, doc, None, {"v/0": bytes([0, 0, 1, 255, 1, 2, 2, 255])}, change={".zdims": {"d": 4}})
    assert found[...].tolist() == cells.tolist()


def test_r59_an_array_of_another_format_is_alone_unreadable(place):
    write(place, DRAFT | {"v/.zarray": array("<i4") | {"zarr_format": 3}, "w/.zarray": array("<i4")})
    root = hs.open(str(place))
    assert (set(root), root["w"].shape) == ({"v", "w"}, (2, 3))
    with pytest.raises(FormatError, match="zarr_format is 3, not 2"):
        root["v"]


def test_r60_documents_of_many_arrays_are_read_at_once_and_parsed_when_asked_for(place):
    with make(place) as root, root.batch():
        for number in range(30):
            root.create_array(f"v{number}", (2, 3), "i4", dims=("y", "x"), attrs={"n": number})
    with hs.trace() as cost:
        found = hs.open(str(place))
        assert len(list(found)) == 30
        assert found["v17"].attrs["n"] == 17
    assert cost.requests <= 2


def test_r61_aligned_types_of_netcdf_are_packed(place):
    aligned = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    with make(place) as root:
        declare(root, GroupSpec(types={"p_t": Compound(aligned, "p_t")}))
    assert document(place, ".ztypedefs") == {"p_t": {"class": "compound", "fields": [["a", "|i1"], ["b", "<f8"]]}}
    assert hs.open(str(place)).types["p_t"].base.itemsize == 9


def test_r62_the_sources_are_named():
    from hyperslab.formats import nczarr

    assert "https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html" in nczarr.__doc__
