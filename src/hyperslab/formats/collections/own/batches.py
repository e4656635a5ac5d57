"""Arrays of a collection that are made together: whether they count, and who is at work on them.

The key entry of an array that was made alone holds its id; one of a batch holds the id, a space and the name of the
batch, and leads nowhere until ``batches/<name>`` says ``committed``. A folder ``creating/<name>`` is held meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from zlib import crc32

from hyperslab.errors import Conflict, HyperslabError
from hyperslab.formats.collections.own.documents import CREATING, KEYS, CollectionKeys
from hyperslab.model.schemas.arrays import is_id
from hyperslab.stores.base import Store

# -- markers of creations under way -----------------------------------------------------------------------------------


_MARK = "mark"


@contextmanager
def creation_marker(store: Store, keys: CollectionKeys, timeout: float, name: str) -> Iterator[None]:
    """Mark a creation as under way for the block; a marker that nobody holds is that of a dead one.
    ``name``: one that no other creation has."""
    folder = f"{keys.folder(CREATING)}/{name}"
    with ExitStack() as stack:
        stack.enter_context(store.lock_node(folder, timeout))
        try:
            store.put(f"{folder}/{_MARK}", b"")
            yield
        finally:
            with suppress(HyperslabError):  # all that counts is done by now, or undone
                stack.close()
            with suppress(HyperslabError):
                store.delete(f"{folder}/{_MARK}")


def creation_names(store: Store, keys: CollectionKeys) -> Sequence[str]:
    """Return the names of those that are under way, or whose makers died."""
    return store.list_dir(keys.folder(CREATING))[1]


def is_under_way(store: Store, keys: CollectionKeys) -> bool:
    """Return True if any is, as far as the store can tell."""
    return not all(is_dead(store, keys, name) for name in creation_names(store, keys))


def wait_for_makers(store: Store, keys: CollectionKeys) -> None:
    """Wait, where locks are leases, until makers who are dead can be told from those at work; not where there are
    none."""
    if not store.read_only and store.lease_seconds and is_under_way(store, keys):
        time.sleep(store.lease_seconds)


def is_dead(store: Store, keys: CollectionKeys, name: str) -> bool:
    """Return True if the maker of this name is at work no more.

    A store that was opened for reading takes no locks and cannot tell; the maker counts as dead there, and problems say
    that it may be at work.
    """
    if store.read_only or name not in creation_names(store, keys):
        return True
    try:
        with store.lock_node(f"{keys.folder(CREATING)}/{name}", 0):
            return True
    except Conflict:
        return False


def remove_creation_marker(store: Store, keys: CollectionKeys, name: str) -> None:
    """Remove what a creation left whose maker died; held meanwhile, as one may just be about to hold it."""
    folder = f"{keys.folder(CREATING)}/{name}"
    with suppress(Conflict), store.lock_node(folder, 0):
        store.delete_prefix(folder)


# -- batches: arrays that were made together --------------------------------------------------------------------------


_COMMITTED, _ABORTED = b"committed", b"aborted"

# Seconds that one waits for another who removes the same entry, which takes a flush of the disk.
_PATIENCE = 30.0


def entry_value(id: str, txn: str | None) -> bytes:
    """Return the value of the key entry of an array, made alone or in the batch ``txn``."""
    return id.encode() if txn is None else f"{id} {txn}".encode()


def read_entry(value: bytes) -> tuple[str, str | None]:
    """Return the id that the value of a key entry names, and the batch that it was made in; a value that makes no
    sense names no array, and no batch."""
    id, _, txn = value.decode("ascii", "replace").partition(" ")
    return (id, txn or None) if is_id(id) and (not txn or is_id(txn)) else ("", None)


class BatchCommits:
    """The batches of one collection. A batch that was committed stays so, and is asked for once."""

    def __init__(self, store: Store, keys: CollectionKeys) -> None:
        self._store = store
        self._keys = keys
        self._committed: set[str] = set()

    def ids(self, values: Sequence[bytes | None]) -> list[str | None]:
        """Return the ids that the values of key entries lead to, as of one moment for each batch; None where to
        none."""
        committed: dict[str, bool] = {}
        found: list[str | None] = []
        for value in values:
            id, txn = (None, None) if value is None else read_entry(value)
            if txn is not None and txn not in committed:
                committed[txn] = self._is_committed(txn)
            found.append(id if id and (txn is None or committed[txn]) else None)
        return found

    def _is_committed(self, txn: str) -> bool:
        if txn not in self._committed and self._store.get(self._keys.batch(txn)) == _COMMITTED:
            self._committed.add(txn)
        return txn in self._committed

    def commit(self, txn: str, *, durable: bool) -> None:
        """Let all entries of a batch count; ``Conflict`` when another writer has taken its maker for dead."""
        self._store.put_new([(self._keys.batch(txn), _COMMITTED)], durable=durable)

    def release(self, entry: str, value: bytes) -> bool:
        """Remove a key entry whose batch was not committed and whose maker died, or which leads to an array of which
        nothing is there; False for any other."""
        id, txn = read_entry(value)
        if txn is None:
            # The document is stored before the entry, and removed after it, so no creation is under way. A request
            # of one that failed may have been done late, behind those that undid it.
            if not id or next(iter(self._store.list(self._keys.array(id))), None) is not None:
                return False
        elif self._is_committed(txn) or not is_dead(self._store, self._keys, txn):
            return False
        else:
            try:
                # Durable before the entry goes: should its maker live after all, it must find that it may not commit.
                self._store.put_new([(self._keys.batch(txn), _ABORTED)], durable=True)
            except Conflict:
                if self._is_committed(txn):
                    return False
        # Of several who find it one removes it at a time: another one would remove the entry that came in its place.
        slot = crc32(entry.encode())
        with self._store.lock_chunks(self._keys.folder(KEYS), [slot], _PATIENCE):
            if self._store.get(entry) == value:
                self._store.delete(entry, durable=True)
        return True
