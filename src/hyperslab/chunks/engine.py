"""Reads and writes of chunks that lie in files, by the engine in C (``_engine.c``): with the lock of Python released.

It is used where it was built, for chunks of one size whose codecs it knows and which lie in a folder of this machine.
What it cannot do, whatever the cause, the executor does by the source, whose errors are those that users see.
``HYPERSLAB_NATIVE=0`` turns it off.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from operator import floordiv, sub
from pathlib import Path
from types import ModuleType
from typing import TypeAlias
from zlib import crc32

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.plan import Entry, Piece, Plan
from hyperslab.stores import counting
from hyperslab.stores.base import Scratch

Numbers: TypeAlias = tuple[int, ...]

# The enum PLAIN ... GZIP in _engine.c.
_COMPRESSORS = {None: 0, "blosc": 1, "zstd": 2, "lz4": 3, "zlib": 4, "gzip": 5}
# Numbers of compressors in the flags of a Blosc chunk (BLOSC_LZ4_FORMAT and so on in blosc.h), of those that the
# library decodes: all but Snappy, number 2. LZ4HC has that of LZ4.
_BLOSC_FORMATS = {"blosclz": 0, "lz4": 1, "zlib": 3, "zstd": 4}
# Beyond these, which no dataset is known to reach, Python does the work (MOST_AXES, and a count of int32).
_MOST_AXES, _MOST_MEMBERS = 32, 2**31 - 1
# Bytes of indexes for each chunk that is read up to which the engine reads shards. It reads an index anew with each
# read, from the file that it has open: so it is that of the very version, for 0.35 us a KiB with its checksum, 3 us for
# a shard of 512 chunks. Python remembers indexes, but takes 24 us more for a chunk.
_INDEX_BYTES_PER_CHUNK = 64 << 10
# Bytes of a chunk that is not compressed up to which the engine reads it sooner than Python finds it in the cache, in 3
# to 5 us. The engine takes of chunks in shards, bare, by Blosc-lz4, lz4, Blosc-zstd and Zstandard: of 256 bytes
# 1.0, 1.1, 1.2, 2.7 and 2.1 us, of 2 KiB 1.2, 1.7, 2.6, 5.0 and 5.7, of 8 KiB 2.3, 2.7, 7.0, 6.9 and 12, of 16 KiB 2.7,
# 3.8, 13, 10 and 19; of zlib and gzip always more.
UNCOMPRESSED_UNCACHED = 16 << 10
# Bytes in the index of a shard for each chunk, and for its checksum.
_INDEX_ENTRY, _INDEX_CHECKSUM = 16, 4
# In place of a place, as in _engine.c: of a chunk of nothing but fill values, and of one that Python is to encode.
_FILLED, _LEFT = -1, -2


@dataclass(frozen=True, slots=True)
class Box:
    """Entries of a plan along each axis, from the first to the one behind the last (elsewhere a box is of cells, as
    slices); its length: of how many chunks."""

    low: Numbers
    high: Numbers
    in_shard: int = 1
    """Boxes of the same shard, this one among them."""

    def __len__(self) -> int:
        return prod(stop - start for start, stop in zip(self.low, self.high, strict=True))

    def cut(self, size: int) -> Iterator[Box]:
        """Yield boxes of up to ``size`` chunks, in C order."""
        return _cut(list(zip(self.low, self.high, strict=True)), size)


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """How inner chunks lie in a shard: how many along each axis, and its index of offsets and sizes (uint64,
    little-endian)."""

    members: Numbers
    index_first: bool
    index_checksum: bool
    most: int
    """Bytes that no sound shard exceeds."""
    most_in_index: int
    """Bytes of a chunk by a sound index."""


class DecodingContexts(threading.local):
    """Where the calling thread's contexts for decoding lie; 0 where there is no library."""

    blosc: int = 0
    zstd: int = 0


