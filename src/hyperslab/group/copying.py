"""Copy a node inside its dataset: specs, then the chunks as they are cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import floordiv

from hyperslab.array.session import Session
from hyperslab.chunks import execute
from hyperslab.chunks.grid import Coords, Grid
from hyperslab.chunks.source import ChunkSource, Lists, WritesMany
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec

_BATCH = 16


def copy_node(session: Session, source: str, target: str) -> None:
    """Make ``target`` a copy of ``source`` with all below it."""
    writer = session.writer()
    spec = writer.node(source)
    writer.put(target, spec)
    if isinstance(spec, ArraySpec):
        _copy_chunks(session, writer.chunks(source), writer.chunks(target))
        return
    for name in list(writer.children(source)):
        copy_node(session, child(source, name), child(target, name))


def _copy_chunks(session: Session, source: ChunkSource, target: ChunkSource) -> None:
    coords = source.stored() if isinstance(source, Lists) else iter(source.grid)
    for batch in _batches(coords, target.grid):
        blocks = ((place, source.read(place)) for place in batch)
        pairs = [(place, block) for place, block in blocks if block is not None]
        if isinstance(target, WritesMany):
            target.write_many(pairs, durable=session.settings.durable)
        else:
            for place, block in pairs:
                target.write(place, block)


def _batches(coords: Iterator[Coords], grid: Grid) -> Iterator[Iterable[Coords]]:
    """A few chunks at a time; those of an outer chunk (shard) together, so that each is written once."""
    if grid.outer is None:
        while batch := list(islice(coords, _BATCH)):
            yield batch
        return
    members = execute.members_per_outer(grid)
    for _, group in groupby(coords, lambda place: tuple(map(floordiv, place, members))):
        yield group
