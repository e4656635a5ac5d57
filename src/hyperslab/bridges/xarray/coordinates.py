"""Labels that a format keeps with its arrays, and no coordinate array holds, as coordinates of a Dataset."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xarray as xr

from hyperslab.array import Array
from hyperslab.model.dims import Index, Labels, ScaleIndex, TimeScale


def computed_coordinates(arrays: Iterable[Array], dataset: xr.Dataset) -> xr.Coordinates | None:
    """A ``RangeIndex`` for each regular scale and a ``PandasIndex`` for labels; None where there are none.

    Arrays that call the positions of one dimension differently leave it without labels.
    """
    shared: dict[str, Index | None] = {}
    for array in arrays:
        for dim in array.dims:
            if dim is not None:
                index = array.spec.indexes.get(dim)
                shared[dim] = index if shared.get(dim, index) == index else None
    found: xr.Coordinates | None = None
    for dim, index in shared.items():
        if index is not None and dim not in dataset.variables:
            coordinates = coordinates_of(dim, index)
            found = coordinates if found is None else found.assign(coordinates)
    return found


def coordinates_of(dim: str, index: Index) -> xr.Coordinates:
    """The labels of one dimension."""
    match index:
        case ScaleIndex(start=start, step=step, size=size) if size > 1:
            last = start + (size - 1) * step
            made = xr.indexes.RangeIndex.linspace(start, last, size, endpoint=True, dim=dim)
            return xr.Coordinates.from_xindex(made)
        case ScaleIndex(start=start):
            values = np.array([start][: index.size])
        case TimeScale(start=first, step=pace, size=size):
            values = first + np.arange(size) * pace
        case Labels(names=names):
            values = np.array(names, dtype=object)
        case _:
            values = np.asarray(index.values)
    return xr.Coordinates({dim: (dim, values)})
