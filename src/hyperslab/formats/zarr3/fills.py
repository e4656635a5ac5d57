"""Zarr v3's ``fill_value``: strict, for it is what every unwritten cell reads as."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.formats.metadata_json.cells import (
    SPECIAL,
    base64_to_bytes,
    bits_cell,
    bytes_to_base64,
    float_from_json,
    int_from_json,
    number_from_json,
    number_to_json,
)
from hyperslab.formats.zarr3.dtypes import is_raw, is_small
from hyperslab.model.dtypes import DataType, VlenArray, VlenBytes, VlenString, numpy_dtype


def read_fill(value: Any, dtype: DataType) -> Any:
    """The fill value as a cell; TypeError or OverflowError when it does not fit the type."""
    match dtype:
        case VlenString():
            if not isinstance(value, str):
                raise TypeError(f"{value!r} is no text")
            return value
        case VlenBytes():
            return _bytes(value)
        case VlenArray(base=base):
            raw = _bytes(value)
            if len(raw) % base.itemsize:
                raise TypeError(f"{value!r} is no whole number of cells")
            return np.frombuffer(raw, base)
        case _:
            return _read_cell(value, numpy_dtype(dtype))


def _bytes(value: Any) -> bytes:
    """Base64, or a list of numbers from 0 to 255."""
    if isinstance(value, list) and all(type(n) is int and 0 <= n < 256 for n in value):
        return bytes(value)
    return base64_to_bytes(value)


def _read_cell(value: Any, dtype: np.dtype[Any]) -> Any:
    if is_small(dtype):
        return _read_small(value, dtype)
    if dtype.names is not None and dtype.fields is not None:
        return _read_struct(value, dtype)
    if is_raw(dtype):
        return _read_raw(value, dtype)
    match dtype.kind:
        case "U":
            if not isinstance(value, str) or len(value) > dtype.itemsize // 4:
                raise TypeError(f"{value!r} is no text of at most {dtype.itemsize // 4} characters")
            return np.str_(value)
        case "S":
            raw = _bytes(value)
            if len(raw) > dtype.itemsize:
                raise TypeError(f"{value!r} is longer than {dtype.itemsize} bytes")
            return np.bytes_(raw)
        case "V":
            return _read_raw(value, dtype)
        case _:
            return number_from_json(value, dtype)


def _read_raw(value: Any, dtype: np.dtype[Any]) -> Any:
    raw = _bytes(value)
    if len(raw) != dtype.itemsize:
        raise TypeError(f"{value!r} has {len(raw)} bytes, not {dtype.itemsize}")
    return np.frombuffer(raw, dtype)[0]


def _read_struct(value: Any, dtype: np.dtype[Any]) -> Any:
    """An object of fields, or base64 of the little-endian cell (the older spelling)."""
    if isinstance(value, str):
        return _read_raw(value, dtype.newbyteorder("<")).astype(dtype)
    names = dtype.names or ()
    if not isinstance(value, dict) or set(value) != set(names):
        raise TypeError(f"{value!r} is no object with the fields {list(names)}")
    cell = np.zeros((), dtype)
    for name in names:
        cell[name] = _read_cell(value[name], cell.dtype[name])
    return cell[()]


def _read_small(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, str) and value.startswith("0x"):
        return bits_cell(value[2:], dtype)
    if "int" in dtype.name:
        number: float = int_from_json(value)
    else:
        number = float_from_json(value)
    cell = dtype.type(number)
    if ("int" in dtype.name and int(cell) != number) or (number != number and cell == cell):
        raise OverflowError(f"{value!r} is no {dtype.name}")
    return cell


def write_fill(value: Any, dtype: DataType) -> Any:
    """The JSON of a fill value."""
    match dtype:
        case VlenString():
            return str(value)
        case VlenBytes():
            return bytes_to_base64(bytes(value))
        case VlenArray(base=base):
            return bytes_to_base64(np.asarray(value, base.newbyteorder("<")).tobytes())
        case _:
            return _write_cell(value, numpy_dtype(dtype))


def _write_cell(value: Any, dtype: np.dtype[Any]) -> Any:
    if is_small(dtype):
        return _write_small(value)
    if dtype.names is not None:
        return {name: _write_cell(value[name], dtype[name]) for name in dtype.names}
    if is_raw(dtype):
        return bytes_to_base64(_unpadded(value, dtype))
    match dtype.kind:
        case "U":
            return str(value)
        case "S":
            return bytes_to_base64(bytes(value))
        case "V":
            return bytes_to_base64(np.asarray(value).tobytes())
        case _:
            return number_to_json(value, bits=True)


def _unpadded(value: Any, dtype: np.dtype[Any]) -> bytes:
    """The bytes of floats of 80 bits, with zeros where there is only padding."""
    raw = np.array([value], dtype).view(np.uint8).reshape(-1, 16)
    raw[:, 10:] = 0
    return raw.tobytes()


def _write_small(value: Any) -> Any:
    if "int" in value.dtype.name:
        return int(value)
    number = float(value)
    raw = np.asarray(value).tobytes()
    if number != number and raw != np.asarray(value.dtype.type(np.nan)).tobytes():
        return f"0x{raw[::-1].hex()}"
    return next((name for name, special in SPECIAL.items() if repr(special) == repr(number)), number)
