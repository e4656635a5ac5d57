"""Cells to chunk documents and back. Pure: documents are mappings, and nothing is asked of a server.

A chunk is one array. Its bytes (of a sparse one: those of its values, then those of their places) are cut every
``chunkSize`` into documents n = 0, 1, …, each of which repeats dtype, shape and type of the whole chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hyperslab.errors import MissingChunks
from hyperslab.formats.mongo.faults import CorruptDocument
from hyperslab.formats.mongo.ids import Chunk, Ids
from hyperslab.formats.mongo.numbers import index_of, sizes_of
from hyperslab.formats.mongo.types import dtype_from_text, dtype_to_text, little
from hyperslab.model.coo import Coo, Numbers

DENSE, SPARSE = "ndarray", "COO"

Key = tuple[str, Chunk]
"""Name of the variable, and which of its chunks."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One document: ``data`` are bytes of the cells, of a sparse chunk those of its values and ``coords`` of places."""

    key: Key
    n: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    data: bytes
    coords: bytes | None = None
    nnz: int | None = None
    fill: bytes | None = None
    units: str | None = None

    @property
    def sparse(self) -> bool:
        """Return whether the chunk is stored as COO."""
        return self.coords is not None

    @property
    def nbytes(self) -> int:
        """Bytes of the cells, of a sparse chunk those of values and places."""
        return len(self.data) + len(self.coords or b"")

    @property
    def kind(self) -> tuple[Any, ...]:
        """What all documents of one chunk agree upon."""
        return self.dtype, self.shape, self.sparse, self.nnz, self.fill


# -- from documents ---------------------------------------------------------------------------------------------------


def parse_key(doc: Mapping[str, Any]) -> Key:
    """Which chunk a document belongs to. CorruptDocument."""
    name, chunk = doc.get("name"), doc.get("chunk")
    if not isinstance(name, str) or not isinstance(chunk, list | None):
        raise CorruptDocument(f"a chunk document with name {name!r} and chunk {chunk!r}", key=str(doc.get("_id")))
    return name, None if chunk is None else tuple(index_of(index, "chunk", name) for index in chunk)


def parse_segment(doc: Mapping[str, Any]) -> Segment:
    """One chunk document; fields that are not known are passed over. CorruptDocument, Unsupported for its dtype."""
    key = parse_key(doc)
    name = key[0]
    sparse = doc.get("type", DENSE) == SPARSE
    if doc.get("type", DENSE) not in (DENSE, SPARSE):
        raise CorruptDocument(f"{name!r} has a chunk of type {doc['type']!r}", expected="ndarray or COO", key=show(key))
    data = doc.get("sparse_data", doc.get("data")) if sparse else doc.get("data")
    coords = doc.get("sparse_coords", doc.get("coords")) if sparse else None
    fill = doc.get("fill_value") if sparse else None
    if not isinstance(data, bytes) or (sparse and not (isinstance(coords, bytes) and isinstance(fill, bytes))):
        raise CorruptDocument("a chunk document without its bytes", key=show(key))
    shape = sizes_of(doc.get("shape"), "shape", name)
    if None in shape:
        raise CorruptDocument(
            "a chunk of unknown size", expected="whole numbers", found=doc.get("shape"), key=show(key)
        )
    units = doc.get("units")
    return Segment(
        key,
        index_of(doc.get("n", 0), "n", name),
        dtype_from_text(doc.get("dtype"), name),
        tuple(size for size in shape if size is not None),
        data,
        coords,
        index_of(doc.get("nnz"), "nnz", name) if sparse else None,
        fill,
        units if isinstance(units, str) else None,
    )


