"""The memory that a client's arrays may take: ``8G``, ``512m`` or bytes; at most what the machine has."""

from __future__ import annotations

import contextlib
import os
import re

from hyperslab.errors import ClientError, MemoryLimit

_TEXT = re.compile(r"\s*(\d+)\s*([kKmMgGtT])\s*")
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def memory_limit(given: object) -> int:
    """The limit in bytes: as given where it is above 0 and the machine has so much, else all that the machine has."""
    if isinstance(given, str):
        match = _TEXT.fullmatch(given)
        if match is None:
            raise _wrong(given)
        wanted = int(match[1]) * 1024 ** _POWERS[match[2].lower()]
    elif isinstance(given, int) and not isinstance(given, bool):
        wanted = given
    else:
        raise _wrong(given)
    whole = machine_memory()
    return wanted if 0 < wanted < whole else whole


def machine_memory() -> int:
    """Bytes of memory and swap together; without bound where the system does not tell."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as lines:
        sizes = dict(line.split(":", 1) for line in lines)
        return 1024 * sum(int(sizes[name].split()[0]) for name in ("MemTotal", "SwapTotal") if name in sizes)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 1 << 62


def require(nbytes: int, limit: int, what: str) -> None:
    """MemoryLimit unless so many bytes may be taken."""
    if nbytes > limit:
        remedy = "select less at a time, or open the client with a larger memory_limit="
        raise MemoryLimit(f"{what} takes {nbytes:,} bytes and {limit:,} are allowed", remedy=remedy)


def _wrong(given: object) -> ClientError:
    return ClientError(f"memory_limit={given!r}", remedy='give bytes, or a number with k, m, g or t, such as "8G"')
