"""Unions of boxes as trees of intervals, the one form that a set of cells has.

The spans of an axis are sorted, do not touch where what is inside them is equal, and hold the spans of the next axis;
those of the last axis hold none. Two unions with the same cells have equal trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Box = tuple[tuple[int, ...], tuple[int, ...]]
Runs = list[tuple[int, int]]


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
    """The union of boxes ``(start per axis, stop per axis)`` of one rank >= 1; they may overlap and be empty."""
    return _union([box for box in boxes if all(low < high for low, high in zip(*box, strict=True))], 0)


def spans_of_mask(mask: Array) -> Spans:
    """The True cells of a mask of rank >= 1."""
    if not mask.size:
        return ()
    if mask.ndim == 1:
        edges = np.flatnonzero(np.diff(mask.view(np.int8), prepend=0, append=0)).tolist()
        return tuple(Span(start, stop) for start, stop in zip(edges[::2], edges[1::2], strict=True))
    others = tuple(range(1, mask.ndim))
    changes = (np.flatnonzero((mask[1:] != mask[:-1]).any(axis=others)) + 1).tolist()
    parts = ((start, stop, spans_of_mask(mask[start])) for start, stop in pairwise([0, *changes, len(mask)]))
    return tuple(Span(start, stop, inner) for start, stop, inner in parts if inner)


def count(spans: Spans) -> int:
    """How many cells."""
    return sum(span.length * (count(span.inner) if span.inner else 1) for span in spans)


def boxes_of(spans: Spans) -> Iterator[Box]:
    """Boxes that do not overlap, sorted by where they start."""
    for span in spans:
        if not span.inner:
            yield (span.start,), (span.stop,)
        for starts, stops in boxes_of(span.inner):
            yield (span.start, *starts), (span.stop, *stops)


def as_product(spans: Spans) -> list[Runs] | None:
    """What is taken along each axis, as runs ``(start, stop)``; None when that differs from place to place."""
    axes: list[Runs] = []
    while spans:
        axes.append([(span.start, span.stop) for span in spans])
        inner = spans[0].inner
        if any(span.inner != inner for span in spans):
            return None
        spans = inner
    return axes


def coordinates(spans: Spans) -> Array:
    """Every cell in row-major order, as int64 of shape (rank, cells): for few cells only."""
    parts = []
    for span in spans:
        own = np.arange(span.start, span.stop, dtype=np.int64)
        if not span.inner:
            parts.append(own[None])
            continue
        inner = coordinates(span.inner)
        parts.append(np.concatenate([np.repeat(own, inner.shape[1])[None], np.tile(inner, len(own))]))
    return np.concatenate(parts, axis=1)


def _union(boxes: Sequence[Box], axis: int) -> Spans:
    if not boxes:
        return ()
    spans: list[Span] = []
    if axis + 1 == len(boxes[0][0]):
        for start, stop in sorted((box[0][axis], box[1][axis]) for box in boxes):
            if spans and start <= spans[-1].stop:
                spans[-1] = Span(spans[-1].start, max(spans[-1].stop, stop))
            else:
                spans.append(Span(start, stop))
        return tuple(spans)
    for start, stop, inside in _intervals(boxes, axis):
        inner = _union(inside, axis + 1)
        if spans and spans[-1].stop == start and spans[-1].inner == inner:
            spans[-1] = Span(spans[-1].start, stop, inner)
        else:
            spans.append(Span(start, stop, inner))
    return tuple(spans)


def _intervals(boxes: Sequence[Box], axis: int) -> Iterator[tuple[int, int, list[Box]]]:
    """The intervals between the bounds of boxes along an axis, with the boxes that span each of them."""
    coming = sorted(boxes, key=lambda box: box[0][axis], reverse=True)
    inside: list[Box] = []
    for low, high in pairwise(sorted({box[side][axis] for box in boxes for side in (0, 1)})):
        inside = [box for box in inside if box[1][axis] > low]
        while coming and coming[-1][0][axis] == low:
            inside.append(coming.pop())
        if inside:
            yield low, high, inside
