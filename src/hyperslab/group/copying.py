"""Copy a node inside its dataset: specs, then the chunks as they are cut."""

from __future__ import annotations

from hyperslab.array.session import Session
from hyperslab.chunks import execute
from hyperslab.chunks.grouping import grouped
from hyperslab.chunks.source import ChunkSource, Lists
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec

_BATCH = 16


def copy_node(session: Session, source: str, target: str) -> None:
    """Make ``target`` a copy of ``source`` with all below it."""
    writer = session.writer()
    waiting = [(source, target)]
    while waiting:
        source, target = waiting.pop()
        spec = writer.node(source)
        writer.put(target, spec)
        if isinstance(spec, ArraySpec):
            _copy_chunks(session, writer.chunks(source), writer.chunks(target))
        elif isinstance(spec, GroupSpec):
            waiting += [(child(source, name), child(target, name)) for name in reversed(list(writer.children(source)))]


def _copy_chunks(session: Session, source: ChunkSource, target: ChunkSource) -> None:
    coords = source.stored() if isinstance(source, Lists) else iter(source.grid)
    for batch in grouped(coords, target.grid, _BATCH):
        blocks = ((place, source.read(place)) for place in batch)
        pairs = [(place, block) for place, block in blocks if block is not None]
        execute.store(target, pairs, session.settings)
