"""The cells of an array that is stored in several tiles (shards): a write over several of them shows at one stroke.

One tile is replaced by one write, atomic in itself. Several are written by a :class:`.TileTransaction`; readers
of several ask the journal before and after, and start again when a write over several of their tiles showed meanwhile.
A reader holds no lock and waits for nobody, but that one which has started again many times keeps such writes from
beginning until it is through, if it may write to the store.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import Conflict, FormatError, HyperslabError, StorageError
from hyperslab.formats.collections.own.tile_transaction import (
    JournalEntry,
    KeepVersions,
    TileTransaction,
    VersionedChunkKeys,
    deletion_guard,
    new_txn,
)
from hyperslab.formats.format_errors import ReadOnlyChunks
from hyperslab.formats.rules import Finding, found
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.shards import FetchedInnerChunks, ShardedChunks, open_chunks
from hyperslab.formats.zarr3.document import key_of
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Stamp, Store

# A reader holds no lock, since one that died or waits would keep writers out. But where writers come faster than it
# can read, it would start again for ever: then it takes the lock of the array for one look.
# Times that a reader starts again before it keeps writers waiting.
SNAPSHOT_TRIES = 8
# Seconds after which it does so when it has started again once, and which it waits for those at work.
SNAPSHOT_PATIENCE_SECONDS = 2.0
# One object for all readers, as it keeps no state.
_NOTHING_HELD = nullcontext()


def open_tiles(
    store: Store,
    folder: str,
    spec: ArraySpec,
    settings: Settings,
    *,
    journal_key: str,
    staged_folder: str,
    keep_versions: KeepVersions | None = None,
) -> ChunkSource:
    """Return the chunks of the Zarr v3 array in ``folder`` whose shards are tiles: its writes over several show as one.

    The journal lies under ``journal_key``, tiles that do not show yet below ``staged_folder``; both belong to this
    array alone and go with it. An array that is never stored in more than one shard needs none of it
    (:func:`open_shard`). Unsupported when the cells cannot be decoded.
    """
    keys = ChunkKeys(store, folder, key_of(spec), settings)
    shards = open_chunks(keys, spec)
    if not isinstance(shards, ShardedChunks):
        return shards
    transaction = TileTransaction(keys, len(spec.shape), journal_key, staged_folder, keep_versions)
    return Tiles(shards, transaction)


def open_shard(
    store: Store, folder: str, spec: ArraySpec, settings: Settings, *, keep_versions: KeepVersions | None = None
) -> ChunkSource:
    """Return the chunks of the Zarr v3 array in ``folder`` that is never stored in more than one shard. Unsupported
    when the cells cannot be decoded."""
    keys = ChunkKeys(store, folder, key_of(spec), settings)
    if keep_versions is not None:
        keys = VersionedChunkKeys(store, folder, key_of(spec), settings)
        keys.keep_versions = keep_versions
    keys.guard = deletion_guard(keys)
    return open_chunks(keys, spec)


class Tiles(ChunkSource):
    """The chunks of all tiles. Where a store has no locks, a tile is put back if it is still the one that was read."""

    def __init__(self, shards: ShardedChunks, transaction: TileTransaction) -> None:
        self._shards = shards
        self.grid = shards.grid
        self.tile_transaction = transaction
        self.traits = replace(shards.traits, fetches_across=False, reads_stamps=False, multi_shard=True)

    # -- reading ----------------------------------------------------------------------------------------------------

    def _current(self) -> ShardedChunks | PendingTiles:
        """Return the tiles as they are now: where those of a pending write lie aside still, with these."""
        return self.pending() or self._shards

    def pending(self) -> PendingTiles | None:
        """Return the tiles as of a committed write that does not have all keys yet; None when there is none.
        FormatError for a damaged journal."""
        return self._pending_at(self.tile_transaction.journal.read()[1])

    def _pending_at(self, last: JournalEntry | None) -> PendingTiles | None:
        if last is None or not last.pending:
            return None
        return PendingTiles(self._shards, self.tile_transaction, last)

    def snapshot(self, outer: Sequence[Coords]) -> Generator[ChunkSource, None, None]:
        """Yield the tiles as of one moment; anew when a write over several of these showed while they were read."""
        if len(outer) == 1:
            yield self.pending() or self._shards  # a single tile is whole as it is
            return
        keys = self.tile_transaction.keys
        timeout: float | None = keys.settings.lock_timeout
        start = time.monotonic()
        for count in itertools.count():
            elapsed = time.monotonic() - start
            # Writers came between each time: this reader lets none begin while it looks once more.
            is_starved = count >= SNAPSHOT_TRIES or (count > 0 and elapsed > SNAPSHOT_PATIENCE_SECONDS)
            with self._pause_writers() if is_starved else _NOTHING_HELD:
                before = self.tile_transaction.journal.read()[1]
                yield self._pending_at(before) or self._shards
                after = self.tile_transaction.journal.read()[1]
            if after is before or (
                after is not None and not after.may_tear(before, list(map(self.tile_transaction.tile, outer)))
            ):
                return
            if count > SNAPSHOT_TRIES and timeout is not None and elapsed > timeout:
                break
        message = "the tiles are being replaced all the time"
        raise Conflict(message, url=keys.store.url, key=keys.folder, remedy="try again")

    @contextmanager
    def _pause_writers(self) -> Iterator[None]:
        """Keep writes over several tiles from beginning, where that can be."""
        with ExitStack() as stack:
            if not self.tile_transaction.keys.store.read_only:
                with suppress(HyperslabError):  # one that is at work for long does not show meanwhile
                    stack.enter_context(self.tile_transaction.lock_array(SNAPSHOT_PATIENCE_SECONDS))
            yield

    def fetch(self, coords: Sequence[Coords]) -> FetchedInnerChunks:
        """Get what is stored of chunks of one tile."""
        return self._current().fetch(coords)

    def read(self, coords: Coords) -> Block | None:
        return self._current().read(coords)

    def read_into(self, coords: Coords, out: Block) -> bool:
        return self.fetch([coords]).read_into(coords, out)

    # -- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def multi_shard_write(self, outer: Sequence[Coords], timeout: float | None) -> Iterator[ChunkSource]:
        """Hold these tiles for one write, which shows as one."""
        if len(outer) == 1 and not self.tile_transaction.uses_lease:
            yield self
            return
        tiles = [self.tile_transaction.tile(each) for each in outer]
        with self.tile_transaction.lock_tiles(tiles, timeout, several=len(outer) > 1) as (stamp, last):
            if len(outer) == 1:
                yield self._shards
                return
            self.tile_transaction.remove_abandoned()
            staging = TileStaging(self._shards, self.tile_transaction, stamp, last)
            try:
                yield staging
                staging.commit()
            except BaseException:
                staging.roll_back()
                raise

    @contextmanager
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> Iterator[None]:
        """Hold the tiles of these chunks against other writers, what dead ones began being settled."""
        tiles = {self.tile_transaction.tile(self._shards.shard_of(each)) for each in coords}
        with self.tile_transaction.lock_tiles(tiles, timeout, several=False):
            yield

    def write(self, coords: Coords, block: Block) -> None:
        self._shards.write(coords, block)

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Replace chunks of one tile, at one stroke."""
        self._shards.write_batch(pairs, durable=durable)

    def erase(self, coords: Coords) -> None:
        self._shards.erase(coords)

    def erase_batch(self, coords: Sequence[Coords]) -> None:
        """Forget chunks of one tile, at one stroke; a tile of which nothing is left is removed."""
        self._shards.erase_batch(coords)

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], object]:
        """Return chunks of one tile, and what identifies this version of it."""
        return self._shards.read_stamped(coords)

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Replace chunks of one tile if it is still the one that was read, else ``Conflict``."""
        self._shards.swap(pairs, expected)

    # -- what is there ----------------------------------------------------------------------------------------------

    def stamp(self, coords: Coords) -> Stamp | None:
        """Return a value that identifies the stored version of the chunk's tile."""
        return self._current().stamp(coords)

    def stored_coords(self) -> Iterator[Coords]:
        return self._current().stored_coords()

    def nbytes_stored(self) -> int:
        """Return bytes that all tiles take."""
        return self._current().nbytes_stored()

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return bytes of the tiles that these chunks lie in."""
        return self._current().stored_sizes(coords)


# -- a write over several tiles before it shows -----------------------------------------------------------------------


# Bytes of tiles that wait in memory to be made durable together: one flush of many costs less than one of each.
STAGED_TILE_BYTES = 8 << 20


class TileStaging(ChunkSource):
    """The chunks of the tiles that one write holds. Nothing that is written here shows before :meth:`commit`."""

    def __init__(
        self, shards: ShardedChunks, transaction: TileTransaction, stamp: Stamp | None, last: JournalEntry | None
    ) -> None:
        self.grid = shards.grid
        self._shards = shards
        self._transaction = transaction
        self._store = transaction.keys.store
        self._stamp = stamp
        self._last = last
        self._txn = new_txn()
        self._staged = transaction.staged_keys(self._txn)
        self._durable = transaction.keys.settings.durable
        self._mutex = threading.Lock()
        self._tiles: dict[str, None] = {}
        self._removed: dict[str, None] = {}
        self._old: dict[Coords, object] = {}
        self._waiting: list[tuple[str, bytes]] = []
        self._bytes = 0
        self._committed = False

    # -- chunks -----------------------------------------------------------------------------------------------------

    def read(self, coords: Coords) -> Block | None:
        """Return a chunk as it is now; None when it was never written."""
        old = self._shard(self._shards.shard_of(coords))
        if old is None:
            return None
        block = np.empty(self.grid.chunk_shape(coords), self._shards.dtype)
        try:
            return block if self._shards.inner_chunks_of([coords], old).read_into(coords, block) else None
        except HyperslabError as error:
            tile = self._transaction.tile(self._shards.shard_of(coords))
            raise error.locate(url=self._store.url, key=self._transaction.keys.prefix + tile) from error.__cause__

    def _shard(self, tile_coords: Coords) -> object:
        """Return the bytes of a tile; kept until it is written, for its other chunks."""
        if tile_coords not in self._old:
            tile = self._transaction.tile(tile_coords)
            if tile in self._tiles:
                self._flush()
                self._old[tile_coords] = self._store.get(self._transaction.staged_key(self._txn, tile))
            else:
                self._old[tile_coords] = (
                    None if tile in self._removed else self._store.get(self._transaction.keys.prefix + tile)
                )
        return self._old[tile_coords]

    def write(self, coords: Coords, block: Block) -> None:
        """Change one chunk."""
        self.write_batch([(coords, block)], durable=self._durable)

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Change chunks of one tile."""
        encoded = self._shards.encoded(pairs)
        if encoded:
            self._replace(list(encoded), list(encoded.values()))

    def erase(self, coords: Coords) -> None:
        self.erase_batch([coords])

    def erase_batch(self, coords: Sequence[Coords]) -> None:
        """Forget chunks of one tile."""
        self._replace(coords, [None] * len(coords))

    def _replace(self, coords: Sequence[Coords], values: Sequence[object]) -> None:
        tile_coords = self._shards.shard_of(coords[0])
        tile = self._transaction.tile(tile_coords)
        old = None if self._shards.is_whole_shard(coords) else self._shard(tile_coords)
        shard = self._shards.merge_shard(coords, values, old)
        self._old.pop(tile_coords, None)
        if shard is None:
            self._tiles.pop(tile, None)
            if self._transaction.keys.exists(self._transaction.keys.prefix + tile):
                self._removed[tile] = None
            return
        self._removed.pop(tile, None)
        key = self._transaction.staged_key(self._txn, tile)
        if not self._durable:
            self._staged.put_many([(key, shard)], durable=False)
        else:  # together with others, which is cheaper than one flush of the medium for each
            with self._mutex:
                self._waiting.append((key, bytes(shard)))
                self._bytes += shard.nbytes
                full = self._bytes > STAGED_TILE_BYTES
            if full:
                self._flush()
        self._tiles[tile] = None

    def _flush(self) -> None:
        with self._mutex:
            waiting, self._waiting, self._bytes = self._waiting, [], 0
        if waiting:
            self._staged.put_many(waiting, self._durable)

    # -- the end ----------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Show all that was written; when this fails, nothing of it."""
        self._flush()
        after = None if self._last is None else self._last.txn
        entry = JournalEntry(self._txn, True, after, tuple(sorted(self._tiles)), tuple(sorted(self._removed)))
        self._transaction.keep_tiles(sorted(entry.keys))
        if len(entry.keys) == 1:
            self._transaction.publish_tiles(entry)
        elif entry.keys:
            self._publish(entry)
            self._committed = True
            with suppress(HyperslabError):  # it counts by now; what is left undone is done by the next writer
                self._transaction.publish(entry)

    def _publish(self, entry: JournalEntry) -> None:
        """Have the journal speak of this write: the commit. In a store without locks only if no other writer was here
        meanwhile."""
        journal = self._transaction.journal
        try:
            if self._transaction.keys.uses_compare_and_swap:
                self._store.put_if(journal.key, entry.to_bytes(), self._stamp, durable=self._durable)
            else:
                journal.put(entry, durable=self._durable)
        except Conflict:  # also where the answer to the request was lost
            if journal.read()[1] != entry:
                raise

    def roll_back(self) -> None:
        """Leave nothing of a write that failed, if the journal can be brought to speak of the one before again."""
        if self._committed:
            return
        with suppress(HyperslabError):
            journal = self._transaction.journal
            _, last = journal.read()
            if last is not None and last.txn == self._txn:
                if self._last is None:
                    journal.remove()
                else:
                    journal.put(self._last, durable=self._durable)
            for tile in self._tiles:
                self._store.delete(self._transaction.staged_key(self._txn, tile))


