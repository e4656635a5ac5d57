"""Chunks under keys of a store, one object each: their keys and locks, how they are read, written and swapped.

:class:`KeyedChunks` goes through a chain of codecs, and :class:`UncompressedChunks` reads bare cells of plain files.
:class:`CasChunks` is for stores without locks (buckets): a chunk is put back only if it is still the version that was
read. Such a store tells the version with the value, so that nothing is asked before it is read.
"""

from __future__ import annotations

import os
import re
import stat
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import product
from math import prod
from operator import lt
from typing import Any
from zlib import crc32

import numpy as np

from hyperslab.chunks.engine import Found, SingleChunks, StoredFiles, has_engine
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.locations import ChunkLocations
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkReader, DecodingSource, SourceTraits, Within
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.blosc import container
from hyperslab.codecs.buffers import fill_cell_bytes, is_filled_with
from hyperslab.codecs.chain import Chain
from hyperslab.codecs.checksums import CRC32C, Checksum
from hyperslab.codecs.registry import build_chain
from hyperslab.errors import CorruptChunk, HyperslabError, ReadOnly, StorageError, Unsupported
from hyperslab.formats.zarr.locations import locate_values
from hyperslab.model.dtypes import is_fixed
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Scratch, Stamp, Store, StoreTraits
from hyperslab.stores.requests import each_request
from hyperslab.stores.stored_file import ValuePlace
from hyperslab.stores.system import preadv

KeyOf = Callable[[Coords], str]
"""A key rule: it returns the key of a chunk, below its array's folder, by the chunk's coordinates."""

# As many as a 64-bit integer has: a longer number is no chunk's.
MOST_DIGITS = 19
_NUMBERS = re.compile(rf"(?:0|[1-9][0-9]{{0,{MOST_DIGITS - 1}}})(?![0-9])")


def coords_of_key(key_of: KeyOf, ndim: int, key: str) -> Coords | None:
    """Return the coordinates, within the grid or not, whose key is exactly ``key``; None when there are none.

    They are the last ``ndim`` numbers of the key. The rule alone says which spelling is right, whoever's rule it is.
    """
    numbers = tuple(map(int, _NUMBERS.findall(key)))
    coords = numbers[len(numbers) - ndim :]
    return coords if len(numbers) >= ndim and key_of(coords) == key else None


@lru_cache(maxsize=32)  # they are the same for all arrays of a store
def _source_traits(traits: StoreTraits, in_files: bool) -> SourceTraits:
    return SourceTraits(
        concurrency=traits.concurrency,
        stamped=traits.stamped,
        locks=traits.locks_chunks,
        lists_chunks=True,
        in_files=in_files,
        transacts=traits.transacts,
    )


@lru_cache(maxsize=32)
def extend_traits(traits: SourceTraits, **more: bool) -> SourceTraits:
    """Return traits of a source with more of them set."""
    return replace(traits, **more)


_FIRST_ROOM = 4096
"""Bytes that a stored chunk is read into before its size is known: more than one of few cells takes."""


