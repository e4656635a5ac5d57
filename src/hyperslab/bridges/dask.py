"""dask: stored arrays as dask arrays, and dask arrays into stored ones, block by block, under every scheduler.

A task carries the URL and the options of the dataset (see :mod:`hyperslab.array.origin`), never an open handle, and
reads or writes by the thread that runs it alone: the scheduler sees to it that there are enough of those.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any
from uuid import uuid4

import numpy as np

from hyperslab.array import Array, View
from hyperslab.array.scattering import is_sparse
from hyperslab.bridges.crews import Crew
from hyperslab.bridges.extras import library
from hyperslab.bridges.overlaps import Sizes, Source, Turn, check_source, guarded
from hyperslab.chunks.grid import FixedAxis, Grid
from hyperslab.errors import Invalid
from hyperslab.model.guessing import meant
from hyperslab.stores import counting


def is_dask_array(value: Any) -> bool:
    """Whether the value is a dask array; dask is not imported to find out."""
    kind = type(value)  # a Delayed claims to have every attribute
    return hasattr(kind, "__dask_graph__") and hasattr(kind, "numblocks") and hasattr(kind, "map_blocks")


def check_travel(handle: Any) -> None:
    """Raise before any task is sent what says that it cannot be; of distributed one would learn that, and not why."""
    if _is_elsewhere():
        pickle.dumps(handle)


def _is_elsewhere() -> bool:
    """Whether tasks are run by other processes."""
    scheduler: Any = import_module("dask.base").get_scheduler()
    return getattr(scheduler, "__module__", None) in ("distributed.client", "dask.multiprocessing")


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
    blocks = Blocks(array.lazy[()].alone(), tokenize(array), cuts)
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


class Blocks(Source):
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
    processes and the dataset cannot.
    """
    from dask.delayed import delayed

    view = _view(target, region)
    session = view.cells.session
    if session is not None:
        session.writer()
    data = _fitting(data, view, compute)
    check_source(data, view)
    data, turn = guarded(data, view)
    crew = Crew()
    task = _Put(view.alone(), Cuts.of(data.chunks), fields, turn, crew)
    written = each_block(data, put, task, "hyperslab-write")
    check_travel(task)
    if not compute:
        return delayed(_nothing)(written)
    crew.compute(written)
    if counting.watchers and _is_elsewhere():
        counting.done(data.npartitions, data.nbytes, written=True)
    if session is not None:
        session.version.renew()
    return None


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


def _nothing(written: Any) -> None:
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
    """Whether dask knows the lengths of all blocks."""
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


def slabs(data: Any) -> Iterator[tuple[tuple[slice, ...], np.ndarray[Any, Any]]]:
    """Where cells go, and the cells computed: one row of blocks after the other, along the axis of most blocks."""
    axis = int(np.argmax(data.numblocks)) if data.ndim else 0
    cuts = [slice(0, length) for length in data.shape]
    edges = [0, *accumulate(data.chunks[axis])] if data.ndim else [0, 1]
    for start, stop in pairwise(edges):
        place = tuple(slice(start, stop) if i == axis else cut for i, cut in enumerate(cuts))
        block = data[place].compute()
        yield place, np.asarray(block.todense() if is_sparse(block) else block)


# -- one task -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where blocks begin and end, small where they are of one length: every task carries it."""

    shape: tuple[int, ...]
    sizes: tuple[int | tuple[int, ...], ...]

    @classmethod
    def of(cls, chunks: Sizes) -> Cuts:
        """The cuts of a dask array."""
        shape = tuple(map(sum, chunks))
        return cls(shape, tuple(_one_size(sizes) or (0, *accumulate(sizes)) for sizes in chunks))

    def extent(self, block: tuple[int, ...]) -> tuple[slice, ...]:
        """The cells of a block."""
        return tuple(self._along(axis, place) for axis, place in enumerate(block))

    def _along(self, axis: int, place: int) -> slice:
        size = self.sizes[axis]
        if isinstance(size, tuple):
            return slice(size[place], size[place + 1])
        return slice(place * size, min((place + 1) * size, self.shape[axis]))


def _one_size(sizes: tuple[int, ...]) -> int | None:
    """The one length of all blocks but the last, which may be shorter; None when they differ or are empty."""
    first = sizes[0]
    same = all(size == first for size in sizes[:-1]) and 0 < sizes[-1] <= first
    return int(first) if same and first else None


@dataclass(frozen=True, slots=True)
class _Put:
    """Where the blocks of one dask array belong."""

    view: View
    cuts: Cuts
    fields: Any
    turn: Turn
    crew: Crew

    def __dask_tokenize__(self) -> str:
        return uuid4().hex  # no two writes are the same: the cells may have changed between them


def put(block: Any, task: Any = None, block_id: tuple[int, ...] = ()) -> np.ndarray[Any, Any]:
    """Write one block; its answer is one cell."""
    extent = task.cuts.extent(block_id)
    wanted = tuple(part.stop - part.start for part in extent)
    if np.shape(block) != wanted:
        message = f"block {block_id} is of shape {np.shape(block)}, dask had told {wanted}"
        raise Invalid(message, node=task.view.cells.node, remedy="correct the chunks of the dask array")
    with task.crew.at_work(), task.turn.taken():
        task.view[extent].write(block, task.fields)
    return np.ones((1,) * len(wanted), bool)


# -- new arrays ---------------------------------------------------------------------------------------------------


def fitted(chunks: Sizes, auto: tuple[int, ...]) -> tuple[int, ...]:
    """Chunk lengths near ``auto`` for a new array that is written by these blocks: each block holds whole chunks."""
    return tuple(_divisor(_one_size(sizes), cut) for sizes, cut in zip(chunks, auto, strict=True))


def _divisor(block: int | None, auto: int) -> int:
    """The longest length up to ``auto`` that divides the block, if it is not much shorter; else ``auto``."""
    if block is None or block <= auto:
        return block or auto
    return next((size for size in _downwards(auto) if block % size == 0), auto)


def _downwards(auto: int) -> Iterator[int]:
    return iter(range(auto, max(auto // 4, 1) - 1, -1))
