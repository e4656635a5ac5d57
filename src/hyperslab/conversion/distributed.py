"""Boxes copied by the workers of a dask.distributed cluster.

A task carries the places (URL and options without secrets), what is selected of the array, and one box: never an open
file, a store or a password. Each worker process opens both sides once per conversion and array.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from hyperslab.array.session import DatasetRef, OpenDataset, open_session
from hyperslab.bridges.cluster import each_task, on_every_worker
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.settings import Settings
from hyperslab.conversion.copy import ArrayCopy, CopyProgress, copy_arrays, copy_box
from hyperslab.conversion.journal import ConversionJournal, installed_version
from hyperslab.conversion.opening import NO_CACHE
from hyperslab.conversion.recoding import DerivedChunks
from hyperslab.conversion.selection import ArraySelection
from hyperslab.conversion.staging import StagedTarget, UnpublishedStore, parse_documents
from hyperslab.errors import FormatError, NodeNotFound, Unsupported
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Share, Store
from hyperslab.stores.keys import UNFINISHED
from hyperslab.stores.location import Location

# A worker may die after it has said that a box is done, so each is flushed to the medium.
SETTINGS = Settings(workers=1, cache_bytes=0, durable=True)
# Arrays that a worker keeps open at once, one after another of the same conversion: each holds files or connections.
_MOST_OPEN = 8


@dataclass(frozen=True, eq=False)
class CopyTask:
    """The order to a worker to copy boxes of one array.

    ``name`` is the same for all tasks of one conversion and array; ``target``: its place, or the transaction that it is
    made in. ``hides_documents``: the target's documents are held
    back, see :class:`~hyperslab.conversion.staging.UnpublishedStore`.
    """

    name: str
    source: Location
    target: Location | Share
    hides_documents: bool
    format: str
    path: str
    origin: str
    picked: ArraySelection
    memory: int
    version: str = field(default_factory=installed_version)


def require_reachable(source: Location, target: Location, *, together: bool) -> None:
    """Raise unless workers in other processes can open both sides without secrets that only the caller has.

    ``together``: whether several processes can write this kind of target. Unsupported, Invalid.
    """
    for where in (source, target):
        if where.scheme in ("memory", "store"):
            remedy = "name both sides by paths or URLs that the workers reach"
            raise Unsupported("workers cannot open what lies in this process", url=where.url, remedy=remedy)
        DatasetRef(where, "", "r", SETTINGS).__reduce__()  # Invalid where secrets would have to be sent
    if not together or target.scheme == "zip":
        remedy = "convert to a Zarr folder by the workers, then that one here"
        message = "several processes cannot write a new dataset of this kind together"
        raise Unsupported(message, url=target.url, remedy=remedy)


def copy_distributed(
    client: Any,
    copies: Sequence[ArrayCopy],
    progress: CopyProgress,
    source: Location,
    staged: StagedTarget,
    format: str,
) -> None:
    """Copy all boxes that are not done by the workers of ``client``; references, and arrays that are made, by this
    process."""
    name = f"hyperslab-{id(progress):x}-{client.id}"
    store = staged.where.store(read_only=False) if staged.where.scheme == "store" else None
    try:
        for copy in copies:
            if copy.has_references or isinstance(copy.source, DerivedChunks):
                # References are followed in the open source, and some arrays are made of it: neither can be sent to
                # another process.
                copy_arrays([copy], progress, SETTINGS)
                continue
            copy.threads(1)  # MemoryLimit before anything is sent
            # what the boxes of other arrays have changed is no part of it: they do not need that
            share = None if store is None else store.share()
            sides = (source, share or staged.where, staged.hides_documents, format)
            task = CopyTask(f"{name}/{copy.path}", *sides, copy.path, copy.origin, copy.picked, copy.memory)
            tasks = (((task, box), (copy, number, box)) for number, box in copy.boxes(progress.skip(copy)))
            if store is None:
                each_task(client, run_task, tasks, lambda done: progress(*done))
            else:
                each_task(client, run_shared_task, tasks, lambda done: progress(*done), store.merge)
    finally:
        on_every_worker(client, close_tasks, name)


# -- on the workers ---------------------------------------------------------------------------------------------------


class _OpenTask:
    """Both sides of a task, open, for as many boxes at once as the memory allows.

    ``users``: how many boxes use it. It is closed when it is retired and the last of them is done.
    """

    def __init__(self, task: CopyTask) -> None:
        if task.version != installed_version():
            remedy = "install the same version everywhere"
            raise Unsupported(
                f"hyperslab {installed_version()} on a worker, {task.version} at the client", remedy=remedy
            )
        self.users = 0
        self._retired = False
        place: Location | Store = task.target.open() if isinstance(task.target, Share) else task.target
        if task.hides_documents and isinstance(task.target, Location):
            store = task.target.store(read_only=False)
            documents = ConversionJournal(store, UNFINISHED).documents()
            if documents is None:
                raise FormatError("the target is not being built any more", url=task.target.url)
            place = UnpublishedStore(store, parse_documents(documents))
        with ExitStack() as readers:
            source = open_session(task.source, "r", None, NO_CACHE, {})
            readers.callback(source.reader.close)
            target = open_session(Location.of(place), "r+", task.format, NO_CACHE, {})
            readers.callback(target.reader.close)
            source_spec, target_spec = _read_array(source, task.origin), _read_array(target, task.path)
            chunks = source.reader.chunks(task.origin), target.reader.chunks(task.path)
            self.copy = ArrayCopy(
                task.path, task.picked, chunks[0], source_spec, chunks[1], target_spec, task.memory, task.origin
            )
            # A worker may run many tasks at once, while the memory is meant per process.
            self.room = threading.BoundedSemaphore(self.copy.threads(1 << 16))
            self._readers = readers.pop_all()

    def leave(self) -> None:
        """Count a box as done."""
        self.users -= 1
        self._close_unused()

    def retire(self) -> None:
        """Let no other box use it."""
        self._retired = True
        self._close_unused()

    def _close_unused(self) -> None:
        if self._retired and not self.users:
            with suppress(NodeNotFound):
                self._readers.close()


def _read_array(session: OpenDataset, path: str) -> ArraySpec:
    spec = session.reader.node(path)
    if not spec.is_array:
        raise FormatError("this is no array any more", url=session.url, node=path)
    return spec


_open_tasks: OrderedDict[str, _OpenTask] = OrderedDict()
# Held while sides are opened, counted or closed; never while cells are copied.
_lock = threading.Lock()


def run_shared_task(task: CopyTask, box: Box) -> list[bytes]:
    """Copy one box into the transaction that the target is made in, on a worker; return what that changed.

    Each box has a share of its own: of a worker that dies no box is counted as done whose changes died with it.
    """
    assert isinstance(task.target, Share)
    with _use_open_task(task) as sides, sides.room:
        store = task.target.open()
        target = open_session(Location.of(store), "r+", task.format, NO_CACHE, {})
        copy_box(replace(sides.copy, target=target.reader.chunks(task.path)), box, SETTINGS)
        return [store.changes()]


def run_task(task: CopyTask, box: Box) -> None:
    """Copy one box, on a worker."""
    with _use_open_task(task) as sides, sides.room:
        copy_box(sides.copy, box, SETTINGS)


@contextmanager
def _use_open_task(task: CopyTask) -> Iterator[_OpenTask]:
    """Yield both sides of a task, for one box; those that were not used for the longest time are closed."""
    with _lock:
        # Opened under the lock, so that tasks which arrive together open both sides once.
        if task.name not in _open_tasks:
            _open_tasks[task.name] = _OpenTask(task)
        _open_tasks.move_to_end(task.name)
        sides = _open_tasks[task.name]
        sides.users += 1
        while len(_open_tasks) > _MOST_OPEN:
            _open_tasks.popitem(last=False)[1].retire()
    try:
        yield sides
    finally:
        with _lock:
            sides.leave()


async def close_tasks(name: str) -> None:
    """Close what a conversion left open on a worker."""
    # A worker whose event loop waits for the lock, or for storage, sends no sign of life and is taken for dead.
    await asyncio.to_thread(_close_tasks, name)


def _close_tasks(name: str) -> None:
    with _lock:
        for key in [key for key in _open_tasks if key.startswith(name)]:
            _open_tasks.pop(key).retire()
