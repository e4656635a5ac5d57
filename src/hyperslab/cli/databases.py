"""Databases on the command line: collections of arrays, and objects of a server, as conditions, values and rows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import Any

import click

from hyperslab.array.plain_values import to_json_value
from hyperslab.cli.arguments import storage_option
from hyperslab.cli.exit_codes import verbosity_options
from hyperslab.cli.output import format_columns, json_option, print_json, print_remark
from hyperslab.database import Array, AttributeSchema, Client, Collection
from hyperslab.database.dimensions import labels_text
from hyperslab.database.index import AttributeIndexState
from hyperslab.database.typed_conditions import parse_conditions
from hyperslab.errors import CollectionNotFound, HyperslabError, Invalid, NodeNotFound, Problem, Unsupported
from hyperslab.formats import SCHEMES
from hyperslab.integrity.report import as_line
from hyperslab.model.amounts import size_text
from hyperslab.model.conditions import OR, Where, is_condition, parse_texts, split_conditions
from hyperslab.model.guessing import meant
from hyperslab.model.schemas.attributes import type_name, value_to_json
from hyperslab.stores.location import Location

# Variables of an object that its row names.
_SHOWN = 6


def _attributes(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> list[str]:
    """Return conditions upon attributes of objects, those of all texts, with ``or`` between some of one text. Invalid
    where several texts have alternatives."""
    several = [split_conditions(text) or [text] for text in texts]
    if len(several) > 1 and any(OR in some for some in several):
        remedy = "write one --attr 'A=1 and B=2 or A=3'"
        raise Invalid(f"--attr with {OR!r} beside another --attr", remedy=remedy)
    return [condition for some in several for condition in some]


def parse_attributes(conditions: Sequence[str]) -> Where:
    """Return what conditions ask of objects' attributes; Invalid."""
    from hyperslab.formats.mongo.search import parse_value

    return parse_texts(conditions, parse_value)


