"""The arrays of a collection: records of attributes with a :class:`hyperslab.Array` of cells; parts of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import prod
from typing import Any, cast

import numpy as np

from hyperslab.array import Array as Cells
from hyperslab.array.array import array_with
from hyperslab.array.html import attributes, cells_html, definitions, dims_text, page, section, text
from hyperslab.bridges.extras import library
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.memory import require
from hyperslab.chunks.plan import Piece, make_plan
from hyperslab.database.cast_cells import as_cells
from hyperslab.database.connection import OpenCollection
from hyperslab.database.dimensions import Along, Dimension, Item, Resolved, TimeDimension, dimension, resolve
from hyperslab.errors import (
    CorruptChunk,
    FormatError,
    HyperslabError,
    Invalid,
    MissingChunks,
    NodeNotFound,
    SchemaError,
    StorageError,
    TilesFailed,
)
from hyperslab.formats.collections.base import CollectionDocument, bare_spec
from hyperslab.formats.metadata_json.records import record_to_json
from hyperslab.model.cells import Values
from hyperslab.model.guessing import meant
from hyperslab.model.schemas import (
    ArraySchema,
    AttributeSchema,
    DimensionSchema,
    Record,
    TimeDimensionSchema,
    VArraySchema,
)
from hyperslab.model.schemas.arrays import update_record
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.positional import select

# Errors that are about one tile, so that the others may be read or written all the same.
_OF_A_TILE = (CorruptChunk, FormatError, MissingChunks, StorageError)


class Array:
    """An array of a collection: an ``id``, primary attributes that are its key, custom ones that may change, cells.

    ``array[key]`` is a :class:`Subset`, which reads nothing before it is asked to: ints are positions; floats, text and
    datetimes are values of a scale, labels and times; stops are exclusive. ``array.array`` are the cells themselves.
    """

    _kind = "Array"

    def __init__(self, collection: OpenCollection, record: Record, document: CollectionDocument | None = None) -> None:
        """Take an array of a collection; ``document``: that of the collection when the record was read, if not the
        present one."""
        self._collection = collection
        self._known_record, self._document = record, document or collection.document
        self._cells: Cells | None = None
        self._session: Any = None

    def __reduce__(self) -> tuple[object, ...]:
        """Return it as where it is and what is known of it, without secrets, for a pickle."""
        return type(self), (self._collection, self._record)

    @property
    def _record(self) -> Record:
        """The record as this object knows it; as it is stored now, once attributes of the schema have other names."""
        if self._document is not self._collection.document:
            self._record = self._collection.store.record(self.id)
        return self._known_record

    @_record.setter
    def _record(self, record: Record) -> None:
        self._known_record, self._document = record, self._collection.document

    # -- what it is -------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id, a UUID."""
        return self._known_record.id

    @property
    def collection(self) -> str:
        """The name of the collection."""
        return self._collection.name

    @property
    def schema(self) -> ArraySchema:
        """The schema that all arrays of the collection follow."""
        return self._collection.schema

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the cells."""
        return self.schema.dtype

    @property
    def fill_value(self) -> Any:
        """The value that cells without data read as."""
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
        session = self._collection.connection.session
        if self._cells is None or self._session is not session:
            store = self._collection.store
            spec = store.spec(self.id)
            self._cells = array_with(session, self._path, spec, store.chunks(self.id, spec))
            self._session = session
        elif self.schema.unlimited:
            self._cells.refresh()
        return self._cells

    @property
    def memory_limit(self) -> int:
        """Bytes that one subset may take."""
        return self._collection.connection.memory_limit

    # -- cells ------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: object) -> Subset:
        """Return the part that a key selects; SelectionError or LabelError (IndexErrors) for what is not there,
        MemoryLimit for more than the client may take. No cell is read, but the lengths of unlimited dimensions are."""
        with self._collection.locate_errors(self.id):
            self._collection.connection.require_open()
            named_shape = self.named_shape
            indexes = self.schema.indexes(self._record.values, [size for _, size in named_shape])
            return self._subset(resolve(key, [Along(name, size, indexes.get(name)) for name, size in named_shape]))

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Values:
        return self[...].__array__(dtype, copy)

    def _subset(self, resolved: Any) -> Subset:
        return Subset(self, resolved)

    def append(self, data: object, dim: str | int = 0) -> None:
        """Add cells at the end of an unlimited dimension; ``data`` has the array's shape but for its length there, and
        its type, or one that it holds without loss, as ``update`` takes it.

        SchemaError for a dimension that does not grow; Conflict when another writer holds the array for too long.
        """
        names = [each.name for each in self.schema.dimensions]
        name = names[dim] if isinstance(dim, int) and -len(names) <= dim < len(names) else dim
        if name not in self.schema.unlimited:
            message = f"dimension {name!r} does not grow" if name in names else f"no dimension {name!r}"
            remedy = "declare it with size=None" if name in names else meant(name, names)
            url = self._collection.connection.url
            raise SchemaError(message, url=url, node=self._path, remedy=remedy)
        self._exists()
        self.array.append(self.cast_cells(data, None), str(name))

    def cast_cells(self, data: object, shape: tuple[int, ...] | None) -> Values:
        """Return data as cells of this shape, or of any, in the array's type; the errors of :func:`.as_cells`."""
        with self._collection.locate_errors(self.id):
            return as_cells(data, self.dtype, shape, self.fill_value)

    def read_cells(self, items: tuple[Item, ...]) -> Any:
        """Return the cells of a key of positions, one item for each dimension; NodeNotFound when the array is gone."""
        with self._collection.locate_errors(self.id):
            values = self._read(self.array, items)
            self._exists()  # asked last: what is removed meanwhile would read as fill
        return values

    def write_cells(self, items: tuple[Item, ...], values: Values) -> None:
        """Store cells, of the shape of the key or one for all; NodeNotFound when the array is gone."""
        with self._collection.locate_errors(self.id):
            self._collection.connection.require_writable()
            self._exists()
            self._write(self.array, items, values)

    def _read(self, cells: Cells, items: tuple[Item, ...]) -> object:
        return cells.lazy[items].read()

    def _write(self, cells: Cells, items: tuple[Item, ...], values: Values) -> None:
        cells.lazy[items].write(values)

    def _exists(self) -> None:
        if self._collection.store.stamp(self.id) is None:
            message, remedy = f"{self} is not there any more", "it was deleted: create a new one"
            raise NodeNotFound(message, url=self._collection.connection.url, node=self._path, remedy=remedy)

    @property
    def _path(self) -> str:
        return f"{self.collection}/{self.id}"

    # -- the record -------------------------------------------------------------------------------------------------

    def update_custom_attributes(self, attributes: Mapping[str, object]) -> None:
        """Give custom attributes other values; the rest stay as they are stored, whoever changed them last.

        SchemaError for none, for unknown or primary ones and for values of another type; NodeNotFound when the array
        is gone.
        """
        with self._collection.locate_errors(self.id):
            self._collection.connection.require_writable()
            store = self._collection.required_store()
            strict = self._collection.document.strict
            self._record = store.update(
                self.id, lambda record: update_record(self.schema, record, attributes, strict=strict)
            )
        self._cells = None

    def read_meta(self) -> dict[str, Any]:
        """Return the record as it is stored now, as JSON values; this object knows it from then on. NodeNotFound."""
        with self._collection.locate_errors(self.id):
            self._record = self._collection.store.record(self.id)
        return record_to_json(self._record)

    def changes(self) -> Sequence[datetime]:
        """Return the moments at which the array was made and changed, in order, of which versions are kept:
        ``Client.get_collection(name, at=moment)`` gives the state that began then. None without ``keep_versions``."""
        with self._collection.locate_errors(self.id):
            return self._collection.store.changes(self.id)

    def delete(self) -> None:
        """Remove the array with its cells; one that is gone already is fine."""
        self._collection.connection.require_writable()
        self._collection.store.remove(self.id)

    # -- how it looks -----------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and (self.id, self._collection.path) == (other.id, other._collection.path)

    def __hash__(self) -> int:
        return hash((self.id, self._collection.path))

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
            spec = bare_spec(self._collection.document, self._record)
        return array_html(self, spec)


