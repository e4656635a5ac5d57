"""Tables of HDMF: the columns of a ``DynamicTable``, ragged ones with the arrays in which their rows end (hdmf-common
1.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.errors import FormatError, HyperslabError, NodeNotFound
from hyperslab.group.links import follow
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import Enum
from hyperslab.model.paths import child, is_name
from hyperslab.model.spec import ArraySpec, GroupSpec

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


def column_names(attrs: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the columns of a ``DynamicTable`` with these attributes, in its order; None for a group that
    is none."""
    names = attrs.get("colnames")
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list | tuple | np.ndarray):
        return None
    return ["id", *map(str, names)]


def find_columns(session: OpenDataset, path: str) -> list[TableColumn] | None:
    """Return the columns of the ``DynamicTable`` at a path, those that it names and has; None for a group that is none.
    Errors as for :func:`find_column`."""
    table = session.reader.node(path)
    names = column_names(table.attrs) if isinstance(table, GroupSpec) else None
    if names is None:
        return None
    found = (find_column(session, path, name) for name in names)
    return [column for column in found if column is not None]


def find_column(session: OpenDataset, table: str, name: str) -> TableColumn | None:
    """Return a column of the table at a path with its indexes; None where that has no array of the name. FormatError,
    BrokenLink … where one of these arrays is there and cannot be opened: without its index a ragged column would have
    other rows."""
    data = _array_in(session, table, name)
    if data is None:
        return None
    indexes: list[Array] = []
    place = name
    while len(indexes) < _MOST_LEVELS:
        place = f"{place}_index"
        index = _array_in(session, table, place)
        if index is None or index.ndim != 1 or index.dtype.kind not in "iu":
            break
        indexes.insert(0, index)
    return TableColumn(name, data, tuple(indexes))


def _array_in(session: OpenDataset, table: str, name: str) -> Array | None:
    """Return the array of this name, or behind the link of this name; None where there is none."""
    if not is_name(name):
        return None
    try:
        home, path, spec = follow(session, child(table, name))
    except NodeNotFound:
        return None
    return Array(home, path, spec) if isinstance(spec, ArraySpec) and spec.shape else None


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
