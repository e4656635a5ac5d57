"""Read a dataset as builders: its whole tree from the documents alone, then links and references.

A link or reference that leads nowhere is left out with a warning that names it, and so is a node that cannot be read:
everything else is read.
"""

from __future__ import annotations

import posixpath
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, LinkBuilder, ObjectMapper, ReferenceBuilder
from hdmf.query import BuilderResolver, ContainerResolver

from hyperslab.array import Array
from hyperslab.array.attributes import Attributes
from hyperslab.array.session import OpenDataset
from hyperslab.bridges.hdmf import schemas
from hyperslab.bridges.hdmf.builder_values import NAMES
from hyperslab.bridges.hdmf.datasets import GrowingDataset, HyperslabDataset, open_lazily
from hyperslab.bridges.hdmf.write_plan import ROOT, reference_to, source_of
from hyperslab.errors import HyperslabError
from hyperslab.group import Group
from hyperslab.group.links import follow, resolve
from hyperslab.model.dtypes import ObjectRef, VlenBytes, VlenString, tag_of, tagged_fields
from hyperslab.model.paths import child
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.spec import ArraySpec, GroupSpec

# Columns of a table: in a writable file rows may be added to them.
_COLUMNS = ("VectorData", "DynamicTableRegion")
_DATE_LENGTH = 10
# Text arrays of at most so many cells are read at once if the first cell looks like a date: hdmf takes dates as lists.
_FEW = 1 << 16
Mark = Callable[[Any], None]


