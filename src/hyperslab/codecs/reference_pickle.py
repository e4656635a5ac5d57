"""``reference_pickle``: references, text and rows of them as the pickles of hdmf-zarr up to 0.13, without pickling.

Nothing in the data is run (:mod:`~hyperslab.codecs.pickled`), nothing but the operations of old peers is written.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import ArrayToBytes, Buffer, ChunkLayout
from hyperslab.codecs.config import Config, only
from hyperslab.codecs.plain_cells import PlainCells
from hyperslab.codecs.references import spelled
from hyperslab.errors import CorruptChunk, Invalid
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.refs import ObjectReference

# -- pickles of references as old peers wrote them: the stock pickler would import the peer ----------------------------
#
# The reader of hdmf-zarr up to 0.13 rebuilds a NumPy object array of its own references from them.


ZERO = b"\x80\x05K\x00."
"""What peers store as the fill value of rows: the number 0."""
_STOP, _MARK, _NONE = b".", b"(", b"N"


def pickled(columns: Sequence[list[object]], dtype: NumpyDType, shape: tuple[int, ...], protocol: int = 5) -> bytes:
    """Return an array of objects, or of rows with objects, whose values these columns hold (one for each field)."""
    writer = _Writer(protocol)
    writer.array(columns, dtype, shape)
    return b"".join([*writer.parts, _STOP])


class _Writer:
    """Operations one after another; every text and class is written once and taken from the memory afterwards."""

    def __init__(self, protocol: int) -> None:
        self.parts = [b"\x80" + bytes([protocol])]
        self._memory: dict[object, bytes] = {}

    def array(self, columns: Sequence[list[object]], dtype: NumpyDType, shape: tuple[int, ...]) -> None:
        """Write ``_reconstruct(ndarray, (0,), b"b")`` with the state of the array."""
        add = self.parts.append
        self.name("numpy.core.multiarray", "_reconstruct")
        self.name("numpy", "ndarray")
        self.plain((0,))
        self.plain(b"b")
        add(b"\x87R")
        add(_MARK)
        self.plain(1)
        self.plain(shape)
        self.dtype(dtype)
        self.plain(False)
        add(b"](")
        if dtype.names is None:
            for value in columns[0]:
                self.value(value)
        else:
            for row in zip(*columns, strict=True):
                add(_MARK)
                for value in row:
                    self.value(value)
                add(b"t")
        add(b"etb")

    def dtype(self, dtype: NumpyDType) -> None:
        """Write ``dtype(code, False, True)`` with the state of the dtype."""
        names = dtype.names
        code = f"V{dtype.itemsize}" if names else "O8" if dtype.kind == "O" else dtype.str[1:]
        self.name("numpy", "dtype")
        self.plains(code, False, True)
        self.parts.append(b"\x87R(")
        if names is None:
            self.plains(*_simple_state(dtype))
        else:
            self.plains(3, "|", None, names)
            self.fields(dtype)
            self.plains(dtype.itemsize, 1, 27)
        self.parts.append(b"tb")

    def fields(self, dtype: NumpyDType) -> None:
        """Write the dictionary of the fields: name, dtype and offset."""
        self.parts.append(b"}(")
        fields: Any = dtype.fields
        for name in dtype.names or ():
            self.plain(name)
            self.dtype(fields[name][0])
            self.plain(fields[name][1])
            self.parts.append(b"\x86")
        self.parts.append(b"u")

    def value(self, value: object) -> None:
        """Write a cell, or a field of a row."""
        if not isinstance(value, ObjectReference):
            self.plain(value)
            return
        self.name("hdmf_zarr.utils", "ZarrReference")
        self.parts.append(b")\x81(")
        for key in ("source", "path", "object_id", "source_object_id"):
            self.plain(key)
            self.plain(getattr(value, key))
        self.parts.append(b"u")

    def name(self, module: str, name: str) -> None:
        """Write a class or function."""
        key = (module, name)
        if key in self._memory:
            self.parts.append(self._memory[key])
            return
        self.plain(module)
        self.plain(name)
        self.parts.append(b"\x93")
        self._memorize(key)

    def plains(self, *values: object) -> None:
        """Write plain values one after the other."""
        for value in values:
            self.plain(value)

    def plain(self, value: object) -> None:
        """Write text, bytes, a number, a truth value, None, or a tuple of them; Invalid for anything else."""
        match value:
            case str():
                self._text(value)
            case None | bool():
                self.parts.append(_NONE if value is None else b"\x88" if value else b"\x89")
            case int():
                self.parts.append(_whole(value))
            case float():
                self.parts.append(struct.pack(">cd", b"G", value))
            case bytes():
                self.parts.append(struct.pack("<cI", b"B", len(value)) + value)
            case tuple():
                self.parts.append(_MARK)
                self.plains(*value)
                self.parts.append(b"t")
            case _:
                raise Invalid(f"codec 'reference_pickle' cannot store {type(value).__name__}")

    def _text(self, value: str) -> None:
        if value in self._memory:
            self.parts.append(self._memory[value])
            return
        raw = value.encode("utf-8", "surrogatepass")
        head = b"\x8c" + bytes([len(raw)]) if len(raw) < 256 else struct.pack("<cI", b"X", len(raw))
        self.parts.append(head + raw)
        self._memorize(value)

    def _memorize(self, key: object) -> None:
        """Remember what is on top of the stack, with the operation that brings it back."""
        place = len(self._memory)
        self.parts.append(b"\x94")
        self._memory[key] = b"h" + bytes([place]) if place < 256 else struct.pack("<cI", b"j", place)


def _simple_state(dtype: NumpyDType) -> tuple[object, ...]:
    if dtype.kind == "O":
        return (3, "|", None, None, None, -1, -1, 63)
    order = {"=": "<" if np.little_endian else ">"}.get(dtype.byteorder, dtype.byteorder)
    if dtype.kind in "US":
        return (
            3,
            order,
            None,
            None,
            None,
            dtype.itemsize,
            4 if dtype.kind == "U" else 1,
            8 if dtype.kind == "U" else 0,
        )
    return (3, order, None, None, None, -1, -1, 0)


def _whole(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(2**31) <= value < 2**31:
        return struct.pack("<ci", b"J", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


class ReferencePickle(ArrayToBytes):
    """A chunk is one pickled NumPy array of objects, or of rows. ``protocol``: of the pickles that are written."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("reference_pickle", config, "protocol")
        self._protocol = 4 if 0 <= read.integer("reference_pickle", config, "protocol", 5, -1, 5) < 5 else 5
        self._plain = PlainCells("reference_pickle", cells.dtype, objects=False)
        if not self._plain.stored.hasobject:
            raise read.unfit("reference_pickle", "objects and rows of them", cells.dtype)
        self._shape = cells.shape
        self._stored = cells.shape or (1,)

    def encode(self, array: Values) -> Buffer:
        """Return the pickle; Invalid for a cell that is not of its type."""
        return pickled(self._plain.columns(array), self._plain.stored, self._stored, self._protocol)

    def decode(self, data: Buffer) -> Values:
        """Return the cells; UnsafePickle for anything but an array of references and plain values, CorruptChunk for an
        array of another shape or with other fields."""
        from hyperslab.codecs.pickled import read_pickled  # on use, which is rare: its classes take 1 ms to make

        fields = self._plain.names
        found = read_pickled(bytes(data), prod(self._stored) * len(fields or "1"))
        if found.shape not in (self._shape, self._stored):
            raise CorruptChunk("reference_pickle: wrong shape", expected=self._stored, found=str(found.shape)[:80])
        columns = found.columns
        if found.fields is None and fields is not None:  # rows as tuples in an array of objects
            count = len(fields)
            empty = (0,) * count
            rows = [row if type(row) is tuple else empty if row in (0, None) else (row,) for row in columns[0]]
            if any(len(row) != count for row in rows):
                message = "reference_pickle: a row has other fields"
                raise CorruptChunk(message, expected=f"{count} fields", found="others")
            columns = tuple(map(list, zip(*rows, strict=True))) if rows else tuple([] for _ in range(count))
        elif found.fields != fields:
            raise CorruptChunk("reference_pickle: other fields", expected=fields, found=str(found.fields)[:80])
        # A structure within a row becomes JSON, since it has no type of its own here.
        return self._plain.cells(
            [
                [_json_of(value) if type(value) is tuple else value for value in column]
                if tuple in set(map(type, column))
                else column
                for column in columns
            ],
            self._shape,
        )


def _json_of(value: tuple[object, ...]) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain_of)


def _plain_of(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else spelled(value)
