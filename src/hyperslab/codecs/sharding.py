"""``sharding_indexed``: a chunk of chunks with an index (Zarr v3), encoded and decoded whole.

Formats read and write parts of a shard by the same :class:`~hyperslab.codecs.shard_index.ShardIndex`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hyperslab.codecs.base import Buffer, ChunkLayout, Values
from hyperslab.codecs.memory import contiguous
from hyperslab.codecs.pipeline import Chain
from hyperslab.codecs.shard_index import MISSING, Part, ShardIndex
from hyperslab.model.spec import ArraySpec

Slices = tuple[Any, ...]


class Sharding:
    """Inner chunks under a chain of their own, in C order; those of nothing but fill values are left out."""

    def __init__(self, cells: ChunkLayout, inner: Chain, index: ShardIndex) -> None:
        self._shape = cells.shape
        self._dtype = cells.numpy_dtype
        self._fill = _fill_cell(cells)
        self._omits = cells.fill_value is not None
        self._inner = inner
        self._index = index

    @property
    def size(self) -> int | None:
        """Unknown."""
        return None

    def encode(self, array: Values) -> Buffer:
        """The shard: inner chunks and index, without gaps."""
        parts: list[Part] = []
        for _, slices in self._places():
            block = array[slices]
            parts.append(None if self._omits and self._is_fill(block) else self._inner.encode(block))
        return self._index.join(parts)

    def decode(self, data: Buffer) -> Values:
        """The cells of the whole shard; CorruptChunk when the index points outside."""
        entries = self._index.find(data)
        out = np.empty(self._shape, self._dtype)
        self._decode(data, entries, out)
        return out

    def decode_to(self, data: Buffer, out: Values) -> None:
        """The cells of the whole shard, into ``out``."""
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
        """Return whether every cell is the fill value, bit for bit where cells have a fixed size."""
        if block.size == 0:
            return True
        if self._dtype.hasobject or self._dtype.kind == "T":
            return all(cell == self._fill for cell in block.reshape(-1).tolist())
        fill = np.asarray(self._fill, self._dtype).tobytes()
        first = block[(0,) * block.ndim]
        return first.tobytes() == fill and contiguous(block).tobytes() == fill * block.size


def _fill_cell(cells: ChunkLayout) -> Any:
    """What a missing inner chunk reads as; without a fill value zero or empty."""
    return ArraySpec(shape=(), dtype=cells.dtype, chunks=(), fill_value=cells.fill_value).fill_cell()[()]