@dataclass(frozen=True, slots=True)
class CodecLibrary:
    """The C library whose functions the engine calls."""

    addresses: Numbers
    """Where they lie, in the order of ``library`` in ``_engine.c``."""
    compressors: frozenset[str]
    """The compressors of Blosc that it has."""
    inflates: bool
    """It has zlib-ng, which decodes zlib and gzip."""
    contexts: DecodingContexts


@dataclass(frozen=True, slots=True)
class EngineEncoder:
    """How a compressor encodes a chunk."""

    level: int = 0
    """Of the compressor; of LZ4 its acceleration, or the level of LZ4HC with a minus before it."""
    header: bytes = b""
    """Of Blosc: the 16 bytes that each chunk begins with, but for its stored size."""


@dataclass(frozen=True, slots=True)
class EngineCodecs:
    """How the cells of a chunk are stored, where the engine knows all of it."""

    dtype: np.dtype
    nbytes: int
    """Bytes of the cells."""
    most: int
    """Stored bytes beyond which a chunk is left: no sound one has more, or Python decodes it sooner."""
    compressor: str | None
    most_uncached: int
    """Bytes of the cells up to which the engine reads a chunk sooner than Python finds it in the cache."""
    shuffle: int
    """Bytes of the items whose bytes are regrouped by their place before the compressor; 0 and 1: of none."""
    checksum: bool
    """CRC-32C behind what the compressor gives."""
    swap: int
    """Bytes of the numbers whose bytes are stored in the other order; 0: as in memory."""
    order: Numbers | None
    """The array's axis that each axis of what is stored is; None: the same."""
    library: CodecLibrary | None
    find_encoder: Callable[[], EngineEncoder | None]
    """Return how the compressor encodes such a chunk; None where Python does."""


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """Chunks that lie in files below one folder, and how they are stored."""

    open_folder: Callable[[], int | None]
    """Open the folder; the caller closes the descriptor. None where there is none."""
    key_of: Callable[[Coords], str]
    """The path of a chunk, or of a shard, below the folder."""
    codecs: EngineCodecs
    shard: ShardLayout | None = None


_SWITCH = os.environ.get("HYPERSLAB_NATIVE", "")
_IGNORED = (
    "" if _SWITCH in ("", "0", "1") else f"HYPERSLAB_NATIVE={_SWITCH!r:.20} is ignored; 0 turns it off, 1 does not"
)
if _IGNORED:
    logging.getLogger("hyperslab").warning("the engine in C is used where it was built: %s", _IGNORED)
turned_off = _SWITCH == "0"
"""Nothing uses the engine. Tests and benchmarks, which compare the two ways, change it while the program runs."""


def load_engine() -> ModuleType | None:
    """Return the engine; None where it was not built, or is turned off."""
    return None if turned_off else _import_engine()


def has_engine() -> bool:
    """Return True where the engine was built and the environment did not turn it off."""
    return _import_engine() is not None


@cache
def _import_engine() -> ModuleType | None:
    if _SWITCH == "0":
        return None
    try:
        import hyperslab.chunks._engine as _engine
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError):  # it is there, and was built for another machine
            logging.getLogger("hyperslab").warning("the engine in C is not used: %s", error)
        return None
    module: ModuleType = _engine
    if is_stale(module, Path(__file__).with_name("_engine.c")):
        logging.getLogger("hyperslab").warning("the engine in C is not used: %s", _STALE)
        return None
    return module


# In an editable install the module stays when its source changes, and then takes other arguments, or reads otherwise.
_FAST = "for others too with pip install 'hyperslab[fast]'"
_BUILD = "With a C compiler: pip install --no-cache-dir --force-reinstall --no-deps hyperslab"
_STALE = "it was built from another _engine.c; pip install hyperslab again, from the same folder"


def is_stale(engine: ModuleType, source: Path) -> bool:
    """Return True where the engine was built from another version of its ``source``.

    One that does not know of what it was built (``source_sum`` 0, built by hand) is not stale, nor one without a
    source.
    """
    known = vars(engine).get("source_sum")
    try:
        return known != 0 and known != crc32(source.read_bytes())
    except OSError:
        return False


