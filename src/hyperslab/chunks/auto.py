"""Chunk and shard sizes where nobody chose any: 1 to 4 MiB of cells a chunk, up to 32 MiB a shard. Integers only.

An array of many small chunks is put into smaller shards (:func:`shards_of_many`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import prod
from typing import Literal

import numpy as np

from hyperslab.chunks.settings import MEBIBYTE
from hyperslab.errors import Invalid
from hyperslab.model.amounts import size_text
from hyperslab.model.spec import Chunks

CHUNK_BYTES = 4 * MEBIBYTE
SHARD_BYTES = 32 * MEBIBYTE
_GROWTH = 1024
# An array of more chunks, each of fewer bytes of cells, is put into shards where nobody says otherwise. A file costs
# 0.2 to 1 ms to make on ext4 and about as much to remove: 256 MiB in chunks of 64 KiB are written 4 times as fast in
# shards or more, of 128 KiB 3 times, of 256 KiB twice, of 512 KiB 1.2 times (docs/explanation/choosing.md).
MANY_CHUNKS = 2000
SMALL_CHUNK_BYTES = MEBIBYTE // 2
# Of such a shard: from 4 MiB on larger ones are written and read no faster, and to change one chunk its shard is read
# and written anew: 12 to 17 ms for 8 MiB, 50 to 140 for 32, where a chunk in a file of its own takes 2 to 7.
SMALL_SHARD_BYTES = 8 * MEBIBYTE
# Of such a shard: an index of 64 KiB, which takes 20 us to read.
MOST_CHUNKS_OF_SHARD = 4096
# Of such a shard: fewer are no fewer files to speak of.
LEAST_CHUNKS_OF_SHARD = 4

# Of any shard: each has 16 bytes in its index, which is in memory whole while a shard is written: 256 MiB.
_MOST_IN_INDEX = 1 << 24

MANY: Literal["many"] = "many"
"""For ``shards``: where the chunks would be many small files."""
ShardLengths = int | tuple[int | None, ...] | Mapping[str, int]
Shards = ShardLengths | Literal[False, "auto", "many"] | None
"""The shards of a new array: lengths or a word, False for none; None where nobody says anything."""
SHARD_WORDS = ("auto", MANY, "none")
"""The words for shards, beside lengths; ``"none"`` is False."""
# How an error names the lengths that a caller takes.
_LENGTHS = {
    "any": "lengths: one, one for each dimension, or by dimension, such as {'time': 100, 'lat': 50} (-1: the whole)",
    "by dimension": "lengths by dimension, such as {'time': 100, 'lat': 50} (-1: the whole)",
}


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


def parse_shards(shards: object, option: str = "shards", lengths: Literal["any", "by dimension"] = "any") -> Shards:
    """Return the shards that a caller wants, as plain numbers and words; Invalid, with the name of the ``option``, for
    what says nothing about shards.

    ``lengths``: those that the caller takes. Each is at least 1, or -1 for the whole dimension.
    """
    match shards:
        case None | False:
            return shards
        case np.ndarray():
            return parse_shards(shards.tolist(), option, lengths)
        case "auto":
            return "auto"
        case "many":
            return MANY
        case "none":
            return False
        case int() | np.integer() if lengths == "any" and _is_length(shards):
            return int(shards)
        case Mapping() if all(map(_is_length, shards.values())):
            return {name: int(length) for name, length in shards.items()}
        case str() | bytes() | Mapping():
            pass
        case Iterable() if lengths == "any":
            cuts = tuple(shards)
            if all(cut is None or _is_length(cut) for cut in cuts):
                return tuple(None if cut is None else int(cut) for cut in cuts)
            shards = cuts
    remedy = f"give False or 'none', 'auto', 'many' (where chunks would be many small files), or {_LENGTHS[lengths]}"
    raise Invalid(f"{option}={shards!r:.80}", remedy=remedy)


def _is_length(length: object) -> bool:
    """Return True for a whole number of at least 1, or -1."""
    return isinstance(length, int | np.integer) and not isinstance(length, bool) and (length == -1 or bool(length >= 1))


def check_shards(shards: Chunks, chunks: Chunks) -> None:
    """Raise Invalid where a shard would have so many chunks that its index does not fit into memory."""
    count = prod(-(-shard // cut) for shard, cut in zip(longest_chunk(shards), longest_chunk(chunks), strict=True))
    if count > _MOST_IN_INDEX:
        message = f"the index of a shard of {count:,} chunks would take {size_text(16 * count)}"
        raise Invalid(message, remedy="make shards smaller, or chunks larger")


def whole_chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the chunk lengths of an array that is one chunk."""
    return tuple([max(1, length) for length in shape])


def longest_chunk(chunks: Chunks) -> tuple[int, ...]:
    """Return the length of the longest chunk along each axis."""
    return tuple([cut if isinstance(cut, int) else max(cut, default=1) for cut in chunks])


def auto_shards(shape: tuple[int, ...], chunks: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return a shard length per axis: a whole number of ``chunks``, doubled where most chunks lie, up to 32 MiB of
    cells, and to the end of the last chunk of the array."""
    shard = list(chunks)

    def left(axis: int) -> int:
        return -(-shape[axis] // shard[axis])

    while shard:
        axis = max(range(len(shard)), key=left)
        longer = min(2 * shard[axis], -(-shape[axis] // chunks[axis]) * chunks[axis])
        if left(axis) <= 1 or prod(shard) // shard[axis] * longer * max(itemsize, 1) > SHARD_BYTES:
            break
        shard[axis] = longer
    return tuple(shard)


def shards_of_many(
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    itemsize: int,
    growing: Collection[int] = (),
    most: int = SMALL_SHARD_BYTES,
) -> tuple[int, ...] | None:
    """Return the shard lengths, of up to ``most`` bytes of cells, of an array that would be many small files; None for
    any other. Chunk lengths are at least 1.

    A shard takes in the last axes first, in even parts: rows are written and appended in that order, so that they touch
    few shards. Along an axis that is ``growing`` it is as long as a chunk: rows that are appended change no more shards
    than they would change chunks.
    """
    nbytes = prod(chunks) * max(itemsize, 1)
    counts = [-(-length // cut) for length, cut in zip(shape, chunks, strict=True)]
    if prod(counts) <= MANY_CHUNKS or nbytes >= SMALL_CHUNK_BYTES:
        return None
    room = min(most // nbytes, MOST_CHUNKS_OF_SHARD)
    if room < LEAST_CHUNKS_OF_SHARD:
        return None
    members = [1] * len(counts)
    for axis in reversed(range(len(counts))):
        if axis not in growing:
            parts = -(-counts[axis] // room)
            members[axis] = -(-counts[axis] // parts)
            room //= members[axis]
    if prod(members) < LEAST_CHUNKS_OF_SHARD:
        return None
    return tuple(many * cut for many, cut in zip(members, chunks, strict=True))
