"""Chunk documents in their collection: fetched by few queries, written so that doing it twice changes nothing.

Every query names ``meta_id`` (sharding, safety); nothing is sorted by the server; values that come from users are
compared (``$eq``, ``$in``), never taken for operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hyperslab.chunks.pool import batched
from hyperslab.formats.mongo.ids import Chunk, Derived
from hyperslab.formats.mongo.segments import (
    AssembledChunk,
    Key,
    Segment,
    expected_bytes,
    join,
    parse_key,
    parse_segment,
)

if TYPE_CHECKING:
    from pymongo.collection import Collection

BATCH = 8 << 20
"""Bytes of documents that are sent at a time; more of them cost the client time and the server memory."""
_MOST_KEYS = 1000
_DUPLICATE = 11000

INDEX = [("meta_id", 1), ("name", 1), ("chunk", 1)]
"""The index that every driver makes (R50), not unique."""


def positional_index(positions: int) -> list[tuple[str, int]]:
    """The index that finds a chunk by one key, whatever its neighbours (reference 4.4)."""
    return [("meta_id", 1), ("name", 1), *((f"chunk.{axis}", 1) for axis in range(positions)), ("n", 1)]


# -- reading ----------------------------------------------------------------------------------------------------------


def query(meta_id: Any, name: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """What finds all documents of some chunks of one variable."""
    wanted = [None if chunk is None else list(chunk) for chunk in chunks]
    condition: Any = {"$eq": wanted[0]} if len(wanted) == 1 else {"$in": wanted}
    return {"meta_id": meta_id, "name": {"$eq": name}, "chunk": condition}


def fetch(
    collection: Collection[Any],
    meta_id: Any,
    name: str,
    chunks: Sequence[Chunk],
    *,
    derived: bool = False,
    notice: Callable[[Mapping[str, Any]], None] | None = None,
) -> dict[Chunk, list[Segment]]:
    """The documents of some chunks of one variable, by as few queries as may be; a chunk without any has no entry.

    ``derived``: they are known to lie under derived ids, and are asked for by those; what is not found so is asked for
    by its key. ``notice`` is shown every document that was found by its key. CorruptDocument.
    """
    found: dict[Chunk, list[Segment]] = {}
    for part in batched(chunks, _MOST_KEYS):
        if derived:
            _take(found, _by_ids(collection, meta_id, name, part))
            part = [chunk for chunk in part if chunk not in found]
        if part:
            docs: Iterable[Mapping[str, Any]] = collection.find(query(meta_id, name, part))
            _take(found, docs if notice is None else _shown(docs, notice))
    return found


def _shown(
    docs: Iterable[Mapping[str, Any]], notice: Callable[[Mapping[str, Any]], None]
) -> Iterator[Mapping[str, Any]]:
    for doc in docs:
        notice(doc)
        yield doc


def _by_ids(
    collection: Collection[Any], meta_id: Any, name: str, chunks: Sequence[Chunk]
) -> Iterator[Mapping[str, Any]]:
    """The first documents by id, then all others of those chunks that have more."""
    ids = Derived(meta_id)
    several: list[Chunk] = []
    for doc in collection.find({"meta_id": meta_id, "_id": {"$in": [ids(name, chunk, 0) for chunk in chunks]}}):
        yield doc
        first = parse_segment(doc)
        missing = -(-sum(expected_bytes(first)) // max(1, first.nbytes)) - 1
        if missing > 0:
            several.append(first.key[1])
    if several:
        yield from collection.find({**query(meta_id, name, several), "n": {"$gt": 0}})


def _take(found: dict[Chunk, list[Segment]], docs: Iterable[Mapping[str, Any]]) -> None:
    for doc in docs:
        segment = parse_segment(doc)
        found.setdefault(segment.key[1], []).append(segment)


def read_chunk(collection: Collection[Any], meta_id: Any, key: Key) -> AssembledChunk:
    """One chunk. MissingChunks, CorruptDocument."""
    name, chunk = key
    return join(key, fetch(collection, meta_id, name, [chunk]).get(chunk, []))


_SIZE = {
    "$add": [{"$binarySize": {"$ifNull": [f"${field}", b""]}} for field in ("data", "sparse_data", "sparse_coords")]
}
"""The bytes of cells in a document."""


def total_bytes(collection: Collection[Any], wanted: Mapping[str, Any]) -> int:
    """The bytes of cells in all documents of a query; none are moved."""
    pipeline: list[dict[str, Any]] = [{"$match": wanted}, {"$group": {"_id": None, "bytes": {"$sum": _SIZE}}}]
    return next((int(row["bytes"]) for row in collection.aggregate(pipeline)), 0)


def first_documents(collection: Collection[Any], meta_id: Any, wanted: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of variables the documents n = 0 of one chunk each, or of all (``Ellipsis``), without their bytes; one query."""
    parts = []
    for name, chunk in wanted.items():
        one = {"meta_id": meta_id, "name": {"$eq": name}} if chunk is Ellipsis else query(meta_id, name, [chunk])
        parts.append({**one, "n": 0})
    bytes_ = dict.fromkeys(("data", "sparse_data", "sparse_coords", "coords"), 0)
    return list(collection.find({"$or": parts}, bytes_)) if parts else []


# -- writing ----------------------------------------------------------------------------------------------------------


def batches(documents: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Documents by about :data:`BATCH` bytes."""
    batch: list[dict[str, Any]] = []
    held = 0
    for doc in documents:
        batch.append(doc)
        held += 256 + len(doc.get("data", b"")) + len(doc.get("sparse_data", b"")) + len(doc.get("sparse_coords", b""))
        if held >= BATCH:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def put(collection: Collection[Any], documents: Iterable[dict[str, Any]]) -> None:
    """Store the documents of whole chunks under their ids; once more does no harm (reference 4.3).

    What is stored already is replaced. Documents of a former, longer chunk behind the last one are removed.
    """
    from pymongo.errors import BulkWriteError

    last: dict[Key, dict[str, Any]] = {}
    again: dict[Key, None] = {}
    for batch in batches(documents):
        known = {parse_key(doc): doc for doc in batch}
        last |= known
        try:
            collection.insert_many(batch, ordered=True)
        except BulkWriteError as error:
            if any(each.get("code") != _DUPLICATE for each in error.details.get("writeErrors", [])):
                raise
            _replace(collection, batch)
            again |= dict.fromkeys(known)
    if again:
        _remove_behind(collection, [last[key] for key in again])


def _replace(collection: Collection[Any], batch: Sequence[dict[str, Any]]) -> None:
    from pymongo import ReplaceOne

    changes = [ReplaceOne({"_id": doc["_id"], "meta_id": doc["meta_id"]}, doc, upsert=True) for doc in batch]
    collection.bulk_write(changes, ordered=False)


def _remove_behind(collection: Collection[Any], ends: Sequence[dict[str, Any]]) -> None:
    """Remove what follows the last documents of chunks."""
    from pymongo import DeleteMany

    same = ("meta_id", "name", "chunk")
    changes = [DeleteMany({**{field: {"$eq": doc[field]} for field in same}, "n": {"$gt": doc["n"]}}) for doc in ends]
    collection.bulk_write(changes, ordered=False)


def delete(collection: Collection[Any], meta_id: Any) -> int:
    """Remove all chunks of an object; how many documents there were."""
    return int(collection.delete_many({"meta_id": meta_id}).deleted_count)
