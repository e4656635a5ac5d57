"""Who may write to the tiles of one array, and how a write over several of them shows at one stroke.

Its tiles are stored aside first. When all of them lie there the journal says so, which is the commit: readers look
aside from then on. Then each is moved to its key over the old one, and the journal says that this is done. A writer who
dies before the commit has changed nothing; what one leaves undone who dies after it is done by the next.

Locks: each tile has a slot, as chunks have it elsewhere, and the array has one more, which is held by writes over
several tiles from their beginning to their end. All slots of a write are taken at once, in order, so that no two
writers wait for each other. In a store without such locks every write holds a lease of the array.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from zlib import crc32

from hyperslab.chunks.grid import Coords
from hyperslab.errors import HyperslabError
from hyperslab.formats.collections.deletion_guard import Presence
from hyperslab.formats.collections.journal import JournalEntry, WriteJournal
from hyperslab.formats.format_errors import flawed
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.stores.base import Stamp

_ARRAY = 1 << 32
"""The slot of the array, above those of its tiles."""


class TileTransaction:
    """The tiles of one array (``keys``), the place where they lie aside (the folder ``aside``) and their journal."""

    def __init__(self, keys: ChunkKeys, ndim: int, journal_key: str, aside: str) -> None:
        self.keys = keys
        self.journal = WriteJournal(keys.store, journal_key)
        self.aside = aside
        self._ndim = ndim
        self._presence = Presence(keys, (journal_key, aside))

    @property
    def leases(self) -> bool:
        """Return whether a lease of the array stands for the slots of its tiles."""
        return not hasattr(self.keys.store, "lock_chunks")

    def tile(self, place: Coords) -> str:
        """The key of a tile as it stands below the array's folder."""
        return self.keys.key_of(place)

    def aside_key(self, txn: str, tile: str) -> str:
        """Where a tile of a write lies aside."""
        return f"{self.aside}/{txn}.{tile.replace('/', '.')}"

    def keys_aside(self, txn: str) -> ChunkKeys:
        """Where the tiles of a write lie aside."""
        keys, skip = self.keys, len(self.aside) + 1
        return ChunkKeys(
            keys.store, self.aside, lambda place: self.aside_key(txn, self.tile(place))[skip:], keys.settings
        )

    # -- who may write ----------------------------------------------------------------------------------------------

    @contextmanager
    def held(
        self, tiles: Collection[str], timeout: float | None, *, several: bool
    ) -> Iterator[tuple[Stamp | None, JournalEntry | None]]:
        """Hold tiles against other writers (``several``: for one write over all of them) when what dead ones began is
        settled; the journal's stamp and last entry. ``Conflict`` after ``timeout`` seconds."""
        self.keys.require_writable()
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._locked(tiles, _left(deadline), array=several), self._presence.required():
                stamp, last = self.journal.look()
                if last is not None and last.pending and self.leases:
                    self.show(last)
                    stamp, last = self.journal.look()
                pending = last is not None and last.pending
                if last is None or not pending or (not several and last.keys.isdisjoint(tiles)):
                    yield stamp, last
                    break
            self.settle(last, _left(deadline))
        if last is not None and pending:
            with suppress(HyperslabError):  # another one may be at work on other tiles, and alive
                self.settle(last, 0)

    def alone(self, timeout: float | None) -> AbstractContextManager[None]:
        """Keep writes over several tiles from beginning."""
        return self._locked((), timeout, array=True)

    def _locked(self, tiles: Collection[str], timeout: float | None, *, array: bool) -> AbstractContextManager[None]:
        store = self.keys.store
        if not self.leases:
            slots = {crc32(tile.encode()) for tile in tiles} | ({_ARRAY} if array else set())
            lock: AbstractContextManager[None] = store.lock_chunks(self.keys.folder, sorted(slots), timeout)
            return lock
        lease: AbstractContextManager[None] = (
            store.lock_node(self.aside, timeout) if hasattr(store, "lock_node") else nullcontext()
        )
        return lease

    def settle(self, entry: JournalEntry, timeout: float | None) -> None:
        """Do what the dead writer of a pending entry left undone, unless another one did it meanwhile."""
        with self._locked(entry.keys, timeout, array=True):
            _, now = self.journal.look()
            if now is not None and now.pending and now.txn == entry.txn:
                self.show(now)

    # -- by one who may ---------------------------------------------------------------------------------------------

    def show(self, entry: JournalEntry) -> None:
        """Give all tiles of a committed write their keys, and say so."""
        self.show_tiles(entry)
        self.journal.put(entry.done(), durable=self.keys.settings.durable)

    def show_tiles(self, entry: JournalEntry) -> None:
        """Give the tiles of a write their keys, each at one stroke."""
        for tile in entry.keys:
            if self.keys.coords_of(tile, self._ndim) is None:
                message = f"{tile!r} is no tile of this array"
                raise flawed("journal", message, key=self.journal.key)
        keys, store = self.keys, self.keys.store
        pairs = [(self.aside_key(entry.txn, tile), keys.prefix + tile) for tile in entry.tiles]
        removed = [(keys.prefix + tile, self.aside_key(entry.txn, tile)) for tile in entry.gone]
        if not hasattr(store, "move"):
            for source, target in pairs:
                self._copy(source, target)
        elif keys.settings.durable and not keys.swaps:  # what is moved away does not come back after a power cut
            store.move([*pairs, *removed], durable=True)
            removed = [(source, target) for target, source in removed]
        else:
            store.move(pairs, durable=keys.settings.durable)
        for doomed, _ in removed:
            store.delete(doomed, durable=keys.settings.durable)

    def _copy(self, source: str, target: str) -> None:
        value = self.keys.store.get(source)
        if value is not None:
            self.keys.store.put(target, value, durable=self.keys.settings.durable)
            self.keys.store.delete(source)

    def sweep(self) -> None:
        """Remove what writers left aside who died before their commit; only the holder of the array may."""
        store = self.keys.store
        if any(store.list_dir(self.aside)) or (hasattr(store, "strays") and store.strays(self.aside)):
            store.delete_prefix(self.aside)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
