"""``blosc``: the Blosc-1 container, a 16-byte header, offsets of blocks, and blocks shuffled and compressed.

Layout of the header (c-blosc, README_CHUNK_FORMAT): version, codec version, flags, item size (a byte each), then
decoded size, block size and stored size (uint32, little-endian). Decoding obeys the header, not the configuration.
All of it is checked before a library sees the chunk: that of Blosc2 (:mod:`~hyperslab.codecs.libblosc2`) or, without
it, numcodecs. What no build of Blosc on PyPI decodes (Snappy) is decoded by the functions at the beginning.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from struct import Struct
from struct import error as StructError
from typing import Any, NoReturn

import numpy as np

from hyperslab.chunks.engine import EngineEncoder
from hyperslab.codecs import libblosc2
from hyperslab.codecs.base import Buffer, BytesToBytes, ChunkLayout
from hyperslab.codecs.buffers import ceiling, damaged, numcodecs_module, reuse_freed_memory, room, wrong_size
from hyperslab.codecs.config import Config, choice, integer, only
from hyperslab.errors import CorruptChunk, Invalid, Unsupported
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.spec import Codec

# -- raw Snappy, as it is in Blosc chunks: google/snappy, format_description.txt, without frames -----------------------


def decompress_snappy(data: Buffer, size: int) -> bytes:
    """Decode raw Snappy of exactly ``size`` bytes; CorruptChunk otherwise. No more than those are ever held."""
    try:
        length, place = _varint(data)
        if length != size:
            raise damaged("snappy", f"{length} bytes", size)
        out = bytearray()
        end = len(data)
        while place < end:
            place = _element(data, place, out)
            if len(out) > size:
                raise damaged("snappy", "more bytes than it says", size)
    except IndexError:
        raise damaged("snappy", "an end within an element", size) from None
    if len(out) != size:
        raise damaged("snappy", f"{len(out)} bytes", size)
    return bytes(out)


def _varint(data: Buffer) -> tuple[int, int]:
    value = shift = 0
    for place in range(5):
        byte = data[place]
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place + 1
    raise damaged("snappy", "a length of more than five bytes")


def _element(data: Buffer, place: int, out: bytearray) -> int:
    """Add one literal or copy; where the next element begins."""
    tag = data[place]
    kind = tag & 3
    place += 1
    if kind == 0:
        length = (tag >> 2) + 1
        if length > 60:
            extra = length - 60
            length = int.from_bytes(data[place : place + extra], "little") + 1
            place += extra
        if place + length > len(data):
            raise damaged("snappy", "a literal that reaches past the end")
        out += data[place : place + length]
        return place + length
    if kind == 1:
        length, offset, width = 4 + (tag >> 2 & 7), (tag >> 5) << 8 | data[place], 1
    else:
        width = 2 if kind == 2 else 4
        length, offset = 1 + (tag >> 2), int.from_bytes(data[place : place + width], "little")
    start = len(out) - offset
    if offset == 0 or start < 0 or place + width > len(data):
        raise damaged("snappy", f"a copy from {offset} bytes before, of {len(out)}")
    while length > 0:  # a copy may overlap what it makes
        part = out[start : start + length]
        out += part
        length -= len(part)
    return place + width


# -- the walk over the blocks of a chunk by our own code, for what no build of Blosc on PyPI tells or decodes ----------
#
# It holds for every compressor of Blosc 1 (c-blosc, README_CHUNK_FORMAT.rst): a block is one stream, or one for each
# byte of an item where it was split; a stream is its length (int32) and that many bytes, which are plain when there
# are as many as the stream decodes to.


Decompress = Callable[[Buffer, int], Buffer]

HEADER = Struct("<BBBBIII")
_LENGTH = Struct("<i")
_BYTES, _STORED, _BITS, _RESERVED, _WHOLE = 0x01, 0x02, 0x04, 0x08, 0x10
# Both shuffles: how Blosc2 marks its own headers, which are longer and can tell it to do much else.
_BOTH = _BYTES | _BITS
_SPLIT_SIZE, _SPLIT_ITEMS = 16, 128


def decode_chunk(data: Buffer, out: memoryview, decompress: Decompress = decompress_snappy) -> None:
    """Decode a Blosc chunk whose header was found sound into ``out``, block by block; CorruptChunk when damaged."""
    _, _, flags, typesize, nbytes, blocksize, stored = HEADER.unpack_from(data)
    if flags & _STORED or not nbytes:
        out[:] = memoryview(data)[16 : 16 + nbytes]
        return
    source = memoryview(data)[:stored]
    for number, start in enumerate(range(0, nbytes, blocksize)):
        size = min(blocksize, nbytes - start)
        streams = _streams(flags, typesize, blocksize) if size == blocksize else 1
        place = _LENGTH.unpack_from(data, 16 + 4 * number)[0]
        block = _block(source, place, size, streams, decompress)
        out[start : start + size] = _unshuffled(block, typesize, flags)


def used_bytes(data: Buffer) -> int:
    """Return how many of its bytes a Blosc chunk needs, whose header was found sound: behind them is room to grow."""
    _, _, flags, typesize, nbytes, blocksize, stored = HEADER.unpack_from(data)
    if flags & _STORED or not nbytes:
        return int(stored)
    starts = np.frombuffer(data, "<i4", -(-nbytes // blocksize), HEADER.size)
    last = int(np.argmax(starts))
    short = last == len(starts) - 1 and nbytes % blocksize
    place = int(starts[last])
    for _ in range(1 if short else _streams(flags, typesize, blocksize)):
        if not 0 <= place <= len(data) - _LENGTH.size:
            return int(stored)
        place += _LENGTH.size + _LENGTH.unpack_from(data, place)[0]
    return place if 0 <= place <= stored else int(stored)


def _streams(flags: int, typesize: int, blocksize: int) -> int:
    """Return how many streams a whole block has: one for each byte of an item where it is split."""
    split = not flags & _WHOLE and typesize <= _SPLIT_SIZE and blocksize // typesize >= _SPLIT_ITEMS
    return int(typesize) if split else 1


def _block(source: memoryview, place: int, size: int, streams: int, decompress: Decompress) -> bytes:
    each = size // streams
    parts = []
    for _ in range(streams):
        try:
            length = _LENGTH.unpack_from(source, place)[0]
        except StructError:
            raise damaged("blosc", f"a stream at {place}, of {len(source)} bytes") from None
        place += _LENGTH.size
        if not 0 <= length <= len(source) - place:
            raise damaged("blosc", f"a stream of {length} bytes at {place}, of {len(source)} bytes")
        part = source[place : place + length]
        parts.append(part if length == each else decompress(part, each))
        place += length
    block = b"".join(parts)
    if len(block) != size:
        raise damaged("blosc", f"a block of {len(block)} bytes", size)
    return block


def _unshuffled(block: bytes, typesize: int, flags: int) -> bytes:
    """Return the block with its bytes, or bits, back in their items; a rest of less than an item stays as it is."""
    items = len(block) // typesize
    whole = items * typesize
    if flags & _BYTES and typesize > 1:
        planes = np.frombuffer(block, np.uint8, whole).reshape(typesize, items)
        return planes.T.tobytes() + block[whole:]
    if flags & _BITS and items and items % 8 == 0:
        rows = np.frombuffer(block, np.uint8, whole).reshape(8 * typesize, items // 8)
        bits = np.unpackbits(rows, axis=1, bitorder="little")
        return np.packbits(bits.T, axis=1, bitorder="little").tobytes() + block[whole:]
    return block


FORMATS = ("blosclz", "lz4", "snappy", "zlib", "zstd")
CNAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
MAX_BYTES = 2**31 - 1 - 16
_VERSION = 2
_SNAPPY = FORMATS.index("snappy")


# Bytes of a block where none is asked for: it stays in a core's own cache while it is shuffled and compressed.
_BLOCK = 128 << 10


# The levels that C-Blosc gives its compressors, by its own level (its page "Compression levels"). Not of zlib, of which
# numcodecs has another version, with other bytes, nor of BloscLZ, which the library does not export.
_ENGINE_LEVELS: dict[str, Callable[[int], int]] = {
    "lz4": lambda clevel: 10 - clevel,
    "lz4hc": lambda clevel: -max(clevel, 1),
    "zstd": lambda clevel: 2 * clevel - 1 if clevel < 9 else 22,
}


class Blosc(BytesToBytes):
    """Blosc-1 with one of its compressors and a shuffle of bytes or bits."""

    can_decode_into = True
    engine_name = "blosc"

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("blosc", config, "cname", "clevel", "shuffle", "typesize", "blocksize")
        self._cname = choice("blosc", config, "cname", "lz4", CNAMES)
        self._word = self._cname.encode()
        self._clevel = integer("blosc", config, "clevel", 5, 0, 9)
        itemsize = cells.numpy_dtype.itemsize if cells.nbytes is not None else 1
        self._typesize = integer("blosc", config, "typesize", max(itemsize, 1), 1, 2**31 - 1)
        self._blocksize = integer("blosc", config, "blocksize", 0, 0, 2**31 - 1)
        if not self._blocksize and self._cname in ("lz4", "blosclz"):
            # The quick compressors take each of up to 16 bytes of an item as a stream of its own, and the size asked
            # for is that of one stream. The library's choice, up to 1 MiB, takes twice the time to write for 0.3 % less
            # to store. It is kept for slow compressors.
            self._blocksize = _BLOCK // (self._typesize if self._typesize <= 16 else 1)
        shuffle = config.get("shuffle", 1)
        shuffle = SHUFFLES.get(shuffle, shuffle) if isinstance(shuffle, str) else shuffle
        shuffle = integer("blosc", {"shuffle": shuffle}, "shuffle", 1, -1, 2)
        self.most_uncached = {"lz4": 16 << 10, "zstd": 1 << 10}.get(self._cname, 0)
        self._shuffle = shuffle if shuffle >= 0 else (2 if self._typesize == 1 else 1)
        self._item = np.dtype((np.void, self._typesize))
        self._room = room(cells)

    def encode(self, data: Buffer) -> Buffer:
        """Return one Blosc chunk; Invalid beyond 2 GiB or where the library lacks the compressor."""
        size = len(data)
        if size > MAX_BYTES:
            raise Invalid(
                f"blosc: a chunk of {size} bytes", remedy="smaller chunks (less than 2 GiB), or another codec"
            )
        numcodecs_blosc = numcodecs_module("blosc")
        if self._cname not in numcodecs_blosc.list_compressors():
            raise Unsupported(f"blosc: this build of numcodecs cannot write {self._cname}", remedy="lz4 or zstd")
        reuse_freed_memory(size)
        shape = (self._word, self._clevel, self._shuffle, self._blocksize)
        compress = numcodecs_blosc.compress
        try:
            if size % self._typesize == 0:
                cells = np.frombuffer(data, self._item) if size else np.empty(0, self._item)
                return _run_single_threaded(compress, cells, *shape)
            try:
                return _run_single_threaded(partial(compress, typesize=self._typesize), data, *shape)
            except TypeError:  # numcodecs before 0.16 knows items by the cells alone: it compresses these bytes less
                return _run_single_threaded(compress, data, *shape)
        except (RuntimeError, ValueError) as error:
            raise Invalid(f"blosc: {error}", remedy="another blocksize or typesize") from error

    def engine_encoder(self, size: int) -> EngineEncoder | None:
        """Return the level of LZ4 or Zstandard and the header that numcodecs gives a chunk of this size."""
        if self._cname not in _ENGINE_LEVELS or not 0 < size <= MAX_BYTES or size % self._typesize:
            return None
        # Block size and flags are C-Blosc's choice, by the size alone; zeros are compressed at once.
        return EngineEncoder(_ENGINE_LEVELS[self._cname](self._clevel), bytes(self.encode(bytes(size))[:16]))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the bytes of a chunk; CorruptChunk when its header does not fit."""
        found = check_header(data, size, ceiling(size, self._room, len(data)))
        out = np.empty(found, np.uint8).data
        self.decode_into(data, out)
        return out

    @staticmethod
    def decode_into(data: Buffer, out: memoryview) -> None:
        """Decode exactly ``len(out)`` bytes into ``out``; of whichever compressor."""
        size = len(out)
        check_header(data, size, size)
        if data[2] >> 5 == _SNAPPY:
            decode_chunk(data, out)
        elif size:
            library = libblosc2.load_library()
            # Old Blosc does not flag a block of few or large items, which is one stream; Blosc2 goes by the flag alone.
            items = 0 if data[2] & (_WHOLE | _STORED) else data[3]
            blocksize = int.from_bytes(data[8:12], "little")
            unfit = items > _SPLIT_SIZE or blocksize < _SPLIT_ITEMS * items
            unfit = unfit or (data[2] & _BITS != 0 and _has_lost_rest(data, size))
            if library is None or unfit:
                try:
                    _run_single_threaded(numcodecs_module("blosc").decompress, data, out)
                except (RuntimeError, ValueError) as error:
                    raise damaged("blosc", error, len(out)) from error
            elif (found := library.decode_blosc(data, out)) != size:
                raise damaged("blosc", f"error {found} of the Blosc library", size)


