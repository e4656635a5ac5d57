"""Which arrays lie in the same stored bytes under two specs, so that a chunk of one is a chunk of the other.

A chunk is decoded by the names of its codecs and a part of their settings: the level of a compressor is the writer's
affair alone, and what a container says itself need not be said beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.array.references import reference_fields
from hyperslab.codecs.registry import as_codecs
from hyperslab.model.dtypes import DataType
from hyperslab.model.spec import ArraySpec, Codec

_ANY_READER = frozenset({"blosc", "zstd", "gzip", "zlib", "bz2", "lz4", "crc32c", "vlen-utf8", "vlen-bytes"})
"""Codecs whose bytes are decoded without any setting: each begins with what it needs, or has none."""


def are_same_bytes(source: ArraySpec, target: ArraySpec) -> bool:
    """Return True where each stored chunk (or shard) of ``source`` is, byte by byte, one of ``target``."""
    if source.shape != target.shape or source.chunks != target.chunks or source.sparse or target.sparse:
        return False
    if reference_fields(source.dtype) or not _is_same_type(source.dtype, target.dtype):
        return False
    return _steps(source.codecs, source.dtype) == _steps(target.codecs, target.dtype)


def spec_as_stored(source: ArraySpec, target: ArraySpec) -> ArraySpec:
    """Return the target without the checksum that a copy gets behind each chunk, where its chunks are those of the
    source then; else as it is."""
    if are_same_bytes(source, target):
        return target
    bare = target.evolve(codecs=_without_checksum(target.codecs))
    return bare if are_same_bytes(source, bare) else target


def _without_checksum(codecs: Sequence[Codec]) -> tuple[Codec, ...]:
    """Return the codecs without CRC-32C at their end, those of the chunks in shards too."""
    *others, last = codecs
    if last.name == "crc32c":
        return tuple(others)
    if last.name == "sharding_indexed":
        inner = _without_checksum(as_codecs(last.config["codecs"]))
        return (*others, Codec(last.name, {**last.config, "codecs": inner}))
    return tuple(codecs)


def _is_same_type(one: DataType, other: DataType) -> bool:
    """Return True for equal types; the byte order is that of the codec ``bytes``."""
    if isinstance(one, np.dtype) and isinstance(other, np.dtype):
        if one.names is not None or other.names is not None:
            return one == other
        return one.newbyteorder("=") == other.newbyteorder("=")
    return type(one) is type(other) and one == other


def _steps(codecs: Sequence[Codec], dtype: DataType) -> list[tuple[str, Any]]:
    """Return what a reader has to know of each codec, comparable."""
    return [(codec.name, _settings(codec, dtype)) for codec in codecs]


def _settings(codec: Codec, dtype: DataType) -> object:
    config: Mapping[str, Any] = codec.config
    if codec.name in _ANY_READER:
        return None
    if codec.name == "bytes":
        return _byte_order(config.get("endian"), dtype)
    if codec.name == "transpose":
        return list(config["order"])
    if codec.name == "sharding_indexed":
        inner, index = as_codecs(config["codecs"]), as_codecs(config["index_codecs"])
        place = config.get("index_location", "end")
        return list(config["chunk_shape"]), _steps(inner, dtype), _steps(index, np.dtype("<u8")), place
    return dict(config)


def _byte_order(endian: object, dtype: DataType) -> object:
    """Return the byte order of stored cells: what the codec says, else that of the type; None for bytes."""
    if not isinstance(dtype, np.dtype) or dtype.names is not None:
        return endian
    if dtype.itemsize == 1 or dtype.kind in "SVb" or dtype.byteorder == "|":
        return None
    order = {"<": "little", ">": "big"}.get(dtype.byteorder, sys.byteorder)
    return endian if endian in ("little", "big") else order
