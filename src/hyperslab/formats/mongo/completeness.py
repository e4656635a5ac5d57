"""The survey of an object: which of its chunks are missing, and which are wrong.

The server counts documents and bytes, and the client compares them with what the object's document declares. An
object may declare any number of chunks: only those that are stored are remembered.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from math import prod
from typing import Any

from bson import ObjectId

from hyperslab.errors import HyperslabError
from hyperslab.formats.mongo.bson_values import Document, DocumentCollection, MutableDocument
from hyperslab.formats.mongo.chunk_documents import (
    DENSE,
    SPARSE,
    ChunkIndex,
    Key,
    Segment,
    expected_bytes,
    format_key,
    parse_key,
    parse_segment,
)
from hyperslab.formats.mongo.chunk_queries import conditions
from hyperslab.formats.mongo.chunk_writes import undo_entries
from hyperslab.formats.mongo.document import Meta, Variable, load_meta
from hyperslab.formats.mongo.to_spec import variable_extension
from hyperslab.stores import counting

# -- storage statistics -----------------------------------------------------------------------------------------------
# Documents and bytes of each chunk, counted by an aggregation of the server: no cells are moved.


@dataclass(frozen=True, slots=True)
class ChunkStats:
    """One chunk: its documents, how many different ``n`` they have and from where to where, the bytes of one document
    for each ``n`` (of sparse ones: values, places), and what they say of the chunk.

    ``alike``: all say the same, and those of one ``n`` have equally many bytes. ``sound``: each has bytes, and an ``n``
    that is whole.
    """

    key: Document
    documents: int
    segments: int
    first: Any
    last: Any
    values: int
    places: int
    description: Document
    alike: bool
    sound: bool

    def segment(self) -> Segment:
        """Return the description that the documents share, as a segment without its bytes. CorruptDocument,
        Unsupported.
        """
        empty = {"n": 0, "data": b"", "sparse_data": b"", "sparse_coords": b""}
        return parse_segment({**self.description, **self.key, **empty})


# Rows of the aggregation in one answer of the server: some 500 KiB, and progress is reported often enough.
_ROWS = 2000


def _bytes(*fields: str) -> MutableDocument:
    """Return the bytes of the first field that is there; -1 where none holds bytes."""
    found = {"$ifNull": [*(f"${field}" for field in fields), None]}
    sized = {"$cond": [{"$eq": [{"$type": "$$found"}, "binData"]}, {"$binarySize": "$$found"}, -1]}
    return {"$let": {"vars": {"found": found}, "in": sized}}


_IS_SPARSE = {"$eq": ["$type", SPARSE]}
_VALUES = {"$cond": [_IS_SPARSE, _bytes("sparse_data", "data"), _bytes("data")]}
_PLACES = {"$cond": [_IS_SPARSE, _bytes("sparse_coords", "coords"), 0]}
_SAID = {name: f"${name}" for name in ("dtype", "shape", "nnz", "fill_value")} | {"type": {"$ifNull": ["$type", DENSE]}}
_WHOLE = {"$cond": [{"$isNumber": "$n"}, {"$eq": [{"$mod": ["$n", 1]}, 0]}, False]}

# What one document says of itself. It is worked out once, before documents are grouped: the server copies the bytes of
# cells each time that an expression names their field, and a group of six of them took 21 ms of it for 64 MiB, this 8.
_BY_DOCUMENT = {
    "_id": 0,
    "meta_id": 1,
    "name": 1,
    "chunk": 1,
    "n": 1,
    "values": _VALUES,
    "places": _PLACES,
    "said": _SAID,
    "whole": _WHOLE,
}
_BY_N = {
    "_id": {"meta_id": "$meta_id", "name": "$name", "chunk": "$chunk", "n": "$n"},
    "documents": {"$sum": 1},
    "values": {"$max": "$values"},
    "least_values": {"$min": "$values"},
    "places": {"$max": "$places"},
    "least_places": {"$min": "$places"},
    "said": {"$min": "$said"},
    "last_said": {"$max": "$said"},
    "whole": {"$min": "$whole"},
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
    "_id": {"meta_id": "$_id.meta_id", "name": "$_id.name", "chunk": "$_id.chunk"},
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


def chunk_statistics(chunks: DocumentCollection, meta_ids: Sequence[ObjectId]) -> Iterator[ChunkStats]:
    """Yield every chunk of some objects that has documents, in no order."""
    (condition,) = conditions(meta_ids)
    mine = {"$match": {"meta_id": condition}}
    alike = {"$and": ["$alike", {"$eq": ["$said", "$last_said"]}]}
    groups: list[MutableDocument] = [{"$group": _BY_N}, {"$group": _BY_CHUNK}, {"$set": {"alike": alike}}]
    pipeline: list[MutableDocument] = [mine, {"$project": _BY_DOCUMENT}, *groups]
    with chunks.aggregate(pipeline, allowDiskUse=True, batchSize=_ROWS) as rows:
        for row in rows:
            counts = {name: row[name] for name in ("documents", "segments", "first", "last", "values", "places")}
            yield ChunkStats(key=row["_id"], **counts, description=row["said"], alike=row["alike"], sound=row["sound"])


def find_documents(
    chunks: DocumentCollection, meta_id: ObjectId, keys: Container[Key]
) -> dict[Key, list[tuple[Any, Any]]]:
    """Return ``n`` and ``_id`` of all documents of these chunks."""
    found: dict[Key, list[tuple[Any, Any]]] = {}
    # In one pass over the object: a query by ``chunk`` would look at every chunk that shares an index with it.
    for doc in chunks.find({"meta_id": {"$eq": meta_id}}, {"name": 1, "chunk": 1, "n": 1}):
        try:
            key = parse_key(doc)
        except HyperslabError:
            continue
        if key in keys:
            found.setdefault(key, []).append((doc.get("n", 0), doc["_id"]))
    return found


def find_contradicting(chunks: DocumentCollection, meta_id: ObjectId, ids: Iterable[Any]) -> set[Key]:
    """Return the chunks of which some of these documents have the same ``n`` and other bytes."""
    blobs = ("data", "sparse_data", "sparse_coords", "coords")
    group: MutableDocument = {"_id": {"name": "$name", "chunk": "$chunk", "n": "$n"}}
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


# -- flaws ------------------------------------------------------------------------------------------------------------


MISSING_CHUNK, MISSING_SEGMENT = "missing-chunk", "missing-segment"
DUPLICATES, CONTRADICTING = "duplicate-documents", "contradicting-documents"
EXCESS, SHAPE, DOCUMENT = "excess-bytes", "chunk-shape", "chunk-document"
STRAY, EMBEDDED = "stray-documents", "embedded-and-stored"
_HARMLESS = (DUPLICATES, STRAY)
# Chunks whose copies are compared by one aggregation, of which the server sorts the bytes.
CHUNKS_PER_SURVEY_QUERY = 100


@dataclass(frozen=True, slots=True)
class ChunkFlaw:
    """A flaw of the documents of one chunk; ``stored``: ``n`` and ``_id`` of all of them, where they are copies or
    belong to nothing."""

    key: Key
    kind: str
    message: str
    stored: tuple[tuple[Any, Any], ...] = ()


@dataclass(slots=True)
class AbsentChunks:
    """The chunks of one variable that have no documents: all of its grid but those at the numbers ``stored``."""

    name: str
    counts: tuple[int, ...] | None
    stored: set[int] = field(default_factory=set)

    @property
    def declared(self) -> int:
        """The number of chunks that there must be."""
        return 1 if self.counts is None else prod(self.counts)

    def __len__(self) -> int:
        return self.declared - len(self.stored)

    def add(self, chunk: ChunkIndex) -> None:
        """Note that a chunk is stored."""
        number = 0
        for index, count in zip(chunk or (), self.counts or (), strict=True):
            number = number * count + index
        self.stored.add(number)

    def __iter__(self) -> Iterator[Key]:
        """Yield the missing ones, in order; nothing is remembered of them."""
        start = 0
        for stop in (*sorted(self.stored), self.declared):
            for number in range(start, stop):
                indices = []
                for count in reversed(self.counts or ()):
                    number, index = divmod(number, count)
                    indices.append(index)
                yield self.name, None if self.counts is None else tuple(reversed(indices))
            start = stop + 1


class ObjectSurvey:
    """One object compared with its documents: first :meth:`flaws`, to the end, then what is ``absent`` and no fill
    value, and which chunks are ``sparse``."""

    def __init__(self, meta: Meta, chunks: DocumentCollection, statistics: Iterable[ChunkStats] | None = None) -> None:
        """Take the ``statistics`` of all its chunks, where they are known."""
        self.meta = meta
        self.chunks = chunks
        self._statistics = statistics
        self.variables = meta.variables
        self._absent = {
            name: AbsentChunks(name, None if variable.chunks is None else tuple(map(len, variable.chunks)))
            for name, variable in self.variables.items()
            if variable.problem is None and variable.embedded is None
        }
        self.sparse: list[Key] = []
        self._misfits = False
        self._undo_counts = {
            key: entry.count for key, entry in undo_entries(meta.extension).items() if entry.count is not None
        }
        for name, chunk in (key for key, count in self._undo_counts.items() if count and key[0] in self._absent):
            if self.variables[name].has(chunk):
                self._absent[name].add(chunk)
        self.absent = [absent for name, absent in self._absent.items() if "fill" not in variable_extension(meta, name)]

    def is_questioned(self, flaws: Iterable[ChunkFlaw]) -> bool:
        """Return True if the documents do not fit the object otherwise than by being too many.

        Documents of chunks that it does not have may be sound then, and its own document wrong.
        """
        if self._misfits or any(flaw.kind not in _HARMLESS for flaw in flaws):
            return True
        lengths = {pair for each in self.variables.values() for pair in zip(each.dims, each.shape, strict=False)}
        lengths = {(dim, size) for dim, size in lengths if size is not None}
        if len(lengths) > len({dim for dim, _ in lengths}):
            return True
        if any(variable.problem is not None for variable in self.variables.values()) or any(map(len, self.absent)):
            return True
        is_renamed = any(flaw.kind == STRAY and flaw.key[0] not in self.variables for flaw in flaws)
        return is_renamed and any(absent.declared and not absent.stored for absent in self._absent.values())

    def flaws(self) -> Iterator[ChunkFlaw]:
        """Yield the flaws of the stored documents, in no order."""
        strays: dict[Key, ChunkFlaw] = {}
        doubled: set[Key] = set()
        known = self._statistics
        for stats in chunk_statistics(self.chunks, [self.meta.id]) if known is None else known:
            flaw = self._flaw(stats)
            if flaw is None and stats.documents > stats.segments and stats.key["name"] in self._absent:
                doubled.add(parse_key(stats.key))
            elif flaw is not None and flaw.kind == STRAY:
                strays[flaw.key] = flaw
            elif flaw is not None:
                yield flaw
            if counting.watchers:
                counting.done(1)
        doubled -= self._undo_counts.keys()
        if strays or doubled:
            found = find_documents(self.chunks, self.meta.id, strays.keys() | doubled)
            yield from (replace(flaw, stored=tuple(found.get(key, ()))) for key, flaw in strays.items())
            yield from self._doubles({key: found[key] for key in doubled if key in found})

    def _flaw(self, stats: ChunkStats) -> ChunkFlaw | None:
        try:
            key = parse_key(stats.key)
        except HyperslabError as error:
            return ChunkFlaw((str(stats.key.get("name")), None), DOCUMENT, error.said)
        if key in self._undo_counts:  # it is being changed, and read as it was
            return None
        variable = self.variables.get(key[0])
        counted = f"{stats.documents} documents of {format_key(key)}"
        if variable is None:
            return ChunkFlaw(key, STRAY, f"{counted}, a variable that the object does not have")
        if variable.problem is not None:
            return None
        if variable.embedded is not None and not (self.meta.extension and key[1] is not None):
            return ChunkFlaw(key, EMBEDDED, f"{counted}, whose cells stand in the object's own document")
        if variable.embedded is not None or not variable.has(key[1]):
            return ChunkFlaw(key, STRAY, f"{counted}, a chunk that the variable does not have")
        self._absent[key[0]].add(key[1])
        self.sparse += [key] if stats.description.get("type") == SPARSE else []
        self._misfits |= _is_misfit(key[1], stats, variable)
        return _find_flaw(key, stats, variable, lenient=bool(variable_extension(self.meta, key[0])))

    def _doubles(self, found: Mapping[Key, list[tuple[Any, Any]]]) -> Iterator[ChunkFlaw]:
        rest = iter(found.items())
        while some := dict(islice(rest, CHUNKS_PER_SURVEY_QUERY)):
            ids = [id for stored in some.values() for _, id in stored]
            differing = find_contradicting(self.chunks, self.meta.id, ids)
            for key, stored in some.items():
                if key in differing:
                    message = f"documents of {format_key(key)} with the same n hold other bytes"
                    yield ChunkFlaw(key, CONTRADICTING, message)
                else:
                    surplus = len(stored) - len({n for n, _ in stored})
                    message = f"{surplus} of {len(stored)} documents of {format_key(key)} are copies"
                    yield ChunkFlaw(key, DUPLICATES, message, tuple(stored))


def _find_flaw(key: Key, stats: ChunkStats, variable: Variable, *, lenient: bool) -> ChunkFlaw | None:
    """Return the flaw of a chunk that the object has, except copies. ``lenient``: of any length, as while it grows."""
    where = format_key(key)
    if not stats.alike:
        return ChunkFlaw(key, CONTRADICTING, f"documents of {where} contradict each other")
    try:
        segment = stats.segment()
    except HyperslabError as error:
        return ChunkFlaw(key, DOCUMENT, f"{where}: {error.said}")
    if not stats.sound:
        return ChunkFlaw(key, DOCUMENT, f"a document of {where} has no bytes, or an n that is no whole number")
    kind, detail = _compare_bytes(stats, segment)
    if kind:
        return ChunkFlaw(key, kind, f"{where}: {detail}")
    declared = _declared_shape(key[1], variable)
    fits = [lenient or size in (None, found) for size, found in zip(declared, segment.shape, strict=False)]
    if len(declared) != len(segment.shape) or not all(fits):
        return ChunkFlaw(key, SHAPE, f"{where} has the shape {segment.shape}, its variable declares {declared}")
    return None


def _is_misfit(chunk: ChunkIndex, stats: ChunkStats, variable: Variable) -> bool:
    """Return True if a chunk has another length than its place. Not counted is what a growing or shrinking array leaves
    there: a chunk at the end of an axis that is longer along it."""
    try:
        found = stats.segment().shape
    except HyperslabError:
        return True
    if chunk is None or variable.chunks is None or len(found) != len(chunk):
        return False
    sizes = zip(_declared_shape(chunk, variable), found, chunk, variable.chunks, strict=True)
    return any(
        size is not None and (length < size or (length > size and index < len(cuts) - 1))
        for size, length, index, cuts in sizes
    )


def _compare_bytes(stats: ChunkStats, segment: Segment) -> tuple[str, str]:
    expected, found = expected_bytes(segment), (stats.values, stats.places)
    detail = f"{sum(found)} of {sum(expected)} bytes"
    if sum(found) > sum(expected):
        return EXCESS, detail
    has_gaps = stats.first != 0 or stats.last != stats.segments - 1
    if has_gaps or sum(found) < sum(expected):
        return MISSING_SEGMENT, f"{detail}, in {stats.segments} documents, n up to {stats.last}"
    if found != expected:
        return DOCUMENT, f"values and places of {found} bytes, not {expected}"
    if segment.fill is not None and len(segment.fill) != segment.dtype.itemsize:
        return DOCUMENT, f"a fill value of {len(segment.fill)} bytes, not {segment.dtype.itemsize}"
    return "", ""


def _declared_shape(chunk: ChunkIndex, variable: Variable) -> tuple[int | None, ...]:
    if chunk is None or variable.chunks is None:
        return variable.shape
    return tuple(sizes[index] for index, sizes in zip(chunk, variable.chunks, strict=True))


# -- by id ------------------------------------------------------------------------------------------------------------


def find_missing(
    meta: DocumentCollection, chunks: DocumentCollection, id: ObjectId, limit: int | None = None
) -> list[Key]:
    """Return the chunks of an object that are not stored, or not whole; at most ``limit``. DocumentNotFoundError."""
    return missing_chunks(load_meta(meta, id), chunks, limit)


def missing_chunks(meta: Meta, chunks: DocumentCollection, limit: int | None = None) -> list[Key]:
    """Return what :func:`find_missing` does, of an object whose document is known."""
    survey = ObjectSurvey(meta, chunks)
    broken = [flaw.key for flaw in survey.flaws() if flaw.kind == MISSING_SEGMENT]
    order = {name: place for place, name in enumerate(survey.variables)}
    keys = [*broken, *islice(chain.from_iterable(survey.absent), limit)]
    return sorted(keys, key=lambda key: (order[key[0]], key[1] or ()))[:limit]


def is_complete(meta: DocumentCollection, chunks: DocumentCollection, id: ObjectId) -> bool:
    """Return True if all of an object can be read: every byte, once or in equal copies. DocumentNotFoundError."""
    found = load_meta(meta, id)
    if "status" in found.extension or any(variable.problem for variable in found.variables.values()):
        return False
    survey = ObjectSurvey(found, chunks)
    return all(flaw.kind in _HARMLESS for flaw in survey.flaws()) and not any(survey.absent)
