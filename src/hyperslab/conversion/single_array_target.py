"""A target that holds one array cannot leave it out: what it has no place for is refused, whatever may be lost."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.conversion.losses import Loss, left_out, losses_of
from hyperslab.conversion.walking import Item, Planned
from hyperslab.errors import Unsupported
from hyperslab.formats.base import Feature, Format, HoldsMoreBeside
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import ArraySpec

_TEXT = "a text in it ends with NUL, which no text of a fixed length keeps"


def refuse_unheld(items: Sequence[Item], format: Format) -> None:
    """Unsupported where a target of one array has no place for that one: the first of them, fitted if it can be."""
    main = _main(items, format)
    if main is None or not isinstance(main.node, ArraySpec):
        return
    alone = format.features - _beside(format)
    if left_out(main.path, main.node, alone):
        reasons = [loss.message for loss in losses_of(main.path, main.node, alone) if "is left out" in loss.message]
        raise _refusal(main, format, [_TEXT] if isinstance(main.node.dtype, VlenString) else reasons[:1])


def refuse_lost(items: Sequence[Item], planned: Sequence[Planned], losses: Sequence[Loss], format: Format) -> None:
    """Unsupported where such a target, asked about the array itself, did not take it."""
    main = _main(items, format)
    if main is not None and not any(plan.item is main for plan in planned):
        raise _refusal(main, format, [loss.message for loss in losses if loss.node == main.path])


def _main(items: Sequence[Item], format: Format) -> Item | None:
    if format.features & {Feature.GROUPS, Feature.ARRAYS}:
        return None
    return next((item for item in items if isinstance(item.node, ArraySpec)), None)


def _beside(format: Format) -> frozenset[Feature]:
    return format.in_coordinates if isinstance(format, HoldsMoreBeside) else frozenset({Feature.STRINGS})


def _refusal(main: Item, format: Format, reasons: Sequence[str]) -> Unsupported:
    why = "; ".join(reasons).replace(": the array is left out", "").replace("the 0-d array is left out", "it is 0-d")
    message = f"{format.name} holds one array, and has no place for this one: {why}"
    return Unsupported(
        message, node=main.path, remedy="choose another array by path= (--path), or another format, such as zarr3"
    )
