"""Tables as CSV files of a bounded size: those of HDMF, the arrays of a collection, the objects of a database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from hyperslab.conversion.csv_text import csv_cell, render_csv
from hyperslab.errors import Invalid, MemoryLimit
from hyperslab.group import Group
from hyperslab.group.tables import find_columns
from hyperslab.web.exports import LARGE, MOST_BYTES, MOST_CSV_LETTERS, ExportedFile, check_size
from hyperslab.web.rows import Record, join_attributes
from hyperslab.web.waiting import StillWaiting, raise_if_gone, while_waiting

# Arrays or objects of a file: each is a document that is read for it.
MOST_RECORDS = 100_000


def export_columns(table: Group, name: str, is_waiting: StillWaiting) -> ExportedFile:
    """Return all rows of a table, ragged columns as lists, references as paths.

    Invalid for a group that is none; MemoryLimit for more cells than a file holds, Conflict once nobody waits for it;
    for damage in a column the error that reading it gives."""
    columns = find_columns(table._session, table.path)
    if columns is None:
        raise Invalid("a group without rows", node=table.path, remedy="name an array, a table or a collection")
    nbytes = 0
    for array in (array for column in columns.values() for array in column.arrays):
        nbytes += check_size(array, [slice(0, size) for size in array.shape], decoded=True)
        if nbytes > MOST_BYTES:
            raise MemoryLimit(f"the columns have more than the {MOST_BYTES:,} bytes of a file", remedy=LARGE)
    cells = []
    for column in columns.values():
        raise_if_gone(is_waiting)
        cells.append(column.read(0, column.length))
    return _as_file(name, list(columns), zip_longest(*cells), is_waiting)


def export_arrays(arrays: Iterable[Record], name: str, is_waiting: StillWaiting) -> ExportedFile:
    """Return arrays of a collection with their attributes; errors as for :func:`export_columns`."""
    records, _ = join_attributes([(facts, attributes) for facts, attributes in _take(arrays, is_waiting)])
    return _as_table(name, records, is_waiting)


def export_records(records: Iterable[Mapping[str, Any]], name: str, is_waiting: StillWaiting) -> ExportedFile:
    """Return records, with a column for each name that one of them has; errors as for :func:`export_columns`."""
    return _as_table(name, [record for (record,) in _take(((each,) for each in records), is_waiting)], is_waiting)


def _take(items: Iterable[Sequence[Mapping[str, Any]]], is_waiting: StillWaiting) -> list[tuple[dict[str, str], ...]]:
    """Return what is told of each of some things as the texts of its cells; MemoryLimit for more rows or letters than a
    file has, before more of them are in memory."""
    found: list[tuple[dict[str, str], ...]] = []
    letters = 0
    for item in while_waiting(items, is_waiting):
        texts = tuple({name: csv_cell(cell) for name, cell in facts.items()} for facts in item)
        letters += sum(len(name) + len(text) for facts in texts for name, text in facts.items())
        if len(found) == MOST_RECORDS or letters > MOST_CSV_LETTERS:
            message = f"more than {MOST_RECORDS:,} rows, or {MOST_CSV_LETTERS:,} letters"
            raise MemoryLimit(message, remedy="give conditions, or take hyperslab db query")
        found.append(texts)
    return found


def _as_table(name: str, records: Sequence[Mapping[str, str]], is_waiting: StillWaiting) -> ExportedFile:
    """Return a file of records that are texts already."""
    heads = list(dict.fromkeys(head for record in records for head in record))
    return _as_file(name, heads, ([record.get(head) for head in heads] for record in records), is_waiting)


def _as_file(
    name: str, heads: Sequence[str], rows: Iterable[Sequence[object]], is_waiting: StillWaiting
) -> ExportedFile:
    data = render_csv(heads, while_waiting(rows, is_waiting), MOST_CSV_LETTERS)
    return ExportedFile(data, "text/csv; charset=utf-8", f"{name or 'table'}.csv")
