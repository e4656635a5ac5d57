"""A write over several tiles of one array that shows at one stroke: locks, staged tiles, and the journal.

The tiles are stored aside first. When all of them lie there the journal says so, which is the commit: readers look
aside from then on. Then each is moved to its key over the old one, and the journal says that this is done. A writer who
dies before the commit has changed nothing; what one leaves undone who dies after it is done by the next.

Locks: each tile has a slot, as chunks have it elsewhere, and the array has one more, which is held by writes over
several tiles from their beginning to their end. All slots of a write are taken at once, in order, so that no two
writers wait for each other. In a store without such locks every write holds a lease of the array.

The journal is one JSON document, written twice by each such write: as ``pending`` when all of its tiles lie aside, and
as ``done`` when they have been moved to their keys::

    {"txn": "5f0c…", "state": "pending", "after": "91d2…", "tiles": "c/0/0 c/0/1", "gone": "c/1/0"}

``after`` is the write before. A pending one that nobody is at work on is that of a dead writer. The stamp of the
document is the generation of the cells: while it stays the same, no write over several tiles has shown.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from hyperslab.chunks.grid import Coords
from hyperslab.errors import HyperslabError, NodeNotFound
from hyperslab.formats.documents import read_document
from hyperslab.formats.format_errors import document_error
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr3.document import NAME
from hyperslab.stores.base import Stamp, Store

# The slot of the array, above those of its tiles.
_ARRAY = 1 << 32

KeepVersions = Callable[[Iterable[str]], None]
"""Keeps what lies under keys below an array's folder, before they are changed by who has locked them."""


