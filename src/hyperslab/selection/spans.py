"""Unions of boxes as trees of intervals, the one form that a set of cells has.

The spans of an axis are sorted, do not touch where what is inside them is equal, and hold the spans of the next axis;
those of the last axis hold none. Two unions with the same cells have equal trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import itemgetter, lt
from typing import NamedTuple

import numpy as np

from hyperslab.errors import MemoryLimit
from hyperslab.model.cells import Values

Box = tuple[tuple[int, ...], tuple[int, ...]]
Runs = list[tuple[int, int]]
MOST_CUTS = 1 << 18


class Span(NamedTuple):
    """The positions ``start <= p < stop`` of one axis, and what is taken of the next one at each of them."""

    start: int
    stop: int
    inner: tuple[Span, ...] = ()

    @property
    def length(self) -> int:
        """Positions along its own axis."""
        return self.stop - self.start


Spans = tuple[Span, ...]


def spans_of_boxes(boxes: Iterable[Box]) -> Spans:
    """Return the union of boxes ``(start per axis, stop per axis)`` of one rank >= 1; they may overlap and be empty.

    MemoryLimit for boxes that cut each other into far more parts than they are: in many dimensions there is no end.
    """
    full = [box for box in boxes if all(map(lt, *box))]
    return _union(np.array(full, np.int64), iter(range(max(MOST_CUTS, 16 * len(full))))) if full else ()


def spans_of_mask(mask: Values) -> Spans:
    """Return the True cells of a mask of rank >= 1."""
    if not mask.size:
        return ()
    if mask.ndim == 1:
        edges = np.flatnonzero(np.diff(mask.view(np.int8), prepend=0, append=0))
        return _row(edges[::2], edges[1::2])
    others = tuple(range(1, mask.ndim))
    changes = (np.flatnonzero((mask[1:] != mask[:-1]).any(axis=others)) + 1).tolist()
    parts = ((start, stop, spans_of_mask(mask[start])) for start, stop in pairwise([0, *changes, len(mask)]))
    return tuple(Span(start, stop, inner) for start, stop, inner in parts if inner)


def count(spans: Spans) -> int:
    """Return how many cells."""
    return sum(span.length * (count(span.inner) if span.inner else 1) for span in spans)


def boxes_of(spans: Spans) -> Iterator[Box]:
    """Yield boxes that do not overlap, sorted by where they start."""
    for span in spans:
        if not span.inner:
            yield (span.start,), (span.stop,)
        for starts, stops in boxes_of(span.inner):
            yield (span.start, *starts), (span.stop, *stops)


def as_product(spans: Spans) -> list[Runs] | None:
    """Return what is taken along each axis, as runs ``(start, stop)``; None when that differs from place to place."""
    axes: list[Runs] = []
    while spans:
        axes.append([(span.start, span.stop) for span in spans])
        inner = spans[0].inner
        if any(span.inner != inner for span in spans):
            return None
        spans = inner
    return axes


def coordinates(spans: Spans) -> Values:
    """Return every cell in row-major order, as int64 of shape (rank, cells): for few cells only."""
    if spans and not spans[0].inner:
        starts, stops = (np.fromiter(map(itemgetter(side), spans), np.int64, len(spans)) for side in (0, 1))
        lengths = stops - starts
        row: Values = np.repeat(stops - lengths.cumsum(), lengths) + np.arange(lengths.sum())
        return row[None]
    parts = []
    for span in spans:
        inner = coordinates(span.inner)
        own = np.repeat(np.arange(span.start, span.stop), inner.shape[1])
        parts.append(np.concatenate([own[None], np.tile(inner, span.length)]))
    return np.concatenate(parts, axis=1)


def _row(starts: Values, stops: Values) -> Spans:
    """Return spans of the last axis."""
    return tuple(map(Span, starts.tolist(), stops.tolist()))


def _union(bounds: Values, left: Iterator[int]) -> Spans:
    """Return the union of boxes that are not empty; ``bounds``: int64 of shape (boxes, 2, rank). ``left``: one number
    for each interval that they may be cut into."""
    if bounds.shape[2] == 1:
        order = np.argsort(bounds[:, 0, 0])
        starts, ends = bounds[order, 0, 0], np.maximum.accumulate(bounds[order, 1, 0])
        apart = starts[1:] > ends[:-1]
        return _row(starts[np.append(True, apart)], ends[np.append(apart, True)])
    spans: list[Span] = []
    for start, stop, inside in _intervals(bounds):
        if next(left, None) is None:
            raise MemoryLimit("boxes that cut each other into too many parts", remedy="make a region of fewer of them")
        inner = _union(inside[:, :, 1:], left)
        if spans and spans[-1].stop == start and spans[-1].inner == inner:
            spans[-1] = Span(spans[-1].start, stop, inner)
        else:
            spans.append(Span(start, stop, inner))
    return tuple(spans)


def _intervals(bounds: Values) -> Iterator[tuple[int, int, Values]]:
    """Yield the intervals between the bounds of boxes along their first axis, with the boxes that span each of them."""
    bounds = bounds[np.argsort(bounds[:, 0, 0], kind="stable")]
    edges = np.unique(bounds[:, :, 0])
    begun = np.searchsorted(bounds[:, 0, 0], edges, side="right").tolist()
    inside, done = bounds[:0], 0
    for (low, high), known in zip(pairwise(edges.tolist()), begun, strict=False):
        inside = np.concatenate([inside[inside[:, 1, 0] > low], bounds[done:known]])
        done = known
        if len(inside):
            yield low, high, inside
