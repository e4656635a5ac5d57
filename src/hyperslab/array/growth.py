"""Growing and shrinking, in an order that a crash or a reader beside it never sees wrong cells (trust P12).

Grow: chunks, then shape. Shrink: shape, then chunks. All under the node's lock, so that appends queue up.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hyperslab.array.cells import CellAccess, open_cells
from hyperslab.array.lazy_cells import is_dask_array, is_sparse
from hyperslab.array.narrowing import require_fit, to_array
from hyperslab.array.session import OpenDataset
from hyperslab.array.view import View
from hyperslab.chunks.boxes import AxisCut, box_counts, boxes, source_edges
from hyperslab.chunks.edges import blank_outside
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.plan import grouped
from hyperslab.chunks.settings import MEBIBYTE
from hyperslab.chunks.source import Block
from hyperslab.errors import Invalid, SelectionError, Unsupported, WrongType
from hyperslab.model.dtypes import DataType
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.positional import select
from hyperslab.selection.region import Range


def append(session: OpenDataset, path: str, data: Any, axis: int) -> None:
    """Write ``data`` behind the last cell of ``axis`` that the array was given, then publish the new shape."""
    with session.lock_node(path):
        session.refresh(path)
        spec = session.array(path)
        values = _fitting(data, spec, path)
        with appending(session, path, values.shape, axis) as rows:
            rows.write(values)


@contextmanager
def appending(
    session: OpenDataset, path: str, data: tuple[int, ...], axis: int, *, is_batched: bool = False
) -> Iterator[View]:
    """Yield the cells for data of that shape behind the last cell of ``axis`` that the array was given. The new shape
    is published when the block ends; where ``is_batched``, when the caller's batch does. For a holder of
    the node's lock.
    """
    writer, spec = session.writer(), session.array(path)
    shape = spec.shape
    if not -len(shape) <= axis < len(shape):
        remedy = f"an axis is from {-len(shape)} to {len(shape) - 1}" if shape else "a scalar does not grow"
        raise Invalid(f"no axis {axis} in {len(shape)} dimensions", node=path, remedy=remedy)
    axis %= len(shape)
    if len(data) != len(shape) or any(a != b for i, (a, b) in enumerate(zip(data, shape, strict=True)) if i != axis):
        raise Invalid(
            f"data of shape {data} does not fit behind {shape} along axis {axis}",
            node=path,
            remedy="every other dimension must have the array's length",
        )
    start = writer.written_length(path, axis)
    stop = start + data[axis]
    grown = grow(spec, (*shape[:axis], max(stop, shape[axis]), *shape[axis + 1 :]))
    if is_batched:  # arrays that grow with one another know of all rows before there are cells to take for dead ones
        writer.put(path, grown)
    cells = open_cells(session, path, grown, None if is_batched else writer.chunks_as(path, grown))
    cells.is_published = False
    yield View(cells, select((*(slice(None),) * axis, slice(start, stop)), grown.shape))
    if not is_batched:
        writer.put(path, grown)
    writer.appended(path, axis, stop)


def _fitting(data: Any, spec: ArraySpec, path: str) -> Any:
    """Return the data as an array, dense; a dask array stays one, of known shape. Raise Invalid, of a dask array when
    it is computed, for cells that do not fit."""
    if is_dask_array(data):
        from hyperslab.bridges.dask import compute_chunk_sizes

        data = compute_chunk_sizes(data)
        meta = np.empty((0,) * data.ndim, data.dtype)
        return data.map_blocks(_fitting_block, spec.dtype, path, dtype=data.dtype, meta=meta)
    return _fitting_block(to_array(data.todense() if is_sparse(data) else data, spec.dtype), spec.dtype, path)


def _fitting_block(block: Any, dtype: DataType, path: str) -> Block:
    cells = np.asarray(block.todense() if is_sparse(block) else block)
    require_fit(cells, dtype, path)
    return cells


def resize(session: OpenDataset, path: str, shape: tuple[int, ...]) -> None:
    """Publish another shape; what falls outside is erased, or set to the fill value in chunks on the edge."""
    writer = session.writer()
    with session.lock_node(path):
        session.refresh(path)
        spec = session.array(path)
        if len(shape) != len(spec.shape) or any(length < 0 for length in shape):
            remedy = f"give {len(spec.shape)} lengths, none below 0"
            raise Invalid(f"{spec.shape} cannot become {shape}", node=path, remedy=remedy)
        # Order: smaller first, then the cells outside are blanked, then larger. Whoever reads meanwhile, or finds what
        # a crash left, sees no cell of before in a place that is new.
        kept = tuple(map(min, shape, spec.shape))
        if shape != spec.shape:
            shrink(session, path, spec, kept, _changed(shape, spec.shape))
        if shape != kept:
            writer.put(path, grow(spec, shape))


def shrink(
    session: OpenDataset, path: str, spec: ArraySpec, shape: tuple[int, ...], axes: list[int] | None = None
) -> None:
    """Publish a smaller shape, by a holder of the node's lock; the cells outside of it along ``axes`` (those that get
    shorter) are blanked."""
    kept, writer = spec.evolve(shape=shape), session.writer()
    outside = _changed(shape, spec.shape) if axes is None else axes
    # A store that transacts shows neither before the other, and removes no chunk outside of the shape that it knows.
    blanks_first = session.transacts
    if blanks_first:
        _blank_outside(session, path, kept, outside)
    if shape != spec.shape:
        writer.put(path, kept)
    if not blanks_first:
        _blank_outside(session, path, kept, outside)


def _changed(shape: tuple[int, ...], before: tuple[int, ...]) -> list[int]:
    return [i for i, (a, b) in enumerate(zip(shape, before, strict=True)) if a != b]


def grow(spec: ArraySpec, shape: tuple[int, ...]) -> ArraySpec:
    """Return the spec with another shape; varying chunk sizes get one more chunk where they no longer reach."""
    chunks = tuple(
        (*cut, length - sum(cut)) if isinstance(cut, tuple) and sum(cut) < length else cut
        for cut, length in zip(spec.chunks, shape, strict=True)
    )
    return spec.evolve(shape=shape, chunks=chunks)


def _blank_outside(session: OpenDataset, path: str, spec: ArraySpec, axes: list[int]) -> None:
    """Make the cells outside ``spec.shape`` along ``axes`` read as the fill value, should the array grow again."""
    source = session.writer().chunks_as(path, spec)
    if not source.traits.lists_chunks:
        return
    # From the end: a reader who knows the longer shape looks at the last cell of a read to see that rows are gone.
    for batch in grouped(sorted(source.stored_coords(), reverse=True), source.grid):
        blank_outside(source, batch, spec.fill_cell(), axes, session.settings)


# -- remove a range ----------------------------------------------------------------------------------------------------
# Later cells move down, box by box in bounded memory, then the array gets shorter.
#
# A box is moved before the one behind it, so that no cell is overwritten that is not stored elsewhere yet. A crash
# leaves the array as long as it was: what lies behind the range is then there in part twice, and nothing of it is
# lost.


# Bytes of cells that are moved at a time; one target chunk (shard) where that is more.
_BUDGET = 64 * MEBIBYTE


def remove(session: OpenDataset, path: str, where: object, axis: int) -> None:
    """Take the positions ``where`` out of ``axis`` and close the gap; Unsupported where arrays cannot get shorter."""
    with session.writer().batch(), session.lock_node(path):
        session.refresh(path)
        spec = session.array(path)
        start, stop = _range(where, spec.shape[axis], path)
        if start >= stop:
            return
        if session.format.traits.shares_lengths:
            message = f"format {session.format.name} has arrays that are as long as their dimension, and never shorter"
            remedy = "convert it to zarr3, or copy what is wanted with convert(select=)"
            raise Unsupported(message, url=session.url, node=path, remedy=remedy)
        _move_down(session, path, spec, axis, start, stop)
        length = spec.shape[axis] - (stop - start)
        shrink(session, path, spec, (*spec.shape[:axis], length, *spec.shape[axis + 1 :]))


def _range(where: Any, length: int, path: str) -> tuple[int, int]:
    """Return the first position and the one behind the last; SelectionError beyond the end, Invalid for what is no
    range."""
    if isinstance(where, slice):
        try:
            chosen = range(*where.indices(length))
        except TypeError as error:
            raise WrongType(f"{where} is no slice of positions: {error}", node=path, remedy="give ints") from None
        if len(chosen) > 1 and abs(chosen.step) != 1:
            remedy = "remove one range after another, the last one first"
            raise Invalid(f"a step of {chosen.step} leaves gaps of their own", node=path, remedy=remedy)
        return (min(chosen), max(chosen) + 1) if chosen else (0, 0)
    try:
        position = operator.index(where)
    except TypeError:
        position = None
    if position is None or isinstance(where, bool):
        raise WrongType(f"{where!r} is no range", node=path, remedy="give one position or label, or a slice of them")
    if not -length <= position < length:
        raise SelectionError(f"there is no position {position} in {length}", node=path, remedy="look at the shape")
    return position % length, position % length + 1


def _move_down(session: OpenDataset, path: str, spec: ArraySpec, axis: int, start: int, stop: int) -> None:
    """Give the cells from ``stop`` on the places from ``start`` on."""
    source = session.reader.chunks(path)
    cells = CellAccess(spec, source, session.settings, None, path, session.url)
    gap = stop - start
    left = (*spec.shape[:axis], spec.shape[axis] - gap, *spec.shape[axis + 1 :])
    written = Grid.of(left, spec.chunks)
    cuts = []
    for i, (target, stored) in enumerate(zip(written.axes, source.grid.axes, strict=True)):
        chosen = Range(gap if i == axis else 0, left[i], 1)
        cuts.append(AxisCut(target, source_edges(stored, chosen)))
    if 0 in left:
        return
    for box in boxes(cuts, box_counts(cuts, max(spec.numpy_dtype.itemsize, 1), _BUDGET)):
        low, high = max(box[axis].start, start), box[axis].stop
        if low < high:
            place, origin = list(box), list(box)
            place[axis], origin[axis] = slice(low, high), slice(low + gap, high + gap)
            cells.write(select(tuple(place), spec.shape), cells.read(select(tuple(origin), spec.shape)))
