"""Reads and writes of chunks that lie in files, by the engine in C (``_engine.c``): with the lock of Python released.

It is used where it was built, for chunks of one size whose codecs it knows and which lie in a folder of this machine.
What it cannot do, whatever the cause, the executor does by the source, whose errors are those that users see.
``HYPERSLAB_NATIVE=0`` turns it off.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from types import ModuleType
from typing import TypeAlias

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.plan import Entry, Piece, Plan
from hyperslab.codecs.chain import Chain
from hyperslab.codecs.libblosc2 import load_library
from hyperslab.stores import counting
from hyperslab.stores.base import Scratch

Numbers: TypeAlias = tuple[int, ...]
Box: TypeAlias = tuple[Numbers, Numbers]
"""Entries of a plan along each axis: the first, and the one behind the last."""

_CODES = {None: 0, "blosc": 1, "zstd": 2, "lz4": 3}
# Of Blosc's compressors those whose chunks the library decodes: all but Snappy, which is number 2.
_FORMATS = {"blosclz": 0, "lz4": 1, "zlib": 3, "zstd": 4}
# Chunks of a shard on average from which the engine is told of a shard: Python reads several shards of fewer at once.
_CHUNKS_PER_SHARD = 4
# Bytes in the index of a shard for each chunk, and for its checksum where there is but one chunk.
_INDEX_BYTES = 16 + 4
# In place of a place: of a chunk of nothing but fill values, and of one that Python is to encode.
_FILLED, _LEFT = -1, -2


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """How inner chunks lie in a shard: how many along each axis, and its index of offsets and sizes (uint64,
    little-endian)."""

    members: Numbers
    index_first: bool
    index_checksum: bool
    most: int
    """Bytes that no sound shard exceeds."""


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Chunks that lie in files below one folder, and how they are stored."""

    open_folder: Callable[[], int | None]
    """Open the folder; the caller closes the descriptor. None where there is none."""
    key_of: Callable[[Coords], str]
    """The path of a chunk, or of a shard, below the folder."""
    chain: Chain
    shard: ShardLayout | None = None


def _is_turned_off() -> bool:
    return os.environ.get("HYPERSLAB_NATIVE") == "0"


@cache
def load_engine() -> ModuleType | None:
    """Return the engine; None where it was not built, or is turned off."""
    if _is_turned_off():
        return None
    try:
        import hyperslab.chunks._engine as _engine
    except ImportError:
        return None
    if (library := load_library()) is not None:
        _engine.use_library(library.addresses)
    module: ModuleType = _engine
    return module


def describe_engine() -> str:
    """Return in a few words whether the engine is used, and if not, why."""
    if load_engine() is not None:
        return "used for local files" if load_library() is not None else "used for local files that are not compressed"
    return "turned off by HYPERSLAB_NATIVE=0" if _is_turned_off() else "not built; Python does the work, more slowly"


