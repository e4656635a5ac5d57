"""Numbers of bytes as people write them: ``1GB``, ``512 MiB``, ``2_000_000``."""

from __future__ import annotations

import re

from hyperslab.errors import Invalid

_SIZE = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(size: int | str, option: str) -> int:
    """Bytes: ``kB``, ``MB``, ``GB``, ``TB`` are powers of 1000, ``KiB`` and so on of 1024; a bare number is bytes."""
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    match = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if match is None or (match[3] and not match[2]):
        raise Invalid(f"{option} {size!r} is no number of bytes", remedy=f"write {option} 1GB or {option} 512MiB")
    number, unit, binary, _ = match.groups()
    nbytes = float(number.replace("_", "")) * (1024 if binary else 1000) ** _POWERS[unit.lower()]
    if nbytes < 1:
        raise Invalid(f"{option} {size!r} is less than a byte", remedy=f"write {option} 1GB or {option} 512MiB")
    return int(nbytes)
