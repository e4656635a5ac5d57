"""Booleans and small numbers as bits: numcodecs' ``packbits`` and the Zarr extension of the same name."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hyperslab.codecs.base import Buffer, ChunkLayout, Values
from hyperslab.codecs.bounds import check_size
from hyperslab.codecs.config import Config, choice, integer, only, unfit
from hyperslab.codecs.memory import contiguous, flat_bytes, from_bytes, is_big
from hyperslab.errors import CorruptChunk

_SMALL = {"bool": 1, "int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
_SMALL |= {"float6_e2m3fn": 6, "float6_e3m2fn": 6}
_SLAB = 1 << 16


class PackBools:
    """numcodecs' ``packbits``: the number of padding bits in a byte, then eight booleans a byte, the first highest."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("numcodecs.packbits", config)
        if cells.numpy_dtype.itemsize != 1 or cells.nbytes is None:
            raise unfit("numcodecs.packbits", "booleans", cells.dtype)
        self._dtype = cells.numpy_dtype
        self._shape = cells.shape
        self._count = prod(cells.shape)
        self._cells = ChunkLayout(np.dtype(np.uint8), (1 + -(-self._count // 8),))

    @property
    def cells(self) -> ChunkLayout:
        """Bytes, one axis."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """Packed booleans."""
        out = np.empty(self._cells.shape, np.uint8)
        out[0] = -self._count % 8
        out[1:] = np.packbits(contiguous(array).reshape(-1).view(np.bool_))
        return out

    def decode(self, array: Values) -> Values:
        """Booleans; CorruptChunk when the number of padding bits is wrong."""
        padding = -self._count % 8
        if int(array[0]) != padding:
            raise CorruptChunk("packbits: wrong number of padding bits", expected=padding, found=int(array[0]))
        return np.unpackbits(array[1:], count=self._count).view(self._dtype).reshape(self._shape)


class PackBits:
    """The Zarr extension: bits ``first_bit`` to ``last_bit`` of each component, lowest first, one after another.

    https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/packbits
    """

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("packbits", config, "padding_encoding", "first_bit", "last_bit")
        dtype = cells.numpy_dtype
        if cells.nbytes is None or dtype.itemsize == 0 or dtype.names or dtype.kind in "SUO" or dtype.type is np.void:
            raise unfit("packbits", "numbers and booleans", cells.dtype)
        self._dtype = dtype
        self._shape = cells.shape
        parts = 2 if dtype.kind == "c" else 1
        self._width = dtype.itemsize // parts
        bits = _SMALL.get(dtype.name, 8 * self._width)
        self._first = integer("packbits", config, "first_bit", 0, 0, bits - 1)
        self._last = integer("packbits", config, "last_bit", bits - 1, self._first, bits - 1)
        self._padding = choice("packbits", config, "padding_encoding", "none", ("none", "first_byte", "last_byte"))
        self._signed = dtype.kind in "imM"
        self._count = parts * prod(cells.shape)
        self._bits = self._count * (self._last - self._first + 1)

    @property
    def size(self) -> int:
        """Encoded bytes."""
        return -(-self._bits // 8) + (self._padding != "none")

    def encode(self, array: Values) -> Buffer:
        """Packed bits."""
        components = self._little(np.frombuffer(flat_bytes(contiguous(array)), np.uint8))
        parts = [b""] if self._padding != "first_byte" else [bytes([-self._bits % 8])]
        for start in range(0, self._count, _SLAB):
            bits = np.unpackbits(components[start : start + _SLAB], axis=1, bitorder="little")
            parts.append(np.packbits(bits[:, self._first : self._last + 1].reshape(-1), bitorder="little").tobytes())
        parts += [bytes([-self._bits % 8])] if self._padding == "last_byte" else []
        return b"".join(parts)

    def decode(self, data: Buffer) -> Values:
        """The cells; CorruptChunk when the size or the number of padding bits is wrong."""
        check_size("packbits", data, self.size)
        packed = np.frombuffer(data, np.uint8)
        if self._padding != "none":
            at = 0 if self._padding == "first_byte" else -1
            expected, found = -self._bits % 8, int(packed[at])
            if expected != found:
                raise CorruptChunk("packbits: wrong number of padding bits", expected=expected, found=found)
            packed = packed[1:] if at == 0 else packed[:-1]
        out = np.empty((self._count, self._width), np.uint8)
        step = self._last - self._first + 1
        for start in range(0, self._count, _SLAB):
            count = min(_SLAB, self._count - start)
            piece = packed[start * step // 8 : -(-(start + count) * step // 8)]
            out[start : start + count] = self._unpack(piece, count, step)
        return from_bytes(flat_bytes(self._little(out.reshape(-1))), self._dtype, self._shape)

    def _unpack(self, packed: Values, count: int, step: int) -> Values:
        found = np.unpackbits(packed, count=count * step, bitorder="little").reshape(count, step)
        bits = np.zeros((count, 8 * self._width), np.uint8)
        bits[:, self._first : self._last + 1] = found
        if self._signed:
            bits[:, self._last + 1 :] = found[:, -1:]
        return np.packbits(bits, axis=1, bitorder="little")

    def _little(self, memory: Values) -> Any:
        """Components, one a row, their lowest byte first; its own inverse."""
        rows = memory.reshape(-1, self._width)
        return np.ascontiguousarray(rows[:, ::-1]) if is_big(self._dtype) else rows
