"""What a byte range means for a value of known size; every store reads ranges by this one rule."""

from __future__ import annotations


def span(start: int, stop: int, size: int) -> tuple[int, int]:
    """The bytes ``first <= i < last`` that a range asks of ``size`` bytes, cut to what there is.

    A negative start counts from the end, and so does a stop of 0 or less beside it: ``(-8, 0)`` is the last 8 bytes.
    """
    if start < 0:
        start, stop = max(start + size, 0), stop + size if stop <= 0 else stop
    first = min(start, size)
    return first, max(first, min(stop, size))
