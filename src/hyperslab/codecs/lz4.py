"""``lz4``: the decoded size (uint32, little-endian) and one raw LZ4 block, as numcodecs writes it."""

from __future__ import annotations

import numpy as np

from hyperslab.chunks.engine import EngineEncoder
from hyperslab.codecs import libblosc2
from hyperslab.codecs.base import Buffer, BytesToBytes, ChunkLayout
from hyperslab.codecs.buffers import ceiling, damaged, numcodecs_module, reuse_freed_memory, room, wrong_size
from hyperslab.codecs.config import Config, integer, only
from hyperslab.errors import CorruptChunk, Invalid

_MAX = 0x7E000000
# The block of no bytes at all, which numcodecs writes and refuses to read.
_EMPTY = b"\0"


class Lz4(BytesToBytes):
    """LZ4 block; a higher ``acceleration`` is faster and compresses less."""

    can_decode_into = True
    engine_name = "lz4"
    most_uncached = 2 << 10

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("lz4", config, "acceleration")
        self._acceleration = integer("lz4", config, "acceleration", 1, -(2**31), 2**31 - 1)
        self._room = room(cells)

    def encode(self, data: Buffer) -> Buffer:
        """Return size and block; Invalid beyond 2,113,929,216 bytes (LZ4_MAX_INPUT_SIZE)."""
        if len(data) > _MAX:
            raise Invalid(f"lz4: a chunk of {len(data)} bytes", remedy="smaller chunks, or another codec")
        reuse_freed_memory(len(data))
        stored: bytes = numcodecs_module("lz4").compress(data, self._acceleration)
        return stored

    def engine_encoder(self, size: int) -> EngineEncoder | None:
        """Return the acceleration."""
        return EngineEncoder(self._acceleration) if 0 < size <= _MAX else None

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the content; CorruptChunk when it is not ``size`` bytes."""
        found = int.from_bytes(data[:4], "little")
        limit = min(ceiling(size, self._room, len(data)), _MAX)
        if found > limit:
            wrong_size("lz4", limit, found)
        out = np.empty(found if size is None else size, np.uint8).data
        self.decode_into(data, out)
        return out

    def decode_into(self, data: Buffer, out: memoryview) -> None:
        size = len(out)
        if len(data) < 5:
            raise CorruptChunk("lz4: the chunk is too short", expected="5 bytes or more", found=len(data))
        if (found := int.from_bytes(data[:4], "little")) != size:
            wrong_size("lz4", size, found)
        library = libblosc2.load_library()
        if library is not None:
            if (got := library.decode_lz4(data, 4, out)) != size:
                raise damaged("lz4", f"error {got} of the LZ4 library" if got < 0 else f"{got} bytes", size)
        elif size:
            try:
                numcodecs_module("lz4").decompress(data, out)
            except (RuntimeError, ValueError) as error:
                raise damaged("lz4", error, size) from error
        elif data[4:] != _EMPTY:
            raise damaged("lz4", "a block of no bytes that is not empty", 0)
