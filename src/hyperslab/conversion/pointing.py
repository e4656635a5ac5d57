"""Links and references of a source as they are to be in a copy at another place: what leads to a node that is copied
too leads to its copy, anything else to where it led before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from hyperslab.array.references import reference_fields, root_id
from hyperslab.array.session import OpenDataset
from hyperslab.conversion.losses import Node
from hyperslab.conversion.walking import Item
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.formats.base import Feature, LeadsOut
from hyperslab.model.dtypes import DataType
from hyperslab.model.paths import join, split
from hyperslab.model.refs import Link, ObjectReference, Pointer, RegionReference
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.location import Location

_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z][A-Za-z0-9+.-]*:")
P = TypeVar("P", bound=Pointer)
Values = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Pointing:
    """From an open source to a copy at ``target``. ``places``: the path there of each node that is copied, ``whole``:
    whether all are; ``cut``: the arrays of which only some cells are, so that regions of them are those of the source.
    """

    source: OpenDataset
    target: Location
    places: Mapping[str, str]
    links: frozenset[str]
    cut: frozenset[str]
    whole: bool
    known: dict[Any, Any] = field(default_factory=dict)

    def node(self, node: Node) -> Node:
        """A link, or a node with its attributes, as it is to be in the copy."""
        if isinstance(node, Link):
            return self.moved(node)
        if not any(isinstance(value, ObjectReference | RegionReference) for value in node.attrs.values()):
            return node
        return node.evolve(attrs={name: self._value(value) for name, value in node.attrs.items()})

    def _value(self, value: Any) -> Any:
        return self.moved(value) if isinstance(value, ObjectReference | RegionReference) else value

    def cells(self, values: Values, dtype: DataType) -> Values:
        """Cells with their references as they are to be in the copy; the same array where there are none."""
        fields = reference_fields(dtype)
        if not fields:
            return values
        told = values.copy()
        for name, _ in fields:
            column = told if name is None else told[name]
            for place, cell in enumerate(column.flat):
                if isinstance(cell, ObjectReference | RegionReference):
                    column.flat[place] = self._remembered(cell)
        return told

    def _remembered(self, cell: ObjectReference | RegionReference) -> Any:
        key = (cell, cell.object_id, cell.source_object_id)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.moved(cell)
        return found

    def moved(self, pointer: P) -> P:
        """A link or reference as it is to be in the copy; one that leads nowhere keeps its words."""
        reader, path = self.source.reader, _inside(pointer)
        try:
            place = reader.place_of(pointer) if isinstance(reader, LeadsOut) else None
        except HyperslabError:  # what is missing, or must not be read
            return self._elsewhere(pointer)
        if place is not None or path is None:
            return pointer if place is None else replace(pointer, source=self.target.way_to(place))
        there = self._copied(path)
        if there is not None and not (isinstance(pointer, RegionReference) and path in self.cut):
            return _changed(pointer, there, ".")
        origin = self.source.origin
        if origin is None or origin.where.scheme in ("store", "several"):
            return pointer
        moved = _changed(pointer, path, self.target.way_to(origin.where))
        return replace(moved, source_object_id=root_id(self.source))

    def _elsewhere(self, pointer: P) -> P:
        """One whose dataset is not looked at: a relative path leads to the same place as before."""
        origin, source = self.source.origin, pointer.source
        place = None if origin is None or _ABSOLUTE.match(source) or "\0" in source else origin.where.at(source)
        return pointer if place is None else replace(pointer, source=self.target.way_to(place))

    def _copied(self, path: str) -> str | None:
        """Where a node of the source is in the copy; None where it is not copied."""
        if path in self.places:
            return self.places[path]
        folder, tail = path, ""
        while folder:
            folder, name = split(folder)
            tail = f"{name}/{tail}".rstrip("/")
            if folder in self.links:
                return join(self.places[folder], tail)
        return path if self.whole else None


def _changed(pointer: P, path: str, source: str) -> P:
    """The pointer with another path and source; what it knows of its target stays."""
    if isinstance(pointer, Link):
        return replace(pointer, target=f"/{path}", source=source)
    return replace(pointer, path=f"/{path}", source=source, home=None)


def _inside(pointer: Pointer) -> str | None:
    """The path of the target in its dataset; None for one that is none."""
    try:
        return join("", pointer.target if isinstance(pointer, Link) else pointer.path)
    except Invalid:
        return None


def pointing_of(source: OpenDataset, items: Sequence[Item], path: str, target: Location) -> Pointing | None:
    """How the links and references of what is copied change; None for formats that have neither."""
    if not source.format.features & {Feature.LINKS, Feature.REFERENCES}:
        return None
    cut = (
        item.origin
        for item in items
        if isinstance(item.node, ArraySpec) and item.picked is not None and not item.picked.is_all(item.node.shape)
    )
    return Pointing(
        source,
        target,
        places={item.origin: item.path for item in items},
        links=frozenset(item.origin for item in items if isinstance(item.node, Link)),
        cut=frozenset(cut),
        whole=not path,
    )
