"""Means, sums and extremes of a dataset, over dimensions or for periods of time: the arithmetic is xarray's and flox's,
lazily by dask; attributes, cell methods and the bounds of time are kept right by the CF conventions (1.11, 7.3, 7.4).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr

from hyperslab.array import cf
from hyperslab.array.axis_roles import RADIANS, role_of
from hyperslab.array.flags import ATTRIBUTES, are_flags
from hyperslab.array.periods import Groups, find_lanes, group_times, is_time, widen_to_periods
from hyperslab.bridges.extras import library
from hyperslab.errors import Invalid
from hyperslab.formats.dimension_suffix import add_suffix, strip_suffix
from hyperslab.group.cf_variables import keep_references, names_in_attribute
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.dims import axis_names
from hyperslab.model.guessing import meant

library("dask.array")  # computes all of it

METHODS = {
    "mean": "mean",
    "sum": "sum",
    "min": "minimum",
    "max": "maximum",
    "std": "standard_deviation",
    "count": "",
}
"""The statistics, and the word that cell methods have for each (CF 1.11, appendix E), which has none for a count."""
_WEIGHTED = ("mean", "sum", "std")
_EVERY_OF = {"dayofyear": "day"}
_GROUP = "hyperslab_period"
_LANES = "hyperslab_lane"
# Times from which on each run of one period, or each lane of many, is a slice; flox, which takes each cell three times
# as long, does with less than a task of dask for each period.
_LONG = 8
# Widths of longitudes that differ by less of themselves are the same, rounded: short floats near 360 tell them so well.
_EVEN = 1e-4
# A number of the source marks missing cells of the result, for nco (5.1) calculates with NaN as with a value; but only
# where no mean or sum comes near it: 1e20 of CMIP, 9.97e36 of netCDF; a mean may be -999 or 0.
_FAR = 1e15


@dataclass(frozen=True)
class Aggregation:
    """What is computed (``how``), over which dimensions, for which periods: those of the calendar (``by``), all years
    together, or one after another (``every``). ``weighted``: by the area of cells."""

    how: str
    over: tuple[str, ...] = ()
    by: str | None = None
    every: str | None = None
    weighted: bool = False

    @property
    def is_grouped(self) -> bool:
        """Return True if times are put into periods."""
        return self.by is not None or self.every is not None

    def check(self, dataset: xr.Dataset) -> Aggregation:
        """Return the same with the dimension of time; Invalid for what makes no sense of this dataset."""
        if self.how not in METHODS:
            raise Invalid(f"how={self.how!r}", remedy=meant(self.how, METHODS))
        if self.weighted and self.how not in _WEIGHTED:
            raise Invalid(f"weights mean nothing for {self.how}", remedy="leave --weighted out")
        if self.weighted and self.how == "std" and self.is_grouped:
            remedy = "aggregate by area first, or leave --weighted out"
            raise Invalid("the weighted deviation of periods", remedy=remedy)
        for dim in self.over:
            if dim in dataset.coords and not dataset.coords[dim].ndim:
                remedy = f"choose a range of {dim}, or leave it out of --over"
                raise Invalid(f"one position of {dim} is chosen, which leaves nothing to aggregate over", remedy=remedy)
            if dim not in dataset.dims:
                raise Invalid(f"no dimension {dim!r}", remedy=meant(dim, map(str, dataset.dims)))
        # Before times are looked for: without labels, those of other calendars are not known as such.
        for dim in map(str, dataset.dims):
            is_meant = dim in self.over or (self.is_grouped and dim in dataset.coords)
            if is_meant and not dataset.sizes[dim]:
                raise Invalid(f"no cell of {dim} is chosen", remedy="choose a range in which some lie")
        over = self.over
        if self.is_grouped and not any(_has_times(dataset, dim) for dim in over):
            times = [str(dim) for dim in dataset.dims if _has_times(dataset, dim)]
            if len(times) != 1:
                found = f"there are {', '.join(times)}" if times else "no dimension has a coordinate of times"
                raise Invalid("periods need one dimension of time", remedy=f"name it by --over; {found}")
            over = (*over, times[0])
        if not over:
            raise Invalid("nothing to aggregate over", remedy=f"give --over, of {', '.join(map(str, dataset.dims))}")
        return Aggregation(self.how, over, self.by, self.every, self.weighted)


def aggregate(dataset: xr.Dataset, wanted: Aggregation) -> tuple[xr.Dataset, dict[str, str]]:
    """Return the aggregated dataset, lazily, and the variables that have no such number and are left out, with why.

    Missing cells weigh nothing; where all are missing, the result is. Means and deviations of short floats are summed
    as double and stored as they were. Invalid where none of the variables along these dimensions has such a number.
    """
    wanted = wanted.check(dataset)
    time = next((dim for dim in wanted.over if _has_times(dataset, dim)), None)
    groups = group_times(dataset[time].values, 0, wanted.by, wanted.every) if time and wanted.is_grouped else None
    if groups is not None:
        groups = _in_order_of_time(groups)
    auxiliary = _auxiliary(dataset)
    variables: dict[Hashable, xr.Variable] = {}
    left_out: dict[str, str] = {}
    is_any_reduced = False
    for name, array in dataset.data_vars.items():
        if not set(wanted.over) & set(array.dims):
            variables[name] = array.variable.copy(deep=False)
        elif str(name) in auxiliary:
            continue
        elif reason := _why_left_out(array, wanted.how):
            left_out[str(name)] = reason
        else:
            variables[name] = _reduced(dataset, array, wanted, time, groups)
            is_any_reduced = True
    if left_out and not is_any_reduced:
        name, reason = next(iter(left_out.items()))
        raise Invalid(f"/{name} has no {wanted.how}: {reason}", remedy="choose another --how, or variable")
    coords = {name: coord.variable for name, coord in dataset.coords.items() if not set(wanted.over) & set(coord.dims)}
    unnamed = coords.keys() - {word for array in dataset.data_vars.values() for word in coordinate_words(array)}
    for name, variable in variables.items():
        words = [] if str(name) in auxiliary else coordinate_words(dataset[name])
        is_same = variable.dims == dataset[name].dims  # samples of stations name coordinates along another dimension
        found = {
            word: None for word in words if word in coords and (is_same or set(coords[word].dims) <= {*variable.dims})
        }
        if dataset[name].ndim and str(name) not in auxiliary:
            found |= {str(each): None for each in unnamed if _is_coordinate_of(each, coords[each], variable)}
        if time is not None and time in dataset[name].dims and time not in variable.dims:
            found[time] = None
        _name_coordinates(variable, found)
    if time is not None:
        stamps, bounds = _time_bounds(dataset, time, wanted, groups)
        coords[time] = stamps
        variables[stamps.attrs.get("climatology", stamps.attrs.get("bounds"))] = bounds
    result = xr.Dataset(variables, {name: _cleared(each) for name, each in coords.items()}, dataset.attrs)
    # What the source has not either, such as areas in another file, is none that was aggregated away.
    there = {*map(str, result.variables), *(_names_in_attributes(result) - {*map(str, dataset.variables)})}
    for name, each in result.variables.items():
        if name != time:
            each.attrs = keep_references(each.attrs, there)
        _count_days(each)
    unlimited = set(dataset.encoding.get("unlimited_dims", ())) & set(result.dims)
    result.encoding = {"unlimited_dims": unlimited} if unlimited else {}
    return result, left_out


def _names_in_attributes(dataset: xr.Dataset) -> set[str]:
    """Return the names of the variables that attributes name, without groups."""
    attributes = [
        (each.attrs, str(name), value) for each in dataset.variables.values() for name, value in each.attrs.items()
    ]
    return {
        word.rpartition("/")[2] for attrs, name, value in attributes for word in names_in_attribute(name, value, attrs)
    }


def _why_left_out(array: xr.DataArray, how: str) -> str:
    """Return why a variable has no such number; empty where it has one."""
    if array.dtype.kind not in "biuf":
        return "its cells are no numbers"
    if not are_flags(array.attrs) or how == "count":
        return ""
    if "flag_masks" in array.attrs:
        return "its cells are flags, several in one; --how count tells how many there are"
    return "" if how in ("min", "max") else "its cells are flags; take --how min, max or count"


def _has_times(dataset: xr.Dataset, dim: Hashable) -> bool:
    return dim in dataset.coords and dataset[dim].dims == (dim,) and is_time(dataset[dim].values)


def _auxiliary(dataset: xr.Dataset) -> set[str]:
    """Return the names of bounds and cell measures, of which no mean is taken."""
    found: set[str] = set()
    for variable in dataset.variables.values():
        for name in ("bounds", "climatology"):
            found.add(str(variable.attrs.get(name, variable.encoding.get(name, ""))))
        found.update(_measures(variable).values())
    return found


def _measures(variable: Any) -> dict[str, str]:
    """Return the names of cell measures by what they measure."""
    text = str(variable.attrs.get("cell_measures", variable.encoding.get("cell_measures", "")))
    return dict(re.findall(r"(\w+)\s*:\s*(\S+)", text))


# -- names of dimensions -----------------------------------------------------------------------------------------------


def name_dimensions(
    dataset: xr.Dataset, stored: Mapping[str, tuple[tuple[str | None, ...], tuple[int, ...]]]
) -> xr.Dataset:
    """Return the dataset with the names of dimensions that selections have (:func:`.axis_names`), such as ``dim_0``, in
    place of those that xarray was given for dimensions without a name, or with the same; the second length of a name is
    called ``dim_0@3``. ``stored``: dimensions and lengths of the arrays."""
    lengths: dict[str, int] = {}
    for dims, shape in stored.values():
        lengths |= {dim: size for dim, size in zip(dims, shape, strict=True) if dim is not None}
    lengths |= {str(dim): size for dim, size in dataset.sizes.items() if dim in lengths}
    changed = {}
    for name, (dims, shape) in stored.items():
        if name not in dataset.variables:
            continue
        found = list(dataset[name].dims)
        for axis, (place, size) in enumerate(zip(axis_names(dims), shape, strict=True)):
            # none is left of the letters of texts
            if axis < len(found) and not found[axis] == dims[axis] == place:
                is_other = lengths.setdefault(place, size) != size
                found[axis] = add_suffix(place, size) if is_other else place
        if found != list(dataset[name].dims):
            changed[name] = dataset[name].variable.copy(deep=False)
            changed[name].dims = tuple(found)
    if not changed:
        return dataset
    variables = {name: changed.get(str(name), each) for name, each in dataset.variables.items()}
    result = xr.Dataset({name: variables[name] for name in dataset.data_vars}, attrs=dataset.attrs)
    result = result.assign_coords({name: variables[name] for name in dataset.coords})
    result.encoding = dataset.encoding
    result.set_close(dataset.close)
    return result


def find_lengths(dataset: xr.Dataset, names: Sequence[str]) -> tuple[str, ...]:
    """Return the dimensions of these names, each with those of other lengths; a name of none stays."""
    found = []
    for name in names:
        sizes = {str(dim): size for dim, size in dataset.sizes.items()}
        found += [dim for dim, size in sizes.items() if strip_suffix(dim, size, name.__eq__) == name] or [name]
    return tuple(found)


# -- one variable ------------------------------------------------------------------------------------------------------


def _reduced(
    dataset: xr.Dataset, array: xr.DataArray, wanted: Aggregation, time: str | None, groups: Groups | None
) -> xr.Variable:
    """Return an aggregated variable with its attributes."""
    dims = [dim for dim in wanted.over if dim in array.dims]
    plain = xr.DataArray(array.variable)  # without coordinates, which xarray would compare and carry along
    weights = _weights(dataset, array, [dim for dim in dims if dim != time]) if wanted.weighted else None
    if groups is None or time not in dims:
        found = _over(plain, wanted.how, dims, weights)
    else:
        found = _of_periods(plain, wanted.how, dims, time, groups, weights)
    keeps_type = wanted.how in ("min", "max") or (array.dtype.kind == "f" and wanted.how != "count")
    if keeps_type:
        found = found.astype(array.dtype)
    result = found.variable
    result.attrs = _attrs(dataset, array, wanted, dims, time if groups is not None else None, weights is not None)
    result.encoding = _missing_mark(array, result.dtype)
    return result


def _missing_mark(array: xr.DataArray, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the encoding that marks missing cells of floats as the source does, or by NaN; {} where it marks none."""
    stored = array.encoding
    mark = stored.get(FILL_VALUE, stored.get("missing_value"))
    if dtype.kind != "f" or mark is None:
        return {}
    with np.errstate(over="ignore"):
        value = np.asarray(mark).ravel()[0].astype(dtype)
    is_far = not set(cf.PACKING) & set(stored) and _FAR <= abs(value) < np.inf
    return {FILL_VALUE: value if is_far else dtype.type(np.nan)}


