"""What a put did not come to, stored later: only the chunks that are missing, of the same object given again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bson import ObjectId

from hyperslab.bridges.dask import is_dask_array
from hyperslab.bridges.mongo.cutting import block_of
from hyperslab.bridges.mongo.options import PutOptions
from hyperslab.bridges.mongo.origin import Collections, ObjectOrigin
from hyperslab.bridges.mongo.planning import PutPlan, planned
from hyperslab.bridges.mongo.reading import find
from hyperslab.bridges.mongo.writing import Ending, Task, delayed_writes, put, store
from hyperslab.errors import Invalid
from hyperslab.formats.mongo import stored
from hyperslab.formats.mongo.completeness import missing
from hyperslab.formats.mongo.document import Meta, Variable
from hyperslab.formats.mongo.faults import DocumentNotFoundError
from hyperslab.formats.mongo.objects import resolve
from hyperslab.formats.mongo.segments import Key


def resume(origin: ObjectOrigin, options: PutOptions, name_or_id: Any, x: Any) -> Any:
    """Store what is missing; a Delayed for what dask computes, or None.

    Where the document of the object is missing too (``commit="meta_last"``), all is stored anew under this id.
    """
    here = origin.open()
    try:
        meta = find(here, resolve(here.meta, name_or_id))
    except DocumentNotFoundError:
        if not isinstance(name_or_id, ObjectId):
            raise
        plan = planned(x, options, id=name_or_id)
        stored.delete(here.chunks, name_or_id)
        return put(origin, plan, options)
    plan = planned(x, replace(options, chunk_size_bytes=meta.chunk_size, embed_threshold_bytes=0), id=meta.id)
    _check_same(meta, plan.meta)
    keys = missing(here.meta, here.chunks, meta.id)
    return _store(origin, here, plan, meta, keys, Ending(origin, meta.id, None, options.verify, is_marked=True))


def _check_same(meta: Meta, other: Meta) -> None:
    """Invalid where the two cannot be the same object."""
    if list(meta.variables) != list(other.variables) or set(meta.coords) != set(other.coords):
        found = ", ".join(other.variables)
        raise Invalid(f"the object has the variables {', '.join(meta.variables)}, not {found}", key=str(meta.id))
    for name, variable in meta.variables.items():
        if (said := _kind(variable)) != (found := _kind(other.variables[name])):
            raise Invalid(f"variable {name!r} is {said} in the object, and {found} here", key=str(meta.id))


def _kind(variable: Variable) -> str:
    shape = ", ".join("?" if size is None else str(size) for size in variable.shape)
    sparse = " sparse" if variable.sparse else ""
    return f"{variable.dtype.newbyteorder('<')}[{shape}]{sparse} of {variable.dims} in {variable.units}"


def _store(origin: ObjectOrigin, here: Collections, plan: PutPlan, meta: Meta, keys: list[Key], ending: Ending) -> Any:
    lazy: list[tuple[Task, Any]] = []
    for name, chunk in keys:
        cells = _cells(plan, meta, name)
        task = Task(origin, plan, name, chunks=meta.variables[name].chunks, anew=True)
        block = block_of(cells, meta.variables[name].chunks, chunk)
        if is_dask_array(block) and chunk is not None:
            lazy.append((task.at(chunk), block))
        else:
            store(here, task, chunk, block.compute() if is_dask_array(block) else block)
    if lazy:
        origin.check_travel()
        return delayed_writes(lazy, ending)
    ending.carry_out()
    return None


def _cells(plan: PutPlan, meta: Meta, name: str) -> Any:
    """The cells of a variable; a dask array in the chunks of the object as far as those are known."""
    cells, variable = plan.cells, meta.variables[name]
    if (
        is_dask_array(cells[name])
        and variable.chunks is not None
        and variable.chunks != plan.meta.variables[name].chunks
    ):
        if not variable.known or not plan.meta.variables[name].known:
            raise Invalid(f"the chunks of {name!r} are not those of the object", key=str(meta.id))
        return cells[name].rechunk(variable.chunks)
    return cells[name]
