"""Arrays of references as hdmf takes them: builders while it reads, containers afterwards, found when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from hdmf.build import ObjectMapper
from hdmf.query import BuilderResolver, ContainerResolver

from hyperslab.array import Array
from hyperslab.bridges.hdmf.lazy import HyperslabDataset
from hyperslab.bridges.hdmf.types import NAMES
from hyperslab.model.dtypes import ObjectRef, VlenString, tag_of
from hyperslab.model.refs import ObjectReference


class Finds(Protocol):
    """What knows the builders of an open file."""

    def builder_of(self, array: Array, reference: ObjectReference) -> Any:
        """The builder of what a reference of the array leads to; BrokenLink where there is nothing."""
        ...

    def container_of(self, array: Array, reference: ObjectReference) -> Any:
        """Its container."""
        ...

    def reference_to(self, container: Any) -> ObjectReference:
        """The reference to a container of the file."""
        ...


class _ReferenceArray(HyperslabDataset):
    """An array of object references."""

    def __init__(self, array: Array, file: Finds) -> None:
        super().__init__(array)
        self._file = file
        self._inverse: Any = None

    def invert(self) -> Any:
        """The same array that gives the other kind."""
        if self._inverse is None:
            self._inverse = self.get_inverse_class()(self._array, self._file)
        return self._inverse

    @classmethod
    def get_inverse_class(cls) -> Any:
        """The class that gives the other kind."""
        return _INVERSE[cls]

    def _found(self, reference: ObjectReference) -> Any:
        raise NotImplementedError

    @property
    def dtype(self) -> Any:
        """``object``: hdmf's word for references."""
        return "object"

    def __getitem__(self, key: Any) -> Any:
        cells = self._cells(key)
        if not isinstance(cells, np.ndarray):
            return self._one(cells)
        return _nested(cells.tolist(), self._one)

    def _one(self, cell: Any) -> Any:
        return None if cell is None else self._found(cell)

    def __iter__(self) -> Iterator[Any]:
        return iter(self[...])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        found = np.empty(self.shape, object)
        for place, cell in enumerate(np.asarray(self._cells(...)).flat):
            found.flat[place] = self._one(cell)
        return found

    def extend(self, arg: Any) -> None:
        """Add references to containers at the end, in the file, at once."""
        self._grow([self._refer(each) for each in arg], np.dtype(object))

    def _refer(self, cell: Any) -> Any:
        return cell if cell is None or isinstance(cell, ObjectReference) else self._file.reference_to(cell)

    def _grow(self, rows: list[Any], dtype: np.dtype[Any]) -> None:
        new = np.empty(len(rows), dtype)
        for place, row in enumerate(rows):
            new[place] = row
        self._array.append(new)
        for each in (self, self._inverse):
            if each is not None:
                each._kept = None


class _Table(_ReferenceArray):
    """Rows with references among their fields, each a list of its cells."""

    def __init__(self, array: Array, file: Finds) -> None:
        super().__init__(array, file)
        fields: Any = array.dtype.fields
        self._kinds = [tag_of(fields[name][0]) for name in array.dtype.names or ()]

    @property
    def types(self) -> list[Any]:
        """The kinds of the fields that are no numbers."""
        return list(self._kinds)

    @property
    def dtype(self) -> Any:
        """The names of the fields' types, as hdmf's validator takes them."""
        return [each["dtype"] for each in fields_of(self._array)]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            cells = self._cells(...)[key].tolist()
            kind = self._kinds[(self._array.dtype.names or ()).index(key)]
            return [self._one(cell) for cell in cells] if isinstance(kind, ObjectRef) else cells
        rows = self._cells(key)
        if isinstance(rows, np.ndarray) and rows.shape:
            return [self._row(row) for row in rows]
        return self._row(rows)

    def _row(self, row: Any) -> list[Any]:
        pairs = zip(self._kinds, row[()] if isinstance(row, np.ndarray) else row, strict=True)
        return [self._one(cell) if isinstance(kind, ObjectRef) else cell for kind, cell in pairs]

    def resolve(self, manager: Any) -> Any:
        """All rows."""
        return self[...]

    def extend(self, arg: Any) -> None:
        """Add rows of cells and containers at the end, in the file, at once."""
        self._grow([self._stored(row) for row in arg], self._array.dtype)

    def _stored(self, row: Any) -> tuple[Any, ...]:
        pairs = zip(self._kinds, row, strict=True)
        return tuple(self._refer(cell) if isinstance(kind, ObjectRef) else cell for kind, cell in pairs)


class _Builders:
    _array: Array
    _file: Finds

    def _found(self, reference: ObjectReference) -> Any:
        return self._file.builder_of(self._array, reference)


class _Containers:
    _array: Array
    _file: Finds

    def _found(self, reference: ObjectReference) -> Any:
        return self._file.container_of(self._array, reference)


class BuilderReferences(_Builders, _ReferenceArray, BuilderResolver):
    """An array of references that gives builders."""


class ContainerReferences(_Containers, _ReferenceArray, ContainerResolver):
    """An array of references that gives containers."""


class BuilderTable(_Builders, _Table, BuilderResolver):
    """Rows whose references are given as builders."""


class ContainerTable(_Containers, _Table, ContainerResolver):
    """Rows whose references are given as containers."""


_INVERSE: dict[type, type] = {
    BuilderReferences: ContainerReferences,
    ContainerReferences: BuilderReferences,
    BuilderTable: ContainerTable,
    ContainerTable: BuilderTable,
}
for _kind in _INVERSE:
    ObjectMapper.no_convert(_kind)


def fields_of(array: Array) -> list[dict[str, str]]:
    """The fields of a structured array as builders spell them: names, and words of the schema language."""
    fields: Any = array.spec.numpy_dtype.fields
    return [{"name": name, "dtype": _word(fields[name][0])} for name in array.dtype.names or ()]


def _word(dtype: np.dtype[Any]) -> str:
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
