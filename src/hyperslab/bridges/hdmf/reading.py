"""Builders of a dataset: of its whole tree, from the documents alone; links and references when the tree is there.

A link or reference that leads nowhere is left out with a warning that names it, and so is a node that cannot be read:
everything else is given.
"""

from __future__ import annotations

import posixpath
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder

from hyperslab.array import Array
from hyperslab.array.attributes import Attributes
from hyperslab.array.session import OpenDataset
from hyperslab.bridges.hdmf import specs
from hyperslab.bridges.hdmf.lazy import GrowingDataset, lazy
from hyperslab.bridges.hdmf.pointers import ROOT, source_of
from hyperslab.bridges.hdmf.resolving import BuilderReferences, BuilderTable, Finds, fields_of
from hyperslab.errors import HyperslabError
from hyperslab.group import Group
from hyperslab.group.links import follow, resolve
from hyperslab.model.dtypes import ObjectRef, VlenBytes, VlenString, tagged_fields
from hyperslab.model.paths import child
from hyperslab.model.refs import Link, ObjectReference, RegionReference
from hyperslab.model.spec import ArraySpec, GroupSpec

_COLUMNS = ("VectorData", "DynamicTableRegion")
_DATE = 10
_FEW = 1 << 16
Mark = Callable[[Any], None]