@cache  # of several threads that are the first at once each may tell it, the same
def _use_library(addresses: Numbers) -> None:
    """Tell the engine where the functions lie; once, for it looks at them in all jobs."""
    engine = _import_engine()
    assert engine is not None
    engine.use_library(addresses)


def describe_engine(*, has_library: bool) -> str:
    """Return in a few words whether the engine is used, and if not, why; ``has_library``: the codecs have theirs."""
    if load_engine() is not None:
        text = "used for local files" if has_library else f"used for local files that are not compressed; {_FAST}"
    else:
        text = "turned off by HYPERSLAB_NATIVE=0" if turned_off else _describe_absence()
    return f"{text} ({_IGNORED})" if _IGNORED else text


def _describe_absence() -> str:
    try:
        import hyperslab.chunks._engine as _engine  # noqa: F401  # one that was built from another source
    except ModuleNotFoundError:
        return f"not built; Python does the work, more slowly. {_BUILD}"
    except ImportError as error:
        return f"not used: {error}. {_BUILD}"
    return f"not used: {_STALE}"


class SingleChunks:
    """Reads of a single chunk by one call of the engine, which learns once how the chunks of an array are stored."""

    def __init__(self, codecs: EngineCodecs, shape: Numbers, shard: ShardLayout | None) -> None:
        engine, library = _import_engine(), codecs.library
        assert engine is not None
        if library is not None:
            _use_library(library.addresses)
        self._contexts = DecodingContexts() if library is None else library.contexts
        self.shape, self.dtype = shape, codecs.dtype
        self.finds_members = shard is not None
        """It reads chunks of shards by their numbers."""
        nothing = np.empty(codecs.dtype.itemsize, np.uint8)
        groups: tuple[list[Numbers], ...] = tuple([[] for _ in shape])
        strides = (0,) * len(shape)
        self._read = engine.Job(
            groups,
            shape,
            nothing,
            strides,
            bytes(codecs.dtype.itemsize),
            False,
            -2,
            False,
            *_job_codecs(codecs, shape, shard),
        ).read_one

    def read(
        self,
        path: str | None,
        within: tuple[slice, ...] | None,
        out: np.ndarray,
        known: object = None,
        start: int = -1,
        size: int = 0,
    ) -> Found | None:
        """Read the cells ``within`` the chunk (None: all of them) that is a file, into ``out``, of any strides.

        Return the file's stamp from before the read, None in its place where there is no such file; None where the
        engine leaves the chunk. One that has the stamp ``known`` is not read. A part of a shard, ``size`` bytes from
        ``start`` on, is read only if the shard has that stamp, before and after; with ``size`` -1 it is chunk number
        ``start`` of the shard, which is found by the shard's index.
        """
        if path is None or turned_off or out.dtype != self.dtype:
            return None
        contexts = self._contexts
        found: Found | None = self._read(path, within, out, known, start, size, contexts.blosc, contexts.zstd)
        if counting.traces and found is not None:
            counting.count(1, read=found[0])
        return found


Found: TypeAlias = tuple[int, tuple[int, int, int] | None]
"""Bytes that were read, and the stamp of what they were read from."""


def make_single_reads(
    codecs: EngineCodecs | None, shape: Numbers, shard: ShardLayout | None = None
) -> SingleChunks | None:
    """Return what reads single chunks of this shape, once the engine is not turned off; None where it does not.

    ``shard``: how the shards are laid out in which they lie. It finds chunks in them if their indexes are short.
    """
    if _import_engine() is None or codecs is None or len(shape) > _MOST_AXES or not _has_functions(codecs):
        return None
    is_short = shard is not None and _INDEX_ENTRY * prod(shard.members) <= _INDEX_BYTES_PER_CHUNK
    return SingleChunks(codecs, shape, shard if is_short else None)


