"""Single cells and fill values as JSON.

Numbers are JSON numbers; NaN and the infinities are the strings ``NaN``, ``Infinity`` and ``-Infinity``; complex
numbers pairs; times their integer; bytes base64; a structure the list of its fields. Fill values, as the two Zarr
formats spell them, may also be bit patterns (``"0x7fc00001"``).
"""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import numpy as np

from hyperslab.model.amounts import is_whole_number
from hyperslab.model.cells import float_to_json, number_cell
from hyperslab.model.dtypes import Char, DataType, NumpyDType, VlenArray, VlenBytes, VlenString, numpy_dtype

_SAFE = 60000.0  # below it no float16 overflows (the largest is 65504), so that NumPy has nothing to warn of
# The floats that JSON has no number for, as both Zarr formats spell them.
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def float_from_json(value: object) -> float:
    """Return the float of a JSON number or of one of the three strings; TypeError for anything else."""
    if isinstance(value, str):
        if value in SPECIAL:
            return SPECIAL[value]
        raise TypeError(f"{value!r} is no number")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def int_from_json(value: object) -> int:
    """Return the whole number of a JSON number (``5.0`` counts); TypeError for anything else."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not is_whole_number(value):
        raise TypeError(f"{value!r} is no whole number")
    return value


def text_from_json(value: object) -> str:
    """Return a JSON text; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def raw_cell(raw: bytes, dtype: NumpyDType) -> Any:
    """Return the cell that lies in these bytes; TypeError when they are too few or too many."""
    if len(raw) != dtype.itemsize:
        raise TypeError(f"{len(raw)} bytes for a cell of {dtype.itemsize}")
    return np.frombuffer(raw, dtype)[0]