class Builders:
    """The builders of an open file, and of what its links lead to in others: one for each node."""

    def __init__(self, root: Group, source: str, file: Finds, mark: Mark) -> None:
        self._root = root
        self._source = source
        self._file = file
        self._mark = mark
        self._known: dict[tuple[int, str], Any] = {}
        self._pending: list[Callable[[], None]] = []
        self.broken: list[Any] = []
        """Builders that lack a link or a reference since it leads nowhere."""

    def root(self) -> GroupBuilder:
        """The builder of the whole tree, but for the specifications."""
        return self._whole(self._root._session, "", self._root.spec)

    def at(self, session: OpenDataset, reference: ObjectReference) -> Any:
        """The builder of what a reference leads to, which may stand in another file; BrokenLink where nothing is."""
        return self._whole(*resolve(session, reference))

    def _whole(self, session: OpenDataset, path: str, spec: GroupSpec | ArraySpec) -> Any:
        found = self._node(session, path, spec)
        while self._pending:
            self._pending.pop()()
        return found

    def _node(self, session: OpenDataset, path: str, spec: GroupSpec | ArraySpec) -> Any:
        key = id(session.reader), path
        if (known := self._known.get(key)) is not None:
            return known
        if isinstance(spec, ArraySpec):
            builder = self._dataset(session, path, spec)
            self._known[key] = builder
            return builder
        builder = self._known[key] = self._group(session, path, spec)
        left_out = specs.place(session)
        for name in session.reader.children(path):
            place = child(path, name)
            if place != left_out:
                self._child(session, builder, place, name)
        return builder

    def _child(self, session: OpenDataset, parent: GroupBuilder, path: str, name: str) -> None:
        try:
            spec = session.reader.node(path)
            if isinstance(spec, Link):
                self._pending.append(partial(self._link, session, parent, path, name))
            elif isinstance(spec, ArraySpec):
                parent.set_dataset(self._node(session, path, spec))
            else:
                parent.set_group(self._node(session, path, spec))
        except HyperslabError as error:
            self._lacks(parent, f"/{path} is left out", error)

    def _group(self, session: OpenDataset, path: str, spec: GroupSpec) -> GroupBuilder:
        name = posixpath.basename(path) or ROOT
        builder = GroupBuilder(name, source=self._source_of(session))
        return self._placed(builder, session, path, spec)

    def _dataset(self, session: OpenDataset, path: str, spec: ArraySpec) -> DatasetBuilder:
        data, dtype = self._cells(Array(session, path, spec))
        builder = DatasetBuilder(
            posixpath.basename(path),
            data=data,
            dtype=dtype,
            maxshape=spec.shape,
            chunks=spec.chunks != spec.shape,
            source=self._source_of(session),
        )
        return self._placed(builder, session, path, spec)

    def _placed(self, builder: Any, session: OpenDataset, path: str, spec: GroupSpec | ArraySpec) -> Any:
        builder.location = "/" + posixpath.dirname(path)
        for name, value in spec.attrs.items():
            if isinstance(value, ObjectReference):
                self._pending.append(partial(self._attribute, session, builder, name, value))
                continue
            if isinstance(value, RegionReference):
                value = Attributes(session, path)[name]  # which knows where it was read
            _set_attribute(builder, name, value)
        self._mark(builder)
        return builder

    def _attribute(self, session: OpenDataset, builder: Any, name: str, reference: ObjectReference) -> None:
        try:
            builder.set_attribute(name, self._node(*resolve(session, reference)))
        except HyperslabError as error:
            place = posixpath.join(builder.location, builder.name)
            self._lacks(builder, f"attribute {name!r} of {place} is left out", error)

    def _link(self, session: OpenDataset, parent: GroupBuilder, path: str, name: str) -> None:
        try:
            builder = self._node(*follow(session, path))
        except HyperslabError as error:
            self._lacks(parent, f"link /{path} is left out", error)
            return
        link = LinkBuilder(builder, name=name, source=self._source_of(session))
        link.location = "/" + posixpath.dirname(path)
        self._mark(link)
        parent.set_link(link)

    def _lacks(self, builder: Any, what: str, error: HyperslabError) -> None:
        self.broken.append(builder)
        warnings.warn(f"{what}: {error}", BrokenLinkWarning, stacklevel=2)

    def _source_of(self, session: OpenDataset) -> str:
        return self._source if session is self._root._session else source_of(session)

    def _cells(self, array: Array) -> tuple[Any, Any]:
        """A builder's data and dtype: values of 0-d arrays, dates and what has no cells are read now."""
        kind = array.data_type
        if isinstance(kind, ObjectRef):
            return self._references(array), "object"
        if isinstance(kind, np.dtype) and kind.names is not None:
            fields = fields_of(array)
            resolves = any(isinstance(tag, ObjectRef) for _, tag in tagged_fields(kind))
            return (BuilderTable(array, self._file) if resolves else lazy(array)), fields
        dtype: Any = array.dtype
        if isinstance(kind, VlenString | VlenBytes):
            dtype = "utf8" if isinstance(kind, VlenString) else "ascii"
        try:
            if array.ndim == 0:
                return _scalar(array[()]), dtype
            if dtype in ("utf8", "ascii") and 0 < array.size <= _FEW and _is_date(array[(0,) * array.ndim]):
                return np.asarray(array[...]).tolist(), dtype
        except HyperslabError as error:
            warnings.warn(f"/{array.path} cannot be read: {error}", BrokenLinkWarning, stacklevel=2)
        grows = array._session.writable and array.spec.attrs.get("neurodata_type") in _COLUMNS
        return (GrowingDataset(lazy(array)) if grows else lazy(array)), dtype

    def _references(self, array: Array) -> Any:
        if array.ndim:
            return BuilderReferences(array, self._file)
        return ReferenceBuilder(self._file.builder_of(array, array[()]))


def _set_attribute(builder: Any, name: str, value: Any) -> None:
    """``builder.set_attribute`` of a new builder, without its checks of types, which take most of the time."""
    builder.attributes[name] = value
    if isinstance(builder, GroupBuilder):
        builder.obj_type[name] = "attributes"


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.ndarray) and value.dtype.kind in "OT" else value


def _is_date(cell: Any) -> bool:
    """Return whether text looks as ISO 8601 spells days and times, which hdmf turns into dates where the schema says
    so.
    """
    text = cell.decode("latin-1") if isinstance(cell, bytes) else str(cell)
    return len(text) >= _DATE and text[:4].isdigit() and text[4] == text[7] == "-" and text[5:7].isdigit()
