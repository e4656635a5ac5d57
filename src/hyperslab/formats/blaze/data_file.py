"""One data file: a header, where its chunks begin, and Blosc chunks each followed by its digest. Pure.

``data/__1__.bin`` of a Blaze directory holds many chunks in the specification's layout of bloscpack (version 2, without
metadata); ``data/__0.blp`` of bcolz and BLZ one chunk behind the 16 bytes of version 1. Every file is checked before
anything in it is decoded: offsets within it, chunks that do not overlap, sizes as the header says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hyperslab.codecs.base import Buffer
from hyperslab.codecs.blosc import HEADER
from hyperslab.codecs.checksums import DIGESTS, Digest
from hyperslab.errors import CorruptChunk, FormatError, Unsupported
from hyperslab.formats.bloscpack.encoding import Slack, sealed, with_slack
from hyperslab.formats.bloscpack.preamble import ENOUGH, SIZE, V1_SIZE, BloscpackHeader, parse_header, render_header
from hyperslab.model.cells import Values

BLOSC = HEADER.size
# Bytes of the longest digest: a file says which of them it has, so room is kept for any.
_LONGEST = max(digest.size for digest in DIGESTS)


@dataclass(frozen=True)
class DataFileLayout:
    """The form of the data files of a column: ``most`` chunks of ``chunk_bytes`` decoded bytes in each, or one chunk
    behind a header of version 1 (``single``); the number of the ``checksum``, the size of a cell and the ``slack`` in
    each chunk for new files."""

    chunk_bytes: int
    most: int
    typesize: int
    checksum: int = 1
    single: bool = False
    slack: Slack = 0

    @property
    def digest(self) -> Digest:
        """The checksum behind each chunk of a new file."""
        return DIGESTS[0 if self.single else self.checksum]

    @cached_property
    def most_stored(self) -> int:
        """Bytes that a chunk with its digest takes at the most: Blosc adds 16 to what it cannot compress."""
        return self.chunk_bytes + BLOSC + _LONGEST


@dataclass(frozen=True)
class ChunkOffsets:
    """The places of the chunks of one file: each from its start to where the next begins at the latest."""

    starts: Values
    stops: Values
    chunk_size: int
    last: int
    digest: Digest

    @cached_property
    def count(self) -> int:
        """Chunks in the file."""
        return len(self.starts)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.starts.nbytes + self.stops.nbytes)

    def span(self, number: int) -> tuple[int, int]:
        """Return where the chunk and its digest lie."""
        return int(self.starts[number]), int(self.stops[number])

    def spans(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Return where these chunks and their digests lie."""
        at = list(numbers)
        return list(zip(self.starts[at].tolist(), self.stops[at].tolist(), strict=True))

    def size(self, number: int) -> int:
        """Return the decoded bytes of a chunk."""
        return self.last if number == self.count - 1 else self.chunk_size


def read_index(head: Buffer, total: int, shape: DataFileLayout) -> ChunkOffsets | int:
    """Return the index of a file of ``total`` bytes that begins with ``head``, or how many bytes it takes to tell.

    FormatError for a header that makes no sense or does not fit ``shape``; CorruptChunk for chunks that lie elsewhere
    than in the file.
    """
    if len(head) < min(ENOUGH, total):
        return min(ENOUGH, total)
    header = _header(head, shape)
    if header.layout == "v1" or header.slots <= 0:
        return total if len(head) < total else _walk_chunks(head, header, shape)
    table = header.size + header.meta_size
    first = table + 8 * header.slots
    if first > total:
        raise CorruptChunk("the file ends within its offsets", expected=f"{first} bytes", found=total)
    if len(head) < first:
        return first
    starts = np.frombuffer(head, "<i8", header.nchunks, table)
    if (starts == -1).any():  # whoever wrote it did not come to an end
        return total if len(head) < total else _walk_chunks(head, header, shape)
    if min(header.chunk_size, header.last_chunk) < 0:  # the chunks themselves say it
        return total if len(head) < total else _check_offsets(starts, header, shape, first, total, head)
    return _check_offsets(starts, header, shape, first, total)


def _header(head: Buffer, shape: DataFileLayout) -> BloscpackHeader:
    header = parse_header(bytes(head[:ENOUGH]))
    if header.layout == "v3" and header.has_metadata:
        raise Unsupported("superchunks with a metadata section of bloscpack's own", remedy="rewrite the file")
    if header.nchunks > shape.most:
        raise FormatError(f"the file holds {header.nchunks} chunks, there are {shape.most} in a superchunk")
    if not header.nchunks:
        raise FormatError("the header says that there are no chunks")
    sizes, whole = {header.chunk_size, header.last_chunk}, shape.chunk_bytes
    if header.chunk_size not in (-1, whole) and not (header.nchunks == 1 and len(sizes) == 1 and max(sizes) <= whole):
        raise FormatError(f"chunk-size is {header.chunk_size}, a chunk of this array has {whole} bytes")
    return header


def _walk_chunks(data: Buffer, header: BloscpackHeader, shape: DataFileLayout) -> ChunkOffsets:
    """Return the index of a file without offsets, by a walk from chunk to chunk along their lengths."""
    at = header.size + header.meta_size + 8 * max(header.slots, 0)
    if header.has_offsets and header.nchunks < 0:
        table = _offsets_without_count(data, at)
        if isinstance(table, np.ndarray):
            return _check_offsets(table, header, shape, int(table[0]), len(data), data)
        at = table
    starts: list[int] = []
    size = header.digest.size
    while at < len(data) if header.nchunks < 0 else len(starts) < header.nchunks:
        if len(starts) == shape.most:
            raise FormatError(f"the file holds more than the {shape.most} chunks of a superchunk")
        stored = _stored(memoryview(data)[at:])
        starts.append(at)
        at += stored + size
    return _check_offsets(np.array(starts, np.int64), header, shape, starts[0] if starts else 0, len(data), data)


