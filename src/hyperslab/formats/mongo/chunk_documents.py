"""Cells as chunk documents and back. Pure: documents are mappings, and no server is asked.

A chunk is one array. Its bytes (of a sparse one: those of its values, then those of their coordinates) are cut every
``chunkSize`` into documents n = 0, 1, …, each of which repeats dtype, shape and type of the whole chunk. A document has
the same ``_id`` however often it is written, so that writing it again changes nothing.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
from bson import ObjectId

from hyperslab.errors import HyperslabError, MissingChunks
from hyperslab.formats.mongo.bson_values import (
    Document,
    MutableDocument,
    dtype_from_text,
    dtype_to_text,
    little_endian_bytes,
    parse_index,
    parse_sizes,
    to_little_endian,
)
from hyperslab.formats.mongo.errors import CorruptDocument
from hyperslab.model.coo import Coo, Numbers

# -- the _id of a chunk document --------------------------------------------------------------------------------------


ChunkIndex = tuple[int, ...] | None
"""Indices of a chunk, None for a variable that is stored whole."""


def _key_bytes(name: str, chunk: ChunkIndex, n: int) -> bytes:
    where = b"\xff" if chunk is None else b"".join(index.to_bytes(8, "little") for index in chunk)
    return name.encode() + b"\0" + where + n.to_bytes(8, "little", signed=True)


@dataclass(frozen=True, slots=True)
class DerivedIds:
    """Computed from the key alone: whoever knows the key knows the ``_id``."""

    meta_id: ObjectId

    def __call__(self, name: str, chunk: ChunkIndex, n: int) -> ObjectId:
        return ObjectId(blake2b(self.meta_id.binary + _key_bytes(name, chunk, n), digest_size=12).digest())

    def is_id_of(self, doc: Document) -> bool:
        """Return True if the ``_id`` of a chunk document is the one that follows from its key."""
        try:
            name, chunk = parse_key(doc)
            return bool(doc["_id"] == self(name, chunk, int(doc.get("n", 0))))
        except (HyperslabError, TypeError, ValueError, OverflowError):
            return False


@dataclass(frozen=True, slots=True)
class SaltedIds:
    """Ordinary to look at: the seconds of the moment, then a hash of the key and of a salt that the writer carries."""

    moment: int = field(default_factory=lambda: int(time.time()))
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    def __call__(self, name: str, chunk: ChunkIndex, n: int) -> ObjectId:
        digest = blake2b(_key_bytes(name, chunk, n), digest_size=8, key=self.salt).digest()
        return ObjectId((self.moment & 0xFFFFFFFF).to_bytes(4, "big") + digest)


IdScheme = DerivedIds | SaltedIds


DENSE, SPARSE = "ndarray", "COO"

Key = tuple[str, ChunkIndex]
"""Name of the variable, and which of its chunks."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One document of a chunk, ``id``: the ``n``-th of those that a large chunk is cut into. ``data`` are bytes of the
    cells; of a sparse chunk those of its values, and ``coords`` of places."""

    key: Key
    n: int
    dtype: np.dtype
    shape: tuple[int, ...]
    data: bytes
    coords: bytes | None = None
    nnz: int | None = None
    fill: bytes | None = None
    units: str | None = None
    id: Any = field(default=None, compare=False)

    @property
    def sparse(self) -> bool:
        """Return True if the chunk is stored as COO."""
        return self.coords is not None

    @property
    def nbytes(self) -> int:
        """Bytes of the cells, of a sparse chunk those of values and places."""
        return len(self.data) + len(self.coords or b"")

    @property
    def kind(self) -> tuple[Any, ...]:
        """The properties that all documents of one chunk share."""
        return self.dtype, self.shape, self.sparse, self.nnz, self.fill


# -- from documents ---------------------------------------------------------------------------------------------------


def parse_key(doc: Document) -> Key:
    """Return which chunk a document belongs to. CorruptDocument."""
    name, chunk = doc.get("name"), doc.get("chunk")
    if not isinstance(name, str) or not isinstance(chunk, list | None):
        raise CorruptDocument(f"a chunk document with name {name!r} and chunk {chunk!r}", key=str(doc.get("_id")))
    return name, None if chunk is None else tuple(parse_index(index, "chunk", name) for index in chunk)


def parse_segment(doc: Document) -> Segment:
    """Parse one chunk document; unknown fields are passed over. CorruptDocument, Unsupported for its dtype."""
    key = parse_key(doc)
    name = key[0]
    sparse = doc.get("type", DENSE) == SPARSE
    if doc.get("type", DENSE) not in (DENSE, SPARSE):
        message = f"{name!r} has a chunk of type {doc['type']!r}"
        raise CorruptDocument(message, expected="ndarray or COO", key=format_key(key))
    data = doc.get("sparse_data", doc.get("data")) if sparse else doc.get("data")
    coords = doc.get("sparse_coords", doc.get("coords")) if sparse else None
    fill = doc.get("fill_value") if sparse else None
    if not isinstance(data, bytes) or (sparse and not (isinstance(coords, bytes) and isinstance(fill, bytes))):
        raise CorruptDocument("a chunk document without its bytes", key=format_key(key))
    shape = parse_sizes(doc.get("shape"), "shape", name)
    if None in shape:
        found = doc.get("shape")
        raise CorruptDocument("a chunk of unknown size", expected="whole numbers", found=found, key=format_key(key))
    units = doc.get("units")
    return Segment(
        key,
        parse_index(doc.get("n", 0), "n", name),
        dtype_from_text(doc.get("dtype"), name),
        tuple(size for size in shape if size is not None),
        data,
        coords,
        parse_index(doc.get("nnz"), "nnz", name) if sparse else None,
        fill,
        units if isinstance(units, str) else None,
        doc.get("_id"),
    )


def format_key(key: Key) -> str:
    """Return a key for people: ``temp[0, 1]``, ``lat`` for a variable that is stored whole."""
    name, chunk = key
    return name if chunk is None else f"{name}[{', '.join(map(str, chunk))}]"


@dataclass(frozen=True, slots=True)
class AssembledChunk:
    """All documents of one chunk, in order: what its cells are made of."""

    segments: tuple[Segment, ...]

    @property
    def first(self) -> Segment:
        """The document that speaks for all."""
        return self.segments[0]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the cells as stored."""
        return self.first.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The chunk's shape."""
        return self.first.shape

    @property
    def sparse(self) -> bool:
        """Return True if it is stored as COO."""
        return self.first.sparse

    @property
    def nbytes(self) -> int:
        """Bytes of the cells as they are stored."""
        return sum(segment.nbytes for segment in self.segments)

    def read_into(self, out: Numbers) -> None:
        """Put all cells into ``out``, of this shape; any strides, and any dtype that holds them."""
        if self.sparse:
            self.coo().put_into(out)
        elif out.dtype == self.dtype and out.flags.c_contiguous and not out.dtype.hasobject:
            target, start = bytes_view(out), 0
            for segment in self.segments:
                target[start : start + len(segment.data)] = np.frombuffer(segment.data, np.uint8)
                start += len(segment.data)
        else:
            out[...] = self.block()

    def read_common(self, out: Numbers) -> None:
        """Read the cells that lie within ``out``, which may be longer or shorter; its others stay."""
        if self.shape == out.shape:
            self.read_into(out)
            return
        common = tuple(slice(0, min(pair)) for pair in zip(self.shape, out.shape, strict=True))
        out[common] = self.block()[common]

    def read_padded(self, out: Numbers, fill: Numbers) -> None:
        """Put the cells that lie within ``out`` into it, and ``fill`` where this chunk has none."""
        if self.shape != out.shape:
            out[...] = fill
        self.read_common(out)

    def block(self) -> Numbers:
        """Return the cells, dense, in memory of their own."""
        block: Numbers = np.empty(self.shape, self.dtype)
        self.read_into(block)
        return block

    def coo(self) -> Coo:
        """Return the cells, sparse, in C order; a dense chunk is compared with zero. CorruptDocument for impossible
        places.
        """
        first, shape = self.first, self.shape
        if first.nnz is None or first.fill is None:
            return Coo.of_dense(self.block(), np.zeros((), self.dtype))
        key, nnz = format_key(first.key), first.nnz
        coords = b"".join(segment.coords or b"" for segment in self.segments)
        places = np.frombuffer(coords, coordinate_dtype(shape)).reshape(len(shape), nnz)
        if any(int(row.max()) >= size for row, size in zip(places, shape, strict=True) if nnz):
            raise CorruptDocument("a sparse chunk lists a cell outside of it", expected=shape, found="larger", key=key)
        if not shape and nnz > 1:
            raise CorruptDocument("a sparse chunk lists a cell twice", expected=1, found=nnz, key=key)
        order = np.lexsort(places[::-1]) if shape else np.arange(nnz)
        places = places[:, order].astype(np.intp)
        if shape and nnz > 1 and (places[:, 1:] == places[:, :-1]).all(axis=0).any():
            raise CorruptDocument("a sparse chunk lists a cell twice", key=key)
        values = np.frombuffer(b"".join(segment.data for segment in self.segments), self.dtype)
        return Coo(shape, places, values[order], np.frombuffer(first.fill, self.dtype).reshape(()).copy())

    def coo_of_shape(self, shape: tuple[int, ...], fill: Numbers) -> Coo:
        """Return the cells of a chunk that has ``shape`` now: those past its documents are ``fill``, others are cut
        off.

        A chunk that is stored dense lists what is not ``fill``.
        """
        cells = self.coo().astype(fill.dtype) if self.sparse else Coo.of_dense(self.block().astype(fill.dtype), fill)
        if cells.shape == shape:
            return cells
        kept = cells.part([slice(0, min(pair)) for pair in zip(cells.shape, shape, strict=True)]).with_fill(fill)
        return Coo(shape, kept.coords, kept.data, fill)


