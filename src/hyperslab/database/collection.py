"""A collection: arrays of one schema, made, found and removed by their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from hyperslab.array.html import definitions, page, section, text
from hyperslab.array.session import OpenDataset
from hyperslab.database.arrays import Array, Subset, VArray, array_of, stored_tiles, tile_schema
from hyperslab.database.conditions import Query
from hyperslab.database.connection import OpenCollection, connection_of
from hyperslab.database.dimensions import labels_text
from hyperslab.database.index import AttributeIndexState
from hyperslab.database.queries import FilteredManager, QueryResult, find, find_to_stack, hits, walk
from hyperslab.errors import Invalid, NodeNotFound, SchemaError, Unsupported
from hyperslab.formats.collections.base import CollectionDocument
from hyperslab.model.amounts import size_text
from hyperslab.model.schemas import AnyDimensionSchema, ArraySchema, HDF5Options, Record, VArraySchema
from hyperslab.model.schemas.arrays import check_collection_name, check_id, check_new, new_id
from hyperslab.model.schemas.attributes import AttributeSchema, type_name


def collection_of(session: OpenDataset, name: str, memory_limit: int) -> Collection | None:
    """Return a collection of a dataset that is open, None where it has none of this name. ``memory_limit``: bytes that
    one subset may take."""
    if not session.format.traits.has_collections:
        return None
    connection = connection_of(session.url, "r", memory_limit, session)
    store = connection.find_collection(name)
    return None if store is None else Collection(OpenCollection(connection, store.document, (session, store)))


class Collection:
    """Arrays of one schema. Going through it gives them in the order of their keys; ``len`` counts them.

    It is pickled, as its arrays are, as where it lies, without secrets, and opened when it is first used.
    """

    def __init__(self, collection: OpenCollection) -> None:
        self._collection = collection

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name."""
        return self._collection.name

    @property
    def schema(self) -> ArraySchema | VArraySchema:
        """The schema of its arrays."""
        return self._collection.schema

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
        """The chunks and filters of HDF5 files; None where none were chosen."""
        return self._collection.document.options

    @property
    def layout(self) -> str:
        """The layout in the store: ``hyperslab`` or ``deker``."""
        return self._collection.document.layout

    @property
    def as_dict(self) -> dict[str, Any]:
        """Its document, as JSON values: what :meth:`Client.collection_from_dict` makes a collection of."""
        return self._collection.document.as_dict

    @property
    def url(self) -> str:
        """The URL, without secrets."""
        return self._collection.url

    @property
    def path(self) -> Path | str:
        """The folder of its data; the URL where there are no folders."""
        return self._collection.path

    @property
    def arrays(self) -> Manager | TileMembers:
        """Its arrays; of a collection of VArrays, their tiles."""
        return Manager(self) if self.varray_schema is None else TileMembers(self)

    @property
    def varrays(self) -> Manager:
        """Its VArrays; Invalid where it has Arrays."""
        if self.varray_schema is None:
            message = f"the collection {self.name!r} has no VArrays"
            raise Invalid(message, url=self._collection.connection.url, node=self.name, remedy="use .arrays")
        return Manager(self)

    # -- making -----------------------------------------------------------------------------------------------------

    def create(
        self,
        primary_attributes: Mapping[str, Any] | None = None,
        custom_attributes: Mapping[str, Any] | None = None,
        id_: str | None = None,
    ) -> Array:
        """Make a new array without data. Every primary attribute is needed, and every custom one that is a datetime.

        SchemaError for attributes that do not fit, AlreadyExists for a key (or an ``id_``) that is taken, also where
        several processes create it at once.
        """
        with self._collection.locate_errors():
            self._collection.connection.require_writable()
            store = self._collection.required_store()
            record = new_record(self._collection.document, primary_attributes, custom_attributes, id_)
            store.create([record])
        return array_of(self._collection, record)

    def create_many(self, arrays: Iterable[object]) -> list[Array]:
        """Make arrays, all of them or none, made durable together: far faster than one by one.

        Readers see all of them or none, and so does who comes after a kill; but in DEKER's layout, or without primary
        attributes, each shows when it is made, and a kill leaves those that were.
        ``arrays``: of each the primary and the custom attributes, as a pair of mappings or as one mapping of all.
        """
        with self._collection.locate_errors():
            self._collection.connection.require_writable()
            store = self._collection.required_store()
            records = [record_of_attributes(self._collection.document, attributes) for attributes in arrays]
            if records:
                store.create(records)
        return [array_of(self._collection, record) for record in records]

    # -- finding ----------------------------------------------------------------------------------------------------

    def filter(self, wanted: Mapping[str, object]) -> FilteredManager:
        """Return the array with an ``id`` or with all these primary attributes; also those with any other attributes.

        ``.first()`` and ``.last()`` give an array or None. SchemaError for attributes that are not in the schema, for
        values of another type, and for an ``id`` that no array can have.
        """
        with self._collection.locate_errors():
            self._collection.required_store()
            return FilteredManager(self._collection, wanted)

    def query(
        self, where: object = None, /, *, order: str | None = None, limit: int | None = None, **conditions: Any
    ) -> QueryResult:
        """Return the arrays whose attributes, primary or custom, meet all conditions, as a list.

        A value is met by its equal; ``(low, high)`` or a slice by what lies between, both included, None open; a list
        or set by its members; ``Prefix("A")`` by text that begins so, ``Like("A*7")`` by text of a pattern, and
        ``Not(...)`` by all else. ``where`` may be a list of mappings: sets of conditions of which one must be met.
        ``order`` names an attribute (``"-dt"``: descending); else they come in the order of keys. ``limit``: so many at
        the most.
        """
        with self._collection.locate_errors():
            self._collection.required_store()
            return find(self._collection, where, order=order, limit=limit, **conditions)

    def to_xarray(
        self,
        where: object = None,
        /,
        *,
        stack: str | tuple[str, ...] | None = None,
        dim: str | None = None,
        absent: object = None,
        chunks: object = None,
        **conditions: Any,
    ) -> Any:
        """Return the arrays that meet the conditions of :meth:`query` as one lazy ``xarray.Dataset`` along the
        attribute ``stack``, or as the grid of several, as :meth:`QueryResult.to_xarray` makes it."""
        with self._collection.locate_errors():
            self._collection.required_store()
            found = find_to_stack(self._collection, stack, where, conditions)
            return found.to_xarray(stack, dim=dim, absent=absent, chunks=chunks)

    def get(self, id: str | Mapping[str, Any] | None = None, /, **attributes: Any) -> Array | None:
        """Return the array with this id, or with these attributes; None when there is none. SchemaError as for
        filter."""
        if isinstance(id, str):
            return self.filter({"id": id, **attributes}).first()
        return self.filter({**(id or {}), **attributes}).first()

    def __getitem__(self, id: str) -> Array:
        """Return the array with this id; NodeNotFound (a KeyError)."""
        with self._collection.locate_errors():
            return array_of(self._collection, self._collection.store.record(check_id(id)))

    def __contains__(self, id: object) -> bool:
        if isinstance(id, Array):
            id = id.id
        try:
            self._collection.store.record(check_id(id))
        except (NodeNotFound, Invalid):
            return False
        return True

    def first(self) -> Array | None:
        """Return the array with the first key; None when there is none."""
        return self._find_end(backwards=False)

    def last(self) -> Array | None:
        """Return the array with the last key; None when there is none."""
        return self._find_end(backwards=True)

    def _find_end(self, *, backwards: bool) -> Array | None:
        with self._collection.locate_errors():
            self._collection.required_store()
            found = hits(self._collection.index, Query(backwards=backwards, limit=1))
            return array_of(self._collection, found[0]) if found else None

    def __iter__(self) -> Iterator[Array]:
        self._collection.required_store()
        document = self._collection.document  # of the records, whatever becomes of the schema meanwhile
        return (array_of(self._collection, record, document) for record in walk(self._collection.index))

    def __len__(self) -> int:
        with self._collection.locate_errors():
            self._collection.required_store()
            return self._collection.index.count()

    @property
    def unreadable(self) -> int:
        """The number of arrays that were left out when some were looked for last, since what is stored of them could
        not be read; :func:`hyperslab.check` tells of each what is wrong."""
        return self._collection.index.unread

    def __bool__(self) -> bool:
        return True

    # -- older versions ---------------------------------------------------------------------------------------------

    def expire(self) -> int:
        """Remove the older versions of arrays that were kept for long enough (``keep_versions``), and return how many
        values these were. Writers do so with the arrays that they change."""
        with self._collection.locate_errors():
            self._collection.connection.require_writable()
            return self._collection.required_store().expire()

    # -- changing the schema, and the name -----------------------------------------------------------------------------

    def add_attribute(self, attribute: AttributeSchema) -> None:
        """Add a custom attribute to the schema, with a ``default``, which is its value in all arrays that are not given
        another one; no array is touched.

        Other processes that have the collection open go on with the new schema. SchemaError for a primary one, one
        without a default, and a name that is taken; Unsupported in DEKER's layout, whose schemas never change.
        """
        with self._collection.locate_errors():
            if not isinstance(attribute, AttributeSchema):
                raise SchemaError(f"{attribute!r} is no attribute", remedy="give an AttributeSchema with a default")
            self._collection.connection.require_writable()
            if self._collection.document.strict and attribute.dtype is datetime and attribute.unset_value is None:
                message = f"the new attribute {attribute.name!r} is a datetime, which is always set here"
                raise SchemaError(message, remedy="give a default")
            self._collection.required_store().add_attribute(attribute)
            self._collection.required_store()

    def remove_attribute(self, name: str) -> None:
        """Remove a custom attribute from the schema, and so from all arrays, at one stroke; no array is touched.

        Other processes that have the collection open go on without it. What was stored of it is read no more, also
        when an attribute of the same name is added later. SchemaError for a primary one, one that times of a dimension
        start at, and one that is not there; Unsupported in DEKER's layout.
        """
        with self._collection.locate_errors():
            self._collection.connection.require_writable()
            self._collection.required_store().remove_attribute(name)
            self._collection.required_store()

    def rename_attribute(self, name: str, new_name: str) -> None:
        """Give an attribute, primary or custom, another name, at one stroke; no array is touched, and times that start
        at it go on to.

        Other processes that have the collection open go on with the new name. Older states (``at=``) have it as well.
        SchemaError for one that is not there and a name that is taken; Unsupported in DEKER's layout.
        """
        with self._collection.locate_errors():
            self._collection.connection.require_writable()
            self._collection.required_store().rename_attribute(name, new_name)
            self._collection.required_store()

    def rename(self, name: str) -> Collection:
        """Give the collection another name, at one stroke, and return it; this object finds it gone from then on, and
        so does who has it open. AlreadyExists, SchemaError; Unsupported in buckets and in DEKER's layout."""
        with self._collection.locate_errors():
            connection = self._collection.connection
            connection.require_writable()
            self._collection.required_store().rename(check_collection_name(name))
            store = connection.find_collection(name)
            if store is None:
                raise self._collection.not_found_error()
            return Collection(OpenCollection(connection, store.document, (connection.session, store)))

    # -- the index --------------------------------------------------------------------------------------------------

    def index_state(self) -> AttributeIndexState:
        """Return where the index of its attributes is stored, and how much of it is up to date."""
        with self._collection.locate_errors():
            self._collection.required_store()
            return self._collection.index.state()

    def make_index(self) -> int:
        """Make the stored index anew, of all documents, while others read and write; return the number of arrays.

        It is never needed: an index is kept up to date by its writers, and what it lacks is read by whoever asks. It
        spares those who may not write the work that others left. Unsupported where the index is in memory alone.
        """
        with self._collection.locate_errors():
            self._collection.connection.require_writable()
            if self._collection.required_store().index_database is None:
                remedy = 'make the collection with index="stored", on a disk of this machine or in a bucket'
                raise Unsupported(f"the index of {self.name!r} is in memory", remedy=remedy)
            return self._collection.index.make()

    # -- removing ---------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Remove all its arrays; the collection stays."""
        self._collection.connection.require_writable()
        self._collection.required_store().clear()

    def delete(self) -> None:
        """Remove the collection with all that belongs to it; one that is gone already is fine."""
        self._collection.connection.require_writable()
        self._collection.connection.drop(self.name)

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
        return collection_html(self._collection.document)


