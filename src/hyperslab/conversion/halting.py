"""The end of work in many threads: the first error or Ctrl-C stops all of them at their next chunk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Halted(Exception):
    """Another thread failed: what it raised is in :attr:`Halt.error`."""


class Halt:
    """True if to stop, asked before each chunk, and a wait until nobody is at work any more."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._running = 0
        self._changed = threading.Condition()

    @contextmanager
    def working(self) -> Iterator[None]:
        """One piece of work; what it raises stops all others."""
        with self._changed:
            self.check()
            self._running += 1
        try:
            yield
        except BaseException as error:
            self.stop(error)
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def stop(self, error: BaseException) -> None:
        """Have every :meth:`check` fail from now on; the first error is the one that counts."""
        if self.error is None and not isinstance(error, Halted):
            self.error = error

    def check(self) -> None:
        """Raise Halted once another thread has failed."""
        if self.error is not None:
            raise Halted

    def settle(self, error: BaseException) -> BaseException:
        """Stop, wait until all work has ended, and give the error that was first."""
        self.stop(error)
        with self._changed:
            self._changed.wait_for(lambda: not self._running)
        return self.error or error
