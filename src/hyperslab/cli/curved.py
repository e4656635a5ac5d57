"""Grids that follow no parallels: the cells of an image by two coordinates that have both its dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.cli.axes import EAST, NORTH, Axis, NumberScale, title_of
from hyperslab.cli.labelled import LabelledAxis
from hyperslab.errors import HyperslabError
from hyperslab.group import Group
from hyperslab.model.paths import child, split

Values = np.ndarray[Any, Any]

_ROWS = ("latitude", "projection_y_coordinate")
_COLUMNS = ("longitude", "projection_x_coordinate")


def curved_axes(root: Group | Array, array: Array, kept: dict[str, Any]) -> tuple[Axis, Axis] | None:
    """The axes of rows and columns, ``at`` places of every cell. ``kept``: the two dimensions with their keys.

    None where there are no such coordinates, or some cells have no place.
    """
    found: dict[bool, Axis] = {}
    for coordinate in _candidates(root, array):
        rows = _is_rows(coordinate)
        if rows is not None and rows not in found and set(coordinate.dims) == set(kept) and coordinate.ndim == 2:
            axis = _axis(coordinate, kept, rows)
            if axis is not None:
                found[rows] = axis
    return (found[True], found[False]) if len(found) == 2 else None


def _candidates(root: Group | Array, array: Array) -> Iterator[Array]:
    """What the attribute ``coordinates`` names (CF 1.11, 5), then all beside the array."""
    folder = split(array.path)[0]
    group = root.get(folder) if isinstance(root, Group) and folder else root
    if not isinstance(root, Group) or not isinstance(group, Group):
        return
    for name in str(array.attrs.get("coordinates", "")).split():
        try:
            node = root.get(child(folder, name))
        except HyperslabError:  # a name that none can have, or damage
            continue
        if isinstance(node, Array):
            yield node
    yield from (node for _, node in group.arrays())


def _is_rows(array: Array) -> bool | None:
    """Return whether it is a coordinate of rows, such as latitudes, or of columns; None for another array."""
    name, units = array.attrs.get("standard_name"), array.units
    if name in _ROWS or units in NORTH:
        return True
    return False if name in _COLUMNS or units in EAST else None


def _axis(array: Array, kept: dict[str, Any], rows: bool) -> Axis | None:
    cells = np.asarray(array.oindex[tuple(kept[dim] for dim in array.dims if dim)])
    try:
        at = NumberScale.of(LabelledAxis(array, cells, cells)).places(cells)
    except HyperslabError:
        return None
    if not np.isfinite(at).all():
        return None
    at = at if array.dims == tuple(kept) else at.T
    name, units = array.attrs.get("standard_name"), str(array.units or "")
    circle = units in EAST or name == "longitude"
    return Axis(
        dim=list(kept)[0 if rows else 1],
        title=title_of(array, array.name),
        at=_unrolled(at) if circle else at,
        units="" if units == "1" else units,
        circle=circle,
        limit=90.0 if units in NORTH or name == "latitude" else np.inf,
    )


def _unrolled(degrees: Values) -> Values:
    """Longitudes that go on beyond 180 or 360 where their neighbours do, the middle one within 180 of zero."""
    along = np.unwrap(degrees, period=360.0, axis=1)
    along += (np.unwrap(along[:, 0], period=360.0) - along[:, 0])[:, None]
    return np.asarray(along - 360.0 * np.round(np.median(along) / 360.0))


def without_torn(cells: Any, columns: Axis) -> Any:
    """The cells without those that reach over half of the globe, as they do beside a pole: masked."""
    edges = columns.edges()
    corners = np.stack([edges[:-1, :-1], edges[1:, :-1], edges[:-1, 1:], edges[1:, 1:]])
    torn = np.ptp(corners, axis=0) > 180.0
    return np.ma.masked_where(torn, cells) if columns.circle else cells
