"""The chain of codecs of an array: every codec of the registry, and ``sharding_indexed``, which holds chains itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hyperslab.chunks.auto import longest_chunk
from hyperslab.codecs.base import Buffer, ChunkLayout, Values
from hyperslab.codecs.config import Config, only
from hyperslab.codecs.memory import contiguous
from hyperslab.codecs.pipeline import Chain, assemble
from hyperslab.codecs.registry import REGISTRY, Maker
from hyperslab.codecs.shard_index import MISSING, Part, ShardIndex
from hyperslab.errors import Invalid
from hyperslab.model.spec import ArraySpec, Codec

# -- ------------------------------------------------------------------------------------------------------------------
# ``sharding_indexed``: a chunk of chunks with an index (Zarr v3), encoded and decoded whole.
#
# Formats read and write parts of a shard by the same :class:`~hyperslab.codecs.shard_index.ShardIndex`.


Slices = tuple[Any, ...]


class Sharding:
    """Inner chunks under a chain of their own, in C order; those of nothing but fill values are left out."""

    def __init__(self, cells: ChunkLayout, inner: Chain, index: ShardIndex) -> None:
        self._shape = cells.shape
        self._dtype = cells.numpy_dtype
        self._fill = _fill_cell(cells)
        self._omits = cells.fill_value is not None
        self._inner = inner
        self._index = index

    @property
    def size(self) -> int | None:
        """Unknown."""
        return None

    def encode(self, array: Values) -> Buffer:
        """The shard: inner chunks and index, without gaps."""
        parts: list[Part] = []
        for _, slices in self._places():
            block = array[slices]
            parts.append(None if self._omits and self._is_fill(block) else self._inner.encode(block))
        return self._index.join(parts)

    def decode(self, data: Buffer) -> Values:
        """The cells of the whole shard; CorruptChunk when the index points outside."""
        entries = self._index.find(data)
        out = np.empty(self._shape, self._dtype)
        self._decode(data, entries, out)
        return out

    def decode_to(self, data: Buffer, out: Values) -> None:
        """The cells of the whole shard, into ``out``."""
        self._decode(data, self._index.find(data), out)

    def _decode(self, data: Buffer, entries: Values, out: Values) -> None:
        view = memoryview(data)
        for place, slices in self._places():
            offset, length = entries[place].tolist()
            target = out[slices]
            if offset == MISSING:
                target[...] = self._fill
            elif target.flags.c_contiguous:
                self._inner.decode_into(view[offset : offset + length], target)
            else:
                target[...] = self._inner.decode(view[offset : offset + length])

    def _places(self) -> Iterator[tuple[tuple[int, ...], Slices]]:
        shape = self._inner.cells.shape
        for place in np.ndindex(*self._index.counts):
            yield place, (*(slice(i * n, (i + 1) * n) for i, n in zip(place, shape, strict=True)), ...)

    def _is_fill(self, block: Values) -> bool:
        """Return whether every cell is the fill value, bit for bit where cells have a fixed size."""
        if block.size == 0:
            return True
        if self._dtype.hasobject or self._dtype.kind == "T":
            return all(cell == self._fill for cell in block.reshape(-1).tolist())
        fill = np.asarray(self._fill, self._dtype).tobytes()
        first = block[(0,) * block.ndim]
        return first.tobytes() == fill and contiguous(block).tobytes() == fill * block.size


def _fill_cell(cells: ChunkLayout) -> Any:
    """What a missing inner chunk reads as; without a fill value zero or empty."""
    return ArraySpec(shape=(), dtype=cells.dtype, chunks=(), fill_value=cells.fill_value).fill_cell()[()]


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
