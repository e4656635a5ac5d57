"""The document of a collection, and the abstract classes that a layout of collections implements.

The document, as both layouts store it: ``{"name", "type": "array" | "varray", "schema": {"dimensions", "dtype",
"attributes", "fill_value"[, "vgrid"]}, "options", "storage_adapter", "metadata_version": "0.2"}``; our own layout adds
``"layout": "hyperslab"``, and ``"arrays_shape"`` beside ``"vgrid"`` where the grid does not tell it. A size of null is
an unlimited dimension.

A root holds collections by name; a collection holds arrays by id. A :class:`Layout` finds and makes the collections of
one root that are laid out its way, a :class:`CollectionStore` has the arrays of one of them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeVar

from hyperslab.chunks.auto import whole_chunks
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import FormatError, Problem, SchemaError, Unsupported
from hyperslab.formats.collections.index_database import IndexDatabase
from hyperslab.formats.collections.stored_attributes import StoredAttributes, check_stored
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.metadata_json import records
from hyperslab.formats.rules import Finding
from hyperslab.model.schemas.arrays import AnyArraySchema, ArraySchema, Record, VArraySchema
from hyperslab.model.schemas.attributes import (
    AttributeSchema,
    dtype_of,
    fill_of,
    is_extended,
    reads_extended,
    type_name,
    type_of,
)
from hyperslab.model.schemas.dimensions import AnyDimensionSchema, DimensionSchema, TimeDimensionSchema, step_from_json
from hyperslab.model.schemas.options import HDF5Options, options_from_json
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Stamp
from hyperslab.stores.location import Location

LayoutName = Literal["hyperslab", "deker"]


IndexKind = Literal["stored", "memory"]
"""Where the index of a collection's attributes is kept, by ``"index"`` in its document; without that it is stored for
our own layout on a disk or in a bucket, else in memory."""


INDEX_KINDS: tuple[IndexKind, ...] = ("stored", "memory")


KEEP_VERSIONS = "keep_versions"
"""The key of a document with the seconds for which older versions of arrays are kept."""


VERSION = "0.2"


# A document of a later version may mean something else by the same keys: it is refused, not guessed at.
_NEWEST = (0, 2)


STORED_ATTRIBUTES = "stored_attributes"
"""The key of a document with the names that attributes have in the documents of arrays, where these are others."""


_KEYS = {
    *("name", "type", "schema", "options", "storage_adapter", "metadata_version", "layout", "strict"),
    STORED_ATTRIBUTES,
}


_SCHEMA_KEYS = {"dimensions", "dtype", "attributes", "fill_value", "vgrid", "arrays_shape"}


Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class CollectionDocument:
    """The document of a collection. ``extra`` and ``schema_extra`` are keys that are not ours, kept as they stand.

    ``strict``: datetime attributes are always set. ``stored_attributes``: None where documents of arrays have the names
    of the schema. SchemaError when ``layout`` cannot hold the schema.
    """

    name: str
    schema: ArraySchema | VArraySchema
    options: HDF5Options | None = None
    layout: LayoutName = "hyperslab"
    strict: bool = True
    storage_adapter: str = "HDF5StorageAdapter"
    metadata_version: str = VERSION
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)
    schema_extra: Mapping[str, object] = field(default_factory=dict, hash=False)
    stored_attributes: StoredAttributes | None = None

    def __post_init__(self) -> None:
        if self.layout != "deker":
            return
        remedy = 'choose layout="hyperslab"'
        if defaults := [each.name for each in self.schema.attributes if each.has_default]:
            raise SchemaError(f"the layout deker has no defaults of attributes: {defaults[0]!r}", remedy=remedy)
        if self.schema.unlimited:
            dims = ", ".join(map(repr, self.schema.unlimited))
            raise SchemaError(f"the layout deker has no unlimited dimensions: {dims}", remedy=remedy)
        if not isinstance(self.schema, VArraySchema):
            return
        if not self.schema.is_regular:
            raise SchemaError(
                f"the layout deker has tiles of one shape only: {self.schema.arrays_shape} does not divide "
                f"{self.schema.shape}",
                remedy=remedy,
            )
        starts = [dim.attribute for dim in self.schema.dimensions if isinstance(dim, TimeDimensionSchema)]
        if twice := sorted({name for name in starts if name is not None and starts.count(name) > 1}):
            raise SchemaError(f"the layout deker starts one axis of a VArray with ${twice[0]}, not more", remedy=remedy)

    @property
    def keep_versions(self) -> float | None:
        """For how many seconds older versions of arrays are kept: -1 for ever, None not at all."""
        seconds = self.extra.get(KEEP_VERSIONS)
        return float(seconds) if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None

    @property
    def kind(self) -> Literal["array", "varray"]:
        """Return ``varray`` for arrays that are cut into tiles, else ``array``."""
        return "varray" if isinstance(self.schema, VArraySchema) else "array"

    @property
    def as_dict(self) -> dict[str, object]:
        """The document as JSON values, their keys in the order in which they are written."""
        own: dict[str, Any] = {} if self.layout == "deker" else {"layout": self.layout}
        if not self.strict:
            own["strict"] = False
        if self.stored_attributes is not None:
            own[STORED_ATTRIBUTES] = self.stored_attributes.to_json()
        return {
            "name": self.name,
            "type": self.kind,
            "schema": self.schema.as_dict | dict(self.schema_extra),
            "options": None if self.options is None else self.options.as_dict,
            "storage_adapter": self.storage_adapter,
            "metadata_version": self.metadata_version,
            **own,
            **self.extra,
        }

    # -- other attributes -------------------------------------------------------------------------------------------

    @property
    def stored(self) -> StoredAttributes:
        """The names of the attributes in documents of arrays."""
        return self.stored_attributes or StoredAttributes.of(self.schema.attributes)

    def with_attribute(self, attribute: AttributeSchema) -> CollectionDocument:
        """Return the document with one more custom attribute. SchemaError for a name that is taken, a primary one, and
        one without a default."""
        name, problem = attribute.name, None
        if any(each.name == name for each in self.schema.attributes):
            problem = f"there is an attribute {name!r} already", "choose another name"
        elif attribute.primary:
            problem = f"the new attribute {name!r} is primary", "give primary=False, or make another collection"
        elif not attribute.has_default:
            problem = f"the new attribute {name!r} has no default", "give default=, None for unset: all arrays get it"
        if problem:
            raise SchemaError(problem[0], node=self.name, remedy=problem[1])
        return self._with_stored(self.stored.with_attribute(attribute), {})

    def without_attribute(self, name: str) -> CollectionDocument:
        """Return the document without a custom attribute. SchemaError for a primary one, one that is not there, and one
        that times start at."""
        if name in self.schema.start_attributes:
            message = f"the times of a dimension start at the attribute {name!r}"
            raise SchemaError(message, node=self.name, remedy="it cannot be removed; rename it, or make a collection")
        return self._with_stored(self.stored.without_attribute(name), {})

    def with_attribute_name(self, name: str, new_name: str) -> CollectionDocument:
        """Return the document with another name of an attribute. SchemaError for one that is not there or taken."""
        return self._with_stored(self.stored.with_name(name, new_name), {name: new_name})

    def _with_stored(self, stored: StoredAttributes, names: Mapping[str, str]) -> CollectionDocument:
        schema = self.schema.with_attributes(stored.present, names)
        return replace(self, schema=schema, stored_attributes=None if stored.is_plain else stored)

    def has_become(self, after: CollectionDocument) -> bool:
        """Return True if another document is this one with attributes that were added, removed or renamed."""
        names = after.stored.renamed_since(self.stored)
        if names is None:
            return False
        try:
            schema = self.schema.with_attributes(after.stored.present, names)
        except SchemaError:
            return False
        return replace(self, schema=schema, stored_attributes=after.stored_attributes) == after


def document_bytes(document: CollectionDocument) -> bytes:
    """Return the bytes of a document: exactly those that the peer writes for the same collection."""
    return json.dumps(document.as_dict).encode("ascii")


def parse_document(doc: object, name: str) -> CollectionDocument:
    """Return the collection of a document that lies under this name; FormatError lists every problem."""
    problems = Problems(name)
    document = read_document_into(doc, name, problems)
    problems.raise_if_fatal()
    if document is None:
        raise FormatError("the document says nothing", node=name)
    return document


def document_problems(doc: object, name: str) -> list[Problem]:
    """Return every defect of a document, also those that a reader survives."""
    problems = Problems(name)
    read_document_into(doc, name, problems)
    return problems


def read_document_into(doc: object, name: str, problems: Problems) -> CollectionDocument | None:
    """Return the collection; what is wrong goes to ``document_problems``, None when that is too much."""
    if not isinstance(doc, Mapping):
        problems.fatal("document", f"the document is {shorten(doc)}, not an object")
        return None
    if doc.get("name") != name:
        value = shorten(doc.get("name"))
        if "name" in doc:
            problems.warn("name", f"name is {value}, the place says {name!r}, which counts")
        else:
            problems.fatal("name", "name is missing")
    kind = doc.get("type")
    if kind not in ("array", "varray"):
        problems.fatal("type", f"type is {shorten(kind)}, not 'array' or 'varray'")
    _check_version(doc, problems)
    layout = doc.get("layout", "deker")
    if layout not in ("hyperslab", "deker"):
        problems.fatal("layout", f"layout is {shorten(layout)}, not 'hyperslab' or 'deker'")
    schema = parse_schema("varray" if kind == "varray" else "array", doc.get("schema"), problems)
    options = _catch_schema_error("options", lambda: options_from_json(doc.get("options")), problems)
    if schema is None or problems.is_fatal:
        return None
    adapter = doc.get("storage_adapter")
    make = partial(
        CollectionDocument,
        name,
        schema,
        options,
        layout=layout,
        strict=doc.get("strict") is not False,
        storage_adapter=adapter if isinstance(adapter, str) else "HDF5StorageAdapter",
        metadata_version=doc["metadata_version"],
        extra={key: value for key, value in doc.items() if key not in _KEYS},
        stored_attributes=_parse_stored(doc.get(STORED_ATTRIBUTES), schema, problems),
        schema_extra={key: value for key, value in doc["schema"].items() if key not in _SCHEMA_KEYS},
    )
    return None if problems.is_fatal else _catch_schema_error("schema", make, problems)


def _parse_stored(value: object, schema: AnyArraySchema, problems: Problems) -> StoredAttributes | None:
    """Return the stored attributes of a document that has some; what is wrong goes to ``problems``."""
    if value is None:
        return None
    pairs = _parse_list(STORED_ATTRIBUTES, value, _parse_stored_attribute, problems)
    if problems.is_fatal:
        return None
    make = partial(check_stored, pairs, schema.attributes)
    return _catch_schema_error(STORED_ATTRIBUTES, make, problems)


def _parse_stored_attribute(value: Mapping[str, object]) -> tuple[AttributeSchema, object]:
    return _parse_attribute(value), _required_field(value, "now")


def _check_version(doc: Mapping[str, object], problems: Problems) -> None:
    value = doc.get("metadata_version")
    parts = value.split(".") if isinstance(value, str) else []
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        problems.fatal("metadata_version", f"metadata_version is {shorten(value)}, not a version such as {VERSION!r}")
    elif [*map(int, parts), 0, 0] > [*_NEWEST, *(0 for _ in parts)]:
        problems.fatal("metadata_version", f"metadata_version is {value}, {VERSION} is the newest that is known")


def parse_schema(
    kind: Literal["array", "varray"], value: object, problems: Problems
) -> ArraySchema | VArraySchema | None:
    """Return the schema of a document's ``schema``; None when it cannot be made."""
    if not isinstance(value, Mapping):
        problems.fatal("schema", f"schema is {shorten(value)}, not an object")
        return None
    dimensions = _parse_list("schema.dimensions", value.get("dimensions"), _parse_dimension, problems)
    attributes = _parse_list("schema.attributes", value.get("attributes"), _parse_attribute, problems)
    dtype = _catch_schema_error("schema.dtype", lambda: dtype_of(value.get("dtype")), problems)
    fill = None
    if "fill_value" not in value:
        problems.fatal("schema.fill_value", "schema.fill_value is missing")
    elif dtype is not None:
        fill = _catch_schema_error("schema.fill_value", lambda: fill_of(value["fill_value"], dtype), problems)
    for key in value:
        if key not in _SCHEMA_KEYS:
            problems.warn("unknown-key", f"schema.{key} is not known: kept as it stands")
    if problems.is_fatal:
        return None
    if kind == "array":
        return _catch_schema_error("schema", lambda: ArraySchema(dimensions, dtype, attributes, fill), problems)
    # The peer's documents have ``vgrid`` alone; where the shape of the tiles is there, it counts.
    tile = value.get("arrays_shape")
    vgrid = value.get("vgrid") if tile is None else None
    make = partial(VArraySchema, dimensions, dtype, attributes, fill, vgrid, tile)
    return _catch_schema_error("schema", make, problems)


