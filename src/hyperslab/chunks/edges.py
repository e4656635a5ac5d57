"""Cells beyond the edge of an array: what is stored there, by a shape that was longer or by an append that died.

They are made to read as the fill value before the array grows over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block, ChunkSource
from hyperslab.stores.attempts import attempts


def blank_outside(
    source: ChunkSource, chunks: Iterable[Coords], fill: Block, axes: list[int], settings: Settings
) -> None:
    """Make the cells of these chunks outside of the grid along ``axes`` read as ``fill``."""
    grid, chunks = source.grid, list(chunks)
    beyond = [coords for coords in chunks if any(coords[i] >= grid.axes[i].count for i in axes)]
    inside = [coords for coords in chunks if all(coords[i] < grid.axes[i].count for i in axes)]
    edges = [coords for coords in inside if any(_crosses(grid, coords, i) for i in axes)]
    if beyond or edges:
        with source.lock([*beyond, *edges], settings.lock_timeout):
            if beyond:
                source.erase_batch(beyond)
            _blank_edges(source, edges, fill, axes, settings)


def _crosses(grid: Grid, coords: Coords, axis: int) -> bool:
    cut = grid.axes[axis]
    return cut.start(coords[axis]) + cut.size_of(coords[axis]) > cut.length


def _blank_edges(source: ChunkSource, edges: list[Coords], fill: Block, axes: list[int], settings: Settings) -> None:
    if source.traits.swaps:
        for together in [edges] if edges and source.grid.outer is not None else [[coords] for coords in edges]:
            _change_chunks(source, together, lambda at, block: _blanked(block, at, source.grid, fill, axes), settings)
        return
    blocks = ((coords, source.read(coords)) for coords in edges)
    pairs = [
        (coords, _blanked(block, coords, source.grid, fill, axes)) for coords, block in blocks if block is not None
    ]
    source.write_batch(pairs, durable=settings.durable)


def _change_chunks(
    source: ChunkSource, coords: Sequence[Coords], change: Callable[[Coords, Block], Block], settings: Settings
) -> None:
    """Change chunks that are stored together, those that were written; others are left out."""
    for attempt in attempts(settings.lock_timeout):
        with attempt:
            blocks, stamp = source.read_stamped(coords)
            pairs = [
                (place, change(place, block)) for place, block in zip(coords, blocks, strict=True) if block is not None
            ]
            if pairs:
                source.swap(pairs, stamp)


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
