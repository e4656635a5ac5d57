"""Objects found by attributes, dimensions, variables, name and age; what is known of each without reading it.

The server only ever compares: a value of a user stands behind ``$eq``, ``$in``, ``$gte`` or ``$lte``, or escaped
behind ``$regex``, so that it is never taken for an operator; a name of a user is part of a path only when it is a plain
word. What the server finds may be more than what is wanted (a list matches when one of its items does);
:class:`Criteria` leaves out the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from math import prod
from typing import Any, Literal

import bson
import numpy as np
from bson import ObjectId
from bson.errors import BSONError

from hyperslab.errors import HyperslabError, Invalid, NotFound, WrongType
from hyperslab.formats.conditions import AnyOf, Like, Not, Prefix, ValueKind, json_value
from hyperslab.formats.mongo.bson_values import (
    Document,
    DocumentCollection,
    MutableDocument,
    Sizes,
    dtype_from_text,
    parse_sizes,
    subdocument,
)
from hyperslab.formats.mongo.chunk_queries import CHUNKS_PER_QUERY
from hyperslab.formats.mongo.document import ARRAY, EXTENSION, LINEAGE, RETIRED, RETIRED_AT, SINCE, STATUS
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.formats.mongo.indexes import BINARY, is_plain_word
from hyperslab.formats.mongo.objects import find_replaced, replacement_chain
from hyperslab.formats.mongo.server import server_time
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.guessing import values_of_text
from hyperslab.stores.moments import parse_moment

_RANGED = ((int, float), (str,), (datetime,), (bytes,))


@dataclass(frozen=True, slots=True)
class Criterion:
    """One condition upon a value: equal to ``values`` (any of them); from ``low`` to ``high``, both included, None for
    no bound; or text that matches the ``pattern`` of ``fnmatch`` and begins with ``begin``. ``negated``: the opposite.
    What is not there counts as None."""

    values: tuple[Any, ...] = ()
    low: Any = None
    high: Any = None
    begin: str | None = None
    pattern: str | None = None
    negated: bool = False

    @classmethod
    def of(cls, wanted: object, what: str) -> Criterion:
        """Return the criterion for a value: a slice is a range, a set or AnyOf a choice, as :mod:`.conditions`
        has the rest; a list is a value. Invalid for what no document can hold.
        """
        match wanted:
            case Not(wanted=inner):
                found = cls.of(inner, what)
                return replace(found, negated=not found.negated)
            case Prefix(text=text):
                return cls(begin=bson_round_trip(text, what))
            case Like(pattern=pattern):
                return cls(begin=bson_round_trip(wanted.begin, what), pattern=pattern)
            case AnyOf(values=values):
                return cls(tuple(bson_round_trip(each, what) for each in values))
            case set() | frozenset():
                return cls(tuple(bson_round_trip(each, what) for each in wanted))
            case slice(start=None, stop=None, step=None):
                raise Invalid(f"{what}: a range without bounds", remedy="give slice(low, high)")
            case slice(start=start, stop=stop, step=None):
                low, high = (None if end is None else bson_round_trip(end, what) for end in (start, stop))
                return cls((), low, high)
            case slice():
                raise Invalid(f"{what}: a range with a step", remedy="give slice(low, high)")
        return cls((bson_round_trip(wanted, what),))

    @property
    def is_range(self) -> bool:
        """Return True if it is one of bounds."""
        return self.low is not None or self.high is not None

    @property
    def is_exact(self) -> bool:
        """Return True if the server finds by :meth:`query` exactly what fulfils it."""
        if self.begin is not None:
            return self.pattern is None and "\0" not in self.begin
        # None is equal to what is not there, too, a list to one that has it as an item; of others only these are sure.
        values = [each for each in (self.low, self.high) if each is not None] if self.is_range else self.values
        return all(isinstance(each, bool | int | float | str | datetime | ObjectId) for each in values)

    def query(self, query_of: Callable[[MutableDocument], MutableDocument]) -> MutableDocument | None:
        """Return the query of a field, which finds all that fulfils it and maybe more; None for all objects.

        ``query_of`` returns the query for what the server compares the field with.
        """
        if self.negated:
            return {"$nor": [query_of(self._comparison())]} if self.is_exact else None
        # What is not there is not found by what the server compares it with.
        return None if self.holds(None) else query_of(self._comparison())

    def _comparison(self) -> MutableDocument:
        """Return what the server compares a field with, whether negated or not."""
        # The server takes a list for each of its items.
        no_list = {"$not": {"$type": "array"}} if self.is_exact else {}
        if self.begin is not None:
            # NUL ends a pattern there. What stands behind the beginning is looked at here alone.
            return {"$regex": f"^{re.escape(self.begin.partition(chr(0))[0])}"} | no_list
        if not self.is_range:
            return ({"$eq": self.values[0]} if len(self.values) == 1 else {"$in": list(self.values)}) | no_list
        bounds = {"$gte": self.low, "$lte": self.high}
        return {operator: bound for operator, bound in bounds.items() if bound is not None} | no_list

    def holds(self, value: Any) -> bool:
        """Return True if it holds for a value."""
        return self._fits(value) is not self.negated

    def _fits(self, value: Any) -> bool:
        if self.begin is not None:
            is_begun = isinstance(value, str) and value.startswith(self.begin)
            return is_begun and (self.pattern is None or fnmatchcase(value, self.pattern))
        if not self.is_range:
            return any(equal_in_bson(value, wanted) for wanted in self.values)
        bounds: list[Any] = [bound for bound in (self.low, self.high) if bound is not None]
        # As for the server, values of another kind than the bounds lie in no range, and a truth is no number.
        kinds = next((kinds for kinds in _RANGED if isinstance(value, kinds)), ())
        if any(isinstance(each, bool) or not isinstance(each, kinds) for each in (value, *bounds)):
            return False
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


def bson_round_trip(value: object, what: str) -> Any:
    """Return the value as it comes back from a document. Invalid when no document can hold it."""
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()
    elif isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    try:
        return bson.decode(bson.encode({"v": value}))["v"]
    except (BSONError, OverflowError, TypeError) as error:
        raise Invalid(f"{what} cannot be {value!r}: {error}", remedy="give a value that BSON can hold") from None


def equal_in_bson(one: object, other: object) -> bool:
    """Return True if two values are equal in documents: no truth is a number, NaN equals itself, fields stand in the
    same order."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(equal_in_bson(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal_in_bson, one, other))
    return bool(one == other) or (one != one and other != other)


