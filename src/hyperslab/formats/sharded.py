"""Chunks inside shards (Zarr v3 ``sharding_indexed``): one stored object holds many chunks and an index of them.

A read fetches the index and the ranges that it needs, or the whole shard when most of it is wanted. A write replaces
the touched inner chunks and copies the others as they are stored, without decoding them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial
from itertools import product
from operator import floordiv
from typing import Any, Self

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.pool import each_if_many
from hyperslab.chunks.source import Block
from hyperslab.codecs.base import Cells
from hyperslab.codecs.bounds import most_stored
from hyperslab.codecs.chain import Chain, as_codecs, build_chain
from hyperslab.codecs.shard_index import MISSING, Entries, Part, ShardIndex
from hyperslab.errors import Conflict, CorruptChunk, FormatError, HyperslabError
from hyperslab.formats.coalesce import fetch_coalesced
from hyperslab.formats.keys import ChunkKeys, fill_bytes, is_all
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.scratch import Scratch

_TRIES = 20  # a shard replaced this often while its parts are fetched has a writer that never rests


class Fetched:
    """Stored inner chunks of one shard, to be decoded; the ``version`` of the shard where it came with them."""

    def __init__(
        self, chain: Chain, parts: Mapping[Coords, Part], keys: ChunkKeys, key: str, version: Any = None
    ) -> None:
        self.version = version
        self._chain = chain
        self._parts = parts
        self._keys = keys
        self._key = key

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written."""
        return self._read(coords, self._chain.decoder(out))

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        """:meth:`read_into` of one block, for many chunks."""
        return partial(self._read, decode=self._chain.decoder(out))

    def _read(self, coords: Coords, decode: Callable[[Any], None]) -> bool:
        part = self._parts[coords]
        if part is None:
            return False
        try:
            decode(part)
        except HyperslabError as error:
            raise error.locate(url=self._keys.store.url, key=f"{self._key} inner chunk {coords}") from error.__cause__
        return True


