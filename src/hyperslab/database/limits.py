"""The memory that a client's arrays may take: ``8G``, ``512m`` or bytes; at most what the machine has."""

from __future__ import annotations

import re

from hyperslab.chunks.memory import installed
from hyperslab.errors import ClientError

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
    whole = installed()
    return wanted if 0 < wanted < whole else whole


def _wrong(given: object) -> ClientError:
    return ClientError(f"memory_limit={given!r}", remedy='give bytes, or a number with k, m, g or t, such as "8G"')
