"""A collection: arrays of one schema, made, found and removed by their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hyperslab.database.arrays import Array, array_of
from hyperslab.database.creation import given_record, new_record
from hyperslab.database.filters import FilteredManager
from hyperslab.database.html import collection_html
from hyperslab.database.members import Manager, TileMembers
from hyperslab.database.open_collection import OpenCollection
from hyperslab.database.queries import QueryResult, find, find_to_stack, walk
from hyperslab.database.tiles import tile_schema
from hyperslab.errors import Invalid, NodeNotFound
from hyperslab.model.schemas import ArraySchema, HDF5Options, VArraySchema
from hyperslab.model.schemas.records import check_id


class Collection:
    """Arrays of one schema. Going through it gives them in the order of their keys; ``len`` counts them.

    It is pickled, as its arrays are, as where it lies, without secrets, and opened when it is first used.
    """

    def __init__(self, held: OpenCollection) -> None:
        self._held = held

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name."""
        return self._held.name

    @property
    def schema(self) -> ArraySchema | VArraySchema:
        """The schema of its arrays."""
        return self._held.schema

    @property
    def array_schema(self) -> ArraySchema:
        """The schema of its arrays; of a collection of VArrays, that of their tiles."""
        schema = self.schema
        return tile_schema(schema) if isinstance(schema, VArraySchema) else schema

    @property
    def varray_schema(self) -> VArraySchema | None:
        """The schema of its VArrays; None when it has none."""
        schema = self.schema
        return schema if isinstance(schema, VArraySchema) else None

    @property
    def options(self) -> HDF5Options | None:
        """How HDF5 files are cut and compressed; None where nothing was said."""
        return self._held.document.options

    @property
    def layout(self) -> str:
        """How it lies in the store: ``hyperslab`` or ``deker``."""
        return self._held.document.layout

    @property
    def as_dict(self) -> dict[str, Any]:
        """Its document, as JSON values: what :meth:`Client.collection_from_dict` makes a collection of."""
        return self._held.document.as_dict

    @property
    def url(self) -> str:
        """Where it lies, without secrets."""
        return self._held.url

    @property
    def path(self) -> Path | str:
        """The folder of its data; the URL where there are no folders."""
        return self._held.path

    @property
    def arrays(self) -> Manager | TileMembers:
        """Its arrays; of a collection of VArrays, their tiles."""
        return Manager(self) if self.varray_schema is None else TileMembers(self)

    @property
    def varrays(self) -> Manager:
        """Its VArrays; Invalid where it has Arrays."""
        if self.varray_schema is None:
            message = f"the collection {self.name!r} has no VArrays"
            raise Invalid(message, url=self.url, node=self.name, remedy="use .arrays")
        return Manager(self)

    # -- making -----------------------------------------------------------------------------------------------------

    def create(
        self,
        primary_attributes: Mapping[str, Any] | None = None,
        custom_attributes: Mapping[str, Any] | None = None,
        id_: str | None = None,
    ) -> Array:
        """A new array without data. Every primary attribute is needed, and every custom one that is a datetime.

        SchemaError for attributes that do not fit, AlreadyExists for a key (or an ``id_``) that is taken, also where
        several processes create it at once.
        """
        with self._held.located():
            self._held.connection.require_writable()
            record = new_record(self._held.document, primary_attributes, custom_attributes, id_)
            self._held.required().create([record])
        return array_of(self._held, record)

    def create_many(self, arrays: Iterable[Any]) -> list[Array]:
        """New arrays, all of them or none, made durable together: far faster than one by one.

        Readers see all of them or none, and so does who comes after a kill; but in DEKER's layout, or without primary
        attributes, each shows when it is made, and a kill leaves those that were.
        ``arrays``: of each the primary and the custom attributes, as a pair of mappings or as one mapping of all.
        """
        with self._held.located():
            self._held.connection.require_writable()
            records = [given_record(self._held.document, attributes) for attributes in arrays]
            holding = self._held.required()
            if records:
                holding.create(records)
        return [array_of(self._held, record) for record in records]

    # -- finding ----------------------------------------------------------------------------------------------------

    def filter(self, wanted: Mapping[str, Any]) -> FilteredManager:
        """The array with an ``id`` or with all these primary attributes; also those with any other attributes.

        ``.first()`` and ``.last()`` give an array or None. SchemaError for attributes that are not in the schema, for
        values of another type, and for an ``id`` that no array can have.
        """
        with self._held.located():
            self._held.connection.require_open()
            return FilteredManager(self._held, wanted)

    def query(
        self, where: Any = None, /, *, order: str | None = None, limit: int | None = None, **conditions: Any
    ) -> QueryResult:
        """The arrays whose attributes, primary or custom, meet all conditions, as a list.

        A value is met by its equal; ``(low, high)`` or a slice by what lies between, both included, None open; a list
        or set by its members; ``Prefix("A")`` by text that begins so. ``order`` names an attribute (``"-dt"``:
        descending); else they come in the order of keys. ``limit``: so many at the most.
        """
        with self._held.located():
            self._held.required()
            return find(self._held, where, order=order, limit=limit, **conditions)

    def to_xarray(
        self,
        where: Any = None,
        /,
        *,
        stack: str | None = None,
        dim: str | None = None,
        chunks: Any = None,
        **conditions: Any,
    ) -> Any:
        """The arrays that meet the conditions of :meth:`query` as one lazy ``xarray.Dataset`` along the attribute
        ``stack``, as :meth:`QueryResult.to_xarray` makes it."""
        with self._held.located():
            self._held.required()
            return find_to_stack(self._held, stack, where, conditions).to_xarray(stack, dim=dim, chunks=chunks)

    def get(self, id: str | Mapping[str, Any] | None = None, /, **attributes: Any) -> Array | None:
        """Return the array with this id, or with these attributes; None when there is none. SchemaError as for
        filter."""
        if isinstance(id, str):
            return self.filter({"id": id, **attributes}).first()
        return self.filter({**(id or {}), **attributes}).first()

    def __getitem__(self, id: str) -> Array:
        """The array with this id; NodeNotFound (a KeyError)."""
        with self._held.located():
            return array_of(self._held, self._held.holding.record(check_id(id)))

    def __contains__(self, id: object) -> bool:
        if isinstance(id, Array):
            id = id.id
        try:
            self._held.holding.record(check_id(id))
        except (NodeNotFound, Invalid):
            return False
        return True

    def first(self) -> Array | None:
        """The array with the first key; None when there is none."""
        return next(iter(self), None)

    def last(self) -> Array | None:
        """The array with the last key; None when there is none."""
        with self._held.located():
            self._held.required()
        return next((array_of(self._held, record) for record in walk(self._held.index, backwards=True)), None)

    def __iter__(self) -> Iterator[Array]:
        with self._held.located():
            self._held.required()
        return map(partial(array_of, self._held), walk(self._held.index))

    def __len__(self) -> int:
        with self._held.located():
            self._held.required()
            return self._held.index.count()

    @property
    def unreadable(self) -> int:
        """How many arrays were left out when some were looked for last, since what is stored of them could not be read;
        :func:`hyperslab.check` tells of each what is wrong."""
        return self._held.index.unread

    def __bool__(self) -> bool:
        return True

    # -- removing ---------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Remove all its arrays; the collection stays."""
        self._held.connection.require_writable()
        self._held.required().clear()

    def delete(self) -> None:
        """Remove the collection with all that belongs to it; one that is gone already is fine."""
        self._held.connection.require_writable()
        self._held.connection.drop(self.name)

    # -- how it looks -----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Collection) and (self.path, self.schema) == (other.path, other.schema)

    def __hash__(self) -> int:
        return hash(self.path)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Collection(name={self.name!r}, schema={self.schema!r}, layout={self.layout!r})"

    def _repr_html_(self) -> str:
        return collection_html(self._held.document)
