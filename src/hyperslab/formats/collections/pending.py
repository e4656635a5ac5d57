"""Tiles as they are once the write is committed that moves some of them: those that lie aside still are read there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.formats.collections.journal import JournalEntry
from hyperslab.formats.collections.tile_transaction import TileTransaction
from hyperslab.formats.zarr.shards import FetchedInnerChunks, ShardedChunks


class PendingTiles:
    """Reads what a pending entry says. A tile is asked for aside first: when it is not there it has its key by now."""

    def __init__(self, shards: ShardedChunks, switch: TileTransaction, entry: JournalEntry) -> None:
        self._shards = shards
        self._switch = switch
        self._tiles = frozenset(entry.tiles)
        self._gone = frozenset(entry.gone)
        self._keys = switch.keys_aside(entry.txn)
        self._aside = shards.under(self._keys)
        self.concurrency = shards.concurrency

    @property
    def grid(self) -> Grid:
        """That of the array."""
        return self._shards.grid

    def _lies_aside(self, place: Coords) -> bool:
        return self._switch.tile(place) in self._tiles and self._keys.exists(self.key_aside(place))

    def fetch(self, coords: Sequence[Coords]) -> FetchedInnerChunks:
        """Get what is stored of chunks of one tile. What lay aside before and after is one version."""
        place = self._shards.place(coords[0])
        if self._switch.tile(place) in self._gone:
            return self._shards.nothing(coords)
        if self._lies_aside(place):
            fetched = self._aside.fetch(coords)
            if self._lies_aside(place):
                return fetched
        return self._shards.fetch(coords)

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written."""
        return self.fetch([coords]).read_into(coords, out)

    def read(self, coords: Coords) -> Block | None:
        """The decoded chunk, or None when it was never written."""
        block = np.empty(self.grid.chunk_shape(coords), self._shards.dtype)
        return block if self.read_into(coords, block) else None

    def stamp(self, coords: Coords) -> Any:
        """What identifies the version of the chunk's tile, wherever it lies."""
        place = self._shards.place(coords)
        if self._switch.tile(place) in self._gone:
            return None
        aside = self._aside.stamp(coords) if self._switch.tile(place) in self._tiles else None
        return self._shards.stamp(coords) if aside is None else aside

    def _places(self) -> list[Coords]:
        """Every tile that is there."""
        keys, ndim = self._switch.keys, len(self.grid.axes)
        moved = (keys.coords_of(tile, ndim) for tile in self._tiles)
        found = {place for place in moved if place is not None}
        return sorted(found | {place for place in keys.stored(ndim) if self._switch.tile(place) not in self._gone})

    def places_aside(self) -> list[Coords]:
        """The tiles that lie aside still."""
        return [place for place in self._places() if self._lies_aside(place)]

    def key_aside(self, place: Coords) -> str:
        """Where a tile lies then."""
        return self._keys.prefix + self._keys.key_of(place)

    def hides(self, place: Coords) -> bool:
        """Return whether what has a tile's key is not what is read."""
        return self._switch.tile(place) in self._gone or self._lies_aside(place)

    def stored(self) -> Iterator[Coords]:
        """The coordinates of every chunk that is written."""
        for place in self._places():
            yield from self.stored_in(place)

    def stored_in(self, place: Coords) -> Iterator[Coords]:
        """The same of one tile."""
        aside = list(self._aside.stored_in(place)) if self._lies_aside(place) else None
        return self._shards.stored_in(place) if aside is None or not self._lies_aside(place) else iter(aside)

    def nbytes_stored(self) -> int:
        """Bytes that all tiles take."""
        return sum(map(self._size, self._places()))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes of the tiles that these chunks lie in."""
        return sum(map(self._size, {self._shards.place(place) for place in coords}))

    def _size(self, place: Coords) -> int:
        tile, keys = self._switch.tile(place), self._switch.keys
        if tile in self._gone:
            return 0
        aside = self._keys.size(self.key_aside(place)) if tile in self._tiles else None
        return (keys.size(keys.prefix + tile) or 0) if aside is None else aside