class ChunkKeys:
    """Where one array's chunks lie: its store, folder and key rule, with the locks that guard them.

    ``stamp(key)``: what identifies the stored version; None when missing, or always where the store cannot tell
    (``has_stamps``). ``uses_compare_and_swap``: True if there are versions to compare in place of locks. ``guard``
    raises where the array is not the one any more that was opened, ``look`` does where there are no locks.
    """

    guard: Callable[[], None] | None = None
    look: Callable[[], None] | None = None

    def __init__(self, store: Store, folder: str, key_of: KeyOf, settings: Settings) -> None:
        self.store = store
        self.folder = folder
        self.prefix = f"{folder}/" if folder else ""
        self.key_of = key_of
        self.settings = settings
        traits = store.traits
        self.has_stamps = traits.stamped
        self.stamp: Callable[[str], Any] = store.stamp if traits.stamped else lambda key: None
        self.uses_compare_and_swap = traits.swaps and not traits.locks_chunks
        in_files = traits.descriptors and has_engine()  # without it no read asks for more
        self.source_traits = _source_traits(traits, in_files)
        """What the store makes of a source of these chunks, whatever they are."""

    @cached_property
    def scratch(self) -> Scratch:
        """One buffer per thread, which serves all chunks."""
        return Scratch(_FIRST_ROOM)

    def chunk_key(self, coords: Coords) -> str:
        """Return the key of a chunk."""
        return self.prefix + self.key_of(coords)

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold the chunks' byte ranges, :meth:`guarded`; a range follows from the key alone, so it stays when the array
        grows."""
        # ascending, so that two writers of the same chunks never wait for one another; writers of chunks whose keys
        # have one checksum queue without need, which is rare and does no harm
        slots = sorted({crc32(self.key_of(each).encode()) for each in coords})
        return self.guarded(self.store.lock_chunks(self.folder, slots, timeout, self.guard))

    @contextmanager
    def guarded(self, lock: AbstractContextManager[None]) -> Iterator[None]:
        """Hold a lock for the block; of an array with a guard, NodeNotFound or Conflict where it is not there, before
        or after the block."""
        guard = self.guard or (lambda: None)
        with lock:
            guard()
            try:
                yield
            except HyperslabError:
                guard()  # the folder went while it was written into
                raise
            # Once more, for who removes an array may wait for no writer: what the block wrote may lie in a folder that
            # the write itself has made anew. Within the lock, for who waits for it may move the array next.
            guard()

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        """Have what the block writes show together, where the store can."""
        return self.store.transaction(timeout)

    def get(self, key: str, most: int | None = None) -> Any:
        """Return the whole stored value, in the calling thread's buffer where the store can; None when missing.

        One of more than ``most`` bytes is not read into a buffer: ``CorruptChunk``.
        """
        return self.store.get_into(key, self.scratch, most)

    def size(self, key: str) -> int | None:
        """Return bytes stored under the key; None when missing."""
        return self.store.size(key)

    def put_many(self, pairs: Iterable[tuple[str, Any]], durable: bool) -> None:
        """Store encoded chunks by one group commit where the store has it."""
        self.require_writable()
        self.store.put_many(pairs, durable=durable)

    def require_writable(self) -> None:
        """Raise ReadOnly when the store takes no writes, NodeNotFound where a look shows that the array is gone."""
        if self.store.read_only:
            raise ReadOnly("the store is read-only", url=self.store.url, remedy="open it with mode='r+'")
        if self.look is not None:
            self.look()

    def stored_sizes(self, keys: Iterable[str]) -> int:
        """Return bytes stored under the keys."""
        return sum(self.size(key) or 0 for key in keys)

    def stored(self, ndim: int) -> Iterator[Coords]:
        """Yield the coordinates whose keys are in the store."""
        for key in self.store.list(self.folder):
            coords = self.coords_of(key[len(self.prefix) :], ndim)
            if coords is not None:
                yield coords

    def coords_of(self, tail: str, ndim: int) -> Coords | None:
        """Return the coordinates whose key below the folder is ``tail``; None when there are none."""
        return coords_of_key(self.key_of, ndim, tail)

    def stored_places(self, grid: Grid) -> Iterator[tuple[Coords, ValuePlace | None]]:
        """Yield the coordinates of the stored chunks of a grid, and where each lies; None for one in no file."""
        try:
            for key, place in self.store.places(self.folder):
                coords = self.coords_of(key[len(self.prefix) :], len(grid.axes))
                if coords is not None and all(map(lt, coords, grid.counts)):
                    yield coords, place
        except Unsupported:  # a web server that lists nothing
            every = list(grid)
            found = each_request([partial(self.store.place, self.chunk_key(coords)) for coords in every])
            yield from ((coords, place) for coords, place in zip(every, found, strict=True) if place is not None)

    def exists(self, key: str) -> bool:
        """Return True where something lies under the key, be it no file."""
        return self.size(key) is not None or self.store.stray_at(key) is not None


class StoredChunks(DecodingSource):
    """Chunks under keys: single ones are read, written and erased as batches of one.

    A single one that lies in a file is read by the engine in C, where that knows how; what it leaves is decoded in
    Python.
    """

    _keys: ChunkKeys
    _spec: ArraySpec
    _single: SingleChunks | None

    @abstractmethod
    def _read_by_engine(
        self, single: SingleChunks, coords: Coords, within: Within | None, out: Block, known: object = None
    ) -> Found | None:
        """Read a chunk, or cells of it, and its stamp, unless that is ``known``; None where that is left to Python."""

    @abstractmethod
    def _decode_into(self, coords: Coords, out: Block) -> bool:
        """Do as :meth:`read_into`, in Python."""

    def _decode_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Do as :meth:`read_part`, in Python."""
        return super().read_part(coords, within, out)

    def read_into(self, coords: Coords, out: Block) -> bool:
        single = self._single
        if single is not None and (found := self._read_by_engine(single, coords, None, out)) is not None:
            return found[1] is not None
        return self._decode_into(coords, out)

    def read_part(self, coords: Coords, within: Within, out: Block) -> bool:
        single = self._single
        if single is not None and (found := self._read_by_engine(single, coords, within, out)) is not None:
            return found[1] is not None
        return self._decode_part(coords, within, out)

    def read_newer(self, coords: Coords, known: Stamp | None = None) -> tuple[Block | None, Stamp | None]:
        single = self._single
        if single is not None:
            block = np.empty(single.shape, single.dtype)
            if (found := self._read_by_engine(single, coords, None, block, known)) is not None:
                version = found[1]
                return (None if version is None or version == known else block), version
        newer, stamp = super().read_newer(coords, known)
        if stamp is None:
            self._keys.store.check_missing(
                self._keys.chunk_key(self.grid.outer_of(coords) if self.grid.outer else coords)
            )
        return newer, stamp

    def transaction(self, timeout: float | None) -> AbstractContextManager[None]:
        """Have what the block writes show together, where the store can."""
        return self._keys.transaction(timeout)

    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk; others that lie in the same value are kept as they are stored."""
        self.write_batch([(coords, block)], durable=self._keys.settings.durable)

    def erase(self, coords: Coords) -> None:
        self.erase_batch([coords])

    def stored_value(self, outer: Coords) -> tuple[Store, str] | None:
        """Return the store and the key of a chunk, or of a shard."""
        return self._keys.store, self._keys.chunk_key(outer)


class KeyedChunks(StoredChunks):
    """One stored object per chunk, under a chain of codecs."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, grid: Grid) -> None:
        self._keys = keys
        self.traits = keys.source_traits
        self.grid = grid
        self._spec = spec
        self._chains: dict[tuple[int, ...], Chain] = {}
        self._chain = self.chain_for(grid.fixed) if grid.fixed is not None else None
        self.direct = self._chain is not None and self._chain.direct
        """True where every stored chunk is its bare cells."""
        self._single = self._chain.single_reads() if self._chain is not None and self.traits.in_files else None

    @cached_property
    def _zero(self) -> bytes | None:
        # without a fill value, cells that are not there are not defined to all readers of Zarr v2
        return None if self._spec.fill_value is None else fill_cell_bytes(self._spec.fill_cell())

    def chain_for(self, shape: tuple[int, ...]) -> Chain:
        """Return the codecs of chunks of this shape."""
        if shape not in self._chains:
            cells = ChunkLayout(self._spec.dtype, shape, self._spec.fill_value)
            self._chains[shape] = build_chain(self._spec.codecs, cells)
        return self._chains[shape]

    def _chain_at(self, coords: Coords) -> Chain:
        return self._chain or self.chain_for(self.grid.chunk_shape(coords))

    def _read_by_engine(
        self, single: SingleChunks, coords: Coords, within: Within | None, out: Block, known: object = None
    ) -> Found | None:
        keys = self._keys
        return single.read(keys.store.locate(keys.prefix + keys.key_of(coords)), within, out, known)

    def _decode_into(self, coords: Coords, out: Block) -> bool:
        chain = self._chain or self.chain_for(out.shape)
        return self._read(coords, partial(chain.decode_into, out=out), chain.most_stored)

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        chain = self._chain or self.chain_for(out.shape)
        return partial(self._read, decode=chain.decoder(out), most=chain.most_stored)

    def _read(self, coords: Coords, decode: Callable[[Any], None], most: int | None) -> bool:
        keys = self._keys
        key = keys.prefix + keys.key_of(coords)
        try:  # keys.get, without its calls: this is done for every chunk
            data = keys.store.get_into(key, keys.scratch, most)
            if data is None:
                keys.store.check_missing(key)
                return False
            decode(data)
        except HyperslabError as error:
            raise error.locate(url=keys.store.url, key=key) from error.__cause__
        return True

    @cached_property
    def stored_files(self) -> StoredFiles | None:
        keys, chain = self._keys, self._chain
        if chain is None or chain.engine_codecs is None:
            return None
        return StoredFiles(partial(keys.store.open_folder, keys.folder), keys.key_of, chain.engine_codecs)

    def write_encoded(self, pairs: Iterable[tuple[Coords, object]], *, durable: bool) -> None:
        """Store chunks as the engine encoded them; those of fill values as :meth:`write_batch` does."""
        self._keys.put_many(self._with_filled(pairs), durable)

    def _with_filled(self, pairs: Iterable[tuple[Coords, object]]) -> Iterator[tuple[str, object]]:
        keys = self._keys
        for coords, data in pairs:
            key = keys.prefix + keys.key_of(coords)
            if data is not None:
                yield key, data
            elif self._zero is None or keys.exists(key):
                cells = np.full(self.grid.chunk_shape(coords), self._spec.fill_cell())
                yield key, self._chain_at(coords).encode(cells)

    def write_batch(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Encode and store; a chunk of nothing but fill values is left out where none was stored before."""
        self._keys.put_many(self._encoded(pairs), durable)

    def _encoded(self, pairs: Iterable[tuple[Coords, Block]]) -> Iterator[tuple[str, object]]:
        """Yield keys and stored bytes, one at a time: the memory of one chunk serves the next."""
        keys = self._keys
        for coords, block in pairs:
            key = keys.prefix + keys.key_of(coords)
            # what was stored before must be replaced even by fill values; else the missing chunk says the same
            if not is_filled_with(block, self._zero) or keys.exists(key):
                yield key, self._chain_at(coords).encode(block)

    @cached_property
    def blosc_container(self) -> Hashable | None:
        """Return what lies in the chunks, where each is one Blosc buffer, with a checksum or bare; None where it is
        not."""
        steps = {codec.name: codec.config for codec in self._spec.codecs}
        fixed = self.grid.fixed
        names = [name for name in steps if name not in ("bytes", "crc32c")]
        if fixed is None or names != ["blosc"] or steps.get("crc32c") or not is_fixed(self._spec.dtype):
            return None
        if list(steps) != [name for name in ("bytes", "blosc", "crc32c") if name in steps]:
            return None
        endian = steps.get("bytes", {}).get("endian")
        dtype = self._spec.numpy_dtype
        return container(dtype.newbyteorder(endian) if endian in ("little", "big") else dtype, fixed)

    def read_blosc(self, coords: Coords) -> bytes | None:
        """Return what is stored of a chunk, without its checksum, which is verified."""
        key = self._keys.chunk_key(coords)
        data = self._keys.get(key)
        checksum = self._checksum
        if data is None:
            self._keys.store.check_missing(key)
            return None
        try:
            return bytes(data if checksum is None else checksum.decode(data, None))
        except HyperslabError as error:
            raise error.locate(url=self._keys.store.url, key=key) from error.__cause__

    @cached_property
    def _checksum(self) -> Checksum | None:
        """Return the checksum behind the compressor."""
        return CRC32C if self._spec.codecs and self._spec.codecs[-1].name == "crc32c" else None

    def write_blosc(self, pairs: Iterable[tuple[Coords, bytes]], *, durable: bool) -> None:
        """Store chunks as they are, with a checksum where the documents ask for one."""
        keys, checksum = self._keys, self._checksum
        values = ((coords, data if checksum is None else checksum.encode(data)) for coords, data in pairs)
        keys.put_many(((keys.chunk_key(coords), data) for coords, data in values), durable)

    def erase_batch(self, coords: Sequence[Coords]) -> None:
        """Forget chunks."""
        keys = [self._keys.chunk_key(each) for each in coords]
        # one flush of a folder makes all removals from it durable: only the last one of each folder asks for it
        last = {key.rpartition("/")[0]: key for key in keys}
        for key in keys:
            durable = self._keys.settings.durable and last[key.rpartition("/")[0]] == key
            self._keys.store.delete(key, durable=durable)

    def stamp(self, coords: Coords) -> object:
        """Return what identifies the stored version; None for a chunk that is missing."""
        return self._keys.stamp(self._keys.chunk_key(coords))

    def stored_coords(self) -> Iterator[Coords]:
        """Return the coordinates of every chunk that is stored, in the order of their keys."""
        return self._keys.stored(len(self.grid.axes))

    def nbytes_stored(self) -> int:
        return self.stored_sizes(self.stored_coords())

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        return self._keys.lock(coords, timeout)

    def locations(self) -> ChunkLocations | None:
        """Return the files or objects that the chunks are; None where chunks vary in shape, or lie in no files."""
        if self.grid.fixed is None or not self._keys.store.traits.has_places:
            return None
        return locate_values(self._spec, self.grid.fixed, self._keys.stored_places(self.grid))

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        return self._keys.stored_sizes(map(self._keys.chunk_key, coords))


SLAB_BYTES = 256 << 10  # bytes read at a time when cells are copied on: they are still in the processor's cache then


class UncompressedChunks(KeyedChunks):
    """:class:`KeyedChunks` without codecs in a store whose values are files."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, grid: Grid) -> None:
        super().__init__(keys, spec, grid)
        self.traits = extend_traits(self.traits, reads_parts=True)

    def _decode_into(self, coords: Coords, out: Block) -> bool:
        return self._read_flat(coords, out.reshape(-1).view(np.uint8).data)

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        return partial(self._read_flat, flat=out.reshape(-1).view(np.uint8).data)

    def _read_flat(self, coords: Coords, flat: memoryview) -> bool:
        keys = self._keys
        key = keys.prefix + keys.key_of(coords)
        try:
            size = keys.store.read_exactly(key, flat)
            if size is None:
                keys.store.check_missing(key)
            elif size != flat.nbytes:
                raise _wrong_size(flat.nbytes, size)
        except HyperslabError as error:
            raise error.locate(url=keys.store.url, key=key) from error.__cause__
        return size is not None

    def _decode_part(self, coords: Coords, within: Within, out: Block) -> bool:
        """Read the cells ``within`` (slices, steps forward) into ``out``, slab by slab; False when never written."""
        key, store = self._keys.chunk_key(coords), self._keys.store
        descriptor = store.descriptor(key)
        if descriptor is None:
            store.check_missing(key)
            return False
        shape = self.grid.chunk_shape(coords)
        try:
            expected = prod(shape) * out.dtype.itemsize
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):  # a folder is no value
                store.check_missing(key)
                return False
            if status.st_size != expected:
                raise _wrong_size(expected, status.st_size).locate(url=store.url, key=key)
            _read_slabs(descriptor, shape, within, out)
        except HyperslabError:  # some are an OSError too
            raise
        except OSError as error:
            raise StorageError(f"cannot read: {error.strerror}", url=store.url, key=key) from error
        finally:
            os.close(descriptor)
        return True


