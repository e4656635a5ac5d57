"""dask: stored arrays as dask arrays, and dask arrays into stored ones, block by block, under every scheduler.

A task carries the URL and the options of the dataset (see :mod:`hyperslab.array.origin`), never an open handle, and
reads or writes by the thread that runs it alone: the scheduler sees to it that there are enough of those.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any
from uuid import uuid4

import numpy as np

from hyperslab.array import Array, View
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
    require_told,
)
from hyperslab.chunks.grid import FixedAxis, Grid
from hyperslab.errors import Invalid
from hyperslab.model.guessing import meant
from hyperslab.stores import counting


def is_dask_array(value: Any) -> bool:
    """Return whether the value is a dask array; dask is not imported to find out."""
    kind = type(value)  # a Delayed claims to have every attribute
    return hasattr(kind, "__dask_graph__") and hasattr(kind, "numblocks") and hasattr(kind, "map_blocks")


def check_travel(handle: Any) -> None:
    """Raise before any task is sent what says that it cannot be; of distributed one would learn that, and not why."""
    if _is_elsewhere():
        pickle.dumps(handle)


def _is_elsewhere() -> bool:
    """Return whether tasks are run by other processes."""
    return getattr(_scheduler(), "__module__", None) in ("distributed.client", "dask.multiprocessing")


def _scheduler() -> Any:
    """Return the function that runs tasks, also where it was given options of its own; None for dask's default."""
    scheduler: Any = import_module("dask.base").get_scheduler()
    return scheduler.func if isinstance(scheduler, partial) else scheduler


def _dask() -> Any:
    """dask.array, imported on use."""
    return library("dask.array")


# -- reading ------------------------------------------------------------------------------------------------------


def to_dask(array: Array, chunks: Any = None) -> Any:
    """A dask array of the stored cells, one task per chunk (per shard where the array is sharded).

    ``chunks``: as dask takes them (lengths, ``"auto"``, ``"64 MiB"``), or a mapping of dimension names to lengths,
    where a dimension that is left out keeps the stored ones. Labels, attributes and units stay behind.
    """
    cuts = _cuts(array, chunks)
    tokenize = library("dask.base").tokenize
    blocks = LazyBlocks(array.lazy[()].alone(), tokenize(array), cuts)
    check_travel(blocks)
    meta = np.empty((0,) * array.ndim, array.dtype)
    name = f"hyperslab-{tokenize(array, cuts)}"
    return _dask().from_array(blocks, chunks=cuts, name=name, asarray=False, meta=meta)


def _cuts(array: Array, chunks: Any) -> Sizes:
    """The lengths of all blocks; Invalid for what dask would not take."""
    stored = _stored_chunks(array)
    if isinstance(chunks, Mapping):
        _check_names(array, chunks)
        asked: Any = tuple(
            cut if dim is None else chunks.get(dim, cut) for dim, cut in zip(array.dims, stored, strict=True)
        )
    else:
        asked = stored if chunks is None else chunks
    try:
        cuts: Sizes = _dask().core.normalize_chunks(asked, array.shape, dtype=array.dtype)
        if any(size < 0 for sizes in cuts for size in sizes):
            raise ValueError("a length below 0")
    except (TypeError, ValueError, ArithmeticError) as error:
        remedy = "give lengths of at least 1 (-1: the whole axis), 'auto', or a size such as '64 MiB'"
        raise Invalid(f"chunks={chunks!r}: {error}", node=array.path, url=array.url, remedy=remedy) from None
    return cuts


def _check_names(array: Array, names: Iterable[str]) -> None:
    """Invalid for the name of a dimension that the array does not have."""
    unknown = [name for name in names if name not in array.dims]
    if unknown:
        raise Invalid(f"no dimension {unknown[0]!r}", node=array.path, remedy=meant(unknown[0], array.dims))


def _stored_chunks(array: Array) -> tuple[int | tuple[int, ...], ...]:
    """The lengths of what is stored as one, as dask wants them: varying ones end where the array ends."""
    axes = Grid.of(array.shape, array.shards or array.chunks).axes
    return tuple(
        axis.size
        if isinstance(axis, FixedAxis)
        else tuple(min(axis.size_of(i), axis.length - axis.start(i)) for i in range(axis.count)) or (0,)
        for axis in axes
    )


class LazyBlocks(Source):
    """What dask slices: a view that is read when it is indexed."""

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

    crew, made = CancellableTasks(), []
    for target, data, region in writes:
        view = _view(target, region)
        if view.cells.session is not None:
            view.cells.session.writer()
        made.append(_tasks(view, data, fields, crew, compute=False)[0])
    if len(made) > 1 and not any(
        hasattr(each, "expr") for each in made
    ):  # made shorter apart, they would share nothing
        made = [part for each in made for part in each.to_delayed(optimize_graph=False).ravel().tolist()]
    return delayed(_nothing)(*made)


def write_together(writes: Iterable[tuple[Array | View, Any, Any]], fields: Any = None) -> None:
    """:func:`write` of several ``(target, data, region)`` at once: what their graphs share is computed once.

    Where tasks go to other processes, which would not find the cells (of one file, or behind the last row), this one
    stores the blocks as they are computed.
    """
    pairs = [(_view(target, region), data) for target, data, region in writes]
    sessions = [session for view, _ in pairs if (session := view.cells.session) is not None]
    for session in sessions:
        session.writer()
    elsewhere = _is_elsewhere()
    if elsewhere and any(_is_known_here_alone(view) for view, _ in pairs):
        _write_here([(view, _fitting(data, view, True)) for view, data in pairs], fields)
    elif pairs:
        crew = CancellableTasks()
        tasks = [_tasks(view, data, fields, crew) for view, data in pairs]
        crew.compute(*[written for written, _ in tasks])
        if counting.watchers and elsewhere:
            for _, made in tasks:
                counting.done(made.npartitions, made.nbytes, written=True)
    for session in sessions:
        session.version.renew()


