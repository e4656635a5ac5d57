"""Amounts as people read them: ``1 chunk``, ``2,000 chunks``, ``1.7 MiB``."""

from __future__ import annotations

from collections.abc import Iterable

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def counted(number: int, noun: str) -> str:
    """``1 chunk``, ``2,000 chunks``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_text(nbytes: int | None) -> str:
    """``1.7 MiB``; the power of two for what no unit is large enough for, ``?`` for None."""
    if nbytes is None:
        return "?"
    power = max(nbytes.bit_length() - 1, 0) // 10
    if power >= len(_UNITS):
        return f"2^{nbytes.bit_length() - 1} bytes"
    return f"{nbytes / 1024**power:.1f} {_UNITS[power]}" if power else counted(nbytes, "byte")


def shape_text(dims: Iterable[str | None], shape: Iterable[int]) -> str:
    """``time: 240, 37``: the length of each dimension, behind its name where it has one."""
    return ", ".join(f"{dim}: {size}" if dim else str(size) for dim, size in zip(dims, shape, strict=True))
