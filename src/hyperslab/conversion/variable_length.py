"""Cells of any length for a target with cells of one length: they are read once before, to find the longest.

Text and references become fixed-length text, bytes of any length become fixed-length bytes; where the target has no
bytes of either kind they become text, if they are UTF-8. Text and references in the fields of rows become text of one
width. Cells of one width are padded with NUL, so cells that end with one are not fitted: they would lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.array.session import OpenDataset
from hyperslab.chunks.plan import make_plan
from hyperslab.codecs.references import text_of
from hyperslab.conversion.adapt import Adapt, TargetNode
from hyperslab.conversion.losses import FITS, Features, Loss, target_type
from hyperslab.conversion.references import ReferenceMap
from hyperslab.conversion.selection import ArraySelection
from hyperslab.conversion.source_nodes import SourceNode
from hyperslab.errors import HyperslabError
from hyperslab.formats.base import Feature
from hyperslab.model.cells import Values, as_bytes, longest_text
from hyperslab.model.dtypes import (
    DataType,
    NumpyDType,
    ObjectRef,
    RegionRef,
    VlenBytes,
    VlenString,
    tagged_fields,
)
from hyperslab.model.spec import ArraySpec

# -- targets that only want to know the length -------------------------------------------------------------------------


# A target that spells bytes as text shows it by the codecs that it gives this array.
RoomForText = Callable[[int], Mapping[str, Any]]
_BYTES = ArraySpec(shape=(), dtype=VlenBytes(), chunks=())


def measure_text(
    source: OpenDataset, nodes: list[TargetNode], room: RoomForText | None, references: ReferenceMap | None = None
) -> tuple[list[TargetNode], tuple[Loss, ...]]:
    """Return the nodes with room for their longest text, where the target wants to know it; and what has no room.

    ``room``: of the target's writer, None where its cells have no bounds. ``references``: what becomes of references,
    which may get longer. Texts that end in NUL would come back without it
    from cells of one width, so such an array is left out.
    """
    nodes = [_measure_fields(source, plan, references) for plan in nodes]
    if room is None:
        return nodes, ()
    measured = [(plan, _measure_array(source, plan, room)) for plan in nodes]
    message = "texts that end in NUL have no place in cells of one width: the array is left out"
    losses = (Loss(plan.source.path, Feature.STRINGS, message) for plan, found in measured if found is None)
    return [found for _, found in measured if found is not None], tuple(losses)


def drop_non_utf8(
    source: OpenDataset, nodes: list[TargetNode], adapt: Adapt
) -> tuple[list[TargetNode], tuple[Loss, ...]]:
    """Return the nodes without arrays of bytes that are no UTF-8, for a target that spells bytes as text; and the
    losses."""
    candidates = [
        plan for plan in nodes if not plan.is_native and plan.node.is_array and isinstance(plan.node.dtype, VlenBytes)
    ]
    if not candidates or all(codec.name != "utf8_bytes" for codec in adapt(_BYTES).codecs):
        return nodes, ()
    message = "bytes that are no UTF-8 have no place where bytes are stored as text: the array is left out"
    losses: dict[str, Loss] = {}
    for plan in candidates:
        try:
            for block in all_cells(source, plan.source):
                for cell in block.flat:
                    as_bytes(cell).decode()
        except UnicodeDecodeError:
            losses[plan.source.path] = Loss(plan.source.path, Feature.VLEN, message)
    return [plan for plan in nodes if plan.source.path not in losses], tuple(losses.values())


def _measure_fields(source: OpenDataset, plan: TargetNode, references: ReferenceMap | None) -> TargetNode:
    """Return rows with the characters that each of their text fields needs (``layout["widths"]``).

    A target may store them in fields of one width.
    """
    spec, origin, picked = plan.node, plan.source.node, plan.source.picked
    if plan.is_native or picked is None or not spec.is_array or not origin.is_array:
        return plan
    if not isinstance(spec.dtype, np.dtype) or not spec.dtype.hasobject:
        return plan
    row = spec.dtype
    kinds = dict(tagged_fields(row))
    widths = dict.fromkeys((name for name in row.names or () if row[name].hasobject), 0)
    for block in read_blocks(source, plan.source.origin, picked):
        moved = block if references is None else references.map_cells(block, origin.dtype)
        for name in widths:
            match kinds.get(name):
                case ObjectRef() | RegionRef() as kind:
                    lengths = [len(text_of(cell, kind)) for cell in moved[name].flat]
                case _:
                    lengths = [0 if cell is None else len(cell) for cell in moved[name].flat]
            widths[name] = max([widths[name], *lengths])
    return replace(plan, node=spec.evolve(layout={**spec.layout, "widths": widths}))


def _measure_array(source: OpenDataset, plan: TargetNode, room_for_text: RoomForText) -> TargetNode | None:
    """Return an array of text with the target's attributes for its longest one; None if a text ends in NUL."""
    spec = plan.node
    if plan.is_native or not spec.is_array or not isinstance(spec.dtype, VlenString) or plan.source.picked is None:
        return plan
    longest = 0
    for block in all_cells(source, plan.source):
        if any(str(cell).endswith("\0") for cell in block.flat):
            return None
        longest = max(longest, longest_text(block))
    try:
        room = room_for_text(longest)
    except HyperslabError as error:
        raise error.locate(node=plan.source.path) from error.__cause__
    return replace(plan, node=spec.evolve(attrs={**room, **spec.attrs}))


