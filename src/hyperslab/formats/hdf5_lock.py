"""The lock of the netCDF and HDF5 libraries, which are not safe for threads, and the handles that nobody closed."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Any

_XARRAY = "xarray.backends.locks"
_OF_XARRAY = ("NETCDFC_LOCK", "HDF5_LOCK")


class LibraryLock:
    """One thread at a time, again and again by the same one.

    xarray guards the same libraries by locks of its own: where it is in use they are held too. A handle that was never
    closed would be closed by the garbage collector, in any thread and beside any call; it is closed under the lock.
    """

    def __init__(self) -> None:
        self._own = threading.RLock()
        self._depth = 0
        self._theirs: list[Any] = []
        self._left: deque[Any] = deque()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Wait for it."""
        self._own.acquire()
        try:
            if not self._depth:
                self._take_theirs()
            self._depth += 1
        except BaseException:
            self._give_theirs()
            self._own.release()
            raise
        if self._depth == 1 and self._left:
            try:
                self._close_left()
            except BaseException:  # a key that is pressed meanwhile: nobody would give the lock back
                self.release()
                raise

    def release(self) -> None:
        """Give it back."""
        self._depth -= 1
        if not self._depth:
            self._give_theirs()
        self._own.release()

    def leave(self, *handles: Any) -> None:
        """Close these when the lock is next taken; called by the garbage collector, which must not wait."""
        self._left.extend(handle for handle in handles if handle is not None)

    def _take_theirs(self) -> None:
        module = sys.modules.get(_XARRAY)
        for name in _OF_XARRAY:
            if (lock := getattr(module, name, None)) is not None:
                lock.acquire()
                self._theirs.append(lock)

    def _give_theirs(self) -> None:
        while self._theirs:
            self._theirs.pop().release()

    def _close_left(self) -> None:
        while self._left:
            with suppress(OSError, RuntimeError, ValueError):
                self._left.popleft().close()


LOCK = LibraryLock()
"""Held by whoever calls netCDF4 or h5py; and while the process forks, or the child would find it held for ever."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)
