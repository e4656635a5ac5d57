"""Cells of variable length as numcodecs writes them: ``vlen-utf8``, ``vlen-bytes``, ``vlen-array`` and ``json2``.

A chunk of ``vlen-*`` is the number of cells and then, for each cell, its length in bytes and its bytes (all numbers
uint32, little-endian). Every length is checked against the bytes that are there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from struct import Struct
from typing import Any

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import ArrayToBytes, Buffer, ChunkLayout
from hyperslab.codecs.config import Config, only
from hyperslab.codecs.plain_cells import PlainCells
from hyperslab.errors import CorruptChunk, FormatError, Invalid, Unsupported
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import VlenArray, VlenBytes, VlenString

_LENGTH = Struct("<I")
_MAX = 2**32 - 1  # lengths are stored as uint32


class Vlen(ArrayToBytes):
    """Cells as byte strings; ``pack`` makes them, ``unpack`` reads one back. A cell that is None is stored empty."""

    def __init__(
        self, name: str, cells: ChunkLayout, pack: Callable[[Any], bytes], unpack: Callable[[Buffer], Any]
    ) -> None:
        self._name = name
        self._shape = cells.shape
        self._count = prod(cells.shape)
        self._dtype = cells.numpy_dtype
        self._pack = pack
        self._unpack = unpack

    def encode(self, array: Values) -> Buffer:
        """Return all cells in C order; Invalid for a cell of another kind."""
        parts = [_LENGTH.pack(self._count)]
        for cell in array.reshape(-1).tolist():
            try:
                item = b"" if cell is None else self._pack(cell)
            except (TypeError, ValueError, AttributeError) as error:
                raise Invalid(f"codec {self._name!r} cannot store {type(cell).__name__} {cell!r:.60}") from error
            if len(item) > _MAX:
                raise Invalid(f"codec {self._name!r}: a cell of {len(item)} bytes", remedy="cells of less than 4 GiB")
            parts += (_LENGTH.pack(len(item)), item)
        return b"".join(parts)

    def decode(self, data: Buffer) -> Values:
        """Return the cells; CorruptChunk when the count or a length does not fit."""
        items = [self._read(item) for item in self._split(memoryview(data))]
        if self._dtype.kind == "O":
            return np.fromiter(items, object, len(items)).reshape(self._shape)
        return np.array(items, self._dtype).reshape(self._shape)

    def _split(self, view: memoryview) -> list[memoryview]:
        end = len(view)
        found = int.from_bytes(view[:4], "little")
        if end < 4 or found != self._count or end < 4 + 4 * found:
            detail = f"{found} cells in {end} bytes"
            raise CorruptChunk(f"{self._name}: wrong number of cells", expected=f"{self._count} cells", found=detail)
        items = []
        at = 4
        for place in range(found):
            stop = at + 4
            if stop <= end:
                (length,) = _LENGTH.unpack_from(view, at)
                at, stop = stop, stop + length
            if stop > end:
                raise CorruptChunk(f"{self._name}: cell {place} is cut off", expected=f"{stop} bytes", found=end)
            items.append(view[at:stop])
            at = stop
        if at != end:
            raise CorruptChunk(f"{self._name}: bytes after the last cell", expected=f"{at} bytes", found=end)
        return items

    def _read(self, item: memoryview) -> Any:
        try:
            return self._unpack(item)
        except ValueError as error:
            raise CorruptChunk(f"{self._name}: {error}", expected="a sound cell", found=bytes(item[:40])) from error


def make_utf8(config: Config, cells: ChunkLayout) -> Vlen:
    """Return text in UTF-8; cells are ``StringDType``."""
    only("vlen-utf8", config)
    read.require_type("vlen-utf8", "strings", cells.dtype, VlenString)
    return Vlen("vlen-utf8", cells, str.encode, lambda item: str(item, "utf-8"))


def make_bytes(config: Config, cells: ChunkLayout) -> Vlen:
    """Make the codec of byte strings; cells are ``bytes``."""
    only("vlen-bytes", config)
    read.require_type("vlen-bytes", "byte strings", cells.dtype, VlenBytes)
    return Vlen("vlen-bytes", cells, lambda cell: bytes(memoryview(cell)), bytes)


def make_array(config: Config, cells: ChunkLayout) -> Vlen:
    """Make the codec of 1-D arrays of ``dtype``; cells are ``ndarray``."""
    only("vlen-array", config, "dtype")
    memory = read.require_type("vlen-array", "arrays", cells.dtype, VlenArray).base
    stored = read.dtype("vlen-array", config, "dtype", memory.str)

    def pack(cell: object) -> bytes:
        array = np.asarray(cell)
        if array.ndim != 1 or not np.can_cast(array.dtype, stored, "same_kind"):
            raise TypeError(cell)
        return array.astype(stored, copy=False).tobytes()

    def unpack(item: Buffer) -> Values:
        if len(item) % stored.itemsize:
            raise ValueError(f"{len(item)} bytes are no whole number of {stored}")
        return np.frombuffer(bytes(item), stored).astype(memory)

    return Vlen("vlen-array", cells, pack, unpack)


# -- json2: cells as JSON: text, numbers, references, rows of them -----------------------------------------------------
# A chunk is a list: the cells (nested as the axes are), the dtype's name, the shape. Values are made of it, nothing is
# executed. A chunk without axes is stored as one of shape ``[1]``, for peers cannot write it otherwise.


# Bytes of a chunk: JSON is parsed as a whole, and what that takes is not known before.
LIMIT = 64 << 20
JSON_ZERO = b'[0,"<i8",[]]'
"""What peers store as the fill value of rows: the number 0."""
_FLAGS = {"skipkeys": False, "ensure_ascii": True, "check_circular": True, "allow_nan": True, "sort_keys": True}


class Json2(ArrayToBytes):
    """Cells as plain values of JSON; the configuration is that of Python's encoder, with numcodecs' defaults."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        self._encoding = str(config.get("encoding", "utf-8"))
        if self._encoding not in ("utf-8", "ascii", "latin-1"):
            raise Unsupported(f"codec 'json2': encoding={self._encoding!r}", remedy="utf-8, ascii or latin-1")
        self._plain = PlainCells("json2", cells.dtype)
        self._shape = cells.shape
        self._dtype = self._plain.stored.str
        flags: Any = {name: bool(config.get(name, default)) for name, default in _FLAGS.items()}
        indent, separators = config.get("indent"), config.get("separators")
        if separators is None:
            separators = (",", ":") if indent is None else (", ", ": ")
        pair = isinstance(separators, list | tuple) and len(separators) == 2
        if not pair or not all(isinstance(part, str) for part in separators):
            raise Invalid(f"codec 'json2': separators={separators!r}", remedy='a pair of texts such as [",", ":"]')
        if not (indent is None or (isinstance(indent, int | str) and len(str(indent)) < 9)):
            raise Invalid(f"codec 'json2': indent={indent!r}", remedy="null, a small number or text")
        self._write = json.JSONEncoder(indent=indent, separators=(separators[0], separators[1]), **flags).encode
        self._strict = bool(config.get("strict", True))

    def encode(self, array: Values) -> Buffer:
        """Return the JSON text; Invalid for a cell that JSON has no value for."""
        columns = self._plain.columns(array)
        items: list[Any] = columns[0] if self._plain.names is None else list(zip(*columns, strict=True))
        shape = self._shape or (1,)
        for length in reversed(shape[1:]):
            items = [items[at : at + length] for at in range(0, len(items), length)] if length else []
        try:
            return self._write([*items, self._dtype, list(shape)]).encode(self._encoding)
        except (TypeError, ValueError) as error:
            raise Invalid(f"codec 'json2' cannot store these cells: {error}") from None

    def decode(self, data: Buffer) -> Values:
        """Return the cells; CorruptChunk when they do not have the chunk's shape, or one of them is not of their
        type."""
        if len(data) > LIMIT:
            raise Unsupported(f"codec 'json2': a chunk of {len(data)} bytes", remedy=f"at most {LIMIT} bytes")
        try:
            found = json.loads(str(data, self._encoding), strict=self._strict)
        except (ValueError, RecursionError) as error:
            raise CorruptChunk(f"json2: {error}", expected="a JSON list", found=bytes(data[:40])) from error
        known = [list(self._shape), list(self._shape) or [1]]
        if not isinstance(found, list) or len(found) < 2 or found[-1] not in known:
            what = found[-1] if isinstance(found, list) and found else type(found).__name__
            raise CorruptChunk("json2: wrong shape", expected=list(self._shape), found=str(what)[:80])
        items = found[:-2]
        shape = self._shape or (1,)
        for depth in range(len(shape)):
            if len(items) != prod(shape[: depth + 1]):
                raise CorruptChunk("json2: wrong number of cells", expected=list(self._shape), found=len(items))
            if depth + 1 < len(shape):
                if not all(isinstance(item, list) and len(item) == shape[depth + 1] for item in items):
                    raise CorruptChunk("json2: wrong nesting", expected=list(self._shape), found=f"axis {depth + 1}")
                items = [cell for item in items for cell in item]
        names = self._plain.names
        columns = [items] if names is None else _columns(items, len(names))
        return self._plain.cells(columns, self._shape)


def fill_of_json(data: Buffer) -> str | int | float | bool | None:
    """Return the plain value that was encoded as a fill value; FormatError for anything else."""
    try:
        found = json.loads(bytes(data[:LIMIT]))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"a fill value that is no JSON: {error}") from None
    if not isinstance(found, list) or not found or isinstance(found[0], list | dict):
        raise FormatError("a fill value of json2 that is no plain value")
    value: str | int | float | bool | None = found[0]
    return value


def _columns(rows: list[object], count: int) -> list[list[object]]:
    """Return the fields of rows; a row that was never written is 0."""
    empty = [0] * count
    rows = [empty if row == 0 or row is None else row for row in rows]
    if not all(isinstance(row, list) and len(row) == count for row in rows):
        raise CorruptChunk("json2: a row is no list of its fields", expected=f"{count} fields", found="others")
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]
