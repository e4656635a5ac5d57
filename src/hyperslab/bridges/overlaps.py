"""Blocks that would disturb each other: that share a chunk, or are made of cells that others are written over."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from hyperslab.array import Array, View
from hyperslab.chunks.source import Locking, Swaps
from hyperslab.errors import Invalid, Unsupported
from hyperslab.selection.region import Range
from hyperslab.stores.base import Locks

Sizes = tuple[tuple[int, ...], ...]
"""The lengths of the blocks along each axis."""
Place = tuple[str, str]
Sources = dict[str, list[tuple[Place, Sizes | None]]]
"""By layer or step the arrays (URL and node) that it reads, and by which blocks where that is known."""

# -- made of themselves -------------------------------------------------------------------------------------------

_WRAPPERS = ("value", "array", "_array", "_source", "_view")
"""Under these names dask's nodes, xarray's lazy arrays and ours keep what they stand before."""
_DEEPEST = 12


class Source:
    """What dask reads as blocks of lengths ``chunks``: a ``view`` of an array."""

    view: View
    chunks: Sizes


def is_made_of(data: Any, url: str) -> bool:
    """Whether a dask array reads cells of the dataset at ``url``."""
    found = _by_expression(data) if hasattr(data, "expr") else _by_layer(data.__dask_graph__())
    return any(place[0] == _true(url) for values in found.values() for place, _ in values)


def check_source(data: Any, view: View) -> None:
    """Invalid when blocks would be read after others were written over what they are made of."""
    read = _read_by_expression if hasattr(data, "expr") else _read_by_graph
    chunks, cell_by_cell = read(data, _place(view))
    if chunks and not (cell_by_cell and _is_all(view) and chunks == {data.chunks}):
        remedy = "write to another array, or persist() or compute() the data first"
        url, node = view.cells.url, view.cells.node
        raise Invalid("the data is made of the array that it is written to", node=node, url=url, remedy=remedy)


def _place(array: Array | View) -> Place:
    return (_true(array.url), array.path) if isinstance(array, Array) else (_true(array.cells.url), array.cells.node)


def _true(url: str) -> str:
    """A folder may have several names."""
    return os.path.realpath(url) if os.path.isabs(url) else url


def _by_layer(graph: Any) -> Sources:
    return {name: list(_sources(_values(layer))) for name, layer in _layers(graph).items()}


def _by_expression(data: Any) -> Sources:
    held = {step._name: [value for value in step.operands if not hasattr(value, "walk")] for step in data.expr.walk()}
    return {name: list(_sources(values)) for name, values in held.items()}


def _layers(graph: Any) -> Mapping[str, Any]:
    layers: Mapping[str, Any] = getattr(graph, "layers", {"": graph})
    return layers


def _values(layer: Any) -> Iterator[Any]:
    """What the tasks of a layer hold; of one that is not unrolled, what all its tasks share."""
    if hasattr(layer, "indices"):
        yield from (value for value, axes in layer.indices if axes is None)
        return
    for task in layer.values():
        yield task
        yield from getattr(task, "args", task if isinstance(task, tuple) else ())


def _sources(values: Iterable[Any]) -> Iterator[tuple[Place, Sizes | None]]:
    """The arrays among the values, also behind what others have wrapped around them."""
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
    """By which blocks the data is made of the array at ``place``, and whether each of its own is of one of those."""
    graph = data.__dask_graph__()
    layers, same = _layers(graph), _of_place(_by_layer(graph), place)
    derived = _derived(graph, set(same))
    apart = all(len(layers[name]) == 1 for name in same)  # a layer of the array alone, none of tasks that are fused
    return set().union(*same.values()), apart and all(_keeps_places(layers[name], derived) for name in derived)


def _read_by_expression(data: Any, place: Place) -> tuple[set[Sizes | None], bool]:
    """The same of an array under ``array.query-planning``."""
    same = _of_place(_by_expression(data), place)
    derived = [
        step
        for step in data.expr.walk()
        if step._name not in same and any(below._name in same for below in step.walk())
    ]
    return set().union(*same.values()), all(type(step).__name__ == "Elemwise" for step in derived)


def _of_place(sources: Sources, place: Place) -> dict[str, set[Sizes | None]]:
    """The layers or steps that read one array, and by which blocks."""
    found = {name: {chunks for where, chunks in values if where == place} for name, values in sources.items()}
    return {name: chunks for name, chunks in found.items() if chunks}


def _is_all(view: View) -> bool:
    """Whether the view is the array, cell by cell."""
    forward = all(isinstance(part, Range) and part.step == 1 for part in view.selection.region.axes)
    return forward and view.selection.middle is None and view.shape == view.cells.spec.shape


def _derived(graph: Any, sources: set[str]) -> set[str]:
    """The layers of a graph that are made of these ones."""
    found = set(sources)
    needed: Mapping[str, Any] = getattr(graph, "dependencies", {})
    while more := {name for name, needs in needed.items() if name not in found and found & set(needs)}:
        found |= more
    return found - sources


def _keeps_places(layer: Any, derived: set[str]) -> bool:
    """Whether each block of a layer is made of the blocks in its own place alone, as in ``a.to_dask() + 1``."""
    out = getattr(layer, "output_indices", None)
    return out is not None and all(
        axes is not None and tuple(axes) == tuple(out)
        for name, axes in layer.indices
        if isinstance(name, str) and name in derived
    )


# -- sharing chunks -----------------------------------------------------------------------------------------------


def guarded(data: Any, view: View) -> tuple[Any, Turn]:
    """The data cut so that no two tasks change one chunk, where nothing else keeps them apart; else as it is.

    Where it cannot be cut so (a negative step, say), the tasks of this process take turns.
    """
    cells = view.cells
    store = getattr(cells.session.reader, "store", None) if cells.session is not None else None
    locks = isinstance(cells.source, Locking) and (store is None or isinstance(store, Locks))
    if locks or isinstance(cells.source, Swaps):
        return data, Turn(None)
    cuts = _whole_units(view)
    if cuts is None:
        return data, Turn(threading.Lock())
    return data.rechunk(_merged(data.chunks, cuts)), Turn(None)


def _whole_units(view: View) -> list[set[int]] | None:
    """Where stored chunks end, counted in cells of the view along each axis; None when they do not lie in order."""
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


def _merged(chunks: Sizes, allowed: list[set[int]]) -> Sizes:
    """The block lengths without the cuts that are not ``allowed``."""
    merged = []
    for sizes, cuts in zip(chunks, allowed, strict=True):
        stop = sum(sizes)
        edges = [0, *(edge for edge in accumulate(sizes) if edge in cuts and edge != stop), stop]
        merged.append(tuple(b - a for a, b in pairwise(edges)))
    return tuple(merged)


@dataclass(frozen=True, slots=True)
class Turn:
    """What keeps tasks of one process apart, if anything must; it stays in that process."""

    lock: Any

    def taken(self) -> AbstractContextManager[Any]:
        """Hold it."""
        return nullcontext() if self.lock is None else self.lock

    def __reduce__(self) -> tuple[Any, ...]:
        if self.lock is not None:
            message = "blocks that share chunks of this store cannot be written by several processes"
            raise Unsupported(message, remedy="write by threads, or select with positive steps")
        return Turn, (None,)
