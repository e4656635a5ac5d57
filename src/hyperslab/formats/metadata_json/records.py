"""Records as JSON values and back: the metadata of one array in both layouts of collections.

``{"id": …, "primary_attributes": {…}, "custom_attributes": {…}}``: whole numbers and floats are JSON numbers (also
``NaN`` and ``Infinity``), datetimes ISO texts in UTC, complex numbers their Python text, tuples lists, unset custom
values null. The schema says what each text was; inside a tuple a text that spells a complex number is that number, and
datetimes are texts for good.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from hyperslab.errors import SchemaError
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.metadata_json.cells import text_from_json
from hyperslab.model.schemas.arrays import ArraySchema, AttributeValues, Record, check_id, key_of
from hyperslab.model.schemas.attributes import AttributeSchema, type_name, value_to_json, with_complex
from hyperslab.model.schemas.dimensions import get_utc

ID, PRIMARY, CUSTOM = "id", "primary_attributes", "custom_attributes"


def record_to_json(record: Record, *, updated: bool = False) -> dict[str, Any]:
    """Return the JSON values of a record.

    ``updated``: as the peer writes them after an update of custom attributes, whose datetimes then have a space for T.
    """
    return {
        ID: record.id,
        PRIMARY: {name: value_to_json(value) for name, value in record.primary.items()},
        CUSTOM: {name: value_to_json(value, spaced=updated) for name, value in record.custom.items()},
    }


def record_to_bytes(record: Record, *, updated: bool = False) -> bytes:
    """Return the bytes of a record as the peer writes them."""
    return json.dumps(record_to_json(record, updated=updated)).encode("ascii")


def key_to_bytes(schema: ArraySchema, values: Record | AttributeValues) -> bytes:
    """Return canonical JSON of primary values: equal keys, and only those, have equal bytes."""
    key = [value_to_json(value) for value in key_of(schema, values)]
    return json.dumps(key, separators=(",", ":")).encode("ascii")


def record_from_json(schema: ArraySchema, doc: object, problems: Problems) -> Record:
    """Return the record of JSON values; what is wrong is added to ``problems``."""
    if not isinstance(doc, Mapping):
        problems.fatal("record", f"the record is {shorten(doc)}, not an object")
        return Record("", {}, {})
    id = doc.get(ID)
    try:
        check_id(id)
    except SchemaError as error:
        problems.fatal(ID, error.message)
    primary, custom = _part(doc, PRIMARY, problems), _part(doc, CUSTOM, problems)
    key: dict[str, object] = {}
    for known in schema.primary_attributes:
        content = primary.get(known.name)
        if content is None:
            problems.fatal(PRIMARY, f"{PRIMARY}.{known.name} is missing or null")
        key[known.name] = None if content is None else _value(known, content, PRIMARY, problems)
    known_customs = {known.name: known for known in schema.custom_attributes}
    rest: dict[str, object] = {}
    for name, value in custom.items():
        if name in known_customs:
            rest[name] = None if value is None else _value(known_customs[name], value, CUSTOM, problems)
    _warn_of_unknown(primary, key, PRIMARY, problems)
    _warn_of_unknown(custom, known_customs, CUSTOM, problems)
    for name, known in known_customs.items():
        if name not in rest:
            if not known.has_default:
                problems.warn("missing-attribute", f"{CUSTOM}.{name} is missing: taken for null")
            rest[name] = known.unset_value
    return Record(str(id), key, rest)


def _part(doc: Mapping[str, object], name: str, problems: Problems) -> Mapping[str, object]:
    part = doc.get(name)
    if isinstance(part, Mapping):
        return part
    problems.fatal(name, f"{name} is {shorten(part)}, not an object")
    return {}


def _warn_of_unknown(values: Mapping[str, object], known: Mapping[str, object], part: str, problems: Problems) -> None:
    for name in values:
        if name not in known:
            problems.warn("unknown-attribute", f"{part}.{name} is not in the schema: passed over")


def _value(known: AttributeSchema, value: object, part: str, problems: Problems) -> object:
    try:
        return value_from_json(known.dtype, value)
    except (SchemaError, TypeError, ValueError, OverflowError):
        problems.fatal(part, f"{part}.{known.name} is {shorten(value)}, not of the type {type_name(known.dtype)}")
        return None


def value_from_json(kind: type, value: object) -> object:
    """Return one value of an attribute of this type; TypeError, ValueError or OverflowError where it is none."""
    reader = _READERS.get(kind) or _BY_KIND[np.dtype(kind).kind]
    return reader(value)


def _number(value: object) -> int | float | str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError("no number")
    return value


def _int(value: object) -> int:
    content = _number(value)
    number = int(content)
    if isinstance(content, float) and number != content:
        raise ValueError("no whole number")
    return number


def _float(value: object) -> float:
    return float(_number(value))


def _complex(value: object) -> complex:
    return complex(value.strip() if isinstance(value, str) else _number(value))


def _tuple(value: object) -> tuple[object, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError("no list")
    return with_complex(tuple(_tuple(part) if isinstance(part, list | tuple) else part for part in value))


_READERS: dict[type, Callable[[object], object]] = {
    int: _int,
    float: _float,
    complex: _complex,
    str: text_from_json,
    tuple: _tuple,
    datetime: lambda value: get_utc(text_from_json(value)),
}
_BY_KIND = {"i": _int, "u": _int, "f": _float, "c": _complex}
