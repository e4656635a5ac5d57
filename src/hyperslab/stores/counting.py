"""What a block of code cost: requests to stores, bytes that came or went, chunks that were wanted. ``hs.trace()``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Trace:
    """Counts since the block began, of the whole process: work is spread over threads that serve everybody.

    ``requests`` of object stores (those that a client repeats by itself are not seen) and reads and writes of values in
    memory, folders and archives; ``bytes_read`` and ``bytes_written``; ``chunks`` read or written, cached ones too.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.chunks = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        counts = f"{self.requests} requests, {self.bytes_read} bytes read, {self.bytes_written} bytes written"
        return f"<Trace: {counts}, {self.chunks} chunks>"

    def add(self, requests: int = 0, read: int = 0, written: int = 0, chunks: int = 0) -> None:
        """Count more; from any thread."""
        with self._lock:
            self.requests += requests
            self.bytes_read += read
            self.bytes_written += written
            self.chunks += chunks


traces: list[Trace] = []
"""Those that are running. Where something is counted an empty list is all that is looked at."""


@contextmanager
def trace() -> Iterator[Trace]:
    """Count what the block costs: ``with hs.trace() as cost: …; cost.requests``. Blocks may lie in one another."""
    counts = Trace()
    traces.append(counts)
    try:
        yield counts
    finally:
        traces.remove(counts)


def count(requests: int = 0, read: int = 0, written: int = 0, chunks: int = 0) -> None:
    """Add to every running trace; callers look at :data:`traces` first."""
    for counts in tuple(traces):
        counts.add(requests, read, written, chunks)
