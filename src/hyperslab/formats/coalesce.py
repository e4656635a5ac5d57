"""Many byte ranges as few: neighbours are fetched as one and cut apart afterwards. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hyperslab.stores.ranges import merge

Range = tuple[int, int]
GAP = 16 << 10  # unwanted bytes between two ranges that cost less than another request


def fetch_coalesced(
    get_ranges: Callable[[Sequence[Range]], Sequence[bytes] | None], ranges: Sequence[Range]
) -> list[memoryview] | None:
    """The bytes of each range, by few requests; None when there is nothing to read from."""
    merged = merge(ranges, GAP)
    found = get_ranges(merged)
    if found is None:
        return None
    parts: dict[Range, memoryview] = {}
    blocks = iter(zip(merged, found, strict=True))
    (low, high), data = next(blocks, ((0, 0), b""))
    for start, stop in sorted(set(ranges)):
        while start > high or stop > high:
            (low, high), data = next(blocks)
        parts[start, stop] = memoryview(data)[start - low : stop - low]
    return [parts[wanted] for wanted in ranges]
