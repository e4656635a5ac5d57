"""What is asked of objects, as a query of the server and as a test of what it answers.

The server is only ever told to compare: a value of a user stands behind ``$eq``, ``$in``, ``$gte`` or ``$lt``, so that
it is never taken for an operator; a name of a user is part of a path only when it is a plain word. What the server
finds may be more than what was asked for (a list matches when one of its items does); the test leaves out the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import bson
import numpy as np
from bson import ObjectId
from bson.errors import BSONError

from hyperslab.errors import Invalid, WrongType

_WORD = re.compile(r"\w[^.$\0]*")
_RANGED = ((int, float), (str,), (datetime,), (bytes,))


@dataclass(frozen=True, slots=True)
class Criterion:
    """One condition upon a value: equal to ``values`` (any of them), or ``low <= value < high``, None for no bound."""

    values: tuple[Any, ...] = ()
    low: Any = None
    high: Any = None

    @classmethod
    def of(cls, wanted: Any, what: str) -> Criterion:
        """A slice is a range, a set a choice, whatever else one value. Invalid for what no document can hold."""
        if isinstance(wanted, slice):
            if wanted.step is not None:
                raise Invalid(f"{what}: a range with a step", remedy="give slice(low, high)")
            low, high = (None if bound is None else stored(bound, what) for bound in (wanted.start, wanted.stop))
            if low is None and high is None:
                raise Invalid(f"{what}: a range without bounds", remedy="give slice(low, high)")
            return cls((), low, high)
        if isinstance(wanted, set | frozenset):
            return cls(tuple(stored(each, what) for each in wanted))
        return cls((stored(wanted, what),))

    @property
    def is_range(self) -> bool:
        """Return whether it is one of bounds."""
        return self.low is not None or self.high is not None

    def query(self) -> dict[str, Any]:
        """What the server compares a field with."""
        if not self.is_range:
            return {"$eq": self.values[0]} if len(self.values) == 1 else {"$in": list(self.values)}
        bounds = {"$gte": self.low, "$lt": self.high}
        return {operator: bound for operator, bound in bounds.items() if bound is not None}

    def holds(self, value: Any) -> bool:
        """Return whether it holds for a value."""
        if not self.is_range:
            return any(same(value, wanted) for wanted in self.values)
        return all(_comparable(value, bound) for bound in (self.low, self.high) if bound is not None) and (
            (self.low is None or self.low <= value) and (self.high is None or value < self.high)
        )


def stored(value: Any, what: str) -> Any:
    """The value as it comes back from a document. Invalid when no document can hold it."""
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()
    elif isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    try:
        return bson.decode(bson.encode({"v": value}))["v"]
    except (BSONError, OverflowError, TypeError) as error:
        raise Invalid(f"{what} cannot be {value!r}: {error}", remedy="give a value that BSON can hold") from None


def same(one: Any, other: Any) -> bool:
    """Equal as documents are: no truth is a number, NaN equals itself, fields stand in the same order."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)


def _comparable(value: Any, bound: Any) -> bool:
    if isinstance(value, bool) or isinstance(bound, bool):
        return False
    return any(isinstance(value, kinds) and isinstance(bound, kinds) for kinds in _RANGED)


@dataclass(frozen=True, slots=True)
class Criteria:
    """All that is asked of an object. ``dims``: sizes by name, None for any size."""

    attrs: Mapping[str, Criterion]
    dims: Mapping[str, Criterion | None]
    variables: tuple[str, ...] = ()
    name: Criterion | None = None
    since: ObjectId | None = None
    until: ObjectId | None = None

    @classmethod
    def of(
        cls,
        attrs: Any = None,
        dims: Any = None,
        names: Any = None,
        name: Any = None,
        since: Any = None,
        until: Any = None,
    ) -> Criteria:
        """The criteria of a call of ``find``. Invalid."""
        named = dims if isinstance(dims, Mapping) else dict.fromkeys(_words(dims, "dims"))
        return cls(
            {_word(key, "attrs"): Criterion.of(value, f"attribute {key!r}") for key, value in _mapping(attrs).items()},
            {
                _word(dim, "dims"): None if size is None else Criterion.of(size, f"size of {dim!r}")
                for dim, size in named.items()
            },
            _words(names, "names"),
            None if name is None else Criterion.of(name, "name"),
            None if since is None else _moment(since, "since"),
            None if until is None else _moment(until, "until"),
        )

    def query(self) -> dict[str, Any]:
        """What the server is asked of the documents as they are stored: it finds all that is wanted, and maybe more."""
        wanted: list[dict[str, Any]] = [
            {f"attrs.{key}": criterion.query()} for key, criterion in self.attrs.items() if _WORD.fullmatch(key)
        ]
        wanted += [{"name": self.name.query()}] if self.name else []
        wanted += [{"_id": {"$gte": self.since}}] if self.since else []
        wanted += [{"_id": {"$lt": self.until}}] if self.until else []
        return {"$and": wanted} if wanted else {}

    def row_query(self) -> dict[str, Any]:
        """What the server is asked of rows (:data:`~.summaries.ROW`), where names are values."""
        wanted: list[dict[str, Any]] = [
            {"attrs": {"$elemMatch": {"k": {"$eq": key}, "v": criterion.query()}}}
            for key, criterion in self.attrs.items()
            if not _WORD.fullmatch(key)
        ]
        wanted += [{"variables.dims": {"$eq": dim}} for dim in self.dims]
        wanted += [{"variables.k": {"$eq": variable}} for variable in self.variables]
        return {"$and": wanted} if wanted else {}

    def hold(self, name: Any, attrs: Mapping[str, Any], dims: Mapping[Any, Any], variables: Iterable[str]) -> bool:
        """Return whether an object is what is asked for."""
        return (
            (self.name is None or self.name.holds(name))
            and all(key in attrs and criterion.holds(attrs[key]) for key, criterion in self.attrs.items())
            and all(dim in dims and (size is None or size.holds(dims[dim])) for dim, size in self.dims.items())
            and set(self.variables) <= set(variables)
        )


def _mapping(attrs: Any) -> Mapping[str, Any]:
    if attrs is not None and not isinstance(attrs, Mapping):
        raise WrongType(f"attrs are a {type(attrs).__name__}", remedy="give a mapping of names to values")
    return attrs or {}


def _words(names: Any, what: str) -> tuple[str, ...]:
    if names is not None and not isinstance(names, Iterable):
        raise WrongType(f"{what} are {names!r}", remedy="give names as text, or several in a list")
    return tuple(_word(name, what) for name in ([names] if isinstance(names, str) else names or ()))


def _word(name: Any, what: str) -> str:
    if not isinstance(name, str):
        raise WrongType(f"{name!r} in {what} is no name", remedy="give names as text")
    return name


def _moment(moment: Any, what: str) -> ObjectId:
    """The least id of a moment: a datetime (UTC, unless it says otherwise), a datetime64, or ISO text. Invalid."""
    if isinstance(moment, np.datetime64):
        moment = moment.astype("M8[s]").item()
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        if not isinstance(found, datetime):
            found = datetime(found.year, found.month, found.day)
        aware = found if found.tzinfo else found.replace(tzinfo=UTC)
        return ObjectId(int(aware.timestamp()).to_bytes(4, "big") + bytes(8))
    except (ValueError, AttributeError, OverflowError):
        raise Invalid(f"{what} {moment!r} is no moment", remedy="write 2024-01-31 or 2024-01-31T12:00") from None
