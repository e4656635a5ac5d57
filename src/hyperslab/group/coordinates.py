"""Coordinates of an array: of a dimension the nearest array that bears its name and runs along it alone, those that
the attribute ``coordinates`` names (CF 1.11, 5), and the seconds of a time series of NWB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from hyperslab.array import Array
from hyperslab.array.series import is_series_data
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.group.group import Group
from hyperslab.model.cells import Values
from hyperslab.model.dims import Index
from hyperslab.model.paths import child, outward, split

# Names that are looked up: a stranger may write any number.
_MOST_NAMES = 20


def find_coordinate(array: Array, dim: str) -> Array | None:
    """Return the nearest 1-D array named like the dimension, as seen from ``array``; None where there is none.

    Its length may be another than the dimension's.
    """
    root = Group(array._session, "")
    near = (_node_at(root, child(folder, dim)) for folder in outward(split(array.path)[0]))
    return next((found for found in near if isinstance(found, Array) and found.dims == (dim,)), None)


def find_labels(array: Array, axis: int) -> Index | Array | SampleClock | None:
    """Return where the labels of a dimension come from: the array itself, else the nearest coordinate of its length,
    else the seconds of a time series of NWB, by a clock or by an array of another name; None where it has positions
    alone. Errors of what a series links to."""
    dim = array.dims[axis]
    if dim is not None and dim in array.spec.indexes:
        return array.spec.indexes[dim]
    coordinate = None if dim is None else find_coordinate(array, dim)
    if coordinate is not None and coordinate.shape == (array.shape[axis],):
        return coordinate
    return find_series_clock(array) if axis == 0 else None


def find_auxiliary_coordinates(array: Array) -> Iterator[Array]:
    """Yield the arrays that the attribute ``coordinates`` names, the nearest of each name, but for dimensions; damaged
    ones are left out."""
    root = Group(array._session, "")
    for name in str(array.spec.attrs.get("coordinates", "")).split()[:_MOST_NAMES]:
        if name in array.dims:
            continue
        with suppress(HyperslabError):  # a name that none can have, or damage
            near = (root.get(child(folder, name)) for folder in outward(split(array.path)[0]))
            coordinate = next((node for node in near if isinstance(node, Array)), None)
            if coordinate is not None:
                yield coordinate


def _node_at(root: Group, path: str) -> Group | Array | None:
    """Return what stands at a path; None where nothing does, or can under such a name: a dimension may have any."""
    try:
        return root.get(path)
    except Invalid:
        return None


# -- time series of NWB ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SampleClock:
    """Samples that are equally far apart in time: the array with the second of the first one, and their number in a
    second."""

    start: Array
    rate: float

    def seconds(self, positions: range | Values) -> Values:
        """Return the seconds of samples."""
        return np.asarray(self.start[()], "f8") + np.asarray(positions) / self.rate


def find_series_clock(array: Array) -> Array | SampleClock | None:
    """Return what tells the seconds of the first dimension of ``data`` of a time series: its timestamps, or where it
    starts and its rate; None for other arrays."""
    if not array.ndim or not is_series_data(array._session, array.path):
        return None
    folder = split(array.path)[0]
    root = Group(array._session, "")
    stamps = root.get(child(folder, "timestamps"))
    if isinstance(stamps, Array) and stamps.shape == array.shape[:1]:
        return stamps
    start = root.get(child(folder, "starting_time"))
    if not isinstance(start, Array) or start.shape != ():
        return None
    rate = start.attrs.get("rate")
    return SampleClock(start, float(rate)) if isinstance(rate, int | float | np.number) and rate > 0 else None
