"""Byte ranges: the rule by which every store reads them, and many fetched as few. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def span(start: int, stop: int, size: int) -> tuple[int, int]:
    """Return the bytes ``first <= i < last`` that a range asks of ``size`` bytes, cut to what there is.

    A negative start counts from the end, and so does a stop of 0 or less beside it: ``(-8, 0)`` is the last 8 bytes.
    """
    if start < 0:
        start, stop = max(start + size, 0), stop + size if stop <= 0 else stop
    first = min(start, size)
    return first, max(first, min(stop, size))


def merge(ranges: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Return the fewest ascending ranges that hold all ``ranges``, with at most ``gap`` unwanted bytes in between."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


ByteRange = tuple[int, int]
# Unwanted bytes between two ranges that cost less than another request, as GAP in ``_engine.c``, which has figures.
RANGE_GAP = 16 << 10


def fetch_coalesced(
    get_ranges: Callable[[Sequence[ByteRange]], Sequence[bytes] | None], ranges: Sequence[ByteRange]
) -> list[memoryview] | None:
    """Return the bytes of each range; None when there is nothing to read from.

    Neighbours are fetched as one range and cut apart afterwards, without a copy.
    """
    merged = merge(ranges, RANGE_GAP)
    found = get_ranges(merged)
    if found is None:
        return None
    parts: dict[ByteRange, memoryview] = {}
    blocks = iter(zip(merged, found, strict=True))
    (low, high), data = next(blocks, ((0, 0), b""))
    for start, stop in sorted(set(ranges)):
        while start > high or stop > high:
            (low, high), data = next(blocks)
        parts[start, stop] = memoryview(data)[start - low : stop - low]
    return [parts[wanted] for wanted in ranges]