# -- reading while committed tiles are moved to their keys ------------------------------------------------------------


class PendingTiles(ReadOnlyChunks):
    """Reads what a pending entry says. A tile is looked for aside (below ``staged_folder``) first: when it is not there
    it has its key by now."""

    def __init__(self, shards: ShardedChunks, transaction: TileTransaction, entry: JournalEntry) -> None:
        self._shards = shards
        self._transaction = transaction
        self._tiles = frozenset(entry.tiles)
        self._removed = frozenset(entry.removed)
        self._keys = transaction.staged_keys(entry.txn)
        self._staged = shards.with_keys(self._keys)
        self.grid = shards.grid
        self.traits = replace(
            shards.traits, fetches_across=False, fetches_outer=False, reads_stamps=False, locks=False, swaps=False
        )

    def _is_staged(self, tile_coords: Coords) -> bool:
        return self._transaction.tile(tile_coords) in self._tiles and self._keys.exists(self.staged_key(tile_coords))

    def fetch(self, coords: Sequence[Coords]) -> FetchedInnerChunks:
        """Get what is stored of chunks of one tile. What lay aside before and after is one version."""
        tile_coords = self._shards.shard_of(coords[0])
        if self._transaction.tile(tile_coords) in self._removed:
            return self._shards.missing_inner_chunks(coords)
        if self._is_staged(tile_coords):
            fetched = self._staged.fetch(coords)
            if self._is_staged(tile_coords):
                return fetched
        return self._shards.fetch(coords)

    def read_into(self, coords: Coords, out: Block) -> bool:
        return self.fetch([coords]).read_into(coords, out)

    def read(self, coords: Coords) -> Block | None:
        block = np.empty(self.grid.chunk_shape(coords), self._shards.dtype)
        return block if self.read_into(coords, block) else None

    def stamp(self, coords: Coords) -> object:
        """Return a value that identifies the version of the chunk's tile, wherever it lies."""
        tile_coords = self._shards.shard_of(coords)
        if self._transaction.tile(tile_coords) in self._removed:
            return None
        staged = self._staged.stamp(coords) if self._transaction.tile(tile_coords) in self._tiles else None
        return self._shards.stamp(coords) if staged is None else staged

    def _stored_tiles(self) -> list[Coords]:
        """Return every tile that is there."""
        keys, ndim = self._transaction.keys, len(self.grid.axes)
        moved = (keys.coords_of(tile, ndim) for tile in self._tiles)
        found = {tile_coords for tile_coords in moved if tile_coords is not None}
        return sorted(
            found
            | {
                tile_coords
                for tile_coords in keys.stored(ndim)
                if self._transaction.tile(tile_coords) not in self._removed
            }
        )

    def staged_tiles(self) -> list[Coords]:
        """Return the tiles that lie aside still."""
        return [tile_coords for tile_coords in self._stored_tiles() if self._is_staged(tile_coords)]

    def staged_key(self, tile_coords: Coords) -> str:
        """Return the key of a staged tile."""
        return self._keys.prefix + self._keys.key_of(tile_coords)

    def has_changed(self, tile_coords: Coords) -> bool:
        """Return True if readers do not get what lies at a tile's key: it is removed, or lies aside."""
        return self._transaction.tile(tile_coords) in self._removed or self._is_staged(tile_coords)

    def stored_coords(self) -> Iterator[Coords]:
        for tile_coords in self._stored_tiles():
            yield from self.stored_in(tile_coords)

    def stored_in(self, tile_coords: Coords) -> Iterator[Coords]:
        """Return the same of one tile."""
        staged = list(self._staged.stored_in(tile_coords)) if self._is_staged(tile_coords) else None
        return (
            self._shards.stored_in(tile_coords) if staged is None or not self._is_staged(tile_coords) else iter(staged)
        )

    def nbytes_stored(self) -> int:
        """Return bytes that all tiles take."""
        return sum(map(self._size, self._stored_tiles()))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return bytes of the tiles that these chunks lie in."""
        return sum(map(self._size, {self._shards.shard_of(each) for each in coords}))

    def _size(self, tile_coords: Coords) -> int:
        tile, keys = self._transaction.tile(tile_coords), self._transaction.keys
        if tile in self._removed:
            return 0
        staged = self._keys.size(self.staged_key(tile_coords)) if tile in self._tiles else None
        return (keys.size(keys.prefix + tile) or 0) if staged is None else staged


# -- what writers over several tiles left who died --------------------------------------------------------------------


def tile_orphans(tiles: Tiles, node: str = "") -> Iterator[Finding]:
    """Yield those of one array, the ``node``; it is read as it should be meanwhile, but for a damaged journal."""
    transaction = tiles.tile_transaction
    key, staged, timeout = transaction.journal.key, transaction.staging_folder, transaction.keys.settings.lock_timeout

    def forget() -> None:
        with transaction.lock_array(timeout):
            transaction.journal.remove()

    def tidy() -> None:
        with transaction.lock_tiles((), timeout, several=True):
            transaction.remove_abandoned()

    try:
        _, last = transaction.journal.read()
    except (FormatError, StorageError) as error:
        message = f"the journal of writes over several tiles is damaged: {error.message} [key={key}]"
        action = "remove it; a write whose tiles are not all in their places stays in parts"
        yield found(node, "journal", message, action=action, act=forget, key=key)
        return
    pending = last.txn if last is not None and last.pending else None
    if pending is not None:
        message = f"a writer died, or is at work, before all tiles of its write were in their places [key={key}]"
        yield found(node, "unsettled", message, action="put them there", act=tidy, key=key)
    if any(name.partition(".")[0] != pending for name in transaction.keys.store.list_dir(staged)[0]):
        message = f"a writer died, or is at work, before its write over several tiles counted [key={staged}]"
        yield found(node, "leftover", message, action="remove what it left", act=tidy, key=staged)
