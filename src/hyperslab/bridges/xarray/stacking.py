"""Show many arrays of one kind as one lazy Dataset: what attributes of theirs tell apart become dimensions."""

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
from hyperslab.model.dims import ScaleIndex, TimeScale
from hyperslab.model.guessing import meant
from hyperslab.model.schemas.dimensions import as_nanoseconds, microseconds

Shape = tuple[int, ...]


class StackedCells(BackendArray):
    """The cells of many arrays of one kind as those of one, read from the arrays concerned alone: along new first axes
    of these ``lengths``, the last one fastest. It pickles as they do.

    Those that are shorter along an axis than others are filled up with their fill value; where there is no array (None)
    every cell is ``absent``.
    """

    __slots__ = ("_absent", "_arrays", "_inner", "_lengths", "_settings", "dtype", "shape")

    def __init__(self, arrays: Sequence[Array | None], lengths: Shape, absent: object = None) -> None:
        known = [array for array in arrays if array is not None]
        self._arrays = tuple(arrays)
        self._settings: Settings = known[0]._session.settings
        self._lengths, self._absent = lengths, absent
        self._inner = tuple(max(sizes) for sizes in zip(*(each.shape for each in known), strict=True))
        self.shape = (*lengths, *self._inner)
        self.dtype = known[0].dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if not isinstance(key, indexing.VectorizedIndexer):
            return self._block(key.tuple)
        if len(self._lengths) == 1:
            return self._points(key.tuple)
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._block)

    def _block(self, key: tuple[Any, ...]) -> Any:
        """Read by one key for each axis: those of the arrays that the first ones name, each by itself."""
        first, inner = key[: len(self._lengths)], key[len(self._lengths) :]
        which = np.arange(len(self._arrays)).reshape(self._lengths)
        for axis in reversed(range(which.ndim)):
            which = which[(slice(None),) * axis + (first[axis],)]
        if not which.ndim:
            return self._part(int(which), inner)
        out = self._new_block((which.size, *_length_of(inner, self._inner)))
        self._each(list(enumerate(which.ravel().tolist())), lambda array, place: self._part(array, inner), out)
        return out.reshape(*which.shape, *out.shape[1:])

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
        if array is None:
            return np.full(_length_of(key, self._inner), self._absent, self.dtype)
        if array.shape == self._inner:
            return np.asarray(array.vindex[key] if together else array.oindex[key], self.dtype)
        return _filled_up(array, key, self._inner, together)


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
    """``starts[..., None] + steps``, computed where it is read: the times of arrays that each begin at their own."""

    __slots__ = ("_starts", "_steps", "dtype", "shape")

    def __init__(self, starts: np.ndarray, steps: np.ndarray) -> None:
        self._starts, self._steps = starts, steps
        self.shape = (*starts.shape, steps.size)
        self.dtype = starts.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        starts = self._starts
        for axis in reversed(range(starts.ndim)):
            starts = starts[(slice(None),) * axis + (key[axis],)]
        return np.add.outer(starts, self._steps[key[-1]])


@dataclass(frozen=True)
class Stack:
    """Arrays to be shown as one variable ``name`` along new dimensions.

    ``attributes``: by name the values of the arrays, in their order. ``along``: the attribute whose values are the
    coordinate of the new dimension, which is called ``dim`` or as it; several of them span a grid. ``starts``: the time
    dimensions that begin at an attribute's value in each array. ``absent``: the cells where a grid has no array.
    """

    name: str
    arrays: Sequence[Array]
    along: str | tuple[str, ...]
    attributes: Mapping[str, Sequence[Any]]
    starts: Mapping[str, str] = field(default_factory=dict)
    dim: str | None = None
    absent: object = None


@dataclass(frozen=True)
class _Layout:
    """Where the arrays of a stack lie along its new dimensions: ``coordinates`` of these, by name; ``arrays`` and
    ``columns`` in the order of the grid, the columns being the attributes that are no coordinate of their own."""

    name: str
    arrays: Sequence[Array | None]
    coordinates: Mapping[str, np.ndarray]
    columns: Mapping[str, np.ndarray]
    starts: Mapping[str, tuple[tuple[str, ...], np.ndarray]]
    absent: object

    @property
    def lengths(self) -> Shape:
        """The lengths of the new dimensions."""
        return tuple(map(len, self.coordinates.values()))

    @property
    def known(self) -> list[Array]:
        """The arrays that are there."""
        return [array for array in self.arrays if array is not None]

    def __dask_tokenize__(self) -> str:
        return uuid4().hex


