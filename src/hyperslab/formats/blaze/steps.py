"""Small steps of writing: specs as they are stored, coordinates before they have cells, documents in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.chunks.source import Block
from hyperslab.chunks.source import ChunkSource as Chunks
from hyperslab.errors import Unsupported
from hyperslab.formats.blaze.creation import whole
from hyperslab.formats.blaze.document import SIZES, Storing, document_bytes, spelled
from hyperslab.formats.one_array import Coordinate
from hyperslab.model.spec import ArraySpec
from hyperslab.stores.base import PutMany, WritableStore

_LARGEST = 64 << 20
"""Bytes of a coordinate's cells."""


def own(spec: ArraySpec) -> ArraySpec:
    """The spec with chunks of whole rows, whatever its shape has become."""
    said: Mapping[str, Any] = spec.layout.get("blaze", {})
    more = {key: value for key, value in said.items() if key not in ("layout", "checksum")}
    if more.get("expectedlen") is None:
        more["expectedlen"] = spec.shape[0] if spec.shape else 1
    return spelled(spec, Storing.of(spec), **more)


def plain(spec: ArraySpec) -> ArraySpec:
    """The spec of a coordinate: its cells are not chunked or encoded."""
    return spec.evolve(chunks=whole(spec.shape), codecs=(), layout={}, indexes={})


def blank(spec: ArraySpec) -> Coordinate:
    """A coordinate of nothing but fill values; Unsupported when it is too large."""
    check_size("", spec)
    return Coordinate(plain(spec), np.full(spec.shape, spec.fill_cell(), spec.numpy_dtype))


def check_size(name: str, spec: ArraySpec) -> None:
    """Unsupported for a coordinate that is too large for a document."""
    nbytes = spec.numpy_dtype.itemsize * int(np.prod(spec.shape, dtype=object))
    if nbytes > _LARGEST:
        remedy = "use zarr3, or leave it out"
        raise Unsupported(f"a coordinate of {nbytes} bytes in a document of format blaze", node=name, remedy=remedy)


def may_label(name: str, spec: ArraySpec) -> bool:
    """Whether it may be a coordinate of an array that is not known yet."""
    return spec.dims == (name,) or spec.shape == ()


def all_cells(source: Chunks, spec: ArraySpec) -> Block:
    """All cells of an array that is small."""
    cells = np.full(spec.shape, spec.fill_cell(), spec.numpy_dtype)
    for coords in source.grid:
        block = source.read(coords)
        if block is not None:
            extent = source.grid.extent(coords)
            cells[extent] = block[tuple(slice(0, cut.stop - cut.start) for cut in extent)]
    return cells


def store_cells(source: Chunks, cells: Block) -> None:
    """Write all cells of an array that is small."""
    for coords in source.grid:
        block = np.zeros(source.grid.chunk_shape(coords), cells.dtype)
        extent = source.grid.extent(coords)
        block[tuple(slice(0, cut.stop - cut.start) for cut in extent)] = cells[extent]
        source.write(coords, block)


def publish(
    store: WritableStore,
    docs: Mapping[str, Mapping[str, Any] | None],
    before: Mapping[str, Any],
    *,
    durable: bool,
) -> None:
    """Store documents, the sizes last; None: it goes, if it was there ``before``."""
    values = [(key, document_bytes(doc)) for key, doc in docs.items() if doc is not None]
    last = [pair for pair in values if pair[0].endswith(SIZES)]
    rest = [pair for pair in values if pair not in last]
    for key, doc in docs.items():
        if doc is None and any(key.endswith(name) for name in before):
            store.delete(key)
    for pairs in (rest, last):
        if pairs and isinstance(store, PutMany):
            store.put_many(pairs, durable=durable)
        else:
            for key, value in pairs:
                store.put(key, value, durable=durable)
