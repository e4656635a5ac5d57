"""region x grid -> pieces: which chunks a region touches, which cells of each, and where they go. Integers only.

Each axis is cut on its own into entries ``(chunk index, cells within the chunk, cells of the result, whole)``; the
pieces are the product of the entries. Axes that run together (vectorised indexing) are cut as one: their points are
sorted by chunk. Cells within a chunk are always taken in ascending order, so that a negative step turns the result and
a whole chunk is decoded straight into it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice, product
from math import prod
from operator import floordiv
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hyperslab.chunks.grid import Axis, Coords, FixedAxis, Grid
from hyperslab.selection.region import PositionList, Range, Region

Item = TypeVar("Item")
Index = tuple[Any, ...]
Entry = tuple[Any, Any, Any, bool]

_SCALAR: Index = (Ellipsis,)
# Pieces that an iteration makes at a time: a plan may have more of them than memory takes.
_PIECES_AT_ONCE = 64
_piece = tuple.__new__  # a NamedTuple without the Python call of its constructor


class Piece(NamedTuple):
    """The part of one chunk that a region touches."""

    coords: Coords
    within: Index
    """Index into the chunk (with its axes in the plan's ``order``)."""
    out: Index
    """Index into the canonical result."""
    whole: bool
    """Every cell of the chunk that lies in the array is touched, once and in order: a write need not read it."""


@dataclass(slots=True, eq=False)
class Plan:
    """What a region costs, before anything runs: iterate to get its pieces, one for each chunk touched."""

    shape: tuple[int, ...]
    """The canonical shape of the result."""
    grid: Grid
    groups: tuple[list[Entry], ...]
    """Entries to be multiplied: one list per axis, the first for all coupled axes."""
    order: tuple[int, ...] | None
    """How a chunk's axes are put before ``within`` is applied (coupled axes first); None: as they are."""
    basic: bool
    """All indices are slices."""
    count: int
    """Chunks that are touched."""

    @property
    def size(self) -> int:
        """Cells of the result."""
        return prod(self.shape)

    def __iter__(self) -> Iterator[Piece]:
        chosen = product(*self.groups) if self.count else iter(())
        while entries := list(islice(chosen, _PIECES_AT_ONCE)):
            yield from self.pieces(entries)

    def pieces(self, chosen: Iterable[tuple[Entry, ...]] | None = None) -> list[Piece]:
        """Return the pieces of the ``chosen`` entries, one for each axis or group of axes; of all, where none are."""
        if chosen is None:
            chosen = product(*self.groups) if self.count else ()
        found: list[Piece] = []
        if not self.groups:
            found += [Piece((), _SCALAR, _SCALAR, True) for _ in chosen]
        elif self.order is None:
            for entries in chosen:
                coords, within, out, whole = zip(*entries, strict=False)
                found.append(_piece(Piece, (coords, within, out, False not in whole)))
        else:
            sources = [self.order.index(axis) for axis in range(len(self.order))]
            for first, *rest in chosen:
                coords = (*first[0], *(entry[0] for entry in rest))
                within = (*first[1], *(entry[1] for entry in rest))
                out = (first[2], *(entry[2] for entry in rest))
                found.append(Piece(tuple(coords[source] for source in sources), within, out, False))
        return found


def make_plan(region: Region, grid: Grid) -> Plan:
    """Return the plan of ``region`` over ``grid`` (both of the array's rank)."""
    shape = region.shape
    if 0 in shape:
        return Plan(shape, grid, (), None, True, 0)
    if region.coupled:
        return _plan_coupled(region, shape, grid)
    groups = []
    points = 0
    for axis, cut in zip(region.axes, grid.axes, strict=True):
        if isinstance(axis, Range) and axis.step == 1 and isinstance(cut, FixedAxis):
            # nearly always: every position of a span, over chunks of one size, without a call for each axis
            low, size, length = axis.start, cut.size, cut.length
            high = low + axis.count
            entries: list[Entry] = []
            for index in range(low // size, (high - 1) // size + 1):
                start = index * size
                begin, end = max(start, low), min(start + size, high)
                whole = begin == start and end == min(start + size, length)
                entries.append((index, slice(begin - start, end - start), slice(begin - low, end - low), whole))
            groups.append(entries)
        elif isinstance(axis, Range):
            groups.append(_range_entries(axis, cut))
        else:
            groups.append(_points_entries(axis, cut))
            points += 1
    if points > 1:
        groups = [_open_mesh(group, i, len(groups)) for i, group in enumerate(groups)]
    return Plan(shape, grid, tuple(groups), None, not points, prod(map(len, groups)))


def _plan_coupled(region: Region, shape: tuple[int, ...], grid: Grid) -> Plan:
    """Return the plan where axes run together."""
    coupled = region.coupled
    others = [i for i in range(len(region.axes)) if i not in coupled]
    groups = [_coupled_entries([region.axes[i] for i in coupled], [grid.axes[i] for i in coupled])]
    mesh = any(isinstance(region.axes[i], PositionList) for i in others)
    for number in others:
        part, cut = region.axes[number], grid.axes[number]
        groups.append(_range_entries(part, cut) if isinstance(part, Range) else _points_entries(part, cut))
    if mesh:
        ndim = 1 + len(others)
        first = [
            (i, tuple(_align(w, 0, ndim) for w in within), _align(out, 0, ndim), f) for i, within, out, f in groups[0]
        ]
        groups = [first, *(_open_mesh(group, i + 1, ndim) for i, group in enumerate(groups[1:]))]
    return Plan(shape, grid, tuple(groups), tuple(chain(coupled, others)), False, prod(map(len, groups)))


def _range_entries(axis: Range, cut: Axis) -> list[Entry]:
    """Return one entry per chunk that a range touches, in ascending order of chunks."""
    step, count = axis.step, axis.count
    turned = step < 0
    low = axis.start + (count - 1) * step if turned else axis.start
    step = -step if turned else step
    last = low + (count - 1) * step
    entries: list[Entry] = []
    position = low
    while position <= last:
        index = cut.find(position)
        start, size = cut.start(index), cut.size_of(index)
        stop = min(start + size, last + 1, cut.length)
        taken = -(-(stop - position) // step)
        done = (position - low) // step
        within = slice(position - start, position - start + (taken - 1) * step + 1, None if step == 1 else step)
        whole = step == 1 and taken == min(size, cut.length - start)
        entries.append((index, within, _out_slice(done, taken, count, turned), whole))
        position += taken * step
    return entries


def _out_slice(done: int, taken: int, count: int, turned: bool) -> slice:
    """Return where ``taken`` cells go after ``done`` others; from the back when the result is turned."""
    if not turned:
        return slice(done, done + taken)
    stop = count - 1 - done - taken
    return slice(count - 1 - done, stop if stop >= 0 else None, -1)


def _points_entries(axis: PositionList, cut: Axis) -> list[Entry]:
    """Return one entry per chunk that holds some of the points; the order of the points is kept within each."""
    indices = cut.find_many(axis.positions)
    entries: list[Entry] = []
    for index, members in _split_by_key(indices):
        within = axis.positions[members] - cut.start(index)
        entries.append((index, within, members, False))
    return entries


def _split_by_key(keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each distinct key with the positions where it stands, in order."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    edges = np.flatnonzero(np.diff(ordered)) + 1
    starts = np.concatenate(([0], edges))
    for start, members in zip(starts.tolist(), np.split(order, edges), strict=True):
        yield int(ordered[start]), members


def _open_mesh(group: list[Entry], axis: int, ndim: int) -> list[Entry]:
    """Return indices as arrays that broadcast against those of the other axes (``np.ix_``)."""
    return [(i, _align(within, axis, ndim), _align(out, axis, ndim), whole) for i, within, out, whole in group]


def _align(index: Any, axis: int, ndim: int) -> np.ndarray:
    """Return a slice or 1-D array as an integer array of length > 1 along one of ``ndim`` axes only."""
    if isinstance(index, slice):
        step = index.step or 1
        stop = -1 if index.stop is None and step < 0 else index.stop
        index = np.arange(index.start, stop, step)
    shape = [1] * ndim
    shape[axis] = -1
    return np.asarray(index).reshape(shape)


def _coupled_entries(axes: list[Any], cuts: list[Axis]) -> list[Entry]:
    """Return one entry per chunk tuple that holds some of the points: (indices, one array within per axis, out,
    False)."""
    indices = [cut.find_many(axis.positions) for axis, cut in zip(axes, cuts, strict=True)]
    counts = tuple(cut.count for cut in cuts)
    keys = (
        np.ravel_multi_index(indices, counts)
        if prod(counts) < 2**62
        else np.unique(np.stack(indices), axis=1, return_inverse=True)[1].reshape(-1)
    )
    entries: list[Entry] = []
    for _, members in _split_by_key(keys):
        coords = tuple(int(index[members[0]]) for index in indices)
        within = tuple(axis.positions[members] - cut.start(i) for axis, cut, i in zip(axes, cuts, coords, strict=True))
        entries.append((coords, within, members, False))
    return entries


# -- batches -----------------------------------------------------------------------------------------------------------
# Which chunks are taken together: what one thread reads or writes at a time, and what is stored as one. With an outer
# grid (shards, superchunks) the chunks of one outer chunk belong together.


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield the items, so many at a time."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def batches(plan: Plan, size: int, most: int, *, across: bool = False) -> Iterator[Sequence[Piece]]:
    """Yield the plan's pieces by ``size``; with an outer grid up to ``most`` at a time, of one outer chunk, or
    ``across`` several of them as far as ``size`` goes."""
    grid = plan.grid
    if grid.outer is None:
        yield from batched(plan, size)
        return
    members = grid.members  # outer_of, without its call: this is done for every chunk
    groups: dict[Coords, list[Piece]] = {}
    for piece in plan:
        groups.setdefault(tuple(map(floordiv, piece[0], members)), []).append(piece)
    batch: list[Piece] = []
    for group in groups.values():
        if batch and not (across and len(batch) + len(group) <= size):
            yield batch
            batch = []
        if len(group) > most:  # no other group shares the last batch of it
            yield from batched(group, most)
        else:
            batch += group
    if batch:
        yield batch


def grouped(coords: Iterable[Coords], grid: Grid, most: int = 64) -> Iterator[list[Coords]]:
    """Yield chunks by up to ``most``; those of one outer chunk, which follow each other, together: it is written
    once."""
    if grid.outer is None:
        yield from batched(coords, most)
        return
    for _, group in groupby(coords, grid.outer_of):
        yield list(group)


def outer_chunks(plan: Plan) -> list[Coords]:
    """Return the outer chunks that a plan touches, which is not empty."""
    if plan.order is not None:
        return list(count_by_outer(plan))
    per_axis: list[dict[int, None]] = []  # without the counts, since this is done for each read of tiles
    for group, count in zip(plan.groups, plan.grid.members, strict=True):
        per_axis.append({})
        for entry in group:
            per_axis[-1][entry[0] // count] = None
    return list(product(*per_axis))


def count_by_outer(plan: Plan) -> dict[Coords, int]:
    """Return how many chunks of each outer chunk a plan touches, which is not empty."""
    if plan.order is not None:
        return Counter(plan.grid.outer_of(piece.coords) for piece in plan)
    counts: list[dict[int, int]] = []
    for group, count in zip(plan.groups, plan.grid.members, strict=True):
        axis: dict[int, int] = {}
        for entry in group:
            outer = entry[0] // count
            axis[outer] = axis.get(outer, 0) + 1
        counts.append(axis)
    numbers = map(prod, product(*[axis.values() for axis in counts]))
    return dict(zip(product(*counts), numbers, strict=True))


# -- strips of neighbours ----------------------------------------------------------------------------------------------
# Which chunks lie side by side in the result, so that few copies bring many of them there. Pure.


def strips(pieces: Sequence[Piece], most: int) -> Iterator[Sequence[Piece]]:
    """Cut pieces into runs of up to ``most`` that follow each other as neighbours along the last axis."""
    coords = [piece[0] for piece in pieces]
    start = 0
    for i in range(1, len(pieces)):
        *row, last = coords[i - 1]
        if coords[i] != (*row, last + 1) or i - start == most:
            yield pieces[start:i]
            start = i
    yield pieces[start:]


def full(strip: Sequence[Piece], width: int) -> slice:
    """Return which pieces of a strip are whole chunks, ``width`` cells wide, taken forwards; only its ends can be
    others."""
    first, last = strip[0], strip[-1]
    if not strip[len(strip) // 2].whole or first.out[-1].step is not None:
        return slice(0, 0)
    span = last.out[-1]
    short = not last.whole or span.stop - span.start != width
    return slice(0 if first.whole else 1, len(strip) - short)


def lies_contiguous(shape: tuple[int, ...], out: np.ndarray) -> bool:
    """Return True if a block of this shape within ``out`` is C-contiguous there."""
    step = out.itemsize
    for size, stride in zip(reversed(shape), reversed(out.strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True
