"""How long the texts of a source are, for a target that stores them in cells of one width: every chunk is read once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from hyperslab.array.session import Session
from hyperslab.chunks.plan import make_plan
from hyperslab.codecs.reference_text import text_of
from hyperslab.conversion.pointing import Pointing
from hyperslab.conversion.selecting import Picked
from hyperslab.conversion.walking import Planned
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import BoundsText
from hyperslab.model.cells import longest_text
from hyperslab.model.dtypes import Extension, ObjectRef, RegionRef, VlenString, tagged_fields
from hyperslab.model.spec import ArraySpec


def with_room_for_text(
    source: Session, planned: list[Planned], target: object, pointing: Pointing | None = None
) -> list[Planned]:
    """The nodes, those of text with room for what they will hold, where the target wants to know. ``pointing``: what
    becomes of references, which may get longer."""
    planned = [_with_widths(source, plan, pointing) for plan in planned]
    if not isinstance(target, BoundsText):
        return planned
    return [_measured(source, plan, target) for plan in planned]


def _with_widths(source: Session, plan: Planned, pointing: Pointing | None) -> Planned:
    """Rows with text or references, with the characters that each of these fields needs (``layout["widths"]``): a
    target may store them in fields of one width."""
    spec, origin, picked = plan.node, plan.item.node, plan.item.picked
    rows = isinstance(spec, ArraySpec) and isinstance(spec.dtype, np.dtype) and spec.dtype.hasobject
    if plan.settled or not rows or not isinstance(spec, ArraySpec) or picked is None:
        return plan
    if not isinstance(origin, ArraySpec):
        return plan
    kinds = dict(tagged_fields(spec.numpy_dtype))
    widths = dict.fromkeys((name for name in spec.numpy_dtype.names or () if spec.numpy_dtype[name].hasobject), 0)
    for block in blocks(source, plan.item.origin, picked):
        moved = block if pointing is None else pointing.cells(block, origin.dtype)
        for name in widths:
            widths[name] = max([widths[name], *(_width(cell, kinds.get(name)) for cell in moved[name].flat)])
    return replace(plan, node=spec.evolve(layout={**spec.layout, "widths": widths}))


def _width(cell: Any, kind: Extension | None) -> int:
    if isinstance(kind, ObjectRef | RegionRef):
        return len(text_of(cell, kind))
    return 0 if cell is None else len(cell)


def _measured(source: Session, plan: Planned, target: BoundsText) -> Planned:
    spec, origin, picked = plan.node, plan.item.node, plan.item.picked
    if plan.settled or not isinstance(spec, ArraySpec) or not isinstance(spec.dtype, VlenString):
        return plan
    if not isinstance(origin, ArraySpec) or picked is None:
        return plan
    try:
        room = target.room_for_text(_longest(source, plan.item.origin, origin, picked))
    except HyperslabError as error:
        raise error.locate(node=plan.item.path) from error.__cause__
    return replace(plan, node=spec.evolve(attrs={**room, **spec.attrs}))


def _longest(source: Session, path: str, spec: ArraySpec, picked: Picked) -> int:
    """The longest text of the chunks that hold the picked cells, and of the fill value."""
    longest = longest_text(np.asarray(spec.fill_cell()))
    return max([longest, *map(longest_text, blocks(source, path, picked))])


def blocks(source: Session, path: str, picked: Picked) -> Iterator[np.ndarray[Any, Any]]:
    """The chunks that hold the picked cells, one at a time."""
    chunks = source.reader.chunks(path)
    plan = make_plan(picked.region(tuple(slice(0, length) for length in picked.shape)), chunks.grid)
    for piece in plan:
        if (block := chunks.read(piece.coords)) is not None:
            yield block
