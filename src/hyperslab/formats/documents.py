"""JSON documents: read strictly and fast, mended where old writers left damage, and bounded before anything is decoded.

The fast path takes standard JSON (RFC 8259). What it refuses is tried again tolerantly: ``NaN``, ``Infinity`` and
``-Infinity``, numbers such as ``0.`` and ``.5``, a byte order mark, and bytes after the first value. Of a key that
occurs twice the last value counts. Documents are written as standard JSON in UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import msgspec
import numpy as np

from hyperslab.errors import FormatError
from hyperslab.formats.format_errors import document_error

JsonObject = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""A JSON object as it is read, and one that is only looked at: a document, or a part of one."""


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """The largest documents that are read: bytes, number of JSON values, depth of nesting.

    ``consolidated`` and ``objects``: bytes and number of objects of consolidated metadata, each of which is decoded
    by itself.
    """

    size: int = 64 << 20
    values: int = 10**6
    depth: int = 100
    consolidated: int = 512 << 20
    objects: int = 1 << 21


LIMITS = DocumentLimits()


class _Entries(msgspec.Struct):
    """Consolidated metadata: other documents by key."""

    metadata: msgspec.Raw


class _Inline(msgspec.Struct):
    consolidated_metadata: _Entries


class _Object(msgspec.Struct):
    """Any JSON object; its values are skipped, and not built."""


_HOLDERS: dict[str, msgspec.json.Decoder[object]] = {
    "zarr.json": msgspec.json.Decoder(_Inline),
    ".zmetadata": msgspec.json.Decoder(_Entries),
}
"""Decoders that find consolidated metadata, by the name of the document; all else is skipped, and not built."""

