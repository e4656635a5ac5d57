"""How long the texts of a source are, for a target that stores them in cells of one width: every chunk is read once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.plan import make_plan
from hyperslab.codecs.reference_text import text_of
from hyperslab.conversion.adapt_to_target import Adapt
from hyperslab.conversion.losses import Loss
from hyperslab.conversion.pointing import Pointing
from hyperslab.conversion.selecting import Picked
from hyperslab.conversion.walking import Planned
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import BoundsText, Feature
from hyperslab.model.cells import as_bytes, longest_text
from hyperslab.model.dtypes import Extension, ObjectRef, RegionRef, VlenBytes, VlenString, tagged_fields
from hyperslab.model.spec import ArraySpec

_BYTES = ArraySpec(shape=(), dtype=VlenBytes(), chunks=())


def with_room_for_text(
    source: OpenDataset, planned: list[Planned], target: object, pointing: Pointing | None = None
) -> tuple[list[Planned], tuple[Loss, ...]]:
    """Return the nodes, those of text with room for what they will hold, where the target wants to know, and what has
    no room.

    ``pointing``: what becomes of references, which may get longer. Cells of one width are padded with NUL: texts that
    end in one would come back without it, so such an array is left out.
    """
    planned = [_with_widths(source, plan, pointing) for plan in planned]
    if not isinstance(target, BoundsText):
        return planned, ()
    measured = [(plan, _measured(source, plan, target)) for plan in planned]
    message = "texts that end in NUL have no place in cells of one width: the array is left out"
    losses = (Loss(plan.item.path, Feature.STRINGS, message) for plan, found in measured if found is None)
    return [found for _, found in measured if found is not None], tuple(losses)


def without_unspellable(
    source: OpenDataset, planned: list[Planned], adapt: Adapt | None
) -> tuple[list[Planned], tuple[Loss, ...]]:
    """Return the nodes without the arrays of bytes that are no UTF-8, for a target that spells bytes as text, and these
    as losses."""
    asked = [plan for plan in planned if _has_bytes(plan)]
    if adapt is None or not asked or all(codec.name != "utf8_bytes" for codec in adapt(_BYTES).codecs):
        return planned, ()
    message = "bytes that are no UTF-8 have no place where bytes are stored as text: the array is left out"
    unheld = {plan.item.path for plan in asked if not _is_utf8(source, plan)}
    losses = tuple(Loss(plan.item.path, Feature.VLEN, message) for plan in asked if plan.item.path in unheld)
    return [plan for plan in planned if plan.item.path not in unheld], losses


def _has_bytes(plan: Planned) -> bool:
    return not plan.settled and isinstance(plan.node, ArraySpec) and isinstance(plan.node.dtype, VlenBytes)


def _is_utf8(source: OpenDataset, plan: Planned) -> bool:
    """Return whether all picked cells, and the fill value, are UTF-8."""
    if not isinstance(plan.item.node, ArraySpec) or plan.item.picked is None:
        return True
    fill = np.asarray(plan.item.node.fill_cell())
    for block in chain([fill], blocks(source, plan.item.origin, plan.item.picked)):
        for cell in block.flat:
            try:
                as_bytes(cell).decode()
            except UnicodeDecodeError:
                return False
    return True


def _with_widths(source: OpenDataset, plan: Planned, pointing: Pointing | None) -> Planned:
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


def _measured(source: OpenDataset, plan: Planned, target: BoundsText) -> Planned | None:
    spec, origin, picked = plan.node, plan.item.node, plan.item.picked
    if plan.settled or not isinstance(spec, ArraySpec) or not isinstance(spec.dtype, VlenString):
        return plan
    if not isinstance(origin, ArraySpec) or picked is None:
        return plan
    longest = _longest(source, plan.item.origin, origin, picked)
    if longest is None:
        return None
    try:
        room = target.room_for_text(longest)
    except HyperslabError as error:
        raise error.locate(node=plan.item.path) from error.__cause__
    return replace(plan, node=spec.evolve(attrs={**room, **spec.attrs}))


def _longest(source: OpenDataset, path: str, spec: ArraySpec, picked: Picked) -> int | None:
    """Return the longest text of the picked cells, and of the fill value; None if one ends in NUL."""
    longest = 0
    for block in chain([np.asarray(spec.fill_cell())], blocks(source, path, picked)):
        if any(str(cell).endswith("\0") for cell in block.flat):
            return None
        longest = max(longest, longest_text(block))
    return longest


def blocks(source: OpenDataset, path: str, picked: Picked) -> Iterator[np.ndarray[Any, Any]]:
    """Return the picked cells, those of one chunk at a time."""
    chunks = source.reader.chunks(path)
    plan = make_plan(picked.region(tuple(slice(0, length) for length in picked.shape)), chunks.grid)
    for piece in plan:
        if (block := chunks.read(piece.coords)) is not None:
            yield (block if plan.order is None else block.transpose(plan.order))[piece.within]
