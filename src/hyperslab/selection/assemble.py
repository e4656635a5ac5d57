"""From what each axis selects, and the result dimensions over which it varies, to one :class:`Selection`.

A *part* is a range along one result dimension (or of one cell, along none), or an integer array with one dimension per
listed result dimension (in ascending order). Parts that share a result dimension are coupled; all others stay separate,
so that an open mesh (``np.ix_``) is planned as an outer product. Result dimensions of no part are new axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

import numpy as np

from hyperslab.model.cells import Values
from hyperslab.selection.region import Axis, PositionList, Range, Region, Selection

Part = tuple[Range | Values, tuple[int, ...]]
NOTHING = Range(0, 0, 1)


def array_part(positions: Values, dims: Sequence[int]) -> Part:
    """Return the part of an index array whose dimensions are result dimensions ``dims``; those of length 1 are
    dropped."""
    if positions.size == 1:
        return Range(int(positions.item()), 1, 1), ()
    kept = tuple(dim for dim, size in zip(dims, positions.shape, strict=True) if size != 1)
    return positions.reshape([size for size in positions.shape if size != 1]), kept


def assemble(parts: Sequence[Part], shape: tuple[int, ...], *, scalar: bool = False) -> Selection:
    """Return the selection of these parts (one per axis of the array) with the result ``shape``."""
    if 0 in shape:
        return Selection(Region((NOTHING,) * len(parts), void=not parts), shape)
    uses = Counter(dim for _, dims in parts for dim in dims)
    coupled = tuple(axis for axis, (_, dims) in enumerate(parts) if any(uses[dim] > 1 for dim in dims))
    together = sorted({dim for axis in coupled for dim in parts[axis][1]})
    axes: list[Axis] = []
    layout = list(together)
    for axis, (what, dims) in enumerate(parts):
        if axis in coupled:
            positions = what.positions if isinstance(what, Range) else what
            spaced = positions.reshape([shape[dim] if dim in dims else 1 for dim in together])
            axes.append(PositionList(np.broadcast_to(spaced, [shape[dim] for dim in together]).reshape(-1)))
            continue
        layout += dims
        axes.append(what if isinstance(what, Range) else PositionList(what.reshape(-1)))
    region = Region(tuple(axes), coupled)
    new = [dim for dim in range(len(shape)) if dim not in layout]
    longer = [dim for dim in layout if shape[dim] != 1]
    repeated = any(shape[dim] != 1 for dim in new)
    if not repeated and longer == sorted(longer):
        return Selection(region, shape, scalar)
    layout = layout + new
    stretch = tuple(shape[dim] for dim in layout)
    middle = tuple(1 if dim in new else shape[dim] for dim in layout)
    order = tuple(int(place) for place in np.argsort(layout))
    return Selection(region, shape, scalar, middle, order, stretch if repeated else None)


def provenance(selection: Selection) -> list[tuple[int, ...]]:
    """Return for each axis of the region the result dimensions over which it varies (none of length 1); inverse of
    `assemble`."""
    middle = selection.middle if selection.middle is not None else selection.shape
    order = selection.order if selection.middle is not None else tuple(range(len(middle)))
    dims = iter([(order.index(place), size) for place, size in enumerate(middle) if size != 1])
    region = selection.region
    groups: dict[int, tuple[int, ...]] = {}
    lead = region.coupled[:1]
    for axis in (*lead, *(i for i in range(len(region.axes)) if i not in region.coupled)):
        wanted, group = region.axes[axis].count, []
        sizes = [1]
        while prod(sizes) < wanted:
            dim, size = next(dims)
            group.append(dim)
            sizes.append(size)
        groups[axis] = tuple(group)
    return [groups[lead[0]] if axis in region.coupled else groups[axis] for axis in range(len(region.axes))]