class VArray(Array):
    """An array that is cut into a grid of tiles: it is used as any :class:`Array`, and reads and writes the tiles that
    a key touches, several at a time."""

    _kind = "VArray"

    @property
    def schema(self) -> VArraySchema:
        """The schema that all arrays of the collection follow."""
        return cast(VArraySchema, self._collection.schema)

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

    def _read(self, cells: Cells, items: tuple[Item, ...]) -> object:
        return read_tiles(cells, items, self.arrays_shape)

    def _write(self, cells: Cells, items: tuple[Item, ...], values: Values) -> None:
        write_tiles(cells, items, self.arrays_shape, values)


def array_of(collection: OpenCollection, record: Record, document: CollectionDocument | None = None) -> Array:
    """Return the array of a record, of the kind that its collection has; ``document``: that of the collection when the
    record was read, if not the present one."""
    return (VArray if isinstance(collection.schema, VArraySchema) else Array)(collection, record, document)


# -- parts of an array ------------------------------------------------------------------------------------------------


class Subset:
    """A part of an array: what it is and where is known, its cells are read when asked for."""

    def __init__(self, array: Array, resolved: Resolved) -> None:
        self._array = array
        self._resolved = resolved
        self._require(1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each dimension that is not selected by an int."""
        return self._resolved.selection.shape

    @property
    def bounds(self) -> tuple[Item, ...]:
        """The key that it was made by, in positions."""
        return self._resolved.bounds

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the cells."""
        return self._array.dtype

    @property
    def fill_value(self) -> Any:
        """The value that cells without data read as."""
        return self._array.fill_value

    @property
    def nbytes(self) -> int:
        """Bytes of its cells in memory."""
        return prod(self.shape) * self.dtype.itemsize

    def read(self) -> Any:
        """Return the cells as an array, or as a NumPy scalar where every dimension is selected by an int.

        NodeNotFound when the array is gone, CorruptChunk (TilesFailed of several tiles) for damage.
        """
        return self._array.read_cells(self._resolved.items)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        if copy is False:
            raise ValueError("the cells are read: copy=False is impossible")
        return np.asarray(self.read(), dtype)

    def update(self, data: object) -> None:
        """Store cells: of this shape, or one number for all; of the array's type, or of one that it holds without loss.
        Masked cells are stored as the fill value.

        Invalid for None, SelectionError (an IndexError) for another shape, WrongType for another type: nothing is
        written then. Conflict when another writer holds the array for longer than ``write_lock_timeout``.
        """
        self._array.write_cells(self._resolved.items, self._array.cast_cells(data, self.shape))

    def clear(self) -> None:
        """Give every cell the fill value; tiles that are covered whole are removed."""
        self._array.write_cells(self._resolved.items, np.asarray(self.fill_value, self.dtype))

    def describe(self) -> Mapping[str, list[Any]]:
        """Return the labels of the cells along each dimension: datetimes, labels, values of the scale, or positions."""
        dimensions = self._array.dimensions
        return {d.name: d.values(self._resolved.positions(i, d.size)) for i, d in enumerate(dimensions)}

    def read_xarray(self) -> Any:
        """Return the cells as an ``xarray.DataArray`` with coordinates (times as datetime64 of UTC).

        Its attributes are ``id``, ``collection`` and, as mappings of plain values, ``primary_attributes`` and
        ``custom_attributes``: Zarr holds these; for netCDF, which has no mappings, say ``.drop_attrs()`` first.
        Dimensions that are selected by an int stay, of length 1. Invalid when all of them are.
        """
        if not self.shape:
            raise Invalid("one cell is no DataArray", remedy="read() it, or select a slice of one cell")
        self._require(2)
        xarray, array = library("xarray"), self._array
        positions = [self._resolved.positions(i, d.size) for i, d in enumerate(array.dimensions)]
        return xarray.DataArray(
            np.asarray(self.read()).reshape([len(along) for along in positions]),
            coords={d.name: d.coordinate(along) for d, along in zip(array.dimensions, positions, strict=True)},
            dims=[d.name for d in array.dimensions],
            name=array.collection,
            attrs={
                "id": array.id,
                "collection": array.collection,
                "primary_attributes": plain_attributes(array.primary_attributes),
                "custom_attributes": plain_attributes(array.custom_attributes),
            },
        )

    def _require(self, copies: int) -> None:
        nbytes, limit = copies * self.nbytes, self._array.memory_limit
        if nbytes > limit:
            require(nbytes, limit, f"{self}")

    def _bounds_text(self) -> str:
        return ", ".join(map(_item_text, self.bounds)) if self.bounds else "()"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(bounds=[{self._bounds_text()}], shape={self.shape}, array={self._array.id})"

    def __str__(self) -> str:
        return f"{self._array}[{self._bounds_text()}]"


class VSubset(Subset):
    """A part of an array in tiles: a :class:`Subset` under the name that users of DEKER know. It reads and writes the
    tiles that it touches and no others."""


def _item_text(item: Item) -> str:
    if isinstance(item, int):
        return str(item)
    ends = ["" if end is None else str(end) for end in (item.start, item.stop)]
    return ":".join(ends if item.step is None else [*ends, str(item.step)])


# -- arrays in tiles --------------------------------------------------------------------------------------------------


def tile_schema(schema: VArraySchema) -> ArraySchema:
    """Return the schema of the tiles of a VArray: its dimensions cut, without labels; whose tile one is, and which."""
    starts = sorted(schema.start_attributes)
    dimensions: list[DimensionSchema | TimeDimensionSchema] = []
    for each, size in zip(schema.dimensions, schema.arrays_shape, strict=True):
        if isinstance(each, DimensionSchema):
            dimensions.append(DimensionSchema(each.name, size))
        else:
            start = each.start_value if each.attribute is None else f"$parent.{each.attribute}"
            dimensions.append(TimeDimensionSchema(each.name, size, start, each.step))
    attributes = [AttributeSchema("vid", str, True), AttributeSchema("v_position", tuple, True)]
    attributes += [AttributeSchema(f"parent.{name}", datetime, False) for name in starts]
    return ArraySchema(dimensions, schema.dtype, attributes, schema.fill_value)


def stored_tiles(cells: Cells) -> list[tuple[int, ...]]:
    """Return the positions of the tiles that have data, sorted; those of all tiles where the layout cannot tell."""
    source = cells.lazy[...].cells.source
    grid, places = source.grid, source.stored_coords()
    return sorted(places if grid.outer is None else set(map(grid.outer_of, places)))


def read_tiles(cells: Cells, items: tuple[Item, ...], tile: tuple[int, ...]) -> Any:
    """Return the cells of a key. TilesFailed when tiles are damaged: it has the error of each. What keeps all tiles
    from being read, such as a damaged journal, raises its own error."""
    view = cells.lazy[items]
    try:
        return view.read()
    except _OF_A_TILE as error:
        pieces = _pieces(cells, items, tile)
        if len(pieces) > 1 and not view.cells.source.traits.multi_shard:
            _run_each(pieces, lambda piece: cells.lazy[_tile_box(piece, tile)].read(), "could not be read", error)
        raise


def write_tiles(cells: Cells, items: tuple[Item, ...], tile: tuple[int, ...], values: Values) -> None:
    """Store the cells of a key. Where one write is all or nothing, its error says why nothing was written; elsewhere
    the other tiles are written nevertheless, and TilesFailed has the error of each that was not."""
    view = cells.lazy[items]
    try:
        view.write(values)
    except _OF_A_TILE as error:
        pieces, traits = _pieces(cells, items, tile), view.cells.source.traits
        if traits.multi_shard or traits.transacts or len(pieces) < 2:
            raise
        spread = view.selection.spread(values)
        _run_each(
            pieces, lambda piece: cells.lazy[_tile_box(piece, tile)].write(spread[piece.out]), "not written", error
        )


def _pieces(cells: Cells, items: tuple[Item, ...], tile: tuple[int, ...]) -> list[Piece]:
    return list(make_plan(select(items, cells.shape).region, Grid.of(cells.shape, tile)))


def _tile_box(piece: Piece, tile: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the cells of a piece as positions in the array."""
    starts = [place * length for place, length in zip(piece.coords, tile, strict=True)]
    return tuple(
        slice(start + part.start, start + part.stop, part.step)
        for start, part in zip(starts, piece.within, strict=True)
    )


# Not for what counts as one (``multi_shard``), as several tiles of our own layout do: there the executor gathers the
# errors of tiles (ShardErrors) and raises TilesFailed itself; any other error, as of the journal, is not of a tile and
# would be met with each of them. DEKER's tiles are chunks each by itself, and such an array is also read as one of a
# group (``open``, conversion, ``check``): there the first damaged tile ends the read with its own error, as any chunk
# does, and a Conflict or ReadOnly stays what it is. That all tiles are told of is what a database promises, and so it
# is done here, once a read has failed.
def _run_each(pieces: list[Piece], work: Callable[[Piece], object], what: str, first: HyperslabError) -> None:
    failed: dict[tuple[int, ...], Exception] = {}
    for piece in pieces:
        try:
            work(piece)
        except _OF_A_TILE as error:
            failed[piece.coords] = error
    if failed:
        message = f"{len(failed)} of {len(pieces)} tiles {what}"
        raise TilesFailed(message, exceptions=failed, url=first.url, node=first.node) from first


# -- attributes as plain values, and the page of a notebook -----------------------------------------------------------


# Whole numbers beyond 64 bits are text in files of arrays.
_LARGEST = 2**63


def plain_attributes(values: Mapping[str, object]) -> dict[str, Any]:
    """Return every attribute that has a value, by name."""
    return {name: plain(value) for name, value in values.items() if value is not None}


def plain(value: object) -> Any:
    """Return a value of an attribute as a number, text or list of numbers; times in ISO 8601, anything else as Python
    says."""
    match value:
        case datetime():
            return value.isoformat()
        case str() | float():
            return value
        case int():
            return value if -_LARGEST <= value < _LARGEST else str(value)
        case tuple() if value:
            if all(type(item) is int and -_LARGEST <= item < _LARGEST for item in value):
                return list(value)
            if all(type(item) in (int, float) for item in value):
                return [float(item) for item in value]
    return str(value)


def array_html(array: Array, spec: ArraySpec) -> str:
    """Return the page of one array: its attributes, and how its cells are stored."""
    header = (
        f'<span class="hs-kind">hyperslab.database.{type(array).__name__}</span> '
        f'<span class="hs-name">{text(array.collection)}/{text(array.id)}</span> '
        f"{dims_text(spec.dims, spec.shape)} <code>{text(spec.numpy_dtype)}</code>"
    )
    key = {name: text(plain(value)) for name, value in array.primary_attributes.items()}
    return page(
        header,
        cells_html(spec),
        section(f"Primary attributes ({len(key)})", definitions(key), opened=True),
        attributes({name: plain(value) for name, value in array.custom_attributes.items()}),
    )
