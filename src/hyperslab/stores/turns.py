"""Threads that take turns at one store: its transactions, and the chunks that they hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from hyperslab.errors import StorageError
from hyperslab.stores.attempts import kept_waiting


class TransactionTurn:
    """The transaction that runs in one store, and the blocks that are parts of it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.owner: int | None = None
        """The thread that began it; None while none runs."""
        self.is_shared = False
        self._parts = 0
        self._has_failed = False

    def take(self, shared: bool, timeout: float | None) -> bool:
        """Begin one (True), or become a part of the one that runs (False): of one's own, or of one that is shared.
        Any other is waited for; Conflict after ``timeout`` seconds (None: never). StorageError for a part of one that
        has failed."""
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
                self._add_part()
                return False
            self.owner, self.is_shared = me, shared
            return True

    def join(self) -> bool:
        """Add a part to the one that runs, of whichever thread; return False where none runs. StorageError where it has
        failed."""
        with self._changed:
            if self.owner is None:
                return False
            self._add_part()
            return True

    def _add_part(self) -> None:
        if self._has_failed:
            remedy = "look at the error of the thread that began it, and repeat all of it"
            raise StorageError("the commit that this is a part of has failed", remedy=remedy)
        self._parts += 1

    def leave(self) -> None:
        """End a part."""
        with self._changed:
            self._parts -= 1
            self._changed.notify_all()

    def wait_for_parts(self) -> None:
        """Wait for the parts of other threads."""
        with self._changed:
            self._changed.wait_for(lambda: not self._parts)

    def fail(self) -> None:
        """Have what other threads begin as parts fail, and wait for the parts that run: they would else go on without
        a transaction, in the place of the next one."""
        with self._changed:
            self._has_failed = True
        self.wait_for_parts()

    def end(self) -> None:
        """Let the next one begin."""
        with self._changed:
            self.owner, self.is_shared, self._has_failed = None, False, False
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
