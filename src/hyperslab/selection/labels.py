"""Labels in keys -> positions: in ``[]`` floats, text and times are labels and slices exclude their stop; ``sel`` has
xarray's meaning. Ints in ``[]`` are always positions. Which index a dimension has is the caller's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

import numpy as np

from hyperslab.errors import Invalid, LabelError, SelectionError, Unsupported, WrongType
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.dims import Coordinate, FloatLabels, Index, Labels
from hyperslab.model.guessing import meant
from hyperslab.selection.coordinate_axes import axis_of_floats, axis_of_index
from hyperslab.selection.keys import LABELS
from hyperslab.selection.label_query import is_label
from hyperslab.selection.lookup import FloatNames, Lookup, Names, NumberLabels

IndexOf = Callable[[str], Index | None]
Why = Callable[[str], str]
Dims = Sequence[str | None]
_PLAIN = (int, type(None))


def resolve_key(key: object, dims: Dims, index_of: IndexOf, why: Why | None = None) -> object:
    """Return a key of ``[]`` with its labels replaced by positions; the same object when it has none.

    On a dimension without an index a label is an error that says ``why``; without that it is left alone, for NumPy's.
    """
    items = key if isinstance(key, tuple) else (key,)
    for item in items:
        kind = type(item)
        if kind is slice:
            if type(item.start) in _PLAIN and type(item.stop) in _PLAIN and type(item.step) in _PLAIN:
                continue
        elif kind is int or item is Ellipsis or item is None:
            continue
        if _has_labels(item):
            break
    else:
        return key
    widths = [_width(item) for item in items]
    missing = len(dims) - sum(widths)
    resolved: list[Any] = []
    axis = 0
    for item, width in zip(items, widths, strict=True):
        lookup = _lookup(dims[axis], index_of) if width == 1 and axis < len(dims) and _has_labels(item) else None
        if lookup is None and width == 1 and axis < len(dims):
            _refuse_label(item, dims[axis], why)
        resolved.append(item if lookup is None else _positions(item, lookup))
        axis += max(missing, 0) if item is Ellipsis else width
    return tuple(resolved) if isinstance(key, tuple) else resolved[0]


def resolve_sel(
    mapping: Mapping[str, object],
    dims: Dims,
    index_of: IndexOf,
    method: Literal["nearest"] | None = None,
    tolerance: object = None,
    why: Why | None = None,
) -> tuple[object, ...]:
    """Return the positional key of ``sel(**mapping)``, one item per dimension, each to be taken for itself (`outer`).

    Slices include their stop and need not meet labels on a sorted coordinate; a date such as ``"2013-01"`` selects the
    whole period. On a dimension without labels the item is positional, as in xarray.
    """
    check_method(method, tolerance)
    for name in mapping:
        if name not in dims:
            raise LabelError(f"no dimension {name!r}", remedy=meant(name, dims))
    key: list[Any] = []
    for dim in dims:
        item = mapping.get(dim, slice(None)) if dim is not None else slice(None)
        whole = isinstance(item, slice) and item == slice(None)
        lookup = None if whole else _lookup(dim, index_of)
        if lookup is None and not whole:
            _refuse_label(item, dim, why)
        key.append(item if lookup is None else _selected(item, lookup, method, tolerance))
    return tuple(key)


def has_cells(label: object, dim: str, index: Index | None) -> bool:
    """Return True if cells lie in the period that a text names, such as all of ``"2013-01"``, or have it as a name."""
    lookup = _lookup(dim, lambda _: index) if isinstance(label, str) else None
    if lookup is None:
        return False
    try:
        found = lookup.chosen(label)
    except LabelError:
        return False
    return found.start < found.stop if isinstance(found, slice) else bool(np.size(found))


def refuse_empty_period(found: object, label: object, dim: str) -> None:
    """Raise LabelError where ``found`` has no position of a period such as ``"2013-01"`` on labels that are not
    sorted."""
    if isinstance(label, str) and isinstance(found, np.ndarray) and not found.size:
        message = f"{dim} is not sorted, and no cell lies in {label}"
        raise LabelError(message, remedy="give a label that a cell has, or a position")


def check_method(method: str | None, tolerance: object) -> None:
    """Raise Unsupported for a method that is none, Invalid for a tolerance without one."""
    if method not in (None, "nearest"):
        raise Unsupported(f"method {method!r}", remedy='method is None or "nearest"')
    if tolerance is not None and method is None:
        raise Invalid("a tolerance without a method", remedy='give method="nearest"')


def _refuse_label(item: object, dim: str | None, why: Why | None) -> None:
    """Raise SelectionError, or of a slice WrongType, for a label on a dimension that has none; it says why."""
    if dim is None or why is None or not _has_labels(item):
        return
    kind = WrongType if isinstance(item, slice) else SelectionError
    raise kind(f"{item!r} is no position of {dim!r}, and {why(dim)}", remedy=f"{LABELS}; positions need none")


def _has_labels(item: object) -> bool:
    match item:
        case slice():
            return is_label(item.start) or is_label(item.stop) or _is_stride(item.step)
        case np.ndarray():
            return item.dtype.kind in "fUSMT" or (item.dtype.kind == "O" and any(map(is_label, item.flat)))
        case list():
            return set(map(type, item)) != {int} and any(map(_has_labels, item))
    return is_label(item)


def _is_stride(step: Any) -> bool:
    return isinstance(step, float | np.floating | timedelta | np.timedelta64)


def _width(item: object) -> int:
    """Return how many axes an item of a key takes."""
    match item:
        case None | bool() | np.bool_():
            return 0
        case list() if item and not _has_labels(item):
            return _width(np.asarray(item))
        case np.ndarray() if item.dtype == bool:
            return item.ndim
    return 0 if item is Ellipsis else 1


def _lookup(dim: str | None, index_of: IndexOf) -> Lookup | None:
    index = index_of(dim) if dim is not None else None
    return None if dim is None or index is None else lookup_of(dim, index)


def lookup_of(dim: str, index: Index) -> Lookup | None:
    """Return what finds the positions of labels of a dimension; None where its cells are no labels (compounds,
    truth)."""
    match index:
        case Labels():
            return Names(dim, index.names, 0, positional=True)
        case FloatLabels():
            return FloatNames(dim, axis_of_floats(index))
        case Coordinate() if index.values.dtype.kind == "S":
            return Names(dim, tuple(value.decode("utf-8", "replace") for value in index.values.tolist()), index.trend)
        case Coordinate() if index.values.dtype.kind in "UTO":
            return Names(dim, tuple(f"{value}" for value in index.values.tolist()), index.trend)
        case Coordinate() if index.values.dtype.kind not in "iufM":
            return None
    return NumberLabels(dim, axis_of_index(index))


def _positions(item: object, lookup: Lookup) -> object:
    """Return one labelled item of ``[]``."""
    match item:
        case slice():
            if isinstance(item.start, int) or isinstance(item.stop, int):
                raise SelectionError(f"{item} mixes a position and a label", remedy="give two of a kind")
            start = None if item.start is None else lookup.bound(item.start, stop=False)
            stop = None if item.stop is None else lookup.bound(item.stop, stop=True)
            step = lookup.stride(item.step) if _is_stride(item.step) else item.step
            return slice(start, stop, step)
        case list() if not all(map(_has_labels, item)):
            raise SelectionError(f"{item} mixes positions and labels", remedy="give items of one kind")
    return _each(item, lookup.exact)


def _selected(item: Any, lookup: Lookup, method: str | None, tolerance: object) -> object:
    """Return one item of ``sel`` on a dimension that has labels."""
    if isinstance(item, slice):
        if lookup.positional and type(item.start) in _PLAIN and type(item.stop) in _PLAIN:
            return item
        if method is not None:
            raise Unsupported("method with a slice", remedy="slices take whole ranges; leave the method out")
        step = item.step
        if step is not None and not is_whole_number(step):
            raise WrongType(f"a slice step of {step!r}", remedy="the step of a slice of labels counts cells: an int")
        if step is None or step >= 0:
            return slice(*lookup.between(item.start, item.stop), step)
        low, high = lookup.between(item.stop, item.start)
        return slice(high - 1, low - 1 if low else None, step) if low < high else slice(0, 0, step)
    many = np.ndim(item) if not isinstance(item, str | bytes) else 0
    if isinstance(item, bool | np.bool_) or (many and np.asarray(item).dtype == bool):
        return item
    if lookup.positional and isinstance(item, int | np.integer):
        return item
    if method is not None:
        return _each(item, lambda label: lookup.nearest(label, tolerance))
    return _each(item, lookup.exact) if many else lookup.chosen(item)


def _each(item: Any, find: Callable[[Any], Any]) -> object:
    """Return the position of a label, or an int64 array of the same shape for an array or list of labels."""
    if isinstance(item, list):
        nested = any(isinstance(label, list | np.ndarray) for label in item)
        labels = np.asarray(item) if nested else item
    elif np.ndim(item) and not isinstance(item, str | bytes):
        labels = np.asarray(item)
    else:
        return find(item)
    flat = labels.ravel() if isinstance(labels, np.ndarray) else labels
    places = [find(label) for label in flat]
    if not all(isinstance(place, int) for place in places):
        raise LabelError("a label of the list stands at several positions", remedy="select them one by one")
    return np.array(places, np.int64).reshape(np.shape(labels))
