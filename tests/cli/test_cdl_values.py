"""CDL's spelling of names, numbers and text (netCDF User's Guide, "CDL Syntax")."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperslab.cli.cdl import attribute_text, cell_texts, name_text, quoted, type_name
from hyperslab.model.dtypes import Char, Enum, ObjectRef, VlenBytes, VlenString, tagged
from hyperslab.model.spec import ArraySpec


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(1e20), "1.e+20f"),
        (np.float32(0.1), "0.1f"),
        (np.float64(0), "0."),
        (np.float64(1e-300), "1.e-300"),
        (np.float64("nan"), "NaN"),
        (np.float32("-inf"), "-Infinityf"),
        (np.int8(-3), "-3b"),
        (np.int16(7), "7s"),
        (np.int32(7), "7"),
        (np.int64(7), "7LL"),
        (np.uint8(7), "7UB"),
        (np.uint16(7), "7US"),
        (np.uint32(7), "7U"),
        (np.uint64(7), "7ULL"),
        (np.array([1, 2], "i2"), "1s, 2s"),
        ("K", '"K"'),
        ('say "a"\n', '"say \\"a\\"\\n"'),
        ("one\ntwo", '"one\\n",\n\t\t\t"two"'),
        (["a", "b"], '"a", "b"'),
        (2**40, f"{2**40}LL"),
        ({"a": 1}, '"{\\"a\\": 1}"'),
    ],
)
def test_attributes(value: Any, text: str) -> None:
    assert attribute_text(value) == text


@pytest.mark.parametrize(
    ("name", "text"), [("t2m", "t2m"), ("air temperature", "air\\ temperature"), ("2m", "\\2m"), ("a(b)", "a\\(b\\)")]
)
def test_names(name: str, text: str) -> None:
    assert name_text(name) == text


def test_types() -> None:
    names = [type_name(np.dtype(code)) for code in ("i1", "u1", "i2", ">u2", "i4", "u4", "i8", "u8", "f4", ">f8")]
    assert names == ["byte", "ubyte", "short", "ushort", "int", "uint", "int64", "uint64", "float", "double"]
    assert type_name(VlenString()) == "string"
    assert type_name(Char()) == "char"
    assert type_name(VlenBytes()) == "string"
    rows = np.dtype([("start", "i4"), ("of what", tagged(np.dtype(object), ObjectRef()))])
    assert type_name(rows) == "compound {int start; string of\\ what;}"


def _spec(dtype: Any, **attrs: Any) -> ArraySpec:
    return ArraySpec(shape=(4,), dtype=dtype, chunks=(4,), dims=("x",), attrs=attrs)


def test_cells() -> None:
    floats = np.array([15, 16.25, 1e20, np.nan], "f4")
    assert list(cell_texts(floats, _spec(np.dtype("f4"), _FillValue=np.float32(1e20)))) == ["15", "16.25", "_", "NaN"]
    words = np.array(["a", "b\n"], np.dtypes.StringDType())
    assert list(cell_texts(words, _spec(VlenString()))) == ['"a"', '"b\\n"']
    assert list(cell_texts(np.array([b"a", b"b", b"", b""], "S1"), _spec(Char()))) == ['"ab"']
    colours = Enum(np.dtype("u1"), (("red", 1), ("blue", 2)), "colour")
    assert list(cell_texts(np.array([2, 1, 9], "u1"), _spec(colours))) == ["blue", "red", "9"]


def test_quotes() -> None:
    assert quoted("a\tb\\") == '"a\\tb\\\\"'
