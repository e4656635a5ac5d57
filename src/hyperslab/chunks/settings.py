"""How chunks are read and written: one frozen value, handed to ``execute``; no global is read inside."""

from __future__ import annotations

import os
from dataclasses import dataclass

MEBIBYTE = 1 << 20


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

    @property
    def threads(self) -> int:
        """The number of threads meant by ``workers``."""
        if self.workers:
            return self.workers
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


DEFAULTS = Settings()
