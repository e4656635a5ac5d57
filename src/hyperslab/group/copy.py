"""Copy what a node holds inside its dataset: specs, then the chunks as they are cut."""

from __future__ import annotations

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.plan import grouped
from hyperslab.errors import Unsupported
from hyperslab.model.paths import child

# Chunks that are read before they are written together: so many are in memory at once.
CHUNKS_PER_COPY = 16


def copy_content(session: OpenDataset, source: str, target: str) -> None:
    """Give ``target``, which was just made as ``source`` is, the cells of ``source`` and copies of all below it."""
    writer = session.writer()
    waiting = [(source, target)]
    while waiting:
        source, target = waiting.pop()
        spec = writer.node(source)
        if spec.is_array:
            stored, copied = writer.chunks(source), writer.chunks(target)
            for batch in grouped(stored.stored_coords(), copied.grid, CHUNKS_PER_COPY):
                blocks = ((place, stored.read(place)) for place in batch)
                pairs = [(place, block) for place, block in blocks if block is not None]
                copied.write_batch(pairs, durable=session.settings.durable)
        elif spec.is_group:
            below = [(child(source, name), child(target, name)) for name in writer.children(source)]
            for inner, copy in below:
                writer.put(copy, writer.node(inner))
            waiting += reversed(below)


def raise_if_omissions(session: OpenDataset, path: str) -> None:
    """Refuse to copy a node that holds what is not shown: Unsupported."""
    lost = [str(problem) for problem in session.reader.omitted_below(path)]
    if lost:
        message = f"the copy would lack what is not shown: {'; '.join(lost)}"
        raise Unsupported(message, url=session.url, node=path, remedy="copy it with a library of the format itself")