class EngineJob:
    """One read into ``memory``, or one write of what it holds: its boxes, which several threads may do.

    ``folder``: the descriptor of the folder that is read; -1 for a write.
    """

    def __init__(
        self, files: StoredFiles, plan: Plan, memory: np.ndarray, fill: np.ndarray, folder: int, *, whole_only: bool
    ):
        engine, library, shape = load_engine(), load_library(), plan.grid.fixed
        codecs, shard, encoder = files.chain.engine_codecs, files.shard, None
        assert engine is not None and shape is not None and codecs is not None
        if folder < 0:
            encoder = files.chain.engine_encoder
        self._groups = plan.groups
        self._key_of = files.key_of
        self._members = None if shard is None else shard.members
        self._contexts = None if library is None else library.contexts
        self._scratch = Scratch()
        # A chunk that does not become smaller takes a little more than its cells.
        self._room = files.chain.cells.nbytes or 0
        self._room += self._room // 128 + 1024
        entries, strides = zip(*map(_along, plan.groups, memory.strides), strict=True)
        names = frozenset() if library is None else library.compressors
        self._job = engine.Job(
            entries,
            shape,
            memory.reshape(-1).view(np.uint8),
            strides,
            fill.tobytes(),
            whole_only,
            folder,
            "/" in files.key_of((0,) * len(shape)),
            _CODES[codecs.compressor],
            codecs.checksum,
            files.chain.most_stored,
            self._members,
            0 if shard is None else shard.most,
            shard is not None and shard.index_first,
            shard is not None and shard.index_checksum,
            sum(1 << number for name, number in _FORMATS.items() if name in names),
            0 if encoder is None else encoder.level,
            b"" if encoder is None else encoder.header,
        )

    def boxes(self, size: int) -> Iterator[Box]:
        """Yield boxes of up to ``size`` chunks that are all of the plan; none reaches over two shards."""
        groups, members = self._groups, self._members
        if members is None:
            yield from _cut([(0, len(group)) for group in groups], size)
            return
        for runs in product(*map(_runs, groups, members)):
            yield from _cut(runs, size)

    def read(self, box: Box) -> list[Piece]:
        """Read the chunks of a box; return those that are left."""
        low, high = box
        if self._members is None:
            keys = list(map(self._key_of, self.coords(box)))
        else:
            first = (group[number][0] for group, number in zip(self._groups, low, strict=True))
            keys = [self._key_of(tuple(map(_floordiv, first, self._members)))]
        contexts = self._contexts
        addresses = (0, 0) if contexts is None else (contexts.blosc, contexts.zstd)
        files, nbytes, left = self._job.run(low, high, keys, *addresses)
        if counting.traces:
            counting.count(files, read=nbytes)
        return list(map(self._piece, left))

    def encode_shard(self, box: Box) -> memoryview | None:
        """Build the shard whose chunks a box has, all of them: valid until this thread encodes again, empty where all
        hold nothing but fill values. None where the box is no whole shard, or a chunk is left."""
        low, high = box
        count = prod(stop - start for start, stop in zip(low, high, strict=True))
        if self._members is None or count != prod(self._members):
            return None
        size = count * (self._room + _INDEX_BYTES)
        size = self._job.encode_shard(low, high, self._scratch.reserve(size)[:size])
        return None if size < 0 else self._scratch.buffer[:size]

    def encode(self, box: Box) -> tuple[dict[Coords, memoryview | None], list[Piece]]:
        """Encode the chunks of a box: their stored bytes, valid until this thread encodes again, None for one of
        nothing but fill values; and those that are left."""
        low, high = box
        count = prod(stop - start for start, stop in zip(low, high, strict=True))
        buffer = self._scratch.reserve(count * self._room)
        encoded: dict[Coords, memoryview | None] = {}
        left: list[Piece] = []
        start = 0
        numbers = product(*map(range, low, high))
        stops = self._job.encode(low, high, buffer[: count * self._room])
        for coords, stop, number in zip(self.coords(box), stops, numbers, strict=True):
            if stop == _LEFT:
                left.append(self._piece(number))
            elif stop == _FILLED:
                encoded[coords] = None
            else:
                encoded[coords] = buffer[start:stop]
                start = stop
        return encoded, left

    def coords(self, box: Box) -> Iterator[Coords]:
        """Yield the coordinates of the chunks of a box."""
        along = zip(self._groups, *box, strict=True)
        return product(*[[entry[0] for entry in group[start:stop]] for group, start, stop in along])

    def _piece(self, numbers: Numbers) -> Piece:
        entries = [group[number] for group, number in zip(self._groups, numbers, strict=True)]
        coords, within, out, whole = zip(*entries, strict=True)
        return Piece(coords, within, out, False not in whole)


def _floordiv(number: int, members: int) -> int:
    return number // members


