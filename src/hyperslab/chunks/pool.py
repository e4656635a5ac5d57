"""Threads over chunks: the calling thread and pool threads take batches from one iterator until it is empty."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from hyperslab.stores.forks import call_after_fork

_MANY = 8


class _Pool:
    """Threads that help with the work that callers offer, as many with each as it wants and as are idle.

    No reference is kept to work that is done, or that its caller went on without: it refers to the cells that it is
    about, and these would stay in memory until every thread had found something else to do.
    """

    def __init__(self, size: int) -> None:
        lock = threading.Lock()
        self._offered = threading.Condition(lock)
        self._ended = threading.Condition(lock)
        self._offers: list[_SharedWork] = []
        # Where the system gives no more threads, callers work with those that there are, or alone.
        with contextlib.suppress(RuntimeError):
            for number in range(size):
                threading.Thread(target=self._help, name=f"hyperslab_{number}", daemon=True).start()

    def offer(self, work: _SharedWork) -> None:
        """Have idle threads help with this, now or as soon as they are idle."""
        with self._offered:
            self._offers.append(work)
            self._offered.notify(work.wanted)

    def withdraw(self, work: _SharedWork) -> None:
        """Let no thread begin to help any more, and wait until none does."""
        # First nothing more is given out, then no thread can begin: who waits here waits for those at work alone.
        work.stop()
        with self._ended:
            self._forget(work)
            while work.helpers:
                self._ended.wait()

    def _forget(self, work: _SharedWork) -> None:
        if work in self._offers:
            self._offers.remove(work)

    def _help(self) -> None:
        while True:
            work = self._take()
            work.help()
            with self._ended:
                work.helpers -= 1
                self._forget(work)  # which is done, or stopped
                self._ended.notify_all()
            del work

    def _take(self) -> _SharedWork:
        with self._offered:
            while True:
                for work in self._offers:
                    if work.wanted:
                        work.wanted -= 1
                        work.helpers += 1
                        return work
                self._offered.wait()


class _Pools:
    """One pool per size, made on first use; forgotten in a forked child, whose threads are gone.

    All threads of a pool are started by another thread than the caller's: a Ctrl-C while one is starting would leave
    the pool with fewer.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: whoever held the lock, and the threads of the pools, are not in this process."""
        self.lock = threading.Lock()
        self.by_size: dict[int, _Pool] = {}

    def get(self, size: int) -> _Pool:
        with self.lock:
            if size not in self.by_size:
                starting = threading.Thread(target=self._start, args=(size,), daemon=True)
                try:
                    starting.start()
                except RuntimeError:  # the system gives no more threads
                    return _Pool(0)
                starting.join()
            return self.by_size[size]

    def _start(self, size: int) -> None:
        self.by_size[size] = _Pool(size)


_pools = _Pools()
call_after_fork(_pools.forget)


def each_batch(work: Callable[[Any], None], batches: Iterable[Any], workers: int) -> None:
    """Do ``work`` on every batch, by ``workers`` threads of which the caller is one; the first error stops all and is
    raised.

    The caller goes on when the batches are used up, whether or not a pool thread had time to help: nested use cannot
    block.
    """
    if workers <= 1:
        for batch in batches:
            work(batch)
        return
    shared = _SharedWork(work, batches, workers - 1)
    pool = _pools.get(workers - 1)
    try:
        pool.offer(shared)
        shared.drain()
    finally:
        pool.withdraw(shared)
    if shared.error is not None:
        raise shared.error


def each_if_many(work: Callable[[Any], None], items: Iterable[Any], workers: int) -> None:
    """Do ``work`` on every item: by ``workers`` threads where there are eight or more of them, else by the caller
    alone."""
    rest = iter(items)
    first = list(islice(rest, _MANY))
    each_batch(work, chain(first, rest), workers if len(first) == _MANY else 1)


class _SharedWork:
    """Work on an iterator that several threads draw from: ``wanted`` more of a pool, ``helpers`` are at it."""

    def __init__(self, work: Callable[[Any], None], items: Iterable[Any], wanted: int) -> None:
        self.wanted = wanted
        self.helpers = 0
        self.error: BaseException | None = None
        self._work = work
        self._items = iter(items)
        self._lock = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """Give out nothing more."""
        self._stopped = True

    def drain(self) -> None:
        """Work until nothing is left; an error stops all threads."""
        work = self._work
        try:
            for batch in self:
                work(batch)
        except BaseException:
            self.stop()
            raise

    def help(self) -> None:
        """Work like :meth:`drain` in a thread of a pool, whose first error is kept for the caller."""
        try:
            self.drain()
        except BaseException as error:
            self.error = self.error or error

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._lock:
            if self._stopped:
                raise StopIteration
            return next(self._items)
