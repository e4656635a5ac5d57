"""The Reader of one object, or of a collection of objects, in a hyperslab dataset."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import ObjectId

from hyperslab.chunks.settings import DEFAULTS, Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import Invalid, NodeNotFound, NotFound
from hyperslab.formats.base import Reader
from hyperslab.formats.conditions import OR, parse_texts
from hyperslab.formats.format_errors import node_not_found
from hyperslab.formats.mongo import objects, rules, search
from hyperslab.formats.mongo.bson_values import Collections, Document, DocumentCollection
from hyperslab.formats.mongo.chunk_source import ChunkCollection, MongoChunks
from hyperslab.formats.mongo.chunk_writes import UndoView, undo_entries, with_write_concern
from hyperslab.formats.mongo.document import ARRAY, Meta, Variable, parse_object
from hyperslab.formats.mongo.embedded import EmbeddedChunk
from hyperslab.formats.mongo.server import ServerPlace, storage_errors
from hyperslab.formats.mongo.to_spec import (
    array_spec,
    child_names,
    group_spec,
    infer_schema,
    inner_group_spec,
    inner_groups,
    node_names,
    variable_chunks,
    variable_extension,
)
from hyperslab.formats.rules import Finding
from hyperslab.model.spec import ArraySpec, GroupSpec


@dataclass(frozen=True, slots=True)
class CollectionPair:
    """The two collections of a place, and how they are read and written."""

    place: ServerPlace
    meta: DocumentCollection
    chunks: DocumentCollection
    settings: Settings = DEFAULTS

    @classmethod
    def of(cls, place: ServerPlace, settings: Settings) -> CollectionPair:
        """Return the collections that a URL names; no request is sent."""
        database = place.open()
        return cls(place, database[f"{place.collection}.meta"], database[f"{place.collection}.chunks"], settings)

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self.place.url

    @property
    def collections(self) -> Collections:
        """The two of them."""
        return Collections(self.meta, self.chunks)

    @property
    def durable_meta(self) -> DocumentCollection:
        """The documents of objects, with writes as the settings ask for."""
        return with_write_concern(self.meta, self.settings.durable)

    def resolve(self, wanted: str) -> ObjectId:
        """Return the id of the object with this id or name. NotFound; Invalid lists the ids where there are several."""
        with storage_errors(self.url):
            return objects.resolve_id(self.meta, wanted)

    def find_id(self, wanted: str) -> ObjectId | None:
        """Return the id of the object with this id or name, None where there is none. Invalid where several are."""
        with storage_errors(self.url):
            return objects.find_id(self.meta, wanted)

    def find_document(self, wanted: str) -> Document:
        """Return the document of the object with this id or name; where that is replaced meanwhile, of the one in its
        place. NotFound."""
        key = self.resolve(wanted)
        while True:
            try:
                return self.document(key)
            except NotFound:
                gone, key = key, self.resolve(wanted)
                if key == gone:
                    raise

    def find_version(self, wanted: str, at: datetime) -> Document:
        """Return the document of the version of an object that was the present one at a moment. NotFound, Invalid."""
        with storage_errors(self.url):
            return self.document(search.find_version(self.meta, self.resolve(wanted), at))

    def document(self, key: object) -> Document:
        """Return the document of an object. NotFound."""
        with storage_errors(self.url):
            doc: Document | None = self.meta.find_one({"_id": key})
        if doc is None:
            raise NotFound("the object is gone", url=self.url, key=str(key), remedy="list the collection")
        return doc


class ObjectReader(Reader):
    """One object: its variables are the arrays of the root and of the groups in it."""

    def __init__(self, pair: CollectionPair, doc: Document, wanted: str | None = None) -> None:
        """Take an object; ``wanted``: the id or name by which it was found."""
        self._pair = pair
        self.url = pair.url
        self._wanted = wanted
        self._mutex = threading.RLock()
        self._take(parse_object(doc))

    def _take(self, meta: Meta) -> None:
        self._meta = meta
        self._names = node_names(meta)
        self._inferred: dict[str, Variable] | None = None

    @property
    def id(self) -> Any:
        """The id of the object."""
        return self._meta.id

    def children(self, path: str) -> Iterable[str]:
        """Return the names of the variables, coordinates first, then of the groups."""
        known = inner_groups(self._meta)
        if path and path not in known:
            self.node(path)
            return []
        return list(child_names(path, known, self._names))

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the object, or one of its variables. NodeNotFound; Unsupported and FormatError for one that is no
        array.
        """
        with self._mutex:
            if not path:
                return group_spec(self._meta)
            if (group := inner_group_spec(self._meta, path)) is not None:
                return group
            name, variable = self._variable(path)
            return array_spec(self._meta, name, variable)

    def _variable(self, path: str) -> tuple[str, Variable]:
        """Return the variable at a path, with sizes and type as its chunks have them."""
        name = self._names.get(path)
        if name is None:
            raise node_not_found(path, self.url)
        variable = self._meta.variables[name]
        if variable.problem is None and variable.embedded is None:
            if self._inferred is None:
                with storage_errors(self.url):
                    self._inferred = infer_schema(self._pair.chunks, self._meta)
            variable = self._inferred[name]
        if variable.problem is not None:
            raise variable.problem.locate(url=self.url, node=path, key=str(self.id))
        return name, variable

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of a variable; those that stand in the document of the object are in memory."""
        with self._mutex:
            if not path or path in inner_groups(self._meta):
                raise NodeNotFound("this is a group, not an array", url=self.url, node=path)
            name, variable = self._variable(path)
            return self._source(name, variable, array_spec(self._meta, name, variable))

    def _source(self, name: str, variable: Variable, spec: ArraySpec) -> ChunkSource:
        embedded = variable.embedded
        if embedded is not None:
            return EmbeddedChunk(lambda: embedded, spec, self.url)
        extension = variable_extension(self._meta, name)
        return MongoChunks(
            self._chunk_collection(),
            name,
            spec,
            variable_chunks(variable, extension),
            whole=variable.chunks is None,
            fill_unstored="fill" in extension,
            lenient=bool(extension),
        )

    def _chunk_collection(self) -> ChunkCollection:
        return ChunkCollection(
            documents=self._pair.chunks,
            meta_id=self.id,
            url=self.url,
            chunk_size=self._meta.chunk_size,
            derived=True if self._meta.has_derived_ids else None,
            undo_view=UndoView(self._pair.meta, self.id, undo_entries(self._meta.extension)),
            meta=self._pair.meta,
        )

    def refresh(self, path: str) -> None:
        """Read the document of the object again, or of the one that has taken its place under its name."""
        wanted = self._wanted
        doc = self._pair.document(self.id) if wanted is None else self._pair.find_document(wanted)
        with self._mutex:
            self._take(parse_object(doc))

    def stamp(self, path: str) -> tuple[str, int | None]:
        """Return the id and the version of the document that is known here."""
        return str(self.id), self._meta.extension.get("version")

    def storage(self, path: str) -> Document:
        """Return which object it is, and how long its documents are at most."""
        if path and (name := self._names.get(path)) and self._meta.variables[name].embedded is not None:
            return {"object": str(self.id), "stored": "in the document of the object"}
        return {"object": str(self.id), "documents of": self._meta.chunk_size}

    def find_damage(self, *, deep: bool, workers: int) -> Iterator[Finding]:
        with storage_errors(self.url):
            found = rules.find_damage(self._pair.meta, self._pair.chunks, self.id, deep=deep)
            yield from map(rules.RULES.with_rule, found)

    def close(self) -> None:
        """Leave the client open: it is that of the process."""


class CollectionReader(Reader):
    """All objects of a collection as groups called by their ids; a name that one object has is another name of it."""

    def __init__(self, pair: CollectionPair) -> None:
        self._pair = pair
        self.url = pair.url
        self._mutex = threading.RLock()
        self._objects: dict[str, ObjectReader] = {}

    def children(self, path: str) -> Iterable[str]:
        """Return the ids of the objects, or the names of an object's variables."""
        if path:
            found, inner = self._object(path)
            return found.children(inner)
        with storage_errors(self.url):
            meta = self._pair.meta
            hidden = objects.find_replaced(meta)
            # Ids alone, which stand in an index: the server reads no document. What is being made is looked for
            # afterwards: an object that is whole by then is listed.
            ids = [row["_id"] for row in meta.find({}, {"_id": 1}).sort("_id", 1)]
            hidden |= objects.find_unfinished(meta)
            return [str(id) for id in ids if id not in hidden]

    def some_names(self, most: int) -> list[str]:
        """Return the names of the first objects, or their ids where they have none."""
        with storage_errors(self.url):
            return [str(found.name or found.id) for found in search.find_objects(self._pair.meta, limit=most)]

    def describe_datasets(
        self, start: int, count: int, conditions: Sequence[str], order: str | None = None
    ) -> list[dict[str, object]]:
        """Return what is known of the objects whose attributes, and ``name``, meet conditions; the oldest first."""
        wanted = parse_texts(conditions, search.parse_value)
        several = wanted if isinstance(wanted, list) else [dict(wanted)]
        if len(several) > 1 and any("name" in some for some in several):
            remedy = "leave the name out, or ask twice"
            raise Invalid(f"a name beside {OR!r}", url=self.url, remedy=remedy)
        name = several[0].pop("name", None)
        with storage_errors(self.url):
            found = search.find_objects(
                self._pair.meta,
                several,
                name=name,
                order=search.parse_order(order or "created"),
                skip=start,
                limit=count,
            )
            return [
                {
                    "name": str(info.name or info.id),
                    "kind": info.kind,
                    "dims": ", ".join(f"{dim}: {'?' if size is None else size}" for dim, size in info.dims.items()),
                    "variables": [name for name in info.variables if name != ARRAY],
                    "nbytes": info.nbytes,
                    "created": info.created,
                    "attributes": dict(info.attrs),
                }
                for info in found
            ]

    def _object(self, path: str) -> tuple[ObjectReader, str]:
        """Return the object that a path leads to, the same one by its name and by its id, and the path within it."""
        wanted, _, inner = path.partition("/")
        with self._mutex:
            if wanted not in self._objects:
                try:
                    key = self._pair.resolve(wanted)
                    known = next((each for each in self._objects.values() if each.id == key), None)
                    self._objects[wanted] = known or self._open_object(self._pair.find_document(wanted), wanted)
                except NotFound as error:
                    raise NodeNotFound(f"there is no object {wanted!r}", url=self.url, node=wanted) from error
            return self._objects[wanted], inner

    def _open_object(self, doc: Document, wanted: str) -> ObjectReader:
        return ObjectReader(self._pair, doc, wanted)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the collection, an object or a variable."""
        if not path:
            return GroupSpec()
        found, inner = self._object(path)
        return found.node(inner)

    def chunks(self, path: str) -> ChunkSource:
        """Return the chunks of a variable of an object."""
        if not path:
            raise NodeNotFound("this is a group, not an array", url=self.url, node=path)
        found, inner = self._object(path)
        return found.chunks(inner)

    def refresh(self, path: str) -> None:
        """Read the documents of an object, or of all, again when they are asked for."""
        wanted, _, inner = path.partition("/")
        with self._mutex:
            if wanted in self._objects:
                self._objects[wanted].refresh(inner)
            elif not wanted:
                self._objects = self._unfinished_objects()

    def _unfinished_objects(self) -> dict[str, ObjectReader]:
        """Return the objects that are not stored yet, and so cannot be read again."""
        return {}

    def stamp(self, path: str) -> Any:
        """Return the id and the version of an object's document; None for the collection."""
        if not path:
            return None
        found, inner = self._object(path)
        return found.stamp(inner)

    def find_damage(self, *, deep: bool, workers: int) -> Iterator[Finding]:
        with storage_errors(self.url):
            found = rules.find_damage(self._pair.meta, self._pair.chunks, deep=deep)
            yield from map(rules.RULES.with_rule, found)

    def close(self) -> None:
        """Leave the client open."""


def open_reader(pair: CollectionPair) -> ObjectReader | CollectionReader:
    """Open the object or the collection that the place names, for reading."""
    wanted = pair.place.object
    if wanted is None:
        return CollectionReader(pair)
    if pair.place.at is not None:  # found by its id from now on: it stays the version of that moment
        return ObjectReader(pair, pair.find_version(wanted, pair.place.at))
    return ObjectReader(pair, pair.find_document(wanted), wanted)


def check_new_name(place: ServerPlace) -> str:
    """Return the name of a new object. Invalid where there is none, it looks like an id, or has NUL in it."""
    wanted = place.object
    if wanted is None:
        raise Invalid("a new object needs a name", url=place.url, remedy="name it behind #: mongodb://host/db#name")
    with storage_errors(place.url):
        return objects.check_object_name(wanted)
