"""Chunks in a store without locks: a chunk or shard is put back only if it is still the version that was read.

Such a store tells a value's version with the value (``GetVersion``), so that nothing is asked before it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ReadsInto
from hyperslab.codecs.shard_index import MISSING, Entries, Part
from hyperslab.errors import Conflict, HyperslabError
from hyperslab.formats.keyed import KeyedChunks
from hyperslab.formats.keys import is_all
from hyperslab.formats.sharded import FetchedInnerChunks, ShardedChunks
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.attempts import attempts
from hyperslab.stores.base import Unversioned, Version


def decoded(stored: ReadsInto, coords: Sequence[Coords], grid: Grid, spec: ArraySpec) -> list[Block | None]:
    """Chunks that were fetched, each in memory of its own; None for one that was never written."""
    blocks: list[Block | None] = []
    for place in coords:
        block = np.empty(grid.chunk_shape(place), spec.numpy_dtype)
        blocks.append(block if stored.read_into(place, block) else None)
    return blocks


class CasChunks(KeyedChunks):
    """One stored object per chunk."""

    def _read(self, coords: Coords, decode: Callable[[Any], None], most: int | None) -> bool:
        keys = self._keys
        key = keys.prefix + keys.key_of(coords)
        try:
            found = keys.store.get_version(key, most=most)
            if found is None:
                return False
            decode(found.data)
        except HyperslabError as error:
            raise error.locate(url=keys.store.url, key=key) from error.__cause__
        return True

    def read_newer(self, coords: Coords, known: Any = None) -> tuple[Block | None, Any]:
        """The chunk and its stamp, by one request; no chunk when the stamp is ``known``, nor stamp when missing."""
        keys = self._keys
        key = keys.prefix + keys.key_of(coords)
        try:
            chain = self._chain_at(coords)
            found = keys.store.get_version(key, unless=known, most=chain.most_stored)
            if found is None:
                return None, None
            if found.data is None:
                return None, known
            block = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
            chain.decode_into(found.data, out=block)
        except HyperslabError as error:
            raise error.locate(url=keys.store.url, key=key) from error.__cause__
        return block, found.stamp

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], Any]:
        """One chunk, and what identifies this version of it."""
        (place,) = coords
        block, stamp = self.read_newer(place)
        return [block], stamp

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Store one chunk if its version is still ``expected``, else ``Conflict``."""
        ((coords, block),) = pairs
        keys = self._keys
        keys.require_writable()
        data = self._chain_at(coords).encode(block)
        keys.store.put_if(keys.prefix + keys.key_of(coords), data, expected, durable=keys.settings.durable)


class SwappedShards(ShardedChunks):
    """Inner chunks of shards. A shard is read by its index and ranges of that very version, and swapped whole."""

    fetches_stamps = True
    fetches_across = False

    # -- reading ----------------------------------------------------------------------------------------------------

    def fetch(self, coords: Sequence[Coords]) -> FetchedInnerChunks:
        """Get what is stored of these chunks of one shard, with the stamp of the version that it is of."""
        key, numbers = self._locate(coords)
        count = len(coords)
        try:
            if 2 * count >= self._size:
                parts, stamp = self._parts_of_whole(key, numbers)
            else:
                parts, stamp = self._parts_of_ranges(key, numbers)
        except HyperslabError as error:
            raise error.locate(url=self._keys.store.url, key=key) from error.__cause__
        found = dict(zip(coords, parts if stamp is not None else [None] * count, strict=True))
        return FetchedInnerChunks(self, self._chain, found, stamp)

    def _parts_of_whole(self, key: str, numbers: Sequence[int]) -> tuple[list[Part], Any]:
        found = self._keys.store.get_version(key, most=self._most)
        if found is None:
            return [], None
        return self._index.cut(found.data, numbers), found.stamp

    def _parts_of_ranges(self, key: str, numbers: Sequence[int]) -> tuple[list[Part], Any]:
        store = self._keys.store
        for attempt in attempts(self._keys.settings.lock_timeout):
            with attempt:
                known = self._entries.get(key)
                remembered = known is not None
                known = known or self._fetch_index(key)
                if known is None:
                    return [], None
                stamp, entries = known
                wanted = entries.reshape(-1, 2)[numbers].tolist()
                ranges = [(start, start + size) for start, size in wanted if start != MISSING]
                try:
                    found = store.get_ranges_of(key, ranges, stamp) if ranges else []
                except Conflict:
                    self._entries.pop(key, None)
                    raise
                if found is None or (not ranges and remembered and store.stamp(key) != stamp):
                    self._entries.pop(key, None)
                    raise Conflict("the shard is being replaced", url=store.url, key=key)
                rest = iter(found)
                return [None if start == MISSING else next(rest) for start, _ in wanted], stamp
        raise AssertionError

    def _fetch_index(self, key: str) -> tuple[Any, Entries] | None:
        size = self._index.nbytes
        part = (0, size) if self._index.location == "start" else (-size, 0)
        found = self._keys.store.get_version(key, part)
        if found is None:
            return None
        entries = self._index.parse(found.data, found.size)
        if not isinstance(found.stamp, Unversioned):  # whether it is still true could not be asked
            self._entries.remember(key, found.stamp, entries)
        return found.stamp, entries

    # -- writing ----------------------------------------------------------------------------------------------------

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], Any]:
        """Chunks of one shard, and the shard that they are of."""
        key, _ = self._locate(coords)
        version = self._keys.store.get_version(key, most=self._most)
        if version is None:
            return [None] * len(coords), None
        return decoded(self.held(coords, version.data), coords, self._grid, self._spec), version

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Replace chunks of one shard if it is still the one that was read, else ``Conflict``."""
        values = [None if is_all(block, self._zero) else bytes(self._chain.encode(block)) for _, block in pairs]
        self._swap_shard([coords for coords, _ in pairs], values, expected)

    def _swap_shard(self, coords: Sequence[Coords], values: Sequence[Any], old: Version | None) -> None:
        self._keys.require_writable()
        key, numbers = self._locate(coords)
        parts = self._new_parts(numbers, values, None if old is None else old.data)
        data, durable = self._join(parts), self._keys.settings.durable
        self._keys.store.put_if(key, data, None if old is None else old.stamp, durable=durable)

    def _replace(self, coords: Sequence[Coords], values: Sequence[Any], durable: bool) -> None:
        """A shard that is replaced whole needs no look at the old one; nor may it be deleted: others may fill it."""
        self._keys.require_writable()
        key, numbers = self._locate(coords)
        if len(coords) == self._size and any(value is not None for value in values):
            self._keys.put_many([(key, self._join(self._new_parts(numbers, values, None)))], durable)
            return
        for attempt in attempts(self._keys.settings.lock_timeout):
            with attempt:
                old = self._keys.store.get_version(key, most=self._most)
                if old is not None or any(value is not None for value in values):
                    self._swap_shard(coords, values, old)
