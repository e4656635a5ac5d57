"""Records: what one array has besides its cells; the rules for their values, ids and names."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isnan
from typing import Any

from hyperslab.errors import SchemaError
from hyperslab.model.guessing import meant
from hyperslab.model.schemas.arrays import ArraySchema
from hyperslab.model.schemas.attributes import AttributeSchema, checked_value, with_complex
from hyperslab.model.schemas.times import check_span, iso

is_id = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII).fullmatch
"""A match when a text is an id: a UUID of any version, in either case of letters. It is one segment of a key."""
_LONGEST_COMPONENT = 255
_LONGEST_NAME = 250
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """An array's id and the values of its attributes, plain Python values of the schema's types.

    ``primary`` is in the schema's order; datetimes are aware and in UTC; a custom value that is unset is None.
    """

    id: str
    primary: Values = field(hash=False)
    custom: Values = field(hash=False)

    @property
    def values(self) -> dict[str, Any]:
        """All attributes."""
        return {**self.primary, **self.custom}


def new_id() -> str:
    """A random id."""
    return str(uuid.uuid4())


def check_id(id: Any) -> str:
    """An id as it stands: a UUID of 36 characters, of any version and in either case of letters; SchemaError."""
    if not isinstance(id, str) or not is_id(id):
        raise SchemaError(f"{id!r} is no id", remedy="an id is a UUID of 36 characters in five groups")
    return str(id)


def check_new(
    schema: ArraySchema, primary: Values | None, custom: Values | None, *, strict: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a new array, complete and in the schema's order; SchemaError names the attribute.

    Every primary value is needed. Custom ones are None unless given, but for datetimes, which are needed when
    ``strict``, and for those that a time axis starts at.
    """
    primary, custom = _mapping(primary, "primary"), _mapping(custom, "custom")
    both = [name for name in primary if name in custom]
    if both:
        raise SchemaError(f"{_names(both)} given as primary and as custom", remedy="give each attribute once")
    _check_known(schema.primary_attributes, primary, "primary")
    _check_known(schema.custom_attributes, custom, "custom")
    missing = [known.name for known in schema.primary_attributes if primary.get(known.name) is None]
    if missing:
        raise SchemaError(f"no value of the primary {_names(missing)}", remedy="give every primary attribute")
    key = {known.name: checked_value(known, primary[known.name]) for known in schema.primary_attributes}
    rest = {known.name: _custom(schema, known, custom.get(known.name), strict) for known in schema.custom_attributes}
    _check_times(schema, {**key, **rest})
    return key, rest


def changed(schema: ArraySchema, record: Record, update: Values, *, strict: bool = True) -> Record:
    """The record with other custom values, those first; SchemaError when nothing or something else is asked for."""
    update = _mapping(update, "custom")
    if not update:
        raise SchemaError("no attribute to update", remedy="give at least one custom attribute")
    primary = [name for name in update if name in record.primary]
    if primary:
        raise SchemaError(f"the primary {_names(primary)} never changes", remedy="create another array instead")
    customs = {known.name: known for known in schema.custom_attributes}
    _check_known(schema.custom_attributes, update, "custom")
    values = {name: _custom(schema, customs[name], value, strict) for name, value in update.items()}
    made = values | {name: value for name, value in record.custom.items() if name not in values}
    _check_times(schema, {**record.primary, **made})
    return Record(record.id, record.primary, made)


def check_key(schema: ArraySchema, values: Values) -> dict[str, Any]:
    """Return values of attributes to look arrays up by, primary or custom, in the types of the schema; SchemaError."""
    values = _mapping(values, "searched")
    _check_known(schema.attributes, values, "searched")
    return {known.name: check_sought(known, values[known.name]) for known in schema.attributes if known.name in values}


def check_sought(attribute: AttributeSchema, value: Any) -> Any:
    """Return one value to look arrays up by; a complex number inside a tuple may be given as text."""
    if attribute.dtype is tuple and isinstance(value, tuple):
        value = with_complex(value)
    return checked_value(attribute, value)


def key_of(schema: ArraySchema, values: Record | Values) -> tuple[Any, ...]:
    """The primary values in the schema's order, alike for a record just made and the same one read back."""
    primary = values.primary if isinstance(values, Record) else values
    return tuple(settled(primary[known.name]) for known in schema.primary_attributes)


def settled(value: Any) -> Any:
    """A value as it compares: inside tuples complex numbers and datetimes are text, as they are stored; no -0.0."""
    if isinstance(value, tuple):
        return tuple(_settled_member(part) for part in value)
    if isinstance(value, float):
        return NAN if isnan(value) else value + 0.0
    return value + 0j if isinstance(value, complex) else value


NAN = float("nan")


def _settled_member(value: Any) -> Any:
    if isinstance(value, complex):
        return str(value)
    return iso(value) if isinstance(value, datetime) else settled(value)


def check_component(text: str) -> str:
    """The text of a primary value as a component of a path; SchemaError for one that would lead elsewhere."""
    bad = text in ("", ".", "..") or "/" in text or "\0" in text
    if bad or _length(text) > _LONGEST_COMPONENT:
        raise SchemaError(
            f"{_brief(text)} cannot be a folder of a key",
            remedy="a primary value is not empty, '.' or '..', has no slash or NUL and at most 255 bytes",
        )
    return text


def check_name(name: Any) -> str:
    """The name of a collection; SchemaError for one that is blank, too long or would lead elsewhere."""
    if not isinstance(name, str) or not name.strip():
        raise SchemaError(f"{name!r} is no name of a collection", remedy="give text that is not blank")
    bad = name in (".", "..") or any(part in name for part in "/\\\0") or name.endswith(".lock")
    if bad or _length(name) > _LONGEST_NAME:
        raise SchemaError(
            f"{_brief(name)} is no name of a collection",
            remedy="a name is not '.' or '..', has no slash, backslash or NUL, does not end in .lock "
            f"and has at most {_LONGEST_NAME} bytes",
        )
    return str(name)


def _length(text: str) -> int:
    """Bytes of a text; more than any limit for one that UTF-8 cannot hold."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 2**16


def _brief(text: str) -> str:
    return repr(text) if len(text) <= 60 else f"{text[:57]!r}..."


def _mapping(values: Any, what: str) -> dict[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise SchemaError(f"{what} attributes are {values!r}", remedy="give a mapping of names to values")
    return dict(values)


def _check_known(attributes: tuple[AttributeSchema, ...], values: Values, what: str) -> None:
    names = [known.name for known in attributes]
    for name in values:
        if name not in names:
            raise SchemaError(f"no attribute {name!r} among the {what} ones", remedy=meant(str(name), names))


def _custom(schema: ArraySchema, attribute: AttributeSchema, value: Any, strict: bool) -> Any:
    if value is not None:
        return checked_value(attribute, value)
    if attribute.name in schema.start_attributes or (strict and attribute.dtype is datetime):
        raise SchemaError(f"no value of the datetime attribute {attribute.name!r}", remedy="give a datetime")
    return None


def _check_times(schema: ArraySchema, values: Values) -> None:
    for dimension in schema.time_dimensions:
        if dimension.attribute is not None and (start := dimension.start_of(values)) is not None:
            check_span(dimension.name, start, dimension.step, dimension.size)


def _names(names: list[str]) -> str:
    return f"attribute{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
