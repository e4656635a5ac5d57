"""Objects of a database server, for ``hyperslab db``: found, described, changed and removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hyperslab.chunks.settings import DEFAULTS
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats import SCHEMES
from hyperslab.formats.conditions import Where, parse_texts
from hyperslab.stores.location import Location


def parse_attributes(conditions: Sequence[str]) -> Where:
    """Return what conditions ask of objects' attributes; Invalid."""
    from hyperslab.formats.mongo.search import parse_value

    return parse_texts(conditions, parse_value)


def is_server(url: str) -> bool:
    """Return True if a URL names a database server, and no place of collections."""
    return url.partition("://")[0].lower() in SCHEMES


def refuse_server(url: str, verb: str) -> None:
    """Raise Unsupported for a database server, which holds objects and no collections."""
    if is_server(url):
        remedy = "give a folder, or a URL, that holds collections; objects of a server: db list URL --attr CONDITION"
        raise Unsupported(f"db {verb} of a server", url=url, remedy=remedy)


def refuse_collection(wanted: object, remedy: str) -> None:
    """Raise Invalid where a collection of arrays is named of a database server."""
    if wanted:
        raise Invalid("a server has objects, and no collections of arrays", remedy=remedy)


class DatabaseObjects:
    """The objects of two collections in MongoDB, which commands ask of :mod:`hyperslab.formats.mongo`; ``object``: the
    one that the URL names, None for all."""

    def __init__(self, place: Any) -> None:
        if place.at is not None:
            remedy = "hyperslab info, get and convert take a moment; db versions lists the ids of versions"
            raise Invalid("hyperslab db knows objects by name or id", url=place.url, remedy=remedy)
        from hyperslab.formats.mongo.reader import CollectionPair

        pair = CollectionPair.of(place, DEFAULTS)
        self.pair = pair
        self.url: str = place.url
        self.object: str | None = place.object
        self.meta, self.chunks = pair.meta, pair.chunks

    def errors(self) -> AbstractContextManager[None]:
        """Return the block in which the driver's errors become ours, and all of them say where they are."""
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
        return find_objects(self.meta, **wanted)

    @property
    def id(self) -> Any:
        """Return the id of the one object. NotFound, Invalid."""
        return self.pair.resolve(self.object or "")

    def facts(self) -> dict[str, Any]:
        """Return the one object with its variables, as plain values."""
        from hyperslab.formats.mongo.document import load_meta
        from hyperslab.formats.mongo.search import describe_object
        from hyperslab.formats.mongo.to_spec import variable_chunks, variable_extension

        about = describe_object(self.meta, self.id)
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
        from hyperslab.formats.mongo.indexes import describe_indexes

        return list(describe_indexes(self.pair.collections))

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
        return expire_objects(self.meta, self.chunks, **how)

    def compact(self, chunk_bytes: int | None, keep_old: float | None) -> Any:
        """Join the small chunks of the one object; return its id. Conflict, MissingLibrary."""
        from hyperslab.mongo import XarrayMongoDB

        wanted = {"chunk_bytes": chunk_bytes, "keep_old": keep_old}
        options: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
        return XarrayMongoDB(self.meta.database, self.pair.place.collection).compact(self.id, **options)


def open_objects(url: str, storage: Mapping[str, object] | None) -> DatabaseObjects:
    """Return the objects of the database at a URL. Unsupported for another place."""
    where = Location.of(url, storage)
    if where.scheme not in SCHEMES:
        remedy = "give mongodb://host/database; of collections db list, schema, arrays and check tell"
        raise Unsupported("a place that is no database server", url=where.url, remedy=remedy)
    from hyperslab.formats.mongo.server import ServerPlace, import_pymongo

    import_pymongo()
    return DatabaseObjects(ServerPlace.of(where))
