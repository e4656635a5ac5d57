"""Locks in a store that has none: an object that one writer at a time makes, and keeps alive while it works.

The object is made by a conditional request. Its holder writes it anew every few seconds; when one that stays the same
for :data:`LEASE` seconds, by the clock of those who wait, its holder is dead and the first of them takes it over. A
holder whose lease was taken over, because it was stopped for so long, is told by ``Conflict``, before it writes on no
condition (:meth:`Lease.require`) and at the end of its block. Right before it removes the object it looks whose it is,
for no bucket removes on a condition.
"""

from __future__ import annotations

import os
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from hyperslab.errors import Conflict, HyperslabError
from hyperslab.stores.attempts import kept_waiting
from hyperslab.stores.base import Buffer, Stamp, Version

LEASE = 15.0
"""Seconds after which an object that nobody writes anew is that of a dead writer."""
BEAT = LEASE / 4
"""Seconds after which a holder writes it anew."""
_LONGEST = 0.25


class KeepsLeases(ABC):
    """The operations of a store that a lease needs; keys are not checked, for that of a lock is none.

    ``sightings``: by key the stamp of a lock object of others, and when it was seen first: whoever does not wait learns
    by several looks that its holder is dead.
    """

    sightings: dict[str, tuple[Stamp, float]]

    @abstractmethod
    def swap_lock(self, key: str, value: Buffer, expected: Stamp | None) -> Stamp:
        """Store the lock object if it has the stamp ``expected`` (None: is missing), else ``Conflict``."""

    @abstractmethod
    def read_lock(self, key: str) -> Version | None:
        """Return the lock object; None when missing."""

    @abstractmethod
    def drop_lock(self, key: str) -> None:
        """Remove the lock object."""


@contextmanager
def lease(store: KeepsLeases, key: str, url: str, timeout: float | None) -> Iterator[Lease]:
    """Hold the lock object ``key`` against all other threads and processes; ``Conflict`` after ``timeout`` seconds."""
    holding = Lease(store, key, url)
    holding.acquire(timeout)
    try:
        yield holding
    except BaseException:
        with suppress(HyperslabError):  # what failed in the block says more
            holding.release()
        raise
    holding.release()


class Lease:
    """One lease, from waiting for it to letting go."""

    def __init__(self, store: KeepsLeases, key: str, url: str) -> None:
        self._store = store
        self._key = key
        self._url = url
        self._name = os.urandom(16).hex()
        self._beats = 0
        self._stamp: Any = None
        self._alive = 0.0
        self._lost = False
        self._mutex = threading.Lock()
        self._timer: threading.Timer | None = None

    def acquire(self, timeout: float | None) -> None:
        """Make the object, or take it over from a dead holder."""
        start = time.monotonic()
        pause, stale = 0.01, None
        seen, since = self._store.sightings.get(self._key, (None, start))
        while not self._write(stale):
            now = time.monotonic()
            stale = None
            found = self._store.read_lock(self._key)
            if found is not None and found.stamp != seen:
                seen, since = found.stamp, now
                self._store.sightings[self._key] = seen, since
            elif found is not None and now - since > LEASE:
                stale = seen
                continue
            if timeout is not None and now - start > timeout:
                raise kept_waiting(self._url, self._key)
            if found is not None:
                # Random, so that those who wait do not ask in step; an object that is gone is tried for at once.
                time.sleep(random.uniform(pause / 2, pause))
                pause = min(2 * pause, _LONGEST)
        self._store.sightings.pop(self._key, None)
        self._arm()

    def _write(self, expected: Stamp | None) -> bool:
        """Write the object; return True if it is ours then. A request that is repeated may find what it has written."""
        value = f"{self._name} {self._beats}".encode()
        self._beats += 1
        began = time.monotonic()
        try:
            self._stamp = self._store.swap_lock(self._key, value, expected)
        except Conflict:
            found = self._store.read_lock(self._key)
            if found is None or not self._is_ours(found):
                return False
            self._stamp = found.stamp
        self._alive = began
        return True

    def _arm(self) -> None:
        self._timer = threading.Timer(BEAT, self._beat)
        self._timer.daemon = True
        self._timer.start()

    def _beat(self) -> None:
        with self._mutex:
            if self._timer is None:
                return
            with suppress(HyperslabError):  # the next beat may get through; if none does, the lease ends
                self._lost = not self._write(self._stamp)
            if not self._lost:
                self._arm()

    def release(self) -> None:
        """Remove the object if it is still ours; ``Conflict`` if another writer may have worked meanwhile."""
        with self._mutex:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._renew_if_old()
            if not self._lost:
                with suppress(HyperslabError):  # the block has done its work; what stays is that of a dead writer, soon
                    self._remove()
            if self._lost:
                raise self._taken_over()

    def require(self) -> None:
        """Raise ``Conflict`` if another writer may be at work by now: what this one writes is of an older state."""
        with self._mutex:
            self._renew_if_old()
            if self._lost:
                raise self._taken_over()

    def _renew_if_old(self) -> None:
        """Make sure that an object which has not been heard of for half a lease is still ours: no bucket removes on a
        condition, and it may be taken over in the time of a request."""
        if not self._lost and time.monotonic() - self._alive > LEASE / 2:
            self._lost = not self._write(self._stamp)

    def _taken_over(self) -> Conflict:
        remedy = "look at what was written last, then repeat the change"
        message = "the lock was taken over by another writer, for this one was silent for too long"
        return Conflict(message, url=self._url, key=self._key, remedy=remedy)

    def _remove(self) -> None:
        """Remove the object, unless it is another's: this computer may have slept, and its clock with it."""
        found = self._store.read_lock(self._key)
        self._lost = found is None or not self._is_ours(found)
        if not self._lost:
            self._store.drop_lock(self._key)

    def _is_ours(self, found: Version) -> bool:
        return bytes(found.data).startswith(self._name.encode())