def all_cells(source: OpenDataset, item: SourceNode) -> Iterator[Values]:
    """Yield the fill value of an array, then the selected cells, those of one chunk at a time."""
    if item.node.is_array and item.picked is not None:
        yield np.asarray(item.node.fill_cell())
        yield from read_blocks(source, item.origin, item.picked)


def read_blocks(source: OpenDataset, path: str, picked: ArraySelection) -> Iterator[Values]:
    """Yield the selected cells, those of one chunk at a time."""
    chunks = source.reader.chunks(path)
    plan = make_plan(picked.region(tuple(slice(0, length) for length in picked.shape)), chunks.grid)
    for piece in plan:
        if (block := chunks.read(piece.coords)) is not None:
            yield (block if plan.order is None else block.transpose(plan.order))[piece.within]


# -- targets without a type for such cells -----------------------------------------------------------------------------


_TEXT = VlenString | ObjectRef | RegionRef


@dataclass(slots=True)
class _LengthStats:
    """Characters and bytes of the longest cell so far; if all cells are UTF-8, and none ends with NUL."""

    chars: int = 1
    nbytes: int = 1
    is_text: bool = True
    is_whole: bool = True

    def update(self, cells: Iterable[Any]) -> None:
        """Take more cells into account."""
        for cell in cells:
            data = as_bytes(cell)
            self.nbytes = max(self.nbytes, len(data))
            self.is_whole &= not data.endswith(b"\0")
            try:
                self.chars = max(self.chars, len(data.decode()))
            except UnicodeDecodeError:
                self.is_text = False


def fit_fixed_length(
    source: OpenDataset, items: list[SourceNode], features: Features, references: ReferenceMap | None
) -> list[SourceNode]:
    """Return the nodes, with a type that their cells fit into where the target has no type for them as they are.

    Of a target that holds one array the first of them is that one: its text has one length, that of coordinates any.
    """
    fitted = []
    # A target of one array has text of any length in coordinates only.
    narrow = features if features & {Feature.ARRAYS, Feature.GROUPS} else features - {Feature.STRINGS}
    for item in items:
        is_main = item.node.is_array and narrow is not features
        fitted.append(_fit_array(source, item, narrow if is_main else features, references))
        narrow = features if is_main else narrow
    return fitted


def _fit_array(
    source: OpenDataset, item: SourceNode, features: Features, references: ReferenceMap | None
) -> SourceNode:
    """Return an array with a type that its cells fit into, where the target has none for them as they are."""
    spec = item.node
    if not spec.is_array or item.picked is None or target_type(spec.dtype, features) is not None:
        return item
    if not (isinstance(spec.dtype, _TEXT | VlenBytes) or spec.numpy_dtype.names or spec.numpy_dtype.kind == "S"):
        return item
    cells = all_cells(source, item)
    if references is not None:
        cells = (references.map_cells(block, spec.dtype) for block in cells)
    found = _fixed_type(spec.dtype, spec.numpy_dtype, cells, features)
    return item if found is None else replace(item, node=spec.evolve(layout={**spec.layout, FITS: found}))


def _fixed_type(dtype: DataType, base: NumpyDType, cells: Iterator[Values], features: Features) -> DataType | None:
    """Return the type of one length that holds all of these cells; None where the target has none."""
    if base.names:
        return _fixed_row_type(base, cells, features)
    longest = _LengthStats()
    for block in cells:
        longest.update(block.flat)
    if isinstance(dtype, _TEXT):
        wide = np.dtype(f"U{longest.chars}")
        return wide if Feature.UNICODE in features and longest.is_whole else None
    if Feature.FIXED_BYTES in features and longest.is_whole:
        return np.dtype(f"S{longest.nbytes}")
    return VlenString() if Feature.STRINGS in features and longest.is_text and longest.is_whole else None


def _fixed_row_type(base: NumpyDType, cells: Iterator[Values], features: Features) -> DataType | None:
    """Return rows of the same fields with text for those that are objects; of UTF-8 bytes where there is no text."""
    wide = Feature.UNICODE in features
    texts = "O" if wide else "OU"
    found = {name: _LengthStats() for name in base.names or () if base[name].kind in texts}
    for block in cells:
        for name, longest in found.items():
            longest.update(block[name].flat)
    if not found or not all(each.is_whole and each.is_text for each in found.values()):
        return None
    kinds = {name: f"U{each.chars}" if wide else f"S{each.nbytes}" for name, each in found.items()}
    row = np.dtype([(name, kinds.get(name, base[name])) for name in base.names or ()])
    return target_type(row, features)
