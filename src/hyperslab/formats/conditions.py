"""Conditions upon attributes, of arrays of a collection and of objects in MongoDB alike: in Python, and as people type
them on a command line, in a URL and in the explorer.

``station=KEF``, ``level>=2``: each condition is a name, an operator and a value, which may stand in quotes; ``or``
stands between two sets of them. What a text means is said by whoever knows the attribute's type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from hyperslab.errors import Invalid, SchemaError


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a text: ``collection.query(station=Prefix("A"))``."""

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise SchemaError(f"a prefix of {self.text!r}", remedy="give text")


@dataclass(frozen=True, slots=True)
class Like:
    """Text that matches a pattern: ``collection.query(station=Like("K?F*"))``. ``*`` stands for any characters, ``?``
    for one, ``[a-c]`` for one of these, ``[!a-c]`` for one that is none of them; case matters."""

    pattern: str

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise SchemaError(f"a pattern {self.pattern!r}", remedy="give text")

    @property
    def begin(self) -> str:
        """The text that whatever matches begins with."""
        start = re.match(r"[^*?\[]*", self.pattern)
        return "" if start is None else start[0]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition, of unset values too: ``collection.query(station=Not("KEF"), level=Not(None))``."""

    wanted: Any


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Any of several values, each of which may be a list, as those of objects in MongoDB may: ``find({"levels":
    AnyOf(([1, 2], [1, 3]))})``. A set is the same of values that a set can have."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))


Where = Mapping[str, Any] | list[dict[str, Any]]
"""Conditions by name of attribute; several such mappings, of which one must hold."""

# -- conditions as text -----------------------------------------------------------------------------------------------


_CONDITION = re.compile(r"(.*?)(:=|!=|~=|>=|<=|\^=|=)(.*)", re.DOTALL)
_WORD = re.compile(r"(\s(?:and|or)\s)", re.IGNORECASE)
# A value in quotes: any other text keeps its quotes, such as 't Hooft.
_QUOTED = re.compile(r"""=("[^"]*"|'[^']*')(?=\s|$)""")
_OTHER_SYNTAX = re.compile(r"(not|and|or)[\s(]|(\()", re.IGNORECASE)  # no name of an attribute begins so
OR = "or"
"""Stands between conditions of which those before it, or those behind it, must hold."""
_AND = "and"
SYNTAX = "write ATTR=VALUE, ATTR!=VALUE, ATTR>=VALUE, ATTR<=VALUE, ATTR^=BEGINNING, ATTR~=PATTERN or ATTR:=JSON"
"""The forms of a condition, as a remedy."""

ValueKind = Literal["text", "bound", "json"]
"""How the value of a condition is written: as text, as text that is the end of a range, or as JSON."""


def is_condition(text: str) -> bool:
    """Return True for what is written as a condition, whatever it names."""
    return _CONDITION.fullmatch(text) is not None


def split_conditions(text: str) -> list[str]:
    """Return the conditions in a text that has ``and`` or ``or`` between them: ``depth>=2 and name^=n1 or depth=0``,
    with :data:`OR` in place of each ``or``; none of a blank one.

    Such a word before what is no condition belongs to the value, as in ``name=bread and butter``, and so does any
    within quotes: ``name="salt and pepper=2"``.
    """
    quoted = [match.span(1) for match in _QUOTED.finditer(text)]
    words = [word for word in _WORD.finditer(text) if not any(low < word.start() < high for low, high in quoted)]
    found = [text[: words[0].start() if words else None]]
    for word, later in zip_longest(words, words[1:]):
        part = text[word.end() : later.start() if later else None]
        if is_condition(part) and _is_whole(found[-1]):
            found += [OR, part] if word[0].strip().lower() == OR else [part]
        else:
            found[-1] += word[0] + part
    return [part.strip() for part in found if part.strip()]


def join_conditions(texts: Iterable[str]) -> list[str]:
    """Return the conditions of several texts, which must all hold, each split as by :func:`split_conditions`; words of
    their own between texts are ``and``, which says nothing more, and :data:`OR`. Invalid where a text that has
    alternatives stands beside others, and for ``and`` without a condition on both sides."""
    several = [split_conditions(text) or [text] for text in texts]
    if len(several) > 1 and any(len(some) > 1 and OR in some for some in several):
        remedy = "write all in one, such as 'A=1 and B=2 or A=3'"
        raise Invalid(f"a text with {OR!r} in it beside another condition", remedy=remedy)
    joined = [condition for some in several for condition in some]
    words = [condition.lower() if condition.lower() in (_AND, OR) else "" for condition in joined]
    for word, before, after in zip(words, ["missing", *words], [*words[1:], "missing"], strict=False):
        if word == _AND and (before or after):
            raise Invalid(f"{_AND!r} without conditions on both sides", remedy="write CONDITION and CONDITION")
    return [condition for condition, word in zip(joined, words, strict=True) if word != _AND]


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


