"""Every problem of objects and their documents, with what mends it; garbage: documents that belong to nothing.

Nodes are those of a hyperslab dataset, below the id of the object where a whole collection is looked through. Kinds:
``document`` (of an object, or of one of its variables), ``missing-chunk``, ``missing-segment``, ``excess-bytes``,
``chunk-shape``, ``chunk-document``, ``corrupt-chunk``, ``duplicate-documents``, ``contradicting-documents``,
``stray-documents``, ``embedded-and-stored``, ``unfinished-change``; of a collection ``no-object``, ``unfinished``,
``expired-version``, ``replaced``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from math import prod
from typing import Any

from bson import ObjectId

from hyperslab.chunks.plan import batched
from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.mongo import chunk_queries, chunk_writes, document
from hyperslab.formats.mongo.bson_values import Document, DocumentCollection, subdocument
from hyperslab.formats.mongo.chunk_documents import DerivedIds, Key, format_key
from hyperslab.formats.mongo.chunk_writes import all_undo_copy_ids
from hyperslab.formats.mongo.completeness import (
    DUPLICATES,
    MISSING_CHUNK,
    STRAY,
    ChunkFlaw,
    ChunkStats,
    ObjectSurvey,
    chunk_statistics,
    find_missing,
)
from hyperslab.formats.mongo.document import (
    EXTENSION,
    KEPT_UNTIL,
    LEASE,
    PUTTING,
    REPLACES,
    RETIRED,
    STATUS,
    TOUCHED,
    Meta,
    object_exists,
)
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.formats.mongo.objects import delete_object, finish_replacement
from hyperslab.formats.mongo.server import server_time
from hyperslab.formats.mongo.to_spec import node_names
from hyperslab.formats.rules import Finding, Rule, Rules
from hyperslab.model.amounts import parse_seconds

# -- garbage ----------------------------------------------------------------------------------------------------------
# Chunks without an object, objects that were never finished or were replaced, duplicates, and documents that their
# object does not have.
#
# What somebody is storing right now must stay, so that nothing is removed that is younger than an age, and nothing of
# which the age is unknown unless the age is 0: an id holds the second in which it was made, except a derived one. An
# object that is being made is as old as its id, the last ``touch_object``, or the lease upon it. Documents are listed
# before objects are asked for: who stores an object first and its chunks then is never taken for garbage.


GARBAGE_AGE = 3600.0
"""Seconds after which a document is taken for one that nobody is storing any more."""
_OLDEST = 1e9  # seconds, 31 years: no id is of a moment before 1970


@dataclass(frozen=True, slots=True)
class Orphan:
    """Documents that belong to nothing: ``kind`` (``no-object``, ``unfinished``, ``expired-version``, ``replaced``,
    ``duplicate-documents``, ``stray-documents``), of which object, how many, and their bytes."""

    kind: str
    id: ObjectId
    documents: int
    nbytes: int
    message: str
    ids: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class GarbageReport:
    """The documents that belonged to nothing; ``applied``: they were removed."""

    orphans: tuple[Orphan, ...]
    applied: bool

    @property
    def documents(self) -> int:
        """The number of documents."""
        return sum(orphan.documents for orphan in self.orphans)

    @property
    def nbytes(self) -> int:
        """The bytes of all documents."""
        return sum(orphan.nbytes for orphan in self.orphans)


def collect_garbage(
    meta: DocumentCollection,
    chunks: DocumentCollection,
    *,
    age: float | timedelta = GARBAGE_AGE,
    dry_run: bool = False,
) -> GarbageReport:
    """Remove what :func:`find_orphans` finds; with ``dry_run`` only report it. Invalid for an age below 0."""
    found = find_orphans(meta, chunks, age=age)
    return GarbageReport(tuple(one for one in found if dry_run or remove_orphan(meta, chunks, one)), not dry_run)


def find_orphans(
    meta: DocumentCollection, chunks: DocumentCollection, *, age: float | timedelta = GARBAGE_AGE, surplus: bool = True
) -> Iterator[Orphan]:
    """Yield documents that belong to nothing and are older than ``age`` (seconds). ``surplus``: those of sound objects
    too, for which every object is looked through. Invalid.
    """
    seconds = parse_seconds(age, "age", below=_OLDEST)

    def find_all() -> Iterator[Orphan]:
        clock = _Clock.of(meta, seconds)
        yield from _find_without_object(meta, chunks, clock)
        yield from _find_unfinished(meta, chunks, clock)
        yield from _find_expired_versions(meta, chunks)
        yield from _find_replaced_leftovers(meta, chunks)
        if surplus:
            for _, found, statistics in _objects_with_statistics(meta, chunks):
                if isinstance(found, Meta):  # nothing is known of an object that cannot be understood
                    yield from _surplus_orphans(found, chunks, statistics, clock)

    return find_all()


def remove_orphan(meta: DocumentCollection, chunks: DocumentCollection, orphan: Orphan) -> bool:
    """Remove the documents; False when they have come to belong to something meanwhile."""
    match orphan.kind:
        case "no-object":
            if object_exists(meta, orphan.id) or orphan.id in all_undo_copy_ids(meta):
                return False
            chunk_queries.delete_chunks(chunks, orphan.id)
        case "unfinished":
            made = {"$or": [{STATUS: {"$exists": True}}, {PUTTING: {"$exists": True}}]}
            if not meta.delete_one({"_id": {"$eq": orphan.id}, **made}).deleted_count:
                return False
            delete_object(meta, chunks, orphan.id)
        case "expired-version":
            if not meta.delete_one({"_id": {"$eq": orphan.id}, STATUS: RETIRED}).deleted_count:
                return False
            delete_object(meta, chunks, orphan.id)
        case "replaced":
            finish_replacement(meta, chunks, orphan.id)
        case _:
            for condition in chunk_queries.conditions(orphan.ids or ()):
                chunks.delete_many({"meta_id": {"$eq": orphan.id}, "_id": condition})
    return True


@dataclass(frozen=True, slots=True)
class _Clock:
    """Documents are old that were made before ``latest``, by the server's clock; ``everything`` is, where the age is
    0."""

    latest: datetime
    everything: bool

    @classmethod
    def of(cls, meta: DocumentCollection, age: float) -> _Clock:
        """Return the clock by which documents older than ``age`` seconds are old."""
        return cls(server_time(meta) - timedelta(seconds=age), age == 0)

    def is_old(self, doc: Document) -> bool:
        """Return True if a document is old; a chunk under a derived id, whose age nobody knows, is not."""
        if self.everything:
            return True
        id = doc["_id"]
        return isinstance(id, ObjectId) and id.generation_time < self.latest and not _is_derived(doc)

    def is_past(self, moment: object) -> bool:
        """Return True if a moment is before the latest; what is no moment is."""
        if self.everything or not isinstance(moment, datetime):
            return True
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) < self.latest


def _is_derived(doc: Document) -> bool:
    meta_id = doc.get("meta_id")
    return isinstance(meta_id, ObjectId) and DerivedIds(meta_id).is_id_of(doc)


def _count_documents(chunks: DocumentCollection, query: Document) -> tuple[int, int]:
    """Return how many documents there are, and their bytes."""
    group = {"_id": None, "documents": {"$sum": 1}, "bytes": {"$sum": {"$bsonSize": "$$ROOT"}}}
    for row in chunks.aggregate([{"$match": query}, {"$group": group}]):
        return row["documents"], row["bytes"]
    return 0, 0


def _find_without_object(meta: DocumentCollection, chunks: DocumentCollection, clock: _Clock) -> Iterator[Orphan]:
    with chunks.aggregate([{"$group": {"_id": "$meta_id"}}], allowDiskUse=True) as rows:
        for ids in chunk_queries.query_batches(row["_id"] for row in rows):
            known = {row["_id"] for row in meta.find({"_id": {"$in": ids}}, {"_id": 1})} | all_undo_copy_ids(meta)
            for id in (id for id in ids if id not in known):
                mine = {"meta_id": {"$eq": id}}
                if clock.everything or _has_old_documents_alone(chunks, id, clock):
                    documents, nbytes = _count_documents(chunks, mine)
                    message = f"{documents} documents of chunks belong to no object"
                    yield Orphan("no-object", id, documents, nbytes, message)


def _has_old_documents_alone(chunks: DocumentCollection, id: object, clock: _Clock) -> bool:
    """Return True if an object that is not there is old, and each of its documents; those under derived ids are as old
    as it."""
    if isinstance(id, ObjectId) and id.generation_time >= clock.latest:
        return False
    newer = {"meta_id": {"$eq": id}, "_id": {"$gte": ObjectId.from_datetime(clock.latest)}}
    return all(map(_is_derived, chunks.find(newer, {"meta_id": 1, "name": 1, "chunk": 1, "n": 1})))


def _find_unfinished(meta: DocumentCollection, chunks: DocumentCollection, clock: _Clock) -> Iterator[Orphan]:
    def unfinished(id: ObjectId, why: str) -> Orphan:
        documents, nbytes = _count_documents(chunks, {"meta_id": {"$eq": id}})
        return Orphan("unfinished", id, documents + 1, nbytes, f"{why}, with {documents} documents of chunks")

    for row in meta.find({STATUS: {"$exists": True, "$ne": RETIRED}}, {TOUCHED: 1, LEASE: 1}):
        fields = subdocument(row, EXTENSION)
        signs = (fields.get("touched"), subdocument(fields, "lease").get("until"))
        if clock.is_old(row) and all(map(clock.is_past, signs)):
            yield unfinished(row["_id"], "an object that was never finished")
    for row in meta.find({PUTTING: {"$exists": True}, STATUS: {"$exists": False}}, {PUTTING: 1}):
        if clock.is_old(row) and clock.is_past(row[EXTENSION]["putting"]):
            with suppress(HyperslabError):  # nothing is known of an object that cannot be understood, or is gone
                if find_missing(meta, chunks, row["_id"], 1):
                    yield unfinished(row["_id"], "a put of this object was broken off")


def _find_expired_versions(meta: DocumentCollection, chunks: DocumentCollection) -> Iterator[Orphan]:
    is_past = {"$expr": {"$lt": [f"${KEPT_UNTIL}", "$$NOW"]}}
    for row in meta.find({STATUS: RETIRED, KEPT_UNTIL: {"$exists": True}, **is_past}, {KEPT_UNTIL: 1}):
        documents, nbytes = _count_documents(chunks, {"meta_id": {"$eq": row["_id"]}})
        message = f"an older version that was kept until {row[EXTENSION]['kept_until']:%Y-%m-%d %H:%M}"
        yield Orphan("expired-version", row["_id"], documents + 1, nbytes, message)


def _find_replaced_leftovers(meta: DocumentCollection, chunks: DocumentCollection) -> Iterator[Orphan]:
    for row in meta.find({REPLACES: {"$exists": True}, STATUS: {"$exists": False}}, {REPLACES: 1}):
        old = row[EXTENSION]["replaces"]
        documents, nbytes = _count_documents(chunks, {"meta_id": {"$eq": old}})
        there = object_exists(meta, old)
        yield Orphan("replaced", row["_id"], documents + there, nbytes, f"the object {old} was replaced by this one")


# -- many objects -----------------------------------------------------------------------------------------------------


# Objects of which the server counts the documents by one query, and the most chunks that such an object has: what is
# known of them is remembered together. To look for garbage among 100,000 small objects took 99 s one by one, and takes
# 22 s. Few at a time: a document may be 16 MiB, and the server forgets a cursor that rests for ten minutes.
_OBJECTS, _FEW_CHUNKS = 10, 200


def _objects_with_statistics(
    meta: DocumentCollection, chunks: DocumentCollection
) -> Iterator[tuple[object, Meta | HyperslabError, Sequence[ChunkStats] | None]]:
    """Yield the id of each object that is found, what its document says or why that says nothing, and the statistics of
    its chunks, None where they are yet to be counted."""
    for docs in batched(meta.find({STATUS: {"$exists": False}}, batch_size=_OBJECTS), _OBJECTS):
        parsed = [_parse_or_error(doc) for doc in docs]
        small = [each.id for each in parsed if isinstance(each, Meta) and _has_few_chunks(each)]
        statistics: dict[ObjectId, list[ChunkStats]] = {id: [] for id in small}
        for stats in chunk_statistics(chunks, small) if small else ():
            statistics[stats.key["meta_id"]].append(stats)
        for doc, each in zip(docs, parsed, strict=True):
            yield doc["_id"], each, statistics.get(each.id) if isinstance(each, Meta) and each.id in small else None


def _parse_or_error(doc: Document) -> Meta | HyperslabError:
    try:
        return document.parse_object(doc)
    except HyperslabError as error:
        return error


def _has_few_chunks(meta: Meta) -> bool:
    """Return True if the statistics of all chunks may be remembered."""
    counts = (prod(map(len, each.chunks)) for each in meta.variables.values() if each.chunks is not None)
    return isinstance(meta.id, ObjectId) and sum(counts) + len(meta.variables) <= _FEW_CHUNKS


# -- within objects ---------------------------------------------------------------------------------------------------


def _surplus_orphans(
    meta: Meta, chunks: DocumentCollection, statistics: Sequence[ChunkStats] | None, clock: _Clock
) -> Iterator[Orphan]:
    """Yield of one object the copies of documents, and the documents of chunks that it does not have."""
    id: ObjectId = meta.id
    found: dict[str, list[tuple[ChunkFlaw, tuple[Any, ...]]]] = {}
    survey = ObjectSurvey(meta, chunks, statistics)
    flaws = list(survey.flaws())
    kinds = (DUPLICATES,) if survey.is_questioned(flaws) else (DUPLICATES, STRAY)
    for flaw in flaws:
        if flaw.kind in kinds and (ids := _surplus_ids(id, flaw, clock)):
            found.setdefault(flaw.kind, []).append((flaw, ids))
    for kind, pairs in found.items():
        more = f" and {len(pairs) - 1} chunks more" if len(pairs) > 1 else ""
        surplus = tuple(one for _, ids in pairs for one in ids)
        documents = nbytes = 0
        for condition in chunk_queries.conditions(surplus):
            count, size = _count_documents(chunks, {"meta_id": {"$eq": id}, "_id": condition})
            documents, nbytes = documents + count, nbytes + size
        yield Orphan(kind, id, documents, nbytes, f"{pairs[0][0].message}{more}", surplus)


def _surplus_ids(id: ObjectId, flaw: ChunkFlaw, clock: _Clock | None) -> tuple[Any, ...]:
    """Return the documents of one chunk that are copies, or belong to nothing, when all of them are old (by no
    ``clock``: whatever their age). Of copies the one under its derived id stays, else the eldest."""
    name, chunk = flaw.key
    where = {"meta_id": id, "name": name, "chunk": None if chunk is None else list(chunk)}
    docs = [{**where, "n": n, "_id": one} for n, one in flaw.stored]
    if clock is not None and not all(map(clock.is_old, docs)):
        return ()
    if flaw.kind == STRAY:
        return tuple(doc["_id"] for doc in docs)
    kept: set[Any] = set()
    surplus = []
    for doc in sorted(docs, key=lambda doc: (not _is_derived(doc), str(doc["_id"]))):
        surplus += [doc["_id"]] if doc["n"] in kept else []
        kept.add(doc["n"])
    return tuple(surplus)


# -- problems and what mends them --------------------------------------------------------------------------------------


# Chunks that a message of missing ones names: a line of them.
_SHOWN = 6
# Times that an object is looked at which does not fit its documents and is changed without rest.
_LOOKS = 5
_QUESTION = "more of the object does not fit its document, which is in question"


def find_problems(
    meta: DocumentCollection, chunks: DocumentCollection, id: ObjectId | None = None, *, deep: bool = False
) -> Iterator[Problem]:
    """Yield every problem of one object, or of all of them (``id`` None) and of what belongs to none; ``deep`` decodes
    every sparse chunk besides: that dense ones are whole is known by their bytes. DocumentNotFoundError.
    """
    return (finding.problem for finding in find_damage(meta, chunks, id, deep=deep))


def find_damage(
    meta: DocumentCollection,
    chunks: DocumentCollection,
    id: ObjectId | None = None,
    *,
    deep: bool = False,
    age: float = GARBAGE_AGE,
) -> Iterator[Finding]:
    """Yield the problems of :func:`find_problems`, each with what mends it: copies of documents, and what is older than
    ``age`` and belongs to nothing, are removed; what is missing or contradicts itself is only reported.
    """
    if id is not None:
        doc = meta.find_one({"_id": {"$eq": id}})
        if doc is None:
            raise DocumentNotFoundError(id)
        yield from _object_damage(meta, chunks, _parse_or_error(doc), None, "", deep, _Clock.of(meta, age))
        return
    clock = _Clock.of(meta, age)
    for one, found, statistics in _objects_with_statistics(meta, chunks):
        yield from _object_damage(meta, chunks, found, statistics, str(one), deep, clock)
    for orphan in find_orphans(meta, chunks, age=age, surplus=False):
        problem = Problem(str(orphan.id), orphan.kind, orphan.message)
        yield Finding(problem, "remove them", partial(remove_orphan, meta, chunks, orphan))


def _survey_object(
    meta: DocumentCollection, chunks: DocumentCollection, found: Meta, statistics: Sequence[ChunkStats] | None
) -> tuple[ObjectSurvey, list[ChunkFlaw]]:
    """Return an object compared with its documents, and the flaws in order; anew where it was changed since its own
    document was read, for then they need not fit. DocumentNotFoundError."""
    for _ in range(_LOOKS):
        survey = ObjectSurvey(found, chunks, statistics)
        flaws = sorted(survey.flaws(), key=lambda flaw: (flaw.key[0], flaw.key[1] or (), flaw.kind))
        if not flaws and not any(map(len, survey.absent)):
            break
        now = document.load_meta(meta, found.id)
        if _layout(now) == _layout(found):
            break
        found, statistics = now, None
    return survey, flaws


def _layout(meta: Meta) -> tuple[Document, dict[str, tuple[object, ...]]]:
    """Return what decides which documents an object has."""
    variables = meta.variables.items()
    return meta.extension, {
        name: (each.dtype, each.shape, each.chunks, each.embedded is None, each.problem is None)
        for name, each in variables
    }


def _object_damage(
    meta: DocumentCollection,
    chunks: DocumentCollection,
    found: Meta | HyperslabError,
    statistics: Sequence[ChunkStats] | None,
    above: str,
    deep: bool,
    clock: _Clock,
) -> Iterator[Finding]:
    if isinstance(found, HyperslabError):
        yield Finding(Problem(above, "document", found.said))
        return
    try:
        survey, flaws = _survey_object(meta, chunks, found, statistics)
    except DocumentNotFoundError:
        return  # it was removed since
    found = survey.meta
    faces = {name: face for face, name in node_names(found).items()}

    def node_of(name: str) -> str:
        return "/".join(filter(None, (above, faces.get(name, ""))))

    for name, variable in found.variables.items():
        if variable.problem is not None:
            yield Finding(Problem(node_of(name), "document", variable.problem.said))
    for entry in chunk_writes.expired_entries(meta, found.id) if chunk_writes.undo_entries(found.extension) else ():
        where = format_key(entry.key)
        detail = f"{where} is changed by somebody who did not come to an end: it is read as it was before"
        act = partial(chunk_writes.roll_back, meta, chunks, found.id, entry)
        yield Finding(Problem(node_of(entry.key[0]), "unfinished-change", detail), "put it back", act)
    is_questioned = survey.is_questioned(flaws)
    for flaw in flaws:
        if flaw.kind == STRAY and is_questioned:
            yield Finding(Problem(node_of(flaw.key[0]), flaw.kind, f"{flaw.message}: {_QUESTION}"))
        else:
            yield _flaw_finding(meta, chunks, found.id, flaw, node_of(flaw.key[0]), clock)
    for absent in filter(len, survey.absent):
        first = ", ".join(format_key(key) for key in islice(absent, _SHOWN))
        more = f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
        detail = f"{len(absent)} of {absent.declared} chunks are not stored: {first}{more}"
        yield Finding(Problem(node_of(absent.name), MISSING_CHUNK, detail))
    if deep:
        yield from _undecodable_chunks(survey, {flaw.key for flaw in flaws if flaw.kind != DUPLICATES}, node_of)


def _flaw_finding(
    meta: DocumentCollection, chunks: DocumentCollection, id: ObjectId, flaw: ChunkFlaw, node: str, clock: _Clock
) -> Finding:
    problem = Problem(node, flaw.kind, flaw.message)
    # Duplicates are removed whatever their age: one of each stays.
    is_duplicate = flaw.kind == DUPLICATES
    ids = _surplus_ids(id, flaw, None if is_duplicate else clock) if flaw.kind in (DUPLICATES, STRAY) else ()
    if not ids:
        return Finding(problem)
    orphan = Orphan(flaw.kind, id, len(ids), 0, flaw.message, ids)
    action = "remove the copies" if is_duplicate else "remove them"
    return Finding(problem, action, partial(remove_orphan, meta, chunks, orphan))


def _undecodable_chunks(survey: ObjectSurvey, known: set[Key], node_of: Callable[[str], str]) -> Iterator[Finding]:
    """Yield the sparse chunks of which the cells make no sense."""
    for key in survey.sparse:
        if key not in known:
            try:
                chunk_queries.read_chunk(survey.chunks, survey.meta.id, key).coo()
            except HyperslabError as error:
                yield Finding(Problem(node_of(key[0]), "corrupt-chunk", f"{format_key(key)}: {error.said}"))


# -- the table: all of it is found by the look above ------------------------------------------------------------------

RULES = Rules(
    Rule(
        ("stray-documents",),
        "MongoDB documents of chunks that their object does not have",
        "removed if older than an hour, unless more of the object contradicts its document",
    ),
    Rule(
        ("duplicate-documents",),
        "duplicate MongoDB documents",
        "the duplicates are removed",
    ),
    Rule(
        ("no-object", "unfinished", "replaced"),
        "MongoDB documents without an object, or of an unfinished or replaced one",
        "removed if older than an hour",
    ),
    Rule(
        ("expired-version",),
        "MongoDB documents of an older version whose time is over",
        "removed",
    ),
    Rule(
        ("unfinished-change",),
        "an unfinished change of a dead writer; readers see the previous state",
        "the previous state is restored",
    ),
    Rule(
        (
            "missing-chunk",
            "missing-segment",
            "excess-bytes",
            "chunk-shape",
            "chunk-document",
            "contradicting-documents",
            "embedded-and-stored",
            "corrupt-chunk",
        ),
        "MongoDB documents of a chunk that are missing, contradictory or invalid",
        "not repairable",
    ),
    Rule(
        ("document",),
        "an invalid MongoDB document of an object or variable",
        "not repairable",
    ),
)