def _along(group: Sequence[Entry], stride: int) -> tuple[list[Numbers], int]:
    """Return the entries of one axis in numbers (see Entry in ``_engine.c``), and the step from cell to cell of the
    result."""
    found: list[Numbers] = []
    step = 1
    for chunk, within, out, whole in group:
        step = out.step or 1
        steps = within.step or 1
        count = -(-(within.stop - within.start) // steps)
        found.append((chunk, within.start, count, steps, out.start * stride, int(whole)))
    return found, stride * step


def _runs(group: Sequence[Entry], members: int) -> list[tuple[int, int]]:
    """Return the runs of entries that lie in one shard."""
    runs: list[tuple[int, int]] = []
    start = 0
    for number in range(1, len(group) + 1):
        if number == len(group) or group[number][0] // members != group[start][0] // members:
            runs.append((start, number))
            start = number
    return runs


def _cut(spans: Sequence[tuple[int, int]], size: int) -> Iterator[Box]:
    """Cut spans of entries into boxes of up to ``size``: whole along the last axes, single along the first."""
    lengths = [stop - start for start, stop in spans]
    axis = len(spans) - 1
    while axis and prod(lengths[axis:]) <= size:
        axis -= 1
    step = max(1, size // prod(lengths[axis + 1 :]))
    rest = spans[axis + 1 :]
    for first in product(*[range(start, stop) for start, stop in spans[:axis]]):
        for start in range(spans[axis][0], spans[axis][1], step):
            low = (*first, start, *(span[0] for span in rest))
            high = (*(number + 1 for number in first), min(start + step, spans[axis][1]), *(span[1] for span in rest))
            yield low, high


def _has_many_in_shards(plan: Plan, members: Numbers) -> bool:
    """Return True where the plan has enough chunks of each shard that it touches, on average."""
    count = shards = 1
    for group, many in zip(plan.groups, members, strict=True):
        count *= len(group)
        shards *= group[-1][0] // many - group[0][0] // many + 1
    return count >= _CHUNKS_PER_SHARD * shards


def _fits(files: StoredFiles | None, plan: Plan, memory: np.ndarray) -> bool:
    """Return True where the engine can move cells between such files and such memory."""
    if files is None or load_engine() is None or not plan.groups or not plan.basic or plan.grid.fixed is None:
        return False
    if files.shard is not None and not _has_many_in_shards(plan, files.shard.members):
        return False
    codecs = files.chain.engine_codecs
    if codecs is None or files.chain.most_stored is None or memory.dtype != files.chain.cells.numpy_dtype:
        return False
    return memory.flags.c_contiguous and (codecs.compressor is None or load_library() is not None)


def make_read(
    files: StoredFiles | None, plan: Plan, out: np.ndarray, fill: np.ndarray, *, whole_only: bool
) -> tuple[EngineJob, int] | None:
    """Return what reads the plan, and the descriptor of the folder, to be closed behind it; None where the engine does
    not read such chunks into such a result.

    ``whole_only``: chunks that are wanted in part are left, since they may be in the cache.
    """
    if files is None or not _fits(files, plan, out):
        return None
    folder = files.open_folder()
    if folder is None:
        return None
    try:
        return EngineJob(files, plan, out, fill, folder, whole_only=whole_only), folder
    except BaseException:
        os.close(folder)
        raise


def make_write(files: StoredFiles | None, plan: Plan, values: np.ndarray, fill: np.ndarray) -> EngineJob | None:
    """Return what encodes the plan's chunks; None where the engine does not, or some chunk is not covered whole."""
    if files is None or not _fits(files, plan, values) or files.chain.engine_encoder is None:
        return None
    codecs = files.chain.engine_codecs
    if files.shard is None and codecs is not None and codecs.compressor is None:
        return None  # Python stores such cells from where they are, without a copy
    if not all(entry[3] and entry[2].step is None for group in plan.groups for entry in group):
        return None
    return EngineJob(files, plan, values, fill, -1, whole_only=False)
