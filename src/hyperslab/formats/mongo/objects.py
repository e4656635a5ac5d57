"""Whole objects: found by name or id, put under a name, renamed, copied, deleted.

At most one object that can be found has a name that we gave it, whoever gives it at the same time. The server knows no
unique names, since XarrayMongoDB gives any. So whoever wants a name for an object of its own first *claims* it (a field
of that object's document), then looks who else has or claims it, takes away the claims of others, and takes the name by
an update that fails when its own claim was taken away. Of two that do so at the same time the one that claims later
sees the other's claim; so never both get the name, and none waits for one that died.

An object that is being made has ``status: "writing"`` and is found by its id alone. One that takes the place of another
says so by ``replaces`` in the same update, from which moment the other is not found by name any more. That one is
removed, or becomes an older version (``status: "retired"``), which shares its ``lineage`` with the new one: its chunks
stay, so that whoever reads it by its id reads on.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal

import pymongo
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pymongo.errors import DuplicateKeyError, PyMongoError
from pymongo.read_preferences import ReadPreference

from hyperslab.errors import AlreadyExists, Conflict, HyperslabError, Invalid, NotFound
from hyperslab.formats.mongo import chunk_queries
from hyperslab.formats.mongo.bson_values import Document, DocumentCollection, MutableDocument, subdocument
from hyperslab.formats.mongo.chunk_documents import DerivedIds, SaltedIds, parse_key
from hyperslab.formats.mongo.chunk_writes import roll_back_all, undo_copy_ids, undo_entries
from hyperslab.formats.mongo.document import (
    CLAIMS,
    EXTENSION,
    KEEPS,
    KEPT_UNTIL,
    LINEAGE,
    REPLACES,
    RETIRED,
    RETIRED_AT,
    SINCE,
    STATUS,
    TOUCHED,
    UNDO,
    VERSION,
    WRITING,
    object_exists,
)
from hyperslab.formats.mongo.errors import DocumentNotFoundError
from hyperslab.formats.mongo.object_changes import DROP_EMPTY_EXTENSION, touch_object, unfinished_error, version_query
from hyperslab.model.guessing import meant

NameConflict = Literal["replace", "refuse", "share"]
"""When another object has the name: replace it, AlreadyExists, or let both have it, as xarray_mongodb does."""
_NAME_FIELDS = {"name": 1, VERSION: 1, STATUS: 1, REPLACES: 1, CLAIMS: 1, KEEPS: 1, LINEAGE: 1}
# Each lost race costs at most 64 ms (see the pause in _take_name): whoever loses 50 of them gives up with Conflict.
_MOST_TRIES = 50
# A query is no snapshot; find_holders looks again so often where it did not see exactly one holder.
_LOOKS = 2
# Ids, and names to choose from, that an error shows: as many as a person reads.
_SHOWN = 10
# Names that are read, and compared, to say which one was meant: an error must not read a large collection.
_CANDIDATES, _MEANT = 1000, 200
# The error that is under way must not wait for a server that is gone.
_CLEARING_SECONDS = 10


def resolve_id(meta: DocumentCollection, name_or_id: ObjectId | str) -> ObjectId:
    """Return the id of an object: 24 hexadecimal digits are an id first, a name second.

    NotFound; Invalid for a name that several have, with their ids.
    """
    found = find_id(meta, name_or_id)
    if found is not None:
        return found
    if isinstance(name_or_id, ObjectId):
        raise DocumentNotFoundError(name_or_id)
    # Names alone, and by their type, since the index holds objects without one, too: the server reads no document.
    rows = meta.find({"name": {"$type": "string"}}, {"name": 1, "_id": 0}).limit(_CANDIDATES)
    names = list(dict.fromkeys(row["name"] for row in rows))
    raise NotFound(f"no object has the name or id {name_or_id!r}", remedy=meant(name_or_id, names[:_MEANT]))


def find_id(meta: DocumentCollection, name_or_id: ObjectId | str) -> ObjectId | None:
    """Return the id of an object as :func:`resolve_id` does, None where there is none. Invalid."""
    if isinstance(name_or_id, ObjectId) or ObjectId.is_valid(name_or_id):
        found = meta.find_one({"_id": ObjectId(name_or_id)}, {"_id": 1})
        if found is not None or isinstance(name_or_id, ObjectId):
            return None if found is None else ObjectId(name_or_id)
    ids = find_holders(meta, name_or_id)
    if len(ids) > 1:
        remedy = f"name one by its id: {_format_ids(ids)}"
        raise Invalid(f"{len(ids)} objects have the name {name_or_id!r}", remedy=remedy)
    return ids[0] if ids else None


def find_holders(meta: DocumentCollection, name: object) -> list[ObjectId]:
    """Return the objects that are found under a name, the oldest id first."""
    found = _holders(_candidates(meta, name), name)
    # A query is no snapshot: while one object takes the place of another it may see neither of them, or both.
    for _ in range(_LOOKS):
        if len(found) == 1:
            break
        before, found = found, _holders(_candidates(meta, name), name)
        if before == found and found:
            break
    return found


def find_replaced(meta: DocumentCollection) -> set[ObjectId]:
    """Return the objects whose place another one has taken, and which are still to be removed."""
    rows = meta.find({REPLACES: {"$exists": True}, STATUS: {"$exists": False}}, {REPLACES: 1})
    return {old for row in rows if isinstance(old := row[EXTENSION]["replaces"], ObjectId)}


def find_unfinished(meta: DocumentCollection) -> set[ObjectId]:
    """Return the objects that are still being made."""
    return {row["_id"] for row in meta.find({STATUS: {"$exists": True}}, {"_id": 1})}


def commit_object(
    meta: DocumentCollection,
    chunks: DocumentCollection,
    id: ObjectId,
    name: str | None = None,
    *,
    on_conflict: NameConflict = "replace",
) -> None:
    """Let an object that was being made be found, under a name (None: the one it has, or none); an object that it
    replaces is removed. Once more does no harm.

    NotFound when it is gone, AlreadyExists, Conflict.
    """
    values = {} if name is None else {"name": check_object_name(name)}
    _take_name(meta, chunks, id, values, "share" if name is None else on_conflict)


def rename_object(
    meta: DocumentCollection, chunks: DocumentCollection, id: ObjectId, name: str | None, *, replace: bool = False
) -> None:
    """Give an object another name (None: no name). NotFound, Conflict; AlreadyExists, unless ``replace`` removes the
    object that has it."""
    own = meta.find_one({"_id": id}, _NAME_FIELDS)
    if own is not None and "status" in _extension(own):
        raise unfinished_error(id, _extension(own)["status"])
    on_conflict: NameConflict = "replace" if replace else "refuse"
    values = {"name": None if name is None else check_object_name(name)}
    _take_name(meta, chunks, id, values, "share" if name is None else on_conflict)


def insert_object(
    meta: DocumentCollection, chunks: DocumentCollection, document: Document, name: object = None
) -> None:
    """Store the document of a new object, which is found from then on, and has its ``name`` alone (None: it is called
    as the document says, whoever else is). Nothing is left where that fails.

    AlreadyExists for a name that is taken, Conflict; DuplicateKeyError of the driver for an id that is.
    """
    if name is None:
        meta.insert_one(dict(document))
        return
    meta.insert_one({**document, EXTENSION: {**document.get(EXTENSION, {}), "status": WRITING}})
    try:
        _take_name(meta, chunks, document["_id"], {"name": name}, "first")
    except HyperslabError:
        meta.delete_one({"_id": document["_id"], STATUS: {"$exists": True}})
        raise


def insert_object_once(meta: DocumentCollection, chunks: DocumentCollection, document: Document, name: object) -> None:
    """Store a new object as :func:`insert_object` does, where an earlier call, which may have been broken off, has not
    done so, or in part."""
    own = meta.find_one({"_id": document["_id"]}, {STATUS: 1})
    if own is not None and "status" in _extension(own):
        _take_name(meta, chunks, document["_id"], {"name": name}, "first")
    elif own is None:
        with suppress(DuplicateKeyError):
            insert_object(meta, chunks, document, name)


def insert_replacement(
    meta: DocumentCollection, document: Document, name_or_id: ObjectId | str, *, keeps: float | None = None
) -> str | None:
    """Store the document of an object that is to take the place of another, and is found by its id alone until
    :func:`commit_object`. Return the name for that: None where it takes the place of a certain object, with its name.

    A name that no object has yet is taken. ``keeps``: seconds for which the other one stays as an older version, -1
    for ever, None not at all. NotFound for an id; Invalid for a name that several have.
    """
    is_id = isinstance(name_or_id, ObjectId) or ObjectId.is_valid(name_or_id)
    old = find_id(meta, name_or_id)
    if old is None and isinstance(name_or_id, ObjectId):
        raise DocumentNotFoundError(name_or_id)
    new = {field: value for field, value in document.items() if field != "name"}
    ours = {**document.get(EXTENSION, {}), "status": WRITING, **({} if keeps is None else {"keeps": keeps})}
    if old is None or not is_id:
        taken = check_object_name(str(name_or_id))
        meta.insert_one({**new, EXTENSION: ours})
        return taken
    name = _own_name(meta, old)
    meta.insert_one({**new, **({} if name is None else {"name": name}), EXTENSION: {**ours, "replaces": old}})
    return None


def remove_failed_object(
    meta: DocumentCollection, chunks: DocumentCollection, id: ObjectId, *, unfinished_only: bool = False
) -> None:
    """Remove an object that could not be stored, as far as the server lets. ``unfinished_only``: unless it is found."""
    seconds = meta.database.client.options.server_selection_timeout
    with suppress(PyMongoError), pymongo.timeout(min(_CLEARING_SECONDS, max(1, seconds))):
        wanted = {"_id": id, **({STATUS: {"$exists": True}} if unfinished_only else {})}
        if meta.delete_one(wanted).deleted_count or not unfinished_only:
            chunk_queries.delete_chunks(chunks, id)


def delete_unfinished_object(meta: DocumentCollection, chunks: DocumentCollection, id: ObjectId) -> None:
    """Remove an object that could not be made, with its chunks. One that is found by now stays: the object whose place
    it has taken may be gone."""
    if meta.delete_one({"_id": id, STATUS: {"$exists": True}}).deleted_count:
        delete_object(meta, chunks, id)


def delete_object(meta: DocumentCollection, chunks: DocumentCollection, id: ObjectId) -> int:
    """Remove an object, then its chunks and its older versions, and return how many documents there were. Once more
    removes what was left. One of the versions goes alone.

    What it has replaced goes before it, else that would be found again.
    """
    finish_replacement(meta, chunks, id)
    count = 0
    own = meta.find_one({"_id": id}, {LINEAGE: 1, STATUS: 1}) or {}
    if (lineage := _extension(own).get("lineage")) is not None and "status" not in _extension(own):
        # The versions first: they are found by the object, and by nothing once it is gone.
        for version in meta.find({LINEAGE: {"$eq": lineage}, STATUS: RETIRED}, {"_id": 1}):
            count += _delete_documents(meta, chunks, {"_id": version["_id"], STATUS: RETIRED}, version["_id"])
    return count + _delete_documents(meta, chunks, {"_id": id}, id)


def _delete_documents(meta: DocumentCollection, chunks: DocumentCollection, wanted: Document, id: ObjectId) -> int:
    """Remove the document of an object if it is as wanted, then its chunks; return how many documents there were."""
    found = meta.find_one_and_delete(wanted, {UNDO: 1})
    if found is None and object_exists(meta, id):
        return 0
    return int(found is not None) + sum(chunk_queries.delete_chunks(chunks, one) for one in (id, *undo_copy_ids(found)))


# -- taking a name ----------------------------------------------------------------------------------------------------


def check_object_name(name: object) -> str:
    """Return the name, if an object can be given it. Invalid; also for one that would be taken for an id."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise Invalid(f"an object cannot have the name {name!r}", remedy="give it a text without NUL, not an empty one")
    if ObjectId.is_valid(name):
        remedy = "give it a text other than 24 hexadecimal digits"
        raise Invalid(f"an object cannot have the name {name!r}, which is an id", remedy=remedy)
    return name


