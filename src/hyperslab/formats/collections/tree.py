"""A root of collections as a tree of groups and arrays, and the document of what no collection can say.

A collection is a group, and in it an array is called by its id. The document of a collection is the attribute
``collection`` of its group, as text, so that any format keeps it; an array's ``id``, ``primary_attributes`` and
``custom_attributes`` are its attributes.

Where a dataset of any kind becomes a database, each of its arrays becomes a collection. What a collection cannot say
(the path, attributes with their types, dimensions without names or that share one, groups) stands in
``collections.json`` beside the folder ``collections``, and only what there is to say::

    {"version": 1,
     "groups": {"": {"attrs": {"title": "…"}, "dims": {"time": {"size": 10, "unlimited": true}}}, "surface": {}},
     "arrays": {"surface/air": {"collection": "surface.air", "id": "6f0c…", "dims": ["time", "lat"],
                                "attrs": {"units": "K"}, "types": {}}}}

An array without cells has no collection: its ``shape``, ``dtype`` and ``fill_value`` stand there instead. So they do
for what no schema has (an array without dimensions, text, truths, times, rows), with its ``cells`` (or ``base64``)::

    "words": {"shape": [2], "dtype": "string", "chunks": [2], "fill_value": "", "cells": ["a", "b"], "dims": ["x"]}

Arrays are made and removed by one write of the document. Before they are made, and until they are gone, their
collections stand under ``unused``, by name, with the id of the array.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import FormatError, HyperslabError, Problem
from hyperslab.formats.base import Reader
from hyperslab.formats.collections.base import STORED_ATTRIBUTES, CollectionDocument, CollectionStore, Layout
from hyperslab.formats.format_errors import node_not_found, require_array
from hyperslab.formats.metadata_json.cells import cell_from_json, cell_to_json
from hyperslab.formats.metadata_json.dtypes import dtype_from_json, dtype_to_json
from hyperslab.formats.metadata_json.nodes import (
    attrs_from_json,
    attrs_to_json,
    get_object,
    group_from_json,
    group_to_json,
)
from hyperslab.formats.rules import Finding
from hyperslab.formats.single_array.document import STRING, cells_from_json, cells_to_json
from hyperslab.formats.single_array.reader import CoordinateCells
from hyperslab.model.dtypes import DataType, VlenString
from hyperslab.model.paths import normalize, outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.stores.base import Store
from hyperslab.stores.location import Location

KEY = "collections.json"
"""The document's key below the root."""


VERSION = 1