def parse_texts(texts: Iterable[str], parse_value: Callable[[str, str, ValueKind], Any]) -> Where:
    """Return what texts ask of attributes: a mapping, or several where :data:`OR` stands between the texts.

    ``parse_value`` returns what a text means, by the name of the attribute, the text and how it is written; AnyOf where
    it may mean several values. Several equalities of one attribute mean any of them, several ``!=`` none of them; of
    other conditions each kind stands once. Invalid.
    """
    sets: list[list[str]] = [[]]
    for text in texts:
        if text.strip().lower() == OR:
            sets.append([])
        else:
            sets[-1].append(text)
    if len(sets) > 1 and not all(sets):
        raise Invalid(f"{OR!r} without conditions on both sides", remedy="write CONDITION or CONDITION")
    found = [_parse_set(some, parse_value) for some in sets]
    return found[0] if len(found) == 1 else found


def _parse_set(texts: Iterable[str], parse_value: Callable[[str, str, ValueKind], Any]) -> dict[str, Any]:
    """Return the conditions that must all hold, by name of attribute."""
    equal: dict[str, list[Any]] = {}
    unequal: dict[str, list[Any]] = {}
    ranges: dict[str, dict[str, Any]] = {}
    texts_by_mark: dict[str, dict[str, Any]] = {"^=": {}, "~=": {}}
    for text in texts:
        match = _CONDITION.fullmatch(text)
        if match is None or not match[1].strip():
            raise Invalid(f"{text!r} is no condition", remedy=SYNTAX)
        name, mark, value = match[1].strip(), match[2], match[3]
        _refuse_other_syntax(text, name, mark, value)
        if mark != ":=" and _QUOTED.fullmatch(f"={value}"):
            value = value[1:-1]
        if name in texts_by_mark.get(mark, {}) or mark in ranges.get(name, {}):
            raise Invalid(f"two conditions {name}{mark}", remedy="give the stricter one alone")
        match mark:
            case "=" | ":=" | "!=":
                meant = parse_value(name, value, "json" if mark == ":=" else "text")
                some = (unequal if mark == "!=" else equal).setdefault(name, [])
                some += meant.values if isinstance(meant, AnyOf) else [meant]
            case "^=" | "~=":
                texts_by_mark[mark][name] = Prefix(value) if mark == "^=" else Like(value)
            case _:
                ranges.setdefault(name, {})[mark] = parse_value(name, value, "bound")
    parts: tuple[dict[str, Any], ...] = (
        {name: _any_of(values) for name, values in equal.items()},
        {name: Not(_any_of(values)) for name, values in unequal.items()},
        {name: slice(ends.get(">="), ends.get("<=")) for name, ends in ranges.items()},
        *texts_by_mark.values(),
    )
    names = [name for part in parts for name in part]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        remedy = "give equal values, unequal ones, a range, a beginning, or a pattern"
        raise Invalid(f"conditions of several kinds for {twice!r}", remedy=remedy)
    return {name: value for part in parts for name, value in part.items()}


def _refuse_other_syntax(text: str, name: str, mark: str, value: str) -> None:
    """Raise Invalid for what means something in other languages of queries: it would be the name of an attribute that
    nothing has, or a value, and find nothing."""
    remedy = None
    if mark in ("=", "!=") and value.startswith("="):
        remedy = f'write {mark} alone, and a text that begins with = as JSON: {name}:="={value[1:]}"'
    elif word := _OTHER_SYNTAX.match(name):
        remedy = "write A=1 and C=3 or B=2 and C=3, without brackets"
        if (word[1] or "").lower() == "not":
            remedy = "write ATTR!=VALUE"
    if remedy:
        raise Invalid(f"{text!r} is no condition", remedy=remedy)


def _any_of(values: list[Any]) -> object:
    return values[0] if len(values) == 1 else AnyOf(tuple(values))


def json_value(text: str) -> object:
    """Return the value of JSON, with tuples for lists; ValueError, RecursionError."""
    return _with_tuples(json.loads(text))


def _with_tuples(value: object) -> object:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