def decode_part(data: Buffer, start: int, out: memoryview, size: int) -> None:
    """Put the bytes from ``start`` on of a chunk that decodes to ``size`` into ``out``, until that is full.

    Where Blosc2's library can, only the blocks that hold them are decoded. Invalid when they do not lie within the
    chunk, CorruptChunk when it is damaged.
    """
    stop = start + len(out)
    if not 0 <= start <= stop <= size:
        raise Invalid(f"bytes {start} to {stop} of a chunk of {size}")
    check_header(data, size, size)
    typesize, blocksize = data[3], int.from_bytes(data[8:12], "little")
    first, last = start // typesize, -(-stop // typesize)
    blocks = -(-stop // blocksize) - start // blocksize if stop > start else 0
    unfit = last * typesize > size  # the rest behind the last whole item
    unfit = unfit or (not data[2] & _WHOLE and _streams(data[2], typesize, blocksize) == 1)
    unfit = unfit or (data[2] & _BITS != 0 and _has_lost_rest(data, size))
    library = libblosc2.load_library()
    if library is None or unfit or 2 * blocks * blocksize > size or data[2] >> 5 == _SNAPPY:
        whole = np.empty(size, np.uint8).data
        Blosc.decode_into(data, whole)
        out[:] = whole[start:stop]
        return
    exact = first * typesize == start and last * typesize == stop
    target = out if exact else np.empty((last - first) * typesize, np.uint8).data
    if len(target):
        found = library.decode_blosc_items(data, first, last - first, target)
        if found != len(target):
            raise damaged("blosc", f"error {found} of the Blosc library", len(target))
    if not exact:
        out[:] = target[start - first * typesize :][: len(out)]


def _has_lost_rest(data: Buffer, size: int) -> bool:
    """Return True for a chunk of shuffled bits where Blosc2's library would leave bytes unwritten: the rest behind the
    last whole item of a block of a multiple of eight items, or of none."""
    typesize, blocksize = data[3], int.from_bytes(data[8:12], "little")
    return any(length // typesize % 8 == 0 and length % typesize for length in (blocksize, size % blocksize))


# -- numcodecs: writes every chunk, and decodes where the library of Blosc2 is missing -------------------------------


def _run_single_threaded(function: Callable[..., Buffer], *arguments: object) -> Buffer:
    """Call a function of numcodecs in this thread alone.

    In the main thread numcodecs would start threads of Blosc, which put the blocks of a chunk down in the order in
    which they are done: the same cells would be stored as other bytes each time. The setting is the module's, and the
    main thread alone changes it: the others, which may look meanwhile, are single-threaded either way.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    module = numcodecs_module("blosc")
    before = module.use_threads
    module.use_threads = False
    try:
        return function(*arguments)
    finally:
        module.use_threads = before


def check_header(data: Buffer, size: int | None, limit: int) -> int:
    """Return the decoded size of a Blosc chunk whose header and block offsets are sound; CorruptChunk otherwise."""
    stored = len(data)
    if stored < 16:
        raise CorruptChunk("blosc: the chunk is shorter than its header", expected="16 bytes or more", found=stored)
    version, _, flags, typesize, nbytes, blocksize, cbytes = HEADER.unpack_from(data)
    if (size is not None and nbytes != size) or nbytes > limit:
        wrong_size("blosc", limit if size is None else size, nbytes)
    if cbytes != stored:
        raise CorruptChunk("blosc: the chunk is cut short or too long", expected=f"{cbytes} bytes", found=stored)
    sound = version == _VERSION and typesize and not flags & _RESERVED and flags & _BOTH != _BOTH
    if not sound or (nbytes and not 0 < blocksize <= nbytes) or nbytes > MAX_BYTES:
        found = f"version {version}, flags {flags}, typesize {typesize}, blocksize {blocksize}, {nbytes} bytes"
        raise CorruptChunk("blosc: the header makes no sense", expected=f"version {_VERSION}", found=found)
    if flags & _STORED:
        if cbytes != nbytes + 16:
            raise CorruptChunk("blosc: a stored chunk has a wrong size", expected=nbytes + 16, found=cbytes)
    elif nbytes:
        blocks = -(-nbytes // blocksize)
        first, last = 16 + 4 * blocks, stored - 4
        if flags >> 5 not in _readable_formats(libblosc2.load_library()) or first > last:
            _refuse(flags >> 5, first, stored)
        offsets = _OFFSETS[blocks].unpack_from(data, 16) if blocks <= _FEW else _extremes(data, blocks)
        if min(offsets) < first or max(offsets) > last:
            extremes = f"{min(offsets)} to {max(offsets)}"
            raise CorruptChunk("blosc: a block lies outside the chunk", expected=f"{first} to {last}", found=extremes)
    return int(nbytes)


def _extremes(data: Buffer, blocks: int) -> tuple[int, int]:
    """Return the lowest and the highest of many offsets."""
    offsets = np.frombuffer(data, "<u4", blocks, 16)
    return int(offsets.min()), int(offsets.max())


_FEW = 32
# Up to ``_FEW`` offsets are unpacked faster than NumPy is called.
_OFFSETS = [Struct(f"<{blocks}I") for blocks in range(_FEW + 1)]


def _refuse(code: int, first: int, stored: int) -> NoReturn:
    if code >= len(FORMATS):
        raise CorruptChunk("blosc: unknown compressor", expected=", ".join(FORMATS), found=f"number {code}")
    if code not in _readable_formats(libblosc2.load_library()):
        raise Unsupported(f"blosc: no decoder for {FORMATS[code]}", remedy="pip install 'hyperslab[fast]'")
    raise CorruptChunk("blosc: no room for the offsets of the blocks", expected=f"{first + 4} bytes", found=stored)


@cache
def _readable_formats(library: libblosc2.LibBlosc2 | None) -> frozenset[int]:
    """Return the numbers in headers of the compressors that can be decoded; Snappy is by our own code."""
    names = numcodecs_module("blosc").list_compressors() if library is None else library.compressors
    return frozenset(code for code, name in enumerate(FORMATS) if name in names or code == _SNAPPY)


# -- chunks that move as they are -------------------------------------------------------------------------------------


def container(dtype: NumpyDType, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]] | None:
    """Return what lies in chunks of plain cells in C order, to be compared; None for cells that are no plain bytes."""
    if dtype.hasobject or dtype.kind == "T" or not dtype.itemsize:
        return None
    return str(np.lib.format.dtype_to_descr(dtype)), shape


def config_of(codecs: Sequence[Codec]) -> dict[str, Any] | None:
    """Return the configuration of a chain that is Blosc, in shards or not, with its shuffle by name; else None.

    A checksum behind it is another matter: each format that moves stored chunks verifies and adds its own.
    """
    if [codec.name for codec in codecs] == ["sharding_indexed"]:
        codecs = [codec for codec in codecs[0].config["codecs"] if isinstance(codec, Codec)]
    steps = [codec for codec in codecs if codec.name not in ("bytes", "crc32c")]
    if [codec.name for codec in steps] != ["blosc"]:
        return None
    config = {key: value for key, value in steps[0].config.items() if value is not None}
    shuffle = config.pop("shuffle", -1)
    names = [name for name, number in SHUFFLES.items() if shuffle in (name, number)]
    return config | ({"shuffle": names[0]} if names else {})


def may_move(data: Buffer, size: int) -> bool:
    """Return True if every reader of Blosc finds ``size`` decoded bytes in a chunk. Nothing is decoded but its
    header.
    """
    try:
        check_header(data, size, size)
    except (CorruptChunk, Unsupported):
        return False
    return data[2] >> 5 != _SNAPPY or bool(data[2] & _STORED)


def same_settings(config: Config, other: Config) -> bool:
    """Return True if two configurations name the same compressor, level and shuffle, as far as both name any."""
    return all(config[key] == other[key] for key in ("cname", "clevel", "shuffle") if key in config and key in other)
