"""``sharding_indexed`` of Zarr v3: a chunk of chunks, and the index that says where each inner chunk lies.

The index is an array of uint64 of shape ``(*counts, 2)``, an offset and a length for each inner chunk, under a codec
chain of fixed size, at the start or the end of the shard. Both numbers 2^64 - 1: the inner chunk was never written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from struct import Struct
from typing import Any, Literal

import numpy as np

from hyperslab.codecs.base import ArrayToBytes, Buffer, ChunkLayout
from hyperslab.codecs.buffers import contiguous, fill_cell_bytes, is_filled_with
from hyperslab.codecs.chain import Chain
from hyperslab.codecs.crc32c import crc32c
from hyperslab.errors import CorruptChunk
from hyperslab.model.cells import Values
from hyperslab.model.spec import ArraySpec, Codec

INDEX_CODECS = (Codec("bytes", {"endian": "little"}), Codec("crc32c"))
"""How the index of a shard is stored unless its document says otherwise."""
MISSING = 2**64 - 1
Entries = Values
Part = Buffer | None
"""An inner chunk as it is stored; None: never written."""
# Chunks of a shard up to which its index is unpacked by ``struct``, which takes less time than NumPy's calls.
MOST_UNPACKED_ENTRIES = 16
_UNREADABLE = (
    "no chunk of this shard can be read: restore the shard from a copy, repair the dataset, or erase the shard"
)


def _fresh(size: int) -> memoryview:
    return np.empty(size, np.uint8).data


@dataclass(frozen=True)
class ShardIndex:
    """How the index of each shard of an array is stored: chunks per axis, codecs and place.

    ``chain``: the codecs, compiled (``shard_index`` in ``codecs.registry`` makes a checked index of their list).
    ``most``: the most bytes that an inner chunk may take, None for any number.
    """

    counts: tuple[int, ...]
    codecs: tuple[Codec, ...]
    chain: Chain
    location: Literal["start", "end"] = "end"
    most: int | None = None

    @property
    def size(self) -> int:
        """Inner chunks in a shard."""
        return prod(self.counts)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the encoded index."""
        return self.chain.size or 0

    def parse(self, data: Buffer, total: int | None = None) -> Entries:
        """Return the entries of an encoded index; with ``total``, the shard's length, every range is checked to lie in
        it. CorruptChunk says that it is the index that is damaged.

        Two others read indexes and check their ranges: :meth:`cut` the usual short ones, and the engine in C
        (``is_sound_index`` in ``_engine.c``). What they find unsound comes here, to be told.
        """
        try:
            entries: Entries = self.chain.decode(data)
        except CorruptChunk as error:
            message, found = f"the index of the shard is damaged: {error.message}", error.found
            raise CorruptChunk(message, expected=error.expected, found=found, remedy=_UNREADABLE) from error
        if total is not None:
            bad = self.unsound(entries, total)
            if bad.any():
                place = tuple(int(i) for i in np.argwhere(bad)[0])
                offset, length = (int(number) for number in entries[place])
                first, limit = map(int, self._room(total))
                if first <= offset and offset + length <= limit:
                    what, expected = "is too long for its cells", f"at most {self.most} bytes"
                else:
                    what, expected = "lies outside its shard, or over the index", f"a range within {first} to {limit}"
                message = f"the index of the shard is damaged: inner chunk {place} {what}"
                raise CorruptChunk(message, expected=expected, found=(offset, length), remedy=_UNREADABLE)
        return entries

    def find(self, shard: Buffer) -> Entries:
        """Return the checked entries of a whole shard."""
        total, size = len(shard), self.nbytes
        if total < size:
            message, least = "the shard is shorter than its index", f"at least {size} bytes"
            raise CorruptChunk(message, expected=least, found=total, remedy=_UNREADABLE)
        view = memoryview(shard)
        return self.parse(view[:size] if self.location == "start" else view[total - size :], total)

    def cut(self, shard: Buffer, numbers: Sequence[int]) -> list[Part]:
        """Return the stored bytes of inner chunks, by their numbers in C order, of a whole shard whose index is
        checked."""
        view = memoryview(shard)
        total, size, short = len(view), self.nbytes, self._short_index
        if short is not None and total >= size:  # what find does, without its calls; it tells what is wrong
            first, limit = (size, total) if self.location == "start" else (0, total - size)
            index = bytes(view[:size] if first else view[limit:])
            *found, digest = short.unpack(index)
            parts: list[Part] = []
            for start, length in zip(found[::2], found[1::2], strict=True):
                if start == length == MISSING:
                    parts.append(None)
                elif start < first or start + length > limit or (self.most is not None and length > self.most):
                    break
                else:
                    parts.append(view[start : start + length])
            else:
                if crc32c(index[:-4]) == digest:
                    return list(map(parts.__getitem__, numbers))
        entries = self.find(shard).reshape(-1, 2)[numbers].tolist()
        return [None if start == MISSING else view[start : start + length] for start, length in entries]

    @cached_property
    def checksum(self) -> bool | None:
        """True where the numbers are stored as most are, little-endian and under CRC-32C, False without that; None
        where by other codecs."""
        steps = [(codec.name, dict(codec.config)) for codec in self.codecs]
        usual = [(codec.name, dict(codec.config)) for codec in INDEX_CODECS]
        return True if steps == usual else False if steps == usual[:1] else None

    @cached_property
    def _short_index(self) -> Struct | None:
        """What unpacks the index of a shard of few chunks that has a ``checksum``. None for other indexes, which go
        through their chain of codecs."""
        return Struct(f"<{2 * self.size}QI") if self.checksum and self.size <= MOST_UNPACKED_ENTRIES else None

    def render(self, entries: Entries) -> Buffer:
        """Return the encoded index."""
        return self.chain.encode(entries)

    def empty(self) -> Entries:
        """Return entries of a shard of which nothing is written."""
        return np.full((*self.counts, 2), MISSING, np.dtype("<u8"))

    def join(self, parts: Sequence[Part], reserve: Callable[[int], memoryview] = _fresh) -> memoryview:
        """Return the shard of all its inner chunks, in C order, one after another without gaps, and its index.

        It lies in the memory that ``reserve`` gives for its length, which may be longer.
        """
        entries = self.empty()
        flat = entries.reshape(-1, 2)
        at_start = self.location == "start"
        total = self.nbytes + sum(len(part) for part in parts if part is not None)
        shard = reserve(total)[:total]
        offset = self.nbytes if at_start else 0
        for number, part in enumerate(parts):
            if part is not None:
                flat[number] = offset, len(part)
                shard[offset : offset + len(part)] = part
                offset += len(part)
        index = self.render(entries)
        shard[0 if at_start else offset :][: len(index)] = index
        return shard

    def unsound(self, entries: Entries, total: int) -> Values:
        """Return which entries lead out of a shard of ``total`` bytes, over its index, or are longer than an inner
        chunk."""
        offsets, lengths = entries[..., 0], entries[..., 1]
        first, limit = self._room(total)
        bad = (offsets < first) | (offsets > limit) | (lengths > limit - np.minimum(offsets, limit))
        if self.most is not None and total > self.most:
            bad |= lengths > np.uint64(self.most)
        return np.asarray(bad & ~((offsets == MISSING) & (lengths == MISSING)))

    def _room(self, total: int) -> tuple[np.uint64, np.uint64]:
        """Return where the inner chunks of a shard of ``total`` bytes lie: behind the index, or before it."""
        at_start = self.location == "start"
        return np.uint64(self.nbytes if at_start else 0), np.uint64(total if at_start else total - self.nbytes)


