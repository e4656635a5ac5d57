"""How a target's arrays are cut: the chunks and shards that the caller wants, else the source's where they suit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from hyperslab.chunks.auto import (
    CHUNK_BYTES,
    MANY,
    auto_chunks,
    auto_shards,
    check_shards,
    longest_chunk,
    parse_shards,
    shards_of_many,
)
from hyperslab.conversion.losses import Features
from hyperslab.conversion.selection import ArraySelection
from hyperslab.errors import Invalid
from hyperslab.formats.base import Feature
from hyperslab.model.dims import axis_names, values_of_axes
from hyperslab.model.dtypes import is_fixed
from hyperslab.model.spec import ArraySpec, Chunks

# Chunks below 64 KiB (unless there are few) or above 64 MiB are not kept: many tiny objects cost a request each, and a
# huge chunk has to be read whole for any of its cells.
_SMALL = 1 << 16
_LARGE = 64 << 20
_MANY = 16
# Chunks that have to divide a shard may be so many times shorter or longer than those that suit. A shard of prime
# length has only chunks of one cell and the whole of it: that may be a million small ones, or one larger than memory.
_FAR = 16

SAME: Literal["same"] = "same"
"""For ``chunks``: those of the source, whether or not they suit."""
CHUNK_WORDS = ("auto", SAME)
"""The words for chunks, beside lengths."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The chunks, shards and codec that the caller wants: lengths by dimension name or ``"auto"``.

    None keeps what the source has, as far as the target has it too and it suits; ``chunks="same"`` the source's chunks
    whether or not they suit. ``shards=False``: none; ``"many"``: where the chunks would be many small files.
    ``shard_bytes``: the most cells of a shard whose lengths neither caller nor source says, into which many small
    chunks are put; 0: none are. ``growing``: the unlimited axes of the array.
    """

    chunks: Mapping[str, int] | str | None = None
    shards: Mapping[str, int] | str | Literal[False] | None = None
    codec: Any = None
    shard_bytes: int = 0
    growing: Collection[int] = ()

    def __post_init__(self) -> None:
        if not (self.chunks is None or isinstance(self.chunks, Mapping) or self.chunks in CHUNK_WORDS):
            remedy = "write chunks='auto', chunks='same' (those of the source) or chunks={'time': 100, 'lat': 50}"
            raise Invalid(f"chunks={self.chunks!r}", remedy=remedy)
        object.__setattr__(self, "shards", parse_shards(self.shards, lengths="by dimension"))

    @property
    def dims(self) -> tuple[str, ...]:
        """Return every dimension that is named."""
        return tuple(name for lengths in (self.chunks, self.shards) if isinstance(lengths, Mapping) for name in lengths)

    @property
    def keeps_chunks(self) -> bool:
        """Return True if the array is cut as the source is, where that suits or in any case."""
        return self.chunks is None or self.chunks == SAME

    @property
    def is_requested(self) -> bool:
        """Return True if the caller wants anything else than what there is."""
        return not (self.keeps_chunks and self.shards is None and self.codec is None)


def refit_chunks(spec: ArraySpec, picked: ArraySelection) -> Chunks:
    """Return the source's chunks, of one length per axis where cells are selected: varying ones no longer fit."""
    if picked.is_all(spec.shape):
        return spec.chunks
    return longest_chunk(spec.chunks)