def _parse_dimension(value: Mapping[str, Any]) -> AnyDimensionSchema:
    match value.get("type"):
        case "generic":
            labels, scale = value.get("labels"), value.get("scale")
            return DimensionSchema(_required_field(value, "name"), _required_field(value, "size"), labels, scale)
        case "time":
            start = _required_field(value, "start_value")
            if not isinstance(start, str):
                raise SchemaError(f"start_value is {shorten(start)}, not text")
            step = step_from_json(_required_field(value, "step"))
            return TimeDimensionSchema(_required_field(value, "name"), _required_field(value, "size"), start, step)
        case kind:
            raise SchemaError(f"type is {shorten(kind)}, not 'generic' or 'time'")


def _parse_attribute(value: Mapping[str, object]) -> AttributeSchema:
    name, kind = _required_field(value, "name"), type_of(_required_field(value, "dtype"))
    default = value.get("default", ...)
    if default is not None and default is not ...:
        try:
            default = records.value_from_json(kind, default)
        except (TypeError, ValueError, OverflowError):
            raise SchemaError(f"default is {shorten(default)}, not of the type {type_name(kind)}") from None
    return AttributeSchema(name, kind, _required_field(value, "primary"), default)


def _required_field(value: Mapping[str, Any], name: str) -> Any:
    if name not in value:
        raise SchemaError(f"{name} is missing")
    return value[name]


