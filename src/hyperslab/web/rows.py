"""Rows for a table: of arrays, of the columns of an HDMF ``DynamicTable`` (ragged ones as lists), of a collection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.plain_values import cell_text
from hyperslab.array.session import OpenDataset
from hyperslab.database import Array as DatabaseArray
from hyperslab.errors import FormatError, HyperslabError, Invalid
from hyperslab.group.frame_columns import FrameColumn
from hyperslab.group.table_columns import TableColumn, read_decoded, read_rows_of
from hyperslab.group.tables import open_columns
from hyperslab.model.dtypes import describe
from hyperslab.model.spec import ArraySpec, GroupSpec
from hyperslab.web.axes import find_axis, find_position, labels_of, parse_slice
from hyperslab.web.bounded_values import cut_text, plain, public_text, shown_units
from hyperslab.web.views import ViewQuery
from hyperslab.web.waiting import StillWaiting, while_waiting

# Rows of one answer, its cells, and bytes as JSON, whichever is reached first.
MOST_ROWS, _MOST_CELLS, _MOST_BYTES = 1000, 20_000, 4 << 20
# Columns of a table: a stranger may name any number, and each is an array that is opened.
MOST_COLUMNS = 300
# Columns of a part of an array.
_MOST_PLANE_COLUMNS = 50
# Items of a list that stands in a cell, and letters of a text there. Of lists one item more is read, which tells that
# they go on.
_ITEMS, _LETTERS = 50, 500
_MOST_READ = _ITEMS + 1
# Bytes of cells that are read at once, of all columns.
_READ_BYTES = 32 << 20
# Arrays of a query that are leafed through: the records of those before are read, and thrown away.
MOST_FOUND = 10_000
# What is told of an array of a collection beside its attributes, and where its document has these.
_FACTS, _ATTRIBUTES = ("id", "shape", "problem"), ("primary_attributes", "custom_attributes")
# By what the objects of a database can be sorted.
_ORDERS = {"name": "name", "created": "created"}

Record = tuple[dict[str, Any], dict[str, Any]]
"""Descriptions of an array of a collection and of its attributes."""


def is_collection(session: OpenDataset, path: str) -> bool:
    """Return True for a group of arrays that stand for themselves, of which there may be millions."""
    return session.format.traits.has_collections and bool(path) and bool(session.reader.members(path))


def count_rows(session: OpenDataset, path: str, spec: GroupSpec | ArraySpec) -> int | None:
    """Return how many rows a table of this node has; None for what is no table, and for a collection."""
    if isinstance(spec, ArraySpec):
        return spec.shape[0] if spec.shape else 1
    try:
        table = open_columns(session, path, MOST_COLUMNS)
    except FormatError:  # its rows tell of it; what is right of the group can be seen
        return 0
    return None if table is None else _length_of(table[0])


def _length_of(columns: Mapping[str, TableColumn | HyperslabError]) -> int:
    """Return how many rows columns have together."""
    return max((column.length for column in columns.values() if isinstance(column, TableColumn)), default=0)


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


def _bounded_cell(cell: Any) -> Any:
    """Return a cell of a table as JSON has it, with ``cut`` where that is the beginning of it."""
    value, cut = plain(cell, _ITEMS, _LETTERS)
    return {"value": value, "cut": True} if cut else value


# -- answers -----------------------------------------------------------------------------------------------------------


def read_rows(
    session: OpenDataset, path: str, spec: GroupSpec | ArraySpec, start: int, count: int, is_waiting: StillWaiting
) -> dict[str, Any]:
    """Return rows of a node from ``start`` on, at most ``count``: fewer where the answer would be too long, with
    ``next`` where they go on. A cell of which the beginning is shown is ``{"value": …, "cut": true}``.

    Invalid for what has no rows. Damage in one column leaves the others readable. ``more_columns``: how many there are
    beyond those that are told. Conflict once nobody waits for rows that lie far behind the first.
    """
    _require_count(count)
    with session.add_place_to_errors(path):
        if isinstance(spec, ArraySpec):
            return _rows_of_array(Array(session, path, spec), start, count)
        table = open_columns(session, path, MOST_COLUMNS)
        if table is not None:
            return _rows_of_table(*table, start, count)
        if is_collection(session, path):
            return _records(session, path, start, count, is_waiting)
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
    stop = min(stop, start + max(_READ_BYTES // max(prod(shown) * array.dtype.itemsize, 1), 1))
    value = {"name": array.name or "value", "dtype": describe(array.data_type), "units": shown_units(array)[0]}
    heads: list[dict[str, object]] = [{**value, "is_ragged": False, **_shape_facts(array, is_ragged=False)}]
    if fields and array.ndim <= 1:
        kinds = [describe(array.dtype[name]) for name in fields[:MOST_COLUMNS]]
        heads = [{"name": name, "dtype": kind, "is_ragged": False} for name, kind in zip(fields, kinds, strict=False)]
    cells: Any = read_rows_of(array, start, stop, shown) if array.ndim and start < stop else []
    if not array.ndim and start < stop:
        cells = read_decoded(array, ())[np.newaxis]
    if fields and array.ndim <= 1:
        names = fields[:MOST_COLUMNS]
        found = ([cell[name] for name in names] for cell in cells)
    else:
        found = ([cell] for cell in cells)
    labels = labels_of(array, 0, range(start, max(stop, start))) if array.ndim else None
    answer = _answer(heads, found, start, stop, total, len(fields) if fields and array.ndim <= 1 else 1)
    answer["labels"] = None if labels is None or labels.labels is None else labels.labels[: len(answer["rows"])]
    return answer


def read_plane(array: Array, query: ViewQuery, start: int, count: int) -> dict[str, Any]:
    """Return the cells of a view as a table, none reduced: along its vertical dimension as rows from ``start`` on, at
    most ``count``, along the horizontal one as columns, the first of its range; of a line as one column.

    ``plane``: the dimensions of both, and which columns of how many these are. Invalid, SelectionError.
    """
    _require_count(count)
    with array._session.add_place_to_errors(array.path):
        if query.x is None or query.x == query.y:
            raise Invalid("a table of no dimension, or of one twice", remedy="name one or two dimensions: x=, y=")
        row_dim, column_dim = (query.x, None) if query.y is None else (query.y, query.x)
        rows, columns = find_axis(array, row_dim), None if column_dim is None else find_axis(array, column_dim)
        key = [slice(0, 1)] * array.ndim
        for dim, place in query.at.items():
            key[find_position(array, dim, place)] = slice(place, place + 1)
        total = array.shape[rows]
        first, last, shown = 0, 1, range(0)
        if columns is not None:
            first, last = parse_slice(query.x_range, array.shape[columns])
            shown = range(first, min(last, first + _MOST_PLANE_COLUMNS))
            key[columns] = slice(shown.start, shown.stop)
        most = _READ_BYTES // max(len(shown) * array.dtype.itemsize, 1)
        stop = min(start + min(count, max(most, 1), _MOST_CELLS // max(len(shown), 1)), total)
        key[rows] = slice(start, max(start, stop))
        facts = {"dtype": describe(array.data_type), "is_ragged": False}
        names = [array.name or "value"] if columns is None else _column_labels(array, columns, shown)
        heads = [{"name": cut_text(name)[0], **facts} for name in names]
        cells: Any = read_decoded(array, tuple(key)) if start < stop else []
        if start < stop:
            cells = cells[query.field] if query.field in (cells.dtype.names or ()) else cells
            order = [rows, *([] if columns is None else [columns])]
            others = [axis for axis in range(array.ndim) if axis not in order]
            cells = cells.transpose([*order, *others]).reshape(stop - start, -1)
        labels = labels_of(array, rows, range(start, max(stop, start)))
    answer = _answer(heads, (list(row) for row in cells), start, stop, total, len(heads))
    answer["labels"] = None if labels.labels is None else labels.labels[: len(answer["rows"])]
    size = 1 if columns is None else array.shape[columns]
    answer["plane"] = {"row": row_dim, "column": column_dim, "start": first, "stop": first + len(heads), "size": size}
    return answer


def _column_labels(array: Array, axis: int, positions: range) -> list[str]:
    """Return what stands above the columns that positions of a dimension are."""
    labels = labels_of(array, axis, positions).labels
    return [_short_label(label) for label in labels or positions]


def _short_label(label: object) -> str:
    """Return a label as text, a whole number without a point."""
    is_whole = isinstance(label, float) and label.is_integer() and abs(label) < 1e15
    return f"{label:.0f}" if is_whole else cell_text(label)


def _rows_of_table(
    columns: Mapping[str, TableColumn | HyperslabError], width: int, start: int, count: int
) -> dict[str, Any]:
    """Return the rows of the columns that are shown, of ``width``; what cannot be read of a column is null, with the
    ``problem``."""
    total = _length_of(columns)
    nbytes = sum(_row_nbytes(column) for column in columns.values() if isinstance(column, TableColumn))
    most = min(count, max(_MOST_CELLS // max(len(columns), 1), 1), max(_READ_BYTES // max(nbytes, 1), 1))
    stop = min(start + most, total)
    heads: list[dict[str, object]] = []
    found: list[list[Any]] = []
    for name, column in columns.items():
        cells: list[Any] = []
        if isinstance(column, HyperslabError):
            heads.append({"name": cut_text(name)[0], "is_ragged": False, **_problem_of(column)})
        else:
            heads.append(_column_facts(name, column))
            try:
                cells = list(column.read(start, stop, _MOST_READ, _shown_shape(column)))
            except HyperslabError as error:
                heads[-1] |= _problem_of(error)
        found.append(cells + [None] * (stop - start - len(cells)))
    return _answer(heads, (list(row) for row in zip(*found, strict=True)), start, stop, total, width)


def _problem_of(error: HyperslabError) -> dict[str, object]:
    """Return what is told of a column that cannot be read."""
    return {"problem": public_text(error.said, _LETTERS)}


def _shown_shape(column: TableColumn) -> tuple[int, ...]:
    """Return how many items of each further dimension are read of a row of a column, or of an item of it."""
    return shown_shape(column.arrays[0], is_ragged=column.is_ragged) if column.arrays else ()


def _row_nbytes(column: TableColumn) -> int:
    """Return the bytes that are read of a row of a column, at the most."""
    if not column.arrays:
        return 1
    data, *further = column.arrays
    lists = _MOST_READ ** len(further) if column.is_ragged else 1
    return max(int(prod(_shown_shape(column)) * lists * data.dtype.itemsize), 1)


def _column_facts(name: str, column: TableColumn) -> dict[str, object]:
    """Return what is told of a column, beside its cells."""
    is_ragged = column.is_ragged
    if not column.arrays:
        return {"name": cut_text(name)[0], "dtype": column.type_name, "is_ragged": is_ragged}
    data = column.arrays[0]
    description = data.attrs.get("description")
    return {
        "name": cut_text(name)[0],
        "path": f"/{data.path}",
        "dtype": cut_text(column.type_name)[0],
        "units": None if isinstance(column, FrameColumn) else shown_units(data)[0],
        "is_ragged": is_ragged,
        **_shape_facts(data, is_ragged=is_ragged),
        **({"description": cut_text(description)[0]} if isinstance(description, str) else {}),
    }


def _records(session: OpenDataset, path: str, start: int, count: int, is_waiting: StillWaiting) -> dict[str, Any]:
    """Return the arrays of a collection, with their attributes; their number is not known before the last one."""
    some = list(islice(read_records(session, path, start, is_waiting), count + 1))
    total = None if len(some) > count else start + len(some)
    return _answer_of_arrays(some[:count], start, total)


def read_records(session: OpenDataset, path: str, start: int, is_waiting: StillWaiting) -> Iterator[Record]:
    """Yield what is told of the arrays of a collection from ``start`` on, with their attributes; Conflict once nobody
    waits for them."""
    for id in islice(while_waiting(session.reader.children(path), is_waiting), start, None):
        try:
            spec = session.array(f"{path}/{id}")
        except HyperslabError as error:
            yield {"id": id, "problem": public_text(error.said, _LETTERS)}, {}
            continue
        found = [spec.attrs.get(kind) for kind in _ATTRIBUTES]
        attributes = {name: value for each in found if isinstance(each, dict) for name, value in each.items()}
        yield {"id": id, "shape": list(spec.shape)}, attributes


def records_of(arrays: Iterable[DatabaseArray]) -> Iterator[Record]:
    """Yield what is told of arrays that a query of a collection found, with their attributes as they are stored."""
    for each in arrays:
        attributes = {**each.primary_attributes, **each.custom_attributes}
        times = {name: value.isoformat() for name, value in attributes.items() if isinstance(value, datetime)}
        yield {"id": each.id, "shape": list(each.shape)}, attributes | times


def read_found(found: Sequence[DatabaseArray], start: int, count: int) -> dict[str, Any]:
    """Return arrays that a query of a collection found, with their attributes, from ``start`` on, at most ``count``.
    Invalid for another number of rows at once, and far behind the first."""
    _require_count(count)
    if start > MOST_FOUND:
        raise Invalid(f"rows beyond the first {MOST_FOUND:,} that were found", remedy="give further conditions")
    some = list(islice(found[start : start + count + 1], count + 1))
    total = None if len(some) > count else start + len(some)
    return _answer_of_arrays(list(records_of(some[:count])), start, total)


def read_objects(objects: Sequence[Mapping[str, object]], start: int, count: int) -> dict[str, Any]:
    """Return the objects of a database as rows from ``start`` on, at most ``count`` of them; one more tells that they
    go on. Invalid for another number of rows at once."""
    _require_count(count)
    total = None if len(objects) > count else start + len(objects)
    return _answer_of_records([dict(each) for each in objects[:count]], _ORDERS, start, total)


def _answer_of_arrays(arrays: Sequence[Record], start: int, total: int | None) -> dict[str, Any]:
    """Return the answer for arrays of a collection."""
    records, columns = join_attributes(arrays)
    return _answer_of_records(records, {column: name for name, column in columns.items()}, start, total)


def join_attributes(arrays: Sequence[Record]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return of each array of a collection all that is told of it, and the column of each attribute: one that is
    called as what is told has another head."""
    names = dict.fromkeys(name for _, attributes in arrays for name in attributes)
    columns = {name: f"{name} (attribute)" if name in _FACTS else name for name in names}
    records = [facts | {columns[name]: value for name, value in attributes.items()} for facts, attributes in arrays]
    return records, columns


def _answer_of_records(
    records: list[dict[str, Any]], orders: Mapping[str, str], start: int, total: int | None
) -> dict[str, Any]:
    """Return the answer for records, with a column for each name that one of them has; ``orders``: by what the rows are
    sorted for a column."""
    all_names = dict.fromkeys(name for record in records for name in record)
    names = list(islice(all_names, MOST_COLUMNS))
    heads: list[dict[str, object]] = [
        {"name": cut_text(name)[0], "is_ragged": False, **({"order": orders[name]} if name in orders else {})}
        for name in names
    ]
    found = ([record.get(name) for name in names] for record in records)
    return _answer(heads, found, start, start + len(records), total, len(all_names))


def _answer(
    heads: list[dict[str, object]], found: Iterable[list[Any]], start: int, stop: int, total: int | None, columns: int
) -> dict[str, Any]:
    """Return the answer with as many of the rows as fit into it, one at least. ``columns``: how many there are, of
    which those beyond ``MOST_COLUMNS`` have no head."""
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
    return {
        "columns": heads,
        "more_columns": max(columns - MOST_COLUMNS, 0),
        "start": start,
        "rows": rows,
        "total": total,
        "next": end if goes_on and rows else None,
    }