class ShardedChunks:
    """The inner chunks of an array of shards."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, outer: Grid, config: Mapping[str, Any]) -> None:
        inner = tuple(int(size) for size in config["chunk_shape"])
        shard = outer.fixed
        if shard is None or len(inner) != len(shard) or any(a % b for a, b in zip(shard, inner, strict=True)):
            raise FormatError(f"shards of {shard} are no whole numbers of chunks of {inner}")
        self._keys = keys
        self.concurrency = keys.concurrency
        self._spec = spec
        self._grid = Grid.of(spec.shape, inner, outer)
        self._zero = fill_bytes(spec.fill_cell())
        self._chain = build_chain(as_codecs(config["codecs"]), Cells(spec.dtype, inner, spec.fill_value))
        counts = tuple(a // b for a, b in zip(shard, inner, strict=True))
        location = config.get("index_location", "end")
        self._index = ShardIndex.of(counts, as_codecs(config["index_codecs"]), location, self._chain.most_stored)
        self._most = most_stored(Cells(spec.dtype, shard))
        self._counts = np.array(counts, np.int64)
        self._size = self._index.size
        self._joined = Scratch()
        self._entries: dict[str, tuple[Any, Entries]] = {}

    @property
    def grid(self) -> Grid:
        """How the array is cut: the inner chunks, with the shards as the outer grid."""
        return self._grid

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the cells."""
        return self._spec.numpy_dtype

    def place(self, coords: Coords) -> Coords:
        """The shard that holds an inner chunk."""
        return tuple(map(floordiv, coords, self._index.counts))

    def _locate(self, coords: Sequence[Coords]) -> tuple[str, tuple[Block, ...]]:
        """The key of the shard of these inner chunks, and their places in its index (an array per axis)."""
        local = np.array(coords, np.int64).reshape(len(coords), -1) % self._counts
        keys = self._keys
        return keys.prefix + keys.key_of(tuple(map(floordiv, coords[0], self._index.counts))), tuple(local.T)

    def _key(self, place: Coords) -> str:
        return self._keys.prefix + self._keys.key_of(place)

    def under(self, keys: ChunkKeys) -> Self:
        """The same shards where others lie."""
        twin = copy(self)
        twin._keys, twin._entries = keys, {}
        return twin

    # -- reading ----------------------------------------------------------------------------------------------------

    def fetch(self, coords: Sequence[Coords]) -> Fetched:
        """Get what is stored of these chunks of one shard: by ranges, or the shard whole when most of it is wanted."""
        key, local = self._locate(coords)
        try:
            parts = self._from_whole(key, local) if 2 * len(coords) >= self._size else self._from_ranges(key, local)
        except HyperslabError as error:
            raise error.locate(url=self._keys.store.url, key=key) from error.__cause__
        return Fetched(self._chain, dict(zip(coords, parts, strict=True)), self._keys, key)

    def _from_whole(self, key: str, local: tuple[Block, ...]) -> list[Part]:
        data = self._keys.get(key, self._most)
        return [None] * (len(local[0]) if local else 1) if data is None else self._cut(data, local)

    def _cut(self, shard: Any, local: tuple[Block, ...]) -> list[Part]:
        return cut(memoryview(shard), self._index.find(shard)[local].reshape(-1, 2))

    def held(self, coords: Sequence[Coords], shard: Any) -> Fetched:
        """Chunks of one shard whose bytes are here."""
        key, local = self._locate(coords)
        return Fetched(self._chain, dict(zip(coords, self._cut(shard, local), strict=True)), self._keys, key)

    def nothing(self, coords: Sequence[Coords]) -> Fetched:
        """Chunks of one shard that is not there."""
        return Fetched(self._chain, dict.fromkeys(coords), self._keys, self._locate(coords)[0])

    def _from_ranges(self, key: str, local: tuple[Block, ...]) -> list[Part]:
        """Index and ranges of one version of the shard: its stamp is the same before and after."""
        for _ in range(_TRIES):
            stamp, entries = self._index_now(key)
            if entries is None:
                return [None] * (len(local[0]) if local else 1)
            wanted = entries[local].reshape(-1, 2).tolist()
            ranges = [(start, start + size) for start, size in wanted if start != MISSING]
            get_ranges = self._keys.store.get_ranges
            found = get_ranges(key, ranges) if len(ranges) == 1 else fetch_coalesced(partial(get_ranges, key), ranges)
            if found is not None and (stamp is None or self._keys.stamp(key) == stamp):
                rest = iter(found)
                return [None if start == MISSING else next(rest) for start, _ in wanted]
        raise _replaced()

    def _index_now(self, key: str) -> tuple[Any, Entries | None]:
        """The shard's stamp and its index. A shard's length and the index behind it may be of two versions: again."""
        for _ in range(_TRIES):
            stamp = self._keys.stamp(key)
            if stamp is None and self._keys.tells_stamps:  # one that appears now would have no stamp to hold it to
                return None, None
            try:
                return stamp, self._read_index(key, stamp)
            except CorruptChunk:
                if stamp is None or self._keys.stamp(key) == stamp:
                    raise
        raise _replaced()

    def _read_index(self, key: str, stamp: Any) -> Entries | None:
        known = self._entries.get(key)
        if known is not None and stamp is not None and known[0] == stamp:
            return known[1]
        total = self._keys.size(key)
        if total is None:
            return None
        size = self._index.nbytes
        span = (0, size) if self._index.location == "start" else (max(total - size, 0), total)
        found = self._keys.store.get_ranges(key, [span])
        if found is None:
            return None
        entries = self._index.parse(found[0], total)
        if len(self._entries) * entries.nbytes > INDEX_BYTES:
            self._entries.clear()
        self._entries[key] = (stamp, entries)
        return entries

    def read(self, coords: Coords) -> Block | None:
        """The decoded chunk in memory of its own, or None when it was never written."""
        block = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        return block if self.read_into(coords, block) else None

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written."""
        return self.fetch([coords]).read_into(coords, out)

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, coords: Coords, block: Block) -> None:
        """Store one inner chunk; the others of its shard are kept as they are stored."""
        self.write_many([(coords, block)], durable=self._keys.settings.durable)

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Replace inner chunks of one shard by one write; those of nothing but fill values are left out."""
        encoded = self.encoded(pairs)
        if encoded:
            self._replace(list(encoded), list(encoded.values()), durable)

    def encoded(self, pairs: Iterable[tuple[Coords, Block]]) -> dict[Coords, Any]:
        """Inner chunks as they are stored; None for those of nothing but fill values."""
        encoded: dict[Coords, Any] = {}

        def encode(pair: tuple[Coords, Block]) -> None:
            coords, block = pair
            # a copy of its own length: the memory that it was encoded in serves the next chunk
            encoded[coords] = None if is_all(block, self._zero) else bytes(self._chain.encode(block))

        each_if_many(encode, pairs, self._keys.settings.threads)
        return encoded

    def erase(self, coords: Coords) -> None:
        """Forget one inner chunk."""
        self.erase_many([coords])

    def erase_many(self, coords: Sequence[Coords]) -> None:
        """Forget inner chunks of one shard by one write."""
        self._replace(coords, [None] * len(coords), self._keys.settings.durable)

    def _replace(self, coords: Sequence[Coords], values: Sequence[Any], durable: bool) -> None:
        key, _ = self._locate(coords)
        shard = self.merged(coords, values, None if self.are_all(coords) else self._keys.store.get(key))
        if shard is not None:
            self._keys.put_many([(key, shard)], durable)
        elif self._keys.exists(key):
            self._keys.store.delete(key)

    def are_all(self, coords: Sequence[Coords]) -> bool:
        """Whether these chunks of one shard are all that it has."""
        return len(coords) == self._size

    def merged(self, coords: Sequence[Coords], values: Sequence[Any], old: Any) -> memoryview | None:
        """The shard with some inner chunks replaced, valid until this thread makes another; None: it holds nothing."""
        parts = self._new_parts(self._locate(coords)[1], values, old)
        return None if all(part is None for part in parts) else self._join(parts)

    def _new_parts(self, local: tuple[Block, ...], values: Sequence[Any], old: Any) -> list[Part]:
        """The stored inner chunks of a shard with some of them replaced."""
        parts: list[Part] = [None] * self._size
        if old is not None:
            parts = cut(memoryview(old), self._index.find(old).reshape(-1, 2))
        places = np.ravel_multi_index(local, self._index.counts).tolist() if local else [0]
        for place, value in zip(places, values, strict=True):
            parts[place] = value
        return parts

    def _join(self, parts: Sequence[Part]) -> memoryview:
        """A shard of these inner chunks; valid until this thread joins again."""
        return self._index.join(parts, self._joined.reserve)

    # -- what is there ----------------------------------------------------------------------------------------------

    def stamp(self, coords: Coords) -> Any:
        """What identifies the stored version of the chunk's shard."""
        return self._keys.stamp(self._key(self.place(coords)))

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the shards of these chunks against other writers."""
        return self._keys.lock({self.place(place) for place in coords}, timeout)

    def stored(self) -> Iterator[Coords]:
        """The coordinates of every inner chunk that is written."""
        for place in self._keys.stored(len(self._grid.axes)):
            yield from self.stored_in(place)

    def stored_in(self, place: Coords) -> Iterator[Coords]:
        """The same of one shard."""
        _, entries = self._index_now(self._key(place))
        if entries is None:
            return
        for local in product(*(range(count) for count in self._index.counts)):
            if int(entries[local][0]) != MISSING:
                yield tuple(i * n + j for i, n, j in zip(place, self._index.counts, local, strict=True))

    def nbytes_stored(self) -> int:
        """Bytes that all shards take."""
        return self._keys.stored_sizes(self._key(place) for place in self._keys.stored(len(self._grid.axes)))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes of these chunks within their shards, of which the indexes are read."""
        found, entries, known = 0, None, None
        for chunk in coords:
            place = self.place(chunk)
            if place != known:
                known, (_, entries) = place, self._index_now(self._key(place))
            if entries is not None:
                local = tuple(i % n for i, n in zip(chunk, self._index.counts, strict=True))
                found += 0 if int(entries[local][0]) == MISSING else int(entries[local][1])
        return found


INDEX_BYTES = 64 << 20
"""Decoded indexes that one array remembers."""


def _replaced() -> Conflict:
    return Conflict("the shard is being replaced all the time", remedy="try again")


def cut(shard: memoryview, entries: Entries) -> list[Part]:
    """The stored bytes of each entry; None where nothing was written."""
    return [None if offset == MISSING else shard[offset : offset + size] for offset, size in entries.tolist()]