def _tasks(view: View, data: Any, fields: Any, crew: CancellableTasks, *, compute: bool = True) -> tuple[Any, Any]:
    """Return a dask array whose tasks store the blocks of ``data``, and the data as they are cut for that."""
    data = _fitting(data, view, compute)
    is_own = view.cells.is_published and check_source(data, view)  # rows behind the last are no cells of any source
    data, turn = guarded(data, view, is_own=is_own)
    task = _Put(view.alone(), Cuts.of(data.chunks), fields, turn, crew)
    written = each_block(data, put, task, "hyperslab-write")
    check_travel(task)
    return written, data


def _is_known_here_alone(view: View) -> bool:
    """Return whether other processes would not find the cells: of one file until it is closed, or rows that are
    appended.
    """
    session = view.cells.session
    return session is not None and (session.is_written_whole or not view.cells.is_published)


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
    return Placed(number, require_told(block, cuts, node, block_id), block)


def each_block(data: Any, store: Callable[..., Any], task: Any, name: str) -> Any:
    """A dask array of one cell per block of ``data``, for which ``store(block, task=task, block_id=...)`` is called."""
    return data.map_blocks(
        store,
        task=task,
        name=f"{name}-{uuid4().hex}",
        chunks=tuple((1,) * count for count in data.numblocks),
        meta=np.empty((0,) * data.ndim, bool),
        dtype=bool,
    )


def _nothing(*written: Any) -> None:
    """What is left of the blocks' answers."""


def _view(target: Array | View, region: Any) -> View:
    if isinstance(region, Mapping):
        if not isinstance(target, Array):
            raise Invalid("a view has no dimension names", remedy="give region as a key of positions")
        _check_names(target, region)
        region = tuple(slice(None) if dim is None else region.get(dim, slice(None)) for dim in target.dims)
    key = () if region is None else region
    return target.lazy[key] if isinstance(target, Array) else target[key]


def _fitting(data: Any, view: View, compute: bool) -> Any:
    """The data in the shape of the view, as NumPy's assignment broadcasts."""
    if not is_known(data):
        if not compute:
            remedy = "call compute_chunk_sizes() of the data first, or write at once"
            raise Invalid("chunk sizes that are not known yet cannot be written later", remedy=remedy)
        data = known(data)
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
    new = [None] * (len(shape) - data.ndim)
    cuts = new + [None if grows else sizes for grows, sizes in zip(stretched, data.chunks, strict=True)]
    chunks = tuple(unit if sizes is None else sizes for sizes, unit in zip(cuts, _units(view), strict=True))
    return _dask().broadcast_to(data, shape, chunks=chunks)


def is_known(data: Any) -> bool:
    """Return whether dask knows the lengths of all blocks."""
    return not any(math.isnan(size) for cuts in data.chunks for size in cuts)


def known(data: Any) -> Any:
    """The same data with block lengths that dask knows: its tasks are run once to find them out."""
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


# -- blocks that share a chunk ------------------------------------------------------------------------------------


def _units(view: View) -> tuple[int, ...]:
    """Along each axis of the view the length of what is stored as one; the whole axis where that is not known."""
    grid = view.cells.grid.outer or view.cells.grid
    if view.selection.middle is not None or view.ndim != len(grid.axes):
        return tuple(max(length, 1) for length in view.shape)
    return tuple(
        axis.size if isinstance(axis, FixedAxis) else max(length, 1)
        for axis, length in zip(grid.axes, view.shape, strict=True)
    )


# -- one task -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Put:
    """Where the blocks of one dask array belong."""

    view: View
    cuts: Cuts
    fields: Any
    turn: Turn
    crew: CancellableTasks

    def __dask_tokenize__(self) -> str:
        return uuid4().hex  # no two writes are the same: the cells may have changed between them


def put(block: Any, task: Any = None, block_id: tuple[int, ...] = ()) -> np.ndarray:
    """Write one block; its answer is one cell."""
    extent = require_told(block, task.cuts, task.view.cells.node, block_id)
    with task.crew.at_work(), task.turn.taken():
        task.view[extent].write(block, task.fields)
    return np.ones((1,) * len(extent), bool)


# -- new arrays ---------------------------------------------------------------------------------------------------


def fitted(chunks: Sizes, auto: tuple[int, ...]) -> tuple[int, ...]:
    """Chunk lengths near ``auto`` for a new array that is written by these blocks: each block holds whole chunks."""
    return tuple(_divisor(one_size(sizes), cut) for sizes, cut in zip(chunks, auto, strict=True))


def _divisor(block: int | None, auto: int) -> int:
    """The longest length up to ``auto`` that divides the block, if it is not much shorter; else ``auto``."""
    if block is None or block <= auto:
        return block or auto
    return next((size for size in _downwards(auto) if block % size == 0), auto)


def _downwards(auto: int) -> Iterator[int]:
    return iter(range(auto, max(auto // 4, 1) - 1, -1))
