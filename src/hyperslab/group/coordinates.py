"""The coordinate of a dimension: the nearest array that bears its name and runs along it alone, and the seconds of a
time series of NWB. What else belongs to an array: :mod:`hyperslab.group.cf_variables`."""

from __future__ import annotations

from hyperslab.array import Array
from hyperslab.array.series import find_clock, read_sample_scale
from hyperslab.errors import Invalid
from hyperslab.group.group import Group
from hyperslab.model.dims import Index
from hyperslab.model.paths import child, outward, split


def find_coordinate(array: Array, dim: str) -> Array | None:
    """Return the nearest 1-D array named like the dimension, as seen from ``array``; None where there is none.

    Its length may be another than the dimension's.
    """
    root = Group(array._session, "")
    near = (_node_at(root, child(folder, dim)) for folder in outward(split(array.path)[0]))
    return next((found for found in near if isinstance(found, Array) and found.dims == (dim,)), None)


def find_labels(array: Array, axis: int) -> Index | Array | None:
    """Return where the labels of a dimension come from: the array itself, else the nearest coordinate of its length,
    else the seconds of a series of NWB, by its timestamps or its rate; None where it has positions alone. Errors of
    what a series links to."""
    dim = array.dims[axis]
    if dim is not None and dim in array.spec.indexes:
        return array.spec.indexes[dim]
    coordinate = None if dim is None else find_coordinate(array, dim)
    if coordinate is not None and coordinate.shape == (array.shape[axis],):
        return coordinate
    clock = find_clock(array._session, array.path, array.spec) if axis == 0 else None
    if clock is None:
        return None
    return Array(*clock) if clock[2].shape else read_sample_scale(clock, array.shape[0])


def _node_at(root: Group, path: str) -> Group | Array | None:
    """Return what stands at a path; None where nothing does, or can under such a name: a dimension may have any."""
    try:
        return root.get(path)
    except Invalid:
        return None
