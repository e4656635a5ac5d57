"""How the arrays of a collection are cut and encoded: shards, the chunks in them, codecs. Pure.

An Array is one shard, cut into shards only along unlimited dimensions; a VArray has a shard per tile. Chunks have the
lengths that the options of the collection say, or those that any new array gets; in a tile the nearest that divide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hyperslab.chunks.auto import CHUNK_BYTES, auto_chunks
from hyperslab.codecs.default import parse_codec
from hyperslab.errors import Unsupported
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.formats.zarr3.creation import new_array
from hyperslab.model.schemas import HDF5CompressionOpts, HDF5Options, VArraySchema
from hyperslab.model.schemas.options import check_options
from hyperslab.model.spec import ArraySpec, Codec

Lengths = tuple[int, ...]
_MOST_CHUNKS = 256
"""Chunks along an unlimited dimension in one shard, which is written whole with each that is appended."""
_BLOSC = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_FILTERS = {"lzf": "lzf", "szip": "szip", 307: "bzip2", 32000: "lzf", 32008: "bitshuffle", 32013: "zfp", 32017: "sz"}


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


def codecs_of(options: HDF5Options | None, dtype: np.dtype[np.generic]) -> tuple[Codec, ...]:
    """The codecs for the filter that the options name; the usual ones when there are no options. Unsupported."""
    filter = None if options is None else options.compression_opts
    if filter is None:
        return parse_codec("default", dtype)
    values = _values(filter)
    match filter.compression:
        case None:
            return ()
        case "gzip" | 1:
            return (Codec("gzip", {"level": int(values[0]) if values else 4}),)
        case 32015:
            return parse_codec({"name": "zstd", "configuration": {"level": int(values[0]) if values else 3}})
        case 32004:
            return (Codec("lz4", {"acceleration": 1}),)
        case 32001:
            return _blosc(values, dtype)
        case other:
            raise Unsupported(
                f"HDF5 filter {_FILTERS.get(other, other)!r} in the layout hyperslab",
                remedy='compress by gzip, zstd, lz4 or blosc, or choose layout="deker"',
            )


def _values(filter: HDF5CompressionOpts) -> Sequence[int | str]:
    values = filter.compression_opts
    return () if values is None else values if isinstance(values, tuple) else (values,)


def _blosc(values: Sequence[int | str], dtype: np.dtype[np.generic]) -> tuple[Codec, ...]:
    """Four numbers that the filter fills in, then level, shuffle and compressor."""
    numbers = [int(value) for value in values[4:7]]
    level, shuffle, name = numbers + [5, 1, 0][len(numbers) :]
    if name >= len(_BLOSC) or shuffle >= len(_SHUFFLES):
        raise Unsupported(f"Blosc filter with the values {tuple(values)}", remedy="see hdf5plugin.Blosc")
    config = {"cname": _BLOSC[name], "clevel": level, "shuffle": _SHUFFLES[shuffle]}
    return parse_codec({"name": "blosc", "configuration": config}, dtype)