def _over(plain: xr.DataArray, how: str, dims: list[str], weights: xr.DataArray | None) -> xr.DataArray:
    """Return a number over dimensions."""
    cells: Any = plain
    if weights is not None:
        even = [dim for dim in dims if dim not in weights.dims]
        if even and how in ("mean", "sum"):  # what weighs the same is summed first, with a third of the work
            count = plain.count(even)
            total = (plain.sum(even, dtype="f8", skipna=True) * weights).sum(weights.dims)
            area = (count * weights).sum(weights.dims)
            return xr.DataArray(total.where(area != 0) if how == "sum" else total / area.where(area != 0))
        parts = cells.astype("f8").weighted(weights)
        found = getattr(parts, how)(dims, skipna=True)
        return xr.DataArray(found.where(parts.sum_of_weights(dims).notnull()) if how == "sum" else found)
    if how == "count":
        return plain.count(dims)
    options: dict[str, Any] = {"dtype": "f8"} if plain.dtype.kind == "f" and how not in ("min", "max") else {}
    if how == "sum":
        options["min_count"] = 1
    return xr.DataArray(getattr(cells, how)(dims, skipna=True, **options))


def _of_periods(
    plain: xr.DataArray, how: str, dims: list[str], time: str, groups: Groups, weights: xr.DataArray | None
) -> xr.DataArray:
    """Return a number for each period; with weights from the sums of weighted cells and of weights, so that an hour of
    which much is missing weighs less."""
    starts = np.flatnonzero(np.diff(groups.owners, prepend=-1))
    if len(groups.owners) >= _LONG * len(starts):
        runs: list[list[slice]] = [[] for _ in groups.labels]
        for start, stop in pairwise([*starts, len(groups.owners)]):
            runs[groups.owners[start]].append(slice(start, stop))
        return _of_parts(plain, how, dims, time, runs, weights, time)
    lanes = find_lanes(groups.owners)
    if len(groups.owners) >= _LONG * sum(map(len, lanes)):
        return _of_parts(plain, how, dims, time, lanes, weights, _LANES)
    library("flox")  # without it xarray computes one group after another, and reads chunks many times
    owners = xr.DataArray(groups.owners, dims=(time,), name=_GROUP)
    space = [dim for dim in dims if dim != time]
    parts: Any
    if weights is not None and space:
        parts = plain.astype("f8").weighted(weights)
        sums = parts.sum(space).groupby(owners).sum(time)
        areas = parts.sum_of_weights(space).groupby(owners).sum(time, min_count=1)
        return _named(sums.where(areas.notnull()) if how == "sum" else sums / areas, time)
    parts = plain.groupby(owners)
    if how == "count":
        return _named(parts.count(dims), time)
    options: dict[str, Any] = {"dtype": "f8"} if how not in ("min", "max") and plain.dtype.kind == "f" else {}
    if how == "sum":
        options["min_count"] = 1
    return _named(getattr(parts, how)(dims, skipna=True, **options), time)


