"""How many chunks each data file of a column holds, where no document says it: its header, or else the file does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hyperslab.chunks.memory import require
from hyperslab.chunks.pool import batched, each_batch
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.formats.blaze.data_file import ChunkOffsets, read_index
from hyperslab.formats.blaze.source import Column
from hyperslab.formats.bloscpack.header import ENOUGH, parse

_BATCH = 16
_MOST = 1 << 32
"""Chunks of a file that counts its own, as many as a document may say."""


def count_chunks(column: Column) -> list[int | None]:
    """Return the chunks in each file of a column, in order; None for one that is missing or makes no sense."""
    places = column.keys.places()[0]
    found: dict[int, int | None] = {}

    def work(batch: Iterable[int]) -> None:
        for place in batch:
            try:
                found[place] = _count(column, column.keys.key(place))
            except HyperslabError:
                found[place] = None

    each_batch(work, batched(places, _BATCH), column.keys.settings.threads)
    last = min(places[-1] + 1, len(places) + column.chunks) if places else 0
    return [found.get(place) for place in range(last)]


def _count(column: Column, key: str) -> int | None:
    store = column.keys.store
    head = store.get_ranges(key, [(0, ENOUGH)])
    if head is None:
        return None
    header = parse(head[0])
    if header.nchunks > _MOST:
        raise FormatError(f"{header.nchunks} chunks in a superchunk")
    if header.nchunks >= 0:
        return max(1, header.nchunks)
    require(column.keys.size(key) or 0, None)
    data = store.get(key)
    if data is None:
        return None
    index = read_index(data, len(data), replace(column.shape, most=_MOST))
    return index.count if isinstance(index, ChunkOffsets) else None
