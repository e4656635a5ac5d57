"""The chunks of one variable as a ChunkSource: whole blocks, whose documents hold what lies within the array.

A chunk that is changed in part is put back by comparing the bytes of its documents with those that were read. Several
documents of it are changed in one transaction on a replica set; on a server that stands alone, and where a chunk is
replaced whole, one after the other, so that it can be taken back (:mod:`~hyperslab.formats.mongo.chunk_writes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.pool import batched
from hyperslab.chunks.source import Block
from hyperslab.errors import Conflict, HyperslabError, MissingChunks, NotFound, ReadOnly
from hyperslab.formats.mongo import chunk_queries, chunk_writes
from hyperslab.formats.mongo.bson_values import parse_index
from hyperslab.formats.mongo.chunk_documents import (
    AssembledChunk,
    CellSpan,
    ChunkIndex,
    DerivedIds,
    Key,
    Segment,
    assemble_chunk,
    coo_of_shape,
    format_key,
    make_documents,
    parse_key,
    parse_segment,
)
from hyperslab.formats.mongo.chunk_writes import ChunkUndo, UndoView
from hyperslab.formats.mongo.errors import CorruptDocument
from hyperslab.formats.mongo.server import storage_errors
from hyperslab.formats.mongo.to_spec import VariableChunks
from hyperslab.model.coo import Coo
from hyperslab.model.spec import ArraySpec

if TYPE_CHECKING:
    from pymongo.collection import Collection

_TOGETHER = 16
"""Chunks that are asked for at once before they are changed."""
Keyed = tuple[Key, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCollection:
    """Where the chunks of an object lie. ``derived``: by ids that follow from their keys (None: nobody knows yet);
    ``unstored``: told before chunks are erased; None where nothing is to be changed; ``wrote``: told after writing.

    ``past``: the chunks that somebody changes, which are read as they were; ``undo``: how others may take back what is
    changed here, None for an object that is still being made. ``meta``: where its document is."""

    collection: Collection[Any]
    meta_id: Any
    url: str
    chunk_size: int
    derived: bool | None = None
    unstored: Callable[[str], None] | None = None
    wrote: Callable[[], None] | None = None
    past: UndoView
    meta: Collection[Any]
    undo: ChunkUndo | None = None

    def fetch(
        self, name: str, wanted: Sequence[ChunkIndex], derived: bool, notice: Callable[[Mapping[str, Any]], None]
    ) -> dict[ChunkIndex, list[Segment]]:
        """The documents of these chunks; those that somebody changes as they were."""
        found = self.past.fetch(self.collection, name, wanted)
        rest = [chunk for chunk in wanted if chunk not in found]
        target = self.collection
        found |= chunk_queries.fetch_segments(target, self.meta_id, name, rest, derived=derived, notice=notice)
        if len(found) < len(wanted):
            self.check_there()
        return found

    def check_there(self) -> None:
        """Return whether the object is still there, of which documents are missing: they go after its own. A reader
        is told to read anew (Conflict), a writer that there is nothing to be changed (NotFound).
        """
        if self.meta.find_one({"_id": self.meta_id}, {"_id": 1}) is not None:
            return
        if self.unstored is not None:
            raise NotFound("the object is gone", url=self.url, key=str(self.meta_id), remedy="open it again")
        message = "the object was removed, or another one has taken its place"
        raise Conflict(message, url=self.url, key=str(self.meta_id), remedy="open it again")

    def store(self, keyed: Iterable[Keyed], durable: bool) -> None:
        """Put chunks in the place of what may be there."""
        target = chunk_writes.with_write_concern(self.collection, durable)
        plain = keyed if self.undo is None else self._not_undoable(target, keyed, self.undo)
        if self.derived:
            chunk_queries.put_documents(target, (doc for _, docs in plain for doc in docs))
            return
        for key, docs in plain:
            chunk_writes.replace_chunk(target, self.meta_id, key, docs)

    def _not_undoable(self, target: Collection[Any], keyed: Iterable[Keyed], undo: ChunkUndo) -> Iterator[Keyed]:
        """Those that one command stores; the others are stored so that they can be taken back."""
        for some in batched(keyed, _TOGETHER):
            needed = undo.needed({key: len(docs) for key, docs in some})
            undo.free(key for key, _ in some if key not in needed)
            for key, docs in some:
                if key in needed:
                    chunk_writes.replace_chunk_with_undo(target, self.meta_id, key, docs, undo)
                else:
                    yield key, docs

    def erase(self, name: str, wanted: Sequence[ChunkIndex]) -> None:
        """Forget chunks, by one command, those whose length changes so that it can be taken back."""
        undo, keys = self.undo, [(name, chunk) for chunk in wanted]
        needed = set() if undo is None or undo.held is None else undo.needed(dict.fromkeys(keys, 0))
        if undo is not None:
            undo.free(key for key in keys if key not in needed)
            for key in needed:
                with undo.during(key) as mark:
                    mark.changed = True
        self.collection.delete_many(chunk_queries.chunk_query(self.meta_id, name, wanted))


Within = tuple[slice, ...]
_REMEMBERED = 1 << 14


class MongoChunks:
    """``name``: of the variable; ``whole``: it is stored in one piece, without indices. ``sparsely``: chunks that are
    not stored read as the fill value. ``lenient``: chunks may be of another length than the array's edge asks for, as
    while it grows."""

    concurrency = None

    def __init__(
        self,
        shelf: ChunkCollection,
        name: str,
        spec: ArraySpec,
        cut: VariableChunks,
        *,
        whole: bool = False,
        sparsely: bool = False,
        lenient: bool = False,
    ) -> None:
        self._shelf = shelf
        self._name = name
        self._spec = spec
        self._cut = cut
        self._whole = whole
        self._sparsely = sparsely
        self._lenient = lenient
        self._derived = shelf.derived
        self._sizes: dict[ChunkIndex, int] = {}
        self._grid = Grid.of(spec.shape, cut.chunks)

    @property
    def grid(self) -> Grid:
        """The chunk grid under the face."""
        return self._grid

    def _chunk(self, coords: Coords) -> ChunkIndex:
        return None if self._whole else self._cut.key_of(coords)

    def _shape(self, coords: Coords) -> tuple[int, ...]:
        """The cells of a chunk that lie within the array."""
        return tuple(part.stop - part.start for part in self._grid.extent(coords))

    # -- reading ----------------------------------------------------------------------------------------------------

    def read(self, coords: Coords) -> Block | None:
        """One chunk in memory of its own. MissingChunks, CorruptDocument."""
        block = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        return block if self.read_into(coords, block) else None

    def read_into(self, coords: Coords, out: Block) -> bool:
        """One chunk into ``out``."""
        return self.fetch([coords]).read_into(coords, out)

    def read_coo(self, coords: Coords) -> Coo | None:
        """One chunk as a list of cells."""
        return self.fetch([coords]).read_coo(coords)

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Some cells of one chunk; of one of many documents those that hold them."""
        return self.fetch_parts([(coords, within)]).read_part(coords, within, out)

    def fetch(self, coords: Sequence[Coords]) -> FetchedDocuments:
        """The documents of these chunks by one query."""
        chunks = [self._chunk(place) for place in coords]
        with storage_errors(self._shelf.url):
            found = self._shelf.fetch(self._name, chunks, bool(self._derived), self._notice)
        return FetchedDocuments(self, found, {})

    def fetch_parts(self, wanted: Sequence[tuple[Coords, Within | None]]) -> FetchedDocuments:
        """The documents of chunks (None), and those that hold parts of others, by two queries at most."""
        spans: dict[ChunkIndex, CellSpan] = {}
        whole = []
        for coords, within in wanted:
            span = self._span(coords, within)
            if span is None:
                whole.append(coords)
            else:
                spans[self._chunk(coords)] = span
        fetched = self.fetch(whole) if whole else FetchedDocuments(self, {}, {})
        if spans:
            fetched.parts.update(self._fetch_spans(spans))
        return fetched

    def _span(self, coords: Coords, within: Within | None) -> CellSpan | None:
        """What to read of a chunk, None for all of it: it is one document, or most of it is wanted."""
        shape = self._shape(coords)
        is_past = self._shelf.past.holds((self._name, self._chunk(coords)))
        if within is None or self._spec.sparse is not None or not shape or is_past:
            return None
        size = self._sizes.get(self._chunk(coords), self._shelf.chunk_size)
        if prod(shape) * self._spec.numpy_dtype.itemsize <= size or not size:
            return None
        span = CellSpan.of(shape, within, self._spec.numpy_dtype.itemsize)
        return span if span.is_small else None

    def _fetch_spans(self, spans: Mapping[ChunkIndex, CellSpan]) -> dict[ChunkIndex, dict[int, Segment]]:
        """The documents of parts; n = 0 besides, where it is not known yet how long the documents of a chunk are."""
        asked = {}
        for chunk, span in spans.items():
            numbers = set(span.numbers(self._sizes.get(chunk, self._shelf.chunk_size)))
            asked[chunk] = numbers if chunk in self._sizes else numbers | {0}
        found = self._find_segments(asked)
        again = {}
        for chunk, segments in found.items():
            size = len(segments[0].data) if 0 in segments else self._sizes.get(chunk, 0)
            if not size:
                continue
            if len(self._sizes) >= _REMEMBERED:
                self._sizes.clear()
            self._sizes[chunk] = size
            if missing := set(spans[chunk].numbers(size)) - asked[chunk]:
                again[chunk] = missing
        for chunk, more in (self._find_segments(again) if again else {}).items():
            found[chunk] |= more
        return found

    def _find_segments(self, asked: Mapping[ChunkIndex, set[int]]) -> dict[ChunkIndex, dict[int, Segment]]:
        shelf = self._shelf
        found: dict[ChunkIndex, dict[int, Segment]] = {}
        with storage_errors(shelf.url):
            for doc in shelf.collection.find(self._query(asked)):
                self._notice(doc)
                segment = parse_segment(doc)
                found.setdefault(segment.key[1], {})[segment.n] = segment
        return found

    def _query(self, asked: Mapping[ChunkIndex, set[int]]) -> dict[str, Any]:
        shelf = self._shelf
        if self._derived:
            ids = DerivedIds(shelf.meta_id)
            keys = [ids(self._name, chunk, n) for chunk, numbers in asked.items() for n in sorted(numbers)]
            return {"meta_id": shelf.meta_id, "_id": {"$in": keys}}
        parts = [
            {**chunk_queries.chunk_query(shelf.meta_id, self._name, [chunk]), "n": {"$in": sorted(numbers)}}
            for chunk, numbers in asked.items()
        ]
        return parts[0] if len(parts) == 1 else {"$or": parts}

    def _notice(self, doc: Mapping[str, Any]) -> None:
        """Learn from the first document whether ids are derived."""
        if self._derived is None:
            name, chunk = parse_key(doc)
            self._derived = doc.get("_id") == DerivedIds(self._shelf.meta_id)(
                name, chunk, parse_index(doc.get("n", 0), "n", name)
            )

    def joined(self, coords: Coords, segments: Sequence[Segment]) -> AssembledChunk | None:
        """Return a chunk of its documents; None for one that was never written. MissingChunks, CorruptDocument;
        Conflict where the object itself is gone by now."""
        if not segments and self._sparsely:
            return None
        try:
            found = assemble_chunk((self._name, self._chunk(coords)), segments)
            self._check(coords, found)
        except HyperslabError as error:
            if isinstance(error, MissingChunks):
                with storage_errors(self._shelf.url):
                    self._shelf.check_there()
            raise error.locate(url=self._shelf.url) from error.__cause__
        return found

    def _check(self, coords: Coords, found: AssembledChunk) -> None:
        """CorruptDocument for a chunk that is not of the shape, or not of the type, that the array has there."""
        key, dtype = format_key((self._name, self._chunk(coords))), self._spec.numpy_dtype
        if len(found.shape) != len(self._spec.shape) or not (self._lenient or found.shape == self._shape(coords)):
            raise CorruptDocument("a chunk of another shape", expected=self._shape(coords), found=found.shape, key=key)
        if not np.can_cast(found.dtype, dtype, "safe"):
            raise CorruptDocument("a chunk of another type", expected=dtype, found=found.dtype, key=key)

    def put_into(self, found: AssembledChunk, out: Block) -> None:
        """The cells of a chunk into a block; what lies past its documents is the fill value."""
        if found.shape != out.shape:
            out[...] = self._spec.fill_cell()
        found.read_common(out)

    # -- writing ----------------------------------------------------------------------------------------------------

    def _writable(self) -> ChunkCollection:
        if self._shelf.unstored is None:
            raise ReadOnly("this object is open for reading", url=self._shelf.url, remedy="open it with mode='r+'")
        return self._shelf

    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk."""
        self.write_many([(coords, block)], durable=True)

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Store chunks by as few messages as may be; doing it twice does no harm."""
        self._store(((self._key(coords), self._cells(coords, block)) for coords, block in pairs), durable)

    def write_coo(self, pairs: Iterable[tuple[Coords, Coo]], *, durable: bool) -> None:
        """Store chunks as lists of cells; dense where the array is."""
        dense = self._spec.sparse is None
        self._store(((self._key(coords), cells.dense() if dense else cells) for coords, cells in pairs), durable)

    def _store(self, keyed: Iterable[tuple[Key, Block | Coo]], durable: bool) -> None:
        shelf = self._writable()
        with storage_errors(shelf.url):
            shelf.store(((key, list(self._documents(key, cells))) for key, cells in keyed), durable)
        if shelf.wrote is not None:
            shelf.wrote()

    def _key(self, coords: Coords) -> Key:
        return self._name, self._chunk(coords)

    def _documents(self, key: Key, cells: Block | Coo) -> Iterator[dict[str, Any]]:
        shelf = self._shelf
        return make_documents(DerivedIds(shelf.meta_id), shelf.meta_id, key, cells, shelf.chunk_size)

    def _cells(self, coords: Coords, block: Block) -> Block | Coo:
        """What is stored of a block."""
        inside: tuple[Any, ...] = tuple(slice(0, size) for size in self._shape(coords))
        cells = block[(*inside, ...)]
        return cells if self._spec.sparse is None else Coo.of_dense(np.ascontiguousarray(cells), self._spec.fill_cell())

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], Any]:
        """Chunks, and the documents that they are made of."""
        fetched = self.fetch(coords)
        blocks: list[Block | None] = []
        for place in coords:
            block = np.empty(self._grid.chunk_shape(place), self._spec.numpy_dtype)
            blocks.append(block if fetched.read_into(place, block) else None)
        return blocks, {place: fetched.segments(place) for place in coords}

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Store chunks whose documents are still those that were read, else Conflict."""
        shelf = self._writable()
        swaps = []
        for coords, block in pairs:
            key = self._key(coords)
            docs = list(self._documents(key, self._cells(coords, block)))
            swaps.append(chunk_writes.ChunkSwap(key, docs, (expected or {}).get(coords, ())))
        with storage_errors(shelf.url):
            chunk_writes.swap_chunks(
                chunk_writes.with_write_concern(shelf.collection, True), shelf.meta_id, swaps, shelf.url, shelf.undo
            )

    def erase(self, coords: Coords) -> None:
        """Forget one chunk."""
        self.erase_many([coords])

    def erase_many(self, coords: Sequence[Coords]) -> None:
        """Forget chunks; they read as the fill value."""
        shelf = self._writable()
        if shelf.unstored is not None:
            shelf.unstored(self._name)
        self._sparsely = True
        if coords:
            chunks = [self._chunk(place) for place in coords]
            with storage_errors(shelf.url):
                shelf.erase(self._name, chunks)

    # -- looking ----------------------------------------------------------------------------------------------------

    def stored(self) -> Iterator[Coords]:
        """The chunks that have documents, also those past the array's edge."""
        shelf = self._shelf
        query = {"meta_id": shelf.meta_id, "name": {"$eq": self._name}, "n": 0}
        with storage_errors(shelf.url):
            chunks = {parse_key({"name": self._name, **row})[1] for row in shelf.collection.find(query, {"chunk": 1})}
        for chunk in sorted(chunks, key=lambda chunk: chunk or ()):
            if chunk is None and self._whole:
                yield (0,) * len(self._spec.shape)
            elif chunk is not None and (place := self._cut.coords_of(chunk)) is not None:
                yield place

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes of cells that these chunks have in their documents."""
        return self._bytes(
            chunk_queries.chunk_query(self._shelf.meta_id, self._name, [self._chunk(place) for place in coords])
        )

    def nbytes_stored(self) -> int:
        """Bytes of cells in all documents of the variable."""
        return self._bytes({"meta_id": self._shelf.meta_id, "name": {"$eq": self._name}})

    def _bytes(self, query: Mapping[str, Any]) -> int:
        with storage_errors(self._shelf.url):
            return chunk_queries.count_bytes(self._shelf.collection, query)


class FetchedDocuments:
    """The documents of some chunks (``found``), and those of parts of others by their number (``parts``)."""

    def __init__(
        self,
        source: MongoChunks,
        found: Mapping[ChunkIndex, list[Segment]],
        parts: dict[ChunkIndex, dict[int, Segment]],
    ) -> None:
        self._source = source
        self._found = found
        self.parts = parts

    def segments(self, coords: Coords) -> list[Segment]:
        """The documents of a chunk that was fetched whole."""
        return self._found.get(self._source._chunk(coords), [])

    def read_into(self, coords: Coords, out: Block) -> bool:
        """One chunk of those that were fetched."""
        if self._source._chunk(coords) in self.parts:
            return self._source.read_into(coords, out)
        found = self._source.joined(coords, self.segments(coords))
        if found is not None:
            self._source.put_into(found, out)
        return found is not None

    def read_coo(self, coords: Coords) -> Coo | None:
        """One chunk of those that were fetched, as a list of cells."""
        source = self._source
        found = source.joined(coords, self.segments(coords))
        return None if found is None else coo_of_shape(found, source._shape(coords), source._spec.fill_cell())

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Some cells of one chunk."""
        source = self._source
        parts = self.parts.get(source._chunk(coords))
        if parts is not None and (cells := self._part(coords, within, parts)) is not None:
            out[...] = cells
            return True
        found = source.fetch([coords]) if parts is not None or not self._holds(coords) else self
        block = np.empty(source.grid.chunk_shape(coords), source._spec.numpy_dtype)
        if not found.read_into(coords, block):
            return False
        out[...] = block[within]
        return True

    def _holds(self, coords: Coords) -> bool:
        return self._source._chunk(coords) in self._found

    def _part(self, coords: Coords, within: Within, parts: Mapping[int, Segment]) -> Block | None:
        """The cells, or None where the documents are not those of a plain chunk, which is then read whole."""
        source = self._source
        shape, dtype = source._shape(coords), source._spec.numpy_dtype
        if any(each.sparse or each.shape != shape or each.dtype != dtype for each in parts.values()):
            return None
        size = source._sizes.get(source._chunk(coords), 0)
        segments = {n: each.data for n, each in parts.items()}
        return CellSpan.of(shape, within, dtype.itemsize).take(segments, size, dtype) if size else None
