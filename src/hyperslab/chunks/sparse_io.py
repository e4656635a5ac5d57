"""Sparse cells: chunks as lists of cells into one list by a plan, and one list into the chunks that it falls into; a
box of cells, sparse or dense.

Nothing is made dense but, chunk by chunk, what is stored dense, or with another fill value than its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from hyperslab.chunks import execute
from hyperslab.chunks.boxes import Box
from hyperslab.chunks.cache import BlockCache
from hyperslab.chunks.grid import Axis, Coords, Grid
from hyperslab.chunks.memory import empty_cells, require
from hyperslab.chunks.plan import Piece, Plan, batches, grouped, make_plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import DEFAULTS, MEBIBYTE, Settings
from hyperslab.chunks.source import Block, ChunkReader, ChunkSource
from hyperslab.errors import Unsupported
from hyperslab.model.cells import Values
from hyperslab.model.coo import Coo, Numbers, same_bits
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.region import Range, Region

SPARSE_CHUNKS_PER_BATCH = 64  # chunks that one thread takes at a time
LARGE_SPARSE_CHUNK_BYTES = 64 * MEBIBYTE  # chunks of more bytes are not made dense to read some cells of them
CHUNKS_NOT_ASKED_FOR = 64  # chunks that are written though they hold nothing, rather than asking which are stored

# -- reading ----------------------------------------------------------------------------------------------------------


def read(source: ChunkSource, plan: Plan, fill: Numbers, settings: Settings = DEFAULTS) -> Coo:
    """Return the plan's cells as a list, of an array whose cells are ``fill`` (0-d) where no chunk was written.

    The result has the fill value that all chunks have in common, else ``fill``. Unsupported for a plan of points;
    MemoryLimit where a chunk has to be made dense that is too large.
    """
    if not plan.basic:
        raise Unsupported("points of a sparse array", remedy="select by slices, then index the sparse array in memory")
    found: list[tuple[Piece, Coo | None]] = []
    dtype = fill.dtype

    def work(pieces: Sequence[Piece]) -> None:
        found.extend((piece, part) for piece, part in _parts(source, pieces, dtype, fill, settings))

    pieces = plan.count
    workers = min(settings.threads, -(-pieces // SPARSE_CHUNKS_PER_BATCH))
    each_batch(work, batches(plan, SPARSE_CHUNKS_PER_BATCH, SPARSE_CHUNKS_PER_BATCH), workers)
    common = _common_fill([part for _, part in found], fill)
    parts = [_placed(piece, part, common) for piece, part in found]
    there = [part for part in parts if part is not None and part.nnz]
    if not there:
        return _empty(plan.shape, common)
    coords = np.concatenate([part.coords for part in there], axis=1)
    return Coo(plan.shape, coords, np.concatenate([part.data for part in there]), common).canonical()


def reader_of(spec: ArraySpec) -> Callable[..., None]:
    """Return :func:`.execute.read`, or what does the same of a sparse array."""
    return execute.read if spec.sparse is None else read_dense


def read_dense(
    source: ChunkSource,
    plan: Plan,
    out: Block,
    fill: Numbers,
    settings: Settings = DEFAULTS,
    cache: BlockCache | None = None,
) -> None:
    """Do :func:`.execute.read` of an array that may be sparse: chunks too large to be dense need not become so."""
    if (
        plan.basic
        and source.traits.reads_sparse
        and plan.grid.chunk_cells * out.dtype.itemsize > LARGE_SPARSE_CHUNK_BYTES
    ):
        require(out.nbytes, settings.memory_limit)
        read(source, plan, fill, settings).put_into(out)
    else:
        execute.read(source, plan, out, fill, settings, cache)


def _parts(
    source: ChunkSource, pieces: Sequence[Piece], dtype: np.dtype, fill: Numbers, settings: Settings
) -> Iterator[tuple[Piece, Coo | None]]:
    """Yield each piece with its cells; None: they were never written."""
    is_sparse = source.traits.reads_sparse
    reader: ChunkReader = source.fetch([piece.coords for piece in pieces]) if is_sparse else source
    for piece in pieces:
        if is_sparse:
            cells = reader.read_coo(piece.coords)
            within = () if Ellipsis in piece.within else piece.within  # the index of an array without axes
            yield piece, None if cells is None else cells.part(within).astype(dtype)
            continue
        require(prod(source.grid.chunk_shape(piece.coords)) * dtype.itemsize, settings.memory_limit)
        block = source.read(piece.coords)
        yield piece, None if block is None else Coo.of_dense(block[piece.within].astype(dtype, copy=False), fill)


def _common_fill(parts: Sequence[Coo | None], fill: Numbers) -> Numbers:
    """Return the fill value of all chunks; that of the array where they differ, or some were never written."""
    fills = {None if part is None else part.fill.tobytes(): part for part in parts}
    if len(fills) != 1:
        return fill
    (only,) = fills.values()
    return fill if only is None else only.fill


def _placed(piece: Piece, part: Coo | None, common: Numbers) -> Coo | None:
    """Return the cells of one chunk where they stand in the result; None: all are the fill value."""
    if part is None:
        return None
    part = part.with_fill(common)
    if not part.shape:
        return part
    rows = [row * (cut.step or 1) + cut.start for row, cut in zip(part.coords, piece.out, strict=True)]
    return Coo(part.shape, np.array(rows, np.intp).reshape(part.coords.shape), part.data, part.fill)


# -- writing ----------------------------------------------------------------------------------------------------------


def takes(source: ChunkSource, box: Box) -> bool:
    """Return True if a source stores lists, and the box is made of whole chunks."""
    return source.traits.writes_sparse and all(
        cut.stop == cut.start or (_begins(axis, cut.start) and (cut.stop == axis.length or _begins(axis, cut.stop)))
        for axis, cut in zip(source.grid.axes, box, strict=True)
    )


def _begins(axis: Axis, position: int) -> bool:
    return axis.start(axis.find(position)) == position


def write(source: ChunkSource, box: Box, cells: Coo, fill: Numbers, settings: Settings = DEFAULTS) -> None:
    """Put ``cells`` (of the box's shape and the array's dtype) into a box of whole chunks (see :func:`takes`).

    Where there are many chunks, those without a cell that is not ``fill``, the array's own, are not made.
    """
    if 0 in cells.shape:
        return
    lists = dict(_lists(source.grid, box, cells.canonical()))
    ranges = [
        range(axis.find(cut.start), axis.find(cut.stop - 1) + 1)
        for axis, cut in zip(source.grid.axes, box, strict=True)
    ]
    inside: Iterator[Coords] = product(*ranges)
    if (
        source.traits.lists_chunks
        and prod(map(len, ranges)) > CHUNKS_NOT_ASKED_FOR
        and same_bits(cells.fill.reshape(1), fill).all()
    ):
        inside = (at for at in source.stored_coords() if all(i in part for i, part in zip(at, ranges, strict=True)))
    for coords in inside:
        if coords not in lists:  # which holds nothing, and must say so
            lists[coords] = _empty(tuple(cut.stop - cut.start for cut in source.grid.extent(coords)), cells.fill)

    def work(batch: list[Coords]) -> None:
        with source.lock(batch, settings.lock_timeout):
            source.write_coo(((coords, lists[coords]) for coords in batch), durable=settings.durable)

    groups = list(grouped(sorted(lists), source.grid))
    with source.transaction(settings.lock_timeout):
        each_batch(work, groups, min(settings.threads, len(groups)))


def _empty(shape: tuple[int, ...], fill: Numbers) -> Coo:
    return Coo(shape, np.empty((len(shape), 0), np.intp), np.empty(0, fill.dtype), fill)


def _lists(grid: Grid, box: Box, cells: Coo) -> Iterator[tuple[Coords, Coo]]:
    """Yield what falls into each chunk, of those into which something falls."""
    if not cells.nnz:
        return
    positions = [row + cut.start for row, cut in zip(cells.coords, box, strict=True)]
    chunks = np.array([axis.find_many(row) for axis, row in zip(grid.axes, positions, strict=True)], np.intp)
    chunks = chunks.reshape(len(grid.axes), cells.nnz)
    order = np.lexsort(chunks[::-1]) if len(chunks) else np.arange(cells.nnz)
    edges = np.flatnonzero((chunks[:, order][:, 1:] != chunks[:, order][:, :-1]).any(axis=0)) + 1
    for members in np.split(order, edges):
        coords = tuple(chunks[:, members[0]].tolist())
        extent = grid.extent(coords)
        inner = [row[members] - cut.start for row, cut in zip(positions, extent, strict=True)]
        shape = tuple(cut.stop - cut.start for cut in extent)
        local = np.array(inner, np.intp).reshape(len(shape), len(members))
        yield coords, Coo(shape, local, cells.data[members], cells.fill)


def slabs(grid: Grid, box: Box, most: int) -> Iterator[Box]:
    """Yield the box in parts of whole chunks (shards), or what of them lies in it, of at most ``most`` cells if they
    can."""
    cuts: list[list[slice]] = []
    for axis, cut in zip(reversed((grid.outer or grid).axes), reversed(box), strict=True):
        cuts.insert(0, list(_spans(axis, cut, most)))
        most = max(1, most // max((part.stop - part.start for part in cuts[0]), default=1))
    return product(*cuts)


def _spans(axis: Axis, cut: slice, most: int) -> Iterator[slice]:
    if cut.stop == cut.start:
        return
    start = end = cut.start
    for index in range(axis.find(cut.start) + 1, axis.find(cut.stop - 1) + 2):
        edge = min(axis.start(index), cut.stop) if index < axis.count else cut.stop
        if edge - start > most and end > start:
            yield slice(start, end)
            start = end
        end = edge
    yield slice(start, cut.stop)


# -- cells of one box of an array, and of one chunk in bounded memory --------------------------------------------------


# Bytes of cells that are read at once where a chunk is larger: a chunk of any size takes bounded memory.
BOX_BYTES = 64 << 20


def read_box(source: ChunkSource, spec: ArraySpec, box: Box, settings: Settings) -> Values:
    """Return the stored cells of a box."""
    plan = make_plan(Region(tuple(Range(cut.start, cut.stop - cut.start, 1) for cut in box)), source.grid)
    out = empty_cells(plan.shape, spec.numpy_dtype)
    reader_of(spec)(source, plan, out, spec.fill_cell(), settings)
    return out


def read_through(source: ChunkSource, spec: ArraySpec, coords: Coords, settings: Settings) -> None:
    """Read all cells of one chunk, a part at a time where it is large; its damage is an error."""
    for part in parts(source.grid.extent(coords), max(BOX_BYTES // max(spec.numpy_dtype.itemsize, 1), 1)):
        read_box(source, spec, part, settings)


def parts(box: Box, most: int) -> Iterator[Box]:
    """Return boxes of at most ``most`` cells that cover one box: the first axes are cut first."""
    left = most
    steps = []
    for cut in reversed(box):
        step = max(1, min(cut.stop - cut.start, left))
        steps.append(step)
        left = max(1, left // step)
    cuts = [
        [slice(start, min(start + step, cut.stop)) for start in range(cut.start, cut.stop, step)]
        for cut, step in zip(box, reversed(steps), strict=True)
    ]
    return product(*cuts)
