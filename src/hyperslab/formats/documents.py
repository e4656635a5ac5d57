"""JSON documents: read strictly and fast, mended where old writers left damage, and bounded before anything is decoded.

The fast path takes standard JSON (RFC 8259). What it refuses is tried again tolerantly: ``NaN``, ``Infinity`` and
``-Infinity``, numbers such as ``0.`` and ``.5``, a byte order mark, and bytes after the first value. Of a key that
occurs twice the last value counts. Documents are written as standard JSON in UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from hyperslab.errors import FormatError
from hyperslab.formats.faults import flawed


@dataclass(frozen=True, slots=True)
class Limits:
    """What a document may be: its bytes, how many JSON values it holds, how deep they lie in one another."""

    size: int = 64 << 20
    values: int = 10**6
    depth: int = 100


LIMITS = Limits()

_BOM = b"\xef\xbb\xbf"
_TEXT = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_TEXT_BYTES = re.compile(_TEXT.encode(), re.DOTALL)
_NUMBER = re.compile(rf"{_TEXT}|(?<!\d)\d++\.(?!\d)|(?<![\d.])\.\d", re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SQUARE = bytes.maketrans(b"{}", b"[]")
_SPACE = " \t\r\n"
_TEXTS_AT_ONCE = 1 << 16

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_parse_first = json.JSONDecoder().raw_decode


def check_limits(data: bytes, limits: Limits = LIMITS) -> None:
    """Refuse a document that would take much memory or time to decode; counts in the bytes, decodes nothing."""
    if len(data) > limits.size:
        raise flawed("json-size", f"the document has {len(data)} bytes, {limits.size} are allowed")
    if _count(data) <= limits.values and _is_shallow(data, limits.depth):
        return
    bare = _without_texts(data, limits.values)
    if _count(bare) > limits.values:
        raise flawed("json-values", f"the document holds more than {limits.values} values")
    if not _is_shallow(bare, limits.depth):
        raise flawed("json-depth", f"the document is nested deeper than {limits.depth} levels")


def _without_texts(data: bytes, most: int) -> bytearray:
    """What stands outside of texts, up to where it is known to hold more values than that; in little memory."""
    bare, end = bytearray(), 0
    for number, text in enumerate(_TEXT_BYTES.finditer(data), 1):
        bare += data[end : text.start()]
        end = text.end()
        if not number % _TEXTS_AT_ONCE and _count(bare) > most:
            return bare
    return bare + data[end:]


def _count(data: bytes | bytearray) -> int:
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def _is_shallow(data: bytes | bytearray, depth: int) -> bool:
    """Whether closing the innermost brackets ``depth`` times closes all, but for as many that are never closed."""
    brackets = data.translate(_SQUARE, _NO_BRACKETS)
    for _ in range(depth):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    return b"[]" not in brackets and brackets.count(b"[") <= depth


def read_json(data: bytes, limits: Limits = LIMITS) -> Any:
    """The value of a document; what can be mended is mended, else FormatError."""
    check_limits(data, limits)
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return mend_json(data, limits)[0]


def mend_json(data: bytes, limits: Limits = LIMITS) -> tuple[Any, list[str]]:
    """The value of a damaged document, and what was mended; FormatError when nothing can be made of it."""
    check_limits(data, limits)
    mended = []
    if data.startswith(_BOM):
        data = data[len(_BOM) :]
        mended.append("a byte order mark before the document")
    try:
        text = data.decode().lstrip(_SPACE)
        whole = _NUMBER.sub(_whole_number, text)
        value, end = _parse_first(whole)
    except (ValueError, RecursionError) as error:
        raise flawed("json-damaged", f"the document is no JSON: {error}") from None
    if whole != text:
        mended.append("numbers without a digit beside the point")
    if rest := whole[end:].strip(_SPACE):
        mended.append(f"{len(rest)} characters after the document")
    return value, mended


def _whole_number(match: re.Match[str]) -> str:
    text = match.group()
    if text.startswith('"'):
        return text
    return f"0{text}" if text.startswith(".") else f"{text}0"


def write_json(value: Any) -> bytes:
    """The document as indented JSON, text as it is (netcdf-c knows no escapes) but for halves of characters.

    A float that JSON has no number for (NaN, infinities) is a ValueError.
    """
    try:
        encoded = _encode(value)
        if b"null" not in encoded or _decode(encoded) == value:  # numbers that JSON lacks are null by now
            return msgspec.json.format(encoded, indent=2)
    except (UnicodeEncodeError, OverflowError):
        pass
    try:
        return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=True).encode()


def write_again(doc: Mapping[str, Any]) -> bytes:
    """A document that was read as JSON; numbers that JSON lacks as they were written before."""
    try:
        return write_json(doc)
    except ValueError:
        return json.dumps(doc, indent=2).encode()


def read_document(data: bytes, key: str) -> dict[str, Any]:
    """A document that is a JSON object; FormatError names the ``key``."""
    try:
        value = read_json(data)
    except FormatError as error:
        raise error.locate(key=key) from None
    if not isinstance(value, dict):
        raise flawed("json-kind", f"the document is {_kind(value)}, not an object", key=key)
    return value


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
