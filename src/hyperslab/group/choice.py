"""Which variables of a dataset are meant: patterns over their paths, those left out, conditions upon their attributes.

A pattern without a slash stands for a name in whatever group, one with a slash for a path from the root: ``t``,
``t*``, ``/t``, ``ocean/*/t?``, ``ocean/**``. ``*`` and ``?`` stand for characters of one name, ``**`` for any groups.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.errors import Invalid, NodeNotFound, SelectionError
from hyperslab.formats.conditions import AnyOf, Like, Not, Prefix, ValueKind, json_value, parse_texts
from hyperslab.group.group import Group
from hyperslab.model.attrs import Attrs
from hyperslab.model.dims import axis_names, show_sizes, sizes_by_dimension
from hyperslab.model.guessing import meant, values_of_text
from hyperslab.model.paths import relative

Patterns = str | Iterable[str]
"""A pattern over paths, or several of them."""
Where = Mapping[str, Any] | Iterable[Mapping[str, Any]] | Iterable[str]
"""Conditions upon attributes: values by name, all of which must hold, or several such mappings, of which one must, as
in ``query``; or texts such as ``units=K``."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Variables by patterns over their paths (none: all), those left out, and conditions upon attributes by their
    names. ``alone``: without the variables that those belong to by the CF conventions. False where it chooses all."""

    variables: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    where: tuple[Mapping[str, Any], ...] = field(default=())
    alone: bool = False

    @classmethod
    def of(
        cls,
        variables: Patterns | None = None,
        exclude: Patterns | None = None,
        where: Where | None = None,
        *,
        alone: bool = False,
    ) -> Choice:
        """Return the choice of these patterns and conditions; Invalid for a text that is no condition."""
        return cls(_patterns(variables), _patterns(exclude), _conditions(where), alone)

    def __bool__(self) -> bool:
        return bool(self.variables or self.exclude or self.where)

    def may_choose(self, path: str) -> bool:
        """Return True if a variable at the path is chosen as far as its name tells."""
        is_named = not self.variables or any(is_match(path, pattern) for pattern in self.variables)
        return is_named and not any(is_match(path, pattern) for pattern in self.exclude)

    def excludes(self, path: str) -> bool:
        """Return True for a variable that is left out by its name."""
        return any(is_match(path, pattern) for pattern in self.exclude)

    def choose(self, known: Mapping[str, Attrs]) -> list[str]:
        """Return the paths of those that are chosen, in order, of all that there are, by their attributes.

        NodeNotFound for a pattern that none matches, and where none is left.
        """
        for pattern in (*self.variables, *self.exclude):
            if not any(is_match(path, pattern) for path in known):
                raise NodeNotFound(f"no variable is named {pattern!r}", remedy=_suggest(pattern, known))
        found = [path for path, attrs in known.items() if self.may_choose(path) and self._holds(attrs)]
        if not found:
            raise NodeNotFound("no variable is chosen", remedy=self._advice(known))
        return found

    def _holds(self, attrs: Attrs) -> bool:
        return not self.where or any(
            all(holds(attrs.get(name), wanted) for name, wanted in each.items()) for each in self.where
        )

    def _advice(self, known: Mapping[str, Attrs]) -> str:
        """Return as a remedy the values, or the names, that attributes have."""
        names = dict.fromkeys(name for each in self.where for name in each)
        for name in names:
            values = {str(attrs[name]) for attrs in known.values() if name in attrs}
            if not values:
                return f"no variable has an attribute {name!r}: " + meant(name, sorted(_names(known)))
            return f"values of {name!r}: {', '.join(sorted(values)[:_SHOWN])}"
        return "exclude fewer"


# Values of an attribute that an error lists.
_SHOWN = 10
EVERYTHING = Choice()
"""The choice of all variables."""


def choose_of(root: Group | Array, found: Sequence[tuple[str, Array]], choice: Choice) -> list[tuple[str, Array]]:
    """Return those of the arrays ``found`` at and below ``root``, by their paths, that are chosen.

    NodeNotFound, with a suggestion, for a pattern that matches none and where none is left; Invalid for a dataset that
    is one array.
    """
    if isinstance(root, Array):
        raise Invalid("the dataset is one array, so that there is none to choose", url=root.url, remedy="leave -v out")
    try:
        chosen = set(choice.choose({relative(path, root.path): array.spec.attrs for path, array in found}))
    except NodeNotFound as error:
        raise error.locate(url=root.url) from None
    return [(path, array) for path, array in found if relative(path, root.path) in chosen]


def is_match(path: str, pattern: str) -> bool:
    """Return True if a pattern stands for the path; the path itself always does, whatever letters it has."""
    if path == pattern:
        return True
    if "/" not in pattern:
        return fnmatchcase(path.rpartition("/")[2], pattern)
    return _match_parts(path.split("/"), pattern.strip("/").split("/"))


def _match_parts(names: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not names
    if patterns[0] == "**":
        return any(_match_parts(names[start:], patterns[1:]) for start in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], patterns[0]) and _match_parts(names[1:], patterns[1:])


def holds(value: object, wanted: object) -> bool:
    """Return True if a condition holds for the value of an attribute, which is None where there is none."""
    match wanted:
        case Not(wanted=other):
            return not holds(value, other)
        case AnyOf(values=several):
            return any(holds(value, one) for one in several)
        case set() | frozenset():
            return any(holds(value, one) for one in wanted)
        case Like(pattern=pattern):
            return value is not None and fnmatchcase(str(value), pattern)
        case Prefix(text=text):
            return value is not None and str(value).startswith(text)
        case slice(start=start, stop=stop):
            return _lies_between(value, start, stop)
    return wanted is None if value is None else _equals(value, wanted)


def _lies_between(value: object, start: Any, stop: Any) -> bool:
    cells: Any = np.asarray(value)
    if cells.size != 1 or cells.dtype.kind not in "iufU":
        return False
    cell = cells.reshape(-1)[0]
    if isinstance(cell, str) and not all(isinstance(bound, str) for bound in (start, stop) if bound is not None):
        return False
    return bool((start is None or cell >= start) and (stop is None or cell <= stop))


def _equals(value: object, wanted: object) -> bool:
    if isinstance(wanted, str) or isinstance(value, str):
        return isinstance(wanted, str) and str(value) == wanted
    here, there = np.asarray(value), np.asarray(wanted)
    if here.dtype.kind == "f" and there.dtype.kind in "iuf":  # 0.1 as text is meant as the float that is stored
        there = there.astype(here.dtype)
    return here.size == there.size and bool(np.array_equal(here.reshape(-1), there.reshape(-1)))


def _patterns(patterns: Patterns | None) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns or ())


def _conditions(where: Where | None) -> tuple[Mapping[str, Any], ...]:
    if where is None:
        return ()
    if isinstance(where, Mapping):
        return (where,) if where else ()
    several = [where] if isinstance(where, str) else list(where)
    texts = [each for each in several if isinstance(each, str)]
    if not texts:
        return tuple(each for each in several if isinstance(each, Mapping) and each)
    found = parse_texts(texts, _meanings)
    return tuple(found) if isinstance(found, list) else (found,)


def _meanings(name: str, text: str, kind: ValueKind) -> object:
    """Return what the text of a condition may mean: itself, or the number that it spells."""
    if kind == "json":
        try:
            return json_value(text)
        except (ValueError, RecursionError):
            raise Invalid(f"{text!r} for {name!r} is no JSON", remedy=f"write {name}=TEXT for text") from None
    found = values_of_text(text)
    if kind == "bound":
        return next((value for value in found if not isinstance(value, str)), text)
    return AnyOf(tuple(found))


def _suggest(pattern: str, known: Collection[str]) -> str:
    """Return what may have been meant by a pattern that no path matches."""
    inside = f"{pattern.strip('/')}/"
    if any(path.startswith(inside) or f"/{inside}" in path for path in known):
        return f"{pattern!r} is a group: write {inside}** for all in it"
    names = {path.rpartition("/")[2]: path for path in known} if "/" not in pattern else {}
    return meant(pattern, [*known, *(name for name in names if name not in known)])


def _names(known: Mapping[str, Attrs]) -> set[str]:
    return {name for attrs in known.values() for name in attrs}


# A day as people type it: a label, where it is no position.
_DATE = re.compile(r"[12]\d{3}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")


def are_dates(item: object) -> bool:
    """Return True for typed whole numbers that look like dates."""
    bounds = [item.start, item.stop] if isinstance(item, slice) else [item]
    return {bound is None or bool(_DATE.fullmatch(str(bound))) for bound in bounds} == {True} and bounds != [None, None]


def require_one_size(arrays: Sequence[Array], positions: Mapping[str, Any], *, typed: bool) -> list[str]:
    """Raise SelectionError for positions along a dimension that has several sizes in arrays, as in the levels of an
    image pyramid: they mean other parts of what each of them shows. Return a note of each without a name, that goes by
    its place (:func:`.axis_names`). ``typed``: whole numbers that look like dates are none."""
    notes = []
    for word, item in positions.items():
        if (isinstance(item, slice) and item == slice(None)) or (typed and are_dates(item)):
            continue
        named = sizes_by_dimension((array.path, array.dims, array.shape) for array in arrays).get(word, {})
        if len(named) > 1:
            remedy = f"choose arrays of one size ({_leave_one_size(named)}), or select by labels"
            raise SelectionError(f"positions of {word!r}, which has several sizes: {show_sizes(named)}", remedy=remedy)
        placed = sizes_by_dimension((each.path, axis_names(each.dims), each.shape) for each in arrays).get(word, {})
        if len(placed) > 1 and not named:
            notes.append(f"the same positions of {word} in arrays of several sizes: {show_sizes(placed)}")
    return notes


def _leave_one_size(sizes: Mapping[int, Sequence[str]]) -> str:
    """Return the options that leave arrays of one size: without the groups of all others, or else the largest array."""
    largest_first = [path for _, paths in sorted(sizes.items(), reverse=True) for path in paths]
    first = min(largest_first, key=lambda path: path.count("/"))
    groups: dict[bool, set[str]] = {True: set(), False: set()}  # right below the root, of arrays of that size or not
    for paths in sizes.values():
        groups[first in paths] |= {path.partition("/")[0] if "/" in path else "" for path in paths}
    if "" in groups[False] or groups[True] & groups[False]:
        return f"-v {first} or --path {first}"
    return " ".join(f"-x '{group}/**'" for group in sorted(groups[False]))
