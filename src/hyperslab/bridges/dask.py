"""dask: stored arrays as dask arrays, and dask arrays into stored ones, block by block, under every scheduler.

A task carries the URL and the options of the dataset (see :mod:`hyperslab.array.session`), never an open handle, and
reads or writes by the thread that runs it alone: the scheduler sees to it that there are enough of those.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any
from uuid import uuid4

import numpy as np

from hyperslab.array import Array, View
from hyperslab.array.cells import open_cells
from hyperslab.array.session import OpenDataset, open_session
from hyperslab.bridges.cancellable_tasks import CancellableTasks
from hyperslab.bridges.cluster import Placed, each_computed, each_computed_in_pool
from hyperslab.bridges.extras import library
from hyperslab.bridges.overlaps import (
    Cuts,
    Sizes,
    Source,
    Turn,
    check_source,
    guarded,
    merged,
    one_size,
    require_shape,
)
from hyperslab.chunks.grid import FixedAxis, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.errors import Invalid
from hyperslab.model.guessing import meant
from hyperslab.selection.region import Selection
from hyperslab.stores import counting
from hyperslab.stores.base import Share, Store
from hyperslab.stores.location import Location

_IN_A_TASK = Settings(workers=1, cache_bytes=0)


def check_travel(handle: Any) -> None:
    """Raise before any task is sent what says that it cannot be; of distributed one would learn that, and not why."""
    if _is_elsewhere():
        pickle.dumps(handle)


def _is_elsewhere() -> bool:
    """Return True if tasks are run by other processes."""
    return getattr(_scheduler(), "__module__", None) in ("distributed.client", "dask.multiprocessing")


def _scheduler() -> Any:
    """Return the function that runs tasks, also where it was given options of its own; None for dask's default."""
    scheduler: Any = import_module("dask.base").get_scheduler()
    return scheduler.func if isinstance(scheduler, partial) else scheduler


# -- reading ------------------------------------------------------------------------------------------------------


def to_dask(array: Array, chunks: Any = None) -> Any:
    """Return a dask array of the stored cells, one task per chunk (per shard where the array is sharded).

    ``chunks``: as dask takes them (lengths, ``"auto"``, ``"64 MiB"``), or a mapping of dimension names to lengths,
    where a dimension that is left out keeps the stored ones. Labels, attributes and units stay behind.
    """
    cuts = _cuts(array, chunks)
    tokenize = library("dask.base").tokenize
    blocks = LazyBlocks(array.lazy[()].in_one_thread(), tokenize(array), cuts)
    check_travel(blocks)
    meta = np.empty((0,) * array.ndim, array.dtype)
    name = f"hyperslab-{tokenize(array, cuts)}"
    return library("dask.array").from_array(blocks, chunks=cuts, name=name, asarray=False, meta=meta)


def _cuts(array: Array, chunks: Any) -> Sizes:
    """Return the lengths of all blocks. Invalid for what dask would not take."""
    wanted: Any = chunks
    if chunks is None or isinstance(chunks, Mapping):
        # What is stored as one (a shard, a chunk) is a block; chunks of varying lengths end where the array ends.
        stored = [
            axis.size
            if isinstance(axis, FixedAxis)
            else tuple(min(axis.size_of(i), axis.length - axis.start(i)) for i in range(axis.count)) or (0,)
            for axis in Grid.of(array.shape, array.shards or array.chunks).axes
        ]
        names: Mapping[Any, Any] = chunks or {}
        _check_names(array, names)
        wanted = tuple(cut if dim is None else names.get(dim, cut) for dim, cut in zip(array.dims, stored, strict=True))
    try:
        cuts: Sizes = library("dask.array").core.normalize_chunks(wanted, array.shape, dtype=array.dtype)
        if any(size < 0 for sizes in cuts for size in sizes):
            raise ValueError("a length below 0")
    except (TypeError, ValueError, ArithmeticError) as error:
        remedy = "give lengths of at least 1 (-1: the whole axis), 'auto', or a size such as '64 MiB'"
        raise Invalid(f"chunks={chunks!r}: {error}", node=array.path, url=array.url, remedy=remedy) from None
    return cuts


def _check_names(array: Array, names: Iterable[str]) -> None:
    """Raise Invalid for the name of a dimension that the array does not have."""
    unknown = [name for name in names if name not in array.dims]
    if unknown:
        raise Invalid(f"no dimension {unknown[0]!r}", node=array.path, remedy=meant(unknown[0], array.dims))


