"""An array whose spec and chunks are at hand already: its documents are not read again when cells are."""

from __future__ import annotations

from hyperslab.array.array import Array
from hyperslab.array.cells import open_cells
from hyperslab.array.session import OpenDataset
from hyperslab.chunks.source import ChunkSource
from hyperslab.model.spec import ArraySpec


def array_with(session: OpenDataset, path: str, spec: ArraySpec, source: ChunkSource) -> Array:
    """The array at ``path`` of an open dataset, with the chunks that it has under this spec."""
    array = Array(session, path, spec)
    array._opened = open_cells(session, path, spec, source)
    return array
