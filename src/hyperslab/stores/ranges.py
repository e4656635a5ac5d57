"""What a byte range means for a value of known size; every store reads ranges by this one rule."""

from __future__ import annotations

from collections.abc import Sequence


def span(start: int, stop: int, size: int) -> tuple[int, int]:
    """The bytes ``first <= i < last`` that a range asks of ``size`` bytes, cut to what there is.

    A negative start counts from the end, and so does a stop of 0 or less beside it: ``(-8, 0)`` is the last 8 bytes.
    """
    if start < 0:
        start, stop = max(start + size, 0), stop + size if stop <= 0 else stop
    first = min(start, size)
    return first, max(first, min(stop, size))


def merge(ranges: Sequence[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """The fewest ascending ranges that hold all ``ranges`` (start, stop) without more than ``gap`` bytes in between."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged
