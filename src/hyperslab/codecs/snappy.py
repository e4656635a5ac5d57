"""Blosc chunks of Snappy, which no build of Blosc on PyPI decodes: raw Snappy, and the walk over a chunk's blocks.

The walk holds for every compressor of Blosc 1 (c-blosc, README_CHUNK_FORMAT.rst): a block is one stream, or one for
each byte of an item where it was split; a stream is its length (int32) and that many bytes, which are plain when there
are as many as the stream decodes to. Raw Snappy: google/snappy, format_description.txt, without frames.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as StructError

import numpy as np

from hyperslab.codecs.base import Buffer
from hyperslab.codecs.bounds import damaged
from hyperslab.errors import CorruptChunk

Decompress = Callable[[Buffer, int], Buffer]

_HEADER = Struct("<BBBBIII")
_LENGTH = Struct("<i")
_BYTES, _STORED, _BITS, _WHOLE = 0x01, 0x02, 0x04, 0x10
_SPLIT_SIZE, _SPLIT_ITEMS = 16, 128


def decompress(data: Buffer, size: int) -> bytes:
    """Raw Snappy of exactly ``size`` bytes; CorruptChunk otherwise. No more than those are ever held."""
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


def decode_chunk(data: Buffer, out: memoryview, decompress: Decompress = decompress) -> None:
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
