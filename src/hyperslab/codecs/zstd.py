"""``zstd``: Zstandard frames (RFC 8878). The size that a frame declares is checked before anything is decoded.

The library of Blosc2 (:mod:`~hyperslab.codecs.libblosc2`) decodes frames, or, without it, numcodecs, which wants to
know beforehand how large their content is. Of frames that do not declare that, their blocks tell how much it can be.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from hyperslab.chunks.engine import EngineEncoder
from hyperslab.codecs import libblosc2
from hyperslab.codecs.base import Buffer, BytesToBytes, ChunkLayout
from hyperslab.codecs.buffers import ceiling, damaged, numcodecs_module, reuse_freed_memory, room, wrong_size
from hyperslab.codecs.config import Config, flag, integer, only
from hyperslab.errors import CorruptChunk, Unsupported

# Bytes that are tried first for content of unknown size.
_START = 1 << 16
# The engine's Zstandard is that of libblosc2, 1.5.7, which looks for places to cut larger content before it compresses:
# chunks of 4 MiB of float32 take 1.7 times as long as by numcodecs' 1.5.6 and become 1 % smaller, chunks of 1 MiB 1.3
# times, below that Python's part of the work outweighs it.
_MOST_BY_ENGINE = 512 << 10


class Zstd(BytesToBytes):
    """Zstandard at ``level`` -131072 to 22 (0: the library's default, 3), with or without a checksum of the content."""

    can_decode_into = True
    engine_name = "zstd"
    most_uncached = 512

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("zstd", config, "level", "checksum")
        self._level = integer("zstd", config, "level", 0, -131072, 22)
        self._checksum = flag("zstd", config, "checksum", False)
        self._room = room(cells)

    def encode(self, data: Buffer) -> Buffer:
        """Return one frame that declares its content size."""
        reuse_freed_memory(len(data))
        frame: bytes = numcodecs_module("zstd").compress(data, self._level, self._checksum)
        return frame

    def engine_encoder(self, size: int) -> EngineEncoder | None:
        """Return the level, for frames without a checksum."""
        return None if self._checksum or size > _MOST_BY_ENGINE else EngineEncoder(self._level)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the content of all frames; CorruptChunk when it is not ``size`` bytes."""
        if size is not None:
            _read_size(data, size)
            out = np.empty(size, np.uint8).data
            self.decode_into(data, out)
            return out
        limit = ceiling(None, self._room, len(data))
        library = libblosc2.load_library()
        return _stream_by_numcodecs(data, limit) if library is None else _decode_up_to(library, data, limit)

    @staticmethod
    def decode_into(data: Buffer, out: memoryview) -> None:
        size = len(out)
        declared = _read_size(data, size)
        library = libblosc2.load_library()
        if library is None:
            _decode_by_numcodecs(data, out, declared)
            return
        found = library.decode_zstd(data, out)
        if found != size:
            if found >= 0 or library.is_out_of_room(found):
                wrong_size("zstd", size, found if found >= 0 else f"more than {size} bytes")
            raise damaged("zstd", library.zstd_error(found), size)


def _decode_up_to(library: libblosc2.LibBlosc2, data: Buffer, limit: int) -> Buffer:
    """Decode at most ``limit`` bytes: what the first frame declares, or as many as it takes."""
    declared = _read_size(data, limit)
    capacity = min(limit, max(_START, 4 * len(data))) if declared is None else declared
    while True:
        out = np.empty(capacity, np.uint8).data
        found = library.decode_zstd(data, out)
        if found >= 0:
            return out[:found]
        if not library.is_out_of_room(found) or capacity == limit:
            raise damaged("zstd", library.zstd_error(found))
        capacity = min(limit, 4 * max(capacity, _START))


# -- by numcodecs, which decodes content of a known size, or of whatever size it has ----------------------------------

# An empty frame that does not declare its size. Behind it numcodecs believes the size of ``out``, not that of the first
# frame, and decodes several frames.
_UNDECLARED = b"\x28\xb5\x2f\xfd\x00\x00\x01\x00\x00"


def _decode_by_numcodecs(data: Buffer, out: memoryview, declared: int | None) -> None:
    size = len(out)
    if declared != size or not size:  # several frames, or none that numcodecs decodes by itself
        total, exact = _measure_content(memoryview(data), size)
        if exact and total != size:
            wrong_size("zstd", size, total)
        if exact and not size:
            return
        data = _prefix(data)
    try:
        numcodecs_module("zstd").decompress(data, out)
    except (RuntimeError, ValueError) as error:
        raise damaged("zstd", error, size) from error


def _stream_by_numcodecs(data: Buffer, limit: int) -> Buffer:
    """Decode at most ``limit`` bytes. Unsupported where the blocks do not tell beforehand that there are no more."""
    most, exact = _measure_content(memoryview(data), limit)
    if exact:
        if most > limit:
            wrong_size("zstd", limit, most)
        out = np.empty(most, np.uint8).data
        Zstd.decode_into(data, out)
        return out
    if most > limit:
        raise Unsupported(f"zstd: content of unknown size, up to {most} bytes", remedy="pip install 'hyperslab[fast]'")
    try:
        content: bytes = numcodecs_module("zstd").decompress(_prefix(data))
    except (RuntimeError, ValueError) as error:
        raise damaged("zstd", error) from error
    return content


def _prefix(data: Buffer) -> bytes:
    if not _decodes_undeclared():
        raise Unsupported(
            "zstd: numcodecs before 0.16.2 decodes only one frame, which declares its size",
            remedy="pip install 'numcodecs>=0.16.2', or 'hyperslab[fast]'",
        )
    return b"".join((_UNDECLARED, data))


@cache
def _decodes_undeclared() -> bool:
    try:
        numcodecs_module("zstd").decompress(_UNDECLARED)
    except RuntimeError:
        return False
    return True


# -- headers of frames and blocks (RFC 8878, 3.1.1) --------------------------------------------------------------------

_MAGIC = b"\x28\xb5\x2f\xfd"
# The last three bytes of a skippable frame's magic number; the first is 0x50 to 0x5f.
_SKIPPABLE = b"\x2a\x4d\x18"
# No block decodes to more bytes.
_BLOCK = 128 << 10


def _read_size(data: Buffer, limit: int) -> int | None:
    """Return the content size that the first frame declares, None where it declares none, 0 of a skippable frame.

    Refuse what is no frame, and one that declares more than ``limit``; others may follow it.
    """
    if len(data) >= 9 and data[:4] == _MAGIC:
        place, width = _locate_size(data[4])
        if len(data) >= place + width:
            if not width:
                return None
            declared = int.from_bytes(data[place : place + width], "little") + (256 if width == 2 else 0)
            if declared > limit:
                wrong_size("zstd", limit, declared)
            return declared
    elif _is_skippable(data):
        return 0
    raise CorruptChunk("zstd: the chunk is damaged", expected="a frame", found=bytes(data[:8]))


def _locate_size(descriptor: int) -> tuple[int, int]:
    """Return where the content size of a frame with this descriptor lies, and in how many bytes; 0: it has none."""
    single = descriptor & 0x20  # one segment: no byte for the window
    place = 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    return place, (1 if single else 0, 2, 4, 8)[descriptor >> 6]


def _is_skippable(data: Buffer) -> bool:
    return len(data) >= 8 and data[1:4] == _SKIPPABLE and data[0] >> 4 == 5


def _measure_content(data: memoryview, limit: int) -> tuple[int, bool]:
    """Return the bytes of content of all frames, and True; or, and False, the most that it can be."""
    total, exact = 0, True
    while len(data):
        declared = _read_size(data, limit)
        if _is_skippable(data):
            end = 8 + int.from_bytes(data[4:8], "little")
        else:
            most, end = _measure_blocks(data)
            total += most if declared is None else declared
            exact = exact and declared is not None
        if end > len(data):
            raise damaged("zstd", f"a frame of {end} bytes, of {len(data)}")
        data = data[end:]
    return total, exact


def _measure_blocks(frame: memoryview) -> tuple[int, int]:
    """Return the most bytes that the blocks of the first frame decode to, and where the frame ends."""
    most, place = 0, sum(_locate_size(frame[4]))
    while place + 3 <= len(frame):
        header = int.from_bytes(frame[place : place + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if size > _BLOCK or kind == 3:
            raise damaged("zstd", f"a block of kind {kind} and {size} bytes")
        most += _BLOCK if kind == 2 else size
        place += 3 + (1 if kind == 1 else size)  # kind 1: one byte, that many times
        if last:
            return most, place + (4 if frame[4] & 4 else 0)  # a checksum
    raise damaged("zstd", "a frame without its last block")
