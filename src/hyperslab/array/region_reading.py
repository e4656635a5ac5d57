"""The cells of a region: only the chunks that hold them are decoded, in memory that does not grow with the region.

A union of boxes is read as a tree of intervals: what lies inside one interval is the same at each of its positions, so
that it is one orthogonal read, put where it belongs in the result. Many small intervals are read together, by points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from hyperslab.array.cells import CellAccess
from hyperslab.chunks.memory import require
from hyperslab.errors import HyperslabError
from hyperslab.model.cells import Values
from hyperslab.model.refs import RegionReference
from hyperslab.model.regions import Blocks, Everything, Nothing, Points, Product, Region, Steps
from hyperslab.selection import region as plain
from hyperslab.selection.region_bounds import is_of_scalar, region_shape, require_fits
from hyperslab.selection.spans import Span, Spans, coordinates, count, spans_of_boxes

CELLS_LISTED_AT_ONCE = 1 << 16  # cells (positions, along the last axis) that are listed at a time


def read_region(cells: CellAccess, region: Region) -> Values:
    """Return the region's cells as a new array: of one axis per axis of the array for everything, slices and orthogonal
    regions, else of one axis. RegionOutOfBounds when the array has not all of them, MemoryLimit when they do not
    fit."""
    shape = cells.spec.shape
    try:
        require_fits(region, shape)
        if isinstance(region, Blocks) and shape:
            spans = spans_of_boxes(region.blocks)
            total = count(spans)
            require(total * cells.dtype.itemsize, cells.settings.memory_limit)
            out = np.empty(total, cells.dtype)
            _fill(cells, (), spans, out)
            return out
        size = region_shape(region, shape)
        require(prod(size) * cells.dtype.itemsize, cells.settings.memory_limit)
    except HyperslabError as error:
        raise error.locate(node=cells.node, url=cells.url) from None
    out = np.empty(size, cells.dtype)
    if is_of_scalar(region, shape):
        cell = np.empty((), cells.dtype)
        cells.read(plain.Selection(plain.Region(()), ()), cell)
        out[...] = cell
    elif 0 not in size:
        cells.read(plain.Selection(_plain(region, size), size), out)
    return out


def _plain(region: Region, size: tuple[int, ...]) -> plain.Region:
    """Return the same as the planner takes it; of blocks and nothing there is none."""
    match region:
        case Product(axes):
            return plain.Region(tuple(_axis(taken, length) for taken, length in zip(axes, size, strict=True)))
        case Points(points):
            return _coupled(np.array(points, np.int64).T)
        case Everything() | Nothing() | Blocks():
            return plain.Region(tuple(plain.Range(0, length, 1) for length in size))


def _axis(taken: Steps | tuple[int, ...], length: int) -> plain.Axis:
    if isinstance(taken, Steps):
        return plain.Range(taken.start, length, taken.step)
    return plain.PositionList(np.array(taken, np.int64))


def _coupled(rows: Values) -> plain.Region:
    """Return cells one by one; ``rows``: their positions along each axis."""
    axes = tuple(plain.PositionList(np.ascontiguousarray(row)) for row in rows)
    return plain.Region(axes, tuple(range(len(axes))) if len(axes) > 1 else ())


def _fill(cells: CellAccess, above: tuple[Span, ...], spans: Spans, out: Values) -> None:
    """Put the cells of ``spans``, at every position of the spans above, into ``out``: one axis for each of those and
    one for the cells."""
    place = 0
    many = prod(out.shape[:-1])
    for group in _groups(spans, many):
        width = count(group)
        part = out[..., place : place + width]
        place += width
        if not group[0].inner:
            axes = [plain.Range(span.start, span.length, 1) for span in above]
            region = plain.Region((*axes, _last_axis(group)))
            cells.read(plain.Selection(region, part.shape), part)
        elif len(group) == 1:
            inner = part.reshape(*part.shape[:-1], group[0].length, -1)
            _fill(cells, (*above, group[0]), group[0].inner, inner)
        else:
            for span in reversed(above):
                group = (Span(span.start, span.stop, group),)
            cells.read(plain.Selection(_coupled(coordinates(group)), part.shape), part)


def _last_axis(group: Spans) -> plain.Axis:
    if len(group) == 1:
        return plain.Range(group[0].start, group[0].length, 1)
    return plain.PositionList(coordinates(group)[0])


def _groups(spans: Spans, many: int) -> Iterator[Spans]:
    """Yield neighbours that are read together: along the last axis by listing their positions, else all their cells."""
    group: list[Span] = []
    size = 0
    for span in spans:
        own = count((span,)) * (many if span.inner else 1)
        if group and size + own > CELLS_LISTED_AT_ONCE:
            yield tuple(group)
            group, size = [], 0
        group.append(span)
        size += own
    if group:
        yield tuple(group)


# -- references to regions ---------------------------------------------------------------------------------------------


class RegionReferences:
    """``array.regionref[key]``: a reference to the cells of ``array[key]``, as in h5py."""

    def __init__(self, make: Callable[[Any], RegionReference]) -> None:
        self._make = make

    def __getitem__(self, key: Any) -> RegionReference:
        return self._make(key)