@dataclass(frozen=True, slots=True)
class Criteria:
    """All conditions upon an object. ``alternatives``: conditions upon attributes by name, one set of which must hold,
    where there are some; ``dims``: sizes by name, None for any size."""

    alternatives: tuple[Mapping[str, Criterion], ...]
    dims: Mapping[str, Criterion | None]
    variables: tuple[str, ...] = ()
    name: Criterion | None = None
    since: ObjectId | None = None
    until: ObjectId | None = None

    @classmethod
    def of(
        cls,
        attrs: object = None,
        dims: object = None,
        names: object = None,
        name: object = None,
        since: object = None,
        until: object = None,
    ) -> Criteria:
        """Return the criteria of a call of ``find``. Invalid."""
        sizes = dims if isinstance(dims, Mapping) else dict.fromkeys(_checked_names(dims, "dims"))
        _checked_names([*sizes], "dims")
        return cls(
            _parse_alternatives(attrs),
            {dim: None if size is None else Criterion.of(size, f"size of {dim!r}") for dim, size in sizes.items()},
            _checked_names(names, "names"),
            None if name is None else Criterion.of(name, "name"),
            None if since is None else _id_of_moment(since, "since"),
            None if until is None else _id_of_moment(until, "until"),
        )

    @property
    def is_exact(self) -> bool:
        """Return True if the server finds by :meth:`query` and :meth:`row_query` exactly what fulfils them."""
        compared = [criterion for some in self.alternatives for criterion in some.values()]
        compared += [self.name] if self.name else []
        # Two queries of alternatives, one of rows and one of documents, find those of which either half holds.
        is_one = len(self.alternatives) < 2 or all(is_plain_word(key) for some in self.alternatives for key in some)
        return not self.dims and is_one and all(criterion.is_exact for criterion in compared)

    def query(self) -> MutableDocument:
        """Return the query on documents as they are stored; it finds all that is wanted, and maybe more."""

        def query_of(key: str, criterion: Criterion) -> MutableDocument | None:
            if not is_plain_word(key):
                return None
            return criterion.query(lambda comparison: {f"attrs.{key}": comparison})

        wanted = self._query_of_alternatives(query_of)
        name = None if self.name is None else self.name.query(lambda comparison: {"name": comparison})
        wanted += [name] if name else []
        wanted += [{"_id": {"$gte": self.since}}] if self.since else []
        wanted += [{"_id": {"$lt": self.until}}] if self.until else []
        return {"$and": wanted} if wanted else {}

    def row_query(self) -> MutableDocument:
        """Return the query on rows (:data:`INFO_PROJECTION`), where names are values."""

        def query_of(key: str, criterion: Criterion) -> MutableDocument | None:
            if is_plain_word(key):
                return None
            return criterion.query(lambda comparison: {"attrs": {"$elemMatch": {"k": {"$eq": key}, "v": comparison}}})

        wanted = self._query_of_alternatives(query_of)
        wanted += [{"variables.dims": {"$eq": dim}} for dim in self.dims]
        wanted += [{"variables.k": {"$eq": variable}} for variable in self.variables]
        return {"$and": wanted} if wanted else {}

    def _query_of_alternatives(
        self, query_of: Callable[[str, Criterion], MutableDocument | None]
    ) -> list[MutableDocument]:
        """Return the queries of which all must hold: that of the alternatives, unless one of them says nothing."""
        found: list[MutableDocument] = []
        for some in self.alternatives:
            queries = [query for key, criterion in some.items() if (query := query_of(key, criterion)) is not None]
            if not queries:
                return []
            found.append({"$and": queries})
        return [{"$or": found}] if found else []

    def hold(self, info: ObjectInfo) -> bool:
        """Return True if an object fulfils all of them."""
        attrs, dims = info.attrs, info.dims
        found = (all(criterion.holds(attrs.get(key)) for key, criterion in some.items()) for some in self.alternatives)
        return (
            (self.name is None or self.name.holds(info.name))
            and (not self.alternatives or any(found))
            and all(dim in dims and (size is None or size.holds(dims[dim])) for dim, size in self.dims.items())
            and set(self.variables) <= set(info.variables)
        )


