"""Two writers of one thing: what the later one is told, and how it tries again where a lock would have waited."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from types import TracebackType

from hyperslab.errors import Conflict

# Seconds after which the first attempt is repeated, at most; then twice as long each time.
FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 1.0


def beaten(url: str | None = None, key: str | None = None) -> Conflict:
    """Return the error for a swap whose value was changed meanwhile."""
    return Conflict("another writer was faster", url=url, key=key, remedy="read the key again and repeat the change")


def kept_waiting(url: str | None = None, key: str | None = None) -> Conflict:
    """Return the error for a lock that was not let go in time."""
    remedy = "wait longer (lock_timeout), or find the other writer"
    return Conflict("another writer held the lock until the timeout", url=url, key=key, remedy=remedy)


class Attempt:
    """One run of a block; a ``Conflict`` in it is passed over while there is time for another run."""

    def __init__(self, deadline: float | None, pause: float) -> None:
        self.done = False
        self._deadline = deadline
        self._pause = pause

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.done = kind is None
        if not isinstance(error, Conflict):
            return False
        # Random, so that writers who met at one value do not meet there again and again.
        wait = random.uniform(0, self._pause)
        if self._deadline is not None and time.monotonic() + wait > self._deadline:
            return False
        time.sleep(wait)
        return True


def attempts(timeout: float | None) -> Iterator[Attempt]:
    """Yield attempts, ``for attempt in attempts(60): with attempt: …``, which run the block until no ``Conflict`` ends
    it.

    After ``timeout`` seconds (None: never) the last one is raised.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = FIRST_PAUSE_SECONDS
    while True:
        attempt = Attempt(deadline, pause)
        yield attempt
        if attempt.done:
            return
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
