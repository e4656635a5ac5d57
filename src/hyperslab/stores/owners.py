"""Whose an unfinished write is: its temporary name tells the process, and the system whether that one still lives.

A token is 64 bits: 26 of the machine (of its present boot, and of the namespace that numbers its processes), 22 of the
process, 16 of a counter. A name that another machine made, or an older version by chance alone, tells nothing.
"""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import sha256
from itertools import count
from typing import Literal

Owner = Literal["alive", "dead", "unknown"]

_PROCESS, _NUMBER = 22, 16
_numbers = count(int.from_bytes(os.urandom(2), "little"))


def new_token() -> str:
    """Return sixteen hex digits that no other process of this machine gives out, and this one only after 65,536
    others."""
    process = os.getpid()
    machine = _machine(process)
    if machine is None or process >> _PROCESS:
        return os.urandom(8).hex()
    number = next(_numbers) % (1 << _NUMBER)
    return f"{machine << _PROCESS + _NUMBER | process << _NUMBER | number:016x}"


def owner_of(token: str) -> Owner:
    """Return what has become of the process that a token is of: ``unknown`` where that cannot be told from here."""
    value = int(token, 16)
    if value >> _PROCESS + _NUMBER != _machine(os.getpid()):
        return "unknown"
    return "alive" if _lives((value >> _NUMBER) % (1 << _PROCESS)) else "dead"


@lru_cache(maxsize=1)
def _machine(process: int) -> int | None:
    """Return the machine's part of a token; None on systems that do not tell. A forked child may have another
    namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
    return int.from_bytes(sha256(boot + space.encode()).digest()[:8], "little") >> _PROCESS + _NUMBER


def _lives(process: int) -> bool:
    """Return whether there is such a process, and not only its exit status that nobody has fetched yet."""
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):  # it ended, or /proc is mounted with hidepid= and shows nobody else's
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True
