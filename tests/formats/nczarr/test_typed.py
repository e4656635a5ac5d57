"""Attribute values with their types, in the spelling of netcdf-c and in the draft's."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import Unsupported
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.nczarr.attributes import (
    is_hidden,
    normalize_value,
    read_attributes,
    read_value,
    source_texts,
    write_value,
)
from hyperslab.model.attrs import equal
from hyperslab.model.dtypes import Compound, Enum, Opaque, VlenArray, tag_of, tagged, tagged_fields

NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
NAMES = ["byte", "ubyte", "short", "ushort", "int", "uint", "int64", "uint64", "float", "double"]
CLOUD = Enum(np.dtype("u1"), (("Clear", 0), ("Cumulus", 2)), "cloud_t")
RAW = Opaque(3, "raw_t")
POINT = Compound(np.dtype([("a", "<i4"), ("b", "<f8", (2,)), ("c", [("d", "i1"), ("e", "S2")])]), "point_t")
TYPES = {f"/{kind.name}": kind for kind in (CLOUD, RAW, POINT)}


def type_name(kind):
    return f"/{kind.name}"


def through(value, draft=False):
    """The value written, put through JSON and read again."""
    stored, code = write_value(value, draft=draft, type_name=type_name if draft else None)
    text = json.dumps(stored, allow_nan=False)
    return read_value(json.loads(text), code, text, TYPES.get)


def numbers(name):
    dtype = np.dtype(name)
    if dtype.kind == "f":
        return st.floats(width=8 * dtype.itemsize).map(dtype.type)
    return st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)).map(dtype.type)


@st.composite
def values(draw):
    kind = draw(st.sampled_from([*NUMBERS, "char", "string", "strings"]))
    match kind:
        case "char":
            return draw(st.text())
        case "string":
            return np.str_(draw(st.text()))
        case "strings":
            return np.array(draw(st.lists(st.text(), min_size=2)), np.dtypes.StringDType())
    several = draw(st.lists(numbers(kind), min_size=1, max_size=4))
    return several[0] if len(several) == 1 else np.array(several)


@given(values(), st.booleans())
def test_values_come_back_bit_by_bit(value, draft):
    found = through(value, draft)
    assert equal(found, value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "f":
        assert np.array_equal(np.signbit(found), np.signbit(value))


@pytest.mark.parametrize(("number", "name"), list(zip(NUMBERS, NAMES, strict=True)))
def test_numbers_have_the_codes_of_each_dialect(number, name):
    value = np.dtype(number).type(3)
    assert write_value(value, draft=False) == (3, f"<{number}")
    assert write_value(value, draft=True) == (3, name)
    assert write_value(np.array([3, 4], f">{number}"), draft=False) == ([3, 4], f"<{number}")
    for code in (f"<{number}", f">{number}", f"|{number}", name):
        assert equal(read_value(3, code, None), value)
        assert equal(read_value([3, 4], code, None), np.array([3, 4], number))


def test_text_has_the_codes_of_each_dialect():
    assert write_value("42", draft=False) == ("42", ">S1")
    assert write_value("42", draft=True) == ("42", "char")
    assert write_value(np.str_("é"), draft=False) == ("é", "|S128")
    assert write_value(np.str_("é" * 100), draft=False)[1] == "|S200"
    assert write_value(np.array(["a", "b"]), draft=True) == (["a", "b"], "string")
    assert write_value(np.array(["a"], object), draft=False) == ("a", "|S128")


def test_floats_have_the_digits_of_the_double_of_the_same_value():
    assert write_value(np.float32(0.1), draft=False) == (0.10000000149011612, "<f4")
    assert write_value(np.float64(np.pi), draft=False) == (3.141592653589793, "<f8")
    special = np.array([np.nan, np.inf, -np.inf])
    assert write_value(special, draft=True) == (["NaN", "Infinity", "-Infinity"], "double")


@pytest.mark.parametrize(
    ("text", "number"),
    [("nan", np.nan), ("NaNf", np.nan), ("inf", np.inf), ("-Infinityf", -np.inf), ("+inf", np.inf)],
)
def test_floats_that_are_no_numbers_are_read_in_any_spelling(text, number):
    assert equal(read_value(text, "<f4", None), np.float32(number))


@pytest.mark.parametrize("text", ["42", "3.14", "1.0", "2020", "true", "null", "[0.,0.,1.]", '{"a": [1,2]}', "NaN"])
@pytest.mark.parametrize("code", [">S1", "<U1", "char", "|J0"])
def test_char_text_that_stands_bare_in_the_document_is_as_it_is_spelled(text, code):
    texts = source_texts(f'{{"a": {text}}}'.encode())
    assert read_attributes({"a": 42}, {"a": code}, lambda: texts, Problems("")) == {"a": text}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1, np.int32(1)),
        (2**31, np.uint32(2**31)),
        (-(2**31) - 1, np.int64(-(2**31) - 1)),
        (2**32, np.int64(2**32)),
        (2**63, np.uint64(2**63)),
        (2**64, "18446744073709551616"),
        (1.5, np.float64(1.5)),
        (True, np.uint8(1)),
        ("42", "42"),
        ("NaN", "NaN"),
        ([1, 2**40], np.array([1, 2**40], "i8")),
        ([1, 2.5], np.array([1, 2.5])),
        ([7], np.int32(7)),
        (["a", "b"], np.array(["a", "b"], np.dtypes.StringDType())),
        ([1, "a"], '[1,"a"]'),
        ([-1, 2**63], f"[-1,{2**63}]"),
        ([], "[]"),
        (None, "null"),
        ({"a": [1]}, '{"a":[1]}'),
    ],
)
def test_the_type_of_a_value_without_one_is_guessed(value, found):
    assert equal(read_value(value, None, None), found)


def test_how_values_are_spelled_is_asked_once_and_only_where_it_matters():
    asked = []

    def texts():
        asked.append(1)
        return {"big": str(2**70), "mixed": '[1,  "a"]', "bare": "1.0"}

    plain = {"a": 1, "b": [1, 2.5], "c": "42", "d": ["x", "y"], "e": [1, 2], "f": True, "g": 2**64 - 1}
    read_attributes(plain, {"e": "<f8", "c": ">S1"}, texts, Problems(""))
    assert asked == []
    bare = {"big": 2**70, "mixed": [1, "a"], "bare": 1.0}
    assert read_attributes(plain | bare, {"bare": ">S1"}, texts, Problems("")).items() >= texts().items()
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("value", "code"),
    [(300, "<u1"), ("a", "<i4"), (1.5, "<i4"), ([[1]], "<f8"), (1, "<c8"), (1, "nonsense"), (1, 5), (1, "|O"), (1, [])],
)
def test_a_value_that_is_not_of_its_type_is_guessed_and_noted(value, code):
    problems = Problems("g")
    found = read_attributes({"a": value, "b": 1}, {"a": code, "b": "<i2"}, dict, problems)
    assert equal(found["a"], read_value(value, None, None))
    assert equal(found["b"], np.int16(1))
    assert [(problem.node, problem.kind) for problem in problems] == [("g", "attribute")]
    assert "'a'" in problems[0].message


@pytest.mark.parametrize(
    ("value", "text"),
    [([], "[]"), ((), "[]"), (np.zeros(0), "[]"), ([1, "a"], '[1, "a"]'), ({"é": None}, '{"é": null}'), (None, "null")],
)
def test_what_netcdf_c_does_not_survive_is_json_text(value, text):
    assert write_value(value, draft=False) == (text, ">S1")
    assert write_value(value, draft=True) == (text, "char")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (5, np.int32(5)),
        (2**40, np.int64(2**40)),
        (0.5, np.float64(0.5)),
        ([1, 2], np.array([1, 2], "i4")),
        ([1, np.float32(0.5)], np.array([1, 0.5])),
        (["a"], np.str_("a")),
        (np.array(["a", "b"]), np.array(["a", "b"], np.dtypes.StringDType())),
        (np.array([3], ">i2"), np.int16(3)),
        (np.array(4.0), np.float64(4)),
    ],
)
def test_values_are_regular_before_they_are_written(value, found):
    assert equal(normalize_value(value), found)
    assert equal(through(value), found)


@pytest.mark.parametrize(
    "value",
    [
        *(True, 1j, b"a", 2**64, {"a": {1}}, object()),
        *(np.bool_(1), np.complex64(1), np.float16(1), np.datetime64(1, "s"), np.bytes_(b"a"), np.void(b"ab")),
        *(np.zeros((2, 2)), np.zeros(2, "i4,f4"), np.array([object()])),
    ],
    ids=lambda value: type(value).__name__ + str(getattr(value, "dtype", "")),
)
def test_what_netcdf_has_no_attribute_for_is_refused(value):
    for draft in (False, True):
        with pytest.raises(Unsupported):
            write_value(value, draft=draft, type_name=type_name)


def test_enum_values_keep_their_type_in_the_draft():
    one = np.array(2, tagged(np.dtype("u1"), CLOUD))
    assert write_value(one, draft=True, type_name=type_name) == (2, "/cloud_t")
    for value in (one, np.array([0, 2], tagged(np.dtype("u1"), CLOUD))):
        found = through(value, draft=True)
        assert equal(found, value)
        assert tag_of(found.dtype) == CLOUD
    assert read_value(["Cumulus", 0], "/cloud_t", None, TYPES.get).tolist() == [2, 0]


def test_opaque_values_are_base64():
    one = np.array(np.void(b"\0\1\2"), tagged(np.dtype("V3"), RAW))
    assert write_value(one, draft=True, type_name=type_name) == ("AAEC", "/raw_t")
    for value in (one, np.array([b"abc", b"d\0e"], tagged(np.dtype("V3"), RAW))):
        found = through(value, draft=True)
        assert (found.tobytes(), found.shape, tag_of(found.dtype)) == (value.tobytes(), value.shape, RAW)


def test_compound_values_are_objects():
    cells = np.array([(1, (0.1, np.inf), (3, b"x")), (2, (3, 4), (5, b"yz"))], POINT.base).astype(
        tagged(POINT.base, POINT)
    )
    stored, code = write_value(cells[0], draft=True, type_name=type_name)
    assert (stored, code) == ({"a": 1, "b": [0.1, "Infinity"], "c": {"d": 3, "e": "x"}}, "/point_t")
    for value in (cells[0], cells):
        found = through(value, draft=True)
        assert isinstance(found, type(value))
        assert (found.tobytes(), tag_of(found.dtype)) == (value.tobytes(), POINT)
    assert read_value([1, [0.1, "Infinity"], [3, "x"]], code, None, TYPES.get) == cells[0]


def test_compounds_of_user_types_keep_the_types_of_their_fields():
    inner = np.dtype([("p", "<i2"), ("q", "S1", (3,))])
    fields = [("e", tagged(np.dtype("u1"), CLOUD)), ("o", tagged(np.dtype("V3"), RAW)), ("i", inner)]
    kind = Compound(np.dtype([*fields, ("m", tagged(np.dtype("u1"), CLOUD), (2, 2)), ("f", ">f8")]), "whole_t")
    cells = np.zeros(2, tagged(kind.base, kind))
    cells["e"], cells["o"], cells["f"] = [2, 0], [b"abc", b"x\0z"], [np.nan, 1.5]
    cells["i"]["q"] = [[b"a", b"\xff", b""], [b"b", b"", b"c"]]
    stored, code = write_value(cells, draft=True, type_name=type_name)
    found = read_value(json.loads(json.dumps(stored)), code, None, lambda _: kind)
    assert (found.tobytes(), found.dtype, tag_of(found.dtype)) == (cells.tobytes(), cells.dtype, kind)
    assert dict(tagged_fields(found.dtype)) == {"e": CLOUD, "o": RAW, "m": CLOUD}


@pytest.mark.parametrize(
    ("value", "code"),
    [("QUI=", "/raw_t"), (5, "/raw_t"), ({"a": 1}, "/point_t"), (5, "/point_t"), ("Stratus", "/cloud_t"), (1, "/v")],
)
def test_values_that_are_not_of_their_user_type_are_guessed(value, code):
    problems = Problems("")
    kinds = TYPES | {"/v": VlenArray(np.dtype("i4"), "v")}
    found = read_attributes({"a": value}, {"a": code}, dict, problems, kinds.get)
    assert equal(found["a"], read_value(value, None, None))
    assert len(problems) == 1


def test_compounds_with_text_that_is_none_are_refused():
    kind = Compound(np.dtype([("name", "S3")]), "t")
    with pytest.raises(Unsupported, match="no UTF-8"):
        write_value(np.array([(b"\xff\xfe",)], tagged(kind.base, kind)), draft=True, type_name=type_name)
    char = Compound(np.dtype([("name", "S1", (2,))]), "/char_t")
    cell = np.array([([b"\xff", b"a"],)], tagged(char.base, char))[0]
    stored, code = write_value(cell, draft=True, type_name=type_name)
    assert stored == {"name": ["ÿ", "a"]}
    assert read_value(stored, code, None, lambda _: char) == cell


def test_user_types_need_the_draft():
    with pytest.raises(Unsupported, match="dialect='draft'"):
        write_value(np.array(2, tagged(np.dtype("u1"), CLOUD)), draft=False)


def test_hidden_names():
    hidden = ["_ARRAY_DIMENSIONS", "_NCProperties", "_nczarr_attr", "_NCZARR_ARRAY", "CLASS", "_Netcdf4Dimid"]
    assert all(map(is_hidden, hidden))
    assert not any(map(is_hidden, ["_FillValue", "units", "class", "_nc"]))
