"""The attribute ``_FillValue`` in xarray's spelling, which its Zarr v3 reader insists on.

xarray writes it as base64 of the little-endian float64 in arrays of floats, as a pair of these in complex arrays, as a
plain number in arrays of integers and booleans, and fails to open a dataset with anything else: such values stand in
the mark (xarray.backends.zarr.FillValueCoder).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.formats.metadata_json.attributes import Code, encode
from hyperslab.formats.metadata_json.cells import base64_to_bytes, bytes_to_base64, float_to_json
from hyperslab.formats.metadata_json.extended_metadata import MARK, VERSION
from hyperslab.model.dtypes import DataType, numpy_dtype

NAME = "_FillValue"
_SHAPED = re.compile(r"\[[\d,]*\]$")


def spell(value: Any, dtype: DataType) -> tuple[Any, Code | None] | None:
    """The value as xarray reads it, and its code; None when xarray would fail on it."""
    cell = value.reshape(-1)[0] if isinstance(value, np.ndarray) and value.size == 1 else value
    if isinstance(cell, np.ndarray | list | dict) or (isinstance(value, np.ndarray) and value.ndim > 1):
        return None
    stored = numpy_dtype(dtype)
    code = encode(NAME, value)[1]
    if isinstance(cell, np.generic):
        code = None if isinstance(value, np.generic) and cell.dtype == stored and stored.kind in "fc" else code
    elif code is None and stored.kind in "fc":
        code = "int" if isinstance(cell, int) else "float"
    if isinstance(cell, bool | np.bool_):
        return (bool(cell), code) if stored.kind == "b" else None
    match stored.kind:
        case "f" if isinstance(cell, int | float | np.integer | np.floating) and _is_exact(cell):
            return _pack(float(cell)), code
        case "c" if isinstance(cell, complex | np.complexfloating):
            return [_pack(float(cell.real)), _pack(float(cell.imag))], code
        case "i" | "u" if isinstance(cell, int | np.integer):
            return int(cell), code
        case "i" | "u" if isinstance(cell, float | np.floating) and np.isfinite(cell):
            return float(cell), code
        case _:
            return None


def _is_exact(cell: Any) -> bool:
    return not isinstance(cell, int | np.integer) or (abs(int(cell)) < 2**1000 and int(float(cell)) == int(cell))


def _pack(value: float) -> str:
    return bytes_to_base64(struct.pack("<d", value))


def unspell(stored: Mapping[str, Any], dtype: DataType) -> Mapping[str, Any]:
    """The stored attributes with ``_FillValue`` as any other attribute is spelled, its code in the mark."""
    if NAME not in stored:
        return stored
    said = stored.get(MARK)
    mark = said if isinstance(said, dict) else {"version": VERSION}
    codes = mark.get("attrs")
    codes = codes if isinstance(codes, dict) else {}
    cells = numpy_dtype(dtype)
    value, code = stored[NAME], codes.get(NAME)
    number = _unpack(value, cells.kind)
    if number is not None:
        value = number
        code = cells.str if code is None else code
    if code is None:
        return stored
    if isinstance(code, str) and _SHAPED.search(code) and (number is not None or not isinstance(value, list)):
        value = [value]
    return {**stored, NAME: value, MARK: {**mark, "attrs": {**codes, NAME: code}}}


def _unpack(value: Any, kind: str) -> Any:
    """The number of xarray's spelling as JSON; None when it is not spelled so."""
    try:
        match value:
            case str() if kind == "f":
                return float_to_json(struct.unpack("<d", base64_to_bytes(value))[0])
            case [str(real), str(imag)] if kind == "c":
                return [float_to_json(struct.unpack("<d", base64_to_bytes(part))[0]) for part in (real, imag)]
            case _:
                return None
    except (TypeError, struct.error):
        return None
