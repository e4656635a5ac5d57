"""Threads that take turns at one store: its transactions, and the chunks that they hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from hyperslab.stores.attempts import kept_waiting


class TransactionTurn:
    """The transaction that runs in one store, and the blocks that are parts of it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.owner: int | None = None
        """The thread that began it; None while none runs."""
        self.is_shared = False
        self._parts = 0

    def take(self, shared: bool, timeout: float | None) -> bool:
        """Begin one (True), or become a part of the one that runs (False): of one's own, or of one that is shared.
        Any other is waited for; Conflict after ``timeout`` seconds (None: never)."""
        me = threading.get_ident()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while self.owner is not None and self.owner != me and not self.is_shared:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise kept_waiting()
                self._changed.wait(left)
            if self.owner is not None:
                # a part that threads share: they would wait for the whole, which waits for them
                self.is_shared = self.is_shared or shared
                self._parts += 1
                return False
            self.owner, self.is_shared = me, shared
            return True

    def leave(self) -> None:
        """End a part."""
        with self._changed:
            self._parts -= 1
            self._changed.notify_all()

    def wait_for_parts(self) -> None:
        """Wait for the parts of other threads."""
        with self._changed:
            self._changed.wait_for(lambda: not self._parts)

    def end(self) -> None:
        """Let the next one begin."""
        with self._changed:
            self.owner, self.is_shared = None, False
            self._changed.notify_all()


class ChunkLocks:
    """Which chunks a thread of this process holds."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[tuple[str, int]] = set()

    @contextmanager
    def hold(self, wanted: set[tuple[str, int]], timeout: float | None) -> Iterator[None]:
        """Hold them all at once, as soon as none is held; Conflict after ``timeout`` seconds."""
        with self._changed:
            if not self._changed.wait_for(partial(self._held.isdisjoint, wanted), timeout):
                raise kept_waiting()
            self._held |= wanted
        try:
            yield
        finally:
            with self._changed:
                self._held -= wanted
                self._changed.notify_all()
