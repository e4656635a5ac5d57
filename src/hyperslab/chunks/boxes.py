"""In which order an array is copied: boxes of whole target chunks, so large that few source chunks are decoded twice.

Pure arithmetic. A box that is one target chunk (or shard) always suffices; larger ones are taken where the grids
disagree, for then neighbouring target chunks need the same source chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import lcm, log, prod

import numpy as np

from hyperslab.chunks.grid import Axis, FixedAxis
from hyperslab.selection.region import PositionList, Range

Box = tuple[slice, ...]
Edges = np.ndarray


@dataclass(frozen=True, eq=False)
class AxisCut:
    """One axis as the target cuts it, with ``edges``: the target's positions where another source chunk begins."""

    target: Axis
    edges: Edges

    @property
    def ideal(self) -> int:
        """Source chunks along this axis: what a copy decodes at least."""
        return max(len(self.edges), 1)

    def bounds(self, count: int) -> tuple[Edges, Edges]:
        """Return where boxes of ``count`` target chunks start and stop."""
        firsts = np.arange(0, self.target.count, count)
        starts = chunk_starts(self.target, firsts)
        return starts, np.append(starts, self.target.length)[1:]

    def reads(self, count: int) -> int:
        """Return the source chunks that are decoded, over all boxes of ``count`` target chunks."""
        starts, stops = self.bounds(count)
        touched = np.searchsorted(self.edges, stops, "left") - np.searchsorted(self.edges, starts, "right") + 1
        return max(int(touched.sum()), 1)

    def longest(self, count: int) -> int:
        """Return the cells along this axis of the largest box."""
        starts, stops = self.bounds(count)
        return int((stops - starts).max(initial=1))

    def larger(self, count: int) -> set[int]:
        """Return counts of target chunks per box that are worth a trial after ``count``: double, aligned with the
        source, all."""
        trials = {2 * count, self.target.count}
        steps = np.diff(self.edges)
        if isinstance(self.target, FixedAxis) and len(steps) and (steps == steps[0]).all():
            trials.add(lcm(int(steps[0]), self.target.size) // self.target.size)
        return {trial for trial in trials if count < trial <= self.target.count}


# Bytes up to which boxes of small chunks are joined: a box costs 0.2 ms of the processor, whatever is in it.
SMALL_BOX = 1 << 20


def box_counts(cuts: Sequence[AxisCut], itemsize: int, budget: int, small: int = 0) -> tuple[int, ...]:
    """Return the target chunks per box and axis: the fewest decoded source chunks for boxes of at most ``budget``
    bytes. Where these are small, more chunks are taken: as many as there is room for in ``small`` bytes.

    Greedy: the axis is enlarged that saves most reads for the memory it takes, until nothing is saved or it is full.
    """
    counts = [1] * len(cuts)
    reads = [cut.reads(1) for cut in cuts]
    cells = [cut.longest(1) for cut in cuts]
    while True:
        best: tuple[float, int, int, int, int] | None = None
        for axis, cut in enumerate(cuts):
            if reads[axis] <= cut.ideal:
                continue
            for trial in cut.larger(counts[axis]):
                cost, length = cut.reads(trial), cut.longest(trial)
                if cost >= reads[axis] or itemsize * prod(cells) // cells[axis] * length > budget:
                    continue
                gain = log(reads[axis] / cost) / max(log(length / cells[axis]), 1e-9)
                if best is None or gain > best[0]:
                    best = (gain, axis, trial, cost, length)
        if best is None:
            return _join_small(cuts, counts, cells, min(small, budget) // itemsize)
        _, axis, counts[axis], reads[axis], cells[axis] = best


def _join_small(cuts: Sequence[AxisCut], counts: list[int], cells: list[int], most: int) -> tuple[int, ...]:
    """Return larger counts for boxes of at most ``most`` cells, the last axis first, so that neighbours in C order come
    together."""
    for axis in reversed(range(len(cuts))):
        total = cuts[axis].target.count
        while counts[axis] < total:
            trial = min(2 * counts[axis], total)
            length = cuts[axis].longest(trial)
            if prod(cells) // cells[axis] * length > most:
                break
            counts[axis], cells[axis] = trial, length
    return tuple(counts)


def boxes(cuts: Sequence[AxisCut], counts: tuple[int, ...]) -> Iterator[Box]:
    """Yield every box in C order; together they cover each cell of the target once."""
    axes = []
    for cut, count in zip(cuts, counts, strict=True):
        starts, stops = cut.bounds(count)
        axes.append([slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True)])
    return product(*axes)


def source_edges(axis: Axis, chosen: Range | PositionList) -> Edges:
    """Return where, counted along the ``chosen`` positions of a source axis, another of its chunks begins."""
    if not chosen.count:
        return np.empty(0, np.int64)
    if isinstance(chosen, PositionList):
        owners = axis.find_many(chosen.positions)
        return np.concatenate([[0], np.flatnonzero(np.diff(owners)) + 1])
    first, last = axis.find(chosen.start), axis.find(chosen.start + (chosen.count - 1) * chosen.step)
    if chosen.step > 0:
        borders = chunk_starts(axis, np.arange(first + 1, last + 1)) - chosen.start
        return np.concatenate([[0], np.unique(-(-borders // chosen.step))])
    borders = chosen.start - chunk_starts(axis, np.arange(first, last, -1))
    return np.concatenate([[0], np.unique(borders // -chosen.step + 1)])


def chunk_starts(axis: Axis, indices: Edges) -> Edges:
    """Return the first positions of many chunks."""
    return indices * axis.size if isinstance(axis, FixedAxis) else np.asarray(axis.edges)[indices]
