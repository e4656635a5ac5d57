"""Taking a range out of a dimension: later cells move down, box by box in bounded memory, then the array gets shorter.

A box is moved before the one behind it, so that no cell is overwritten that is not stored elsewhere yet. A crash
leaves the array as long as it was: what lies behind the range is then there in part twice, and nothing of it is lost.
"""

from __future__ import annotations

import operator
from contextlib import nullcontext
from typing import Any

from hyperslab.array import growth
from hyperslab.array.cells import CellAccess
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.boxes import AxisCut, box_counts, boxes, source_edges
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import MEBIBYTE
from hyperslab.errors import Invalid, SelectionError, Unsupported, WrongType
from hyperslab.formats.base import Batches, RemembersRows, Removes
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.positional import select
from hyperslab.selection.region import Range

_BUDGET = 64 * MEBIBYTE
"""Bytes of cells that are moved at a time; one target chunk (shard) where that is more."""


def remove(session: OpenDataset, path: str, where: Any, axis: int) -> None:
    """Take the positions ``where`` out of ``axis`` and close the gap; Unsupported where arrays cannot get shorter."""
    session.writer()
    reader = session.reader
    with reader.batch() if isinstance(reader, Batches) else nullcontext(), session.locked(path):
        session.refresh(path)
        spec = session.array(path)
        start, stop = _range(where, spec.shape[axis], path)
        if start >= stop or (isinstance(reader, Removes) and reader.remove(path, axis, start, stop)):
            return
        if isinstance(reader, RemembersRows):
            message = f"format {session.format.name} has arrays that are as long as their dimension, and never shorter"
            remedy = "convert it to zarr3, or copy what is wanted with convert(select=)"
            raise Unsupported(message, url=session.url, node=path, remedy=remedy)
        _move_down(session, path, spec, axis, start, stop)
        length = spec.shape[axis] - (stop - start)
        growth.shrink(session, path, spec, (*spec.shape[:axis], length, *spec.shape[axis + 1 :]))


def _range(where: Any, length: int, path: str) -> tuple[int, int]:
    """The first position and the one behind the last; SelectionError beyond the end, Invalid for what is no range."""
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
