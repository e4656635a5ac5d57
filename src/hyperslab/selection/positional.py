"""NumPy keys -> selections: basic and advanced indexing as ``ndarray.__getitem__`` means it, ``oindex`` and ``vindex``;
a selection of a selection (:func:`compose`).

Same result or the same exception type as NumPy 2. A key of slices and ints takes one flat loop (the hot path);
any other is brought into plain form first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from hyperslab.errors import SelectionError
from hyperslab.model.cells import Values
from hyperslab.selection.keys import bad_slice, out_of_bounds, plain_items, slice_range, wrapped, wrapped_many
from hyperslab.selection.region import Axis, PositionList, Range, Region, Selection

Shape = tuple[int, ...]

_new = tuple.__new__  # named tuples without the Python calls of their constructors


def select(key: Any, shape: Shape) -> Selection:
    """Return what ``ndarray[key]`` means for an array of this shape."""
    basic = select_basic(key if isinstance(key, tuple) else (key,), shape)
    if basic is not None:
        return basic
    items = plain_items(key, shape)
    if any(isinstance(item, np.ndarray) for item in items):
        return _advanced(items, shape, first=False)
    selection = select_basic(tuple(items), shape)
    if selection is None:
        single = zip((item for item in items if isinstance(item, int | slice)), enumerate(shape), strict=False)
        wrong = ((item, *place) for item, place in single if isinstance(item, int) and not -place[1] <= item < place[1])
        raise out_of_bounds(*next(wrong))
    return selection


def vectorised(key: object, shape: Shape) -> Selection:
    """Select as ``vindex[key]``: arrays and ints broadcast together, their dimensions come first, then those of slices
    (dask)."""
    items = plain_items(key, shape)
    if any(item is None for item in items):
        raise SelectionError("vindex takes no new axis", remedy="reshape what was read")
    if not any(isinstance(item, np.ndarray) for item in items):
        return select(key, shape)
    return _advanced(items, shape, first=True)


def outer(key: object, shape: Shape) -> Selection:
    """Select as ``oindex[key]``: each axis is selected for itself by an int, a slice or a 1-D array of ints or
    booleans."""
    parts: list[Part] = []
    result: list[int] = []
    items = plain_items(key, shape)
    for item in items:
        axis, dim = len(parts), len(result)
        match item:
            case slice():
                chosen = slice_range(item, shape[axis])
                parts.append((chosen, (dim,)))
                result.append(chosen.count)
            case int():
                parts.append((Range(wrapped(item, axis, shape[axis]), 1, 1), ()))
            case np.ndarray() if item.ndim == 1:
                parts.append(array_part(wrapped_many(item, axis, shape[axis]), (dim,)))
                result.append(item.size)
            case _ if item is not Ellipsis:
                raise SelectionError(
                    f"{item!r} in a key of oindex", remedy="give ints, slices and 1-D arrays of ints or booleans"
                )
    return assemble(parts, tuple(result), scalar=not result and not any(item is Ellipsis for item in items))


def select_basic(items: tuple[Any, ...], shape: Shape) -> Selection | None:
    """Select by slices, ints, ``...`` and None in one loop; None when there is anything else. Invalid for a slice with
    a step of zero, or with bounds that are no ints: labels, perhaps."""
    axes: list[Axis] = []
    result: list[int] = []
    ndim, dots = len(shape), False
    for place, item in enumerate(items):
        kind = type(item)
        if kind is slice or kind is int:
            axis = len(axes)
            if axis == ndim:
                return None
            length = shape[axis]
            if kind is slice:
                try:
                    start, stop, step = item.indices(length)
                except (TypeError, ValueError) as error:
                    raise bad_slice(error) from None
                count = len(range(start, stop, step))
                axes.append(_new(Range, (start, count, step if count > 1 else 1)))
                result.append(count)
            elif -length <= item < length:
                axes.append(_new(Range, (item % length, 1, 1)))
            else:
                return None
        elif item is None:
            result.append(1)
        elif item is Ellipsis and not dots:
            dots = True
            later = [item for item in items[place + 1 :] if item is not None]
            whole = shape[len(axes) : max(ndim - len(later), len(axes))]
            axes += [Range(0, length, 1) for length in whole]
            result += whole
        else:
            return None
    if len(axes) < ndim:
        result += shape[len(axes) :]
        axes += [Range(0, length, 1) for length in shape[len(axes) :]]
    region = _new(Region, (tuple(axes), (), False))
    return _new(Selection, (region, tuple(result), not dots and not result, None, (), None))


def _advanced(items: list[Any], shape: Shape, *, first: bool) -> Selection:
    """Return keys with arrays: all arrays and ints broadcast together; their dimensions stand where the first of them
    stood, or in front of all when ``first`` or when a slice, a new axis or ``...`` stands between them."""
    fancy = [place for place, item in enumerate(items) if isinstance(item, int | np.ndarray)]
    apart = first or fancy[-1] - fancy[0] >= len(fancy)
    front = [] if apart else items[: fancy[0]]
    at = sum(item is not Ellipsis for item in front)
    arrays = [items[place] for place in fancy if isinstance(items[place], np.ndarray)]
    try:
        common = np.broadcast_shapes(*(array.shape or (int(array),) for array in arrays))
    except ValueError:
        message = f"index arrays of shapes {[array.shape for array in arrays]} do not broadcast"
        raise SelectionError(message, remedy="oindex takes each along its own axis") from None
    parts: list[Part] = []
    plain: list[int] = []
    for item in items:
        axis = len(parts)
        if item is None:
            plain.append(1)
        elif isinstance(item, slice):
            chosen = slice_range(item, shape[axis])
            dim = len(plain)
            parts.append((chosen, (dim if dim < at else dim + len(common),)))
            plain.append(chosen.count)
        elif isinstance(item, int):
            parts.append((Range(wrapped(item, axis, shape[axis]), 1, 1), ()))
        elif isinstance(item, np.ndarray) and item.dtype != bool:
            checked = wrapped_many(item, axis, shape[axis]) if 0 not in common else item
            parts.append(array_part(checked, range(at + len(common) - item.ndim, at + len(common))))
    return assemble(parts, (*plain[:at], *common, *plain[at:]))


# -- selections of parts -----------------------------------------------------------------------------------------------

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


# -- a selection of a selection ----------------------------------------------------------------------------------------

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
