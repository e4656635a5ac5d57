"""``lz4``: the decoded size (uint32, little-endian) and one raw LZ4 block, as numcodecs writes it."""

from __future__ import annotations

from ctypes import c_int, c_void_p

import numpy as np

from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.bounds import ceiling, damaged, room, wrong_size
from hyperslab.codecs.config import Config, integer, only
from hyperslab.codecs.native import address, function
from hyperslab.errors import CorruptChunk, Invalid

_MAX = 0x7E000000


class Lz4:
    """LZ4 block; a higher ``acceleration`` is faster and compresses less."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("lz4", config, "acceleration")
        self._acceleration = integer("lz4", config, "acceleration", 1, -(2**31), 2**31 - 1)
        self._room = room(cells)
        types = (c_void_p, c_void_p, c_int, c_int)
        self._compress = function("lz4", "LZ4_compress_fast", *types, c_int)
        self._decompress = function("lz4", "LZ4_decompress_safe", *types)

    def encoded_size(self, size: int) -> int | None:
        """Unknown."""
        return None

    def encode(self, data: Buffer) -> Buffer:
        """Size and block; Invalid beyond 2,113,929,216 bytes (LZ4_MAX_INPUT_SIZE)."""
        size = len(data)
        if size > _MAX:
            raise Invalid(f"lz4: a chunk of {size} bytes", remedy="smaller chunks, or another codec")
        out = np.empty(4 + size + size // 255 + 16, np.uint8)
        out[:4] = np.frombuffer(size.to_bytes(4, "little"), np.uint8)
        target = address(out.data) + 4
        written = self._compress(address(data), target, size, len(out) - 4, self._acceleration)
        return out[: 4 + written].data

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """The content; CorruptChunk when it is not ``size`` bytes."""
        found = int.from_bytes(data[:4], "little")
        limit = min(ceiling(size, self._room, len(data)), _MAX)
        if found > limit:
            wrong_size("lz4", limit, found)
        out = np.empty(found if size is None else size, np.uint8).data
        self.decode_into(data, out)
        return out

    def decode_into(self, data: Buffer, out: memoryview) -> None:
        """Decode exactly ``len(out)`` bytes into ``out``."""
        size = len(out)
        if len(data) < 5:
            raise CorruptChunk("lz4: the chunk is too short", expected="5 bytes or more", found=len(data))
        if (found := int.from_bytes(data[:4], "little")) != size:
            wrong_size("lz4", size, found)
        got = self._decompress(address(data) + 4, address(out), len(data) - 4, size)
        if got != size:
            raise damaged("lz4", f"error {got} of the LZ4 library" if got < 0 else f"{got} bytes", size)
