"""Conditions of queries as people type them: ``depth>=2``, ``station=K``, each value of its attribute's type; ``or``
between two sets of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from hyperslab.database.collection import Collection
from hyperslab.database.conditions import Like, Not, Prefix
from hyperslab.errors import Invalid
from hyperslab.model.guessing import meant
from hyperslab.model.schemas import AttributeSchema
from hyperslab.model.schemas.attributes import type_name

_CONDITION = re.compile(r"(.*?)(:=|!=|~=|>=|<=|\^=|=)(.*)", re.DOTALL)
_WORD = re.compile(r"(\s(?:and|or)\s)", re.IGNORECASE)
OR = "or"
"""Stands between conditions of which those before it, or those behind it, must hold."""
_SYNTAX = "write ATTR=VALUE, ATTR!=VALUE, ATTR>=VALUE, ATTR<=VALUE, ATTR^=BEGINNING, ATTR~=PATTERN or ATTR:=JSON"
_NUMBERS = {int: int, float: float, complex: complex}


def is_condition(text: str) -> bool:
    """Return True for what is written as a condition, whatever it names."""
    return _CONDITION.fullmatch(text) is not None


def split_conditions(text: str) -> list[str]:
    """Return the conditions in a text that has ``and`` or ``or`` between them: ``depth>=2 and name^=n1 or depth=0``,
    with :data:`OR` in place of each ``or``; none of a blank one.

    Such a word before what is no condition belongs to the value, as in ``name=bread and butter``, and so does any
    within the quotes of JSON: ``name:="salt and pepper=2"``.
    """
    first, *rest = _WORD.split(text)
    found = [first]
    for separator, part in zip(rest[::2], rest[1::2], strict=True):
        if is_condition(part) and _is_whole(found[-1]):
            found += [OR, part] if separator.strip().lower() == OR else [part]
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


def parse_conditions(collection: Collection, texts: Iterable[str]) -> dict[str, object] | list[dict[str, object]]:
    """Return what a query asks of attributes: a mapping, or several where :data:`OR` stands between the texts.

    Several equalities of one attribute mean any of them, several ``!=`` none of them; of other conditions each kind
    stands once. Invalid.
    """
    sets: list[list[str]] = [[]]
    for text in texts:
        if text.strip().lower() == OR:
            sets.append([])
        else:
            sets[-1].append(text)
    if len(sets) > 1 and not all(sets):
        raise Invalid(f"{OR!r} without conditions on both sides", remedy="write CONDITION or CONDITION")
    found = [_parse_set(collection, some) for some in sets]
    return found[0] if len(found) == 1 else found


def _parse_set(collection: Collection, texts: Iterable[str]) -> dict[str, object]:
    """Return the conditions that must all hold, by name of attribute."""
    known = {attribute.name: attribute for attribute in collection.schema.attributes}
    lists: dict[str, dict[str, list[object]]] = {"=": {}, "!=": {}}
    ranges: dict[str, dict[str, object]] = {}
    texts_by_mark: dict[str, dict[str, object]] = {"^=": {}, "~=": {}}
    for text in texts:
        match = _CONDITION.fullmatch(text)
        if match is None or not match[1].strip():
            raise Invalid(f"{text!r} is no condition", remedy=_SYNTAX)
        name, mark, value = match[1].strip(), match[2], match[3]
        if name not in known:
            raise Invalid(f"no attribute {name!r}", remedy=meant(name, known))
        if name in texts_by_mark.get(mark, {}) or mark in ranges.get(name, {}):
            raise Invalid(f"two conditions {name}{mark}", remedy="give the stricter one alone")
        match mark:
            case "=" | ":=" | "!=":
                values = lists["!=" if mark == "!=" else "="].setdefault(name, [])
                values.append(parse_value(known[name], value, as_json=mark == ":="))
            case "^=" | "~=":
                texts_by_mark[mark][name] = Prefix(value) if mark == "^=" else Like(value)
            case _:
                ranges.setdefault(name, {})[mark] = parse_value(known[name], value)
    single = {
        mark: {name: values[0] if len(values) == 1 else values for name, values in some.items()}
        for mark, some in lists.items()
    }
    unequal: dict[str, object] = {name: Not(value) for name, value in single["!="].items()}
    between: dict[str, object] = {name: slice(ends.get(">="), ends.get("<=")) for name, ends in ranges.items()}
    parts: tuple[dict[str, object], ...] = (single["="], unequal, between, *texts_by_mark.values())
    names = [name for part in parts for name in part]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        remedy = "give equal values, unequal ones, a range, a beginning, or a pattern"
        raise Invalid(f"conditions of several kinds for {twice!r}", remedy=remedy)
    return {name: value for part in parts for name, value in part.items()}


def parse_equalities(texts: Iterable[str]) -> dict[str, str]:
    """Return the texts of conditions ``NAME=TEXT`` by name, of what has no schema; Invalid for other conditions."""
    found: dict[str, str] = {}
    for text in texts:
        match = _CONDITION.fullmatch(text)
        if match is None or match[2] != "=" or not match[1].strip() or match[1].strip() in found:
            raise Invalid(f"{text!r} chooses no objects", remedy="write NAME=TEXT, each name once, such as name=wind")
        found[match[1].strip()] = match[3]
    return found


def parse_value(attribute: AttributeSchema, text: str, *, as_json: bool = False) -> object:
    """Return the value that a text means for an attribute: a number, a text, a list in JSON. Invalid."""
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
