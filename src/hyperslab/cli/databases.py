"""Databases on the command line: what a URL names, and the objects in it as plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any

import click

from hyperslab.checks.report import as_line
from hyperslab.cli.output import print_json
from hyperslab.cli.storage import parse_options
from hyperslab.errors import HyperslabError, Invalid, Problem, Unsupported
from hyperslab.formats import SCHEMES
from hyperslab.model.amounts import size_text
from hyperslab.stores.location import Location

_SHOWN = 6
_OPERATORS = ("<", ">", "!", "^", "~")
"""What stands before the ``=`` of a condition, as ``db query`` has them of collections."""
_COMPARED = "write NAME=TEXT or NAME:=JSON; XarrayMongoDB.find takes ranges, as slice(low, high)"


def _attributes(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> dict[str, Any]:
    """``NAME=TEXT``, which also means the number that the text spells, or ``NAME:=JSON``."""
    found: dict[str, Any] = {}
    for text in texts:
        for name, value in (parse_options([text], "an attribute") or {}).items():
            if name in found:
                raise Invalid(f"--attr {name} is given twice", remedy="give it once")
            is_json = text.partition("=")[0].endswith(":")
            if name.endswith(_OPERATORS) or _is_query(value):
                raise Invalid(f"--attr {text!r} is no NAME=VALUE: objects are compared alone", remedy=_COMPARED)
            found[name] = value if is_json else _text_or_number(value)
    return found


def _is_query(value: Any) -> bool:
    """Return whether it is one of MongoDB's operators, as ``{"$gt": 5}``."""
    return isinstance(value, dict) and any(name.startswith("$") for name in value)


def _text_or_number(text: str) -> Any:
    for kind in (int, float):
        try:
            return {text, kind(text)}
        except ValueError:
            continue
    return text


def _dimensions(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for text in texts:
        name, mark, size = text.partition("=")
        if mark and not size.isdecimal():
            raise Invalid(f"--dim {text!r}", remedy="write --dim time, or --dim time=120")
        found[name] = int(size) if mark else None
    return found


attribute_option: Callable[[Any], Any] = click.option(
    "--attr",
    "attrs",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_attributes,
    help="Only objects with this attribute: NAME=TEXT or NAME:=JSON; repeatable.",
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
    """Objects as rows of text."""
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


def tell_problems(url: str, problems: Iterable[Problem], *, deep: bool, as_json: bool) -> int:
    """Problems one a line, as they are found, or all in one document; 1 when there are some."""
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
        database = place.open()
        self.place = place
        self.url: str = place.url
        self.object: str | None = place.object
        self.meta = database[f"{place.collection}.meta"]
        self.chunks = database[f"{place.collection}.chunks"]

    def errors(self) -> AbstractContextManager[None]:
        """The driver's errors as ours."""
        from hyperslab.formats.mongo.server import storage_errors

        return storage_errors(self.url)

    def needed(self, verb: str) -> None:
        """Invalid where the URL names no object."""
        if self.object is None:
            raise Invalid(f"db {verb} is about one object", remedy=f"name it behind the URL: {self.url}#name")

    def refuse_object(self, verb: str) -> None:
        """Invalid where the URL names an object."""
        if self.object is not None:
            raise Invalid(f"db {verb} is about all objects", remedy="leave out what stands behind #")

    def find(self, **wanted: Any) -> Iterator[Any]:
        """The objects that are asked for."""
        from hyperslab.formats.mongo.search import find_objects

        wanted["names"] = wanted.pop("names", None) or None
        try:
            return find_objects(self.meta, **wanted)
        except HyperslabError as error:
            raise error.locate(url=self.url, node="") from error.__cause__

    @property
    def id(self) -> Any:
        """The id of the one object. NotFound, Invalid."""
        from hyperslab.formats.mongo.objects import resolve_id

        return resolve_id(self.meta, self.object or "")

    def describe(self) -> Any:
        """What is told of the one object."""
        from hyperslab.formats.mongo.search import describe_object

        return describe_object(self.meta, self.id)

    def facts(self) -> dict[str, Any]:
        """The one object with its variables, as plain values."""
        from hyperslab.formats.mongo.completeness import load_meta

        about = self.describe()
        meta = load_meta(self.meta, about.id)
        return {
            "id": str(about.id),
            "name": about.name,
            "kind": about.kind,
            "status": about.status,
            "created": about.created,
            "nbytes": about.nbytes,
            "dimensions": dict(about.dims),
            "attrs": dict(about.attrs),
            "variables": [_variable(name, one, _cut(meta, name)) for name, one in meta.variables.items()],
        }

    def totals(self) -> dict[str, Any]:
        """How much all objects are together, as plain values."""
        meta, chunks = (self.meta.database.command("collStats", one.name) for one in (self.meta, self.chunks))
        return {
            "objects": meta.get("count", 0),
            "chunk_documents": chunks.get("count", 0),
            "nbytes": meta.get("size", 0) + chunks.get("size", 0),
            "nbytes_stored": meta.get("storageSize", 0) + chunks.get("storageSize", 0),
            "indexes": sorted(chunks.get("indexSizes", {})),
        }

    def delete(self, id: Any) -> int:
        """Remove one object; how many documents there were."""
        from hyperslab.formats.mongo.objects import delete_object

        return delete_object(self.meta, self.chunks, id)

    def problems(self, deep: bool) -> Iterator[Problem]:
        """What is wrong with the one object, or with all."""
        from hyperslab.formats.mongo.repair import find_problems

        return find_problems(self.meta, self.chunks, None if self.object is None else self.id, deep=deep)

    def collect(self, age: float, apply: bool) -> tuple[Any, ...]:
        """What belongs to nothing, removed if ``apply``."""
        from hyperslab.formats.mongo.repair import collect_garbage

        return collect_garbage(self.meta, self.chunks, age=age, dry_run=not apply).orphans


def _cut(meta: Any, name: str) -> Any:
    """The chunk lengths of a variable, sizes where they vary; None: one chunk, or not known."""
    from hyperslab.formats.mongo.to_spec import variable_chunks, variable_extension

    variable = meta.variables[name]
    if variable.chunks is None or variable.problem is not None or not variable.known:
        return None
    return variable_chunks(variable, variable_extension(meta, name)).chunks


def _variable(name: str, variable: Any, chunks: Any) -> Mapping[str, Any]:
    stored = "embedded" if variable.embedded is not None else "COO" if variable.sparse else "dense"
    return {
        "name": name,
        "dtype": variable.dtype.str,
        "dims": list(variable.dims),
        "shape": list(variable.shape),
        "chunks": chunks,
        "units": variable.units,
        "stored": variable.problem.said if variable.problem is not None else stored,
    }


def open_objects(url: str, storage: Mapping[str, Any] | None) -> DatabaseObjects:
    """The objects of the database at a URL. Unsupported for another place."""
    where = Location.of(url, storage)
    if where.scheme not in SCHEMES:
        remedy = "give mongodb://host/database; of collections db list, schema, arrays and check tell"
        raise Unsupported("a place that is no database server", url=where.url, remedy=remedy)
    from hyperslab.formats.mongo.server import ServerPlace, import_pymongo

    import_pymongo()
    return DatabaseObjects(ServerPlace.of(where))
