"""Chunk documents in their collection: few queries, and writes that change nothing when done twice.

Every query names ``meta_id`` (sharding, safety); nothing is sorted by the server; values that come from users are
compared (``$eq``, ``$in``), never taken for operators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

from bson import ObjectId
from pymongo import DeleteMany, ReplaceOne
from pymongo.errors import BulkWriteError

from hyperslab.chunks.plan import batched
from hyperslab.formats.mongo.bson_values import Document, DocumentCollection, MutableDocument
from hyperslab.formats.mongo.chunk_documents import (
    AssembledChunk,
    CellSpan,
    ChunkIndex,
    DerivedIds,
    Key,
    Segment,
    assemble_chunk,
    expected_bytes,
    parse_key,
    parse_segment,
)

DOCUMENT_BATCH_BYTES = 8 << 20
"""Bytes of documents that are sent at a time; more of them cost the client time and the server memory."""
# Keys in one $in: the query itself is a document of at most 16 MiB, and the server walks its index once for each.
CHUNKS_PER_QUERY = 1000
# The code of the server for an _id, or a unique key, that is there already.
_DUPLICATE_KEY = 11000

Item = TypeVar("Item")


# -- reading ----------------------------------------------------------------------------------------------------------


def query_batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield items by as many as one query may name, however many there are."""
    return batched(items, CHUNKS_PER_QUERY)


def conditions(keys: Iterable[object]) -> Iterator[MutableDocument]:
    """Yield what a field must be to have one of these values; each condition is for a query of its own."""
    for some in query_batches(keys):
        yield {"$eq": some[0]} if len(some) == 1 else {"$in": some}


def chunk_query(meta_id: ObjectId, name: str, chunk: ChunkIndex) -> MutableDocument:
    """Return the query for all documents of one chunk."""
    return next(queries_of_chunks(meta_id, name, [chunk]))


def queries_of_chunks(meta_id: ObjectId, name: str, chunks: Iterable[ChunkIndex]) -> Iterator[MutableDocument]:
    """Yield the queries for all documents of some chunks of one variable; no document is found by two of them, if no
    chunk is named twice."""
    for some in query_batches(chunks):
        (condition,) = conditions(map(_stored, some))
        yield {"meta_id": meta_id, "name": {"$eq": name}, "chunk": condition, **_positions(some)}


def _positions(chunks: Sequence[ChunkIndex]) -> MutableDocument:
    """Return what the query for chunks may say besides, so that a positional index serves it: the box around them.

    By the index on ``chunk`` alone the server reads every chunk that shares an index with one of them: 2 n of a grid of
    n x n. By the positional one it reads the chunks in the box; where there is none, this changes nothing.
    """
    known = [chunk for chunk in chunks if chunk is not None]
    if len(known) < len(chunks) or len(set(map(len, known))) != 1:
        return {}
    spans = enumerate((min(places), max(places)) for places in zip(*known, strict=True))
    return {f"chunk.{axis}": low if low == high else {"$gte": low, "$lte": high} for axis, (low, high) in spans}


def _stored(chunk: ChunkIndex) -> list[int] | None:
    return None if chunk is None else list(chunk)


def fetch_segments(
    collection: DocumentCollection,
    meta_id: ObjectId,
    name: str,
    chunks: Sequence[ChunkIndex],
    *,
    derived: bool = False,
    counts: Mapping[ChunkIndex, int] | None = None,
) -> dict[ChunkIndex, list[Segment]]:
    """Return the documents of some chunks of one variable, by as few queries as may be; a chunk without any has no
    entry.

    ``derived``: they lie under derived ids, and chunks of one document are looked for by those; a chunk that is not
    found so is looked for by its key. ``counts``: how many documents chunks have, as far as is known: those of several
    are looked for by their keys at once, which finds copies under other ids too. CorruptDocument.
    """
    found: dict[ChunkIndex, list[Segment]] = {}
    if derived:
        single = [chunk for chunk in chunks if counts is None or counts.get(chunk, 1) == 1]
        for segment in _find_by_ids(collection, meta_id, name, single):
            found.setdefault(segment.key[1], []).append(segment)
        chunks = [chunk for chunk in chunks if chunk not in found]
    for query in queries_of_chunks(meta_id, name, chunks):
        for segment in map(parse_segment, collection.find(query)):
            found.setdefault(segment.key[1], []).append(segment)
    return found


