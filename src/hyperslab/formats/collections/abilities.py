"""What a collection asks of its store, by the best way that the store has for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from hyperslab.errors import StorageError
from hyperslab.stores.attempts import beaten
from hyperslab.stores.base import Buffer, Stamp, Unversioned
from hyperslab.stores.keys import below
from hyperslab.stores.requests import each_request

Item = TypeVar("Item")
BATCH = 1024
"""Documents that are in memory at once."""


def batches(items: Iterable[Item], size: int = BATCH) -> Iterator[list[Item]]:
    """The items, so many at a time."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def get_many(store: Any, keys: Sequence[str]) -> list[bytes | None]:
    """The values of the keys: by many requests at once where they are such. None for a file that cannot be read."""
    return [None if isinstance(found, StorageError) else found for found in read_many(store, keys)]


def read_many(store: Any, keys: Sequence[str]) -> list[bytes | StorageError | None]:
    """The same; in place of the value of a file that cannot be read, the error. Requests fail as a whole."""
    if hasattr(store, "concurrency"):
        return list(each_request([partial(store.get, key) for key in keys]))
    return [_read(store, key) for key in keys]


def _read(store: Any, key: str) -> bytes | StorageError | None:
    try:
        found: bytes | None = store.get(key)
    except StorageError as error:
        return error
    return found


def put_new(store: Any, pairs: Sequence[tuple[str, Buffer]], *, durable: bool) -> None:
    """Store values whose keys are all missing, or none of them: ``Conflict``.

    A store that has no such call, nor one for a single key, is asked first: nobody else may write there meanwhile.
    """
    if hasattr(store, "put_new"):
        store.put_new(pairs, durable=durable)
        return
    made: list[str] = []
    try:
        for key, value in pairs:
            if hasattr(store, "put_if"):
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


def touch(store: Any, key: str, *, durable: bool) -> None:
    """Give the key a stamp that it never had."""
    if hasattr(store, "touch"):
        store.touch(key, durable=durable)
    else:
        store.put(key, os.urandom(16), durable=durable)


def entries(store: Any, folder: str, tail: str = "") -> Iterator[tuple[str, Stamp, int]]:
    """Of every ``folder/<name>`` (``folder/<name>/<tail>``) that has a value: name, stamp, size; in any order."""
    if hasattr(store, "entries"):
        yield from store.entries(folder, tail)
        return
    names = store.list_dir(folder)[1 if tail else 0]
    for name in names:
        key = below(folder) + name + (f"/{tail}" if tail else "")
        size = size_of(store, key)
        if size is not None:
            yield name, stamp_of(store, key), size


def stamp_of(store: Any, key: str) -> Stamp | None:
    """What identifies the present version of a value; None when missing."""
    if hasattr(store, "stamp"):
        stamp: Stamp | None = store.stamp(key)
        return stamp
    return None if store.get(key) is None else Unversioned()


def size_of(store: Any, key: str) -> int | None:
    """Bytes stored under the key, None when missing."""
    if hasattr(store, "size"):
        size: int | None = store.size(key)
        return size
    value = store.get(key)
    return None if value is None else len(value)


def nbytes_below(store: Any, prefix: str) -> int:
    """Bytes of all values below ``prefix/``."""
    if hasattr(store, "nbytes_below"):
        return int(store.nbytes_below(prefix))
    return sum(size_of(store, key) or 0 for key in store.list(prefix))


def lock_node(store: Any, folder: str, timeout: float) -> AbstractContextManager[None]:
    """Hold the documents of a node, where the store has locks."""
    if not hasattr(store, "lock_node"):
        return nullcontext()
    lock: AbstractContextManager[None] = store.lock_node(folder, timeout)
    return lock


def keep_folder(store: Any, folder: str, timeout: float) -> AbstractContextManager[None]:
    """Keep the folder when all in it is removed, where the store removes empty ones: one that is held stays."""
    return lock_node(store, folder, timeout) if hasattr(store, "lock_chunks") else nullcontext()
