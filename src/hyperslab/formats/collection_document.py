"""Collection documents: what a collection is, as both layouts store it. Pure.

``{"name", "type": "array" | "varray", "schema": {"dimensions", "dtype", "attributes", "fill_value"[, "vgrid"]},
"options", "storage_adapter", "metadata_version": "0.2"}``; our own layout adds ``"layout": "hyperslab"``, and
``"arrays_shape"`` beside ``"vgrid"`` where the grid does not tell it. A size of null is an unlimited dimension.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

from hyperslab.chunks.auto import whole_chunks
from hyperslab.errors import FormatError, Problem, SchemaError
from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.metadata_json import records
from hyperslab.model.schemas.arrays import ArraySchema, VArraySchema
from hyperslab.model.schemas.attributes import AttributeSchema, type_of
from hyperslab.model.schemas.dimensions import AnyDimensionSchema, DimensionSchema, TimeDimensionSchema
from hyperslab.model.schemas.dtype_names import dtype_of, fill_of, is_extended, reads_extended
from hyperslab.model.schemas.options import HDF5Options, options_from_json
from hyperslab.model.schemas.records import Record
from hyperslab.model.schemas.times import step_from_json
from hyperslab.model.spec import ArraySpec

LayoutName = Literal["hyperslab", "deker"]
VERSION = "0.2"
_NEWEST = (0, 2)
_KEYS = {"name", "type", "schema", "options", "storage_adapter", "metadata_version", "layout", "strict"}
_SCHEMA_KEYS = {"dimensions", "dtype", "attributes", "fill_value", "vgrid", "arrays_shape"}
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class CollectionDocument:
    """What a collection is. ``extra`` and ``schema_extra`` are keys that are not ours, kept as they stand.

    ``strict``: datetime attributes are always set. SchemaError when ``layout`` cannot hold the schema.
    """

    name: str
    schema: ArraySchema | VArraySchema
    options: HDF5Options | None = None
    layout: LayoutName = "hyperslab"
    strict: bool = True
    storage_adapter: str = "HDF5StorageAdapter"
    metadata_version: str = VERSION
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    schema_extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.layout != "deker":
            return
        remedy = 'choose layout="hyperslab"'
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
    def kind(self) -> Literal["array", "varray"]:
        """Return whether its arrays are cut into tiles."""
        return "varray" if isinstance(self.schema, VArraySchema) else "array"

    @property
    def as_dict(self) -> dict[str, Any]:
        """The document as JSON values."""
        return render(self)


def render(document: CollectionDocument) -> dict[str, Any]:
    """The JSON values, their keys in the order in which they are written."""
    own: dict[str, Any] = {} if document.layout == "deker" else {"layout": document.layout}
    if not document.strict:
        own["strict"] = False
    return {
        "name": document.name,
        "type": document.kind,
        "schema": document.schema.as_dict | dict(document.schema_extra),
        "options": None if document.options is None else document.options.as_dict,
        "storage_adapter": document.storage_adapter,
        "metadata_version": document.metadata_version,
        **own,
        **document.extra,
    }


def text(document: CollectionDocument) -> bytes:
    """The bytes of a document: exactly those that the peer writes for the same collection."""
    return json.dumps(render(document)).encode("ascii")


def parse(doc: Any, name: str) -> CollectionDocument:
    """The collection of a document that lies under this name; FormatError lists every problem."""
    problems = Problems(name)
    document = read(doc, name, problems)
    problems.raise_if_fatal()
    if document is None:
        raise FormatError("the document says nothing", node=name)
    return document


def problems(doc: Any, name: str) -> list[Problem]:
    """Every defect of a document, also those that a reader survives."""
    problems = Problems(name)
    read(doc, name, problems)
    return problems


def read(doc: Any, name: str, problems: Problems) -> CollectionDocument | None:
    """The collection; what is wrong goes to ``problems``, None when that is too much."""
    if not isinstance(doc, Mapping):
        problems.fatal("document", f"the document is {brief(doc)}, not an object")
        return None
    if doc.get("name") != name:
        said = brief(doc.get("name"))
        if "name" in doc:
            problems.warn("name", f"name is {said}, the place says {name!r}, which counts")
        else:
            problems.fatal("name", "name is missing")
    kind = doc.get("type")
    if kind not in ("array", "varray"):
        problems.fatal("type", f"type is {brief(kind)}, not 'array' or 'varray'")
    _check_version(doc, problems)
    layout = doc.get("layout", "deker")
    if layout not in ("hyperslab", "deker"):
        problems.fatal("layout", f"layout is {brief(layout)}, not 'hyperslab' or 'deker'")
    schema = schema_of("varray" if kind == "varray" else "array", doc.get("schema"), problems)
    options = _made("options", lambda: options_from_json(doc.get("options")), problems)
    if schema is None or problems.is_fatal:
        return None
    return _made("schema", lambda: _document(doc, name, schema, options, layout), problems)


def _document(
    doc: Mapping[str, Any],
    name: str,
    schema: ArraySchema | VArraySchema,
    options: HDF5Options | None,
    layout: LayoutName,
) -> CollectionDocument:
    adapter = doc.get("storage_adapter")
    known: set[str] = set(schema.as_dict)
    return CollectionDocument(
        name,
        schema,
        options,
        layout=layout,
        strict=doc.get("strict") is not False,
        storage_adapter=adapter if isinstance(adapter, str) else "HDF5StorageAdapter",
        metadata_version=doc["metadata_version"],
        extra={key: value for key, value in doc.items() if key not in _KEYS},
        schema_extra={key: value for key, value in doc["schema"].items() if key not in known | _SCHEMA_KEYS},
    )


def _check_version(doc: Mapping[str, Any], problems: Problems) -> None:
    said = doc.get("metadata_version")
    parts = said.split(".") if isinstance(said, str) else []
    if not parts or not all(part.isascii() and part.isdigit() for part in parts):
        problems.fatal("metadata_version", f"metadata_version is {brief(said)}, not a version such as {VERSION!r}")
    elif [*map(int, parts), 0, 0] > [*_NEWEST, *(0 for _ in parts)]:
        problems.fatal("metadata_version", f"metadata_version is {said}, {VERSION} is the newest that is known")


def schema_of(kind: Literal["array", "varray"], said: Any, problems: Problems) -> ArraySchema | VArraySchema | None:
    """The schema of a document's ``schema``; None when it cannot be made."""
    if not isinstance(said, Mapping):
        problems.fatal("schema", f"schema is {brief(said)}, not an object")
        return None
    dimensions = _each("schema.dimensions", said.get("dimensions"), _dimension, problems)
    attributes = _each("schema.attributes", said.get("attributes"), _attribute, problems)
    dtype = _made("schema.dtype", lambda: dtype_of(said.get("dtype")), problems)
    fill = None
    if "fill_value" not in said:
        problems.fatal("schema.fill_value", "schema.fill_value is missing")
    elif dtype is not None:
        fill = _made("schema.fill_value", lambda: fill_of(said["fill_value"], dtype), problems)
    for key in said:
        if key not in _SCHEMA_KEYS:
            problems.warn("unknown-key", f"schema.{key} is not known: kept as it stands")
    if problems.is_fatal:
        return None
    if kind == "array":
        return _made("schema", lambda: ArraySchema(dimensions, dtype, attributes, fill), problems)
    return _made("schema", lambda: VArraySchema(dimensions, dtype, attributes, fill, **_grid(said)), problems)


