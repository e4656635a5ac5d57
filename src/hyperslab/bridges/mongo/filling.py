"""One array put together while its documents come in: each is copied to its place, and none is held.

What is not as the object says (other types or lengths, doubles, gaps) is left to :mod:`~.assembling`, which weighs all
documents of a variable against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from hyperslab.formats.mongo.document import Variable
from hyperslab.formats.mongo.ids import Chunk
from hyperslab.formats.mongo.segments import Segment, raw
from hyperslab.model.coo import Numbers


@dataclass(slots=True)
class _Begun:
    """A chunk of which documents are still to come: its cells where they belong, or beside where they lie apart."""

    target: Numbers
    block: Numbers
    left: int
    seen: set[int] = field(default_factory=set)


class Filling:
    """A dense variable of known sizes, in documents of ``size`` bytes; ``cells`` are all there when ``is_whole``."""

    def __init__(self, variable: Variable, size: int) -> None:
        said = variable.chunks if variable.chunks is not None else tuple((size,) for size in variable.shape)
        self._ends = [list(accumulate((size or 0 for size in sizes), initial=0)) for sizes in said]
        self._dtype = variable.dtype
        self._size = size
        self._count = prod(map(len, said)) if variable.chunks is not None else 1
        self._has = variable.has
        self._done: set[Chunk] = set()
        self._begun: dict[Chunk, _Begun] = {}
        self._scratch: list[Numbers] = []
        self._is_odd = False
        self.units: str | None = None

    @cached_property
    def cells(self) -> Numbers:
        """The array, of which there is nothing before its first document comes."""
        return np.empty(tuple(end[-1] for end in self._ends), self._dtype)

    @classmethod
    def suits(cls, variable: Variable) -> bool:
        """Return whether nothing is known against it."""
        return variable.known and not variable.sparse and variable.embedded is None and variable.dtype.itemsize > 0

    @property
    def is_whole(self) -> bool:
        """Return whether every document came once, and was as it was expected."""
        return not self._is_odd and len(self._done) == self._count

    def take(self, segment: Segment) -> None:
        """One more document."""
        if self._is_odd:
            return
        try:
            self._is_odd = not self._fits(segment)
        except (MemoryError, ValueError):  # no such array can be
            self._is_odd = True

    def _fits(self, segment: Segment) -> bool:
        chunk, start, length = segment.key[1], segment.n * self._size, len(segment.data)
        if chunk in self._done or not self._has(chunk) or segment.sparse or segment.dtype != self._dtype:
            return False
        begun = self._begun.get(chunk) or self._begin(chunk)
        end = start + length
        is_cut_so = length == self._size or end == begun.target.nbytes
        if segment.shape != begun.target.shape or not is_cut_so or end > begun.target.nbytes or segment.n in begun.seen:
            return False
        raw(begun.block)[start:end] = np.frombuffer(segment.data, np.uint8)
        begun.seen.add(segment.n)
        begun.left -= length
        self.units = self.units or segment.units
        if not begun.left:
            self._end(chunk, begun)
        return True

    def _begin(self, chunk: Chunk) -> _Begun:
        indices = (0,) * len(self._ends) if chunk is None else chunk
        place: Any = (*(slice(end[i], end[i + 1]) for end, i in zip(self._ends, indices, strict=True)), ...)
        target = self.cells[place]
        self._begun[chunk] = begun = _Begun(target, self._block(target), target.nbytes)
        return begun

    def _block(self, target: Numbers) -> Numbers:
        """Where the bytes of a chunk go; memory that was used before costs less than fresh one."""
        if target.flags.c_contiguous:
            return target
        if self._scratch and self._scratch[-1].shape == target.shape:
            return self._scratch.pop()
        return np.empty(target.shape, target.dtype)

    def _end(self, chunk: Chunk, begun: _Begun) -> None:
        if begun.block is not begun.target:
            begun.target[...] = begun.block
            self._scratch = [begun.block]
        del self._begun[chunk]
        self._done.add(chunk)