def bytes_view(block: Numbers) -> Numbers:
    """Return the bytes of a C-contiguous block."""
    return block.reshape(-1).view(np.uint8) if block.size else np.empty(0, np.uint8)


def coordinate_dtype(shape: tuple[int, ...]) -> np.dtype:
    """Return the unsigned type of places in a chunk of this shape."""
    longest = max(shape, default=0)
    return np.dtype("u1" if longest < 256 else "<u2" if longest < 1 << 16 else "<u4" if longest < 1 << 32 else "<u8")


def assemble_chunk(key: Key, segments: Sequence[Segment]) -> AssembledChunk:
    """Return the documents of one chunk in order, checked to be complete and to agree.

    MissingChunks where some are not there; CorruptDocument where they contradict each other or are too many.
    """
    if not segments:
        raise MissingChunks("a chunk was never stored, or is lost", key=format_key(key))
    single = _without_duplicates(key, segments)
    kinds = {segment.kind for segment in single}
    if len(kinds) > 1:
        found = " and ".join(sorted(f"{segment.dtype}{segment.shape}" for segment in single))
        raise CorruptDocument("documents of one chunk that differ in shape or type", found=found, key=format_key(key))
    _check_complete(key, single)
    return AssembledChunk(tuple(single))


def expected_bytes(segment: Segment) -> tuple[int, int]:
    """Return the bytes of the cells (of a sparse chunk: of its values), and those of places, of the whole chunk."""
    if not segment.sparse:
        return segment.dtype.itemsize * prod(segment.shape), 0
    nnz = segment.nnz or 0
    return segment.dtype.itemsize * nnz, coordinate_dtype(segment.shape).itemsize * len(segment.shape) * nnz


