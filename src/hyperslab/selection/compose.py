"""A selection of a selection: one selection on the base array, equal to NumPy applied twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hyperslab.model.cells import Values
from hyperslab.selection.assemble import NOTHING, Part, array_part, assemble, provenance
from hyperslab.selection.positional import select
from hyperslab.selection.region import PositionList, Range, Selection

Dialect = Callable[[Any, tuple[int, ...]], Selection]


def compose(first: Selection, key: object, dialect: Dialect = select) -> Selection:
    """Return what ``key`` (in ``dialect``: `select`, `outer` or `vectorised`) selects of the result of ``first``."""
    second = dialect(key, first.shape)
    if 0 in second.shape:
        return assemble([(NOTHING, ())] * len(first.region.axes), second.shape)
    # For each dimension of the first result: what the second selects of it, and its result dimensions over which that
    # varies.
    inner: list[Part] = [
        (axis if isinstance(axis, Range) else axis.positions.reshape([second.shape[dim] for dim in dims]), dims)
        for axis, dims in zip(second.region.axes, provenance(second), strict=True)
    ]
    parts: list[Part] = []
    for axis, dims in zip(first.region.axes, provenance(first), strict=True):
        if isinstance(axis, PositionList):
            parts.append(_picked(axis.positions.reshape([first.shape[dim] for dim in dims]), [inner[d] for d in dims]))
        elif not dims:
            parts.append((Range(axis.start, 1, 1), ()))
        else:
            what, result = inner[dims[0]]
            if isinstance(what, Range):
                parts.append((Range(axis.start + axis.step * what.start, what.count, axis.step * what.step), result))
            else:
                parts.append((axis.start + axis.step * what, result))
    return assemble(parts, second.shape, scalar=second.scalar)


def _picked(positions: Values, inners: list[Part]) -> Part:
    """Return positions with one dimension per inner part, indexed by all of them: over the union of their
    dimensions."""
    union = sorted({dim for _, dims in inners for dim in dims})
    index = []
    for what, dims in inners:
        picks = what.positions if isinstance(what, Range) else what
        sizes = dict(zip(dims, picks.shape, strict=False))
        index.append(picks.reshape([sizes.get(dim, 1) for dim in union]))
    return array_part(np.ascontiguousarray(positions[tuple(index)]), union)
