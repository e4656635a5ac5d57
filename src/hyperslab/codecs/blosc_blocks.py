"""The walk over the blocks of a Blosc chunk by our own code, for what no build of Blosc on PyPI tells or decodes.

It holds for every compressor of Blosc 1 (c-blosc, README_CHUNK_FORMAT.rst): a block is one stream, or one for each byte
of an item where it was split; a stream is its length (int32) and that many bytes, which are plain when there are as
many as the stream decodes to.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError

import numpy as np

from hyperslab.codecs import snappy
from hyperslab.codecs.base import Buffer
from hyperslab.codecs.bounds import damaged
from hyperslab.errors import CorruptChunk

Decompress = Callable[[Buffer, int], Buffer]

_HEADER = Struct("<BBBBIII")
_LENGTH = Struct("<i")
_BYTES, _STORED, _BITS, _WHOLE = 0x01, 0x02, 0x04, 0x10
_SPLIT_SIZE, _SPLIT_ITEMS = 16, 128


def decode_chunk(data: Buffer, out: memoryview, decompress: Decompress = snappy.decompress) -> None:
    """Decode a Blosc chunk whose header was found sound into ``out``, block by block; CorruptChunk when damaged."""
    _, _, flags, typesize, nbytes, blocksize, stored = _HEADER.unpack_from(data)
    if flags & _STORED or not nbytes:
        out[:] = memoryview(data)[16 : 16 + nbytes]
        return
    if flags & 0x08 or flags & (_BYTES | _BITS) == _BYTES | _BITS:
        raise CorruptChunk("blosc: flags that Blosc 1 does not have", expected="bits 3 and 0 with 2 unset", found=flags)
    source = memoryview(data)[:stored]
    for number, start in enumerate(range(0, nbytes, blocksize)):
        size = min(blocksize, nbytes - start)
        streams = _streams(flags, typesize, blocksize) if size == blocksize else 1
        place = _LENGTH.unpack_from(data, 16 + 4 * number)[0]
        block = _block(source, place, size, streams, decompress)
        out[start : start + size] = _unshuffled(block, typesize, flags)


def used_bytes(data: Buffer) -> int:
    """How many of its bytes a Blosc chunk needs, whose header was found sound: behind them is room to grow."""
    _, _, flags, typesize, nbytes, blocksize, stored = _HEADER.unpack_from(data)
    if flags & _STORED or not nbytes:
        return int(stored)
    starts = np.frombuffer(data, "<i4", -(-nbytes // blocksize), _HEADER.size)
    last = int(np.argmax(starts))
    short = last == len(starts) - 1 and nbytes % blocksize
    place = int(starts[last])
    for _ in range(1 if short else _streams(flags, typesize, blocksize)):
        if not 0 <= place <= len(data) - _LENGTH.size:
            return int(stored)
        place += _LENGTH.size + _LENGTH.unpack_from(data, place)[0]
    return place if 0 <= place <= stored else int(stored)


def _streams(flags: int, typesize: int, blocksize: int) -> int:
    """Streams of a whole block: one for each byte of an item where it is split."""
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
    """The block with its bytes, or bits, back in their items; a rest of less than an item stays as it is."""
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