def _check_complete(key: Key, segments: Sequence[Segment]) -> None:
    first = segments[0]
    expected = expected_bytes(first)
    found = sum(len(segment.data) for segment in segments), sum(len(segment.coords or b"") for segment in segments)
    gaps = [segment.n for segment in segments] != list(range(len(segments)))
    where = format_key(key)
    if sum(found) > sum(expected):
        raise CorruptDocument("a chunk of too many bytes", expected=sum(expected), found=sum(found), key=where)
    if gaps or sum(found) < sum(expected):
        message = f"documents of a chunk are missing: {sum(found)} of {sum(expected)} bytes are there"
        raise MissingChunks(message, key=where)
    if found != expected:
        raise CorruptDocument("values and places of a sparse chunk", expected=expected, found=found, key=where)
    if first.fill is not None and len(first.fill) != first.dtype.itemsize:
        raise CorruptDocument("a fill value", expected=first.dtype.itemsize, found=len(first.fill), key=where)


def _without_duplicates(key: Key, segments: Sequence[Segment]) -> list[Segment]:
    """Return one document for each n: of copies any; of those that differ the kind that is complete by itself."""
    by_n: dict[int, list[Segment]] = {}
    for segment in segments:
        others = by_n.setdefault(segment.n, [])
        if segment not in others:
            others.append(segment)
    if all(len(others) == 1 for others in by_n.values()):
        return [by_n[n][0] for n in sorted(by_n)]
    whole = [single for kind in dict.fromkeys(s.kind for s in segments) if (single := _only_complete_kind(kind, by_n))]
    if len(whole) != 1:
        raise CorruptDocument("documents of one chunk that contradict each other", key=format_key(key))
    return whole[0]


def _only_complete_kind(kind: tuple[Any, ...], by_n: Mapping[int, list[Segment]]) -> list[Segment] | None:
    """Return the documents of one kind, when they are a whole chunk and leave no choice."""
    own = [[segment for segment in by_n[n] if segment.kind == kind] for n in sorted(by_n)]
    while own and not own[-1]:
        own.pop()
    if any(len(choice) != 1 for choice in own):
        return None
    single = [choice[0] for choice in own]
    try:
        _check_complete(single[0].key, single)
    except (MissingChunks, CorruptDocument):
        return None
    return single


# -- to documents -----------------------------------------------------------------------------------------------------


def encode_coo(coo: Coo) -> tuple[int, bytes, bytes, bytes]:
    """Return how many cells are listed, and the bytes of their values, their places and the fill value."""
    cells = coo.canonical()
    places = np.ascontiguousarray(cells.coords, coordinate_dtype(coo.shape)).tobytes()
    return cells.nnz, to_little_endian(cells.data).tobytes(), places, to_little_endian(cells.fill).tobytes()