class LazyBlocks(Source):
    """The array that dask slices: a view that is read when it is indexed."""

    def __init__(self, view: View, token: str, chunks: Sizes) -> None:
        self.view = view
        self.chunks = chunks
        self._token = token
        self.shape = view.shape
        self.ndim = view.ndim
        self.dtype = view.dtype

    def __getitem__(self, key: Any) -> Any:
        return self.view[key].read()

    def __dask_tokenize__(self) -> str:
        return self._token

    def __repr__(self) -> str:
        return f"<hyperslab Blocks {self.shape} {self.dtype}>"


# -- writing ------------------------------------------------------------------------------------------------------


def write(target: Array | View, data: Any, region: Any = None, compute: bool = True, fields: Any = None) -> Any:
    """Put the dask array ``data`` into ``target`` block by block, under the scheduler that dask would use.

    ``region``: the part of ``target`` that the data is for, as a key of positions and labels or as a mapping of
    dimension names to such; None for all of it. The data is broadcast to it. ``fields``: of a structured array, the
    field or fields that the data is for. Blocks that do not end where chunks end are written by reading, changing and
    putting back chunks under their locks: slower, never wrong, also between processes.

    ``compute=False`` writes nothing and gives a ``Delayed`` that does. A write that was interrupted has left each chunk
    old or new and may be made again; once it has failed here no task of it is at work any more. Chunk sizes that dask
    does not know are computed first: Invalid with ``compute=False``. ReadOnly, Unsupported when tasks go to other
    processes and the dataset cannot. Of a dataset that is one file this process writes what others compute.
    """
    writes = [(target, data, region)]
    return write_together(writes, fields) if compute else delay_writes(writes, fields)


def delay_writes(writes: Iterable[tuple[Array | View, Any, Any]], fields: Any = None) -> Any:
    """Return a ``Delayed`` that does what :func:`write_together` does."""
    from dask.delayed import delayed

    running, arrays = CancellableTasks(), []
    for target, data, region in writes:
        view = _view(target, region)
        if view.cells.session is not None:
            view.cells.session.writer()
        arrays.append(_tasks(view, data, fields, running, compute=False)[0])
    if len(arrays) > 1 and not any(hasattr(array, "expr") for array in arrays):
        # Graphs that are optimized one by one would share nothing.
        arrays = [part for array in arrays for part in array.to_delayed(optimize_graph=False).ravel().tolist()]
    return delayed(_end)(*arrays)


def write_together(writes: Iterable[tuple[Array | View, Any, Any]], fields: Any = None) -> None:
    """Write several ``(target, data, region)`` at once, as :func:`write` does: their graphs share what they can.

    Where tasks go to other processes, which would not find the cells (of one file, or behind the last row), this one
    stores the blocks as they are computed.
    """
    pairs = [(_view(target, region), data) for target, data, region in writes]
    sessions = [session for view, _ in pairs if (session := view.cells.session) is not None]
    with ExitStack() as stack:
        for session in sessions:
            stack.enter_context(session.writer().one_commit())
        _write_all(pairs, sessions, fields)
    for session in sessions:
        session.version.renew()


def _write_all(pairs: Sequence[tuple[View, Any]], sessions: Sequence[OpenDataset], fields: Any) -> None:
    elsewhere = _is_elsewhere()
    # Other processes do not find the cells of one file until it is closed, nor rows that are appended.
    is_known_here_alone = any(session.is_written_whole for session in sessions) or not all(
        view.cells.is_published or view.cells.session is None for view, _ in pairs
    )
    if elsewhere and is_known_here_alone:
        left = _write_shared([(view, _broadcast(data, view, True)) for view, data in pairs], fields)
        if left:
            _write_here(left, fields)
    elif pairs:
        running = CancellableTasks()
        tasks = [_tasks(view, data, fields, running) for view, data in pairs]
        running.compute(*[written for written, _ in tasks])
        if counting.watchers and elsewhere:
            for _, blocks in tasks:
                counting.done(blocks.npartitions, blocks.nbytes, written=True)


def _tasks(view: View, data: Any, fields: Any, running: CancellableTasks, *, compute: bool = True) -> tuple[Any, Any]:
    """Return a dask array whose tasks store the blocks of ``data``, and the data as they are cut for that."""
    data = _broadcast(data, view, compute)
    is_own = view.cells.is_published and check_source(data, view)  # rows behind the last are no cells of any source
    data, turn = guarded(data, view, is_own=is_own)
    task = _Put(view.in_one_thread(), Cuts.of(data.chunks), fields, turn, running)
    written = each_block(data, put, task, "hyperslab-write")
    check_travel(task)
    return written, data


