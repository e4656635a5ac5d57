"""Amounts as people read and write them: ``1 chunk``, ``2,000 chunks``, ``1.7 MiB``, ``512MiB``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import TypeGuard

import numpy as np

from hyperslab.errors import Invalid

_SIZE = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def counted(number: int, noun: str) -> str:
    """Return a text such as ``1 chunk`` or ``2,000 chunks``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_text(nbytes: int | None) -> str:
    """Return a text such as ``1.7 MiB``; the power of two for what no unit is large enough for, ``?`` for None."""
    if nbytes is None:
        return "?"
    power = max(nbytes.bit_length() - 1, 0) // 10
    if power >= len(_UNITS):
        return f"2^{nbytes.bit_length() - 1} bytes"
    return f"{nbytes / 1024**power:.1f} {_UNITS[power]}" if power else counted(nbytes, "byte")


def shape_text(dims: Iterable[str | None], shape: Iterable[int]) -> str:
    """Return a text such as ``time: 240, 37``: the length of each dimension, behind its name where it has one."""
    return ", ".join(f"{dim}: {size}" if dim else str(size) for dim, size in zip(dims, shape, strict=True))


def is_whole_number(value: object) -> TypeGuard[int]:
    """Return True for an integer of Python's or NumPy's; a truth value is none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def parse_size(size: int | str, option: str) -> int:
    """Return a number of bytes from text such as ``1GB``, ``512 MiB``, ``2_000_000``.

    ``kB``, ``MB``, ``GB``, ``TB`` are powers of 1000, ``KiB`` and so on of 1024; a bare number is bytes.
    """
    if is_whole_number(size) and size > 0:
        return int(size)
    match = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if match is None or (match[3] and not match[2]):
        raise Invalid(f"{option} {size!r} is no number of bytes", remedy=f"write {option} 1GB or {option} 512MiB")
    number, unit, binary, _ = match.groups()
    nbytes = float(number.replace("_", "")) * (1024 if binary else 1000) ** _POWERS[unit.lower()]
    if nbytes < 1:
        raise Invalid(f"{option} {size!r} is less than a byte", remedy=f"write {option} 1GB or {option} 512MiB")
    return int(nbytes)


def parse_retention(wanted: bool | float | timedelta | None, option: str = "keep_versions") -> float | None:
    """Return for how many seconds older versions are kept: -1 for ever (True), None not at all (False). Invalid names
    the ``option``."""
    if isinstance(wanted, bool) or wanted is None:
        return -1 if wanted else None
    return parse_seconds(wanted, option, "give True, seconds of at least 0, or a timedelta")


def parse_seconds(
    wanted: object, option: str, remedy: str = "give seconds of at least 0, or a timedelta", *, below: float = 1e10
) -> float:
    """Return a time as seconds, which are less than ``below`` (by default 317 years). Invalid names the ``option``."""
    seconds = wanted.item() if isinstance(wanted, np.number) else wanted
    seconds = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < below:
        raise Invalid(f"{option}={wanted!r}", remedy=remedy)
    return seconds
