"""From the source's documents to the target's: shapes after the selection, types that the target holds, new chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.auto import CHUNK_BYTES, auto_chunks, auto_shards
from hyperslab.codecs.default import parse_codec
from hyperslab.conversion.labelling import chosen_labels
from hyperslab.conversion.losses import COLUMNS, Features, held_attrs, held_cells, held_types
from hyperslab.conversion.selecting import Picked
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.base import Feature
from hyperslab.model.cells import as_type
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import is_fixed, numpy_dtype
from hyperslab.model.spec import ArraySpec, Chunks, GroupSpec

_SMALL = 1 << 16
_LARGE = 64 << 20
_MANY = 16


@dataclass(frozen=True, slots=True)
class Cutting:
    """How the caller wants arrays cut and encoded: ``chunks`` and ``shards`` by dimension name or ``"auto"``.

    None keeps what the source has, as far as the target has it too and it suits.
    """

    chunks: Mapping[str, int] | str | None = None
    shards: Mapping[str, int] | str | None = None
    codec: Any = None

    def __post_init__(self) -> None:
        for name, asked in (("chunks", self.chunks), ("shards", self.shards)):
            if not (asked is None or asked == "auto" or isinstance(asked, Mapping)):
                raise Invalid(f"{name}={asked!r}", remedy=f"write {name}='auto' or {name}={{'time': 100, 'lat': 50}}")

    @property
    def dims(self) -> tuple[str, ...]:
        """Every dimension that is named."""
        return tuple(name for asked in (self.chunks, self.shards) if isinstance(asked, Mapping) for name in asked)

    @property
    def asks(self) -> bool:
        """Return whether the caller wants anything else than what there is."""
        return not (self.chunks is None and self.shards is None and self.codec is None)


def new_array(
    spec: ArraySpec, picked: Picked, cutting: Cutting, features: Features, *, same_format: bool
) -> tuple[ArraySpec, bool]:
    """The array as wished in the target, and whether its spelling is the target's already (nothing is asked anew)."""
    dtype = held_cells(spec, features)
    if dtype is None:
        raise Unsupported("the target has no such cells")
    dims = tuple(spec.dims[axis] for axis in picked.kept) if Feature.DIMENSIONS in features else ()
    attrs = held_attrs(spec.attrs, features)
    labels = chosen_labels(spec.indexes, spec.dims, picked) if Feature.LABELS in features else {}
    if same_format and not cutting.asks and dtype == spec.dtype and len(picked.kept) == len(spec.shape):
        same = {"shape": picked.shape, "dims": dims, "attrs": attrs, "indexes": labels, "chunks": _refit(spec, picked)}
        return spec.evolve(**same), True
    chunks, shards = _cut(spec, picked, cutting, features)
    codecs = parse_codec("default" if cutting.codec is None else cutting.codec, numpy_dtype(dtype))
    layout = {} if shards is None else {"shards": shards}
    sparse = spec.sparse if Feature.SPARSE in features else None
    fill = None if spec.fill_value is None else _as_cell(spec, numpy_dtype(dtype))
    wish = ArraySpec(
        shape=picked.shape,
        dtype=dtype,
        dims=dims,
        chunks=chunks,
        codecs=codecs,
        fill_value=fill,
        attrs=attrs,
        indexes=labels,
        sparse=sparse,
        layout=layout,
    )
    return wish, False


def _as_cell(spec: ArraySpec, dtype: np.dtype[Any]) -> Any:
    """The fill value as a cell of another type."""
    return spec.fill_value if spec.numpy_dtype == dtype else as_type(spec.fill_cell(), dtype)[()]


def _refit(spec: ArraySpec, picked: Picked) -> Chunks:
    """Varying chunk sizes no longer fit a selected axis: then one chunk size serves."""
    if picked.is_all(spec.shape):
        return spec.chunks
    return _plain(spec.chunks)


def _plain(chunks: Chunks) -> tuple[int, ...]:
    return tuple(cut if isinstance(cut, int) else max(cut, default=1) for cut in chunks)


