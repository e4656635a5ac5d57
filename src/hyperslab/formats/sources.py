"""Which chunk source serves an array whose chunks lie under keys of a store."""

from __future__ import annotations

from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import Unsupported
from hyperslab.formats.cas_chunks import CasChunks, SwappedShards
from hyperslab.formats.keyed import KeyedChunks
from hyperslab.formats.keys import ChunkKeys, KeyOf
from hyperslab.formats.sharded import ShardedChunks
from hyperslab.formats.uncompressed import UncompressedChunks
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store


def open_chunks(store: Store, folder: str, key_of: KeyOf, spec: ArraySpec, settings: Settings) -> ChunkSource:
    """The chunks of the array whose keys are ``folder/`` + ``key_of(coords)``; Unsupported when they cannot be decoded.

    Shards are cut into their inner chunks where :func:`cut_into_shards` says so; others are decoded whole.
    """
    if spec.problem is not None:
        raise Unsupported(spec.problem)
    keys = ChunkKeys(store, folder, key_of, settings)
    grid = Grid.of(spec.shape, spec.chunks)
    if cut_into_shards(spec, grid):
        return (SwappedShards if keys.swaps else ShardedChunks)(keys, spec, grid, spec.codecs[0].config)
    if keys.swaps:
        return CasChunks(keys, spec, grid)
    chunks = KeyedChunks(keys, spec, grid)
    return UncompressedChunks(keys, spec, grid) if chunks.direct and hasattr(store, "descriptor") else chunks


def cut_into_shards(spec: ArraySpec, grid: Grid) -> bool:
    """Return whether each inner chunk of a shard is found by its index: ``sharding_indexed`` is the only codec of
    the array, and its shards have one size.
    """
    return [codec.name for codec in spec.codecs] == ["sharding_indexed"] and grid.fixed is not None
