"""What the suite of formats writes: a type of every kind, cells of each, attributes plain and typed."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.formats.base import Feature
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import (
    Char,
    Compound,
    DataType,
    Enum,
    Opaque,
    VlenArray,
    VlenBytes,
    VlenString,
    numpy_dtype,
)

_PAIR = np.dtype([("a", "i4"), ("b", "f8")])
TYPES: list[tuple[DataType, Feature | None]] = [
    *[(np.dtype(name), None) for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")],
    (np.dtype("?"), Feature.BOOLEAN),
    (np.dtype("f2"), Feature.FLOAT16),
    *[(np.dtype(name), Feature.COMPLEX) for name in ("c8", "c16")],
    *[(np.dtype(name), Feature.BIG_ENDIAN) for name in (">i2", ">f8")],
    *[(np.dtype(name), Feature.DATETIME) for name in ("M8[ns]", "m8[25s]", "M8[D]")],
    (np.dtype("U3"), Feature.UNICODE),
    (np.dtype("S5"), Feature.FIXED_BYTES),
    (_PAIR, Feature.STRUCTURED),
    (np.dtype([("a", "i2"), ("b", [("c", "f4"), ("d", "u1")])]), Feature.STRUCTURED),
    (np.dtype([("a", "i2"), ("b", "f4", (2, 3))]), Feature.SUBARRAYS),
    (VlenString(), Feature.STRINGS),
    (VlenBytes(), Feature.VLEN),
    (VlenArray(np.dtype("i4"), "row"), Feature.VLEN),
    (Char(), Feature.CHAR),
    (Enum(np.dtype("u1"), (("A", 0), ("B", 200)), "letters"), Feature.USER_TYPES),
    (Opaque(7, "blob"), Feature.USER_TYPES),
    (Compound(_PAIR, "pair"), Feature.USER_TYPES),
]
"""Every kind of cell, with the feature that a format needs for it."""

PLAIN: dict[str, object] = {
    "text": "hé ☃",
    "empty": "",
    "looks like a number": "42",
    "int": 1,
    "negative": -3,
    "float": 0.1,
    "whole float": 2.0,
    "tiny": 5e-324,
}
"""Attributes that any format with attributes keeps, order included."""

TYPED: dict[str, object] = {
    "f4": np.float32(0.1),
    "i2": np.int16(-5),
    "u8": np.uint64(2**64 - 1),
    "nan": np.float64("nan"),
    "one": np.array([1.5]),
    "many": np.array([1, 2, 3], "i2"),
    "special": np.array([np.nan, np.inf, -np.inf, -0.0], "f4"),
    "python nan": float("nan"),
    "_FillValue": np.float32(-999.0),
}
"""Attributes that a format with ``Feature.TYPED_ATTRIBUTES`` keeps with their dtypes."""


def cells(dtype: DataType, count: int) -> Values:
    """Return ``count`` cells of a type in one dimension, the same ones on each call; most differ from their
    neighbours."""
    memory = numpy_dtype(dtype)
    match dtype:
        case VlenString():
            return np.array([f"cell {i} ☃" * (i % 3) for i in range(count)], memory)
        case VlenBytes():
            return _objects([bytes(range(i % 5)) for i in range(count)])
        case VlenArray(base=base):
            return _objects([np.arange(i % 4, dtype=base) for i in range(count)])
        case Char():
            return np.array([bytes([97 + i % 26]) for i in range(count)], memory)
        case Enum(members=members) if members:
            return np.array([members[i % len(members)][1] for i in range(count)], memory)
        case _:
            rng = np.random.default_rng(1)
            if memory.kind in "bU":
                return rng.integers(0, 2, count).astype(memory)
            if memory.kind == "S":
                return np.array([f"{i}".encode() for i in range(count)], memory)
            raw = rng.integers(1, 60, count * memory.itemsize, "u1")
            return raw.view(memory)


def _objects(items: list[Any]) -> Values:
    array = np.empty(len(items), object)
    for place, item in enumerate(items):
        array[place] = item
    return array


def same_cells(a: Values, b: Values) -> bool:
    """Return True if two arrays hold the same cells, in whatever byte order."""
    if a.shape != b.shape:
        return False
    if a.dtype == object or a.dtype.kind == "T":
        return all(np.array_equal(x, y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))
    return a.dtype.newbyteorder("=") == b.dtype.newbyteorder("=") and a.astype(b.dtype).tobytes() == b.tobytes()
