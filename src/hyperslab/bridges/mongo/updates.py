"""Objects changed where they lie: cells appended along a dimension, and cells put over those of a region.

One changes an object at a time, under its lease. Cells of chunks are stored first, the change of the document is last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from pymongo.errors import PyMongoError

from hyperslab.array.lazy_cells import is_dask_array
from hyperslab.array.narrowing import cast_remedy
from hyperslab.array.row_labels import Repeated, check_order, check_other_labels, find_repeated
from hyperslab.bridges import sparse
from hyperslab.bridges.cancellable_tasks import CancellableTasks
from hyperslab.bridges.mongo.origin import ObjectOrigin
from hyperslab.bridges.mongo.put_plan import (
    PutOptions,
    PutPlan,
    options_for,
    pandas_description,
    plan_put,
    stored_size,
)
from hyperslab.bridges.mongo.put_tasks import (
    BlockTask,
    PutCompletion,
    delay_writes,
    slice_cells,
    store_block,
)
from hyperslab.errors import Conflict, Invalid, NotFound
from hyperslab.formats.mongo.bson_values import Collections, MutableDocument, Sizes
from hyperslab.formats.mongo.chunk_queries import STORED_WHOLE, delete_chunks
from hyperslab.formats.mongo.chunk_writes import ChunkUndo
from hyperslab.formats.mongo.document import Meta, Variable, embed_cells, load_meta, raise_problems
from hyperslab.formats.mongo.edit_document import with_variables
from hyperslab.formats.mongo.object_changes import (
    change_document,
    check_lease,
    check_object,
    hold_object,
    lease_lost,
    lease_owner,
)
from hyperslab.formats.mongo.objects import resolve_id
from hyperslab.formats.mongo.variables import (
    RegionUpdate,
    Slices,
    chunk_slices,
    concatenate_cells,
    read_cells,
    read_variables,
    sparse_fill,
    update_chunks,
    update_embedded,
)
from hyperslab.model.coo import Coo, Numbers
from hyperslab.model.guessing import meant

# -- what append and update have in common ----------------------------------------------------------------------------


# Seconds to wait for another one who changes the object, longer than a lease lasts that nobody renews (30 s): a holder
# who died is waited for.
PATIENCE = 60


@contextmanager
def hold_named_object(
    origin: ObjectOrigin, name_or_id: Any, *, moves: bool = False
) -> Iterator[tuple[Collections, Meta, str]]:
    """Hold the object of an id, or the one that has a name once it is held; yield the collections, the object, and the
    name under which it is held. ``moves``: as :func:`.hold_lease` says. NotFound, Conflict, Invalid.
    """
    here = origin.open()
    id = resolve_id(here.meta, name_or_id)
    with ExitStack() as stack:
        while True:
            try:
                meta, owner = stack.enter_context(hold_object(*here, id, origin.uri, PATIENCE, moves=moves))
                break
            except (Conflict, NotFound):
                # While it was waited for, another object may have taken the name, as compact() has one do.
                before, id = id, resolve_id(here.meta, name_or_id)
                if id == before:
                    raise
        yield here, meta, owner


@contextmanager
def _hold_readable_object(origin: ObjectOrigin, name_or_id: Any) -> Iterator[tuple[Collections, Meta, str]]:
    """Hold an object, which nobody else changes during the block; yield the collections, the object, and the name under
    which it is held. NotFound, Conflict.
    """
    with hold_named_object(origin, name_or_id) as (here, meta, owner):
        raise_problems(meta)
        yield here, meta, owner


def _no_dimension(meta: Meta, dim: object) -> Invalid:
    """Return the error for a dimension that an object does not have."""
    dims = list(dict.fromkeys(name for variable in meta.variables.values() for name in variable.dims))
    return Invalid(f"the object has no dimension {dim!r}", key=str(meta.id), remedy=meant(str(dim), dims))


def _plan_change(meta: Meta, options: PutOptions, x: object) -> PutPlan:
    """Return the plan for new cells of an object. Invalid for times with a zone that are to join times without one, or
    the other way round."""
    plan = plan_put(x, options_for(meta, options), id=meta.id)
    for name in (name for name in plan.meta.variables if name in meta.variables):
        new, old = (pandas_description(each, name).get("timezone") for each in (plan.meta, meta))
        if (new is None) != (old is None):
            message = f"{name!r} has {'no time zone' if new is None else 'a time zone'}, other than what is stored"
            raise Invalid(message, remedy="tz_localize() one of the two, or tz_localize(None)")
    return plan


def _matching_cells(name: str, variable: Variable, plan: PutPlan, axis: int | None = None) -> Any:
    """Return the new cells of a variable, of its dtype and kind; all lengths but that along ``axis`` are its own.
    Invalid.
    """
    if name not in plan.meta.variables:
        raise Invalid(f"variable {name!r} is missing", remedy="give all variables that have the dimension")
    new, cells = plan.meta.variables[name], plan.cells[name]
    if new.dims != variable.dims:
        raise Invalid(f"{name!r} has the dimensions {new.dims}, not {variable.dims}", remedy="transpose() it")
    if axis is not None and _with_item(new.shape, axis, None) != _with_item(variable.shape, axis, None):
        raise Invalid(f"{name!r} is of shape {new.shape}, and what is stored of {variable.shape}")
    if not new.has_known_sizes:
        raise Invalid(f"the chunk sizes of {name!r} are not known", remedy="call compute_chunk_sizes() of its data")
    _check_units(name, variable, new)
    if not np.can_cast(new.dtype, variable.dtype, "safe"):
        known = None if is_dask_array(cells) else _dense(cells)
        anew = f"get() the object, make its {name!r} of {{dtype}}, add these cells, and replace() it"
        remedy = cast_remedy(known, new.dtype, variable.dtype, anew)
        raise Invalid(f"{name!r} is of dtype {new.dtype}, and what is stored of {variable.dtype}", remedy=remedy)
    cells = cells.astype(variable.dtype)
    if is_dask_array(cells):
        return cells
    if variable.sparse and isinstance(cells, Coo) and cells.fill.tobytes() == variable.fill:
        return cells
    dense = cells.dense() if isinstance(cells, Coo) else cells
    return Coo.of_dense(dense, sparse_fill(variable)) if variable.sparse else dense


def _check_units(name: str, variable: Variable, new: Variable) -> None:
    """Raise Invalid for cells in other units than those that are stored."""
    if new.units != variable.units:
        raise Invalid(f"{name!r} is in {new.units}, and what is stored in {variable.units}", remedy="convert it: to()")


def _dense(cells: Any) -> Numbers:
    """Return cells dense; those of dask are computed."""
    found: Any = cells.dense() if isinstance(cells, Coo) else cells
    block: Numbers = sparse.dense(found.compute() if is_dask_array(found) else found)
    return block


def _known_length(name: str, variable: Variable, axis: int) -> int:
    """Return how long a variable is along an axis. Invalid where nobody knows its sizes."""
    if not variable.has_known_sizes:
        raise Invalid(f"nobody knows the size of {name!r}", remedy="load the object and put it anew")
    return variable.shape[axis] or 0


def _commit_variables(
    origin: ObjectOrigin, here: Collections, meta: Meta, changed: Mapping[str, Variable], owner: str
) -> None:
    """Let the object have these lengths, chunks and embedded cells, if it is still held under this name, and those of
    ``meta`` are what it has. Conflict, Unsupported."""

    def edit(newest: Meta) -> Meta:
        variables = {}
        for name, variable in changed.items():
            now, before = newest.variables.get(name), meta.variables[name]
            if now is None or (now.shape, now.chunks, now.embedded) != (before.shape, before.chunks, before.embedded):
                raise Conflict("the object was changed meanwhile", key=str(meta.id), remedy="read it again and repeat")
            variables[name] = replace(
                now, shape=variable.shape, chunks=variable.chunks, embedded=variable.embedded, dtype=variable.dtype
            )
        return with_variables(newest, variables)

    def reload() -> Meta:
        return load_meta(here.meta, meta.id)

    now = reload()
    if lease_owner(now) != owner:  # another one may have removed the new chunks, and be storing its own
        raise lease_lost(origin.uri, str(meta.id))
    change_document(here.meta, now, edit, url=origin.uri, timeout=PATIENCE, reload=reload, owner=owner)


# -- append: new chunks behind the old ones, then one change of the document ------------------------------------------

# What append may do with rows whose labels are there; the rows of an object are written over by update() alone.
_CHOICES: tuple[Repeated, ...] = ("error", "allow")
_INSTEAD = "update() the cells that are there, or say repeated='allow', which keeps both"


@dataclass(frozen=True, slots=True)
class Growth:
    """The change of one variable: ``parts`` are cells to store, each with the chunk that their first block is.

    ``axis``: the one that grows; ``whole``: it was stored whole, and is in chunks now.
    """

    variable: Variable
    axis: int
    parts: tuple[tuple[tuple[int, ...], Any], ...] = ()
    whole: bool = False


def append_object(
    origin: ObjectOrigin, options: PutOptions, name_or_id: object, x: object, dim: str, repeated: Repeated = "error"
) -> None:
    """Store the cells of ``x`` behind those of an object. ``repeated``: what becomes of rows whose labels are there.
    Invalid for these, for labels that would no longer be in order, and for other labels along other dimensions."""
    with _hold_readable_object(origin, name_or_id) as (here, meta, owner):
        plan = _plan_change(meta, options, x)
        names = [name for name, variable in meta.variables.items() if dim in variable.dims]
        if not names:
            raise _no_dimension(meta, dim)
        if repeated == "overwrite":
            raise Invalid("repeated='overwrite' of an object", remedy="update() writes over cells that are there")
        _check_labels(here, meta, plan, dim, repeated)
        grown = {name: _plan_growth(here, options, meta, name, plan, dim) for name in names}
        variables = {name: growth.variable for name, growth in grown.items()}
        longer = with_variables(meta, variables)
        check_object(longer, origin.uri)
        _remove_leftovers(here, meta, grown)
        try:
            _store_growth(origin, here, replace(plan, meta=with_variables(plan.meta, variables)), grown, owner)
        except BaseException:
            with suppress(PyMongoError, Conflict):  # what another one stored meanwhile is not ours to remove
                check_lease(here.meta, meta.id, owner, origin.uri)
                _remove_leftovers(here, meta, grown)
            raise
        # The document comes last: readers see all new cells, or none. Where nobody knows whether that was done nothing
        # is removed.
        _commit_variables(origin, here, meta, variables, owner)
        for name in (name for name, growth in grown.items() if growth.whole):
            delete_chunks(here.chunks, meta.id, name, STORED_WHOLE)


def _check_labels(here: Collections, meta: Meta, plan: PutPlan, dim: str, repeated: Repeated) -> None:
    """Raise Invalid for rows whose labels are there or would no longer be in order, and for other coordinates along the
    dimensions that do not grow than those that are stored, as :mod:`.row_labels` says. Labels alone are read."""
    names = [
        name
        for name, variable in meta.coords.items()
        if name in plan.meta.variables and (name == dim or dim not in variable.dims)
    ]
    for name, found in read_variables(here, meta, names).items():
        variable, new = meta.variables[name], plan.meta.variables[name]
        stored, labels = _dense(found.cells), _dense(plan.cells[name])
        if set(new.dims) != set(variable.dims):
            message = f"{name!r} has dimensions {new.dims}, stored are {variable.dims}"
            raise Invalid(message, remedy=f"rename its dimensions, or leave it out: drop_vars({name!r})")
        if name == dim and variable.dims == (dim,):
            find_repeated(dim, stored, labels, repeated, choices=_CHOICES, others=_INSTEAD)
            if repeated != "allow":
                check_order(dim, stored, labels, are_times=variable.dtype.kind == "M")
        elif dim not in variable.dims:
            _check_units(name, variable, new)
            labels = labels.transpose([new.dims.index(each) for each in variable.dims])
            check_other_labels(name, stored, labels, [str(each) for each in variable.dims])


def _plan_growth(here: Collections, options: PutOptions, meta: Meta, name: str, plan: PutPlan, dim: str) -> Growth:
    variable = meta.variables[name]
    axis = variable.dims.index(dim)
    cells = _matching_cells(name, variable, plan, axis)
    length = cells.shape[axis]
    shape = _with_item(variable.shape, axis, _known_length(name, variable, axis) + length)
    if variable.chunks is None:
        return _plan_whole_growth(here, options, meta, name, replace(variable, shape=shape), axis, cells)
    if is_dask_array(cells):
        cuts = cells.chunks[axis]
    else:
        size = max(size or 1 for size in variable.chunks[axis])
        cuts = tuple(min(size, length - start) for start in range(0, length, size))
    chunks = _with_item(variable.chunks, axis, (*variable.chunks[axis], *cuts))
    first = _with_item((0,) * len(shape), axis, len(variable.chunks[axis]))
    if is_dask_array(cells):
        cells = cells.rechunk(_with_item(variable.chunks, axis, cuts))
    return Growth(replace(variable, shape=shape, chunks=chunks), axis, ((first, cells),))


def _plan_whole_growth(
    here: Collections, options: PutOptions, meta: Meta, name: str, variable: Variable, axis: int, cells: Any
) -> Growth:
    """Plan the growth of a variable that is stored whole: it stays in the document where it fits, else becomes two
    chunks.
    """
    old = read_cells(here, meta, name)
    if is_dask_array(cells):
        cells = cells.compute()
    together = concatenate_cells(axis, old, cells)
    if variable.embedded is not None and stored_size(together) <= options.embed_threshold_bytes:
        return Growth(replace(variable, embedded=embed_cells(name, together)), axis)
    sizes = tuple((size,) for size in variable.shape)
    chunks: tuple[Sizes, ...] = _with_item(sizes, axis, (old.shape[axis], cells.shape[axis]))
    first = (0,) * len(chunks)
    parts = ((first, old), (_with_item(first, axis, 1), cells))
    return Growth(replace(variable, chunks=chunks, embedded=None), axis, parts, whole=True)


def _with_item(values: tuple[Any, ...], axis: int, value: object) -> tuple[Any, ...]:
    return (*values[:axis], value, *values[axis + 1 :])


# -- storing ----------------------------------------------------------------------------------------------------------


def _remove_leftovers(here: Collections, meta: Meta, grown: Mapping[str, Growth]) -> None:
    """Remove the documents that somebody left where the new chunks are to be."""
    for name, growth in grown.items():
        old = meta.variables[name].chunks
        behind: MutableDocument = (
            {"chunk": {"$ne": None}} if old is None else {f"chunk.{growth.axis}": {"$gte": len(old[growth.axis])}}
        )
        delete_chunks(here.chunks, meta.id, name, behind)


def _store_growth(
    origin: ObjectOrigin, here: Collections, plan: PutPlan, grown: Mapping[str, Growth], owner: str
) -> None:
    lazy = []
    tasks = CancellableTasks()
    for name, growth in grown.items():
        for first, cells in growth.parts:
            task = BlockTask.of(origin, plan, name, owner=owner, tasks=tasks, first=first)
            if is_dask_array(cells):
                lazy.append((task, cells))
            else:
                _store_blocks(here, task, cells, growth)
    if lazy:
        origin.check_travel()
        tasks.compute(delay_writes(lazy, PutCompletion(origin, plan.meta.id, verify=False)))


def _store_blocks(here: Collections, task: BlockTask, cells: Any, growth: Growth) -> None:
    """Store the blocks of cells in memory, from the first one to the end of the cells."""
    chunks = growth.variable.chunks or ()
    origin = [place.start for place in chunk_slices(chunks, task.first)]
    for chunk in product(*(range(one, len(sizes)) for one, sizes in zip(task.first, chunks, strict=True))):
        place = chunk_slices(chunks, chunk)
        inside = tuple(slice(cut.start - at, cut.stop - at) for cut, at in zip(place, origin, strict=True))
        if all(cut.stop <= size for cut, size in zip(inside, cells.shape, strict=True)):
            store_block(here, task, chunk, slice_cells(cells, inside))


# -- update: chunk by chunk; what stands in the document by a change of it --------------------------------------------


_SELECT_REGION = (
    "select region and cells by the same labels; drop_vars({0!r}) puts the cells by position, and an update() of {0!r} "
    "without data changes labels"
)


def update_region(
    origin: ObjectOrigin, options: PutOptions, name_or_id: object, x: object, region: Mapping[Any, slice]
) -> None:
    """Put the cells of ``x`` into the region. Invalid where its labels are not those of the region."""
    with _hold_readable_object(origin, name_or_id) as (here, meta, owner):
        undo = ChunkUndo(meta=here.meta, chunks=here.chunks, meta_id=meta.id, url=origin.uri, owner=owner)
        plan = _plan_change(meta, options, x)
        names = [name for name in plan.meta.variables if _is_updated(meta, plan, name, region)]
        updates = [_plan_update(meta, plan, name, region) for name in names]
        if plan.meta.data_vars:  # labels alone are meant to be changed
            _check_region_labels(here, meta, plan, {update.name: update.place for update in updates})
        inside = {update.name: update_embedded(update) for update in updates if update.variable.embedded is not None}
        for update in updates:
            if update.name not in inside:
                update_chunks(here, meta, plan.ids, update, undo)
        _commit_variables(origin, here, meta, inside, owner)  # a copy sees that there was a change


def _is_updated(meta: Meta, plan: PutPlan, name: str, region: Mapping[Any, slice]) -> bool:
    """Return True if a variable is updated: coordinates that the region does not touch are not. Invalid for data like
    that, and for what is not there."""
    unknown = [dim for dim in region if all(dim not in variable.dims for variable in meta.variables.values())]
    if unknown:
        raise _no_dimension(meta, unknown[0])
    touched = any(dim in region for dim in plan.meta.variables[name].dims)
    if name in plan.meta.coords:
        return touched and name in meta.variables
    if name not in meta.variables or not touched:
        why = "has no dimension of the region" if name in meta.variables else "is not in the object"
        raise Invalid(f"variable {name!r} {why}", remedy=f"drop_vars({name!r})")
    return True


def _check_region_labels(here: Collections, meta: Meta, plan: PutPlan, places: Mapping[str, Slices]) -> None:
    """Raise Invalid where cells have other labels than those of their place: the coordinates of a dimension belong to
    all cells. ``places``: where variables are to be written, which others are not."""
    shared = [name for name, each in meta.coords.items() if each.dims == (name,) and name in plan.meta.coords]
    for name, found in read_variables(here, meta, shared).items():
        _check_units(name, meta.variables[name], plan.meta.variables[name])
        stored = _dense(found.cells)[places.get(name, ...)]
        check_other_labels(name, stored, _dense(plan.cells[name]), [name], remedy=_SELECT_REGION.format(name))


def _plan_update(meta: Meta, plan: PutPlan, name: str, region: Mapping[Any, slice]) -> RegionUpdate:
    variable = meta.variables[name]
    cells = _matching_cells(name, variable, plan)
    place = []
    for axis, dim in enumerate(variable.dims):
        part, size = region.get(dim, slice(None)), _known_length(name, variable, axis)
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise Invalid(f"the region of {name!r} is {part!r}", remedy="give slices of positions without a step")
        if any(bound is not None and not -size <= bound <= size for bound in (part.start, part.stop)):
            raise Invalid(f"the region of {name!r} ends outside of its {size} cells", remedy="append() makes it longer")
        start, stop, _ = part.indices(size)
        place.append(slice(start, max(start, stop)))
    extent = tuple(cut.stop - cut.start for cut in place)
    if tuple(cells.shape) != extent:
        raise Invalid(f"{name!r} is of shape {tuple(cells.shape)}, and the region of {extent}")

    def read(place: Slices) -> Numbers:
        """Return new cells, dense; those of dask are computed."""
        return _dense((cells.dense() if isinstance(cells, Coo) else cells)[place])

    return RegionUpdate(name, variable, tuple(place), read)
