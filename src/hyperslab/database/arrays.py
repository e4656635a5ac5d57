"""The arrays of a collection: records of attributes that hold a :class:`hyperslab.Array` of cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from hyperslab.array import Array as Cells
from hyperslab.array.opened import array_with
from hyperslab.database.cast_cells import as_cells
from hyperslab.database.dimensions import Dimension, TimeDimension, dimension
from hyperslab.database.html import array_html
from hyperslab.database.open_collection import OpenCollection
from hyperslab.database.slicing import Along, Item, resolve
from hyperslab.database.subsets import Subset, VSubset
from hyperslab.database.tiles import read_tiles, write_tiles
from hyperslab.errors import HyperslabError, NodeNotFound, SchemaError
from hyperslab.formats.collection_document import bare_spec
from hyperslab.formats.metadata_json.records import record_to_json
from hyperslab.model.schemas import ArraySchema, Record, VArraySchema
from hyperslab.model.schemas.records import changed


class Array:
    """An array of a collection: an ``id``, primary attributes that are its key, custom ones that may change, cells.

    ``array[key]`` is a :class:`Subset`, which reads nothing before it is asked to: ints are positions; floats, text and
    datetimes are values of a scale, labels and times; stops are exclusive. ``array.array`` are the cells themselves.
    """

    _kind = "Array"

    def __init__(self, held: OpenCollection, record: Record) -> None:
        self._held = held
        self._record = record
        self._cells: Cells | None = None
        self._session: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """It is pickled as where it is and what is known of it, without secrets."""
        return type(self), (self._held, self._record)

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id, a UUID."""
        return self._record.id

    @property
    def collection(self) -> str:
        """The name of the collection."""
        return self._held.name

    @property
    def schema(self) -> ArraySchema:
        """The schema that all arrays of the collection follow."""
        return self._held.schema

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the cells."""
        return self.schema.dtype

    @property
    def fill_value(self) -> Any:
        """What cells without data read as."""
        return self.schema.fill_value

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each dimension, as they are now where some of these are unlimited."""
        return self.array.shape if self.schema.unlimited else self.schema.shape

    @property
    def named_shape(self) -> tuple[tuple[str, int], ...]:
        """The names of the dimensions with their sizes."""
        return tuple((each.name, size) for each, size in zip(self.schema.dimensions, self.shape, strict=True))

    @property
    def dimensions(self) -> tuple[Dimension | TimeDimension, ...]:
        """The dimensions with what their positions are called; times start where this array's do."""
        schema, values = self.schema, self._record.values
        return tuple(dimension(each, values, size) for each, size in zip(schema.dimensions, self.shape, strict=True))

    @property
    def primary_attributes(self) -> dict[str, Any]:
        """The key, in the schema's order; it never changes."""
        return dict(self._record.primary)

    @property
    def custom_attributes(self) -> dict[str, Any]:
        """The other attributes as this object knows them; None where one has no value."""
        return dict(self._record.custom)

    @property
    def nbytes(self) -> int:
        """Bytes of all cells in memory."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    @property
    def as_dict(self) -> dict[str, Any]:
        """All that is said of the array, as plain values."""
        return {
            "id": self.id,
            "collection": self.collection,
            "dimensions": tuple(each.as_dict for each in self.dimensions),
            "shape": self.shape,
            "named_shape": self.named_shape,
            "primary_attributes": self.primary_attributes,
            "custom_attributes": self.custom_attributes,
        }

    @property
    def array(self) -> Cells:
        """The cells as a :class:`hyperslab.Array`, with NumPy's indexing, ``sel``, ``to_dask`` and the rest.

        NodeNotFound when the array is gone; ClientError when the client is closed.
        """
        session = self._held.session
        if self._cells is None or self._session is not session:
            holding = self._held.holding
            spec = holding.spec(self.id)
            self._cells = array_with(session, self._path, spec, holding.chunks(self.id, spec))
            self._session = session
        elif self.schema.unlimited:
            self._cells.refresh()
        return self._cells

    @property
    def memory_limit(self) -> int:
        """Bytes that one subset may take."""
        return self._held.connection.memory_limit

    # -- cells ------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Subset:
        """The part that a key selects; SelectionError or LabelError (IndexErrors) for what is not there, MemoryLimit
        for more than the client may take. Nothing is read."""
        with self._held.located(self.id):
            self._held.connection.require_open()
            named, values = self.named_shape, self._record.values
            indexes = self.schema.indexes(values, [size for _, size in named])
            return self._subset(resolve(key, [Along(name, size, indexes.get(name)) for name, size in named]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self[...].__array__(dtype, copy)

    def _subset(self, resolved: Any) -> Subset:
        return Subset(self, resolved)

    def append(self, data: Any, dim: str | int = 0) -> None:
        """Add cells at the end of an unlimited dimension; ``data`` has the array's shape but for its length there, and
        its type, or one that it holds without loss, as ``update`` takes it.

        SchemaError for a dimension that does not grow; Conflict when another writer holds the array for too long.
        """
        names = [each.name for each in self.schema.dimensions]
        name = names[dim] if isinstance(dim, int) and -len(names) <= dim < len(names) else dim
        if name not in self.schema.unlimited:
            message = f"dimension {name!r} does not grow"
            raise SchemaError(message, url=self._held.url, node=self._path, remedy="declare it with size=None")
        self._exists()
        self.array.append(self.cast_cells(data, None), str(name))

    def cast_cells(self, data: Any, shape: tuple[int, ...] | None) -> np.ndarray[Any, Any]:
        """Cells of this shape, or of any, in the array's type; what :func:`.given.as_cells` raises tells the array."""
        with self._held.located(self.id):
            return as_cells(data, self.dtype, shape, self.fill_value)

    def read_cells(self, items: tuple[Item, ...]) -> Any:
        """The cells of a key of positions, one item for each dimension; NodeNotFound when the array is gone."""
        with self._held.located(self.id):
            values = self._read(self.array, items)
            self._exists()  # asked last: what is removed meanwhile would read as fill
        return values

    def write_cells(self, items: tuple[Item, ...], values: np.ndarray[Any, Any]) -> None:
        """Store cells, of the shape of the key or one for all; NodeNotFound when the array is gone."""
        with self._held.located(self.id):
            self._held.connection.require_writable()
            self._exists()
            self._write(self.array, items, values)

    def _read(self, cells: Cells, items: tuple[Item, ...]) -> Any:
        return cells.lazy[items].read()

    def _write(self, cells: Cells, items: tuple[Item, ...], values: np.ndarray[Any, Any]) -> None:
        cells.lazy[items].write(values)

    def _exists(self) -> None:
        if self._held.holding.stamp(self.id) is None:
            raise self._gone()

    def _gone(self) -> NodeNotFound:
        remedy = "it was deleted: create a new one"
        return NodeNotFound(f"{self} is not there any more", url=self._held.url, node=self._path, remedy=remedy)

    @property
    def _path(self) -> str:
        return f"{self.collection}/{self.id}"

    # -- the record -------------------------------------------------------------------------------------------------

    def update_custom_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Give custom attributes other values; the rest stay as they are stored, whoever changed them last.

        SchemaError for none, for unknown or primary ones and for values of another type; NodeNotFound when the array
        is gone.
        """
        strict = self._held.document.strict
        with self._held.located(self.id):
            self._held.connection.require_writable()
            self._record = self._held.holding.update(
                self.id, lambda record: changed(self.schema, record, attributes, strict=strict)
            )
        self._cells = None

    def read_meta(self) -> dict[str, Any]:
        """The record as it is stored now, as JSON values; this object knows it from then on. NodeNotFound."""
        with self._held.located(self.id):
            self._record = self._held.holding.record(self.id)
        return record_to_json(self._record)

    def delete(self) -> None:
        """Remove the array with its cells; one that is gone already is fine."""
        self._held.connection.require_writable()
        self._held.holding.remove(self.id)

    # -- how it looks -----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and (self.id, self._held.path) == (other.id, other._held.path)

    def __hash__(self) -> int:
        return hash((self.id, self._held.path))

    def __str__(self) -> str:
        return f"{self._kind}({self.id})"

    def __repr__(self) -> str:
        return (
            f"{self._kind}(id={self.id!r}, collection={self.collection!r}, "
            f"primary_attributes={self.primary_attributes}, custom_attributes={self.custom_attributes})"
        )

    def _repr_html_(self) -> str:
        try:
            spec = self.array.spec
        except HyperslabError:  # it is gone, or its client is closed
            spec = bare_spec(self._held.document, self._record)
        return array_html(self, spec)


class VArray(Array):
    """An array that is cut into a grid of tiles: it is used as any :class:`Array`, and reads and writes the tiles that
    a key touches, several at a time."""

    _kind = "VArray"

    @property
    def schema(self) -> VArraySchema:
        """The schema that all arrays of the collection follow."""
        return cast(VArraySchema, self._held.schema)

    @property
    def vgrid(self) -> tuple[int, ...]:
        """Tiles along each dimension."""
        return tuple(-(-size // tile) for size, tile in zip(self.shape, self.arrays_shape, strict=True))

    @property
    def arrays_shape(self) -> tuple[int, ...]:
        """The shape of a tile."""
        return self.schema.arrays_shape

    @property
    def as_dict(self) -> dict[str, Any]:
        """All that is said of the array, as plain values."""
        return {**super().as_dict, "vgrid": self.vgrid}

    def _subset(self, resolved: Any) -> VSubset:
        return VSubset(self, resolved)

    def _read(self, cells: Cells, items: tuple[Item, ...]) -> Any:
        return read_tiles(cells, items, self.arrays_shape)

    def _write(self, cells: Cells, items: tuple[Item, ...], values: np.ndarray[Any, Any]) -> None:
        write_tiles(cells, items, self.arrays_shape, values)


def array_of(held: OpenCollection, record: Record) -> Array:
    """The array of a record, of the kind that its collection has."""
    return (VArray if isinstance(held.schema, VArraySchema) else Array)(held, record)
