"""Where the cells of a Dataset belong in what is there: slices by dimension, given or found by labels."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Literal

import numpy as np
import xarray as xr

from hyperslab.bridges.xarray.fitting import check_names
from hyperslab.errors import Invalid
from hyperslab.model.guessing import meant

Region = Mapping[str, slice]


def region_dims(region: Any, dataset: xr.Dataset) -> set[str]:
    """The dimensions that a region names; Invalid for those that there are not."""
    if region == "auto":
        return {str(dim) for dim in dataset.dims}
    if not isinstance(region, Mapping) or not region:
        raise Invalid(f"region {region!r}", remedy="slices by dimension, or 'auto'")
    unknown = [str(dim) for dim in region if dim not in dataset.dims]
    if unknown:
        remedy = meant(unknown[0], dataset.dims)
        raise Invalid(f"no dimension {unknown[0]!r} in what is to be written", remedy=remedy)
    return {str(dim) for dim in region}


def resolve(region: Mapping[str, Any] | Literal["auto"], dataset: xr.Dataset, existing: xr.Dataset) -> dict[str, slice]:
    """Slices by dimension; ``auto`` finds where the coordinates of ``dataset`` stand in what is there."""
    wanted: Mapping[str, Any] = {str(dim): "auto" for dim in dataset.dims} if region == "auto" else region
    found = {}
    for dim, part in wanted.items():
        if dim not in dataset.dims or dim not in existing.dims:
            raise Invalid(f"no dimension {dim!r} in both", remedy=f"there are {tuple(existing.dims)}")
        found[dim] = _place(dim, dataset, existing) if part == "auto" else _checked_slice(dim, part)
    return found


def _checked_slice(dim: str, part: Any) -> slice:
    if not isinstance(part, slice) or part.step not in (None, 1):
        raise Invalid(f"the region of {dim!r} is {part!r}", remedy="a slice without step, or 'auto'")
    if not all(end is None or isinstance(end, Integral) for end in (part.start, part.stop)):
        raise Invalid(f"the region of {dim!r} is {part!r}", remedy="a slice of positions, or 'auto' to go by labels")
    return part


def _place(dim: str, dataset: xr.Dataset, existing: xr.Dataset) -> slice:
    if dim not in dataset.indexes and dataset.sizes[dim] == existing.sizes[dim]:
        return slice(0, existing.sizes[dim])
    if dim not in dataset.indexes or dim not in existing.indexes:
        raise Invalid(f"{dim!r} has no coordinate to find the region by", remedy="name the region by slices")
    if not existing.indexes[dim].is_unique:
        raise Invalid(f"labels of {dim!r} occur twice", remedy="name the region by slices")
    places = existing.indexes[dim].get_indexer(dataset.indexes[dim])
    if (places < 0).any():
        raise Invalid(f"some labels of {dim!r} are not there", remedy="append them first")
    if (np.diff(places) != 1).any():
        raise Invalid(f"the labels of {dim!r} do not stand side by side", remedy="sort them as they are stored")
    return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)


def where_of(name: str, variable: xr.Variable, array: Any, key: Region) -> tuple[slice, ...]:
    """The region of one array; Invalid when the variable has other dimensions, or is of another shape."""
    check_names(name, variable, array)
    where = tuple(key.get(str(dim), slice(None)) for dim in variable.dims)
    sizes = tuple(len(range(*part.indices(length))) for part, length in zip(where, array.shape, strict=True))
    if sizes != variable.shape:
        remedy = "slice what is to be written, or name the region that it is for"
        raise Invalid(f"{name!r} is of shape {variable.shape}, the region of shape {sizes}", remedy=remedy)
    return where
