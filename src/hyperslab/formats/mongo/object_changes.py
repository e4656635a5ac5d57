"""One object changed where it lies: who may change it, how its document takes the place of the old one, signs of life.

A change of the document is made if its version is still the one that was read, else it is worked out anew from what is
stored now (:func:`change_document`). A change that takes several steps is made under a lease in the document
(:func:`hold_object`), which the server's clock counts and the holder renews: what its holder changes is stored only
while the lease is its own, so that one that came to a halt for too long changes nothing that another one has changed
since. Both faces change objects in these two ways.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import bson
from bson import ObjectId
from pymongo import ReadPreference
from pymongo.errors import PyMongoError

from hyperslab.errors import Conflict, NotFound, Unsupported
from hyperslab.formats.mongo.bson_values import (
    Document,
    DocumentCollection,
    MutableDocument,
    check_document,
    subdocument,
)
from hyperslab.formats.mongo.chunk_documents import Key
from hyperslab.formats.mongo.chunk_writes import UndoEntry, roll_back_all, undo_entries, without_entries
from hyperslab.formats.mongo.document import (
    EXTENSION,
    LEASE,
    PUTTING,
    RETIRED,
    STATUS,
    TOUCHED,
    VERSION,
    Meta,
    load_meta,
    object_exists,
    raise_if_moved,
    render_object,
)
from hyperslab.stores.attempts import attempts, beaten, kept_waiting

# -- the lease --------------------------------------------------------------------------------------------------------

# What others wait at most for a holder who died, and three times as long as a holder needs to renew it.
_LEASE_SECONDS = 30
"""How long a lease lasts that nobody renews."""


@contextmanager
def hold_lease(
    collection: DocumentCollection, id: ObjectId, url: str, timeout: float | None, *, moves: bool = False
) -> Iterator[str]:
    """Hold the object for the block; gives the name under which it is held. Conflict after ``timeout`` seconds.

    ``moves``: a new object is made of it in the block, so that nobody else may change it at all (:data:`LEASE`). What
    the driver raises passes as it is.
    """
    owner = secrets.token_hex(8)
    change = _lease_until(owner, moves=moves)
    for attempt in attempts(timeout):
        with attempt:
            _take_lease(collection, id, url, change)
    ended = threading.Event()
    # A daemon: a process that ends without leaving the block must not be kept alive; its lease expires by itself.
    beat = threading.Thread(target=_renew_lease, args=(collection, id, owner, change, ended), daemon=True)
    beat.start()
    try:
        yield owner
    finally:
        ended.set()
        collection.update_one({"_id": id, f"{LEASE}.owner": owner}, {"$unset": {LEASE: ""}})


def _take_lease(collection: DocumentCollection, id: ObjectId, url: str, change: list[MutableDocument]) -> None:
    free = {"$or": [{LEASE: {"$exists": False}}, {"$expr": {"$lt": [f"${LEASE}.until", "$$NOW"]}}]}
    if collection.update_one({"_id": id, **free}, change).matched_count:
        return
    if not object_exists(collection, id):
        raise NotFound("the object is gone", url=url, key=str(id))
    raise kept_waiting(url, str(id))


def _lease_until(owner: str, *, moves: bool) -> list[MutableDocument]:
    later = {"$add": ["$$NOW", _LEASE_SECONDS * 1000]}
    # Fields of an expired lease that are not named here would stay.
    return [{"$set": {LEASE: {"owner": owner, "until": later, "moves": True if moves else "$$REMOVE"}}}]


def _renew_lease(
    collection: DocumentCollection, id: ObjectId, owner: str, change: list[MutableDocument], ended: threading.Event
) -> None:
    # At a third of the time two renewals may fail before the lease is lost.
    while not ended.wait(_LEASE_SECONDS / 3):
        try:
            if not collection.update_one({"_id": id, f"{LEASE}.owner": owner}, change).matched_count:
                return
        except PyMongoError:  # the next beat may get through
            continue


def check_lease(collection: DocumentCollection, id: ObjectId, owner: str, url: str) -> None:
    """Raise Conflict unless the object is held under this name, and for long enough to store one chunk."""
    # A third of the lease must be left: storing one chunk takes less, and the next beat renews it.
    soon = {"$add": ["$$NOW", _LEASE_SECONDS * 1000 // 3]}
    own = {"_id": id, f"{LEASE}.owner": {"$eq": owner}, "$expr": {"$gt": [f"${LEASE}.until", soon]}}
    # A secondary may still show a lease that was taken over since.
    newest = collection.with_options(read_preference=ReadPreference.PRIMARY)
    if newest.find_one(own, {"_id": 1}) is None:
        raise lease_lost(url, str(id))


def lease_lost(url: str | None, key: str | None = None) -> Conflict:
    """Return the error for a change under a lease that another writer has taken meanwhile."""
    remedy = "read it again and repeat"
    return Conflict("the object was locked by another writer meanwhile", url=url, key=key, remedy=remedy)


def lease_owner(meta: Meta) -> str | None:
    """Return the name under which the object was held when it was read."""
    return subdocument(meta.extension, "lease").get("owner")


@contextmanager
def hold_object(
    collection: DocumentCollection,
    chunks: DocumentCollection,
    id: ObjectId,
    url: str,
    timeout: float | None,
    *,
    moves: bool = False,
) -> Iterator[tuple[Meta, str]]:
    """Hold a whole object for the block: as it is once changes of the dead are taken back, and the name under which it
    is held. ``moves``: as of :func:`hold_lease`. NotFound; Conflict after ``timeout`` seconds, and for an object that
    is still being made.
    """
    with hold_lease(collection, id, url, timeout, moves=moves) as owner:
        meta = load_meta(collection, id)
        if undo_entries(meta.extension) and roll_back_all(collection, chunks, id):
            meta = load_meta(collection, id)
        if "status" in meta.extension:
            raise unfinished_error(id, meta.extension["status"])
        yield meta, owner


def unfinished_error(id: ObjectId, status: object) -> Conflict:
    """Return the error for a change of an object that nobody can find by name yet, or any more."""
    if status == RETIRED:
        remedy = "change the object that has its name now; copy() makes an object of a version"
        return Conflict("this is an older version, which nobody changes", key=str(id), remedy=remedy)
    remedy = "wait until it is whole; what was broken off is made anew, and removed by hyperslab repair"
    return Conflict("the object is still being made, or its making was broken off", key=str(id), remedy=remedy)


# -- the change of a document -----------------------------------------------------------------------------------------


Edit = Callable[[Meta], Meta]
"""Works out what an object becomes. It may be called again, with what another writer has stored meanwhile."""


def version_query(id: ObjectId, version: int | None) -> MutableDocument:
    """Return the query that finds the document of an object as long as nobody has changed it."""
    return {"_id": id, VERSION: {"$exists": False} if version is None else {"$eq": version}}


def change_document(
    collection: DocumentCollection,
    meta: Meta,
    edit: Edit,
    *,
    url: str,
    timeout: float | None,
    reload: Callable[[], Meta],
    owner: str | None = None,
    undo: Mapping[Key, UndoEntry] | None = None,
) -> Meta:
    """Make one change of an object, which was read as ``meta``, and return what it is now.

    Where others have changed it, the change is made to what ``reload`` gives. ``owner``: only while the object is held
    under this name. ``undo``: changes of chunks that are done by this one. Unsupported for a document that no server
    takes; Conflict after ``timeout`` seconds, when the lease is lost, and when somebody has taken the chunks back;
    NotFound for an older version.
    """
    for attempt in attempts(timeout):
        extension = without_entries(meta.extension, undo or {})
        if extension is None:
            raise lease_lost(url, str(meta.id))
        new = edit(replace(meta, extension=extension))
        version = meta.extension.get("version")
        next_version = {"version": (version if isinstance(version, int) else 0) + 1}
        new = replace(new, extension={**new.extension, **next_version})
        with attempt:
            try:
                raise_if_moved(collection, meta.id, meta.extension, url, owner)
            except Conflict:
                meta = reload()
                raise
            if _swap_document(collection, meta, new, url):
                return new
            meta = reload()
            if owner is not None and lease_owner(meta) != owner:
                break  # a Conflict here would be one more attempt
            raise beaten(url, str(meta.id))
    raise lease_lost(url, str(meta.id))


def _swap_document(collection: DocumentCollection, old: Meta, new: Meta, url: str) -> bool:
    """Return True if the document was still the old one, and is the new one now.

    Fields that stay are not sent: the time of the lease and signs of life change without a new version.
    """
    check_object(new, url)
    before, after = _flat_fields(old), _flat_fields(new)
    changed = {name: value for name, value in after.items() if name not in before or not _is_same(value, before[name])}
    gone = {name: "" for name in before if name not in after}
    owner = lease_owner(old)
    wanted = version_query(old.id, old.extension.get("version"))
    wanted[f"{LEASE}.owner"] = {"$exists": False} if owner is None else owner
    change = {"$set": changed} | ({"$unset": gone} if gone else {})
    return bool(collection.update_one(wanted, change).matched_count)


def _flat_fields(meta: Meta) -> MutableDocument:
    """Return the fields of the document by path, each of the field ``hyperslab`` for itself, but for the lease."""
    doc = render_object(meta)
    ours = doc.pop(EXTENSION, {})
    doc.pop("_id", None)
    return doc | {f"{EXTENSION}.{name}": value for name, value in ours.items() if name != "lease"}


def _is_same(one: object, other: object) -> bool:
    """Return True if two values are the same in a document: there True is not 1, and order counts."""
    return bson.encode({"v": one}) == bson.encode({"v": other})


def check_object(meta: Meta, url: str) -> None:
    """Raise Unsupported for an object whose document no server takes, before anything is sent."""
    try:
        check_document(render_object(meta))
    except Unsupported as error:
        raise error.locate(url=url) from error.__cause__


# -- signs of life ----------------------------------------------------------------------------------------------------


def touch_object(collection: DocumentCollection, id: ObjectId) -> None:
    """Say that an object is still being made, so that nobody collects it as garbage."""
    collection.update_one({"_id": id, STATUS: {"$exists": True}}, {"$currentDate": {TOUCHED: True}})
    collection.update_one({"_id": id, PUTTING: {"$exists": True}}, {"$currentDate": {PUTTING: True}})


class Heartbeats:
    """Signs of life of objects that take long to be made: :func:`touch_object` at most once in ``SECONDS`` each."""

    # Far less than the age at which an unfinished object counts as garbage (rules.GARBAGE_AGE, an hour).
    SECONDS = 60.0
    # Ids that are remembered, some 100 KiB; those of objects that are complete are never taken out one by one.
    OBJECTS_REMEMBERED = 1000

    def __init__(self) -> None:
        self._last: dict[ObjectId, float] = {}
        self._has_forgotten = False

    def start(self, id: ObjectId) -> None:
        """Count from now."""
        if len(self._last) > self.OBJECTS_REMEMBERED:
            self._last.clear()
            self._has_forgotten = True
        self._last[id] = time.monotonic()

    def beat(self, collection: DocumentCollection, id: ObjectId) -> None:
        """Touch the object, unless that was done lately; the first time only starts the count.

        Once ids were forgotten, an unknown one may be that of an object that is long in the making: it is touched.
        """
        last = self._last.get(id)
        if last is not None and time.monotonic() - last < self.SECONDS:
            return
        is_due = last is not None or self._has_forgotten
        self.start(id)
        if is_due:
            touch_object(collection, id)


def with_putting_mark(document: Document) -> MutableDocument:
    """Return the document of an object that is found before its chunks are stored, marked as such until
    :func:`remove_putting_mark`.
    """
    return {**document, EXTENSION: {**document.get(EXTENSION, {}), "putting": True}}


DROP_EMPTY_EXTENSION: Document = {
    "$set": {EXTENSION: {"$cond": [{"$eq": [f"${EXTENSION}", {}]}, "$$REMOVE", f"${EXTENSION}"]}}
}
"""A stage of an update that takes the field ``hyperslab`` away where nothing stands in it."""


def remove_putting_mark(collection: DocumentCollection, id: ObjectId) -> None:
    """Take the mark away, and the field with it where nothing else stands there."""
    collection.update_one({"_id": id, PUTTING: {"$exists": True}}, [{"$unset": PUTTING}, DROP_EMPTY_EXTENSION])
