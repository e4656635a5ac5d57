"""Cells that plain Zarr has no type for: text, references, times, enumerations.

:class:`PlainCells` turns what no bytes codec takes (text, references, rows of them) into the plain values that object
codecs store: what JSON has, an object for a reference. What was never written is 0 in the chunks of all peers, and null
in some: it reads as no reference, empty text, the zero of a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import ArrayToArray, ChunkLayout
from hyperslab.codecs.config import Config, only, require_type, unfit
from hyperslab.codecs.references import references_of, spelled
from hyperslab.errors import CorruptChunk, FormatError, Invalid, Unsupported
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import (
    Compound,
    DataType,
    Enum,
    NumpyDType,
    ObjectRef,
    RegionRef,
    VlenBytes,
    VlenString,
    describe,
    numpy_dtype,
    tag_of,
)
from hyperslab.model.refs import ObjectReference, RegionReference

# What the plain values of fixed cells are, by the dtype's kind, and which of them is its zero.
_FIXED: dict[str, tuple[frozenset[type], object]] = {
    "b": (frozenset({bool}), False),
    "i": (frozenset({int}), 0),
    "u": (frozenset({int}), 0),
    "f": (frozenset({float, int}), 0.0),
    "U": (frozenset({str}), ""),
    "S": (frozenset({bytes}), b""),
}
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

    def columns(self, array: Values) -> list[list[object]]:
        """Return the plain values of the cells, in C order; Invalid for a cell that is not of its type."""
        parts = [array] if self.names is None else [array[name] for name in self.names]
        return [self._plain(part, kind) for part, kind in zip(parts, self._kinds, strict=True)]

    def cells(self, columns: Sequence[list[object]], shape: tuple[int, ...]) -> Values:
        """Return the cells of plain values; CorruptChunk for a value that is none of the type."""
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

    def _column(self, values: list[object], kind: DataType) -> Values:
        if isinstance(kind, np.dtype):
            allowed, zero = _FIXED[kind.kind]
            cells: list[Any] = self._written(values, allowed, zero, kind)
            width = kind.itemsize // (4 if zero == "" else 1)
            if isinstance(zero, str | bytes) and max(map(len, cells), default=0) > width:
                raise self._corrupt("a text that is too long", kind)
            try:
                return np.array(cells, kind)
            except (TypeError, ValueError, OverflowError) as error:
                raise self._corrupt(str(error), kind) from None
        if isinstance(kind, ObjectRef | RegionRef):
            return self._references(values, kind)
        wanted = _CLASSES[type(kind)]
        dtype = self.dtype if self.names is None else np.dtype(object)
        if self._objects and self.names is None:
            values = self._as_texts(values)
        return _objects(self._written(values, frozenset({wanted}), wanted(), kind), dtype)

    def _as_texts(self, values: list[object]) -> list[object]:
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
        """Return the values, zero in place of those that were never written."""
        if set(map(type, values)) <= allowed:
            return values
        values = [zero if _never_written(value) else value for value in values]
        if wrong := set(map(type, values)) - allowed:
            raise self._corrupt(f"a cell is {min(t.__name__ for t in wrong)}", kind)
        return values

    def _corrupt(self, problem: str, kind: DataType) -> CorruptChunk:
        return CorruptChunk(
            f"{self._codec}: {problem}"[:300], expected=f"cells of type {describe(kind)}", found="others"
        )


def _kind(field: NumpyDType) -> DataType:
    return tag_of(field) or field


def _stores(kind: DataType, objects: bool) -> bool:
    """Return True if there are plain values of this type: JSON has no bytes, pickles have no regions."""
    if isinstance(kind, np.dtype):
        return kind.kind in _FIXED and not (objects and kind.kind == "S")
    return type(kind) in _CLASSES and not isinstance(kind, VlenBytes if objects else RegionRef)


def _never_written(value: object) -> bool:
    return value is None or (type(value) is int and value == 0) or (type(value) is str and not value)


def _itself(value: object) -> object:
    return value


def _objects(values: list[object], dtype: NumpyDType) -> Values:
    """Return the values one by one: NumPy takes lists of them apart."""
    return np.fromiter(values, object, len(values)) if dtype.kind == "O" else np.array(values, dtype)


# -- iso_time: datetime64 as text of ISO 8601, timedelta64 as its durations; as netCDF sees times of plain Zarr --------


_DATES, _CLOCK = frozenset("YMWD"), frozenset("hms")
_DIGITS = {"ms": 3, "us": 6, "ns": 9, "ps": 12, "fs": 15, "as": 18}
_ENDING_ZEROS = re.compile(r"\.?0+$")


class IsoTime(ArrayToArray):
    """Text cells over stored ones of ``dtype``; NaT is the empty text. Only reads."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("iso_time", config, "dtype")
        require_type("iso_time", "text", cells.dtype, VlenString)
        dtype = read.dtype("iso_time", config, "dtype")
        if dtype.kind not in "mM":
            raise Invalid(f"codec 'iso_time': dtype={dtype.str!r}", remedy="a dtype of times, such as '<M8[s]'")
        self.cells = ChunkLayout(dtype, cells.shape)

    def encode(self, array: Values) -> Values:
        """Refuse to write: Unsupported."""
        raise Unsupported("writing times as text over cells of times", remedy="open with native=True to write them")

    def decode(self, array: Values) -> Values:
        """Return the text of each cell."""
        return iso_texts(array)