def _dimensions(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> dict[str, int | None]:
    """Parse ``NAME`` as a dimension of any size, ``NAME=SIZE`` as one of that size."""
    found: dict[str, int | None] = {}
    for text in texts:
        name, mark, size = text.partition("=")
        if mark and not size.isdecimal():
            raise Invalid(f"--dim {text!r}", remedy="write --dim time, or --dim time=120")
        found[name] = int(size) if mark else None
    return found


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def parse_age(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Return the seconds that a text such as ``90d``, ``12h``, ``30m`` or ``45s`` says; 0 needs no unit. Invalid."""
    if text is None or text == "0":
        return None if text is None else 0.0
    number = text.rstrip("smhdw")
    try:
        seconds = float(number) * _SECONDS[text[len(number) :]]
    except (ValueError, KeyError):
        seconds = -1.0
    if not 0 <= seconds < 1e10:
        raise Invalid(f"{parameter.opts[0]} {text!r} is no age", remedy="write 2w, 90d, 12h, 30m or 45s")
    return seconds


attribute_option: Callable[[Any], Any] = click.option(
    "--attr",
    "attrs",
    multiple=True,
    metavar="CONDITION",
    callback=_attributes,
    help="Only objects whose attributes meet this, as db query has it: NAME=VALUE, NAME>=VALUE, …; repeatable.",
)
dimension_option: Callable[[Any], Any] = click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME[=SIZE]",
    callback=_dimensions,
    help="Only objects with this dimension; repeatable.",
)


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
    """Print the indexes of collections, one a line."""
    if as_json:
        print_json(command, url=url, indexes=[asdict(state) for state in states])
        return
    rows = [("collection", "index", "bytes", "state")]
    for one in states:
        state = f"{one.stale} of {one.parts} parts are listed by each that looks something up" if one.stale else "fresh"
        rows.append((one.collection, one.place or "in memory", size_text(one.nbytes), state if one.place else ""))
    click.echo(format_columns(rows))


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


class DatabaseObjects:
    """The objects of two collections in MongoDB; ``object``: the one that the URL names, None for all."""

    def __init__(self, place: Any) -> None:
        if place.at is not None:
            remedy = "hyperslab info, get and convert take a moment; db versions lists the ids of versions"
            raise Invalid("hyperslab db knows objects by name or id", url=place.url, remedy=remedy)
        database = place.open()
        self.place = place
        self.url: str = place.url
        self.object: str | None = place.object
        self.meta = database[f"{place.collection}.meta"]
        self.chunks = database[f"{place.collection}.chunks"]

    def errors(self) -> AbstractContextManager[None]:
        """Return the driver's errors as ours."""
        from hyperslab.formats.mongo.server import storage_errors

        return storage_errors(self.url)

    def needed(self, verb: str) -> None:
        """Raise Invalid where the URL names no object."""
        if self.object is None:
            raise Invalid(f"db {verb} is about one object", remedy=f"name it behind the URL: {self.url}#name")

    def refuse_object(self, verb: str) -> None:
        """Raise Invalid where the URL names an object."""
        if self.object is not None:
            raise Invalid(f"db {verb} is about all objects", remedy="leave out what stands behind #")

    def find(self, **wanted: Any) -> Iterator[Any]:
        """Return the objects that are asked for."""
        from hyperslab.formats.mongo.search import find_objects

        wanted["attrs"] = parse_attributes(wanted["attrs"])
        wanted["names"] = wanted.pop("names", None) or None
        try:
            return find_objects(self.meta, **wanted)
        except HyperslabError as error:
            raise error.locate(url=self.url, node="") from error.__cause__

    @property
    def id(self) -> Any:
        """Return the id of the one object. NotFound, Invalid."""
        from hyperslab.formats.mongo.objects import resolve_id

        return resolve_id(self.meta, self.object or "")

    def describe(self) -> Any:
        """Return the description of the one object, without its variables' chunks."""
        from hyperslab.formats.mongo.search import describe_object

        return describe_object(self.meta, self.id)

    def facts(self) -> dict[str, Any]:
        """Return the one object with its variables, as plain values."""
        from hyperslab.formats.mongo.document import load_meta
        from hyperslab.formats.mongo.to_spec import variable_chunks, variable_extension

        about = self.describe()
        meta = load_meta(self.meta, about.id)
        variables: list[dict[str, object]] = []
        for name, variable in meta.variables.items():
            chunks: object = None  # one chunk, or lengths that are not known
            if variable.chunks is not None and variable.problem is None and variable.has_known_sizes:
                chunks = variable_chunks(variable, variable_extension(meta, name)).chunks
            stored = "embedded" if variable.embedded is not None else "COO" if variable.sparse else "dense"
            variables.append(
                {
                    "name": name,
                    "dtype": variable.dtype.str,
                    "dims": list(variable.dims),
                    "shape": list(variable.shape),
                    "chunks": chunks,
                    "units": variable.units,
                    "stored": variable.problem.said if variable.problem is not None else stored,
                }
            )
        return {
            "id": str(about.id),
            "name": about.name,
            "kind": about.kind,
            "status": about.status,
            "created": about.created,
            "nbytes": about.nbytes,
            "dimensions": dict(about.dims),
            "attrs": dict(about.attrs),
            "variables": variables,
        }

    def totals(self) -> dict[str, Any]:
        """Return how much all objects are together, as plain values."""
        meta, chunks = (self.meta.database.command("collStats", one.name) for one in (self.meta, self.chunks))
        return {
            "objects": meta.get("count", 0),
            "chunk_documents": chunks.get("count", 0),
            "nbytes": meta.get("size", 0) + chunks.get("size", 0),
            "nbytes_stored": meta.get("storageSize", 0) + chunks.get("storageSize", 0),
            "indexes": sorted(chunks.get("indexSizes", {})),
        }

    def indexes(self) -> list[Any]:
        """Return the indexes that look-ups need and those that are there besides: ``IndexState``."""
        from hyperslab.formats.mongo.bson_values import Collections
        from hyperslab.formats.mongo.indexes import describe_indexes

        return list(describe_indexes(Collections(self.meta, self.chunks)))

    def make_indexes(self, attrs: Sequence[str], *, positional: bool) -> None:
        """Make the indexes that are missing, by these attributes too. Invalid."""
        from hyperslab.formats.mongo.indexes import (
            ensure_index,
            ensure_positional,
            ensure_search_index,
            parse_search_index,
        )

        wanted = parse_search_index(attrs)
        ensure_index(self.chunks)
        ensure_search_index(self.meta, wanted, best_effort=False)
        if positional:
            ensure_positional(self.chunks)

    def expire(self, **how: Any) -> Iterator[Any]:
        """Remove objects by age and number, and yield what was known of each: ``ObjectInfo``. Invalid."""
        from hyperslab.formats.mongo.retention import expire_objects

        how["attrs"] = parse_attributes(how["attrs"])
        how["names"] = how.pop("names", None) or None
        try:
            return expire_objects(self.meta, self.chunks, **how)
        except HyperslabError as error:
            raise error.locate(url=self.url, node="") from error.__cause__

    def versions(self) -> Sequence[Any]:
        """Return the one object and its older versions, the oldest first: ``ObjectInfo``."""
        from hyperslab.formats.mongo.search import find_versions

        return find_versions(self.meta, self.id)

    def compact(self, chunk_bytes: int | None, keep_old: float | None) -> Any:
        """Join the small chunks of the one object; return its id. Conflict, MissingLibrary."""
        from hyperslab.mongo import XarrayMongoDB

        wanted = {"chunk_bytes": chunk_bytes, "keep_old": keep_old}
        options: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
        return XarrayMongoDB(self.meta.database, self.place.collection).compact(self.id, **options)

    def rename(self, name: str) -> None:
        """Give the one object another name. AlreadyExists, Conflict."""
        from hyperslab.formats.mongo.objects import rename_object

        rename_object(self.meta, self.chunks, self.id, name)

    def delete(self, id: Any) -> int:
        """Remove one object; how many documents there were."""
        from hyperslab.formats.mongo.objects import delete_object

        return delete_object(self.meta, self.chunks, id)

    def problems(self, deep: bool) -> Iterator[Problem]:
        """Yield what is wrong with the one object, or with all."""
        from hyperslab.formats.mongo.rules import find_problems

        return find_problems(self.meta, self.chunks, None if self.object is None else self.id, deep=deep)

    def collect(self, age: float, apply: bool) -> tuple[Any, ...]:
        """Return what belongs to nothing; remove it if ``apply``."""
        from hyperslab.formats.mongo.rules import collect_garbage

        return collect_garbage(self.meta, self.chunks, age=age, dry_run=not apply).orphans


def open_objects(url: str, storage: Mapping[str, object] | None) -> DatabaseObjects:
    """Return the objects of the database at a URL. Unsupported for another place."""
    where = Location.of(url, storage)
    if where.scheme not in SCHEMES:
        remedy = "give mongodb://host/database; of collections db list, schema, arrays and check tell"
        raise Unsupported("a place that is no database server", url=where.url, remedy=remedy)
    from hyperslab.formats.mongo.server import ServerPlace, import_pymongo

    import_pymongo()
    return DatabaseObjects(ServerPlace.of(where))


# -- commands -------------------------------------------------------------------------------------------------------


def verb(name: str, example: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command of ``hyperslab db``, with the options that all of them take."""

    def decorate(function: Callable[..., object]) -> click.Command:
        made: click.Command = click.command(name, epilog=f"Example: hyperslab db {name} {example}")(
            storage_option()(json_option(function))
        )
        made.params.extend(verbosity_options())
        return made

    return decorate


def is_confirmed(question: str, url: str) -> bool:
    """Ask, and return the answer. Invalid where nobody can answer."""
    try:
        return click.confirm(question, err=True)
    except click.Abort as error:
        if isinstance(error.__context__, EOFError):
            click.echo(err=True)
            raise Invalid("nobody answers: nothing was removed", url=url, remedy="say --yes") from None
        raise


# -- collections of arrays ------------------------------------------------------------------------------------------


_MOST_LABELS = 6


def is_server(url: str) -> bool:
    """Return True if a URL names a database server, and no place of collections."""
    return url.partition("://")[0].lower() in SCHEMES


@contextmanager
def open_client(url: str, storage: Mapping[str, object] | None, *, writable: bool = False) -> Iterator[Client]:
    """Open the collections at a URL, for reading unless ``writable``. Errors say where they are."""
    where = Location.of(url, storage)
    try:
        level = logging.getLevelName(logging.getLogger("hyperslab").getEffectiveLevel())
        with Client(url, mode="a" if writable else "r", storage_options=storage, loglevel=level) as client:
            yield client
    except HyperslabError as error:
        raise error.locate(url=where.url) from error.__cause__


def refuse_server(url: str, verb: str) -> None:
    """Raise Unsupported for a database server, which holds objects and no collections."""
    if is_server(url):
        raise Unsupported(f"db {verb} of a server", url=url, remedy="give a folder, or a URL, that holds collections")


def tell_unreadable(url: str, collection: Collection) -> None:
    """Print how many arrays were left out since what is stored of them cannot be read."""
    if lost := collection.unreadable:
        arrays = "array that cannot be read is" if lost == 1 else "arrays that cannot be read are"
        print_remark(f"{lost} {arrays} left out of {collection.name}: hyperslab check {url} tells why")


def find_collection(client: Client, name: str, at: str | None = None) -> Collection:
    """Return the collection of this name, as of a moment if one is given; CollectionNotFound says which there are."""
    found = client.get_collection(name, at=at)
    if found is None:
        raise CollectionNotFound(f"no collection {name!r}", remedy=meant(name, (each.name for each in client)))
    return found


# -- arrays --------------------------------------------------------------------------------------------------------


def find_database_array(collection: Collection, wanted: Sequence[str]) -> Array:
    """Return the one array that an id, or conditions, name. NodeNotFound; Invalid where there are several."""
    if len(wanted) == 1 and not is_condition(wanted[0]):
        return collection[wanted[0]]
    found = list(collection.query(parse_conditions(collection, wanted), limit=2))
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


# -- facts and rows -------------------------------------------------------------------------------------------------


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
