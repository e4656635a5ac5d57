"""Blocks that would disturb each other: that share a chunk, or are made of cells that others are written over."""

from __future__ import annotations

import math
import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from hyperslab.array import Array, View
from hyperslab.errors import Invalid, Unsupported
from hyperslab.selection.region import Range

Sizes = tuple[tuple[int, ...], ...]
"""The lengths of the blocks along each axis."""
Place = tuple[str, str]
Sources = dict[str, list[tuple[Place, Sizes | None]]]
"""By layer or step the arrays (URL and node) that it reads, and by which blocks where that is known."""

# -- made of themselves -------------------------------------------------------------------------------------------

# Under these names dask's nodes, xarray's lazy arrays and ours keep what they stand before.
_WRAPPERS = ("value", "array", "_array", "_source", "_view")
# Wrappers around each other that are looked behind, so that one which stands before itself ends the search.
_DEEPEST = 12


class Source:
    """An array that dask reads as blocks of lengths ``chunks``: a ``view`` of a stored one."""

    view: View
    chunks: Sizes


def is_made_of(data: Any, url: str) -> bool:
    """Return True if a dask array reads cells of the dataset at ``url``."""
    found = _by_expression(data) if hasattr(data, "expr") else _by_layer(data.__dask_graph__())
    return any(place[0] == _true(url) for values in found.values() for place, _ in values)


def check_source(data: Any, view: View) -> bool:
    """Return True if the data is made of the array that it is for.

    Invalid when blocks would be read after others were written over what they are made of.
    """
    read = _read_by_expression if hasattr(data, "expr") else _read_by_graph
    chunks, cell_by_cell = read(data, _place(view))
    if chunks and not (cell_by_cell and _is_all(view) and chunks == {data.chunks}):
        remedy = "write to another array, or persist() or compute() the data first"
        url, node = view.cells.url, view.cells.node
        raise Invalid("the data is made of the array that it is written to", node=node, url=url, remedy=remedy)
    return bool(chunks)


def _place(array: Array | View) -> Place:
    return (_true(array.url), array.path) if isinstance(array, Array) else (_true(array.cells.url), array.cells.node)


def _true(url: str) -> str:
    """Return the one name of a folder that may have several."""
    return os.path.realpath(url) if os.path.isabs(url) else url


def _by_layer(graph: Any) -> Sources:
    return {name: list(_sources(_values(layer))) for name, layer in _layers(graph).items()}


def _by_expression(data: Any) -> Sources:
    steps = {step._name: step.operands for step in data.expr.walk()}
    return {name: list(_sources(each for each in own if not hasattr(each, "walk"))) for name, own in steps.items()}


def _layers(graph: Any) -> Mapping[str, Any]:
    layers: Mapping[str, Any] = getattr(graph, "layers", {"": graph})
    return layers


def _values(layer: Any) -> Iterator[Any]:
    """Yield the values in the tasks of a layer; of one that is not unrolled, those that all its tasks share."""
    if hasattr(layer, "indices"):
        yield from (value for value, axes in layer.indices if axes is None)
        return
    for task in layer.values():
        yield task
        yield from getattr(task, "args", task if isinstance(task, tuple) else ())


def _sources(values: Iterable[Any]) -> Iterator[tuple[Place, Sizes | None]]:
    """Yield the arrays among the values, also behind what others have wrapped around them."""
    for value in values:
        inner = value
        for _ in range(_DEEPEST):
            if isinstance(inner, Source):
                yield _place(inner.view), inner.chunks
            elif isinstance(inner, Array | View):
                yield _place(inner), None
            else:
                inner = next((getattr(inner, name) for name in _WRAPPERS if hasattr(inner, name)), None)
                continue
            break


