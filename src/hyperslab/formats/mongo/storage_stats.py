"""What is stored of an object, counted by the server: documents and bytes of each chunk. No bytes are moved."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyperslab.errors import HyperslabError
from hyperslab.formats.mongo.segments import DENSE, SPARSE, Key, Segment, parse_key, parse_segment

if TYPE_CHECKING:
    from pymongo.collection import Collection


@dataclass(frozen=True, slots=True)
class ChunkDocuments:
    """One chunk: its documents, how many different ``n`` they have and from where to where, the bytes of one document
    for each ``n`` (of sparse ones: values, places), and what they say of the chunk.

    ``alike``: all say the same, and those of one ``n`` have equally many bytes. ``sound``: each has bytes, and an ``n``
    that is whole.
    """

    key: Mapping[str, Any]
    documents: int
    segments: int
    first: Any
    last: Any
    values: int
    places: int
    said: Mapping[str, Any]
    alike: bool
    sound: bool

    @property
    def unbroken(self) -> bool:
        """Return whether the ``n`` are 0, 1, 2, …"""
        return self.sound and self.first == 0 and self.last == self.segments - 1

    def segment(self) -> Segment:
        """What the documents say, as one without its bytes. CorruptDocument, Unsupported."""
        return parse_segment({**self.said, **self.key, "n": 0, "data": b"", "sparse_data": b"", "sparse_coords": b""})


_ROWS = 2000
"""Chunks that are told of at a time."""


def _bytes(*fields: str) -> dict[str, Any]:
    """The bytes of the first field that is there; -1 where none holds bytes."""
    found = {"$ifNull": [*(f"${field}" for field in fields), None]}
    sized = {"$cond": [{"$eq": [{"$type": "$$found"}, "binData"]}, {"$binarySize": "$$found"}, -1]}
    return {"$let": {"vars": {"found": found}, "in": sized}}


_IS_SPARSE = {"$eq": ["$type", SPARSE]}
_VALUES = {"$cond": [_IS_SPARSE, _bytes("sparse_data", "data"), _bytes("data")]}
_PLACES = {"$cond": [_IS_SPARSE, _bytes("sparse_coords", "coords"), 0]}
_SAID = {name: f"${name}" for name in ("dtype", "shape", "nnz", "fill_value")} | {"type": {"$ifNull": ["$type", DENSE]}}
_WHOLE = {"$cond": [{"$isNumber": "$n"}, {"$eq": [{"$mod": ["$n", 1]}, 0]}, False]}

_BY_N = {
    "_id": {"name": "$name", "chunk": "$chunk", "n": "$n"},
    "documents": {"$sum": 1},
    "values": {"$max": _VALUES},
    "least_values": {"$min": _VALUES},
    "places": {"$max": _PLACES},
    "least_places": {"$min": _PLACES},
    "said": {"$min": _SAID},
    "last_said": {"$max": _SAID},
    "whole": {"$min": _WHOLE},
}
_ALIKE = {
    "$and": [
        {"$eq": ["$values", "$least_values"]},
        {"$eq": ["$places", "$least_places"]},
        {"$eq": ["$said", "$last_said"]},
    ]
}
_SOUND = {"$and": ["$whole", {"$gte": ["$least_values", 0]}, {"$gte": ["$least_places", 0]}]}
_BY_CHUNK = {
    "_id": {"name": "$_id.name", "chunk": "$_id.chunk"},
    "documents": {"$sum": "$documents"},
    "segments": {"$sum": 1},
    "first": {"$min": "$_id.n"},
    "last": {"$max": "$_id.n"},
    "values": {"$sum": "$values"},
    "places": {"$sum": "$places"},
    "said": {"$min": "$said"},
    "last_said": {"$max": "$last_said"},
    "alike": {"$min": _ALIKE},
    "sound": {"$min": _SOUND},
}


def tallies(chunks: Collection[Any], meta_id: Any) -> Iterator[ChunkDocuments]:
    """Every chunk of an object that has documents, in no order."""
    mine = {"$match": {"meta_id": {"$eq": meta_id}}}
    alike = {"$and": ["$alike", {"$eq": ["$said", "$last_said"]}]}
    pipeline: list[dict[str, Any]] = [mine, {"$group": _BY_N}, {"$group": _BY_CHUNK}, {"$set": {"alike": alike}}]
    with chunks.aggregate(pipeline, allowDiskUse=True, batchSize=_ROWS) as rows:
        for row in rows:
            told = {name: row[name] for name in ("documents", "segments", "first", "last", "values", "places", "said")}
            yield ChunkDocuments(key=row["_id"], **told, alike=row["alike"], sound=row["sound"])


def documents_of(chunks: Collection[Any], meta_id: Any, keys: Container[Key]) -> dict[Key, list[tuple[Any, Any]]]:
    """``n`` and ``_id`` of all documents of these chunks, in one pass over the object: a query by ``chunk`` would look
    at every chunk that shares an index with it."""
    found: dict[Key, list[tuple[Any, Any]]] = {}
    for doc in chunks.find({"meta_id": {"$eq": meta_id}}, {"name": 1, "chunk": 1, "n": 1}):
        try:
            key = parse_key(doc)
        except HyperslabError:
            continue
        if key in keys:
            found.setdefault(key, []).append((doc.get("n", 0), doc["_id"]))
    return found


def contradicting(chunks: Collection[Any], meta_id: Any, ids: Iterable[Any]) -> set[Key]:
    """The chunks of which some of these documents have the same ``n`` and other bytes."""
    blobs = ("data", "sparse_data", "sparse_coords", "coords")
    group: dict[str, Any] = {"_id": {"name": "$name", "chunk": "$chunk", "n": "$n"}}
    for blob in blobs:
        group |= {f"low_{blob}": {"$min": f"${blob}"}, f"high_{blob}": {"$max": f"${blob}"}}
    differ = {"$or": [{"$ne": [f"$low_{blob}", f"$high_{blob}"]} for blob in blobs]}
    pipeline = [
        {"$match": {"meta_id": {"$eq": meta_id}, "_id": {"$in": list(ids)}}},
        {"$group": group},
        {"$match": {"$expr": differ}},
        {"$project": {"_id": 1}},
    ]
    return {parse_key(row["_id"]) for row in chunks.aggregate(pipeline, allowDiskUse=True)}
