"""``zstd``: Zstandard frames (RFC 8878). The size that a frame declares is checked before anything is decoded."""

from __future__ import annotations

import threading
from ctypes import c_char_p, c_int, c_size_t, c_ulonglong, c_void_p

import numpy as np

from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.bounds import ceiling, damaged, room, wrong_size
from hyperslab.codecs.config import Config, flag, integer, only
from hyperslab.codecs.native import address, function
from hyperslab.errors import CorruptChunk

_UNKNOWN = 2**64 - 1
_NO_FRAME = 2**64 - 2
_TOO_SMALL = -70
_START = 1 << 16
_LEVEL, _CHECKSUM = 100, 201
_MODEST = 12
"""Above this level a context takes too much memory to be kept."""
_BUFFERS = (c_void_p, c_size_t, c_void_p, c_size_t)


class Zstd:
    """Zstandard at ``level`` -131072 to 22 (0: the library's default, 3), with or without a checksum of the content."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("zstd", config, "level", "checksum")
        self._level = integer("zstd", config, "level", 0, -131072, 22)
        self._checksum = flag("zstd", config, "checksum", False)
        self._room = room(cells)
        self._declared = function("zstd", "ZSTD_getFrameContentSize", c_void_p, c_size_t, result=c_ulonglong)
        self._into = function("zstd", "ZSTD_decompressDCtx", c_void_p, *_BUFFERS, result=c_size_t)

    def encoded_size(self, size: int) -> int | None:
        """Unknown."""
        return None

    def encode(self, data: Buffer) -> Buffer:
        """One frame that declares its content size."""
        bound = function("zstd", "ZSTD_compressBound", c_size_t, result=c_size_t)(len(data))
        out = np.empty(bound, np.uint8)
        set_parameter = function("zstd", "ZSTD_CCtx_setParameter", c_void_p, c_int, c_int, result=c_size_t)
        own = _Context("CCtx") if self._level > _MODEST else None
        context = _contexts.get("CCtx") if own is None else own.pointer
        set_parameter(context, _LEVEL, self._level)
        set_parameter(context, _CHECKSUM, int(self._checksum))
        compress = function("zstd", "ZSTD_compress2", c_void_p, *_BUFFERS, result=c_size_t)
        written = compress(context, address(out.data), bound, address(data), len(data))
        if written > bound:
            raise MemoryError(f"zstd: {_reason(written)}")
        return out[:written].data

    def _decompress(self, out: int, room: int, data: int, size: int) -> int:
        got: int = self._into(_contexts.get("DCtx"), out, room, data, size)
        return got

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """The content of all frames; CorruptChunk when it is not ``size`` bytes."""
        if size is not None:
            self._check(data, self._declared(address(data), len(data)), size)
            out = np.empty(size, np.uint8).data
            self.decode_into(data, out)
            return out
        return self._decode_unknown(data, ceiling(None, self._room, len(data)))

    def decode_into(self, data: Buffer, out: memoryview) -> None:
        """Decode exactly ``len(out)`` bytes into ``out``."""
        source, stored, size = address(data), len(data), len(out)
        declared = self._declared(source, stored)
        if declared != size:
            self._check(data, declared, size)
        got = self._decompress(address(out), size, source, stored)
        if got != size:
            if got < size or got - 2**64 == _TOO_SMALL:
                wrong_size("zstd", size, got if got < size else f"more than {size} bytes")
            raise damaged("zstd", _reason(got), size)

    def _decode_unknown(self, data: Buffer, limit: int) -> Buffer:
        """At most ``limit`` bytes: what the frame declares, or as many as it takes."""
        declared = self._declared(address(data), len(data))
        self._check(data, declared, limit)
        capacity = min(limit, max(_START, 4 * len(data))) if declared == _UNKNOWN else declared
        while True:
            out = np.empty(capacity, np.uint8).data
            got = self._decompress(address(out), capacity, address(data), len(data))
            if got <= capacity:
                return out[:got]
            if got - 2**64 != _TOO_SMALL or capacity == limit:
                raise damaged("zstd", _reason(got))
            capacity = min(limit, 4 * max(capacity, _START))

    @staticmethod
    def _check(data: Buffer, declared: int, limit: int) -> None:
        """Refuse what is no frame, and a first frame that declares more than ``limit``; others may follow it."""
        if declared == _NO_FRAME:
            raise CorruptChunk("zstd: the chunk is damaged", expected="a frame", found=bytes(data[:8]))
        if declared != _UNKNOWN and declared > limit:
            wrong_size("zstd", limit, declared)


class _Context:
    """The library's work space, ``CCtx`` or ``DCtx``: as large as a small chunk, so it is not made anew for each."""

    def __init__(self, kind: str) -> None:
        self.pointer = function("zstd", f"ZSTD_create{kind}", result=c_void_p)()
        if not self.pointer:
            raise MemoryError("zstd: no memory for a context")
        self._free = function("zstd", f"ZSTD_free{kind}", c_void_p, result=c_size_t)

    def __del__(self) -> None:
        if getattr(self, "_free", None) is not None:
            self._free(self.pointer)


class _Contexts(threading.local):
    """Each thread's contexts; they go with the thread."""

    def __init__(self) -> None:
        self.made: dict[str, _Context] = {}

    def get(self, kind: str) -> int:
        if kind not in self.made:
            self.made[kind] = _Context(kind)
        pointer: int = self.made[kind].pointer
        return pointer


_contexts = _Contexts()


def _reason(result: int) -> str:
    name: bytes = function("zstd", "ZSTD_getErrorName", c_size_t, result=c_char_p)(result)
    return name.decode()
