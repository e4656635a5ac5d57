"""The coordinate of a dimension: the nearest array that bears its name and runs along it alone, and the seconds of a
time series of NWB. What else belongs to an array: :mod:`hyperslab.group.cf_variables`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyperslab.array import Array
from hyperslab.array.series import is_series_data
from hyperslab.errors import Invalid
from hyperslab.group.group import Group
from hyperslab.model.cells import Values
from hyperslab.model.dims import Index
from hyperslab.model.paths import child, outward, split


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
