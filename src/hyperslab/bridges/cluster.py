"""Tasks in other processes, the workers of a dask.distributed cluster or a pool: a few at a time, and what is done when
one of them fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from hyperslab.bridges.extras import library
from hyperslab.errors import Invalid, StorageError

Mark = TypeVar("Mark")

# Tasks under way for each thread of the cluster: while one runs the next is there already.
_AHEAD = 2
_PATIENCE = 30
"""Seconds to wait for a scheduler, and for the first worker."""
FAREWELL = 60
"""Seconds to wait for tasks that are under way when another one has failed."""


@contextmanager
def client_of(scheduler: Any, patience: float = _PATIENCE) -> Iterator[Any]:
    """Yield the caller's client, or one of our own for the address of a scheduler; at least one worker is there.

    Invalid for anything else, MissingLibrary without dask.distributed, StorageError when there is no scheduler or
    worker within ``patience`` seconds.
    """
    distributed = library("distributed")
    if isinstance(scheduler, distributed.Client):
        if scheduler.asynchronous:
            raise Invalid("the client is asynchronous", remedy="give one that was made with asynchronous=False")
        _await_workers(scheduler, patience)
        yield scheduler
    elif isinstance(scheduler, str):
        try:
            own = distributed.Client(scheduler, timeout=patience)
        except (OSError, ValueError) as error:
            remedy = "start one (dask scheduler), or look whether this is its address"
            raise StorageError(f"there is no scheduler: {error}", url=scheduler, remedy=remedy) from error
        with own:
            _await_workers(own, patience)
            yield own
    else:
        remedy = "give a dask.distributed Client, or the address of its scheduler"
        raise Invalid(f"scheduler={scheduler!r}", remedy=remedy)


def _await_workers(client: Any, patience: float) -> None:
    try:
        client.wait_for_workers(1, timeout=patience)
    except TimeoutError as error:
        remedy = "start some (dask worker ADDRESS), or look why they do not come"
        raise StorageError("the cluster has no workers", url=client.scheduler.address, remedy=remedy) from error


def each_task(
    client: Any,
    work: Callable[..., Any],
    tasks: Iterator[tuple[tuple[Any, ...], Mark]],
    done: Callable[[Mark], None],
    take: Callable[[Any], None] = lambda answer: None,
) -> None:
    """Call ``work(*arguments)`` on the workers for each ``(arguments, mark)``, and here, as they end, ``take`` with the
    answer and ``done(mark)``.

    A task of a worker that dies is done again by another one. When a task fails, or at Ctrl-C, no further ones are sent
    and those under way are waited for: what they write to may be cleared away then.
    """
    distributed = library("distributed")
    under_way: dict[Any, Mark] = {}
    finished = distributed.as_completed()

    def send() -> None:
        task = next(tasks, None)
        if task is not None:
            future = client.submit(work, *task[0], pure=False)
            under_way[future] = task[1]
            finished.add(future)

    try:
        for _ in range(_AHEAD * max(sum(client.nthreads().values()), 1)):
            send()
        for future in finished:
            mark = under_way.pop(future)
            take(future.result())
            done(mark)
            send()
    except BaseException:
        with suppress(Exception):
            distributed.wait(list(under_way), timeout=FAREWELL)
        raise


@dataclass(frozen=True, slots=True)
class Placed:
    """A computed block and its place: the number of its array, and the cells of that."""

    number: int
    extent: tuple[slice, ...]
    block: Any


def each_computed(client: Any, arrays: list[Any], store: Callable[[Placed], None]) -> None:
    """Call ``store`` here with each block of the dask arrays, all of which are :class:`Placed`, as the workers compute
    them together. When one of them fails, or at Ctrl-C, the others are given up."""
    distributed = library("distributed")
    waiting = distributed.futures_of(client.persist(arrays))
    left = set(waiting)
    try:
        for future, block in distributed.as_completed(waiting, with_results=True):
            left.discard(future)
            store(block)
            future.release()
    except BaseException:
        with suppress(Exception):
            client.cancel(list(left))
        raise


def each_computed_in_pool(arrays: list[Any], store: Callable[[Placed], None]) -> None:
    """Store the blocks as :func:`each_computed` does, by dask's own scheduler of processes."""
    base, callbacks = library("dask.base"), library("dask.callbacks")

    def done(key: Any, block: Any, graph: Any, state: dict[str, Any], worker: Any) -> None:
        if isinstance(block, Placed):
            store(block)
            state["cache"][key] = None  # dask would keep all blocks until the last one is computed

    base.persist(*arrays, callbacks=[*callbacks.Callback.active, (None, None, None, done, None)])


def on_every_worker(client: Any, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    """Await ``work(*arguments)`` once in the event loop of each worker process, as far as they can be reached."""
    with suppress(Exception):
        client.run(work, *arguments)
