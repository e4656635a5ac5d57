"""Results of queries: arrays that are looked for in the index, read again, checked, and given in order.

The candidates are those of the moment of the query. They are read some at a time, as far as they are asked for; one
that was removed or changed meanwhile, so that it fits no more, is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, overload

from hyperslab.database.arrays import Array, array_of
from hyperslab.database.conditions import Query, is_ordered, parse
from hyperslab.database.connection import OpenCollection
from hyperslab.database.index import AttributeIndex
from hyperslab.errors import Invalid, NodeNotFound, SchemaError
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.model.schemas import Record
from hyperslab.model.schemas.arrays import check_id, check_key

# Whoever wants the first of a million hits waits for few records; whoever wants all, for few rounds of requests.
FIRST_RECORDS, RECORDS_PER_READ = 16, 512
"""Records that are read together: few at first, then twice as many each time."""

SPARE_IDS = 64
"""Ids that are looked up besides those that a limit allows."""


def find(
    collection: OpenCollection,
    where: Any = None,
    /,
    *,
    order: str | None = None,
    limit: int | None = None,
    **wanted: Any,
) -> QueryResult:
    """Return the arrays of a collection that fulfil conditions, as :func:`.conditions.parse` takes them."""
    query = parse(collection.schema, where, wanted, order, limit)
    return QueryResult(collection, hits(collection.index, query))


def find_to_stack(
    collection: OpenCollection, stack: str | tuple[str, ...] | None, where: Any, wanted: Mapping[str, Any]
) -> QueryResult:
    """Return the same in the order of the attribute that they are to be stacked along, where it has one."""
    if isinstance(where, str):
        raise SchemaError(f"{where!r} is no condition", remedy=f"stack={where!r} says what to stack along")
    query = parse(collection.schema, where, wanted)
    ordered = {attribute.name for attribute in collection.schema.attributes if is_ordered(attribute)}
    query = replace(query, order=stack if stack in ordered else None)
    return QueryResult(collection, hits(collection.index, query))


def hits(index: AttributeIndex, query: Query) -> Hits:
    """Return the records that fulfil a query. One for all values of the key needs no index."""
    store = index.store
    key = query.key(store.document.schema)
    if key is None:
        limit = query.limit
        if limit is None or limit == 0:
            return Hits(index, query, [] if limit == 0 else index.ids(query))
        # A few more than are wanted, since some may be gone, or changed, when they are read.
        ids = index.ids(query, limit + SPARE_IDS)
        has_more = len(ids) == limit + SPARE_IDS
        return Hits(index, query, ids, partial(index.ids, query) if has_more else None)
    id = store.id_of(key)
    return Hits(index, query, [] if id is None else [id])


def walk(index: AttributeIndex) -> Iterator[Record]:
    """Yield all records of a collection in the order of their keys; none of them is kept."""
    query = Query()
    ids = iter(index.ids(query))
    for size in _sizes():
        if not (batch := list(islice(ids, size))):
            return
        yield from _read_matching(index, query, batch)


def _sizes(first: int = FIRST_RECORDS) -> Iterator[int]:
    size = first
    while True:
        yield size
        size = min(2 * size, max(first, RECORDS_PER_READ))


def _read_matching(index: AttributeIndex, query: Query, ids: Sequence[str]) -> list[Record]:
    """Return those of the records that are there and fulfil the query, in the order of their ids."""
    records = list(index.store.records(ids))
    if len(records) < len(ids):
        index.tell_unread(set(ids).difference(record.id for record in records))
    fitting = [record for record in records if query.holds(record)]
    found = {record.id: record for record in index.store.filter_committed(fitting)}
    return [found[id] for id in ids if id in found]


class Hits(Sequence[Record]):
    """The records that a query found; those of the ids that are still there and still fit.

    They are read from the end that is asked for: from the last one where nothing but a limit at the front decides
    which that is. ``more``: looks all ids up, where ``ids`` are the first of them alone and turn out to be too few.
    """

    def __init__(
        self, index: AttributeIndex, query: Query, ids: Sequence[str], more: Callable[[], Sequence[str]] | None = None
    ) -> None:
        self._index = index
        self._query = query
        self._ids = ids
        self._more = more
        self._lock = threading.Lock()
        self._left = range(len(ids))
        self._found: list[Record] = []
        self._ending: list[Record] = []
        self._sizes = _sizes()

    def _read(self, count: int | None) -> list[Record]:
        """Find so many of them, or all."""
        limit = self._query.limit
        wanted = limit if count is None or (limit is not None and limit < count) else count
        with self._lock:
            while self._left and (wanted is None or len(self._found) < wanted):
                size = next(self._sizes)
                if limit is not None:
                    size = min(size, limit - len(self._found))
                self._found += self._read_matching(self._left[:size])
                self._left = self._left[size:]
                if not self._left and self._more is not None and limit is not None and len(self._found) < limit:
                    self._look_up_more(self._more)
            self._join()
            return self._found

    def _look_up_more(self, more: Callable[[], Sequence[str]]) -> None:
        before = set(self._ids)
        self._ids, self._more = [*self._ids, *(id for id in more() if id not in before)], None
        self._left = range(len(before), len(self._ids))

    def _read_last(self, count: int) -> list[Record]:
        """Find the last so many of them, or all; those are at the end of what is given."""
        limit = self._query.limit
        if limit is not None and limit < len(self._ids):
            return self._read(None)
        with self._lock:
            sizes = _sizes(max(count - len(self._ending), 1))
            while self._left and len(self._ending) < count:
                size = next(sizes)
                self._ending[:0] = self._read_matching(self._left[-size:])
                self._left = self._left[:-size]
            self._join()
            return self._ending or self._found

    def _read_matching(self, places: range) -> list[Record]:
        return _read_matching(self._index, self._query, self._ids[places.start : places.stop])

    def _join(self) -> None:
        if not self._left:
            self._found += self._ending
            self._ending = []

    def __len__(self) -> int:
        return len(self._read(None))

    def __bool__(self) -> bool:
        return bool(self._read(1))

    def __iter__(self) -> Iterator[Record]:
        place = 0
        while place < len(self._read(place + 1)):
            yield self._found[place]
            place += 1

    @overload
    def __getitem__(self, place: int) -> Record: ...

    @overload
    def __getitem__(self, place: slice) -> list[Record]: ...

    def __getitem__(self, place: int | slice) -> Record | list[Record]:
        match place:
            case slice(step=int(step)) if step < 0:
                return self._read(None)[place]
            case slice(start=int(start), stop=stop) if start < 0 and (stop is None or stop < 0):
                return self._read_last(-start)[place]
            case slice(start=start, stop=int(stop)) if stop >= 0 and (start is None or start >= 0):
                return self._read(stop)[place]
            case slice():
                return self._read(None)[place]
        return (self._read(place + 1) if place >= 0 else self._read_last(-place))[place]


class QueryResult(Sequence[Array]):
    """The arrays that a query found, in its order: a sequence that reads records as they are asked for, from the end
    that is asked for.

    ``len`` reads the records of all of them. One that was removed since, or changed so that it no longer fits, before
    its record was read is not among them.
    """

    def __init__(
        self, collection: OpenCollection, hits: Sequence[Record], document: CollectionDocument | None = None
    ) -> None:
        """Take what was found; ``document``: that of the collection then, if not the present one."""
        self._collection = collection
        self._hits = hits
        self._document = document or collection.document

    def _array_of(self, record: Record) -> Array:
        return array_of(self._collection, record, self._document)

    def __len__(self) -> int:
        return len(self._hits)

    def __bool__(self) -> bool:
        return bool(self._hits)

    def __iter__(self) -> Iterator[Array]:
        return map(self._array_of, self._hits)

    @overload
    def __getitem__(self, place: int) -> Array: ...

    @overload
    def __getitem__(self, place: slice) -> QueryResult: ...

    def __getitem__(self, place: int | slice) -> Array | QueryResult:
        if isinstance(place, slice):
            return QueryResult(self._collection, self._hits[place], self._document)
        return self._array_of(self._hits[place])

    def __repr__(self) -> str:
        return f"<Found by a query in collection {self._collection.name!r}>"

    def to_xarray(
        self,
        stack: str | tuple[str, ...] | None = None,
        *,
        dim: str | None = None,
        absent: object = None,
        chunks: object = None,
    ) -> Any:
        """Return all of them as one lazy ``xarray.Dataset`` with a variable of the collection's name: a new first
        dimension has the values of the attribute ``stack`` as its coordinate, and is named ``dim`` if not as the
        attribute. Several attributes, ``("dt", "sym")``, make a grid with a dimension of each; where it has no array,
        cells are NaN, NaT or ``absent``.

        ``stack`` may be left out where there is one primary attribute. The other attributes are coordinates along it;
        scales, labels and times are those of their dimensions, as
        :func:`hyperslab.bridges.xarray.stacking.stacked` says. ``chunks={}`` makes one dask block of each array or
        tile. Invalid where nothing was found, and for two arrays at one place; SchemaError for an attribute
        that is none.
        """
        from hyperslab.bridges.xarray.stacking import Stack, stacked

        with self._collection.locate_errors():
            along = self._along(stack)
            found = list(self)
            if not found:
                message = f"no array of {self._collection.name!r} was found to stack"
                raise Invalid(message, remedy="ask for some that are there")
            names = [attribute.name for attribute in self._collection.schema.attributes]
            values = [{**each.primary_attributes, **each.custom_attributes} for each in found]
            columns = {name: [each[name] for each in values] for name in names}
            starts = {
                each.name: each.attribute
                for each in self._collection.schema.time_dimensions
                if each.attribute is not None
            }
            arrays = [each.array for each in found]
            return stacked(Stack(self._collection.name, arrays, along, columns, starts, dim, absent), chunks)

    def _along(self, stack: str | tuple[str, ...] | None) -> str | tuple[str, ...]:
        if stack is not None:
            return stack
        schema = self._collection.schema
        if not schema.attributes:
            message = f"the arrays of {self._collection.name!r} have no attribute to stack them along"
            raise SchemaError(message, remedy="array.array.to_xarray() makes a DataArray of one")
        primary = [attribute.name for attribute in schema.primary_attributes]
        if len(primary) != 1:
            names = ", ".join(repr(attribute.name) for attribute in schema.attributes)
            raise SchemaError("which attribute to stack along is not said", remedy=f"stack= one or several of {names}")
        return primary[0]


# -- collection.filter({...}) -----------------------------------------------------------------------------------------


class FilteredManager:
    """The arrays of a collection whose attributes have certain values; they are looked for when they are asked for."""

    def __init__(self, collection: OpenCollection, wanted: object) -> None:
        if not isinstance(wanted, Mapping):
            raise SchemaError(f"a filter of {wanted!r}", remedy="give a mapping of attributes to values")
        self._collection = collection
        self._wanted = dict(wanted)
        own = any(attribute.name == "id" for attribute in collection.schema.attributes)  # then it is one like any other
        self._id = None if own or "id" not in self._wanted else check_id(self._wanted["id"])
        values = {name: value for name, value in self._wanted.items() if self._id is None or name != "id"}
        self._values = check_key(collection.schema, values)

    def filter(self, wanted: Mapping[str, object]) -> FilteredManager:
        """Return those among them that have other values besides; SchemaError for a second value of one attribute."""
        with self._collection.locate_errors():
            other = FilteredManager(self._collection, wanted)
            both = sorted(self._wanted.keys() & other._wanted.keys())
            if both:
                message = f"two values for {both[0]!r} in a filter"
                raise SchemaError(message, remedy="give one, or query() for any of a list")
            return FilteredManager(self._collection, {**self._wanted, **other._wanted})

    def first(self) -> Array | None:
        """Return the first of them in the order of keys; None when there is none."""
        return next(iter(self._find()), None)

    def last(self) -> Array | None:
        """Return the last of them in the order of keys; None when there is none."""
        return next(iter(self._find()[-1:]), None)

    def __iter__(self) -> Iterator[Array]:
        return iter(self._find())

    def __repr__(self) -> str:
        return f"<FilteredManager of collection {self._collection.name!r}: {self._wanted}>"

    def _find(self) -> Sequence[Array]:
        """Return those that are there; what is asked for by its id or whole key needs no index, and is told when
        damaged."""
        collection, query = self._collection, parse(self._collection.schema, self._values, {})
        with collection.locate_errors():
            store, key = collection.required_store(), query.key(collection.schema)
        if self._id is None and key is None:
            return find(collection, self._values)
        id = self._id if key is None or self._id is not None else store.id_of(key)
        try:
            record = None if id is None else store.record(id)
        except NodeNotFound:
            record = None
        fits = record is not None and query.holds(record)
        return [array_of(collection, record)] if record is not None and fits else []
