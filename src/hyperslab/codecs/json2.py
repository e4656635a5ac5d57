"""``json2``: cells as JSON, as numcodecs' object codec wrote them. Read only: values are made, nothing is executed."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import numpy as np

from hyperslab.codecs.base import Buffer, Cells, Values
from hyperslab.codecs.config import Config
from hyperslab.errors import CorruptChunk, Unsupported
from hyperslab.model.dtypes import VlenString

LIMIT = 64 << 20


class Json2:
    """A JSON list: the cells (nested as the axes are), the dtype's name, the shape."""

    def __init__(self, config: Config, cells: Cells) -> None:
        self._encoding = str(config.get("encoding", "utf-8"))
        if self._encoding not in ("utf-8", "ascii", "latin-1"):
            raise Unsupported(f"codec 'json2': encoding={self._encoding!r}", remedy="utf-8, ascii or latin-1")
        self._shape = cells.shape
        self._dtype = cells.numpy_dtype
        self._text = isinstance(cells.dtype, VlenString)

    @property
    def size(self) -> int | None:
        """Unknown."""
        return None

    def encode(self, array: Values) -> Buffer:
        """Not offered."""
        raise Unsupported("writing with codec 'json2'", remedy="vlen-utf8, vlen-bytes or vlen-array")

    def decode(self, data: Buffer) -> Values:
        """The cells; CorruptChunk when they do not have the chunk's shape."""
        cells = self._cells(self._parse(data))
        if self._text:
            cells = ["" if cell is None else cell for cell in cells]
            if not all(isinstance(cell, str) for cell in cells):
                raise CorruptChunk("json2: a cell is no text", expected="strings", found="other values")
        if self._dtype.kind == "O":
            return np.fromiter(cells, object, len(cells)).reshape(self._shape)
        try:
            return np.array(cells, self._dtype).reshape(self._shape)
        except (TypeError, ValueError, OverflowError) as error:
            raise CorruptChunk(f"json2: {error}", expected=f"cells of {self._dtype}") from error

    def _parse(self, data: Buffer) -> list[Any]:
        if len(data) > LIMIT:
            raise Unsupported(f"codec 'json2': a chunk of {len(data)} bytes", remedy=f"at most {LIMIT} bytes")
        try:
            found = json.loads(str(data, self._encoding))
        except (ValueError, RecursionError) as error:
            raise CorruptChunk(f"json2: {error}", expected="a JSON list", found=bytes(data[:40])) from error
        if not isinstance(found, list) or len(found) < 2 or found[-1] != list(self._shape):
            what = found[-1] if isinstance(found, list) and found else type(found).__name__
            raise CorruptChunk("json2: wrong shape", expected=list(self._shape), found=what)
        return found[:-2]

    def _cells(self, items: list[Any]) -> list[Any]:
        """The cells of nested lists, in C order."""
        shape = self._shape or (1,)
        for depth in range(len(shape)):
            if len(items) != prod(shape[: depth + 1]):
                raise CorruptChunk("json2: wrong number of cells", expected=list(self._shape), found=len(items))
            if depth + 1 < len(shape):
                if not all(isinstance(item, list) and len(item) == shape[depth + 1] for item in items):
                    raise CorruptChunk("json2: wrong nesting", expected=list(self._shape), found=f"axis {depth + 1}")
                items = [cell for item in items for cell in item]
        return items
