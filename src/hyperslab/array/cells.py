"""The cells of one array: run a selection through plan, execute and source. What ``Array`` and its views share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.array import references
from hyperslab.array.narrowing import as_rows, has_fields, without_missing
from hyperslab.array.session import OpenDataset
from hyperslab.chunks import execute, sparse_io
from hyperslab.chunks.cache import BlockCache
from hyperslab.chunks.memory import UNASKED_BYTES, require
from hyperslab.chunks.plan import Plan, make_plan
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import HyperslabError, Invalid, Replaced, Unsupported
from hyperslab.model.amounts import counted
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import VlenArray, VlenBytes
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.positional import Dialect, select
from hyperslab.selection.region import PositionList, Range, Region, Selection
from hyperslab.stores.attempts import attempts

Positions = Callable[[Any], Any]  # a key with its labels replaced by positions

CELLS_OF_LARGE_PLAN = 1 << 16  # cells along an axis from which its plan may be large
PLAN_ENTRY_BYTES = 400  # bytes that a plan takes for one chunk of one axis


class CellAccess:
    """One array's cells, read and written by :class:`Selection`. Those of a ``session`` may be pickled."""

    session: OpenDataset | None = None
    is_published = True
    """False of rows that are being appended, which other processes do not find yet."""
    may_shrink = False
    """True where another writer may take rows away, so that fill values at the end of a read are looked into."""
    watch: Callable[[], object] | None = None
    """Gives the stamp of the array's document; None until it is needed."""
    whole_at: object = None
    """The stamp of the document under which the array was last seen to have all its cells."""
    shape: tuple[int, ...] | None = None
    opening: Any = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Open cells that were unpickled when they are first used, in the first of the threads that share them."""
            if self.opening is None or name.startswith("__"):
                raise AttributeError(f"no attribute {name!r}")
            with self.opening:
                if self.shape is not None:
                    opened = open_cells(self.session, self.node, _checked(self.session, self.node, self.shape))
                    self.__dict__.update(vars(opened))
                    self.shape = None
            if name not in self.__dict__:
                raise AttributeError(f"no attribute {name!r}")
            return self.__dict__[name]

    def __init__(
        self, spec: ArraySpec, source: ChunkSource, settings: Settings, cache: BlockCache | None, node: str, url: str
    ) -> None:
        self.spec = spec
        self.source = source
        self.grid = source.grid
        self.settings = settings
        self.cache = cache
        self.node = node
        self.url = url
        self.dtype = spec.numpy_dtype
        self.fill = spec.fill_cell()
        # to the bit: NaN is itself; of text and objects the bytes are those of pointers
        self.fill_bytes = None if self.dtype.hasobject or self.dtype.kind == "T" else self.fill.tobytes()
        self.last_place = (-1,) * len(spec.shape)
        self.references = references.reference_fields(spec.dtype) if self.dtype.hasobject else ()
        plain = source.grid.fixed is not None and self.dtype.kind != "V"  # a void scalar would be a view of the cache
        plain = plain and not self.references
        is_kept = plain and source.traits.stamped and cache is not None and cache.limit
        self.keeps_cells = bool(is_kept)
        """True where the cache may hold decoded chunks."""

    def select_cells(self, key: object, positions: Positions, dialect: Dialect = select) -> Selection:
        """Return the cells that a key selects, whose labels ``positions`` replaces; Invalid names the array."""
        try:
            return dialect(positions(key), self.spec.shape)
        except Invalid as error:
            raise error.locate(url=self.url, node=self.node) from error.__cause__

    def read(self, selection: Selection, out: Values | None = None) -> Any:
        """Return the selected cells: a new array (or scalar), or ``out`` filled (in place where it fits)."""
        try:
            size, limit = prod(selection.shape), self.settings.memory_limit
            if limit is not None or size * self.dtype.itemsize > UNASKED_BYTES:
                require(size * self.dtype.itemsize, limit)
            few = size <= CELLS_OF_LARGE_PLAN  # no axis has more
            plan = make_plan(selection.region, self.grid) if few else self._plan(selection.region)
            straight = type(out) is np.ndarray and selection.middle is None
            fits = straight and out is not None and (out.shape, out.dtype) == (plan.shape, self.dtype)
            canonical = out if out is not None and fits else np.empty(plan.shape, self.dtype)
            if self.spec.sparse is None:
                execute.read(self.source, plan, canonical, self.fill, self.settings, self.cache)
            else:
                sparse_io.read_dense(self.source, plan, canonical, self.fill, self.settings, self.cache)
            if self.may_shrink and canonical.size:
                is_simple = self.fill_bytes is not None  # which needs no call: this is done for every read
                for axis in selection.region.axes:
                    is_simple = is_simple and isinstance(axis, Range) and axis.step > 0
                if is_simple:
                    is_blank = canonical[self.last_place].tobytes() == self.fill_bytes
                else:
                    is_blank = self._ends_in_fill(selection.region, canonical)
                if is_blank and (self.watch is None or self.watch() != self.whole_at):
                    self.raise_if_shrunk()
        except HyperslabError as error:
            raise error.locate(node=self.node, url=self.url) from error.__cause__
        if self.references and self.session is not None:
            references.bind(canonical, self.references, self.session)
        if canonical is out:
            return out
        result = selection.finish(canonical)
        if out is None:
            return result[()] if selection.scalar else result
        out[...] = result
        return out

    # -- rows that another writer has removed --------------------------------------------------------------------------
    # Who shortens an array publishes the shape first, then blanks what lies behind: chunks go, and in the last one that
    # stays cells become the fill value. A reader that knows the longer shape would take these for cells. It blanks from
    # the end, so that of the cells of a read the one that has the highest position on every axis is blank first.
    # Only where that is the fill value the document is looked at: one cell is compared for each read, whatever its
    # chunks, and a document is read once for each of its versions.

    def _ends_in_fill(self, region: Region, cells: Values) -> bool:
        """Return True if the cell of a read that has the highest positions is blank; of points that run together, one
        that has the highest position along an axis."""
        places = []  # of the highest position of each axis
        for axis in region.axes:
            if isinstance(axis, PositionList):
                places.append(int(axis.positions.argmax()))
            else:
                places.append(-1 if axis.step > 0 else 0)
        if not region.coupled:
            return self._is_fill(cells[tuple(places)])
        others = [place for i, place in enumerate(places) if i not in region.coupled]
        return any(self._is_fill(cells[(places[i], *others)]) for i in region.coupled)

    def _is_fill(self, cell: Any) -> bool:
        if self.fill_bytes is None:
            return bool(np.array_equal(cell, self.fill[()]))
        return bool(cell.tobytes() == self.fill_bytes)

    def raise_if_shrunk(self) -> None:
        """Read the array's document anew; Replaced where it is shorter by now, NodeNotFound where it is gone."""
        session = self.session
        if session is None:
            return
        if self.watch is None:
            self.watch = session.reader.watch(self.node)
        stamp = self.watch()  # before the document: what changes between them is looked at again
        session.reader.refresh(self.node)
        known, now = self.spec.shape, session.array(self.node).shape
        if len(now) != len(known) or any(length < before for length, before in zip(now, known, strict=True)):
            raise Replaced(f"rows were removed: the array had the shape {known} and has {now}")
        self.whole_at = object() if stamp is None else stamp

    def cached(self, place: tuple[int, ...]) -> Any:
        """Return one cell from the cache, without a plan, for loops over elements; None when it is not there, or
        nowhere."""
        grid, shape = self.grid.fixed, self.spec.shape
        if not self.keeps_cells or grid is None or len(place) != len(shape):
            return None
        coords, within = [], []
        for i, length, size in zip(place, shape, grid, strict=True):
            if not -length <= i < length:
                return None
            i %= length
            coords.append(i // size)
            within.append(i % size)
        at = tuple(coords)
        cache: Any = self.cache
        if cache.peek((self.source, at)) is None:
            return None
        stamp = self.source.stamp(at)
        block = None if stamp is None else cache.get((self.source, at), stamp)
        if block is None:
            return None
        cell = block[tuple(within)]
        # what may be blank is read as all else, which looks into it
        is_blank = self.may_shrink and self._is_fill(cell)
        return None if is_blank and (self.watch is None or self.watch() != self.whole_at) else cell

    def write(self, selection: Selection, value: Any, fields: Any = None) -> None:
        """Broadcast ``value`` to the selection, as NumPy assigns, and store it; ``fields`` keeps the other fields."""
        try:
            cells = self.as_cells(value) if fields is None else self._as_fields(value, fields)
            values = selection.spread(cells)
            plan = self._plan(selection.region)
            if self.source.traits.transacts:  # what lost against another writer begins again with what is there now
                for attempt in attempts(self.settings.lock_timeout):
                    with attempt:
                        execute.write(self.source, plan, values, self.fill, self.settings, fields)
            else:
                execute.write(self.source, plan, values, self.fill, self.settings, fields)
        except HyperslabError as error:
            raise error.locate(node=self.node, url=self.url) from error.__cause__
        finally:
            if self.session is not None:
                self.session.version.renew()

    def _plan(self, region: Region) -> Plan:
        """Return the plan, once it is known that its entries fit (one per chunk along each axis, at most one per
        cell)."""
        if max(region.shape, default=0) > CELLS_OF_LARGE_PLAN:
            entries = sum([min(axis.count, cut.count) for axis, cut in zip(region.axes, self.grid.axes, strict=True)])
            require(entries * PLAN_ENTRY_BYTES, self.settings.memory_limit)
        return make_plan(region, self.grid)

    def as_cells(self, value: object) -> Values:
        """Return ``value`` as an array of this dtype, cast as NumPy's assignment casts."""
        if isinstance(self.spec.dtype, VlenBytes | VlenArray):
            if isinstance(value, np.ndarray) and value.dtype == object:
                return value
            cell = np.empty((), object)
            if isinstance(self.spec.dtype, VlenArray):  # one 1-D array is a single cell
                cell[()] = np.asarray(value)
            elif isinstance(value, bytes | bytearray):
                cell[()] = bytes(value)
            else:
                return np.asarray(value, object)
            return cell
        if self.references:
            cells = references.as_cells(value) if self.dtype.names is None else as_rows(value, self.dtype)
            return cells if self.session is None else references.leaving(cells, self.references, self.session)
        if self.dtype.names is not None and (isinstance(value, list | tuple) or has_fields(value)):
            return as_rows(value, self.dtype)
        try:
            if self.dtype.kind in "iu" and isinstance(value, int | float | list | tuple):
                return np.asarray(value, self.dtype)  # which refuses numbers of Python's that do not fit
            cells = np.asarray(value)
            if self.dtype.kind in "TUS":
                cells = without_missing(cells)
            return cells.astype(self.dtype, casting="unsafe", copy=False)
        except (TypeError, ValueError, OverflowError) as error:
            message = f"{type(value).__name__} does not fit cells of {self.dtype}: {error}"
            raise Invalid(message, remedy=f"give what NumPy casts to {self.dtype}") from error

    def _as_fields(self, value: object, fields: Any) -> Values:
        """Return what is given for a field alone, or for several."""
        names = [fields] if isinstance(fields, str) else list(fields)
        kinds = [(name, kind) for name, kind in self.references if name in names]
        if isinstance(fields, str):
            if not kinds or self.session is None:
                return np.asarray(value)
            return references.leaving(references.as_cells(value), ((None, kinds[0][1]),), self.session)
        if isinstance(value, list | tuple):
            rows = as_rows(value, np.dtype([(name, self.dtype[name]) for name in names]))
        else:
            rows = np.asarray(value)
        return references.leaving(rows, tuple(kinds), self.session) if kinds and self.session is not None else rows

    def cost(self, selection: Selection) -> ReadPlan:
        """Return what reading the selection would touch."""
        plan = self._plan(selection.region)
        coords = [piece.coords for piece in plan]
        nbytes = self.grid.chunk_cells * self.dtype.itemsize
        return ReadPlan(
            shape=selection.shape,
            nbytes=plan.size * self.dtype.itemsize,
            chunks=len(coords),
            chunk_nbytes=nbytes * len(coords),
            stored_nbytes=self.source.stored_sizes(coords),
            requests=execute.count_requests(self.source, plan, nbytes, self.settings),
        )

    def of_field(self, name: str) -> CellAccess:
        """Return the same cells without the other fields of their structure, where those are stored apart; else
        these."""
        field = None if self.dtype.names is None or name not in self.dtype.names else self.source.of_field(name)
        if field is None:
            return self
        return CellAccess(*field, self.settings, self.cache, self.node, self.url)

    def in_one_thread(self) -> CellAccess:
        """Return the same cells, read and written by the calling thread alone, as a task does that is one of many."""
        settings = replace(self.settings, workers=1)
        cells = CellAccess(self.spec, self.source, settings, self.cache, self.node, self.url)
        cells.session = None if self.session is None else replace(self.session, settings=settings)
        cells.may_shrink, cells.watch, cells.whole_at = self.may_shrink, self.watch, self.whole_at
        return cells

    def __reduce__(self) -> tuple[object, ...]:
        if self.session is None:
            raise Unsupported("cells of no open dataset cannot be pickled", node=self.node, url=self.url)
        shape = self.shape
        return _restore_cells, (self.session, self.node, self.spec.shape if shape is None else shape)


def open_cells(session: OpenDataset, path: str, spec: ArraySpec, source: ChunkSource | None = None) -> CellAccess:
    """Return the cells of the array at ``path`` of an open dataset; ``source``: its chunks, where they are at hand."""
    chunks = session.reader.chunks(path) if source is None else source
    cells = CellAccess(spec, chunks, session.settings, session.cache, path, session.url)
    cells.session = session
    cells.may_shrink = session.reader.may_shrink
    return cells


def _restore_cells(session: OpenDataset, path: str, shape: tuple[int, ...]) -> CellAccess:
    """Return the cells that were pickled when the array had ``shape``; it may have grown since, not shrunk."""
    cells = CellAccess.__new__(CellAccess)
    cells.session, cells.node, cells.shape, cells.opening = session, path, shape, threading.Lock()
    return cells


def _checked(session: OpenDataset, path: str, shape: tuple[int, ...]) -> ArraySpec:
    spec = session.array(path)
    if len(spec.shape) != len(shape) or any(now < then for now, then in zip(spec.shape, shape, strict=True)):
        message = f"the array has shrunk from {shape} to {spec.shape} since this view of it was pickled"
        raise Invalid(message, node=path, url=session.url, remedy="make the view anew")
    return spec


# -- the price of a read -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The price of a selection: its result's ``shape`` and ``nbytes``, and what must be touched to make it."""

    shape: tuple[int, ...]
    nbytes: int
    """Bytes of the result in memory."""
    chunks: int
    """Chunks touched."""
    chunk_nbytes: int
    """Decoded bytes of all touched chunks."""
    stored_nbytes: int | None
    """Bytes of the touched chunks where they are stored; None where the format cannot tell without reading."""
    requests: int
    """Requests to the store: one per chunk; one per shard of which half or more is wanted, else its index and parts."""

    def as_json(self) -> Mapping[str, object]:
        """Return the same as JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        stored = "?" if self.stored_nbytes is None else f"{self.stored_nbytes:,}"
        return (
            f"{counted(self.chunks, 'chunk')} in {counted(self.requests, 'request')}: {stored} bytes stored, "
            f"{self.chunk_nbytes:,} decoded, {self.nbytes:,} in the result of shape {self.shape}"
        )
