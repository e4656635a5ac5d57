"""Which chunks are taken together: what one thread reads or writes at a time, and what is stored as one.

With an outer grid (shards, superchunks) the chunks of one outer chunk belong together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product
from operator import floordiv

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.plan import Piece, Plan
from hyperslab.chunks.pool import batched


def batches(plan: Plan, size: int, most: int, *, across: bool = False) -> Iterator[Sequence[Piece]]:
    """The plan's pieces by ``size``; with an outer grid up to ``most`` at a time, of one outer chunk, or ``across``
    several of them as far as ``size`` goes."""
    grid = plan.grid
    if grid.outer is None:
        yield from batched(plan, size)
        return
    members = grid.members  # outer_of, without its call: this is done for every chunk
    groups: dict[Coords, list[Piece]] = {}
    for piece in plan:
        groups.setdefault(tuple(map(floordiv, piece[0], members)), []).append(piece)
    batch: list[Piece] = []
    for group in groups.values():
        if batch and not (across and len(batch) + len(group) <= size):
            yield batch
            batch = []
        batch += group
        while len(batch) > most:
            yield batch[:most]
            batch = batch[most:]
    if batch:
        yield batch


def grouped(coords: Iterable[Coords], grid: Grid, most: int = 64) -> Iterator[list[Coords]]:
    """Chunks by up to ``most``; those of one outer chunk, which follow each other, together: it is written once."""
    if grid.outer is None:
        yield from batched(coords, most)
        return
    for _, group in groupby(coords, grid.outer_of):
        yield list(group)


def outer_chunks(plan: Plan) -> list[Coords]:
    """The outer chunks that a plan touches, which is not empty."""
    if plan.order is not None:
        return list(dict.fromkeys(plan.grid.outer_of(piece.coords) for piece in plan))
    places: list[dict[int, None]] = []
    for group, count in zip(plan.groups, plan.grid.members, strict=True):
        places.append({})
        for entry in group:
            places[-1][entry[0] // count] = None
    return list(product(*places))
