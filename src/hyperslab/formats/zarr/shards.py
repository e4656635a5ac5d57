"""Chunks inside shards (Zarr v3 ``sharding_indexed``): one stored object holds many chunks and an index of them.

A read fetches the index and the ranges that it needs, or the whole shard when most of it is wanted. A write replaces
the touched inner chunks and copies the others as they are stored, without decoding them. In a store without locks
(:class:`CasShards`) it is put back only if it is still the shard that was read.

:func:`open_chunks` chooses the source of an array: shards, or chunks one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import cached_property, partial
from itertools import product
from math import prod
from operator import add, floordiv, mod, mul
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from hyperslab.chunks.engine import Found, ShardLayout, SingleChunks, StoredFiles
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.locations import ChunkLocations
from hyperslab.chunks.pool import each_if_many
from hyperslab.chunks.source import Block, ChunkReader, ChunkSource, Within
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.buffers import fill_cell_bytes, is_filled_with, most_stored
from hyperslab.codecs.chain import Chain
from hyperslab.codecs.registry import as_codecs, build_chain, shard_index
from hyperslab.codecs.sharding import MISSING, Entries, Part
from hyperslab.errors import Conflict, CorruptChunk, FormatError, HyperslabError, Unsupported
from hyperslab.formats.documents import JsonMapping
from hyperslab.formats.zarr.chunks import (
    CasChunks,
    ChunkKeys,
    KeyedChunks,
    StoredChunks,
    UncompressedChunks,
    decode_fetched,
    extend_traits,
)
from hyperslab.formats.zarr.gathered_chunks import GatheredChunks
from hyperslab.formats.zarr.locations import locate_inner_chunks
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.attempts import attempts
from hyperslab.stores.base import Scratch, Unversioned
from hyperslab.stores.ranges import fetch_coalesced
from hyperslab.stores.stored_file import ValuePlace

# a bound on memory alone: an index that is forgotten costs another request
INDEX_BYTES_REMEMBERED = 64 << 20
"""Bytes of decoded indexes that one array remembers."""


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


class ShardIndexCache(dict[str, tuple[Any, T]]):
    """By key: the stamp of a value, and its index."""

    def remember(self, key: str, stamp: object, index: T) -> None:
        """Take one more; all are forgotten where they would be too many."""
        # all at once: an order of use would have to be kept at every read
        if len(self) * index.nbytes > INDEX_BYTES_REMEMBERED:
            self.clear()
        self[key] = (stamp, index)


# A shard that is replaced so often while its parts are fetched has a writer that never rests.
SHARD_TRIES = 20

# Bytes that a buffer for several shards has above the estimate.
SPARE_BYTES = 4096


class FetchedInnerChunks(ChunkReader):
    """Stored inner chunks, to be decoded; the ``version`` of their shard where it came with them."""

    def __init__(self, shards: ShardedChunks, chain: Chain, parts: Mapping[Coords, Part], version: Any = None) -> None:
        self.version = version
        self.grid = shards.grid
        self._shards = shards
        self._chain = chain
        self._parts = parts

    def read_into(self, coords: Coords, out: Block, decode: Callable[[Any], None] | None = None) -> bool:
        """Decode the chunk into ``out`` (by ``decode``, where that was made); False when it was never written."""
        part = self._parts[coords]
        if part is None:
            return False
        try:
            if decode is None:
                self._chain.decode_into(part, out)
            else:
                decode(part)
        except HyperslabError as error:
            raise self._shards.with_location(error, coords) from error.__cause__
        return True

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        return partial(self.read_into, out=out, decode=self._chain.decoder(out))


class ShardedChunks(StoredChunks):
    """The inner chunks of an array of shards."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, outer: Grid, config: JsonMapping) -> None:
        inner = tuple(map(int, config["chunk_shape"]))
        shard = outer.fixed
        if shard is None or len(inner) != len(shard) or any(map(mod, shard, inner)):
            raise FormatError(f"shards of {shard} are no whole numbers of chunks of {inner}")
        self._keys = keys
        self.traits = extend_traits(keys.source_traits, fetches=True, fetches_across=True, fetches_outer=True)
        self._spec = spec
        self.grid = Grid.of(spec.shape, inner, outer)
        self._zero = fill_cell_bytes(spec.fill_cell())
        self._inner_codecs = as_codecs(config["codecs"])
        self.chain = build_chain(self._inner_codecs, ChunkLayout(spec.dtype, inner, spec.fill_value))
        counts: tuple[int, ...] = tuple(map(floordiv, shard, inner))
        location = config.get("index_location", "end")
        self.index = shard_index(counts, as_codecs(config["index_codecs"]), location, self.chain.most_stored)
        # a shard that claims to be longer than its cells can become is damaged, and not read into memory
        self._most = most_stored(ChunkLayout(spec.dtype, shard))
        self._counts = np.array(counts, np.int64)
        self._steps = [prod(counts[axis + 1 :]) for axis in range(len(counts))]
        self._strides = np.array(self._steps, np.int64)
        self._chunks_per_shard = prod(counts)
        self._chunk_bytes = prod(inner) * spec.numpy_dtype.itemsize
        self._shard_buffer = Scratch()
        self._entries: ShardIndexCache[Entries] = ShardIndexCache()
        self._single: SingleChunks | None = None
        if self.traits.in_files:
            files = self.stored_files
            self._single = self.chain.single_reads(None if files is None else files.shard)

    @property
    def dtype(self) -> NumpyDType:
        """Return the type of the cells."""
        return self._spec.numpy_dtype

    def shard_of(self, coords: Coords) -> Coords:
        """Return the coordinates of the shard that holds an inner chunk."""
        return tuple(map(floordiv, coords, self.index.counts))

    def _locate(self, coords: Sequence[Coords]) -> tuple[str, list[int]]:
        """Return the key of the shard of these inner chunks, and their numbers in it."""
        return self._keys.chunk_key(self.shard_of(coords[0])), self._numbers(coords)

    def _numbers(self, coords: Sequence[Coords]) -> list[int]:
        """Return the numbers of inner chunks in their shards, in C order."""
        local = np.array(coords, np.int64).reshape(len(coords), -1) % self._counts
        numbers: list[int] = (local @ self._strides).tolist()
        return numbers

    def with_keys(self, keys: ChunkKeys) -> Self:
        """Return the same shards where others lie."""
        twin = copy(self)
        twin._keys, twin._entries = keys, ShardIndexCache()
        twin.__dict__.pop("stored_files", None)
        return twin

    def with_location(self, error: HyperslabError, coords: Coords) -> HyperslabError:
        """Return the error with the URL, the key and the coordinates of an inner chunk."""
        key = self._keys.chunk_key(self.shard_of(coords))
        return error.locate(url=self._keys.store.url, key=f"{key} inner chunk {coords}")

    # -- reading ----------------------------------------------------------------------------------------------------

    def fetch(self, coords: Sequence[Coords]) -> FetchedInnerChunks:
        """Get what is stored of these chunks, of any shards: by ranges, or shards whole when most of them is wanted."""
        keys, prefix, most = self._keys, self._keys.prefix, self._most
        shards: dict[Coords, tuple[list[Coords], list[int]]] = {}
        for each, number in zip(coords, self._numbers(coords), strict=True):
            members, numbers = shards.setdefault(tuple(map(floordiv, each, self.index.counts)), ([], []))
            members.append(each)
            numbers.append(number)
        room = keys.scratch  # of this thread; the bytes of several shards need memory of their own
        if len(shards) > 1:
            # an estimate of what the parts take: where it is too small, the buffer is replaced by a larger one
            room = Scratch(2 * len(coords) * self._chunk_bytes + len(shards) * self.index.nbytes + SPARE_BYTES)
        parts: dict[Coords, Part] = {}
        for shard_coords, (members, numbers) in shards.items():
            key = prefix + keys.key_of(shard_coords)
            try:  # keys.get, without its calls: this is done for every shard
                # few chunks: the index and their ranges; from half of the shard on it is fetched whole, by one request
                if 2 * len(members) < self._chunks_per_shard:
                    found = self._from_ranges(key, numbers)
                elif (shard := keys.store.get_into(key, room, most)) is None:
                    keys.store.check_missing(key)
                    found = [None] * len(members)
                else:
                    found = self.index.cut(shard, numbers)
                    if len(shards) > 1:
                        room.buffer = room.buffer[len(shard) :]
            except HyperslabError as error:
                raise error.locate(url=keys.store.url, key=key) from error.__cause__
            parts.update(zip(members, found, strict=True))
        return FetchedInnerChunks(self, self.chain, parts)

    def fetch_outer(self, outer: Coords) -> FetchedInnerChunks:
        """Get a shard whole, by one request."""
        keys = self._keys
        key = keys.chunk_key(outer)
        try:
            shard, version = self._get_shard(key)
            if shard is None:
                keys.store.check_missing(key)
            numbers = range(self._chunks_per_shard)
            parts = [None] * len(numbers) if shard is None else self.index.cut(shard, numbers)
        except HyperslabError as error:
            raise error.locate(url=keys.store.url, key=key) from error.__cause__
        counts = zip(outer, self.index.counts, strict=True)
        places = product(*(range(place * count, (place + 1) * count) for place, count in counts))
        return FetchedInnerChunks(self, self.chain, dict(zip(places, parts, strict=True)), version)

    def _get_shard(self, key: str) -> tuple[Any, Any]:
        """Return a shard, in memory of its own, and its version where that comes with it."""
        return self._keys.store.get_into(key, Scratch(), self._most), None

    def inner_chunks_of(self, coords: Sequence[Coords], shard: Any) -> FetchedInnerChunks:
        """Return chunks of one shard whose bytes are here."""
        parts = self.index.cut(shard, self._numbers(coords))
        return FetchedInnerChunks(self, self.chain, dict(zip(coords, parts, strict=True)))

    def missing_inner_chunks(self, coords: Sequence[Coords]) -> FetchedInnerChunks:
        """Return chunks of one shard that is not there."""
        return FetchedInnerChunks(self, self.chain, dict.fromkeys(coords))

    def _from_ranges(self, key: str, numbers: Sequence[int]) -> list[Part]:
        """Return ranges that the index of the same version tells: the shard's stamp is the same before and after."""
        for _ in range(SHARD_TRIES):
            # the stamp is asked for before and after: index and ranges that lie between are of one version
            stamp, entries = self._index_now(key)
            if entries is None:
                self._keys.store.check_missing(key)
                return [None] * len(numbers)
            wanted = entries.reshape(-1, 2)[numbers].tolist()
            ranges = [(start, start + size) for start, size in wanted if start != MISSING]
            get_ranges = self._keys.store.get_ranges
            found: Sequence[Part] | None = (
                get_ranges(key, ranges) if len(ranges) == 1 else fetch_coalesced(partial(get_ranges, key), ranges)
            )
            if found is not None and (stamp is None or self._keys.stamp(key) == stamp):
                rest = iter(found)
                return [None if start == MISSING else next(rest) for start, _ in wanted]
        raise _replaced()

    def _index_now(self, key: str) -> tuple[object, Entries | None]:
        """Return the shard's stamp and its index. A shard's length and the index behind it may be of two versions:
        again."""
        for _ in range(SHARD_TRIES):
            stamp = self._keys.stamp(key)
            if stamp is None and self._keys.has_stamps:  # one that appears now would have no stamp to hold it to
                return None, None
            try:
                return stamp, self._read_index(key, stamp)
            except CorruptChunk:
                if stamp is None or self._keys.stamp(key) == stamp:
                    raise
        raise _replaced()

    def _read_index(self, key: str, stamp: object) -> Entries | None:
        known = self._entries.get(key)
        if known is not None and stamp is not None and known[0] == stamp:
            return known[1]
        total = self._keys.size(key)
        if total is None:
            return None
        size = self.index.nbytes
        span = (0, size) if self.index.location == "start" else (max(total - size, 0), total)
        found = self._keys.store.get_ranges(key, [span])
        if found is None:
            return None
        entries = self._parse(key, found[0], total)
        self._entries.remember(key, stamp, entries)
        return entries

    def _parse(self, key: str, data: Any, total: int) -> Entries:
        try:
            return self.index.parse(data, total)
        except HyperslabError as error:
            raise error.locate(url=self._keys.store.url, key=key) from error.__cause__

    @cached_property
    def stored_files(self) -> StoredFiles | None:
        """How the shards lie in files, where the engine reads them."""
        keys, chain, index = self._keys, self.chain, self.index
        if index.checksum is None or chain.engine_codecs is None:
            return None
        if self._most is None or index.most is None or max(self._most, index.most) >= 1 << 63:
            return None  # the engine's numbers have 64 bits
        layout = ShardLayout(index.counts, index.location == "start", index.checksum, self._most, index.most)
        return StoredFiles(partial(keys.store.open_folder, keys.folder), keys.key_of, chain.engine_codecs, layout)

    def _read_by_engine(
        self, single: SingleChunks, coords: Coords, within: Within | None, out: Block, known: object = None
    ) -> Found | None:
        """Read a chunk, or cells of it, by the index that the engine reads, or, of a long one, that is remembered."""
        if known is not None or self._chunks_per_shard < 3:  # such shards are fetched whole
            return None
        keys, counts = self._keys, self.index.counts
        key = keys.prefix + keys.key_of(tuple(map(floordiv, coords, counts)))
        if single.finds_members:
            number = sum(map(mul, map(mod, coords, counts), self._steps))
            return single.read(keys.store.locate(key), within, out, None, number, -1)
        stamp, entries = self._entries.get(key) or (None, None)
        if entries is None:
            try:
                stamp, entries = self._index_now(key)
            except HyperslabError:  # which Python raises, with the chunk's place
                return None
        if stamp is None or entries is None:
            return None
        start, size = entries[tuple(map(mod, coords, counts))].tolist()
        if start == MISSING:
            return None
        found = single.read(keys.store.locate(key), within, out, stamp, start, size)
        return None if found is None or found[1] is None else found  # a shard that is gone Python looks for once more

    def _decode_into(self, coords: Coords, out: Block) -> bool:
        return self.fetch([coords]).read_into(coords, out)

    # -- writing ----------------------------------------------------------------------------------------------------

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Replace inner chunks of one shard by one write; those of nothing but fill values are left out."""
        self.write_encoded(self.encoded(pairs).items(), durable=durable)

    def write_encoded(self, pairs: Iterable[tuple[Coords, object]], *, durable: bool) -> None:
        """Replace inner chunks of one shard by one write, as they are encoded; None leaves one out."""
        if encoded := dict(pairs):
            self._replace(list(encoded), list(encoded.values()), durable)

    def write_shard(self, coords: Coords, shard: memoryview, *, durable: bool) -> None:
        """Replace a shard, as the engine built it; an empty one is removed."""
        self._put_shard(self._keys.chunk_key(self.shard_of(coords)), shard or None, durable)

    def encoded(self, pairs: Iterable[tuple[Coords, Block]]) -> dict[Coords, object]:
        """Return inner chunks as they are stored; None for those of nothing but fill values."""
        encoded: dict[Coords, object] = {}

        def encode(pair: tuple[Coords, Block]) -> None:
            coords, block = pair
            # a copy of its own length: the memory that it was encoded in serves the next chunk
            encoded[coords] = None if is_filled_with(block, self._zero) else bytes(self.chain.encode(block))

        each_if_many(encode, pairs, self._keys.settings.threads)
        return encoded

    def erase_batch(self, coords: Sequence[Coords]) -> None:
        """Forget inner chunks of one shard by one write."""
        self._replace(coords, [None] * len(coords), self._keys.settings.durable)

    def _replace(self, coords: Sequence[Coords], values: Sequence[object], durable: bool) -> None:
        key, _ = self._locate(coords)
        old = None if self.is_whole_shard(coords) else self._keys.store.get(key)
        if old is None and not self.is_whole_shard(coords):
            self._keys.store.check_missing(key)
        shard = self.merge_shard(coords, values, old)
        self._put_shard(key, shard, durable)

    def _put_shard(self, key: str, shard: memoryview | None, durable: bool) -> None:
        if shard is not None:
            self._keys.put_many([(key, shard)], durable)
        elif self._keys.exists(key):
            self._keys.store.delete(key, durable=durable)
            self._keys.store.check_missing(key)  # a folder is not deleted

    def is_whole_shard(self, coords: Sequence[Coords]) -> bool:
        """Return True for chunks of one shard that are all that it has."""
        return len(coords) == self._chunks_per_shard

    def merge_shard(self, coords: Sequence[Coords], values: Sequence[object], old: object) -> memoryview | None:
        """Return the shard with some inner chunks replaced, valid until this thread makes another; None: it holds
        nothing."""
        parts = self._new_parts(self._locate(coords)[1], values, old)
        return None if all(part is None for part in parts) else self._join_shard(parts)

    def _new_parts(self, numbers: Sequence[int], values: Sequence[Any], old: Any) -> list[Part]:
        """Return the stored inner chunks of a shard with some of them replaced."""
        parts: list[Part] = (
            [None] * self._chunks_per_shard if old is None else self.index.cut(old, range(self._chunks_per_shard))
        )
        for number, value in zip(numbers, values, strict=True):
            parts[number] = value
        return parts

    def _join_shard(self, parts: Sequence[Part]) -> memoryview:
        """Return a shard of these inner chunks; valid until this thread joins again."""
        return self.index.join(parts, self._shard_buffer.reserve)

    # -- what is there ----------------------------------------------------------------------------------------------

    def locations(self) -> ChunkLocations | None:
        """Return where the inner chunks lie in their shards; None where these lie in no files."""
        if self.grid.outer is None or not self._keys.store.traits.has_places:
            return None
        found = list(self._keys.stored_places(self.grid.outer))
        shards = ((coords, *self._index_in(self._keys.chunk_key(coords), place)) for coords, place in found if place)
        is_inline = None in dict(found).values()  # a shard that stands in references
        return None if is_inline else locate_inner_chunks(self._spec, self.grid, self._inner_codecs, shards)

    def _index_in(self, key: str, place: ValuePlace) -> tuple[ValuePlace, Entries]:
        """Return the place of a shard, and the index that is in this version of it."""
        for _ in range(SHARD_TRIES):
            entries, after = self._index_now(key)[1], self._keys.store.place(key)
            if after is None or entries is None:
                raise Conflict("the shard was removed", url=self._keys.store.url, key=key)
            if after == place:
                return place, entries
            place = after
        raise _replaced()

    def stamp(self, coords: Coords) -> object:
        """Return what identifies the stored version of the chunk's shard."""
        return self._keys.stamp(self._keys.chunk_key(self.shard_of(coords)))

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the shards of these chunks against other writers."""
        return self._keys.lock({self.shard_of(each) for each in coords}, timeout)

    def stored_coords(self) -> Iterator[Coords]:
        """Yield the coordinates of every inner chunk that is written."""
        for shard_coords in self._keys.stored(len(self.grid.axes)):
            yield from self.stored_in(shard_coords)

    def stored_in(self, shard_coords: Coords) -> Iterator[Coords]:
        """Yield the coordinates of every inner chunk that is written in one shard."""
        _, entries = self._index_now(self._keys.chunk_key(shard_coords))
        if entries is None:
            return
        first = [place * count for place, count in zip(shard_coords, self.index.counts, strict=True)]
        for local in np.argwhere(entries[..., 0] != MISSING).tolist():  # of an index of 10**6 chunks few may be there
            yield tuple(map(add, first, local))

    def nbytes_stored(self) -> int:
        """Return bytes that all shards take."""
        return self._keys.stored_sizes(map(self._keys.chunk_key, self._keys.stored(len(self.grid.axes))))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Return bytes of these chunks within their shards, of which the indexes are read."""
        result, entries, known = 0, None, None
        for chunk in coords:
            shard_coords = self.shard_of(chunk)
            if shard_coords != known:
                known, (_, entries) = shard_coords, self._index_now(self._keys.chunk_key(shard_coords))
            if entries is not None:
                local = tuple(i % n for i, n in zip(chunk, self.index.counts, strict=True))
                result += 0 if int(entries[local][0]) == MISSING else int(entries[local][1])
        return result


