"""``diff``: two datasets of any formats, node by node, attribute by attribute, cell by cell."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from heapq import nsmallest
from math import gcd, prod
from typing import Any

import numpy as np

from hyperslab.api import Target
from hyperslab.array.attributes import with_missing
from hyperslab.array.session import OpenDataset, open_session
from hyperslab.chunks.boxes import AxisCut, Box, box_counts, boxes, source_edges
from hyperslab.chunks.memory import largest_chunk, settings_within
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.chunks.sparse_io import parts, read_box
from hyperslab.errors import HyperslabError, Invalid, NodeNotFound, NotFound, Problem
from hyperslab.formats.base import Feature, Moment
from hyperslab.formats.enclosing import find_above
from hyperslab.formats.netcdf.data_model import default_fill
from hyperslab.formats.opening import allow_places, locate_version
from hyperslab.group import Group
from hyperslab.group.choice import Choice, Patterns, Where
from hyperslab.group.walk import arrays_of
from hyperslab.integrity.report import Report
from hyperslab.model.attrs import FILL_VALUE, Attrs
from hyperslab.model.cells import Values, same_type
from hyperslab.model.differences import differences
from hyperslab.model.nesting import flattened
from hyperslab.model.paths import child, outward
from hyperslab.model.spec import ArraySpec, Node
from hyperslab.selection.region import Range
from hyperslab.stores.endpoints import Options, two_sides
from hyperslab.stores.location import Location

# -- the cells of two arrays of one shape, box by box by threads in bounded memory -------------------------------------

# Cells that differ which a report names, of each array.
_FIRST = 3
Place = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two arrays."""

    source: ChunkSource
    spec: ArraySpec