def make_documents(
    ids: IdScheme, meta_id: ObjectId, key: Key, cells: Numbers | Coo, chunk_size: int
) -> Iterator[MutableDocument]:
    """Yield the documents of one chunk, in the order of their n."""
    name, chunk = key
    common = {
        "dtype": dtype_to_text(cells.dtype, name),
        "shape": list(cells.shape),
        "type": SPARSE if isinstance(cells, Coo) else DENSE,
    }
    where = None if chunk is None else list(chunk)
    for n, content in enumerate(segment_contents(cells, chunk_size)):
        head = {"_id": ids(name, chunk, n), "meta_id": meta_id, "name": name, "chunk": where, "n": n}
        yield head | common | content


def segment_contents(cells: Numbers | Coo, chunk_size: int) -> Iterator[MutableDocument]:
    """Yield the part of a chunk that each of its documents holds: at most ``chunk_size`` bytes, one empty document for
    none.
    """
    if isinstance(cells, Coo):
        nnz, data, places, fill = encode_coo(cells)
        for start in range(0, max(1, len(data) + len(places)), chunk_size):
            stop, behind = start + chunk_size, max(0, start - len(data))
            part = places[behind : max(0, stop - len(data))]
            yield {"nnz": nnz, "fill_value": fill, "sparse_data": data[start:stop], "sparse_coords": part}
        return
    if cells.flags.c_contiguous:
        stored = bytes_view(to_little_endian(cells))
        for start in range(0, max(1, stored.size), chunk_size):
            yield {"data": stored[start : start + chunk_size].tobytes()}
        return
    raw = little_endian_bytes(cells)
    for start in range(0, max(1, len(raw)), chunk_size):
        yield {"data": raw[start : start + chunk_size]}


def count_documents(shape: Sequence[int | None], dtype: np.dtype, chunk_size: int) -> int:
    """Return how many documents of ``chunk_size`` bytes a dense chunk has; 1 where a size is not known."""
    if None in shape or chunk_size < 1:
        return 1
    return max(1, -(-dtype.itemsize * prod(size or 0 for size in shape) // chunk_size))


# -- parts of a chunk -------------------------------------------------------------------------------------------------
# A few cells of a large chunk are read from the segments that hold them, not from all.


@dataclass(frozen=True, slots=True)
class CellSpan:
    """The cells ``within`` (forward slices) of a chunk of ``shape``, in C order from cell ``low`` up to ``high``."""

    shape: tuple[int, ...]
    dtype: np.dtype
    low: int
    high: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], within: Sequence[slice], dtype: np.dtype) -> CellSpan:
        """Return the span of a part that holds at least one cell."""
        steps = [part.step or 1 for part in within]
        counts = tuple(len(range(*part.indices(size))) for part, size in zip(within, shape, strict=True))
        unit = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        low = sum(part.start * size for part, size in zip(within, unit, strict=True))
        strides = tuple(step * size for step, size in zip(steps, unit, strict=True))
        high = low + sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True)) + 1
        return cls(shape, dtype, low, high, counts, strides)

    @classmethod
    def worth_reading(
        cls, shape: tuple[int, ...], within: Sequence[slice], dtype: np.dtype, size: int
    ) -> CellSpan | None:
        """Return the span of a part of a chunk in documents of ``size`` bytes; None where the chunk is to be read
        whole: it is one document, or half of it is wanted."""
        if not size or not shape or dtype.itemsize * prod(shape) <= size:
            return None
        span = cls.of(shape, within, dtype)
        return span if 2 * (span.high - span.low) <= prod(shape) else None

    def numbers(self, size: int) -> range:
        """Return the numbers of the segments, of ``size`` bytes each, that hold the span."""
        return range(self.low * self.dtype.itemsize // size, (self.high * self.dtype.itemsize - 1) // size + 1)

    def take(self, segments: Mapping[int, Segment], size: int) -> Numbers | None:
        """Return the part, from segments of ``size`` bytes by their number; None when they are not those of a dense
        chunk of this shape, or not as long as they should be."""
        itemsize = self.dtype.itemsize
        total = itemsize * prod(self.shape)
        for n, each in segments.items():
            if each.sparse or each.shape != self.shape or each.dtype != self.dtype:
                return None
            if len(each.data) != max(0, min(size, total - n * size)):
                return None
        start, stop = self.low * itemsize, self.high * itemsize
        raw = np.empty(stop - start, np.uint8)
        for n in self.numbers(size):
            if n not in segments:
                return None
            first, last = max(start, n * size), min(stop, n * size + size)
            piece = np.frombuffer(segments[n].data, np.uint8)[first - n * size : last - n * size]
            raw[first - start : last - start] = piece
        strides = tuple(stride * itemsize for stride in self.strides)
        return np.lib.stride_tricks.as_strided(raw.view(self.dtype), self.counts, strides, writeable=False)
