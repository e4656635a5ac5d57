"""Coordinates of an array: of a dimension the nearest array that bears its name and runs along it alone, and those that
the attribute ``coordinates`` names (CF 1.11, 5)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from hyperslab.array import Array
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.group.group import Group
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
