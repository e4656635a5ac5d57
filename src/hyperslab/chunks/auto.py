"""Chunk and shard sizes where nobody chose any: 1 to 4 MiB of cells a chunk, up to 32 MiB a shard. Integers only."""

from __future__ import annotations

from math import prod

from hyperslab.chunks.settings import MEBIBYTE
from hyperslab.model.spec import Chunks

CHUNK_BYTES = 4 * MEBIBYTE
SHARD_BYTES = 32 * MEBIBYTE
_GROWTH = 1024


def auto_chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return a chunk length per axis: the whole array when it is at most 4 MiB, else equal cuts of 1 to 4 MiB.

    The longest axis is cut in ever more pieces, so chunks stay close to cubes and the last one of an axis is hardly
    smaller than the others. An axis of length 0 will grow: it gets up to 1024 cells, as far as 1 MiB allows.
    ``itemsize`` is in bytes.
    """
    item = max(itemsize, 1)
    rest = item * prod(length for length in shape if length)
    lengths = [length or max(1, min(_GROWTH, MEBIBYTE // rest)) for length in shape]
    pieces = [1] * len(lengths)

    def size(axis: int) -> int:
        return -(-lengths[axis] // pieces[axis])

    while lengths and item * prod(map(size, range(len(lengths)))) > CHUNK_BYTES:
        longest = max(range(len(lengths)), key=size)
        if size(longest) == 1:
            break
        pieces[longest] *= 2
    return tuple(map(size, range(len(lengths))))


def whole_chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chunk lengths of an array that is one chunk."""
    return tuple([max(1, length) for length in shape])


def longest_chunk(chunks: Chunks) -> tuple[int, ...]:
    """Return the length of the longest chunk along each axis."""
    return tuple([cut if isinstance(cut, int) else max(cut, default=1) for cut in chunks])


def auto_shards(shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return a shard length per axis: a whole number of ``chunks``, doubled where most chunks lie, up to 32 MiB of
    cells."""
    shard = list(chunks)

    def left(axis: int) -> int:
        return -(-shape[axis] // shard[axis])

    while shard:
        axis = max(range(len(shard)), key=left)
        if left(axis) <= 1 or 2 * prod(shard) * max(itemsize, 1) > SHARD_BYTES:
            break
        shard[axis] *= 2
    return tuple(shard)
