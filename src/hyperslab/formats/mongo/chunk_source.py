"""The chunks of one variable as a ChunkSource: whole blocks, whose documents hold what lies within the array.

A chunk that is changed in part is put back by comparing the bytes of its documents with those that were read. Several
documents of it are changed in one transaction on a replica set; on a server that stands alone, and where a chunk is
replaced whole, one after the other, so that it can be taken back (:mod:`~hyperslab.formats.mongo.chunk_writes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bson import ObjectId

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.plan import batched
from hyperslab.chunks.source import Block, ChunkReader, DecodingSource, SourceTraits, Within
from hyperslab.errors import HyperslabError, MissingChunks, NotFound, ReadOnly, Replaced
from hyperslab.formats.mongo import chunk_queries, chunk_writes
from hyperslab.formats.mongo.bson_values import Document, DocumentCollection, MutableDocument
from hyperslab.formats.mongo.chunk_documents import (
    AssembledChunk,
    CellSpan,
    ChunkIndex,
    DerivedIds,
    Key,
    Segment,
    assemble_chunk,
    count_documents,
    format_key,
    make_documents,
    parse_key,
)
from hyperslab.formats.mongo.chunk_writes import ChunkUndo, UndoView
from hyperslab.formats.mongo.document import object_exists
from hyperslab.formats.mongo.errors import CorruptDocument
from hyperslab.formats.mongo.server import storage_errors
from hyperslab.formats.mongo.to_spec import VariableChunks
from hyperslab.model.coo import Coo
from hyperslab.model.spec import ArraySpec

# Looking whether somebody changes a chunk costs a query: so many chunks share it, while their documents wait in memory.
CHUNKS_PER_UNDO_CHECK = 16
Keyed = tuple[Key, list[MutableDocument]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkCollection:
    """The chunk documents of one object: how they are fetched, stored and erased.

    ``derived``: True if the ids of the documents follow from their keys, so that they can be asked for by id; False if
    they do not; None until a document was read that tells. ``before_erase``: called before chunks are erased, None
    where nothing may be changed; ``after_write``: called after writing. ``undo_view``: the chunks that
    somebody changes, which are read as they were; ``undo``: how others may take back what is changed here, None for an
    object that is still being made. ``meta``: the collection of its document. ``each_waits``: chunks are stored with
    a wait for the journal even where a write is not to be durable, since nobody can wait for all of them later.
    """

    documents: DocumentCollection
    meta_id: ObjectId
    url: str
    chunk_size: int
    derived: bool | None = None
    before_erase: Callable[[str], None] | None = None
    after_write: Callable[[], None] | None = None
    undo_view: UndoView
    meta: DocumentCollection
    undo: ChunkUndo | None = None
    each_waits: bool = False

    def raise_if_gone(self) -> None:
        """Raise where the object is gone, of which documents are missing (they are removed after its own): Replaced
        for a reader, which reads anew; NotFound for a writer, which has nothing to change.
        """
        if object_exists(self.meta, self.meta_id):
            return
        if self.before_erase is not None:
            raise NotFound("the object is gone", url=self.url, key=str(self.meta_id), remedy="open it again")
        message = "the object was removed, or another one has taken its place"
        raise Replaced(message, url=self.url, key=str(self.meta_id))

    def store(self, keyed: Iterable[Keyed], durable: bool) -> None:
        """Put chunks in the place of what may be there."""
        collection = chunk_writes.with_write_concern(self.documents, durable or self.each_waits)
        plain = keyed if self.undo is None else self._store_with_undo_and_yield_rest(collection, keyed, self.undo)
        if self.derived:
            chunk_queries.put_documents(collection, (doc for _, docs in plain for doc in docs))
        else:
            for key, docs in plain:
                chunk_writes.replace_chunk(collection, self.meta_id, key, docs)
        if self.undo is not None:
            self.undo.wait_until_free()

    def _store_with_undo_and_yield_rest(
        self, collection: DocumentCollection, keyed: Iterable[Keyed], undo: ChunkUndo
    ) -> Iterator[Keyed]:
        """Store the chunks that take several commands, with an undo entry; yield those that one command stores."""
        for some in batched(keyed, CHUNKS_PER_UNDO_CHECK):
            keys_needing_undo = undo.keys_needing_undo({key: len(docs) for key, docs in some})
            undo.wait_until_free(key for key, _ in some if key not in keys_needing_undo)
            for key, docs in some:
                if key not in keys_needing_undo:
                    yield key, docs
                    continue
                with undo.undoable_change(key) as mark:
                    mark.changed = True
                    chunk_writes.replace_chunk(collection, self.meta_id, key, docs)

    def erase(self, name: str, wanted: Sequence[ChunkIndex]) -> None:
        """Forget chunks, by few commands, those whose length changes so that it can be taken back."""
        undo, keys = self.undo, [(name, chunk) for chunk in wanted]
        if undo is not None:
            is_resized = undo.open_entries is not None
            keys_needing_undo = undo.keys_needing_undo(dict.fromkeys(keys, 0)) if is_resized else set()
            undo.wait_until_free(key for key in keys if key not in keys_needing_undo)
            for key in keys_needing_undo:
                with undo.undoable_change(key) as mark:
                    mark.changed = True
        for query in chunk_queries.queries_of_chunks(self.meta_id, name, wanted):
            self.documents.delete_many(query)
        if undo is not None:
            undo.wait_until_free()


# Sizes of documents that are remembered by chunk; beyond that the memory of one array would grow without bound.
DOCUMENT_SIZES_REMEMBERED = 1 << 14


class MongoChunks(DecodingSource):
    """The chunks of the variable ``name``. ``whole``: it is stored in one piece, without indices.

    ``fill_unstored``: chunks that are not stored read as the fill value. ``lenient``: chunks may be of another length
    than the array's edge asks for, as while it grows.
    """

    traits = SourceTraits(
        fetches=True, reads_parts=True, swaps=True, reads_sparse=True, writes_sparse=True, lists_chunks=True
    )

    def __init__(
        self,
        collection: ChunkCollection,
        name: str,
        spec: ArraySpec,
        variable_chunks: VariableChunks,
        *,
        whole: bool = False,
        fill_unstored: bool = False,
        lenient: bool = False,
    ) -> None:
        self._chunk_collection = collection
        self._name = name
        self._spec = spec
        self._variable_chunks = variable_chunks
        self._whole = whole
        self._fill_unstored = fill_unstored
        self._lenient = lenient
        self._derived = collection.derived
        self._sizes: dict[ChunkIndex, int] = {}
        self.grid = Grid.of(spec.shape, variable_chunks.chunks)

    def _chunk(self, coords: Coords) -> ChunkIndex:
        return None if self._whole else self._variable_chunks.index_of(coords)

    def _shape(self, coords: Coords) -> tuple[int, ...]:
        """Return the cells of a chunk that lie within the array."""
        return tuple(part.stop - part.start for part in self.grid.extent(coords))

    # -- reading ----------------------------------------------------------------------------------------------------

    def read_into(self, coords: Coords, out: Block) -> bool:
        return self.fetch([coords]).read_into(coords, out)

    def read_coo(self, coords: Coords) -> Coo | None:
        return self.fetch([coords]).read_coo(coords)

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Read some cells of one chunk, from the documents that hold them; False where it was never written."""
        return self.fetch_parts([(coords, within)]).read_part(coords, within, out)

    def fetch(self, coords: Sequence[Coords]) -> FetchedDocuments:
        """Return the documents of these chunks by few queries; of those that somebody changes as they were."""
        here, chunks = self._chunk_collection, [self._chunk(each) for each in coords]
        with storage_errors(here.url):
            counts = {} if self._spec.sparse is not None or not self._derived else self._document_counts(coords)
            derived = bool(self._derived)
            found = here.undo_view.fetch(here.documents, self._name, chunks, derived=derived, counts=counts)
            if len(found) < len(chunks):
                here.raise_if_gone()
        self._learn_ids(each for segments in found.values() for each in segments)
        return FetchedDocuments(self, found, {})

    def _document_counts(self, coords: Sequence[Coords]) -> dict[ChunkIndex, int]:
        size, dtype = self._chunk_collection.chunk_size, self._spec.numpy_dtype
        return {self._chunk(each): count_documents(self._shape(each), dtype, size) for each in coords}

    def fetch_parts(self, wanted: Sequence[tuple[Coords, Within | None]]) -> FetchedDocuments:
        """Return the documents of chunks (None), and those that hold parts of others, by few queries."""
        here, dtype = self._chunk_collection, self._spec.numpy_dtype
        spans: dict[ChunkIndex, CellSpan] = {}
        whole = []
        for coords, within in wanted:
            chunk, span = self._chunk(coords), None
            if within is not None and self._spec.sparse is None and not here.undo_view.holds((self._name, chunk)):
                size = self._sizes.get(chunk, here.chunk_size)
                span = CellSpan.worth_reading(self._shape(coords), within, dtype, size)
            if span is None:
                whole.append(coords)
            else:
                spans[chunk] = span
        fetched = self.fetch(whole) if whole else FetchedDocuments(self, {}, {})
        if spans:
            if len(self._sizes) >= DOCUMENT_SIZES_REMEMBERED:
                self._sizes.clear()
            with storage_errors(here.url):
                fetched.part_documents |= chunk_queries.fetch_spans(
                    here.documents,
                    here.meta_id,
                    self._name,
                    spans,
                    self._sizes,
                    here.chunk_size,
                    derived=bool(self._derived),
                )
            self._learn_ids(each for segments in fetched.part_documents.values() for each in segments.values())
        return fetched

    def _learn_ids(self, segments: Iterable[Segment]) -> None:
        """Learn from documents whether their ids are derived; copies of chunks that are being changed have others."""
        if self._derived is None:
            ids = DerivedIds(self._chunk_collection.meta_id)
            known = [segment.id == ids(*segment.key, segment.n) for segment in segments]
            self._derived = any(known) if known else None

    def assemble(self, coords: Coords, segments: Sequence[Segment]) -> AssembledChunk | None:
        """Return a chunk of its documents; None for one that was never written. MissingChunks, CorruptDocument;
        Replaced where the object itself is gone by now."""
        if not segments and self._fill_unstored:
            return None
        url, shape, dtype = self._chunk_collection.url, self._shape(coords), self._spec.numpy_dtype
        key = format_key(self._key(coords))
        try:
            found = assemble_chunk(self._key(coords), segments)
        except HyperslabError as error:
            if isinstance(error, MissingChunks):
                with storage_errors(url):
                    self._chunk_collection.raise_if_gone()
            raise error.locate(url=url) from error.__cause__
        if len(found.shape) != len(shape) or not (self._lenient or found.shape == shape):
            raise CorruptDocument("a chunk of another shape", expected=shape, found=found.shape, key=key, url=url)
        if not np.can_cast(found.dtype, dtype, "safe"):
            raise CorruptDocument("a chunk of another type", expected=dtype, found=found.dtype, key=key, url=url)
        return found

    # -- writing ----------------------------------------------------------------------------------------------------

    def _writable(self) -> ChunkCollection:
        collection = self._chunk_collection
        if collection.before_erase is None:
            raise ReadOnly("this object is open for reading", url=collection.url, remedy="open it with mode='r+'")
        return collection

    def write(self, coords: Coords, block: Block) -> None:
        self.write_batch([(coords, block)], durable=True)

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Store chunks by as few messages as may be; doing it twice does no harm."""
        self._store(((self._key(coords), self._cells(coords, block)) for coords, block in pairs), durable)

    def write_coo(self, pairs: Iterable[tuple[Coords, Coo]], *, durable: bool) -> None:
        """Store chunks as lists of cells; dense where the array is."""
        dense = self._spec.sparse is None
        self._store(((self._key(coords), cells.dense() if dense else cells) for coords, cells in pairs), durable)

    def _store(self, keyed: Iterable[tuple[Key, Block | Coo]], durable: bool) -> None:
        collection = self._writable()
        with storage_errors(collection.url):
            collection.store(((key, list(self._documents(key, cells))) for key, cells in keyed), durable)
        if collection.after_write is not None:
            collection.after_write()

    def _key(self, coords: Coords) -> Key:
        return self._name, self._chunk(coords)

    def _documents(self, key: Key, cells: Block | Coo) -> Iterator[MutableDocument]:
        collection = self._chunk_collection
        return make_documents(DerivedIds(collection.meta_id), collection.meta_id, key, cells, collection.chunk_size)

    def _cells(self, coords: Coords, block: Block) -> Block | Coo:
        """Return the cells of a block that lie within the array, as they are stored."""
        inside: Any = (*(slice(0, size) for size in self._shape(coords)), ...)
        cells = block[inside]
        return cells if self._spec.sparse is None else Coo.of_dense(np.ascontiguousarray(cells), self._spec.fill_cell())

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], Any]:
        """Return chunks, and the documents that they are made of."""
        fetched = self.fetch(coords)
        blocks: list[Block | None] = []
        for each in coords:
            block = np.empty(self.grid.chunk_shape(each), self._spec.numpy_dtype)
            blocks.append(block if fetched.read_into(each, block) else None)
        return blocks, {each: fetched.segments(each) for each in coords}

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Store chunks whose documents are still those that were read, else Conflict."""
        collection = self._writable()
        swaps = []
        for coords, block in pairs:
            key = self._key(coords)
            docs = list(self._documents(key, self._cells(coords, block)))
            swaps.append(chunk_writes.ChunkSwap(key, docs, (expected or {}).get(coords, ())))
        with storage_errors(collection.url):
            chunk_writes.swap_chunks(
                chunk_writes.with_write_concern(collection.documents, True),
                collection.meta_id,
                swaps,
                collection.url,
                collection.undo,
            )

    def erase(self, coords: Coords) -> None:
        self.erase_batch([coords])

    def erase_batch(self, coords: Sequence[Coords]) -> None:
        """Forget chunks; they read as the fill value."""
        collection = self._writable()
        if collection.before_erase is not None:
            collection.before_erase(self._name)
        self._fill_unstored = True
        if coords:
            chunks = [self._chunk(each) for each in coords]
            with storage_errors(collection.url):
                collection.erase(self._name, chunks)

    # -- looking ----------------------------------------------------------------------------------------------------

    def stored_coords(self) -> Iterator[Coords]:
        """Yield the chunks that have documents, also those past the array's edge."""
        collection = self._chunk_collection
        query = {"meta_id": collection.meta_id, "name": {"$eq": self._name}, "n": 0}
        with storage_errors(collection.url):
            rows = collection.documents.find(query, {"chunk": 1})
            chunks = {parse_key({"name": self._name, **row})[1] for row in rows}
        for chunk in sorted(chunks, key=lambda chunk: chunk or ()):
            if chunk is None and self._whole:
                yield (0,) * len(self._spec.shape)
            elif chunk is not None and (place := self._variable_chunks.coords_of(chunk)) is not None:
                yield place

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return bytes of cells that these chunks have in their documents."""
        here = self._chunk_collection
        return sum(
            map(self._count_bytes, chunk_queries.queries_of_chunks(here.meta_id, self._name, map(self._chunk, coords)))
        )

    def nbytes_stored(self) -> int:
        """Return bytes of cells in all documents of the variable."""
        return self._count_bytes({"meta_id": self._chunk_collection.meta_id, "name": {"$eq": self._name}})

    def _count_bytes(self, query: Document) -> int:
        with storage_errors(self._chunk_collection.url):
            return chunk_queries.count_bytes(self._chunk_collection.documents, query)


class FetchedDocuments(ChunkReader):
    """The documents of some chunks (``found``), and those of parts of others by their number (``part_documents``)."""

    def __init__(
        self,
        source: MongoChunks,
        found: Mapping[ChunkIndex, list[Segment]],
        part_documents: dict[ChunkIndex, dict[int, Segment]],
    ) -> None:
        self.grid = source.grid
        self._source = source
        self._found = found
        self.part_documents = part_documents

    def segments(self, coords: Coords) -> list[Segment]:
        """Return the documents of a chunk that was fetched whole."""
        return self._found.get(self._source._chunk(coords), [])

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Read one chunk of those that were fetched; False where it was never written."""
        if self._source._chunk(coords) in self.part_documents:
            return self._source.read_into(coords, out)
        found = self._source.assemble(coords, self.segments(coords))
        if found is not None:
            found.read_padded(out, self._source._spec.fill_cell())
        return found is not None

    def read_coo(self, coords: Coords) -> Coo | None:
        """Return one chunk of those that were fetched, as a list of cells."""
        source = self._source
        found = source.assemble(coords, self.segments(coords))
        return None if found is None else found.coo_of_shape(source._shape(coords), source._spec.fill_cell())

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Read some cells of one chunk of those that were fetched; False where it was never written."""
        source, chunk = self._source, self._source._chunk(coords)
        dtype = source._spec.numpy_dtype
        if chunk in self.part_documents and (size := source._sizes.get(chunk, 0)):
            cells = CellSpan.of(source._shape(coords), within, dtype).take(self.part_documents[chunk], size)
            if cells is not None:
                out[...] = cells
                return True
        # Documents that are not those of a plain chunk do not show where the cells lie: all of it is read.
        found = source.fetch([coords]) if chunk in self.part_documents or chunk not in self._found else self
        block = np.empty(source.grid.chunk_shape(coords), dtype)
        if not found.read_into(coords, block):
            return False
        out[...] = block[within]
        return True