def choose_chunks(
    spec: ArraySpec, picked: ArraySelection, encoding: Encoding, features: Features
) -> tuple[Chunks, tuple[int, ...] | None]:
    """Return the chunk and shard lengths of the new array; no shard lengths where it has none."""
    shape, itemsize = picked.shape, spec.numpy_dtype.itemsize
    auto = auto_chunks(shape, itemsize)
    current: Chunks = spec.inner_chunks or spec.chunks
    untouched = encoding.keeps_chunks and encoding.shards is None and picked.is_all(spec.shape)
    if untouched and (Feature.VARYING_CHUNKS in features or current == longest_chunk(current)):
        kept: Chunks = current
    else:
        kept = tuple(longest_chunk(current)[axis] for axis in picked.kept)
        kept = tuple(max(1, min(cut, length or cut)) for cut, length in zip(kept, shape, strict=True))
    keeps_shards = encoding.keeps_chunks and encoding.shards is None and Feature.SHARDS in features
    shards = _source_shards(spec, picked, kept) if keeps_shards else None
    if encoding.shards == MANY and encoding.keeps_chunks:
        shards = _shards_of_many(spec, shape, kept, encoding)
    # Where the source's shards are not kept, the chunks in them stay, however many objects they are.
    drops_shards = encoding.shards is False or encoding.shards == MANY
    stored = None if drops_shards and spec.inner_chunks is not None else shards or kept
    wanted = lengths_by_axis(encoding.shards, spec, picked) if isinstance(encoding.shards, Mapping) else None
    if wanted is not None:
        stored = _requested_lengths(wanted, shape, longest_chunk(kept))
    if encoding.chunks == "auto" or not (encoding.chunks == SAME or _is_suitable(kept, stored, shape, spec)):
        kept = auto
    if isinstance(encoding.chunks, Mapping):
        kept = _requested_lengths(lengths_by_axis(encoding.chunks, spec, picked), shape, longest_chunk(kept))
    if encoding.shards is None or drops_shards:
        if shards is not None and kept is not auto:
            return kept, shards
        return kept, _shards_of_many(spec, shape, kept, encoding)
    inner = longest_chunk(kept)
    if wanted is None:
        return inner, auto_shards(shape, inner, itemsize)
    fixed: Mapping[str, int] = encoding.chunks if isinstance(encoding.chunks, Mapping) else {}
    chosen = [encoding.chunks == SAME or size is not None for _, size in lengths_by_axis(fixed, spec, picked)]
    inner = _fit_chunks(inner, wanted, chosen)
    shards = _requested_lengths(wanted, shape, inner)
    check_shards(shards, inner)
    # the whole of a dimension (-1) is rounded up to whole chunks
    return inner, tuple(-(-size // cut) * cut for size, cut in zip(shards, inner, strict=True))


def _shards_of_many(
    spec: ArraySpec, shape: tuple[int, ...], chunks: Chunks, encoding: Encoding
) -> tuple[int, ...] | None:
    """Return the shards of many small chunks; None for others, varying ones, cells of any length, and where the caller
    wants none."""
    inner, most = longest_chunk(chunks), encoding.shard_bytes
    if not most or encoding.shards is False or chunks != inner or not is_fixed(spec.dtype):
        return None
    return shards_of_many(shape, inner, spec.numpy_dtype.itemsize, encoding.growing, most)


def _source_shards(spec: ArraySpec, picked: ArraySelection, chunks: Chunks) -> tuple[int, ...] | None:
    """Return the source's shards around the same chunks, clipped to the selection; None when either changed."""
    inner, outer = spec.inner_chunks, longest_chunk(spec.chunks)
    if inner is None or tuple(longest_chunk(inner)[axis] for axis in picked.kept) != chunks:
        return None
    lengths = zip((outer[axis] for axis in picked.kept), picked.shape, longest_chunk(chunks), strict=True)
    return tuple(-(-min(size, max(length, 1)) // cut) * cut for size, length, cut in lengths)


def _fit_chunks(chunks: tuple[int, ...], shards: AxisLengths, chosen: Sequence[bool]) -> tuple[int, ...]:
    """Return chunk lengths of which each shard holds a whole number: those of ``chunks`` where they do so already, else
    the divisor of the shard's length that is nearest. ``chosen``: along which axes the caller wants these chunks;
    Invalid where they do not fit there, and where no divisor is near, as for a large prime.
    """
    lengths = []
    for cut, (dim, shard), is_chosen in zip(chunks, shards, chosen, strict=True):
        if shard is None or shard < 1 or shard % cut == 0:
            lengths.append(cut)
            continue
        if is_chosen:
            raise Invalid(
                f"shards of {dim}={shard} hold no whole number of chunks of {dim}={cut}",
                remedy="make every shard length a multiple of the chunk length, or leave --chunks (chunks=) out",
            )
        check_shards((shard,), (cut,))  # which bounds the search
        shorter = next(size for size in range(min(cut, shard), 0, -1) if shard % size == 0)
        longer = shard // next(count for count in range(max(shard // cut, 1), 0, -1) if shard % count == 0)
        nearest = shorter if cut * cut <= shorter * longer else longer
        if min(cut, shard) > nearest * _FAR or nearest > cut * _FAR:
            raise Invalid(
                f"shards of {dim}={shard} hold only chunks of {dim}={shorter} or {dim}={longer}, far from {cut}",
                remedy=f"choose {dim}={-(-shard // cut) * cut}, a multiple of the chunks, or set --chunks (chunks=)",
            )
        lengths.append(nearest)
    return tuple(lengths)


def _is_suitable(chunks: Chunks, stored: Chunks | None, shape: tuple[int, ...], spec: ArraySpec) -> bool:
    """Return True if the source's chunks serve the target: neither many tiny objects nor any chunk that is huge.

    ``stored``: the lengths of the chunk or shard that is one object, None: of any number of objects. Cells without
    codecs often lie in one piece and are no chunks at all: those are cut anew above 4 MiB.
    """
    if not is_fixed(spec.dtype):
        return True
    nbytes = _nbytes(chunks, spec)
    if not spec.codecs and nbytes > CHUNK_BYTES:
        return False
    if stored is None:
        return nbytes <= _LARGE
    count = prod(-(-length // size) for length, size in zip(shape, longest_chunk(stored), strict=True))
    return nbytes <= _LARGE and (_nbytes(stored, spec) >= _SMALL or count <= _MANY)


def _nbytes(chunks: Chunks, spec: ArraySpec) -> int:
    return max(spec.numpy_dtype.itemsize, 1) * prod(longest_chunk(chunks))


AxisLengths = list[tuple[str, int | None]]
"""For each axis the name of its dimension, and the length that the caller wants of it."""


def lengths_by_axis(requested: Mapping[str, int], spec: ArraySpec, picked: ArraySelection) -> AxisLengths:
    """Return the lengths of the axes that are kept; a dimension goes by its place, too (:func:`.axis_names`)."""
    lengths = list(zip(axis_names(spec.dims), values_of_axes(requested, spec.dims), strict=True))
    return [lengths[axis] for axis in picked.kept]


def _requested_lengths(requested: AxisLengths, shape: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    """Return lengths along each axis (-1: the whole axis), ``others`` where none is wanted."""
    lengths = []
    for (_, wanted), length, other in zip(requested, shape, others, strict=True):
        size = other if wanted is None else wanted
        if size != -1 and size < 1:
            raise Invalid(f"a chunk length of {size}", remedy="lengths are at least 1, or -1 for the whole dimension")
        lengths.append(max(length, 1) if size == -1 else size)
    return tuple(lengths)