def _replaced() -> Conflict:
    return Conflict("the shard is being replaced all the time", remedy="try again")


class CasShards(ShardedChunks):
    """Inner chunks of shards. A shard is read by its index and ranges of that very version, and swapped whole."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, outer: Grid, config: JsonMapping) -> None:
        super().__init__(keys, spec, outer, config)
        # of one shard at a time: the version is that of all that is fetched
        self.traits = extend_traits(self.traits, swaps=True, reads_stamps=True, fetches_across=False)

    # -- reading ----------------------------------------------------------------------------------------------------

    def fetch(self, coords: Sequence[Coords]) -> FetchedInnerChunks:
        """Get what is stored of these chunks of one shard, with the stamp of the version that it is of."""
        key, numbers = self._locate(coords)
        parts: Sequence[Part] = [None] * len(coords)
        stamp: object = None
        try:
            # few chunks: the index and their ranges; from half of the shard on it is fetched whole, by one request.
            # The version comes with the value, so that no second look is needed
            if 2 * len(coords) < self._chunks_per_shard:
                parts, stamp = self._parts_of_ranges(key, numbers)
            elif (version := self._keys.store.get_version(key, most=self._most)) is not None:
                parts, stamp = self.index.cut(version.data, numbers), version.stamp
        except HyperslabError as error:
            raise error.locate(url=self._keys.store.url, key=key) from error.__cause__
        return FetchedInnerChunks(self, self.chain, dict(zip(coords, parts, strict=True)), stamp)

    def _get_shard(self, key: str) -> tuple[Any, Any]:
        found = self._keys.store.get_version(key, most=self._most)
        return (None, None) if found is None else (found.data, found.stamp)

    def _parts_of_ranges(self, key: str, numbers: Sequence[int]) -> tuple[Sequence[Part], object]:
        """Return inner chunks of one version of a shard, by its index and their ranges, and the stamp of it."""
        store = self._keys.store
        for attempt in attempts(self._keys.settings.lock_timeout):
            with attempt:
                # a remembered index may be of an older version: ranges are asked for of that version alone
                known = self._entries.get(key)
                remembered = known is not None
                known = known or self._fetch_index(key)
                if known is None:
                    return [None] * len(numbers), None
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

    def _fetch_index(self, key: str) -> tuple[object, Entries] | None:
        size = self.index.nbytes
        part = (0, size) if self.index.location == "start" else (-size, 0)
        found = self._keys.store.get_version(key, part)
        if found is None:
            return None
        entries = self._parse(key, found.data, found.size)
        if not isinstance(found.stamp, Unversioned):  # whether it is still true could not be asked
            self._entries.remember(key, found.stamp, entries)
        return found.stamp, entries

    # -- writing ----------------------------------------------------------------------------------------------------

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], object]:
        """Return chunks of one shard, and the shard that they are of."""
        key, _ = self._locate(coords)
        version = self._keys.store.get_version(key, most=self._most)
        if version is None:
            return [None] * len(coords), None
        return decode_fetched(self.inner_chunks_of(coords, version.data), coords, self.grid, self._spec), version

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: Any) -> None:
        """Replace chunks of one shard if it is still the one that was read, else ``Conflict``."""
        values = [None if is_filled_with(block, self._zero) else bytes(self.chain.encode(block)) for _, block in pairs]
        self._keys.require_writable()
        key, numbers = self._locate([coords for coords, _ in pairs])
        data = self._join_shard(self._new_parts(numbers, values, None if expected is None else expected.data))
        self._keys.store.put_back(key, data, expected, durable=self._keys.settings.durable)

    def _replace(self, coords: Sequence[Coords], values: Sequence[object], durable: bool) -> None:
        self._keys.require_writable()
        key, numbers = self._locate(coords)
        # a shard that is replaced whole needs no look at the old one; nor may it be deleted: others may fill it
        if len(coords) == self._chunks_per_shard and any(value is not None for value in values):
            self._keys.put_many([(key, self._join_shard(self._new_parts(numbers, values, None)))], durable)
            return

        def change(old: Any) -> Any:
            is_empty = old is None and all(value is None for value in values)
            return None if is_empty else self._join_shard(self._new_parts(numbers, values, old))

        settings = self._keys.settings
        self._keys.store.update(key, change, timeout=settings.lock_timeout, durable=settings.durable, most=self._most)


def open_chunks(keys: ChunkKeys, spec: ArraySpec) -> ChunkSource:
    """Return the chunks under the keys of an array; Unsupported when they cannot be decoded.

    Shards are cut into their inner chunks where :func:`cut_into_shards` says so; others are decoded whole.
    """
    if spec.problem is not None:
        raise Unsupported(spec.problem)
    store = keys.store
    grid = Grid.of(spec.shape, spec.chunks)
    if cut_into_shards(spec, grid):
        return (CasShards if keys.uses_compare_and_swap else ShardedChunks)(keys, spec, grid, spec.codecs[0].config)
    alone = GatheredChunks if store.traits.gathers else KeyedChunks
    chunks = (CasChunks if keys.uses_compare_and_swap else alone)(keys, spec, grid)
    return UncompressedChunks(keys, spec, grid) if chunks.direct and store.traits.descriptors else chunks


def cut_into_shards(spec: ArraySpec, grid: Grid) -> bool:
    """Return True where each inner chunk of a shard is found by its index: ``sharding_indexed`` is the only codec of
    the array, and its shards have one size."""
    codecs = spec.codecs
    return len(codecs) == 1 and codecs[0].name == "sharding_indexed" and grid.fixed is not None