class BuilderReader:
    """The builders of an open file, and of what its links lead to in others: one for each node."""

    def __init__(self, root: Group, source: str, manager: BuildManager, mark: Mark) -> None:
        self._root = root
        self._source = source
        self._manager = manager
        self._mark = mark
        self._builders_by_node: dict[tuple[int, str], Any] = {}
        self._pending: list[Callable[[], None]] = []
        self.incomplete: list[Any] = []
        """Builders that lack a link or a reference since it leads nowhere."""

    def root(self) -> GroupBuilder:
        """Return the builder of the whole tree without the specifications."""
        return self._read_tree(self._root._session, "", self._root.spec)

    def builder_of(self, array: Array, reference: ObjectReference) -> Any:
        """Return the builder that a reference in an array leads to, maybe in another file; BrokenLink without one."""
        return self._read_tree(*resolve(array._session, reference))

    def container_of(self, array: Array, reference: ObjectReference) -> Any:
        """Return the container that a reference in an array leads to."""
        return self._manager.construct(self.builder_of(array, reference))

    def reference_to(self, container: Any) -> ObjectReference:
        """Return the reference to a container of the file."""
        return reference_to(container, self._manager, self._source)

    def _read_tree(self, session: OpenDataset, path: str, spec: GroupSpec | ArraySpec) -> Any:
        found = self._node(session, path, spec)
        while self._pending:
            self._pending.pop()()
        return found

    def _node(self, session: OpenDataset, path: str, spec: GroupSpec | ArraySpec) -> Any:
        key = id(session.reader), path
        if (known := self._builders_by_node.get(key)) is not None:
            return known
        name, source = posixpath.basename(path), self._source_of(session)
        if spec.is_array:
            data, dtype = self._cells(Array(session, path, spec))
            is_chunked = spec.chunks != spec.shape
            dataset = DatasetBuilder(
                name, data=data, dtype=dtype, maxshape=spec.shape, chunks=is_chunked, source=source
            )
            self._builders_by_node[key] = self._complete_builder(dataset, session, path, spec)
            return dataset
        builder = GroupBuilder(name or ROOT, source=source)
        self._builders_by_node[key] = self._complete_builder(builder, session, path, spec)
        left_out = schemas.schemas_path(session)
        for name in session.reader.children(path):
            place = child(path, name)
            if place != left_out:
                self._child(session, builder, place, name)
        return builder

    def _child(self, session: OpenDataset, parent: GroupBuilder, path: str, name: str) -> None:
        try:
            spec = session.reader.node(path)
            if spec.is_link:
                self._pending.append(partial(self._link, session, parent, path, name))
            elif spec.is_array:
                parent.set_dataset(self._node(session, path, spec))
            else:
                parent.set_group(self._node(session, path, spec))
        except HyperslabError as error:
            self._leave_out(parent, f"/{path} is left out", error)

    def _complete_builder(self, builder: Any, session: OpenDataset, path: str, spec: GroupSpec | ArraySpec) -> Any:
        builder.location = "/" + posixpath.dirname(path)
        for name, value in spec.attrs.items():
            if isinstance(value, ObjectReference):
                self._pending.append(partial(self._set_reference, session, builder, name, value))
                continue
            if isinstance(value, RegionReference):
                value = Attributes(session, path)[name]  # which knows where it was read
            # Not by ``set_attribute``, whose checks of types take most of the time.
            builder.attributes[name] = value
            if spec.is_group:
                builder.obj_type[name] = "attributes"
        self._mark(builder)
        return builder

    def _set_reference(self, session: OpenDataset, builder: Any, name: str, reference: ObjectReference) -> None:
        try:
            builder.set_attribute(name, self._node(*resolve(session, reference)))
        except HyperslabError as error:
            place = posixpath.join(builder.location, builder.name)
            self._leave_out(builder, f"attribute {name!r} of {place} is left out", error)

    def _link(self, session: OpenDataset, parent: GroupBuilder, path: str, name: str) -> None:
        try:
            builder = self._node(*follow(session, path))
        except HyperslabError as error:
            self._leave_out(parent, f"link /{path} is left out", error)
            return
        link = LinkBuilder(builder, name=name, source=self._source_of(session))
        link.location = "/" + posixpath.dirname(path)
        self._mark(link)
        parent.set_link(link)

    def _leave_out(self, builder: Any, what: str, error: HyperslabError) -> None:
        self.incomplete.append(builder)
        warnings.warn(f"{what}: {error}", BrokenLinkWarning, stacklevel=2)

    def _source_of(self, session: OpenDataset) -> str:
        return self._source if session is self._root._session else source_of(session)

    def _cells(self, array: Array) -> tuple[Any, Any]:
        """Return a builder's data and dtype. Values of 0-d arrays and dates are read now, all others when indexed."""
        dtype: Any = array.dtype
        match array.data_type:
            case ObjectRef() if array.ndim:
                return BuilderReferences(array, self), "object"
            case ObjectRef():
                return ReferenceBuilder(self.builder_of(array, array[()])), "object"
            case np.dtype(names=[*_]) as row:
                resolves = any(isinstance(tag, ObjectRef) for _, tag in tagged_fields(row))
                return (BuilderTable(array, self) if resolves else open_lazily(array)), fields_of(array)
            case VlenString():
                dtype = "utf8"
            case VlenBytes():
                dtype = "ascii"
        try:
            if array.ndim == 0:
                value = array[()]
                return (value.item() if isinstance(value, np.ndarray) and value.dtype.kind in "OT" else value), dtype
            if dtype in ("utf8", "ascii") and 0 < array.size <= _FEW and _is_date(array[(0,) * array.ndim]):
                return np.asarray(array[...]).tolist(), dtype
        except HyperslabError as error:
            warnings.warn(f"/{array.path} cannot be read: {error}", BrokenLinkWarning, stacklevel=2)
        grows = array._session.writable and array.spec.attrs.get("neurodata_type") in _COLUMNS
        return (GrowingDataset(open_lazily(array)) if grows else open_lazily(array)), dtype


def _is_date(cell: Any) -> bool:
    """Return True for text as ISO 8601 spells days and times; hdmf makes dates of it where the schema says so."""
    text = cell.decode("latin-1") if isinstance(cell, bytes) else str(cell)
    return len(text) >= _DATE_LENGTH and text[:4].isdigit() and text[4] == text[7] == "-" and text[5:7].isdigit()


# -- arrays of references: builders while hdmf reads, containers afterwards, found on access ---------------------------


