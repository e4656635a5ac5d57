"""Which cells of every array a selection by dimension means, and what shape is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.boxes import Box
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.model.guessing import meant
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.positional import outer
from hyperslab.selection.region import Axis, PositionList, Range, Region


@dataclass(frozen=True, slots=True)
class Select:
    """A selection by dimension name: ``isel`` by position, ``sel`` by label (slices of labels include their stop)."""

    isel: Mapping[str, Any]
    sel: Mapping[str, Any]

    @classmethod
    def of(cls, select: Mapping[str, Any] | Select | None) -> Select:
        """Sorted by the kind of value: ints, slices of ints, arrays of ints and masks are positions, others labels."""
        if isinstance(select, Select):
            return select
        chosen = dict(select or {})
        isel = {dim: value for dim, value in chosen.items() if _is_position(value)}
        return cls(isel, {dim: value for dim, value in chosen.items() if dim not in isel})

    @property
    def dims(self) -> tuple[str, ...]:
        """Every dimension that is named."""
        return (*self.isel, *self.sel)


def _is_position(value: Any) -> bool:
    if isinstance(value, slice):
        bounds = [bound for bound in (value.start, value.stop) if bound is not None]
        return all(map(_is_position, bounds))
    if isinstance(value, list | tuple | np.ndarray):
        return np.asarray(value).dtype.kind in "iub"
    return isinstance(value, int | np.integer)


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """The chosen positions of each axis; the axes that remain (an int drops its axis), and their lengths."""

    axes: tuple[Axis, ...]
    kept: tuple[int, ...]
    shape: tuple[int, ...]

    def is_all(self, shape: tuple[int, ...]) -> bool:
        """Return whether every cell of an array of this shape is picked, in order."""
        return self.shape == shape and (0 in shape or self.axes == tuple(Range(0, length, 1) for length in shape))

    def region(self, box: Box) -> Region:
        """The part of the source that a box of the result comes from."""
        axes = list(self.axes)
        for axis, part in zip(self.kept, box, strict=True):
            axes[axis] = _part_of(axes[axis], part)
        return Region(tuple(axes))


def _part_of(axis: Axis, part: slice) -> Axis:
    if isinstance(axis, PositionList):
        return PositionList(axis.positions[part])
    return Range(axis.start + part.start * axis.step, part.stop - part.start, axis.step)


def pick(session: OpenDataset, path: str, spec: ArraySpec, select: Select) -> Picked:
    """The selection's meaning for the array at ``path``; dimensions that it does not name are whole."""
    key: list[Any] = [slice(None)] * len(spec.shape)
    isel = {dim: value for dim, value in select.isel.items() if dim in spec.dims}
    sel = {dim: value for dim, value in select.sel.items() if dim in spec.dims}
    if isel or sel:
        try:
            key = list(Array(session, path, spec).sel_key(sel))
        except HyperslabError as error:
            raise error.locate(node=path, url=session.url) from error.__cause__
        key += [slice(None)] * (len(spec.shape) - len(key))
        key = [isel.get(dim, item) if dim is not None else item for dim, item in zip(spec.dims, key, strict=True)]
    selection = outer(tuple(key), spec.shape)
    kept = tuple(axis for axis, item in enumerate(key) if not _is_single(item))
    return Picked(selection.region.axes, kept, selection.shape)


def _is_single(item: Any) -> bool:
    return isinstance(item, int | np.integer) or (isinstance(item, np.ndarray) and item.ndim == 0)


def check_dimensions(wanted: Iterable[str], known: Iterable[str | None]) -> None:
    """Refuse a dimension that no array has."""
    names = sorted({name for name in known if name is not None})
    for dim in wanted:
        if dim not in names:
            raise Invalid(f"no dimension {dim!r}", remedy=meant(dim, names))
