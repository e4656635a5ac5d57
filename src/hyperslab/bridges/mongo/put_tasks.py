"""Plans carried out: the document of an object and its chunks, at once or as tasks of dask; put, replace, resume.

A task may be done again, here or in another process: the documents it writes have the ids that were chosen with the
plan, and are replaced where they are there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any
from uuid import uuid4

import numpy as np
from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from hyperslab.array.lazy_cells import is_dask_array
from hyperslab.bridges import pint
from hyperslab.bridges.cancellable_tasks import CancellableTasks
from hyperslab.bridges.dask import each_block
from hyperslab.bridges.mongo.origin import ObjectOrigin
from hyperslab.bridges.mongo.put_plan import PutOptions, PutPlan, block_cells, options_for, plan_put
from hyperslab.errors import AlreadyExists, Invalid, Unsupported
from hyperslab.formats.mongo import chunk_queries, objects
from hyperslab.formats.mongo.bson_values import Collections, Document, Sizes
from hyperslab.formats.mongo.chunk_documents import ChunkIndex, IdScheme, make_documents
from hyperslab.formats.mongo.chunk_writes import replace_chunk
from hyperslab.formats.mongo.completeness import find_missing
from hyperslab.formats.mongo.document import Meta, Variable, load_meta, object_exists, parse_object, render_object
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.formats.mongo.indexes import ensure_positional, ensure_write_indexes
from hyperslab.formats.mongo.object_changes import Heartbeats, check_lease, remove_putting_mark, with_putting_mark
from hyperslab.formats.mongo.variables import Slices, chunk_slices, load_object, raise_if_incomplete
from hyperslab.model.coo import Coo


def put_object(
    origin: ObjectOrigin, plan: PutPlan, options: PutOptions, *, is_new: bool = True, has_unique_name: bool = False
) -> Any:
    """Store the object. Return the Delayed that stores the blocks of its dask arrays, or None where there are none.

    Nothing is left of what fails before this returns. AlreadyExists where the id was given and is taken, and where it
    is to have its name alone (``has_unique_name``) and that is.
    """
    if plan.whole or plan.lazy:
        origin = origin.with_one_journal_wait()
    here = _open_for(origin, plan, options)
    id, name = plan.meta.id, plan.meta.name if has_unique_name else None
    taken = AlreadyExists(f"there is an object {id}", remedy="replace() it, or let an id be chosen")
    if not is_new and object_exists(here.meta, id):
        raise taken
    objects.raise_if_named(here.meta, name)  # before cells are sent
    document = render_object(plan.meta)
    last = options.commit == "meta_last"
    is_marked = not last and bool(plan.whole or plan.lazy)  # it is found, and has chunks that may be missing for ever
    completion = PutCompletion(origin, id, options.verify, document if last else None, name=name, is_marked=is_marked)
    try:
        if not last:
            objects.insert_object(*here, with_putting_mark(document) if is_marked else document, name)
        _store_whole_variables(here, plan)
        if not plan.lazy:
            completion.wait_until_stored(here)
            if last:
                objects.insert_object(*here, document, name)
    except DuplicateKeyError:  # somebody else was faster: what is stored is not ours to remove
        raise taken from None
    except BaseException:
        objects.remove_failed_object(*here, id)
        raise
    if plan.lazy:
        return delay_writes(_lazy_tasks(origin, plan), completion)
    completion.finish(here)
    return None


def _open_for(origin: ObjectOrigin, plan: PutPlan, options: PutOptions) -> Collections:
    """Return the collections, with the indexes of the options, for a plan whose tasks can be sent where they run."""
    if plan.lazy:
        origin.check_travel()
    here = origin.open()
    ensure_write_indexes(here, options.search_index)
    if options.positional_index:
        positions = max((len(variable.chunks or ()) for variable in plan.meta.variables.values()), default=0)
        ensure_positional(here.chunks, positions, unique=options.positional_index == "unique")
    return here


def _store_whole_variables(here: Collections, plan: PutPlan) -> None:
    """Store the documents of all variables of a new object that are stored whole."""
    documents = (
        make_documents(plan.ids, plan.meta.id, (name, None), cells, plan.meta.chunk_size)
        for name, cells in plan.whole.items()
    )
    chunk_queries.put_documents_in_parallel(here.chunks, chain.from_iterable(documents))


# -- tasks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BlockTask:
    """The tasks that store the blocks of one variable.

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
        """Return the task of a variable of a plan, in these chunks (None: in those of the plan); ``how``: other
        fields."""
        meta, variable = plan.meta, plan.meta.variables[name]
        cuts = chunks if chunks is not None else variable.chunks or ()
        fields: dict[str, Any] = {"first": (0,) * len(cuts), "chunk_size": meta.chunk_size, **how}
        units = variable.units
        return cls(origin=origin, ids=plan.ids, meta_id=meta.id, name=name, units=units, chunks=cuts, **fields)

    def __dask_tokenize__(self) -> str:
        return uuid4().hex

    def __repr__(self) -> str:
        return f"<Task {self.name!r} of {self.meta_id}>"


