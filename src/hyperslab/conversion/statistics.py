"""Numbers about an array in one pass: how many cells, how many missing, least, largest, mean, deviation, histogram.

Blocks of the array are read by threads, each block once. Each row of a block becomes :class:`Moments`, which are added
to those of its group as Chan, Golub and LeVeque add them: sums of squares about the mean of each part, never of the
cells themselves, which would cancel where the mean is large beside the deviation.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from hyperslab.array import Array, cf, times
from hyperslab.array.cells import CellAccess
from hyperslab.array.decoded import Decoded, with_clock
from hyperslab.array.flags import are_flags
from hyperslab.array.periods import Groups
from hyperslab.array.series import find_series_meaning
from hyperslab.bridges.cluster import client_of, each_task
from hyperslab.chunks import sparse_io
from hyperslab.chunks.boxes import Box, source_edges
from hyperslab.chunks.memory import largest_chunk
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.sparse_io import parts
from hyperslab.errors import Invalid, Unsupported
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType
from hyperslab.selection.region import Axis, PositionList, Range, Region

# Cells that are summed together: as float64 they take 512 KiB, so that the passes over them find them in the cache.
_ROW_CELLS = 1 << 16
# Decoded bytes of small chunks that one thread reads together, so that the Python around a block is little beside it.
_BLOCK_BYTES = 4 << 20
_IN_ONE_THREAD = Settings(workers=1, cache_bytes=0)


# -- moments: what is known of some cells, and how those of two parts become those of both -----------------------------


@dataclass(eq=False)
class Moments:
    """Numbers about the cells of each of several groups, along the one axis of each array.

    ``cells`` counts all, ``missing`` those among them that are NaN; ``squares`` sums the squared distances from the
    mean. ``low`` and ``high`` are of the cells' type; they and ``mean`` mean nothing where no cell is there.
    ``counts``: a histogram, a row for each group.
    """

    cells: Values
    missing: Values
    low: Values
    high: Values
    mean: Values
    squares: Values
    counts: Values | None = None

    @classmethod
    def empty(cls, groups: int, dtype: NumpyDType, bins: int = 0) -> Moments:
        """Return those of no cells."""
        low, high = _extremes(dtype)
        zeros = np.zeros(groups, np.int64)
        counts = np.zeros((groups, bins), np.int64) if bins else None
        ends = np.full(groups, high, dtype), np.full(groups, low, dtype)
        return cls(zeros, zeros.copy(), *ends, np.zeros(groups), np.zeros(groups), counts)

    @property
    def known(self) -> Values:
        """The number of cells that are not missing."""
        return np.asarray(self.cells - self.missing)

    @property
    def deviation(self) -> Values:
        """The standard deviation of the cells themselves (divided by their number), NaN where there is none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.sqrt(self.squares / self.known))

    def add(self, part: Moments, owners: Values) -> None:
        """Add the groups of a part, each to the group that ``owners`` says of it."""
        known = part.known
        there = known > 0
        np.minimum.at(self.low, owners[there], part.low[there])
        np.maximum.at(self.high, owners[there], part.high[there])
        # these groups alone: a part of few of very many costs no more than one of few
        places, owners = np.unique(owners, return_inverse=True)
        groups, old_mean, before = len(places), self.mean[places], self.cells[places] - self.missing[places]
        after = before + np.bincount(owners, known, groups).astype(np.int64)
        some = np.maximum(after, 1)
        with np.errstate(invalid="ignore", over="ignore"):
            shift = np.where(there, part.mean - old_mean[owners], 0.0)
            mean = old_mean + np.bincount(owners, known * shift, groups) / some
            if not np.isfinite(mean).all():  # infinite cells: their difference is no number, their sum may be one
                sums = np.bincount(owners, np.where(there, known * part.mean, 0.0), groups)
                plain = (np.where(before > 0, before * old_mean, 0.0) + sums) / some
                mean = np.where(np.isfinite(mean), mean, plain)
            spread = np.where(there, part.squares + known * (part.mean - mean[owners]) ** 2, 0.0)
            own = np.where(before > 0, before * (old_mean - mean) ** 2, 0.0)
        self.squares[places] += own + np.bincount(owners, spread, groups)
        self.mean[places] = mean
        self.cells[places] += np.bincount(owners, part.cells, groups).astype(np.int64)
        self.missing[places] += np.bincount(owners, part.missing, groups).astype(np.int64)
        if self.counts is not None and part.counts is not None:
            np.add.at(self.counts, places[owners], part.counts)


