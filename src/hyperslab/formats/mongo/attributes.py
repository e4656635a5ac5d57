"""Attributes as BSON values, with codes for those whose type BSON does not say. Pure.

Text, truths, whole numbers of 64 bits, floats, bytes, None, lists and mappings of these are stored as they are, dates
as BSON's own. NumPy's scalars and arrays become numbers and lists, and their types stand in ``attr_types`` of the field
``hyperslab`` (the codes are those of ``metadata_json.attributes``).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np

from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.formats.metadata_json import attributes
from hyperslab.formats.mongo.document_limits import check_levels
from hyperslab.model.attrs import Attrs, equal

Codes = Mapping[str, Any]
_REMEDY = "give text, bytes, numbers below 2**63, NumPy scalars and arrays, or lists and mappings of those"


def encode_attrs(attrs: Attrs, raw: Mapping[str, Any], codes: Codes) -> tuple[dict[str, Any], dict[str, Any]]:
    """BSON values and codes. What reads as before keeps the value that is stored (``raw``, ``codes``), whatever its
    BSON type. Unsupported names an attribute that BSON cannot hold."""
    before = decode_attrs(raw, codes)
    values: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for name, value in attrs.items():
        if name in before and equal(before[name], value):
            values[name], code = raw[name], codes.get(name)
        else:
            values[name], code = encode(name, value)
        if code is not None:
            kept[name] = code
    return values, kept


def decode_attrs(raw: Mapping[str, Any], codes: Codes) -> dict[str, Any]:
    """Typed values by name."""
    return {name: decode(value, codes.get(name)) for name, value in raw.items()}


def encode(name: str, value: Any) -> tuple[Any, Any]:
    """One value for BSON, and its code where it needs one. Unsupported names the attribute."""
    if "\0" in name:
        raise Unsupported(f"format mongo holds no attribute {name!r}", remedy="leave NUL out of its name")
    check_levels(f"attribute {name!r}", value)
    if isinstance(value, np.datetime64) and value.dtype == np.dtype("M8[ms]") and (date := _date(value)) is not None:
        return date, None
    if isinstance(value, np.ndarray | np.generic | complex):
        array = np.asarray(value)
        try:
            stored, code = attributes.encode(name, value)
        except HyperslabError as error:
            raise Unsupported(f"format mongo: {error.message}", remedy=_REMEDY) from None
        if array.dtype.kind == "u" and array.dtype.itemsize == 8:
            return _texts(array), code
        return (array.astype("f8").tolist() if array.dtype.kind == "f" else stored), code
    return _plain(name, value), None


def _date(value: np.datetime64) -> datetime | None:
    found = value.item()
    return found if isinstance(found, datetime) else None


def _texts(array: np.ndarray[Any, Any]) -> Any:
    """Whole numbers, those that BSON does not hold as text."""
    return _each(array.tolist())


def _each(numbers: Any) -> Any:
    if isinstance(numbers, list):
        return [_each(number) for number in numbers]
    return numbers if numbers < 1 << 63 else str(numbers)


def _plain(name: str, value: Any) -> Any:
    match value:
        case None | bool() | float() | bytes():
            return value
        case str():
            return str(value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return int(value)
        case bytearray():
            return bytes(value)
        case list() | tuple():
            return [_plain(name, part) for part in value]
        case dict() if all(isinstance(key, str) and "\0" not in key for key in value):
            return {key: _plain(name, part) for key, part in value.items()}
        case np.ndarray() | np.generic():
            return _plain(name, value.tolist())
        case _:
            shown = repr(value) if isinstance(value, int) else f"type {type(value).__name__}"
            raise Unsupported(f"format mongo holds no attribute {name!r} of {shown}", remedy=_REMEDY)


def decode(value: Any, code: Any = None) -> Any:
    """The typed value; what no attribute can be (ids, expressions) as text."""
    if code is not None:
        return attributes.decode(_numbers(value, code), code)
    match value:
        case None | bool() | str() | bytes() | float():
            return value
        case int():
            return int(value)
        case datetime():
            return np.datetime64(value.replace(tzinfo=None), "ms")
        case list():
            return [_decode_inner(part) for part in value]
        case dict():
            return {key: _decode_inner(part) for key, part in value.items()}
        case _:
            return str(value)


def _decode_inner(value: Any) -> Any:
    """Within lists and mappings dates are text, as JSON has them."""
    return value.isoformat() if isinstance(value, datetime) else decode(value)


def _numbers(value: Any, code: Any) -> Any:
    """What is stored in the words of ``metadata_json.attributes``."""
    if isinstance(value, list):
        return [_numbers(part, code) for part in value]
    if isinstance(code, str) and isinstance(value, str) and code.partition("[")[0].endswith("u8") and value.isdigit():
        return int(value)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else value