def _parse_alternatives(attrs: object) -> tuple[Mapping[str, Criterion], ...]:
    """Return the conditions upon attributes; none where nothing is asked. WrongType, Invalid."""
    several = attrs if isinstance(attrs, list) else [] if attrs is None else [attrs]
    if attrs == []:
        raise Invalid("a search for one of no conditions", remedy="give one mapping of conditions at least")
    found: list[Mapping[str, Criterion]] = []
    for some in several:
        if not isinstance(some, Mapping):
            remedy = "give a mapping of names to values, or several in a list, of which one must hold"
            raise WrongType(f"attrs are a {type(some).__name__}", remedy=remedy)
        _checked_names([*some], "attrs")
        found.append({key: Criterion.of(value, f"attribute {key!r}") for key, value in some.items()})
    return () if {} in found else tuple(found)


def parse_value(name: str, text: str, kind: ValueKind) -> object:
    """Return what a text means as a value of an attribute, whose type nobody says: itself, or the number that it
    spells, either of which an object may have, or that it has none (``null``); as the end of a range the number.
    Invalid."""
    if kind == "json":
        try:
            value = json_value(text)
        except (ValueError, RecursionError):
            raise Invalid(f"{text!r} for the attribute {name!r} is no JSON", remedy="quote text in it") from None
        # An operator of MongoDB, such as {"$gt": 5}, is compared as any value: nobody means that.
        if isinstance(value, dict) and any(key.startswith("$") for key in value):
            remedy = f"write {name}>=5, {name}!=5 and so on"
            raise Invalid(f"{text!r} for the attribute {name!r} is a query of MongoDB", remedy=remedy)
        return value
    values = values_of_text(text)
    if kind == "bound":
        return next((value for value in values if not isinstance(value, str)), text)
    return AnyOf((*sorted(values, key=str), *([None] if text == "null" else [])))