# -- collection.arrays and collection.varrays -------------------------------------------------------------------------


_OF_A_TILE = {"vid", "v_position"}


class Manager:
    """The arrays of a collection: make one, look for some, go through all."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def create(
        self,
        primary_attributes: Mapping[str, Any] | None = None,
        custom_attributes: Mapping[str, Any] | None = None,
        id_: str | None = None,
    ) -> Array:
        """Make a new array, as :meth:`Collection.create` makes it."""
        return self._collection.create(primary_attributes, custom_attributes, id_)

    def filter(self, wanted: Mapping[str, object]) -> FilteredManager:
        """Return arrays by id, key or attributes, as :meth:`Collection.filter` finds them."""
        return self._collection.filter(wanted)

    def __iter__(self) -> Iterator[Array]:
        return iter(self._collection)

    def __len__(self) -> int:
        return len(self._collection)


class Tile:
    """One tile of a VArray that has data: which one it is, and its cells."""

    def __init__(self, array: VArray, position: tuple[int, ...]) -> None:
        self.array = array
        self.v_position = position

    @property
    def vid(self) -> str:
        """The id of the VArray."""
        return self.array.id

    @property
    def primary_attributes(self) -> dict[str, Any]:
        """The VArray's id and the tile's position."""
        return {"vid": self.vid, "v_position": self.v_position}

    @property
    def subset(self) -> Subset:
        """Its cells, to be read, updated or cleared."""
        places = zip(self.v_position, self.array.arrays_shape, strict=True)
        return self.array[tuple(slice(place * length, (place + 1) * length) for place, length in places)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Its cells along each dimension, those within the array."""
        return self.subset.shape

    def __repr__(self) -> str:
        return f"Tile(vid={self.vid!r}, v_position={self.v_position})"


