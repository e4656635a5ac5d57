"""Many arrays of one kind as one lazy Dataset: what an attribute of theirs tells apart becomes a dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

import numpy as np
import xarray as xr
from xarray.backends import BackendEntrypoint
from xarray.core import indexing

from hyperslab.array import Array
from hyperslab.bridges.xarray.coordinates import coordinates_of
from hyperslab.bridges.xarray.reading import named_chunks
from hyperslab.bridges.xarray.stacked_cells import StackedCells, Sums
from hyperslab.bridges.xarray.storable import check_chunks
from hyperslab.errors import Invalid
from hyperslab.model.dims import ScaleIndex, TimeScale, scale_value
from hyperslab.model.guessing import meant
from hyperslab.model.schemas.dimensions import as_nanoseconds, microseconds

_UNSET = np.iinfo("i8").min


@dataclass(frozen=True)
class Stack:
    """Arrays to be shown as one variable ``name`` along the new dimension ``dim``.

    ``attributes``: by name the values of the arrays, in their order. ``along``: the attribute whose values are the
    coordinate of the new dimension. ``starts``: the time dimensions that begin at an attribute's value in each array.
    """

    name: str
    arrays: Sequence[Array]
    along: str
    attributes: Mapping[str, Sequence[Any]]
    starts: Mapping[str, str] = field(default_factory=dict)
    dim: str | None = None

    @property
    def dimension(self) -> str:
        """The name of the new dimension."""
        return self.dim or self.along


def stacked(stack: Stack, chunks: Any = None) -> xr.Dataset:
    """The arrays as one lazy Dataset; a read touches the chunks of the arrays that it needs, and nothing else.

    The attribute ``along`` is the coordinate of the new first dimension, in the order of the arrays; all other
    attributes are coordinates along it: times as datetime64 (UTC), numbers, text, tuples as text. Unset ones read as
    NaN, NaT or "". Scales, labels and common times are the coordinates of their dimensions.

    A time dimension ``t`` that begins at an attribute's value in each array gets what forecasts have: the times since
    the beginning as its coordinate (timedelta64), and a coordinate ``t_time`` over both dimensions that says which time
    each cell is of. Where a name is taken, the attribute's or variable's gets ``_`` behind it.

    ``chunks``: as in ``xarray.open_dataset``; ``{}`` makes one block of each array, or of each of its tiles.
    Invalid without arrays, for an attribute that there is none of, and where the new dimension has the name of another.
    """
    if not stack.arrays:
        raise Invalid("there is no array to stack", remedy="select some that are there")
    if stack.along not in stack.attributes:
        raise Invalid(f"no attribute {stack.along!r} to stack along", remedy=meant(stack.along, stack.attributes))
    if stack.dimension in stack.arrays[0].dims:
        remedy = "give the new dimension another name: dim=..."
        raise Invalid(f"the arrays have a dimension {stack.dimension!r} already", remedy=remedy)
    columns = {name: as_cells(values) for name, values in stack.attributes.items()}
    known: Any = _Lazily(stack, columns)  # our own engine takes it
    with named_chunks(chunks):
        dataset = xr.open_dataset(known, engine=_Engine, chunks=chunks)
    dataset = dataset.assign_coords(_columns(stack, columns, {*dataset.dims, *dataset.variables}))
    check_chunks([dataset], chunks)
    return dataset


@dataclass(frozen=True)
class _Lazily:
    """What ``xarray.open_dataset`` is given."""

    stack: Stack
    columns: Mapping[str, np.ndarray[Any, Any]]

    def __dask_tokenize__(self) -> str:
        return uuid4().hex


class _Engine(BackendEntrypoint):
    """What ``xarray.open_dataset`` makes blocks of."""

    open_dataset_parameters = ("filename_or_obj", "drop_variables")

    def open_dataset(self, filename_or_obj: Any, *, drop_variables: Any = None) -> xr.Dataset:
        """The cells, and the coordinates of the dimensions that the arrays have themselves."""
        stack, columns = filename_or_obj.stack, filename_or_obj.columns
        dims = (stack.dimension, *stack.arrays[0].dims)
        variable = xr.Variable(dims, indexing.LazilyIndexedArray(StackedCells(stack.arrays)))
        stored = stack.arrays[0].shards or stack.arrays[0].chunks
        variable.encoding["preferred_chunks"] = dict(zip(dims, (1, *stored), strict=True))
        dataset = xr.Dataset({_free(stack.name, {*dims, *stack.attributes}): variable})
        for dim in filter(None, stack.arrays[0].dims):
            index = _longest(stack, dim).spec.indexes.get(dim)
            start = columns.get(stack.starts.get(dim, ""))
            if isinstance(index, TimeScale) and start is not None and start.dtype.kind == "M":
                dataset = dataset.assign_coords(_times_of(stack, dim, index, start))
            elif isinstance(index, TimeScale):
                dataset = dataset.assign_coords({dim: as_nanoseconds(index.start + np.arange(index.size) * index.step)})
            elif isinstance(index, ScaleIndex):
                values = [scale_value(index.start, index.step, position) for position in range(index.size)]
                dataset = dataset.assign_coords({dim: np.array(values)})
            elif index is not None:
                dataset = dataset.assign_coords(coordinates_of(dim, index))
        return dataset


def _times_of(stack: Stack, dim: str, index: TimeScale, start: np.ndarray[Any, Any]) -> dict[str, xr.Variable]:
    """The steps of a time dimension, and which time each of them is in each array."""
    steps = np.arange(index.size) * index.step.astype(start.dtype.str.replace("M", "m"))
    times = xr.Variable((stack.dimension, dim), indexing.LazilyIndexedArray(Sums(start, steps)))
    taken = {*stack.arrays[0].dims, *stack.attributes, stack.dimension, stack.name}
    return {dim: xr.Variable((dim,), steps), _free(f"{dim}_time", taken): times}


def _columns(stack: Stack, columns: Mapping[str, np.ndarray[Any, Any]], taken: set[Any]) -> dict[str, xr.Variable]:
    """The attributes as coordinates along the new dimension, in memory as they are."""
    dim = stack.dimension
    found = {dim: xr.Variable((dim,), columns[stack.along])}
    for name, cells in columns.items():
        if name != stack.along:
            found[_free(name, taken | found.keys())] = xr.Variable((dim,), cells)
    return found


def _longest(stack: Stack, dim: str) -> Array:
    """The array that says what the labels of a dimension are."""
    axis = stack.arrays[0].dims.index(dim)
    return max(stack.arrays, key=lambda array: array.shape[axis])


def _free(name: str, taken: set[Any]) -> str:
    while name in taken:
        name += "_"
    return name


def as_cells(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Values of one attribute as an array that xarray can index and save; unset ones as NaN, NaT or ""."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {datetime}:
        return _times(values)
    if kinds <= {int, float, complex} and kinds:
        cells = np.array([np.nan if value is None else value for value in values])
        if cells.dtype != object:  # as whole numbers beyond 64 bits would be
            return cells
    texts = np.empty(len(values), object)
    texts[:] = ["" if value is None else str(value) for value in values]
    return texts


def _times(values: Sequence[datetime | None]) -> np.ndarray[Any, Any]:
    micro = [_UNSET if value is None else microseconds(value) for value in values]
    return as_nanoseconds(np.array(micro, "i8").view("M8[us]"))
