"""Reads of chunks that lie in files, by the engine in C (``_engine.c``): with the lock of Python released.

It is used where it was built, for chunks of one size whose codecs it knows and which lie in a folder of this machine.
What it cannot read, whatever the cause, the executor reads again by the source, whose errors are those that users see.
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
from hyperslab.codecs.libblosc2 import load_library
from hyperslab.stores import counting

Numbers: TypeAlias = tuple[int, ...]
Box: TypeAlias = tuple[Numbers, Numbers]
"""Entries of a plan along each axis: the first, and the one behind the last."""

_CODES = {None: 0, "blosc": 1, "zstd": 2, "lz4": 3}
# Of Blosc's compressors those whose chunks the library decodes: all but Snappy, which is number 2.
_FORMATS = {"blosclz": 0, "lz4": 1, "zlib": 3, "zstd": 4}


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
    compressor: str | None
    checksum: bool
    """CRC-32C behind the chunk."""
    most: int
    """Bytes that no sound chunk exceeds."""
    shard: ShardLayout | None = None


@cache
def load_engine() -> ModuleType | None:
    """Return the engine; None where it was not built, or is turned off."""
    if os.environ.get("HYPERSLAB_NATIVE") == "0":
        return None
    try:
        from hyperslab.chunks import _engine
    except ImportError:
        return None
    module: ModuleType = _engine
    return module


class EngineRead:
    """One read: its boxes, which several threads may run."""

    def __init__(self, files: StoredFiles, folder: int, plan: Plan, out: np.ndarray, fill: np.ndarray, whole: bool):
        engine, library, shape = load_engine(), load_library(), plan.grid.fixed
        assert engine is not None and shape is not None
        shard = files.shard
        self._plan = plan
        self._key_of = files.key_of
        self._members = None if shard is None else shard.members
        self._contexts = None if library is None else library.contexts
        entries, strides = zip(*map(_along, plan.groups, out.strides), strict=True)
        addresses = (0, 0, 0) if library is None else library.addresses
        names = frozenset() if library is None else library.compressors
        self._job = engine.Job(
            entries,
            shape,
            out.reshape(-1).view(np.uint8),
            strides,
            fill.tobytes(),
            whole,
            folder,
            "/" in files.key_of((0,) * len(shape)),
            _CODES[files.compressor],
            files.checksum,
            files.most,
            self._members,
            0 if shard is None else shard.most,
            shard is not None and shard.index_first,
            shard is not None and shard.index_checksum,
            sum(1 << number for name, number in _FORMATS.items() if name in names),
            *addresses,
        )

    def boxes(self, size: int) -> Iterator[Box]:
        """Yield boxes of up to ``size`` chunks that are all of the plan; none reaches over two shards."""
        groups, members = self._plan.groups, self._members
        if members is None:
            yield from _cut([(0, len(group)) for group in groups], size)
            return
        for runs in product(*map(_runs, groups, members)):
            yield from _cut(runs, size)

    def run(self, box: Box) -> list[Piece]:
        """Read the chunks of a box; return those that are left."""
        low, high = box
        groups, members = self._plan.groups, self._members
        if members is None:
            numbers = product(*[[entry[0] for entry in group[a:b]] for group, a, b in zip(groups, low, high, strict=True)])
            keys = list(map(self._key_of, numbers))
        else:
            keys = [self._key_of(tuple(g[a][0] // m for g, a, m in zip(groups, low, members, strict=True)))]
        contexts = self._contexts
        addresses = (0, 0) if contexts is None else (contexts.blosc, contexts.zstd)
        files, nbytes, left = self._job.run(low, high, keys, *addresses)
        if counting.traces:
            counting.count(files, read=nbytes)
        return [self._piece(each) for each in left]

    def _piece(self, numbers: Numbers) -> Piece:
        entries = [group[number] for group, number in zip(self._plan.groups, numbers, strict=True)]
        coords, within, out, whole = zip(*entries, strict=True)
        return Piece(coords, within, out, False not in whole)


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


def make_read(
    files: StoredFiles | None, plan: Plan, out: np.ndarray, fill: np.ndarray, *, whole_only: bool
) -> tuple[EngineRead, int] | None:
    """Return what reads the plan, and the descriptor of the folder, to be closed behind it; None where the engine does
    not read such chunks into such a result.

    ``whole_only``: chunks that are wanted in part are left, since they may be in the cache.
    """
    if files is None or load_engine() is None or not plan.groups or not plan.basic or plan.grid.fixed is None:
        return None
    if not out.flags.c_contiguous or (files.compressor is not None and load_library() is None):
        return None
    folder = files.open_folder()
    if folder is None:
        return None
    try:
        return EngineRead(files, folder, plan, out, fill, whole_only), folder
    except BaseException:
        os.close(folder)
        raise
