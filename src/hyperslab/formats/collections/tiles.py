"""The cells of an array that is stored in several tiles (shards): a write over several of them shows at one stroke.

One tile is replaced by one write, which is atomic in itself. A write over several goes through :mod:`.switch`; readers
of several ask the journal before and after, and start again when a write over several of their tiles showed meanwhile.
A reader holds no lock and waits for nobody, but that one which has started again many times keeps such writes from
beginning until it is through, if it may write to the store.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.errors import Conflict, HyperslabError
from hyperslab.formats.collections.deletion_guard import PresentKeys
from hyperslab.formats.collections.pending import PendingTiles
from hyperslab.formats.collections.staging import TileStaging
from hyperslab.formats.collections.tile_transaction import TileTransaction
from hyperslab.formats.zarr.chunks import ChunkKeys
from hyperslab.formats.zarr.shards import CasShards, FetchedInnerChunks, ShardedChunks, open_chunks
from hyperslab.formats.zarr3.document import key_of
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store

_HASTY = 8
"""Times that a reader starts again before it keeps writers waiting."""
_PATIENCE = 2.0
"""Seconds after which it does so when it has started again once, and which it waits for those at work."""
_NOTHING_HELD = nullcontext()


def open_tiles(
    store: Store, folder: str, spec: ArraySpec, settings: Settings, *, journal_key: str, staged_folder: str
) -> ChunkSource:
    """The chunks of the Zarr v3 array in ``folder`` whose shards are tiles: its writes over several show as one.

    The journal lies under ``journal_key``, tiles that do not show yet below ``staged_folder``; both belong to this
    array alone and go with it. An array that is never stored in more than one shard needs none of it
    (:func:`open_shard`). Unsupported when the cells cannot be decoded.
    """
    shards = open_chunks(store, folder, key_of(spec), spec, settings)
    if not isinstance(shards, ShardedChunks):
        return shards
    keys = ChunkKeys(store, folder, key_of(spec), settings)
    switch = TileTransaction(keys, len(spec.shape), journal_key, staged_folder)
    return SwappedTiles(shards, switch) if isinstance(shards, CasShards) else Tiles(shards, switch)


def open_shard(store: Store, folder: str, spec: ArraySpec, settings: Settings) -> ChunkSource:
    """The chunks of the Zarr v3 array in ``folder`` that is never stored in more than one shard. Unsupported when the
    cells cannot be decoded."""
    shard = open_chunks(store, folder, key_of(spec), spec, settings)
    return (
        shard.under(PresentKeys(store, folder, key_of(spec), settings)) if isinstance(shard, ShardedChunks) else shard
    )


class Tiles:
    """The chunks of all tiles, in a store with locks."""

    def __init__(self, shards: ShardedChunks, switch: TileTransaction) -> None:
        self._shards: Any = shards
        self._grid = shards.grid
        self.switch = switch
        self._settings = switch.keys.settings
        self.concurrency = shards.concurrency

    @property
    def grid(self) -> Grid:
        """How the array is cut: chunks, with the tiles as the outer grid."""
        return self._grid

    # -- reading ----------------------------------------------------------------------------------------------------

    def _now(self) -> Any:
        """The tiles as they are now: where those of a pending write lie aside, these."""
        return self._as_of(self.switch.journal.look()[1])

    def _as_of(self, last: Any) -> Any:
        if last is None or not last.pending:
            return self._shards
        return PendingTiles(self._shards, self.switch, last)

    def pending(self) -> PendingTiles | None:
        """The tiles as of a committed write that does not have all keys yet; None when there is none. FormatError for
        a damaged journal."""
        now = self._now()
        return now if isinstance(now, PendingTiles) else None

    def steady(self, outer: Sequence[Coords]) -> Generator[ChunkSource, None, None]:
        """The tiles as of one moment; anew when a write over several of these showed while they were read."""
        if len(outer) == 1:
            yield self._as_of(self.switch.journal.look()[1])
            return
        timeout: float | None = self._settings.lock_timeout
        start = time.monotonic()
        for count in itertools.count():
            elapsed = time.monotonic() - start
            hurried = count >= _HASTY or (count > 0 and elapsed > _PATIENCE)
            with self._undisturbed() if hurried else _NOTHING_HELD:
                before = self.switch.journal.look()[1]
                yield self._as_of(before)
                after = self.switch.journal.look()[1]
            if after is before or (after is not None and not after.hides(before, list(map(self.switch.tile, outer)))):
                return
            if count > _HASTY and timeout is not None and elapsed > timeout:
                break
        message = "the tiles are being replaced all the time"
        raise Conflict(message, url=self.switch.keys.store.url, key=self.switch.keys.folder, remedy="try again")

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Keep writes over several tiles from beginning, where that can be."""
        with ExitStack() as stack:
            if not self.switch.keys.store.read_only:
                with suppress(HyperslabError):  # one that is at work for long does not show meanwhile
                    stack.enter_context(self.switch.alone(_PATIENCE))
            yield

    def fetch(self, coords: Sequence[Coords]) -> FetchedInnerChunks:
        """Get what is stored of chunks of one tile."""
        fetched: FetchedInnerChunks = self._now().fetch(coords)
        return fetched

    def read(self, coords: Coords) -> Block | None:
        """The decoded chunk, or None when it was never written."""
        block: Block | None = self._now().read(coords)
        return block

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written."""
        return self.fetch([coords]).read_into(coords, out)

    # -- writing ----------------------------------------------------------------------------------------------------

    @contextmanager
    def together(self, outer: Sequence[Coords], timeout: float | None) -> Iterator[ChunkSource]:
        """Hold these tiles for one write, which shows as one."""
        if len(outer) == 1 and not self.switch.leases:
            yield self
            return
        tiles = [self.switch.tile(place) for place in outer]
        with self.switch.held(tiles, timeout, several=len(outer) > 1) as (stamp, last):
            if len(outer) == 1:
                yield self._shards
                return
            self.switch.sweep()
            staging = TileStaging(self._shards, self.switch, stamp, last)
            try:
                yield staging
                staging.commit()
            except BaseException:
                staging.abandon()
                raise

    @contextmanager
    def lock(self, coords: Iterable[Coords], timeout: float | None) -> Iterator[None]:
        """Hold the tiles of these chunks against other writers, what dead ones began being settled."""
        tiles = {self.switch.tile(self._shards.place(place)) for place in coords}
        with self.switch.held(tiles, timeout, several=False):
            yield

    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk."""
        self._shards.write(coords, block)

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Replace chunks of one tile, at one stroke."""
        self._shards.write_many(pairs, durable=durable)

    def erase(self, coords: Coords) -> None:
        """Forget one chunk."""
        self._shards.erase(coords)

    def erase_many(self, coords: Sequence[Coords]) -> None:
        """Forget chunks of one tile, at one stroke; a tile of which nothing is left is removed."""
        self._shards.erase_many(coords)

    # -- what is there ----------------------------------------------------------------------------------------------

    def stamp(self, coords: Coords) -> Any:
        """What identifies the stored version of the chunk's tile."""
        return self._now().stamp(coords)

    def stored(self) -> Iterator[Coords]:
        """The coordinates of every chunk that is written."""
        stored: Iterator[Coords] = self._now().stored()
        return stored

    def nbytes_stored(self) -> int:
        """Bytes that all tiles take."""
        return int(self._now().nbytes_stored())

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes of the tiles that these chunks lie in."""
        return int(self._now().stored_sizes(coords))


class SwappedTiles(Tiles):
    """The chunks of all tiles, in a store where a tile is put back if it is still the version that was read."""

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], Any]:
        """Chunks of one tile, and what identifies this version of it."""
        found: tuple[list[Block | None], Any] = self._shards.read_stamped(coords)
        return found

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Replace chunks of one tile if it is still the one that was read, else ``Conflict``."""
        self._shards.swap(pairs, expected)
