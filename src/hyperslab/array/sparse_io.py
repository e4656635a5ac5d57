"""Sparse arrays out of one array's cells and into them, dense only as far as what is stored dense makes it so."""

from __future__ import annotations

from math import prod
from typing import Any

from hyperslab.array.cells import CellAccess
from hyperslab.chunks import sparse_io
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.memory import require
from hyperslab.chunks.plan import make_plan
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.model.coo import Coo
from hyperslab.selection.region import Range, Region, Selection, no_broadcast

_SLAB = 64 << 20  # bytes of a sparse array that are dense at a time where chunks are


def read(cells: CellAccess, selection: Selection) -> Coo:
    """Return the selected cells. Unsupported for a selection of points, and for cells of no fixed size."""
    try:
        if cells.dtype.kind in "OT":
            raise Unsupported(f"a sparse array of {cells.dtype}", remedy="read it as a dense one: a[key]")
        found = sparse_io.read(cells.source, make_plan(selection.region, cells.grid), cells.fill, cells.settings)
        if cells.may_shrink and 0 not in found.shape and (cells.watch is None or cells.watch() != cells.whole_at):
            cells.raise_if_shrunk()  # what a list has not may be cells that were removed
    except HyperslabError as error:
        raise error.locate(node=cells.node, url=cells.url) from error.__cause__
    return found.reshaped(selection.shape)


def write(cells: CellAccess, selection: Selection, value: Any, fields: Any = None) -> None:
    """Put an array of the package ``sparse`` into the selected cells, broadcast to them."""
    from hyperslab.bridges.sparse import to_coo

    box = _box(selection.region)
    if fields is not None or box is None or selection.middle is not None:
        require(prod(value.shape) * value.dtype.itemsize, cells.settings.memory_limit)
        cells.write(selection, value.todense(), fields)
        return
    if value.shape != selection.shape:
        value = _broadcast(value, selection)
    coo = to_coo(value).reshaped(selection.region.shape)
    if sparse_io.takes(cells.source, box):
        try:
            sparse_io.write(cells.source, box, coo.astype(cells.dtype), cells.fill, cells.settings)
        except HyperslabError as error:
            raise error.locate(node=cells.node, url=cells.url) from error.__cause__
        finally:
            if cells.session is not None:
                cells.session.version.renew()
        return
    itemsize = max(1, coo.dtype.itemsize, cells.dtype.itemsize)
    for slab in sparse_io.slabs(cells.grid, box, _SLAB // itemsize):
        region = Region(tuple(Range(cut.start, cut.stop - cut.start, 1) for cut in slab))
        require(prod(region.shape) * itemsize, cells.settings.memory_limit)
        local = [slice(cut.start - all.start, cut.stop - all.start) for cut, all in zip(slab, box, strict=True)]
        cells.write(Selection(region, region.shape), coo.part(local).dense())


def _broadcast(value: Any, selection: Selection) -> object:
    while value.ndim > len(selection.shape) and value.shape[0] == 1:
        value = value[0]
    try:
        return value.broadcast_to(selection.shape)
    except ValueError:
        raise no_broadcast(value.shape, selection.shape) from None


def _box(region: Region) -> Box | None:
    """Return the cells of a region that is one box, in order; None for any other."""
    if region.coupled or region.void or not all(isinstance(axis, Range) and axis.step == 1 for axis in region.axes):
        return None
    return tuple(slice(axis.start, axis.start + axis.count) for axis in region.axes if isinstance(axis, Range))