@dataclass(frozen=True, slots=True)
class ArrayEntry:
    """An array that is not one of a collection of its users: where its cells are, and what it is called by.

    ``collection`` and ``id``: the one array of that collection; without them ``inline_spec`` tells all of an array that
    has no cells, or whose ``cells`` stand here. ``dims``: the names of its dimensions as they were given.
    """

    dims: tuple[str | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    collection: str | None = None
    id: str | None = None
    inline_spec: ArraySpec | None = None
    cells: Block | None = None

    def apply_to(self, spec: ArraySpec) -> ArraySpec:
        """Return the spec of the collection's array with the dimension names and attributes of this entry."""
        names = dict(zip(spec.dims, self.dims, strict=False))
        indexes = {str(names[dim]): index for dim, index in spec.indexes.items() if names.get(dim) is not None}
        return spec.evolve(dims=self.dims, attrs=dict(self.attrs), indexes=indexes)


@dataclass(frozen=True, slots=True)
class Tree:
    """The groups and arrays of a root by path; the root itself is always a group.

    ``unused``: by name the id of the one array of each collection that no array uses: not yet, or no more.
    """

    groups: Mapping[str, GroupSpec] = field(default_factory=lambda: {"": GroupSpec()})
    arrays: Mapping[str, ArrayEntry] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)

    @property
    def hidden(self) -> frozenset[str]:
        """The names of collections that are not shown: those that are arrays here, will be, or were."""
        named = (entry.collection for entry in self.arrays.values() if entry.collection is not None)
        return frozenset((*named, *self.unused))

    def names_below(self, group: str) -> list[str]:
        """Return names right below a group."""
        prefix = f"{group}/" if group else ""
        inner = (path[len(prefix) :] for path in (*self.groups, *self.arrays) if path and path.startswith(prefix))
        return [name for name in dict.fromkeys(inner) if "/" not in name]

    def is_unlimited(self, path: str, dim: str | None) -> bool:
        """Return True if a dimension of the array at ``path`` was declared to grow: the nearest declaration upwards
        counts.
        """
        for group in outward(split(path)[0]):
            for known in self.groups.get(group, GroupSpec()).dims:
                if known.name == dim:
                    return known.unlimited
        return False

    def with_group(self, path: str, spec: GroupSpec) -> Tree:
        """Return the tree with a group, and with the groups above it."""
        above = {group: GroupSpec() for group in outward(split(path)[0]) if group not in self.groups} if path else {}
        ordered = dict(sorted(above.items(), key=lambda entry: len(entry[0])))
        return replace(self, groups={**self.groups, **ordered, path: spec})

    def with_array(self, path: str, entry: ArrayEntry) -> Tree:
        """Return the tree with an array, whose collection is used from then on, and with the groups above it."""
        group = split(path)[0]
        tree = self if group in self.groups else self.with_group(group, GroupSpec())
        return replace(tree.without_unused({entry.collection}), arrays={**tree.arrays, path: entry})

    def without_node(self, path: str) -> Tree:
        """Return the tree without a node and all below it, whose collections are to be removed."""
        groups = {place: spec for place, spec in self.groups.items() if not _is_within(place, path)}
        arrays = {place: entry for place, entry in self.arrays.items() if not _is_within(place, path)}
        unused = {str(each.collection): str(each.id) for each in self.entries_within(path) if each.collection}
        return Tree({"": GroupSpec()} | groups, arrays, {**self.unused, **unused})

    def with_unused(self, name: str, id: str) -> Tree:
        """Return the tree with a collection that no array uses."""
        return replace(self, unused={**self.unused, name: id})

    def without_unused(self, names: Collection[str | None]) -> Tree:
        """Return the tree without what it tells of unused collections of these names."""
        return replace(self, unused={name: id for name, id in self.unused.items() if name not in names})

    def entries_within(self, path: str) -> Iterator[ArrayEntry]:
        """Return the arrays at and below a path."""
        return (entry for place, entry in self.arrays.items() if _is_within(place, path))


def _is_within(path: str, top: str) -> bool:
    return not top or path == top or path.startswith(f"{top}/")


# -- to JSON ------------------------------------------------------------------------------------------------------


