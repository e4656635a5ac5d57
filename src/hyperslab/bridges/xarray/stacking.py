"""Show many arrays of one kind as one lazy Dataset: what an attribute of theirs tells apart becomes a dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from hyperslab.array import Array
from hyperslab.bridges.xarray.reading import coordinates_of, named_chunks
from hyperslab.bridges.xarray.storable import check_chunks
from hyperslab.chunks.memory import require
from hyperslab.chunks.pool import each_if_many
from hyperslab.chunks.settings import Settings
from hyperslab.errors import Invalid
from hyperslab.model.dims import ScaleIndex, TimeScale, scale_value
from hyperslab.model.guessing import meant
from hyperslab.model.schemas.dimensions import as_nanoseconds, microseconds

Shape = tuple[int, ...]


class StackedCells(BackendArray):
    """The cells of many arrays of one kind as those of one, read from the arrays concerned alone: one behind another
    along a new first axis. It pickles as they do.

    Those that are shorter along an axis than others are filled up with their fill value.
    """

    __slots__ = ("_arrays", "_settings", "dtype", "shape")

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._arrays = tuple(arrays)
        self._settings: Settings = arrays[0]._session.settings
        self.shape = (len(arrays), *(max(sizes) for sizes in zip(*(each.shape for each in arrays), strict=True)))
        self.dtype = arrays[0].dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return self._points(key.tuple) if isinstance(key, indexing.VectorizedIndexer) else self._block(key.tuple)

    def _block(self, key: tuple[Any, ...]) -> Any:
        """Read by one key for each axis: those of the arrays that the first one names, each by itself."""
        first, *inner = key
        which = np.arange(len(self._arrays))[first]
        if not which.ndim:
            return self._part(int(which), tuple(inner))
        out = self._new_block((which.size, *_length_of(inner, self.shape[1:])))
        self._each(list(enumerate(which.tolist())), lambda array, place: self._part(array, tuple(inner)), out)
        return out

    def _points(self, key: tuple[Any, ...]) -> Any:
        """Read at positions that run together: of each array those that name it. Axes of slices come behind that of
        the points, as in ``numpy``'s own vectorised indexing."""
        shape = np.broadcast_shapes(*(each.shape for each in key if isinstance(each, np.ndarray)))
        points = [np.broadcast_to(each, shape).reshape(-1) if isinstance(each, np.ndarray) else each for each in key]
        first, *inner = points
        slices = [(each, size) for each, size in zip(inner, self.shape[1:], strict=True) if isinstance(each, slice)]
        rest = tuple(len(range(*each.indices(size))) for each, size in slices)
        if not isinstance(first, np.ndarray):  # the same points of each array of a slice
            which = range(len(self._arrays))[first]
            out = self._new_block((len(which), math.prod(shape), *rest))
            self._each(list(enumerate(which)), lambda array, place: self._part(array, tuple(inner), together=True), out)
            return np.moveaxis(out, 0, 1).reshape(*shape, len(which), *rest)

        def part(array: int, place: np.ndarray) -> Any:
            mine = tuple(each[place] if isinstance(each, np.ndarray) else each for each in inner)
            return self._part(array, mine, together=True)

        out = self._new_block((first.size, *rest))
        self._each([(np.flatnonzero(first == array), int(array)) for array in np.unique(first)], part, out)
        return out.reshape(*shape, *rest)

    def _new_block(self, shape: Shape) -> np.ndarray:
        require(math.prod(shape) * self.dtype.itemsize, self._settings.memory_limit)
        return np.empty(shape, self.dtype)

    def _each(self, pairs: list[tuple[Any, int]], part: Callable[[int, Any], Any], out: np.ndarray) -> None:
        """Put the part of each array at its place in the result, by several threads where they are many."""

        def one(pair: tuple[Any, int]) -> None:
            place, array = pair
            out[place] = part(array, place)

        each_if_many(one, pairs, self._settings.threads)

    def _part(self, number: int, key: tuple[Any, ...], *, together: bool = False) -> Any:
        """Read cells of one array; beyond its end there are fill values."""
        array = self._arrays[number]
        if array.shape == self.shape[1:]:
            return np.asarray(array.vindex[key] if together else array.oindex[key], self.dtype)
        return _filled_up(array, key, self.shape[1:], together)


def _filled_up(array: Array, key: tuple[Any, ...], shape: Shape, together: bool) -> Any:
    """Return what the key takes of an array as if it had a larger shape."""
    places = [np.arange(size)[each] for size, each in zip(shape, key, strict=True)]
    there = [place < size for place, size in zip(places, array.shape, strict=True)]
    if not together:
        out = np.full([place.size for place in places], array.fill_value, array.dtype)
        known = tuple(np.atleast_1d(place)[np.atleast_1d(mask)] for place, mask in zip(places, there, strict=True))
        if all(place.size for place in known):
            out[np.ix_(*(np.atleast_1d(mask) for mask in there))] = array.oindex[known]
        return out.reshape([place.size for place in places if place.ndim])
    grid = _grid(places, key)
    inside = np.logical_and.reduce([each < size for each, size in zip(grid, array.shape, strict=True)])
    out = np.full(inside.shape, array.fill_value, array.dtype)
    if inside.any():
        out[inside] = array.vindex[tuple(each[inside] for each in grid)]
    return out


def _grid(places: Sequence[np.ndarray], key: tuple[Any, ...]) -> list[np.ndarray]:
    """Return positions along every axis, broadcast: points along the first axis, each slice along one behind it."""
    slices = sum(isinstance(each, slice) for each in key)
    grid, seen = [], 0
    for place, each in zip(places, key, strict=True):
        seen += isinstance(each, slice)
        axis = seen if isinstance(each, slice) else 0
        grid.append(place.reshape([-1 if other == axis else 1 for other in range(slices + 1)]))
    return list(np.broadcast_arrays(*grid))


