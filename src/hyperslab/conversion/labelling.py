"""The labels that an array has by itself, as a target keeps them: those of the chosen cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from hyperslab.array.indexes import find_index
from hyperslab.array.session import OpenDataset
from hyperslab.conversion.damage import DAMAGE
from hyperslab.conversion.selecting import Picked
from hyperslab.model.dims import CFTime, Coordinate, FloatLabels, Index, Labels, ScaleIndex, TimeScale, scale_value
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.region import Axis, Range


def chosen_labels(indexes: Mapping[str, Index], dims: Sequence[str | None], picked: Picked) -> dict[str, Index]:
    """Of the labels that the dimensions of a source's array have, those of the cells that are picked."""
    if not indexes:
        return {}
    names = ((dims[axis], picked.axes[axis]) for axis in picked.kept)
    return {name: _taken(indexes[name], axis) for name, axis in names if name is not None and name in indexes}


def labels_of(source: OpenDataset, path: str, spec: ArraySpec) -> dict[str, Index]:
    """All labels of an array, those of coordinate arrays too; not those that cannot be read."""
    found = {}
    for dim in spec.dims:
        with suppress(*DAMAGE):  # which is told where the coordinate itself is copied
            index = None if dim is None else find_index(source, path, spec, dim)
            if dim is not None and index is not None:
                found[dim] = index
    return found


def _taken(index: Index, axis: Axis) -> Index:
    """The labels of some positions; a rule stays one where the positions are regular."""
    match axis, index:
        case Range(start=0, step=1), ScaleIndex() | TimeScale():
            return replace(index, size=axis.count)
        case Range(), ScaleIndex(start=start, step=step):
            return ScaleIndex(scale_value(start, step, axis.start), step * axis.step, axis.count)
        case Range(), TimeScale(start=first, step=pace):
            return TimeScale(first + axis.start * pace, pace * axis.step, axis.count)
    if isinstance(axis, Range):
        return _at(index, axis.start + np.arange(axis.count) * axis.step)
    return _at(index, np.asarray(axis.positions))


def _at(index: Index, positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Index:
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
