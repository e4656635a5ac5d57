"""Whether the cells of a variable keep their meaning where they are to be stored; Invalid says what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from hyperslab.array import Array
from hyperslab.errors import Invalid

_MEANING = ("units", "calendar", "scale_factor", "add_offset")


def check_dims(name: str, variable: xr.Variable, array: Any, grows: str | None = None) -> None:
    """The dimensions of what is there, in its order, and of its lengths (but for the one that grows)."""
    if not isinstance(array, Array):
        raise Invalid(f"{name!r} is a group, not an array", url=array.url, node=array.path)
    if variable.dims != array.dims:
        remedy = "transpose it" if set(variable.dims) == set(array.dims) else "rename its dimensions"
        raise Invalid(f"{name!r} has dimensions {variable.dims}, stored are {array.dims}", remedy=remedy)
    for dim, size, stored in zip(variable.dims, variable.shape, array.shape, strict=True):
        if size != stored and dim != grows:
            remedy = "append_dim= adds rows, region= changes some, mode='w' replaces all"
            raise Invalid(f"{name!r} has {size} cells along {dim!r}, stored are {stored}", remedy=remedy)


def check_meaning(name: str, decoded: xr.Variable, variable: xr.Variable, array: Array) -> None:
    """An encoded variable says the same with the same numbers: dtype, units, calendar, scale, and no overflow."""
    if not same_kind(variable, array):
        raise Invalid(f"{name!r} is {variable.dtype} when encoded, stored is {array.dtype}", remedy="astype it")
    for word in _MEANING:
        given, stored = variable.attrs.get(word), array.attrs.get(word)
        if given is not None and stored is not None and not np.array_equal(given, stored):
            message = f"{name!r} would be stored with {word} {given!r}, what is there has {stored!r}"
            raise Invalid(message, remedy="convert it; times must be whole numbers of the stored units")
    check_range(name, decoded, variable.attrs, array.dtype)


def check_range(name: str, decoded: xr.Variable, attrs: Mapping[Any, Any], dtype: np.dtype[Any]) -> None:
    """Numbers in memory that the stored dtype holds; those of dask arrays are not looked at."""
    if dtype.kind not in "iu" or decoded.dtype.kind not in "iuf" or not decoded._in_memory or not decoded.size:
        return
    scale, offset = float(attrs.get("scale_factor", 1)), float(attrs.get("add_offset", 0))
    cells = np.asarray(decoded.values)
    cells = cells[np.isfinite(cells)]
    if not cells.size:
        return
    low, high = cells.min(), cells.max()
    ends = sorted(((low - offset) / scale, (high - offset) / scale))
    bounds = np.iinfo(dtype)
    if ends[0] < bounds.min - 0.5 or ends[1] > bounds.max + 0.5:
        remedy = "store it with another dtype, scale_factor or add_offset"
        raise Invalid(f"{name!r} holds {low} to {high}, which cells of {dtype} cannot", remedy=remedy)


def same_kind(variable: xr.Variable, array: Array) -> bool:
    """Whether cells keep their values: text is text of any length, numbers must be of the same dtype."""
    if variable.dtype.kind in "UTO" or array.dtype.kind in "UTO":
        return bool(variable.dtype.kind in "UTO" and array.dtype.kind in "UTO")
    return bool(variable.dtype.newbyteorder("=") == array.dtype.newbyteorder("="))