def _of_parts(
    plain: xr.DataArray,
    how: str,
    dims: list[str],
    time: str,
    parts: Sequence[Sequence[slice]],
    weights: xr.DataArray | None,
    along: str,
) -> xr.DataArray:
    """Return a number for each period. ``parts``: the times of one period after the other, which are joined ``along``
    time; or lanes, of which periods lie side by side: laid upon one another ``along`` a new dimension, they are reduced
    there, in blocks of as many cells as before."""
    most = max(plain.chunksizes[time]) if plain.chunks is not None and along != time else 0
    over = [along, *(dim for dim in dims if dim != time)]
    found = []
    for slices in parts:
        cells = _join_parts(plain, time, slices, along)
        if most:
            deep = min(len(slices), most)
            cells = cells.chunk({along: deep, time: max(most // deep, 1)})
        weighing = None if weights is None else _join_parts(weights, time, slices, along)
        found.append(_over(cells, how, over, weighing))
    return xr.concat(found, time).transpose(time, ...)


def _join_parts(array: xr.DataArray, time: str, parts: Sequence[slice], dim: str) -> xr.DataArray:
    """Return parts of the times along a dimension, that of time or a new one; what has no times is in every part."""
    if time not in array.dims:
        return array
    cut = [array.isel({time: part}) for part in parts]
    return cut[0] if len(cut) == 1 and dim == time else xr.concat(cut, dim)


def _named(found: xr.DataArray, time: str) -> xr.DataArray:
    """Return periods as the dimension of time, in its place at the front."""
    return found.drop_vars(_GROUP).rename({_GROUP: time}).transpose(time, ...)


def _attrs(
    dataset: xr.Dataset,
    array: xr.DataArray,
    wanted: Aggregation,
    dims: list[str],
    time: str | None,
    weighted: bool,
) -> dict[str, Any]:
    """Return the attributes of an aggregated variable; ``time``: where it is in periods."""
    is_other = set(cf.PACKING) & set(array.encoding) or wanted.how in ("sum", "std", "count")
    gone = {*cf.LIMITS, "actual_range"} if is_other else {"actual_range"}
    attrs = {name: value for name, value in array.attrs.items() if name not in gone}
    method = METHODS[wanted.how]
    if not method:
        attrs = {name: value for name, value in attrs.items() if name not in ATTRIBUTES}  # a count is no flag
        if "standard_name" in attrs:
            attrs["standard_name"] = f"{attrs['standard_name']} number_of_observations"
        return {**attrs, "units": "1"}
    words = _cell_methods(dataset, array, wanted, dims, time, weighted)
    return {**attrs, "cell_methods": words}


def _cell_methods(
    dataset: xr.Dataset, array: xr.DataArray, wanted: Aggregation, dims: list[str], time: str | None, weighted: bool
) -> str:
    """Return the cell methods of an aggregated variable. One number is of the cells along all of its dimensions
    together, which one method with the names of all of them says (CF 1.11, 7.3.1)."""
    before, method = str(array.attrs.get("cell_methods", "")), METHODS[wanted.how]
    space = [dim for dim in dims if dim != time]
    area = _area_dims(dataset, array, space) if weighted else set()
    is_of_area = bool(area) and area <= {*space}
    names = [
        dim if _has_times(dataset, dim) else _cf_name(dataset, dim) for dim in space if not (is_of_area and dim in area)
    ]
    if is_of_area:
        names.append("area")
    word = f"{method} (area-weighted)" if weighted and not is_of_area else method
    if time in dims and wanted.by in (None, "year"):
        word = f"{': '.join([time, *names])}: {word}"
    elif time in dims:
        within = re.search(rf"(?:^|(?<!:) ){re.escape(time)}: (\w+)(?: \([^)]*\))?$", before)
        first = within[1] if within and within[1] != "point" else method
        before = before[: within.start()] if within else before
        span = "days" if wanted.by == "hour" else "years"
        word = word.replace(method, f"{method} over {span}", 1)
        word = f"{time}: {first} within {span} {': '.join([time, *names])}: {word}"
    else:
        word = f"{': '.join(names)}: {word}"
    return f"{before.strip()} {word}".strip()


def _area_dims(dataset: xr.Dataset, array: xr.DataArray, dims: list[str]) -> set[str]:
    """Return the horizontal dimensions of a variable, by the areas that :func:`_weights` takes: those of the cell
    measure, and latitude and longitude; empty where only one of the two is left."""
    area = _measured_area(dataset, array, dims)
    names = {str(dim): _cf_name(dataset, str(dim)).removeprefix("grid_") for dim in array.dims}
    flat = {dim for dim, name in names.items() if name in ("latitude", "longitude")}
    if area is None:
        return flat if len(flat) > 1 else set()
    return flat | {str(dim) for dim in area.dims if not _has_times(dataset, dim)}


def _cf_name(dataset: xr.Dataset, dim: str) -> str:
    """Return what cell methods call a dimension that is gone: its standard name, else its own (CF 1.11, 7.3.4)."""
    if dim not in dataset.coords:
        return dim
    attrs = dataset[dim].attrs
    role = role_of(dim, attrs)
    return role if role in ("latitude", "longitude") else str(attrs.get("standard_name", dim))


# -- weights -----------------------------------------------------------------------------------------------------------


def _weights(dataset: xr.Dataset, array: xr.DataArray, dims: list[str]) -> xr.DataArray:
    """Return the area of cells along the dimensions that vanish: a cell measure, else from the latitudes, by their
    bounds where there are any. Invalid where neither tells it."""
    area = _measured_area(dataset, array, dims)
    if area is not None:
        return xr.DataArray(area).fillna(0).astype("f8")
    heights: xr.DataArray | None = None
    widths: xr.DataArray | None = None
    for dim in dims:
        coord = dataset[dim] if dim in dataset.coords else None
        role = None if coord is None else role_of(dim, coord.attrs)
        if coord is not None and (role == "latitude" or coord.attrs.get("standard_name") == "grid_latitude"):
            heights = _latitude_weights(dataset, coord)
        elif coord is not None and (role == "longitude" or coord.attrs.get("standard_name") == "grid_longitude"):
            widths = _widths(dataset, coord)
    found = widths if heights is None else heights
    if heights is not None and widths is not None and np.ptp(widths.values) > _EVEN * widths.values.max():
        found = heights * widths
    if found is None or (len(dims) > 1 and heights is None):
        remedy = "add a variable with the area of cells and name it in the attribute cell_measures ('area: NAME')"
        if not dims:
            remedy = "add the dimensions of latitude and longitude to --over, or leave --weighted out"
        raise Invalid(f"nothing tells the area of the cells of {array.name!r}", remedy=remedy)
    return found


def _measured_area(dataset: xr.Dataset, array: xr.DataArray, dims: list[str]) -> xr.Variable | None:
    """Return the cell measure with the area of the cells of a variable; None where it has none."""
    area = _measures(array).get("area")
    is_there = area in dataset.variables and set(dims) & set(dataset[area].dims) <= set(array.dims)
    return dataset[area].variable if is_there else None


def _bounds_of(dataset: xr.Dataset, coord: xr.DataArray) -> Any:
    """Return the bounds of a coordinate of shape (n, 2); None where it has none."""
    name = coord.attrs.get("bounds", coord.encoding.get("bounds"))
    if name not in dataset.variables or dataset[name].shape != (coord.size, 2):
        return None
    return np.asarray(dataset[name].values)


def _latitude_weights(dataset: xr.Dataset, coord: xr.DataArray) -> xr.DataArray:
    """Return the share of a sphere between the bounds of each latitude, else the cosine of its middle."""
    scale = 1.0 if coord.attrs.get("units") in RADIANS else np.pi / 180
    bounds = _bounds_of(dataset, coord)
    if bounds is None:
        return xr.DataArray(np.cos(np.asarray(coord.values, "f8") * scale).clip(0), dims=coord.dims)
    return xr.DataArray(np.abs(np.diff(np.sin(bounds.astype("f8") * scale), axis=1))[:, 0], dims=coord.dims)


def _widths(dataset: xr.Dataset, coord: xr.DataArray) -> xr.DataArray:
    """Return the width of each longitude by its bounds, else 1."""
    bounds = _bounds_of(dataset, coord)
    widths = np.ones(coord.size) if bounds is None else np.abs(np.diff(bounds.astype("f8"), axis=1))[:, 0]
    return xr.DataArray(widths, dims=coord.dims)


# -- time --------------------------------------------------------------------------------------------------------------


def _in_order_of_time(groups: Groups) -> Groups:
    """Return the groups in the order in which they first come, so that a coordinate of their times ascends."""
    order = np.argsort(groups.firsts, kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return Groups(groups.axis, groups.head, [groups.labels[place] for place in order], places[groups.owners])


def _time_bounds(
    dataset: xr.Dataset, time: str, wanted: Aggregation, groups: Groups | None
) -> tuple[xr.Variable, xr.Variable]:
    """Return the coordinate of time and its bounds: those of the samples of each period together, where times have
    bounds; else the limits of periods of the calendar as far as times reach there (:func:`.widen_to_periods`), of the
    whole record its least and largest time. A period of all years stands in the middle of the first one (CF 1.11,
    7.4)."""
    coord = dataset[time]
    bounds = _bounds_of(dataset, coord)
    lower, upper = (coord.values, coord.values) if bounds is None else (bounds.min(1), bounds.max(1))
    if bounds is None and groups is not None:
        lower, upper = widen_to_periods(coord.values, wanted.every or _EVERY_OF.get(str(wanted.by), str(wanted.by)))
    owners = np.zeros(coord.size, np.int64) if groups is None else groups.owners
    order = np.argsort(owners, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(owners[order])) + 1)
    ends = np.array([[lower[part].min(), upper[part].max()] for part in parts])
    middles = ends
    is_climate = groups is not None and wanted.by not in (None, "year")
    if groups is not None and is_climate:
        runs = zip(groups.firsts, groups.first_stops, strict=True)
        middles = np.array([[lower[a:b].min(), upper[a:b].max()] for a, b in runs])
    stamps = middles[:, 0] + (middles[:, 1] - middles[:, 0]) / 2
    attrs = {name: value for name, value in coord.attrs.items() if name not in ("bounds", "climatology")}
    encoding = {name: value for name, value in coord.encoding.items() if name in ("units", "calendar")}
    encoding["dtype"] = np.dtype("f8")  # a middle may be a fraction
    name = f"{time}_climatology" if is_climate else str(coord.attrs.get("bounds", f"{time}_bnds"))
    attrs["climatology" if is_climate else "bounds"] = name
    dims: tuple[str, ...] = (time,)
    if groups is None:
        dims, stamps, ends = (), stamps[0], ends[0]
    old = dataset[name].dims[-1] if name in dataset.variables and bounds is not None else "bnds"
    return xr.Variable(dims, stamps, attrs, encoding), xr.Variable(
        (*dims, old), ends, {}, {**encoding, "coordinates": None}
    )


# -- coordinates and mappings ------------------------------------------------------------------------------------------


def _cleared(variable: xr.Variable) -> xr.Variable:
    """Return a coordinate without what says how it was stored, but for times."""
    kept = {name: each for name, each in variable.encoding.items() if name in ("units", "calendar", "dtype")}
    is_date = "units" in kept
    return xr.Variable(variable.dims, variable._data, variable.attrs, kept if is_date else {})


def _count_days(variable: xr.Variable) -> None:
    """Have times that are counted in months or years, which xarray reads and does not write, be counted in days."""
    units = variable.encoding.get("units")
    if variable.dtype.kind in "MO" and isinstance(units, str):
        units = re.sub(r"^\s*(months?|(common_)?years?)\s+since\b", "days since", units, flags=re.IGNORECASE)
        variable.encoding = {**variable.encoding, "units": units}


def coordinate_words(array: xr.DataArray) -> list[str]:
    """Return the names of coordinates that a variable has in its attribute ``coordinates``."""
    return str(array.encoding.get("coordinates") or array.attrs.get("coordinates") or "").split()


def _is_coordinate_of(name: Hashable, coordinate: xr.Variable, variable: xr.Variable) -> bool:
    """Return True for a coordinate, not of a dimension, that lies along the dimensions of a variable."""
    return coordinate.dims != (name,) and set(coordinate.dims) <= set(variable.dims)


def _name_coordinates(variable: xr.Variable, names: Iterable[str]) -> None:
    """Have a variable name these coordinates and no others, which xarray would add: all along its dimensions."""
    variable.attrs = {name: value for name, value in variable.attrs.items() if name != "coordinates"}
    variable.encoding = {**variable.encoding, "coordinates": " ".join(names) or None}