def _write_shared(pairs: Sequence[tuple[View, Any]], fields: Any) -> list[tuple[View, Any]]:
    """Have other processes store blocks in shares of the transaction that runs here, and take what they changed into
    it; return the pairs for which that cannot be: of other stores, and where blocks share chunks."""
    left: list[tuple[View, Any]] = []
    written: list[tuple[Any, Store]] = []
    running = CancellableTasks()
    for view, data in pairs:
        session = view.cells.session
        store = None if session is None else session.reader.store
        share = None if store is None else store.share()
        blocks, turn = guarded(data, view, is_own=check_source(data, view)) if share is not None else (data, None)
        if session is None or store is None or share is None or turn is None or turn.lock is not None:
            left.append((view, data))
            continue
        task = _PutShared(
            share, session.format.name, view.cells.node, view.selection, Cuts.of(blocks.chunks), fields, running
        )
        written.append((each_block(blocks, put_shared, task, "hyperslab-write", kind=object), store))
        if counting.watchers:
            counting.done(blocks.npartitions, blocks.nbytes, written=True)
    found = running.compute(*(array for array, _ in written)) if written else ()
    for (_, store), changes in zip(written, found, strict=True):
        store.merge(changes.ravel().tolist())
    return left


def _write_here(pairs: Iterable[tuple[View, Any]], fields: Any) -> None:
    """Store blocks that other processes compute, all together, one after the other as they come."""
    views, arrays = [], []
    for number, (view, data) in enumerate(pairs):
        is_own = view.cells.is_published and check_source(data, view)
        data = data if is_own else merged(data, view)
        cuts, node = Cuts.of(data.chunks), view.cells.node
        views.append(view)
        arrays.append(data.map_blocks(_placed, number=number, cuts=cuts, node=node, dtype=data.dtype, meta=data._meta))

    def store(placed: Placed) -> None:
        views[placed.number][placed.extent].write(placed.block, fields)

    scheduler = _scheduler()
    if scheduler.__module__ == "distributed.client":
        each_computed(scheduler.__self__, arrays, store)
    else:
        each_computed_in_pool(arrays, store)


def _placed(block: Any, number: int, cuts: Cuts, node: str, block_id: tuple[int, ...] = ()) -> Placed:
    return Placed(number, require_shape(block, cuts, node, block_id), block)


def each_block(data: Any, store: Callable[..., Any], task: Any, name: str, kind: type = bool) -> Any:
    """Return a dask array of one cell (of this ``kind``) per block of ``data``, whose tasks call ``store(block, task=…,
    block_id=…)``."""
    return data.map_blocks(
        store,
        task=task,
        name=f"{name}-{uuid4().hex}",
        chunks=tuple((1,) * count for count in data.numblocks),
        meta=np.empty((0,) * data.ndim, kind),
        dtype=kind,
    )


def _end(*written: Any) -> None:
    """End a write: nothing is left of the blocks' answers."""


def _view(target: Array | View, region: Any) -> View:
    if isinstance(region, Mapping):
        if not isinstance(target, Array):
            raise Invalid("a view has no dimension names", remedy="give region as a key of positions")
        _check_names(target, region)
        region = tuple(slice(None) if dim is None else region.get(dim, slice(None)) for dim in target.dims)
    key = () if region is None else region
    return target.lazy[key] if isinstance(target, Array) else target[key]


