"""The cells of two arrays of one shape, compared box by box by threads in bounded memory."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from math import prod
from typing import Any

import numpy as np

from hyperslab.checks.reading import parts, read_box
from hyperslab.chunks.boxes import AxisCut, Box, box_counts, boxes, source_edges
from hyperslab.chunks.memory import largest_chunk, settings_within
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import HyperslabError
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.region import Range

_FIRST = 3
Values = np.ndarray[Any, Any]
Place = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two arrays."""

    source: ChunkSource
    spec: ArraySpec


@dataclass(eq=False)
class Comparison:
    """Two arrays of one shape. Afterwards: how many cells differ, the first of them with both values, what could not be
    read (the first error of each side)."""

    a: Side
    b: Side
    memory: int
    settings: Settings
    differing: int = 0
    first: list[tuple[Place, Any, Any]] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    unread_cells: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    @cached_property
    def _itemsize(self) -> int:
        return max(self.a.spec.numpy_dtype.itemsize, self.b.spec.numpy_dtype.itemsize, 1)

    @cached_property
    def _chunk_cells(self) -> int:
        return max(largest_chunk(side.source.grid) for side in (self.a, self.b))

    def run(self) -> None:
        """Compare all cells."""
        if 0 in self.a.spec.shape:
            return
        grid = self.a.source.grid.outer or self.a.source.grid
        cuts = [
            AxisCut(axis, source_edges(other, Range(0, other.length, 1)))
            for axis, other in zip(grid.axes, self.b.source.grid.axes, strict=True)
        ]
        counts = box_counts(cuts, self._itemsize, self.memory // 8)
        cells = prod(cut.longest(count) for cut, count in zip(cuts, counts, strict=True))
        taken = (4 * cells + 2 * self._chunk_cells) * self._itemsize
        workers = max(1, min(self.settings.threads, self.memory // taken))
        each_batch(self._compare, boxes(cuts, counts), workers)

    def _compare(self, box: Box) -> None:
        for part in parts(box, max(self.memory // (4 * self._itemsize), 1)):
            ours = self._read("A", self.a, part)
            theirs = self._read("B", self.b, part)
            if ours is None or theirs is None:
                with self._lock:
                    self.unread_cells += prod(cut.stop - cut.start for cut in part)
                continue
            other = unequal(ours, theirs)
            if other.any():
                self._note(part, other, ours, theirs)

    def _read(self, name: str, side: Side, part: Box) -> Values | None:
        try:
            nbytes = self._chunk_cells * self._itemsize
            return read_box(
                side.source, side.spec, part, settings_within(side.source, self.settings, nbytes, self.memory)
            )
        except HyperslabError as error:
            with self._lock:
                self.unread.setdefault(name, f"{error.said} [{error.place}]")
            return None

    def _note(self, part: Box, other: Values, ours: Values, theirs: Values) -> None:
        flat = np.flatnonzero(other)
        found = []
        for number in flat[:_FIRST].tolist():
            local = tuple(int(i) for i in np.unravel_index(number, other.shape)) if other.shape else ()
            place = tuple(cut.start + i for cut, i in zip(part, local, strict=True))
            found.append((place, ours[local], theirs[local]))
        with self._lock:
            self.differing += len(flat)
            self.first = nsmallest(_FIRST, [*self.first, *found], key=lambda entry: entry[0])


def unequal(a: Values, b: Values) -> Values:
    """Where two arrays of one shape differ: by their bits where they are of one type, else by their values.

    The order of bytes means nothing; NaN equals NaN of another type.
    """
    if a.dtype.names is not None and a.dtype.names == b.dtype.names:
        fields = [_over_cell(_unequal_fields(a[name], b[name]), a.ndim) for name in a.dtype.names]
        return np.logical_or.reduce(fields) if fields else np.zeros(a.shape, bool)
    if a.dtype == object or b.dtype == object:
        pairs = zip(a.reshape(-1), b.reshape(-1), strict=True)
        return np.array([not _same_object(x, y) for x, y in pairs], bool).reshape(a.shape)
    x, y = _native(a), _native(b)
    if x.dtype != y.dtype or x.dtype.kind == "T":
        return _other_values(x, y)
    size = x.dtype.itemsize
    if not size or not x.size:
        return np.zeros(a.shape, bool)
    bits = np.ascontiguousarray(x).reshape(-1).view(np.uint8) != np.ascontiguousarray(y).reshape(-1).view(np.uint8)
    bits = bits.reshape(x.size, -1, size)
    if x.dtype.char in "gG" and np.finfo(np.longdouble).nmant == 63:  # 80 bits each, behind them whatever was there
        bits = bits.reshape(x.size, -1, np.dtype("g").itemsize)[:, :, :10]
    return np.asarray(bits.any(axis=(1, 2)).reshape(a.shape))


def _unequal_fields(a: Values, b: Values) -> Values:
    """Where fields differ, of which one may be n chars and the other text; everywhere where their shapes do."""
    a, b = (_joined(x) if x.ndim > y.ndim else x for x, y in ((a, b), (b, a)))
    return unequal(a, b) if a.shape == b.shape else np.ones(a.shape, bool)


def _joined(chars: Values) -> Values:
    if chars.dtype != np.dtype("S1") or not chars.shape[-1]:
        return chars
    return np.ascontiguousarray(chars).view(f"S{chars.shape[-1]}")[..., 0]


def _over_cell(other: Values, ndim: int) -> Values:
    """Return whether any element of a field of arrays differs."""
    return np.asarray(other.any(axis=tuple(range(ndim, other.ndim)))) if other.ndim > ndim else other


def _native(values: Values) -> Values:
    return values if values.dtype.kind == "T" else values.astype(values.dtype.newbyteorder("="), copy=False)


def _other_values(a: Values, b: Values) -> Values:
    both_nan = np.zeros(a.shape, bool)
    if a.dtype.kind in "fc" and b.dtype.kind in "fc":
        both_nan = np.isnan(a) & np.isnan(b)
    try:
        return np.asarray((a != b) & ~both_nan, bool)
    except (TypeError, ValueError):
        return np.ones(a.shape, bool)


def _same_object(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and not unequal(a, b).any()
    return bool(type(a) is type(b) and a == b)
