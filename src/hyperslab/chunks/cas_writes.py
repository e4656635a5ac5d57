"""Chunks as they will be, and how they get there where no lock can be held: read, change, and put back what is still
the same version; else start again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hyperslab.chunks.grid import Coords
from hyperslab.chunks.plan import Piece, Plan
from hyperslab.chunks.pool import each_batch
from hyperslab.chunks.settings import Settings
from hyperslab.chunks.source import Block
from hyperslab.stores.attempts import attempts


def new_block(
    read: Callable[[Coords], Block | None], plan: Plan, piece: Piece, values: Block, fill: Block, fields: Any
) -> Block:
    """The chunk as it will be: the values alone where they cover it, else put over what is there."""
    shape = plan.grid.chunk_shape(piece.coords)
    part: Block = values[piece.out]
    whole = piece.whole and fields is None
    if whole and part.shape == shape:
        return part if part.flags.c_contiguous else np.ascontiguousarray(part).reshape(shape)
    block = None if whole else read(piece.coords)
    if block is None:
        block = np.full(shape, fill, fill.dtype)
    elif not block.flags.writeable:
        block = block.copy()
    target = block if fields is None else block[fields]
    (target if plan.order is None else target.transpose(plan.order))[piece.within] = part
    return block


def swapper(
    source: Any, plan: Plan, values: Block, fill: Block, settings: Settings, fields: Any
) -> Callable[[Sequence[Piece]], None]:
    """What writes batches of pieces into a source of :class:`~.source.Swaps`."""

    def covers(piece: Piece) -> bool:
        return piece.whole and fields is None

    def change(pieces: Sequence[Piece]) -> None:
        """Read what is not covered, put all back at once."""
        old = [piece.coords for piece in pieces if not covers(piece)]
        for attempt in attempts(settings.lock_timeout):
            with attempt:
                blocks, stamp = source.read_stamped(old)
                known = dict(zip(old, blocks, strict=True))
                make = partial(new_block, known.get, plan, values=values, fill=fill, fields=fields)
                source.swap([(piece.coords, make(piece=piece)) for piece in pieces], stamp)

    def work(pieces: Sequence[Piece]) -> None:
        together = plan.grid.outer is not None and not all(map(covers, pieces))
        whole = [] if together else [piece for piece in pieces if covers(piece)]
        if whole:
            pairs = ((piece.coords, new_block(_unread, plan, piece, values, fill, fields)) for piece in whole)
            source.write_many(pairs, durable=settings.durable)
        if together:
            change(pieces)
        elif len(whole) < len(pieces):
            rest = [[piece] for piece in pieces if not covers(piece)]
            each_batch(
                change, rest, min(settings.workers or source.concurrency or 1, 1 << (len(rest) - 1).bit_length())
            )

    return work


def _unread(coords: Coords) -> None:
    """What is covered is not read."""


def change_chunks(
    source: Any, coords: Sequence[Coords], change: Callable[[Coords, Block], Block], settings: Settings
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
