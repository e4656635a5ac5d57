"""Conditions of queries on attributes, checked against the schema: equality, ranges, membership, beginnings and
patterns of text, the opposite of these, and several sets of conditions of which one must hold.

Values are compared by their ranks (:mod:`hyperslab.formats.collections.ranks`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

import numpy as np

from hyperslab.errors import SchemaError
from hyperslab.formats.collections.ranks import KNOWN, NAN, Rank, ranker
from hyperslab.formats.conditions import AnyOf, Like, Not, Prefix
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.guessing import meant
from hyperslab.model.schemas import AnyArraySchema, AttributeSchema, Record
from hyperslab.model.schemas.arrays import canonical_value, check_sought

_LAST = 0x10FFFF  # the last code point


@dataclass(frozen=True, slots=True)
class RankSpan:
    """Ranks from ``low`` to ``high``, which belongs to them when ``closed``."""

    low: Rank
    high: Rank
    closed: bool = True

    def __contains__(self, rank: Rank) -> bool:
        return self.low <= rank and (rank <= self.high if self.closed else rank < self.high)


_low = attrgetter("low")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one attribute: its rank lies within one of the ``spans``, which are sorted and do not overlap.

    ``only``: the one value that fits, where the condition is equality; in a tuple. ``pattern``: what text must match
    besides. ``negated``: the condition must not hold.
    """

    attribute: AttributeSchema
    spans: tuple[RankSpan, ...]
    only: tuple[Any, ...] = ()
    pattern: str | None = None
    negated: bool = False

    def holds(self, record: Record) -> bool:
        """Return True if a record fulfils it."""
        name = self.attribute.name
        values = record.primary if self.attribute.primary else record.custom
        return self.fits(ranker(self.attribute)(values.get(name)))

    def fits(self, rank: Rank) -> bool:
        """Return True if a value of this rank fulfils it."""
        place = bisect_right(self.spans, rank, key=_low)
        is_in = place > 0 and rank in self.spans[place - 1]
        if is_in and self.pattern is not None:
            is_in = fnmatchcase(rank[1], self.pattern)
        return is_in is not self.negated


@dataclass(frozen=True, slots=True)
class Query:
    """Sets of conditions: all of one of the ``alternatives`` must hold, where there are some; the attribute to order by
    (None: the key), backwards or not; how many at most."""

    alternatives: tuple[tuple[Condition, ...], ...] = ()
    order: str | None = None
    backwards: bool = False
    limit: int | None = None

    def key(self, schema: AnyArraySchema) -> tuple[Any, ...] | None:
        """Return the values of all primary attributes, in their order, where each is asked to be equal to one."""
        if len(self.alternatives) != 1:
            return None
        wanted = {condition.attribute.name: condition.only for condition in self.alternatives[0] if condition.only}
        names = [attribute.name for attribute in schema.primary_attributes]
        if not names or not all(name in wanted for name in names):
            return None
        return tuple(canonical_value(wanted[name][0]) for name in names)

    def holds(self, record: Record) -> bool:
        """Return True if a record fulfils it."""
        found = (all(condition.holds(record) for condition in some) for some in self.alternatives)
        return not self.alternatives or any(found)


def parse(
    schema: AnyArraySchema,
    where: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
    conditions: Mapping[str, Any],
    order: str | None = None,
    limit: int | None = None,
) -> Query:
    """Return a query of ``where`` and ``conditions``, by name of attribute; SchemaError names the attribute and what
    would do.

    A value means equality, ``(low, high)`` or a slice a range with both ends in it (None: no end; where the attribute
    is a tuple a tuple is a value), a list, set, AnyOf or NumPy array any of its members, :class:`Prefix` a beginning,
    :class:`Like` a pattern, :class:`Not` the opposite of any of these; None means unset. ``where`` may be a list of
    mappings: all conditions of one of them must hold, and those of ``conditions`` besides. Times may be datetimes,
    dates, ISO texts or datetime64. ``order``: an attribute, ``"-name"`` from its largest value down; unset ones and NaN
    come last either way.
    """
    several = [where or {}] if where is None or isinstance(where, Mapping) else where
    if isinstance(several, str) or not isinstance(several, Sequence):
        several = [several]  # which is refused below
    known = {attribute.name: attribute for attribute in schema.attributes}
    found = []
    for some in several:
        if not isinstance(some, Mapping):
            remedy = "give a mapping of attributes to values, several in a list, or name=value"
            raise SchemaError(f"a query for {where!r}", remedy=remedy)
        both = sorted(set(some) & set(conditions))
        if both:
            raise SchemaError(f"two conditions for attribute {both[0]!r}", remedy="give one, such as a range")
        wanted = {**some, **conditions}
        found.append(tuple(_parse_condition(_require_attribute(known, name), each) for name, each in wanted.items()))
    if not found:
        raise SchemaError("a query for one of no conditions", remedy="give one mapping of conditions at least")
    alternatives = () if () in found else tuple(found)
    if limit is not None and (not is_whole_number(limit) or limit < 0):
        raise SchemaError(f"limit={limit!r}", remedy="give a whole number from 0 on, or None for all")
    name, backwards = _parse_order(known, order)
    return Query(alternatives, name, backwards, None if limit is None else int(limit))


