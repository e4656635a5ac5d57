"""Rows as CSV: lists and structures in a cell as JSON, references as the path that they lead to."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

import numpy as np

from hyperslab.array.plain_values import cell_text, to_json_value
from hyperslab.errors import MemoryLimit
from hyperslab.model.refs import ObjectReference, RegionReference

# Escapes for what UTF-8 has not: a name in JSON may have half of a surrogate pair.
_ERRORS = "backslashreplace"
# Cells that are no list and no structure: the most by far, so none is first made into what JSON has.
_SCALARS = (np.integer, np.floating, np.bool_, np.datetime64, np.timedelta64, str, int, float)


@dataclass(frozen=True, eq=False)
class CsvBlock:
    """Some rows of a table below its ``heads``, and the types (:func:`cell_type`) of the cells of each column."""

    heads: Sequence[str]
    rows: Iterable[Sequence[object]]
    types: Sequence[frozenset[str]] = ()


def write_csv(text: TextIO, blocks: Iterable[CsvBlock], whole: Callable[[], CsvBlock], most: int | None = None) -> None:
    """Write blocks of rows as CSV, one after the other, below one header line; MemoryLimit beyond ``most`` letters.

    ``whole`` returns all rows as one block. It is written instead where blocks differ in their columns, or in the type
    of one: what is decoded depends on all cells that are decoded together, such as the resolution of durations.
    """
    first: CsvBlock | None = None
    types: list[frozenset[str]] = []
    for block in blocks:
        if first is None:
            first, types = block, list(block.types)
            _write_rows(text, [block.heads], most)
        types = [known | more for known, more in zip(types, block.types, strict=False)]
        if list(block.heads) != list(first.heads) or any(len(known) > 1 for known in types):
            text.seek(0)
            text.truncate()
            block = whole()
            _write_rows(text, [block.heads], most)
            _write_rows(text, block.rows, most)
            return
        _write_rows(text, block.rows, most)


def _write_rows(text: TextIO, rows: Iterable[Sequence[object]], most: int | None) -> None:
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([csv_cell(cell) for cell in row])
        if most is not None and text.tell() > most:
            raise MemoryLimit(f"the text has more than {most:,} letters", remedy="choose a smaller part")


def render_csv(blocks: Iterable[CsvBlock], whole: Callable[[], CsvBlock], most: int | None = None) -> bytes:
    """Return what :func:`write_csv` writes, in UTF-8 as :func:`open_csv` has it."""
    text = io.StringIO()
    write_csv(text, blocks, whole, most)
    return text.getvalue().encode("utf-8", _ERRORS)


def open_csv(path: str) -> TextIO:
    """Open a new file for CSV."""
    return open(path, "w", encoding="utf-8", errors=_ERRORS, newline="")


def cell_type(cells: object) -> frozenset[str]:
    """Return the types of NumPy of an array, or of the arrays within a list; texts of any length are of one type."""
    match cells:
        case np.ndarray():
            return frozenset({cells.dtype.kind if cells.dtype.kind in "SU" else str(cells.dtype)})
        case list() | tuple():
            return frozenset().union(*map(cell_type, cells))
    return frozenset()


def csv_cell(cell: object) -> str:
    """Return a cell of a table as text."""
    if isinstance(cell, _SCALARS):
        return cell_text(cell)
    plain = _plain_cell(cell)
    return json.dumps(plain, ensure_ascii=False) if isinstance(plain, list | dict) else cell_text(cell)


def _plain_cell(cell: object) -> object:
    """Return what JSON has for a cell, or for an item of a list in it."""
    match cell:
        case ObjectReference() | RegionReference():
            return str(cell)
        case np.datetime64() | np.timedelta64():
            return cell_text(cell)
        case np.void() if cell.dtype.names:
            return {name: _plain_cell(cell[name]) for name in cell.dtype.names}
        case np.ndarray():
            return [_plain_cell(item) for item in cell] if cell.ndim else _plain_cell(cell[()])
        case list() | tuple():
            return [_plain_cell(item) for item in cell]
        case dict():
            return {str(name): _plain_cell(item) for name, item in cell.items()}
        case complex() | np.complexfloating():
            return str(cell)
    return to_json_value(cell)
