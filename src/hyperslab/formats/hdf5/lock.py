"""The lock of the netCDF and HDF5 libraries, which are not safe for threads, and handles that were never closed."""

from __future__ import annotations

import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Any

from hyperslab.stores.forks import call_around_fork

_XARRAY_MODULE = "xarray.backends.locks"
_XARRAY_LOCKS = ("NETCDFC_LOCK", "HDF5_LOCK")


class LibraryLock:
    """A reentrant lock for one thread at a time.

    xarray guards the same libraries by locks of its own: where it is in use they are held too. A handle that was never
    closed would be closed by the garbage collector, in any thread and beside any call; it is closed under the lock.
    """

    def __init__(self) -> None:
        self._own = threading.RLock()
        self._depth = 0
        self._xarray_locks: list[Any] = []
        self._abandoned: deque[Any] = deque()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Wait for the lock, first ours, then xarray's: always in this order, so that no two threads block each other;
        then close the handles that were abandoned."""
        self._own.acquire()
        try:
            module = None if self._depth else sys.modules.get(_XARRAY_MODULE)
            for name in _XARRAY_LOCKS:
                if (lock := getattr(module, name, None)) is not None:
                    lock.acquire()
                    self._xarray_locks.append(lock)
            self._depth += 1
        except BaseException:
            self._release_xarray_locks()
            self._own.release()
            raise
        try:
            while self._depth == 1 and self._abandoned:
                with suppress(OSError, RuntimeError, ValueError):
                    self._abandoned.popleft().close()
        except BaseException:  # a keyboard interrupt meanwhile: nobody would release the lock
            self.release()
            raise

    def release(self) -> None:
        """Release xarray's locks and ours."""
        self._depth -= 1
        if not self._depth:
            self._release_xarray_locks()
        self._own.release()

    def close_later(self, *handles: object) -> None:
        """Close these when the lock is next acquired; called by the garbage collector, which must not wait."""
        self._abandoned.extend(handle for handle in handles if handle is not None)

    def _release_xarray_locks(self) -> None:
        while self._xarray_locks:
            self._xarray_locks.pop().release()


LOCK = LibraryLock()
"""Hold it while calling netCDF4 or h5py. A fork holds it too, or the child would find it held for ever."""

call_around_fork(LOCK.acquire, LOCK.release, LOCK.release)
