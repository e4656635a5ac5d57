"""Tables of HDMF: the columns of a ``DynamicTable``, ragged ones with the arrays in which their rows end (hdmf-common
1.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from math import prod
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.errors import FormatError, HyperslabError
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import Enum

# Columns that a table has at the most: a stranger may name any number.
MOST_COLUMNS = 300
# Indexes of indexes: HDMF has two of them.
_MOST_LEVELS = 4
# Cells of a ragged column that are read by one read though few of them are wanted; of more each row is read by itself.
_RAGGED_CELLS = 50_000

Cells = Sequence[Any] | Values
Bounds = list[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class TableColumn:
    """A column of a table: its ``data``, and the arrays where each row of it ends (the outermost first)."""

    name: str
    data: Array
    indexes: tuple[Array, ...] = ()

    @property
    def is_ragged(self) -> bool:
        """True where each row is a list."""
        return bool(self.indexes)

    @property
    def length(self) -> int:
        """Rows of the column."""
        return (self.indexes or (self.data,))[0].shape[0]

    def read(self, start: int, stop: int, most: int | None = None, shape: tuple[int, ...] | None = None) -> Cells:
        """Return the cells of some rows, decoded; lists, within each other where there are several indexes.

        ``most``: items of each list; ``shape``: how many of each further dimension of the data; all of them by default.
        FormatError where the ends of rows make no sense.
        """
        stop = min(stop, self.length)
        if start >= stop:
            return []
        shape = self.data.shape[1:] if shape is None else shape
        if not self.indexes:
            return read_rows_of(self.data, start, stop, shape)
        return _read_lists(self.indexes, self.data, [(start, stop)], most, shape)[0]


def find_columns(attrs: Mapping[str, Any], nodes: Mapping[str, Any]) -> list[TableColumn] | None:
    """Return the columns of a ``DynamicTable`` in its order, by the attributes of a group and what is in it; None for a
    group that is none."""
    names = attrs.get("colnames")
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list | tuple | np.ndarray):
        return None
    found = [_find_column(nodes, name) for name in islice(["id", *map(str, names)], MOST_COLUMNS)]
    return [column for column in found if column is not None]


def _find_column(nodes: Mapping[str, Any], name: str) -> TableColumn | None:
    """Return a column with its indexes; None where the group has no array of the name."""
    data = _array_in(nodes, name)
    if data is None:
        return None
    indexes: list[Array] = []
    place = name
    while len(indexes) < _MOST_LEVELS:
        place = f"{place}_index"
        index = _array_in(nodes, place)
        if index is None or index.ndim != 1 or index.dtype.kind not in "iu":
            break
        indexes.insert(0, index)
    return TableColumn(name, data, tuple(indexes))


def _array_in(nodes: Mapping[str, Any], name: str) -> Array | None:
    """Return the array of this name, or behind the link of this name; None where it is none, or cannot be read."""
    with suppress(HyperslabError):
        found = nodes.get(name)
        return found if isinstance(found, Array) and found.ndim else None
    return None


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
            raise FormatError("the ends of its rows make no sense", node=index.path, url=index.url)
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
