"""Looking for arrays as ``collection.filter({...})`` does: by id, by key, or by any of the attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hyperslab.database.arrays import Array, array_of
from hyperslab.database.conditions import parse
from hyperslab.database.open_collection import OpenCollection
from hyperslab.database.queries import find
from hyperslab.errors import NodeNotFound, SchemaError
from hyperslab.model.schemas.records import check_id, check_key


class FilteredManager:
    """The arrays of a collection whose attributes have certain values; they are looked for when they are asked for."""

    def __init__(self, held: OpenCollection, wanted: Any) -> None:
        if not isinstance(wanted, Mapping):
            raise SchemaError(f"a filter of {wanted!r}", remedy="give a mapping of attributes to values")
        self._held = held
        self._wanted = dict(wanted)
        own = any(attribute.name == "id" for attribute in held.schema.attributes)  # then it is one like any other
        self._id = None if own or "id" not in self._wanted else check_id(self._wanted["id"])
        values = {name: value for name, value in self._wanted.items() if self._id is None or name != "id"}
        self._values = check_key(held.schema, values)

    def filter(self, wanted: Mapping[str, Any]) -> FilteredManager:
        """Those among them that have other values besides; SchemaError for a second value of one attribute."""
        with self._held.located():
            other = FilteredManager(self._held, wanted)
            both = sorted(self._wanted.keys() & other._wanted.keys())
            if both:
                message = f"two values for {both[0]!r} in a filter"
                raise SchemaError(message, remedy="give one, or query() for any of a list")
            return FilteredManager(self._held, {**self._wanted, **other._wanted})

    def first(self) -> Array | None:
        """The first of them in the order of keys; None when there is none."""
        return next(iter(self._found()), None)

    def last(self) -> Array | None:
        """The last of them in the order of keys; None when there is none."""
        return next(iter(self._found()[-1:]), None)

    def __iter__(self) -> Iterator[Array]:
        return iter(self._found())

    def __repr__(self) -> str:
        return f"<FilteredManager of collection {self._held.name!r}: {self._wanted}>"

    def _found(self) -> Sequence[Array]:
        """Those that are there; what is asked for by its id or whole key needs no index, and is told when damaged."""
        held, query = self._held, parse(self._held.schema, self._values, {})
        with held.located():
            holding, key = held.required(), query.key(held.schema)
        if self._id is None and key is None:
            return find(held, self._values)
        id = self._id if key is None or self._id is not None else holding.id_of(key)
        try:
            record = None if id is None else holding.record(id)
        except NodeNotFound:
            record = None
        fits = record is not None and all(each.holds(record) for each in query.conditions)
        return [array_of(held, record)] if record is not None and fits else []
