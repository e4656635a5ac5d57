"""Conditions of queries as people type them, each value of its attribute's type: ``depth>=2``, ``station=K``."""

from __future__ import annotations

from collections.abc import Iterable

from hyperslab.database.collection import Collection
from hyperslab.errors import Invalid
from hyperslab.formats.conditions import ValueKind, Where, json_value, parse_texts
from hyperslab.model.guessing import meant
from hyperslab.model.schemas import AttributeSchema
from hyperslab.model.schemas.attributes import type_name

_NUMBERS = {int: int, float: float, complex: complex}


def parse_conditions(collection: Collection, texts: Iterable[str]) -> Where:
    """Return what a query asks of attributes, as :func:`.formats.conditions.parse_texts` parses it. Invalid."""
    known = {attribute.name: attribute for attribute in collection.schema.attributes}

    def value_of(name: str, text: str, kind: ValueKind) -> object:
        if name not in known:
            raise Invalid(f"no attribute {name!r}", remedy=meant(name, known))
        return parse_value(known[name], text, as_json=kind == "json")

    return parse_texts(texts, value_of)


def parse_value(attribute: AttributeSchema, text: str, *, as_json: bool = False) -> object:
    """Return the value that a text means for an attribute: a number, a text, a list in JSON. Invalid."""
    try:
        if as_json:
            return json_value(text)
        if text == "null" and attribute.dtype is not str:
            return None
        kind = next((kind for kind in _NUMBERS if issubclass(attribute.dtype, kind)), None)
        if kind is not None:
            return _NUMBERS[kind](text)
        if attribute.dtype is tuple:
            return json_value(text)
        return text if attribute.dtype.__name__ in ("str", "datetime") else attribute.dtype(text)
    except (ValueError, TypeError, RecursionError):
        said = f"{text!r} for the attribute {attribute.name!r}, of type {type_name(attribute.dtype)}"
        raise Invalid(said, remedy="write a value of its type") from None
