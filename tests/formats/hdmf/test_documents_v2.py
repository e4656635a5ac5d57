"""Profile v2, document by document: what peers write reads as what they mean, and is written so again."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from hyperslab.errors import FormatError, Invalid, UnsafePickle, Unsupported
from hyperslab.formats.hdmf.cell_types import JSON2, check_fill_value, is_same_type
from hyperslab.formats.hdmf.profile import HdmfOptions
from hyperslab.formats.hdmf.v2 import HdmfV2
from hyperslab.formats.zarr.dialect import MetadataDialect
from hyperslab.model.dtypes import (
    Compound,
    ObjectRef,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    tag_of,
    tagged,
)
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

BLOSC = {"blocksize": 0, "clevel": 5, "cname": "lz4", "id": "blosc", "shuffle": 1}
UTF8, BYTES = [{"id": "vlen-utf8"}], [{"id": "vlen-bytes"}]
JSON = [{"id": "json2", **JSON2}]
PICKLE = [{"id": "pickle", "protocol": 5}]
OBJECT = np.dtype(object)
TEXT, REF, REGION = (tagged(OBJECT, kind) for kind in (VlenString(), ObjectRef(), RegionRef()))
ROW = np.dtype([("id", "<i4"), ("label", TEXT), ("ref", REF)])
ROW_WORDS = [{"dtype": "int32", "name": "id"}, {"dtype": "str_", "name": "label"}, {"dtype": "object", "name": "ref"}]
ROW_FIELDS = [["id", "<i4"], ["label", "|O"], ["ref", "|O"]]
NUMERIC = [["x", "<u4"], ["y", "<u4"], ["w", "<f4"]]
NUMERIC_WORDS = [{"dtype": "uint32", "name": "x"}, {"dtype": "uint32", "name": "y"}, {"dtype": "float32", "name": "w"}]
JSON_ZERO, PICKLE_ZERO = "WzAsIjxpOCIsW11d", "gAVLAC4="
TABLE = [
    *[(f"int{8 * n}", f"{'|' if n == 1 else '<'}i{n}", None, 0, np.dtype(f"i{n}")) for n in (1, 2, 4, 8)],
    *[(f"uint{8 * n}", f"{'|' if n == 1 else '<'}u{n}", None, 0, np.dtype(f"u{n}")) for n in (1, 2, 4, 8)],
    ("float32", "<f4", None, 0.0, np.dtype("f4")),
    ("float64", "<f8", None, 0.0, np.dtype("f8")),
    ("bool_", "|b1", None, False, np.dtype("?")),
    ("bool", "|b1", None, False, np.dtype("?")),
    ("int", "<i8", None, 0, np.dtype("i8")),
    ("float", "<f8", None, 0.0, np.dtype("f8")),
    ("<i2", "<i2", None, 0, np.dtype("i2")),
    ("str", "|O", UTF8, 0, VlenString()),
    ("bytes", "|O", BYTES, 0, VlenBytes()),
    ("string_", "|O", BYTES, 0, VlenBytes()),
    (NUMERIC_WORDS, NUMERIC, None, "AAAAAAAAAAAAAAAA", np.dtype([("x", "u4"), ("y", "u4"), ("w", "f4")])),
    ("object", "|O", JSON, 0, ObjectRef()),
    ("object", "|O", PICKLE, 0, ObjectRef()),
    ("region", "|O", JSON, 0, RegionRef()),
    (ROW_WORDS, ROW_FIELDS, JSON, JSON_ZERO, ROW),
    (ROW_WORDS, ROW_FIELDS, PICKLE, PICKLE_ZERO, ROW),
]
WRITTEN = [row for row in TABLE if row[0] not in ("bool", "int", "float", "<i2", "string_")]


def zarray(dtype, filters=None, fill=0, shape=(3,), **more):
    """A ``.zarray`` as the peers write it."""
    doc = {"chunks": list(shape), "compressor": BLOSC, "dtype": dtype, "fill_value": fill, "filters": filters}
    return copy.deepcopy(doc | {"order": "C", "shape": list(shape), "zarr_format": 2} | more)


def array(word, dtype, filters=None, fill=0, shape=(3,), **attrs):
    """The documents of an array; without ``zarr_dtype`` where there is no word."""
    words = {} if word is None else {"zarr_dtype": word}
    return {".zattrs": attrs | words, ".zarray": zarray(dtype, filters, fill, shape)}


def kinds(docs, node="a"):
    """What is noted of the documents."""
    return [problem.kind for problem in HdmfV2().problems(docs, node)]


def made(dtype, shape=(3,), **more):
    """The documents of a new array."""
    options = more.pop("options", HdmfOptions())
    spelling = HdmfV2(options)
    return spelling.render(spelling.new_array(ArraySpec(shape=shape, dtype=dtype, chunks=shape, **more)))


def test_the_spelling_is_one():
    spelling: MetadataDialect = HdmfV2()
    assert (spelling.format, spelling.consolidated_name) == ("hdmf", ".zmetadata")
    assert spelling.nodes == (".zarray", ".zgroup")


@pytest.mark.parametrize(("word", "dtype", "filters", "fill", "kind"), TABLE, ids=lambda value: str(value)[:24])
def test_a_row_of_the_table_is_read_and_written_again(word, dtype, filters, fill, kind):
    docs = array(word, dtype, filters, fill, unit="V")
    spec = HdmfV2().parse(docs, "a")
    assert isinstance(spec, ArraySpec)
    assert is_same_type(spec.dtype, kind)
    assert (spec.shape, spec.attrs, spec.problem) == ((3,), {"unit": "V"}, None)
    assert HdmfV2().render(spec) == docs
    assert kinds(docs) == []


@pytest.mark.parametrize(("word", "dtype", "filters", "fill", "kind"), TABLE, ids=lambda value: str(value)[:24])
def test_one_of_its_cells_is_a_scalar(word, dtype, filters, fill, kind):
    if isinstance(dtype, list) and dtype is ROW_FIELDS:
        return  # then zarr_dtype is needed for the fields
    docs = array("scalar", dtype, filters, fill, shape=(1,))
    spec = HdmfV2().parse(docs, "a")
    assert (spec.shape, spec.chunks, spec.dims) == ((), (), ())
    assert list(map(HdmfV2().key_of(spec), [()])) == ["0"]
    assert HdmfV2().render(spec) == docs


@pytest.mark.parametrize(("word", "dtype", "filters", "fill", "kind"), WRITTEN, ids=lambda value: str(value)[:24])
def test_new_arrays_are_spelled_as_the_table_has_it(word, dtype, filters, fill, kind):
    options = HdmfOptions(object_codec="pickle") if filters is PICKLE else HdmfOptions()
    docs = made(kind, options=options)
    said = docs[".zarray"]
    assert (said["dtype"], said["filters"], said["fill_value"]) == (dtype, filters, fill)
    found = docs[".zattrs"]["zarr_dtype"]
    assert found == word
    assert docs[".zattrs"] == {"zarr_dtype": word}
    spec = HdmfV2().parse(docs, "a")
    assert is_same_type(spec.dtype, kind)
    assert HdmfV2().render(spec) == docs


@pytest.mark.parametrize("kind", [np.dtype("f8"), np.dtype("?"), VlenString(), VlenBytes(), np.dtype([("a", "i4")])])
def test_a_new_scalar_has_the_shape_one(kind):
    docs = made(kind, ())
    assert (docs[".zarray"]["shape"], docs[".zarray"]["chunks"]) == ([1], [1])
    assert docs[".zattrs"] == {"zarr_dtype": "scalar"}
    assert HdmfV2().parse(docs, "a").shape == ()


@pytest.mark.parametrize(("kind", "word"), [(ObjectRef(), "object"), (RegionRef(), "region"), (ROW, None)])
def test_one_reference_keeps_its_type_and_is_known_to_have_no_dimension(kind, word):
    docs = made(kind, ())
    assert docs[".zarray"]["shape"] == [1]
    assert docs[".zattrs"]["_hyperslab"] == {"version": 1, "scalar": True}
    if word:
        assert docs[".zattrs"]["zarr_dtype"] == word
    spec = HdmfV2().parse(docs, "a")
    assert spec.shape == ()
    assert is_same_type(spec.dtype, kind)
    del docs[".zattrs"]["_hyperslab"]
    assert HdmfV2().parse(docs, "a").shape == (1,)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (np.dtype("c16"), "complex128"),
        (np.dtype("M8[s]"), "datetime64[s]"),
        (np.dtype("U5"), "str160"),
        (np.dtype("S3"), "bytes24"),
        (np.dtype("f2"), "float16"),
        (VlenArray(np.dtype("i4")), "vlen-array"),
        (Compound(np.dtype([("a", "<i4")]), "c"), [{"name": "a", "dtype": "int32"}]),
    ],
)
def test_other_types_stay_as_zarr_has_them_and_are_named_by_numpy(kind, word):
    docs = made(kind)
    assert docs[".zattrs"]["zarr_dtype"] == word
    assert kinds(docs) == []
    assert is_same_type(HdmfV2().parse(docs, "a").dtype, kind)


def test_a_named_structure_with_references_becomes_a_plain_one():
    assert is_same_type(HdmfV2().parse(made(Compound(ROW, "c")), "a").dtype, ROW)


def test_fields_know_what_they_hold():
    spec = HdmfV2().parse(array(ROW_WORDS, ROW_FIELDS, JSON, JSON_ZERO), "a")
    fields = {name: tag_of(spec.dtype.fields[name][0]) for name in spec.dtype.names}
    assert fields == {"id": None, "label": VlenString(), "ref": ObjectRef()}
    assert spec.fill_cell()[()].item() == (0, "", None)
    assert spec.codecs[0] == Codec("json2", JSON2)


def test_the_order_of_documents_and_axes_does_not_matter():
    docs = array("object", "|O", JSON, shape=(2, 3))
    docs[".zarray"] |= {"order": "F", "dimension_separator": "/"}
    spec = HdmfV2().parse(docs, "a")
    assert [codec.name for codec in spec.codecs] == ["json2", "blosc"]  # lists stand by their axes in either order
    assert HdmfV2().key_of(spec)((0, 1)) == "0/1"
    assert HdmfV2().render(spec) == docs


def test_unknown_keys_are_kept():
    docs = array("object", "|O", PICKLE, table=[1])
    docs[".zarray"]["of_others"] = {"a": [1]}
    assert HdmfV2().render(HdmfV2().parse(docs, "a")) == docs
    group = {".zattrs": {"x": 1}, ".zgroup": {"zarr_format": 2, "of_others": 1}}
    assert HdmfV2().render(HdmfV2().parse(group, "g")) == group


def test_names_of_dimensions():
    docs = array("int16", "<i2", shape=(3, 4), _ARRAY_DIMENSIONS=["num_times", "num_channels"])
    spec = HdmfV2().parse(docs, "a")
    assert (spec.dims, dict(spec.attrs)) == (("num_times", "num_channels"), {})
    assert HdmfV2().render(spec) == docs
    scalar = array("scalar", "<i2", shape=(1,), _ARRAY_DIMENSIONS=["x"])
    spec = HdmfV2().parse(scalar, "a")
    assert (spec.dims, dict(spec.attrs)) == ((), {})
    assert HdmfV2().render(spec) == scalar


# -- what zarr_dtype says that is not so ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("docs", "kind"),
    [
        (array(None, "<i2"), np.dtype("i2")),
        (array("gizmo", "<i2"), np.dtype("i2")),
        (array({"a": 1}, "<i2"), np.dtype("i2")),
        (array("object", "<i2"), np.dtype("i2")),
        (array("region", "|O", UTF8), VlenString()),
        (array("scalar", "<i2"), np.dtype("i2")),
        (array(NUMERIC_WORDS, "<i2"), np.dtype("i2")),
        (array(None, "|O", PICKLE), ObjectRef()),
        (array(None, "|O", JSON), VlenString()),
    ],
    ids=str,
)
def test_the_type_of_zarr_counts_and_the_rest_is_noted(docs, kind):
    spec = HdmfV2().parse(docs, "a")
    assert (spec.dtype, spec.problem) == (kind, None)
    assert kinds(docs) == ["zarr_dtype"]
    rendered = HdmfV2().render(spec)
    assert rendered[".zarray"] == docs[".zarray"]
    if "zarr_dtype" in docs[".zattrs"]:
        assert rendered == docs
    else:
        assert rendered[".zattrs"]["zarr_dtype"] == {np.dtype("i2"): "int16", ObjectRef(): "object"}.get(kind, "str")


def test_fields_that_nobody_names_hold_references():
    spec = HdmfV2().parse(array(None, ROW_FIELDS, JSON, JSON_ZERO), "a")
    assert {tag_of(spec.dtype.fields[name][0]) for name in ("label", "ref")} == {ObjectRef()}


def test_a_field_may_say_its_kind_of_reference_at_length():
    words = [{"name": "r", "dtype": {"reftype": "region", "target_type": "Data"}}]
    spec = HdmfV2().parse(array(words, [["r", "|O"]], JSON, JSON_ZERO), "a")
    assert tag_of(spec.dtype.fields["r"][0]) == RegionRef()


# -- codecs that are refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("docs", "said"),
    [
        (array("str", "|O", [*UTF8, *PICKLE]), "would run code"),
        (array("object", "|O", [*PICKLE, {"id": "zlib", "level": 1}]), "would run code"),
        (array("object", "|O", [*JSON, *PICKLE]), "would run code"),
        (array("int16", "<i2", PICKLE), "would run code"),
        (array("region", "|O", PICKLE), "never pickled"),
        (array(NUMERIC_WORDS, NUMERIC, PICKLE, "AAAAAAAAAAAAAAAA"), "would run code"),
        (array("object", "|O", [{"id": "reference_pickle", "protocol": 5}]), "reference_pickle"),
        (array("object", "|O", [{"id": "gizmo"}]), "gizmo"),
        (array("object", "|O", None), "object"),
        (array(ROW_WORDS, ROW_FIELDS, None, JSON_ZERO), "|O"),
        (array(ROW_WORDS, ROW_FIELDS, UTF8, JSON_ZERO), "|O"),
        (array(ROW_WORDS, [["a", "|O", [2]]], JSON, JSON_ZERO), "several objects"),
    ],
    ids=str,
)
def test_cells_that_are_not_decoded(docs, said):
    spec = HdmfV2().parse(docs, "a")
    assert said in spec.problem
    assert HdmfV2().render(spec)[".zarray"]["filters"] == docs[".zarray"]["filters"]


def test_a_compressor_is_never_a_pickle():
    docs = array("int16", "<i2")
    docs[".zarray"]["compressor"] = {"id": "pickle"}
    assert "would run code" in HdmfV2().parse(docs, "a").problem


@pytest.mark.parametrize(("filters", "sound"), [(JSON, True), (UTF8, True), (BYTES, True), (PICKLE, False)])
def test_specifications_have_codecs_of_text_alone(filters, sound):
    docs = array("scalar", "|O", filters, shape=(1,))
    spec = HdmfV2().parse(docs, "specifications/core/2.0.0/namespace")
    assert (spec.problem is None) == sound
    assert HdmfV2().parse(docs, "elsewhere").problem is None
    assert HdmfV2().render(spec) == docs


def test_the_root_says_where_specifications_are():
    spelling = HdmfV2()
    spelling.parse({".zgroup": {"zarr_format": 2}, ".zattrs": {".specloc": "/cache/of/specs"}}, "")
    assert spelling.specloc == "cache/of/specs"
    docs = array("scalar", "|O", PICKLE, shape=(1,))
    assert spelling.parse(docs, "cache/of/specs/core/1/namespace").problem is not None
    assert spelling.parse(docs, "specifications/core/1/namespace").problem is None


def test_the_array_of_a_specification():
    docs = HdmfV2().render(HdmfV2().specification())
    said = zarray("|O", JSON, 0, (1,), compressor=None, dimension_separator=".")
    assert docs == {".zarray": said, ".zattrs": {"zarr_dtype": "scalar"}}


# -- fill values of rows ----------------------------------------------------------------------------------------------

EVIL = "gASVRAAAAAAAAACMCGJ1aWx0aW5zlIwEZXhlY5STlIwoaW1wb3J0IGJ1aWx0aW5zOyBidWlsdGlucy5IRE1GX1BXTkVEID0gMZSFlFKULg=="


@pytest.mark.parametrize(("filters", "fill"), [(JSON, JSON_ZERO), (PICKLE, PICKLE_ZERO), (JSON, None), (PICKLE, 0)])
def test_the_fill_value_of_rows_is_an_encoded_zero(filters, fill):
    check_fill_value(HdmfV2().parse(array(ROW_WORDS, ROW_FIELDS, filters, fill), "a"))


@pytest.mark.parametrize(
    ("filters", "fill", "error"),
    [
        (PICKLE, EVIL, UnsafePickle),
        (PICKLE, "%%", FormatError),
        (PICKLE, JSON_ZERO, FormatError),
        (PICKLE, {"a": 1}, FormatError),
        (JSON, PICKLE_ZERO, FormatError),
        (JSON, "WzcsIjxpOCIsW11d", FormatError),
        (JSON, [1], FormatError),
        (JSON, 7, FormatError),
    ],
)
def test_another_is_refused_when_its_cells_are_touched(filters, fill, error):
    docs = array(ROW_WORDS, ROW_FIELDS, filters, fill)
    spec = HdmfV2().parse(docs, "a")
    assert spec.problem is None
    with pytest.raises(error):
        check_fill_value(spec)
    assert HdmfV2().render(spec) == docs


def test_other_arrays_have_nothing_to_check():
    for docs in (array("object", "|O", PICKLE), array("int16", "<i2"), array("str", "|O", UTF8)):
        check_fill_value(HdmfV2().parse(docs, "a"))


# -- new arrays -------------------------------------------------------------------------------------------------------


def test_regions_are_stored_as_json_whatever_the_codec_of_references():
    docs = made(RegionRef(), options=HdmfOptions(object_codec="pickle"))
    assert docs[".zarray"]["filters"] == JSON
    row = np.dtype([("a", REF), ("b", REGION)])
    docs = made(row, options=HdmfOptions(object_codec="pickle"))
    assert docs[".zarray"]["filters"] == JSON
    assert docs[".zattrs"]["zarr_dtype"] == [{"name": "a", "dtype": "object"}, {"name": "b", "dtype": "region"}]


def test_compressors_stand_behind_the_codec_of_objects():
    docs = made(ObjectRef(), codecs=(Codec("zstd", {"level": 3}),))
    assert (docs[".zarray"]["filters"], docs[".zarray"]["compressor"]) == (JSON, {"id": "zstd", "level": 3})


@pytest.mark.parametrize("kind", [np.dtype([("a", object)]), np.dtype([("a", tagged(OBJECT, VlenBytes()))])])
def test_fields_that_cannot_be_stored(kind):
    with pytest.raises(Unsupported, match="'a'"):
        made(kind)


def test_wishes_that_cannot_be():
    with pytest.raises(Invalid, match="no fill value"):
        made(ObjectRef(), fill_value="x")
    with pytest.raises(Unsupported, match="json2"):
        made(ObjectRef(), codecs=(Codec("vlen-utf8"),))


def test_a_type_that_was_changed_is_named_anew():
    spec = HdmfV2().parse(array("int", "<i8"), "a")
    docs = HdmfV2().render(spec.evolve(dtype=np.dtype("f4"), fill_value=np.float32(0)))
    assert (docs[".zarray"]["dtype"], docs[".zattrs"]["zarr_dtype"]) == ("<f4", "float32")
    docs = HdmfV2().render(spec.evolve(dtype=ObjectRef(), fill_value=None, codecs=(Codec("json2", JSON2),)))
    assert (docs[".zarray"]["dtype"], docs[".zattrs"]["zarr_dtype"]) == ("|O", "object")


def test_growing_keeps_the_words():
    spec = HdmfV2().parse(array(ROW_WORDS, ROW_FIELDS, PICKLE, PICKLE_ZERO), "a")
    docs = HdmfV2().render(spec.evolve(shape=(9,)))
    assert docs == array(ROW_WORDS, ROW_FIELDS, PICKLE, PICKLE_ZERO) | {
        ".zarray": zarray(ROW_FIELDS, PICKLE, PICKLE_ZERO) | {"shape": [9]}
    }


def test_consolidated_metadata_is_that_of_zarr():
    group = HdmfV2().render(GroupSpec())
    inner = array("int16", "<i2")
    copied = HdmfV2().write_consolidated(group, {"a": inner})
    assert HdmfV2().read_consolidated(copied) == {"": group, "a": inner}
    assert HdmfV2().without_consolidated(copied) is None


@pytest.mark.parametrize(
    "said",
    [
        {"profile": "v4"},
        {"object_codec": "msgpack"},
        {"region_attributes": 1},
        {"allow_external": [1]},
        {"allow_external": 3},
    ],
)
def test_options_that_make_no_sense(said):
    with pytest.raises(Invalid, match=next(iter(said))):
        HdmfOptions(**said)


def test_options():
    assert HdmfOptions(allow_external="/data").allow_external == ("/data",)
    assert HdmfOptions(allow_external=["a", "b"]).allow_external == ("a", "b")
    assert HdmfOptions(allow_external=True).allow_external is True
