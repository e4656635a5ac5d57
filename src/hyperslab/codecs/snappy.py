"""Raw Snappy, as it is in Blosc chunks: google/snappy, format_description.txt, without frames."""

from __future__ import annotations

from hyperslab.codecs.base import Buffer
from hyperslab.codecs.bounds import damaged


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
