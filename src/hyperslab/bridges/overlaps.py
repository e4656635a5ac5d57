"""Blocks that would disturb each other: that share a chunk, or are made of cells that others are written over."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from hyperslab.array import View
from hyperslab.chunks.source import Locking, Swaps
from hyperslab.errors import Invalid, Unsupported
from hyperslab.selection.region import Range
from hyperslab.stores.base import Locks

Sizes = tuple[tuple[int, ...], ...]
"""The lengths of the blocks along each axis."""

# -- made of themselves -------------------------------------------------------------------------------------------


class Source:
    """What a layer of a graph, or a step of an expression, reads blocks of."""


_SOURCES: WeakValueDictionary[str, Source] = WeakValueDictionary()
_MADE_OF: WeakKeyDictionary[Source, tuple[tuple[str, str], Sizes]] = WeakKeyDictionary()


def remember(layer: str, source: Source, view: View, chunks: Sizes) -> None:
    """The layer of a graph that holds ``source`` reads the view's array by these blocks."""
    _SOURCES[layer] = source
    _MADE_OF[source] = ((view.cells.url, view.cells.node), chunks)


def check_source(data: Any, view: View) -> None:
    """Invalid when blocks would be read after others were written over what they are made of."""
    url, node = view.cells.url, view.cells.node
    read = _read_by_expression if hasattr(data, "expr") else _read_by_graph
    chunks, cell_by_cell = read(data, (url, node))
    if chunks and not (cell_by_cell and _is_all(view) and chunks == {data.chunks}):
        remedy = "write to another array, or persist() or compute() the data first"
        raise Invalid("the data is made of the array that it is written to", node=node, url=url, remedy=remedy)


def _read_by_graph(data: Any, place: tuple[str, str]) -> tuple[set[Sizes], bool]:
    """By which blocks the data is made of the array at ``place``, and whether each of its own is of one of those."""
    graph = data.__dask_graph__()
    layers: Mapping[str, Any] = getattr(graph, "layers", {})
    made_of = {name: _MADE_OF[_SOURCES[name]] for name in layers if name in _SOURCES}
    same = {name: chunks for name, (where, chunks) in made_of.items() if where == place}
    derived = _derived(graph, set(same))
    return set(same.values()), all(_keeps_places(layers[name], derived) for name in derived)


def _read_by_expression(data: Any, place: tuple[str, str]) -> tuple[set[Sizes], bool]:
    """The same of an array under ``array.query-planning``."""
    steps = {step._name: step for step in data.expr.walk()}
    arrays = {name: getattr(step, "array", None) for name, step in steps.items()}
    made_of = {name: _MADE_OF[array] for name, array in arrays.items() if isinstance(array, Source)}
    same = {name: chunks for name, (where, chunks) in made_of.items() if where == place}
    derived = [
        step for name, step in steps.items() if name not in same and any(below._name in same for below in step.walk())
    ]
    return set(same.values()), all(type(step).__name__ == "Elemwise" for step in derived)


def _is_all(view: View) -> bool:
    """Whether the view is the array, cell by cell."""
    forward = all(isinstance(part, Range) and part.step == 1 for part in view.selection.region.axes)
    return forward and view.selection.middle is None and view.shape == view.cells.spec.shape


def _derived(graph: Any, sources: set[str]) -> set[str]:
    """The layers of a graph that are made of these ones."""
    found = set(sources)
    while more := {name for name, needs in graph.dependencies.items() if name not in found and found & set(needs)}:
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