class _ReferenceArray(HyperslabDataset):
    """An array of object references. ``gives_builders``: of what they lead to the builder, else the container."""

    gives_builders = True

    def __init__(self, array: Array, reader: BuilderReader) -> None:
        super().__init__(array)
        self._reader = reader
        self._inverse: Any = None

    def invert(self) -> Any:
        """Return the array that gives containers for builders, and builders for containers."""
        if self._inverse is None:
            self._inverse = self.get_inverse_class()(self._array, self._reader)
        return self._inverse

    @classmethod
    def get_inverse_class(cls) -> Any:
        """Return the class that `invert` makes."""
        return _INVERSE[cls]

    @property
    def dtype(self) -> Any:
        """Return ``object``: hdmf's name for references."""
        return "object"

    def __getitem__(self, key: Any) -> Any:
        cells = self._cells(key)
        if not isinstance(cells, np.ndarray):
            return self._one(cells)
        return _nested(cells.tolist(), self._one)

    def _one(self, cell: Any) -> Any:
        if cell is None:
            return None
        find = self._reader.builder_of if self.gives_builders else self._reader.container_of
        return find(self._array, cell)

    def __iter__(self) -> Iterator[Any]:
        return iter(self[...])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = np.empty(self.shape, object)
        for place, cell in enumerate(np.asarray(self._cells(...)).flat):
            found.flat[place] = self._one(cell)
        return found

    def extend(self, arg: Any) -> None:
        """Add references to containers at the end, in the file, at once."""
        self._append_rows([self._refer(each) for each in arg], np.dtype(object))

    def _refer(self, cell: Any) -> Any:
        return cell if cell is None or isinstance(cell, ObjectReference) else self._reader.reference_to(cell)

    def _append_rows(self, rows: list[Any], dtype: np.dtype) -> None:
        new = np.empty(len(rows), dtype)
        for place, row in enumerate(rows):
            new[place] = row
        self._array.append(new)
        for each in (self, self._inverse):
            if each is not None:
                each._cached_cells = None


class _Table(_ReferenceArray):
    """Rows with references among their fields, each a list of its cells."""

    def __init__(self, array: Array, reader: BuilderReader) -> None:
        super().__init__(array, reader)
        fields: Any = array.dtype.fields
        self._kinds = {name: tag_of(fields[name][0]) for name in array.dtype.names or ()}
        self._has_references = [isinstance(kind, ObjectRef) for kind in self._kinds.values()]

    @property
    def types(self) -> list[Any]:
        """Return the types of the fields, None for numbers."""
        return list(self._kinds.values())

    @property
    def dtype(self) -> Any:
        """Return the names of the fields' types, as hdmf's validator takes them."""
        return [each["dtype"] for each in fields_of(self._array)]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            cells = self._cells(...)[key].tolist()
            is_reference = self._has_references[list(self._kinds).index(key)]
            return [self._one(cell) for cell in cells] if is_reference else cells
        rows = self._cells(key)
        if isinstance(rows, np.ndarray) and rows.shape:
            return [self._row(row) for row in rows]
        return self._row(rows)

    def _row(self, row: Any) -> list[Any]:
        pairs = zip(self._has_references, row[()] if isinstance(row, np.ndarray) else row, strict=True)
        return [self._one(cell) if is_reference else cell for is_reference, cell in pairs]

    def resolve(self, manager: Any) -> Any:
        """Return all rows."""
        return self[...]

    def extend(self, arg: Any) -> None:
        """Add rows of cells and containers at the end, in the file, at once."""
        self._append_rows([self._stored(row) for row in arg], self._array.dtype)

    def _stored(self, row: Any) -> tuple[Any, ...]:
        pairs = zip(self._has_references, row, strict=True)
        return tuple(self._refer(cell) if is_reference else cell for is_reference, cell in pairs)


class BuilderReferences(_ReferenceArray, BuilderResolver):
    """An array of references that gives builders."""


class ContainerReferences(_ReferenceArray, ContainerResolver):
    """An array of references that gives containers."""

    gives_builders = False


class BuilderTable(_Table, BuilderResolver):
    """Rows that give builders for references."""


class ContainerTable(_Table, ContainerResolver):
    """Rows that give containers for references."""

    gives_builders = False


_INVERSE: dict[type, type] = {
    BuilderReferences: ContainerReferences,
    ContainerReferences: BuilderReferences,
    BuilderTable: ContainerTable,
    ContainerTable: BuilderTable,
}
for _kind in _INVERSE:
    ObjectMapper.no_convert(_kind)


def fields_of(array: Array) -> list[dict[str, str]]:
    """Return the fields of a structured array as builders spell them: names, and types of the schema language."""
    fields: Any = array.spec.numpy_dtype.fields
    return [{"name": name, "dtype": _word(fields[name][0])} for name in array.dtype.names or ()]


def _word(dtype: np.dtype) -> str:
    match tag_of(dtype):
        case None:
            return dtype.name if dtype.name in NAMES else dtype.str
        case ObjectRef():
            return "object"
        case VlenString():
            return "utf"
        case _:
            return "region"


def _nested(cells: Any, change: Any) -> Any:
    return [_nested(cell, change) for cell in cells] if isinstance(cells, list) else change(cells)