def raise_if_named(meta: DocumentCollection, name: object) -> None:
    """Raise AlreadyExists where an object is found under a name; None is no name."""
    if name is not None and (others := find_holders(meta, name)):
        raise _name_taken(name, others)


def raise_if_named_alike(meta: DocumentCollection, id: ObjectId) -> None:
    """Raise AlreadyExists where a copy of an object, which has the same name, would make that name mean two objects."""
    found = meta.find_one({"_id": id}, {"name": 1})
    if found is not None and (name := found.get("name")) is not None:
        message = f"the copy would have the name {name!r} of what it is a copy of"
        raise AlreadyExists(message, key=str(id), remedy="give the copy another one: name=")


def _name_taken(name: object, others: list[ObjectId]) -> AlreadyExists:
    ways = "choose another name" + (", or replace it (replace=True, mode='w')" if len(others) == 1 else "")
    return AlreadyExists(f"there is an object with the name {name!r}: {_format_ids(others)}", remedy=ways)


def _take_name(
    meta: DocumentCollection,
    chunks: DocumentCollection,
    id: ObjectId,
    values: Document,
    on_conflict: NameConflict | Literal["first"],
) -> None:
    """Let an object be found with these values. ``first``: as ``refuse``, for one that nobody can have read yet."""
    meta = meta.with_options(read_preference=ReadPreference.PRIMARY)
    finish_replacement(meta, chunks, id)
    for attempt in range(_MOST_TRIES):
        own = meta.find_one({"_id": id}, _NAME_FIELDS)
        if own is None:
            raise DocumentNotFoundError(id)
        old = _extension(own).get("replaces") if "status" in _extension(own) else None
        if old is not None:
            done = _take_place(meta, own, old, values)
        elif on_conflict == "share":
            done = _update(meta, own, values)
        else:
            done = _take_alone(meta, own, values["name"], on_conflict)
        if done:
            finish_replacement(meta, chunks, id)
            return
        # A random pause that doubles up to 64 ms, so that two who claim the same name do not meet again in step.
        time.sleep(random.uniform(0, 0.001 * 2 ** min(attempt, 6)))
    raise Conflict("others change the object, or take the name, all the time", key=str(id))


