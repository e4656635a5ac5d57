"""Chunks under keys of a store: what Zarr-like formats hand their arrays to, in place of a source of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.blosc import container
from hyperslab.codecs.chain import Chain, build_chain
from hyperslab.codecs.checksums import CRC32C, Checksum
from hyperslab.errors import HyperslabError
from hyperslab.formats.keys import ChunkKeys, fill_bytes, is_all
from hyperslab.model.dtypes import is_fixed
from hyperslab.model.spec import ArraySpec


class KeyedChunks:
    """One stored object per chunk, under a chain of codecs."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, grid: Grid) -> None:
        self._keys = keys
        self.concurrency = keys.concurrency
        self._grid = grid
        self._spec = spec
        self._fill = spec.fill_cell()
        # without a fill value, cells that are not there are not defined to all readers of Zarr v2
        self._zero = None if spec.fill_value is None else fill_bytes(self._fill)
        self._chains: dict[tuple[int, ...], Chain] = {}
        self._chain = self._chain_for(grid.fixed) if grid.fixed is not None else None

    @property
    def grid(self) -> Grid:
        """How the array is cut."""
        return self._grid

    @property
    def direct(self) -> bool:
        """Return whether every stored chunk is its bare cells."""
        return self._chain is not None and self._chain.direct

    def _chain_for(self, shape: tuple[int, ...]) -> Chain:
        if shape not in self._chains:
            cells = ChunkLayout(self._spec.dtype, shape, self._spec.fill_value)
            self._chains[shape] = build_chain(self._spec.codecs, cells)
        return self._chains[shape]

    def _chain_at(self, coords: Coords) -> Chain:
        return self._chain or self._chain_for(self._grid.chunk_shape(coords))

    def read_into(self, coords: Coords, out: Block) -> bool:
        """Decode the chunk into ``out``; False when it was never written."""
        chain = self._chain or self._chain_for(out.shape)
        return self._read(coords, chain.decoder(out), chain.most_stored)

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        """:meth:`read_into` of one block, for many chunks of its shape."""
        chain = self._chain or self._chain_for(out.shape)
        return partial(self._read, decode=chain.decoder(out), most=chain.most_stored)

    def _read(self, coords: Coords, decode: Callable[[Any], None], most: int | None) -> bool:
        keys = self._keys
        key = keys.prefix + keys.key_of(coords)
        scratch = keys.scratch
        try:  # keys.get, without its calls: this is done for every chunk
            data = keys.store.get(key) if scratch is None else keys.store.get_into(key, scratch, most)
            if data is None:
                return False
            decode(data)
        except HyperslabError as error:
            raise error.locate(url=keys.store.url, key=key) from error.__cause__
        return True

    def read(self, coords: Coords) -> Block | None:
        """The decoded chunk in memory of its own, or None when it was never written."""
        block = np.empty(self._grid.chunk_shape(coords), self._spec.numpy_dtype)
        return block if self.read_into(coords, block) else None

    def write(self, coords: Coords, block: Block) -> None:
        """Store one chunk."""
        self.write_many([(coords, block)], durable=self._keys.settings.durable)

    def write_many(self, pairs: Iterable[tuple[Coords, Block]], *, durable: bool) -> None:
        """Encode and store; a chunk of nothing but fill values is left out where none was stored before."""
        self._keys.put_many(self._encoded(pairs), durable)

    def _encoded(self, pairs: Iterable[tuple[Coords, Block]]) -> Iterator[tuple[str, Any]]:
        """Keys and stored bytes, one at a time: the memory of one chunk serves the next."""
        keys = self._keys
        for coords, block in pairs:
            key = keys.prefix + keys.key_of(coords)
            if not is_all(block, self._zero) or keys.exists(key):
                yield key, self._chain_at(coords).encode(block)

    @cached_property
    def container(self) -> Any:
        """Return what lies in the chunks, where each is one Blosc buffer, with a checksum or bare; None where it is
        not."""
        steps = {codec.name: codec.config for codec in self._spec.codecs}
        fixed = self._grid.fixed
        names = [name for name in steps if name not in ("bytes", "crc32c")]
        if fixed is None or names != ["blosc"] or steps.get("crc32c") or not is_fixed(self._spec.dtype):
            return None
        if list(steps) != [name for name in ("bytes", "blosc", "crc32c") if name in steps]:
            return None
        endian = steps.get("bytes", {}).get("endian")
        dtype = self._spec.numpy_dtype
        return container(dtype.newbyteorder(endian) if endian in ("little", "big") else dtype, fixed)

    @property
    def pads(self) -> bool:
        """A chunk at the edge is stored whole."""
        return True

    def raw(self, coords: Coords) -> bytes | None:
        """Return what is stored of a chunk, without its checksum, which is verified."""
        key = self._keys.prefix + self._keys.key_of(coords)
        data = self._keys.get(key)
        if data is None or self._checksum is None:
            return None if data is None else bytes(data)
        try:
            return bytes(self._checksum.decode(data, None))
        except HyperslabError as error:
            raise error.locate(url=self._keys.store.url, key=key) from error.__cause__

    @cached_property
    def _checksum(self) -> Checksum | None:
        """The checksum behind the compressor."""
        return CRC32C if self._spec.codecs and self._spec.codecs[-1].name == "crc32c" else None

    def put_raw(self, pairs: Iterable[tuple[Coords, bytes]], *, durable: bool) -> None:
        """Store chunks as they are, with a checksum where the documents ask for one."""
        keys, checksum = self._keys, self._checksum
        values = ((coords, data if checksum is None else checksum.encode(data)) for coords, data in pairs)
        keys.put_many(((keys.prefix + keys.key_of(coords), data) for coords, data in values), durable)

    def erase(self, coords: Coords) -> None:
        """Forget the chunk."""
        self.erase_many([coords])

    def erase_many(self, coords: Sequence[Coords]) -> None:
        """Forget chunks: the last one of each folder has the medium keep what was removed from it."""
        keys = [self._keys.prefix + self._keys.key_of(place) for place in coords]
        last = {key.rpartition("/")[0]: key for key in keys}
        for key in keys:
            durable = self._keys.settings.durable and last[key.rpartition("/")[0]] == key
            self._keys.store.delete(key, durable=durable)

    def stamp(self, coords: Coords) -> Any:
        """What identifies the stored version."""
        return self._keys.stamp(self._keys.prefix + self._keys.key_of(coords))

    def stored(self) -> Iterator[Coords]:
        """The coordinates of every chunk that is stored, in the order of their keys."""
        return self._keys.stored(len(self._grid.axes))

    def nbytes_stored(self) -> int:
        """Bytes that all chunks take."""
        return self.stored_sizes(self.stored())

    def lock(self, coords: Iterable[Coords], timeout: float | None) -> AbstractContextManager[None]:
        """Hold these chunks against other writers."""
        return self._keys.lock(coords, timeout)

    def stored_sizes(self, coords: Iterable[Coords]) -> int:
        """Bytes that these chunks take."""
        return self._keys.stored_sizes(self._keys.prefix + self._keys.key_of(place) for place in coords)
