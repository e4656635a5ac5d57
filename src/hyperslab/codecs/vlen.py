"""``vlen-utf8``, ``vlen-bytes``, ``vlen-array``: cells of any length, one after another.

A chunk is the number of cells and then, for each cell, its length in bytes and its bytes (all numbers uint32,
little-endian), as numcodecs writes them. Every length is checked against the bytes that are there.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from struct import Struct
from typing import Any

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import Buffer, ChunkLayout, Values
from hyperslab.codecs.config import Config, only
from hyperslab.errors import CorruptChunk, Invalid
from hyperslab.model.dtypes import VlenArray, VlenBytes, VlenString

_LENGTH = Struct("<I")
_MAX = 2**32 - 1


class Vlen:
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

    @property
    def size(self) -> int | None:
        """Unknown."""
        return None

    def encode(self, array: Values) -> Buffer:
        """All cells in C order; Invalid for a cell of another kind."""
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
        """The cells; CorruptChunk when the count or a length does not fit."""
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
    """Text in UTF-8; cells are ``StringDType``."""
    only("vlen-utf8", config)
    if not isinstance(cells.dtype, VlenString):
        raise read.unfit("vlen-utf8", "strings", cells.dtype)
    return Vlen("vlen-utf8", cells, str.encode, lambda item: str(item, "utf-8"))


def make_bytes(config: Config, cells: ChunkLayout) -> Vlen:
    """Byte strings; cells are ``bytes``."""
    only("vlen-bytes", config)
    if not isinstance(cells.dtype, VlenBytes):
        raise read.unfit("vlen-bytes", "byte strings", cells.dtype)
    return Vlen("vlen-bytes", cells, lambda cell: bytes(memoryview(cell)), bytes)


def make_array(config: Config, cells: ChunkLayout) -> Vlen:
    """1-D arrays of ``dtype``; cells are ``ndarray``."""
    only("vlen-array", config, "dtype")
    if not isinstance(cells.dtype, VlenArray):
        raise read.unfit("vlen-array", "arrays", cells.dtype)
    stored = read.dtype("vlen-array", config, "dtype", cells.dtype.base.str)
    memory = cells.dtype.base

    def pack(cell: Any) -> bytes:
        array = np.asarray(cell)
        if array.ndim != 1 or not np.can_cast(array.dtype, stored, "same_kind"):
            raise TypeError(cell)
        return array.astype(stored, copy=False).tobytes()

    def unpack(item: Buffer) -> Values:
        if len(item) % stored.itemsize:
            raise ValueError(f"{len(item)} bytes are no whole number of {stored}")
        return np.frombuffer(bytes(item), stored).astype(memory)

    return Vlen("vlen-array", cells, pack, unpack)