def _take_alone(meta: DocumentCollection, own: Document, name: object, on_conflict: str) -> bool:
    """Claim the name, take away the claims of others, take the name; False when somebody was faster."""
    # Claim first, look at others then: of two at the same time the later one sees the claim of the other.
    if not _update_if_unchanged(meta, own, {"$set": {CLAIMS: name}}):
        return False
    candidates = _candidates(meta, name)
    rivals = [other["_id"] for other in candidates if _extension(other).get("claims") == name]
    rivals = [id for id in rivals if id != own["_id"]]
    _take_claims(meta, rivals, name)
    found = find_holders(meta, name) if rivals else _holders(candidates, name)
    others = [id for id in found if id != own["_id"]]
    claimed = _next(own)
    if others and (on_conflict != "replace" or len(others) > 1):
        _update_if_unchanged(meta, claimed, {"$unset": {CLAIMS: 1}})
        raise _name_taken(name, others)
    if on_conflict == "first":
        # The changes of an object that is found for the first time are counted from now on, so that its document holds
        # nothing that xarray_mongodb does not write.
        gone, new = {"$unset": [STATUS, CLAIMS, TOUCHED, VERSION]}, {"$set": {"name": {"$literal": name}}}
        query = version_query(own["_id"], _version(claimed))
        return bool(meta.update_one(query, [gone, new, DROP_EMPTY_EXTENSION]).matched_count)
    return _update(meta, claimed, {"name": name, **({REPLACES: others[0]} if others else {})})


