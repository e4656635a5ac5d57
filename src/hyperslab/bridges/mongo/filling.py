"""Documents put where their cells belong as they arrive, in any order, so that none is kept. Pure.

This is for what is as it should be. Where a document is not, or is there twice, or is missing, nothing comes of it, and
the variable is read anew with all its documents side by side.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from hyperslab.errors import HyperslabError
from hyperslab.formats.mongo.document import Variable
from hyperslab.formats.mongo.ids import Chunk
from hyperslab.formats.mongo.segments import Segment, join, raw
from hyperslab.model.coo import Numbers


class Filling:
    """One dense variable of known size; ``chunk_size``: bytes of each of its documents but the last of a chunk."""

    def __init__(self, variable: Variable, chunk_size: int) -> None:
        self._shape: Any = variable.shape
        self._chunks: Any = variable.chunks
        self._ends: Any = [list(accumulate(sizes, initial=0)) for sizes in variable.chunks or ()]
        self._dtype = variable.dtype
        self._size = chunk_size
        self._left = prod(len(sizes) for sizes in variable.chunks or ())
        self._seen: set[Any] = set()
        self._waiting: dict[Chunk, list[Segment]] = {}
        self._cells: Numbers | None = None
        self._is_odd = not chunk_size
        self.units: str | None = None

    @classmethod
    def suits(cls, variable: Variable) -> bool:
        """Whether a variable can be read so."""
        return variable.known and not variable.sparse and variable.embedded is None and variable.dtype.itemsize > 0

    def take(self, segment: Segment) -> None:
        """One document of the variable."""
        self._is_odd = self._is_odd or not self._fits(segment)
        if self._is_odd:
            self._waiting.clear()
            self._cells = None
        elif self._chunks is None:
            self._put(segment)
        else:
            self._gather(segment)

    def _fits(self, segment: Segment) -> bool:
        chunk = segment.key[1]
        key = (chunk, segment.n)
        if segment.sparse or segment.dtype != self._dtype or key in self._seen:
            return False
        self._seen.add(key)
        self.units = segment.units if self._cells is None else self.units
        if self._cells is None:
            self._cells = np.empty(self._shape, self._dtype)
        return segment.shape == self._expected(chunk)

    def _expected(self, chunk: Chunk) -> tuple[int, ...] | None:
        if self._chunks is None or chunk is None:
            return self._shape if self._chunks is chunk else None
        if len(chunk) != len(self._chunks) or any(
            at >= len(sizes) for at, sizes in zip(chunk, self._chunks, strict=True)
        ):
            return None
        return tuple(sizes[at] for at, sizes in zip(chunk, self._chunks, strict=True))

    def _put(self, segment: Segment) -> None:
        """Of a variable that is stored whole: bytes are put where they belong."""
        assert self._cells is not None
        start, total = segment.n * self._size, self._cells.nbytes
        if len(segment.data) != max(0, min(self._size, total - start)) or (start >= total and segment.n):
            self._is_odd = True
            return
        raw(self._cells)[start : start + len(segment.data)] = np.frombuffer(segment.data, np.uint8)

    def _gather(self, segment: Segment) -> None:
        """Of others: a chunk is put where it belongs when all of it is there."""
        chunk = segment.key[1]
        segments = self._waiting.setdefault(chunk, [])
        segments.append(segment)
        if sum(len(each.data) for each in segments) < self._dtype.itemsize * prod(segment.shape):
            return
        try:
            joined = join(segment.key, self._waiting.pop(chunk))
        except HyperslabError:
            self._is_odd = True
            return
        assert self._cells is not None
        where: Any = tuple(slice(end[at], end[at + 1]) for end, at in zip(self._ends, chunk or (), strict=True))
        joined.read_into(self._cells[(*where, ...)])
        self._left -= 1

    def cells(self) -> Numbers | None:
        """All cells, None where nothing came of it."""
        if self._is_odd or self._cells is None:
            return None
        if self._chunks is None:
            expected = max(1, -(-self._cells.nbytes // self._size))
            return self._cells if len(self._seen) == expected else None
        return self._cells if self._left == 0 else None
