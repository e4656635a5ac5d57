"""A few cells of a chunk of many documents: those documents that hold them, and the first, are asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from pymongo.collection import Collection

from hyperslab.formats.mongo import stored
from hyperslab.formats.mongo.segments import Key, Segment, parse_segment
from hyperslab.formats.mongo.spans import CellSpan
from hyperslab.model.coo import Numbers


def part(
    chunks: Collection[Any],
    meta_id: Any,
    key: Key,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    size: int,
    within: Any,
) -> Numbers | None:
    """The cells ``within`` a dense chunk of this shape, whose documents hold ``size`` bytes each if nothing else is
    found; None where all of the chunk is to be read, for that or because what is found is no part of such a chunk."""
    if not size or not shape or not all(shape):
        return None
    span = CellSpan.of(shape, within, dtype.itemsize)
    if span.total <= size or not span.is_small:
        return None
    found = _segments(chunks, meta_id, key, {0, *span.numbers(size)})
    first = found.get(0) if found else None
    if found is None or first is None or first.sparse or (first.dtype, first.shape) != (dtype, shape) or not first.data:
        return None
    if missing := set(span.numbers(len(first.data))) - found.keys():
        found |= _segments(chunks, meta_id, key, missing) or {}
    cells = span.take({n: segment.data for n, segment in found.items()}, len(first.data), dtype)
    return None if cells is None else cells.copy()


def _segments(chunks: Collection[Any], meta_id: Any, key: Key, numbers: Iterable[int]) -> dict[int, Segment] | None:
    """Documents by their n; None where one is there twice."""
    found: dict[int, Segment] = {}
    for document in chunks.find({**stored.query(meta_id, key[0], [key[1]]), "n": {"$in": sorted(numbers)}}):
        segment = parse_segment(document)
        if segment.n in found:
            return None
        found[segment.n] = segment
    return found