def _take_place(meta: DocumentCollection, own: Document, old: object, values: Document) -> bool:
    """Take the place of a certain object: claim its name, or its id where it has none, take away the claims of others,
    let this one be found. Return False when somebody was faster. Conflict when that one is gone, or replaced already.
    """
    name = _own_name(meta, old)
    wanted = name if isinstance(name, str) else old
    if not _update_if_unchanged(meta, own, {"$set": {CLAIMS: wanted}}):
        return False
    rivals = meta.find({CLAIMS: {"$eq": wanted}, "_id": {"$ne": own["_id"]}}, {"_id": 1})
    _take_claims(meta, [row["_id"] for row in rivals], wanted)
    found = {STATUS: {"$exists": False}}
    # In this order: whoever has replaced the old one removes it first and stops saying so then, so that one of the two
    # shows. The other way round both could be missed, and two would replace it, the later one without knowing.
    is_replaced = meta.find_one({REPLACES: {"$eq": old}, **found}, {"_id": 1}) is not None
    if is_replaced or meta.find_one({"_id": {"$eq": old}, **found}, {"_id": 1}) is None:
        _update_if_unchanged(meta, _next(own), {"$unset": {CLAIMS: 1}})
        raise Conflict("the object was removed or replaced meanwhile", key=str(old), remedy="look at what is there now")
    return _update(meta, _next(own), values)


def _take_claims(meta: DocumentCollection, rivals: list[Any], wanted: object) -> None:
    """Take away from others what they claim."""
    for rival in rivals:
        gone = {"$unset": {CLAIMS: 1}, "$inc": {VERSION: 1}}
        meta.update_one({"_id": rival, CLAIMS: {"$eq": wanted}}, gone)


def _next(own: Document) -> MutableDocument:
    """Return the document after one change of ours."""
    return {"_id": own["_id"], EXTENSION: {"version": (_version(own) or 0) + 1}}


