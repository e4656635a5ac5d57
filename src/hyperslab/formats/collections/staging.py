"""One write over several tiles, before it shows: each tile as it will be is stored aside."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.errors import Conflict, HyperslabError
from hyperslab.formats.collections.journal import JournalEntry, new_txn
from hyperslab.formats.collections.tile_transaction import TileTransaction
from hyperslab.formats.zarr.shards import ShardedChunks
from hyperslab.stores.base import Stamp

_WAITING = 8 << 20
"""Bytes of tiles that wait to be made durable together."""


class TileStaging:
    """The chunks of the tiles that one write holds. Nothing that is written here shows before :meth:`commit`."""

    def __init__(
        self, shards: ShardedChunks, switch: TileTransaction, stamp: Stamp | None, last: JournalEntry | None
    ) -> None:
        self._shards = shards
        self._switch = switch
        self._store = switch.keys.store
        self._stamp = stamp
        self._last = last
        self._txn = new_txn()
        self._aside = switch.keys_aside(self._txn)
        self._durable = switch.keys.settings.durable
        self._mutex = threading.Lock()
        self._tiles: dict[str, None] = {}
        self._gone: dict[str, None] = {}
        self._old: dict[Coords, Any] = {}
        self._waiting: list[tuple[str, bytes]] = []
        self._bytes = 0
        self._committed = False

    @property
    def grid(self) -> Grid:
        """That of the array."""
        return self._shards.grid

    # -- chunks -----------------------------------------------------------------------------------------------------

    def read(self, coords: Coords) -> Block | None:
        """A chunk as it is now; None when it was never written."""
        old = self._shard(self._shards.place(coords))
        if old is None:
            return None
        block = np.empty(self.grid.chunk_shape(coords), self._shards.dtype)
        try:
            return block if self._shards.held([coords], old).read_into(coords, block) else None
        except HyperslabError as error:
            raise error.locate(url=self._store.url, key=self._key(coords)) from error.__cause__

    def _key(self, coords: Coords) -> str:
        return self._switch.keys.prefix + self._switch.tile(self._shards.place(coords))

    def _shard(self, place: Coords) -> Any:
        """The bytes of a tile; kept until it is written, for its other chunks."""
        if place not in self._old:
            tile = self._switch.tile(place)
            if tile in self._tiles:
                self._flush()
                self._old[place] = self._store.get(self._switch.aside_key(self._txn, tile))
            else:
                self._old[place] = None if tile in self._gone else self._store.get(self._switch.keys.prefix + tile)
        return self._old[place]

    def write(self, coords: Coords, block: Block) -> None:
        """Change one chunk."""
        self.write_many([(coords, block)], durable=self._durable)

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Change chunks of one tile."""
        encoded = self._shards.encoded(pairs)
        if encoded:
            self._replace(list(encoded), list(encoded.values()))

    def erase(self, coords: Coords) -> None:
        """Forget one chunk."""
        self.erase_many([coords])

    def erase_many(self, coords: Sequence[Coords]) -> None:
        """Forget chunks of one tile."""
        self._replace(coords, [None] * len(coords))

    def _replace(self, coords: Sequence[Coords], values: Sequence[Any]) -> None:
        place = self._shards.place(coords[0])
        tile = self._switch.tile(place)
        old = None if self._shards.are_all(coords) else self._shard(place)
        shard = self._shards.merged(coords, values, old)
        self._old.pop(place, None)
        if shard is None:
            self._tiles.pop(tile, None)
            if self._switch.keys.exists(self._switch.keys.prefix + tile):
                self._gone[tile] = None
            return
        self._gone.pop(tile, None)
        self._take(self._switch.aside_key(self._txn, tile), shard)
        self._tiles[tile] = None

    def _take(self, key: str, shard: memoryview) -> None:
        """Store a tile aside; where it must be durable together with others, which is cheaper."""
        if not self._durable:
            self._aside.put_many([(key, shard)], durable=False)
            return
        value = bytes(shard)
        with self._mutex:
            self._waiting.append((key, value))
            self._bytes += len(value)
            full = self._bytes > _WAITING
        if full:
            self._flush()

    def _flush(self) -> None:
        with self._mutex:
            waiting, self._waiting, self._bytes = self._waiting, [], 0
        if waiting:
            self._aside.put_many(waiting, self._durable)

    # -- the end ----------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Show all that was written; when this fails, nothing of it."""
        self._flush()
        after = None if self._last is None else self._last.txn
        entry = JournalEntry(self._txn, True, after, tuple(sorted(self._tiles)), tuple(sorted(self._gone)))
        if len(entry.keys) == 1:
            self._switch.show_tiles(entry)
        elif entry.keys:
            self._publish(entry)
            self._committed = True
            with suppress(HyperslabError):  # it counts by now; what is left undone is done by the next writer
                self._switch.show(entry)

    def _publish(self, entry: JournalEntry) -> None:
        journal = self._switch.journal
        try:
            if self._switch.keys.swaps:
                journal.put_after(entry, self._stamp, durable=self._durable)
            else:
                journal.put(entry, durable=self._durable)
        except Conflict:  # also where the answer to the request was lost
            if self._said() != entry:
                raise

    def _said(self) -> JournalEntry | None:
        return self._switch.journal.look()[1]

    def abandon(self) -> None:
        """Leave nothing of a write that failed, if the journal can be brought to speak of the one before again."""
        if self._committed:
            return
        with suppress(HyperslabError):
            said, journal = self._said(), self._switch.journal
            if said is not None and said.txn == self._txn and self._last is None:
                journal.forget()
            elif said is not None and said.txn == self._txn and self._last is not None:
                journal.put(self._last, durable=self._durable)
            for tile in self._tiles:
                self._store.delete(self._switch.aside_key(self._txn, tile))