def _grid(said: Mapping[str, Any]) -> dict[str, Any]:
    """How the arrays are cut: ``vgrid`` alone in the peer's documents, the shape of the tiles where that is there."""
    name = "arrays_shape" if said.get("arrays_shape") is not None else "vgrid"
    return {name: said.get(name)}


def _dimension(said: Mapping[str, Any]) -> AnyDimensionSchema:
    match said.get("type"):
        case "generic":
            labels, scale = said.get("labels"), said.get("scale")
            return DimensionSchema(_field(said, "name"), _field(said, "size"), labels, scale)
        case "time":
            start = _field(said, "start_value")
            if not isinstance(start, str):
                raise SchemaError(f"start_value is {brief(start)}, not text")
            step = step_from_json(_field(said, "step"))
            return TimeDimensionSchema(_field(said, "name"), _field(said, "size"), start, step)
        case kind:
            raise SchemaError(f"type is {brief(kind)}, not 'generic' or 'time'")


def _attribute(said: Mapping[str, Any]) -> AttributeSchema:
    return AttributeSchema(_field(said, "name"), type_of(_field(said, "dtype")), _field(said, "primary"))


def _field(said: Mapping[str, Any], name: str) -> Any:
    if name not in said:
        raise SchemaError(f"{name} is missing")
    return said[name]


def _each(kind: str, said: Any, make: Callable[[Mapping[str, Any]], Made], problems: Problems) -> list[Made]:
    if not isinstance(said, Sequence) or isinstance(said, str):
        problems.fatal(kind, f"{kind} is {brief(said)}, not a list")
        return []
    found = []
    for place, part in enumerate(said):
        if not isinstance(part, Mapping):
            problems.fatal(kind, f"{kind}[{place}] is {brief(part)}, not an object")
        elif (made := _made(f"{kind}[{place}]", partial(make, part), problems)) is not None:
            found.append(made)
    return found


def _made(kind: str, make: Callable[[], Made], problems: Problems) -> Made | None:
    try:
        return make()
    except SchemaError as error:
        problems.fatal(kind, f"{kind}: {error.message}")
        return None


def completed(doc: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document as it is stored, of what users give: with fill value, attributes, labels, scales and options,
    which may be left out, and with lists for tuples."""
    doc = {key: _with_lists(value) for key, value in doc.items()}
    schema = doc.get("schema")
    if not isinstance(schema, Mapping):
        return doc
    full = {"attributes": [], "fill_value": None} | {key: value for key, value in schema.items() if value is not None}
    return {"options": None, **doc, "schema": full}


def _with_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_lists(part) for key, part in value.items()}
    return [_with_lists(part) for part in value] if isinstance(value, list | tuple) else value


def bare_spec(document: CollectionDocument, record: Record, shape: Sequence[int] | None = None) -> ArraySpec:
    """One array as a spec, cut into one chunk; ``shape`` is its own where dimensions are unlimited."""
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
    """The record that the attributes of an array's spec hold; FormatError lists every problem."""
    problems = Problems(document.name)
    record = records.record_from_json(document.schema, attrs, problems)
    problems.raise_if_fatal()
    return record