def _checked_names(names: object, what: str) -> tuple[str, ...]:
    """Return one name or several as a tuple. WrongType for what is no text."""
    if names is not None and not isinstance(names, Iterable):
        raise WrongType(f"{what} are {names!r}", remedy="give names as text, or several in a list")
    several = tuple([names] if isinstance(names, str) else names or ())
    for name in several:
        if not isinstance(name, str):
            raise WrongType(f"{name!r} in {what} is no name", remedy="give names as text")
    return several


def _parse_moment(moment: object, what: str) -> datetime:
    """Return a moment in UTC, as :func:`parse_moment`. Invalid."""
    try:
        return parse_moment(moment)
    except ValueError:
        raise Invalid(f"{what} {moment!r} is no moment", remedy="write 2024-01-31 or 2024-01-31T12:00") from None


def _id_of_moment(moment: Any, what: str) -> ObjectId:
    """Return the least id of a moment, as of :func:`_parse_moment`. Invalid."""
    try:
        return ObjectId(int(_parse_moment(moment, what).timestamp()).to_bytes(4, "big") + bytes(8))
    except OverflowError:
        raise Invalid(f"{what} {moment!r} is no moment of an id", remedy="give one between 1970 and 2106") from None


# -- ObjectInfo -------------------------------------------------------------------------------------------------------
# The server makes a row of each document, without embedded cells.


def _field_pairs(name: str) -> MutableDocument:
    """Return the fields of a sub-document as a list of ``{k, v}``: what they are called does not matter then."""
    return {"$cond": [{"$eq": [{"$type": name}, "object"]}, {"$objectToArray": name}, []]}


def _variable_entries(part: str) -> MutableDocument:
    fields = {field: f"$$one.v.{field}" for field in ("dims", "dtype", "shape")}
    return {"$map": {"input": _field_pairs(f"${part}"), "as": "one", "in": {"k": "$$one.k", "part": part, **fields}}}


INFO_PROJECTION: MutableDocument = {
    "name": 1,
    "attrs": _field_pairs("$attrs"),
    "variables": {"$concatArrays": [_variable_entries("coords"), _variable_entries("data_vars")]},
    "status": f"${STATUS}",
    "retired": f"${RETIRED_AT}",
    "since": f"${SINCE}",
}
"""A projection: ``attrs`` and ``variables`` as lists, in which names are values."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object: id, name (None: it has none), ``Dataset`` or ``DataArray``, sizes by dimension (None: not known),
    names of the variables, attributes, when it was made (UTC; to the second, which its id has, or to the millisecond
    where it has taken the place of a version that is kept), bytes of its cells (None: not known), and ``status``
    (``writing`` while it is being made, ``retired`` of an older version, another one having taken its place at
    ``retired``, UTC)."""

    id: ObjectId
    name: Any
    kind: str
    dims: Mapping[Any, int | None]
    variables: tuple[str, ...]
    attrs: Document = field(default_factory=dict)
    created: datetime | None = None
    nbytes: int | None = None
    status: str | None = None
    retired: datetime | None = None


