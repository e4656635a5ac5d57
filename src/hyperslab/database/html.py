"""Collections and their arrays in a notebook: dimensions, attributes, sizes. No cell is read."""

from __future__ import annotations

from typing import Any, Protocol

from hyperslab.array.html import cells_html
from hyperslab.array.markup import attributes, definitions, dims_text, page, section, text
from hyperslab.database.dimensions import labels_text
from hyperslab.database.plain import plain
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.model.amounts import size_text
from hyperslab.model.schemas import AnyDimensionSchema, VArraySchema
from hyperslab.model.schemas.attributes import type_name
from hyperslab.model.spec import ArraySpec

_MOST_LABELS = 20


class ShownRecord(Protocol):
    """What the page of an array needs of it."""

    @property
    def id(self) -> str: ...
    @property
    def collection(self) -> str: ...
    @property
    def primary_attributes(self) -> dict[str, Any]: ...
    @property
    def custom_attributes(self) -> dict[str, Any]: ...


def collection_html(document: CollectionDocument) -> str:
    """The page of a collection: what its schema says."""
    schema = document.schema
    sizes = [each.size for each in schema.dimensions]
    header = (
        f'<span class="hs-kind">hyperslab.database.Collection</span> '
        f'<span class="hs-name">{text(document.name)}</span> '
        f"({', '.join(f'{text(each.name)}: {_size(each.size)}' for each in schema.dimensions)}) "
        f"<code>{text(schema.dtype)}</code>"
    )
    named = {each.name: _dimension_text(each) for each in schema.dimensions}
    kinds = {each.name: f"{type_name(each.dtype)}{', primary' if each.primary else ''}" for each in schema.attributes}
    facts = {"Layout": text(document.layout), "Fill value": f"<code>{text(schema.fill_value, 60)}</code>"}
    if None not in sizes:
        facts["One array"] = size_text(schema.nbytes)
    if isinstance(schema, VArraySchema):
        facts["Tiles"] = f"{text(schema.arrays_shape)}, {size_text(schema.tile_nbytes)} each"
    return page(
        header,
        definitions(facts),
        section(f"Dimensions ({len(named)})", definitions(named), opened=True),
        section(
            f"Attributes ({len(kinds)})", definitions({name: text(kind) for name, kind in kinds.items()}), opened=True
        ),
    )


def array_html(array: ShownRecord, spec: ArraySpec) -> str:
    """The page of one array: its attributes, and how its cells are stored."""
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


def _size(size: int | None) -> str:
    return "unlimited" if size is None else f"{size:,}"


def _dimension_text(dimension: AnyDimensionSchema) -> str:
    called = labels_text(dimension, _MOST_LABELS)
    return text(f"{_size(dimension.size)}: {called}" if called else _size(dimension.size))