@dataclass(frozen=True)
class PutCompletion:
    """The last step, when all blocks are stored: ``document`` is that of the object where it comes last.
    ``is_replacement``: the object is found from then on instead of the old one, whose name is ``name``; ``lease``: the
    old one's id and the name under which it must still be held then."""

    origin: ObjectOrigin
    meta_id: ObjectId
    verify: bool
    document: Document | None = None
    name: Any = None
    is_marked: bool = False
    is_replacement: bool = False
    lease: tuple[ObjectId, str] | None = None

    def wait_until_stored(self, here: Collections) -> None:
        """Wait until all chunks are in the journal. DocumentNotFoundError names one that the server has lost."""
        if not self.origin.wait_for_journal():
            meta = load_meta(here.meta, self.meta_id) if self.document is None else parse_object(self.document)
            raise_if_incomplete(meta, here.chunks)

    def run(self) -> None:
        """Take the step; once more does no harm."""
        here = self.origin.open()
        self.wait_until_stored(here)
        self.finish(here)

    def finish(self, here: Collections) -> None:
        """Let the object be found, or be whole, whose chunks are in the journal."""
        if self.document is not None:
            objects.insert_object_once(*here, self.document, self.name)
        if self.is_marked:
            remove_putting_mark(here.meta, self.meta_id)
        if self.verify:
            raise_if_incomplete(load_meta(here.meta, self.meta_id), here.chunks)
        if self.lease is not None:
            check_lease(here.meta, *self.lease, self.origin.uri)
        if self.is_replacement:
            objects.commit_object(*here, self.meta_id, self.name)


def _lazy_tasks(origin: ObjectOrigin, plan: PutPlan) -> list[tuple[BlockTask, Any]]:
    """Return all dask arrays of a plan, with the tasks that store their blocks."""
    return [(BlockTask.of(origin, plan, name), array) for name, array in plan.lazy.items()]


def delay_writes(tasks: Sequence[tuple[BlockTask, Any]], completion: PutCompletion) -> Any:
    """Return the Delayed that stores all blocks, and then takes the last step; ``compute()`` of it gives None."""
    from dask.delayed import delayed

    written = (each_block(array, write_block, task, "mongo-put") for task, array in tasks)
    return delayed(complete_put, pure=False)(completion, *written)


def complete_put(completion: Any, *written: Any) -> None:
    """Run the task after all others; the answers of those say nothing."""
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
        declared = tuple(sizes[index] for sizes, index in zip(task.chunks, chunk, strict=True))
        fits = [size in (None, found) for size, found in zip(declared, cells.shape, strict=False)]
        if len(cells.shape) != len(declared) or not all(fits):
            message = f"chunk {chunk} of {task.name!r} is of shape {cells.shape}, dask had told {declared}"
            raise Invalid(message, remedy="correct the chunks of the dask array")
    if task.owner is not None:
        check_lease(here.meta, task.meta_id, task.owner, task.origin.uri)
    key = task.name, chunk
    documents = make_documents(task.ids, task.meta_id, key, cells, task.chunk_size)
    if task.replace_existing:
        replace_chunk(here.chunks, task.meta_id, key, list(documents))
    else:
        chunk_queries.put_documents(here.chunks, documents)


# -- replace ----------------------------------------------------------------------------------------------------------
# The new object is stored whole while nobody finds it, then found in place of the old one by one change of its
# document.


