"""Objects found by attributes, dimensions, variables, name and age; what is known of each without reading it.

The server only ever compares: a value of a user stands behind ``$eq``, ``$in``, ``$gte`` or ``$lt``, so that
it is never taken for an operator; a name of a user is part of a path only when it is a plain word. What the server
finds may be more than what is wanted (a list matches when one of its items does); :class:`Criteria` leaves out the
rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from math import prod
from typing import Any, Literal

import bson
import numpy as np
from bson import ObjectId
from bson.errors import BSONError

from hyperslab.errors import HyperslabError, Invalid, NotFound, WrongType
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

_RANGED = ((int, float), (str,), (datetime,), (bytes,))


@dataclass(frozen=True, slots=True)
class Criterion:
    """One condition upon a value: equal to ``values`` (any of them), or ``low <= value < high``, None for no bound."""

    values: tuple[Any, ...] = ()
    low: Any = None
    high: Any = None

    @classmethod
    def of(cls, wanted: object, what: str) -> Criterion:
        """Return the criterion for a value: a slice is a range, a set a choice. Invalid for what no
        document can hold.
        """
        if isinstance(wanted, slice):
            if wanted.step is not None:
                raise Invalid(f"{what}: a range with a step", remedy="give slice(low, high)")
            low, high = (
                None if bound is None else bson_round_trip(bound, what) for bound in (wanted.start, wanted.stop)
            )
            if low is None and high is None:
                raise Invalid(f"{what}: a range without bounds", remedy="give slice(low, high)")
            return cls((), low, high)
        if isinstance(wanted, set | frozenset):
            return cls(tuple(bson_round_trip(each, what) for each in wanted))
        return cls((bson_round_trip(wanted, what),))

    @property
    def is_range(self) -> bool:
        """Return True if it is one of bounds."""
        return self.low is not None or self.high is not None

    @property
    def is_exact(self) -> bool:
        """Return True if the server finds by :meth:`query` exactly what fulfils it."""
        # None is equal to what is not there, too, a list to one that has it as an item; of others only these are sure.
        values = [each for each in (self.low, self.high) if each is not None] if self.is_range else self.values
        return all(isinstance(each, bool | int | float | str | datetime | ObjectId) for each in values)

    def query(self) -> MutableDocument:
        """Return the condition that the server compares a field with."""
        # The server takes a list for each of its items.
        no_list = {"$not": {"$type": "array"}} if self.is_exact else {}
        if not self.is_range:
            return ({"$eq": self.values[0]} if len(self.values) == 1 else {"$in": list(self.values)}) | no_list
        bounds = {"$gte": self.low, "$lt": self.high}
        return {operator: bound for operator, bound in bounds.items() if bound is not None} | no_list

    def holds(self, value: Any) -> bool:
        """Return True if it holds for a value."""
        if not self.is_range:
            return any(equal_in_bson(value, wanted) for wanted in self.values)
        bounds: list[Any] = [bound for bound in (self.low, self.high) if bound is not None]
        # As for the server, values of another kind than the bounds lie in no range, and a truth is no number.
        kinds = next((kinds for kinds in _RANGED if isinstance(value, kinds)), ())
        if any(isinstance(each, bool) or not isinstance(each, kinds) for each in (value, *bounds)):
            return False
        return (self.low is None or self.low <= value) and (self.high is None or value < self.high)


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
    """All conditions upon an object. ``dims``: sizes by name, None for any size."""

    attrs: Mapping[str, Criterion]
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
        if attrs is not None and not isinstance(attrs, Mapping):
            raise WrongType(f"attrs are a {type(attrs).__name__}", remedy="give a mapping of names to values")
        values: Mapping[Any, Any] = attrs or {}
        sizes = dims if isinstance(dims, Mapping) else dict.fromkeys(_checked_names(dims, "dims"))
        _checked_names([*values], "attrs")
        _checked_names([*sizes], "dims")
        return cls(
            {key: Criterion.of(value, f"attribute {key!r}") for key, value in values.items()},
            {dim: None if size is None else Criterion.of(size, f"size of {dim!r}") for dim, size in sizes.items()},
            _checked_names(names, "names"),
            None if name is None else Criterion.of(name, "name"),
            None if since is None else _id_of_moment(since, "since"),
            None if until is None else _id_of_moment(until, "until"),
        )

    @property
    def is_exact(self) -> bool:
        """Return True if the server finds by :meth:`query` and :meth:`row_query` exactly what fulfils them."""
        compared = [*self.attrs.values(), *([self.name] if self.name else [])]
        return not self.dims and all(criterion.is_exact for criterion in compared)

    def query(self) -> MutableDocument:
        """Return the query on documents as they are stored; it finds all that is wanted, and maybe more."""
        wanted: list[MutableDocument] = [
            {f"attrs.{key}": criterion.query()} for key, criterion in self.attrs.items() if is_plain_word(key)
        ]
        wanted += [{"name": self.name.query()}] if self.name else []
        wanted += [{"_id": {"$gte": self.since}}] if self.since else []
        wanted += [{"_id": {"$lt": self.until}}] if self.until else []
        return {"$and": wanted} if wanted else {}

    def row_query(self) -> MutableDocument:
        """Return the query on rows (:data:`INFO_PROJECTION`), where names are values."""
        wanted: list[MutableDocument] = [
            {"attrs": {"$elemMatch": {"k": {"$eq": key}, "v": criterion.query()}}}
            for key, criterion in self.attrs.items()
            if not is_plain_word(key)
        ]
        wanted += [{"variables.dims": {"$eq": dim}} for dim in self.dims]
        wanted += [{"variables.k": {"$eq": variable}} for variable in self.variables]
        return {"$and": wanted} if wanted else {}

    def hold(self, info: ObjectInfo) -> bool:
        """Return True if an object fulfils all of them."""
        attrs, dims = info.attrs, info.dims
        return (
            (self.name is None or self.name.holds(info.name))
            and all(key in attrs and criterion.holds(attrs[key]) for key, criterion in self.attrs.items())
            and all(dim in dims and (size is None or size.holds(dims[dim])) for dim, size in self.dims.items())
            and set(self.variables) <= set(info.variables)
        )


def _checked_names(names: object, what: str) -> tuple[str, ...]:
    """Return one name or several as a tuple. WrongType for what is no text."""
    if names is not None and not isinstance(names, Iterable):
        raise WrongType(f"{what} are {names!r}", remedy="give names as text, or several in a list")
    several = tuple([names] if isinstance(names, str) else names or ())
    for name in several:
        if not isinstance(name, str):
            raise WrongType(f"{name!r} in {what} is no name", remedy="give names as text")
    return several


def parse_moment(moment: Any, what: str) -> datetime:
    """Return a moment in UTC: of a datetime (UTC, unless it says otherwise), a date, a datetime64, or ISO text.
    Invalid.
    """
    if isinstance(moment, np.datetime64):
        moment = moment.astype("M8[us]").item()
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        if not isinstance(found, datetime):
            found = datetime(found.year, found.month, found.day)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, AttributeError, OverflowError):
        raise Invalid(f"{what} {moment!r} is no moment", remedy="write 2024-01-31 or 2024-01-31T12:00") from None


def _id_of_moment(moment: Any, what: str) -> ObjectId:
    """Return the least id of a moment, as of :func:`parse_moment`. Invalid."""
    try:
        return ObjectId(int(parse_moment(moment, what).timestamp()).to_bytes(4, "big") + bytes(8))
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
}
"""A projection: ``attrs`` and ``variables`` as lists, in which names are values."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object: id, name (None: it has none), ``Dataset`` or ``DataArray``, sizes by dimension (None: not known),
    names of the variables, attributes, when it was made (UTC), bytes of its cells (None: not known), and ``status``
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
    return ObjectInfo(
        id,
        row.get("name"),
        "DataArray" if data == [ARRAY] else "Dataset",
        dims,
        tuple(entry["k"] for entry in entries),
        {pair["k"]: pair["v"] for pair in row["attrs"]},
        id.generation_time if isinstance(id, ObjectId) else None,
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

    A value of ``attrs``, ``dims`` or ``name`` is what must be equal; a ``slice(low, high)`` a range that does not
    include ``high``; a set a choice. ``dims`` may be names alone. A mapping is compared, and is no query. What is
    still being made, or was replaced, is not found; ``versions``: what is kept of the latter is. Invalid.
    """
    sort = _ORDERS[parse_order(order)]
    wanted = Criteria.of(attrs, dims, names, name, since, until)

    def find() -> Iterator[ObjectInfo]:
        hidden = find_replaced(meta)
        # Sorted first, by an index; documents are made rows then, as the client takes them.
        pipeline: list[MutableDocument] = [
            {"$match": {STATUS: {"$in": [None, RETIRED]} if versions else {"$exists": False}, **wanted.query()}},
            {"$sort": sort},
            {"$project": INFO_PROJECTION},
        ]
        if rest := wanted.row_query():
            pipeline.append({"$match": rest})
        if limit is not None and limit < 0:
            raise Invalid(f"limit={limit}", remedy="give a number of at least 0")
        if limit == 0:
            return
        first, last = skip, None if limit is None else skip + limit
        if wanted.is_exact and len(hidden) <= CHUNKS_PER_QUERY:
            pipeline[0]["$match"]["_id"] = {"$nin": list(hidden)}
            pipeline += [{"$skip": skip}] if skip else []
            pipeline += [{"$limit": limit}] if limit else []
            first, last = 0, limit
        batch = min(_ROWS, last or _ROWS)
        with meta.aggregate(pipeline, allowDiskUse=True, collation=BINARY, batchSize=batch) as rows:
            infos = (parse_info(row) for row in rows if row["_id"] not in hidden)
            fitting = (info for info in infos if wanted.hold(info))
            yield from islice(fitting, first, last)

    return find()


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
    at = parse_moment(moment, "at")
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
    for row in meta.aggregate([{"$match": {"_id": {"$eq": id}}}, {"$project": INFO_PROJECTION}]):
        return parse_info(row)
    raise DocumentNotFoundError(id)