def show(key: Key) -> str:
    """A key for people: ``temp[0, 1]``, ``lat`` for a variable that is stored whole."""
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
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the cells as stored."""
        return self.first.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The chunk's shape."""
        return self.first.shape

    @property
    def sparse(self) -> bool:
        """Return whether it is stored as COO."""
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
            _copy_bytes([segment.data for segment in self.segments], raw(out))
        else:
            out[...] = self.block()

    def read_common(self, out: Numbers) -> None:
        """The cells that lie within ``out``, which may be longer or shorter; its others stay."""
        if self.shape == out.shape:
            self.read_into(out)
            return
        common = tuple(slice(0, min(pair)) for pair in zip(self.shape, out.shape, strict=True))
        out[common] = self.block()[common]

    def block(self) -> Numbers:
        """The cells, dense, in memory of their own."""
        block: Numbers = np.empty(self.shape, self.dtype)
        self.read_into(block)
        return block

    def coo(self) -> Coo:
        """The cells, sparse, in C order; a dense chunk is compared with zero. CorruptDocument for impossible places."""
        if not self.sparse:
            return Coo.of_dense(self.block(), np.zeros((), self.dtype))
        data = b"".join(segment.data for segment in self.segments)
        coords = b"".join(segment.coords or b"" for segment in self.segments)
        return decode_coo(data, coords, self.first)


def raw(block: Numbers) -> Numbers:
    """The bytes of a C-contiguous block."""
    return block.reshape(-1).view(np.uint8) if block.size else np.empty(0, np.uint8)


def _copy_bytes(parts: Sequence[bytes], target: Numbers) -> None:
    start = 0
    for part in parts:
        target[start : start + len(part)] = np.frombuffer(part, np.uint8)
        start += len(part)


def word_of(shape: tuple[int, ...]) -> np.dtype[Any]:
    """The unsigned type of places in a chunk of this shape (R41)."""
    longest = max(shape, default=0)
    return np.dtype("u1" if longest < 256 else "<u2" if longest < 1 << 16 else "<u4" if longest < 1 << 32 else "<u8")


def decode_coo(data: bytes, coords: bytes, said: Segment) -> Coo:
    """The cells of a sparse chunk whose bytes are complete."""
    assert said.nnz is not None and said.fill is not None
    key, shape, nnz = show(said.key), said.shape, said.nnz
    places = np.frombuffer(coords, word_of(shape)).reshape(len(shape), nnz)
    if any(int(row.max()) >= size for row, size in zip(places, shape, strict=True) if nnz):
        raise CorruptDocument("a sparse chunk lists a cell outside of it", expected=shape, found="larger", key=key)
    if not shape and nnz > 1:
        raise CorruptDocument("a sparse chunk lists a cell twice", expected=1, found=nnz, key=key)
    values = np.frombuffer(data, said.dtype).copy()
    fill = np.frombuffer(said.fill, said.dtype).reshape(()).copy()
    order = np.lexsort(places[::-1]) if shape else np.arange(nnz)
    places = places[:, order].astype(np.intp)
    if shape and nnz > 1 and (places[:, 1:] == places[:, :-1]).all(axis=0).any():
        raise CorruptDocument("a sparse chunk lists a cell twice", key=key)
    return Coo(shape, places, values[order], fill)


def join(key: Key, segments: Sequence[Segment]) -> AssembledChunk:
    """The documents of one chunk in order, checked to be complete (R53) and of one mind.

    MissingChunks where some are not there; CorruptDocument where they contradict each other or are too many.
    """
    if not segments:
        raise MissingChunks("a chunk was never stored, or is lost", key=show(key))
    single = _without_doubles(key, segments)
    kinds = {segment.kind for segment in single}
    if len(kinds) > 1:
        found = " and ".join(sorted(f"{segment.dtype}{segment.shape}" for segment in single))
        raise CorruptDocument("documents of one chunk that differ in shape or type", found=found, key=show(key))
    _check_complete(key, single)
    return AssembledChunk(tuple(single))


