"""Columns of tables: what reads rows of them, and those of HDMF, ragged ones with the arrays in which their rows end
(hdmf-common 1.8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import Enum, describe

# Cells of a ragged column that are read by one read though few of them are wanted; of more each row is read by itself.
_RAGGED_CELLS = 50_000

Cells = Sequence[Any] | Values
Bounds = list[tuple[int, int]]


class TableColumn(ABC):
    """A column of a table."""

    name: str

    @property
    @abstractmethod
    def arrays(self) -> tuple[Array, ...]:
        """All arrays that are read for it, first the one whose cells, or numbers for them, these are."""

    @property
    def is_ragged(self) -> bool:
        """True where each row is a list."""
        return False

    @property
    @abstractmethod
    def length(self) -> int:
        """Rows of the column."""

    @property
    @abstractmethod
    def type_name(self) -> str:
        """The type of the cells, in words."""

    @abstractmethod
    def read(self, start: int, stop: int, most: int | None = None, shape: tuple[int, ...] | None = None) -> Cells:
        """Return the cells of some rows, decoded; lists, within each other where there are several indexes.

        ``most``: items of each list; ``shape``: how many of each further dimension of the data; all of them by default.
        FormatError where the ends of rows make no sense.
        """


@dataclass(frozen=True, eq=False)
class ArrayColumn(TableColumn):
    """A column of HDMF: its ``data``, and the ``indexes`` where each row of it ends (the outermost first)."""

    name: str
    data: Array
    indexes: tuple[Array, ...] = ()

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The data and its indexes."""
        return (self.data, *self.indexes)

    @property
    def is_ragged(self) -> bool:
        return bool(self.indexes)

    @property
    def length(self) -> int:
        return (self.indexes or (self.data,))[0].shape[0]

    @property
    def type_name(self) -> str:
        return describe(self.data.data_type)

    def read(self, start: int, stop: int, most: int | None = None, shape: tuple[int, ...] | None = None) -> Cells:
        """Return the cells of some rows, as :class:`TableColumn` says."""
        stop = min(stop, self.length)
        if start >= stop:
            return []
        shape = self.data.shape[1:] if shape is None else shape
        if not self.indexes:
            return read_rows_of(self.data, start, stop, shape)
        return _read_lists(self.indexes, self.data, [(start, stop)], most, shape)[0]


def read_rows_of(array: Array, start: int, stop: int, shape: tuple[int, ...]) -> Values:
    """Return rows of an array, of further dimensions the first items, as :func:`read_decoded` does."""
    return read_decoded(array, (slice(start, stop), *[slice(0, size) for size in shape]))


def read_decoded(array: Array, key: tuple[slice, ...]) -> Values:
    """Return cells decoded; as stored where that cannot be, and letters that decoding would join to texts. Those of an
    enum are its words."""
    if isinstance(array.data_type, Enum):
        stored = np.asarray(array[key])
        words = stored.astype(object)
        for word, number in array.data_type.members:
            words[stored == number] = word
        return words
    with suppress(HyperslabError):
        view = array.decoded()
        if view.ndim == array.ndim:
            return np.asarray(view[key])
    return np.asarray(array[key])


def _read_lists(
    indexes: tuple[Array, ...], data: Array, bounds: Bounds, most: int | None, shape: tuple[int, ...]
) -> list[list[Any]]:
    """Return for each range of rows the cells of its rows, lists within lists where there are several indexes."""
    index, *inner = indexes
    found: list[list[Any]] = []
    ends = _read_ranges(index, [(max(start - 1, 0), stop) for start, stop in bounds], ())
    for (start, _), some in zip(bounds, ends, strict=True):
        edges = [int(end) for end in some]
        edges = edges if start else [0, *edges]
        length = (inner[0] if inner else data).shape[0]
        if any(not 0 <= low <= high <= length for low, high in pairwise(edges)):
            remedy = "read the arrays of its other columns one by one, or write this index anew"
            raise FormatError("the ends of its rows make no sense", node=index.path, url=index.url, remedy=remedy)
        below = [(low, high if most is None else min(high, low + most)) for low, high in pairwise(edges)]
        rows = _read_lists(tuple(inner), data, below, most, shape) if inner else _read_ranges(data, below, shape)
        found.append(list(rows))
    return found


def _read_ranges(array: Array, bounds: Bounds, shape: tuple[int, ...]) -> list[Cells]:
    """Return the cells of each range: by one read where the ranges are near to each other."""
    filled = [(start, stop) for start, stop in bounds if start < stop]
    if not filled:
        return [[] for _ in bounds]
    low, high = min(start for start, _ in filled), max(stop for _, stop in filled)
    wanted = sum(stop - start for start, stop in filled)
    if (high - low) * prod(shape) > _RAGGED_CELLS and high - low > 2 * wanted:
        return [read_rows_of(array, start, stop, shape) if start < stop else [] for start, stop in bounds]
    cells = read_rows_of(array, low, high, shape)
    return [cells[start - low : stop - low] if start < stop else [] for start, stop in bounds]