class TileTransaction:
    """The tiles of one array (``keys``), the place where they lie aside (``staging_folder``) and their journal."""

    def __init__(
        self, keys: ChunkKeys, ndim: int, journal_key: str, staging_folder: str, keep_versions: KeepVersions | None
    ) -> None:
        self.keys = keys
        self._keep_versions = keep_versions
        self.journal = WriteJournal(keys.store, journal_key)
        self.staging_folder = staging_folder
        self._ndim = ndim
        keys.guard = deletion_guard(keys, (journal_key, staging_folder))

    @property
    def uses_lease(self) -> bool:
        """Return True if a lease of the array stands for the slots of its tiles."""
        return not self.keys.store.traits.locks_chunks

    def tile(self, coords: Coords) -> str:
        """Return the key of a tile as it stands below the array's folder."""
        return self.keys.key_of(coords)

    def staged_key(self, txn: str, tile: str) -> str:
        """Return the key of a staged tile of a write."""
        return f"{self.staging_folder}/{txn}.{tile.replace('/', '.')}"

    def staged_keys(self, txn: str) -> ChunkKeys:
        """Return the keys of the staged tiles of a write."""
        keys, skip = self.keys, len(self.staging_folder) + 1
        return ChunkKeys(
            keys.store,
            self.staging_folder,
            lambda coords: self.staged_key(txn, self.tile(coords))[skip:],
            keys.settings,
        )

    # -- who may write ----------------------------------------------------------------------------------------------

    @contextmanager
    def lock_tiles(
        self, tiles: Collection[str], timeout: float | None, *, several: bool
    ) -> Iterator[tuple[Stamp | None, JournalEntry | None]]:
        """Hold tiles against other writers (``several``: for one write over all of them) when what dead ones began is
        settled; the journal's stamp and last entry. ``Conflict`` after ``timeout`` seconds."""
        self.keys.require_writable()
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self.keys.guarded(self._locked(tiles, _left(deadline), array=several)):
                stamp, last = self.journal.read()
                if last is not None and last.pending and self.uses_lease:
                    self.publish(last)
                    stamp, last = self.journal.read()
                pending = last is not None and last.pending
                if last is None or not pending or (not several and last.keys.isdisjoint(tiles)):
                    if not several:  # else what changes is kept when all of it is stored
                        self.keep_tiles(tiles)
                    yield stamp, last
                    break
            self.complete(last, _left(deadline))
        if last is not None and pending:
            with suppress(HyperslabError):  # another one may be at work on other tiles, and alive
                self.complete(last, 0)

    def keep_tiles(self, tiles: Iterable[str]) -> None:
        """Keep what lies under the keys of tiles, which are locked, where the collection keeps versions."""
        if self._keep_versions is not None:
            self._keep_versions(tiles)

    def lock_array(self, timeout: float | None) -> AbstractContextManager[None]:
        """Keep writes over several tiles from beginning."""
        return self._locked((), timeout, array=True)

    def _locked(self, tiles: Collection[str], timeout: float | None, *, array: bool) -> AbstractContextManager[None]:
        store = self.keys.store
        if self.uses_lease:
            return store.lock_node(self.staging_folder, timeout)
        slots = {crc32(tile.encode()) for tile in tiles} | ({_ARRAY} if array else set())
        # In order, so that no two writers hold what the other one waits for.
        return store.lock_chunks(self.keys.folder, sorted(slots), timeout)

    def complete(self, entry: JournalEntry, timeout: float | None) -> None:
        """Do what the dead writer of a pending entry left undone, unless another one did it meanwhile."""
        with self._locked(entry.keys, timeout, array=True):
            _, now = self.journal.read()
            if now is not None and now.pending and now.txn == entry.txn:
                self.publish(now)

    # -- by one who may ---------------------------------------------------------------------------------------------

    def publish(self, entry: JournalEntry) -> None:
        """Give all tiles of a committed write their keys, and say so."""
        self.publish_tiles(entry)
        self.journal.put(entry.as_done(), durable=self.keys.settings.durable)

    def publish_tiles(self, entry: JournalEntry) -> None:
        """Give the tiles of a write their keys, each at one stroke."""
        for tile in entry.keys:
            if self.keys.coords_of(tile, self._ndim) is None:
                message = f"{tile!r} is no tile of this array"
                raise document_error("journal", message, key=self.journal.key)
        # Old tiles are moved over, not removed first: at every moment a reader finds one of the two.
        keys, store = self.keys, self.keys.store
        pairs = [(self.staged_key(entry.txn, tile), keys.prefix + tile) for tile in entry.tiles]
        removed = [(keys.prefix + tile, self.staged_key(entry.txn, tile)) for tile in entry.removed]
        if keys.settings.durable and not keys.uses_compare_and_swap:
            # what is moved away does not come back after a power cut
            store.move([*pairs, *removed], durable=True)
            removed = [(source, target) for target, source in removed]
        else:
            store.move(pairs, durable=keys.settings.durable)
        for doomed, _ in removed:
            store.delete(doomed, durable=keys.settings.durable)

    def remove_abandoned(self) -> None:
        """Remove what writers left aside who died before their commit; only the holder of the array may."""
        store = self.keys.store
        if any(store.list_dir(self.staging_folder)) or store.strays(self.staging_folder):
            store.delete_prefix(self.staging_folder)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


# -- the journal ------------------------------------------------------------------------------------------------------


# Names of writes become parts of keys: anything else in a journal is refused. It might lead out of the folder.
_IS_TXN = re.compile(r"[0-9a-f]{16}").fullmatch


