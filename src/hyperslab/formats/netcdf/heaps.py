"""The global heaps of an HDF5 file, where the HDF5 library goes round for ever: found before it is given the file.

A heap is a list of objects, each of which says how long it is. A free one of length 0, which a block of zeros makes, is
its own successor. (HDF5 File Format Specification, III.E.)
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator

from hyperslab.formats.format_errors import document_error

_MARK = b"GCOL\x01\0\0\0"
_HEAD = struct.Struct("<HHIQ")
_LONGEST = 32 << 20  # bytes of a file that are looked through: some 10 ms, no more than opening it takes


def check_heaps(descriptor: int, url: str) -> None:
    """Raise FormatError for a heap that has no end; files of more than 32 MiB are not looked through."""
    if not 0 < os.fstat(descriptor).st_size <= _LONGEST:
        return
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        for start, _ in _spans(data):
            _raise_if_endless(data, start, start, url)


def check_heap(data: bytes, url: str) -> None:
    """Raise FormatError when a heap begins here that has no end."""
    if data.startswith(_MARK):
        _raise_if_endless(data, 0, None, url)


def heap_spans(descriptor: int) -> list[tuple[int, int]]:
    """Return where the heaps lie that :func:`check_heaps` looks at."""
    if not 0 < os.fstat(descriptor).st_size <= _LONGEST:
        return []
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        return list(_spans(data))


def _spans(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    start = data.find(_MARK)
    while start >= 0:
        length = int.from_bytes(data[start + 8 : start + 16], "little")
        yield start, min(start + max(length, 16), len(data))
        start = data.find(_MARK, start + len(_MARK))


def _raise_if_endless(data: mmap.mmap | bytes, start: int, place: int | None, url: str) -> None:
    if _is_endless(data, start):
        where = "a global heap" if place is None else f"the global heap at byte {place}"
        message = f"{where} has an object of no length, which the library reads for ever"
        raise document_error("hdf5-heap", message, url=url, remedy="restore the file from a copy")


def _is_endless(data: mmap.mmap | bytes, start: int) -> bool:
    length = int.from_bytes(data[start + 8 : start + 16], "little")
    place, end = start + 16, min(start + length, len(data))
    while place + _HEAD.size <= end:
        index, _, _, size = _HEAD.unpack_from(data, place)
        step = size if index == 0 else _HEAD.size + size + -size % 8
        if not step:
            return True
        place += step
    return False
