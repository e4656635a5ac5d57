"""From NumPy keys, masks and boxes to the canonical regions that references hold.

Equal selections give equal regions: the first of everything, slices, orthogonal and blocks that can say it. Cells that
are named one by one stay points, in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from hyperslab.errors import SelectionError
from hyperslab.model.cells import Values
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Shape, Steps
from hyperslab.selection.keys import plain_items, slice_range, unfit_mask, wrapped, wrapped_many
from hyperslab.selection.positional import select
from hyperslab.selection.region import PositionList as Positions
from hyperslab.selection.region import Range
from hyperslab.selection.region_bounds import Taken, positions_of
from hyperslab.selection.spans import Box, Runs, Spans, as_product, boxes_of, spans_of_boxes, spans_of_mask

# -- from keys --------------------------------------------------------------------------------------------------------


def region_of_key(key: object, shape: Shape) -> Region:
    """Return the region of the cells of ``array[key]``, for an array of this shape; positions as NumPy takes them.

    Axes stay where they are and an int keeps its axis, with one position. A mask is the cells that it names; index
    arrays that run together are points, in NumPy's order; one index array rises, but for an array of one dimension,
    where it may name points in any order. SelectionError out of bounds, for a slice that runs backwards and for None.
    """
    items = key if isinstance(key, tuple) else (key,)
    masks = [place for place, item in enumerate(items) if _is_mask(item, shape)]
    if len(masks) == 1 and sum(isinstance(item, np.ndarray | list) for item in items) == 1:
        return _masked(np.asarray(items[masks[0]]), items, masks[0], shape)
    plain = _without_new_axes(key, shape)
    flags = _flags(plain)
    if flags:
        return Everything(()) if flags[0] else Nothing()
    if sum(isinstance(item, np.ndarray) for item in plain) > 1:
        return _several(key, shape)
    if len(shape) == 1 and isinstance(plain[0], np.ndarray):
        positions = wrapped_many(plain[0], 0, shape[0]).reshape(-1)
        if not _rises(positions):
            return Points(tuple((place,) for place in positions.tolist()), shape)
    return product_region([_taken(item, axis, shape) for axis, item in enumerate(plain)], shape)


def _without_new_axes(key: object, shape: Shape) -> list[object]:
    """Return the key's items, one for each axis; or the one bool of an array without any."""
    plain = [item for item in plain_items(key, shape) if item is not Ellipsis]
    if any(item is None for item in plain):
        raise SelectionError("a region has no new axis", remedy="leave None out, and reshape what is read")
    flags = _flags(plain)
    if len(flags) > 1 or (flags and (shape or len(plain) > 1)):
        raise SelectionError("a single bool selects of an array without dimensions only", remedy="give a mask")
    return plain


def _flags(plain: Sequence[object]) -> list[bool]:
    """Return the items that are a single bool."""
    return [bool(item) for item in plain if isinstance(item, np.ndarray) and item.dtype == bool]


def _is_mask(item: object, shape: Shape) -> bool:
    """Return True if an item is a mask of several axes, or of all: those of one axis among others are index arrays."""
    if isinstance(item, list):
        try:
            item = np.asarray(item)
        except ValueError:
            return False
    return isinstance(item, np.ndarray) and item.dtype == bool and (item.ndim > 1 or 0 < item.ndim == len(shape))


def _masked(mask: Values, items: tuple[Any, ...], place: int, shape: Shape) -> Region:
    """Return a mask of some axes, with ints and slices along the others."""
    marks = tuple(slice(None) for _ in mask.shape)
    plain = _without_new_axes((*items[:place], *marks, *items[place + 1 :]), shape)
    first = next(axis for axis, item in enumerate(plain) if item is marks[0])
    if mask.shape != shape[first : first + mask.ndim]:
        raise unfit_mask(mask, first, shape)
    before = [_taken(item, axis, shape) for axis, item in enumerate(plain[:first])]
    after = [_taken(item, axis, shape) for axis, item in enumerate(plain) if axis >= first + mask.ndim]
    if mask.all():
        return product_region([*before, *map(_whole, mask.shape), *after], shape)
    spans = spans_of_mask(mask)
    if not spans or any(not positions_of(taken) for taken in (*before, *after)):
        return Nothing()
    axes = as_product(spans)
    if axes is not None:
        return product_region([*before, *map(_of_runs, axes, mask.shape), *after], shape)
    if not before and not after:
        return _of_spans(spans, shape)
    middle = [list(zip(*box, strict=True)) for box in boxes_of(spans)]
    edges = product(*map(_runs, before), middle, *map(_runs, after))
    return blocks_region((_box(sides, len(before)) for sides in edges), shape)


def _box(sides: tuple[Any, ...], place: int) -> Box:
    """Return the box of one ``(start, stop)`` for each axis, and of a list of them for the axes of a mask."""
    flat = (*sides[:place], *sides[place], *sides[place + 1 :])
    starts, stops = zip(*flat, strict=True)
    return starts, stops