@dataclass(eq=False)
class Comparison:
    """Two arrays of one shape. Afterwards: how many cells differ, the first of them with both values, what could not be
    read (the first error of each side)."""

    a: Side
    b: Side
    memory: int
    settings: Settings
    differing: int = 0
    first: list[tuple[Place, Any, Any]] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    unread_cells: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._itemsize = max(self.a.spec.numpy_dtype.itemsize, self.b.spec.numpy_dtype.itemsize, 1)
        self._chunk_cells = max(largest_chunk(side.source.grid) for side in (self.a, self.b))

    def run(self) -> None:
        """Compare all cells."""
        if 0 in self.a.spec.shape:
            return
        grid = self.a.source.grid.outer or self.a.source.grid
        cuts = [
            AxisCut(axis, source_edges(other, Range(0, other.length, 1)))
            for axis, other in zip(grid.axes, self.b.source.grid.axes, strict=True)
        ]
        # A thread holds the cells of both sides, what is made of them to compare them, and a chunk of each side.
        counts = box_counts(cuts, self._itemsize, self.memory // 8)
        cells = prod(cut.longest(count) for cut, count in zip(cuts, counts, strict=True))
        nbytes = (4 * cells + 2 * self._chunk_cells) * self._itemsize
        workers = max(1, min(self.settings.threads, self.memory // nbytes))
        each_batch(self._compare, boxes(cuts, counts), workers)

    def _compare(self, box: Box) -> None:
        for part in parts(box, max(self.memory // (4 * self._itemsize), 1)):
            ours = self._read("A", self.a, part)
            theirs = self._read("B", self.b, part)
            if ours is None or theirs is None:
                with self._lock:
                    self.unread_cells += prod(cut.stop - cut.start for cut in part)
                continue
            other = unequal(ours, theirs)
            if not other.any():
                continue
            flat = np.flatnonzero(other)
            first = []
            for number in flat[:_FIRST].tolist():
                local = tuple(int(i) for i in np.unravel_index(number, other.shape)) if other.shape else ()
                place = tuple(cut.start + i for cut, i in zip(part, local, strict=True))
                first.append((place, ours[local], theirs[local]))
            with self._lock:
                self.differing += len(flat)
                self.first = nsmallest(_FIRST, [*self.first, *first], key=lambda entry: entry[0])

    def _read(self, name: str, side: Side, part: Box) -> Values | None:
        try:
            nbytes = self._chunk_cells * self._itemsize
            return read_box(
                side.source, side.spec, part, settings_within(side.source, self.settings, nbytes, self.memory)
            )
        except HyperslabError as error:
            with self._lock:
                self.unread.setdefault(name, f"{error.said} [{error.place}]")
            return None


def unequal(a: Values, b: Values) -> Values:
    """Return where two arrays of one shape differ: by their bits where they are of one type, else by their values.

    The order of bytes means nothing; NaN equals NaN of another type.
    """
    if a.dtype.names is not None and a.dtype.names == b.dtype.names:
        found = np.zeros(a.shape, bool)
        for name in a.dtype.names:
            x, y = a[name], b[name]
            # of two fields one may be n chars, and the other text
            x, y = (_join_chars(p) if p.ndim > q.ndim else p for p, q in ((x, y), (y, x)))
            if x.shape == y.shape:
                other = unequal(x, y)
                found |= other.any(axis=tuple(range(a.ndim, other.ndim)))
            else:
                found[...] = True
        return found
    if a.dtype == object or b.dtype == object:
        pairs = zip(a.reshape(-1), b.reshape(-1), strict=True)
        return np.array([not _same_object(x, y) for x, y in pairs], bool).reshape(a.shape)
    x, y = _native(a), _native(b)
    if x.dtype != y.dtype or x.dtype.kind == "T":
        both_nan = np.isnan(x) & np.isnan(y) if x.dtype.kind in "fc" and y.dtype.kind in "fc" else np.False_
        try:
            return np.asarray((x != y) & ~both_nan, bool)
        except (TypeError, ValueError):  # types that do not compare
            return np.ones(a.shape, bool)
    size = x.dtype.itemsize
    if not size or not x.size:
        return np.zeros(a.shape, bool)
    # 80 bits each, behind them whatever was there.
    is_padded = x.dtype.char in "gG" and np.finfo(np.longdouble).nmant == 63
    # Words of as many bytes as divide a cell: bytes took ten times as long.
    word = np.dtype(f"u{1 if is_padded else gcd(size, 8)}")
    words, others = (np.ascontiguousarray(each).reshape(-1).view(word) for each in (x, y))
    differing = words != others
    if is_padded:
        differing = differing.reshape(x.size, -1, np.dtype("g").itemsize)[:, :, :10].any(axis=(1, 2))
    elif word.itemsize < size:
        differing = differing.reshape(x.size, -1).any(axis=1)
    return np.asarray(differing.reshape(a.shape), bool)


def _join_chars(chars: Values) -> Values:
    if chars.dtype != np.dtype("S1") or not chars.shape[-1]:
        return chars
    return np.ascontiguousarray(chars).view(f"S{chars.shape[-1]}")[..., 0]


def _native(values: Values) -> Values:
    return values if values.dtype.kind == "T" else values.astype(values.dtype.newbyteorder("="), copy=False)


def _same_object(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and not unequal(a, b).any()
    return bool(type(a) is type(b) and a == b)


# Bytes of cells in flight, as many as a conversion takes.
MEMORY = 256 << 20


@dataclass(frozen=True, slots=True)
class CellsDiffer(Problem):
    """Cells of an array that differ: how many of how many, and the first places with the value in A and in B."""

    differing: int = 0
    compared: int = 0
    first: tuple[tuple[tuple[int, ...], Any, Any], ...] = ()


class Differences(Report):
    """The differences between A and B; false when nothing does. ``arrays`` and ``cells``: how many were compared."""

    def __init__(self, problems: Iterable[Problem] = (), *, url: str, arrays: int = 0, cells: int = 0) -> None:
        super().__init__(problems, url=url, deep=True)
        self.arrays = arrays
        self.cells = cells

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (list(self), self.url, self.arrays, self.cells)


def _rebuild(problems: list[Problem], url: str, arrays: int, cells: int) -> Differences:
    return Differences(problems, url=url, arrays=arrays, cells=cells)


def diff(
    a: Target,
    b: Target,
    *,
    cells: bool = True,
    variables: Patterns | None = None,
    exclude: Patterns | None = None,
    where: Where | None = None,
    memory: int = MEMORY,
    storage_options: Options | tuple[Options, Options] = None,
    at: Moment | tuple[Moment | None, Moment | None] | None = None,
    allow_external: Sequence[str] | bool = (),
    workers: int | None = None,
) -> Differences:
    """Find what differs between datasets ``a`` and ``b``: nodes, attributes, types, dimensions, fill values, cells.

    Each problem says how B differs from A. Cells are compared by their bits (by their values where the types differ),
    chunk by chunk within ``memory`` bytes; ``cells=False`` leaves them out. How arrays are cut and encoded, and the
    order of names, mean nothing. A node or chunk that cannot be read is a difference and ends nothing. ``variables``,
    ``exclude``, ``where``: these alone, as for ``convert``, by the attributes that they have in A, else in B.
    ``storage_options``: for places in the network, or a pair of them: those of A and of B. ``at``: a moment of which A
    is the version, as for ``open``, or a pair of them. ``allow_external``: places that the references of both may lead
    to, as for ``open``; Invalid where neither has any.
    """
    settings = Settings(workers=workers, cache_bytes=0)
    with ExitStack() as stack:
        sides = []
        moments = at if isinstance(at, tuple) else (at, None)
        places = _allow_both(two_sides(a, b, storage_options), allow_external)
        for place, moment in zip(places, moments, strict=True):
            if (found := find_above(place)) is not None:
                remedy = (
                    "compare the whole, or convert the node to a dataset of its own (path=, --path) and compare that"
                )
                raise NotFound("diff takes whole datasets", url=found[0].url, node=found[1], remedy=remedy)
            session = open_session(locate_version(place, moment), "r", None, settings, {})
            stack.callback(session.reader.close)
            sides.append(session)
        choice = Choice.of(variables, exclude, where)
        wanted = _wanted_nodes(sides, choice) if choice else None
        job = _Diff(sides[0], sides[1], settings, memory if cells else 0, wanted)
        problems = list(flattened(job.compare_nodes("")))
        return Differences(problems, url=f"{sides[0].url} {sides[1].url}", arrays=job.arrays, cells=job.cells)


def _allow_both(places: tuple[Location, Location], allowed: Sequence[str] | bool) -> tuple[Location, Location]:
    """Return the two places with those that references of both may lead to; Invalid where neither has references."""
    a, b = (allow_places(place, {"allow_external": allowed}) for place in places)
    if allowed and (a, b) == places:
        message = "allow_external: neither dataset has references, and diff follows no links"
        raise Invalid(message, url=places[0].url, remedy="leave it out")
    return a, b


def _wanted_nodes(sides: Sequence[OpenDataset], choice: Choice) -> frozenset[str]:
    """Return the paths of the arrays that are chosen, of those that cannot be read and may be, and of all groups around
    them."""
    known: dict[str, Attrs] = {}
    unread: dict[str, HyperslabError] = {}
    for side in sides:
        if not side.reader.node("").is_group:
            message = "variables are chosen of datasets of several arrays, this is one"
            raise Invalid(message, url=side.url, remedy="compare it without a choice")
        for path, array in arrays_of(Group(side, ""), unread):
            known.setdefault(path, array.spec.attrs)
    damaged = {path for path in unread if choice.may_choose(path)}
    try:
        chosen = choice.choose(known)
    except NodeNotFound as error:
        if not damaged:
            raise error.locate(url=sides[0].url) from None
        chosen = []
    return frozenset(group for path in (*chosen, *damaged) for group in outward(path))


@dataclass
class _Diff:
    """Two open datasets. ``memory`` 0: no cells. ``wanted``: nodes, those that hold any of them included; None: all."""

    a: OpenDataset
    b: OpenDataset
    settings: Settings
    memory: int
    wanted: frozenset[str] | None = None
    arrays: int = 0
    cells: int = 0

    def compare_nodes(self, path: str) -> Generator[object]:
        """Yield how the node at ``path`` and all below it differ."""
        nodes: list[Node] = []
        for letter, side in (("A", self.a), ("B", self.b)):
            try:
                nodes.append(side.reader.node(path))
            except HyperslabError as error:
                kind = "missing-node" if isinstance(error, NodeNotFound) else "unreadable-node"
                yield Problem(path, kind, f"cannot be read in {letter}: {error.said}")
        if len(nodes) < 2:
            return
        if self.wanted is None or not all(node.is_group for node in nodes):
            yield from self._compare(path, *nodes)
        if all(node.is_group for node in nodes):
            yield self._compare_children(path)

    def _compare_children(self, path: str) -> Generator[object]:
        names: list[list[str]] = []
        for letter, side in (("A", self.a), ("B", self.b)):
            try:
                below = side.reader.children(path)
                names.append([name for name in below if self.wanted is None or child(path, name) in self.wanted])
            except HyperslabError as error:
                yield Problem(path, "unreadable-node", f"what lies below cannot be listed in {letter}: {error.said}")
        if len(names) < 2:
            return
        ours, theirs = names
        for name in ours:
            if name in theirs:
                yield self.compare_nodes(child(path, name))
            else:
                yield Problem(child(path, name), "missing-node", "only A has this node")
        for name in theirs:
            if name not in ours:
                yield Problem(child(path, name), "new-node", "only B has this node")

    def _both(self, feature: Feature) -> bool:
        return feature in self.a.format.features and feature in self.b.format.features

    def _compare(self, path: str, ours: Node, theirs: Node) -> Iterator[Problem]:
        if ours.is_link and ours != theirs:
            yield Problem(path, "link", f"{_shown(theirs)} in place of {_shown(ours)}")
            return
        ours, theirs = _with_marker(self.a, ours, theirs), _with_marker(self.b, theirs, ours)
        # two formats may tell char and string apart by turns; where they differ, it means nothing
        texts = self.a.format.name == self.b.format.name
        yield from differences(path, ours, theirs, dims=self._both(Feature.DIMENSIONS), either=True, texts=texts)
        if ours.is_group and theirs.is_group and self._both(Feature.UNLIMITED):
            new = {dim.name for dim in theirs.dims if dim.unlimited} - {dim.name for dim in ours.dims if dim.unlimited}
            for name in sorted(new):
                yield Problem(path, "dimensions", f"{name!r} is unlimited now")
        if ours.is_array and theirs.is_array:
            yield from self._compare_arrays(path, ours, theirs)

    def _compare_arrays(self, path: str, ours: ArraySpec, theirs: ArraySpec) -> Iterator[Problem]:
        self.arrays += 1
        yield from _compare_fill_values(path, ours, theirs)
        if not self.memory or ours.shape != theirs.shape:
            return
        try:
            a, b = Side(self.a.reader.chunks(path), ours), Side(self.b.reader.chunks(path), theirs)
        except HyperslabError as error:
            yield Problem(path, "unreadable-cells", error.said)
            return
        seen = Comparison(a, b, self.memory, self.settings)
        seen.run()
        size = int(np.prod(ours.shape, dtype=object))
        self.cells += size - seen.unread_cells
        for name, reason in sorted(seen.unread.items()):
            yield Problem(path, "unreadable-cells", f"cells cannot be read in {name}: {reason}")
        if seen.differing:
            shown = ", ".join(f"[{', '.join(map(str, place))}] {a} -> {b}" for place, a, b in seen.first)
            more = ", …" if seen.differing > len(seen.first) else ""
            message = f"{seen.differing} of {size} cells differ: {shown}{more}"
            yield CellsDiffer(path, "cells", message, seen.differing, size, tuple(seen.first))


def _with_marker(side: OpenDataset, node: Node, other: Node) -> Node:
    """Return the node with the attribute ``_FillValue`` that its format keeps in the fill value, where the other has
    it."""
    if node.is_array and other.is_array and FILL_VALUE in other.attrs:
        return node.evolve(attrs=with_missing(side, node))
    return node


def _shown(node: Node) -> str:
    return f"the link to {node}" if node.is_link else type(node).__name__


def _compare_fill_values(path: str, ours: ArraySpec, theirs: ArraySpec) -> Iterator[Problem]:
    """Compare fill values where both sides have one that somebody chose; unwritten cells read as them."""
    if ours.fill_value is None or theirs.fill_value is None or not same_type(ours.dtype, theirs.dtype, any_order=True):
        return
    a, b = ours.fill_cell(), theirs.fill_cell()
    if a.shape != b.shape or (unequal(a, b).any() and not (_is_default(ours) and _is_default(theirs))):
        yield Problem(path, "fill-value", f"the fill value is {b[()]}, not {a[()]}")


def _is_default(spec: ArraySpec) -> bool:
    """Return whether a fill value is what formats take where nobody chose one: zero, or netCDF's for the type."""
    return FILL_VALUE not in spec.attrs and (
        not spec.fill_cell().any() or bool(spec.fill_value == default_fill(spec.dtype))
    )
