"""One array from one chunk grid into another, box by box by threads, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from hyperslab.array.references import reference_fields
from hyperslab.chunks import execute, sparse_io
from hyperslab.chunks.boxes import AxisCut, Box, box_counts, boxes, source_edges
from hyperslab.chunks.grid import Coords
from hyperslab.chunks.memory import empty_cells, largest_chunk, require, settings_within
from hyperslab.chunks.plan import make_plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, CarriesBlosc, ChunkSource
from hyperslab.codecs.blosc import config_of, same_settings
from hyperslab.conversion.halting import Halt
from hyperslab.conversion.pointing import Pointing
from hyperslab.conversion.selecting import Picked
from hyperslab.model.cells import as_type
from hyperslab.model.spec import ArraySpec
from hyperslab.selection.region import Range, Region

Values = np.ndarray[Any, Any]
Boxes = np.ndarray[Any, Any]
"""One boolean per box."""
Numbered = tuple[int, Box]
Check = Callable[[], None]
Work = Callable[[int, Box, Check], None]
"""Done with each box: its number, its cells, and what raises once another thread has failed."""


@dataclass(frozen=True, eq=False)
class ArrayCopy:
    """The copy of the ``picked`` cells of one array: from ``source`` into ``target``, within ``memory`` bytes.

    ``path`` is its place in the target, ``origin`` that in the source; ``pointing`` tells what references become.
    """

    path: str
    picked: Picked
    source: ChunkSource
    source_spec: ArraySpec
    target: ChunkSource
    target_spec: ArraySpec
    memory: int
    origin: str
    pointing: Pointing | None = None

    @cached_property
    def refers(self) -> bool:
        """Return whether its cells are references that may have to be changed on the way."""
        return self.pointing is not None and bool(reference_fields(self.source_spec.dtype))

    @cached_property
    def cuts(self) -> tuple[AxisCut, ...]:
        """How target and source are cut, along each axis of the target."""
        written = self.target.grid.outer or self.target.grid
        kept = ((self.source.grid.axes[axis], self.picked.axes[axis]) for axis in self.picked.kept)
        return tuple(
            AxisCut(cut, source_edges(axis, chosen)) for cut, (axis, chosen) in zip(written.axes, kept, strict=True)
        )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Target chunks (shards) per box and axis."""
        return box_counts(self.cuts, self.itemsize, self.memory // 4)

    @property
    def itemsize(self) -> int:
        """Bytes of a cell in memory, of the larger of the two types; of a row for each cell of a column."""
        read = getattr(self.source, "cell_bytes", 1)
        return max(self.source_spec.numpy_dtype.itemsize, self.target_spec.numpy_dtype.itemsize, read, 1)

    @property
    def chunks(self) -> int:
        """Chunks (shards) of the target."""
        return prod(int(cut.target.count) for cut in self.cuts)

    @property
    def box_shape(self) -> tuple[int, ...]:
        """Boxes along each axis."""
        return tuple(-(-cut.target.count // count) for cut, count in zip(self.cuts, self.counts, strict=True))

    def boxes(self) -> Iterator[Numbered]:
        """Every box with its number, in C order."""
        return enumerate(boxes(self.cuts, self.counts)) if 0 not in self.target_spec.shape else iter(())

    def chunks_in(self, box: Box) -> int:
        """Chunks (shards) of the target in a box."""
        ends = ((cut.target.find(part.start), cut.target.find(part.stop - 1)) for cut, part in self._parts(box))
        return prod(int(last - first) + 1 for first, last in ends)

    def box_bytes(self, box: Box) -> int:
        """Bytes of a box's cells in the target."""
        cells: int = prod(part.stop - part.start for part in box)
        return cells * self.target_spec.numpy_dtype.itemsize

    def extent(self, boxes: Boxes) -> tuple[int, int]:
        """Bytes and chunks of the chosen boxes together."""
        cells: Any = boxes
        chunks: Any = boxes
        for cut, count in zip(reversed(self.cuts), reversed(self.counts), strict=True):
            starts, stops = cut.bounds(count)
            cells = cells @ (stops - starts)
            chunks = chunks @ np.diff(np.append(np.arange(0, cut.target.count, count), cut.target.count))
        return int(cells) * self.target_spec.numpy_dtype.itemsize, int(chunks)

    def _parts(self, box: Box) -> Iterator[tuple[AxisCut, slice]]:
        return zip(self.cuts, box, strict=True)

    @property
    def size(self) -> int:
        """Copied cells."""
        return prod(self.target_spec.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the copied cells in the target."""
        return self.size * self.target_spec.numpy_dtype.itemsize

    @cached_property
    def step_bytes(self) -> int:
        """What one box takes at its peak: its cells twice, a source chunk or an encoded target chunk (shard) twice."""
        if self.lists:  # how many cells are listed is not known before they are read
            return 0
        box = prod(cut.longest(count) for cut, count in zip(self.cuts, self.counts, strict=True))
        return 2 * self.itemsize * box + 2 * self.chunk_bytes

    @cached_property
    def chunk_bytes(self) -> int:
        """Decoded bytes of the largest chunk of the source or chunk (shard) of the target."""
        given = 0 if self.source_spec.sparse is not None else largest_chunk(self.source.grid)
        return self.itemsize * max(given, largest_chunk(self.target.grid.outer or self.target.grid))

    def _within(self, source: ChunkSource, settings: Settings) -> Settings:
        """Return the settings with no more threads for the chunks of a box than the memory has room for."""
        return settings if self.lists else settings_within(source, settings, self.chunk_bytes, self.memory)

    def threads(self, most: int) -> int:
        """How many boxes may be in work at once, ``most`` at the most; MemoryLimit when not one fits."""
        require(self.step_bytes // 2, self.memory, remedy="give it more by memory= (--memory)")
        return max(1, min(most, self.memory // max(self.step_bytes, 1), prod(self.box_shape)))

    def run(self, work: Work, settings: Settings, skip: Boxes | None = None) -> None:
        """``work`` every box, but those that ``skip`` has True for; several at a time as the memory allows.

        When one fails, or at Ctrl-C, no thread is at work any more when the error is raised: ``work`` is given a
        function to call from time to time, which raises then.
        """
        if 0 in self.target_spec.shape:
            return
        halt = Halt()

        def guarded(numbered: Numbered) -> None:
            with halt.working():
                work(*numbered, halt.check)

        left = (numbered for numbered in self.boxes() if skip is None or not skip.flat[numbered[0]])
        try:
            each_batch(guarded, left, self.threads(settings.threads))
        except BaseException as error:
            first = halt.settle(error)
            if first is not error:
                raise first from first.__cause__
            raise

    def read_source(self, box: Box, settings: Settings, check: Check | None = None) -> Values:
        """The cells of a box as they are in the source, as the target's type; ``check`` is called time and again."""
        region = self.picked.region(box)
        plan = make_plan(region, self.source.grid)
        out = empty_cells(plan.shape, self.source_spec.numpy_dtype)
        source: Any = self.source if check is None else _Checked(self.source, check)
        within = self._within(self.source, settings)
        sparse_io.reader_of(self.source_spec)(source, plan, out, self.source_spec.fill_cell(), within)
        shape = tuple(part.stop - part.start for part in box)
        if self.pointing is not None and self.refers:
            out = self.pointing.cells(out, self.source_spec.dtype)
        return as_type(out.reshape(shape), self.target_spec.numpy_dtype)

    def read_target(self, box: Box, settings: Settings) -> Values:
        """The cells of a box as they are in the target."""
        plan = make_plan(_whole_region(box), self.target.grid)
        out = empty_cells(plan.shape, self.target_spec.numpy_dtype)
        within = self._within(self.target, settings)
        sparse_io.reader_of(self.target_spec)(self.target, plan, out, self.target_spec.fill_cell(), within)
        return out

    @cached_property
    def lists(self) -> bool:
        """Return whether the array is sparse on both sides, so that lists of cells are copied and nothing becomes
        dense.
        """
        sparse = self.source_spec.sparse is not None and self.target_spec.sparse is not None
        return sparse and hasattr(self.source, "read_coo") and hasattr(self.target, "write_coo")

    def copy_lists(self, box: Box, settings: Settings, check: Check | None = None) -> None:
        """Copy a box of whole target chunks as lists of cells."""
        source: Any = self.source if check is None else _Checked(self.source, check)
        plan = make_plan(self.picked.region(box), self.source.grid)
        if not plan.basic:  # points were picked
            self.write_target(box, self.read_source(box, settings, check), settings, check)
            return
        cells = sparse_io.read(source, plan, self.source_spec.fill_cell(), settings)
        cells = cells.reshaped(tuple(part.stop - part.start for part in box)).astype(self.target_spec.numpy_dtype)
        sparse_io.write(_Unshared(self.target, check), box, cells, self.target_spec.fill_cell(), settings)

    @cached_property
    def carries(self) -> bool:
        """Return whether stored chunks may go into the target as they are: the same cells in the same containers,
        all of them, compressed in the way that the target's documents say.
        """
        source, target = self.source, self.target
        if not (isinstance(source, CarriesBlosc) and isinstance(target, CarriesBlosc)):
            return False
        if source.container is None or source.container != target.container or source.grid.axes != target.grid.axes:
            return False
        if self.refers or not self.picked.is_all(self.source_spec.shape):
            return False
        given, wanted = (config_of(spec.codecs) for spec in (self.source_spec, self.target_spec))
        fills = {spec.fill_cell().tobytes() for spec in (self.source_spec, self.target_spec)}
        return given is not None and wanted is not None and same_settings(given, wanted) and len(fills) == 1

    def write_target(self, box: Box, values: Values, settings: Settings, check: Check | None = None) -> None:
        """Store a box of whole target chunks; ``check`` is called before each and may raise."""
        plan = make_plan(_whole_region(box), self.target.grid)
        within = self._within(self.target, settings)
        execute.write(_Unshared(self.target, check), plan, values, self.target_spec.fill_cell(), within)


class _Checked:
    """A source that calls ``check`` before each chunk, or batch of chunks, that it reads."""

    def __init__(self, source: ChunkSource, check: Check) -> None:
        self.grid = source.grid
        for name in ("read", "read_into", "read_part", "read_coo", "reader", "fetch", "fetch_parts"):
            ability = getattr(source, name, None)
            if ability is not None:
                setattr(self, name, partial(_after, check, ability))
        if hasattr(source, "concurrency"):
            self.concurrency = source.concurrency


def _after(check: Check, ability: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    check()
    return ability(*arguments, **options)


class _Unshared:
    """A target that nobody else knows of yet: written without locks, but whole where many chunks are one file."""

    def __init__(self, source: ChunkSource, check: Check | None) -> None:
        self._source = source
        self._check = check
        self.grid = source.grid
        self.read = source.read
        self.write = source.write
        self.erase = source.erase
        for name in ("write_coo", "stored", "transaction"):
            if hasattr(source, name):
                setattr(self, name, getattr(source, name))

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """By the source's own group commit, else one by one."""
        pairs = pairs if self._check is None else self._checked(pairs, self._check)
        many = getattr(self._source, "write_many", None)
        if many is not None:
            many(pairs, durable=durable)
            return
        for coords, block in pairs:
            self._source.write(coords, block)

    def _checked(self, pairs: Iterable[tuple[Coords, Block]], check: Check) -> Iterator[tuple[Coords, Block]]:
        for pair in pairs:
            check()
            yield pair


def _whole_region(box: Box) -> Region:
    return Region(tuple(Range(part.start, part.stop - part.start, 1) for part in box))
