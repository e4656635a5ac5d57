"""Plans carried out: the document of an object and its chunks, at once or as tasks of dask; put, replace, resume.

A task may be done again, here or in another process: the documents it writes have the ids that were chosen with the
plan, and are replaced where they are there already (reference 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import numpy as np
from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from hyperslab.bridges import pint
from hyperslab.bridges.cancellable_tasks import CancellableTasks
from hyperslab.bridges.dask import each_block, is_dask_array
from hyperslab.bridges.mongo.origin import ObjectOrigin
from hyperslab.bridges.mongo.put_plan import PutOptions, PutPlan, block_cells, plan_put
from hyperslab.errors import AlreadyExists, Invalid, Unsupported
from hyperslab.formats.mongo import chunk_queries, objects
from hyperslab.formats.mongo.bson_values import Collections, Document, Sizes
from hyperslab.formats.mongo.chunk_documents import ChunkIndex, IdScheme, Key, make_documents
from hyperslab.formats.mongo.chunk_queries import ensure_index, ensure_positional
from hyperslab.formats.mongo.chunk_writes import replace_chunk
from hyperslab.formats.mongo.completeness import find_missing
from hyperslab.formats.mongo.document import Meta, Variable, object_exists, render_object
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.formats.mongo.object_changes import Heartbeats, check_lease, remove_putting_mark, with_putting_mark
from hyperslab.formats.mongo.variables import Slices, chunk_slices, load_object, raise_if_incomplete
from hyperslab.model.coo import Coo


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
    id, name = plan.meta.id, plan.meta.name if has_unique_name else None
    if not is_new and object_exists(here.meta, id):
        raise _id_taken(id)
    objects.raise_if_named(here.meta, name)  # before cells are sent
    document = render_object(plan.meta)
    last = options.commit == "meta_last"
    is_marked = not last and bool(plan.whole or plan.lazy)  # it is found, and has chunks that may be missing for ever
    try:
        if not last:
            objects.insert_object(*here, with_putting_mark(document) if is_marked else document, name)
        store_whole_variables(here, plan)
        if last and not plan.lazy:
            objects.insert_object(*here, document, name)
    except DuplicateKeyError:  # somebody else was faster: what is stored is not ours to remove
        raise _id_taken(id) from None
    except BaseException:
        objects.remove_failed_object(*here, id)
        raise
    completion = PutCompletion(origin, id, document if last else None, options.verify, name=name, is_marked=is_marked)
    if plan.lazy:
        return delay_writes(lazy_tasks(origin, plan), completion)
    completion.run()
    return None


def _id_taken(id: ObjectId) -> AlreadyExists:
    return AlreadyExists(f"there is an object {id}", remedy="replace() it, or let an id be chosen")


def ensure_indexes(here: Collections, options: PutOptions, positions: int) -> None:
    """Make the indexes that were chosen."""
    ensure_index(here.chunks, best_effort=True)
    if options.positional_index:
        ensure_positional(here.chunks, positions, unique=options.positional_index == "unique")


def store_whole_variables(here: Collections, plan: PutPlan) -> None:
    """Store all variables that are stored whole: documents of a new object."""
    chunk_queries.put_documents_in_parallel(
        here.chunks,
        (
            document
            for name, cells in plan.whole.items()
            for document in make_documents(plan.ids, plan.meta.id, (name, None), cells, plan.meta.chunk_size)
        ),
    )


# -- tasks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BlockTask:
    """What the tasks of one variable have in common.

    ``chunks``: sizes of the blocks; ``first``: the chunk that block 0, 0, … is; ``replace_existing``: what is left of
    a chunk is removed before it is stored; ``owner``: nothing is stored once the object is not held under this name any
    more; ``tasks``: nothing is stored once they are cancelled.
    """

    origin: ObjectOrigin
    ids: IdScheme
    meta_id: ObjectId
    name: str
    units: str | None
    chunks: tuple[Sizes, ...]
    chunk_size: int
    first: tuple[int, ...]
    replace_existing: bool = False
    owner: str | None = None
    tasks: CancellableTasks = field(default_factory=CancellableTasks)

    @classmethod
    def of(
        cls, origin: ObjectOrigin, plan: PutPlan, name: str, chunks: tuple[Sizes, ...] | None = None, **how: Any
    ) -> BlockTask:
        """Return the task of a variable of a plan; ``chunks`` None: those of the plan."""
        meta, variable = plan.meta, plan.meta.variables[name]
        cuts = chunks if chunks is not None else variable.chunks or ()
        return cls(
            origin=origin,
            ids=plan.ids,
            meta_id=meta.id,
            name=name,
            units=variable.units,
            chunks=cuts,
            chunk_size=meta.chunk_size,
            first=(0,) * len(cuts),
            **how,
        )

    def at(self, first: tuple[int, ...]) -> BlockTask:
        """Return the same for an array whose first block is this chunk."""
        return replace(self, first=first)

    def __dask_tokenize__(self) -> str:
        return uuid4().hex

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self.meta_id}>"


@dataclass(frozen=True)
class PutCompletion:
    """What is left to do when all blocks are stored: ``document`` is that of the object where it comes last."""

    origin: ObjectOrigin
    meta_id: ObjectId
    document: Document | None
    verify: bool
    name: object = None
    is_marked: bool = False

    def run(self) -> None:
        """Do it; once more does no harm."""
        if self.document is None and not self.verify and not self.is_marked:
            return
        here = self.origin.open()
        if self.document is not None:
            objects.insert_object_once(*here, self.document, self.name)
        if self.is_marked:
            remove_putting_mark(here.meta, self.meta_id)
        if self.verify:
            raise_if_incomplete(here, self.meta_id)


def lazy_tasks(origin: ObjectOrigin, plan: PutPlan) -> list[tuple[BlockTask, Any]]:
    """Return all dask arrays of a plan, with what stores their blocks."""
    return [(BlockTask.of(origin, plan, name), array) for name, array in plan.lazy.items()]


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


_heartbeats = Heartbeats()


def store_block(here: Collections, task: BlockTask, chunk: ChunkIndex, block: object) -> None:
    """Store the cells of one chunk; doing it again changes nothing. Invalid for another shape than dask declares,
    Conflict for an object that another one holds."""
    values, units = (block, None) if isinstance(block, Coo) else pint.plain(block)
    if units is not None and units != task.units:
        raise Unsupported(f"a block of {task.name!r} is in {units}", remedy="make it a Quantity of a dask array")
    cells = values if isinstance(values, Coo) else block_cells(values, task.name)
    if chunk is not None:
        _check_shape(cells.shape, task, chunk)
    if task.owner is not None:
        check_lease(here.meta, task.meta_id, task.owner, task.origin.uri)
    key = task.name, chunk
    documents = make_documents(task.ids, task.meta_id, key, cells, task.chunk_size)
    if task.replace_existing:
        replace_chunk(here.chunks, task.meta_id, key, list(documents))
    else:
        chunk_queries.put_documents(here.chunks, documents)


def _check_shape(shape: tuple[int, ...], task: BlockTask, chunk: tuple[int, ...]) -> None:
    declared = tuple(sizes[index] for sizes, index in zip(task.chunks, chunk, strict=True))
    if len(shape) != len(declared) or any(
        size not in (None, found) for size, found in zip(declared, shape, strict=True)
    ):
        message = f"chunk {chunk} of {task.name!r} is of shape {shape}, dask had told {declared}"
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
    ensure_indexes(here, options, plan.positions)
    try:
        name = objects.insert_replacement(here.meta, render_object(plan.meta), name_or_id)
        swap = NameSwap(origin, plan.meta.id, name, options.verify)
        store_whole_variables(here, plan)
        if not plan.lazy:
            swap.run()
    except BaseException:
        objects.remove_failed_object(*here, plan.meta.id, unfinished_only=True)
        raise
    return plan.meta.id, delay_writes(lazy_tasks(origin, plan), swap) if plan.lazy else None


@dataclass(frozen=True)
class NameSwap:
    """The change by which a new object is found instead of the old one."""

    origin: ObjectOrigin
    meta_id: ObjectId
    name: str | None
    verify: bool

    def run(self) -> None:
        """Make it; once more does no harm."""
        here = self.origin.open()
        if self.verify:
            raise_if_incomplete(here, self.meta_id)
        objects.commit_object(*here, self.meta_id, self.name)


# -- parts of cells: NumPy's, sparse ones, or a dask array ------------------------------------------------------------


def block_of_chunk(cells: object, chunks: tuple[Sizes, ...] | None, chunk: ChunkIndex) -> Any:
    """Return the cells of one chunk; of a dask array in these chunks its block."""
    if chunk is None or chunks is None or not chunk:
        return cells
    return cells.blocks[chunk] if hasattr(cells, "blocks") else slice_cells(cells, chunk_slices(chunks, chunk))


def slice_cells(cells: Any, place: Slices) -> Any:
    """Return the cells of a place with step 1."""
    return cells.part(place) if isinstance(cells, Coo) else cells[place]


# -- resume -----------------------------------------------------------------------------------------------------------
# Only the chunks that are missing are stored, of the same object given again.


def resume_put(origin: ObjectOrigin, options: PutOptions, name_or_id: Any, x: Any) -> Any:
    """Store what is missing; a Delayed for what dask computes, or None.

    Where the document of the object is missing too (``commit="meta_last"``), all is stored anew under this id.
    """
    here = origin.open()
    try:
        meta = load_object(here, objects.resolve_id(here.meta, name_or_id))
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
        task = BlockTask.of(origin, plan, name, chunks=meta.variables[name].chunks, replace_existing=True)
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
