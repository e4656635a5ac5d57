"""Arrays in tiles: the schema of a tile, which of them have data, and their cells, read and written whole.

When that fails, an error says what is wrong with each tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.chunks.grid import Grid
from hyperslab.chunks.plan import Piece, make_plan
from hyperslab.chunks.source import ListsChunks, Transacts, WritesTogether
from hyperslab.database.slicing import Item
from hyperslab.errors import CorruptChunk, FormatError, HyperslabError, MissingChunks, StorageError, TilesFailed
from hyperslab.model.schemas import ArraySchema, AttributeSchema, DimensionSchema, TimeDimensionSchema, VArraySchema
from hyperslab.selection.positional import select

Values = np.ndarray[Any, Any]
_OF_A_TILE = (CorruptChunk, FormatError, MissingChunks, StorageError)


def tile_schema(schema: VArraySchema) -> ArraySchema:
    """The schema of the tiles of a VArray: its dimensions cut, without labels; whose tile one is, and which."""
    starts = sorted(schema.start_attributes)
    dimensions: list[DimensionSchema | TimeDimensionSchema] = []
    for each, size in zip(schema.dimensions, schema.arrays_shape, strict=True):
        if isinstance(each, DimensionSchema):
            dimensions.append(DimensionSchema(each.name, size))
        else:
            start = each.start_value if each.attribute is None else f"$parent.{each.attribute}"
            dimensions.append(TimeDimensionSchema(each.name, size, start, each.step))
    attributes = [AttributeSchema("vid", str, True), AttributeSchema("v_position", tuple, True)]
    attributes += [AttributeSchema(f"parent.{name}", datetime, False) for name in starts]
    return ArraySchema(dimensions, schema.dtype, attributes, schema.fill_value)


def stored_tiles(cells: Array) -> list[tuple[int, ...]]:
    """The positions of the tiles that have data, sorted; those of all tiles where the layout cannot tell."""
    source = cells.lazy[...].cells.source
    grid = source.grid
    places = source.stored() if isinstance(source, ListsChunks) else iter(grid)
    if grid.outer is None:
        return sorted(places)
    return sorted(set(map(grid.outer_of, places)))


def read_tiles(cells: Array, items: tuple[Item, ...], tile: tuple[int, ...]) -> Any:
    """The cells of a key. TilesFailed when tiles are damaged: it has the error of each."""
    try:
        return cells.lazy[items].read()
    except _OF_A_TILE as error:
        pieces = list(_pieces(cells, items, tile))
        if len(pieces) > 1:
            _each(pieces, lambda piece: cells.lazy[_within(piece, tile)].read(), "cannot be read", error)
        raise


def write_tiles(cells: Array, items: tuple[Item, ...], tile: tuple[int, ...], values: Values) -> None:
    """Store the cells of a key. Where one write is all or nothing, its error says why nothing was written; elsewhere
    the other tiles are written nevertheless, and TilesFailed has the error of each that was not."""
    view = cells.lazy[items]
    try:
        view.write(values)
    except _OF_A_TILE as error:
        pieces = list(_pieces(cells, items, tile))
        source = view.cells.source
        if isinstance(source, WritesTogether | Transacts) or len(pieces) < 2:
            raise
        spread = view.selection.spread(values)
        _each(pieces, lambda piece: cells.lazy[_within(piece, tile)].write(spread[piece.out]), "not written", error)


def _pieces(cells: Array, items: tuple[Item, ...], tile: tuple[int, ...]) -> Iterator[Piece]:
    return iter(make_plan(select(items, cells.shape).region, Grid.of(cells.shape, tile)))


def _within(piece: Piece, tile: tuple[int, ...]) -> tuple[slice, ...]:
    """The cells of a piece as positions in the array."""
    starts = [place * length for place, length in zip(piece.coords, tile, strict=True)]
    return tuple(
        slice(start + part.start, start + part.stop, part.step)
        for start, part in zip(starts, piece.within, strict=True)
    )


def _each(pieces: list[Piece], work: Callable[[Piece], Any], what: str, first: HyperslabError) -> None:
    failed: dict[tuple[int, ...], Exception] = {}
    for piece in pieces:
        try:
            work(piece)
        except _OF_A_TILE as error:
            failed[piece.coords] = error
    if failed:
        message = f"{len(failed)} of {len(pieces)} tiles {what}"
        raise TilesFailed(message, exceptions=failed, url=first.url, node=first.node) from first
