"""Attributes keep their types through JSON; what others edited is served as it stands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.documents import read_json, write_json
from hyperslab.formats.metadata_json.attributes import decode_attribute, decode_attrs, encode_attribute, encode_attrs
from hyperslab.formats.metadata_json.dtypes import read_type
from hyperslab.formats.metadata_json.extended_metadata import (
    ATTRIBUTE,
    ExtendedMetadata,
    apply_described_type,
    read_attributes,
    write_attributes,
)
from hyperslab.model.attrs import equal
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import Char, Compound, Enum, Opaque, VlenArray, VlenBytes, VlenString, tagged, tagged_fields

PAIR = np.dtype([("a", "i4"), ("b", "f8", (2,)), ("c", "S3")])
VALUES = {
    "float": (np.float32(0.1), 0.10000000149011612, "<f4"),
    "missing": (np.float32(1e20), 1.0000000200408773e20, "<f4"),
    "half": (np.float16(0.1), 0.0999755859375, "<f2"),
    "double": (np.float64(0.1), 0.1, "<f8"),
    "integer": (np.uint64(2**64 - 1), 2**64 - 1, "<u8"),
    "truth": (np.bool_(True), True, "|b1"),
    "complex": (np.complex64(1 - 2j), [1.0, -2.0], "<c8"),
    "complex nan": (np.complex128(complex(1, math.inf)), [1.0, "Infinity"], "<c16"),
    "time": (np.datetime64("2020-01-01", "ns"), 1577836800000000000, "<M8[ns]"),
    "no time": (np.datetime64("NaT", "s"), -(2**63), "<M8[s]"),
    "lapse": (np.timedelta64(5, "D"), 5, "<m8[D]"),
    "text": (np.str_("x"), "x", "string"),
    "bytes": (b"\0\xff", "AP8=", "bytes"),
    "numpy bytes": (np.bytes_(b"ab"), "YWI=", "|S2"),
    "no bytes": (np.bytes_(b""), "", "|S1"),
    "nan": (math.nan, "NaN", "float"),
    "minus infinity": (-math.inf, "-Infinity", "float"),
    "nested": ([1.0, math.nan, {"a/~b": math.inf}], [1.0, "NaN", {"a/~b": "Infinity"}], ["/1", "/2/a~1~0b"]),
    "both": (["NaN", math.nan], ["NaN", "NaN"], ["/1"]),
    "array": (np.array([1, 2], "i2"), [1, 2], "<i2[]"),
    "one": (np.array([1.5], "f4"), [1.5], "<f4[]"),
    "none": (np.array([], "f4"), [], "<f4[]"),
    "matrix": (np.arange(6.0).reshape(2, 3), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "<f8[2,3]"),
    "empty matrix": (np.zeros((0, 3)), [], "<f8[0,3]"),
    "fixed text": (np.array(["a", "bcd"]), ["a", "bcd"], "<U3[]"),
    "texts": (np.array(["a", "bcd"], np.dtypes.StringDType()), ["a", "bcd"], "string[]"),
    "times": (np.array(["NaT", "1970-01-02"], "M8[D]"), [-(2**63), 1], "<M8[D][]"),
    "raw": (np.void(b"abc"), "YWJj", "|V3"),
    "pair": (
        np.array([(1, [2, 3], b"x")], PAIR)[0],
        [1, [2.0, 3.0], "eA=="],
        {"fields": [["a", "<i4"], ["b", "<f8", [2]], ["c", "|S3"]]},
    ),
    "pairs": (
        np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
        [[1, 2.5]],
        {"fields": [["a", "<i4"], ["b", "<f8"]], "array": "[]"},
    ),
}
PLAIN = [None, True, 0, -5, 2**80, 1.5, "", "NaN", "é", [], {}, [1, "a", None, [2.0, {"k": []}]], {"": {"a": 1}}]


BYTE = np.dtype("i1")
STATE = Enum(BYTE, (("off", 0), ("on", 1)), "state_t")
KEY = Opaque(2, "key_t")
RECORD = Compound(np.dtype([("s", tagged(BYTE, STATE)), ("k", tagged(np.dtype("V2"), KEY), (2,))]), "record_t")
STATE_JSON = {"type": "enum", "base": "|i1", "members": {"off": 0, "on": 1}, "name": "state_t"}
KEY_JSON = {"type": "opaque", "size": 2, "name": "key_t"}
RECORD_JSON = {
    "type": "compound",
    "base": [["s", "|i1"], ["k", "|V2", [2]]],
    "fields": {"s": STATE_JSON, "k": KEY_JSON},
    "name": "record_t",
}
RECORDS = np.array([(1, [b"ab", b"cd"])], tagged(RECORD.base, RECORD))
USER_VALUES: dict[str, tuple[Any, Any, Any]] = {
    "enum": (np.array(1, tagged(BYTE, STATE)), 1, {"type": STATE_JSON}),
    "enums": (np.array([1, 0], tagged(BYTE, STATE)), [1, 0], {"type": STATE_JSON, "array": "[]"}),
    "opaque": (np.array(b"ab", tagged(np.dtype("V2"), KEY)), "YWI=", {"type": KEY_JSON}),
    "opaques": (np.array([b"ab"], tagged(np.dtype("V2"), KEY)), ["YWI="], {"type": KEY_JSON, "array": "[]"}),
    "compound": (RECORDS[0], [1, ["YWI=", "Y2Q="]], {"type": RECORD_JSON}),
    "compounds": (RECORDS, [[1, ["YWI=", "Y2Q="]]], {"type": RECORD_JSON, "array": "[]"}),
}


@pytest.mark.parametrize("name", USER_VALUES)
def test_values_of_user_types_keep_their_type(name: str) -> None:
    value, expected, code = USER_VALUES[name]
    assert encode_attribute("a", value) == (expected, code)
    back = decode_attribute(expected, code)
    assert type(back) is type(value)
    assert equal(back, value)
    assert decode_attribute("other", code) == "other"


def test_types_in_fields_keep_their_names() -> None:
    stored = write_attributes({}, ExtendedMetadata(dtype=RECORD, types={"record_t": RECORD}))
    _, marks = read_attributes(read_json(write_json(stored)))
    assert isinstance(marks.dtype, Compound)
    for kind in (marks.dtype, apply_described_type(RECORD.base, marks.dtype), marks.types["record_t"]):
        assert isinstance(kind, Compound)
        assert dict(tagged_fields(kind.base)) == {"s": STATE, "k": KEY}


@pytest.mark.parametrize(("value", "stored", "code"), VALUES.values(), ids=VALUES)
def test_what_is_stored(value, stored, code):
    assert encode_attribute("x", value) == (stored, code)
    back = decode_attribute(read_json(write_json(stored)), code)
    assert equal(back, value)


@pytest.mark.parametrize("kind", ["f2", "f4"])
def test_shorter_spellings_of_earlier_releases(kind: str) -> None:
    """0.1.0 wrote as few digits as give the float back: it is the same float."""
    for value in (0.1, 0.15, 1e-5, -999.9, 1e20 if kind == "f4" else 6e4):
        expected = np.dtype(kind).type(value)
        assert equal(decode_attribute(float(str(expected)), f"<{kind}"), expected)
        assert encode_attribute("x", np.array([expected]))[0] == [float(expected)]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_json_needs_no_code(value):
    assert encode_attribute("x", value) == (value, None)


@given(npst.arrays(npst.scalar_dtypes(), npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)))
def test_every_array_returns(array):
    """In the machine's byte order, for that is no property of a value; a 0-d array is a scalar."""
    value = array.astype(array.dtype.newbyteorder("="))
    if value.dtype.itemsize == 0 or value.dtype.char in "gG":
        return
    attrs, codes = encode_attrs({"x": array})
    back = decode_attrs(read_json(write_json(attrs)), codes)["x"]
    assert equal(back, value if value.ndim else value[()])