class EngineJob:
    """One read into ``memory``, or one write of what it holds: its boxes, which several threads may do.

    ``folder``: the descriptor of the folder that is read, which :meth:`close` closes; -1 for a write.
    """

    def __init__(
        self, files: StoredFiles, plan: Plan, memory: np.ndarray, fill: np.ndarray, folder: int, *, whole_only: bool
    ) -> None:
        engine, shape, codecs, shard = load_engine(), plan.grid.fixed, files.codecs, files.shard
        assert engine is not None and shape is not None
        library = codecs.library
        if library is not None:
            _use_library(library.addresses)
        encoder = codecs.find_encoder() if folder < 0 else None
        self._groups = plan.groups
        self._key_of = files.key_of
        self._members = None if shard is None else shard.members
        self._contexts = DecodingContexts() if library is None else library.contexts
        self._scratch = Scratch()
        # A chunk that does not become smaller takes a little more than its cells.
        self._room = codecs.nbytes + codecs.nbytes // 128 + 1024
        entries, strides = zip(*map(_number_entries, plan.groups, memory.strides), strict=True)
        self._job = engine.Job(
            entries,
            shape,
            memory.reshape(-1).view(np.uint8),
            strides,
            fill.tobytes(),
            whole_only,
            folder,
            "/" in files.key_of((0,) * len(shape)),
            *_job_codecs(codecs, shape, shard),
            0 if encoder is None else encoder.level,
            b"" if encoder is None else encoder.header,
        )

    def boxes(self, size: int) -> Iterator[Box]:
        """Yield boxes of up to ``size`` chunks that are all of the plan; none reaches over two shards."""
        groups, members = self._groups, self._members
        if members is None:
            yield from _cut([(0, len(group)) for group in groups], size)
            return
        for runs in product(*map(_find_shard_runs, groups, members)):
            low, high = zip(*runs, strict=True)
            if prod(map(sub, high, low)) <= size:
                yield Box(low, high)
                continue
            boxes = list(_cut(runs, size))
            for box in boxes:
                yield Box(box.low, box.high, len(boxes))

    def close(self) -> None:
        """Close the folder, and what is open of it, as soon as no thread reads a box: one may still do so where the
        caller was interrupted while it waited for it."""
        self._job.close()

    def read(self, box: Box) -> list[Piece]:
        """Read the chunks of a box; return those that are left."""
        if self._members is None:
            keys = list(map(self._key_of, self.coords(box)))
        else:
            first = [group[number][0] for group, number in zip(self._groups, box.low, strict=True)]
            keys = [self._key_of(tuple(map(floordiv, first, self._members)))]
        contexts = self._contexts
        files, nbytes, left = self._job.run(box.low, box.high, keys, contexts.blosc, contexts.zstd, box.in_shard)
        if counting.traces:
            counting.count(files, read=nbytes)
        return list(map(self._piece, left))

    def encode_shard(self, box: Box) -> memoryview | None:
        """Build the shard whose chunks a box has, all of them: valid until this thread encodes again, empty where all
        hold nothing but fill values. None where the box is no whole shard, or a chunk is left."""
        count = len(box)
        if self._members is None or count != prod(self._members):
            return None
        size = count * (self._room + _INDEX_ENTRY) + _INDEX_CHECKSUM
        size = self._job.encode_shard(box.low, box.high, self._scratch.reserve(size)[:size])
        return None if size < 0 else self._scratch.buffer[:size]

    def encode(self, box: Box) -> tuple[dict[Coords, memoryview | None], list[Piece]]:
        """Encode the chunks of a box: their stored bytes, valid until this thread encodes again, None for one of
        nothing but fill values; and those that are left."""
        count = len(box)
        buffer = self._scratch.reserve(count * self._room)
        encoded: dict[Coords, memoryview | None] = {}
        left: list[Piece] = []
        start = 0
        numbers = product(*map(range, box.low, box.high))
        stops = self._job.encode(box.low, box.high, buffer[: count * self._room])
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
        along = zip(self._groups, box.low, box.high, strict=True)
        return product(*[[entry[0] for entry in group[start:stop]] for group, start, stop in along])

    def _piece(self, numbers: Numbers) -> Piece:
        entries = [group[number] for group, number in zip(self._groups, numbers, strict=True)]
        coords, within, out, whole = zip(*entries, strict=True)
        return Piece(coords, within, out, False not in whole)