def _read_by_graph(data: Any, place: Place) -> tuple[set[Sizes | None], bool]:
    """Return by which blocks the data is made of the array at ``place``, and whether each of its own is made of the one
    in its place alone, as in ``a.to_dask() + 1``."""
    graph = data.__dask_graph__()
    layers, same = _layers(graph), _of_place(_by_layer(graph), place)
    needed: Mapping[str, Any] = getattr(graph, "dependencies", {})
    known = set(same)
    while more := {name for name, needs in needed.items() if name not in known and known & set(needs)}:
        known |= more
    derived = known - set(same)

    def keeps_places(layer: Any) -> bool:
        out = getattr(layer, "output_indices", None)
        inner = () if out is None else layer.indices
        axes = [axes for name, axes in inner if isinstance(name, str) and name in derived]
        return out is not None and all(each is not None and tuple(each) == tuple(out) for each in axes)

    is_apart = all(len(layers[name]) == 1 for name in same)  # a layer of the array alone, none of tasks that are fused
    return set().union(*same.values()), is_apart and all(keeps_places(layers[name]) for name in derived)


def _read_by_expression(data: Any, place: Place) -> tuple[set[Sizes | None], bool]:
    """Return the same as :func:`_read_by_graph` of an array under ``array.query-planning``."""
    same = _of_place(_by_expression(data), place)
    derived = [
        step
        for step in data.expr.walk()
        if step._name not in same and any(below._name in same for below in step.walk())
    ]
    return set().union(*same.values()), all(type(step).__name__ == "Elemwise" for step in derived)


def _of_place(sources: Sources, place: Place) -> dict[str, set[Sizes | None]]:
    """Return the layers or steps that read one array, and by which blocks."""
    found = {name: {chunks for where, chunks in values if where == place} for name, values in sources.items()}
    return {name: chunks for name, chunks in found.items() if chunks}


def _is_all(view: View) -> bool:
    """Return True if the view is the array, cell by cell."""
    forward = all(isinstance(part, Range) and part.step == 1 for part in view.selection.region.axes)
    return forward and view.selection.middle is None and view.shape == view.cells.spec.shape


# -- sharing chunks -----------------------------------------------------------------------------------------------

# Bytes of a block that small ones are merged into: as long as dask makes its own (array.chunk-size).
_ROOM = 128 << 20


def guarded(data: Any, view: View, *, is_own: bool) -> tuple[Any, Turn]:
    """Return the data cut so that no two tasks change one chunk, where nothing else keeps them apart.

    Elsewhere small blocks are merged so that a chunk is written a few times, not once by each of them. Where the data
    cannot be cut so (a negative step, say), the tasks of this process take turns. ``is_own``: the data is made of the
    array itself, so that each of its blocks must stay in one piece.
    """
    cells = view.cells
    is_apart = cells.source.traits.locks or cells.source.traits.swaps
    cuts = _whole_units(view)
    if cuts is None:
        return data, Turn(None if is_apart else threading.Lock())
    if is_apart:
        return (data if is_own else merged(data, view)), Turn(None)
    chunks = tuple(
        _merged(sizes, [edge for edge in accumulate(sizes) if edge in along] if is_own else sorted(along), sum(sizes))
        for sizes, along in zip(data.chunks, cuts, strict=True)
    )
    return _recut(data, chunks, view), Turn(None)


