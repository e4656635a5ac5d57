"""One array from one chunk grid into another, box by box by threads, in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks import execute
from hyperslab.chunks.boxes import Box, Cut, box_counts, boxes, source_edges
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.memory import require
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.conversion.selecting import Picked
from hyperslab.model.cells import as_type
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.region import Range, Region

Values = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class ArrayCopy:
    """The copy of the ``picked`` cells of one array: from ``source`` into ``target``, within ``memory`` bytes."""

    path: str
    picked: Picked
    source: ChunkSource
    source_spec: ArraySpec
    target: ChunkSource
    target_spec: ArraySpec
    memory: int

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """How target and source are cut, along each axis of the target."""
        written = self.target.grid.outer or self.target.grid
        kept = ((self.source.grid.axes[axis], self.picked.axes[axis]) for axis in self.picked.kept)
        return tuple(
            Cut(cut, source_edges(axis, chosen)) for cut, (axis, chosen) in zip(written.axes, kept, strict=True)
        )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Target chunks (shards) per box and axis."""
        return box_counts(self.cuts, self.itemsize, self.memory // 4)

    @property
    def itemsize(self) -> int:
        """Bytes of a cell in memory, of the larger of the two types."""
        return max(self.source_spec.numpy_dtype.itemsize, self.target_spec.numpy_dtype.itemsize, 1)

    @property
    def chunks(self) -> int:
        """Boxes in all: steps of progress."""
        return prod(-(-cut.target.count // count) for cut, count in zip(self.cuts, self.counts, strict=True))

    @property
    def size(self) -> int:
        """Copied cells."""
        return prod(self.target_spec.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the copied cells in the target."""
        return self.size * self.target_spec.numpy_dtype.itemsize

    @cached_property
    def step_bytes(self) -> int:
        """What one box takes at its peak: its cells twice, a source chunk or an encoded target chunk (shard) twice."""
        box = prod(cut.longest(count) for cut, count in zip(self.cuts, self.counts, strict=True))
        chunk = max(_chunk_cells(self.source.grid), _chunk_cells(self.target.grid.outer or self.target.grid))
        return self.itemsize * (2 * box + 2 * chunk)

    def run(self, work: Callable[[Box], None], settings: Settings) -> None:
        """``work`` every box: several at a time as the memory allows; MemoryLimit when not one fits."""
        if 0 in self.target_spec.shape:
            return
        require(self.step_bytes // 2, self.memory)
        workers = max(1, min(settings.threads, self.memory // max(self.step_bytes, 1), self.chunks))
        each_batch(work, boxes(self.cuts, self.counts), workers)

    def read_source(self, box: Box, settings: Settings) -> Values:
        """The cells of a box as they are in the source, as the target's type."""
        region = self.picked.region(box)
        plan = make_plan(region, self.source.grid)
        out = np.empty(plan.shape, self.source_spec.numpy_dtype)
        execute.read(self.source, plan, out, self.source_spec.fill_cell(), settings)
        shape = tuple(part.stop - part.start for part in box)
        return as_type(out.reshape(shape), self.target_spec.numpy_dtype)

    def read_target(self, box: Box, settings: Settings) -> Values:
        """The cells of a box as they are in the target."""
        plan = make_plan(_whole_region(box), self.target.grid)
        out = np.empty(plan.shape, self.target_spec.numpy_dtype)
        execute.read(self.target, plan, out, self.target_spec.fill_cell(), settings)
        return out

    def write_target(self, box: Box, values: Values, settings: Settings) -> None:
        """Store a box of whole target chunks."""
        plan = make_plan(_whole_region(box), self.target.grid)
        execute.write(_Unshared(self.target), plan, values, self.target_spec.fill_cell(), settings)


class _Unshared:
    """A target that nobody else knows of yet: written without locks."""

    def __init__(self, source: ChunkSource) -> None:
        self._source = source
        self.grid = source.grid
        self.read = source.read
        self.write = source.write
        self.erase = source.erase

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """By the source's own group commit, else one by one."""
        many = getattr(self._source, "write_many", None)
        if many is not None:
            many(pairs, durable=durable)
            return
        for coords, block in pairs:
            self._source.write(coords, block)


class Counter:
    """Adds up what threads have done and tells it, one at a time."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()

    def __call__(self, nbytes: int, chunks: int) -> None:
        with self._lock:
            self._tell(nbytes, chunks)


def copy_arrays(copies: Sequence[ArrayCopy], settings: Settings, done: Callable[[int, int], None]) -> None:
    """All arrays, one after another; ``done(nbytes, chunks)`` is told after each box."""
    count = Counter(done)
    for copy in copies:

        def work(box: Box, copy: ArrayCopy = copy) -> None:
            values = copy.read_source(box, settings)
            copy.write_target(box, values, settings)
            count(values.nbytes, 1)

        copy.run(work, settings)


def _whole_region(box: Box) -> Region:
    return Region(tuple(Range(part.start, part.stop - part.start, 1) for part in box))


def _chunk_cells(grid: Grid) -> int:
    """Cells of the largest chunk."""
    if grid.fixed is not None:
        return prod(min(size, max(axis.length, 1)) for size, axis in zip(grid.fixed, grid.axes, strict=True))
    return prod(max(map(axis.size_of, range(axis.count)), default=1) for axis in grid.axes)
