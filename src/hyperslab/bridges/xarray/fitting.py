"""Whether the cells of a variable keep their meaning where they are to be stored; Invalid says what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from hyperslab.array import Array, times
from hyperslab.errors import Invalid
from hyperslab.model.calendars import calendar_name, parse_moment, unit_length

_MEANING = ("units", "calendar", "scale_factor", "add_offset")


def check_dims(name: str, variable: xr.Variable, array: Any, grows: str | None = None) -> None:
    """The dimensions of what is there, in its order, and of its lengths (but for the one that grows)."""
    if not isinstance(array, Array):
        remedy = "choose another name, or delete the group"
        raise Invalid(f"{name!r} is a group, not an array", url=array.url, node=array.path, remedy=remedy)
    check_names(name, variable, array)
    for dim, size, stored in zip(variable.dims, variable.shape, array.shape, strict=True):
        if size != stored and dim != grows:
            remedy = "append_dim= adds rows, region= changes some, mode='w' replaces all"
            raise Invalid(f"{name!r} has {size} cells along {dim!r}, stored are {stored}", remedy=remedy)


def check_names(name: str, variable: xr.Variable, array: Array) -> None:
    """The dimensions of what is there, in its order."""
    if variable.dims != array.dims:
        remedy = "transpose it" if set(variable.dims) == set(array.dims) else "rename its dimensions"
        raise Invalid(f"{name!r} has dimensions {variable.dims}, stored are {array.dims}", remedy=remedy)


def check_meaning(name: str, decoded: xr.Variable, variable: xr.Variable, array: Array) -> None:
    """An encoded variable says the same with the same numbers: dtype, units, calendar, scale, and no overflow."""
    if not same_kind(variable, array):
        raise Invalid(f"{name!r} is {variable.dtype} when encoded, stored is {array.dtype}", remedy="astype it")
    for word in _MEANING:
        given, stored = variable.attrs.get(word), array.attrs.get(word)
        if given is not None and stored is not None and not _same(word, variable.attrs, array.attrs):
            message = f"{name!r} would be stored with {word} {given!r}, what is there has {stored!r}"
            raise Invalid(message, remedy="convert it; times must be whole numbers of the stored units")
    _check_range(name, decoded, variable.attrs, array.dtype)


def _same(word: str, given: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Whether an attribute means the same: times may count from the same moment in other words."""
    if np.array_equal(given[word], stored[word]):
        return True
    if word == "calendar":
        return calendar_name(str(given[word])) == calendar_name(str(stored[word])) is not None
    clocks = _clock(given), _clock(stored)
    return word == "units" and clocks[0] is not None and clocks[0] == clocks[1]


def _clock(attrs: Mapping[str, Any]) -> tuple[int, int] | None:
    """The length of the unit and the instant from which it is counted; None for what counts no time."""
    found = times.clock(attrs)
    calendar = calendar_name(found.calendar) if found else None
    moment = parse_moment(found.epoch) if found else None
    if found is None or calendar is None or moment is None:
        return None
    length, start = unit_length(found.unit, calendar), moment.start(calendar)
    return None if length is None or start is None else (length, start)


def _check_range(name: str, decoded: xr.Variable, attrs: Mapping[Any, Any], dtype: np.dtype[Any]) -> None:
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