INLINE = "consolidated_metadata"
"""The key that consolidated metadata stands under in the document of a group."""
_KINDS = {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
_BOM = b"\xef\xbb\xbf"
# A JSON text, also one that is not closed. Possessive (``*+``): a damaged document is refused in linear time.
_TEXT = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_TEXT_BYTES = re.compile(_TEXT.encode(), re.DOTALL)
_NUMBER = re.compile(rf"{_TEXT}|(?<!\d)\d++\.(?!\d)|(?<![\d.])\.\d", re.DOTALL)
# For the depth of nesting: all but brackets is deleted, and braces become square brackets.
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SQUARE = bytes.maketrans(b"{}", b"[]")
_SPACE = " \t\r\n"
_TEXTS_AT_ONCE = 1 << 16  # texts after which the count of values is looked at again

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_split_objects = msgspec.json.Decoder(dict[str, _Object]).decode  # which ends at the first that is none
_parse_first = json.JSONDecoder().raw_decode


def check_limits(data: bytes, limits: DocumentLimits = LIMITS) -> None:
    """Refuse a document that would take much memory or time to decode; counts in the bytes, decodes nothing."""
    if len(data) > limits.size:
        raise document_error("json-size", f"the document has {len(data)} bytes, {limits.size} are allowed")
    if _count(data) <= limits.values and _is_shallow(data, limits.depth):
        return
    bare = _without_texts(data, limits.values)
    if _count(bare) > limits.values:
        raise document_error("json-values", f"the document holds more than {limits.values} values")
    if not _is_shallow(bare, limits.depth):
        raise document_error("json-depth", f"the document is nested deeper than {limits.depth} levels")


def _without_texts(data: bytes, most: int) -> bytearray:
    """Return what stands outside of texts, up to where it is known to hold more values than that; in little memory."""
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
    """Return True if closing the innermost brackets ``depth`` times closes all, but for as many that are never
    closed.
    """
    brackets = data.translate(_SQUARE, _NO_BRACKETS)
    for _ in range(depth):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    return b"[]" not in brackets and brackets.count(b"[") <= depth


def read_json(data: bytes) -> Any:
    """Return the value of a document; what can be mended is mended, else FormatError."""
    # most documents have so few bytes and brackets that they cannot hold too much
    if len(data) >= min(LIMITS.values, LIMITS.size) or data.count(b"[") + data.count(b"{") > LIMITS.depth:
        check_limits(data)
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return mend_json(data)[0]


def mend_json(data: bytes) -> tuple[Any, list[str]]:
    """Return the value of a damaged document, and what was mended; FormatError when nothing can be made of it."""
    check_limits(data)
    mended = []
    if data.startswith(_BOM):
        data = data[len(_BOM) :]
        mended.append("a byte order mark before the document")
    try:
        text = data.decode().lstrip(_SPACE)
        whole = _NUMBER.sub(_whole_number, text)
        value, end = _parse_first(whole)
    except (ValueError, RecursionError) as error:
        remedy = "put the document back from a copy, unless hyperslab repair shows how it is mended"
        raise document_error("json-damaged", f"the document is no JSON: {error}", remedy=remedy) from None
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


def write_json(value: object) -> bytes:
    """Return the document as indented JSON, text as it is (netcdf-c knows no escapes) but for halves of characters.

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


def write_again(doc: Mapping[str, object]) -> bytes:
    """Return a document that was read as JSON; numbers that JSON lacks as they were written before."""
    try:
        return write_json(doc)
    except ValueError:
        return json.dumps(doc, indent=2).encode()


class LargeConsolidated:
    """The documents by key in consolidated metadata that holds more than is read at once: each is decoded when it is
    read."""

    def __init__(self, entries: Mapping[str, msgspec.Raw]) -> None:
        self._entries = entries

    def keys(self) -> Iterable[str]:
        """Return the keys, in their order."""
        return self._entries.keys()

    def read(self, key: str) -> dict[str, Any]:
        """Return the document; FormatError names the key."""
        return read_document(bytes(self._entries[key]), key)


def read_document(data: bytes, key: str) -> dict[str, Any]:
    """Return a document that is a JSON object; FormatError names the ``key``.

    Consolidated metadata that hold too many values for one document become a :class:`LargeConsolidated`.
    """
    holder = _HOLDERS.get(key.rpartition("/")[2])
    much = holder is not None and len(data) > LIMITS.values and _holds_much(data)
    try:
        value = _with_large_consolidated(holder, data) if holder is not None and much else read_json(data)
    except FormatError as error:
        raise error.locate(key=key) from None
    if not isinstance(value, dict):
        kind = _KINDS.get(type(value), "a number")
        raise document_error("json-kind", f"the document is {kind}, not an object", key=key)
    return value


def large_consolidated(doc: Mapping[str, object]) -> LargeConsolidated | None:
    """Return the consolidated metadata in a document, where it holds more than is read at once."""
    inline = doc.get(INLINE)
    found = (inline if isinstance(inline, dict) else doc).get("metadata")
    return found if isinstance(found, LargeConsolidated) else None


def _holds_much(data: bytes) -> bool:
    if len(data) > LIMITS.size:
        return True
    if len(data) <= LIMITS.values or _count(data) <= LIMITS.values:
        return False
    return _count(_without_texts(data, LIMITS.values)) > LIMITS.values


def _with_large_consolidated(holder: msgspec.json.Decoder[Any], data: bytes) -> Any:
    """Return the document with its consolidated metadata split, and not decoded: that takes little memory beside its
    own."""
    if len(data) > LIMITS.consolidated:
        remedy = "open a node below by its own place (its URL with /name), or remove the consolidated metadata"
        message = f"the document has {len(data)} bytes, {LIMITS.consolidated} are allowed for consolidated metadata"
        raise document_error("json-size", message, remedy=remedy)
    try:
        found = holder.decode(data)
        entries = (found.consolidated_metadata if isinstance(found, _Inline) else found).metadata
        start = _address(entries) - _address(data)
        stop = start + memoryview(entries).nbytes
        if data.count(b"{", start, stop) > LIMITS.objects:  # so many that even their keys take much
            raise document_error("json-values", f"the consolidated metadata holds more than {LIMITS.objects} objects")
        _split_objects(entries)
        consolidated = LargeConsolidated(_split(entries))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return read_json(data)
    doc = read_json(b"%b{}%b" % (data[:start], data[stop:]))
    (doc["consolidated_metadata"] if isinstance(found, _Inline) else doc)["metadata"] = consolidated
    return doc


def object_or_empty(value: object) -> JsonObject:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a JSON list; any other value as a list of itself."""
    return value if isinstance(value, list) else [value]


def list_or_empty(value: object) -> list[Any]:
    """Return a JSON list; an empty one for any other value."""
    return value if isinstance(value, list) else []


def text_or_none(value: object) -> str | None:
    """Return a JSON text; None for any other value."""
    return value if isinstance(value, str) else None


def is_text_list(value: object) -> TypeGuard[list[str]]:
    """Return True for a JSON list that holds texts alone."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _address(data: Any) -> int:
    """Return where in memory the bytes stand: what msgspec splits off is a view of the whole."""
    return int(np.frombuffer(data, np.uint8).ctypes.data)
