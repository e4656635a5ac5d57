"""Cells and attributes of every type, and how those that are read are compared with them."""

from __future__ import annotations

from typing import Any

import numpy as np

NUMBERS = ["|i1", "|u1", "<i2", ">i2", "<u4", ">u4", "<i8", ">u8", "<f4", ">f4", "<f8", ">f8"]
PLAIN = [*NUMBERS, "|b1", "<f2", "<c8", ">c16", "<M8[ns]", ">M8[D]", "<m8[25s]", "<U3", ">U3", "|S5", "|V4"]
ROWS = [
    [("a", "<i4"), ("b", ">f8")],
    [("a", "i1"), ("b", ">f4", (2, 3)), ("c", [("d", "<U2"), ("e", "<M8[D]")])],
    [("a", "<i4"), ("b", [("c", "<f4", (2,)), ("d", [("e", "|S2"), ("f", "<c8")])], (3,))],
]


def make(kind: Any, *shape: int) -> np.ndarray[Any, Any]:
    """Return cells of a type, the same ones each time."""
    dtype, random = np.dtype(kind), np.random.default_rng(7)
    if dtype.names:
        rows = np.zeros(shape, dtype)
        for name in dtype.names:
            base, inner = dtype[name].subdtype or (dtype[name], ())
            rows[name] = make(base, *shape, *inner)
        return rows
    if dtype.kind in "US":
        return np.resize(np.array(["ab", "c", "", "é" if dtype.kind == "U" else "d"], dtype), shape).astype(dtype)
    if dtype.kind in "fc":
        return random.normal(size=shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    return np.frombuffer(random.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def assert_cells(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    """Both have the same type, the same shape, and the same bits."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.tobytes() == wanted.tobytes()


def assert_values(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Attributes are the same, with their types; text in an array may be of any length."""
    for name, value in wanted.items():
        assert type(found[name]) is type(value), name
        if isinstance(value, np.ndarray):
            assert found[name].shape == value.shape and found[name].dtype.kind in (value.dtype.kind, "T"), name
            assert str(found[name].tolist()) == str(value.tolist()), name
        else:
            assert repr(found[name]) == repr(value), name


INNER = np.dtype([("d", "i1"), ("e", "U2")])
ATTRIBUTES: dict[str, Any] = {
    "text": "plain", "int": 3, "float": 0.5, "true": True, "none": None, "list": [1, 2],
    "map": {"a": [1, float("nan")], "b": float("-inf")}, "nan": float("nan"), "f4": np.float32(0.1),
    "i2": np.int16(-3), "u8": np.uint64(2**63), "array": np.arange(6, dtype="f4").reshape(2, 3), "one": np.array([5.0]),
    "empty": np.array([], "i4"), "str": np.str_("x"), "texts": np.array(["a", "bé"]), "bytes": b"\x00\xff",
    "S": np.bytes_(b"ab"), "time": np.datetime64("2020-01-01", "ns"), "times": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "span": np.timedelta64(3, "25s"), "complex": np.array([complex(np.nan, 1)]), "b": np.bool_(True),
    "row": np.array([(1, [2.5, np.inf], (3, "x"))], [("a", "<i4"), ("b", "<f8", (2,)), ("c", INNER)]),
}  # fmt: skip