@pytest.mark.parametrize("value", [np.array([1, None], object), np.longdouble(1), np.array([{}], object)], ids=repr)
def test_cells_that_no_attribute_holds(value):
    with pytest.raises(Unsupported, match="'x'"):
        encode_attribute("x", value)


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, {1, 2}, [b"x"], [object()]], ids=lambda value: type(value).__name__
)
def test_values_that_make_no_sense(value):
    with pytest.raises(Invalid, match="'x'"):
        encode_attribute("x", value)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("text", "<f4"),
        (300, "|u1"),
        (1.5, "<i4"),
        ([1], "<f4"),
        (1, "<f4[]"),
        ([1, 2, 3], "<f4[2]"),
        ([1, 2], "<f4[2,x]"),
        ([[1], 2], "<f4[2,1]"),
        ("***", "bytes"),
        (5, "string"),
        ([5], "string[]"),
        ("abc", "<U2"),
        ("Nan", "float"),
        ([1.0], ["/5"]),
        ([1.0], [7]),
        ({"a": 1}, ["/b"]),
        (1, "O"),
        (1, "i4,i4"),
        ("x", "no such type"),
        ("x", {"fields": 5}),
        ("x", {"array": "[]"}),
        ("x", 5),
        ("x", None),
        (["x"], "<U99999999[]"),
        (["x"] * 5, "<U99999[99999999999999999999]"),
        (["eA=="] * 1000, "|S9999999[]"),
    ],
)
def test_a_value_that_no_longer_fits_is_served(value, code):
    assert decode_attribute(value, code) is value


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
codes = json_values | st.sampled_from(["<f4", "<f4[]", "string", "bytes", "float", "<U3", "<M8[ns][]", "|S2[2]", "<c8"])


