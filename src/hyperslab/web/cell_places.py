"""Where the cells of an array lie on the earth, by coordinates of two dimensions, or of one that is no axis: curved
grids, and cells that form no grid (CF 1.11, 5.2 and 5.3)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from hyperslab.array import Array
from hyperslab.conversion.bounding_box import as_degrees
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.group.cf_variables import CellPlaces, RotatedGrid, find_places, find_rotated_grid
from hyperslab.model.cells import Values
from hyperslab.model.dims import axis_names
from hyperslab.web.axes import ViewAxis
from hyperslab.web.bounded_values import cut_text
from hyperslab.web.views import ViewQuery, axis_facts, fit_view, is_within_budget, open_view

# Degrees beyond which a longitude is none, but a number for missing ones.
_FARTHEST = 1080.0


def find_cell_places(array: Array) -> CellPlaces | RotatedGrid | None:
    """Return what says where the cells of an array lie; None without any."""
    return find_places(array) or find_rotated_grid(array)


def read_places(array: Array, query: ViewQuery) -> tuple[dict[str, object], Values]:
    """Return the head of a view, and for each of its cells the longitude and latitude, in degrees, as two layers of
    floats of 32 bits: those of the position in the middle of its block. NaN is nowhere, as are impossible degrees.

    Invalid where there are none along the dimensions of the view, or so many that reading them takes too long.
    """
    places = find_cell_places(array)
    view = fit_view(open_view(array, query))
    names = axis_names(array.dims)
    axes = {names[axis.axis]: axis for axis in view.axes}
    if places is None or set(places.dims) != set(axes):
        dims = "no dimensions" if places is None else " and ".join(places.dims)
        raise Invalid(f"longitudes and latitudes are known along {dims}", node=array.path, remedy="view these")
    layers = []
    for coordinate in (places.longitude, places.latitude):
        with array._session.add_place_to_errors(coordinate.path):
            layers.append(
                _read_middles(coordinate, [axes[str(dim)] for dim in coordinate.dims], replace(query, y=None))
            )
    shown = tuple(names[axis.axis] for axis in view.axes)
    if isinstance(places, RotatedGrid):
        layers = list(places.to_earth(*layers))
        layers = layers if places.dims == shown else [cells.T for cells in layers]
    elif len(shown) == 2:
        pairs = zip((places.longitude, places.latitude), layers, strict=True)
        layers = [cells if coordinate.dims == shown else cells.T for coordinate, cells in pairs]
    columns, rows = view.columns, view.rows
    longitude, latitude = layers
    is_nowhere = ~((np.abs(longitude) <= _FARTHEST) & (np.abs(latitude) <= 90 + 1e-6))
    is_line = len(view.axes) == 1
    stack = np.where(is_nowhere, np.nan, layers).astype("<f4")
    head = {
        "path": f"/{array.path}",
        "kind": "positions",
        "layers": ["longitude", "latitude"],
        "shape": list(stack.shape),
        "offset": 0.0,
        "factor": 1.0,
        "units": "degrees",
        "x": axis_facts(array, columns, labelled=False),
        "y": None if is_line else axis_facts(array, rows, labelled=False),
        "gaps": [],
        "gap_count": 0,
    }
    return head, stack


def _read_middles(coordinate: Array, axes: list[ViewAxis], query: ViewQuery) -> Values:
    """Return the degrees at the middle of each block along axes of a view, which are those of the coordinate."""
    own = [replace(axis, axis=number, step=axis.step * axis.block) for number, axis in enumerate(axes)]
    view = replace(open_view(coordinate, replace(query, x=None, x_range=None, at={})), axes=tuple(own))
    if not is_within_budget(view):
        raise Invalid("the coordinates are too long to be read", remedy="look at a part of the array")
    middles = [axis.middle_positions() for axis in axes]
    return as_degrees(coordinate, np.asarray(coordinate.oindex[tuple(middles)]))


def place_facts(array: Array, index: tuple[int, ...]) -> list[dict[str, object]]:
    """Return longitude and latitude of one cell of a curved grid, or of no grid, as labels; none where it is nowhere,
    or the coordinates cannot be read."""
    places = find_cell_places(array)
    if places is None:
        return []
    at = dict(zip(axis_names(array.dims), index, strict=True))
    with suppress(HyperslabError):
        degrees = []
        for coordinate in (places.longitude, places.latitude):
            cell = np.asarray(coordinate[tuple(at[str(dim)] for dim in coordinate.dims)])
            degrees.append(as_degrees(coordinate, cell[np.newaxis]))
        names = [cut_text(places.longitude.name)[0], cut_text(places.latitude.name)[0]]
        if isinstance(places, RotatedGrid):
            degrees, names = list(places.pole.to_earth(*degrees)), ["longitude", "latitude"]
        if all(abs(float(cell[0])) <= _FARTHEST for cell in degrees):
            units = ("degrees_east", "degrees_north")
            facts = zip(names, degrees, units, strict=True)
            return [{"dim": name, "label": float(cell[0]), "units": unit} for name, cell, unit in facts][::-1]
    return []
