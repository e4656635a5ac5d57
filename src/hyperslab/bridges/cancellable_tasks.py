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

# Computations that were cancelled, of whose tasks some may still come; more would be kept for as long as a worker runs.
_REMEMBERED = 1000


class Cancelled(Exception):
    """A task that begins after the others have failed; nobody waits for it."""


@dataclass(frozen=True, slots=True)
class CancellableTasks:
    """The tasks of one computation. They carry its name, under which every process knows those at work in it."""

    name: str = field(default_factory=lambda: uuid4().hex)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count one task as at work for the block. Cancelled once the computation has failed."""
        with _counts.changed:
            if self.name in _counts.cancelled:
                raise Cancelled
            _counts.at_work[self.name] = _counts.at_work.get(self.name, 0) + 1
        try:
            yield
        finally:
            with _counts.changed:
                _counts.at_work[self.name] -= 1
                if not _counts.at_work[self.name]:
                    del _counts.at_work[self.name]
                    _counts.changed.notify_all()

    def compute(self, *collections: Any) -> tuple[Any, ...]:
        """Compute what these tasks are part of, all at once, by the scheduler that dask would use, and return it; where
        that fails, or at Ctrl-C, those at work are waited for."""
        base: Any = import_module("dask.base")
        scheduler = base.get_scheduler(collections=list(collections))
        module, pool = getattr(scheduler, "__module__", None), None
        # Only the caller's own pool of processes is watched: dask waits for one that it makes itself.
        if module == "dask.multiprocessing" and (own := import_module("dask.config").get("pool", None)) is not None:
            is_executor = hasattr(own, "submit")
            pool = _WatchedPool(own if is_executor else import_module("dask.local").MultiprocessingPoolExecutor(own))
        try:
            found: tuple[Any, ...] = base.compute(*collections, **({} if pool is None else {"pool": pool}))
            return found
        except BaseException:
            _counts.cancel(self.name)
            if pool is not None:
                pool.wait()
            if module == "distributed.client":
                on_every_worker(scheduler.__self__, cancel, self.name)
            raise


async def cancel(name: str) -> None:
    """Wait for the tasks of this computation in this process, and let no other one begin."""
    await asyncio.to_thread(_counts.cancel, name, FAREWELL)


class _Counts:
    """The number of tasks of each computation that are at work; none are in a forked child."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.changed = threading.Condition()
        self.at_work: dict[str, int] = {}
        self.cancelled: dict[str, None] = {}

    def cancel(self, name: str, timeout: float | None = None) -> None:
        """Let no task begin any more, and wait for those at work."""
        with self.changed:
            self.cancelled[name] = None
            while len(self.cancelled) > _REMEMBERED:
                del self.cancelled[next(iter(self.cancelled))]
            self.changed.wait_for(lambda: name not in self.at_work, timeout)


_counts = _Counts()
call_after_fork(_counts.forget)


class _WatchedPool:
    """A pool of processes that can be waited for."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._max_workers = pool._max_workers
        self._futures: WeakSet[Any] = WeakSet()

    def submit(self, *work: Any) -> Any:
        """Submit one more task."""
        future = self._pool.submit(*work)
        self._futures.add(future)
        return future

    def wait(self) -> None:
        """Wait until no task is under way any more."""
        wait(list(self._futures))
