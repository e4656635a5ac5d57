"""Collections on the command line: what is typed of attributes becomes a query, what is found plain values and rows."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hyperslab.cli.output import plain
from hyperslab.database import Array, AttributeSchema, Client, Collection, Prefix
from hyperslab.database.dimensions import labels_text
from hyperslab.errors import CollectionNotFound, HyperslabError, Invalid, NodeNotFound
from hyperslab.formats import SCHEMES
from hyperslab.formats.metadata_json.records import value_to_json
from hyperslab.model.guessing import meant
from hyperslab.model.schemas.attributes import type_name
from hyperslab.stores.location import Location

_CONDITION = re.compile(r"(.*?)(:=|>=|<=|\^=|=)(.*)", re.DOTALL)
_SYNTAX = "write ATTR=VALUE, ATTR>=VALUE, ATTR<=VALUE, ATTR^=BEGINNING or ATTR:=JSON"
_NUMBERS = {int: int, float: float, complex: complex}
_MOST_LABELS = 6


def is_server(url: str) -> bool:
    """Return whether a URL names a database server, and no place of collections."""
    return url.partition("://")[0].lower() in SCHEMES


@contextmanager
def client_of(url: str, storage: Mapping[str, Any] | None, *, writable: bool = False) -> Iterator[Client]:
    """The collections at a URL, for reading unless ``writable``. Errors say where they are."""
    where = Location.of(url, storage)
    try:
        level = logging.getLevelName(logging.getLogger("hyperslab").getEffectiveLevel())
        with Client(url, mode="a" if writable else "r", storage_options=storage, loglevel=level) as client:
            yield client
    except HyperslabError as error:
        raise error.locate(url=where.url) from error.__cause__


def collection_of(client: Client, name: str) -> Collection:
    """The collection of this name; CollectionNotFound says which there are."""
    found = client.get_collection(name)
    if found is None:
        raise CollectionNotFound(f"no collection {name!r}", remedy=meant(name, (each.name for each in client)))
    return found


# -- what is typed ------------------------------------------------------------------------------------------------


def conditions_of(collection: Collection, texts: Iterable[str]) -> dict[str, Any]:
    """What a query asks of attributes; several equalities of one attribute mean any of them. Invalid."""
    known = {attribute.name: attribute for attribute in collection.schema.attributes}
    equal: dict[str, list[Any]] = {}
    ranges: dict[str, list[Any]] = {}
    prefixes: dict[str, Prefix] = {}
    for text in texts:
        name, mark, value = _parted(text)
        if name not in known:
            raise Invalid(f"no attribute {name!r}", remedy=meant(name, known))
        match mark:
            case "=" | ":=":
                equal.setdefault(name, []).append(_value(known[name], value, as_json=mark == ":="))
            case "^=":
                prefixes[name] = Prefix(value)
            case _:
                ranges.setdefault(name, [None, None])[mark == "<="] = _value(known[name], value, as_json=False)
    _refuse_both(equal, ranges, prefixes)
    single = {name: values[0] if len(values) == 1 else values for name, values in equal.items()}
    return single | {name: slice(*ends) for name, ends in ranges.items()} | prefixes


def _parted(text: str) -> tuple[str, str, str]:
    match = _CONDITION.fullmatch(text)
    if match is None or not match[1].strip():
        raise Invalid(f"{text!r} is no condition", remedy=_SYNTAX)
    return match[1].strip(), match[2], match[3]


def _refuse_both(*kinds: Mapping[str, Any]) -> None:
    names = [name for kind in kinds for name in kind]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Invalid(f"conditions of several kinds for {twice!r}", remedy="give equal values, a range, or a beginning")


def _value(attribute: AttributeSchema, text: str, *, as_json: bool) -> Any:
    """The value that a text means for an attribute."""
    try:
        if as_json:
            return _from_json(json.loads(text))
        if text == "null" and attribute.dtype is not str:
            return None
        kind = next((kind for kind in _NUMBERS if issubclass(attribute.dtype, kind)), None)
        if kind is not None:
            return _NUMBERS[kind](text)
        if attribute.dtype is tuple:
            return _from_json(json.loads(text))
        return text if attribute.dtype.__name__ in ("str", "datetime") else attribute.dtype(text)
    except (ValueError, TypeError, RecursionError):
        said = f"{text!r} for the attribute {attribute.name!r}, of type {type_name(attribute.dtype)}"
        raise Invalid(said, remedy="write a value of its type") from None


def _from_json(value: Any) -> Any:
    return tuple(map(_from_json, value)) if isinstance(value, list) else value


def array_of(collection: Collection, wanted: Sequence[str]) -> Array:
    """The one array that an id, or conditions, name. NodeNotFound; Invalid where there are several."""
    if len(wanted) == 1 and _CONDITION.fullmatch(wanted[0]) is None:
        return collection[wanted[0]]
    found = list(collection.query(conditions_of(collection, wanted), limit=2))
    if not found:
        said = f"no array of {collection.name!r} has {', '.join(wanted) or 'been made'}"
        raise NodeNotFound(said, remedy="hyperslab db arrays lists those that are there")
    if len(found) > 1:
        ids = ", ".join(array.id for array in found)
        said = (
            f"several arrays of {collection.name!r} have {', '.join(wanted)}" if wanted else "which array is not said"
        )
        raise Invalid(said, remedy=f"name one by its id or its key; there are {ids}, …")
    return found[0]


# -- what is told -------------------------------------------------------------------------------------------------


def facts_of(collection: Collection) -> dict[str, Any]:
    """A collection in a line."""
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
    """Collections as rows of text."""
    rows: list[tuple[str, ...]] = []
    if head:
        rows.append(("name", "kind", "layout", "dtype", "dimensions", "attributes", "arrays"))
    for one in facts:
        dims = ", ".join(f"{name}: {'unlimited' if size is None else size}" for name, size in one["dimensions"].items())
        named = ", ".join(one["attributes"])
        rows.append((one["name"], one["kind"], one["layout"], one["dtype"], dims, named, str(one["arrays"])))
    return rows


def schema_rows(collection: Collection) -> Iterator[list[tuple[str, ...]]]:
    """The dimensions of a schema, its attributes, and the rest, as tables of text."""
    schema = collection.schema
    sizes = (("unlimited" if dim.size is None else str(dim.size)) for dim in schema.dimensions)
    pairs = zip(schema.dimensions, sizes, strict=True)
    yield [("dimension", "size", "labels"), *((dim.name, size, labels_text(dim, _MOST_LABELS)) for dim, size in pairs)]
    if schema.attributes:
        kinds = (
            (each.name, type_name(each.dtype), "primary" if each.primary else "custom") for each in schema.attributes
        )
        yield [("attribute", "type", ""), *kinds]
    tiles = [] if collection.varray_schema is None else [("tiles", _by(collection.varray_schema.arrays_shape))]
    yield [("dtype", str(schema.dtype)), ("fill value", str(schema.fill_value)), ("layout", collection.layout), *tiles]


def _by(lengths: Iterable[int]) -> str:
    return " x ".join(map(str, lengths))


def array_facts(array: Array) -> dict[str, Any]:
    """An array in a line: its id and attributes."""
    parts = {"primary_attributes": array.primary_attributes, "custom_attributes": array.custom_attributes}
    told = {part: {name: value_to_json(value) for name, value in said.items()} for part, said in parts.items()}
    return {"id": array.id, "shape": array.shape, **told}


def _attribute_text(value: Any) -> str:
    return "" if value is None else str(value if isinstance(value, float) else plain(value))


def array_rows(arrays: Iterable[Mapping[str, Any]], *, head: bool) -> list[tuple[str, ...]]:
    """Arrays as rows of text, one column for each attribute."""
    rows: list[tuple[str, ...]] = []
    for one in arrays:
        values = {**one["primary_attributes"], **one["custom_attributes"]}
        if head and not rows:
            rows.append(("id", *values))
        rows.append((one["id"], *map(_attribute_text, values.values())))
    return rows
