"""``zlib``, ``gzip``, ``bz2``, ``lzma`` and ``lz4``: streams that are never decoded to more than what is expected."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from isal import isal_zlib
from isal.igzip_lib import IsalError

from hyperslab.chunks.engine import EngineEncoder
from hyperslab.codecs import libblosc2
from hyperslab.codecs.base import Buffer, BytesToBytes, ChunkLayout
from hyperslab.codecs.buffers import (
    STREAMS_PER_CHUNK,
    ceiling,
    damaged,
    numcodecs_module,
    reuse_freed_memory,
    room,
    wrong_size,
)
from hyperslab.codecs.config import Config, integer, only
from hyperslab.errors import CorruptChunk, Invalid, MemoryLimit

# -- bz2 and lzma, by the standard library -----------------------------------------------------------------------------


# Bytes that a dictionary of LZMA may take; that of preset 9, the largest, needs 65 MiB to decode.
_MEMORY = 80 << 20


Decompressor = bz2.BZ2Decompressor | lzma.LZMADecompressor


class Streams(BytesToBytes):
    """One stream or several, one after another."""

    def __init__(
        self,
        name: str,
        compress: Callable[[Buffer], bytes],
        open_stream: Callable[[], Decompressor],
        cells: ChunkLayout,
    ) -> None:
        self._name = name
        self._compress = compress
        self._open = open_stream
        self._room = room(cells)

    def encode(self, data: Buffer) -> Buffer:
        """Return one stream."""
        return self._compress(data)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the content; CorruptChunk when it is longer or shorter than ``size``, cut off, or followed by
        anything."""
        limit = ceiling(size, self._room, len(data))
        parts: list[bytes] = []
        found = 0
        rest: Buffer = data
        while not parts or rest:
            if len(parts) == STREAMS_PER_CHUNK:
                raise damaged(self._name, f"more than {STREAMS_PER_CHUNK} streams")
            stream = self._open()
            try:
                part = stream.decompress(rest, limit - found + 1)
            except MemoryError as error:
                raise MemoryLimit(f"{self._name}: no memory for its dictionary", remedy="allow more memory") from error
            except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
                raise damaged(self._name, error, limit) from error
            found += len(part)
            if found > limit:
                wrong_size(self._name, limit, f"more than {limit} bytes")
            if not stream.eof:
                raise damaged(self._name, f"the stream is cut off after {found} bytes of content", limit)
            parts.append(part)
            rest = stream.unused_data
        if size is not None and found != size:
            wrong_size(self._name, size, found)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def make_bz2(config: Config, cells: ChunkLayout) -> Streams:
    """Make bzip2 of ``level`` 1 to 9."""
    only("bz2", config, "level")
    level = integer("bz2", config, "level", 1, 1, 9)
    return Streams("bz2", lambda data: bz2.compress(data, level), bz2.BZ2Decompressor, cells)


def make_lzma(config: Config, cells: ChunkLayout) -> Streams:
    """Make LZMA: ``format`` 1 (xz), 2 (the old .lzma) or 3 (raw, needs ``filters``); parameters as the module ``lzma``.

    What needs more than 80 MiB to decode (preset 9 needs 65) is refused.
    """
    only("lzma", config, "format", "check", "preset", "filters")
    form = integer("lzma", config, "format", 1, 1, 3)
    check = integer("lzma", config, "check", -1, -1, 10)
    preset = None if config.get("preset") is None else integer("lzma", config, "preset", 6, 0, 9 | lzma.PRESET_EXTREME)
    filters = _filters(config.get("filters"))
    memory = None if form == lzma.FORMAT_RAW else _MEMORY
    raw = filters if form == lzma.FORMAT_RAW else None

    def open_stream() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(form, memory, raw)

    try:
        lzma.LZMACompressor(form, check, preset, filters)
        open_stream()
    except (lzma.LZMAError, ValueError, TypeError) as error:
        raise Invalid(f"codec 'lzma': {error}", remedy="parameters as Python's module lzma takes them") from error
    return Streams("lzma", lambda data: lzma.compress(data, form, check, preset, filters), open_stream, cells)


def _filters(value: Any) -> list[Mapping[str, Any]] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
        raise Invalid(
            f"codec 'lzma': filters={value!r}", remedy="a list of objects with an id, as Python's module lzma"
        )
    for item in value:
        size = item.get("dict_size", 0)
        if not isinstance(size, int) or size > _MEMORY:
            raise Invalid(f"codec 'lzma': dict_size={size!r}", remedy=f"at most {_MEMORY} bytes")
    return [dict(item) for item in value]


