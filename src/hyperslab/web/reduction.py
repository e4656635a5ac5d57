"""Cells reduced to the cells of a picture: the mean of each block, or its least, mean and greatest. NumPy alone."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import numpy as np

from hyperslab.model.cells import Values

# Cells that are worked on at a time: their doubles, and what is left out of them, stay in the processor's cache.
_CELLS_AT_ONCE = 1 << 17


class BlockMeans:
    """The mean of each block of cells, rows by columns; of a line also the least and the greatest (``envelope``).

    Blocks are ``blocks`` cells long, and cells are added part by part, in any order, each once. NaN is left out; a
    block of nothing else is NaN. ``size``: rows and columns of all cells; ``is_sparse``: many of them are added by
    :meth:`fill_rest`.
    """

    def __init__(
        self, size: tuple[int, int], blocks: tuple[int, int], *, envelope: bool, is_sparse: bool = False
    ) -> None:
        self._size = size
        self._blocks = blocks
        shape = ceil(size[0] / blocks[0]), ceil(size[1] / blocks[1])
        self._added = np.zeros(shape, np.int64) if is_sparse else None
        self._is_plain = blocks == (1, 1)
        self._sums = np.full(shape, np.nan if self._is_plain else 0.0)
        self._counts = None if self._is_plain else np.zeros(shape, np.int64 if is_sparse else np.int32)
        self._least = np.full(shape, np.nan) if envelope and not self._is_plain else None
        self._greatest = np.full(shape, np.nan) if envelope and not self._is_plain else None
        self.least, self.greatest = np.inf, -np.inf
        """The least and the greatest of all cells that are finite; infinite without any."""

    def add(self, row: int, column: int, cells: Values) -> None:
        """Add real numbers, of which the first is at this row and column."""
        rows = max(_CELLS_AT_ONCE // max(cells.shape[1], 1), 1)
        for first in range(0, len(cells), rows):
            self._add(row + first, column, cells[first : first + rows].astype("f8"))

    def fill_rest(self, value: float) -> None:
        """Take every cell that was not added for this number, NaN where it is missing; once, at the end."""
        assert self._added is not None
        lengths = [
            np.minimum(block, length - block * np.arange(count))
            for block, length, count in zip(self._blocks, self._size, self._added.shape, strict=True)
        ]
        rest = np.outer(*lengths) - self._added
        if np.isnan(value) or not rest.any():
            return
        if self._counts is None:
            self._sums[rest > 0] = value
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                self._sums += np.where(rest > 0, rest * value, 0.0)
            self._counts += rest.astype(self._counts.dtype)
        for each, function in ((self._least, np.fmin), (self._greatest, np.fmax)):
            if each is not None:
                function(each, value, out=each, where=rest > 0)
        if np.isfinite(value):
            self.least, self.greatest = min(self.least, value), max(self.greatest, value)

    def _add(self, row: int, column: int, cells: Values) -> None:
        finite = cells[np.isfinite(cells)]
        if finite.size:
            self.least = min(self.least, float(finite.min()))
            self.greatest = max(self.greatest, float(finite.max()))
        if self._counts is None:
            there = slice(row, row + cells.shape[0]), slice(column, column + cells.shape[1])
            self._sums[there] = cells
            if self._added is not None:
                self._added[there] = 1
            return
        place, edges = [], []
        for first, count, block in zip((row, column), cells.shape, self._blocks, strict=True):
            begin, end = first // block, (first + count - 1) // block
            place.append(slice(begin, end + 1))
            edges.append([0, *range((begin + 1) * block - first, count, block)])
        at = tuple(place)
        if self._added is not None:
            self._added[at] += np.outer(*(np.diff([*each, n]) for each, n in zip(edges, cells.shape, strict=True)))
        there = ~np.isnan(cells)
        with np.errstate(invalid="ignore", over="ignore"):
            self._sums[at] += _over_blocks(np.add, np.where(there, cells, 0.0), edges)
        self._counts[at] += _over_blocks(np.add, there.astype(np.int32), edges)
        if self._least is not None and self._greatest is not None:
            self._least[at] = np.fmin(self._least[at], _over_blocks(np.fmin, cells, edges))
            self._greatest[at] = np.fmax(self._greatest[at], _over_blocks(np.fmax, cells, edges))

    def layers(self) -> Iterator[tuple[str, Values]]:
        """Yield name and cells of each picture: ``cells`` as they are, ``mean``, or least, mean and greatest; once."""
        if self._counts is None:
            yield "cells", self._sums
            return
        if self._least is not None:
            yield "minimum", self._least
        with np.errstate(invalid="ignore", divide="ignore"):
            yield "mean", np.divide(self._sums, self._counts, out=self._sums)
        if self._greatest is not None:
            yield "maximum", self._greatest


def _over_blocks(function: np.ufunc, cells: Values, edges: list[list[int]]) -> Values:
    """Return what a function makes of the cells from each edge to the next, along rows and columns."""
    along: Values = function.reduceat(cells, edges[1], axis=1)
    return np.asarray(function.reduceat(along, edges[0], axis=0))