def parse_info(row: Document) -> ObjectInfo:
    """Return the object that a row tells of; what makes no sense in it is left out."""
    entries = row["variables"]
    data = [entry["k"] for entry in entries if entry["part"] == "data_vars"]
    dims: dict[Any, int | None] = {}
    sizes: list[int | None] = []
    for entry in entries:
        shape: Sizes = ()
        nbytes = None
        names = entry.get("dims")
        if isinstance(names, list):
            with suppress(HyperslabError):
                shape = parse_sizes(entry.get("shape"), "shape", entry["k"])
                dtype = dtype_from_text(entry.get("dtype"), entry["k"])
                nbytes = None if None in shape else dtype.itemsize * prod(size or 0 for size in shape)
        sizes.append(nbytes)
        for dim, size in zip(names if shape else (), shape, strict=False):
            if isinstance(dim, str | int) and dims.get(dim) is None:
                dims[dim] = size
    id = row["_id"]
    made = id.generation_time if isinstance(id, ObjectId) else None
    since = _utc(row.get("since"))
    return ObjectInfo(
        id,
        row.get("name"),
        "DataArray" if data == [ARRAY] else "Dataset",
        dims,
        tuple(entry["k"] for entry in entries),
        {pair["k"]: pair["v"] for pair in row["attrs"]},
        since if since is not None and (made is None or made < since) else made,
        None if None in sizes else sum(size for size in sizes if size is not None),
        row.get("status"),
        _utc(row.get("retired")),
    )


def _utc(moment: object) -> datetime | None:
    """Return a moment as the driver gives it, which is UTC; None for what is none."""
    if not isinstance(moment, datetime):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# -- find -------------------------------------------------------------------------------------------------------------


# Rows that the server makes at a time: of a small object one is some 500 bytes, and a search that ends early reads no
# more than these.
_ROWS = 100
Order = Literal["created", "-created", "name", "-name"]
_ORDERS: dict[Order, dict[str, int]] = {
    "created": {"_id": 1},
    "-created": {"_id": -1},
    "name": {"name": 1, "_id": 1},
    "-name": {"name": -1, "_id": -1},
}


def parse_order(text: str) -> Order:
    """Return the order that a text names; Invalid."""
    for order in _ORDERS:
        if order == text:
            return order
    raise Invalid(f"there is no order {text!r}", remedy=f"give one of {', '.join(_ORDERS)}")


def find_objects(
    meta: DocumentCollection,
    attrs: object = None,
    dims: object = None,
    names: object = None,
    name: object = None,
    *,
    since: object = None,
    until: object = None,
    order: Order = "created",
    skip: int = 0,
    limit: int | None = None,
    versions: bool = False,
) -> Iterator[ObjectInfo]:
    """Yield the objects that have these attributes, dimensions, variables and name, and were made in ``[since,
    until)``.

    A value of ``attrs``, ``dims`` or ``name`` is what must be equal, a list too; a ``slice(low, high)`` a range with
    both ends in it; a set, or AnyOf, a choice; ``Prefix``, ``Like`` and ``Not`` are those of collections. What an
    object has not is None. ``attrs`` may be a list of mappings, of which one must hold; ``dims`` may be names alone. A
    mapping as a value is compared, and is no query. What is still being made, or was replaced, is not found;
    ``versions``: what is kept of the latter is. Invalid.
    """
    sort = _ORDERS[parse_order(order)]
    wanted = Criteria.of(attrs, dims, names, name, since, until)
    for what, count in (("skip", skip), ("limit", 0 if limit is None else limit)):
        if not is_whole_number(count) or count < 0:
            raise Invalid(f"{what}={count!r}", remedy="give a whole number of at least 0")
    first, last = int(skip), None if limit is None else int(skip + limit)

    def find() -> Iterator[ObjectInfo]:
        if limit == 0:
            return
        hidden = find_replaced(meta)
        # Sorted first, by an index; documents are made rows then, as the client takes them.
        pipeline: list[MutableDocument] = [
            {"$match": {STATUS: {"$in": [None, RETIRED]} if versions else {"$exists": False}, **wanted.query()}},
            {"$sort": sort},
            {"$project": INFO_PROJECTION},
        ]
        if rest := wanted.row_query():
            pipeline.append({"$match": rest})
        start, stop = first, last
        if wanted.is_exact and len(hidden) <= CHUNKS_PER_QUERY:
            pipeline[0]["$match"]["_id"] = {"$nin": list(hidden)}
            start, stop = 0, None if last is None else last - first
            pipeline += [{"$skip": first}] if first else []
            pipeline += [{"$limit": stop}] if stop else []
        batch = min(_ROWS, stop or _ROWS)
        with meta.aggregate(pipeline, allowDiskUse=True, collation=BINARY, batchSize=batch) as rows:
            infos = (parse_info(row) for row in rows if row["_id"] not in hidden)
            fitting = (info for info in infos if wanted.hold(info))
            yield from islice(fitting, start, stop)

    return find()