def _parse_list(
    kind: str, value: object, make: Callable[[Mapping[str, object]], Made], problems: Problems
) -> list[Made]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        problems.fatal(kind, f"{kind} is {shorten(value)}, not a list")
        return []
    found = []
    for place, part in enumerate(value):
        if not isinstance(part, Mapping):
            problems.fatal(kind, f"{kind}[{place}] is {shorten(part)}, not an object")
        elif (made := _catch_schema_error(f"{kind}[{place}]", partial(make, part), problems)) is not None:
            found.append(made)
    return found


def _catch_schema_error(kind: str, make: Callable[[], Made], problems: Problems) -> Made | None:
    try:
        return make()
    except SchemaError as error:
        problems.fatal(kind, f"{kind}: {error.message}")
        return None


def complete_document(doc: Mapping[str, object]) -> dict[str, object]:
    """Return a document as it is stored, of what users give: with fill value, attributes, labels, scales and options,
    which may be left out, and with lists for tuples."""
    doc = {key: _with_lists(value) for key, value in doc.items()}
    schema = doc.get("schema")
    if not isinstance(schema, Mapping):
        return doc
    full = {"attributes": [], "fill_value": None} | {key: value for key, value in schema.items() if value is not None}
    return {"options": None, **doc, "schema": full}