def _several(key: object, shape: Shape) -> Region:
    """Return the region of several index arrays: an open mesh (``np.ix_``) is orthogonal, others are points."""
    selection = select(key, shape)
    if 0 in selection.shape:
        return Nothing()
    region = selection.region
    for axis in region.axes:
        if isinstance(axis, Range) and axis.step < 0:
            raise _backwards()
    if not region.coupled and selection.middle is None:
        taken = [
            _of_positions(axis.positions, length) if isinstance(axis, Positions) else _of_range(axis, length)
            for axis, length in zip(region.axes, shape, strict=True)
        ]
        return product_region(taken, shape)
    ndim = len(region.shape)
    others = [axis for axis in range(len(shape)) if axis not in region.coupled]
    columns = []
    for number, axis in enumerate(region.axes):
        place = 0 if number in region.coupled else others.index(number) + bool(region.coupled)
        run = axis.positions.reshape([-1 if dim == place else 1 for dim in range(ndim)])
        spread = np.broadcast_to(run, region.shape)
        columns.append(selection.finish(np.ascontiguousarray(spread)).reshape(-1).tolist())
    return Points(tuple(zip(*columns, strict=True)), shape)


def _taken(item: Any, axis: int, shape: Shape) -> Taken:
    """Return what one item of a key takes along its axis."""
    length = shape[axis]
    match item:
        case slice():
            chosen = slice_range(item, length)
            if chosen.step < 0:
                raise _backwards()
            return _of_range(chosen, length)
        case np.ndarray():
            return _of_positions(wrapped_many(item, axis, length).reshape(-1), length)
    place = wrapped(int(item), axis, length)
    return Steps(place, place + 1)


def _backwards() -> SelectionError:
    return SelectionError("a region has no slice that runs backwards", remedy="turn the cells after they are read")


# -- canonical forms --------------------------------------------------------------------------------------------------


def product_region(axes: Iterable[Taken], shape: Shape) -> Region:
    """Return everything, or the product of what is taken along each axis."""
    taken = tuple(axes)
    whole = all(part == _whole(length) for part, length in zip(taken, shape, strict=True))
    return Everything(shape) if whole else Product(taken, shape)


def blocks_region(boxes: Iterable[Box], shape: Shape) -> Region:
    """Return the union of boxes ``(start per axis, stop per axis)``, as the smallest region that says it."""
    return _of_spans(spans_of_boxes(boxes), shape)


def strided_region(axes: Iterable[tuple[int, int, int, int]], shape: Shape) -> Region:
    """Return a regular hyperslab as HDF5 has it: ``(start, stride, count, block)`` for each axis; all of them within
    it."""
    taken: list[Taken] = []
    for (start, stride, number, block), length in zip(axes, shape, strict=True):
        if block == stride or number == 1:
            start, stride, number, block = start, 1, block * number, 1
        if block == 1:
            taken.append(_of_range(Range(start, number, stride), length))
        else:
            taken.append(_of_runs([(start + i * stride, start + i * stride + block) for i in range(number)], length))
    return product_region(taken, shape)


def _of_spans(spans: Spans, shape: Shape) -> Region:
    if not spans:
        return Nothing()
    axes = as_product(spans)
    return Blocks(tuple(boxes_of(spans)), shape) if axes is None else product_region(map(_of_runs, axes, shape), shape)


def _whole(length: int) -> Steps:
    return Steps(0, length)


def _of_range(axis: Range, length: int) -> Steps:
    if axis.count < 2:
        return Steps(axis.start, axis.start + 1) if axis.count else Steps(0, 0)
    return Steps(axis.start, min(axis.start + axis.count * axis.step, length), axis.step)


def _of_runs(runs: Runs, length: int) -> Taken:
    if len(runs) == 1:
        return Steps(*runs[0])
    return _of_positions(np.concatenate([np.arange(start, stop, dtype=np.int64) for start, stop in runs]), length)


def _of_positions(positions: Values, length: int) -> Taken:
    """Return a rising list of positions: steps, where it is one of these."""
    if not _rises(positions):
        raise SelectionError(
            "positions along one axis of a region rise and are not repeated",
            remedy="sort them, or name each cell with an index array for every axis",
        )
    gaps = np.diff(positions)
    if not gaps.size or (gaps == gaps[0]).all():
        first = int(positions[0]) if positions.size else 0
        return _of_range(Range(first, positions.size, int(gaps[0]) if gaps.size else 1), length)
    return tuple(positions.tolist())


def _rises(positions: Values) -> bool:
    return bool((positions[1:] > positions[:-1]).all())


def _runs(taken: Taken) -> Runs:
    if isinstance(taken, Steps) and taken.step == 1:
        return [(taken.start, taken.stop)]
    return [(place, place + 1) for place in positions_of(taken)]