def merged(data: Any, view: View) -> Any:
    """Return the data with small blocks merged to those of the view's chunks, as far as there is room for in memory."""
    cuts = _whole_units(view)
    if cuts is None or 0 in data.shape:
        return data
    chunks = list(data.chunks)
    for axis, along in enumerate(cuts):
        others = math.prod(max(sizes) for i, sizes in enumerate(chunks) if i != axis)
        chunks[axis] = _merged(chunks[axis], sorted(along), _ROOM // max(others * data.dtype.itemsize, 1))
    return _recut(data, tuple(chunks), view)


def _whole_units(view: View) -> list[set[int]] | None:
    """Return the ends of stored chunks, counted in cells of the view along each axis; None when they do not lie in
    order."""
    selection, grid = view.selection, view.cells.grid.outer or view.cells.grid
    if selection.middle is not None or view.ndim != len(grid.axes):
        return None
    found = []
    for axis, part in zip(grid.axes, selection.region.axes, strict=True):
        if not isinstance(part, Range) or part.step != 1:
            return None
        first, last = axis.find(part.start), axis.find(part.start + max(part.count - 1, 0))
        found.append({axis.start(i) - part.start for i in range(first + 1, last + 1)})
    return found


def _merged(sizes: tuple[int, ...], cuts: list[int], longest: int) -> tuple[int, ...]:
    """Return block lengths that end at the last of the ``cuts`` before each end of a block, so that there are no more
    of them.

    Ends of blocks between two such cuts stay where what lies between would be longer than ``longest``.
    """
    stop, ends = sum(sizes), list(accumulate(sizes))
    whole = {cuts[place - 1] for end in ends if (place := bisect_right(cuts, end))} | {stop}
    edges, last = [0], 0
    for edge in sorted(whole.union(ends)):
        if edge - edges[-1] > longest and last > edges[-1]:
            edges.append(last)
        if edge in whole and edge > edges[-1]:
            edges.append(edge)
        last = edge
    return tuple(b - a for a, b in pairwise(edges)) or sizes


def _recut(data: Any, chunks: Sizes, view: View) -> Any:
    """Return the data in other blocks; those of other shapes than dask declares raise Invalid: cut, they lost cells."""
    if chunks == data.chunks:
        return data
    cuts, node = Cuts.of(data.chunks), view.cells.node
    checked = data.map_blocks(_check_block, cuts=cuts, node=node, dtype=data.dtype, meta=data._meta)
    return checked.rechunk(chunks)


def _check_block(block: Any, cuts: Any = None, node: str = "", block_id: tuple[int, ...] = ()) -> Any:
    require_shape(block, cuts, node, block_id)
    return block


@dataclass(frozen=True, slots=True)
class Cuts:
    """The edges of blocks, in few bytes where they are of one length, since every task carries them."""

    shape: tuple[int, ...]
    sizes: tuple[int | tuple[int, ...], ...]

    @classmethod
    def of(cls, chunks: Sizes) -> Cuts:
        """Return the cuts of a dask array."""
        shape = tuple(map(sum, chunks))
        return cls(shape, tuple(one_size(sizes) or (0, *accumulate(sizes)) for sizes in chunks))

    def extent(self, block: tuple[int, ...]) -> tuple[slice, ...]:
        """Return the cells of a block."""
        extent = []
        for place, size, length in zip(block, self.sizes, self.shape, strict=True):
            edges = size[place : place + 2] if isinstance(size, tuple) else (place * size, (place + 1) * size)
            extent.append(slice(edges[0], min(edges[1], length)))
        return tuple(extent)


def require_shape(block: Any, cuts: Cuts, node: str, block_id: tuple[int, ...] = ()) -> tuple[slice, ...]:
    """Return the cells of a block. Invalid where it is of another shape than they are."""
    extent = cuts.extent(block_id)
    wanted = tuple(part.stop - part.start for part in extent)
    if np.shape(block) != wanted:
        message = f"block {block_id} is of shape {np.shape(block)}, dask had told {wanted}"
        raise Invalid(message, node=node, remedy="correct the chunks of the dask array")
    return extent


def one_size(sizes: tuple[int, ...]) -> int | None:
    """Return the one length of all blocks but the last, which may be shorter; None when they differ or are empty."""
    first = sizes[0]
    same = all(size == first for size in sizes[:-1]) and 0 < sizes[-1] <= first
    return int(first) if same and first else None


@dataclass(frozen=True, slots=True)
class Turn:
    """The lock under which tasks of one process take turns, None where they need not; it stays in that process."""

    lock: Any

    def taken(self) -> AbstractContextManager[Any]:
        """Hold the lock for the block."""
        return nullcontext() if self.lock is None else self.lock

    def __reduce__(self) -> tuple[Any, ...]:
        if self.lock is not None:
            message = "blocks that share chunks of this store cannot be written by several processes"
            raise Unsupported(message, remedy="write by threads, or select with positive steps")
        return Turn, (None,)
