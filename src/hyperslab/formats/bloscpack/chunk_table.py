"""The places of the chunks of a file: by its offsets, or by a walk from one chunk to the next where there are none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hyperslab.chunks.memory import require
from hyperslab.codecs.blosc import FORMATS, HEADER, MAX_BYTES
from hyperslab.errors import CorruptChunk, MissingChunks
from hyperslab.formats.bloscpack.file import FileBytes, read_stable
from hyperslab.formats.bloscpack.preamble import BloscpackHeader, Preamble
from hyperslab.formats.format_errors import document_error
from hyperslab.model.cells import Values
from hyperslab.model.spec import Codec

BLOSC = HEADER.size
# Bytes of offsets that are looked at together where it is not known how many there are.
_WINDOW = 1 << 16
# Versions of the format of Blosc chunks; anything else at the place of a chunk's first byte is none.
_VERSIONS = (1, 2)
_SHUFFLES = {0: "noshuffle", 1: "shuffle", 4: "bitshuffle"}


@dataclass(frozen=True, eq=False, kw_only=True)
class ChunkTable:
    """The chunks that were found: where each starts, and the bytes to the next one (or to the end of the file).

    ``declared``: chunks that there should be. ``chunk_size`` and ``last``: decoded bytes of each chunk and of the last
    one; -1, and ``edges``, where they differ. ``begin``: the first byte that a chunk may have. ``fault`` says why
    there are no more than these; ``unfinished``: the file does not say how many there should be, or where they are,
    for its writer never came to the end.
    """

    starts: Values
    rooms: Values
    chunk_size: int
    last: int
    digest_size: int
    begin: int
    file_size: int
    declared: int
    edges: Values | None = None
    fault: str = ""
    unfinished: bool = False

    @property
    def found(self) -> int:
        """Chunks whose places are known."""
        return len(self.starts)

    @property
    def nbytes(self) -> int:
        """Decoded bytes of all the chunks that there should be."""
        if self.edges is not None:
            return int(self.edges[-1])
        return 0 if self.declared == 0 else self.chunk_size * (self.declared - 1) + self.last

    @property
    def uniform(self) -> int:
        """Decoded bytes of every chunk, of which the last may have fewer; -1 where they differ."""
        if self.edges is None:
            return self.chunk_size
        sizes = np.diff(self.edges)
        if not len(sizes):
            return -1
        same = bool((sizes[:-1] == sizes[0]).all()) and sizes[-1] <= sizes[0]
        return int(sizes[0]) if same else -1

    def find(self, position: int) -> int:
        """Return the chunk that holds a byte of the stream; MissingChunks behind the last one of a walk."""
        if self.edges is None:
            return position // self.chunk_size if self.chunk_size > 0 else 0
        number = int(np.searchsorted(self.edges, position, side="right")) - 1
        if number >= self.found:
            raise self.missing(number)
        return number

    def span(self, number: int) -> tuple[int, int]:
        """Return the bytes of the stream that a chunk holds."""
        if self.edges is not None:
            return int(self.edges[number]), int(self.edges[number + 1])
        start = number * self.chunk_size
        return start, start + (self.last if number == self.declared - 1 else self.chunk_size)

    def is_complete(self, file: FileBytes) -> bool:
        """Return True if all chunks that there should be are there, the last one as long as the header says by its
        own.
        """
        if self.fault or self.found < self.declared or not self.found or int(self.rooms[-1]) < BLOSC:
            return False
        start, stop = self.span(self.found - 1)
        return int.from_bytes(file.pread(4, int(self.starts[-1]) + 4), "little") == stop - start

    def entry(self, number: int) -> tuple[int, int, int]:
        """Return where a chunk starts, the bytes to read from there (it, and its digest), and what it decodes to.

        MissingChunks when it is not there, CorruptChunk when there is no room for one.
        """
        if number >= len(self.starts):
            raise self.missing(number)
        at, room = int(self.starts[number]), int(self.rooms[number])
        if room < BLOSC + self.digest_size:
            expected = f"{self.begin} to {self.file_size - BLOSC - self.digest_size}, and no other chunk within"
            raise CorruptChunk("its offset lies outside the file or within another chunk", expected=expected, found=at)
        if self.edges is None:  # the length of span, without its call: this is done for every chunk
            nbytes = self.last if number == self.declared - 1 else self.chunk_size
        else:
            nbytes = int(self.edges[number + 1]) - int(self.edges[number])
        return at, min(room, nbytes + BLOSC + self.digest_size), nbytes

    def missing(self, number: int) -> MissingChunks:
        """Return the error for a chunk that is not there."""
        remedy = "write the file anew from its source, or read only the cells before"
        why = f": {self.fault}" if self.fault else ""
        return MissingChunks(f"chunk {number} is not there, the last whole one is {self.found - 1}{why}", remedy=remedy)


def read_table(file: FileBytes, preamble: Preamble, expected: int = -1) -> ChunkTable:
    """Return the chunks of a file. ``expected``: decoded bytes by the metadata, for what the header leaves open.

    FormatError where nobody can tell where they begin.
    """
    header, at = preamble.header, preamble.offsets_at
    if header.has_offsets and header.nchunks < 0:
        begin = _end_of_offsets(file, at)
        found = _walk_chunks(file, header, begin, expected)
        require(4 * (begin - at), None)
        starts = np.frombuffer(file.pread(begin - at, at), "<i8")
        if found.fault and len(starts) > 1 and not (starts == -1).any():  # there is room behind the digests
            return _by_offsets(file, replace(header, nchunks=len(starts)), starts, begin)
        return found
    if preamble.chunks_at > file.size:
        message = f"the file ends before its chunks: it has {file.size} bytes, they begin at {preamble.chunks_at}"
        raise document_error("truncated", message)
    if header.has_offsets:
        require(32 * header.nchunks, None)
        starts = np.frombuffer(file.pread(8 * header.nchunks, at), "<i8")
        if not (starts == -1).any():
            return _by_offsets(file, header, starts, preamble.chunks_at)
    return _walk_chunks(file, header, preamble.chunks_at, expected)


def _end_of_offsets(file: FileBytes, at: int) -> int:
    """Return where the offsets of an unfinished file end: the first of them says it, or where it is not set, all are -1
    (no chunk begins like that)."""
    first = int.from_bytes(file.pread(8, at), "little", signed=True) if at + 8 <= file.size else -1
    if first != -1:
        if first < at + 8 or first > file.size or (first - at) % 8:
            message = f"the number of chunks is not known, nor where they begin: the first offset is {first}"
            raise document_error("offsets", message)
        return first
    while words := min(_WINDOW, file.size - at) // 8:
        other = np.frombuffer(file.pread(8 * words, at), "<i8") != -1
        if other.any():
            return at + 8 * int(np.argmax(other))
        at += 8 * words
    return at


def _by_offsets(file: FileBytes, header: BloscpackHeader, starts: Values, begin: int) -> ChunkTable:
    rooms = np.empty_like(starts)
    if len(starts) and (starts[1:] > starts[:-1]).all():  # nearly always, and each opening of a file asks
        rooms[:-1] = starts[1:] - starts[:-1]
        rooms[-1] = file.size - starts[-1]
    else:
        order = np.argsort(starts, kind="stable")
        rooms[order] = np.diff(np.append(starts[order], file.size))
    rooms[(starts < begin) | (starts > file.size)] = -1
    edges, last, size = None, header.last_chunk, header.chunk_size
    if size < 0:
        sizes = [_decoded(file, int(start), int(room)) for start, room in zip(starts, rooms, strict=True)]
        edges = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    elif last < 0 and len(starts):
        last = _decoded(file, int(starts[-1]), int(rooms[-1]))
    return ChunkTable(
        starts=starts,
        rooms=rooms,
        chunk_size=size,
        last=last,
        digest_size=header.digest.size,
        begin=begin,
        file_size=file.size,
        declared=header.nchunks,
        edges=edges,
    )


def _decoded(file: FileBytes, start: int, room: int) -> int:
    """Return the decoded size that a chunk says of itself."""
    if room < BLOSC:
        raise document_error("offsets", f"the sizes of the chunks are not known, and offset {start} leads to none")
    return int.from_bytes(file.pread(4, start + 4), "little")


def _walk_chunks(file: FileBytes, header: BloscpackHeader, begin: int, expected: int) -> ChunkTable:
    """Walk from one chunk to the next, as the lengths in them say, to the last one or to the end of the file."""
    digest, at, declared = header.digest.size, begin, header.nchunks
    starts: list[int] = []
    sizes: list[int] = []
    fault = ""
    while declared < 0 or len(starts) < declared:
        if at + BLOSC + digest > file.size:
            rest = file.size - at
            fault = f"the file ends within chunk {len(starts)}" if rest or declared >= 0 else ""
            break
        version, _, _, _, nbytes, _, stored = HEADER.unpack(file.pread(BLOSC, at))
        if version not in _VERSIONS or not BLOSC <= stored <= nbytes + BLOSC or nbytes > MAX_BYTES:
            fault = f"at byte {at} there is no chunk, but version {version}, {nbytes} bytes stored in {stored}"
            break
        if at + stored + digest > file.size:
            fault = f"the file ends within chunk {len(starts)}, which reaches to {at + stored + digest}"
            break
        starts.append(at)
        sizes.append(nbytes)
        at += stored + digest
    rooms = np.diff(np.array([*starts, at], np.int64))
    size, last, edges = header.chunk_size, header.last_chunk, None
    if size < 0:
        edges, declared = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))), max(declared, len(sizes))
    elif declared < 0:
        declared, last = _uniform(sizes, size, expected)
    elif last < 0:
        last = sizes[-1] if declared == len(sizes) > 0 else max(0, expected - (declared - 1) * size)
    return ChunkTable(
        starts=np.array(starts, np.int64),
        rooms=rooms,
        chunk_size=size,
        last=last,
        digest_size=digest,
        begin=begin,
        file_size=file.size,
        declared=declared,
        edges=edges,
        fault=fault,
        unfinished=header.nchunks < 0 or header.has_offsets,
    )


def _uniform(sizes: list[int], size: int, expected: int) -> tuple[int, int]:
    """Return how many chunks of ``size`` there should be, and the decoded bytes of the last one."""
    if expected < 0 or not size:
        return len(sizes), sizes[-1] if sizes else 0
    count = max(1, -(-expected // size))
    return max(count, len(sizes)), expected - (count - 1) * size if count >= len(sizes) else sizes[-1]


def codecs_of(file: FileBytes, preamble: Preamble) -> tuple[Codec, ...]:
    """Return how the first chunk is compressed, which is how the others usually are; nothing when it cannot be told."""
    at = preamble.chunks_at
    if preamble.header.slots > 0:
        offset = int.from_bytes(file.pread(8, preamble.offsets_at), "little", signed=True)
        at = at if offset < 0 else offset
    if at + BLOSC > file.size:
        return ()
    _, _, flags, typesize, _, _, _ = HEADER.unpack(file.pread(BLOSC, at))
    if flags >> 5 >= len(FORMATS):
        return ()
    shuffle = _SHUFFLES.get(flags & 5, "noshuffle")
    return (Codec("blosc", {"cname": FORMATS[flags >> 5], "shuffle": shuffle, "typesize": max(typesize, 1)}),)


def stored_end(file: FileBytes, table: ChunkTable) -> int:
    """Return where the last stored chunk and its digest end; the end of the file when that cannot be told."""
    if not table.found:
        return table.begin
    last = int(np.argmax(table.starts))
    if table.rooms[last] < BLOSC:
        return file.size
    start = int(table.starts[last])
    return start + int.from_bytes(file.pread(4, start + 12), "little") + table.digest_size


class TableCache:
    """The table of a file, read when it is first asked for, and again once the file is another one."""

    def __init__(self, file: FileBytes, load: Callable[[], ChunkTable]) -> None:
        self._file = file
        self._load = load
        self._lock = threading.RLock()
        self._cached: tuple[object, ChunkTable] | None = None

    def get(self) -> ChunkTable:
        """Return the table."""
        cached = self._cached
        return cached[1] if cached is not None else self.refreshed(None)

    def refreshed(self, table: ChunkTable | None) -> ChunkTable:
        """Return the table as it is now; the same one while the file is."""
        with self._lock:
            cached = self._cached
            if cached is not None and (cached[1] is not table or cached[0] == self._file.stamp()):
                return cached[1]
            return self.reload()

    def reload(self) -> ChunkTable:
        """Read the table once more, though the file tells of no change: its clock may not have ticked in between."""
        with self._lock:
            self._cached = cached = read_stable(self._file, self._load)
            return cached[1]
