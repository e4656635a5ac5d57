"""The cost of a block of code: requests to stores, bytes that came or went, chunks that were wanted. ``hs.trace()``.

Beside it :data:`watchers`, who are told of chunks when they are done: how far a long piece of work is.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
"""Those that are running. Where something is counted an empty list is all that is looked at; each change and each look
is one call of the list, so it has no lock."""


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


class Watcher(ABC):
    """A listener that is called when chunks are done, from any thread."""

    @abstractmethod
    def done(self, chunks: int, nbytes: float, *, written: bool) -> None:
        """Take note of so many more that were read or ``written``, with ``nbytes`` of cells (0: so many as chunks have
        on average)."""


watchers: list[Watcher] = []
"""Those that look on. As with traces, an empty list is all that is looked at where nobody does, without a lock."""


def done(chunks: int, nbytes: float = 0, *, written: bool = False) -> None:
    """Tell every watcher; callers look at :data:`watchers` first."""
    for watcher in tuple(watchers):
        watcher.done(chunks, nbytes, written=written)


def report_batches(work: Callable[[Any], None], nbytes: float, *, written: bool = False) -> Callable[[Any], None]:
    """Return ``work`` of batches, which tells the watchers of each: its items are chunks of ``nbytes`` each."""

    def reported(batch: Any) -> None:
        work(batch)
        done(len(batch), len(batch) * nbytes, written=written)

    return reported