def expected_bytes(segment: Segment) -> tuple[int, int]:
    """The bytes of the cells (of a sparse chunk: of its values), and those of places, of the whole chunk."""
    if not segment.sparse:
        return segment.dtype.itemsize * prod(segment.shape), 0
    nnz = segment.nnz or 0
    return segment.dtype.itemsize * nnz, word_of(segment.shape).itemsize * len(segment.shape) * nnz


def _check_complete(key: Key, segments: Sequence[Segment]) -> None:
    first = segments[0]
    expected = expected_bytes(first)
    found = sum(len(segment.data) for segment in segments), sum(len(segment.coords or b"") for segment in segments)
    gaps = [segment.n for segment in segments] != list(range(len(segments)))
    if sum(found) > sum(expected):
        raise CorruptDocument("a chunk of too many bytes", expected=sum(expected), found=sum(found), key=show(key))
    if gaps or sum(found) < sum(expected):
        message = f"documents of a chunk are missing: {sum(found)} of {sum(expected)} bytes are there"
        raise MissingChunks(message, key=show(key))
    if found != expected:
        raise CorruptDocument("values and places of a sparse chunk", expected=expected, found=found, key=show(key))
    if first.fill is not None and len(first.fill) != first.dtype.itemsize:
        raise CorruptDocument("a fill value", expected=first.dtype.itemsize, found=len(first.fill), key=show(key))


def _without_doubles(key: Key, segments: Sequence[Segment]) -> list[Segment]:
    """One document for each n: of doubles any; of those that differ the kind that is complete by itself (3.3)."""
    by_n: dict[int, list[Segment]] = {}
    for segment in segments:
        others = by_n.setdefault(segment.n, [])
        if segment not in others:
            others.append(segment)
    if all(len(others) == 1 for others in by_n.values()):
        return [by_n[n][0] for n in sorted(by_n)]
    whole = [single for kind in dict.fromkeys(s.kind for s in segments) if (single := _alone(kind, by_n))]
    if len(whole) != 1:
        raise CorruptDocument("documents of one chunk that contradict each other", key=show(key))
    return whole[0]


def _alone(kind: tuple[Any, ...], by_n: Mapping[int, list[Segment]]) -> list[Segment] | None:
    """The documents of one kind, when they are a whole chunk and leave no choice."""
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
    """How many cells are listed, and the bytes of their values, their places and the fill value (R36 to R43)."""
    listed = coo.canonical()
    places = np.ascontiguousarray(listed.coords, word_of(coo.shape))
    return listed.nnz, little(listed.data).tobytes(), places.tobytes(), little(listed.fill).tobytes()


def documents(ids: Ids, meta_id: Any, key: Key, cells: Numbers | Coo, chunk_size: int) -> Iterator[dict[str, Any]]:
    """The documents of one chunk, in the order of their n."""
    name, chunk = key
    common = {
        "dtype": dtype_to_text(cells.dtype, name),
        "shape": list(cells.shape),
        "type": SPARSE if isinstance(cells, Coo) else DENSE,
    }
    where = None if chunk is None else list(chunk)
    for n, content in enumerate(contents(cells, chunk_size)):
        head = {"_id": ids(name, chunk, n), "meta_id": meta_id, "name": name, "chunk": where, "n": n}
        yield head | common | content


def contents(cells: Numbers | Coo, chunk_size: int) -> Iterator[dict[str, Any]]:
    """What each document of a chunk holds of its bytes: at most ``chunk_size``, one empty document for no bytes."""
    if isinstance(cells, Coo):
        nnz, data, places, fill = encode_coo(cells)
        for start in range(0, max(1, len(data) + len(places)), chunk_size):
            stop, behind = start + chunk_size, max(0, start - len(data))
            part = places[behind : max(0, stop - len(data))]
            yield {"nnz": nnz, "fill_value": fill, "sparse_data": data[start:stop], "sparse_coords": part}
        return
    stored = raw(little(cells))
    for start in range(0, max(1, stored.size), chunk_size):
        yield {"data": stored[start : start + chunk_size].tobytes()}