def _find_by_ids(
    collection: DocumentCollection, meta_id: ObjectId, name: str, chunks: Sequence[ChunkIndex]
) -> Iterator[Segment]:
    """Yield the first documents by id, then all others of those chunks that have more."""
    ids = DerivedIds(meta_id)
    several: list[ChunkIndex] = []
    for condition in conditions(ids(name, chunk, 0) for chunk in chunks):
        for first in map(parse_segment, collection.find({"meta_id": meta_id, "_id": condition})):
            yield first
            # The first document repeats shape and dtype of the whole chunk, and so tells how many others there are.
            if sum(expected_bytes(first)) > max(1, first.nbytes):
                several.append(first.key[1])
    for query in queries_of_chunks(meta_id, name, several):
        yield from map(parse_segment, collection.find({**query, "n": {"$gt": 0}}))


def fetch_spans(
    collection: DocumentCollection,
    meta_id: ObjectId,
    name: str,
    spans: Mapping[ChunkIndex, CellSpan],
    sizes: MutableMapping[ChunkIndex, int],
    size: int,
    *,
    derived: bool = False,
) -> dict[ChunkIndex, dict[int, Segment]]:
    """Return the documents of chunks that hold these parts of them, by one query, or two.

    ``sizes``: how many bytes the documents of a chunk hold; of a chunk that is not in it the first document is fetched
    besides, which tells. Until then ``size`` is taken for it, and what is missing then is fetched by a second query.
    """

    def expected(chunk: ChunkIndex, each: int) -> set[int]:
        return set(spans[chunk].numbers(each))

    wanted = {
        chunk: expected(chunk, sizes[chunk]) if chunk in sizes else expected(chunk, size) | {0} for chunk in spans
    }
    found = _fetch_numbered(collection, meta_id, name, wanted, derived=derived)
    again: dict[ChunkIndex, set[int]] = {}
    for chunk, segments in found.items():
        stored = len(segments[0].data) if 0 in segments else sizes.get(chunk, 0)
        if stored:
            sizes[chunk] = stored
            again |= {chunk: missing} if (missing := expected(chunk, stored) - wanted[chunk]) else {}
    if again:
        for chunk, more in _fetch_numbered(collection, meta_id, name, again, derived=derived).items():
            found[chunk] |= more
    return found


def _fetch_numbered(
    collection: DocumentCollection,
    meta_id: ObjectId,
    name: str,
    wanted: Mapping[ChunkIndex, Iterable[int]],
    *,
    derived: bool,
) -> dict[ChunkIndex, dict[int, Segment]]:
    """Return some documents (their ``n``) of each of these chunks, by as few queries as may be. A chunk of which one is
    there twice has no entry: all of its documents are to be weighed."""
    queries: Iterable[MutableDocument]
    if derived:
        ids = DerivedIds(meta_id)
        keys = (ids(name, chunk, n) for chunk, numbers in wanted.items() for n in sorted(numbers))
        queries = ({"meta_id": meta_id, "_id": condition} for condition in conditions(keys))
    else:
        queries = _any_of(
            {**chunk_query(meta_id, name, chunk), "n": condition}
            for chunk, numbers in wanted.items()
            for condition in conditions(sorted(numbers))
        )
    segments: dict[ChunkIndex, dict[int, Segment]] = {}
    doubled = set()
    for segment in map(parse_segment, chain.from_iterable(map(collection.find, queries))):
        known = segments.setdefault(segment.key[1], {})
        if segment.n in known:
            doubled.add(segment.key[1])
        known[segment.n] = segment
    return {chunk: known for chunk, known in segments.items() if chunk not in doubled}


def _any_of(parts: Iterable[MutableDocument]) -> Iterator[MutableDocument]:
    """Yield queries that find what any of these finds."""
    for some in query_batches(parts):
        yield some[0] if len(some) == 1 else {"$or": some}


def read_chunk(collection: DocumentCollection, meta_id: ObjectId, key: Key) -> AssembledChunk:
    """Return one chunk. MissingChunks, CorruptDocument."""
    name, chunk = key
    return assemble_chunk(key, fetch_segments(collection, meta_id, name, [chunk]).get(chunk, []))


_SIZE = {
    "$add": [{"$binarySize": {"$ifNull": [f"${field}", b""]}} for field in ("data", "sparse_data", "sparse_coords")]
}
"""The bytes of cells in a document."""