def _length_of(key: Sequence[Any], shape: Shape) -> Shape:
    """Return the shape that keys give when each is taken by itself; positions drop their axis."""
    sizes = []
    for each, size in zip(key, shape, strict=True):
        match each:
            case slice():
                sizes.append(len(range(*each.indices(size))))
            case np.ndarray():
                sizes.append(each.size)
    return tuple(sizes)


class Sums(BackendArray):
    """``starts[:, None] + steps``, computed where it is read: the times of many arrays that each begin at their own."""

    __slots__ = ("_starts", "_steps", "dtype", "shape")

    def __init__(self, starts: np.ndarray, steps: np.ndarray) -> None:
        self._starts, self._steps = starts, steps
        self.shape = (starts.size, steps.size)
        self.dtype = starts.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, Any]) -> Any:
        return np.add.outer(self._starts[key[0]], self._steps[key[1]])


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
        """Return the name of the new dimension."""
        return self.dim or self.along


def stacked(stack: Stack, chunks: Any = None) -> xr.Dataset:
    """Return the arrays as one lazy Dataset; a read touches the chunks of the arrays that it needs, and nothing else.

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
    known: Any = _StackSource(stack, columns)  # our own engine takes it
    with named_chunks(chunks):
        dataset = xr.open_dataset(known, engine=_Engine, chunks=chunks)
    dataset = dataset.assign_coords(_columns(stack, columns, {*dataset.dims, *dataset.variables}))
    check_chunks([dataset], chunks)
    return dataset


@dataclass(frozen=True)
class _StackSource:
    """Arrays with their attributes in columns, as ``xarray.open_dataset`` hands them to the engine."""

    stack: Stack
    columns: Mapping[str, np.ndarray]

    def __dask_tokenize__(self) -> str:
        return uuid4().hex


class _Engine(BackendEntrypoint):
    """An engine for ``xarray.open_dataset``, which makes dask blocks of what it gives."""

    open_dataset_parameters = ("filename_or_obj", "drop_variables")

    def open_dataset(self, filename_or_obj: Any, *, drop_variables: Any = None) -> xr.Dataset:
        """Return the cells, and the coordinates of the dimensions that the arrays have themselves."""
        stack, columns = filename_or_obj.stack, filename_or_obj.columns
        dims = (stack.dimension, *stack.arrays[0].dims)
        variable = xr.Variable(dims, indexing.LazilyIndexedArray(StackedCells(stack.arrays)))
        stored = stack.arrays[0].shards or stack.arrays[0].chunks
        variable.encoding["preferred_chunks"] = dict(zip(dims, (1, *stored), strict=True))
        dataset = xr.Dataset({_free(stack.name, {*dims, *stack.attributes}): variable})
        for axis, dim in enumerate(stack.arrays[0].dims):
            if dim is None:
                continue
            lengths = [array.shape[axis] for array in stack.arrays]
            index = stack.arrays[lengths.index(max(lengths))].spec.indexes.get(dim)  # the longest has all labels
            start = columns.get(stack.starts.get(dim, ""))
            match index:
                case None:
                    continue
                case TimeScale() if start is not None and start.dtype.kind == "M":
                    dataset = dataset.assign_coords(_times_of(stack, dim, index, start))
                case TimeScale(start=first, step=step, size=size):
                    dataset = dataset.assign_coords({dim: as_nanoseconds(first + np.arange(size) * step)})
                case ScaleIndex(start=first, step=step, size=size):
                    values = [scale_value(first, step, position) for position in range(size)]
                    dataset = dataset.assign_coords({dim: np.array(values)})
                case _:
                    dataset = dataset.assign_coords(coordinates_of(dim, index))
        return dataset


def _times_of(stack: Stack, dim: str, index: TimeScale, start: np.ndarray) -> dict[str, xr.Variable]:
    """Return the steps of a time dimension, and which time each of them is in each array."""
    steps = np.arange(index.size) * index.step.astype(start.dtype.str.replace("M", "m"))
    times = xr.Variable((stack.dimension, dim), indexing.LazilyIndexedArray(Sums(start, steps)))
    taken = {*stack.arrays[0].dims, *stack.attributes, stack.dimension, stack.name}
    return {dim: xr.Variable((dim,), steps), _free(f"{dim}_time", taken): times}


def _columns(stack: Stack, columns: Mapping[str, np.ndarray], taken: set[Any]) -> dict[str, xr.Variable]:
    """Return the attributes as coordinates along the new dimension, in memory as they are."""
    dim = stack.dimension
    found = {dim: xr.Variable((dim,), columns[stack.along])}
    for name, cells in columns.items():
        if name != stack.along:
            found[_free(name, taken | found.keys())] = xr.Variable((dim,), cells)
    return found


def _free(name: str, taken: set[Any]) -> str:
    while name in taken:
        name += "_"
    return name


def as_cells(values: Sequence[Any]) -> np.ndarray:
    """Return values of one attribute as an array that xarray can index and save; unset ones as NaN, NaT or ""."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {datetime}:
        unset = np.iinfo("i8").min  # NaT
        micro = [unset if value is None else microseconds(value) for value in values]
        return as_nanoseconds(np.array(micro, "i8").view("M8[us]"))
    if kinds <= {int, float, complex} and kinds:
        cells = np.array([np.nan if value is None else value for value in values])
        if cells.dtype != object:  # as whole numbers beyond 64 bits would be
            return cells
    texts = np.empty(len(values), object)
    texts[:] = ["" if value is None else str(value) for value in values]
    return texts
