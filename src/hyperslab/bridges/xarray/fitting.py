"""Check that the cells of a variable keep their meaning where they are stored; Invalid says what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.array import Array, times
from hyperslab.array.narrowing import cast_remedy, require_fit
from hyperslab.errors import Invalid
from hyperslab.group import Group
from hyperslab.model.calendars import REAL, calendar_name, parse_moment, unit_length

_MEANING = ("units", "calendar", "scale_factor", "add_offset")
_OF_DATETIMES = "proleptic_gregorian"
_REFORM = 1582
"""The year behind which the calendars standard and proleptic_gregorian are one."""


def check_dims(name: str, variable: xr.Variable, array: Any, grows: str | None = None) -> None:
    """Raise Invalid for other dimensions than those of the array, and other lengths (but for the one that grows)."""
    if not isinstance(array, Array):
        remedy = "choose another name, or delete the group"
        raise Invalid(f"{name!r} is a group, not an array", url=array.url, node=array.path, remedy=remedy)
    check_names(name, variable, array)
    for dim, size, stored in zip(variable.dims, variable.shape, array.shape, strict=True):
        if size != stored and dim != grows:
            remedy = "append_dim= adds rows, region= changes some, mode='w' replaces all"
            raise Invalid(f"{name!r} has {size} cells along {dim!r}, stored are {stored}", remedy=remedy)


def check_names(name: str, variable: xr.Variable, array: Array) -> None:
    """Raise Invalid for other dimensions than those of the array, or another order."""
    if variable.dims != array.dims:
        remedy = "transpose it" if set(variable.dims) == set(array.dims) else "rename its dimensions"
        raise Invalid(f"{name!r} has dimensions {variable.dims}, stored are {array.dims}", remedy=remedy)


def check_calendars(dataset: xr.Dataset, group: Group) -> None:
    """Raise Invalid for times of another calendar than those of the array that they go to: xarray would store the same
    date, which is another moment there, or none."""
    for name, variable in dataset.variables.items():
        array = group[str(name)] if variable.dtype.kind in "MO" and name in group else None
        if not isinstance(array, Array) or not variable.size:
            continue
        found = times.clock(array.attrs)
        if found is None and array.dtype.kind != "M":
            continue
        try:
            accessor = xr.DataArray(variable).dt
        except AttributeError:  # no times
            continue
        new, stored = calendar_name(accessor.calendar), calendar_name(found.calendar) if found else _OF_DATETIMES
        if new == stored or (new in REAL and stored in REAL and not bool((accessor.year <= _REFORM).any())):
            continue
        message = f"{name!r} has times of the calendar {new}, stored are those of {stored}"
        raise Invalid(message, url=group.url, node=group.path, remedy=f"convert_calendar({stored!r}) it")


def check_meaning(name: str, decoded: xr.Variable, variable: xr.Variable, array: Array) -> None:
    """Raise Invalid where the numbers of an encoded variable mean something else in the array: by dtype, length of
    text, units, calendar or scale."""
    if not same_kind(variable, array):
        known = None if is_chunked_array(variable._data) else np.asarray(variable.values)
        anew = f"load() what is there, make its {name!r} of {{dtype}}, add these cells, and save all with mode='w'"
        remedy = cast_remedy(known, variable.dtype, array.dtype, anew)
        raise Invalid(f"{name!r} is {variable.dtype} when encoded, stored is {array.dtype}", remedy=remedy)
    if not fits_text(variable, array.dtype, lazily=True):
        message = f"{name!r} holds text that is longer than the stored cells of {array.dtype}"
        raise Invalid(message, remedy="mode='a' stores the variable anew, or cut the text yourself")
    if decoded.dtype.kind in "mM" and array.dtype.kind not in "mM" and "units" not in array.attrs:
        message = f"{name!r} holds times, what is there are numbers without units of time"
        raise Invalid(message, remedy="give the array an attribute units, or store numbers")
    for word in _MEANING:
        new, stored = variable.attrs.get(word), array.attrs.get(word)
        if new is not None and stored is not None and not _same(word, variable.attrs, array.attrs):
            message = f"{name!r} would be stored with {word} {new!r}, what is there has {stored!r}"
            raise Invalid(message, remedy="convert it; times must be whole numbers of the stored units")


def _same(word: str, new: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Return True if an attribute means the same: times may count from the same moment in other words."""
    if np.array_equal(new[word], stored[word]):
        return True
    if word == "calendar":
        return calendar_name(str(new[word])) == calendar_name(str(stored[word])) is not None
    clocks = _clock(new), _clock(stored)
    return word == "units" and clocks[0] is not None and clocks[0] == clocks[1]


def _clock(attrs: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the length of the unit and the instant from which it is counted; None for what counts no time."""
    found = times.clock(attrs)
    calendar = calendar_name(found.calendar) if found else None
    moment = parse_moment(found.epoch) if found else None
    if found is None or calendar is None or moment is None:
        return None
    length, start = unit_length(found.unit, calendar), moment.start(calendar)
    return None if length is None or start is None else (length, start)


def fits_text(variable: xr.Variable, dtype: np.dtype, *, lazily: bool) -> bool:
    """Return True if text or bytes fit cells of a fixed length; ``lazily``: what to say of dask arrays, of which
    that is not known before they are computed.
    """
    if dtype.kind not in "SU" or variable.dtype.kind not in "SUTO" or can_cast_text(variable.dtype, dtype):
        return True
    if is_chunked_array(variable._data):
        return lazily
    try:
        require_fit(np.asarray(variable.values), dtype)
    except Invalid:
        return False
    return True


def can_cast_text(text: np.dtype, stored: np.dtype) -> bool:
    """Return True if the dtype alone tells that no text is cut."""
    return text.kind == stored.kind and text.kind in "SU" and text.itemsize <= stored.itemsize


def same_kind(variable: xr.Variable, array: Array) -> bool:
    """Return True if cells keep their values: text is text of any length, numbers must be of the same dtype."""
    if variable.dtype.kind == array.dtype.kind == "S":
        return True
    if variable.dtype.kind in "UTO" or array.dtype.kind in "UTO":
        return bool(variable.dtype.kind in "UTO" and array.dtype.kind in "UTO")
    return bool(variable.dtype.newbyteorder("=") == array.dtype.newbyteorder("="))
