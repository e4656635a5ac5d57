"""A lock upon one object: a lease in its document, counted by the server's clock and renewed while it is held.

What its holder changes is stored only while the lease is its own, so that one that came to a halt for too long changes
nothing that another one has changed since.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymongo import ReadPreference
from pymongo.errors import PyMongoError

from hyperslab.errors import Conflict, NotFound
from hyperslab.formats.mongo.bson_values import DocumentCollection, MutableDocument
from hyperslab.formats.mongo.document import EXTENSION, object_exists
from hyperslab.stores.attempts import attempts, kept_waiting

LEASE_FIELD = f"{EXTENSION}.lease"
_LEASE_SECONDS = 30
"""How long a lease holds that nobody renews."""


@contextmanager
def hold_lease(collection: DocumentCollection, key: object, url: str, timeout: float | None) -> Iterator[str]:
    """Hold the object for the block; gives the name under which it is held. Conflict after ``timeout`` seconds.

    What the driver raises passes as it is.
    """
    owner = secrets.token_hex(8)
    for attempt in attempts(timeout):
        with attempt:
            _take_lease(collection, key, url, owner)
    ended = threading.Event()
    # A daemon: a process that ends without leaving the block must not be kept alive; its lease expires by itself.
    beat = threading.Thread(target=_renew_lease, args=(collection, key, owner, ended), daemon=True)
    beat.start()
    try:
        yield owner
    finally:
        ended.set()
        collection.update_one({"_id": key, f"{LEASE_FIELD}.owner": owner}, {"$unset": {LEASE_FIELD: ""}})


def _take_lease(collection: DocumentCollection, key: Any, url: str, owner: str) -> None:
    free = {"$or": [{LEASE_FIELD: {"$exists": False}}, {"$expr": {"$lt": [f"${LEASE_FIELD}.until", "$$NOW"]}}]}
    if collection.update_one({"_id": key, **free}, _lease_until(owner)).matched_count:
        return
    if not object_exists(collection, key):
        raise NotFound("the object is gone", url=url, key=str(key))
    raise kept_waiting(url, str(key))


def _lease_until(owner: str) -> list[MutableDocument]:
    later = {"$add": ["$$NOW", _LEASE_SECONDS * 1000]}
    return [{"$set": {LEASE_FIELD: {"owner": owner, "until": later}}}]


def _renew_lease(collection: DocumentCollection, key: object, owner: str, ended: threading.Event) -> None:
    # At a third of the time two renewals may fail before the lease is lost.
    while not ended.wait(_LEASE_SECONDS / 3):
        try:
            if not collection.update_one(
                {"_id": key, f"{LEASE_FIELD}.owner": owner}, _lease_until(owner)
            ).matched_count:
                return
        except PyMongoError:  # the next beat may get through
            continue


def check_lease(collection: DocumentCollection, key: object, owner: str, url: str) -> None:
    """Conflict unless the object is held under this name, and for long enough to store one chunk."""
    # A third of the lease must be left: storing one chunk takes less, and the next beat renews it.
    soon = {"$add": ["$$NOW", _LEASE_SECONDS * 1000 // 3]}
    held = {"_id": key, f"{LEASE_FIELD}.owner": {"$eq": owner}, "$expr": {"$gt": [f"${LEASE_FIELD}.until", soon]}}
    # A secondary may still show a lease that was taken over since.
    newest = collection.with_options(read_preference=ReadPreference.PRIMARY)
    if newest.find_one(held, {"_id": 1}) is None:
        raise lease_lost(url, str(key))


def lease_lost(url: str | None, key: str | None = None) -> Conflict:
    """Return the error for a change under a lease that another writer has taken meanwhile."""
    remedy = "read it again and repeat"
    return Conflict("the object was locked by another writer meanwhile", url=url, key=key, remedy=remedy)
