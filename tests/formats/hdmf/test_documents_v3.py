"""Profile v3, document by document: what hdmf-zarr 0.14 writes reads as what it means, and is written so again."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import FormatError, Invalid, Unsupported
from hyperslab.formats.hdmf.cell_types import is_same_type
from hyperslab.formats.hdmf.v3 import HdmfV3
from hyperslab.formats.zarr.dialect import MetadataDialect
from hyperslab.model.dtypes import ObjectRef, RegionRef, VlenArray, VlenBytes, VlenString, tagged
from hyperslab.model.refs import ObjectReference
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

ZSTD = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
LITTLE = [{"name": "bytes", "configuration": {"endian": "little"}}, ZSTD]
ONE_BYTE = [{"name": "bytes"}, ZSTD]
UTF8 = [{"name": "vlen-utf8", "configuration": {}}, ZSTD]
OBJECT = np.dtype(object)
TEXT, REF, REGION = (tagged(OBJECT, kind) for kind in (VlenString(), ObjectRef(), RegionRef()))
ROW = np.dtype([("id", "<i4"), ("label", TEXT), ("ref", REF)])
WIDE = {"name": "fixed_length_utf32", "configuration": {"length_bytes": 2048}}
MARK = {"_hyperslab": {"version": 1, "dtype": {"type": "bytes"}}}


def struct(**fields):
    """A ``data_type`` of fields."""
    said = [{"name": name, "data_type": kind} for name, kind in fields.items()]
    return {"name": "struct", "configuration": {"fields": said}}


STRUCT = struct(id="int32", label=WIDE, ref=WIDE)
ZERO = {"id": 0, "label": "", "ref": ""}
TABLE = [
    *[(name, name, LITTLE, 0, np.dtype(name)) for name in ("int16", "int32", "int64", "uint16", "uint32", "uint64")],
    *[(name, name, ONE_BYTE, 0, np.dtype(name)) for name in ("int8", "uint8")],
    ("float32", "float32", LITTLE, 0.0, np.dtype("f4")),
    ("float64", "float64", LITTLE, 0.0, np.dtype("f8")),
    ("bool", "bool", ONE_BYTE, False, np.dtype("?")),
    ("int", "int64", LITTLE, 0, np.dtype("i8")),
    ("<i2", "int16", LITTLE, 0, np.dtype("i2")),
    ("str", "string", UTF8, "", VlenString()),
    ("object_reference", "string", UTF8, "", ObjectRef()),
    ("region_reference", "string", UTF8, "", RegionRef()),
    (None, struct(x="uint32", w="float32"), LITTLE, {"x": 0, "w": 0.0}, np.dtype([("x", "u4"), ("w", "f4")])),
]
WRITTEN = [row for row in TABLE if row[0] not in ("int", "<i2")]


def array(word, data_type, codecs, fill, shape=(3,), **attrs):
    """The document of an array as the peer writes it."""
    words = {} if word is None else {"_DTYPE": word}
    return {
        "zarr.json": copy.deepcopy(
            {
                "shape": list(shape),
                "data_type": data_type,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shape)}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
                "fill_value": fill,
                "codecs": codecs,
                "attributes": words | attrs,
                "zarr_format": 3,
                "node_type": "array",
                "storage_transformers": [],
            }
        )
    }


def kinds(docs, node="a"):
    """What is noted of the documents."""
    return [problem.kind for problem in HdmfV3().problems(docs, node)]


def names(spec):
    """The codecs of an array, those in shards too."""
    return [
        [step.name for step in codec.config["codecs"]] if codec.name == "sharding_indexed" else codec.name
        for codec in spec.codecs
    ]


def made(dtype, shape=(3,), **more):
    """The document of a new array."""
    layout = {"checksum": False} | more.pop("layout", {})
    return HdmfV3().render(HdmfV3().new_array(ArraySpec(shape=shape, dtype=dtype, chunks=shape, layout=layout, **more)))


def test_the_spelling_is_one():
    spelling: MetadataDialect = HdmfV3()
    assert (spelling.format, spelling.nodes, spelling.extras, spelling.consolidated_name) == (
        "hdmf",
        ("zarr.json",),
        (),
        "zarr.json",
    )


@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
@pytest.mark.parametrize(("word", "data_type", "codecs", "fill", "kind"), TABLE, ids=lambda value: str(value)[:24])
def test_a_row_of_the_table_is_read_and_written_again(word, data_type, codecs, fill, kind, shape):
    docs = array(word, data_type, codecs, fill, shape, unit="V")
    spec = HdmfV3().parse(docs, "a")
    assert isinstance(spec, ArraySpec)
    assert is_same_type(spec.dtype, kind)
    assert (spec.shape, spec.attrs, spec.problem) == (shape, {"unit": "V"}, None)
    assert HdmfV3().render(spec) == docs
    assert kinds(docs) == []
    assert HdmfV3().key_of(spec)((0,) * len(shape)) == "/".join(["c", *"0" * len(shape)])


@pytest.mark.parametrize("shape", [(3,), ()])
@pytest.mark.parametrize(("word", "data_type", "codecs", "fill", "kind"), WRITTEN, ids=lambda value: str(value)[:24])
def test_new_arrays_are_spelled_as_the_table_has_it(word, data_type, codecs, fill, kind, shape):
    docs = made(kind, shape, codecs=(Codec("zstd"),))
    said = docs["zarr.json"]
    assert (said["data_type"], said["fill_value"], said["shape"]) == (data_type, fill, list(shape))
    assert [codec["name"] for codec in said["codecs"]] == [codec["name"] for codec in codecs]
    assert said["attributes"] == ({} if word is None else {"_DTYPE": word})
    spec = HdmfV3().parse(docs, "a")
    assert is_same_type(spec.dtype, kind)
    assert HdmfV3().render(spec) == docs


# -- rows -------------------------------------------------------------------------------------------------------------


def test_rows_with_references():
    docs = array(None, STRUCT, LITTLE, ZERO, _REFERENCE_FIELDS=["ref"])
    spec = HdmfV3().parse(docs, "a")
    assert is_same_type(spec.dtype, ROW)
    assert spec.fill_cell()[()].item() == (0, "", None)
    assert names(spec) == ["record_text", "bytes", "zstd"]
    assert spec.codecs[0].config == {"widths": {"label": 512, "ref": 512}}
    assert HdmfV3().render(spec) == docs
    assert kinds(docs) == []


def test_rows_with_regions():
    docs = array(None, STRUCT, LITTLE, ZERO, _REFERENCE_FIELDS=["ref"], _REGION_FIELDS=["label"])
    spec = HdmfV3().parse(docs, "a")
    assert is_same_type(spec.dtype, np.dtype([("id", "<i4"), ("label", REGION), ("ref", REF)]))
    assert HdmfV3().render(spec) == docs


def test_new_rows_have_room_for_512_characters_or_more():
    row = np.dtype([("id", "<i4"), ("label", TEXT), ("ref", REF), ("part", REGION)])
    docs = made(row, layout={"widths": {"label": 700, "ref": 3}})
    fields = {field["name"]: field["data_type"] for field in docs["zarr.json"]["data_type"]["configuration"]["fields"]}
    sizes = {name: said["configuration"]["length_bytes"] for name, said in fields.items() if name != "id"}
    assert sizes == {"label": 2800, "ref": 2048, "part": 2048}
    assert docs["zarr.json"]["attributes"] == {"_REFERENCE_FIELDS": ["ref"], "_REGION_FIELDS": ["part"]}
    assert docs["zarr.json"]["fill_value"] == {"id": 0, "label": "", "ref": "", "part": ""}
    spec = HdmfV3().parse(docs, "a")
    assert is_same_type(spec.dtype, row)
    assert spec.codecs[0].config["widths"] == {"label": 700, "ref": 512, "part": 512}
    assert HdmfV3().render(spec.evolve(shape=(9,)))["zarr.json"]["data_type"] == docs["zarr.json"]["data_type"]


def test_a_wish_may_say_the_widths_in_its_codec():
    docs = made(ROW, codecs=(Codec("record_text", {"widths": {"label": 600}}),))
    assert HdmfV3().parse(docs, "a").codecs[0].config["widths"] == {"label": 600, "ref": 512}


def test_narrow_text_stays_of_its_width():
    narrow = {"name": "fixed_length_utf32", "configuration": {"length_bytes": 32}}
    docs = array(None, struct(a=narrow, b=WIDE), LITTLE, {"a": "", "b": ""})
    spec = HdmfV3().parse(docs, "a")
    assert is_same_type(spec.dtype, np.dtype([("a", "<U8"), ("b", TEXT)]))
    assert HdmfV3().render(spec) == docs


@pytest.mark.parametrize("said", [["gone"], ["id"], "ref", [1], {"a": 1}, None])
def test_fields_that_hold_no_references_are_noted_and_kept(said):
    docs = array(None, STRUCT, LITTLE, ZERO, _REFERENCE_FIELDS=said)
    spec = HdmfV3().parse(docs, "a")
    assert spec.problem is None
    assert kinds(docs) == ([] if said is None else ["reference-fields"])
    if said is not None:
        assert HdmfV3().render(spec) == docs


def test_rows_of_fields_that_have_no_text():
    with pytest.raises(Unsupported, match="'a'"):
        made(np.dtype([("a", tagged(OBJECT, VlenBytes()))]))


# -- text, bytes, shards ----------------------------------------------------------------------------------------------


def test_bytes_are_text_with_a_mark():
    docs = made(VlenBytes())
    assert docs["zarr.json"]["data_type"] == "string"
    assert [codec["name"] for codec in docs["zarr.json"]["codecs"]] == ["vlen-utf8"]
    assert docs["zarr.json"]["attributes"] == {"_DTYPE": "str"} | MARK
    spec = HdmfV3().parse(docs, "a")
    assert (spec.dtype, spec.fill_value, names(spec)) == (VlenBytes(), b"", ["utf8_bytes", "vlen-utf8"])
    assert HdmfV3().render(spec) == docs
    del docs["zarr.json"]["attributes"]["_hyperslab"]
    assert HdmfV3().parse(docs, "a").dtype == VlenString()


def test_bytes_that_are_no_text_are_refused():
    spec = HdmfV3().parse(made(VlenBytes()), "a")
    chain = build_chain(spec.codecs, ChunkLayout(spec.dtype, (3,), spec.fill_value))
    cells = np.array([b"a", "é".encode(), b""], object)
    stored = chain.encode(cells)
    assert bytes(stored) == b"\3\0\0\0\1\0\0\0a\2\0\0\0\xc3\xa9\0\0\0\0"
    assert chain.decode(stored).tolist() == cells.tolist()
    with pytest.raises(Invalid, match="UTF-8"):
        chain.encode(np.array([b"a", b"\xff", b""], object))
    with pytest.raises(Invalid, match="text"):
        made(VlenBytes(), fill_value=b"\xff")


def test_fill_values_of_bytes():
    docs = made(VlenBytes(), fill_value="é".encode())
    assert docs["zarr.json"]["fill_value"] == "é"
    assert HdmfV3().parse(docs, "a").fill_value == "é".encode()


@pytest.mark.parametrize(
    ("kind", "step"), [(ObjectRef(), "reference_text"), (ROW, "record_text"), (VlenBytes(), "utf8_bytes")], ids=str
)
def test_shards(kind, step):
    wish = ArraySpec(shape=(8,), dtype=kind, chunks=(2,), codecs=(Codec("zstd"),), layout={"shards": (4,)})
    docs = HdmfV3().render(HdmfV3().new_array(wish))
    spec = HdmfV3().parse(docs, "a")
    assert names(spec) == [[step, "bytes" if kind is ROW else "vlen-utf8", "zstd", "crc32c"]]
    assert (spec.chunks, spec.inner_chunks) == ((4,), (2,))
    assert step not in str(docs)
    assert HdmfV3().render(spec) == docs


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (np.dtype("c16"), "complex128"),
        (np.dtype("M8[s]"), "datetime64[s]"),
        (np.dtype("U5"), "str160"),
        (np.dtype("S3"), "bytes24"),
        (VlenArray(np.dtype("i4")), "vlen-array"),
    ],
)
def test_other_types_stay_as_zarr_has_them_and_are_named_by_numpy(kind, word):
    docs = made(kind)
    assert docs["zarr.json"]["attributes"]["_DTYPE"] == word
    assert kinds(docs) == []
    assert is_same_type(HdmfV3().parse(docs, "a").dtype, kind)


def test_wishes_that_cannot_be():
    with pytest.raises(Invalid, match="no fill value"):
        made(ObjectRef(), fill_value="x")
    with pytest.raises(Invalid, match="no fill value"):
        made(ROW, fill_value=(1, "a", None))


# -- names of dimensions ----------------------------------------------------------------------------------------------


def test_dimensions_are_named_twice():
    docs = made(np.dtype("i2"), (3, 4), dims=("time", "channel"))
    assert docs["zarr.json"]["dimension_names"] == ["time", "channel"]
    assert docs["zarr.json"]["attributes"]["_ARRAY_DIMENSIONS"] == ["time", "channel"]
    spec = HdmfV3().parse(docs, "a")
    assert (spec.dims, dict(spec.attrs)) == (("time", "channel"), {})
    assert kinds(docs) == []


def test_dimensions_of_peers_are_named_once():
    docs = array("int16", "int16", LITTLE, 0, (3, 4), _ARRAY_DIMENSIONS=["time", "channel"])
    spec = HdmfV3().parse(docs, "a")
    assert spec.dims == ("time", "channel")
    assert HdmfV3().render(spec) == docs
    renamed = HdmfV3().render(spec.evolve(dims=("t", "channel")))["zarr.json"]
    assert renamed["dimension_names"] == renamed["attributes"]["_ARRAY_DIMENSIONS"] == ["t", "channel"]


@pytest.mark.parametrize(
    ("said", "more", "dims"),
    [(["x"], {}, (None, None)), ("xy", {}, (None, None)), (["x", "y"], {"dimension_names": ["a", "b"]}, ("a", "b"))],
)
def test_names_that_do_not_fit_are_noted(said, more, dims):
    docs = array("int16", "int16", LITTLE, 0, (3, 4), _ARRAY_DIMENSIONS=said)
    docs["zarr.json"] |= more
    spec = HdmfV3().parse(docs, "a")
    assert spec.dims == dims
    assert kinds(docs) == ["dimensions"]
    if not more:
        assert HdmfV3().render(spec) == docs


# -- what _DTYPE says that is not so ----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [None, "gizmo", {"a": 1}, 3, "object_reference"])
def test_the_type_of_zarr_counts_and_the_rest_is_noted(word):
    docs = array(word, "int16", LITTLE, 0)
    spec = HdmfV3().parse(docs, "a")
    assert (spec.dtype, spec.problem) == (np.dtype("i2"), None)
    assert kinds(docs) == ["_DTYPE"]
    assert HdmfV3().render(spec)["zarr.json"]["attributes"] == {"_DTYPE": "int16" if word is None else word}


def test_fill_values_of_references_are_noted():
    docs = array("object_reference", "string", UTF8, "/g")
    spec = HdmfV3().parse(docs, "a")
    assert spec.fill_cell()[()] is None
    assert kinds(docs) == ["fill_value"]
    assert HdmfV3().render(spec) == docs
    docs = array(None, STRUCT, LITTLE, ZERO | {"id": 7}, _REFERENCE_FIELDS=["ref"])
    assert kinds(docs) == ["fill_value"]
    assert HdmfV3().render(HdmfV3().parse(docs, "a")) == docs


@pytest.mark.parametrize("name", ["reference_text", "record_text", "utf8_bytes"])
def test_codecs_of_ours_are_none_of_a_document(name):
    docs = array("str", "string", [{"name": name}, *UTF8], "")
    assert name in HdmfV3().parse(docs, "a").problem


# -- specifications and groups ----------------------------------------------------------------------------------------


def test_specifications_have_no_attributes():
    docs = array(None, "string", UTF8, "", ())
    node = "specifications/core/2.0.0/namespace"
    spec = HdmfV3().parse(docs, node)
    assert spec.problem is None
    assert kinds(docs, node) == []
    assert HdmfV3().render(spec) == docs
    said = HdmfV3().render(HdmfV3().specification())["zarr.json"]
    assert (said["shape"], said["data_type"], said["attributes"]) == ([], "string", {})
    assert [codec["name"] for codec in said["codecs"]] == ["vlen-utf8"]


def test_consolidated_metadata_is_that_of_zarr():
    root = HdmfV3().render(GroupSpec(layout={"hdmf": {"specloc": "specifications"}}))
    inner = HdmfV3().render(GroupSpec())
    copied = HdmfV3().write_consolidated(root, {"g": inner, "a": array("int16", "int16", LITTLE, 0)})
    assert copied["attributes"] == {".specloc": "specifications"}
    empty = {"kind": "inline", "must_understand": False, "metadata": {}}
    assert copied["consolidated_metadata"]["metadata"]["g"]["consolidated_metadata"] == empty
    assert set(HdmfV3().read_consolidated(copied)) == {"g", "a"}
    assert HdmfV3().without_consolidated(copied) == root["zarr.json"]


@pytest.mark.parametrize("attributes", [None, [1], "x"])
def test_attributes_that_are_no_object(attributes):
    for docs in (array("int16", "int16", LITTLE, 0), HdmfV3().render(GroupSpec())):
        docs["zarr.json"]["attributes"] = attributes
        with pytest.raises(FormatError, match="attributes"):
            HdmfV3().parse(docs, "a")


def test_shards_of_rows_have_rows_of_zeros_where_nothing_was_written():
    wish = ArraySpec(shape=(8,), dtype=ROW, chunks=(2,), layout={"shards": (4,)})
    spec = HdmfV3().parse(HdmfV3().render(HdmfV3().new_array(wish)), "a")
    chain = build_chain(spec.codecs, ChunkLayout(spec.dtype, (4,), spec.fill_value))
    cells = np.array([(1, "a", ObjectReference("/g")), (0, "", None), (0, "", None), (0, "", None)], ROW)
    assert chain.decode(chain.encode(cells)).tolist() == cells.tolist()
    index = np.full((2, 2), 2**64 - 1, "<u8").tobytes()
    crc = build_chain((Codec("bytes"), Codec("crc32c")), ChunkLayout(np.dtype("u1"), (len(index),)))
    nothing = crc.encode(np.frombuffer(index, "u1"))
    assert chain.decode(nothing).tolist() == [(0, "", None)] * 4
