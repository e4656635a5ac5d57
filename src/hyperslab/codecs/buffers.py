"""How large decoded bytes may be, and cells as the bytes that they take in memory.

Decoded bytes are exactly as many as the cells take, or at most :func:`ceiling` where that is not known beforehand.
A codec that gives as many bytes as it takes needs no bound.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from math import prod
from typing import Any, NoReturn

import numpy as np

from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.errors import CorruptChunk
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType

_MIB = 1 << 20
# Where the size of what is decoded is not known beforehand it is bounded, so that a few damaged bytes cannot take all
# memory: for cells of any length by so many bytes for each, and by so many times what is stored.
DECODED_BYTES_PER_CELL = 4096
DECODED_PER_STORED = 256

STREAMS_PER_CHUNK = 1000
"""Streams that one chunk may hold one after another: each costs a copy of what follows it."""


def room(cells: ChunkLayout) -> int:
    """Return the bytes that a stage of unknown size may take for these cells, whatever is stored.

    Fixed cells: twice their size (no encoder grows data more) and 1 MiB. Variable ones: 64 MiB and 4 KiB per cell.
    """
    known = cells.nbytes
    if known is not None:
        return 2 * known + _MIB
    return 64 * _MIB + DECODED_BYTES_PER_CELL * prod(cells.shape)


def most_stored(cells: ChunkLayout) -> int | None:
    """Return the most bytes that a chunk of these cells may be stored in, None for variable ones; more is not even
    read.

    No chain of codecs makes 16 times as much of a chunk.
    """
    known = cells.nbytes
    return None if known is None else 16 * (known + _MIB)


def ceiling(size: int | None, room: int, stored: int) -> int:
    """Return the most bytes to decode: ``size`` where it is known, else ``room`` and 256 times what is stored."""
    return size if size is not None else room + DECODED_PER_STORED * stored


def check_size(codec: str, data: Buffer, size: int | None) -> None:
    """Refuse decoded bytes of another size than expected."""
    if size is not None and len(data) != size:
        wrong_size(codec, size, len(data))


def wrong_size(codec: str, expected: int, found: object) -> NoReturn:
    """Raise CorruptChunk for a chunk that decodes to more or fewer bytes than its cells take."""
    raise CorruptChunk(f"{codec}: the chunk has a wrong size", expected=f"{expected} bytes", found=found)


def damaged(codec: str, reason: object, size: int | None = None) -> CorruptChunk:
    """Return the error for a stream that its library refuses."""
    expected = f"a sound {codec} stream" if size is None else f"a sound {codec} stream of {size} bytes"
    return CorruptChunk(f"{codec}: the chunk is damaged", expected=expected, found=str(reason) or "a broken stream")


# numcodecs and its modules import each other: two threads that begin with two of them find one half made, a KeyError.
_import_lock = threading.Lock()


@cache
def numcodecs_module(name: str) -> Any:
    """Return a module of numcodecs on its first use: numcodecs takes a tenth of a second to import."""
    with _import_lock:
        return import_module(f"numcodecs.{name}")


# The largest block that glibc takes from its heap rather than map it anew, at most (mallopt(3), M_MMAP_THRESHOLD).
_LARGEST_ON_HEAP = 32 << 20
_on_heap = 0  # without a lock: of two threads at once the smaller size may stay, and the larger is freed once more


def reuse_freed_memory(size: int) -> None:
    """Have blocks of ``size`` bytes taken from memory that was freed before, as far as the system's library can.

    numcodecs makes its result in new memory of the chunk's size. glibc maps such a block anew each time and gives it
    back when it is freed, unless a larger one was freed before: that costs a page fault for each 4 KiB, half of the
    time of writing chunks of 4 MiB by Blosc.
    """
    global _on_heap
    if size > _on_heap:
        _on_heap = size
        bytes(max(0, min(2 * size, _LARGEST_ON_HEAP - (64 << 10))))  # mapped, never touched, and freed at once


# -- cells as bytes: flat views, byte order ----------------------------------------------------------------------------


_ORDERED = "iufcmMU"


def flat_bytes(array: Values) -> memoryview:
    """Return the bytes of a C-contiguous array, as a view."""
    if array.itemsize == 0:
        return memoryview(bytearray())
    return array.reshape(-1).view(np.uint8).data


def contiguous(array: Values) -> Values:
    """Return the same cells in C order, copied only when they are not; 0-d stays 0-d."""
    return array if array.flags.c_contiguous else array.copy(order="C")


def fill_cell_bytes(cell: Values) -> bytes | None:
    """Return the bytes of one fill cell (0-d); None for cells that are no plain bytes."""
    if cell.dtype.hasobject or cell.dtype.kind == "T" or not cell.dtype.itemsize:
        return None
    return cell.tobytes()


def is_filled_with(block: Values, cell: bytes | None) -> bool:
    """Return True where every cell of a contiguous ``block`` has the bytes ``cell`` (so that -0.0 is not 0.0, and NaN
    is NaN)."""
    if cell is None or not block.size:
        return False
    # the first and the last cell tell nearly always, before all bytes are compared
    raw = block.reshape(-1).view(np.uint8)
    if raw[: len(cell)].tobytes() != cell or raw[-len(cell) :].tobytes() != cell:
        return False
    return bool((raw.reshape(-1, len(cell)) == np.frombuffer(cell, np.uint8)).all())


def from_bytes(data: Buffer, dtype: NumpyDType, shape: tuple[int, ...]) -> Values:
    """Return the bytes as cells, without a copy (read-only where the bytes are); their number must fit."""
    if len(data) == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(data, np.uint8).view(dtype).reshape(shape)


def misordered(dtype: NumpyDType, endian: str) -> list[tuple[int, int]]:
    """Return (offset, width) of each number of a cell whose bytes must be reversed to be in ``little`` or ``big``
    order."""
    big = endian == "big"
    return [(offset, width) for offset, width, is_big in _numbers(dtype, 0) if is_big != big]


def reverse(array: Values, places: list[tuple[int, int]]) -> None:
    """Reverse the bytes of the numbers at these places of each cell, in place; ``array`` is C-contiguous."""
    if not places or array.size == 0:
        return
    width = places[0][1]
    if width in (2, 4, 8) and len(places) * width == array.itemsize and {size for _, size in places} == {width}:
        array.reshape(-1).view(f"u{width}").byteswap(inplace=True)
        return
    cells = array.reshape(-1).view(np.uint8).reshape(array.size, array.itemsize)
    for offset, width in places:
        cells[:, offset : offset + width] = cells[:, offset : offset + width][:, ::-1].copy()


def _numbers(dtype: NumpyDType, offset: int) -> Iterator[tuple[int, int, bool]]:
    """Yield (offset, width, big-endian) of each number in one cell of ``dtype`` that has a byte order."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        for index in range(int(np.prod(shape))):
            yield from _numbers(base, offset + index * base.itemsize)
    elif dtype.fields is not None and dtype.names is not None:
        for name in dtype.names:
            field = dtype.fields[name]
            yield from _numbers(field[0], offset + field[1])
    elif dtype.kind in _ORDERED or (dtype.kind == "V" and dtype.type is not np.void):
        width = {"c": dtype.itemsize // 2, "U": 4}.get(dtype.kind, dtype.itemsize)
        for start in range(0, dtype.itemsize if width > 1 else 0, width):
            yield offset + start, width, is_big(dtype)


def is_big(dtype: NumpyDType) -> bool:
    """Return True if the numbers of a dtype without fields are big-endian."""
    return dtype.byteorder == ">" or (dtype.byteorder == "=" and not np.little_endian)
