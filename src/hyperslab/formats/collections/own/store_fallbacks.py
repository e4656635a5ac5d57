"""What a collection asks of its store, by the best way that the store has for it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar

from hyperslab.errors import StorageError
from hyperslab.stores.attempts import beaten
from hyperslab.stores.base import (
    Buffer,
    Concurrent,
    Locks,
    LocksNodes,
    PutIf,
    PutNew,
    Size,
    Stamp,
    Stamps,
    Store,
    Tells,
    Touches,
    Unversioned,
    WritableStore,
)
from hyperslab.stores.keys import below
from hyperslab.stores.requests import each_request

Item = TypeVar("Item")
# Many requests run at once in a batch, and what they bring is in memory together.
BATCH = 1024
"""Documents that are in memory at once."""


def get_many(store: Store, keys: Sequence[str]) -> list[bytes | None]:
    """Return the values of the keys: by many requests at once where they are such. None for a file that cannot be
    read."""
    return [None if isinstance(found, StorageError) else found for found in read_many(store, keys)]


def read_many(store: Store, keys: Sequence[str]) -> list[bytes | StorageError | None]:
    """Return the same; in place of the value of a file that cannot be read, the error. Requests fail as a whole."""
    if isinstance(store, Concurrent):
        return list(each_request([partial(store.get, key) for key in keys]))
    return [_read(store, key) for key in keys]


def _read(store: Store, key: str) -> bytes | StorageError | None:
    try:
        return store.get(key)
    except StorageError as error:
        return error


def put_new(store: WritableStore, pairs: Sequence[tuple[str, Buffer]], *, durable: bool) -> None:
    """Store values whose keys are all missing, or none of them: ``Conflict``.

    A store that has no such call, nor one for a single key, is asked first: nobody else may write there meanwhile.
    """
    if isinstance(store, PutNew):
        store.put_new(pairs, durable=durable)
        return
    made: list[str] = []
    try:
        for key, value in pairs:
            if isinstance(store, PutIf):
                store.put_if(key, value, None, durable=durable)
            elif store.get(key) is not None:
                raise beaten(store.url, key)
            else:
                store.put(key, value, durable=durable)
            made.append(key)
    except BaseException:
        for key in made:
            store.delete(key)
        raise


def touch(store: WritableStore, key: str, *, durable: bool) -> None:
    """Give the key a stamp that it never had."""
    if isinstance(store, Touches):
        store.touch(key, durable=durable)
    else:
        store.put(key, os.urandom(16), durable=durable)


def entries(store: Store, folder: str, tail: str = "") -> Iterator[tuple[str, Stamp, int]]:
    """Yield name, stamp and size of every ``folder/<name>`` (``folder/<name>/<tail>``) with a value, in any order."""
    if isinstance(store, Tells):
        yield from store.entries(folder, tail)
        return
    names = store.list_dir(folder)[1 if tail else 0]
    for name in names:
        key = below(folder) + name + (f"/{tail}" if tail else "")
        stamp, size = stamp_of(store, key), size_of(store, key)
        if stamp is not None and size is not None:
            yield name, stamp, size


def stamp_of(store: Store, key: str) -> Stamp | None:
    """Return a value that identifies the present version of a value; None when missing."""
    if isinstance(store, Stamps):
        return store.stamp(key)
    return None if store.get(key) is None else Unversioned()


def size_of(store: Store, key: str) -> int | None:
    """Return bytes stored under the key, None when missing."""
    if isinstance(store, Size):
        return store.size(key)
    value = store.get(key)
    return None if value is None else len(value)


def nbytes_below(store: Store, prefix: str) -> int:
    """Return bytes of all values below ``prefix/``."""
    if isinstance(store, Tells):
        return store.nbytes_below(prefix)
    return sum(size_of(store, key) or 0 for key in store.list(prefix))


def lock_node(store: Store, folder: str, timeout: float) -> AbstractContextManager[None]:
    """Hold the documents of a node, where the store has locks."""
    return store.lock_node(folder, timeout) if isinstance(store, LocksNodes) else nullcontext()


def keep_folder(store: Store, folder: str, timeout: float) -> AbstractContextManager[None]:
    """Keep the folder when all in it is removed, where the store removes empty ones: one that is held stays."""
    return lock_node(store, folder, timeout) if isinstance(store, Locks) else nullcontext()
