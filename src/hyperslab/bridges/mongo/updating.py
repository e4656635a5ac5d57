"""Cells put over others in a region of an object: chunk by chunk, and what stands in its document by a change of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from hyperslab.bridges.mongo.changing import (
    changed,
    check_zones,
    fill_of,
    fitting,
    length_of,
    options_of,
    settle,
    with_variables,
)
from hyperslab.bridges.mongo.cutting import Place, place_of
from hyperslab.bridges.mongo.options import PutOptions
from hyperslab.bridges.mongo.origin import Collections, ObjectOrigin
from hyperslab.bridges.mongo.planning import PutPlan, planned
from hyperslab.bridges.mongo.reading import background_of, joined, padding_of
from hyperslab.errors import Invalid
from hyperslab.formats.mongo import stored
from hyperslab.formats.mongo.changes import ChunkSwap, replace_undoably, swap
from hyperslab.formats.mongo.document import Meta, Variable, embed
from hyperslab.formats.mongo.segments import AssembledChunk, Key, Segment, documents
from hyperslab.formats.mongo.undo import ChunkUndo
from hyperslab.model.coo import Coo, Numbers


@dataclass(frozen=True, slots=True)
class Over:
    """New cells of one variable, and where they go."""

    name: str
    variable: Variable
    cells: Any
    place: Place


def update(origin: ObjectOrigin, options: PutOptions, name_or_id: Any, x: Any, region: Mapping[Any, slice]) -> None:
    """Put the cells of ``x`` into the region."""
    with changed(origin, name_or_id) as (here, meta, owner):
        undo = ChunkUndo(meta=here.meta, chunks=here.chunks, meta_id=meta.id, url=origin.uri, owner=owner)
        plan = planned(x, options_of(meta, options), id=meta.id)
        check_zones(meta, plan)
        overs = [_over(meta, plan, name, region) for name in plan.meta.variables if _is_meant(meta, plan, name, region)]
        inside = {over.name: _embedded(over) for over in overs if over.variable.embedded is not None}
        for over in overs:
            if over.name not in inside:
                _put_over(here, meta, plan, over, undo)
        settle(here, with_variables(meta, inside), owner)  # a copy sees that there was a change


def _is_meant(meta: Meta, plan: PutPlan, name: str, region: Mapping[Any, slice]) -> bool:
    """Coordinates that the region does not touch are not. Invalid for data like that, and for what is not there."""
    unknown = [dim for dim in region if all(dim not in variable.dims for variable in meta.variables.values())]
    if unknown:
        raise Invalid(f"the object has no dimension {unknown[0]!r}", key=str(meta.id))
    touched = any(dim in region for dim in plan.meta.variables[name].dims)
    if name in plan.meta.coords:
        return touched and name in meta.variables
    if name not in meta.variables or not touched:
        why = "has no dimension of the region" if name in meta.variables else "is not in the object"
        raise Invalid(f"variable {name!r} {why}", remedy=f"drop_vars({name!r})")
    return True


def _over(meta: Meta, plan: PutPlan, name: str, region: Mapping[Any, slice]) -> Over:
    variable = meta.variables[name]
    cells = fitting(name, variable, plan)
    place = tuple(
        _cut(name, region.get(dim, slice(None)), length_of(name, variable, axis))
        for axis, dim in enumerate(variable.dims)
    )
    extent = tuple(cut.stop - cut.start for cut in place)
    if tuple(cells.shape) != extent:
        raise Invalid(f"{name!r} is of shape {tuple(cells.shape)}, and the region of {extent}")
    return Over(name, variable, cells, place)


def _cut(name: str, part: Any, size: int) -> slice:
    if not isinstance(part, slice) or part.step not in (None, 1):
        raise Invalid(f"the region of {name!r} is {part!r}", remedy="give slices of positions without a step")
    for bound in (part.start, part.stop):
        if bound is not None and not -size <= bound <= size:
            raise Invalid(f"the region of {name!r} ends outside of its {size} cells", remedy="append() makes it longer")
    start, stop, _ = part.indices(size)
    return slice(start, max(start, stop))


def _embedded(over: Over) -> Variable:
    old = over.variable.embedded
    assert old is not None
    cells = _changed(old.block(), over, over.place, tuple(slice(None) for _ in over.place))
    return replace(over.variable, embedded=embed(over.name, _as_stored(cells, over, old)))


def _as_stored(block: Numbers, over: Over, old: AssembledChunk | None) -> Numbers | Coo:
    """Return the cells as those before them are stored, or as the variable says."""
    if old is None:
        return Coo.of_dense(block, fill_of(over.variable)) if over.variable.sparse else block
    return block if old.first.fill is None else Coo.of_dense(block, np.frombuffer(old.first.fill, old.dtype)[0])


def _changed(block: Numbers, over: Over, target: Place, source: Place) -> Numbers:
    """The block with the new cells in it; those of dask are computed for it."""
    new = over.cells
    part = (new.dense() if isinstance(new, Coo) else new)[source]
    part = part.compute() if hasattr(part, "compute") else part
    where: Any = (*target, ...)
    block[where] = part.todense() if hasattr(part, "todense") else part
    return block


def _put_over(here: Collections, meta: Meta, plan: PutPlan, over: Over, undo: ChunkUndo) -> None:
    touched = list(_touched(over))
    undo.free(key for key, _, _, _ in touched)
    for key, shape, target, source in touched:
        segments = stored.fetch(here.chunks, meta.id, over.name, [key[1]]).get(key[1], [])
        old = None if _is_background(meta, over, segments) else joined(meta.id, key, segments)
        block = _changed(_whole_block(meta, over, old, shape), over, target, source)
        docs = list(documents(plan.ids, meta.id, key, _as_stored(block, over, old), meta.chunk_size))
        known = () if old is None else old.segments
        if len(segments) > len(known):
            replace_undoably(here.chunks, meta.id, key, docs, undo)
        else:
            swap(here.chunks, meta.id, [ChunkSwap(key, docs, known)], undo.url, undo)


def _is_background(meta: Meta, over: Over, segments: list[Segment]) -> bool:
    """Return whether a chunk was never stored, and reads as the fill value."""
    return not segments and background_of(meta, over.name) is not None


def _whole_block(meta: Meta, over: Over, old: AssembledChunk | None, shape: tuple[int, ...]) -> Numbers:
    """Return the cells of a chunk of this length; its documents may be those of a shorter or longer one, or not be
    there."""
    if old is not None and (old.shape == shape or padding_of(meta, over.name) is None):
        return old.block()
    dtype = over.variable.dtype if old is None else old.dtype
    block: Numbers = np.full(shape, padding_of(meta, over.name), dtype)
    if old is not None:
        old.read_common(block)
    return block


def _touched(over: Over) -> Iterator[tuple[Key, tuple[int, ...], Place, Place]]:
    """Return each chunk that the region touches: how long it is, which of its cells, and which of the new ones."""
    shape = tuple(size or 0 for size in over.variable.shape)
    chunks = over.variable.chunks or tuple((size,) for size in shape)
    for chunk in product(*(range(len(sizes)) for sizes in chunks)):
        cuts = place_of(chunks, chunk)
        common = [
            slice(max(cut.start, want.start), min(cut.stop, want.stop))
            for cut, want in zip(cuts, over.place, strict=True)
        ]
        if all(part.start < part.stop for part in common):
            whole = tuple(cut.stop - cut.start for cut in cuts)
            target = tuple(slice(p.start - c.start, p.stop - c.start) for p, c in zip(common, cuts, strict=True))
            source = tuple(slice(p.start - w.start, p.stop - w.start) for p, w in zip(common, over.place, strict=True))
            yield (over.name, None if over.variable.chunks is None else chunk), whole, target, source
