"""One object copied into other collections, on the same server or another: whole, or not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bson import ObjectId
from bson.raw_bson import RawBSONDocument

from hyperslab.errors import Conflict
from hyperslab.formats.mongo import stored
from hyperslab.formats.mongo.document import OURS
from hyperslab.formats.mongo.faults import DocumentNotFoundError
from hyperslab.formats.mongo.ids import Derived, Salted
from hyperslab.formats.mongo.names import WRITING, Taken, commit, delete, touch
from hyperslab.formats.mongo.segments import parse_key
from hyperslab.formats.mongo.undo import entries, roll_back_all

if TYPE_CHECKING:
    from pymongo.collection import Collection

_OF_THE_SOURCE = ("status", "replaces", "claims", "touched", "version", "lease", "undo", "putting")


def copy(
    meta: Collection[Any],
    chunks: Collection[Any],
    target_meta: Collection[Any],
    target_chunks: Collection[Any],
    id: ObjectId,
    *,
    name: str | None = None,
    taken: Taken = "refuse",
) -> ObjectId:
    """Copy an object with all its documents as they are, under new ids; the new id. It can be found once it is whole.

    ``name`` None keeps the name, whoever else has it. What is left of a copy that was broken off is garbage.
    DocumentNotFoundError; Conflict when the object was changed meanwhile; AlreadyExists for a name that is taken.
    """
    raw = meta.codec_options.with_options(document_class=RawBSONDocument)
    source = meta.with_options(codec_options=raw)
    before = source.find_one({"_id": id})
    if before is not None and entries(before.get(OURS)):
        roll_back_all(meta, chunks, id)
        before = source.find_one({"_id": id})
    if before is None:
        raise DocumentNotFoundError(id)
    if entries(before.get(OURS)):
        raise Conflict("somebody changes the object", key=str(id), remedy="copy it later")
    new = ObjectId()
    ours = {field: value for field, value in (before.get(OURS) or {}).items() if field not in _OF_THE_SOURCE}
    target_meta.insert_one({**before, "_id": new, OURS: {**ours, "status": WRITING}})
    try:
        docs = chunks.with_options(codec_options=raw).find({"meta_id": id})
        for batch in stored.batches(_renewed(docs, id, new)):
            stored.put(target_chunks, batch)
            touch(target_meta, new)
        after = source.find_one({"_id": id})
        if after is None or after.raw != before.raw:
            raise Conflict("the object was changed while it was copied", key=str(id))
        commit(target_meta, target_chunks, new, name, taken=taken)
    except BaseException:
        delete(target_meta, target_chunks, new)
        raise
    return new


def _renewed(docs: Any, old: ObjectId, new: ObjectId) -> Iterator[dict[str, Any]]:
    """The documents under ids of the new object, derived where they were derived."""
    derived, ids, others = Derived(old), Derived(new), Salted()
    for position, doc in enumerate(docs):
        yield {**doc, "_id": _new_id(doc, position, derived, ids, others), "meta_id": new}


def _new_id(doc: Mapping[str, Any], position: int, derived: Derived, ids: Derived, others: Salted) -> ObjectId:
    name, chunk = parse_key(doc)
    n = doc.get("n")
    if isinstance(n, int) and n >= 0 and doc["_id"] == derived(name, chunk, n):
        return ids(name, chunk, n)
    return others(name, chunk, position)
