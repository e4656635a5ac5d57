"""Amounts as people read them: ``1 chunk``, ``2,000 chunks``, ``1.7 MiB``."""

from __future__ import annotations

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def counted(number: int, noun: str) -> str:
    """``1 chunk``, ``2,000 chunks``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_text(nbytes: int | None) -> str:
    """``1.7 MiB``; ``?`` for None."""
    if nbytes is None:
        return "?"
    size = float(nbytes)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return counted(nbytes, "byte") if unit == "bytes" else f"{size:.1f} {unit}"
