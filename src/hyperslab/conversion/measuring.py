"""How long the texts of a source are, for a target that stores them in cells of one width: every chunk is read once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hyperslab.array.session import Session
from hyperslab.chunks.plan import make_plan
from hyperslab.conversion.selecting import Picked
from hyperslab.conversion.walking import Planned
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import BoundsText
from hyperslab.model.cells import longest_text
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import ArraySpec


def with_room_for_text(source: Session, planned: list[Planned], target: object) -> list[Planned]:
    """The nodes, those of text with room for what they will hold, where the target wants to know."""
    if not isinstance(target, BoundsText):
        return planned
    return [_measured(source, plan, target) for plan in planned]


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
    """The longest text of the chunks that hold the picked cells, and of the fill value; a chunk at a time."""
    chunks = source.reader.chunks(path)
    plan = make_plan(picked.region(tuple(slice(0, length) for length in picked.shape)), chunks.grid)
    longest = longest_text(np.asarray(spec.fill_cell()))
    for piece in plan:
        block = chunks.read(piece.coords)
        longest = max(longest, 0 if block is None else longest_text(block))
    return longest
