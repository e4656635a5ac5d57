"""Hyperslabs: start, count and stride, backwards too, read and written, of every type that each dialect holds (R42)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hyperslab as hs
from examples import at_most
from hyperslab.model.dtypes import Char, Compound, DataType, Enum, Opaque, VlenString, describe, numpy_dtype
from hyperslab.testing.samples import cells, same_cells

SHAPE, CHUNKS = (7, 5, 4), (3, 2, 4)
NUMBERS = [np.dtype(order + code) for order in "<>" for code in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")]
CURRENT: list[DataType] = [np.dtype("i1"), np.dtype("u1"), *NUMBERS, Char(), VlenString()]
STRUCTURE = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "<f4", (2,)), ("d", "S3")])
USER: list[DataType] = [
    Compound(STRUCTURE, "record"),
    Enum(np.dtype("u1"), tuple((f"m{n}", n) for n in range(256)), "letters"),
    Opaque(11, "blob"),
]
CASES = [("current", dtype) for dtype in CURRENT] + [("draft", dtype) for dtype in [*CURRENT, *USER]]


@st.composite
def hyperslab(draw: st.DrawFn, size: int) -> slice:
    """A range with a stride, forwards or backwards."""
    start = draw(st.integers(0, size - 1))
    stride = draw(st.integers(1, size))
    if draw(st.booleans()):
        return slice(start, draw(st.integers(start, size)), stride)
    stop = draw(st.integers(-1, start))
    return slice(start, None if stop < 0 else stop, -stride)


def different(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same cells in another order."""
    return np.roll(values.ravel(), 13).reshape(values.shape)


@pytest.mark.covering("dialect", "dtype")
@pytest.mark.parametrize(
    ("dialect", "dtype"), CASES, ids=lambda value: value if isinstance(value, str) else describe(value)
)
@settings(max_examples=at_most(4, 8), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(key=st.tuples(*map(hyperslab, SHAPE)), other=st.tuples(*map(hyperslab, SHAPE)))
def test_as_numpy(tmp_path: Path, dialect: str, dtype: DataType, key: Any, other: Any) -> None:
    """What is read and written is what NumPy reads and writes."""
    expected = cells(dtype, 7 * 5 * 4).reshape(SHAPE).astype(numpy_dtype(dtype))
    root = hs.create(tmp_path / "x.nczarr", dialect=dialect, overwrite=True, durable=False)
    array = root.create_array("v", SHAPE, dtype, dims=("t", "y", "x"), chunks=CHUNKS)
    array[...] = expected
    again: Any = hs.open(tmp_path / "x.nczarr")["v"]
    assert again.dtype == array.dtype == expected.dtype
    assert same_cells(expected[key], again[key])
    array[other] = new = different(expected)[other]
    expected[other] = new
    assert same_cells(expected, again[...])
    assert same_cells(expected[key], again[key])
