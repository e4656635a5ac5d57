"""The chain of codecs of an array: every codec of the registry, and shards, which hold chains themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.chunks.auto import longest_chunk
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.config import Config, only
from hyperslab.codecs.pipeline import Chain, assemble
from hyperslab.codecs.registry import REGISTRY, Maker
from hyperslab.codecs.shard_index import ShardIndex
from hyperslab.codecs.sharding import Sharding
from hyperslab.errors import Invalid
from hyperslab.model.spec import ArraySpec, Codec

__all__ = ["INDEX_CODECS", "MAKERS", "Chain", "as_codecs", "build_chain", "try_chain"]

INDEX_CODECS = (Codec("bytes", {"endian": "little"}), Codec("crc32c"))
"""How the index of a shard is stored unless its document says otherwise."""
_NESTED = 8


def build_chain(codecs: Sequence[Codec], cells: ChunkLayout) -> Chain:
    """Compile the codecs of an array for chunks of these cells.

    Unsupported names a codec that is unknown, unsafe or lacks its library; Invalid says what is wrong with a
    configuration. ``cells.dtype`` is the dtype in memory, ``endian`` of ``bytes`` how it is stored. Zarr v2 lists have
    no ``bytes``: give the cells in the stored dtype then, as its filters see memory in that byte order.
    """
    return assemble(codecs, cells, MAKERS)


def try_chain(spec: ArraySpec) -> None:
    """Complain of an array's codecs now, not when its first chunk is written. Errors as of :func:`build_chain`."""
    build_chain(spec.codecs, ChunkLayout(spec.dtype, longest_chunk(spec.chunks), spec.fill_value))


def make_sharding(config: Config, cells: ChunkLayout) -> Sharding:
    """``chunk_shape``, ``codecs``, ``index_codecs`` (little-endian with crc32c), ``index_location`` (``end``)."""
    only("sharding_indexed", config, "chunk_shape", "codecs", "index_codecs", "index_location")
    shape = config.get("chunk_shape")
    if (
        not isinstance(shape, list | tuple)
        or len(shape) != len(cells.shape)
        or not all(isinstance(n, int) and n > 0 for n in shape)
        or any(whole % part for whole, part in zip(cells.shape, shape, strict=True))
    ):
        raise Invalid(
            f"codec 'sharding_indexed': chunk_shape={shape!r} does not divide a shard of {cells.shape}",
            remedy="a whole number of inner chunks along each axis",
        )
    codecs = as_codecs(config.get("codecs", ()))
    if _depth(codecs) > _NESTED:
        raise Invalid("codec 'sharding_indexed': shards within shards", remedy=f"at most {_NESTED} deep")
    inner = build_chain(codecs, ChunkLayout(cells.dtype, tuple(shape), cells.fill_value))
    counts = tuple(whole // part for whole, part in zip(cells.shape, shape, strict=True))
    index_codecs = as_codecs(config.get("index_codecs", INDEX_CODECS))
    index = ShardIndex.of(counts, index_codecs, config.get("index_location", "end"))
    return Sharding(cells, inner, index)


MAKERS: dict[str, Maker] = {**REGISTRY, "sharding_indexed": make_sharding}


def as_codecs(value: Any) -> tuple[Codec, ...]:
    """Codecs from our own values, or from Zarr v3's JSON (an object with name and configuration, or a bare name)."""
    if not isinstance(value, list | tuple):
        raise Invalid(f"codecs are {value!r}", remedy="a list")
    return tuple(_as_codec(item) for item in value)


def _as_codec(value: Any) -> Codec:
    match value:
        case Codec():
            return value
        case str():
            return Codec(value)
        case {"name": str(name)} if set(value) <= {"name", "configuration", "must_understand"}:
            config = value.get("configuration") or {}
            if isinstance(config, Mapping):
                return Codec(name, config)
    raise Invalid(f"no codec: {value!r:.200}", remedy="a name, or an object with name and configuration")


def _depth(codecs: Sequence[Codec]) -> int:
    """How many shards lie within each other."""
    inner = [c.config.get("codecs", ()) for c in codecs if c.name == "sharding_indexed"]
    return max((1 + _depth(as_codecs(value)) for value in inner), default=0)
