"""Chunks under keys of a store that gives many values by one call: those of a batch are fetched together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import Block, ChunkReader
from hyperslab.errors import HyperslabError
from hyperslab.formats.zarr.chunks import ChunkKeys, KeyedChunks, extend_traits
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import too_long


class GatheredChunks(KeyedChunks):
    """Chunks that are fetched many at a time."""

    def __init__(self, keys: ChunkKeys, spec: ArraySpec, grid: Grid) -> None:
        super().__init__(keys, spec, grid)
        self.traits = extend_traits(self.traits, fetches=True)

    def fetch(self, coords: Sequence[Coords]) -> ChunkReader:
        """Get the stored values of these chunks by one call."""
        if len(coords) == 1:
            return self
        keys = [self._keys.chunk_key(each) for each in coords]
        pairs = zip(keys, self._keys.store.get_many(keys), strict=True)
        return GatheredValues(self, dict(zip(coords, pairs, strict=True)))

    def decode(self, key: str, value: Any, shape: tuple[int, ...], decode: Callable[[Any], None]) -> bool:
        """Decode a fetched value of a chunk of this shape; False where it has none."""
        url = self._keys.store.url
        most = self.chain_for(shape).most_stored
        try:
            if isinstance(value, HyperslabError):
                raise value
            if value is None:
                return False
            if most is not None and len(value) > most:
                raise too_long(url, key, most, len(value))
            decode(value)
        except HyperslabError as error:
            raise error.locate(url=url, key=key) from error.__cause__
        return True


class GatheredValues(ChunkReader):
    """Values of chunks that were fetched together, each with its key."""

    def __init__(self, chunks: GatheredChunks, values: Mapping[Coords, tuple[str, Any]]) -> None:
        self.grid = chunks.grid
        self._chunks = chunks
        self._values = values

    def read_into(self, coords: Coords, out: Block) -> bool:
        return self.reader(out)(coords)

    def reader(self, out: Block) -> Callable[[Coords], bool]:
        decode = self._chunks.chain_for(out.shape).decoder(out)

        def read(coords: Coords) -> bool:
            return self._chunks.decode(*self._values[coords], out.shape, decode)

        return read
