"""How the arrays of a collection are cut and encoded: shards, the chunks in them, codecs. Pure.

An Array is one shard, cut into shards only along unlimited dimensions; a VArray has a shard per tile. Chunks have the
lengths that the options of the collection say, or those that any new array gets; in a tile the nearest that divide it.
"""

from __future__ import annotations

from math import prod

from hyperslab.chunks.auto import CHUNK_BYTES, auto_chunks
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.formats.hdf5_filters import codecs_of
from hyperslab.formats.zarr3.document import new_array
from hyperslab.model.schemas import VArraySchema
from hyperslab.model.schemas.options import check_options
from hyperslab.model.spec import ArraySpec

Lengths = tuple[int, ...]
_MOST_CHUNKS = 256
"""Chunks along an unlimited dimension in one shard, which is written whole with each that is appended."""


def new_spec(document: CollectionDocument) -> ArraySpec:
    """A new array of the collection, without attributes and labels; SchemaError, Unsupported."""
    schema = document.schema
    chunks, shards = cuts(document)
    wish = ArraySpec(
        shape=schema.shape,
        dtype=schema.dtype,
        chunks=chunks,
        dims=tuple(dimension.name for dimension in schema.dimensions),
        codecs=codecs_of(document.options, schema.dtype),
        fill_value=schema.fill_value,
        layout={"shards": shards},
    )
    return new_array(wish)


def cuts(document: CollectionDocument) -> tuple[Lengths, Lengths]:
    """The lengths of a chunk and of a shard."""
    schema = document.schema
    item = schema.dtype.itemsize
    wanted = None if document.options is None else document.options.chunks
    tiles = isinstance(schema, VArraySchema)
    lengths = schema.arrays_shape if isinstance(schema, VArraySchema) else schema.shape
    chunks = wanted if isinstance(wanted, tuple) else auto_chunks(lengths, item)
    if document.options is not None:
        check_options(document.options, _at_least(lengths, chunks))
    if tiles:
        return tuple(map(_divisor, lengths, chunks)), lengths
    shards = [-(-length // chunk) * chunk or chunk for length, chunk in zip(lengths, chunks, strict=True)]
    open_axes = [axis for axis, length in enumerate(lengths) if not length]
    for axis in open_axes[:1]:
        while 2 * prod(shards) * item <= CHUNK_BYTES and shards[axis] < _MOST_CHUNKS * chunks[axis]:
            shards[axis] *= 2
    return chunks, tuple(shards)


def _at_least(lengths: Lengths, chunks: Lengths) -> Lengths:
    """The lengths, with room for a chunk along unlimited dimensions."""
    if len(lengths) != len(chunks):
        return lengths
    return tuple(length or chunk for length, chunk in zip(lengths, chunks, strict=True))


def _divisor(length: int, chunk: int) -> int:
    """The whole part of a length that is nearest to ``chunk``, by their ratio."""
    found = [chunk] if length % chunk == 0 else _divisors(length)
    return min(found, key=lambda part: (max(part / chunk, chunk / part), part))


def _divisors(length: int) -> list[int]:
    small = [part for part in range(1, int(length**0.5) + 1) if length % part == 0]
    return small + [length // part for part in small]
