"""Tables as CSV files of a bounded size: those of HDMF, the arrays of a collection, the objects of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, TypeVar

from hyperslab.conversion.csv_text import render_csv
from hyperslab.errors import Invalid, MemoryLimit
from hyperslab.group import Group
from hyperslab.group.tables import find_columns
from hyperslab.web.exports import LARGE, MOST_BYTES, MOST_CSV_LETTERS, ExportedFile, check_goes_on
from hyperslab.web.rows import Record, join_attributes

# Arrays or objects of a file: each is a document that is read for it.
MOST_RECORDS = 100_000
# Rows between two looks whether somebody still waits.
_LOOK_EVERY = 1000
Waits = Callable[[], bool]
T = TypeVar("T")


def export_columns(table: Group, name: str, goes_on: Waits) -> ExportedFile:
    """Return all rows of a ``DynamicTable``, ragged columns as lists, references as paths.

    Invalid for a group that is none; MemoryLimit for more cells than a file holds, Conflict once nobody waits for it;
    for damage in a column the error that reading it gives."""
    columns = find_columns(table.spec.attrs, table)
    if columns is None:
        raise Invalid("a group without rows", node=table.path, remedy="name an array, a table or a collection")
    arrays = [array for column in columns for array in (column.data, *column.indexes)]
    nbytes = sum(array.nbytes for array in arrays)
    if nbytes > MOST_BYTES:
        raise MemoryLimit(f"the columns have {nbytes:,} bytes, a file holds {MOST_BYTES:,}", remedy=LARGE)
    cells = []
    for column in columns:
        check_goes_on(goes_on)
        cells.append(column.read(0, column.length))
    return _as_file(name, [column.name for column in columns], zip_longest(*cells), goes_on)


def export_arrays(arrays: Iterable[Record], name: str, goes_on: Waits) -> ExportedFile:
    """Return arrays of a collection with their attributes; errors as for :func:`export_columns`."""
    records, _ = join_attributes(_take(arrays, goes_on))
    return export_records(records, name, goes_on)


def export_records(records: Iterable[Mapping[str, Any]], name: str, goes_on: Waits) -> ExportedFile:
    """Return records, with a column for each name that one of them has; errors as for :func:`export_columns`."""
    known = _take(records, goes_on)
    heads = list(dict.fromkeys(name for record in known for name in record))
    return _as_file(name, heads, ([record.get(head) for head in heads] for record in known), goes_on)


def _take(items: Iterable[T], goes_on: Waits) -> list[T]:
    """Return all items; MemoryLimit where they are too many for a file."""
    found = list(islice(_while_awaited(items, goes_on), MOST_RECORDS + 1))
    if len(found) > MOST_RECORDS:
        raise MemoryLimit(f"more than {MOST_RECORDS:,} rows", remedy="give conditions, or take hyperslab db query")
    return found


def _as_file(name: str, heads: Sequence[str], rows: Iterable[Sequence[object]], goes_on: Waits) -> ExportedFile:
    text = render_csv(heads, _while_awaited(rows, goes_on), MOST_CSV_LETTERS)
    return ExportedFile(text.encode("utf-8", "backslashreplace"), "text/csv; charset=utf-8", f"{name or 'table'}.csv")


def _while_awaited(items: Iterable[T], goes_on: Waits) -> Iterator[T]:
    """Yield items; Conflict once nobody waits for them."""
    for number, item in enumerate(items):
        if number % _LOOK_EVERY == 0:
            check_goes_on(goes_on)
        yield item
