"""Cells beyond the edge of an array: what is stored there, by a shape that was longer or by an append that died.

They are made to read as the fill value before the array grows over them."""

from __future__ import annotations

from collections.abc import Iterable

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource


def blank_outside(
    source: ChunkSource, chunks: Iterable[Coords], fill: Block, axes: list[int], settings: Settings
) -> None:
    """Make the cells of these chunks outside of the grid along ``axes`` read as ``fill``."""
    grid, chunks = source.grid, list(chunks)
    beyond = [coords for coords in chunks if any(coords[i] >= grid.axes[i].count for i in axes)]
    inside = [coords for coords in chunks if all(coords[i] < grid.axes[i].count for i in axes)]
    ends = [(coords, grid.origin(coords), grid.chunk_shape(coords)) for coords in inside]
    edges = [at for at, start, size in ends if any(start[i] + size[i] > grid.axes[i].length for i in axes)]
    if not beyond and not edges:
        return
    with source.lock([*beyond, *edges], settings.lock_timeout):
        if beyond:
            source.erase_batch(beyond)
        if not source.traits.swaps:
            pairs = _blanked(grid, zip(edges, map(source.read, edges), strict=True), fill, axes)
            source.write_batch(pairs, durable=settings.durable)
            return
        # Chunks of one outer chunk are one value in the store, which is swapped as a whole.
        for batch in [edges] if edges and grid.outer is not None else [[coords] for coords in edges]:

            def blank(blocks: list[Block | None], batch: list[Coords] = batch) -> list[tuple[Coords, Block]]:
                return _blanked(grid, zip(batch, blocks, strict=True), fill, axes)

            source.update(batch, blank, settings.lock_timeout)


def _blanked(
    grid: Grid, chunks: Iterable[tuple[Coords, Block | None]], fill: Block, axes: list[int]
) -> list[tuple[Coords, Block]]:
    """Return the chunks that were written, with the fill value in their cells beyond the edge."""
    pairs: list[tuple[Coords, Block]] = []
    for coords, block in chunks:
        if block is None:
            continue
        if not block.flags.writeable:
            block = block.copy()
        for axis in axes:
            outside = [slice(None)] * block.ndim
            outside[axis] = slice(grid.axes[axis].length - grid.axes[axis].start(coords[axis]), None)
            block[tuple(outside)] = fill
        pairs.append((coords, block))
    return pairs