def _update(meta: DocumentCollection, own: Document, values: Document) -> bool:
    """Make the one change by which an object is found; False when somebody was faster."""
    known = {field: value for field, value in values.items() if value is not None}
    gone = {field: 1 for field, value in values.items() if value is None}
    unset = {"$unset": {STATUS: 1, CLAIMS: 1, TOUCHED: 1, **gone}}
    return _update_if_unchanged(meta, own, unset | ({"$set": known} if known else {}))


def _update_if_unchanged(meta: DocumentCollection, own: Document, change: Document) -> bool:
    """Change a document unless somebody else has."""
    wanted = version_query(own["_id"], _version(own))
    return bool(meta.update_one(wanted, {**change, "$inc": {VERSION: 1}}).matched_count)


def finish_replacement(meta: DocumentCollection, chunks: DocumentCollection, id: ObjectId) -> None:
    """Remove the object whose place this one has taken, or keep it as a version, after those whose place that one had
    taken: whoever replaced it may not have lived to do so.

    One that was given another name meanwhile stays.
    """
    chain = replacement_chain(meta, id)
    taken = [(own["_id"], _extension(own)) for own in chain]
    places = [(newer, found["replaces"], found.get("keeps")) for newer, found in taken if takes_place(found)]
    name = _own_name(meta, id)
    for newer, old, seconds in reversed(places):
        wanted = {"_id": old, "name": {"$eq": name}, STATUS: {"$exists": False}}
        if isinstance(seconds, int | float):
            _retire(meta, wanted, newer, seconds)
        else:
            _inherit_lineage(meta, newer, old)  # the versions of what goes are those of what has taken its place
            _delete_documents(meta, chunks, wanted, old)
    if places:
        done = {"$unset": {REPLACES: 1, KEEPS: 1}, "$inc": {VERSION: 1}}
        meta.update_one({"_id": id, REPLACES: {"$eq": places[0][1]}}, done)


def finish_replacements(meta: DocumentCollection, chunks: DocumentCollection) -> None:
    """Do :func:`finish_replacement` for all objects whose makers have not come to it, or died."""
    waiting = meta.find({REPLACES: {"$exists": True}, STATUS: {"$exists": False}}, {"_id": 1})
    for id in [row["_id"] for row in waiting]:
        finish_replacement(meta, chunks, id)


def replacement_chain(meta: DocumentCollection, id: ObjectId) -> list[MutableDocument]:
    """Return the document of an object, then that of the one whose place it has taken, as long as that is still to be
    removed or kept, and so on; with the fields that are about names. Empty where the object is not there."""
    chain = list[MutableDocument]()
    wanted: object = id
    while wanted not in [own["_id"] for own in chain]:
        own = meta.find_one({"_id": wanted}, _NAME_FIELDS)
        if own is None:
            break
        chain.append(own)
        if not takes_place(_extension(own)):
            break
        wanted = _extension(own)["replaces"]
    return chain


def takes_place(extension: Document) -> bool:
    """Return True if an object with these fields has taken the place of another one that is still to be removed or
    kept."""
    return extension.get("replaces") is not None and "status" not in extension


def _retire(meta: DocumentCollection, wanted: Document, newer: ObjectId, seconds: float) -> None:
    """Let an object be an older version of the one that has taken its place, for so many seconds (-1: for ever)."""
    # In this order: a version is found by the object, and must not be lost to it where the second change fails.
    lineage = _inherit_lineage(meta, newer, wanted["_id"], begin=True)
    fields: MutableDocument = {STATUS: RETIRED, RETIRED_AT: "$$NOW", LINEAGE: lineage}
    if seconds >= 0:
        fields[KEPT_UNTIL] = {"$add": ["$$NOW", round(seconds * 1000)]}
    fields[VERSION] = {"$add": [{"$ifNull": [f"${VERSION}", 0]}, 1]}
    meta.update_one(wanted, [{"$set": fields}])


def _inherit_lineage(meta: DocumentCollection, newer: ObjectId, old: ObjectId, *, begin: bool = False) -> object:
    """Let an object have the lineage of the one whose place it has taken; ``begin``: where that one has none, it begins
    with it. Return it."""
    before = meta.find_one({"_id": old}, {LINEAGE: 1}) or {}
    lineage = _extension(before).get("lineage", old if begin else None)
    if lineage is not None:
        # Once more, by whoever finishes for one that died, leaves the moment as it is.
        since = {"$ifNull": [f"${SINCE}", "$$NOW"]}
        version = {"$add": [{"$ifNull": [f"${VERSION}", 0]}, 1]}
        meta.update_one({"_id": newer}, [{"$set": {LINEAGE: lineage, SINCE: since, VERSION: version}}])
    return lineage


