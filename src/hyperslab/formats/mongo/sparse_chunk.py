"""Chunks as lists of cells: what their documents hold, as the cells that the array has there now. Pure."""

from __future__ import annotations

from hyperslab.formats.mongo.segments import AssembledChunk
from hyperslab.model.coo import Coo, Numbers


def listed(found: AssembledChunk, shape: tuple[int, ...], fill: Numbers) -> Coo:
    """The cells of a chunk that has ``shape`` now: those past its documents are ``fill``, others are cut off.

    A chunk that is stored dense lists what is not ``fill``.
    """
    cells = found.coo().astype(fill.dtype) if found.sparse else Coo.of_dense(found.block().astype(fill.dtype), fill)
    if cells.shape == shape:
        return cells
    kept = cells.part([slice(0, min(pair)) for pair in zip(cells.shape, shape, strict=True)]).with_fill(fill)
    return Coo(shape, kept.coords, kept.data, fill)