def iso_texts(times: Values) -> Values:
    """Return the times as text: ``2020-01-31T12:00:00``, ``-P5D``, ``PT0.25S``; of a type without a unit the bare
    number."""
    unit, count = np.datetime_data(times.dtype)
    native = times.astype(times.dtype.newbyteorder("="))  # datetime_as_string misreads others
    numbers = native.view(np.int64).reshape(-1).tolist()
    missing = np.isnat(native).reshape(-1)
    if unit == "generic":
        texts = [str(number) for number in numbers]
    elif times.dtype.kind == "M":
        texts = np.datetime_as_string(native).reshape(-1).tolist()
    else:
        texts = [_duration(number * count, unit) for number in numbers]
    texts = ["" if lost else text for text, lost in zip(texts, missing.tolist(), strict=True)]
    return np.array(texts, np.dtypes.StringDType()).reshape(times.shape)


def _duration(number: int, unit: str) -> str:
    sign, amount = "-" if number < 0 else "", abs(number)
    if unit in _DATES:
        return f"{sign}P{amount}{unit}"
    if unit in _CLOCK:
        return f"{sign}PT{amount}{unit.upper()}"
    digits = _DIGITS[unit]
    whole, part = divmod(amount, 10**digits)
    return f"{sign}PT{_ENDING_ZEROS.sub('', f'{whole}.{part:0{digits}d}')}S"


# -- categorize and enum_members: cells of which only some values are allowed ------------------------------------------
# ``categorize`` stores words as numbers: 1 for the first label, 0 for a word that is no label, which is read back as
# ``""``. ``enum_members`` lets only members of an enumeration be written, and any whole number be read.


class Categorize(ArrayToArray):
    """Text cells, of variable or fixed length, as integers of ``astype``."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("categorize", config, "labels", "dtype", "astype")
        if not (isinstance(cells.dtype, VlenString) or cells.numpy_dtype.kind == "U"):
            raise unfit("categorize", "text", cells.dtype)
        labels = config.get("labels")
        if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
            raise Invalid(f"codec 'categorize': labels={labels!r}", remedy="a list of words")
        astype = read.dtype("categorize", config, "astype", "u1")
        if astype.kind not in "iu" or len(labels) > np.iinfo(astype).max:
            raise Invalid(f"codec 'categorize': {len(labels)} labels in {astype}", remedy="a larger integer as astype")
        self._text = cells.numpy_dtype
        self._words = np.array(["", *labels], self._text)
        self._places = {label: place for place, label in enumerate(labels, 1)}
        self.cells = ChunkLayout(astype, cells.shape)

    def encode(self, array: Values) -> Values:
        """Return the place of each word among the labels."""
        places = [self._places.get(word, 0) for word in array.reshape(-1).tolist()]
        return np.array(places, self.cells.numpy_dtype).reshape(array.shape)

    def decode(self, array: Values) -> Values:
        """Return the words; CorruptChunk for a number that is no label."""
        if array.size and (int(array.max()) >= len(self._words) or int(array.min()) < 0):
            found = (int(array.min()), int(array.max()))
            raise CorruptChunk("categorize: no such label", expected=f"0 to {len(self._words) - 1}", found=found)
        words: Values = self._words[array]
        return words


class EnumMembers(ArrayToArray):
    """The cells as they are. What is no member of their type, nor the fill value, is Invalid when it is encoded."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("enum_members", config)
        self._kind = require_type("enum_members", "enumerations", cells.dtype, Enum)
        self.cells = ChunkLayout(cells.numpy_dtype, cells.shape, cells.fill_value)
        fill = 0 if cells.fill_value is None else int(cells.fill_value)
        self._allowed = np.array([*dict(self._kind.members).values(), fill], cells.numpy_dtype)

    def encode(self, array: Values) -> Values:
        """Return the same cells; Invalid names one that is no member."""
        wrong = array[~np.isin(array, self._allowed)]
        if wrong.size:
            members = ", ".join(f"{name} = {value}" for name, value in self._kind.members[:20])
            raise Invalid(f"{wrong.flat[0]} is no member of enum {self._kind.name}", remedy=f"it has {members}")
        return array

    def decode(self, array: Values) -> Values:
        """Return the same cells."""
        return array