def _with_lists(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _with_lists(part) for key, part in value.items()}
    return [_with_lists(part) for part in value] if isinstance(value, list | tuple) else value


def bare_spec(document: CollectionDocument, record: Record, shape: Sequence[int] | None = None) -> ArraySpec:
    """Return one array as a spec, cut into one chunk; ``shape`` is its own where dimensions are unlimited."""
    schema = document.schema
    lengths = tuple(schema.shape if shape is None else shape)
    lacking = is_extended(schema.dtype) and not reads_extended()
    return ArraySpec(
        shape=lengths,
        dtype=schema.dtype,
        chunks=whole_chunks(lengths),
        dims=tuple(dimension.name for dimension in schema.dimensions),
        fill_value=schema.fill_value,
        attrs=records.record_to_json(record),
        indexes=schema.indexes(record.values, lengths),
        problem="cells are floats of 80 bits, which this platform has not" if lacking else None,
    )


def record_of(document: CollectionDocument, attrs: Mapping[str, Any]) -> Record:
    """Return the record that the attributes of an array's spec hold; FormatError lists every problem."""
    problems = Problems(document.name)
    record = records.record_from_json(document.schema, attrs, problems)
    problems.raise_if_fatal()
    return record


# -- what a layout gives to the floors above --------------------------------------------------------------------------