# -- zlib (RFC 1950) and gzip (RFC 1952), by ISA-L ---------------------------------------------------------------------
# ISA-L writes levels 1 to 4 four times as fast as zlib at about the same ratio; levels 0 and above 4 are zlib's own.
# Of 2,240,800 chunks of 192 bytes ISA-L gave one another stream than in all other runs: a byte longer, the same cells.


_ZLIB, _GZIP = 15, 31
_REFUSED: Any = (IsalError, ValueError)  # isal's stub calls the class an instance
_ISAL_LEVEL = {1: 1, 2: 2, 3: 3, 4: 3}
# How many times smaller deflate makes cells that are not shuffled where the engine's zlib-ng decodes them sooner than
# ISA-L, by which Python does. Processor's time for 1 MiB in chunks of 128 KiB by ISA-L and by zlib-ng, without reading
# the files: at a ratio of 1.3 2.8 and 3.0 ms, at 1.4 3.3 and 3.9, at 1.75 3.6 and 3.8, at 9 0.9 both, at 27 0.65 and
# 0.46. Shuffled cells zlib-ng decodes as soon or sooner: at 1.1 3.2 and 3.0 ms, at 2.0 2.1 and 1.6, at 2.3 2.1 and 2.0.
_LEAST_RATIO = 2


class Deflate(BytesToBytes):
    """A deflate stream in a zlib or gzip wrapping; both carry a checksum. A gzip chunk may have several members."""

    def __init__(self, name: str, wrapping: int, level: int, cells: ChunkLayout) -> None:
        self._name = self.engine_name = name
        self._wrapping = wrapping
        self._level = level
        self._room = room(cells)

    def most_for_engine(self, size: int, *, shuffled: bool) -> int | None:
        """Return half of the size, but for shuffled cells."""
        return None if shuffled else size // _LEAST_RATIO

    def encode(self, data: Buffer) -> Buffer:
        """Return one stream; by ISA-L not always the same bytes for the same data."""
        if self._level in _ISAL_LEVEL:
            return isal_zlib.compress(data, _ISAL_LEVEL[self._level], self._wrapping)
        return zlib.compress(data, self._level, self._wrapping)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the content; CorruptChunk when it is longer or shorter than ``size``, cut off, or followed by
        anything."""
        limit = ceiling(size, self._room, len(data))
        out, rest = self._stream(data, limit)
        if rest:
            parts = [out]
            while rest:
                if len(parts) == STREAMS_PER_CHUNK:
                    raise damaged(self._name, f"more than {STREAMS_PER_CHUNK} streams")
                out, rest = self._stream(rest, limit - sum(map(len, parts)))
                parts.append(out)
            out = b"".join(parts)
        if len(out) > limit or (size is not None and len(out) != size):
            wrong_size(self._name, limit, len(out) if len(out) <= limit else f"more than {limit} bytes")
        return out

    def _stream(self, data: Buffer, limit: int) -> tuple[bytes, bytes]:
        """Return the first stream's content, at most one byte more than ``limit``, and what follows the stream."""
        stream = isal_zlib.decompressobj(self._wrapping)
        try:
            out = stream.decompress(data, limit + 1)
        except _REFUSED as error:
            raise damaged(self._name, error, limit) from error
        if len(out) > limit:
            wrong_size(self._name, limit, f"more than {limit} bytes")
        if not stream.eof:
            raise damaged(self._name, f"the stream is cut off after {len(out)} bytes of content", limit)
        rest = stream.unused_data
        if rest and self._wrapping != _GZIP:
            raise damaged(self._name, f"{len(rest)} bytes after the end of the stream")
        return out, rest


def make_zlib(config: Config, cells: ChunkLayout) -> Deflate:
    """Make zlib of ``level`` -1 to 9."""
    only("zlib", config, "level")
    return Deflate("zlib", _ZLIB, integer("zlib", config, "level", 1, -1, 9), cells)


def make_gzip(config: Config, cells: ChunkLayout) -> Deflate:
    """Make gzip of ``level`` -1 to 9."""
    only("gzip", config, "level")
    return Deflate("gzip", _GZIP, integer("gzip", config, "level", 1, -1, 9), cells)


# -- lz4 ---------------------------------------------------------------------------------------------------------------
# The decoded size (uint32, little-endian) and one raw LZ4 block, as numcodecs writes it.


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
