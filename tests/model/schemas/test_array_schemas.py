"""Attributes, types of cells, fill values and tiles: requirements R37 to R41 and R48 to R73 of collections."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from datetime import date, datetime, timedelta
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperslab.errors import SchemaError
from hyperslab.model.schemas import ArraySchema, AttributeSchema, DimensionSchema, TimeDimensionSchema, VArraySchema
from hyperslab.model.schemas.attributes import (
    dtype_name,
    dtype_of,
    fill_of,
    fill_text,
    is_extended,
    reads_extended,
    type_name,
    type_of,
)

X = [DimensionSchema("x", 4)]
YX = [DimensionSchema("y", 100), DimensionSchema("x", 200)]
CODES = "bhilqBHILQefdgFDG"
HOUR = timedelta(hours=1)


def start_at(name: str) -> TimeDimensionSchema:
    """A time axis with the start of an attribute."""
    return TimeDimensionSchema("t", 3, f"${name}", HOUR)


def test_r2_a_schema_has_dimensions_primary_and_custom_attributes() -> None:
    attributes = [AttributeSchema("a", str, False), AttributeSchema("k", int, True), AttributeSchema("b", int, False)]
    schema = ArraySchema(YX, float, attributes)
    assert schema.dimensions == tuple(YX)
    assert [known.name for known in schema.primary_attributes] == ["k"]
    assert [known.name for known in schema.custom_attributes] == ["a", "b"]


@pytest.mark.parametrize("attributes", [AttributeSchema("a", int, True), {}, "a", [int], [("a", int, True)], [None]])
def test_r37_attributes_are_a_list_or_tuple_of_schemas(attributes: Any) -> None:
    with pytest.raises(SchemaError):
        ArraySchema(X, float, attributes)


def test_r38_names_are_unique_whether_primary_or_not() -> None:
    with pytest.raises(SchemaError, match="several attributes have the name 'a'"):
        ArraySchema(X, float, [AttributeSchema("a", int, True), AttributeSchema("a", str, False)])


@pytest.mark.parametrize("primary", [1, 0, None, "yes", np.bool_(True)])
def test_r38_primary_is_a_bool(primary: Any) -> None:
    with pytest.raises(SchemaError, match="primary"):
        AttributeSchema("a", int, primary)


@pytest.mark.parametrize("name", ["", "  ", None, 3, b"a"])
def test_r38_a_name_is_text_that_is_not_blank(name: Any) -> None:
    with pytest.raises(SchemaError, match="name"):
        AttributeSchema(name, int, True)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (int, "int"),
        (float, "float"),
        (complex, "complex"),
        (str, "string"),
        (tuple, "tuple"),
        (datetime, "datetime"),
        (np.int8, "numpy.int8"),
        (np.uint64, "numpy.uint"),
        (np.float64, "numpy.float64"),
        (np.longlong, "numpy.longlong"),
        (np.longdouble, "numpy.float128"),
        (np.complex128, "numpy.cfloat"),
    ],
)
def test_r39_types_of_attributes(kind: type, name: str) -> None:
    assert AttributeSchema("a", kind, True).as_dict == {"name": "a", "primary": True, "dtype": name}
    assert type_of(type_name(kind)) is kind


@pytest.mark.parametrize(
    "kind",
    [
        bool,
        list,
        dict,
        bytes,
        date,
        timedelta,
        object,
        None,
        "int",
        int | None,
        np.bool_,
        np.str_,
        np.datetime64,
        np.generic,
        np.number,
        np.floating,
        np.integer,
        np.dtype("f4"),
        type,
        type("Int", (int,), {}),
    ],
)
def test_r39_nothing_else_is_one(kind: Any) -> None:
    with pytest.raises(SchemaError, match="dtype"):
        AttributeSchema("a", kind, True)


@pytest.mark.parametrize("primary", [True, False])
def test_r32_r40_r48_a_start_needs_its_datetime_attribute(primary: bool) -> None:
    ArraySchema([start_at("dt")], float, [AttributeSchema("dt", datetime, primary)])
    for attributes in (None, [AttributeSchema("other", datetime, primary)], [AttributeSchema("dt", str, primary)]):
        with pytest.raises(SchemaError, match="starts at the attribute 'dt'"):
            ArraySchema([start_at("dt")], float, attributes)


def test_r48_attributes_may_be_left_out() -> None:
    assert (
        ArraySchema(X, float).attributes
        == ArraySchema(X, float, None).attributes
        == ArraySchema(X, float, []).attributes
    )
    assert ArraySchema(X, float).attributes == ()


def test_r49_dimensions_and_dtype_are_needed() -> None:
    with pytest.raises(TypeError):
        ArraySchema(dimensions=X)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ArraySchema(dtype=float)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "dtype",
    [bool, str, bytes, object, None, "float64", "f8", datetime, tuple, list, np.bool_, np.str_, np.datetime64]
    + [np.timedelta64, np.number, np.floating, np.integer, np.inexact, np.generic]
    + [np.dtype(kind) for kind in ("?", "S3", "U2", "M8[s]", "m8[s]", "O", "V4", "i4,f4")],
)
def test_r50_r57_cells_are_numbers(dtype: Any) -> None:
    with pytest.raises(SchemaError, match="dtype"):
        ArraySchema(X, dtype)


@pytest.mark.parametrize(
    ("names", "least", "most", "size"),
    [
        (("int8", "byte"), -128, 127, 1),
        (("int16", "short"), -32768, 32767, 2),
        (("int32", "intc"), -2147483648, 2147483647, 4),
        (("int64", "longlong", "intp", "int_", "int"), -9223372036854775808, 9223372036854775807, 8),
        (("uint8", "ubyte"), 0, 255, 1),
        (("uint16", "ushort"), 0, 65535, 2),
        (("uint32", "uintc"), 0, 4294967295, 4),
        (("uint64", "uint", "uintp", "ulonglong"), 0, 18446744073709551615, 8),
    ],
)
def test_r51_r52_whole_numbers(names: tuple[str, ...], least: int, most: int, size: int) -> None:
    for name in names:
        dtype = dtype_of(f"numpy.{name}")
        assert (np.iinfo(dtype).min, np.iinfo(dtype).max, dtype.itemsize) == (least, most, size)
        assert dtype_of(name) == dtype


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("float16",), np.float16),
        (("float32",), np.float32),
        (("float64", "double", "float"), np.float64),
        (("float128", "longfloat", "longdouble"), np.longdouble),
        (("complex64", "singlecomplex"), np.complex64),
        (("complex128", "complex", "complex_", "cfloat", "cdouble"), np.complex128),
        (("complex256", "clongfloat", "longcomplex"), np.clongdouble),
    ],
)
def test_r53_r54_r56_other_numbers_by_every_name_that_files_hold(names: tuple[str, ...], kind: type) -> None:
    for name in names:
        assert dtype_of(f"numpy.{name}").type is kind
        assert dtype_of(name).type is kind


@pytest.mark.parametrize(
    "name", ["float_", "numpy.float_", "numpy.bool", "str", "", "numpy.", "f8", "<f8", None, 8, []]
)
def test_r56_other_names_are_refused(name: Any) -> None:
    with pytest.raises(SchemaError):
        dtype_of(name)


def test_r55_types_of_python() -> None:
    assert [ArraySchema(X, kind).dtype for kind in (int, float, complex)] == ["i8", "f8", "c16"]


NAMES = {
    "b": "int8",
    "h": "int16",
    "i": "int32",
    "l": "int64",
    "q": "longlong",
    "B": "uint8",
    "H": "uint16",
    "I": "uint32",
    "L": "uint",
    "Q": "ulonglong",
    "e": "float16",
    "f": "float32",
    "d": "float64",
    "g": "float128",
    "F": "complex64",
    "D": "cfloat",
    "G": "clongfloat",
}


@pytest.mark.parametrize(("code", "name"), list(NAMES.items()))
def test_r57_every_type_has_one_written_name(code: str, name: str) -> None:
    dtype = np.dtype(code)
    assert ArraySchema(X, dtype).as_dict["dtype"] == f"numpy.{name}"
    assert dtype_of(dtype_name(dtype)).char == code
    assert ArraySchema(X, dtype.type) == ArraySchema(X, dtype)


def test_r57_byte_order_is_no_part_of_a_schema() -> None:
    assert ArraySchema(X, np.dtype(">f4")) == ArraySchema(X, np.float32)
    assert ArraySchema(X, np.dtype(">f4")).dtype.isnative
    assert ArraySchema(X, np.longlong) != ArraySchema(X, np.int64)


@pytest.mark.parametrize(("dtype", "nbytes"), [(np.int32, 4000), (float, 8000), (complex, 16000)])
def test_r58_the_size_is_told(dtype: Any, nbytes: int) -> None:
    cube = [DimensionSchema(name, 10) for name in "xyz"]
    assert ArraySchema(cube, dtype).nbytes == nbytes
    tiles = VArraySchema(cube, dtype, vgrid=(1, 5, 2))
    assert (tiles.nbytes, tiles.tile_nbytes) == (nbytes, nbytes // 10)
    assert ArraySchema([DimensionSchema("x", 10**9), DimensionSchema("y", 1000)], float).nbytes == 8 * 10**12


@pytest.mark.parametrize("code", CODES)
def test_r62_the_automatic_fill_value(code: str) -> None:
    fill = ArraySchema(X, np.dtype(code)).fill_value
    assert fill.dtype.char == code
    if fill.dtype.kind in "iu":
        assert fill == np.iinfo(fill.dtype).min
    else:
        assert np.isnan(fill.real)
        assert fill.imag == 0


@pytest.mark.parametrize(
    ("dtype", "value", "kept"),
    [
        (np.int8, -100, -100),
        (np.int8, 5.0, 5),
        (np.int8, np.int64(5), 5),
        (np.uint64, 2**64 - 1, 2**64 - 1),
        (np.int64, -(2**63), -(2**63)),
        (float, 5, 5.0),
        (np.float32, 0.1, np.float32(0.1)),
        (np.float16, 65504, 65504),
        (float, 2**70, 2.0**70),
        (float, -inf, -inf),
        (complex, 1, 1 + 0j),
        (np.complex64, 0.1 + 3j, np.complex64(0.1 + 3j)),
        (np.longdouble, np.longdouble("0.1"), np.longdouble("0.1")),
        (np.longdouble, 2**64 - 1, np.longdouble(2**64 - 1)),
    ],
)
def test_r63_a_fill_value_is_one_of_the_cells(dtype: Any, value: Any, kept: Any) -> None:
    fill = ArraySchema(X, dtype, fill_value=value).fill_value
    assert fill == kept
    assert fill.dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (int, 1.5),
        (np.int8, 300),
        (np.int8, -129),
        (np.uint8, -1),
        (np.uint64, 2**64),
        (int, 2.0**63),
        (int, nan),
        (int, inf),
        (int, "5"),
        (int, 1j),
        (int, 1 + 0j),
        (int, True),
        (float, True),
        (float, "5"),
        (float, 1j),
        (float, 10**400),
        (np.float16, 65520.0),
        (np.float16, 1e9),
        (np.float32, 1e300),
        (np.complex64, 1e300),
        (np.complex64, complex(0, -1e300)),
        (complex, "1j"),
        (float, [1.0]),
        (float, np.array(1.0)),
        (float, np.bool_(False)),
        (int, np.timedelta64(1, "s")),
        (float, datetime(2020, 1, 1)),
    ],
)
def test_r63_other_values_are_refused(dtype: Any, value: Any) -> None:
    with pytest.raises(SchemaError, match="fill value"):
        ArraySchema(X, dtype, fill_value=value)


def test_r59_r64_a_wider_type_holds_what_a_narrow_one_cannot() -> None:
    with pytest.raises(SchemaError, match="choose a wider type"):
        ArraySchema(X, np.int8, fill_value=-273)
    assert ArraySchema(X, np.int16, fill_value=-129).fill_value == -129


@pytest.mark.parametrize(
    ("dtype", "value", "text"),
    [
        (np.int64, -99999, "-99999"),
        (np.int8, None, "-128"),
        (np.uint8, None, "0"),
        (np.int64, None, "-9223372036854775808"),
        (np.uint8, 255, "255"),
        (np.complex64, 1 + 2j, "(1+2j)"),
        (complex, 3j, "3j"),
        (complex, -3j, "(-0-3j)"),
        (np.clongdouble, 3j, "3j"),
        (complex, inf, "(inf+0j)"),
        (np.float32, -1.0, "-1.0"),
        (np.float32, 0.1, "0.1"),
        (float, inf, "inf"),
        (float, nan, None),
        (complex, complex(nan, 0), None),
        (complex, complex(nan, 1), None),
    ],
)
def test_r63_fill_values_as_the_peer_writes_them(dtype: Any, value: Any, text: str | None) -> None:
    schema = ArraySchema(X, dtype, fill_value=value)
    assert schema.as_dict["fill_value"] == text
    assert ArraySchema(X, dtype, fill_value=fill_of(text, schema.dtype)) == schema


@pytest.mark.skipif(not reads_extended(), reason="needs the 80-bit floats of x86-64")
def test_r53_extended_floats_come_from_decimal_text() -> None:
    for text in ("0.1", "1.189731495357231765e+4932", "3.1415926535897932385"):
        fill = fill_of(text, np.dtype("g"))
        assert fill == np.longdouble(text)
        assert fill_of(fill_text(fill), np.dtype("g")) == fill
    assert -1e-300 < fill_of("-1e-4950", np.dtype("g")) < 0
    assert fill_of("(0.1-2.5e+4000j)", np.dtype("G")).imag == np.longdouble("-2.5e4000")
    assert fill_of("0.1", np.dtype("g")) != 0.1


def test_r56_other_long_doubles_are_told_apart() -> None:
    assert is_extended(np.dtype("g"))
    assert is_extended(np.dtype("G"))
    assert not is_extended(np.dtype("d"))
    assert not reads_extended(np.float64)


@given(st.sampled_from(CODES).map(np.dtype), st.binary(min_size=32, max_size=32))
def test_fill_values_come_back_from_their_text(dtype: np.dtype[Any], raw: bytes) -> None:
    if is_extended(dtype):  # not every pattern of 80 bits is a number
        parts = np.frombuffer(raw[:16], "f8")
        fill = (parts[:1].astype("g") if dtype.char == "g" else parts.view("c16").astype("G"))[0] / dtype.type(3)
    else:
        fill = np.frombuffer(raw, dtype, 1)[0]
    text = fill_text(fill)
    again = fill_of(text, dtype)
    assert again.dtype == dtype
    if fill != fill:
        assert text is None
        assert np.isnan(again.real)
    else:
        assert again == fill
        assert fill_text(again) == text


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("b", "300"),
        ("b", "1.0"),
        ("b", "x"),
        ("b", ""),
        ("B", "-1"),
        ("d", "x"),
        ("d", ""),
        ("d", "1j"),
        ("d", "0x1"),
        ("D", "1+"),
        ("D", "j"),
        ("D", "1 + 2j"),
        ("d", "1_0"),
        ("b", "1_0"),
        ("d", []),
        ("d", True),
        ("b", 1.5),
        ("d", "\N{ARABIC-INDIC DIGIT ONE}"),
        ("d", "1e400"),
        ("e", "65520.0"),
        ("g", "1e5000"),
        ("F", "1e300j"),
    ],
)
def test_r63_texts_that_are_no_fill_value(code: str, said: Any) -> None:
    with pytest.raises(SchemaError):
        fill_of(said, np.dtype(code))


@pytest.mark.parametrize(
    ("code", "said", "value"),
    [
        ("b", 5, 5),
        ("d", 5, 5.0),
        ("d", 0.5, 0.5),
        ("d", "-inf", -inf),
        ("D", "5", 5),
        ("D", "(1-2.5e-3j)", 1 - 0.0025j),
        ("D", "infj", complex(0, inf)),
        ("b", None, -128),
        ("d", " 1.5 ", 1.5),
        ("D", 2, 2),
    ],
)
def test_r63_other_forms_that_are_read(code: str, said: Any, value: Any) -> None:
    assert fill_of(said, np.dtype(code)) == value


def test_r65_an_array_schema() -> None:
    schema = ArraySchema(dimensions=YX, attributes=[AttributeSchema("attr", str, False)], dtype=float)
    assert schema.dtype == np.float64
    assert np.isnan(schema.fill_value)
    assert schema.as_dict["fill_value"] is None
    assert not schema.primary_attributes


def test_r66_r69_a_grid_of_tiles() -> None:
    schema = VArraySchema(dimensions=YX, dtype=np.int64, fill_value=-99999, vgrid=(50, 20), attributes=None)
    assert (schema.vgrid, schema.arrays_shape, schema.fill_value) == ((50, 20), (2, 10), -99999)


def test_r67_either_grid_or_shape() -> None:
    with pytest.raises(SchemaError, match="vgrid or arrays_shape"):
        VArraySchema(YX, float)
    with pytest.raises(SchemaError, match="vgrid or arrays_shape"):
        VArraySchema(YX, float, vgrid=(50, 20), arrays_shape=(2, 10))


WRONG = [2, "22", (2,), (2, 2, 2), (0, 2), (-2, 2), (2.0, 2), (True, 2), None, {2, 4}, ("2", 2), (2, None)]


@pytest.mark.parametrize("counts", WRONG[:-4] + WRONG[-3:], ids=repr)
@pytest.mark.parametrize("word", ["vgrid", "arrays_shape"])
def test_r68_one_positive_whole_number_per_dimension(word: str, counts: Any) -> None:
    with pytest.raises(SchemaError, match=word):
        VArraySchema(YX, float, **{word: counts})


def test_r68_lists_do() -> None:
    assert VArraySchema(YX, float, vgrid=[50, np.int64(20)]).vgrid == (50, 20)


@pytest.mark.parametrize("vgrid", [(3, 1), (1, 201), (200, 1)])
def test_r68_a_grid_divides_the_shape(vgrid: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="does not divide"):
        VArraySchema(YX, float, vgrid=vgrid)


def test_r70_one_leaves_a_dimension_whole() -> None:
    assert VArraySchema(YX, float, vgrid=(1, 20)).arrays_shape == (100, 10)


def test_r72_r73_the_shape_of_tiles_yields_the_grid_which_is_kept() -> None:
    schema = VArraySchema(YX, float, arrays_shape=(2, 10))
    assert schema.vgrid == (50, 20)
    assert schema == VArraySchema(YX, float, vgrid=(50, 20))
    assert list(schema.as_dict)[-1] == "vgrid"
    assert "arrays_shape" not in schema.as_dict


def test_tiles_need_not_divide_the_shape() -> None:
    schema = VArraySchema(YX, float, arrays_shape=(30, 200))
    assert (schema.vgrid, schema.is_regular) == ((4, 1), False)
    assert schema.as_dict["arrays_shape"] == [30, 200]
    with pytest.raises(SchemaError, match="longer than the dimension"):
        VArraySchema(YX, float, arrays_shape=(101, 1))


def test_unlimited_dimensions_count_no_cell_yet() -> None:
    grown = [DimensionSchema("y", None), DimensionSchema("x", 5)]
    schema = VArraySchema(grown, float, arrays_shape=(10, 5))
    assert (schema.shape, schema.unlimited, schema.vgrid, schema.is_regular) == ((0, 5), ("y",), (0, 1), False)
    assert schema.named_shape == (("y", 0), ("x", 5))
    with pytest.raises(SchemaError, match="unlimited"):
        VArraySchema(grown, float, vgrid=(1, 1))


def test_most_dimensions() -> None:
    with pytest.raises(SchemaError, match="at most 64"):
        ArraySchema([DimensionSchema(f"d{i}", 1) for i in range(65)], float)


EACH = [
    ArraySchema(X, float),
    ArraySchema(X, np.float32),
    ArraySchema(X, float, [AttributeSchema("a", int, True)]),
    ArraySchema(X, float, fill_value=0.0),
    VArraySchema(X, float, vgrid=(1,)),
    VArraySchema(X, float, vgrid=(2,)),
]


@pytest.mark.parametrize("schema", EACH, ids=repr)
def test_r3_schemas_are_values(schema: ArraySchema) -> None:
    for field in ("dimensions", "dtype", "attributes", "fill_value", "shape", "vgrid"):
        with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
            setattr(schema, field, None)
    assert not hasattr(schema, "__dict__")
    for twin in (pickle.loads(pickle.dumps(schema)), copy.deepcopy(schema)):
        assert twin == schema
        assert hash(twin) == hash(schema)
        assert repr(twin) == repr(schema)
    assert len({*EACH, schema}) == len(EACH)
    assert schema != schema.as_dict
    for name in ("dimensions=", "dtype=dtype(", "fill_value="):
        assert name in repr(schema)


@pytest.mark.parametrize("attribute", [AttributeSchema("a", int, True), AttributeSchema("a", np.float32, False)])
def test_r3_attribute_schemas_are_values(attribute: AttributeSchema) -> None:
    with pytest.raises(FrozenInstanceError):
        attribute.primary = False  # type: ignore[misc]
    twin = pickle.loads(pickle.dumps(attribute))
    assert twin == attribute
    assert hash(twin) == hash(attribute)
    assert repr(attribute).startswith("AttributeSchema(name='a', dtype=<class '")
