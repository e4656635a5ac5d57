"""Copy a node inside its dataset: specs, then the chunks as they are cut."""

from __future__ import annotations

from itertools import islice
from typing import Any

from hyperslab.array.session import Session
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
        copy_node(session, f"{source}/{name}" if source else name, f"{target}/{name}")


def _copy_chunks(session: Session, source: Any, target: Any) -> None:
    coords = iter(source.stored() if hasattr(source, "stored") else source.grid)
    while batch := list(islice(coords, _BATCH)):
        blocks = ((place, source.read(place)) for place in batch)
        pairs = [(place, block) for place, block in blocks if block is not None]
        if hasattr(target, "write_many") and target.grid.outer is None:
            target.write_many(pairs, durable=session.settings.durable)
        else:
            for place, block in pairs:
                target.write(place, block)
