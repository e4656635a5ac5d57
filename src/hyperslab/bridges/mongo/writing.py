"""Plans carried out: the document of an object and its chunks, at once or as tasks of dask.

A task may be done again, here or in another process: the documents it writes have the ids that were chosen with the
plan, and are replaced where they are there already (reference 4.3).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from itertools import chain, islice
from typing import Any
from uuid import uuid4

import numpy as np
import pymongo
from pymongo.errors import DuplicateKeyError, PyMongoError

from hyperslab.bridges import pint
from hyperslab.bridges.cancellable_tasks import CancellableTasks
from hyperslab.bridges.dask import each_block
from hyperslab.bridges.mongo.cells import plain_cells
from hyperslab.bridges.mongo.options import PutOptions
from hyperslab.bridges.mongo.origin import Collections, ObjectOrigin
from hyperslab.bridges.mongo.planning import PutPlan
from hyperslab.bridges.mongo.reading import check_complete
from hyperslab.errors import AlreadyExists, Invalid, Unsupported
from hyperslab.formats.mongo import lease, names, stored
from hyperslab.formats.mongo.document import render
from hyperslab.formats.mongo.ids import Chunk, Ids
from hyperslab.formats.mongo.indexes import ensure_index, ensure_positional
from hyperslab.formats.mongo.numbers import Sizes
from hyperslab.formats.mongo.segments import documents
from hyperslab.model.coo import Coo
from hyperslab.stores.attempts import attempts, beaten

PATIENCE = 10
"""Seconds that clearing away what was written may take."""
_THREADS = 2
_BEAT = 60.0
"""Seconds between two signs of life, far less than what is collected as garbage is old."""
_REMEMBERED = 1000


def put(
    origin: ObjectOrigin, plan: PutPlan, options: PutOptions, *, is_new: bool = True, is_alone: bool = False
) -> Any:
    """Store the object; the Delayed that stores the blocks of its dask arrays, or None where there are none.

    Nothing is left of what fails before this returns. AlreadyExists where the id was given and is taken, and where it
    is to have its name alone (``is_alone``) and that is.
    """
    if plan.lazy:
        origin.check_travel()
    here = origin.open()
    make_indexes(here, options, plan.positions)
    if not is_new and here.meta.find_one({"_id": plan.meta.id}, {"_id": 1}) is not None:
        raise _taken(plan)
    name = plan.meta.name if is_alone else None
    last = options.commit == "meta_last"
    # Of two that take a name at the same time both may find the other one, and withdraw: they try again.
    for attempt in attempts(PATIENCE):
        with attempt:
            _raise_if_named(here, name)
            _put_at_once(here, plan, name, last=last)
    document = render(plan.meta) if last else None
    ending = Ending(origin, plan.meta.id, document, options.verify, name=name, is_marked=_is_marked(plan, last=last))
    if plan.lazy:
        return delayed_writes(lazy_tasks(origin, plan), ending)
    ending.carry_out()
    return None


def _put_at_once(here: Collections, plan: PutPlan, name: Any, *, last: bool) -> None:
    """Store what is not left to dask; Conflict, and nothing is left, where another object has got the name."""
    try:
        if not last:
            insert(here, marked(plan), name)
        store_whole(here, plan)
        if last and not plan.lazy:
            insert(here, render(plan.meta), name)
    except DuplicateKeyError:  # somebody else was faster: what is stored is not ours to remove
        raise _taken(plan) from None
    except BaseException:
        clear_away(here, plan.meta.id)
        raise


def _is_marked(plan: PutPlan, *, last: bool) -> bool:
    """Return whether the document of an object stands before its chunks, and has any that may be missing for ever."""
    return not last and bool(plan.whole or plan.lazy)


def marked(plan: PutPlan) -> dict[str, Any]:
    """Return the document of an object whose chunks are still to come, which says so."""
    document = render(plan.meta)
    return names.with_mark(document) if _is_marked(plan, last=False) else document


def insert(here: Collections, document: Mapping[str, Any], name: Any) -> None:
    """Store the document of an object that has its name alone (None: with any others). Conflict."""
    here.meta.insert_one(dict(document))
    if name is not None and any(one != document["_id"] for one in names.holders(here.meta, name)):
        here.meta.delete_one({"_id": document["_id"]})
        raise beaten(key=str(name))


def _raise_if_named(here: Collections, name: Any) -> None:
    if name is not None and (others := names.holders(here.meta, name)):
        remedy = "put(..., replace=True) replaces it; or choose another name"
        raise AlreadyExists(f"there is an object with the name {name!r}: {others[0]}", remedy=remedy)


def _taken(plan: PutPlan) -> AlreadyExists:
    return AlreadyExists(f"there is an object {plan.meta.id}", remedy="replace() it, or let an id be chosen")


def make_indexes(here: Collections, options: PutOptions, positions: int) -> None:
    """The indexes that were chosen."""
    ensure_index(here.chunks, best_effort=True)
    if options.positional_index:
        ensure_positional(here.chunks, positions, unique=options.positional_index == "unique")


def store_whole(here: Collections, plan: PutPlan) -> None:
    """All variables that are stored whole, by two connections where they are large: documents of a new object."""
    meta = plan.meta
    batches = stored.batches(
        document
        for name, cells in plan.whole.items()
        for document in documents(plan.ids, meta.id, (name, None), cells, meta.chunk_size)
    )
    first = list(islice(batches, 2))
    if len(first) < 2:
        stored.put(here.chunks, chain.from_iterable(first))
        return
    with ThreadPoolExecutor(_THREADS, "hyperslab-mongo") as threads:
        under_way: deque[Future[None]] = deque()
        for batch in chain(first, batches):
            under_way.append(threads.submit(stored.put, here.chunks, batch))
            if len(under_way) > _THREADS:
                under_way.popleft().result()
        for future in under_way:
            future.result()


def clear_away(here: Collections, meta_id: Any) -> None:
    """Remove an object that could not be stored, as far as the server lets."""
    seconds = here.meta.database.client.options.server_selection_timeout
    with suppress(PyMongoError), pymongo.timeout(min(PATIENCE, max(1, seconds))):
        here.meta.delete_one({"_id": meta_id})
        stored.delete(here.chunks, meta_id)


# -- tasks ------------------------------------------------------------------------------------------------------------


class Task:
    """What the tasks of one variable have in common.

    ``chunks``: sizes of the blocks; ``first``: the chunk that block 0, 0, … is; ``anew``: what is left of a chunk is
    removed before it is stored; ``owner``: nothing is stored once the object is not held under this name any more;
    ``crew``: nothing is stored once it is dismissed.
    """

    def __init__(
        self,
        origin: ObjectOrigin,
        plan: PutPlan,
        name: str,
        *,
        chunks: tuple[Sizes, ...] | None = None,
        anew: bool = False,
        owner: str | None = None,
        crew: CancellableTasks | None = None,
    ) -> None:
        variable = plan.meta.variables[name]
        self.origin = origin
        self.ids: Ids = plan.ids
        self.meta_id = plan.meta.id
        self.name = name
        self.units = variable.units
        self.chunks = chunks if chunks is not None else variable.chunks or ()
        self.chunk_size = plan.meta.chunk_size
        self.first: tuple[int, ...] = (0,) * len(self.chunks)
        self.anew = anew
        self.owner = owner
        self.crew = crew or CancellableTasks()

    def at(self, first: tuple[int, ...]) -> Task:
        """The same for an array whose first block is this chunk."""
        other = copy(self)
        other.first = first
        return other

    def __dask_tokenize__(self) -> str:
        return uuid4().hex

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self.meta_id}>"


class Ending:
    """What is left to do when all blocks are stored: ``document`` is that of the object where it comes last."""

    def __init__(
        self,
        origin: ObjectOrigin,
        meta_id: Any,
        document: Mapping[str, Any] | None,
        verify: bool,
        *,
        name: Any = None,
        is_marked: bool = False,
    ) -> None:
        self.origin = origin
        self.meta_id = meta_id
        self.document = document
        self.verify = verify
        self.name = name
        self.is_marked = is_marked

    def carry_out(self) -> None:
        """Do it; once more does no harm."""
        if self.document is None and not self.verify and not self.is_marked:
            return
        here = self.origin.open()
        if self.document is not None and here.meta.find_one({"_id": self.meta_id}, {"_id": 1}) is None:
            with suppress(DuplicateKeyError):
                self._insert(here, self.document)
        if self.is_marked:
            names.end_mark(here.meta, self.meta_id)
        if self.verify:
            check_complete(here, self.meta_id)

    def _insert(self, here: Collections, document: Mapping[str, Any]) -> None:
        for attempt in attempts(PATIENCE):
            with attempt:
                _raise_if_named(here, self.name)
                insert(here, document, self.name)


def lazy_tasks(origin: ObjectOrigin, plan: PutPlan) -> list[tuple[Task, Any]]:
    """All dask arrays of a plan, with what stores their blocks."""
    return [(Task(origin, plan, name), array) for name, array in plan.lazy.items()]


def delayed_writes(tasks: Sequence[tuple[Task, Any]], ending: Any) -> Any:
    """The Delayed that stores all blocks, and then carries out the ending; ``compute()`` of it gives None."""
    from dask.delayed import delayed

    return delayed(finish, pure=False)(
        ending, *(each_block(array, write_block, task, "mongo-put") for task, array in tasks)
    )


def finish(ending: Any, *written: Any) -> None:
    """The task after all others; the answers of those say nothing."""
    ending.carry_out()


def write_block(block: Any, task: Any = None, block_id: tuple[int, ...] = ()) -> Any:
    """Store one block; its answer is one cell."""
    chunk = tuple(int(index) + first for index, first in zip(block_id, task.first, strict=True))
    with task.crew.at_work():
        here = task.origin.open()
        store(here, task, chunk, block)
        _signs.give(here, task.meta_id)
    return np.ones((1,) * len(chunk), bool)


class _Signs:
    """Signs of life of puts that take long, by which nobody takes them for garbage; one a minute for each object."""

    def __init__(self) -> None:
        self._given: dict[Any, float] = {}

    def give(self, here: Collections, meta_id: Any) -> None:
        """Give one, unless one was given lately."""
        now = time.monotonic()
        if now - self._given.setdefault(meta_id, now) < _BEAT:
            return
        if len(self._given) > _REMEMBERED:
            self._given.clear()
        self._given[meta_id] = now
        names.touch(here.meta, meta_id)


_signs = _Signs()


def store(here: Collections, task: Task, chunk: Chunk, block: Any) -> None:
    """Store the cells of one chunk; doing it again changes nothing. Invalid for another shape than was told, Conflict
    for an object that another one holds."""
    values, units = (block, None) if isinstance(block, Coo) else pint.plain(block)
    if units is not None and units != task.units:
        raise Unsupported(f"a block of {task.name!r} is in {units}", remedy="make it a Quantity of a dask array")
    cells = values if isinstance(values, Coo) else plain_cells(values, task.name)
    if chunk is not None:
        _check_shape(cells.shape, task, chunk)
    if task.owner is not None:
        lease.check(here.meta, task.meta_id, task.owner, task.origin.uri)
    if task.anew:
        where = None if chunk is None else list(chunk)
        here.chunks.delete_many({"meta_id": task.meta_id, "name": {"$eq": task.name}, "chunk": {"$eq": where}})
    stored.put(here.chunks, documents(task.ids, task.meta_id, (task.name, chunk), cells, task.chunk_size))


def _check_shape(shape: tuple[int, ...], task: Task, chunk: tuple[int, ...]) -> None:
    told = tuple(sizes[index] for sizes, index in zip(task.chunks, chunk, strict=True))
    if len(shape) != len(told) or any(size not in (None, found) for size, found in zip(told, shape, strict=True)):
        message = f"chunk {chunk} of {task.name!r} is of shape {shape}, dask had told {told}"
        raise Invalid(message, remedy="correct the chunks of the dask array")