def stacked(stack: Stack, chunks: Any = None) -> xr.Dataset:
    """Return the arrays as one lazy Dataset; a read touches the chunks of the arrays that it needs, and nothing else.

    The attribute ``along`` is the coordinate of the new first dimension, in the order of the arrays; all other
    attributes are coordinates along it: times as datetime64 (UTC), numbers, text, tuples as text. Unset ones read as
    NaN, NaT or None, as pandas has them. Scales, labels and common times are the coordinates of their dimensions.
    Several attributes make as many dimensions, each in the order of its values; where no array has the values, cells
    are NaN, NaT or ``absent``.

    A time dimension ``t`` that begins at an attribute's value in each array gets what forecasts have: the times since
    the beginning as its coordinate (timedelta64), and a coordinate ``t_time`` over both dimensions that says which time
    each cell is of. Where a name is taken, the attribute's or variable's gets ``_`` behind it.

    ``chunks``: as in ``xarray.open_dataset``; ``{}`` makes one block of each array, or of each of its tiles.
    Invalid without arrays, for an attribute that there is none of, where a new dimension has the name of another, and
    for two arrays at one place.
    """
    if not stack.arrays:
        raise Invalid("there is no array to stack", remedy="select some that are there")
    along = (stack.along,) if isinstance(stack.along, str) else tuple(stack.along)
    for name in along:
        if name not in stack.attributes:
            raise Invalid(f"no attribute {name!r} to stack along", remedy=meant(name, stack.attributes))
    if not along or len(set(along)) < len(along):
        raise Invalid(f"stack={stack.along!r}", remedy="name one attribute, or several different ones")
    if stack.dim is not None and len(along) > 1:
        raise Invalid("dim= of a stack along several attributes", remedy="leave it out: they give the names")
    known: Any = _layout(stack, along)  # our own engine takes it
    taken = sorted(known.coordinates.keys() & set(stack.arrays[0].dims))
    if taken:
        remedy = "give the new dimension another name: dim=..."
        raise Invalid(f"the arrays have a dimension {taken[0]!r} already", remedy=remedy)
    with named_chunks(chunks):
        dataset = xr.open_dataset(known, engine=_Engine, chunks=chunks)
    dataset = dataset.assign_coords(_columns(known, {*dataset.dims, *dataset.variables}))
    check_chunks([dataset], chunks)
    return dataset


def _layout(stack: Stack, along: tuple[str, ...]) -> _Layout:
    """Return where the arrays lie: one behind another, or each at its place in the grid of several attributes."""
    columns = {name: as_cells(values) for name, values in stack.attributes.items()}
    starts = {dim: name for dim, name in stack.starts.items() if columns[name].dtype.kind == "M"}
    begun: dict[str, tuple[tuple[str, ...], np.ndarray]]
    found = [_distinct(columns[name]) for name in along]
    coordinates = {name: values for name, (values, _) in zip(along, found, strict=True)}
    lengths = tuple(map(len, coordinates.values()))
    places = np.ravel_multi_index(tuple(codes for _, codes in found), lengths)
    _refuse_two_at_one_place(stack, along, places)
    if len(along) == 1:
        dim = stack.dim or along[0]
        others = {name: cells for name, cells in columns.items() if name != along[0]}
        begun = {each: ((dim,), columns[name]) for each, name in starts.items()}
        return _Layout(stack.name, stack.arrays, {dim: columns[along[0]]}, others, begun, None)
    grid: list[Array | None] = [None] * int(np.prod(lengths))
    for place, array in zip(places.tolist(), stack.arrays, strict=True):
        grid[place] = array

    def spread(name: str) -> np.ndarray:
        cells: list[Any] = [None] * len(grid)
        for place, value in zip(places.tolist(), stack.attributes[name], strict=True):
            cells[place] = value
        return as_cells(cells).reshape(lengths)

    others = {name: spread(name) for name in columns if name not in along}
    begun = {}
    for dim, name in starts.items():
        begun[dim] = ((name,), coordinates[name]) if name in along else (along, others[name])
    absent = _absent_cell(stack) if None in grid else None
    return _Layout(stack.name, grid, coordinates, others, begun, absent)