@given(json_values, codes)
def test_no_mark_makes_reading_fail(value, code):
    read_attributes(
        {"x": value, ATTRIBUTE: {"version": 1, "attrs": {"x": code}, "dims": code, "types": {"t": code}, "dtype": code}}
    )
    read_attributes({"x": value, ATTRIBUTE: code})


def test_the_mark_is_absent_when_there_is_nothing_to_say():
    assert write_attributes({"a": 1, "b": "x"}, ExtendedMetadata()) == {"a": 1, "b": "x"}


def test_the_mark():
    types = {"e": Enum(np.dtype("u1"), (("A", 0), ("B", 7)), "e"), "o": Opaque(4, "o")}
    marks = ExtendedMetadata((Dimension("t", 3, True), Dimension("x", 4)), Char(), types)
    stored = write_attributes({"a": np.int8(1), "b": "x"}, marks)
    assert stored == {
        "a": 1,
        "b": "x",
        "_hyperslab": {
            "version": 1,
            "attrs": {"a": "|i1"},
            "dims": {"t": {"size": 3, "unlimited": True}, "x": {"size": 4}},
            "dtype": {"type": "char"},
            "types": {
                "e": {"type": "enum", "base": "|u1", "members": {"A": 0, "B": 7}, "name": "e"},
                "o": {"type": "opaque", "size": 4, "name": "o"},
            },
        },
    }
    assert read_attributes(read_json(write_json(stored))) == ({"a": np.int8(1), "b": "x"}, marks)


def test_hidden_attributes_keep_their_place():
    attrs = {"a": 1, "_FillValue": np.float32(2), "b": "x"}
    stored = write_attributes(attrs, ExtendedMetadata(), hidden=["_FillValue", "nothing"])
    assert stored == {
        "a": 1,
        "b": "x",
        "_hyperslab": {"version": 1, "hidden": {"_FillValue": {"at": 1, "value": 2.0, "code": "<f4"}}},
    }
    back, _ = read_attributes(stored)
    assert list(back) == list(attrs)
    assert equal(back["_FillValue"], np.float32(2))
    assert read_attributes(stored | {"_FillValue": 5})[0]["_FillValue"] == 5


def test_the_name_of_the_mark_is_kept():
    with pytest.raises(Invalid, match="_hyperslab"):
        write_attributes({ATTRIBUTE: 1}, ExtendedMetadata())


@pytest.mark.parametrize(
    "said",
    [
        None,
        5,
        {},
        {"type": "enum"},
        {"type": "enum", "base": "<f4", "members": {"A": 1}},
        {"type": "enum", "base": "|u1", "members": {"A": "x"}},
        {"type": "opaque", "size": -1},
        {"type": "opaque", "size": 2**40},
        {"type": "vlen", "base": "|O"},
        {"type": "compound", "base": "<f4"},
        {"type": "char", "name": 5},
    ],
    ids=repr,
)
def test_descriptions_that_make_no_sense(said):
    assert read_type(said) is None


def test_a_newer_mark_is_left_alone():
    attrs, marks = read_attributes({"a": 1, ATTRIBUTE: {"version": 2, "attrs": {"a": "<f4"}}})
    assert (attrs, marks) == ({"a": 1}, ExtendedMetadata())
    assert type(attrs["a"]) is int


@pytest.mark.parametrize(
    "dtype", [VlenString(), VlenBytes(), VlenArray(np.dtype("f4"), "v"), Compound(PAIR, "p")], ids=repr
)
def test_types_return(dtype):
    stored = write_attributes({}, ExtendedMetadata(types={"t": dtype}))
    assert read_attributes(read_json(write_json(stored)))[1].types == {"t": dtype}


def test_objects_in_fields_are_refused() -> None:
    with pytest.raises(Unsupported, match="no attribute can hold"):
        encode_attribute("a", np.array([(1, b"x")], [("n", "i4"), ("text", object)])[0])
