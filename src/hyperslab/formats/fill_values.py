"""Fill values of fixed-size cells as the two Zarr formats spell them: numbers, special floats, bit patterns, pairs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hyperslab.formats.cells_json import SPECIAL, cell_from_json, cell_to_json, float_to_json
from hyperslab.model.dtypes import (
    Char,
    DataType,
    VlenArray,
    VlenBytes,
    VlenString,
    numpy_dtype,
)

_HEX = re.compile(r"0x([0-9a-fA-F]+)")
_NAT = np.iinfo("i8").min


def number_from_json(value: Any, dtype: np.dtype[Any]) -> Any:
    """The scalar of a boolean, number, pair or time; floats also as bits (``"0x7fc00001"``), NaN payload kept.

    TypeError or OverflowError says why it does not fit.
    """
    dtype = dtype.newbyteorder("=")
    match dtype.kind:
        case "f":
            return _float_cell(value, dtype)
        case "c":
            if not isinstance(value, list) or len(value) != 2:
                raise TypeError(f"{value!r} is no pair of numbers")
            part = np.dtype(f"f{dtype.itemsize // 2}")
            return np.array([_float_cell(number, part) for number in value], part).view(dtype)[0]
        case "m" | "M" if value == "NaT":
            return np.int64(_NAT).view(dtype)
        case _:
            return cell_from_json(value, dtype)


def _float_cell(value: Any, dtype: np.dtype[Any]) -> Any:
    bits = _HEX.fullmatch(value) if isinstance(value, str) else None
    if bits is None:
        return cell_from_json(value, dtype)
    return bits_cell(bits[1], dtype)


def bits_cell(digits: str, dtype: np.dtype[Any]) -> Any:
    """The cell with these bits, given as hexadecimal digits from the highest to the lowest."""
    if len(digits) != 2 * dtype.itemsize:
        raise TypeError(f"0x{digits} has not the {2 * dtype.itemsize} digits of {dtype.name}")
    little = bytes.fromhex(digits)[::-1]
    return np.frombuffer(little, dtype.newbyteorder("<"))[0]


def number_to_json(cell: Any, *, bits: bool) -> Any:
    """The JSON of such a scalar; with ``bits`` a NaN that is not the usual one keeps its payload as a bit pattern."""
    kind = cell.dtype.kind
    if kind == "f":
        return _float_json(cell, bits=bits)
    if kind == "c":
        return [_float_json(cell.real, bits=bits), _float_json(cell.imag, bits=bits)]
    return cell_to_json(cell)


def _float_json(cell: Any, *, bits: bool) -> Any:
    little = np.asarray(cell).astype(cell.dtype.newbyteorder("<"), copy=False).tobytes()
    if bits and cell != cell and little != np.array(np.nan, cell.dtype.newbyteorder("<")).tobytes():
        return f"0x{little[::-1].hex()}"
    return float_to_json(float(cell))


def as_fill(value: Any, dtype: DataType) -> Any:
    """A fill value as users give it, as the cell that it means; None stays None.

    TypeError, ValueError or OverflowError when the type has no such cell.
    """
    if value is None:
        return None
    match dtype:
        case VlenString():
            return str(value)
        case VlenBytes():
            return bytes(value)
        case VlenArray(base=base):
            return np.asarray(value, base)
        case Char():
            return np.bytes_(value.encode() if isinstance(value, str) else value)
        case _:
            return _as_cell(value, numpy_dtype(dtype).newbyteorder("="))


def _as_cell(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, str) and value in SPECIAL and dtype.kind in "fc":
        value = SPECIAL[value]
    given = np.asarray(value)
    if given.dtype.kind in "iufb" and dtype.kind in "iu" and given.shape == ():
        whole = int(given)
        bounds = np.iinfo(dtype)
        if whole != given or not bounds.min <= whole <= bounds.max:
            raise OverflowError(f"{value!r} is no {dtype.name}")
    if given.dtype == dtype and given.shape == ():
        return given[()]
    cell = np.zeros((), dtype)
    cell[()] = value
    return cell[()]


def same_fill(a: Any, b: Any) -> bool:
    """Return whether two fill values are the same, bit by bit where they are cells."""
    if isinstance(a, np.generic | np.ndarray) and isinstance(b, np.generic | np.ndarray):
        x, y = np.asarray(a), np.asarray(b)
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    return type(a) is type(b) and bool(a == b)
