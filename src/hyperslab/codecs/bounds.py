"""How large decoded bytes may be: exactly as large as the cells, or at most :func:`ceiling` where that is not known."""

from __future__ import annotations

from math import prod
from typing import NoReturn

from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.errors import CorruptChunk

_MIB = 1 << 20
_PER_CELL = 4096
_RATIO = 256

MEMBERS = 1000
"""Streams that one chunk may hold one after another: each costs a copy of what follows it."""


def room(cells: ChunkLayout) -> int:
    """Bytes that a stage of unknown size may take for these cells, whatever is stored.

    Fixed cells: twice their size (no encoder grows data more) and 1 MiB. Variable ones: 64 MiB and 4 KiB per cell.
    """
    known = cells.nbytes
    if known is not None:
        return 2 * known + _MIB
    return 64 * _MIB + _PER_CELL * prod(cells.shape)


def most_stored(cells: ChunkLayout) -> int | None:
    """The most bytes that a chunk of these cells may be stored in, None for variable ones; more is not even read.

    No chain of codecs makes 16 times as much of a chunk.
    """
    known = cells.nbytes
    return None if known is None else 16 * (known + _MIB)


def ceiling(size: int | None, room: int, stored: int) -> int:
    """The most bytes to decode: ``size`` where it is known, else ``room`` and 256 times what is stored."""
    return size if size is not None else room + _RATIO * stored


def check_size(codec: str, data: Buffer, size: int | None) -> None:
    """Refuse decoded bytes of another size than expected."""
    if size is not None and len(data) != size:
        wrong_size(codec, size, len(data))


def wrong_size(codec: str, expected: int, found: object) -> NoReturn:
    """The chunk decodes to more or fewer bytes than its cells take."""
    raise CorruptChunk(f"{codec}: the chunk has a wrong size", expected=f"{expected} bytes", found=found)


def damaged(codec: str, reason: object, size: int | None = None) -> CorruptChunk:
    """The error for a stream that its library refuses."""
    expected = f"a sound {codec} stream" if size is None else f"a sound {codec} stream of {size} bytes"
    return CorruptChunk(f"{codec}: the chunk is damaged", expected=expected, found=str(reason) or "a broken stream")