def replace_object(origin: ObjectOrigin, options: PutOptions, name_or_id: Any, x: Any) -> tuple[ObjectId, Any]:
    """Store ``x``, and let it take the place of the object of this name or id. Return the new id, and a Delayed or
    None."""
    return put_in_place(origin, options, plan_put(x, options), name_or_id, options.keep_versions)


def put_in_place(
    origin: ObjectOrigin,
    options: PutOptions,
    plan: PutPlan,
    name_or_id: Any,
    keeps: float | None,
    lease: tuple[ObjectId, str] | None = None,
) -> tuple[ObjectId, Any]:
    """Do :func:`replace_object` by a plan. ``keeps``: seconds for which the old object is a version, -1 for ever;
    ``lease``: its id and the name under which it is held, Conflict where it no longer is."""
    origin = origin.with_one_journal_wait()
    here = _open_for(origin, plan, options)
    try:
        name = objects.insert_replacement(here.meta, render_object(plan.meta), name_or_id, keeps=keeps)
        completion = PutCompletion(origin, plan.meta.id, options.verify, name=name, is_replacement=True, lease=lease)
        _store_whole_variables(here, plan)
        if not plan.lazy:
            completion.run()
    except BaseException:
        objects.remove_failed_object(*here, plan.meta.id, unfinished_only=True)
        raise
    return plan.meta.id, delay_writes(_lazy_tasks(origin, plan), completion) if plan.lazy else None


def slice_cells(cells: Any, place: Slices) -> Any:
    """Return the cells of a place with step 1."""
    return cells.part(place) if isinstance(cells, Coo) else cells[place]


# -- resume -----------------------------------------------------------------------------------------------------------
# Only the chunks that are missing are stored, of the same object given again.


def resume_put(origin: ObjectOrigin, options: PutOptions, name_or_id: Any, x: Any) -> Any:
    """Store the chunks that are missing. Return a Delayed for what dask computes, or None.

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
    plan = plan_put(x, options_for(meta, options), id=meta.id)
    _check_same(meta, plan.meta)
    lazy: list[tuple[BlockTask, Any]] = []
    for name, chunk in find_missing(here.meta, here.chunks, meta.id):
        block = _block_of_chunk(plan, meta, name, chunk)
        task = BlockTask.of(origin, plan, name, meta.variables[name].chunks, replace_existing=True)
        if is_dask_array(block) and chunk is not None:
            lazy.append((replace(task, first=chunk), block))
        else:
            store_block(here, task, chunk, block.compute() if is_dask_array(block) else block)
    completion = PutCompletion(origin, meta.id, options.verify, is_marked=True)
    if lazy:
        origin.check_travel()
        return delay_writes(lazy, completion)
    completion.run()
    return None


def _check_same(meta: Meta, other: Meta) -> None:
    """Raise Invalid where the two cannot be the same object."""

    def describe(variable: Variable) -> str:
        shape = ", ".join("?" if size is None else str(size) for size in variable.shape)
        sparse = " sparse" if variable.sparse else ""
        return f"{variable.dtype.newbyteorder('<')}[{shape}]{sparse} of {variable.dims} in {variable.units}"

    if list(meta.variables) != list(other.variables) or set(meta.coords) != set(other.coords):
        found = ", ".join(other.variables)
        raise Invalid(f"the object has the variables {', '.join(meta.variables)}, not {found}", key=str(meta.id))
    for name, variable in meta.variables.items():
        if (detail := describe(variable)) != (found := describe(other.variables[name])):
            raise Invalid(f"variable {name!r} is {detail} in the object, and {found} here", key=str(meta.id))


def _block_of_chunk(plan: PutPlan, meta: Meta, name: str, chunk: ChunkIndex) -> Any:
    """Return the cells of one chunk of the object; of a dask array the block, once it lies in the object's chunks."""
    cells, variable, new = plan.cells[name], meta.variables[name], plan.meta.variables[name]
    if not chunk or variable.chunks is None:
        return cells
    if not is_dask_array(cells):
        return slice_cells(cells, chunk_slices(variable.chunks, chunk))
    if variable.chunks != new.chunks:
        if not variable.has_known_sizes or not new.has_known_sizes:
            raise Invalid(f"the chunks of {name!r} are not those of the object", key=str(meta.id))
        cells = cells.rechunk(variable.chunks)
    return cells.blocks[chunk]