def base64_to_bytes(value: object) -> bytes:
    """Return the bytes of a base64 string; TypeError when it is none."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no base64 text")
    try:
        return b64decode(value, validate=True)
    except ValueError:
        raise TypeError(f"{value!r} is no base64 text") from None


def bytes_to_base64(value: bytes) -> str:
    """Return bytes as base64 text."""
    return b64encode(value).decode()


def cell_to_json(value: Any) -> object:
    """Return a NumPy scalar as JSON; a float32 or float16 as the double of the same value.

    Readers that know no types take a number as a double: the shortest digits of a float32 (``1e20``) would be another
    number to them, which no cell equals.
    """
    dtype = value.dtype
    match dtype.kind:
        case "b":
            return bool(value)
        case "i" | "u":
            return int(value)
        case "f":
            return float_to_json(float(value))
        case "c":
            return [float_to_json(float(value.real)), float_to_json(float(value.imag))]
        case "m" | "M":
            return int(value.view("i8"))
        case "U" | "T":
            return str(value)
        case "S":
            return bytes_to_base64(bytes(value))
        case _:
            if dtype.names is not None:
                fields = [value[name] for name in dtype.names]
                return [list(map(cell_to_json, part.flat)) if np.ndim(part) else cell_to_json(part) for part in fields]
            return bytes_to_base64(value.tobytes())


def cell_from_json(value: object, dtype: np.dtype[np.generic]) -> Any:
    """Return the NumPy scalar of a JSON value; TypeError or OverflowError when the value does not fit the type."""
    if dtype.names is not None and dtype.fields is not None:
        names = dtype.names or ()
        if not isinstance(value, list) or len(value) != len(names):
            raise TypeError(f"{value!r} is no list of {len(names)} fields")
        cell = np.zeros((), dtype)
        for name, field in zip(names, value, strict=True):
            kind = cell[name].dtype
            if cell[name].shape:
                if not isinstance(field, list) or len(field) != cell[name].size:
                    raise TypeError(f"{field!r} is no list of {cell[name].size} cells")
                cell[name].reshape(-1)[...] = [cell_from_json(part, kind) for part in field]
            else:
                cell[name] = cell_from_json(field, kind)
        return cell[()]
    if dtype.kind == "V":
        return raw_cell(base64_to_bytes(value), dtype)
    return _READERS[dtype.kind](value, dtype)


def _bool(value: object, dtype: np.dtype[np.generic]) -> np.generic:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is no truth value")
    return np.bool_(value)


def _int(value: object, dtype: NumpyDType) -> Any:
    number = int_from_json(value)
    bounds = np.iinfo(dtype)
    if not bounds.min <= number <= bounds.max:
        raise OverflowError(f"{number} is no {dtype.name}")
    return dtype.type(number)


def _float(value: object, dtype: np.dtype[np.generic]) -> np.generic:
    number = float_from_json(value)
    if dtype.itemsize == 8 or abs(number) < _SAFE:
        return dtype.type(number)
    with np.errstate(over="ignore"):
        return dtype.type(number)


def _complex(value: object, dtype: NumpyDType, read: Callable[[object, NumpyDType], object] = _float) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise TypeError(f"{value!r} is no pair of numbers")
    part = np.dtype(f"f{dtype.itemsize // 2}")
    return np.array([read(number, part) for number in value], part).view(f"c{dtype.itemsize}")[0]


def _time(value: object, dtype: np.dtype[np.generic]) -> Any:
    return np.int64(_int(value, np.dtype("i8"))).view(dtype.newbyteorder("="))


def _text(value: object, dtype: np.dtype[np.generic]) -> np.generic:
    if not isinstance(value, str) or len(value) > dtype.itemsize // 4:
        raise TypeError(f"{value!r} is no text of at most {dtype.itemsize // 4} characters")
    return np.str_(value)


def _bytes(value: object, dtype: np.dtype[np.generic]) -> np.generic:
    raw = base64_to_bytes(value)
    if len(raw) > dtype.itemsize:
        raise TypeError(f"{len(raw)} bytes for cells of {dtype.itemsize}")
    return np.bytes_(raw)


_READERS: dict[str, Callable[[object, NumpyDType], np.generic]] = {
    "b": _bool,
    "i": _int,
    "u": _int,
    "f": _float,
    "c": _complex,
    "m": _time,
    "M": _time,
    "U": _text,
    "S": _bytes,
}


_HEX = re.compile(r"0x([0-9a-fA-F]+)")
# Not a time: NumPy's mark among the integers of datetime64 and timedelta64.
_NAT = np.iinfo("i8").min


def number_from_json(value: object, dtype: np.dtype[np.generic]) -> object:
    """Return the scalar of a boolean, number, pair or time; floats also as bits (``"0x7fc00001"``), NaN payload kept.

    TypeError or OverflowError says why it does not fit.
    """
    dtype = dtype.newbyteorder("=")
    match dtype.kind:
        case "f":
            return _float_cell(value, dtype)
        case "c":
            return _complex(value, dtype, _float_cell)
        case "m" | "M" if value == "NaT":
            return np.int64(_NAT).view(dtype)
        case _:
            return cell_from_json(value, dtype)


def _float_cell(value: object, dtype: np.dtype[np.generic]) -> object:
    bits = _HEX.fullmatch(value) if isinstance(value, str) else None
    if bits is None:
        return cell_from_json(value, dtype)
    return cell_from_bits(bits[1], dtype)


def cell_from_bits(digits: str, dtype: np.dtype[np.generic]) -> object:
    """Return the cell with these bits, given as hexadecimal digits from the highest to the lowest."""
    if len(digits) != 2 * dtype.itemsize:
        raise TypeError(f"0x{digits} has not the {2 * dtype.itemsize} digits of {dtype.name}")
    little = bytes.fromhex(digits)[::-1]
    return np.frombuffer(little, dtype.newbyteorder("<"))[0]


def number_to_json(cell: Any, *, bits: bool) -> object:
    """Return the JSON of such a scalar; with ``bits`` a NaN that is not the usual one is a bit pattern."""
    kind = cell.dtype.kind
    if kind == "f":
        return _float_json(cell, bits=bits)
    if kind == "c":
        return [_float_json(cell.real, bits=bits), _float_json(cell.imag, bits=bits)]
    return cell_to_json(cell)


def _float_json(cell: np.floating[Any], *, bits: bool) -> float | str:
    little = np.asarray(cell).astype(cell.dtype.newbyteorder("<"), copy=False).tobytes()
    if bits and cell != cell and little != np.array(np.nan, cell.dtype.newbyteorder("<")).tobytes():
        return f"0x{little[::-1].hex()}"
    return float_to_json(float(cell))


def to_fill_cell(value: Any, dtype: DataType) -> object:
    """Return a fill value as users give it, as the cell that it means; None stays None.

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


def _as_cell(value: object, dtype: NumpyDType) -> object:
    if isinstance(value, str) and value in SPECIAL and dtype.kind in "fc":
        value = SPECIAL[value]
    if dtype.names is not None and isinstance(value, tuple):  # NumPy knows without a dtype of no rows in rows
        try:
            return np.array(value, dtype)[()]
        except ValueError as error:
            raise TypeError(str(error)) from error
    array = np.asarray(value)
    if array.dtype == dtype and array.shape == ():
        return array[()]
    if dtype.kind in "iufc" and array.dtype.kind != "V":  # the small types of ml_dtypes are of kind V
        return number_cell(value, dtype)
    cell = np.zeros((), dtype)
    cell[()] = value
    return cell[()]


def fill_values_equal(a: object, b: object) -> bool:
    """Return True for two fill values that are the same, bit by bit where they are cells."""
    if isinstance(a, np.generic | np.ndarray) and isinstance(b, np.generic | np.ndarray):
        x, y = np.asarray(a), np.asarray(b)
        return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()
    return type(a) is type(b) and bool(a == b)