class CollectionStore(ABC):
    """The arrays of one collection. Errors name the collection and the array; what is gone by now is NotFound."""

    document: CollectionDocument
    """The collection's document, as it was when this was opened; attributes of its schema may have been added, removed
    or renamed since, which makes :meth:`exists` return False."""

    @abstractmethod
    def exists(self) -> bool:
        """Return True if the collection is still there, with the same document."""

    def add_attribute(self, attribute: AttributeSchema) -> None:
        """Add an attribute with a default to the schema: from then on all arrays have it. This object keeps the old
        schema, and exists no more. SchemaError, Conflict; Unsupported where schemas never change."""
        raise self._fixed_schema_error()

    def remove_attribute(self, name: str) -> None:
        """Remove a custom attribute from the schema, with its values. The same errors."""
        raise self._fixed_schema_error()

    def rename_attribute(self, name: str, new_name: str) -> None:
        """Give an attribute another name. The same errors."""
        raise self._fixed_schema_error()

    def _fixed_schema_error(self) -> Unsupported:
        message = "another attribute of a collection in DEKER's layout, whose schemas never change"
        remedy = 'convert() it to a collection of layout="hyperslab"'
        return Unsupported(message, node=self.document.name, remedy=remedy)

    def rename(self, name: str) -> None:
        """Give the collection another name. AlreadyExists; Unsupported where that is more than one step."""
        remedy = "convert() it to a collection of that name, and delete it"
        raise Unsupported("another name for a collection there", node=self.document.name, remedy=remedy)

    def changes(self, id: str) -> Sequence[datetime]:
        """Return the moments at which an array changed, of which versions are kept, in order."""
        return []

    def expire(self) -> int:
        """Remove the versions of arrays whose time is over; return how many values these were."""
        return 0

    # -- records ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def record(self, id: str) -> Record:
        """Return an array's record as it is stored now; NodeNotFound, FormatError."""

    @abstractmethod
    def records(self, ids: Iterable[str]) -> Iterator[Record]:
        """Yield the records of these arrays; those that are gone or damaged are left out."""

    @abstractmethod
    def id_of(self, key: tuple[object, ...]) -> str | None:
        """Return the id of the array with these values of its primary attributes, in the schema's order, or None."""

    @abstractmethod
    def create(self, records: Sequence[Record]) -> None:
        """Make arrays, all of them or none; AlreadyExists names the id or the key that is taken."""

    @abstractmethod
    def update(self, id: str, change: Callable[[Record], Record]) -> Record:
        """Replace a record by what ``change`` makes of the stored one, under its lock; Conflict, NodeNotFound."""

    @abstractmethod
    def remove(self, id: str) -> None:
        """Remove an array; one that is gone is fine."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all arrays of the collection."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the collection with all that belongs to it; one that is gone is fine."""

    # -- what an index needs ----------------------------------------------------------------------------------------

    @abstractmethod
    def generations(self) -> Mapping[str, Stamp]:
        """Return the parts that the arrays are listed by, with stamps that change when one of their arrays does. A part
        is named by what the ids of its arrays begin with; all names are of one length."""

    @abstractmethod
    def list_part(self, part: str) -> Mapping[str, Stamp]:
        """Return the ids of a part with the stamps of their records, also of arrays that are not committed yet."""

    @abstractmethod
    def ids(self, part: str) -> Iterable[str]:
        """Return the ids of a part's arrays that exist, sorted; damaged ones where existence needs no record."""

    @abstractmethod
    def unsettled_ids(self) -> Collection[str]:
        """Return ids whose records may have changed without a change of their part's generation."""

    def list_changes(self) -> tuple[Mapping[str, Stamp], Collection[str]]:
        """Return :meth:`generations` and :meth:`unsettled_ids`."""
        return self.generations(), self.unsettled_ids()

    @abstractmethod
    def filter_committed(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield those of the records whose arrays exist: their creation was completed and they were not removed."""

    @property
    def index_database(self) -> IndexDatabase | None:
        """The index that is stored; None where it is made in memory by whoever asks."""
        return None

    def leaves_index_behind(self) -> bool:
        """Return True if arrays were changed here, and the stored index may lack others: what is known here of it is
        stored first."""
        return False

    # -- arrays -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def spec(self, id: str) -> ArraySpec:
        """Return an array's shape, type, dimension names, labels and chunks. NodeNotFound, FormatError."""

    @abstractmethod
    def put_spec(self, id: str, spec: ArraySpec) -> None:
        """Store another shape or other attributes (:func:`record_of`) of an array."""

    @abstractmethod
    def chunks(self, id: str, spec: ArraySpec) -> ChunkSource:
        """Return the cells of an array under a spec."""

    @abstractmethod
    def stamp(self, id: str) -> Stamp | None:
        """Return a value that identifies the present version of an array's record."""

    @abstractmethod
    def nbytes_stored(self) -> int:
        """Return the bytes that all that belongs to the collection takes."""

    # -- care -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def find_damage(self, *, deep: bool) -> Iterable[Finding]:
        """Return every problem of the collection with what mends it; ``deep`` reads every cell besides."""

    def document_problems(self) -> Iterable[Problem]:
        """Return the problems of the collection's own document, whatever its arrays are like."""
        return ()

    def close(self) -> None:  # noqa: B027  most keep nothing back
        """Store what is kept back, and let go of it; closing twice is fine."""

    def clear_locks(self) -> None:
        """Remove lock files of dead processes, where the layout has such."""
        return

    def relink(self, *, relative: bool | None = None) -> int:
        """Make the collection's links lead to where its files are now; return how many were made anew."""
        return 0


class Layout(ABC):
    """How collections lie below one root."""

    name: LayoutName

    @abstractmethod
    def names(self, where: Location) -> Iterable[str]:
        """Return the names of the collections of this layout, sorted; anything else is passed over."""

    @abstractmethod
    def open(self, where: Location, name: str, settings: Settings, *, writable: bool) -> CollectionStore | None:
        """Open a collection; None when there is none of this name and layout; FormatError for a damaged document."""

    @abstractmethod
    def create(self, where: Location, document: CollectionDocument, settings: Settings) -> CollectionStore:
        """Make a collection; AlreadyExists when the name is taken, Unsupported when the layout cannot hold it."""

    @abstractmethod
    def find_damage(self, where: Location) -> Iterable[Finding]:
        """Return the problems of the root itself (strays, damaged documents) with what mends them."""
