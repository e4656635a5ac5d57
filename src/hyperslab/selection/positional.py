"""NumPy keys -> selections: basic and advanced indexing as ``ndarray.__getitem__`` means it, ``oindex`` and ``vindex``.

Same result or the same exception type as NumPy 2. A key of slices and ints takes one flat loop (the hot path);
any other is brought into plain form first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.errors import SelectionError
from hyperslab.selection.assemble import Part, array_part, assemble
from hyperslab.selection.keys import bad_slice, out_of_bounds, plain_items, slice_range, wrapped, wrapped_many
from hyperslab.selection.region import Axis, Range, Region, Selection

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
