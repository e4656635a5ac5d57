"""``reference_pickle``: references, text and rows of them as the pickles of hdmf-zarr up to 0.13, without pickling.

Nothing in the data is run (:mod:`~hyperslab.codecs.pickled`), nothing but the operations of old peers is written.
"""

from __future__ import annotations

import json
from math import prod
from typing import Any

from hyperslab.codecs import config as read
from hyperslab.codecs.base import Buffer, ChunkLayout, Values
from hyperslab.codecs.config import Config, only
from hyperslab.codecs.pickle_writing import pickled
from hyperslab.codecs.pickled import read_pickled
from hyperslab.codecs.plain_cells import PlainCells
from hyperslab.codecs.reference_json import spelled
from hyperslab.errors import CorruptChunk


class ReferencePickle:
    """A chunk is one pickled NumPy array of objects, or of rows. ``protocol``: of the pickles that are written."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("reference_pickle", config, "protocol")
        self._protocol = 4 if 0 <= read.integer("reference_pickle", config, "protocol", 5, -1, 5) < 5 else 5
        self._plain = PlainCells("reference_pickle", cells.dtype, objects=False)
        if not self._plain.stored.hasobject:
            raise read.unfit("reference_pickle", "objects and rows of them", cells.dtype)
        self._shape = cells.shape
        self._stored = cells.shape or (1,)

    @property
    def size(self) -> int | None:
        """Unknown."""
        return None

    def encode(self, array: Values) -> Buffer:
        """The pickle; Invalid for a cell that is not of its type."""
        return pickled(self._plain.columns(array), self._plain.stored, self._stored, self._protocol)

    def decode(self, data: Buffer) -> Values:
        """The cells; UnsafePickle for anything but an array of references and plain values, CorruptChunk for an array
        of another shape or with other fields."""
        fields = self._plain.names
        found = read_pickled(bytes(data), prod(self._stored) * len(fields or "1"))
        if found.shape not in (self._shape, self._stored):
            raise CorruptChunk("reference_pickle: wrong shape", expected=self._stored, found=str(found.shape)[:80])
        columns = found.columns
        if found.fields is None and fields is not None:  # rows as tuples in an array of objects
            columns = _columns_of_rows(columns[0], len(fields))
        elif found.fields != fields:
            raise CorruptChunk("reference_pickle: other fields", expected=fields, found=str(found.fields)[:80])
        return self._plain.cells([self._as_text(column) for column in columns], self._shape)

    @staticmethod
    def _as_text(column: list[Any]) -> list[Any]:
        """Return a structure within a row as JSON, since it has no type of its own here."""
        if tuple not in set(map(type, column)):
            return column
        return [_json_of(value) if type(value) is tuple else value for value in column]


def _columns_of_rows(rows: list[Any], count: int) -> tuple[list[Any], ...]:
    """Return the fields of rows; a row that was never written is 0."""
    empty = (0,) * count
    rows = [row if type(row) is tuple else empty if row in (0, None) else (row,) for row in rows]
    if any(len(row) != count for row in rows):
        raise CorruptChunk("reference_pickle: a row has other fields", expected=f"{count} fields", found="others")
    return tuple(map(list, zip(*rows, strict=True))) if rows else tuple([] for _ in range(count))


def _json_of(value: tuple[Any, ...]) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain_of)


def _plain_of(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else spelled(value)
