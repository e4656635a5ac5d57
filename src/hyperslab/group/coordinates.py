"""The coordinate of a dimension: the nearest array that bears its name and runs along it alone."""

from __future__ import annotations

from hyperslab.array import Array
from hyperslab.errors import Invalid
from hyperslab.group.group import Group
from hyperslab.model.paths import child, outward, split


def find_coordinate(array: Array, dim: str) -> Array | None:
    """Return the nearest 1-D array named like the dimension, as seen from ``array``; None where there is none.

    Its length may be another than the dimension's.
    """
    root = Group(array._session, "")
    near = (_node_at(root, child(folder, dim)) for folder in outward(split(array.path)[0]))
    return next((found for found in near if isinstance(found, Array) and found.dims == (dim,)), None)


def _node_at(root: Group, path: str) -> Group | Array | None:
    """Return what stands at a path; None where nothing does, or can under such a name: a dimension may have any."""
    try:
        return root.get(path)
    except Invalid:
        return None