def _broadcast(data: Any, view: View, compute: bool) -> Any:
    """Return the data in the shape of the view, as NumPy's assignment broadcasts. Invalid."""
    if not is_known(data):
        if not compute:
            remedy = "call compute_chunk_sizes() of the data first, or write at once"
            raise Invalid("chunk sizes that are not known yet cannot be written later", remedy=remedy)
        data = compute_chunk_sizes(data)
    shape = view.shape
    while data.ndim > len(shape) and data.shape[0] == 1:
        data = data[0]
    if data.shape == shape:
        return data
    stretched = [have == 1 and want != 1 for have, want in zip(data.shape[::-1], shape[::-1], strict=False)][::-1]
    if data.ndim > len(shape) or any(
        have != want and not grows
        for have, want, grows in zip(data.shape, shape[len(shape) - data.ndim :], stretched, strict=True)
    ):
        message = f"a value of shape {data.shape} does not broadcast to the selected {shape}"
        remedy = "select as many cells as there are, or give data of that shape"
        raise Invalid(message, node=view.cells.node, url=view.cells.url, remedy=remedy)
    # Along a new axis a block is as long as what is stored as one, or the whole axis where that is not known.
    new = [None] * (len(shape) - data.ndim)
    cuts = new + [None if grows else sizes for grows, sizes in zip(stretched, data.chunks, strict=True)]
    units = [max(length, 1) for length in shape]
    axes = (view.cells.grid.outer or view.cells.grid).axes
    if view.selection.middle is None and view.ndim == len(axes):
        units = [axis.size if isinstance(axis, FixedAxis) else unit for axis, unit in zip(axes, units, strict=True)]
    chunks = tuple(unit if sizes is None else sizes for sizes, unit in zip(cuts, units, strict=True))
    return library("dask.array").broadcast_to(data, shape, chunks=chunks)


def is_known(data: Any) -> bool:
    """Return True if dask knows the lengths of all blocks."""
    return not any(math.isnan(size) for cuts in data.chunks for size in cuts)


def compute_chunk_sizes(data: Any) -> Any:
    """Return the same data with block lengths that dask knows: its tasks are run once to find them out."""
    if is_known(data):
        return data
    ones = tuple((1,) * count for count in data.numblocks)
    shapes = data.map_blocks(_shape_of, chunks=ones, dtype=object, meta=np.empty((0,) * data.ndim, object)).compute()
    sizes = tuple(
        tuple(shapes[(0,) * axis + (place,) + (0,) * (data.ndim - axis - 1)][axis] for place in range(count))
        for axis, count in enumerate(data.numblocks)
    )
    return data.map_blocks(_same, chunks=sizes, dtype=data.dtype, meta=data._meta)


def _shape_of(block: Any) -> Any:
    answer = np.empty((1,) * np.ndim(block), object)
    answer[...] = None
    answer[(0,) * np.ndim(block)] = np.shape(block)
    return answer


def _same(block: Any) -> Any:
    return block


# -- one task -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Put:
    """The tasks that put the blocks of one dask array where they belong."""

    view: View
    cuts: Cuts
    fields: Any
    turn: Turn
    running: CancellableTasks

    def __dask_tokenize__(self) -> str:
        return uuid4().hex  # no two writes are the same: the cells may have changed between them


def put(block: Any, task: Any = None, block_id: tuple[int, ...] = ()) -> np.ndarray:
    """Write one block; its answer is one cell."""
    extent = require_shape(block, task.cuts, task.view.cells.node, block_id)
    with task.running.at_work(), task.turn.taken():
        task.view[extent].write(block, task.fields)
    return np.ones((1,) * len(extent), bool)


@dataclass(frozen=True, slots=True)
class _PutShared:
    """The same in a share of the transaction that another process commits."""

    share: Share
    format: str
    node: str
    selection: Selection
    cuts: Cuts
    fields: Any
    running: CancellableTasks

    def __dask_tokenize__(self) -> str:
        return uuid4().hex


def put_shared(block: Any, task: Any = None, block_id: tuple[int, ...] = ()) -> np.ndarray:
    """Write one block into a share of its own; the answer is one cell that holds what that changed."""
    extent = require_shape(block, task.cuts, task.node, block_id)
    answer = np.empty((1,) * len(extent), object)
    with task.running.at_work():
        store = task.share.open()
        session = open_session(Location.of(store), "r+", task.format, _IN_A_TASK, {})
        cells = open_cells(session, task.node, session.array(task.node))
        View(cells, task.selection)[extent].write(block, task.fields)
        answer[(0,) * len(extent)] = store.changes()
    return answer


# -- new arrays ---------------------------------------------------------------------------------------------------


def fitted(chunks: Sizes, auto: tuple[int, ...]) -> tuple[int, ...]:
    """Return chunk lengths near ``auto`` for a new array that is written by these blocks: a block holds whole chunks
    where a length from a quarter of ``auto`` up to that divides it."""
    fitting = []
    for sizes, cut in zip(chunks, auto, strict=True):
        block = one_size(sizes) or cut
        divisors = (size for size in range(cut, max(cut // 4, 1) - 1, -1) if block % size == 0)
        fitting.append(block if block <= cut else next(divisors, cut))
    return tuple(fitting)