class TileMembers:
    """The tiles that have data, of all the VArrays of a collection or those ``wanted``. Writing into VArrays makes
    them."""

    def __init__(self, collection: Collection, wanted: Mapping[str, Any] | None = None) -> None:
        self._collection = collection
        self._wanted = dict(wanted or {})

    def create(self, *args: Any, **kwargs: Any) -> Tile:
        """Raise Unsupported: a tile is made when cells of it are written."""
        raise Unsupported("tiles are not made one by one", remedy="update() the VArray that they belong to")

    def filter(self, wanted: Mapping[str, object]) -> TileMembers:
        """Return those of one VArray (``vid``), or those at one ``v_position``; SchemaError for anything else."""
        if not isinstance(wanted, Mapping) or not wanted.keys() <= _OF_A_TILE:
            raise SchemaError(f"a filter of tiles by {wanted!r}", remedy="give vid, v_position or both")
        return TileMembers(self._collection, {**self._wanted, **wanted})

    def first(self) -> Tile | None:
        """Return the first of them; None when there is none."""
        return next(iter(self), None)

    def last(self) -> Tile | None:
        """Return the last of them; None when there is none."""
        return next(iter([*self][-1:]), None)

    def __iter__(self) -> Iterator[Tile]:
        for array in self._collection:
            if isinstance(array, VArray) and self._wanted.get("vid", array.id) == array.id:
                places = stored_tiles(array.array)
                yield from (Tile(array, place) for place in places if self._wanted.get("v_position", place) == place)


