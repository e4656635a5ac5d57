"""Conditions of queries as people type them: ``depth>=2``, ``station=K``, each value of its attribute's type."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from hyperslab.database.collection import Collection
from hyperslab.database.conditions import Prefix
from hyperslab.errors import Invalid
from hyperslab.model.guessing import meant
from hyperslab.model.schemas import AttributeSchema
from hyperslab.model.schemas.attributes import type_name

_CONDITION = re.compile(r"(.*?)(:=|>=|<=|\^=|=)(.*)", re.DOTALL)
_AND = re.compile(r"(\sand\s)", re.IGNORECASE)
_SYNTAX = "write ATTR=VALUE, ATTR>=VALUE, ATTR<=VALUE, ATTR^=BEGINNING or ATTR:=JSON"
_NUMBERS = {int: int, float: float, complex: complex}


def is_condition(text: str) -> bool:
    """Return True for what is written as a condition, whatever it names."""
    return _CONDITION.fullmatch(text) is not None


def split_conditions(text: str) -> list[str]:
    """Return the conditions in a text that has ``and`` between them: ``depth>=2 and name^=n1``; none of a blank one.

    An ``and`` before what is no condition belongs to the value, as in ``name=bread and butter``, and so does any within
    the quotes of JSON: ``name:="salt and pepper=2"``.
    """
    first, *rest = _AND.split(text)
    found = [first]
    for separator, part in zip(rest[::2], rest[1::2], strict=True):
        if is_condition(part) and _is_whole(found[-1]):
            found.append(part)
        else:
            found[-1] += separator + part
    return [part.strip() for part in found if part.strip()]


def _is_whole(condition: str) -> bool:
    """Return False for a condition whose JSON goes on behind its end."""
    match = _CONDITION.fullmatch(condition)
    if match is None or match[2] != ":=":
        return True
    try:
        json.loads(match[3])
    except (ValueError, RecursionError):
        return False
    return True


def parse_conditions(collection: Collection, texts: Iterable[str]) -> dict[str, object]:
    """Return what a query asks of attributes; several equalities of one attribute mean any of them, and of other
    conditions each kind stands once. Invalid."""
    known = {attribute.name: attribute for attribute in collection.schema.attributes}
    equal: dict[str, list[object]] = {}
    ranges: dict[str, dict[str, object]] = {}
    prefixes: dict[str, Prefix] = {}
    for text in texts:
        match = _CONDITION.fullmatch(text)
        if match is None or not match[1].strip():
            raise Invalid(f"{text!r} is no condition", remedy=_SYNTAX)
        name, mark, value = match[1].strip(), match[2], match[3]
        if name not in known:
            raise Invalid(f"no attribute {name!r}", remedy=meant(name, known))
        if (mark == "^=" and name in prefixes) or mark in ranges.get(name, {}):
            raise Invalid(f"two conditions {name}{mark}", remedy="give the stricter one alone")
        match mark:
            case "=" | ":=":
                equal.setdefault(name, []).append(_value(known[name], value, as_json=mark == ":="))
            case "^=":
                prefixes[name] = Prefix(value)
            case _:
                ranges.setdefault(name, {})[mark] = _value(known[name], value, as_json=False)
    names = [*equal, *ranges, *prefixes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Invalid(f"conditions of several kinds for {twice!r}", remedy="give equal values, a range, or a beginning")
    single = {name: values[0] if len(values) == 1 else values for name, values in equal.items()}
    between = {name: slice(ends.get(">="), ends.get("<=")) for name, ends in ranges.items()}
    return single | between | prefixes


def parse_equalities(texts: Iterable[str]) -> dict[str, str]:
    """Return the texts of conditions ``NAME=TEXT`` by name, of what has no schema; Invalid for other conditions."""
    found: dict[str, str] = {}
    for text in texts:
        match = _CONDITION.fullmatch(text)
        if match is None or match[2] != "=" or not match[1].strip() or match[1].strip() in found:
            raise Invalid(f"{text!r} chooses no objects", remedy="write NAME=TEXT, each name once, such as name=wind")
        found[match[1].strip()] = match[3]
    return found


def _value(attribute: AttributeSchema, text: str, *, as_json: bool) -> object:
    """Return the value that a text means for an attribute."""
    try:
        if as_json:
            return _from_json(json.loads(text))
        if text == "null" and attribute.dtype is not str:
            return None
        kind = next((kind for kind in _NUMBERS if issubclass(attribute.dtype, kind)), None)
        if kind is not None:
            return _NUMBERS[kind](text)
        if attribute.dtype is tuple:
            return _from_json(json.loads(text))
        return text if attribute.dtype.__name__ in ("str", "datetime") else attribute.dtype(text)
    except (ValueError, TypeError, RecursionError):
        said = f"{text!r} for the attribute {attribute.name!r}, of type {type_name(attribute.dtype)}"
        raise Invalid(said, remedy="write a value of its type") from None


def _from_json(value: object) -> object:
    return tuple(map(_from_json, value)) if isinstance(value, list) else value
