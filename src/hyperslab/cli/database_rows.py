"""The output of ``hyperslab db``: objects, collections and arrays as rows, indexes, problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from hyperslab.array.plain_values import to_json_value
from hyperslab.cli.output import format_columns, print_json, print_remark
from hyperslab.database import Array, AttributeSchema, Collection
from hyperslab.database.dimensions import labels_text
from hyperslab.database.index import AttributeIndexState
from hyperslab.errors import Problem
from hyperslab.integrity.report import as_line
from hyperslab.model.amounts import size_text
from hyperslab.model.schemas.attributes import type_name, value_to_json
from hyperslab.stores.credentials import redact

# Variables of an object that its row names.
_SHOWN = 6


def table(infos: Iterable[Any], *, head: bool) -> list[tuple[str, ...]]:
    """Return objects as rows of text."""
    rows: list[tuple[str, ...]] = [("id", "name", "kind", "dimensions", "variables", "cells", "made")] if head else []
    for info in infos:
        dims = ", ".join(f"{dim}: {'?' if size is None else size}" for dim, size in info.dims.items())
        names = [name for name in info.variables if name != "__DataArray__"]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        made = "" if info.created is None else info.created.strftime("%Y-%m-%d %H:%M")
        name = "" if info.name is None else str(info.name)
        listed = ", ".join(names[:_SHOWN]) + more
        rows.append((str(info.id), name, info.kind, dims, listed, size_text(info.nbytes), made))
    return rows


def version_rows(infos: Iterable[Any]) -> list[tuple[str, ...]]:
    """Return versions of an object as rows of text."""
    made = ["" if info.created is None else info.created.isoformat(" ", "milliseconds") for info in infos]
    replaced = ["" if info.retired is None else info.retired.isoformat(" ", "milliseconds") for info in infos]
    rows = zip(table(infos, head=True), ["made", *made], ["replaced", *replaced], strict=True)
    return [(*row[:-1], first, last) for row, first, last in rows]


def index_rows(states: Iterable[Any]) -> list[tuple[str, ...]]:
    """Return indexes as rows of text."""
    rows = [(one.collection, one.name, one.purpose, "there" if one.is_present else one.cost) for one in states]
    return [("collection", "index", "finds", "state"), *rows]


def print_index_states(command: str, url: str, states: Sequence[AttributeIndexState], *, as_json: bool) -> None:
    """Print the indexes of collections, one a line, and what helps where one is out of date."""
    if as_json:
        print_json(command, url=url, indexes=[asdict(state) for state in states])
        return
    if not states:
        print_remark("no collections")
        return
    rows = [("collection", "index", "bytes", "state")]
    for one in states:
        state = (
            f"{one.stale} of {one.parts} parts are listed by each that looks something up"
            if one.stale
            else "up to date"
        )
        rows.append((one.collection, one.place or "in memory", size_text(one.nbytes), state if one.place else ""))
    click.echo(format_columns(rows))
    if any(one.stale and one.place for one in states):
        print_remark(f"hyperslab db index {redact(url)} COLLECTION brings one up to date")


def print_problems(url: str, problems: Iterable[Problem], *, deep: bool, as_json: bool) -> int:
    """Print problems one a line, as they are found, or all in one document; return 1 when there are some."""
    if as_json:
        found = [asdict(problem) for problem in problems]
        print_json("db-check", url=url, deep=deep, sound=not found, problems=found)
        return int(bool(found))
    code = 0
    for problem in problems:
        click.echo(as_line(problem))
        code = 1
    return code


# Labels of a dimension in a row of a table: as many as a line of a terminal has room for.
_MOST_LABELS = 6


def describe_collection(collection: Collection) -> dict[str, object]:
    """Return what one line says of a collection."""
    schema = collection.schema
    return {
        "name": collection.name,
        "kind": "array" if collection.varray_schema is None else "varray",
        "layout": collection.layout,
        "dtype": str(schema.dtype),
        "dimensions": {dimension.name: dimension.size for dimension in schema.dimensions},
        "attributes": [attribute.name for attribute in schema.attributes],
        "arrays": len(collection),
    }


def collection_rows(facts: Iterable[Mapping[str, Any]], *, head: bool) -> list[tuple[str, ...]]:
    """Return collections as rows of text."""
    rows: list[tuple[str, ...]] = []
    if head:
        rows.append(("name", "kind", "layout", "dtype", "dimensions", "attributes", "arrays"))
    for one in facts:
        dims = ", ".join(f"{name}: {'unlimited' if size is None else size}" for name, size in one["dimensions"].items())
        named = ", ".join(one["attributes"])
        rows.append((one["name"], one["kind"], one["layout"], one["dtype"], dims, named, str(one["arrays"])))
    return rows


def _role(attribute: AttributeSchema) -> str:
    """Return what an attribute is for, and what it is in arrays that lack it."""
    if attribute.primary:
        return "primary"
    default = "unset" if attribute.unset_value is None else attribute.default
    return f"custom, {default} by default" if attribute.has_default else "custom"


def schema_rows(collection: Collection) -> Iterator[list[tuple[str, ...]]]:
    """Return the dimensions of a schema, its attributes, and the rest, as tables of text."""
    schema = collection.schema
    sizes = (("unlimited" if dim.size is None else str(dim.size)) for dim in schema.dimensions)
    pairs = zip(schema.dimensions, sizes, strict=True)
    yield [("dimension", "size", "labels"), *((dim.name, size, labels_text(dim, _MOST_LABELS)) for dim, size in pairs)]
    if schema.attributes:
        kinds = ((each.name, type_name(each.dtype), _role(each)) for each in schema.attributes)
        yield [("attribute", "type", ""), *kinds]
    rest: list[tuple[str, ...]] = [("dtype", str(schema.dtype)), ("fill value", str(schema.fill_value))]
    rest.append(("layout", collection.layout))
    if collection.varray_schema is not None:
        rest.append(("tiles", " x ".join(map(str, collection.varray_schema.arrays_shape))))
    yield rest


def describe_array(array: Array) -> dict[str, object]:
    """Return what one line says of an array: its id and attributes."""
    parts = {"primary_attributes": array.primary_attributes, "custom_attributes": array.custom_attributes}
    values = {part: {name: value_to_json(value) for name, value in attrs.items()} for part, attrs in parts.items()}
    return {"id": array.id, "shape": array.shape, **values}


def array_rows(arrays: Iterable[Mapping[str, Any]], *, head: bool) -> list[tuple[str, ...]]:
    """Return arrays as rows of text, one column for each attribute."""
    rows: list[tuple[str, ...]] = []
    for one in arrays:
        values = {**one["primary_attributes"], **one["custom_attributes"]}
        if head and not rows:
            rows.append(("id", *values))
        texts = []
        for value in values.values():
            shown = value if isinstance(value, float) else to_json_value(value)  # JSON has no NaN
            texts.append("" if value is None else str(shown))
        rows.append((one["id"], *texts))
    return rows
