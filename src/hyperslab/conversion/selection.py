"""Which cells of every array a selection by dimension means, the shape that is left, and the labels of those cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.boxes import Box
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.model.dims import CFTime, Coordinate, FloatLabels, Index, Labels, ScaleIndex, TimeScale, scale_value
from hyperslab.model.guessing import meant
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.positional import outer
from hyperslab.selection.region import Axis, PositionList, Range, Region


@dataclass(frozen=True, slots=True)
class Select:
    """A selection by dimension name: ``isel`` by position, ``sel`` by label (slices of labels include their stop)."""

    isel: Mapping[str, object]
    sel: Mapping[str, object]

    @classmethod
    def of(cls, select: Mapping[str, Any] | Select | None) -> Select:
        """Sort ``select`` by the kind of value: ints, slices of ints, arrays of ints and masks are positions, others
        labels."""
        if isinstance(select, Select):
            return select
        chosen = dict(select or {})
        isel = {dim: value for dim, value in chosen.items() if _is_position(value)}
        return cls(isel, {dim: value for dim, value in chosen.items() if dim not in isel})

    @property
    def dims(self) -> tuple[str, ...]:
        """Return every dimension that the selection names."""
        return (*self.isel, *self.sel)


def _is_position(value: object) -> bool:
    match value:
        case slice():
            bounds = [bound for bound in (value.start, value.stop) if bound is not None]
            return all(map(_is_position, bounds))
        case list() | tuple() | np.ndarray():
            return np.asarray(value).dtype.kind in "iub"
    return isinstance(value, int | np.integer)


@dataclass(frozen=True, slots=True, eq=False)
class ArraySelection:
    """The selected positions of each axis; the axes that remain (an int drops its axis), and their lengths."""

    axes: tuple[Axis, ...]
    kept: tuple[int, ...]
    shape: tuple[int, ...]

    def is_all(self, shape: tuple[int, ...]) -> bool:
        """Return True if every cell of an array of this shape is selected, in order."""
        return self.shape == shape and (0 in shape or self.axes == tuple(Range(0, length, 1) for length in shape))

    def region(self, box: Box) -> Region:
        """Return the region of the source that a box of the result comes from."""
        axes = list(self.axes)
        for number, part in zip(self.kept, box, strict=True):
            match axes[number]:
                case PositionList(positions):
                    axes[number] = PositionList(positions[part])
                case Range(start=start, step=step):
                    axes[number] = Range(start + part.start * step, part.stop - part.start, step)
        return Region(tuple(axes))


def pick(session: OpenDataset, path: str, spec: ArraySpec, select: Select) -> ArraySelection:
    """Return what the selection means for the array at ``path``; dimensions that it does not name are whole."""
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
    # one position drops its axis
    kept = tuple(axis for axis, item in enumerate(key) if isinstance(item, slice) or np.ndim(item))
    return ArraySelection(selection.region.axes, kept, selection.shape)


def check_dimensions(wanted: Iterable[str], known: Iterable[str | None]) -> None:
    """Raise Invalid for a dimension that no array has."""
    names = sorted({name for name in known if name is not None})
    for dim in wanted:
        if dim not in names:
            raise Invalid(f"no dimension {dim!r}", remedy=meant(dim, names))


def select_labels(indexes: Mapping[str, Index], dims: Sequence[str | None], picked: ArraySelection) -> dict[str, Index]:
    """Return the labels of the selected cells, by dimension, of an array that has labels itself."""
    if not indexes:
        return {}
    axes = ((dims[axis], picked.axes[axis]) for axis in picked.kept)
    return {
        name: _select_from_index(indexes[name], axis) for name, axis in axes if name is not None and name in indexes
    }


def _select_from_index(index: Index, axis: Axis) -> Index:
    """Return the labels of some positions; a regular scale stays a scale where the positions are regular."""
    match axis, index:
        case Range(start=0, step=1), ScaleIndex() | TimeScale():
            return replace(index, size=axis.count)
        case Range(), ScaleIndex(start=start, step=step):
            return ScaleIndex(scale_value(start, step, axis.start), step * axis.step, axis.count)
        case Range(), TimeScale(start=first, step=pace):
            return TimeScale(first + axis.start * pace, pace * axis.step, axis.count)
    if isinstance(axis, Range):
        return _labels_at(index, axis.start + np.arange(axis.count) * axis.step)
    return _labels_at(index, np.asarray(axis.positions))


def _labels_at(index: Index, positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Index:
    """Return the labels at ``positions`` as explicit values."""
    match index:
        case ScaleIndex(start=start, step=step):
            return Coordinate(np.array([scale_value(start, step, int(place)) for place in positions], "f8"))
        case TimeScale(start=first, step=pace):
            return Coordinate(first + positions * pace)
        case Labels(names=names):
            return Labels(tuple(names[place] for place in positions))
        case FloatLabels(values=labels):
            return FloatLabels(tuple(labels[place] for place in positions))
        case CFTime() | Coordinate():
            return replace(index, values=index.values[positions])
