"""Sizes and indices as documents hold them: int32, int64, or a double that is whole; NaN for a size nobody knows."""

from __future__ import annotations

from typing import Any

from hyperslab.formats.mongo.faults import CorruptDocument

Sizes = tuple[int | None, ...]


def index_of(value: Any, field: str, name: str) -> int:
    """A whole number of at least 0. CorruptDocument."""
    size = size_of(value, field, name)
    if size is None:
        raise CorruptDocument(f"{field} of {name!r}", expected="a whole number", found=value)
    return size


def size_of(value: Any, field: str, name: str) -> int | None:
    """A size, None for an unknown one. CorruptDocument."""
    if isinstance(value, float) and value != value:
        return None
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(whole) is bool or not isinstance(whole, int) or not 0 <= whole < 1 << 63:
        raise CorruptDocument(f"{field} of {name!r}", expected="a whole number of at least 0", found=value)
    return int(whole)


def sizes_of(value: Any, field: str, name: str) -> Sizes:
    """A list of sizes. CorruptDocument."""
    if not isinstance(value, list):
        raise CorruptDocument(f"{field} of {name!r}", expected="a list of sizes", found=value)
    return tuple(size_of(size, field, name) for size in value)