def render_tree(tree: Tree) -> bytes:
    """Return the document; Invalid or Unsupported for attributes that JSON cannot hold."""
    groups = {path: group_to_json(spec) for path, spec in tree.groups.items()}
    arrays = {path: _array_to_json(entry) for path, entry in tree.arrays.items()}
    doc: dict[str, Any] = {"version": VERSION}
    doc |= {key: part for key, part in (("groups", groups), ("arrays", arrays), ("unused", tree.unused)) if part}
    return json.dumps(doc, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _array_to_json(entry: ArrayEntry) -> dict[str, object]:
    doc: dict[str, Any] = {"collection": entry.collection, "id": entry.id} if entry.inline_spec is None else {}
    if entry.inline_spec is not None:
        is_text = isinstance(entry.inline_spec.dtype, VlenString)
        fill = entry.inline_spec.fill_cell()[()]
        doc |= {
            "shape": list(entry.inline_spec.shape),
            "dtype": STRING if is_text else dtype_to_json(entry.inline_spec.numpy_dtype),
        }
        doc |= {"chunks": list(entry.inline_spec.chunks), "fill_value": str(fill) if is_text else cell_to_json(fill)}
        doc |= {} if entry.cells is None else cells_to_json(entry.cells)
    return doc | {"dims": list(entry.dims)} | attrs_to_json(entry.attrs)


# -- from JSON ----------------------------------------------------------------------------------------------------


def parse_tree(data: bytes) -> Tree:
    """Return the tree that a document tells; FormatError for what makes no sense."""
    try:
        doc = json.loads(data)
        if doc.get("version") != VERSION:
            raise TypeError(f"version {doc.get('version')!r}, not {VERSION}")
        groups = {normalize(path): group_from_json(part) for path, part in get_object(doc, "groups").items()}
        arrays = {normalize(path): _array_from_json(part) for path, part in get_object(doc, "arrays").items()}
        unused = get_object(doc, "unused")
        if any(not isinstance(id, str) for id in unused.values()):
            raise TypeError("an unused collection without an id")
        return Tree({"": GroupSpec()} | groups, arrays, unused)
    except FormatError as error:
        raise error.locate(key=KEY) from error.__cause__
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise FormatError(f"the document of groups and arrays makes no sense: {error}", key=KEY) from error


def _array_from_json(doc: Mapping[str, Any]) -> ArrayEntry:
    dims = tuple(doc["dims"])
    if any(not isinstance(dim, str | None) for dim in dims):
        raise TypeError(f"dims {dims!r} are no names")
    if "shape" in doc:
        inline_spec = _inline_spec_from_json(doc, dims)
        cells = cells_from_json(doc, inline_spec) if {"cells", "base64"} & set(doc) else None
        return ArrayEntry(dims, attrs_from_json(doc), inline_spec=inline_spec, cells=cells)
    if not isinstance(doc["collection"], str) or not isinstance(doc["id"], str):
        raise TypeError("an array without a collection")
    return ArrayEntry(dims, attrs_from_json(doc), doc["collection"], doc["id"])


def _inline_spec_from_json(doc: Mapping[str, Any], dims: tuple[str | None, ...]) -> ArraySpec:
    lengths = [tuple(doc["shape"]), tuple(doc["chunks"])]
    if any(type(length) is not int or length < 0 for each in lengths for length in each):
        raise TypeError(f"{doc['shape']!r} is no shape")
    dtype: DataType = VlenString() if doc["dtype"] == STRING else np.dtype(dtype_from_json(doc["dtype"]))
    fill = cell_from_json(doc["fill_value"], dtype) if isinstance(dtype, np.dtype) else doc["fill_value"]
    if isinstance(dtype, VlenString) and not isinstance(fill, str):
        raise TypeError(f"{fill!r} is no text")
    return ArraySpec(shape=lengths[0], dtype=dtype, chunks=lengths[1], dims=dims, fill_value=fill)


# -- the reader -------------------------------------------------------------------------------------------------------


DOCUMENT_ATTRIBUTE = "collection"
"""The attribute of a collection's group that holds its document."""


KEPT_OPTIONS = "deker_options"
"""The key of a collection's document with options that its own layout cannot follow, kept for one that can."""


# Names that ``members`` gives at the most: a collection may hold millions of arrays.
IDS_SHOWN = 10


def portable_document(document: CollectionDocument) -> str:
    """Return the document as any layout tells it, with the options of the one that it comes from."""
    own = ("layout", KEPT_OPTIONS, STORED_ATTRIBUTES)
    doc = {key: value for key, value in document.as_dict.items() if key not in own}
    return json.dumps(doc | ({"options": document.extra[KEPT_OPTIONS]} if KEPT_OPTIONS in document.extra else {}))


class CollectionTreeReader(Reader):
    """All collections of a root that are laid out in one of the ways that are given."""

    def __init__(self, where: Location, layouts: Sequence[Layout], settings: Settings, base: str = "") -> None:
        self._where = where
        self._layouts = layouts
        self._settings = settings
        self._base = base
        self.store: Store = self._open_store()
        if where.scheme != "file":  # one connection, or one archive, for all
            self._where = replace(Location.of(self.store), moment=None if where.keeps_versions else where.moment)
        self._mutex = threading.RLock()
        self._collection_stores: dict[str, CollectionStore] = {}
        self._cached_tree: Tree | None = None

    def _open_store(self) -> Store:
        return self._where.store(read_only=True)

    @property
    def url(self) -> str:
        """The URL of the root, without secrets."""
        return self._where.url

    @property
    def writable(self) -> bool:
        """Return True if changes are taken."""
        return False

    # -- collections ------------------------------------------------------------------------------------------------

    def collections(self) -> list[str]:
        """Return the names of all collections, sorted."""
        return sorted({name for layout in self._layouts for name in layout.names(self._where)})

    def collection_store(self, name: str) -> CollectionStore | None:
        """Return the arrays of a collection; None when there is none of this name. FormatError when it is damaged."""
        with self._mutex:
            found = self._collection_stores.get(name)
            if found is None:
                for layout in self._layouts:
                    found = layout.open(self._where, name, self._settings, writable=self.writable)
                    if found is not None:
                        self._collection_stores[name] = found
                        break
            return found

    def has_opened(self, name: str) -> bool:
        """Return True if a collection was looked for, and found, before."""
        with self._mutex:
            return name in self._collection_stores

    def opened_collections(self) -> list[CollectionStore]:
        """Return the arrays of the collections that were looked for, and found, before."""
        with self._mutex:
            return list(self._collection_stores.values())

    def _shown_collection(self, path: str) -> CollectionStore | None:
        """Return the collection that is shown at a path; those that are there for one array elsewhere are not shown."""
        if not path or "/" in path or path in self._tree().hidden:
            return None
        return self.collection_store(path)

    def _required_store(self, name: str, path: str) -> CollectionStore:
        found = self.collection_store(name)
        if found is None:
            raise node_not_found(path, self.url)
        return found

    def members(self, path: str) -> list[str]:
        """Return the first collections of the root where it holds nothing else, or arrays of a collection; else
        none."""
        path = self._full_path(path)
        tree = self._tree()
        if not path and not tree.names_below(""):
            return self.collections()[:IDS_SHOWN]
        found = None if path in tree.arrays else self._shown_collection(path)
        return [] if found is None else list(islice(all_ids(found), IDS_SHOWN))

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _tree(self) -> Tree:
        with self._mutex:
            if self._cached_tree is None:
                self._cached_tree = self._read_tree()
            return self._cached_tree

    def _read_tree(self) -> Tree:
        data = self.store.get(KEY)
        try:
            return Tree() if data is None else parse_tree(data)
        except FormatError as error:
            raise error.locate(url=self.url) from error.__cause__

    def children(self, path: str) -> Iterable[str]:
        """Return the names of collections and other nodes of the root, of what is in a group, or the ids of a
        collection."""
        path = self._full_path(path)
        tree = self._tree()
        if not path:
            hidden = tree.hidden
            return list(
                dict.fromkeys([name for name in self.collections() if name not in hidden] + tree.names_below(""))
            )
        if path in tree.arrays:
            return []
        if (found := self._shown_collection(path)) is not None:
            return list(all_ids(found))
        if path not in tree.groups:
            self.node(path)
            return []
        return tree.names_below(path)

    def node(self, path: str) -> GroupSpec | ArraySpec:
        """Return the root, a collection, an array, or a group. NodeNotFound; FormatError for what is damaged."""
        path = self._full_path(path)
        tree = self._tree()
        if not path:
            return tree.groups[""]
        if path in tree.arrays:
            return self._entry_spec(path, tree.arrays[path])
        above, name = split(path)
        if (found := self._shown_collection(path)) is not None:
            more = tree.groups.get(path, GroupSpec())
            return more.evolve(attrs={DOCUMENT_ATTRIBUTE: portable_document(found.document), **more.attrs})
        if path in tree.groups:
            return tree.groups[path]
        if (parent := self._shown_collection(above)) is None:
            raise node_not_found(path, self.url)
        return parent.spec(name)

    def _entry_spec(self, path: str, entry: ArrayEntry) -> ArraySpec:
        if entry.inline_spec is not None:
            return entry.inline_spec.evolve(attrs=dict(entry.attrs))
        store = self._required_store(str(entry.collection), path)
        try:
            return entry.apply_to(store.spec(str(entry.id)))
        except HyperslabError as error:
            raise error.locate(url=self.url, node=path) from error.__cause__

    def chunks(self, path: str) -> ChunkSource:
        """Return the cells of an array. NodeNotFound; Unsupported when they cannot be decoded."""
        spec = require_array(path, self.node(path), self.url)
        path = self._full_path(path)
        entry = self._tree().arrays.get(path)
        if entry is None:
            collection, id = split(path)
            return self._required_store(collection, path).chunks(id, spec)
        if entry.inline_spec is not None:
            return self._inline_cells(path, entry, spec)
        store = self._required_store(str(entry.collection), path)
        return store.chunks(str(entry.id), store.spec(str(entry.id)))

    def _inline_cells(self, path: str, entry: ArrayEntry, spec: ArraySpec) -> ChunkSource:
        return CoordinateCells(np.empty(spec.shape, spec.numpy_dtype) if entry.cells is None else entry.cells)

    def refresh(self, path: str) -> None:
        """Ask for all anew when it is needed; what is known of a collection stays while its document does."""
        with self._mutex:
            self._cached_tree = None
            gone = [name for name, found in self._collection_stores.items() if not found.exists()]
            for name in gone:
                del self._collection_stores[name]

    def stamp(self, path: str) -> Hashable:
        """Return a value that identifies the present version of an array's document; None for a group."""
        path = self._full_path(path)
        entry = self._tree().arrays.get(path)
        collection, id = (entry.collection, entry.id) if entry is not None else split(path)
        if not collection or not id or "/" in collection:
            return None
        found = self._required_store(collection, path).stamp(id)
        return found if entry is None or found is None else (found, repr(entry))

    # -- health -----------------------------------------------------------------------------------------------------

    def find_damage(self, *, deep: bool, workers: int) -> Iterator[Finding]:
        """Yield the problems of all collections and of ``collections.json`` with what mends them; of an array that its
        collection is there for, under the name it has here."""
        arrays: Mapping[str, ArrayEntry] = {}
        unused: Mapping[str, str] = {}
        own_problem: Finding | None = None
        try:
            arrays, unused = self._tree().arrays, self._tree().unused
        except FormatError as error:
            own_problem = Finding(Problem("", "invalid-document", error.said), key=KEY)
        paths = {f"{entry.collection}/{entry.id}": path for path, entry in arrays.items() if entry.collection}
        for finding in self._collection_damage(deep):
            path = paths.get(finding.problem.node)
            yield finding if path is None else replace(finding, problem=replace(finding.problem, node=path))
        if own_problem is not None:
            yield own_problem
        known = set(self.collections())
        for path, entry in arrays.items():
            if entry.collection is not None and entry.collection not in known:
                yield Finding(Problem(path, "missing-collection", f"its collection {entry.collection!r} is gone"))
        for name in unused:
            yield self._leftover(name)

    def _leftover(self, name: str) -> Finding:
        """Return the finding of a collection that no array uses; only a writer removes it."""
        problem = Problem(name, "leftover", f"an array was not made or removed to the end [key={KEY}]")
        return Finding(problem, "remove what is left", key=KEY)

    def _collection_damage(self, deep: bool) -> Iterator[Finding]:
        """Yield what is wrong with each collection, then what lies beside them, each problem once."""
        known: set[str] = set()
        for name in self.collections():
            try:
                found = self._required_store(name, name)
            except HyperslabError as error:
                problems = (
                    [replace(each, node=name) for each in error.problems] if isinstance(error, FormatError) else []
                )
                problems = problems or [Problem(name, "unreadable-node", error.said)]
                known |= {problem.message for problem in problems}
                yield from map(Finding, problems)
            else:
                yield from found.find_damage(deep=deep)
        for layout in self._layouts:
            yield from (each for each in layout.find_damage(self._where) if each.problem.message not in known)

    def storage(self, path: str) -> Mapping[str, object]:
        """Return the collection and id of an array that is the only one of its collection; nothing for other nodes."""
        entry = self._tree().arrays.get(self._full_path(path))
        return {} if entry is None or entry.collection is None else {"collection": entry.collection, "id": entry.id}

    def close(self) -> None:
        """Let go of the collections and the store; closing twice is fine."""
        for each in self.opened_collections():
            each.close()
        self.store.close()

    def _full_path(self, path: str) -> str:
        """Return the path as seen from the root, where a part of it was opened."""
        path = normalize(path)
        return "/".join(part for part in (self._base, path) if part)


def all_ids(store: CollectionStore) -> Iterator[str]:
    """Yield the ids of a collection's arrays, sorted within each part that it lists them by."""
    for part in sorted(store.generations()):
        yield from store.ids(part)