# -- the page of a notebook -------------------------------------------------------------------------------------------


# Labels of a dimension in the page of a notebook: a line or two.
_MOST_LABELS = 20


def collection_html(document: CollectionDocument) -> str:
    """Return the page of a collection: what its schema says."""
    schema = document.schema
    sizes = [each.size for each in schema.dimensions]
    header = (
        f'<span class="hs-kind">hyperslab.database.Collection</span> '
        f'<span class="hs-name">{text(document.name)}</span> '
        f"({', '.join(f'{text(each.name)}: {_size(each.size)}' for each in schema.dimensions)}) "
        f"<code>{text(schema.dtype)}</code>"
    )
    dimensions = {each.name: _dimension_text(each) for each in schema.dimensions}
    kinds = {each.name: f"{type_name(each.dtype)}{', primary' if each.primary else ''}" for each in schema.attributes}
    facts = {"Layout": text(document.layout), "Fill value": f"<code>{text(schema.fill_value, 60)}</code>"}
    if None not in sizes:
        facts["One array"] = size_text(schema.nbytes)
    if isinstance(schema, VArraySchema):
        facts["Tiles"] = f"{text(schema.arrays_shape)}, {size_text(schema.tile_nbytes)} each"
    return page(
        header,
        definitions(facts),
        section(f"Dimensions ({len(dimensions)})", definitions(dimensions), opened=True),
        section(
            f"Attributes ({len(kinds)})", definitions({name: text(kind) for name, kind in kinds.items()}), opened=True
        ),
    )


def _size(size: int | None) -> str:
    return "unlimited" if size is None else f"{size:,}"


def _dimension_text(dimension: AnyDimensionSchema) -> str:
    called = labels_text(dimension, _MOST_LABELS)
    return text(f"{_size(dimension.size)}: {called}" if called else _size(dimension.size))


# -- records of new arrays --------------------------------------------------------------------------------------------


_REMEDY = "give (primary, custom), or one mapping of all attributes"


def new_record(document: CollectionDocument, primary: Any, custom: Any, id: str | None = None) -> Record:
    """Return the record of a new array; SchemaError for attributes that do not fit."""
    key, rest = check_new(document.schema, primary, custom, strict=document.strict)
    return Record(new_id() if id is None else check_id(id), key, rest)


def record_of_attributes(document: CollectionDocument, attributes: object) -> Record:
    """Return the record of one of many: of a pair of primary and custom attributes, or of a mapping of all."""
    match attributes:
        case Mapping():
            known = {each.name for each in document.schema.primary_attributes}
            primary = {name: value for name, value in attributes.items() if name in known}
            custom = {name: value for name, value in attributes.items() if name not in known}
            return new_record(document, primary, custom)
        case tuple() | list() if len(attributes) in (1, 2):
            return new_record(document, *attributes, *(None,) * (2 - len(attributes)))
    raise SchemaError(f"{attributes!r} are no attributes of an array", remedy=_REMEDY)
