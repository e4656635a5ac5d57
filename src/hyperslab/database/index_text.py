"""A stored index: bytes that are made and taken, checked, and passed over for any doubt.

A line of magic and the BLAKE2b of the rest, then compressed JSON: the attributes of the schema, by part its mark and
those of its documents, by id the values of a row. Nobody trusts it: what it says of a part holds while the mark of that
part is the present one, and what a query finds by it is read again.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from hyperslab.database.table import Row
from hyperslab.formats.metadata_json.records import value_from_json, value_to_json
from hyperslab.model.schemas import AttributeSchema

_MAGIC = b"hyperslab index 1 "
_LARGEST = 1 << 29
"""Bytes of JSON: of some two million arrays."""
UNSURE = 0
"""The mark of a part that is to be looked at again, whatever its present one is."""


@dataclass(slots=True)
class ListedPart:
    """The documents that are listed together: a mark that changes when one of them does, and those of all by id."""

    stamp: int
    marks: dict[str, int]


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """What an index knows."""

    parts: dict[str, ListedPart]
    rows: dict[str, Row]


def render(stored: StoredIndex, attributes: Sequence[AttributeSchema]) -> bytes:
    """An index as bytes; of parts in which an array is not committed, or damaged, only what is sure."""
    parts: dict[str, tuple[int, dict[str, int]]] = {}
    for name, part in stored.parts.items():
        known = {id: mark for id, mark in part.marks.items() if id in stored.rows}
        parts[name] = (part.stamp if len(known) == len(part.marks) else UNSURE, known)
    rows = {id: [value_to_json(value) for value in stored.rows[id][1:]] for _, marks in parts.values() for id in marks}
    said = {"attributes": _described(attributes), "parts": parts, "rows": rows}
    body = zlib.compress(json.dumps(said, separators=(",", ":")).encode(), 1)
    return _MAGIC + blake2b(body, digest_size=16).hexdigest().encode() + b"\n" + body


def parse(data: bytes, attributes: Sequence[AttributeSchema]) -> StoredIndex | None:
    """The index; None where it is damaged, of another schema or too large."""
    head, _, body = data.partition(b"\n")
    if head != _MAGIC + blake2b(body, digest_size=16).hexdigest().encode():
        return None
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(body, _LARGEST)
        return _stored(json.loads(text), attributes) if reader.eof else None
    except (zlib.error, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return None


def _stored(said: Any, attributes: Sequence[AttributeSchema]) -> StoredIndex | None:
    if not isinstance(said, dict) or said["attributes"] != _described(attributes):
        return None
    parts = {name: ListedPart(_whole(stamp), _marks(marks)) for name, (stamp, marks) in said["parts"].items()}
    rows = {id: (id, *_values(values, attributes)) for id, values in said["rows"].items()}
    listed = {id for part in parts.values() for id in part.marks}
    return StoredIndex(parts, rows) if rows.keys() == listed else None


def _whole(said: Any) -> int:
    if type(said) is not int:
        raise TypeError("no whole number")
    return said


def _marks(said: Mapping[str, Any]) -> dict[str, int]:
    return {id: _whole(mark) for id, mark in said.items()}


def _values(said: Sequence[Any], attributes: Sequence[AttributeSchema]) -> list[Any]:
    pairs = zip(attributes, said, strict=True)
    return [None if value is None else value_from_json(known.dtype, value) for known, value in pairs]


def _described(attributes: Sequence[AttributeSchema]) -> list[dict[str, Any]]:
    return [attribute.as_dict for attribute in attributes]
