"""The C library of Blosc2, which shuffles, and decodes chunks of Blosc, LZ4 and Zstandard where blosc2 is installed
(extra ``fast``).

blosc2's wheel publishes it, with its header, beside the Python package; the package itself is not imported. It decodes
into memory that is already there, by one call and with the GIL released, which takes a third of the time of numcodecs'
Python functions for small chunks. Without it those decode: :func:`load_library` gives None. Python writes chunks by
numcodecs in either case; the engine in C (``chunks.engine``) writes them by this library: the same bytes, but for
Zstandard, of which numcodecs may have another version.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from ctypes import (
    CDLL,
    Structure,
    addressof,
    c_byte,
    c_char,
    c_char_p,
    c_int,
    c_int16,
    c_int32,
    c_size_t,
    c_void_p,
    cast,
)
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hyperslab.chunks.engine import CodecLibrary, DecodingContexts
from hyperslab.codecs.base import Buffer

# C-Blosc2 of blosc2 4.14, the oldest version that the damaged chunks of the tests were tried with.
_OLDEST = (3, 3)
_NAMES = ("libblosc2.so", "libblosc2.dylib")
# The widest items, by its header, and the most bytes that its functions shuffle.
MOST_SHUFFLED, MOST_BYTES_SHUFFLED = 255, 2**31 - 1
# ``ZSTD_error_dstSize_tooSmall``, negated as functions return it (zstd_errors.h).
_ZSTD_TOO_SMALL = -70


# In the order of ``library`` in ``chunks/_engine.c``.
_FOR_ENGINE = (
    "blosc2_decompress_ctx",
    "blosc2_getitem_ctx",
    "ZSTD_decompressDCtx",
    "LZ4_decompress_safe",
    "blosc2_shuffle",
    "blosc2_bitshuffle",
    "LZ4_compress_fast",
    "LZ4_compress_HC",
    "ZSTD_compressCCtx",
    "ZSTD_createCCtx",
    "ZSTD_freeCCtx",
    "blosc2_unshuffle",
)
# zlib-ng's, whose names its header (zlib-ng.h) gives them: a library that was built over another zlib lacks them.
_INFLATE = ("zng_inflateInit2", "zng_inflateReset", "zng_inflate", "zng_inflateEnd")


class _DecompressionParameters(Structure):
    """``blosc2_dparams``, with room for what later versions add: zeros stand for their defaults."""

    _fields_ = (
        ("nthreads", c_int16),
        ("schunk", c_void_p),
        ("postfilter", c_void_p),
        ("postparams", c_void_p),
        ("typesize", c_int32),
        ("later", c_byte * 64),
    )


class LibBlosc2:
    """Functions that decode a chunk into ``out``, and return how many bytes they put there or a negative error code.

    A thread has one work space of each library, which is as large as a small chunk, so none is made for each chunk.
    """

    def __init__(self, library: CDLL) -> None:
        self.version = _version(library)
        list_compressors = library.blosc2_list_compressors
        list_compressors.restype = c_char_p
        self.compressors = frozenset(str(list_compressors(), "ascii").split(","))
        self._blosc = library.blosc2_decompress_ctx
        self._blosc.argtypes = (c_void_p, c_void_p, c_int32, c_void_p, c_int32)
        self._items = library.blosc2_getitem_ctx
        self._items.argtypes = (c_void_p, c_void_p, c_int32, c_int, c_int, c_void_p, c_int32)
        self._lz4 = library.LZ4_decompress_safe
        self._lz4.argtypes = (c_void_p, c_void_p, c_int, c_int)
        self._zstd = library.ZSTD_decompressDCtx
        self._zstd.argtypes = (c_void_p, c_void_p, c_size_t, c_void_p, c_size_t)
        self._zstd.restype = c_size_t
        self._zstd_error = library.ZSTD_getErrorName
        self._zstd_error.argtypes = (c_size_t,)
        self._zstd_error.restype = c_char_p
        self._shuffle = library.blosc2_shuffle
        self._unshuffle = library.blosc2_unshuffle
        self._shuffle.argtypes = self._unshuffle.argtypes = (c_int32, c_int32, c_void_p, c_void_p)
        self.contexts = _Contexts(library)
        inflate = _find_inflate(library)
        self.for_engine = CodecLibrary(
            (*_find_addresses(library, _FOR_ENGINE), *(inflate or (0,) * len(_INFLATE))),
            self.compressors,
            inflate is not None,
            self.contexts,
        )
        library.blosc2_init()

    # Addresses are found in place: a Python call costs as much as a tenth of decoding a chunk of 4 KiB.

    def decode_blosc(self, data: Buffer, out: memoryview) -> int:
        """Decode a whole chunk of Blosc 1, of one byte or more, whose header was found sound."""
        source: bytes | int
        try:
            source = data if isinstance(data, bytes) else addressof(c_char.from_buffer(data))
        except TypeError:  # read-only
            source = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
        target = addressof(c_char.from_buffer(out))
        return int(self._blosc(self.contexts.blosc, source, len(data), target, len(out)))

    def decode_blosc_items(self, data: Buffer, start: int, count: int, out: memoryview) -> int:
        """Decode ``count`` items of a chunk's own size from item ``start`` on: only the blocks that hold them."""
        source, target = _address(data), addressof(c_char.from_buffer(out))
        return int(self._items(self.contexts.blosc, source, len(data), start, count, target, len(out)))

    def decode_lz4(self, data: Buffer, start: int, out: memoryview) -> int:
        """Decode the raw LZ4 block that begins at byte ``start`` of ``data``."""
        target = addressof(c_char.from_buffer(out)) if len(out) else 0
        return int(self._lz4(_address(data) + start, target, len(data) - start, len(out)))

    def decode_zstd(self, data: Buffer, out: memoryview) -> int:
        """Decode all frames."""
        source = data if isinstance(data, bytes) else _address(data)
        target = addressof(c_char.from_buffer(out)) if len(out) else 0
        found = int(self._zstd(self.contexts.zstd, target, len(out), source, len(data)))
        return found if found <= len(out) else found - 2**64

    def shuffle(self, width: int, data: Buffer, out: memoryview) -> int:
        """Put the first bytes of all items of ``width`` bytes (up to ``MOST_SHUFFLED``) into ``out``, which is as long
        and not empty, then the second ones, and so on."""
        return int(self._shuffle(width, len(data), _address(data), addressof(c_char.from_buffer(out))))

    def unshuffle(self, width: int, data: Buffer, out: memoryview) -> int:
        """Undo :meth:`shuffle`."""
        source = data if isinstance(data, bytes) else _address(data)
        return int(self._unshuffle(width, len(data), source, addressof(c_char.from_buffer(out))))

    def is_out_of_room(self, code: int) -> bool:
        """Return True if :meth:`decode_zstd` failed because there is more content than ``out`` takes."""
        return code == _ZSTD_TOO_SMALL

    def zstd_error(self, code: int) -> str:
        """Return Zstandard's words for an error code."""
        return str(self._zstd_error(code + 2**64), "ascii")


