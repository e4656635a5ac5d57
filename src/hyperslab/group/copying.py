"""Copy what a node holds inside its dataset: specs, then the chunks as they are cut."""

from __future__ import annotations

from hyperslab.array.session import OpenDataset
from hyperslab.chunks import execute
from hyperslab.chunks.grouping import grouped
from hyperslab.chunks.source import ChunkSource, ListsChunks
from hyperslab.errors import Unsupported
from hyperslab.formats.base import omitted_below
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, GroupSpec

_BATCH = 16


def copy_content(session: OpenDataset, source: str, target: str) -> None:
    """Give ``target``, which was just made as ``source`` is, the cells of ``source`` and copies of all below it."""
    writer = session.writer()
    waiting = [(source, target)]
    while waiting:
        source, target = waiting.pop()
        spec = writer.node(source)
        if isinstance(spec, ArraySpec):
            _copy_chunks(session, writer.chunks(source), writer.chunks(target))
        elif isinstance(spec, GroupSpec):
            below = [(child(source, name), child(target, name)) for name in writer.children(source)]
            for inner, copy in below:
                writer.put(copy, writer.node(inner))
            waiting += reversed(below)


def raise_if_incomplete(session: OpenDataset, path: str) -> None:
    """Refuse to copy a node that holds what is not shown: Unsupported."""
    lost = [str(problem) for problem in omitted_below(session.reader, path)]
    if lost:
        message = f"the copy would lack what is not shown: {'; '.join(lost)}"
        raise Unsupported(message, url=session.url, node=path, remedy="copy it with a library of the format itself")


def _copy_chunks(session: OpenDataset, source: ChunkSource, target: ChunkSource) -> None:
    coords = source.stored() if isinstance(source, ListsChunks) else iter(source.grid)
    for batch in grouped(coords, target.grid, _BATCH):
        blocks = ((place, source.read(place)) for place in batch)
        pairs = [(place, block) for place, block in blocks if block is not None]
        execute.store(target, pairs, session.settings)
