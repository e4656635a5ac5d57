"""A part of an array, or rows, as a file: CSV, ``.npy`` or netCDF, of a bounded size, which a browser saves."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hyperslab.array import Array
from hyperslab.conversion.csv_text import CsvBlock, csv_cell, render_csv
from hyperslab.conversion.labelled_part import LabelledPart, as_csv, as_npy, open_part, save_dataset
from hyperslab.errors import Invalid, MemoryLimit, StorageError, Unsupported
from hyperslab.group import Group
from hyperslab.group.tables import find_columns
from hyperslab.model.dims import axis_names
from hyperslab.web.axes import ViewAxis, find_axis, find_position, parse_slice
from hyperslab.web.bounded_values import cut_text
from hyperslab.web.rows import Record, join_attributes
from hyperslab.web.waiting import StillWaiting, raise_if_gone, while_waiting

# Bytes of cells that a file holds, and chunks and their decoded bytes that are read for it: some seconds of one
# processor.
MOST_BYTES, MOST_CHUNKS, MOST_CHUNK_BYTES = 64 << 20, 16_384, 1 << 30
# Cells of a CSV file, which are some 40 letters each, with their labels; and letters: a label may be of any length.
MOST_CSV_CELLS, MOST_CSV_LETTERS = 1_000_000, 128 << 20
_KINDS = {
    "csv": (".csv", "text/csv; charset=utf-8"),
    "npy": (".npy", "application/octet-stream"),
    "netcdf": (".nc", "application/x-netcdf"),
}
LARGE = "choose a smaller part, or take hyperslab convert"


@dataclass(frozen=True, slots=True)
class ExportQuery:
    """A part of an array as a file: its ``format``, a position or a range (``a:b``) of dimensions by name, and
    whether cells are decoded."""

    format: str
    at: Mapping[str, int]
    ranges: Mapping[str, str]
    decoded: bool = True


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file with the headers that tell a browser what it is."""

    data: bytes
    media_type: str
    name: str

    @property
    def headers(self) -> dict[str, str]:
        """The headers beside its type."""
        quoted = quote(self.name.encode("utf-8", "replace"), safe="")
        return {"cache-control": "no-cache", "content-disposition": f"attachment; filename*=UTF-8''{quoted}"}


def export_part(array: Array, query: ExportQuery, is_waiting: StillWaiting) -> ExportedFile:
    """Return a part of an array as a file. Invalid, SelectionError; MemoryLimit for what is too large, Conflict once
    nobody waits for it."""
    if query.format not in _KINDS:
        known = ", ".join(_KINDS)
        raise Invalid(f"there is no file format {cut_text(query.format, 40)[0]!r}", remedy=f"take one of {known}")
    ending, media_type = _KINDS[query.format]
    with array._session.add_place_to_errors(array.path):
        key = _key_of(array, query)
        check_size(array, key, query.decoded, MOST_CSV_CELLS if query.format == "csv" else None)
        raise_if_gone(is_waiting)
        part = open_part(Group(array._session, ""), array, key, decoded=query.decoded)
        raise_if_gone(is_waiting)
        data = _render(part, query.format)
    return ExportedFile(data, media_type, f"{array.name or 'array'}{ending}")


def _key_of(array: Array, query: ExportQuery) -> tuple[int | slice, ...]:
    """Return the key of the array that the query means, a position or range for each dimension."""
    key: list[int | slice] = [slice(0, size) for size in array.shape]
    axes = [find_axis(array, name) for name in (*query.at, *query.ranges)]
    if len(set(axes)) < len(axes):
        raise Invalid("a dimension is chosen twice", remedy="choose each once")
    names = axis_names(array.dims)
    for name, text in query.ranges.items():
        axis = names.index(name)
        key[axis] = slice(*parse_slice(text, array.shape[axis]))
    for name, place in query.at.items():
        key[find_position(array, name, place)] = place
    return tuple(key)


def check_size(array: Array, key: Sequence[int | slice], decoded: bool, most_cells: int | None = None) -> int:
    """Return the bytes of a part of an array, the more of as stored and ``decoded``; MemoryLimit for a part that is
    more than a file holds, or takes too long to read."""
    spans = [range(item, item + 1) if isinstance(item, int) else range(item.start, item.stop) for item in key]
    cells = prod(map(len, spans))
    nbytes = cells * array.dtype.itemsize
    if nbytes > MOST_BYTES:
        raise MemoryLimit(f"{cells:,} cells are more than the {MOST_BYTES:,} bytes of a file", remedy=LARGE)
    if most_cells is not None and cells > most_cells:
        raise MemoryLimit(f"{cells:,} cells are more than the {most_cells:,} of a CSV file", remedy=LARGE)
    if not cells:
        return 0
    axes = [ViewAxis(axis, span.start, span.stop, 1) for axis, span in enumerate(spans)]
    chunks = prod(axis.chunks(cut) for axis, cut in zip(axes, array.grid.axes, strict=True))
    if chunks > 1 and (
        chunks > MOST_CHUNKS or chunks * array.grid.chunk_cells * array.dtype.itemsize > MOST_CHUNK_BYTES
    ):
        raise MemoryLimit(f"the part lies in {chunks:,} chunks", remedy=LARGE)
    if decoded:  # a byte may become a float; letters are joined to fewer texts
        view = array.decoded()
        nbytes = max(nbytes, prod(map(len, spans[: view.ndim])) * view.dtype.itemsize)
        if nbytes > MOST_BYTES:
            said = f"{cells:,} cells, decoded, are more than the {MOST_BYTES:,} bytes of a file"
            raise MemoryLimit(said, remedy=LARGE)
    return nbytes


def _render(part: LabelledPart, format: str) -> bytes:
    """Return the bytes of the file."""
    if format == "csv":
        return as_csv([part], MOST_CSV_LETTERS)
    if format == "npy":
        return as_npy(part)
    try:
        with tempfile.TemporaryDirectory(prefix="hyperslab-") as folder:
            path = Path(folder, "part.nc")
            save_dataset([part], str(path), alone=True)  # within the budget of the part
            return path.read_bytes()
    except Unsupported as error:  # a request for what cannot be, and no failure of the server
        raise Invalid(error.message, remedy="take CSV or npy") from error
    except OSError as error:
        remedy = "make room in the folder for temporary files of the server"
        raise StorageError(f"no room for a file to be made: {error.strerror}", remedy=remedy) from error


# -- tables: of HDMF, the arrays of a collection, the objects of a database --------------------------------------------

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
    block = CsvBlock(heads, while_waiting(rows, is_waiting))
    data = render_csv([block], lambda: block, MOST_CSV_LETTERS)
    return ExportedFile(data, "text/csv; charset=utf-8", f"{name or 'table'}.csv")
