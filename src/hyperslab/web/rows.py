"""Rows for a table: of arrays, of the columns of an HDMF ``DynamicTable`` (ragged ones as lists), of a collection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from math import prod
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.session import OpenDataset
from hyperslab.database import Array as DatabaseArray
from hyperslab.errors import FormatError, HyperslabError, Invalid
from hyperslab.group import Group
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import Enum, describe
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.web.axes import labels_of
from hyperslab.web.bounded_values import cut_text, plain, public_text
from hyperslab.web.views import shown_units

# Rows of one answer, its cells, columns, and bytes as JSON, whichever is reached first.
MOST_ROWS, _MOST_CELLS, _MOST_COLUMNS, _MOST_BYTES = 1000, 20_000, 300, 4 << 20
# Items of a list that stands in a cell, and letters of a text there. Of lists one item more is read, which tells that
# they go on.
_ITEMS, _LETTERS = 50, 500
_MOST_READ = _ITEMS + 1
# Bytes of cells that are read of a column at once.
_COLUMN_BYTES = 32 << 20
# Cells of a ragged column that are read by one read; of more each row is read by itself.
_RAGGED_CELLS = 50_000
# Arrays of a query that are leafed through: the records of those before are read, and thrown away.
_MOST_FOUND = 10_000
# Indexes of indexes: HDMF has two of them.
_MOST_LEVELS = 4
# What is told of an array of a collection beside its attributes, and where its document has these.
_FACTS, _ATTRIBUTES = ("id", "shape", "problem"), ("primary_attributes", "custom_attributes")
# By what the objects of a database can be sorted.
_ORDERS = {"name": "name", "created": "created"}

Cells = Sequence[Any] | Values
Bounds = list[tuple[int, int]]


def is_collection(session: OpenDataset, path: str) -> bool:
    """Return True for a group of arrays that stand for themselves, of which there may be millions."""
    return session.format.traits.has_collections and bool(path) and bool(session.reader.members(path))


@dataclass(frozen=True, eq=False)
class TableColumn:
    """A column of a table: its ``data``, and the arrays where each row of it ends (the outermost first)."""

    name: str
    data: Array
    indexes: tuple[Array, ...] = ()

    @property
    def length(self) -> int:
        """Rows of the column."""
        return (self.indexes or (self.data,))[0].shape[0]

    @property
    def row_nbytes(self) -> int:
        """Bytes that are read of a row, at the most."""
        shown = prod(shown_shape(self.data, is_ragged=bool(self.indexes)))
        return max(int(shown * _MOST_READ ** len(self.indexes) * self.data.dtype.itemsize), 1)

    def facts(self) -> dict[str, object]:
        """Return what is told of the column, beside its cells."""
        description = self.data.attrs.get("description")
        return {
            "name": cut_text(self.name)[0],
            "path": f"/{self.data.path}",
            "dtype": describe(self.data.data_type),
            "units": shown_units(self.data)[0],
            "is_ragged": bool(self.indexes),
            **_shape_facts(self.data, is_ragged=bool(self.indexes)),
            **({"description": cut_text(description)[0]} if isinstance(description, str) else {}),
        }

    def cells(self, start: int, stop: int) -> Cells:
        """Return the cells of some rows; FormatError where the ends of rows make no sense."""
        if not self.indexes:
            return read_cells(self.data, start, stop, shown_shape(self.data, is_ragged=False))
        return _read_lists(self.indexes, self.data, [(start, stop)])[0]


def count_rows(session: OpenDataset, path: str, spec: GroupSpec | ArraySpec) -> int | None:
    """Return how many rows a table of this node has; None for what is no table, and for a collection."""
    if isinstance(spec, ArraySpec):
        return spec.shape[0] if spec.shape else 1
    columns = table_columns(session, path, spec)
    return max((column.length for column in columns), default=0) if columns is not None else None


# -- tables of HDMF ----------------------------------------------------------------------------------------------------


def table_columns(session: OpenDataset, path: str, spec: GroupSpec) -> list[TableColumn] | None:
    """Return the columns of a ``DynamicTable`` in its order; None for a group that is none."""
    names = spec.attrs.get("colnames")
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list | tuple | np.ndarray):
        return None
    group = Group(session, path)
    found = [_column(group, name) for name in islice(["id", *map(str, names)], _MOST_COLUMNS)]
    return [column for column in found if column is not None]


def _column(group: Group, name: str) -> TableColumn | None:
    """Return a column with its indexes; None where the group has no array of the name."""
    data = _array_in(group, name)
    if data is None:
        return None
    indexes: list[Array] = []
    place = name
    while len(indexes) < _MOST_LEVELS:
        place = f"{place}_index"
        index = _array_in(group, place)
        if index is None or index.ndim != 1 or index.dtype.kind not in "iu":
            break
        indexes.insert(0, index)
    return TableColumn(name, data, tuple(indexes))


def _array_in(group: Group, name: str) -> Array | None:
    """Return the array of this name, or behind the link of this name; None where it is none, or cannot be read."""
    with suppress(HyperslabError):
        found = group.get(name)
        return found if isinstance(found, Array) and found.ndim else None
    return None


def _read_lists(indexes: tuple[Array, ...], data: Array, bounds: Bounds) -> list[list[Any]]:
    """Return for each range of rows the cells of its rows, lists within lists where there are several indexes."""
    index, *inner = indexes
    found: list[list[Any]] = []
    ends = _read_ranges(index, [(max(start - 1, 0), stop) for start, stop in bounds], _RAGGED_CELLS)
    for (start, _), some in zip(bounds, ends, strict=True):
        edges = [int(end) for end in some]
        edges = edges if start else [0, *edges]
        length = (inner[0] if inner else data).shape[0]
        if any(not 0 <= low <= high <= length for low, high in pairwise(edges)):
            raise FormatError("the ends of its rows make no sense", node=index.path, url=index.url)
        below = [(low, min(high, low + _MOST_READ)) for low, high in pairwise(edges)]
        found.append(_read_lists(tuple(inner), data, below) if inner else _read_ranges(data, below, _MOST_READ))
    return found


def _read_ranges(array: Array, bounds: Bounds, most: int) -> list[Cells]:
    """Return the cells of each range, at most ``most`` of each: by one read where the ranges are near to each other."""
    wanted = [(start, min(stop, start + most)) for start, stop in bounds]
    filled = [(start, stop) for start, stop in wanted if start < stop]
    if not filled:
        return [[] for _ in wanted]
    low, high = min(start for start, _ in filled), max(stop for _, stop in filled)
    shown = shown_shape(array, is_ragged=True)
    if (high - low) * prod(shown) > _RAGGED_CELLS:
        return [read_cells(array, start, stop, shown) if start < stop else [] for start, stop in wanted]
    cells = read_cells(array, low, high, shown)
    return [cells[start - low : stop - low] if start < stop else [] for start, stop in wanted]


# -- cells -------------------------------------------------------------------------------------------------------------


def shown_shape(array: Array, *, is_ragged: bool) -> tuple[int, ...]:
    """Return how many items of each further dimension are read of a row, or of an item of a ragged one."""
    further = array.shape[1:]
    most = (_MOST_READ if is_ragged else _MOST_READ**2) ** (1 / max(len(further), 1))
    return tuple(min(size, max(int(most), 1), _MOST_READ) for size in further)


def _shape_facts(array: Array, *, is_ragged: bool) -> dict[str, object]:
    """Return the shape of a cell of several numbers, and the ``shown`` part of it where that is less."""
    shown = shown_shape(array, is_ragged=is_ragged)
    whole: dict[str, object] = {"shape": list(array.shape[1:])} if array.ndim > 1 else {}
    return {**whole, "shown": list(shown)} if shown != array.shape[1:] else whole


def read_cells(array: Array, start: int, stop: int, shown: tuple[int, ...]) -> Cells:
    """Return rows of an array, of further dimensions the first items, as :func:`_decoded` does."""
    return _decoded(array, (slice(start, stop), *[slice(0, size) for size in shown]))


def _decoded(array: Array, key: tuple[slice, ...]) -> Values:
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


def _bounded_cell(cell: Any) -> Any:
    """Return a cell of a table as JSON has it, with ``cut`` where that is the beginning of it."""
    value, cut = plain(cell, _ITEMS, _LETTERS)
    return {"value": value, "cut": True} if cut else value


# -- answers -----------------------------------------------------------------------------------------------------------


def read_rows(session: OpenDataset, path: str, spec: GroupSpec | ArraySpec, start: int, count: int) -> dict[str, Any]:
    """Return rows of a node from ``start`` on, at most ``count``: fewer where the answer would be too long, with
    ``next`` where they go on. A cell of which the beginning is shown is ``{"value": …, "cut": true}``.

    Invalid for what has no rows. Damage in one column leaves the others readable.
    """
    _require_count(count)
    with session.add_place_to_errors(path):
        if isinstance(spec, ArraySpec):
            return _rows_of_array(Array(session, path, spec), start, count)
        columns = table_columns(session, path, spec)
        if columns is not None:
            return _rows_of_table(columns, start, count)
        if is_collection(session, path):
            return _records(session, path, start, count)
        raise Invalid("a group without rows", remedy="name an array, a table or a collection")


def _require_count(count: int) -> None:
    """Raise Invalid for a number of rows that is not read at once."""
    if not 1 <= count <= MOST_ROWS:
        raise Invalid(f"{count} rows at once", remedy=f"ask for 1 to {MOST_ROWS:,}")


def _rows_of_array(array: Array, start: int, count: int) -> dict[str, Any]:
    """Return the cells along the first dimension, with their labels; those of a structure by field."""
    total = array.shape[0] if array.ndim else 1
    fields = array.dtype.names
    stop = min(start + min(count, max(_MOST_CELLS // max(len(fields or ()), 1), 1)), total)
    shown = shown_shape(array, is_ragged=False)
    stop = min(stop, start + max(_COLUMN_BYTES // max(prod(shown) * array.dtype.itemsize, 1), 1))
    value = {"name": array.name or "value", "dtype": describe(array.data_type), "units": shown_units(array)[0]}
    heads: list[dict[str, object]] = [{**value, "is_ragged": False, **_shape_facts(array, is_ragged=False)}]
    if fields and array.ndim <= 1:
        kinds = [describe(array.dtype[name]) for name in fields[:_MOST_COLUMNS]]
        heads = [{"name": name, "dtype": kind, "is_ragged": False} for name, kind in zip(fields, kinds, strict=False)]
    cells = read_cells(array, start, stop, shown) if array.ndim and start < stop else []
    if not array.ndim and start < stop:
        cells = _decoded(array, ())[np.newaxis]
    if fields and array.ndim <= 1:
        names = fields[:_MOST_COLUMNS]
        found = ([cell[name] for name in names] for cell in cells)
    else:
        found = ([cell] for cell in cells)
    labels = labels_of(array, 0, range(start, max(stop, start))) if array.ndim else None
    answer = _answer(heads, found, start, stop, total)
    answer["labels"] = None if labels is None or labels.labels is None else labels.labels[: len(answer["rows"])]
    return answer


def _rows_of_table(columns: list[TableColumn], start: int, count: int) -> dict[str, Any]:
    """Return the rows of all columns; what cannot be read of a column is null, with the ``problem``."""
    total = max((column.length for column in columns), default=0)
    widest = max((column.row_nbytes for column in columns), default=1)
    most = min(count, max(_MOST_CELLS // max(len(columns), 1), 1), max(_COLUMN_BYTES // widest, 1))
    stop = min(start + most, total)
    heads, found = [], []
    for column in columns:
        head = column.facts()
        cells: list[Any] = []
        try:
            cells = list(column.cells(start, min(stop, column.length))) if start < min(stop, column.length) else []
        except HyperslabError as error:
            head["problem"] = public_text(error.said, _LETTERS)
        heads.append(head)
        found.append(cells + [None] * (stop - start - len(cells)))
    return _answer(heads, (list(row) for row in zip(*found, strict=True)), start, stop, total)


def _records(session: OpenDataset, path: str, start: int, count: int) -> dict[str, Any]:
    """Return the arrays of a collection, with their attributes; their number is not known before the last one."""
    ids = list(islice(session.reader.children(path), start, start + count + 1))
    total = None if len(ids) > count else start + len(ids)
    records: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for id in ids[:count]:
        try:
            spec = session.array(f"{path}/{id}")
        except HyperslabError as error:
            records.append(({"id": id, "problem": public_text(error.said, _LETTERS)}, {}))
            continue
        found = [spec.attrs.get(kind) for kind in _ATTRIBUTES]
        attributes = {name: value for each in found if isinstance(each, dict) for name, value in each.items()}
        records.append(({"id": id, "shape": list(spec.shape)}, attributes))
    return _answer_of_arrays(records, start, total)


def read_found(found: Sequence[DatabaseArray], start: int, count: int) -> dict[str, Any]:
    """Return arrays that a query of a collection found, with their attributes, from ``start`` on, at most ``count``.
    Invalid for another number of rows at once, and far behind the first."""
    _require_count(count)
    if start > _MOST_FOUND:
        raise Invalid(f"rows beyond the first {_MOST_FOUND:,} that were found", remedy="give further conditions")
    some = list(islice(found[start : start + count + 1], count + 1))
    total = None if len(some) > count else start + len(some)
    records = [
        ({"id": each.id, "shape": list(each.shape)}, {**each.primary_attributes, **each.custom_attributes})
        for each in some[:count]
    ]
    for _, attributes in records:  # as they are stored, and told where nothing is looked for
        attributes |= {name: value.isoformat() for name, value in attributes.items() if isinstance(value, datetime)}
    return _answer_of_arrays(records, start, total)


def read_objects(objects: Sequence[Mapping[str, object]], start: int, count: int) -> dict[str, Any]:
    """Return the objects of a database as rows from ``start`` on, at most ``count`` of them; one more tells that they
    go on. Invalid for another number of rows at once."""
    _require_count(count)
    total = None if len(objects) > count else start + len(objects)
    return _answer_of_records([dict(each) for each in objects[:count]], _ORDERS, start, total)


def _answer_of_arrays(
    arrays: Sequence[tuple[dict[str, Any], dict[str, Any]]], start: int, total: int | None
) -> dict[str, Any]:
    """Return the answer for arrays of a collection, of each what is told of it, and its attributes: one that is called
    as what is told has another head."""
    names = dict.fromkeys(name for _, attributes in arrays for name in attributes)
    columns = {name: f"{name} (attribute)" if name in _FACTS else name for name in names}
    records = [facts | {columns[name]: value for name, value in attributes.items()} for facts, attributes in arrays]
    return _answer_of_records(records, {column: name for name, column in columns.items()}, start, total)


def _answer_of_records(
    records: list[dict[str, Any]], orders: Mapping[str, str], start: int, total: int | None
) -> dict[str, Any]:
    """Return the answer for records, with a column for each name that one of them has; ``orders``: by what the rows are
    sorted for a column."""
    names = list(islice(dict.fromkeys(name for record in records for name in record), _MOST_COLUMNS))
    heads: list[dict[str, object]] = [
        {"name": cut_text(name)[0], "is_ragged": False, **({"order": orders[name]} if name in orders else {})}
        for name in names
    ]
    found = ([record.get(name) for name in names] for record in records)
    return _answer(heads, found, start, start + len(records), total)


def _answer(
    heads: list[dict[str, object]], found: Iterable[list[Any]], start: int, stop: int, total: int | None
) -> dict[str, Any]:
    """Return the answer with as many of the rows as fit into it, one at least."""
    rows: list[list[Any]] = []
    left = _MOST_BYTES
    for row in found:
        shown = [_bounded_cell(cell) for cell in row]
        left -= len(json.dumps(shown))
        if rows and left < 0:
            break
        rows.append(shown)
    end = start + len(rows)
    goes_on = end < stop or total is None or end < total
    return {"columns": heads, "start": start, "rows": rows, "total": total, "next": end if goes_on and rows else None}
