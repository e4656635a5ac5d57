"""Sparse cells as plain arrays: coordinates of the cells that differ from the fill value, and what stands there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.dtypes import NumpyDType

Numbers = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Coo:
    """``data[j]`` stands at ``coords[:, j]``; every other cell of ``shape`` is ``fill`` (0-d, of the data's dtype)."""

    shape: tuple[int, ...]
    coords: Numbers
    data: Numbers
    fill: Numbers

    @property
    def dtype(self) -> NumpyDType:
        """The dtype of the cells."""
        dtype: NumpyDType = self.data.dtype
        return dtype

    @property
    def nnz(self) -> int:
        """How many cells are listed."""
        return int(self.data.size)

    @classmethod
    def of_dense(cls, cells: Numbers, fill: object) -> Self:
        """Return the cells that differ from ``fill`` by a bit, in C order."""
        value = np.asarray(fill, cells.dtype).reshape(())
        places = np.nonzero(~same_bits(cells.reshape(-1), value))[0]
        found = np.unravel_index(places, cells.shape) if cells.shape else ()
        coords = np.array(found, np.intp).reshape(cells.ndim, places.size)
        return cls(cells.shape, coords, cells.reshape(-1)[places], value)

    def put_into(self, out: Numbers) -> None:
        """Fill ``out``, of this shape, with all cells."""
        out[...] = self.fill
        if self.shape:
            out[tuple(self.coords)] = self.data
        elif self.nnz:
            out[...] = self.data[0]

    def dense(self) -> Numbers:
        """Return all cells, in memory of their own."""
        out: Numbers = np.empty(self.shape, self.dtype)
        self.put_into(out)
        return out

    def part(self, cuts: Sequence[slice]) -> Self:
        """Return the cells of a box (slices with a start, a stop and any step above 0) as an array of their own."""
        inside = np.ones(self.nnz, bool)
        for row, cut in zip(self.coords, cuts, strict=True):
            inside &= (row >= cut.start) & (row < cut.stop)
            if (cut.step or 1) > 1:
                inside &= (row - cut.start) % cut.step == 0
        rows = [(row[inside] - cut.start) // (cut.step or 1) for row, cut in zip(self.coords, cuts, strict=True)]
        coords = np.array(rows, np.intp).reshape(len(self.shape), -1 if rows else int(inside.sum()))
        shape = tuple(max(0, -(-(cut.stop - cut.start) // (cut.step or 1))) for cut in cuts)
        return type(self)(shape, coords, self.data[inside], self.fill)

    def reshaped(self, shape: tuple[int, ...]) -> Self:
        """Return the same cells under a shape that has other axes of length 1 and is the same else."""
        rows = iter(row for row, size in zip(self.coords, self.shape, strict=True) if size != 1)
        none = np.zeros(self.nnz, np.intp)
        coords = np.array([none if size == 1 else next(rows) for size in shape], np.intp)
        return type(self)(shape, coords.reshape(len(shape), self.nnz), self.data, self.fill)

    def with_fill(self, fill: Numbers) -> Self:
        """Return the same cells as a list of those that are not ``fill``: long, where that is another."""
        if same_bits(self.fill.reshape(1), fill).all():
            return self
        return type(self).of_dense(self.dense(), fill)

    def astype(self, dtype: NumpyDType) -> Self:
        """Return the same values as cells of another type."""
        if self.dtype == dtype:
            return self
        return type(self)(self.shape, self.coords, self.data.astype(dtype), self.fill.astype(dtype))

    def canonical(self) -> Self:
        """Return the cells in C order, duplicates added up, without cells that are the fill value to the bit."""
        order = np.lexsort(self.coords[::-1]) if self.shape else np.arange(self.nnz)
        coords, data = self.coords[:, order], self.data[order]
        starts = np.ones(data.size, bool)
        starts[1:] = (coords[:, 1:] != coords[:, :-1]).any(axis=0)
        if not starts.all():
            if data.dtype.kind not in "biufc":
                message = f"two values of {data.dtype} for one cell of a sparse array"
                raise Invalid(message, remedy="give one value per cell")
            coords, data = coords[:, starts], np.add.reduceat(data, np.flatnonzero(starts), dtype=data.dtype)
        kept = ~same_bits(data, self.fill)
        return type(self)(self.shape, coords[:, kept], data[kept], self.fill)


def same_bits(cells: Numbers, value: Numbers) -> Numbers:
    """Return which cells of a 1-d array are ``value`` to the bit: NaN is itself, and 0.0 is not -0.0."""
    if not cells.dtype.itemsize:
        return np.ones(cells.size, bool)
    size = cells.dtype.itemsize
    word = np.dtype(f"u{size}") if size in (1, 2, 4, 8) else np.dtype(np.uint8)
    raw = np.ascontiguousarray(cells).view(word).reshape(cells.size, -1 if cells.size else size // word.itemsize)
    wanted = np.ascontiguousarray(value).reshape(1).view(word)
    same: Numbers = (raw == wanted).all(axis=1)
    return same
