"""Objects as documents: found, named, removed and copied, by the two collections they lie in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from bson import ObjectId
from pymongo.collation import Collation

from hyperslab.errors import Invalid
from hyperslab.formats.mongo.copying import copy
from hyperslab.formats.mongo.criteria import Criteria
from hyperslab.formats.mongo.faults import DocumentNotFoundError
from hyperslab.formats.mongo.names import STATUS, commit, delete, rename, replaced, resolve, same_version, touch
from hyperslab.formats.mongo.summaries import ROW, ObjectInfo, info_of

if TYPE_CHECKING:
    from pymongo.collection import Collection

Order = Literal["created", "-created", "name", "-name"]
_ORDERS = {
    "created": {"_id": 1},
    "-created": {"_id": -1},
    "name": {"name": 1, "_id": 1},
    "-name": {"name": -1, "_id": 1},
}
_EXACTLY = Collation(locale="simple")


def find(
    meta: Collection[Any],
    attrs: Any = None,
    dims: Any = None,
    names: Any = None,
    name: Any = None,
    *,
    since: Any = None,
    until: Any = None,
    order: Order = "created",
    skip: int = 0,
    limit: int | None = None,
) -> Iterator[ObjectInfo]:
    """The objects that have these attributes, dimensions, variables and name, and were made in ``[since, until)``.

    A value of ``attrs``, ``dims`` or ``name`` is what must be equal; a ``slice(low, high)`` a range that does not
    include ``high``; a set a choice. ``dims`` may be names alone. A mapping is compared, and is no query. What is
    still being made, or was replaced, is not found. Invalid.
    """
    if order not in _ORDERS:
        raise Invalid(f"there is no order {order!r}", remedy=f"give one of {', '.join(_ORDERS)}")
    wanted = Criteria.of(attrs, dims, names, name, since, until)
    return _found(meta, wanted, order, skip, limit)


def _found(meta: Collection[Any], wanted: Criteria, order: Order, skip: int, limit: int | None) -> Iterator[ObjectInfo]:
    hidden = replaced(meta)
    pipeline = [
        {"$match": {STATUS: {"$exists": False}, **wanted.query()}},
        {"$project": ROW},
        {"$match": wanted.row_query()},
        {"$sort": _ORDERS[order]},
    ]
    with meta.aggregate(pipeline, allowDiskUse=True, collation=_EXACTLY) as rows:
        infos = (info_of(row) for row in rows if row["_id"] not in hidden)
        fitting = (info for info in infos if wanted.hold(info.name, info.attrs, info.dims, info.variables))
        yield from islice(fitting, skip, None if limit is None else skip + limit)


def describe(meta: Collection[Any], id: ObjectId) -> ObjectInfo:
    """What is told of one object, also of one that is being made. DocumentNotFoundError."""
    for row in meta.aggregate([{"$match": {"_id": {"$eq": id}}}, {"$project": ROW}]):
        return info_of(row)
    raise DocumentNotFoundError(id)


__all__ = [
    "ObjectInfo",
    "commit",
    "copy",
    "delete",
    "describe",
    "find",
    "rename",
    "resolve",
    "same_version",
    "touch",
]