# ``cache`` lets several threads call at once, and the library must not be initialised by two of them: the second one
# finds here what the first one made.
_load_lock = threading.Lock()


@cache
def load_library() -> LibBlosc2 | None:
    """Return the library of the blosc2 that is installed; None where there is none, or one that is too old."""
    with _load_lock:
        return _load_once()


@cache
def _load_once() -> LibBlosc2 | None:
    try:
        spec = find_spec("blosc2")
    except ValueError:  # a module that was put in its place
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in (Path(folder, "lib", name) for name in _NAMES):
            try:
                library = CDLL(str(path)) if path.exists() else None
                if library is not None and tuple(map(int, _version(library).split(".")[:2])) >= _OLDEST:
                    return LibBlosc2(library)
            except (OSError, AttributeError, ValueError):  # of another machine, or built without one of the functions
                continue
    return None


def _find_addresses(library: CDLL, names: Sequence[str]) -> Sequence[int]:
    return [cast(getattr(library, name), c_void_p).value or 0 for name in names]


def _find_inflate(library: CDLL) -> Sequence[int] | None:
    """Return where zlib-ng's functions lie; None where there is none, or one of another major version than 2."""
    try:
        version = library.zlibng_version
        version.restype = c_char_p
        return _find_addresses(library, _INFLATE) if version().startswith(b"2.") else None
    except AttributeError:
        return None


def _version(library: CDLL) -> str:
    function = library.blosc2_get_version_string
    function.restype = c_char_p
    return str(function(), "ascii")


class _Contexts(DecodingContexts):
    """The contexts of the calling thread, as addresses; they are freed when the thread ends."""

    def __init__(self, library: CDLL) -> None:
        make_zstd, make_blosc = library.ZSTD_createDCtx, library.blosc2_create_dctx
        make_blosc.argtypes = (_DecompressionParameters,)
        make_zstd.restype = make_blosc.restype = c_void_p
        self._zstd = _Context(make_zstd(), library.ZSTD_freeDCtx)
        self._blosc = _Context(make_blosc(_DecompressionParameters(nthreads=1)), library.blosc2_free_ctx)
        self.zstd = self._zstd.address
        self.blosc = self._blosc.address


class _Context:
    """A work space of a library, which is freed with this object.

    Not at the end of the process: that gives all memory back, and threads may still decode.
    """

    def __init__(self, address: int | None, free: Callable[[c_void_p], object]) -> None:
        if address is None:
            raise MemoryError("no memory to decode chunks in")
        self.address = address
        weakref.finalize(self, free, c_void_p(address)).atexit = False


def _address(data: Buffer) -> int:
    """Return where the bytes lie; valid while ``data`` lives."""
    if not isinstance(data, bytes):
        try:
            return addressof(c_char.from_buffer(data))  # an eighth of what asking NumPy takes
        except (TypeError, ValueError):  # read-only, or empty
            pass
    return int(np.frombuffer(data, np.uint8).__array_interface__["data"][0])