def _extremes(dtype: NumpyDType) -> tuple[Any, Any]:
    """Return the least and the largest number of a type."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def measure_rows(rows: Values, edges: Values | None = None, missing: int | None = None) -> Moments:
    """Return the moments of each row of a 2-D array of numbers, where NaN is missing, or the integer ``missing``;
    ``edges``: of the histogram."""
    count = rows.shape[1]
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = rows.min(1), rows.max(1)
        wide = rows.astype("f8")
        is_known = None
        if rows.dtype.kind == "f" and np.isnan(low).any():
            is_known = ~np.isnan(rows)
        elif missing is not None and (low == missing).any():  # times.MISSING: the least integer
            is_known = rows != missing
        if is_known is None:
            known = np.full(len(rows), count)
            mean = wide.sum(1) / count
            wide -= mean[:, None]
        else:
            known = np.count_nonzero(is_known, 1)
            if missing is None:
                low, high = np.fmin.reduce(rows, 1), np.fmax.reduce(rows, 1)
            else:
                low = rows.min(1, where=is_known, initial=np.iinfo(rows.dtype).max)
            mean = np.add.reduce(wide, 1, where=is_known) / np.maximum(known, 1)
            wide -= mean[:, None]
            wide[~is_known] = 0
        squares = np.einsum("ij,ij->i", wide, wide)
    counts = None
    if edges is not None:
        some = rows if is_known is None else [row[mask] for row, mask in zip(rows, is_known, strict=True)]
        counts = np.array([_histogram(row, edges) for row in some])
    return Moments(np.full(len(rows), count), count - known, low, high, mean, squares, counts)


def _histogram(cells: Values, edges: Values) -> Values:
    """Count cells between equally spaced edges, as doubles: of short floats NumPy would make the edges short, too."""
    return np.histogram(cells.astype("f8", copy=False), len(edges) - 1, (float(edges[0]), float(edges[-1])))[0]


def make_edges(low: float, high: float, bins: int) -> Values:
    """Return the edges of a histogram of so many bins. Invalid for ends between which there is no room for them."""
    try:
        return np.histogram_bin_edges(np.array([low, high]), bins, (low, high))
    except ValueError:
        message = f"{bins} bins have no room from {low:g} to {high:g}"
        raise Invalid(message, remedy="take fewer bins, or other ends by --range") from None


# -- one array ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ArrayMeasurement:
    """The measuring of the cells ``axes`` of an array, in groups along one of them; pickles for workers.

    ``edges``: of the histogram. ``most``: bytes of stored cells in one block.
    """

    cells: CellAccess
    how: cf.Decoding
    axes: tuple[Axis, ...]
    groups: Groups | None
    most: int
    edges: Values | None = None
    spare: deque[Values] = field(default_factory=deque)
    """Memory of blocks that are done, for the next: the system clears fresh pages."""

    def __reduce__(self) -> tuple[object, ...]:
        return ArrayMeasurement, (self.cells, self.how, self.axes, self.groups, self.most, self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of chosen cells along each axis."""
        return tuple(axis.count for axis in self.axes)

    @cached_property
    def dtype(self) -> NumpyDType:
        """The type of the decoded cells."""
        return self._numbers(np.zeros((1, 1), self.how.dtype)).dtype

    def nothing(self, groups: int) -> Moments:
        """Return the moments of no cells."""
        return Moments.empty(groups, self.dtype, 0 if self.edges is None else len(self.edges) - 1)

    def boxes(self) -> Iterator[Box]:
        """Yield boxes of the chosen cells: several small chunks, one chunk, or a part of one that is too large."""
        itemsize = max(self.how.dtype.itemsize, 1)
        cuts: list[list[int]] = []
        room = max(min(_BLOCK_BYTES, self.most) // itemsize, 1)
        for cut, axis in zip(reversed(self.cells.grid.axes), reversed(self.axes), strict=True):
            edges = [int(edge) for edge in source_edges(cut, axis)]
            steps = [*edges[1:], axis.count]
            longest = max((stop - start for start, stop in zip(edges, steps, strict=True)), default=1)
            several = max(1, room // max(longest, 1))
            room = max(1, room // max(longest * min(several, len(edges)), 1))
            cuts.append([*edges[::several], axis.count])
        spans = [[slice(a, b) for a, b in pairwise(cut)] for cut in reversed(cuts)]
        for box in product(*spans):
            yield from parts(box, max(self.most // itemsize, 1))

    def measure(self, box: Box) -> tuple[Moments, Values]:
        """Read the cells of a box; return the moments of each group that is in it, and the numbers of these groups."""
        stored, memory = self._read(box)
        owners = np.zeros(1, np.int64) if self.groups is None else self.groups.owners[box[self.groups.axis]]
        places, local = np.unique(owners, return_inverse=True)
        found = self.nothing(len(places))
        missing = times.MISSING if self.how.dtype.kind in "mM" else None
        for rows, first in self._rows(stored):
            part = measure_rows(self._numbers(rows), self.edges, missing)
            found.add(part, local[first : first + len(rows)])
        self.spare.append(memory)
        return found, places

    def _read(self, box: Box) -> tuple[Values, Values]:
        """Return the stored cells of a box, and the memory that they stand in."""
        shape, dtype = tuple(cut.stop - cut.start for cut in box), self.how.dtype
        try:
            memory = self.spare.pop()
        except IndexError:
            memory = np.empty(0, dtype)
        if memory.size < prod(shape):
            memory = np.empty(prod(shape), dtype)
        stored = memory[: prod(shape)].reshape(shape)
        plan = make_plan(Region(tuple(map(_part_of, self.axes, box))), self.cells.grid)
        spec = self.cells.spec
        sparse_io.reader_of(spec)(self.cells.source, plan, stored, self.cells.fill, _IN_ONE_THREAD)
        return stored, memory

    def _rows(self, stored: Values) -> Iterator[tuple[Values, int]]:
        """Yield pieces of a block as 2-D arrays, each row within one position along the axis of the groups, and the
        first of those positions."""
        along = stored.reshape(1, -1) if self.groups is None else np.moveaxis(stored, self.groups.axis, 0)
        width = max(prod(along.shape[1:]), 1)
        step = max(1, _ROW_CELLS // width)
        for first in range(0, len(along), step):
            rows = along[first : first + step].reshape(-1, width)
            for start in range(0, width, _ROW_CELLS):
                yield rows[:, start : start + _ROW_CELLS], first

    def _numbers(self, stored: Values) -> Values:
        """Return stored cells as numbers that may be compared and summed, NaN where they are missing; times as the
        integers that they are stored as, for a double does not tell nanoseconds of today apart."""
        how = self.how
        if stored.dtype.kind in "mM":
            return stored.astype(stored.dtype.newbyteorder("="), copy=False).view("i8")
        if stored.dtype.kind == "f" and how.scaled is None:
            cells = stored.astype(stored.dtype.newbyteorder("="), copy=False)
            for fill in how.fills:
                is_missing = cells == fill
                if is_missing.any():
                    cells = np.where(is_missing, cells.dtype.type(np.nan), cells)
            return cells
        cells = cf.apply(how, stored)
        return cells.view("u1") if cells.dtype.kind == "b" else cells


def _part_of(axis: Axis, cut: slice) -> Axis:
    if isinstance(axis, PositionList):
        return PositionList(axis.positions[cut])
    return Range(axis.start + cut.start * axis.step, cut.stop - cut.start, axis.step)


@dataclass(frozen=True, eq=False)
class Statistics:
    """The numbers about one array: a row for each group, whose ``labels`` stand below ``head`` (None: all cells).

    ``low``, ``high`` and ``mean`` are dates where the cells count time, unless one of them is no date that is known
    here, else numbers in ``units``, None where no cell is known. Flags have no mean, and no deviation. ``edges``: of
    the histogram that ``moments`` counts.
    """

    path: str
    dtype: NumpyDType
    units: str | None
    head: str | None
    labels: Sequence[object]
    moments: Moments
    low: Sequence[object]
    high: Sequence[object]
    mean: Sequence[object]
    edges: Values | None = None

    @property
    def rows(self) -> int:
        """The number of groups."""
        return len(self.moments.cells)


def why_not_measured(array: Array) -> str | None:
    """Return why an array has no mean, None where it has one."""
    dtype = array.spec.numpy_dtype
    if dtype.kind not in "biufmM":
        kinds = {"S": "text", "U": "text", "T": "text", "V": "structured cells", "c": "complex numbers"}
        return kinds.get(dtype.kind, "cells of any length")
    if Decoded(array).has_channels:
        return "each channel has a factor of its own"
    return None


def measure(
    array: Array,
    axes: tuple[Axis, ...],
    *,
    groups: Groups | None = None,
    bins: int = 0,
    span: tuple[float, float] | None = None,
    memory: int,
    workers: int | None = None,
    scheduler: object = None,
) -> Statistics:
    """Return the numbers about the chosen cells of an array of numbers or times; decoded as ``array.decoded()`` does.

    ``axes``: the positions along each axis; ``groups``: of those along one of them. ``bins``: of a histogram between
    ``span``, else the attributes ``valid_range`` (``valid_min``, ``valid_max``), else the least and the largest cell,
    for which the cells are read a second time. ``memory``: bytes of cells in flight. ``scheduler``: a Client of
    dask.distributed or its address, whose workers read.
    """
    attrs = with_clock(array._session, array.path, array.spec)
    series = find_series_meaning(array._session, array.path, array.spec)
    if series is not None:
        attrs = series.packing(attrs)
    with array._session.add_place_to_errors(array.path):
        clock = times.clock(attrs) if array.spec.numpy_dtype.kind in "iuf" else None
        dropped = ("units", "calendar") if clock is not None else ("dtype",)
        how = cf.decoding(array.spec.numpy_dtype, {name: value for name, value in attrs.items() if name not in dropped})
        valid = cf.valid_limits(how, how.attrs)
        if span is None and bins and -np.inf < valid[0] < valid[1] < np.inf:
            span = valid
        threads = Settings(workers=workers).threads
        job = ArrayMeasurement(array._cells, how, axes, groups, max(memory // (8 * threads), 1))
        if bins and span is not None:
            job = replace(job, edges=make_edges(*span, bins))
        found = _run(job, memory, threads, scheduler)
        if bins and span is None and found.known.any():
            there = found.known > 0
            span = float(found.low[there].min()), float(found.high[there].max())
            if not np.isfinite(span).all():
                raise Invalid("infinite cells have no histogram", node=array.path, remedy="give its ends by --range")
            job = replace(job, edges=make_edges(*span, bins))
            found.counts = _run(job, memory, threads, scheduler).counts
    ends = found.low, found.high, found.mean
    try:
        low, high, mean = (_as_values(each, found.known > 0, how, clock) for each in ends)
    except Unsupported:  # numbers that count beyond all dates, or in no calendar that is known here
        clock = None
        low, high, mean = (_as_values(each, found.known > 0, how, None) for each in ends)
    own_units = array.spec.units if series is None else series.units
    units = own_units if clock is None else clock.unit
    head, labels = (None, ()) if groups is None else (groups.head, groups.labels)
    if are_flags(attrs):
        mean = [None] * len(found.cells)
        found = replace(found, squares=np.full(len(found.cells), np.nan))
    return Statistics(array.path, job.dtype, units, head, labels, found, low, high, mean, job.edges)


def _run(job: ArrayMeasurement, memory: int, threads: int, scheduler: object) -> Moments:
    """Measure all boxes."""
    found, lock = job.nothing(1 if job.groups is None else len(job.groups.labels)), threading.Lock()
    if 0 in job.shape:
        return found

    def add(part: tuple[Moments, Values]) -> None:
        with lock:
            found.add(*part)

    if scheduler is not None:
        with client_of(scheduler) as client:
            tasks = (((job, box), None) for box in job.boxes())
            each_task(client, ArrayMeasurement.measure, tasks, lambda mark: None, add)
        return found
    # A thread holds a block, and a chunk as stored and decoded.
    step = max(job.most, 1) + 2 * largest_chunk(job.cells.grid) * max(job.how.dtype.itemsize, 1)
    each_batch(lambda box: add(job.measure(box)), job.boxes(), max(1, min(threads, memory // step)))
    return found


def _as_values(numbers: Values, is_known: Values, how: cf.Decoding, clock: times.Clock | None) -> list[object]:
    """Return numbers as people read them: dates where they count time, None where no cell is known."""
    found: list[object] = [None] * len(numbers)
    some = numbers[is_known]
    if clock is not None and len(some):
        some = times.decode_times(some, clock)
    elif how.dtype.kind in "mM" and len(some):
        some = np.round(some).astype("i8").view(how.dtype.newbyteorder("="))
    for place, value in zip(np.flatnonzero(is_known), some, strict=True):
        found[int(place)] = value
    return found
