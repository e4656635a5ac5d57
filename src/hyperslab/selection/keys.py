"""The items of a key in plain form: slices, ints, new axes, ``...`` and integer or boolean arrays."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from hyperslab.errors import Invalid, SelectionError, WrongType
from hyperslab.model.cells import Values
from hyperslab.selection.region import Range

Shape = tuple[int, ...]
WHOLE = slice(None)
LABELS = "labels need a coordinate of the dimension's name and length"
"""What a key that is no position would need, for a remedy."""
_KINDS = f"positions are ints, slices, `...`, None and arrays of ints or booleans; {LABELS}"


def plain_items(key: object, shape: Shape) -> list[object]:
    """Return the key's items in plain form, one for each axis: missing ones are filled with whole slices.

    ``...`` stays before the slices that it stands for (NumPy lets it part advanced indices), None stays a new axis,
    a boolean array of n > 0 dimensions becomes n integer arrays.
    """
    items = [_plain(item) for item in (key if isinstance(key, tuple) else (key,))]
    used = sum(_axes_of(item) for item in items)
    dots = [place for place, item in enumerate(items) if item is Ellipsis]
    if used > len(shape):
        raise too_many(used, shape)
    if len(dots) > 1:
        raise several_ellipses()
    filled: list[object] = []
    axis = 0
    for item in items if dots else [*items, Ellipsis]:
        if item is Ellipsis:
            filled += [item] + [WHOLE] * (len(shape) - used)
            axis += len(shape) - used
        elif isinstance(item, np.ndarray) and item.dtype == bool and item.ndim:
            if any(side not in (0, length) for side, length in zip(item.shape, shape[axis:], strict=False)):
                raise unfit_mask(item, axis, shape)
            filled += item.nonzero()
            axis += item.ndim
        else:
            filled.append(item)
            axis += _axes_of(item)
    return filled if dots else [item for item in filled if item is not Ellipsis]


def split_fields(key: object) -> tuple[object, object]:
    """Return the field name, or list of names, that leads the key of a structured array (None: none), and the rest."""
    first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
    if isinstance(first, str) or (isinstance(first, list) and first and all(isinstance(name, str) for name in first)):
        return first, rest
    return None, key


def too_many(used: int, shape: Shape) -> SelectionError:
    """Return the error of a key with more indices than dimensions."""
    message = f"too many indices: the array has {len(shape)} dimensions, the key selects along {used}"
    return SelectionError(message, remedy="give one for each dimension at the most")


def several_ellipses() -> SelectionError:
    """Return the error of a key with more than one ``...``."""
    return SelectionError("a key has a single ellipsis ('...')", remedy="write the other ones as slices, ':'")


def wrapped(position: int, axis: int, length: int) -> int:
    """Return a position that may be negative, as one that is not; ``SelectionError`` out of bounds."""
    if -length <= position < length:
        return position + length if position < 0 else position
    raise out_of_bounds(position, axis, length)


def out_of_bounds(position: int, axis: int, length: int) -> SelectionError:
    """Return the error of a position that an axis does not have."""
    remedy = f"positions go from {-length} to {length - 1}; sel() takes whole numbers as labels"
    remedy = remedy if length else "the axis has no cells"
    return SelectionError(f"index {position} is out of bounds for axis {axis} with size {length}", remedy=remedy)


def wrapped_many(positions: Values, axis: int, length: int) -> Values:
    """Return the same for an integer array."""
    if positions.size:
        low, high = int(positions.min()), int(positions.max())
        if low < -length or high >= length:
            wrapped(low if low < -length else high, axis, length)
        if low < 0:
            return np.where(positions < 0, positions + length, positions)
    return positions


def slice_range(item: slice, length: int) -> Range:
    """Return the range of a slice of positions along an axis of this length."""
    try:
        start, stop, step = item.indices(length)
    except (TypeError, ValueError) as error:
        raise bad_slice(error) from None
    count = len(range(start, stop, step))
    return Range(start, count, step if count > 1 else 1)


def bad_slice(error: TypeError | ValueError) -> Invalid:
    """Return the error of a slice whose step is zero (a ValueError) or whose bounds are no ints (a TypeError), as
    NumPy's."""
    if isinstance(error, TypeError):
        return WrongType("slice bounds are ints or None", remedy=LABELS)
    return zero_step()


def zero_step() -> Invalid:
    """Return the error of a slice whose step is zero."""
    return Invalid("a slice step is not zero", remedy="leave it out, or give another")


def _axes_of(item: object) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, np.ndarray) and item.dtype == bool:
        return item.ndim
    return 1


def _plain(item: Any) -> object:
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if not isinstance(item, np.ndarray | bool | np.bool_):
        try:
            return index(item)
        except TypeError:
            pass
    try:
        array = np.asarray(item)
    except ValueError:
        raise Invalid(f"{item!r} is no rectangular array of positions", remedy=_KINDS) from None
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind not in "iu":
        raise SelectionError(f"{item!r} is no position", remedy=_KINDS)
    return array.astype(np.int64, copy=False) if array.ndim else int(array)


def unfit_mask(mask: Values, axis: int, shape: Shape) -> SelectionError:
    """Return the error of a mask whose lengths are not those of the axes from ``axis`` on."""
    message = f"a mask of shape {mask.shape} does not fit axes {axis}... of an array of shape {shape}"
    return SelectionError(message, remedy="give a mask of the lengths of its axes")
