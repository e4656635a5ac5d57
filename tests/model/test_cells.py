"""Cells as another type, and what counts as the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperslab.model.cells import as_type, number_cell, same_cells, same_type
from hyperslab.model.dtypes import Char, Compound, Enum, Opaque, VlenString
from hyperslab.model.spec import ArraySpec

FIELDS = np.dtype([("name", "S3"), ("at", [("x", ">i2"), ("y", "f8", (2,))])])
SPELLED = np.dtype([("name", "S1", (3,)), ("at", [("x", "i2"), ("y", "f8", (2,))])])


def test_fields_are_taken_one_by_one() -> None:
    cells = np.array([(b"abc", (1, (2.5, 3.5))), (b"d", (-7, (0.0, np.nan)))], FIELDS)
    there = as_type(cells, SPELLED)
    assert there.dtype == SPELLED
    assert there["name"].tolist() == [[b"a", b"b", b"c"], [b"d", b"", b""]]
    assert there["at"]["x"].tolist() == [1, -7]
    assert same_cells(as_type(there, FIELDS), cells)


def test_the_same_type_is_no_copy() -> None:
    cells = np.arange(3)
    assert as_type(cells, cells.dtype) is cells
    assert as_type(cells, np.dtype("f4")).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (np.dtype("f4"), np.dtype("f4"), True),
        (np.dtype("f4"), np.dtype("f8"), False),
        (np.dtype("f4"), np.dtype(">f4"), False),
        (FIELDS, Compound(SPELLED, "t"), True),
        (np.dtype([("a", "i4")]), np.dtype([("b", "i4")]), False),
        (Compound(FIELDS, "t"), FIELDS, False),
        (np.dtype("V3"), Opaque(3, "o"), True),
        (np.dtype("S1"), Char(), True),
        (Char(), np.dtype("S1"), False),
        (VlenString(), VlenString(), True),
        (Enum(np.dtype("u1"), (("a", 1),)), Enum(np.dtype("u1"), (("a", 2),)), False),
    ],
)
def test_types(a: Any, b: Any, same: bool) -> None:
    assert same_type(a, b) == same


def test_any_order_of_bytes() -> None:
    assert same_type(np.dtype(">f4"), np.dtype("f4"), any_order=True)
    assert same_type(VlenString(), VlenString(), any_order=True)


def test_cells_are_compared_by_their_bits() -> None:
    quiet = np.array([0x7FC00000], "u4").view("f4")
    other = np.array([0x7FC00001], "u4").view("f4")
    assert same_cells(quiet, quiet.copy())
    assert not same_cells(quiet, other)
    assert not same_cells(np.array([0.0]), np.array([-0.0]))
    assert not same_cells(np.zeros(2), np.zeros((2, 1)))
    words = np.array(["a", ""], np.dtypes.StringDType())
    assert same_cells(words, words.copy())
    lists = np.empty(2, object)
    lists[:] = [np.array([1, 2]), np.array([], "i8")]
    assert same_cells(lists, lists.copy())
    assert not same_cells(lists, lists[::-1])


def test_text_that_was_never_written_is_empty() -> None:
    spec = ArraySpec(shape=(2,), dtype=VlenString(), chunks=(2,))
    assert spec.fill_cell().item() == ""
    assert spec.evolve(fill_value="-").fill_cell().item() == "-"


@pytest.mark.parametrize(
    ("value", "dtype", "cell"),
    [
        (5, "i2", np.int16(5)),
        (-999.0, "i2", np.int16(-999)),
        ([7], "u1", np.uint8(7)),
        (np.array([[1.5]]), "f4", np.float32(1.5)),
        (1e20, "f4", np.float32(1e20)),
        (2**64 - 1, "u8", np.uint64(2**64 - 1)),
        (True, "i1", np.int8(1)),
        (1, "?", np.bool_(True)),
        (np.inf, "f2", np.float16(np.inf)),
        (2j, "c8", np.complex64(2j)),
    ],
)
def test_numbers_that_are_cells(value: object, dtype: str, cell: np.generic) -> None:
    found = number_cell(value, np.dtype(dtype))
    assert found == cell and found.dtype == cell.dtype


@pytest.mark.parametrize(
    ("value", "dtype", "error"),
    [
        (40000, "i2", OverflowError),
        (1.5, "i2", OverflowError),
        (np.nan, "i2", OverflowError),
        (np.inf, "i8", OverflowError),
        (2.0**63, "i8", OverflowError),
        (1e39, "f4", OverflowError),
        (2**2000, "f8", OverflowError),
        (1e39j, "c8", OverflowError),
        (2, "?", OverflowError),
        ("5", "i2", TypeError),
        ([1, 2], "i2", TypeError),
        (None, "f4", TypeError),
        (1j, "f8", TypeError),
        (b"a", "u1", TypeError),
    ],
)
def test_what_is_no_cell(value: object, dtype: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        number_cell(value, np.dtype(dtype))