def _require_attribute(known: Mapping[str, AttributeSchema], name: Any) -> AttributeSchema:
    if name not in known:
        raise SchemaError(f"no attribute {name!r}", remedy=meant(name, known))
    return known[name]


def _parse_order(known: Mapping[str, AttributeSchema], order: object) -> tuple[str | None, bool]:
    if order is None:
        return None, False
    if not isinstance(order, str):
        raise SchemaError(f"order={order!r}", remedy="give the name of an attribute, with - before it to go down")
    backwards = order not in known and order.startswith("-")
    attribute = _require_attribute(known, order[1:] if backwards else order)
    _check_ordered(attribute, "ordered by")
    return attribute.name, backwards


def _parse_condition(attribute: AttributeSchema, wanted: object) -> Condition:
    match wanted:
        case Not(wanted=inner):
            found = _parse_condition(attribute, inner)
            return replace(found, only=(), negated=not found.negated)
        case Prefix(text=text):
            return _beginning(attribute, text)
        case Like(pattern=pattern):
            return replace(_beginning(attribute, wanted.begin), pattern=pattern)
        case slice():
            if wanted.step is not None:
                raise _query_error(attribute, f"a range with a step, {wanted!r}", "leave the step out")
            return _range(attribute, wanted.start, wanted.stop)
        case tuple() if attribute.dtype is not tuple:
            if len(wanted) != 2:
                remedy = "a tuple is a range (low, high); give a list for any of several values"
                raise _query_error(attribute, f"a tuple of {len(wanted)}", remedy)
            return _range(attribute, *wanted)
        case AnyOf(values=values):
            return _membership(attribute, values)
        case list() | set() | frozenset() | range() | np.ndarray():
            return _membership(attribute, wanted)
        case _:
            value = _value(attribute, wanted)
            rank = ranker(attribute)(value)
            return Condition(attribute, (RankSpan(rank, rank),), () if value is None else (value,))


def _membership(attribute: AttributeSchema, wanted: Iterable[object]) -> Condition:
    if isinstance(wanted, np.ndarray) and wanted.ndim != 1:
        raise _query_error(attribute, f"an array of {wanted.ndim} dimensions", "give a list of values")
    rank = ranker(attribute)
    ranks = sorted({rank(_value(attribute, value)) for value in wanted})
    return Condition(attribute, tuple(RankSpan(each, each) for each in ranks))


def _range(attribute: AttributeSchema, low: object, high: object) -> Condition:
    _check_ordered(attribute, "in a range")
    rank = ranker(attribute)
    whole = attribute.dtype is int or issubclass(attribute.dtype, np.integer)
    # An end may lie beyond the limits of a type of whole numbers.
    unbounded = replace(attribute, dtype=int) if whole else attribute
    ends = [None if end is None else rank(_value(unbounded, end)) for end in (low, high)]
    if any(end is not None and end[0] == NAN for end in ends):
        raise _query_error(attribute, "a range that ends at NaN", "give a number, or None for no end")
    return Condition(attribute, (RankSpan(ends[0] or (KNOWN,), ends[1] or (NAN,), closed=ends[1] is not None),))


def _beginning(attribute: AttributeSchema, text: str) -> Condition:
    if attribute.dtype is not str:
        raise _query_error(attribute, "a prefix or pattern", "only text has one")
    after = text.rstrip(chr(_LAST))
    high = (KNOWN, after[:-1] + chr(ord(after[-1]) + 1)) if after else (NAN,)
    return Condition(attribute, (RankSpan((KNOWN, text), high, closed=False),))


def _value(attribute: AttributeSchema, wanted: object) -> object:
    """Return the value that an attribute is to have, in its type."""
    if wanted is None:
        if attribute.primary:
            raise _query_error(attribute, "None", "a primary attribute is never unset")
        return None
    try:
        return check_sought(attribute, wanted)
    except SchemaError as error:
        raise SchemaError(f"in a query {error.message}", remedy=error.remedy) from None


def is_ordered(attribute: AttributeSchema) -> bool:
    """Return True if one value of an attribute may be less than another."""
    return attribute.dtype is not tuple and not issubclass(attribute.dtype, complex | np.complexfloating)


def _check_ordered(attribute: AttributeSchema, what: str) -> None:
    if not is_ordered(attribute):
        remedy = f"a {attribute.dtype.__name__} has no order; ask for equal ones"
        raise _query_error(attribute, f"being {what}", remedy)


def _query_error(attribute: AttributeSchema, what: str, remedy: str) -> SchemaError:
    return SchemaError(f"a query for attribute {attribute.name!r}: {what}", remedy=remedy)