def _cut(
    spec: ArraySpec, picked: Picked, cutting: Cutting, features: Features
) -> tuple[Chunks, tuple[int, ...] | None]:
    """Chunk and shard lengths of the new array."""
    shape, itemsize = picked.shape, spec.numpy_dtype.itemsize
    dims = tuple(spec.dims[axis] for axis in picked.kept)
    auto = auto_chunks(shape, itemsize)
    given: Chunks = spec.inner_chunks or spec.chunks
    untouched = cutting.chunks is None and cutting.shards is None and picked.is_all(spec.shape)
    if untouched and (Feature.VARYING_CHUNKS in features or given == _plain(given)):
        kept: Chunks = given
    else:
        kept = tuple(_plain(given)[axis] for axis in picked.kept)
        kept = tuple(max(1, min(cut, length or cut)) for cut, length in zip(kept, shape, strict=True))
    shards = _kept_shards(spec, picked, kept) if cutting.chunks is None and Feature.SHARDS in features else None
    if cutting.chunks == "auto" or not _suits(kept, shards or kept, shape, spec):
        kept = auto
    if isinstance(cutting.chunks, Mapping):
        kept = _asked(cutting.chunks, dims, shape, _plain(kept))
    if cutting.shards is None:
        return kept, None if kept is auto else shards
    inner = _plain(kept)
    if isinstance(cutting.shards, Mapping):
        _refuse_cut_chunks(cutting, dims, inner)
        wanted = _asked(cutting.shards, dims, shape, inner)
        return inner, tuple(-(-size // cut) * cut for size, cut in zip(wanted, inner, strict=True))
    return inner, auto_shards(shape, inner, itemsize)


def _kept_shards(spec: ArraySpec, picked: Picked, chunks: Chunks) -> tuple[int, ...] | None:
    """The source's shards around the same chunks, cut off where a selection ends; None when either changed."""
    inner, outer = spec.inner_chunks, _plain(spec.chunks)
    if inner is None or tuple(_plain(inner)[axis] for axis in picked.kept) != chunks:
        return None
    lengths = zip((outer[axis] for axis in picked.kept), picked.shape, _plain(chunks), strict=True)
    return tuple(-(-min(size, max(length, 1)) // cut) * cut for size, length, cut in lengths)


def _refuse_cut_chunks(cutting: Cutting, dims: tuple[str | None, ...], inner: tuple[int, ...]) -> None:
    """Both lengths were asked for, so neither is rounded; where the chunks were not, a shard takes in whole ones."""
    if not (isinstance(cutting.chunks, Mapping) and isinstance(cutting.shards, Mapping)):
        return
    for dim, cut in zip(dims, inner, strict=True):
        shard = cutting.shards.get(dim, -1) if dim is not None and dim in cutting.chunks else -1
        if shard > 0 and shard % cut:
            raise Invalid(
                f"shards of {dim}={shard} hold no whole number of chunks of {dim}={cut}",
                remedy="make every shard length a multiple of the chunk length",
            )


def _suits(chunks: Chunks, stored: Chunks, shape: tuple[int, ...], spec: ArraySpec) -> bool:
    """Return whether the source's chunks, each ``stored`` alone or with others, serve the target: neither many tiny
    objects nor any chunk that is huge.

    Cells without codecs often lie in one piece and are no chunks at all: those are cut anew above 4 MiB.
    """
    if not is_fixed(spec.dtype):
        return True
    nbytes = _nbytes(chunks, spec)
    if not spec.codecs and nbytes > CHUNK_BYTES:
        return False
    count = prod(-(-length // size) for length, size in zip(shape, _plain(stored), strict=True))
    return nbytes <= _LARGE and (_nbytes(stored, spec) >= _SMALL or count <= _MANY)


def _nbytes(chunks: Chunks, spec: ArraySpec) -> int:
    return max(spec.numpy_dtype.itemsize, 1) * prod(_plain(chunks))


def _asked(
    asked: Mapping[str, int], dims: tuple[str | None, ...], shape: tuple[int, ...], others: tuple[int, ...]
) -> tuple[int, ...]:
    """Lengths by dimension name (-1: the whole axis), ``others`` for dimensions that are not named."""
    lengths = []
    for dim, length, other in zip(dims, shape, others, strict=True):
        size = asked.get(dim, other) if dim is not None else other
        if size != -1 and size < 1:
            raise Invalid(f"a chunk length of {size}", remedy="lengths are at least 1, or -1 for the whole dimension")
        lengths.append(max(length, 1) if size == -1 else size)
    return tuple(lengths)


def new_group(spec: GroupSpec, sizes: Mapping[str, int | None], features: Features, *, same_format: bool) -> GroupSpec:
    """The group as the target holds it; ``sizes`` has the new length of each selected dimension, None: it is gone."""
    dims: Iterable[Dimension] = (
        Dimension(dim.name, size, dim.unlimited and Feature.UNLIMITED in features)
        for dim in spec.dims
        if (size := sizes.get(dim.name, dim.size)) is not None
    )
    types = held_types(spec.types, features)
    layout = {name: value for name, value in spec.layout.items() if same_format and name != COLUMNS}
    return GroupSpec(attrs=held_attrs(spec.attrs, features), dims=tuple(dims), types=types, layout=layout)
