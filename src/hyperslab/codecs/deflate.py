"""``zlib`` (RFC 1950) and ``gzip`` (RFC 1952): deflate streams, decoded by ISA-L, never to more than what is expected.

ISA-L writes levels 1 to 4 four times as fast as zlib at about the same ratio; levels 0 and above 4 are zlib's own.
"""

from __future__ import annotations

import zlib
from typing import Any

from isal import isal_zlib
from isal.igzip_lib import IsalError

from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.bounds import MEMBERS, ceiling, damaged, room, wrong_size
from hyperslab.codecs.config import Config, integer, only

_ZLIB, _GZIP = 15, 31
_REFUSED: Any = (IsalError, ValueError)  # isal's stub calls the class an instance
_ISAL_LEVEL = {1: 1, 2: 2, 3: 3, 4: 3}


class Deflate:
    """A deflate stream in a zlib or gzip wrapping; both carry a checksum. A gzip chunk may have several members."""

    def __init__(self, name: str, wrapping: int, level: int, cells: ChunkLayout) -> None:
        self._name = name
        self._wrapping = wrapping
        self._level = level
        self._room = room(cells)

    def encoded_size(self, size: int) -> int | None:
        """Unknown."""
        return None

    def encode(self, data: Buffer) -> Buffer:
        """One stream; the same bytes for the same data."""
        if self._level in _ISAL_LEVEL:
            return isal_zlib.compress(data, _ISAL_LEVEL[self._level], self._wrapping)
        return zlib.compress(data, self._level, self._wrapping)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """The content; CorruptChunk when it is longer or shorter than ``size``, cut off, or followed by anything."""
        limit = ceiling(size, self._room, len(data))
        out, rest = self._stream(data, limit)
        if rest:
            parts = [out]
            while rest:
                if len(parts) == MEMBERS:
                    raise damaged(self._name, f"more than {MEMBERS} streams")
                out, rest = self._stream(rest, limit - sum(map(len, parts)))
                parts.append(out)
            out = b"".join(parts)
        if len(out) > limit or (size is not None and len(out) != size):
            wrong_size(self._name, limit, len(out) if len(out) <= limit else f"more than {limit} bytes")
        return out

    def _stream(self, data: Buffer, limit: int) -> tuple[bytes, bytes]:
        """The first stream's content, at most one byte more than ``limit``, and what follows the stream."""
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
    """zlib, ``level`` -1 to 9."""
    only("zlib", config, "level")
    return Deflate("zlib", _ZLIB, integer("zlib", config, "level", 1, -1, 9), cells)


def make_gzip(config: Config, cells: ChunkLayout) -> Deflate:
    """gzip, ``level`` -1 to 9."""
    only("gzip", config, "level")
    return Deflate("gzip", _GZIP, integer("gzip", config, "level", 1, -1, 9), cells)