def _refuse_two_at_one_place(stack: Stack, along: tuple[str, ...], places: np.ndarray) -> None:
    """Raise Invalid where the attributes tell two arrays not apart: their labels would repeat."""
    order = np.argsort(places, kind="stable")
    if (twice := np.flatnonzero(np.diff(places[order]) == 0)).size:
        first = order[twice[0]]
        shown = ", ".join(f"{name}={stack.attributes[name][first]!r}" for name in along)
        remedy = "add an attribute to stack= that tells them apart, or a condition"
        raise Invalid(f"two arrays have {shown}", remedy=remedy)


def _absent_cell(stack: Stack) -> object:
    """Return what the cells are where the grid has no array. Invalid for a type that cannot say so."""
    dtype = stack.arrays[0].dtype
    if stack.absent is not None:
        return stack.absent
    if dtype.kind in "fcmM":
        return np.array("NaT", dtype)[()] if dtype.kind in "mM" else np.array(np.nan, dtype)[()]
    message = f"the grid has places without an array, and cells of {dtype} cannot be missing"
    raise Invalid(message, remedy="say what they are: absent=..., or choose arrays that fill the grid")


class _Engine(BackendEntrypoint):
    """An engine for ``xarray.open_dataset``, which makes dask blocks of what it gives."""

    open_dataset_parameters = ("filename_or_obj", "drop_variables")

    def open_dataset(self, filename_or_obj: Any, *, drop_variables: Any = None) -> xr.Dataset:
        """Return the cells, and the coordinates of the dimensions that the arrays have themselves."""
        layout: _Layout = filename_or_obj
        arrays, new = layout.known, tuple(layout.coordinates)
        dims = (*new, *arrays[0].dims)
        cells = StackedCells(layout.arrays, layout.lengths, layout.absent)
        variable = xr.Variable(dims, indexing.LazilyIndexedArray(cells))
        stored = arrays[0].shards or arrays[0].chunks
        variable.encoding["preferred_chunks"] = dict(zip(dims, ((1,) * len(new) + tuple(stored)), strict=True))
        dataset = xr.Dataset({_free(layout.name, {*dims, *layout.columns}): variable})
        for axis, dim in enumerate(arrays[0].dims):
            if dim is None:
                continue
            lengths = [array.shape[axis] for array in arrays]
            index = arrays[lengths.index(max(lengths))].spec.indexes.get(dim)  # the longest has all labels
            start = layout.starts.get(dim)
            match index:
                case None:
                    continue
                case TimeScale() if start is not None:
                    dataset = dataset.assign_coords(_times_of(layout, dim, index, *start))
                case TimeScale(start=first, step=step, size=size):
                    dataset = dataset.assign_coords({dim: as_nanoseconds(first + np.arange(size) * step)})
                case ScaleIndex(size=size):
                    dataset = dataset.assign_coords({dim: index.labels(range(size))})
                case _:
                    dataset = dataset.assign_coords(coordinates_of(dim, index))
        return dataset


def _times_of(
    layout: _Layout, dim: str, index: TimeScale, dims: tuple[str, ...], start: np.ndarray
) -> dict[str, xr.Variable]:
    """Return the steps of a time dimension, and which time each of them is in each array."""
    steps = np.arange(index.size) * index.step.astype(start.dtype.str.replace("M", "m"))
    times = xr.Variable((*dims, dim), indexing.LazilyIndexedArray(Sums(start, steps)))
    taken = {*layout.known[0].dims, *layout.columns, *layout.coordinates, layout.name}
    return {dim: xr.Variable((dim,), steps), _free(f"{dim}_time", taken): times}


def _columns(layout: _Layout, taken: set[Any]) -> dict[str, xr.Variable]:
    """Return the attributes as coordinates along the new dimensions, in memory as they are."""
    found = {dim: xr.Variable((dim,), cells) for dim, cells in layout.coordinates.items()}
    for name, cells in layout.columns.items():
        found[_free(name, taken | found.keys())] = xr.Variable(tuple(layout.coordinates), cells)
    return found


def _free(name: str, taken: set[Any]) -> str:
    while name in taken:
        name += "_"
    return name


def as_cells(values: Sequence[Any]) -> np.ndarray:
    """Return values of one attribute as an array that xarray can index and save; unset ones as NaN, NaT or None."""
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
    texts[:] = [None if value is None else str(value) for value in values]
    return texts


def _distinct(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values in order, unset ones last, and for each cell the position of its value."""
    if cells.dtype != object:
        return np.unique(cells, return_inverse=True)
    values = sorted({each for each in cells if each is not None}) + [None] * any(each is None for each in cells)
    places = {value: place for place, value in enumerate(values)}
    return as_cells(values), np.array([places[each] for each in cells], np.intp)
