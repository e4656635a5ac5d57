"""Tasks of dask that store: once computing them has failed none of them is at work any more, and none begins.

dask raises what the first task raised while others go on, in its threads and on the workers of a cluster. What those
store would come after what is cleared away then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from hyperslab.bridges.cluster import FAREWELL, on_every_worker
from hyperslab.stores.forks import call_after_fork

_REMEMBERED = 1000
"""Crews that were dismissed, of whose tasks some may still come."""


class Dismissed(Exception):
    """A task that begins after the others have failed; nobody waits for it."""


@dataclass(frozen=True, slots=True)
class CancellableTasks:
    """The tasks of one computation. They carry its name, under which every process knows those at work in it."""

    name: str = field(default_factory=lambda: uuid4().hex)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """What one task stores. Dismissed once the computation has failed."""
        _roll.enter(self.name)
        try:
            yield
        finally:
            _roll.leave(self.name)

    def compute(self, *collections: Any) -> None:
        """Compute what these tasks are part of, all at once, by the scheduler that dask would use; where that fails, or
        at Ctrl-C, those at work are waited for."""
        base: Any = import_module("dask.base")
        scheduler = base.get_scheduler(collections=list(collections))
        pool = _watched(scheduler)
        try:
            base.compute(*collections, **({} if pool is None else {"pool": pool}))
        except BaseException:
            _roll.dismiss(self.name)
            if pool is not None:
                pool.wait()
            if getattr(scheduler, "__module__", None) == "distributed.client":
                on_every_worker(scheduler.__self__, dismiss, self.name)
            raise


async def dismiss(name: str) -> None:
    """Wait for the tasks of this crew in this process, and let no other one begin."""
    await asyncio.to_thread(_roll.dismiss, name, FAREWELL)


# -- in this process ----------------------------------------------------------------------------------------------


class _Roll:
    """How many tasks of each crew are at work; forgotten in a forked child, where none are."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.changed = threading.Condition()
        self.at_work: dict[str, int] = {}
        self.dismissed: dict[str, None] = {}

    def enter(self, name: str) -> None:
        with self.changed:
            if name in self.dismissed:
                raise Dismissed
            self.at_work[name] = self.at_work.get(name, 0) + 1

    def leave(self, name: str) -> None:
        with self.changed:
            self.at_work[name] -= 1
            if not self.at_work[name]:
                del self.at_work[name]
                self.changed.notify_all()

    def dismiss(self, name: str, timeout: float | None = None) -> None:
        with self.changed:
            self.dismissed[name] = None
            while len(self.dismissed) > _REMEMBERED:
                del self.dismissed[next(iter(self.dismissed))]
            self.changed.wait_for(lambda: name not in self.at_work, timeout)


_roll = _Roll()
call_after_fork(_roll.forget)


# -- in other processes -------------------------------------------------------------------------------------------


def _watched(scheduler: Any) -> _Watched | None:
    """The caller's pool of processes; dask waits for one of its own."""
    if getattr(scheduler, "__module__", None) != "dask.multiprocessing":
        return None
    pool = import_module("dask.config").get("pool", None)
    if pool is None:
        return None
    return _Watched(pool if hasattr(pool, "submit") else import_module("dask.local").MultiprocessingPoolExecutor(pool))


class _Watched:
    """A pool, and what it was given to do."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._max_workers = pool._max_workers
        self._given: WeakSet[Any] = WeakSet()

    def submit(self, *work: Any) -> Any:
        """One more task."""
        future = self._pool.submit(*work)
        self._given.add(future)
        return future

    def wait(self) -> None:
        """Until none of it is under way any more."""
        wait(list(self._given))
