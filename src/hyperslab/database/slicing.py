"""Keys of ``array[...]`` of a collection: labels become positions, and every item is checked before anything is read.

An int is a position, never a label; a stop is exclusive for every kind of bound; what NumPy clips is clipped. Lists,
masks and None are no items here: the array that a record holds (``.array``) takes those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import index

import numpy as np

from hyperslab.errors import LabelError, SelectionError, WrongType
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.dims import Index
from hyperslab.selection.keys import WHOLE, several_ellipses, too_many, zero_step
from hyperslab.selection.label_query import is_label
from hyperslab.selection.labels import lookup_of
from hyperslab.selection.lookup import Lookup
from hyperslab.selection.positional import select
from hyperslab.selection.region import Selection

Item = int | slice
_KINDS = "an item is an int, a float, text, a time, a slice of those or `...`"


@dataclass(frozen=True, slots=True)
class Along:
    """One dimension as a key sees it: its name, its length and what gives its positions labels."""

    name: str
    size: int
    index: Index | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A key in positions: ``bounds`` has an item for each item given, ``items`` one for each dimension."""

    bounds: tuple[Item, ...]
    items: tuple[Item, ...]
    selection: Selection

    def positions(self, dimension: int, size: int) -> range:
        """Return the positions along one dimension; of an int that one alone."""
        item = self.items[dimension]
        return range(*item.indices(size)) if isinstance(item, slice) else range(item % size, item % size + 1)


def resolve(key: object, dimensions: Sequence[Along]) -> Resolved:
    """Return the key in positions. SelectionError or LabelError (both are IndexErrors) for what selects nothing here,
    Invalid (a ValueError) for a step of zero."""
    items = key if isinstance(key, tuple) else (key,)
    dots = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise several_ellipses()
    missing = len(dimensions) - len(items) + len(dots)
    if missing < 0:
        raise too_many(len(items) - len(dots), tuple(each.size for each in dimensions))
    if dots:
        last = dots[0] == len(items) - 1
        items = (*items[: dots[0]], *(WHOLE,) * (min(missing, 1) if last else missing), *items[dots[0] + 1 :])
    try:
        bounds = tuple(_item(item, along) for item, along in zip(items, dimensions, strict=False))
    except LabelError as error:
        error.remedy = error.remedy and error.remedy.replace("sel(...,", "array.array.sel(...,")
        raise
    whole = bounds + (WHOLE,) * (len(dimensions) - len(bounds))
    return Resolved(bounds, whole, select(whole, tuple(each.size for each in dimensions)))


def _item(item: object, along: Along) -> Item:
    if isinstance(item, slice):
        return _slice(item, along)
    if (position := _position(item)) is not None:
        return position
    if is_label(item):
        found = _lookup(along).exact(item)
        if isinstance(found, int):
            return found
    raise SelectionError(f"{item!r} is no position of {along.name!r}", remedy=_KINDS)


def _position(item: object) -> int | None:
    """Return an int of Python's or NumPy's; a truth value is none."""
    if not is_whole_number(item):
        return None
    return index(item)


def _slice(item: slice, along: Along) -> slice:
    step = _step(item.step, along)
    start, stop = _slice_end(item.start, along), _slice_end(item.stop, along)
    if not (is_label(start) or is_label(stop)):
        return slice(start, stop, step)
    if isinstance(start, int) or isinstance(stop, int):
        raise SelectionError(f"{item} mixes a position and a label", remedy="give two of a kind")
    lookup, backwards = _lookup(along), step is not None and step < 0
    first = (along.size - 1 if backwards else 0) if start is None else lookup.bound(start, stop=False)
    if stop is None:
        return slice(first, None if backwards else along.size, step)
    return slice(first, lookup.bound(stop, stop=True), step)


def _slice_end(bound: object, along: Along) -> object:
    """Return a bound of a slice: None, an int or a label."""
    if bound is None or is_label(bound):
        return bound
    position = _position(bound)
    if position is None:
        raise SelectionError(f"{bound!r} is no bound of a slice of {along.name!r}", remedy=_KINDS)
    return position


def _step(step: object, along: Along) -> int | None:
    if step is None:
        return None
    cells = _position(step)
    if cells is None and isinstance(step, float | np.floating | timedelta | np.timedelta64):
        try:
            cells = _lookup(along).stride(step)
        except WrongType as error:
            raise SelectionError(error.message, remedy=error.remedy) from None
    if cells is None:
        raise SelectionError(f"a step of {step!r}", remedy="a step is an int, or a whole multiple of the dimension's")
    if not cells:
        raise zero_step()
    return cells


def _lookup(along: Along) -> Lookup:
    lookup = None if along.index is None else lookup_of(along.name, along.index)
    if lookup is None:
        raise SelectionError(f"{along.name!r} has neither labels nor a scale", remedy="select by position: an int")
    return lookup