def _job_codecs(codecs: EngineCodecs, shape: Numbers, shard: ShardLayout | None = None) -> tuple[object, ...]:
    """Return what a job is told of how chunks are stored."""
    names = frozenset() if codecs.library is None else codecs.library.compressors
    return (
        _COMPRESSORS[codecs.compressor],
        codecs.checksum,
        codecs.most,
        None if shard is None else shard.members,
        0 if shard is None else shard.most,
        0 if shard is None else shard.most_in_index,
        shard is not None and shard.index_first,
        shard is not None and shard.index_checksum,
        sum(1 << number for name, number in _BLOSC_FORMATS.items() if name in names),
        codecs.swap,
        codecs.order or tuple(range(len(shape))),
        codecs.shuffle,
    )


def _number_entries(group: Sequence[Entry], stride: int) -> tuple[list[Numbers], int]:
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


def _find_shard_runs(group: Sequence[Entry], members: int) -> list[tuple[int, int]]:
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
            yield Box(low, high)


def _has_short_indexes(plan: Plan, members: Numbers) -> bool:
    """Return True where the indexes of the shards that the plan touches are short for the chunks that it has."""
    count = shards = 1
    for group, many in zip(plan.groups, members, strict=True):
        count *= len(group)
        shards *= len(_find_shard_runs(group, many))
    if prod(members) > _MOST_MEMBERS:
        return False
    return _INDEX_ENTRY * prod(members) * shards <= _INDEX_BYTES_PER_CHUNK * count


def _fits(files: StoredFiles | None, plan: Plan, memory: np.ndarray) -> bool:
    """Return True where the engine can move cells between such files and such memory."""
    if files is None or load_engine() is None or not plan.groups or not plan.basic or plan.grid.fixed is None:
        return False
    if len(plan.groups) > _MOST_AXES:
        return False
    codecs = files.codecs
    if files.shard is not None and not _has_short_indexes(plan, files.shard.members):
        return False
    return memory.dtype == codecs.dtype and memory.flags.c_contiguous and _has_functions(codecs)


def _has_functions(codecs: EngineCodecs) -> bool:
    """Return True where there is a library with the functions that these codecs need, if they need one."""
    if codecs.compressor in ("zlib", "gzip"):
        return codecs.library is not None and codecs.library.inflates
    return codecs.library is not None or (codecs.compressor is None and codecs.shuffle <= 1)


def make_read(
    files: StoredFiles | None, plan: Plan, out: np.ndarray, fill: np.ndarray, *, cached: bool
) -> EngineJob | None:
    """Return what reads the plan, to be closed behind it; None where the engine does not read such chunks into such a
    result.

    ``cached``: chunks that are wanted in part may be in a cache, and are left unless the engine reads them sooner.
    """
    if files is None or not _fits(files, plan, out):
        return None
    whole_only = cached and files.codecs.nbytes > files.codecs.most_uncached
    if whole_only and not all(any(entry[3] for entry in group) for group in plan.groups):
        return None  # all of it would be left
    folder = files.open_folder()
    if folder is None:
        return None
    try:
        return EngineJob(files, plan, out, fill, folder, whole_only=whole_only)
    except BaseException:
        os.close(folder)
        raise


def make_write(files: StoredFiles | None, plan: Plan, values: np.ndarray, fill: np.ndarray) -> EngineJob | None:
    """Return what encodes the plan's chunks; None where the engine does not, or some chunk is not covered whole."""
    if files is None or not _fits(files, plan, values) or files.codecs.find_encoder() is None:
        return None
    if files.shard is None and files.codecs.compressor is None and files.codecs.shuffle <= 1:
        return None  # Python stores such cells from where they are, without a copy
    if not all(entry[3] and entry[2].step is None for group in plan.groups for entry in group):
        return None
    return EngineJob(files, plan, values, fill, -1, whole_only=False)
