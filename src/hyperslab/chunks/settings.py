"""How chunks are read and written: one frozen value, handed to ``execute``; no global is read inside."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from numbers import Integral, Real

from hyperslab.errors import Invalid

MEBIBYTE = 1 << 20

# The kind of each number, the least that it may be, and what to give.
_NUMBERS: dict[str, tuple[type, int, str]] = {
    "workers": (Integral, 1, "a whole number of threads, at least 1, or None for one per core"),
    "cache_bytes": (Real, 0, "a number of bytes, 0 for no cache"),
    "lock_timeout": (Real, 0, "a number of seconds, 0 to wait for no lock"),
    "memory_limit": (Real, 0, "a number of bytes, or None for the memory that is available"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """``workers`` threads (None: one per core); a cache of ``cache_bytes`` of decoded chunks (0: off); whether an
    acknowledged write survives a power cut (``durable``); seconds to wait for a lock (``lock_timeout``); the bytes that
    one result may take (``memory_limit``, None: the memory that is available)."""

    workers: int | None = None
    cache_bytes: int = 64 * MEBIBYTE
    durable: bool = True
    lock_timeout: float = 60.0
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        for name, (kind, least, meant) in _NUMBERS.items():
            value = getattr(self, name)
            # nearly always one of these, of every dataset that is opened: to ask an abstract class takes two calls
            is_number = type(value) is int or (type(value) is float and kind is Real)
            if value is None or (is_number and value >= least):
                continue
            is_number = is_number or isinstance(value, kind)
            if not (is_number and value >= least):  # NaN is not at least anything
                raise Invalid(f"{name}={value!r}", remedy=f"give {meant}")

    @property
    def threads(self) -> int:
        """The number of threads meant by ``workers``; in a task of dask.distributed None is one, it is one of many."""
        if self.workers:
            return self.workers
        # A worker runs no tasks before the module has all its names, which another thread may be importing just now.
        state = getattr(sys.modules.get("distributed.worker"), "thread_state", None)
        if hasattr(state, "execution_state"):
            return 1
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


DEFAULTS = Settings()