# -- shards encoded and decoded whole; formats read and write parts of one by the index alone -------------------------

Slices = tuple[Any, ...]


class Sharding(ArrayToBytes):
    """Inner chunks under a chain of their own, in C order; those of nothing but fill values are left out."""

    can_fill_array = True

    def __init__(self, cells: ChunkLayout, inner: Chain, index: ShardIndex) -> None:
        self._shape = cells.shape
        self._dtype = cells.numpy_dtype
        cell = ArraySpec(shape=(), dtype=cells.dtype, chunks=(), fill_value=cells.fill_value).fill_cell()
        self._fill, self._fill_bytes = cell[()], fill_cell_bytes(cell)
        self._omits = cells.fill_value is not None
        self._inner = inner
        self._index = index

    def encode(self, array: Values) -> Buffer:
        """Return the shard: inner chunks and index, without gaps."""
        parts: list[Part] = []
        for _, slices in self._places():
            block = array[slices]
            parts.append(None if self._omits and self._is_fill(block) else self._inner.encode(block))
        return self._index.join(parts)

    def decode(self, data: Buffer) -> Values:
        """Return the cells of the whole shard; CorruptChunk when the index points outside."""
        entries = self._index.find(data)
        out = np.empty(self._shape, self._dtype)
        self._decode(data, entries, out)
        return out

    def decode_to(self, data: Buffer, out: Values) -> None:
        """Decode the cells of the whole shard into ``out``."""
        self._decode(data, self._index.find(data), out)

    def _decode(self, data: Buffer, entries: Values, out: Values) -> None:
        view = memoryview(data)
        for place, slices in self._places():
            offset, length = entries[place].tolist()
            target = out[slices]
            if offset == MISSING:
                target[...] = self._fill
            elif target.flags.c_contiguous:
                self._inner.decode_into(view[offset : offset + length], target)
            else:
                target[...] = self._inner.decode(view[offset : offset + length])

    def _places(self) -> Iterator[tuple[tuple[int, ...], Slices]]:
        shape = self._inner.cells.shape
        for place in np.ndindex(*self._index.counts):
            yield place, (*(slice(i * n, (i + 1) * n) for i, n in zip(place, shape, strict=True)), ...)

    def _is_fill(self, block: Values) -> bool:
        """Return True if every cell is the fill value, bit for bit where cells have a fixed size."""
        if block.size == 0:
            return True
        if self._fill_bytes is None:
            return all(cell == self._fill for cell in block.reshape(-1).tolist())
        return is_filled_with(contiguous(block), self._fill_bytes)
