"""Threads over chunks: the calling thread and pool threads take batches from one iterator until it is empty."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

Item = TypeVar("Item")
_MANY = 8


class _Pools:
    """One pool per size, made on first use; forgotten in a forked child, whose threads are gone.

    All threads of a pool are started at once, and by another thread than the caller's: a Ctrl-C while one is starting
    would leave it unknown to its pool, and Python waits for it for ever when the process ends.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: whoever held the lock, and the threads of the pools, are not in this process."""
        self.lock = threading.Lock()
        self.by_size: dict[int, ThreadPoolExecutor] = {}

    def get(self, size: int) -> ThreadPoolExecutor:
        with self.lock:
            if size not in self.by_size:
                pool = self.by_size[size] = ThreadPoolExecutor(size, thread_name_prefix="hyperslab")
                starting = threading.Thread(target=_start_all, args=(pool, size), daemon=True)
                starting.start()
                starting.join()
            return self.by_size[size]


def _start_all(pool: ThreadPoolExecutor, size: int) -> None:
    """Have a pool start its threads: as many tasks as it has threads, all of which wait for one another."""
    together = threading.Barrier(size)
    for task in [pool.submit(together.wait) for _ in range(size)]:
        task.result()


_pools = _Pools()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.forget)


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items, so many at a time."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def each_batch(work: Callable[[Any], None], batches: Iterable[Any], workers: int) -> None:
    """``work`` every batch, by ``workers`` threads of which the caller is one; the first error stops all and is raised.

    Work that no pool thread has begun when the caller runs out of batches is left out, so that nested use cannot block.
    """
    if workers <= 1:
        for batch in batches:
            work(batch)
        return
    source = _Shared(batches)
    helpers = [_pools.get(workers - 1).submit(_drain, work, source) for _ in range(workers - 1)]
    try:
        _drain(work, source)
    finally:
        source.stop()
        running: list[Future[None]] = [helper for helper in helpers if not helper.cancel()]
        for helper in running:
            helper.exception()
    for helper in running:
        helper.result()


def each_if_many(work: Callable[[Any], None], items: Iterable[Any], workers: int) -> None:
    """``work`` every item: by ``workers`` threads where there are eight or more of them, else by the caller alone."""
    rest = iter(items)
    first = list(islice(rest, _MANY))
    each_batch(work, chain(first, rest), workers if len(first) == _MANY else 1)


def _drain(work: Callable[[Any], None], source: _Shared) -> None:
    try:
        for batch in source:
            work(batch)
    except BaseException:
        source.stop()
        raise


class _Shared:
    """An iterator that several threads draw from."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self._lock = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """Give out nothing more."""
        self._stopped = True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._lock:
            if self._stopped:
                raise StopIteration
            return next(self._items)
