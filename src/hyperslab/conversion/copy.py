"""The cells of arrays from one chunk grid into another, box by box by threads, in bounded memory.

A box is as many whole chunks (shards) of the target as a quarter of the memory holds. Sparse arrays are copied as lists
of cells, and Blosc chunks that both sides store alike as they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hyperslab.array.references import reference_fields
from hyperslab.array.session import OpenDataset
from hyperslab.chunks import execute, sparse_io
from hyperslab.chunks.boxes import SMALL_BOX, AxisCut, Box, box_counts, boxes, source_edges
from hyperslab.chunks.grid import Axis, Coords
from hyperslab.chunks.memory import empty_cells, largest_chunk, require, settings_within
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.progress import Progress, ProgressCallback
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkReader, ChunkSource, SourceTraits, Within, WrappedSource
from hyperslab.codecs.blosc import config_of, may_move, same_settings
from hyperslab.conversion.adapt import TargetNode
from hyperslab.conversion.journal import Boxes, ConversionJournal
from hyperslab.conversion.recoding import DerivedArrays, DerivedChunks, Recoding, add_arrays, add_recoding
from hyperslab.conversion.references import ReferenceMap
from hyperslab.conversion.selection import ArraySelection, ShiftedSelection
from hyperslab.errors import CorruptChunk, FormatError, MissingChunks
from hyperslab.formats.base import Format
from hyperslab.model.cells import Values, as_type
from hyperslab.model.coo import Coo
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.region import Range, Region

Numbered = tuple[int, Box]
Check = Callable[[], None]
Work = Callable[[int, Box, Check], None]
"""Done with each box: its number, its cells, and what raises once another thread has failed."""


@dataclass(frozen=True, eq=False)
class ArrayCopy:
    """The copy of the ``picked`` cells of one array: from ``source`` into ``target``, within ``memory`` bytes.

    ``path`` is its place in the target, ``origin`` that in the source; ``references`` tells what references become.
    """

    path: str
    picked: ArraySelection
    source: ChunkSource
    source_spec: ArraySpec
    target: ChunkSource
    target_spec: ArraySpec
    memory: int
    origin: str
    references: ReferenceMap | None = None

    @cached_property
    def has_references(self) -> bool:
        """Return True if its cells are references that may have to be changed on the way."""
        return self.references is not None and bool(reference_fields(self.source_spec.dtype))

    @cached_property
    def axis_cuts(self) -> tuple[AxisCut, ...]:
        """Return how target and source are cut, along each axis of the target."""
        written = self.target.grid.outer or self.target.grid
        kept = ((self.source.grid.axes[axis], self.picked.axes[axis]) for axis in self.picked.kept)
        return tuple(
            AxisCut(cut, source_edges(axis, chosen)) for cut, (axis, chosen) in zip(written.axes, kept, strict=True)
        )

    @cached_property
    def chunks_per_box(self) -> tuple[int, ...]:
        """Return how many target chunks (shards) a box has along each axis."""
        # A box is in memory twice (as read, as the target's type) beside chunks while they are coded: see step_bytes.
        # Boxes in a store are what is resumed, and what workers of a cluster are given: they stay as small as they are.
        is_small = self.target.traits.joins_writes and not self.target_spec.numpy_dtype.hasobject
        return box_counts(self.axis_cuts, self.itemsize, self.memory // 4, SMALL_BOX if is_small else 0)

    @property
    def itemsize(self) -> int:
        """Return the bytes of a cell in memory, of the larger of the two types; of a row for each cell of a column."""
        read = self.source.cell_bytes if isinstance(self.source, DerivedChunks) else 1
        return max(self.source_spec.numpy_dtype.itemsize, self.target_spec.numpy_dtype.itemsize, read, 1)

    @property
    def chunks(self) -> int:
        """Return the number of chunks (shards) of the target."""
        return prod(int(cut.target.count) for cut in self.axis_cuts)

    def boxes(self, skip: Boxes | None = None) -> Iterator[Numbered]:
        """Yield every box with its number, in C order, except where ``skip`` has True."""
        if 0 not in self.target_spec.shape:
            for number, box in enumerate(boxes(self.axis_cuts, self.chunks_per_box)):
                if skip is None or not skip.flat[number]:
                    yield number, box

    def extent(self, boxes: Boxes) -> tuple[int, int]:
        """Return the bytes and chunks of all boxes for which ``boxes`` has True."""
        cells: Any = boxes
        chunks: Any = boxes
        for cut, count in zip(reversed(self.axis_cuts), reversed(self.chunks_per_box), strict=True):
            starts, stops = cut.bounds(count)
            cells = cells @ (stops - starts)
            chunks = chunks @ np.diff(np.append(np.arange(0, cut.target.count, count), cut.target.count))
        return int(cells) * self.target_spec.numpy_dtype.itemsize, int(chunks)

    @property
    def size(self) -> int:
        """Return the number of copied cells."""
        return prod(self.target_spec.shape)

    @cached_property
    def step_bytes(self) -> int:
        """Return what one box takes at its peak.

        That is its cells twice, and a source chunk or an encoded target chunk (shard) twice.
        """
        if self.is_sparse:  # how many cells are listed is not known before they are read
            return 0
        box = prod(cut.longest(count) for cut, count in zip(self.axis_cuts, self.chunks_per_box, strict=True))
        return 2 * self.itemsize * box + 2 * self.chunk_bytes

    @cached_property
    def chunk_bytes(self) -> int:
        """Return the decoded bytes of the largest chunk of the source or chunk (shard) of the target."""
        source_chunk = 0 if self.source_spec.sparse is not None else largest_chunk(self.source.grid)
        return self.itemsize * max(source_chunk, largest_chunk(self.target.grid.outer or self.target.grid))

    def _limit_threads(self, source: ChunkSource, settings: Settings) -> Settings:
        """Return the settings with no more threads for the chunks of a box than the memory has room for."""
        return settings if self.is_sparse else settings_within(source, settings, self.chunk_bytes, self.memory)

    def threads(self, most: int) -> int:
        """Return how many boxes may be in work at once, ``most`` at the most; MemoryLimit when not one fits."""
        require(self.step_bytes // 2, self.memory, remedy="give it more by memory= (--memory)")
        counts = zip(self.axis_cuts, self.chunks_per_box, strict=True)
        boxes = prod(-(-cut.target.count // count) for cut, count in counts)
        return max(1, min(most, self.memory // max(self.step_bytes, 1), boxes))

    def run(self, work: Work, settings: Settings, skip: Boxes | None = None) -> None:
        """Call ``work`` for each box, except where ``skip`` has True; several at a time as the memory allows.

        When one fails, or at Ctrl-C, no thread is at work any more when the error is raised: ``work`` is given a
        function to call from time to time, which raises then.
        """
        if 0 in self.target_spec.shape:
            return
        halt = Halt()

        def guarded(numbered: Numbered) -> None:
            with halt.working():
                work(*numbered, halt.check)

        try:
            each_batch(guarded, self.boxes(skip), self.threads(settings.threads))
        except BaseException as error:
            first = halt.first_error(error)
            if first is not error:
                raise first from first.__cause__
            raise

    def read_source(self, box: Box, settings: Settings, check: Check | None = None) -> Values:
        """Return the cells of a box as they are in the source, as the target's type.

        ``check`` is called before each chunk, or batch of chunks, and may raise.
        """
        region = self.picked.region(box)
        plan = make_plan(region, self.source.grid)
        out = empty_cells(plan.shape, self.source_spec.numpy_dtype)
        source = self.source if check is None else _CheckedSource(self.source, check)
        within = self._limit_threads(self.source, settings)
        sparse_io.reader_of(self.source_spec)(source, plan, out, self.source_spec.fill_cell(), within)
        shape = tuple(part.stop - part.start for part in box)
        if self.references is not None and self.has_references:
            out = self.references.map_cells(out, self.source_spec.dtype)
        out = out.reshape(shape)
        if isinstance(self.picked, ShiftedSelection):
            out = self.picked.shift(out, box)
        return as_type(out, self.target_spec.numpy_dtype)

    def read_target(self, box: Box, settings: Settings) -> Values:
        """Return the cells of a box as they are in the target."""
        plan = make_plan(_whole_region(box), self.target.grid)
        out = empty_cells(plan.shape, self.target_spec.numpy_dtype)
        within = self._limit_threads(self.target, settings)
        sparse_io.reader_of(self.target_spec)(self.target, plan, out, self.target_spec.fill_cell(), within)
        return out

    @cached_property
    def is_sparse(self) -> bool:
        """Return True if both sides are sparse, so that lists of cells are copied and nothing gets dense."""
        sparse = self.source_spec.sparse is not None and self.target_spec.sparse is not None
        return sparse and self.source.traits.reads_sparse and self.target.traits.writes_sparse

    @cached_property
    def can_copy_buffers(self) -> bool:
        """Return True if stored chunks may be copied as they are.

        They are the same cells in the same containers, all of them, compressed in the way that the target's documents
        say.
        """
        source, target = self.source, self.target
        container = source.blosc_container
        if container is None or container != target.blosc_container or source.grid.axes != target.grid.axes:
            return False
        if self.has_references or not self.picked.is_all(self.source_spec.shape):
            return False
        if isinstance(self.picked, ShiftedSelection):
            return False
        source_config, target_config = config_of(self.source_spec.codecs), config_of(self.target_spec.codecs)
        if source_config is None or target_config is None or not same_settings(source_config, target_config):
            return False
        return self.source_spec.fill_cell().tobytes() == self.target_spec.fill_cell().tobytes()

    def write_target(self, box: Box, values: Values, settings: Settings, check: Check | None = None) -> None:
        """Store a box of whole target chunks; ``check`` is called before each and may raise."""
        plan = make_plan(_whole_region(box), self.target.grid)
        within = self._limit_threads(self.target, settings)
        execute.write(_UnlockedTarget(self.target, check), plan, values, self.target_spec.fill_cell(), within)


class _CheckedSource(WrappedSource):
    """A source that calls ``check`` before each chunk, or batch of chunks, that it reads. Nothing of it is kept."""

    def __init__(self, source: ChunkSource, check: Check) -> None:
        super().__init__(source)
        self._check = check
        self.traits = replace(
            source.traits, stamped=False, multi_shard=False, fetches_across=False, fetches_outer=False
        )

    def read(self, coords: Coords) -> Block | None:
        """Return the decoded chunk."""
        self._check()
        return self.source.read(coords)

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``."""
        self._check()
        return self.source.read_into(coords, out)

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        """Return what decodes chunks into ``out``."""
        self._check()
        return self.source.reader(out)

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Read some cells of the chunk into ``out``."""
        self._check()
        return self.source.read_part(coords, within, out)

    def read_coo(self, coords: Coords) -> Coo | None:
        """Return the chunk as a list of cells."""
        self._check()
        return self.source.read_coo(coords)

    def fetch(self, coords: Sequence[Coords]) -> ChunkReader:
        """Get what is stored of these chunks."""
        self._check()
        return self.source.fetch(coords)

    def fetch_parts(self, wanted: Sequence[tuple[Coords, Within | None]]) -> ChunkReader:
        """Get parts of chunks."""
        self._check()
        return self.source.fetch_parts(wanted)


class _UnlockedTarget(WrappedSource):
    """A target that nobody else knows of yet: written without locks, but whole where many chunks are one file."""

    def __init__(self, source: ChunkSource, check: Check | None) -> None:
        super().__init__(source)
        self._check = check
        traits = source.traits
        self.traits = SourceTraits(
            transacts=traits.transacts, writes_sparse=traits.writes_sparse, lists_chunks=traits.lists_chunks
        )

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold nothing."""
        return nullcontext()

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Store chunks; ``check`` is called before each."""

        def checked_pairs() -> Iterator[tuple[Coords, Block]]:
            for pair in pairs:
                if self._check is not None:
                    self._check()
                yield pair

        self.source.write_batch(checked_pairs(), durable=durable)


def _chunk_ranges(axes: Sequence[Axis], box: Box) -> list[range]:
    """Return the numbers of the chunks along each axis that a box of whole chunks has."""
    return [
        range(int(axis.find(part.start)), int(axis.find(part.stop - 1)) + 1)
        for axis, part in zip(axes, box, strict=True)
    ]


def _whole_region(box: Box) -> Region:
    return Region(tuple(Range(part.start, part.stop - part.start, 1) for part in box))


# -- one box -----------------------------------------------------------------------------------------------------------


def copy_box(copy: ArrayCopy, box: Box, settings: Settings, check: Check | None = None) -> None:
    """Copy one box of one array; ``check`` is called before each chunk and may raise."""
    if copy.is_sparse:
        plan = make_plan(copy.picked.region(box), copy.source.grid)
        if plan.basic:  # no points were picked
            source = copy.source if check is None else _CheckedSource(copy.source, check)
            cells = sparse_io.read(source, plan, copy.source_spec.fill_cell(), settings)
            cells = cells.reshaped(tuple(part.stop - part.start for part in box)).astype(copy.target_spec.numpy_dtype)
            sparse_io.write(_UnlockedTarget(copy.target, check), box, cells, copy.target_spec.fill_cell(), settings)
            return
    elif copy.can_copy_buffers:
        _copy_buffers(copy, box, settings, check)
        return
    copy.write_target(box, copy.read_source(box, settings, check), settings, check)


def _copy_buffers(copy: ArrayCopy, box: Box, settings: Settings, check: Check | None) -> None:
    """Copy stored Blosc chunks as they are: nothing is decoded and compressed again.

    Chunks at an edge that one side pads and the other does not, and those that not every reader of Blosc knows
    (Snappy), are decoded.
    """
    source, target = copy.source, copy.target
    itemsize = copy.target_spec.numpy_dtype.itemsize
    raw, rest = [], []
    for coords in product(*_chunk_ranges(target.grid.axes, box)):
        if check is not None:
            check()
        # the decoded bytes of the chunk, where both sides have the same: one may pad it, and the other not
        whole = target.grid.chunk_shape(coords)
        within = tuple(part.stop - part.start for part in target.grid.extent(coords))
        size = prod(whole if target.pads_edges else within) * itemsize
        is_common = whole == within or source.pads_edges == target.pads_edges
        try:
            data = source.read_blosc(coords) if is_common else b""
        except (CorruptChunk, MissingChunks):  # a reader of cells tries again where a writer may be at work
            data = b""
        if data is not None and is_common and may_move(data, size):
            raw.append((coords, data))
        elif data is not None:
            rest.append(coords)
    if raw:
        target.write_blosc(raw, durable=settings.durable)
    for coords in rest:
        part = copy.target.grid.extent(coords)
        copy.write_target(part, copy.read_source(part, settings, check), settings, check)


# -- all arrays of a conversion --------------------------------------------------------------------------------------


# Nobody sees the target before it is complete: it is flushed to the medium once, when it is published.
SETTINGS = Settings(cache_bytes=0, durable=False)
"""How a target is written that nobody sees yet, and read to be compared."""


@dataclass(frozen=True, eq=False)
class ConversionJob:
    """A conversion's nodes, from an open source into a target of ``format``, within ``memory`` bytes.

    ``options``: of the target's format. ``references``: what becomes of links and references. ``made``: arrays that
    the source has not, but that are made of it. ``recodings``: other cells of arrays, one after the other.
    """

    format: Format
    source: OpenDataset
    nodes: list[TargetNode]
    memory: int
    options: Mapping[str, Any] = field(default_factory=dict)
    references: ReferenceMap | None = None
    made: DerivedArrays = field(default_factory=dict)
    recodings: Sequence[Recoding] = ()

    def copies(self, target: OpenDataset, source: OpenDataset | None = None) -> list[ArrayCopy]:
        """Return the copy of every array. ``source``: the same source, opened anew."""
        copies = []
        if source is None:  # else it was opened anew
            reader = self.source.reader
        else:
            reader = reduce(add_recoding, self.recodings, add_arrays(source, self.made)).reader
        for plan in self.nodes:
            path, spec, picked = plan.source.path, plan.source.node, plan.source.picked
            if spec.is_array and picked is not None:
                written = target.reader.node(path)
                if not written.is_array:
                    raise FormatError("the array was not made", url=target.url, node=path)
                origin = plan.source.origin
                sides = reader.chunks(origin), target.reader.chunks(path)
                copies.append(
                    ArrayCopy(path, picked, sides[0], spec, sides[1], written, self.memory, origin, self.references)
                )
        return copies


class CopyProgress:
    """Counts the boxes that are copied, for ``report`` and the ``journal``. Boxes that the journal has are skipped."""

    def __init__(
        self, copies: Sequence[ArrayCopy], report: ProgressCallback, journal: ConversionJournal | None = None
    ) -> None:
        self._report = report
        self._journal = journal
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        self._skips: dict[str, Boxes | None] = dict.fromkeys(copy.path for copy in copies)
        if journal is not None:
            for copy in copies:
                counts = tuple(cut.target.count for cut in copy.axis_cuts)
                self._skips[copy.path] = journal.finished_boxes(copy.path, copy.chunks_per_box, counts)
        done = [copy.extent(skip) for copy in copies if (skip := self._skips[copy.path]) is not None]
        nbytes, chunks = (sum(part) for part in zip((0, 0), *done, strict=True))
        total_bytes = sum(copy.size * copy.target_spec.numpy_dtype.itemsize for copy in copies)
        total_chunks = sum(copy.chunks for copy in copies)
        self.current = Progress(nbytes, total_bytes, chunks, total_chunks, resumed_bytes=nbytes)
        report(self.current)

    def skip(self, copy: ArrayCopy) -> Boxes | None:
        """Return the boxes of an array that are done already; None when none is."""
        return self._skips[copy.path]

    def __call__(self, copy: ArrayCopy, number: int, box: Box) -> None:
        """Count a box that is done."""
        nbytes = prod(part.stop - part.start for part in box) * copy.target_spec.numpy_dtype.itemsize
        axes = [cut.target for cut in copy.axis_cuts]
        chunks = prod(len(some) for some in _chunk_ranges(axes, box))
        with self._lock:
            if self._journal is not None:
                self._journal.add_box((copy.path, copy.chunks_per_box, number))
            self.current = self.current.advanced(nbytes, chunks, time.perf_counter() - self._began)
            self._report(self.current)


def copy_arrays(copies: Sequence[ArrayCopy], progress: CopyProgress, settings: Settings) -> None:
    """Copy all arrays, one after another, by the threads of this process."""
    for copy in copies:

        def work(number: int, box: Box, check: Check, copy: ArrayCopy = copy) -> None:
            copy_box(copy, box, settings, check)
            progress(copy, number, box)

        copy.run(work, settings, progress.skip(copy))


# -- the end of many threads ------------------------------------------------------------------------------------------


class Halted(Exception):
    """Another thread failed: what it raised is in :attr:`Halt.error`."""


class Halt:
    """The end of work in many threads: the first error or Ctrl-C stops all of them at their next chunk."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._running = 0
        self._changed = threading.Condition()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count one piece of work; what it raises stops all others."""
        with self._changed:
            self.check()
            self._running += 1
        try:
            yield
        except BaseException as error:
            self.stop(error)
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def stop(self, error: BaseException) -> None:
        """Have every :meth:`check` fail from now on; the first error is the one that counts."""
        if self.error is None and not isinstance(error, Halted):
            self.error = error

    def check(self) -> None:
        """Raise Halted once another thread has failed."""
        if self.error is not None:
            raise Halted

    def first_error(self, error: BaseException) -> BaseException:
        """Stop, wait until all work has ended, and return the error that was first."""
        self.stop(error)
        with self._changed:
            self._changed.wait_for(lambda: not self._running)
        return self.error or error
