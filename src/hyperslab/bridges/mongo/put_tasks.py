"""Plans carried out: the document of an object and its chunks, at once or as tasks of dask; put, replace, resume.

A task may be done again, here or in another process: the documents it writes have the ids that were chosen with the
plan, and are replaced where they are there already (reference 4.3).
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import replace
from itertools import accumulate, chain, islice
from typing import Any
from uuid import uuid4

import numpy as np
import pymongo
from bson import ObjectId
from pymongo.errors import DuplicateKeyError, PyMongoError

from hyperslab.bridges import pint
from hyperslab.bridges.cancellable_tasks import CancellableTasks
from hyperslab.bridges.dask import each_block, is_dask_array
from hyperslab.bridges.mongo.eager_reads import load_object, raise_if_incomplete
from hyperslab.bridges.mongo.origin import Collections, ObjectOrigin
from hyperslab.bridges.mongo.put_plan import PutOptions, PutPlan, block_cells, plan_put
from hyperslab.errors import AlreadyExists, Invalid, NotFound, Unsupported
from hyperslab.formats.mongo import chunk_queries, lease, objects
from hyperslab.formats.mongo.bson_values import Document, MutableDocument, Sizes
from hyperslab.formats.mongo.chunk_documents import ChunkIndex, IdScheme, Key, make_documents
from hyperslab.formats.mongo.chunk_queries import ensure_index, ensure_positional
from hyperslab.formats.mongo.completeness import find_missing
from hyperslab.formats.mongo.document import Meta, Variable, object_exists, render_object
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.formats.mongo.objects import WRITING, commit_object, resolve_id
from hyperslab.model.coo import Coo
from hyperslab.stores.attempts import attempts

PATIENCE = 10
"""Seconds that clearing away what was written may take."""
# While the server stores one batch the client encodes and sends the next: the server takes three quarters of the time
# (docs/benchmarks.md).
_THREADS = 2


def put_object(
    origin: ObjectOrigin, plan: PutPlan, options: PutOptions, *, is_new: bool = True, has_unique_name: bool = False
) -> Any:
    """Store the object; the Delayed that stores the blocks of its dask arrays, or None where there are none.

    Nothing is left of what fails before this returns. AlreadyExists where the id was given and is taken, and where it
    is to have its name alone (``has_unique_name``) and that is.
    """
    if plan.lazy:
        origin.check_travel()
    here = origin.open()
    ensure_indexes(here, options, plan.positions)
    if not is_new and object_exists(here.meta, plan.meta.id):
        raise _id_taken(plan)
    name = plan.meta.name if has_unique_name else None
    last = options.commit == "meta_last"
    # Of two that take a name at the same time both may find the other one, and withdraw: they try again.
    for attempt in attempts(PATIENCE):
        with attempt:
            objects.raise_if_named(here.meta, name)
            _put_at_once(here, plan, name, last=last)
    document = render_object(plan.meta) if last else None
    completion = PutCompletion(
        origin, plan.meta.id, document, options.verify, name=name, is_marked=_is_marked(plan, last=last)
    )
    if plan.lazy:
        return delay_writes(lazy_tasks(origin, plan), completion)
    completion.run()
    return None


def _put_at_once(here: Collections, plan: PutPlan, name: object, *, last: bool) -> None:
    """Store what is not left to dask; Conflict, and nothing is left, where another object has got the name."""
    try:
        if not last:
            objects.insert_named(here.meta, marked_document(plan), name)
        store_whole_variables(here, plan)
        if last and not plan.lazy:
            objects.insert_named(here.meta, render_object(plan.meta), name)
    except DuplicateKeyError:  # somebody else was faster: what is stored is not ours to remove
        raise _id_taken(plan) from None
    except BaseException:
        remove_failed_put(here, plan.meta.id)
        raise


def _is_marked(plan: PutPlan, *, last: bool) -> bool:
    """Return whether the document of an object stands before its chunks, and has any that may be missing for ever."""
    return not last and bool(plan.whole or plan.lazy)


def marked_document(plan: PutPlan) -> MutableDocument:
    """Return the document of an object whose chunks are still to come, which says so."""
    document = render_object(plan.meta)
    return objects.with_putting_mark(document) if _is_marked(plan, last=False) else document


def _id_taken(plan: PutPlan) -> AlreadyExists:
    return AlreadyExists(f"there is an object {plan.meta.id}", remedy="replace() it, or let an id be chosen")


def ensure_indexes(here: Collections, options: PutOptions, positions: int) -> None:
    """The indexes that were chosen."""
    ensure_index(here.chunks, best_effort=True)
    if options.positional_index:
        ensure_positional(here.chunks, positions, unique=options.positional_index == "unique")


def store_whole_variables(here: Collections, plan: PutPlan) -> None:
    """All variables that are stored whole, by two connections where they are large: documents of a new object."""
    meta = plan.meta
    batches = chunk_queries.document_batches(
        document
        for name, cells in plan.whole.items()
        for document in make_documents(plan.ids, meta.id, (name, None), cells, meta.chunk_size)
    )
    first = list(islice(batches, 2))
    if len(first) < 2:
        chunk_queries.put_documents(here.chunks, chain.from_iterable(first))
        return
    with ThreadPoolExecutor(_THREADS, "hyperslab-mongo") as threads:
        under_way: deque[Future[None]] = deque()
        for batch in chain(first, batches):
            under_way.append(threads.submit(chunk_queries.put_documents, here.chunks, batch))
            if len(under_way) > _THREADS:
                under_way.popleft().result()
        for future in under_way:
            future.result()


def remove_failed_put(here: Collections, meta_id: ObjectId, *, unfinished_only: bool = False) -> None:
    """Remove an object that could not be stored, as far as the server lets. ``unfinished_only``: unless it is found."""
    seconds = here.meta.database.client.options.server_selection_timeout
    # The error that is under way must not wait for a server that is gone.
    with suppress(PyMongoError), pymongo.timeout(min(PATIENCE, max(1, seconds))):
        wanted = {"_id": meta_id, **({objects.STATUS: {"$exists": True}} if unfinished_only else {})}
        if here.meta.delete_one(wanted).deleted_count or not unfinished_only:
            chunk_queries.delete_chunks(here.chunks, meta_id)


# -- tasks ------------------------------------------------------------------------------------------------------------


class BlockTask:
    """What the tasks of one variable have in common.

    ``chunks``: sizes of the blocks; ``first``: the chunk that block 0, 0, … is; ``replace_existing``: what is left of
    a chunk is removed before it is stored; ``owner``: nothing is stored once the object is not held under this name any
    more; ``tasks``: nothing is stored once they are cancelled.
    """

    def __init__(
        self,
        origin: ObjectOrigin,
        plan: PutPlan,
        name: str,
        *,
        chunks: tuple[Sizes, ...] | None = None,
        replace_existing: bool = False,
        owner: str | None = None,
        tasks: CancellableTasks | None = None,
    ) -> None:
        variable = plan.meta.variables[name]
        self.origin = origin
        self.ids: IdScheme = plan.ids
        self.meta_id = plan.meta.id
        self.name = name
        self.units = variable.units
        self.chunks = chunks if chunks is not None else variable.chunks or ()
        self.chunk_size = plan.meta.chunk_size
        self.first: tuple[int, ...] = (0,) * len(self.chunks)
        self.replace_existing = replace_existing
        self.owner = owner
        self.tasks = tasks or CancellableTasks()

    def at(self, first: tuple[int, ...]) -> BlockTask:
        """Return the same for an array whose first block is this chunk."""
        other = copy(self)
        other.first = first
        return other

    def __dask_tokenize__(self) -> str:
        return uuid4().hex

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self.meta_id}>"


class PutCompletion:
    """What is left to do when all blocks are stored: ``document`` is that of the object where it comes last."""

    def __init__(
        self,
        origin: ObjectOrigin,
        meta_id: ObjectId,
        document: Document | None,
        verify: bool,
        *,
        name: object = None,
        is_marked: bool = False,
    ) -> None:
        self.origin = origin
        self.meta_id = meta_id
        self.document = document
        self.verify = verify
        self.name = name
        self.is_marked = is_marked

    def run(self) -> None:
        """Do it; once more does no harm."""
        if self.document is None and not self.verify and not self.is_marked:
            return
        here = self.origin.open()
        if self.document is not None and not object_exists(here.meta, self.meta_id):
            with suppress(DuplicateKeyError):
                self._insert(here, self.document)
        if self.is_marked:
            objects.remove_putting_mark(here.meta, self.meta_id)
        if self.verify:
            raise_if_incomplete(here, self.meta_id)

    def _insert(self, here: Collections, document: Document) -> None:
        for attempt in attempts(PATIENCE):
            with attempt:
                objects.raise_if_named(here.meta, self.name)
                objects.insert_named(here.meta, document, self.name)


def lazy_tasks(origin: ObjectOrigin, plan: PutPlan) -> list[tuple[BlockTask, Any]]:
    """Return all dask arrays of a plan, with what stores their blocks."""
    return [(BlockTask(origin, plan, name), array) for name, array in plan.lazy.items()]


def delay_writes(tasks: Sequence[tuple[BlockTask, Any]], completion: object) -> Any:
    """Return the Delayed that stores all blocks, and then carries out the ending; ``compute()`` of it gives None."""
    from dask.delayed import delayed

    return delayed(complete_put, pure=False)(
        completion, *(each_block(array, write_block, task, "mongo-put") for task, array in tasks)
    )


def complete_put(completion: Any, *written: Any) -> None:
    """The task after all others; the answers of those say nothing."""
    completion.run()


def write_block(block: Any, task: Any = None, block_id: tuple[int, ...] = ()) -> Any:
    """Store one block; its answer is one cell."""
    chunk = tuple(int(index) + first for index, first in zip(block_id, task.first, strict=True))
    with task.tasks.at_work():
        here = task.origin.open()
        store_block(here, task, chunk, block)
        _heartbeats.beat(here.meta, task.meta_id)
    return np.ones((1,) * len(chunk), bool)


_heartbeats = objects.Heartbeats()


def store_block(here: Collections, task: BlockTask, chunk: ChunkIndex, block: object) -> None:
    """Store the cells of one chunk; doing it again changes nothing. Invalid for another shape than was told, Conflict
    for an object that another one holds."""
    values, units = (block, None) if isinstance(block, Coo) else pint.plain(block)
    if units is not None and units != task.units:
        raise Unsupported(f"a block of {task.name!r} is in {units}", remedy="make it a Quantity of a dask array")
    cells = values if isinstance(values, Coo) else block_cells(values, task.name)
    if chunk is not None:
        _check_shape(cells.shape, task, chunk)
    if task.owner is not None:
        lease.check_lease(here.meta, task.meta_id, task.owner, task.origin.uri)
    if task.replace_existing:
        where = None if chunk is None else list(chunk)
        here.chunks.delete_many({"meta_id": task.meta_id, "name": {"$eq": task.name}, "chunk": {"$eq": where}})
    chunk_queries.put_documents(
        here.chunks, make_documents(task.ids, task.meta_id, (task.name, chunk), cells, task.chunk_size)
    )


def _check_shape(shape: tuple[int, ...], task: BlockTask, chunk: tuple[int, ...]) -> None:
    told = tuple(sizes[index] for sizes, index in zip(task.chunks, chunk, strict=True))
    if len(shape) != len(told) or any(size not in (None, found) for size, found in zip(told, shape, strict=True)):
        message = f"chunk {chunk} of {task.name!r} is of shape {shape}, dask had told {told}"
        raise Invalid(message, remedy="correct the chunks of the dask array")


# -- replace ----------------------------------------------------------------------------------------------------------
# The new object is stored whole while nobody finds it, then found in place of the old one by one change of its
# document.


def replace_object(origin: ObjectOrigin, options: PutOptions, name_or_id: Any, x: Any) -> tuple[ObjectId, Any]:
    """Store ``x``, and let it take the place of the object of this name or id; the new id, and a Delayed or None."""
    plan = plan_put(x, options)
    if plan.lazy:
        origin.check_travel()
    here = origin.open()
    by_id = isinstance(name_or_id, ObjectId) or ObjectId.is_valid(name_or_id)
    try:
        old = resolve_id(here.meta, name_or_id)
    except NotFound:
        if isinstance(name_or_id, ObjectId):
            raise
        old, by_id = None, False
    name = None if by_id else name_or_id
    extension = {**plan.meta.extension, "status": WRITING, **({"replaces": old} if by_id else {})}
    kept = (here.meta.find_one({"_id": old}, {"name": 1}) or {}).get("name") if by_id else None
    plan = dataclasses.replace(plan, meta=dataclasses.replace(plan.meta, extension=extension, name=kept))
    ensure_indexes(here, options, plan.positions)
    swap = NameSwap(origin, plan.meta.id, name, options.verify)
    try:
        here.meta.insert_one(render_object(plan.meta))
        store_whole_variables(here, plan)
        if not plan.lazy:
            swap.run()
    except BaseException:
        remove_failed_put(here, plan.meta.id, unfinished_only=True)
        raise
    return plan.meta.id, delay_writes(lazy_tasks(origin, plan), swap) if plan.lazy else None


class NameSwap:
    """The change by which a new object is found instead of the old one."""

    def __init__(self, origin: ObjectOrigin, meta_id: ObjectId, name: str | None, verify: bool) -> None:
        self.origin = origin
        self.meta_id = meta_id
        self.name = name
        self.verify = verify

    def run(self) -> None:
        """Make it; once more does no harm."""
        here = self.origin.open()
        if self.verify:
            raise_if_incomplete(here, self.meta_id)
        commit_object(here.meta, here.chunks, self.meta_id, self.name)


# -- parts of cells: NumPy's, sparse ones, or a dask array ------------------------------------------------------------


Slices = tuple[slice, ...]


def chunk_slices(chunks: tuple[Sizes, ...], chunk: tuple[int, ...]) -> Slices:
    """Return the cells of a chunk whose sizes, and those of the chunks before it, are known."""
    ends = [list(accumulate((size or 0 for size in sizes), initial=0)) for sizes in chunks]
    return tuple(slice(end[index], end[index + 1]) for end, index in zip(ends, chunk, strict=True))


def block_of_chunk(cells: object, chunks: tuple[Sizes, ...] | None, chunk: ChunkIndex) -> Any:
    """Return the cells of one chunk; of a dask array in these chunks its block."""
    if chunk is None or chunks is None or not chunk:
        return cells
    return cells.blocks[chunk] if hasattr(cells, "blocks") else slice_cells(cells, chunk_slices(chunks, chunk))


def slice_cells(cells: Any, place: Slices) -> Any:
    """Return the cells of a place with step 1."""
    return cells.part(place) if isinstance(cells, Coo) else cells[place]


def concatenate_cells(axis: int, one: Any, other: Any) -> Any:
    """Return cells behind others, both dense or both sparse with the same fill value."""
    if not isinstance(one, Coo):
        return np.concatenate([one, other], axis)
    moved = np.zeros((len(one.shape), 1), np.intp)
    moved[axis] = one.shape[axis]
    shape = (*one.shape[:axis], one.shape[axis] + other.shape[axis], *one.shape[axis + 1 :])
    coords = np.concatenate([one.coords, other.coords + moved], axis=1)
    return Coo(shape, coords, np.concatenate([one.data, other.data]), one.fill)


# -- resume -----------------------------------------------------------------------------------------------------------
# Only the chunks that are missing are stored, of the same object given again.


def resume_put(origin: ObjectOrigin, options: PutOptions, name_or_id: Any, x: Any) -> Any:
    """Store what is missing; a Delayed for what dask computes, or None.

    Where the document of the object is missing too (``commit="meta_last"``), all is stored anew under this id.
    """
    here = origin.open()
    try:
        meta = load_object(here, resolve_id(here.meta, name_or_id))
    except DocumentNotFoundError:
        if not isinstance(name_or_id, ObjectId):
            raise
        plan = plan_put(x, options, id=name_or_id)
        chunk_queries.delete_chunks(here.chunks, name_or_id)
        return put_object(origin, plan, options)
    plan = plan_put(x, replace(options, chunk_size_bytes=meta.chunk_size, embed_threshold_bytes=0), id=meta.id)
    _check_same(meta, plan.meta)
    keys = find_missing(here.meta, here.chunks, meta.id)
    return _store_missing(
        origin, here, plan, meta, keys, PutCompletion(origin, meta.id, None, options.verify, is_marked=True)
    )


def _check_same(meta: Meta, other: Meta) -> None:
    """Invalid where the two cannot be the same object."""
    if list(meta.variables) != list(other.variables) or set(meta.coords) != set(other.coords):
        found = ", ".join(other.variables)
        raise Invalid(f"the object has the variables {', '.join(meta.variables)}, not {found}", key=str(meta.id))
    for name, variable in meta.variables.items():
        if (detail := _describe(variable)) != (found := _describe(other.variables[name])):
            raise Invalid(f"variable {name!r} is {detail} in the object, and {found} here", key=str(meta.id))


def _describe(variable: Variable) -> str:
    shape = ", ".join("?" if size is None else str(size) for size in variable.shape)
    sparse = " sparse" if variable.sparse else ""
    return f"{variable.dtype.newbyteorder('<')}[{shape}]{sparse} of {variable.dims} in {variable.units}"


def _store_missing(
    origin: ObjectOrigin, here: Collections, plan: PutPlan, meta: Meta, keys: list[Key], completion: PutCompletion
) -> Any:
    lazy: list[tuple[BlockTask, Any]] = []
    for name, chunk in keys:
        cells = _aligned_cells(plan, meta, name)
        task = BlockTask(origin, plan, name, chunks=meta.variables[name].chunks, replace_existing=True)
        block = block_of_chunk(cells, meta.variables[name].chunks, chunk)
        if is_dask_array(block) and chunk is not None:
            lazy.append((task.at(chunk), block))
        else:
            store_block(here, task, chunk, block.compute() if is_dask_array(block) else block)
    if lazy:
        origin.check_travel()
        return delay_writes(lazy, completion)
    completion.run()
    return None


def _aligned_cells(plan: PutPlan, meta: Meta, name: str) -> Any:
    """Return the cells of a variable; a dask array in the chunks of the object as far as those are known."""
    cells, variable = plan.cells, meta.variables[name]
    if (
        is_dask_array(cells[name])
        and variable.chunks is not None
        and variable.chunks != plan.meta.variables[name].chunks
    ):
        if not variable.has_known_sizes or not plan.meta.variables[name].has_known_sizes:
            raise Invalid(f"the chunks of {name!r} are not those of the object", key=str(meta.id))
        return cells[name].rechunk(variable.chunks)
    return cells[name]
