"""The document of a root of collections for what is none: groups, and arrays that are collections of one array. Pure.

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
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hyperslab.errors import FormatError
from hyperslab.formats.metadata_json.cells import cell_from_json, cell_to_json
from hyperslab.formats.metadata_json.dtypes import dtype_from_json, dtype_to_json
from hyperslab.formats.metadata_json.nodes import attrs_from_json, attrs_to_json, group_from_json, group_to_json
from hyperslab.formats.one_array import STRING, cells_from_json, cells_to_json
from hyperslab.model.dtypes import DataType, VlenString
from hyperslab.model.paths import normalize, outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec

KEY = "collections.json"
"""The document's key below the root."""
VERSION = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """An array that is not one of a collection of its users: where its cells are, and what it is called by.

    ``collection`` and ``id``: the one array of that collection; without them ``empty`` tells all of an array that has
    no cells, or whose ``cells`` stand here. ``dims``: the names of its dimensions as they were given.
    """

    dims: tuple[str | None, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    collection: str | None = None
    id: str | None = None
    empty: ArraySpec | None = None
    cells: np.ndarray[Any, Any] | None = None

    def shown(self, spec: ArraySpec) -> ArraySpec:
        """What a collection says of its array, with the names and attributes that this one was given."""
        names = dict(zip(spec.dims, self.dims, strict=False))
        indexes = {str(names[dim]): index for dim, index in spec.indexes.items() if names.get(dim) is not None}
        return spec.evolve(dims=self.dims, attrs=dict(self.attrs), indexes=indexes)


@dataclass(frozen=True, slots=True)
class Tree:
    """The groups and arrays of a root by path; the root itself is always a group."""

    groups: Mapping[str, GroupSpec] = field(default_factory=lambda: {"": GroupSpec()})
    arrays: Mapping[str, Kept] = field(default_factory=dict)

    @property
    def collections(self) -> frozenset[str]:
        """The names of collections that are arrays here."""
        return frozenset(kept.collection for kept in self.arrays.values() if kept.collection is not None)

    def below(self, group: str) -> list[str]:
        """Names right below a group."""
        prefix = f"{group}/" if group else ""
        inner = (path[len(prefix) :] for path in (*self.groups, *self.arrays) if path and path.startswith(prefix))
        return [name for name in dict.fromkeys(inner) if "/" not in name]

    def is_unlimited(self, path: str, dim: str | None) -> bool:
        """Return whether a dimension of the array at ``path`` was declared to grow: the nearest declaration upwards
        counts.
        """
        for group in outward(split(path)[0]):
            for known in self.groups.get(group, GroupSpec()).dims:
                if known.name == dim:
                    return known.unlimited
        return False

    def with_group(self, path: str, spec: GroupSpec) -> Tree:
        """The tree with a group, and with the groups above it."""
        above = {group: GroupSpec() for group in outward(split(path)[0]) if group not in self.groups} if path else {}
        ordered = dict(sorted(above.items(), key=lambda entry: len(entry[0])))
        return replace(self, groups={**self.groups, **ordered, path: spec})

    def with_array(self, path: str, kept: Kept) -> Tree:
        """The tree with an array, and with the groups above it."""
        group = split(path)[0]
        tree = self if group in self.groups else self.with_group(group, GroupSpec())
        return replace(tree, arrays={**tree.arrays, path: kept})

    def without(self, path: str) -> Tree:
        """The tree without a node and all below it."""
        groups = {place: spec for place, spec in self.groups.items() if not _is_within(place, path)}
        arrays = {place: kept for place, kept in self.arrays.items() if not _is_within(place, path)}
        return Tree({"": GroupSpec()} | groups, arrays)

    def within(self, path: str) -> Iterator[Kept]:
        """The arrays at and below a path."""
        return (kept for place, kept in self.arrays.items() if _is_within(place, path))


def _is_within(path: str, top: str) -> bool:
    return not top or path == top or path.startswith(f"{top}/")


# -- to JSON ------------------------------------------------------------------------------------------------------


def render(tree: Tree) -> bytes:
    """The document; Invalid or Unsupported for attributes that JSON cannot hold."""
    groups = {path: group_to_json(spec) for path, spec in tree.groups.items()}
    arrays = {path: _array_to_json(kept) for path, kept in tree.arrays.items()}
    said: dict[str, Any] = {"version": VERSION}
    said |= {name: part for name, part in (("groups", groups), ("arrays", arrays)) if part}
    return json.dumps(said, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _array_to_json(kept: Kept) -> dict[str, Any]:
    said: dict[str, Any] = {"collection": kept.collection, "id": kept.id} if kept.empty is None else {}
    if kept.empty is not None:
        is_text = isinstance(kept.empty.dtype, VlenString)
        fill = kept.empty.fill_cell()[()]
        said |= {"shape": list(kept.empty.shape), "dtype": STRING if is_text else dtype_to_json(kept.empty.numpy_dtype)}
        said |= {"chunks": list(kept.empty.chunks), "fill_value": str(fill) if is_text else cell_to_json(fill)}
        said |= {} if kept.cells is None else cells_to_json(kept.cells)
    return said | {"dims": list(kept.dims)} | attrs_to_json(kept.attrs)


# -- from JSON ----------------------------------------------------------------------------------------------------


def parse(data: bytes) -> Tree:
    """The tree that a document tells; FormatError for what makes no sense."""
    try:
        said = json.loads(data)
        if said.get("version") != VERSION:
            raise TypeError(f"version {said.get('version')!r}, not {VERSION}")
        groups = {normalize(path): group_from_json(part) for path, part in _object(said, "groups").items()}
        arrays = {normalize(path): _array_from_json(part) for path, part in _object(said, "arrays").items()}
        return Tree({"": GroupSpec()} | groups, arrays)
    except FormatError as error:
        raise error.locate(key=KEY) from error.__cause__
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise FormatError(f"the document of groups and arrays makes no sense: {error}", key=KEY) from error


def _object(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = said.get(name, {})
    if not isinstance(value, dict):
        raise TypeError(f"{name} is no object")
    return value


def _array_from_json(said: Mapping[str, Any]) -> Kept:
    dims = tuple(said["dims"])
    if any(not isinstance(dim, str | None) for dim in dims):
        raise TypeError(f"dims {dims!r} are no names")
    if "shape" in said:
        empty = _empty_from_json(said, dims)
        cells = cells_from_json(said, empty) if {"cells", "base64"} & set(said) else None
        return Kept(dims, attrs_from_json(said), empty=empty, cells=cells)
    if not isinstance(said["collection"], str) or not isinstance(said["id"], str):
        raise TypeError("an array without a collection")
    return Kept(dims, attrs_from_json(said), said["collection"], said["id"])


def _empty_from_json(said: Mapping[str, Any], dims: tuple[str | None, ...]) -> ArraySpec:
    lengths = [tuple(said["shape"]), tuple(said["chunks"])]
    if any(type(length) is not int or length < 0 for each in lengths for length in each):
        raise TypeError(f"{said['shape']!r} is no shape")
    dtype: DataType = VlenString() if said["dtype"] == STRING else np.dtype(dtype_from_json(said["dtype"]))
    fill = cell_from_json(said["fill_value"], dtype) if isinstance(dtype, np.dtype) else said["fill_value"]
    if isinstance(dtype, VlenString) and not isinstance(fill, str):
        raise TypeError(f"{fill!r} is no text")
    return ArraySpec(shape=lengths[0], dtype=dtype, chunks=lengths[1], dims=dims, fill_value=fill)