def _wrong_size(expected: int, found: int) -> CorruptChunk:
    return CorruptChunk("an uncompressed chunk has the wrong length", expected=f"{expected} bytes", found=found)


def _read_slabs(descriptor: int, shape: tuple[int, ...], within: tuple[Any, ...], out: Block) -> None:
    """Read rows of the first axis whose rows are small, as many as a slab holds; the axes before it one index at a
    time."""
    itemsize = out.dtype.itemsize
    # the first axis of which one row fits a slab
    axis = next((k for k in range(len(shape)) if prod(shape[k + 1 :]) * itemsize <= SLAB_BYTES), len(shape) - 1)
    row = prod(shape[axis + 1 :]) * itemsize
    rows = within[axis]
    step = rows.step or 1
    taken = max(1, SLAB_BYTES // (row * step))  # rows of the result in one slab
    scratch = np.empty((min(taken * step, shape[axis]), *shape[axis + 1 :]), out.dtype)
    raw = scratch.reshape(-1).view(np.uint8).data
    rest = within[axis + 1 :]
    count = len(range(rows.start, rows.stop, step))
    for place in product(*(range(len(range(part.start, part.stop, part.step or 1))) for part in within[:axis])):
        base = 0
        for part, i, length in zip(within, place, shape, strict=False):
            base = base * length + part.start + i * (part.step or 1)
        base = (base * shape[axis] + rows.start) * row
        target = out[place]
        for done in range(0, count, taken):
            some = min(taken, count - done)
            span = ((some - 1) * step + 1) * row
            if preadv(descriptor, [raw[:span]], base + done * step * row) != span:
                raise CorruptChunk("the chunk became shorter while it was read", expected=f"{span} bytes")
            target[done : done + some] = scratch[: (some - 1) * step + 1 : step][(slice(None), *rest)]


# -- stores without locks ----------------------------------------------------------------------------------------------


def decode_fetched(stored: ChunkReader, coords: Sequence[Coords], grid: Grid, spec: ArraySpec) -> list[Block | None]:
    """Return chunks that were fetched, each in memory of its own; None for one that was never written."""
    blocks: list[Block | None] = []
    for each in coords:
        block = np.empty(grid.chunk_shape(each), spec.numpy_dtype)
        blocks.append(block if stored.read_into(each, block) else None)
    return blocks


class CasChunks(KeyedChunks):
    """:class:`KeyedChunks` in a store without locks: a chunk is put back if it is still the version that was read."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, grid: Grid) -> None:
        super().__init__(keys, spec, grid)
        self.traits = extend_traits(self.traits, swaps=True, reads_stamps=True)

    def _read(self, coords: Coords, decode: Callable[[Any], None], most: int | None) -> bool:
        key, store = self._keys.chunk_key(coords), self._keys.store
        try:
            found = store.get_version(key, most=most)
            if found is None:
                return False
            decode(found.data)
        except HyperslabError as error:
            raise error.locate(url=store.url, key=key) from error.__cause__
        return True

    def read_newer(self, coords: Coords, known: object = None) -> tuple[Block | None, object]:
        """Return the chunk and its stamp, by one request; no chunk when the stamp is ``known``, nor stamp when
        missing."""
        key, store = self._keys.chunk_key(coords), self._keys.store
        try:
            chain = self._chain_at(coords)
            found = store.get_version(key, unless=known, most=chain.most_stored)
            if found is None:
                return None, None
            # the store answers without the value where its stamp is the known one
            if found.data is None:
                return None, known
            block = np.empty(self.grid.chunk_shape(coords), self._spec.numpy_dtype)
            chain.decode_into(found.data, out=block)
        except HyperslabError as error:
            raise error.locate(url=store.url, key=key) from error.__cause__
        return block, found.stamp

    def read_stamped(self, coords: Sequence[Coords]) -> tuple[list[Block | None], object]:
        (single,) = coords
        block, stamp = self.read_newer(single)
        return [block], stamp

    def swap(self, pairs: Sequence[tuple[Coords, Block]], expected: object) -> None:
        ((coords, block),) = pairs
        keys = self._keys
        keys.require_writable()
        data = self._chain_at(coords).encode(block)
        keys.store.put_if(keys.chunk_key(coords), data, expected, durable=keys.settings.durable)
