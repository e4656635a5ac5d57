"""Small chunks of an object joined to larger ones: a new version with the same cells takes the place of the object.

Whoever reads the old one reads on, since its chunks stay for a while as those of an older version.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from bson import ObjectId

from hyperslab.bridges.mongo.origin import ObjectOrigin
from hyperslab.bridges.mongo.put_plan import PutOptions, PutPlan, options_for
from hyperslab.bridges.mongo.put_tasks import put_in_place
from hyperslab.bridges.mongo.reads import lazy_variables
from hyperslab.bridges.mongo.updates import hold_named_object
from hyperslab.errors import Invalid
from hyperslab.formats.mongo.bson_values import Collections
from hyperslab.formats.mongo.chunk_documents import DerivedIds, SaltedIds
from hyperslab.formats.mongo.document import Meta, Variable
from hyperslab.formats.mongo.edit_document import with_variables
from hyperslab.formats.mongo.objects import OF_ONE_OBJECT, remove_failed_object
from hyperslab.formats.mongo.variables import load_object, raise_if_incomplete, read_variables
from hyperslab.model.amounts import is_whole_number

CHUNK_BYTES = 4 << 20
"""Bytes of cells up to which chunks are joined: of a chunk of 4 MiB little is lost by reading a part of it, and a query
for 16 documents of 255 KiB takes hardly more than one for a single document."""


def compact_object(
    origin: ObjectOrigin, options: PutOptions, name_or_id: Any, chunk_bytes: int, keeps: float
) -> ObjectId:
    """Join neighbouring chunks of an object while they have ``chunk_bytes`` of cells at most; return its id, which is
    a new one where there was something to join. ``keeps``: seconds for which the old chunks stay for their readers.
    Conflict for an object that somebody changes all the time; NotFound, Invalid."""
    if not is_whole_number(chunk_bytes) or chunk_bytes < 1:
        raise Invalid(f"chunk_bytes={chunk_bytes!r}", remedy="give a whole number of at least 1")
    # Nobody changes it meanwhile: what comes after it was read would be lost.
    with hold_named_object(origin, name_or_id, moves=True) as (here, known, owner):
        id: ObjectId = known.id
        meta = load_object(here, id)
        raise_if_incomplete(meta, here.chunks)
        joined = {name: join_chunks(variable, chunk_bytes) for name, variable in meta.variables.items()}
        if all(variable.chunks == joined[name].chunks for name, variable in meta.variables.items()):
            return id
        plan = _plan_joined(origin, here, with_variables(meta, joined), meta)
        options = replace(options_for(meta, options), verify=True)
        new, delayed = put_in_place(origin, options, plan, id, keeps, lease=(id, owner))
        if delayed is not None:
            try:
                delayed.compute()
            except BaseException:
                remove_failed_object(*here, new, unfinished_only=True)
                raise
        return new


def join_chunks(variable: Variable, chunk_bytes: int) -> Variable:
    """Return the variable with neighbouring chunks joined, along the axis of most chunks first."""
    if variable.chunks is None or not variable.has_known_sizes:
        return variable
    chunks = [tuple(size or 0 for size in sizes) for sizes in variable.chunks]  # all of them are known
    for axis in sorted(range(len(chunks)), key=lambda axis: -len(chunks[axis])):
        others = prod(max(sizes, default=1) for at, sizes in enumerate(chunks) if at != axis)
        chunks[axis] = _join_sizes(chunks[axis], chunk_bytes // max(others * variable.dtype.itemsize, 1))
    return replace(variable, chunks=tuple(chunks))


def _join_sizes(sizes: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return sizes of neighbours added up as long as the sum is no more than ``most``; no size is cut."""
    joined: list[int] = []
    for size in sizes:
        if joined and joined[-1] + size <= most:
            joined[-1] += size
        else:
            joined.append(size)
    return tuple(joined)


def _plan_joined(origin: ObjectOrigin, here: Collections, joined: Meta, meta: Meta) -> PutPlan:
    """Return the plan of a new object with the cells of another one, in joined chunks."""
    id = ObjectId()
    names = [name for name, variable in meta.variables.items() if variable.embedded is None]
    lazy = [name for name in names if meta.variables[name].chunks is not None]
    whole = [name for name in names if name not in lazy]
    cells = {name: each.cells for name, each in read_variables(here, meta, whole).items()}
    arrays = {name: each.cells for name, each in lazy_variables(origin, here, meta, lazy).items()}
    for name in (name for name in lazy if meta.variables[name].has_known_sizes):
        arrays[name] = arrays[name].rechunk(joined.variables[name].chunks)
    extension = {field: value for field, value in meta.extension.items() if field not in OF_ONE_OBJECT}
    ids = DerivedIds(id) if meta.has_derived_ids else SaltedIds()
    return PutPlan(replace(joined, id=id, extension=extension), cells, arrays, ids)