# Tiles that a write which is done may have touched and still tells of; readers of others then need not start again.
_MOST_LISTED = 256


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One write: its name, whether tiles of it may lie aside still, the write before, the keys (as they stand below the
    array's folder) of the tiles that it stored and of those that it removed. ``lists_keys``: True if both are known."""

    txn: str
    pending: bool
    after: str | None = None
    tiles: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    lists_keys: bool = True
    keys: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", frozenset((*self.tiles, *self.removed)))

    def as_done(self) -> JournalEntry:
        """Return the same write when all of its tiles have their keys."""
        if len(self.keys) > _MOST_LISTED:
            return JournalEntry(self.txn, False, self.after, lists_keys=False)
        return JournalEntry(self.txn, False, self.after, self.tiles, self.removed)

    def may_tear(self, before: JournalEntry | None, keys: Collection[str]) -> bool:
        """Return True if this write, or one between ``before`` and it, may have shown while these tiles were read."""
        if before is not None and before.txn == self.txn:
            return False
        known = self.lists_keys and self.after == (None if before is None else before.txn)
        return not known or len(self.keys.intersection(keys)) > 1

    def to_bytes(self) -> bytes:
        """Return the document."""
        doc: dict[str, Any] = {"txn": self.txn, "state": "pending" if self.pending else "done", "after": self.after}
        if self.lists_keys:
            doc |= {"tiles": " ".join(self.tiles), "gone": " ".join(self.removed)}
        return json.dumps(doc).encode()


def new_txn() -> str:
    """Return a name that no other write has."""
    return os.urandom(8).hex()


def parse_journal(data: bytes, key: str) -> JournalEntry | None:
    """Return the entry of a document; FormatError for what is none. One that never came to the medium holds nothing:
    None."""
    if not bytes(data).strip(b"\0"):
        return None
    doc = read_document(data, key)
    txn, state, after = doc.get("txn"), doc.get("state"), doc.get("after")
    tiles, gone = doc.get("tiles", ""), doc.get("gone", "")
    good = all(isinstance(each, str) and _IS_TXN(each) for each in (txn, "0" * 16 if after is None else after))
    if not good or state not in ("pending", "done") or not isinstance(tiles, str) or not isinstance(gone, str):
        message = "this is no journal of a write"
        raise document_error("journal", message, key=key)
    return JournalEntry(str(txn), state == "pending", after, tuple(tiles.split()), tuple(gone.split()), "tiles" in doc)


class WriteJournal:
    """The journal under one key of a store. Several threads may ask it."""

    def __init__(self, store: Store, key: str) -> None:
        self.key = key
        self._store = store
        # a look at a file's status costs little; where it is a request, it is one with that for the value
        traits = store.traits
        self._stamp_of = store.stamp if traits.stamped and traits.concurrency is None else None
        self._known: tuple[Stamp | None, JournalEntry | None] = None, None

    def read(self) -> tuple[Stamp | None, JournalEntry | None]:
        """Return the stamp of the journal and what it says now, by one request where nothing has changed."""
        store, (stamp, entry) = self._store, self._known
        if self._stamp_of is not None and self._stamp_of(self.key) == stamp:
            return stamp, entry
        found = store.get_version(self.key, unless=stamp)
        if found is not None and found.data is None:
            return stamp, entry
        stamp, data = (None, None) if found is None else (found.stamp, found.data)
        self._known = stamp, None if data is None else parse_journal(bytes(data), self.key)
        return self._known

    def put(self, entry: JournalEntry, *, durable: bool) -> None:
        """Write what all others go by from now on."""
        self._store.put(self.key, entry.to_bytes(), durable=durable)

    def remove(self) -> None:
        """Remove it, before the first write over several tiles has shown."""
        self._store.delete(self.key)


# -- arrays that are removed while they are written to ----------------------------------------------------------------


def deletion_guard(keys: ChunkKeys, others: Iterable[str] = ()) -> Callable[[], None]:
    """Return the guard of an array whose chunks lie under ``keys``: where the array was removed meanwhile it removes
    again what was written there and at ``others``, places of what belongs to the array besides: NodeNotFound. An array
    that has no document yet may be written to."""
    store, places, document = keys.store, (keys.folder, *others), keys.prefix + NAME
    was_there = False

    def guard() -> None:
        nonlocal was_there
        if keys.exists(document):
            was_there = True
        elif was_there:
            for place in places:
                store.delete_prefix(place)
            remedy = "make it anew, or write to another one"
            raise NodeNotFound("the array was removed meanwhile", url=store.url, key=document, remedy=remedy)

    return guard


class VersionedChunkKeys(ChunkKeys):
    """Where the chunks of an array lie that is not in several tiles, and of which versions are kept."""

    keep_versions: KeepVersions

    @contextmanager
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> Iterator[None]:
        """Hold the chunks as :class:`.ChunkKeys` does, and keep what lies under their keys."""
        coords = list(coords)
        with super().lock(coords, timeout):
            self.keep_versions(map(self.key_of, coords))
            yield
