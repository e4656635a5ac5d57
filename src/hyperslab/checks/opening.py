"""Which kind of stored objects an array has."""

from __future__ import annotations

from hyperslab.checks.objects import ArrayObjects, Chunks
from hyperslab.checks.shards import Shards
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.settings import Settings
from hyperslab.formats.zarr.chunks import ChunkKeys, KeyOf
from hyperslab.formats.zarr.shards import cut_into_shards
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import Store


def open_objects(store: Store, path: str, key_of: KeyOf, spec: ArraySpec, settings: Settings) -> ArrayObjects:
    """The objects of an array; the errors of a chain that cannot be built are those of opening the array."""
    keys = ChunkKeys(store, path, key_of, settings)
    grid = Grid.of(spec.shape, spec.chunks)
    return (Shards if cut_into_shards(spec, grid) else Chunks)(keys, spec, grid)
