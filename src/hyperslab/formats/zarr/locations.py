"""Where chunks under keys, and inner chunks of shards, lie in files that others can open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.locations import ChunkLocations
from hyperslab.codecs.sharding import MISSING, Entries
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType
from hyperslab.model.spec import ArraySpec, Codec
from hyperslab.stores.stored_file import StoredFile, ValuePlace


def plain_chain(spec: ArraySpec, codecs: Sequence[Codec]) -> tuple[NumpyDType, tuple[Codec, ...]]:
    """Return the type of the stored cells with their byte order, and the codecs with a ``bytes`` that says none."""
    dtype = spec.numpy_dtype
    for codec in codecs:
        endian = codec.config.get("endian") if codec.name == "bytes" else None
        if endian in ("little", "big"):
            dtype = dtype.newbyteorder(endian)
    return dtype, tuple(Codec("bytes") if codec.name == "bytes" else codec for codec in codecs)


def locate_values(
    spec: ArraySpec, shape: tuple[int, ...], found: Iterable[tuple[Coords, ValuePlace | None]]
) -> ChunkLocations:
    """Return chunks of one shape, each of which is a value; odd are those that lie in no file."""
    pairs: list[tuple[Coords, ValuePlace]] = []
    inline: list[Coords] = []
    for each, place in found:
        if place is None:
            inline.append(each)
        else:
            pairs.append((each, place))
    numbers: dict[StoredFile, int] = {}
    which = [numbers.setdefault(file, len(numbers)) for _, (file, _, _) in pairs]
    spans = np.array([place[1:] for _, place in pairs], np.int64).reshape(len(pairs), 2)
    coords = np.array([each for each, _ in pairs], np.int64).reshape(len(pairs), len(shape))
    dtype, codecs = plain_chain(spec, spec.codecs)
    return ChunkLocations(
        list(numbers),
        shape,
        dtype,
        codecs,
        coords,
        np.array(which, np.int32),
        spans[:, 0],
        spans[:, 1],
        np.array(inline, np.int64).reshape(len(inline), len(shape)),
    )


def locate_inner_chunks(
    spec: ArraySpec,
    grid: Grid,
    codecs: Sequence[Codec],
    shards: Iterable[tuple[Coords, ValuePlace, Entries]],
) -> ChunkLocations:
    """Return the inner chunks of shards, by the place and the index of each."""
    shape = grid.fixed or ()
    coords: list[Values] = [np.zeros((0, len(shape)), np.int64)]
    spans: list[Values] = [np.zeros((0, 2), np.int64)]
    numbers: list[Values] = [np.zeros(0, np.int32)]
    files: list[StoredFile] = []
    for shard, (file, offset, _), entries in shards:
        counts = entries.shape[:-1]
        found = entries.reshape(-1, 2)
        stored = found[:, 0] != MISSING
        inner = np.indices(counts).reshape(len(counts), -1).T[stored]
        coords.append(inner + np.array(shard) * np.array(counts))
        spans.append(found[stored].astype(np.int64) + np.array([offset, 0]))
        numbers.append(np.full(len(inner), len(files), np.int32))
        files.append(file)
    every, lies = np.concatenate(coords), np.concatenate(spans)
    kept = (every < np.array(grid.counts)).all(axis=1)
    dtype, chain = plain_chain(spec, codecs)
    which = np.concatenate(numbers)[kept]
    return ChunkLocations(files, shape, dtype, chain, every[kept], which, lies[kept, 0], lies[kept, 1], every[:0])
