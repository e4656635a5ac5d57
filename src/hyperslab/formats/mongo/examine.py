"""Every problem of objects and their documents, with what mends it.

Nodes are those of the one face, below the id of the object where a whole collection is looked through. Kinds:
``document`` (of an object, or of one of its variables), ``missing-chunk``, ``missing-segment``, ``excess-bytes``,
``chunk-shape``, ``chunk-document``, ``corrupt-chunk``, ``duplicate-documents``, ``contradicting-documents``,
``stray-documents``, ``embedded-and-stored``, ``unfinished-change``; of a collection ``no-object``, ``unfinished``,
``replaced``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from bson import ObjectId

from hyperslab.errors import HyperslabError, Problem
from hyperslab.formats.base import Remedy
from hyperslab.formats.mongo import document, garbage, stored, undo
from hyperslab.formats.mongo.completeness import DUPLICATES, MISSING_CHUNK, STRAY, Absent, ChunkFlaw, ObjectSurvey
from hyperslab.formats.mongo.faults import DocumentNotFoundError
from hyperslab.formats.mongo.names import STATUS
from hyperslab.formats.mongo.segments import Key, show
from hyperslab.formats.mongo.to_spec import face_names

if TYPE_CHECKING:
    from pymongo.collection import Collection

_SHOWN = 6
_QUESTION = "more of the object does not fit its document, which is in question"


def problems(
    meta: Collection[Any], chunks: Collection[Any], id: ObjectId | None = None, *, deep: bool = False
) -> Iterator[Problem]:
    """Every problem of one object, or of all of them (``id`` None) and of what belongs to none; ``deep`` decodes every
    sparse chunk besides: that dense ones are whole is known by their bytes. DocumentNotFoundError."""
    return (remedy.problem for remedy in remedies(meta, chunks, id, deep=deep))


def remedies(
    meta: Collection[Any],
    chunks: Collection[Any],
    id: ObjectId | None = None,
    *,
    deep: bool = False,
    age: float = garbage.AGE,
) -> Iterator[Remedy]:
    """The same, each with its remedy: copies of documents, and what is older than ``age`` and belongs to nothing, are
    removed; what is missing or contradicts itself is only told of."""
    if id is not None:
        doc = meta.find_one({"_id": {"$eq": id}})
        if doc is None:
            raise DocumentNotFoundError(id)
        yield from _of_object(meta, chunks, doc, "", deep, age)
        return
    for doc in meta.find({STATUS: {"$exists": False}}, batch_size=10):
        yield from _of_object(meta, chunks, doc, str(doc["_id"]), deep, age)
    for orphan in garbage.orphans(meta, chunks, age=age, surplus=False):
        yield Remedy(
            Problem(str(orphan.id), orphan.kind, orphan.message), "remove them", _removal(meta, chunks, orphan)
        )


def _of_object(
    meta: Collection[Any], chunks: Collection[Any], doc: Mapping[str, Any], above: str, deep: bool, age: float
) -> Iterator[Remedy]:
    try:
        found = document.parse(doc)
    except HyperslabError as error:
        yield Remedy(Problem(above, "document", error.said))
        return
    faces = {name: face for face, name in face_names(found).items()}

    def node_of(name: str) -> str:
        return "/".join(filter(None, (above, faces.get(name, ""))))

    for problem in document.problems(found):
        yield Remedy(Problem(node_of(problem.node), problem.kind, problem.message))
    for entry in undo.lapsed(meta, found.id) if undo.entries(found.ours) else ():
        said = f"{show(entry.key)} is changed by somebody who did not come to an end: it is read as it was before"
        act = partial(undo.put_back, meta, chunks, found.id, entry)
        yield Remedy(Problem(node_of(entry.key[0]), "unfinished-change", said), "put it back", act)
    survey = ObjectSurvey(found, chunks)
    flaws = sorted(survey.flaws(), key=lambda flaw: (flaw.key[0], flaw.key[1] or (), flaw.kind))
    old = garbage.age_test(meta, age)
    is_questioned = survey.is_questioned(flaws)
    for flaw in flaws:
        if flaw.kind == STRAY and is_questioned:
            yield Remedy(Problem(node_of(flaw.key[0]), flaw.kind, f"{flaw.message}: {_QUESTION}"))
        else:
            yield _remedy(meta, chunks, found.id, flaw, node_of(flaw.key[0]), old)
    for absent in survey.absent:
        if len(absent):
            yield Remedy(Problem(node_of(absent.name), MISSING_CHUNK, _said(absent)))
    if deep:
        yield from _decoded(survey, {flaw.key for flaw in flaws if flaw.kind != DUPLICATES}, node_of)


def _remedy(
    meta: Collection[Any],
    chunks: Collection[Any],
    id: ObjectId,
    flaw: ChunkFlaw,
    node: str,
    old: Callable[[Mapping[str, Any]], bool],
) -> Remedy:
    problem = Problem(node, flaw.kind, flaw.message)
    if flaw.kind not in (DUPLICATES, STRAY):
        return Remedy(problem)
    ids = garbage.surplus_ids(id, flaw, old if flaw.kind == STRAY else _any_age)
    if not ids:
        return Remedy(problem)
    action = "remove the copies" if flaw.kind == DUPLICATES else "remove them"
    orphan = garbage.Orphan(flaw.kind, id, len(ids), 0, flaw.message, ids)
    return Remedy(problem, action, _removal(meta, chunks, orphan))


def _any_age(doc: Mapping[str, Any]) -> bool:
    return True


def _removal(meta: Collection[Any], chunks: Collection[Any], orphan: garbage.Orphan) -> Callable[[], None]:
    def act() -> None:
        garbage.remove(meta, chunks, orphan)

    return act


def _said(absent: Absent) -> str:
    first = [show(key) for key in islice(absent, _SHOWN)]
    rest = len(absent) - len(first)
    more = f" and {rest} more" if rest else ""
    return f"{len(absent)} of {absent.declared} chunks are not stored: {', '.join(first)}{more}"


def _decoded(survey: ObjectSurvey, known: set[Key], node_of: Callable[[str], str]) -> Iterator[Remedy]:
    """Sparse chunks of which the cells make no sense."""
    for key in survey.sparse:
        if key not in known:
            try:
                stored.read_chunk(survey.chunks, survey.meta.id, key).coo()
            except HyperslabError as error:
                yield Remedy(Problem(node_of(key[0]), "corrupt-chunk", f"{show(key)}: {error.said}"))
