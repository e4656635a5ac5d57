"""Attributes as plain JSON, with codes for the values whose type JSON does not say.

The code of an attribute is a NumPy type for a scalar (``"<f4"``), the same with ``[]`` for a 1-D array and with a shape
for others (``"<f4[2,3]"``); ``"string"`` for ``np.str_`` and for text arrays (``"string[]"``), ``"bytes"`` (base64),
``"float"`` for a NaN or an infinity, a list of JSON pointers to those inside a list or an object, ``{"fields": […],
"array": "[2]"}`` for structures and ``{"type": description, "array": "[]"}`` for values of a user type. A value that no
longer fits its code, since someone edited it, is served as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.metadata_json.cells import (
    SPECIAL,
    base64_to_bytes,
    bytes_to_base64,
    cell_from_json,
    cell_to_json,
    float_from_json,
    int_from_json,
    text_from_json,
)
from hyperslab.formats.metadata_json.dtypes import describe_type, dtype_from_json, dtype_to_json, read_type
from hyperslab.model.attrs import Attrs, untagged
from hyperslab.model.cells import Values, float_to_json
from hyperslab.model.dtypes import Compound, Enum, Extension, Opaque, VlenArray, VlenBytes, numpy_dtype, tag_of, tagged

Code = Any
_SHAPE = re.compile(r"(.*)\[(\d*(?:,\d+)*)\]")
# The cells of one attribute take at most this and 16 bytes per character of their JSON: a type of huge cells beside
# short texts must not take the memory of the machine.
_ALLOWANCE = 16 << 20


def encode_attrs(
    attrs: Attrs, spelled: Mapping[str, tuple[object, Code | None]] | None = None
) -> tuple[dict[str, Any], dict[str, Code]]:
    """Return the JSON values by name, and the codes of those that need one; Invalid or Unsupported names the attribute.

    ``spelled`` holds values that the format has encoded in a way of its own.
    """
    values: dict[str, Any] = {}
    codes: dict[str, Code] = {}
    for name, value in attrs.items():
        values[name], code = spelled[name] if spelled and name in spelled else encode_attribute(name, value)
        if code is not None:
            codes[name] = code
    return values, codes


def decode_attrs(values: Mapping[str, object], codes: Mapping[str, Code]) -> dict[str, Any]:
    """Return the typed values."""
    return {name: decode_attribute(value, codes[name]) if name in codes else value for name, value in values.items()}


def encode_attribute(name: str, value: object) -> tuple[Any, Code | None]:
    """Return one value as JSON, and its code; None when JSON says it all."""
    if isinstance(value, np.ndarray | np.generic) and (kind := tag_of(value.dtype)) is not None:
        return _encode_user(name, np.asarray(value), kind)
    match value:
        case np.ndarray() if value.ndim:
            return _encode_array(name, value)
        case np.ndarray():
            return encode_attribute(name, value[()])
        case np.str_():
            return str(value), "string"
        case np.bytes_() if not value:  # its own dtype is S0, which JSON has no name for
            return "", "|S1"
        case np.generic():
            code = _code(name, value.dtype)
            return cell_to_json(value), code
        case bytes() | bytearray():
            return bytes_to_base64(bytes(value)), "bytes"
        case complex():
            return encode_attribute(name, np.complex128(value))
        case float() if value != value or value in (np.inf, -np.inf):
            return float_to_json(value), "float"
        case list() | tuple() | dict():
            places: list[str] = []
            return _plain(name, value, "", places), places or None
        case _:
            return _plain(name, value, "", []), None


def _encode_user(name: str, value: Values, kind: Extension) -> tuple[Any, Code]:
    """Return the cells of a user type, and its description."""
    code: dict[str, Any] = {"type": describe_type(kind)}
    rows: list[Any]
    match kind:
        case VlenBytes():
            rows = [bytes_to_base64(cell) for cell in value.reshape(-1)]
        case VlenArray(base=base):
            rows = [[cell_to_json(item) for item in np.asarray(cell, base)] for cell in value.reshape(-1)]
        case _:
            plain = np.asarray(untagged(value))
            return (
                (_encode_array(name, plain)[0], code | {"array": "[]"})
                if plain.ndim
                else (cell_to_json(plain[()]), code)
            )
    return (rows, code | {"array": "[]"}) if value.ndim else (rows[0], code)


def _code(name: str, dtype: np.dtype[np.generic], suffix: str = "") -> Code:
    if dtype.kind == "T":
        return f"string{suffix}"
    try:
        code = dtype_to_json(dtype.newbyteorder("<"))
    except TypeError:
        raise Unsupported(f"attribute {name!r} has cells of type {dtype}, which no attribute can hold") from None
    if isinstance(code, str):
        return f"{code}{suffix}"
    return {"fields": code, "array": suffix} if suffix else {"fields": code}


def _encode_array(name: str, array: Values) -> tuple[Any, Code]:
    suffix = "[]" if array.ndim == 1 else f"[{','.join(map(str, array.shape))}]"
    if array.dtype == object:
        if not all(isinstance(cell, str) for cell in array.flat):
            raise Unsupported(f"attribute {name!r} is an array of objects", remedy="give an array of numbers or text")
        return _nested([str(cell) for cell in array.flat], array.shape), f"string{suffix}"
    code = _code(name, array.dtype, suffix)
    if array.dtype.kind == "T":
        return _nested([str(cell) for cell in array.flat], array.shape), code
    return _nested([cell_to_json(cell) for cell in array.ravel()], array.shape), code


def _nested(cells: list[Any], shape: tuple[int, ...]) -> list[Any]:
    if len(shape) == 1:
        return cells
    step = prod(shape[1:])
    return [_nested(cells[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def _plain(name: str, value: object, pointer: str, places: list[str]) -> Any:
    """Return the value as JSON; ``places`` takes the pointers (RFC 6901) to strings that stand for floats."""
    match value:
        case None | bool() | int() | np.bool_():
            return bool(value) if isinstance(value, np.bool_) else value
        case np.str_():
            return str(value)
        case str():
            return value
        case np.ndarray() | np.generic():
            return _plain(name, value.tolist(), pointer, places)
        case float():
            number = float_to_json(value)
            if isinstance(number, str):
                places.append(pointer)
            return number
        case list() | tuple():
            return [_plain(name, part, f"{pointer}/{i}", places) for i, part in enumerate(value)]
        case dict() if all(isinstance(key, str) for key in value):
            steps = {key: key.replace("~", "~0").replace("/", "~1") for key in value}
            return {key: _plain(name, value[key], f"{pointer}/{step}", places) for key, step in steps.items()}
        case _:
            raise Invalid(
                f"attribute {name!r} holds a value of type {type(value).__name__}",
                remedy="give text, bytes, numbers, NumPy scalars and arrays, or lists and mappings of those",
            )


def decode_attribute(value: object, code: Code) -> Any:
    """Return the typed value, or ``value`` itself when it does not fit its code."""
    try:
        return _decode(value, code)
    except (TypeError, ValueError, OverflowError, KeyError, IndexError):
        return value


def _decode(value: object, code: Code) -> Any:
    match code:
        case "string":
            return np.str_(text_from_json(value))
        case "bytes":
            return base64_to_bytes(value)
        case "float":
            return float_from_json(value)
        case "int":
            return int_from_json(value)
        case str():
            shaped = _SHAPE.fullmatch(code)
            if shaped is None:
                return cell_from_json(value, dtype_from_json(code))
            return _decode_array(value, shaped[1], shaped[2])
        case dict():
            return _decode_structure(value, code)
        case list():
            return _with_floats(value, code)
        case _:
            return value


def _decode_structure(value: object, code: Mapping[str, object]) -> Any:
    match code:
        case {"type": description}:
            return _decode_user(value, read_type(description), several="array" in code)
        case {"fields": fields, "array": str() as suffix}:
            shaped = _SHAPE.fullmatch(suffix)
            return _decode_array(value, fields, shaped[2]) if shaped else value
        case {"fields": list() as fields}:
            return cell_from_json(value, dtype_from_json(fields))
        case _:
            return value


def _decode_user(value: object, kind: Extension | None, *, several: bool) -> Any:
    """Return one cell of a user type, or several; TypeError where they are none."""
    match kind:
        case VlenArray() | VlenBytes():
            rows = value if several else [value]
            if not isinstance(rows, list):
                raise TypeError("no list")
            found = np.empty(len(rows), tagged(numpy_dtype(kind), kind))
            for place, row in enumerate(rows):
                match kind:
                    case VlenBytes():
                        found[place] = base64_to_bytes(row)
                    case VlenArray(base=base):
                        found[place] = _decode_array(row, dtype_to_json(base), "")
            return found if several else found.reshape(())
        case Enum() | Opaque() | Compound():
            base = numpy_dtype(kind)
            name = dtype_to_json(base)
            plain = (
                _decode_array(value, name, "") if several else np.asarray(cell_from_json(value, dtype_from_json(name)))
            )
            cells = plain.astype(base).view(tagged(base, kind))
            return cells[()] if isinstance(kind, Compound) else cells
    raise TypeError("no user type")


def _decode_array(value: object, name: Any, lengths: str) -> Any:
    if not isinstance(value, list):
        raise TypeError("no list")
    shape = tuple(map(int, lengths.split(","))) if lengths else (len(value),)
    cells = value
    for _ in shape[1:]:
        cells = [cell for row in cells for cell in row]
    if len(cells) != prod(shape):
        raise TypeError(f"{len(cells)} cells for shape {shape}")
    if name == "string":
        return np.array([text_from_json(cell) for cell in cells], np.dtypes.StringDType()).reshape(shape)
    dtype = dtype_from_json(name)
    if len(cells) * dtype.itemsize > _ALLOWANCE + 16 * sum(len(cell) for cell in cells if isinstance(cell, str)):
        raise TypeError("a type much wider than its values")
    array = np.empty(len(cells), dtype.newbyteorder("="))
    for place, cell in enumerate(cells):
        array[place] = cell_from_json(cell, dtype)
    return array.reshape(shape)


def _with_floats(value: object, pointers: list[object]) -> Any:
    """Return the value with floats in place of the strings at these JSON pointers."""
    for pointer in map(text_from_json, pointers):
        value = _put_float(value, [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]])
    return value


def _put_float(value: Any, steps: list[str]) -> Any:
    if not steps:
        return SPECIAL[value]
    key: Any = int(steps[0]) if isinstance(value, list) else steps[0]
    copy = value.copy()
    copy[key] = _put_float(value[key], steps[1:])
    return copy
