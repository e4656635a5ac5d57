"""The dimensions of one array: what its positions are called, and keys of ``array[...]``, which call them so.

Dimensions are the schema's, with the array's own length and start. Labels of a key become positions, and every item is
checked before anything is read: an int is a position, never a label; a stop is exclusive for every kind of bound; what
NumPy clips is clipped. Lists, masks and None are no items here: the array that a record holds (``.array``) takes those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import index
from typing import Any

import numpy as np

from hyperslab.chunks.source import Block
from hyperslab.errors import LabelError, SelectionError, WrongType
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.dims import Index
from hyperslab.model.schemas import AnyDimensionSchema, DimensionSchema, Scale
from hyperslab.model.schemas.dimensions import as_nanoseconds, microseconds
from hyperslab.selection.keys import WHOLE, several_ellipses, too_many, zero_step
from hyperslab.selection.label_query import is_label
from hyperslab.selection.labels import lookup_of
from hyperslab.selection.lookup import Lookup
from hyperslab.selection.positional import select
from hyperslab.selection.region import Selection


@dataclass(frozen=True, repr=False)
class Dimension:
    """One dimension of an array: a name, a length, and labels or a scale or neither. Its step is one cell."""

    name: str
    size: int
    labels: tuple[str, ...] | tuple[float, ...] | None = None
    scale: Scale | None = None

    @property
    def step(self) -> int:
        """Cells from one position to the next: always 1."""
        return 1

    def values(self, positions: range) -> list[Any]:
        """Return the names of positions: labels, values of the scale in as many decimals as it has, or ints."""
        if self.labels is not None:
            return [self.labels[place] for place in positions]
        if self.scale is None:
            return list(positions)
        return [self.scale.value(place) for place in positions]

    def coordinate(self, positions: range) -> Block:
        """Return the same as an array."""
        return np.array(self.values(positions)) if len(positions) else np.array([], self._kind)

    @property
    def _kind(self) -> str:
        if self.labels is not None:
            return "U1" if isinstance(self.labels[0], str) else "f8"
        return "i8" if self.scale is None else "f8"

    @property
    def as_dict(self) -> dict[str, Any]:
        """The dimension as plain values."""
        fields: dict[str, Any] = {"name": self.name, "size": self.size, "step": self.step}
        if self.labels is not None:
            fields["labels"] = self.labels
        if self.scale is not None:
            fields["scale"] = self.scale._asdict()
        return fields

    def __repr__(self) -> str:
        fields = f", labels={self.labels}" if self.labels is not None else ""
        fields += f", scale={self.scale}" if self.scale is not None else ""
        return f"Dimension(name={self.name!r}, size={self.size}, step=1{fields})"


@dataclass(frozen=True)
class TimeDimension:
    """One dimension whose positions are moments: ``start_value + i * step``, in UTC."""

    name: str
    size: int
    step: timedelta
    start_value: datetime

    def values(self, positions: range) -> list[Any]:
        """Return the moments of these positions, as datetimes of UTC. SelectionError beyond the years 1 to 9999."""
        try:
            return [self.start_value + place * self.step for place in positions]
        except OverflowError:
            remedy = "such positions have no datetime; select them by position and read()"
            raise SelectionError(f"{self.name!r} reaches beyond the year 9999", remedy=remedy) from None

    def coordinate(self, positions: range) -> Block:
        """Return the moments as datetime64[ns], of UTC; in microseconds where nanoseconds do not reach."""
        places = np.arange(positions.start, positions.stop, positions.step, dtype=np.int64)
        return as_nanoseconds(
            (microseconds(self.start_value) + places * (self.step // timedelta(microseconds=1))).view("M8[us]")
        )

    @property
    def as_dict(self) -> dict[str, Any]:
        """The dimension as plain values."""
        start = self.start_value.isoformat()
        return {"name": self.name, "size": self.size, "step": self.step, "start_value": start}


def dimension(schema: AnyDimensionSchema, values: Mapping[str, Any], size: int) -> Dimension | TimeDimension:
    """Return the dimension of an array that is so long, by the ``values`` of its attributes; times without start are
    none."""
    if isinstance(schema, DimensionSchema):
        return Dimension(schema.name, size, schema.labels, schema.scale)
    start = schema.start_of(values)
    return Dimension(schema.name, size) if start is None else TimeDimension(schema.name, size, schema.step, start)


def labels_text(schema: AnyDimensionSchema, most: int) -> str:
    """Return a few words on the labels of positions, of listed labels the first ``most``: ``from 90.0 by -0.25
    (lat)``."""
    if not isinstance(schema, DimensionSchema):
        start = schema.start_value
        return f"from {start if isinstance(start, str) else start.isoformat()} by {schema.step}"
    if schema.scale is not None:
        named = f" ({schema.scale.name})" if schema.scale.name else ""
        return f"from {schema.scale.start_value} by {schema.scale.step}{named}"
    labels = schema.labels or ()
    return ", ".join([*map(str, labels[:most]), *([f"… ({len(labels)})"] if len(labels) > most else [])])


# -- keys --------------------------------------------------------------------------------------------------------------


Item = int | slice
_KINDS = "an item is an int, a float, text, a time, a slice of those or `...`; array.array.sel(...) takes lists too"


@dataclass(frozen=True, slots=True)
class Along:
    """One dimension as a key sees it: its name, its length and what gives its positions labels."""

    name: str
    size: int
    index: Index | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A key in positions: ``bounds`` has an item for each item given, ``items`` one for each dimension.

    ``selection`` is what these select now: it checks them, and tells the shape. A read selects anew, since the array
    may have another length by then.
    """

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
        error.remedy = error.remedy and error.remedy.replace("sel(", "array.array.sel(")
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