def count_bytes(collection: DocumentCollection, wanted: Document) -> int:
    """Return the bytes of cells in all documents of a query; none are moved."""
    pipeline: list[MutableDocument] = [{"$match": wanted}, {"$group": {"_id": None, "bytes": {"$sum": _SIZE}}}]
    return next((int(row["bytes"]) for row in collection.aggregate(pipeline)), 0)


def fetch_heads(collection: DocumentCollection, meta_id: ObjectId, wanted: Document) -> list[Document]:
    """Return of variables the documents n = 0 of one chunk each, or of all (``Ellipsis``), without their bytes, by as
    few queries as may be."""
    parts = []
    for name, chunk in wanted.items():
        one = {"meta_id": meta_id, "name": {"$eq": name}} if chunk is Ellipsis else chunk_query(meta_id, name, chunk)
        parts.append({**one, "n": 0})
    bytes_ = dict.fromkeys(("data", "sparse_data", "sparse_coords", "coords"), 0)
    return [head for query in _any_of(parts) for head in collection.find(query, bytes_)]


# -- writing ----------------------------------------------------------------------------------------------------------


def document_batches(documents: Iterable[MutableDocument]) -> Iterator[list[MutableDocument]]:
    """Yield documents by about :data:`DOCUMENT_BATCH_BYTES` bytes."""
    batch: list[MutableDocument] = []
    nbytes = 0
    for doc in documents:
        batch.append(doc)
        nbytes += (
            256 + len(doc.get("data", b"")) + len(doc.get("sparse_data", b"")) + len(doc.get("sparse_coords", b""))
        )
        if nbytes >= DOCUMENT_BATCH_BYTES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


def put_documents(collection: DocumentCollection, documents: Iterable[MutableDocument]) -> None:
    """Store the documents of whole chunks under their ids; once more does no harm.

    What is stored already is replaced. Documents of a former, longer chunk behind the last one are removed.
    """
    last: dict[Key, MutableDocument] = {}
    again: dict[Key, None] = {}
    for batch in document_batches(documents):
        known = {parse_key(doc): doc for doc in batch}
        last |= known
        try:
            # Documents are new but for a put that is done again: a duplicate key says so, and the batch is replaced.
            collection.insert_many(batch, ordered=True)
        except BulkWriteError as error:
            if any(each.get("code") != _DUPLICATE_KEY for each in error.details.get("writeErrors", [])):
                raise
            changes = [ReplaceOne({"_id": doc["_id"], "meta_id": doc["meta_id"]}, doc, upsert=True) for doc in batch]
            collection.bulk_write(changes, ordered=False)
            again |= dict.fromkeys(known)
    if again:
        same = ("meta_id", "name", "chunk")
        ends = [({field: {"$eq": last[key][field]} for field in same}, last[key]["n"]) for key in again]
        collection.bulk_write([DeleteMany({**chunk, "n": {"$gt": n}}) for chunk, n in ends], ordered=False)


# While the server stores one batch the client encodes and sends the next: the server takes three quarters of the time
# (docs/benchmarks.md).
_THREADS = 2


def put_documents_in_parallel(collection: DocumentCollection, documents: Iterable[MutableDocument]) -> None:
    """Store documents as :func:`put_documents` does, by two connections where they are more than a batch."""
    batches = document_batches(documents)
    first = list(islice(batches, 2))
    if len(first) < 2:
        put_documents(collection, chain.from_iterable(first))
        return
    with ThreadPoolExecutor(_THREADS, "hyperslab-mongo") as threads:
        under_way: deque[Future[None]] = deque()
        for batch in chain(first, batches):
            under_way.append(threads.submit(put_documents, collection, batch))
            if len(under_way) > _THREADS:
                under_way.popleft().result()
        for future in under_way:
            future.result()


def delete_chunks(
    collection: DocumentCollection, meta_id: ObjectId, name: str | None = None, where: Document | None = None
) -> int:
    """Remove all chunks of an object, or of one of its variables, or of that those that a condition finds. Return how
    many documents there were."""
    wanted = {"meta_id": meta_id, **({} if name is None else {"name": {"$eq": name}}), **(where or {})}
    return int(collection.delete_many(wanted).deleted_count)


STORED_WHOLE: Document = {"chunk": None}
"""Finds the chunk of a variable that is stored in one piece."""
