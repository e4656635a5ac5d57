"""A histogram of the cells that a view shows: how many of them lie in each of some ranges of values.

What is read is bounded as that of a view is, twice: once for the least and the greatest cell, once to count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from hyperslab.array import Array
from hyperslab.errors import Invalid
from hyperslab.model.cells import Values
from hyperslab.web.views import (
    MOST_GAPS,
    ReducedView,
    ViewQuery,
    axis_facts,
    fit_view,
    fixed_facts,
    open_view,
    read_boxes,
    reduction_text,
    units_of,
)
from hyperslab.web.waiting import StillWaiting

MOST_BINS = 4096
# Whole numbers from which on no float lies between two of them, for an edge.
_MOST_WHOLE = 2**52


@dataclass
class _Extremes:
    """The least and the greatest finite cell, and whether all cells are whole numbers."""

    low: float = np.inf
    high: float = -np.inf
    are_whole: bool = True

    def add(self, row: int, column: int, cells: Values) -> None:
        self.are_whole &= cells.dtype.kind in "iub"
        finite = cells[np.isfinite(cells)]
        if finite.size:
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))


@dataclass
class _BinCounts:
    """How many cells lie between two edges each, which are equally far apart."""

    edges: Values
    counts: Values = field(init=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.edges) - 1, "i8")

    def add(self, row: int, column: int, cells: Values) -> None:
        finite = cells[np.isfinite(cells)].astype("f8")
        ends = float(self.edges[0]), float(self.edges[-1])
        self.counts += np.histogram(finite, len(self.counts), ends)[0]


def read_histogram(array: Array, query: ViewQuery, bins: int, is_waiting: StillWaiting) -> dict[str, object]:
    """Return ``edges`` and ``counts`` of the cells of a view, how many are ``missing``, and the head of the view.

    Whole numbers of fewer values than ``bins`` have a bar each. Errors as for a view; Invalid for cells that are so far
    apart that no number tells how far.
    """
    if not 1 <= bins <= MOST_BINS:
        raise Invalid(f"a histogram of {bins} bars", remedy=f"ask for 1 to {MOST_BINS}")
    view = open_view(array, query)
    whole = tuple(replace(axis, pixels=axis.stop - axis.start) for axis in view.axes)
    view = fit_view(replace(view, axes=whole))
    ends = _Extremes()
    cells = prod(len(axis.positions) for axis in view.axes)
    gaps = read_boxes(view, ends.add, is_waiting)
    rest, fill = 0, np.asarray([np.nan])
    if view.written is not None:  # the others are all the same
        rest = cells - sum(len(rows) * len(columns) for rows, columns in map(view.span_in, view.written))
        fill = view.fill_number()
        ends.add(0, 0, fill if rest else fill[:0])
    found = _BinCounts(_edges(ends, bins))
    found.add(0, 0, fill)
    found.counts *= rest
    if ends.low <= ends.high:
        gaps = max(gaps, read_boxes(view, found.add, is_waiting), key=len)
    return {
        "path": f"/{array.path}",
        "kind": "histogram",
        "edges": found.edges.tolist(),
        "counts": found.counts.tolist(),
        "missing": cells - int(found.counts.sum()),
        "units": units_of(array, view),
        "decoded": query.decoded,
        "part": view.part,
        "reduction": reduction_text(view.axes, array, has_envelope=False),
        "is_exact": all(axis.step == 1 for axis in view.axes),
        **_places(array, view),
        "cost": {"chunks": 2 * view.chunks, "chunk_nbytes": 2 * view.chunk_nbytes},
        "gaps": gaps[:MOST_GAPS],
        "gap_count": len(gaps),
    }


def _places(array: Array, view: ReducedView) -> dict[str, object]:
    """Return which positions the cells have."""
    x, y = axis_facts(array, view.columns, labelled=False), None
    if len(view.axes) == 2:
        y = axis_facts(array, view.rows, labelled=False)
    return {"x": x, "y": y, "at": [fixed_facts(array, axis, place) for axis, place in view.fixed.items()]}


def _edges(ends: _Extremes, bins: int) -> Values:
    """Return the edges of the bars; of no cells those from 0 to 1."""
    low, high = (ends.low, ends.high) if ends.low <= ends.high else (0.0, 1.0)
    if ends.are_whole and high - low < bins and max(-low, high) < _MOST_WHOLE:
        return np.arange(low, high + 2) - 0.5
    if low == high:
        low, high = low - 0.5, high + 0.5
    if not np.isfinite(high - low):
        raise Invalid("the cells are too far apart for a histogram", remedy="look at a part of them")
    try:
        edges: Values = np.histogram_bin_edges(np.empty(0), bins, (low, high))
    except ValueError:  # no numbers are left between two of them
        raise Invalid("the cells are too close together for so many bars", remedy="ask for fewer") from None
    return edges