def _offsets_without_count(data: Buffer, at: int) -> Values | int:
    """Return the offsets of a file that does not say how many chunks it has; where its chunks begin, if not all are
    set."""
    words = np.frombuffer(data, "<i8", (len(data) - at) // 8, at)
    first = int(words[0]) if len(words) else -1
    if first == -1:  # none is set, and no chunk begins like that
        return at + 8 * int(np.argmax(words != -1)) if (words != -1).any() else len(data)
    if first < at + 8 or first > len(data) or (first - at) % 8:
        raise CorruptChunk("the first offset leads to no chunk", expected=f"{at + 8} to {len(data)}", found=first)
    table = words[: (first - at) // 8]
    return table if (table != -1).all() else first


def _check_offsets(
    starts: Values, header: BloscpackHeader, shape: DataFileLayout, first: int, total: int, data: Any = None
) -> ChunkOffsets:
    """Return the index, if every chunk has room for its header and digest before the next one."""
    order = starts.argsort(kind="stable")
    stops = np.empty(len(starts), np.int64)
    stops[order[:-1]], stops[order[-1:]] = starts[order[1:]], total
    digest = header.digest
    least = BLOSC + digest.size
    bad = (starts < first) | (stops - starts < least)
    if len(starts) and starts.min() != first:
        message = "the first chunk does not follow the offsets, of which there may be more or less than the header says"
        raise CorruptChunk(message, expected=first, found=int(starts.min()))
    if bad.any():
        number = int(np.argmax(bad))
        span = f"{starts[number]} to {stops[number]}"
        message = f"chunk {number} lies outside the file, over its header or over another chunk"
        raise CorruptChunk(message, expected=f"at least {least} bytes within {first} to {total}", found=span)
    size, last = header.chunk_size, header.last_chunk
    if (size < 0 or last < 0) and len(starts):
        size, last = [HEADER.unpack_from(data, start)[4] for start in starts[[0, -1]].tolist()]
        if (len(starts) > 1 and size != shape.chunk_bytes) or last > shape.chunk_bytes:
            raise CorruptChunk("chunks of a wrong size", expected=f"{shape.chunk_bytes} bytes", found=max(size, last))
    # What lies between a chunk and the next one may be anything: no more is read than a chunk can take.
    stops = np.minimum(stops, starts + shape.most_stored)
    return ChunkOffsets(starts, stops, shape.chunk_bytes if len(starts) > 1 else last, last, digest)


def _stored(chunk: Buffer) -> int:
    """Return the bytes that a chunk says to take, its header included."""
    if len(chunk) < BLOSC:
        raise CorruptChunk("the file ends within a chunk's header", expected=f"{BLOSC} bytes", found=len(chunk))
    stored = int(HEADER.unpack_from(chunk)[6])
    if not BLOSC <= stored <= len(chunk):
        raise CorruptChunk("the file ends within a chunk", expected=f"{stored} bytes", found=len(chunk))
    return stored


def verify_chunk(part: Buffer, index: ChunkOffsets, number: int) -> tuple[memoryview, int]:
    """Return the Blosc chunk of what lies in its span, its digest verified, and its decoded size, as the header has it.

    CorruptChunk with both values.
    """
    view = memoryview(part)
    stored = _stored(view)
    behind = view[stored : stored + index.digest.size]
    if len(behind) < index.digest.size:
        raise CorruptChunk("the chunk leaves no room for its digest", expected=f"{index.digest.size} bytes behind")
    index.digest.check(view[:stored], behind)
    nbytes = int(HEADER.unpack_from(view)[4])
    if nbytes != index.size(number):
        raise CorruptChunk("the chunk has another size than its file says", expected=index.size(number), found=nbytes)
    return view[:stored], nbytes


def seal(chunk: Buffer, shape: DataFileLayout) -> bytes:
    """Return a chunk as it is stored: itself with its slack, and its digest."""
    return sealed(with_slack(chunk, shape.slack) if shape.slack else chunk, shape.digest)


def join(parts: Sequence[Buffer], last: int, shape: DataFileLayout) -> memoryview:
    """Return a file of sealed chunks, the last one of ``last`` decoded bytes; FormatError for more than fit."""
    header = BloscpackHeader(
        layout="v1" if shape.single else "v2",
        version=1 if shape.single else 2,
        has_offsets=not shape.single,
        checksum=0 if shape.single else shape.checksum,
        typesize=shape.typesize if shape.typesize <= 255 else 1,
        chunk_size=shape.chunk_bytes,
        last_chunk=last,
        nchunks=len(parts),
    )
    at = V1_SIZE if shape.single else SIZE + 8 * len(parts)
    starts = at + np.cumsum([0, *map(len, parts)])
    file = np.empty(int(starts[-1]), np.uint8).data
    file[: header.size] = render_header(header)
    if not shape.single:
        file[SIZE:at] = starts[:-1].astype("<i8").tobytes()
    for start, part in zip(starts.tolist(), parts, strict=False):
        file[start : start + len(part)] = part
    return file
