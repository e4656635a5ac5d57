"""Cells that no bytes codec takes (text, references, rows of them) and the plain values that object codecs store.

A plain value is what JSON has: text, numbers, truth values, null; an object for a reference. What was never written is
0 in the chunks of all peers, and null in some: it reads as no reference, empty text, the zero of a number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hyperslab.codecs.base import Values
from hyperslab.codecs.config import unfit
from hyperslab.codecs.reference_json import references_of, spelled
from hyperslab.errors import CorruptChunk, FormatError, Invalid, Unsupported
from hyperslab.model.dtypes import (
    Compound,
    DataType,
    ObjectRef,
    RegionRef,
    VlenBytes,
    VlenString,
    describe,
    numpy_dtype,
    tag_of,
)
from hyperslab.model.refs import ObjectReference, RegionReference

_FIXED: dict[str, tuple[frozenset[type], Any]] = {
    "b": (frozenset({bool}), False),
    "i": (frozenset({int}), 0),
    "u": (frozenset({int}), 0),
    "f": (frozenset({float, int}), 0.0),
    "U": (frozenset({str}), ""),
    "S": (frozenset({bytes}), b""),
}
"""What the plain values of fixed cells are, by the dtype's kind, and which of them is its zero."""
_CLASSES: dict[type, type] = {
    VlenString: str,
    VlenBytes: bytes,
    ObjectRef: ObjectReference,
    RegionRef: RegionReference,
}


class PlainCells:
    """Cells of one type as columns of plain values: one column, or one for each field.

    ``objects``: references are stored as objects (JSON), not as they are (pickles). ``dtype`` is that of the cells in
    memory, ``stored`` that of the NumPy array which peers store.
    """

    def __init__(self, codec: str, dtype: DataType, *, objects: bool = True) -> None:
        base = dtype.base if isinstance(dtype, Compound) else dtype
        self._codec = codec
        self._objects = objects
        self.dtype = numpy_dtype(base)
        self.names = self.dtype.names
        self.stored = np.dtype(object) if self.dtype.kind == "T" else self.dtype
        fields: Mapping[str, Any] = self.dtype.fields or {}
        self._kinds: list[DataType] = [base] if self.names is None else [_kind(fields[n][0]) for n in self.names]
        for kind in self._kinds:
            if not _stores(kind, objects=objects):
                raise unfit(codec, "text, numbers and references", kind)

    def columns(self, array: Values) -> list[list[Any]]:
        """The plain values of the cells, in C order; Invalid for a cell that is not of its type."""
        parts = [array] if self.names is None else [array[name] for name in self.names]
        return [self._plain(part, kind) for part, kind in zip(parts, self._kinds, strict=True)]

    def cells(self, columns: Sequence[list[Any]], shape: tuple[int, ...]) -> Values:
        """The cells of plain values; CorruptChunk for a value that is none of the type."""
        if self.names is None:
            return self._column(columns[0], self._kinds[0]).reshape(shape)
        out = np.empty(shape, self.dtype)
        for name, kind, column in zip(self.names, self._kinds, columns, strict=True):
            out[name] = self._column(column, kind).reshape(shape)
        return out

    def _plain(self, part: Values, kind: DataType) -> list[Any]:
        values: list[Any] = part.reshape(-1).tolist()
        if isinstance(kind, np.dtype):
            return values
        wanted = _CLASSES[type(kind)]
        if wrong := set(map(type, values)) - {wanted, type(None)}:
            what = f"codec {self._codec!r} cannot store {min(t.__name__ for t in wrong)}"
            raise Invalid(f"{what} in cells of type {describe(kind)}", remedy="give cells of their type")
        if isinstance(kind, VlenString | VlenBytes):
            return [wanted() if value is None else value for value in values]
        spell = partial(spelled, scalar_as_one=True) if self._objects else _itself
        return [0 if value is None else spell(value) for value in values]

    def _column(self, values: list[Any], kind: DataType) -> Values:
        if isinstance(kind, np.dtype):
            return self._fixed(values, kind)
        if isinstance(kind, ObjectRef | RegionRef):
            return self._references(values, kind)
        wanted = _CLASSES[type(kind)]
        dtype = self.dtype if self.names is None else np.dtype(object)
        if self._objects and self.names is None:
            values = self._as_texts(values)
        return _objects(self._written(values, frozenset({wanted}), wanted(), kind), dtype)

    def _as_texts(self, values: list[Any]) -> list[Any]:
        """Return text as it is, numbers among it as JSON spells them; Unsupported for lists and objects."""
        types = set(map(type, values))
        if not types.isdisjoint({dict, list}):
            what = f"codec {self._codec!r}: cells that are JSON objects or lists"
            raise Unsupported(what, remedy="text, numbers and truth values are read, in HDMF references and rows too")
        if types.isdisjoint({int, float, bool}):
            return values
        return [
            json.dumps(value) if type(value) in (float, bool) or (value and type(value) is int) else value
            for value in values
        ]

    def _fixed(self, values: list[Any], kind: np.dtype[Any]) -> Values:
        allowed, zero = _FIXED[kind.kind]
        values = self._written(values, allowed, zero, kind)
        if isinstance(zero, str | bytes) and max(map(len, values), default=0) > kind.itemsize // (
            4 if zero == "" else 1
        ):
            raise self._corrupt("a text that is too long", kind)
        try:
            return np.array(values, kind)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._corrupt(str(error), kind) from None

    def _references(self, values: list[Any], kind: DataType) -> Values:
        wanted = _CLASSES[type(kind)]
        written = values
        if set(map(type, values)) != {dict if self._objects else wanted}:
            written = [value for value in values if not _never_written(value)]
        if self._objects:
            try:
                written = references_of(written)
            except FormatError as error:
                raise self._corrupt(error.said, kind) from None
        if wrong := set(map(type, written)) - {wanted}:
            raise self._corrupt(f"a cell is {min(t.__name__ for t in wrong)}", kind)
        if len(written) < len(values):
            found = iter(written)
            written = [None if _never_written(value) else next(found) for value in values]
        return _objects(written, np.dtype(object))

    def _written(self, values: list[Any], allowed: frozenset[type], zero: Any, kind: DataType) -> list[Any]:
        """The values, zero in place of those that were never written."""
        if set(map(type, values)) <= allowed:
            return values
        values = [zero if _never_written(value) else value for value in values]
        if wrong := set(map(type, values)) - allowed:
            raise self._corrupt(f"a cell is {min(t.__name__ for t in wrong)}", kind)
        return values

    def _corrupt(self, said: str, kind: DataType) -> CorruptChunk:
        return CorruptChunk(f"{self._codec}: {said}"[:300], expected=f"cells of type {describe(kind)}", found="others")


def _kind(field: np.dtype[Any]) -> DataType:
    return tag_of(field) or field


def _stores(kind: DataType, objects: bool) -> bool:
    """Return whether there are plain values of this type: JSON has no bytes, pickles have no regions."""
    if isinstance(kind, np.dtype):
        return kind.kind in _FIXED and not (objects and kind.kind == "S")
    return type(kind) in _CLASSES and not isinstance(kind, VlenBytes if objects else RegionRef)


def _never_written(value: Any) -> bool:
    return value is None or (type(value) is int and value == 0) or (type(value) is str and not value)


def _itself(value: Any) -> Any:
    return value


def _objects(values: list[Any], dtype: np.dtype[Any]) -> Values:
    """The values one by one: NumPy takes lists of them apart."""
    return np.fromiter(values, object, len(values)) if dtype.kind == "O" else np.array(values, dtype)
