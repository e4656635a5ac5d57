"""Cells of many arrays of one kind as those of one, with an axis more; read from the arrays concerned alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from hyperslab.array import Array
from hyperslab.chunks.memory import require
from hyperslab.chunks.pool import each_if_many
from hyperslab.chunks.settings import Settings

Shape = tuple[int, ...]


class StackedCells(BackendArray):
    """Arrays one behind another along a new first axis; it pickles as they do.

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
        """One key for each axis: those of the arrays that the first one names, each by itself."""
        first, *inner = key
        which = np.arange(len(self._arrays))[first]
        if not which.ndim:
            return self._part(int(which), tuple(inner))
        out = self._room((which.size, *_length_of(inner, self.shape[1:])))
        self._each(list(enumerate(which.tolist())), lambda place, array: self._part(array, tuple(inner)), out)
        return out

    def _points(self, key: tuple[Any, ...]) -> Any:
        """Positions that run together: of each array those that name it. Axes of slices come behind that of the points,
        as in ``numpy``'s own vectorised indexing."""
        first, *inner = key
        spread = np.broadcast_arrays(*(each for each in key if isinstance(each, np.ndarray)))
        shape = spread[0].shape
        flat = iter([each.reshape(-1) for each in spread])
        points = [next(flat) if isinstance(each, np.ndarray) else each for each in key]
        if not isinstance(first, np.ndarray):
            return self._all_at(points, shape)
        sliced = _length_of([each for each in inner if isinstance(each, slice)], self._sliced(inner))
        out = self._room((points[0].size, *sliced))
        places = {int(array): np.flatnonzero(points[0] == array) for array in np.unique(points[0])}

        def part(place: Any, array: int) -> Any:
            mine = tuple(each[place] if isinstance(each, np.ndarray) else each for each in points[1:])
            return self._part(array, mine, together=True)

        self._each([(place, array) for array, place in places.items()], part, out)
        return out.reshape(*shape, *sliced)

    def _all_at(self, points: list[Any], shape: Shape) -> Any:
        """The same points of each array of a slice."""
        inner = tuple(points[1:])
        which = range(len(self._arrays))[points[0]]
        rest = _length_of([each for each in inner if isinstance(each, slice)], self._sliced(inner))
        out = self._room((len(which), math.prod(shape), *rest))
        self._each(list(enumerate(which)), lambda place, array: self._part(array, inner, together=True), out)
        return np.moveaxis(out, 0, 1).reshape(*shape, len(which), *rest)

    def _sliced(self, inner: Sequence[Any]) -> Shape:
        return tuple(size for size, each in zip(self.shape[1:], inner, strict=True) if isinstance(each, slice))

    def _room(self, shape: Shape) -> np.ndarray[Any, Any]:
        require(math.prod(shape) * self.dtype.itemsize, self._settings.memory_limit)
        return np.empty(shape, self.dtype)

    def _each(self, pairs: list[tuple[Any, int]], part: Any, out: np.ndarray[Any, Any]) -> None:
        """The parts of several arrays to their places in the result, by several threads where they are many."""

        def one(pair: tuple[Any, int]) -> None:
            out[pair[0]] = part(*pair)

        each_if_many(one, pairs, self._settings.threads)

    def _part(self, number: int, key: tuple[Any, ...], *, together: bool = False) -> Any:
        """Cells of one array; beyond its end there are fill values."""
        array = self._arrays[number]
        if array.shape == self.shape[1:]:
            return np.asarray(array.vindex[key] if together else array.oindex[key], self.dtype)
        return _filled_up(array, key, self.shape[1:], together)


def _filled_up(array: Array, key: tuple[Any, ...], shape: Shape, together: bool) -> Any:
    """What the key takes of an array as if it had a larger shape."""
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


def _grid(places: Sequence[np.ndarray[Any, Any]], key: tuple[Any, ...]) -> list[np.ndarray[Any, Any]]:
    """Positions along every axis, broadcast: points along the first axis, each slice along one of its own behind it."""
    slices = sum(isinstance(each, slice) for each in key)
    grid, seen = [], 0
    for place, each in zip(places, key, strict=True):
        seen += isinstance(each, slice)
        axis = seen if isinstance(each, slice) else 0
        grid.append(place.reshape([-1 if other == axis else 1 for other in range(slices + 1)]))
    return list(np.broadcast_arrays(*grid))


def _length_of(key: Sequence[Any], shape: Shape) -> Shape:
    """The shape that keys taken each for itself give; positions drop their axis."""
    sizes = []
    for each, size in zip(key, shape, strict=True):
        if isinstance(each, slice):
            sizes.append(len(range(*each.indices(size))))
        elif isinstance(each, np.ndarray):
            sizes.append(each.size)
    return tuple(sizes)


class Sums(BackendArray):
    """``starts[:, None] + steps``, computed where it is read: the times of many arrays that each begin at their own."""

    __slots__ = ("_starts", "_steps", "dtype", "shape")

    def __init__(self, starts: np.ndarray[Any, Any], steps: np.ndarray[Any, Any]) -> None:
        self._starts, self._steps = starts, steps
        self.shape = (starts.size, steps.size)
        self.dtype = starts.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, Any]) -> Any:
        return np.add.outer(self._starts[key[0]], self._steps[key[1]])
