"""Zarr v2's ``dtype`` and ``fill_value``: NumPy's type names, ``|O`` told by its object codec, fills per type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hyperslab.errors import Unsupported
from hyperslab.formats.metadata_json.cells import base64_to_bytes, bytes_to_base64, number_from_json, number_to_json
from hyperslab.formats.metadata_json.dtypes import dtype_from_json, dtype_to_json
from hyperslab.model.dtypes import (
    DataType,
    ObjectRef,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    describe,
    numpy_dtype,
)
from hyperslab.model.spec import Codec

_TEXT_CODECS = ("vlen-utf8", "json2", "msgpack2", "categorize")


def read_dtype(name: Any, codecs: Sequence[Codec]) -> DataType:
    """The type of the cells; TypeError says what is wrong. ``|O`` is what its object codec makes it."""
    if name not in ("|O", "O", "object"):
        return dtype_from_json(name)
    for codec in codecs:
        if codec.name in _TEXT_CODECS:
            return VlenString()
        if codec.name == "vlen-bytes":
            return VlenBytes()
        if codec.name == "vlen-array":
            return VlenArray(dtype_from_json(codec.config.get("dtype")))
    raise TypeError("cells of type 'object' need one of the codecs vlen-utf8, vlen-bytes, vlen-array, json2, msgpack2")


def write_dtype(dtype: DataType) -> Any:
    """The ``dtype`` of a type; Unsupported when Zarr v2 has none."""
    match dtype:
        case VlenString() | VlenBytes() | VlenArray():
            return "|O"
        case ObjectRef() | RegionRef():
            pass
        case _:
            try:
                return dtype_to_json(numpy_dtype(dtype))
            except TypeError:
                pass
    raise Unsupported(
        f"format zarr2 has no cells of type {describe(dtype)}", remedy="use format zarr3, or convert the cells first"
    )


def read_fill(value: Any, dtype: DataType) -> Any:
    """The fill value as a cell; null is None: such cells read as the type's zero. TypeError when it does not fit."""
    if value is None:
        return None
    match dtype:
        case VlenString():
            return _text(value)
        case VlenBytes():
            return b"" if value in ("", 0) else base64_to_bytes(value)
        case VlenArray():
            return None
        case _:
            return _read_cell(value, numpy_dtype(dtype))


def _read_cell(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "U":
        text = _text(value)
        if len(text) > dtype.itemsize // 4:
            raise TypeError(f"{value!r} is longer than {dtype.itemsize // 4} characters")
        return np.str_(text)
    if dtype.kind == "S":
        return np.bytes_(_short_bytes(value, dtype.itemsize))
    if dtype.kind == "V":
        return _raw(value, dtype)
    if dtype.kind == "b" and value in (0, 1):
        return np.bool_(value)
    return number_from_json(value, dtype)


def _text(value: Any) -> str:
    if value == 0 and not isinstance(value, bool):
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _short_bytes(value: Any, size: int) -> bytes:
    """Base64, or the text itself as netCDF-C writes it."""
    text = _text(value)
    try:
        raw = base64_to_bytes(text)
    except TypeError:
        raw = text.encode()
    if len(raw) > size:
        raise TypeError(f"{value!r} is longer than {size} bytes")
    return raw


def _raw(value: Any, dtype: np.dtype[Any]) -> Any:
    if value in ("", 0):
        return np.zeros((), dtype)[()]
    raw = base64_to_bytes(value)
    if len(raw) != dtype.itemsize:
        raise TypeError(f"{value!r} has {len(raw)} bytes, not {dtype.itemsize}")
    return np.frombuffer(raw, dtype)[0]


def write_fill(value: Any, dtype: DataType) -> Any:
    """The JSON of a fill value; structured ones are base64 of the cell's bytes in the array's own byte order."""
    if value is None:
        return None
    if isinstance(dtype, VlenArray):
        if len(value):
            raise Unsupported("format zarr2 has no fill value for arrays of variable length", remedy="leave it out")
        return None
    if isinstance(dtype, VlenString):
        return str(value)
    if isinstance(dtype, VlenBytes):
        return bytes_to_base64(bytes(value))
    stored = numpy_dtype(dtype)
    match stored.kind:
        case "U":
            return str(value)
        case "S":
            return bytes_to_base64(bytes(value).ljust(stored.itemsize, b"\0"))  # tensorstore insists on every byte
        case "V":
            return bytes_to_base64(np.asarray(value).astype(stored, copy=False).tobytes())
        case _:
            return number_to_json(value, bits=False)
