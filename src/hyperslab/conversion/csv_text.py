"""Rows as CSV: lists and structures in a cell as JSON, references as the path that they lead to."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence

import numpy as np

from hyperslab.array.plain_values import cell_text, to_json_value
from hyperslab.errors import MemoryLimit
from hyperslab.model.refs import ObjectReference, RegionReference


def render_csv(heads: Sequence[str], rows: Iterable[Sequence[object]], most: int | None = None) -> bytes:
    """Return rows as CSV behind a header line, in UTF-8, with escapes for what that has not; MemoryLimit beyond
    ``most`` letters."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    for row in rows:
        writer.writerow([csv_cell(cell) for cell in row])
        if most is not None and text.tell() > most:
            raise MemoryLimit(f"the text has more than {most:,} letters", remedy="choose a smaller part")
    return text.getvalue().encode("utf-8", "backslashreplace")  # a name in JSON may have half of a surrogate pair


def csv_cell(cell: object) -> str:
    """Return a cell of a table as text."""
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