# -- looking ----------------------------------------------------------------------------------------------------------


def _extension(doc: Document) -> Document:
    return subdocument(doc, EXTENSION)


def _own_name(meta: DocumentCollection, id: object) -> Any:
    """Return the name of an object, None where it has none, or is gone."""
    return (meta.find_one({"_id": {"$eq": id}}, {"name": 1}) or {}).get("name")


def _version(doc: Document) -> int | None:
    found = _extension(doc).get("version")
    return found if isinstance(found, int) else None


def _candidates(meta: DocumentCollection, name: object) -> list[MutableDocument]:
    """Return objects that have the name, or claim it."""
    return list(meta.find({"$or": [{"name": {"$eq": name}}, {CLAIMS: {"$eq": name}}]}, _NAME_FIELDS))


def _holders(candidates: Iterable[Document], name: object) -> list[ObjectId]:
    found = [doc for doc in candidates if doc.get("name") == name and "status" not in _extension(doc)]
    gone = {old for doc in found if isinstance(old := _extension(doc).get("replaces"), ObjectId)}
    return sorted(doc["_id"] for doc in found if doc["_id"] not in gone)


def _format_ids(ids: list[ObjectId]) -> str:
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return ", ".join(map(str, ids[:_SHOWN])) + more


# -- copy -------------------------------------------------------------------------------------------------------------
# Into other collections, on the same server or another: whole, or not there.


OF_ONE_OBJECT = (
    *("status", "replaces", "claims", "touched", "version", "lease", "undo", "putting"),
    *("keeps", "lineage", "since", "retired_at", "kept_until"),
)
"""Fields of an object's document that are about one stored object, and not about what it holds."""


def copy_object(
    meta: DocumentCollection,
    chunks: DocumentCollection,
    target_meta: DocumentCollection,
    target_chunks: DocumentCollection,
    id: ObjectId,
    *,
    name: str | None = None,
    on_conflict: NameConflict = "refuse",
) -> ObjectId:
    """Copy an object with all its documents as they are, under new ids. Return the new id, found once it is whole.

    ``name`` None keeps the name, whoever else has it. What is left of a copy that was broken off is garbage.
    DocumentNotFoundError; Conflict when the object was changed meanwhile; AlreadyExists for a name that is taken;
    Invalid for one that no object can be given.
    """
    if name is not None:
        check_object_name(name)
    raw = meta.codec_options.with_options(document_class=RawBSONDocument)
    source = meta.with_options(codec_options=raw)
    before = source.find_one({"_id": id})
    if before is not None and undo_entries(_extension(before)):
        roll_back_all(meta, chunks, id)
        before = source.find_one({"_id": id})
    if before is None:
        raise DocumentNotFoundError(id)
    if undo_entries(_extension(before)):
        raise Conflict("somebody changes the object", key=str(id), remedy="copy it later")
    new = ObjectId()
    extension = {field: value for field, value in _extension(before).items() if field not in OF_ONE_OBJECT}
    target_meta.insert_one({**before, "_id": new, EXTENSION: {**extension, "status": WRITING}})
    try:
        docs = chunks.with_options(codec_options=raw).find({"meta_id": id})
        for batch in chunk_queries.document_batches(_with_new_ids(docs, id, new)):
            chunk_queries.put_documents(target_chunks, batch)
            touch_object(target_meta, new)
        after = source.find_one({"_id": id})
        if after is None or after.raw != before.raw:
            raise Conflict("the object was changed while it was copied", key=str(id))
        commit_object(target_meta, target_chunks, new, name, on_conflict=on_conflict)
    except BaseException:
        delete_unfinished_object(target_meta, target_chunks, new)
        raise
    return new


def _with_new_ids(docs: Any, old: ObjectId, new: ObjectId) -> Iterator[MutableDocument]:
    """Yield the documents under ids of the new object, derived where they were derived."""
    before, derived, others = DerivedIds(old), DerivedIds(new), SaltedIds()
    for position, doc in enumerate(docs):
        key = parse_key(doc)
        id = derived(*key, int(doc.get("n", 0))) if before.is_id_of(doc) else others(*key, position)
        yield {**doc, "_id": id, "meta_id": new}
