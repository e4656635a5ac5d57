"""An object made longer along a dimension: new chunks behind the old ones, then one change of its document."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pymongo.errors import PyMongoError

from hyperslab.bridges.cancellable_tasks import CancellableTasks
from hyperslab.bridges.dask import is_dask_array
from hyperslab.bridges.mongo.cells import stored_size
from hyperslab.bridges.mongo.changing import (
    changed,
    check_size,
    check_zones,
    fitting,
    length_of,
    options_of,
    settle,
    with_variables,
)
from hyperslab.bridges.mongo.cutting import joined_along, part_of, place_of
from hyperslab.bridges.mongo.options import PutOptions
from hyperslab.bridges.mongo.origin import Collections, ObjectOrigin
from hyperslab.bridges.mongo.planning import PutPlan, planned
from hyperslab.bridges.mongo.reading import cells_of
from hyperslab.bridges.mongo.writing import Ending, Task, delayed_writes, store
from hyperslab.errors import Conflict, Invalid
from hyperslab.formats.mongo.document import Meta, Variable, embed
from hyperslab.formats.mongo.lease import check
from hyperslab.formats.mongo.numbers import Sizes


@dataclass(frozen=True, slots=True)
class Growth:
    """What one variable becomes: ``parts`` are cells to store, each with the chunk that their first block is.

    ``axis``: the one that grows; ``whole``: it was stored whole, and is in chunks now.
    """

    variable: Variable
    axis: int
    parts: tuple[tuple[tuple[int, ...], Any], ...] = ()
    whole: bool = False


def append(origin: ObjectOrigin, options: PutOptions, name_or_id: Any, x: Any, dim: str) -> None:
    """Store the cells of ``x`` behind those of an object."""
    with changed(origin, name_or_id) as (here, meta, owner):
        plan = planned(x, options_of(meta, options), id=meta.id)
        check_zones(meta, plan)
        grown = {
            name: _grown(here, options, meta, name, plan, dim)
            for name, variable in meta.variables.items()
            if dim in variable.dims
        }
        if not grown:
            raise Invalid(f"the object has no dimension {dim!r}", key=str(meta.id))
        variables = {name: growth.variable for name, growth in grown.items()}
        longer = with_variables(meta, variables)
        check_size(longer)
        _clear(here, meta, grown)
        try:
            _store(origin, here, replace(plan, meta=with_variables(plan.meta, variables)), grown, owner)
        except BaseException:
            with suppress(PyMongoError, Conflict):  # what another one stored meanwhile is not ours to remove
                check(here.meta, meta.id, owner, origin.uri)
                _clear(here, meta, grown)
            raise
        settle(here, longer, owner)  # where nobody knows whether that was done nothing is removed
        for name in (name for name, growth in grown.items() if growth.whole):
            here.chunks.delete_many({"meta_id": meta.id, "name": {"$eq": name}, "chunk": None})


def _grown(here: Collections, options: PutOptions, meta: Meta, name: str, plan: PutPlan, dim: str) -> Growth:
    variable = meta.variables[name]
    axis = variable.dims.index(dim)
    cells = fitting(name, variable, plan, axis)
    length = length_of(name, variable, axis)
    shape = (*variable.shape[:axis], length + cells.shape[axis], *variable.shape[axis + 1 :])
    if variable.chunks is None:
        return _grown_whole(here, options, meta, name, replace(variable, shape=shape), axis, cells)
    cuts = cells.chunks[axis] if is_dask_array(cells) else _cut(cells.shape[axis], max(_whole(variable.chunks[axis])))
    chunks = _replaced(variable.chunks, axis, (*variable.chunks[axis], *cuts))
    first = _replaced((0,) * len(shape), axis, len(variable.chunks[axis]))
    if is_dask_array(cells):
        cells = cells.rechunk(_replaced(variable.chunks, axis, cuts))
    return Growth(replace(variable, shape=shape, chunks=chunks), axis, ((first, cells),))


def _grown_whole(
    here: Collections, options: PutOptions, meta: Meta, name: str, variable: Variable, axis: int, cells: Any
) -> Growth:
    """What was stored whole stays in the document where it fits, and else becomes two chunks."""
    old = cells_of(here, meta, name)
    if is_dask_array(cells):
        cells = cells.compute()
    together = joined_along(axis, old, cells)
    if variable.embedded is not None and stored_size(together) <= options.embed_threshold_bytes:
        return Growth(replace(variable, embedded=embed(name, together)), axis)
    sizes = tuple((size,) for size in variable.shape)
    chunks: tuple[Sizes, ...] = _replaced(sizes, axis, (old.shape[axis], cells.shape[axis]))
    first = (0,) * len(chunks)
    parts = ((first, old), (_replaced(first, axis, 1), cells))
    return Growth(replace(variable, chunks=chunks, embedded=None), axis, parts, whole=True)


def _replaced(values: tuple[Any, ...], axis: int, value: Any) -> tuple[Any, ...]:
    return (*values[:axis], value, *values[axis + 1 :])


def _whole(sizes: Sizes) -> list[int]:
    return [size or 1 for size in sizes]


def _cut(length: int, size: int) -> tuple[int, ...]:
    return tuple(min(size, length - start) for start in range(0, length, size))


# -- storing ----------------------------------------------------------------------------------------------------------


def _clear(here: Collections, meta: Meta, grown: Mapping[str, Growth]) -> None:
    """Remove what somebody left where the new chunks are to be."""
    for name, growth in grown.items():
        old = meta.variables[name].chunks
        behind: dict[str, Any] = (
            {"chunk": {"$ne": None}} if old is None else {f"chunk.{growth.axis}": {"$gte": len(old[growth.axis])}}
        )
        here.chunks.delete_many({"meta_id": meta.id, "name": {"$eq": name}, **behind})


def _store(origin: ObjectOrigin, here: Collections, plan: PutPlan, grown: Mapping[str, Growth], owner: str) -> None:
    lazy = []
    crew = CancellableTasks()
    for name, growth in grown.items():
        for first, cells in growth.parts:
            task = Task(origin, plan, name, owner=owner, crew=crew).at(first)
            if is_dask_array(cells):
                lazy.append((task, cells))
            else:
                _store_now(here, task, cells, growth)
    if lazy:
        origin.check_travel()
        crew.compute(delayed_writes(lazy, Ending(origin, plan.meta.id, None, False)))


def _store_now(here: Collections, task: Task, cells: Any, growth: Growth) -> None:
    """The blocks of cells in memory: from the first one to the end of the cells."""
    chunks = growth.variable.chunks or ()
    origin = [place.start for place in place_of(chunks, task.first)]
    for chunk in product(*(range(one, len(sizes)) for one, sizes in zip(task.first, chunks, strict=True))):
        place = place_of(chunks, chunk)
        inside = tuple(slice(cut.start - at, cut.stop - at) for cut, at in zip(place, origin, strict=True))
        if all(cut.stop <= size for cut, size in zip(inside, cells.shape, strict=True)):
            store(here, task, chunk, part_of(cells, inside))
