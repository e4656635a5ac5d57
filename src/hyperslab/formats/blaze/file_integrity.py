"""Data files that are whole though they are not what the documents say: the documents are in question then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hyperslab.codecs.blosc import HEADER
from hyperslab.errors import HyperslabError
from hyperslab.formats.blaze.data_file import ChunkOffsets, open_part, read_index
from hyperslab.formats.blaze.superchunks import Superchunks
from hyperslab.formats.bloscpack.header import ENOUGH, parse

_LARGEST = 64 << 20
"""Bytes of a file, and of a chunk, beyond which nobody looks whether it is whole: a header that lies may say any."""


def is_whole(column: Superchunks, place: int) -> bool:
    """Return whether each chunk of a data file decodes to as many bytes as the file itself says, whatever the documents
    say."""
    key = column.keys.key(place)
    try:
        if not 0 < (column.keys.size(key) or 0) <= _LARGEST:
            return False
        data = column.keys.store.get(key)
        return data is not None and _decodes(column, memoryview(data))
    except HyperslabError:
        return False


def _decodes(column: Superchunks, data: memoryview) -> bool:
    header = parse(bytes(data[:ENOUGH]))
    size = header.chunk_size if header.chunk_size >= 0 else _first_size(data, header.size)
    if not 0 < size <= _LARGEST:
        return False
    index = read_index(data, len(data), replace(column.shape, chunk_bytes=size, most=max(header.nchunks, 1)))
    if not isinstance(index, ChunkOffsets):
        return False
    for number in range(index.count):
        start, stop = index.span(number)
        chunk, nbytes = open_part(data[start:stop], index, number)
        column.decode(chunk, np.empty(nbytes, np.uint8).data)
    return True


def _first_size(data: memoryview, at: int) -> int:
    """Return how many bytes the first chunk says that it holds, in a file that is one chunk behind its header."""
    return int(HEADER.unpack_from(data, at)[4]) if len(data) >= at + HEADER.size else 0