def find_object(meta: DocumentCollection, id: ObjectId, wanted: Criteria) -> ObjectInfo | None:
    """Return an object that fulfils the criteria now; None for one that does not, or is gone."""
    with meta.aggregate([{"$match": {"_id": {"$eq": id}}}, {"$project": INFO_PROJECTION}]) as rows:
        return next((info for info in map(parse_info, rows) if wanted.hold(info)), None)


# -- versions ----------------------------------------------------------------------------------------------------------


def find_versions(meta: DocumentCollection, id: ObjectId) -> list[ObjectInfo]:
    """Return an object and its older versions that are kept, the oldest first. DocumentNotFoundError."""
    chain = replacement_chain(meta, id)
    if not chain:
        raise DocumentNotFoundError(id)
    extensions = [subdocument(own, EXTENSION) for own in chain]
    lineage = next((found["lineage"] for found in extensions if "lineage" in found), None)
    # Whoever took the place of an object may not have lived to make it a version: it is one all the same.
    kept = {
        old["_id"]: -number
        for number, (newer, old) in enumerate(pairwise(chain))
        if isinstance(subdocument(newer, EXTENSION).get("keeps"), int | float)
        and old.get("name") == chain[0].get("name")
    }
    gone = [old["_id"] for old in chain[1:] if old["_id"] not in kept]
    known = {"$or": [{STATUS: RETIRED}, {STATUS: {"$exists": False}}], "_id": {"$nin": gone}}
    of_lineage = [] if lineage is None else [{LINEAGE: {"$eq": lineage}, **known}]
    match = {"$or": [{"_id": {"$in": [id, *kept]}}, *of_lineage]}
    rows = meta.aggregate([{"$match": match}, {"$project": INFO_PROJECTION}])
    infos = [parse_info(row) for row in rows]
    if not infos:
        raise DocumentNotFoundError(id)
    if kept:
        now = server_time(meta)
        infos = [
            replace(info, status=RETIRED, retired=info.retired or now) if info.id in kept else info for info in infos
        ]
    never = datetime.max.replace(tzinfo=UTC)
    return sorted(infos, key=lambda info: (info.retired or never, kept.get(info.id, 0), info.id))


# By how much the clock of the server may be ahead of the one here: moments are by the server's.
_CLOCKS = timedelta(minutes=1)


def find_version(meta: DocumentCollection, id: ObjectId, moment: object) -> ObjectId:
    """Return the version of an object that was the present one at a moment. NotFound if it is not kept; Invalid."""
    at = _parse_moment(moment, "at")
    if at > datetime.now(UTC) + _CLOCKS:
        raise Invalid(f"{at.isoformat()} is to come", remedy="give a moment that is over")
    versions = find_versions(meta, id)
    begun = versions[0].created
    if begun is not None and at < begun:
        message = f"no version of {id} is as old as {at:%Y-%m-%d %H:%M:%S}"
        raise NotFound(message, remedy=f"the oldest one that is kept was made {begun:%Y-%m-%d %H:%M:%S}")
    found: ObjectId = next((info.id for info in versions if info.retired is None or at < info.retired), versions[-1].id)
    own = meta.find_one({"_id": found}, {SINCE: 1}) or {}
    since = _utc(own.get(EXTENSION, {}).get("since"))
    if since is not None and at < since:
        message = f"the version of {at:%Y-%m-%d %H:%M:%S} is not kept any more"
        raise NotFound(message, remedy=f"the next one took its place {since:%Y-%m-%d %H:%M:%S}; versions() lists them")
    return found


def describe_object(meta: DocumentCollection, id: ObjectId) -> ObjectInfo:
    """Return the row of one object, also of one that is being made. DocumentNotFoundError."""
    found = find_object(meta, id, Criteria.of())
    if found is None:
        raise DocumentNotFoundError(id)
    return found
