"""Cells beyond the edge of an array: what is stored there, by a shape that was longer or by an append that died.

They are made to read as the fill value before the array grows over them."""

from __future__ import annotations

from collections.abc import Iterable

from hyperslab.chunks import cas_writes, execute
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource, CompareAndSwap, ErasesMany


def blank_outside(
    source: ChunkSource, chunks: Iterable[Coords], fill: Block, axes: list[int], settings: Settings
) -> None:
    """Make the cells of these chunks outside of the grid along ``axes`` read as ``fill``."""
    grid, chunks = source.grid, list(chunks)
    beyond = [coords for coords in chunks if any(coords[i] >= grid.axes[i].count for i in axes)]
    inside = [coords for coords in chunks if all(coords[i] < grid.axes[i].count for i in axes)]
    edges = [coords for coords in inside if any(_crosses(grid, coords, i) for i in axes)]
    if beyond or edges:
        with execute.locked(source, [*beyond, *edges], settings):
            _erase(source, beyond)
            _blank_edges(source, edges, fill, axes, settings)


def _crosses(grid: Grid, coords: Coords, axis: int) -> bool:
    cut = grid.axes[axis]
    return cut.start(coords[axis]) + cut.size_of(coords[axis]) > cut.length


def _erase(source: ChunkSource, beyond: list[Coords]) -> None:
    if isinstance(source, ErasesMany) and beyond:
        source.erase_many(beyond)
        return
    for coords in beyond:
        source.erase(coords)


def _blank_edges(source: ChunkSource, edges: list[Coords], fill: Block, axes: list[int], settings: Settings) -> None:
    if isinstance(source, CompareAndSwap):
        for together in [edges] if edges and source.grid.outer is not None else [[coords] for coords in edges]:
            cas_writes.change_chunks(
                source, together, lambda at, block: _blanked(block, at, source.grid, fill, axes), settings
            )
        return
    blocks = ((coords, source.read(coords)) for coords in edges)
    pairs = [
        (coords, _blanked(block, coords, source.grid, fill, axes)) for coords, block in blocks if block is not None
    ]
    execute.store(source, pairs, settings)


def _blanked(block: Block, coords: Coords, grid: Grid, fill: Block, axes: list[int]) -> Block:
    """Return the chunk with the fill value in its cells beyond the edge."""
    if not block.flags.writeable:
        block = block.copy()
    for axis in axes:
        cut = grid.axes[axis]
        outside = [slice(None)] * block.ndim
        outside[axis] = slice(cut.length - cut.start(coords[axis]), None)
        block[tuple(outside)] = fill
    return block
