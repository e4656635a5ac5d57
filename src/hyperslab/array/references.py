"""References that are read know the dataset that they stand in; those that are written lead on from where they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.array.session import OpenDataset
from hyperslab.codecs.references import REFERENCE_TYPES
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.model.attrs import check_levels
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import DataType, ObjectRef, RegionRef, tagged_fields
from hyperslab.model.refs import Link, ObjectReference, Pointer, RegionReference, ResolvesReferences, settle
from hyperslab.model.regions import Region
from hyperslab.model.spec import ArraySpec, GroupSpec

REFERENCES = (ObjectReference, RegionReference)


@dataclass(frozen=True, slots=True)
class ReferenceResolver(ResolvesReferences):
    """An open dataset as the references that were read from it know it."""

    session: OpenDataset

    def resolve(self, reference: Pointer) -> Any:
        from hyperslab.group.group import node_of

        return node_of(self.session, reference)


def reference_fields(dtype: DataType) -> tuple[tuple[str | None, type], ...]:
    """Return the fields (None: the cells themselves) that hold references, and of which kind."""
    if isinstance(dtype, ObjectRef | RegionRef):
        return ((None, REFERENCE_TYPES[type(dtype)]),)
    if not isinstance(dtype, np.dtype):
        return ()
    return tuple(
        (name, REFERENCE_TYPES[type(kind)]) for name, kind in tagged_fields(dtype) if type(kind) in REFERENCE_TYPES
    )


def bind(values: Values, fields: tuple[tuple[str | None, type], ...], session: OpenDataset) -> None:
    """Tell every reference in cells that were just read which dataset it stands in."""
    home = ReferenceResolver(session)
    for cell in _cells(values, fields):
        if isinstance(cell, REFERENCES):
            settle(cell, home)


def bound(value: object, session: OpenDataset) -> Any:
    """Return an attribute's value, once it knows the dataset, if it is a reference."""
    if isinstance(value, REFERENCES):
        settle(value, ReferenceResolver(session))
    return value


def _cells(values: Values, fields: tuple[tuple[str | None, type], ...]) -> Iterator[object]:
    for name, _ in fields:
        yield from (values if name is None else values[name]).flat


def holds_references(value: object) -> bool:
    """Return True if it is a reference, or lists whose first cells, but for those that are None, are some."""
    return isinstance(_first(value), REFERENCES)


def _first(value: object) -> object:
    if not isinstance(value, list | tuple):
        return value
    return next((found for each in value if (found := _first(each)) is not None), None)


def type_of(cells: Values) -> ObjectRef | RegionRef | None:
    """Return the type of cells that are references of one kind, or None; None for all others."""
    found = {type(cell) for cell in cells.flat if cell is not None}
    return ObjectRef() if found == {ObjectReference} else RegionRef() if found == {RegionReference} else None


def as_cells(value: object) -> Values:
    """Return references, None and nested lists of them as an array of objects; no region is read on the way."""
    if isinstance(value, np.ndarray):
        return value.astype(object, copy=False)
    shape = _shape(value)
    cells = np.empty(shape, object)
    for i, cell in enumerate(_flat(value, len(shape))):
        cells.flat[i] = cell
    return cells


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        return ()
    below = {_shape(each) for each in value}
    if len(below) > 1:
        raise Invalid("lists of references that are of different lengths", remedy="give as many in each")
    return (len(value), *next(iter(below), ()))


def _flat(value: Any, depth: int) -> Iterator[object]:
    if not depth:
        yield value
        return
    for each in value:
        yield from _flat(each, depth - 1)


def leaving(values: Values, fields: tuple[tuple[str | None, type], ...], session: OpenDataset) -> Values:
    """Return the cells with references as they are to be stored in this dataset; Invalid for what is no reference."""
    stored = values.copy()
    for name, kind in fields:
        column = stored if name is None else stored[name]
        for i, cell in enumerate(column.flat):
            if cell is not None and not isinstance(cell, kind):
                message = f"a {type(cell).__name__} is no {kind.__name__}"
                raise Invalid(message, remedy="give node.ref, array.regionref[key], or None for no reference")
            column.flat[i] = None if cell is None else seen_from(session, cell)
    return stored


def seen_from(session: OpenDataset, reference: Any) -> Any:
    """Return a reference, or link, as it is stored in this dataset: one that was read from another dataset leads
    there."""
    home = reference.home if isinstance(reference, REFERENCES) else None
    if not isinstance(home, ReferenceResolver):
        return reference
    if home.session.reader is session.reader:
        return replace(reference, home=None)
    return replace(reference, home=None, source=source_from(session, home.session, reference))


def attrs_from(session: OpenDataset, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes with references as they are stored in this dataset. Invalid for those that are nested too
    deeply."""
    check_levels(attrs)
    return {name: seen_from(session, value) for name, value in attrs.items()}


def source_from(session: OpenDataset, other: OpenDataset, pointer: Pointer) -> str:
    """Return what the ``source`` of a pointer that stands in another dataset is in this one."""
    reader = other.reader
    place = reader.place_of(pointer)
    if place is None and other.origin is not None:
        place = other.origin.where
    if session.origin is None or place is None:
        message = "a reference to a dataset that was not opened by its place"
        raise Invalid(message, url=other.url, remedy="open it with hyperslab.open")
    return session.origin.where.way_to(place)


def reference_to(session: OpenDataset, path: str, spec: GroupSpec | ArraySpec) -> ObjectReference:
    """Return a reference to a node of this dataset."""
    return ObjectReference(f"/{path}", ".", *_ids(session, spec), home=ReferenceResolver(session))


def region_to(session: OpenDataset, path: str, spec: ArraySpec, region: Region) -> RegionReference:
    """Return a reference to cells of an array of this dataset."""
    return RegionReference(f"/{path}", region, ".", *_ids(session, spec), home=ReferenceResolver(session))


def _ids(session: OpenDataset, spec: GroupSpec | ArraySpec) -> tuple[str | None, str | None]:
    """Return what a node calls itself, and what its dataset does."""
    return _id_of(spec), root_id(session)


def root_id(session: OpenDataset) -> str | None:
    """Return what a dataset calls itself."""
    try:
        return _id_of(session.reader.node(""))
    except HyperslabError:
        return None


def _id_of(spec: GroupSpec | ArraySpec | Link) -> str | None:
    found = None if spec.is_link else spec.attrs.get("object_id")
    return found if isinstance(found, str) else None
