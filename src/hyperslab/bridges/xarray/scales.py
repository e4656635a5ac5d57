"""Regular scales as coordinates of xarray: no label is in memory before it is read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import xarray as xr
from xarray import indexes
from xarray.backends import BackendArray
from xarray.core import indexing

from hyperslab.model.dims import ScaleIndex
from hyperslab.selection.labels import resolve_sel


class ScaleCells(BackendArray):
    """The labels of a scale, computed where they are read."""

    __slots__ = ("_scale", "dtype", "shape")

    def __init__(self, scale: ScaleIndex) -> None:
        self._scale = scale
        self.shape = (scale.size,)
        self.dtype = np.dtype("f8")

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[int | slice | np.ndarray, ...]) -> np.ndarray:
        positions = range(self._scale.size)[key[0]] if isinstance(key[0], slice) else key[0]
        return self._scale.labels(np.atleast_1d(positions)).reshape(np.shape(positions))


class RegularIndex(indexes.Index):
    """The index of a coordinate ``name`` along ``dim`` whose labels are a scale; ``sel`` means what it means for an
    ``Array``.

    xarray's own ``RangeIndex`` finds neighbours alone, and no coordinate that is not called as its dimension.
    """

    def __init__(self, scale: ScaleIndex, dim: Hashable, name: Hashable) -> None:
        self.scale, self.dim, self.name = scale, dim, name

    def create_variables(self, variables: Mapping[Any, xr.Variable] | None = None) -> dict[Hashable, xr.Variable]:
        known = (variables or {}).get(self.name)
        attrs, encoding = (None, None) if known is None else (known.attrs, known.encoding)
        cells = indexing.LazilyIndexedArray(ScaleCells(self.scale))
        return {self.name: xr.Variable((self.dim,), cells, attrs, encoding)}

    @classmethod
    def concat(cls, parts: Sequence[Self], dim: Hashable, positions: Iterable[Iterable[int]] | None = None) -> Any:
        """Return the labels of parts, one behind the other, as a ``PandasIndex``: steps may be missing between."""
        listed = [indexes.PandasIndex(each.to_pandas_index(), each.dim) for each in parts]
        return indexes.PandasIndex.concat(listed, dim, positions)

    def isel(self, indexers: Mapping[Any, Any]) -> indexes.Index | None:
        item = indexers[self.dim]
        if isinstance(item, slice):
            return RegularIndex(self.scale.take(range(self.scale.size)[item]), self.dim, self.name)
        dims, positions = (item.dims, item.values) if isinstance(item, xr.Variable) else ((self.dim,), np.asarray(item))
        if positions.ndim != 1 or dims != (self.dim,):
            return None
        size = self.scale.size
        positions = positions if positions.size else positions.astype("i8")  # an empty list is one of floats
        np.broadcast_to(False, (size,))[positions]  # NumPy's errors, without memory for each label
        places = np.flatnonzero(positions) if positions.dtype == bool else positions.astype("i8")
        labels = self.scale.labels(np.where(places < 0, places + size, places))
        return indexes.PandasIndex(pd.Index(labels, name=self.name), self.dim)

    def sel(
        self, labels: dict[Any, Any], method: Literal["nearest"] | None = None, tolerance: object = None
    ) -> indexing.IndexSelResult:
        item = labels[self.name]
        inner = item.variable if isinstance(item, xr.DataArray) else item
        wanted = inner.values if isinstance(inner, xr.Variable) else item
        if isinstance(item, slice):  # whose bounds may be cells of a coordinate
            bounds = (item.start, item.stop, item.step)
            wanted = slice(*(each.values[()] if isinstance(each, xr.DataArray) else each for each in bounds))
        (found,) = resolve_sel({str(self.name): wanted}, (str(self.name),), lambda _: self.scale, method, tolerance)
        if isinstance(item, xr.DataArray):
            found = item.copy(data=np.asarray(found))
        elif isinstance(inner, xr.Variable):
            found = xr.Variable(inner.dims, found)
        return indexing.IndexSelResult({self.dim: found})

    def join(self, other: Self, how: str = "inner") -> Any:
        """Return the labels of both (``how``: "inner") or of either ("outer"), sorted where "outer", as xarray does.

        They are a scale where both are on one grid with no gap between, else a ``PandasIndex``. xarray joins a third
        one to either, so ``self`` may be a ``PandasIndex``.
        """
        theirs = _find_positions(self, other)
        if theirs is not None:
            size = self.scale.size
            shared = range(max(0, theirs.start), min(size, theirs.stop))
            if how == "inner":
                return RegularIndex(self.scale.take(shared), self.dim, self.name)
            if shared.start <= shared.stop:
                either = range(min(0, theirs.start), max(size, theirs.stop))
                either = either if self.scale.step > 0 else either[::-1]
                return RegularIndex(self.scale.take(either), self.dim, self.name)
        mine, listed = (indexes.PandasIndex(each.to_pandas_index(), self.dim) for each in (self, other))
        return mine.join(listed, how)

    def reindex_like(
        self, other: indexes.Index, method: str | None = None, tolerance: object = None
    ) -> dict[Hashable, Any]:
        """Return the position of each label of ``other``, -1 where this index lacks it; ``method`` and ``tolerance`` of
        pandas."""
        theirs = _find_positions(self, other)
        if theirs is None or method is not None:
            mine, listed = (indexes.PandasIndex(each.to_pandas_index(), self.dim) for each in (self, other))
            return mine.reindex_like(listed, method, tolerance)
        positions = np.arange(theirs.start, theirs.stop)
        return {self.dim: np.where((positions >= 0) & (positions < self.scale.size), positions, -1)}

    def equals(self, other: indexes.Index, **_: Any) -> bool:
        if not isinstance(other, RegularIndex) or (self.dim, self.scale.size) != (other.dim, other.scale.size):
            return False
        return not self.scale.size or _find_positions(self, other) == range(self.scale.size)

    def rename(self, name_dict: Mapping[Any, Hashable], dims_dict: Mapping[Any, Hashable]) -> Self:
        return type(self)(self.scale, dims_dict.get(self.dim, self.dim), name_dict.get(self.name, self.name))

    def to_pandas_index(self) -> pd.Index:
        return pd.Index(self.scale.labels(range(self.scale.size)), name=self.name)

    def _repr_inline_(self, max_width: int) -> str:
        return f"RegularIndex (start={self.scale.start:g}, step={self.scale.step:g}, size={self.scale.size})"[
            :max_width
        ]


def _find_positions(one: indexes.Index, other: indexes.Index) -> range | None:
    """Return the positions in ``one`` of the labels of ``other``, of which some may lie before or behind it; None where
    the two are no scales of one grid."""
    if not (isinstance(one, RegularIndex) and isinstance(other, RegularIndex) and one.scale.size and other.scale.size):
        return None
    place = (other.scale.start - one.scale.start) / one.scale.step
    if not abs(place) < 2**53:  # more labels than a float can count
        return None
    found = range(round(place), round(place) + other.scale.size)
    mine, theirs = one.scale.labels([found[0], found[-1]]), other.scale.labels([0, other.scale.size - 1])
    # The labels of a part differ by the rounding of its start and of products, which is far less than a step.
    rounding = 4 * np.spacing(max(abs(one.scale.start), abs(other.scale.start), *np.abs(mine)))
    return found if np.all(np.abs(mine - theirs) <= min(rounding, abs(one.scale.step) / 4)) else None


def coordinates_with(index: indexes.Index, name: Hashable) -> xr.Coordinates:
    """Return the coordinate ``name`` that an index has, as ``Coordinates.from_xindex`` of xarray 2025.4 does."""
    return xr.Coordinates(index.create_variables(), indexes={name: index})
