"""Reads and writes of several outer chunks, each stored by itself, that count as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.plan import Piece
from hyperslab.chunks.source import ChunkSource
from hyperslab.errors import HyperslabError, TilesFailed


class MultiShardOperation:
    """A read or write of several outer chunks (``count``) that counts as one: ``source`` is asked for moments of it, or
    for a target; where some of its chunks fail the others are tried, so that one error tells of all."""

    def __init__(self, source: ChunkSource, count: int, grid: Grid) -> None:
        self.source = source
        self._count = count
        self._grid = grid
        self._errors: dict[Coords, Exception] = {}

    def noting(self, work: Callable[[Sequence[Piece]], None]) -> Callable[[Sequence[Piece]], None]:
        """``work``, whose failures are kept for the end; those of a single outer chunk are raised."""
        if self._count == 1:
            return work

        def noted(pieces: Sequence[Piece]) -> None:
            try:
                work(pieces)
            except HyperslabError as error:
                tiles: dict[Coords, list[Piece]] = {}
                for piece in pieces:
                    tiles.setdefault(self._grid.outer_of(piece.coords), []).append(piece)
                if len(tiles) == 1:
                    self._errors.update(dict.fromkeys(tiles, error))
                else:  # which of them it was
                    for tile in tiles.values():
                        noted(tile)

        return noted

    def check(self, done: str) -> None:
        """TilesFailed if there were failures."""
        if self._errors:
            message = f"{len(self._errors)} of {self._count} tiles could not be {done}"
            raise TilesFailed(message, exceptions=dict(sorted(self._errors.items())))
