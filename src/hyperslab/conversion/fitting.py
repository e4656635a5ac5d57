"""Cells of any length for a target that has none: as long as the longest of them, where that keeps every value.

Text and references become fixed-length text, bytes of any length become fixed-length bytes; where the target has no
bytes of either kind they become text, if they are UTF-8. Text and references in the fields of rows become text of one
width. Every chunk of such an array is read once for that; cells that end with a NUL would lose it, and are not fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.array.session import OpenDataset
from hyperslab.conversion.losses import FITS, Features, held_type
from hyperslab.conversion.measuring import blocks
from hyperslab.conversion.pointing import Pointing
from hyperslab.conversion.walking import Item
from hyperslab.formats.base import Feature
from hyperslab.model.cells import as_bytes
from hyperslab.model.dtypes import DataType, ObjectRef, RegionRef, VlenBytes, VlenString
from hyperslab.model.spec import ArraySpec

Values = np.ndarray[Any, Any]

_TEXT = VlenString | ObjectRef | RegionRef


@dataclass(slots=True)
class _Longest:
    """Of the cells seen so far: characters and bytes of the longest; whether all are UTF-8, and none ends with NUL."""

    chars: int = 1
    nbytes: int = 1
    is_text: bool = True
    is_whole: bool = True

    def see(self, cells: Iterable[Any]) -> None:
        for cell in cells:
            data = as_bytes(cell)
            self.nbytes = max(self.nbytes, len(data))
            self.is_whole &= not data.endswith(b"\0")
            try:
                self.chars = max(self.chars, len(data.decode()))
            except UnicodeDecodeError:
                self.is_text = False


def fitted(source: OpenDataset, items: list[Item], features: Features, pointing: Pointing | None) -> list[Item]:
    """The items, those whose cells the target has no type for with one that they fit into, where there is one.

    Of a target that holds one array the first of them is that one: its text has one length, that of coordinates any.
    """
    found = []
    narrow = features if features & {Feature.ARRAYS, Feature.GROUPS} else features - {Feature.STRINGS}
    for item in items:
        is_main = isinstance(item.node, ArraySpec) and narrow is not features
        found.append(_fitted(source, item, narrow if is_main else features, pointing))
        narrow = features if is_main else narrow
    return found


def _fitted(source: OpenDataset, item: Item, features: Features, pointing: Pointing | None) -> Item:
    spec = item.node
    if not isinstance(spec, ArraySpec) or item.picked is None or held_type(spec.dtype, features) is not None:
        return item
    if not (isinstance(spec.dtype, _TEXT | VlenBytes) or spec.numpy_dtype.names or spec.numpy_dtype.kind == "S"):
        return item
    cells = (each if pointing is None else pointing.cells(each, spec.dtype) for each in _all(source, item, spec))
    found = _type_for(spec.dtype, spec.numpy_dtype, cells, features)
    return item if found is None else replace(item, node=spec.evolve(layout={**spec.layout, FITS: found}))


def _all(source: OpenDataset, item: Item, spec: ArraySpec) -> Iterator[Values]:
    yield np.asarray(spec.fill_cell())
    if item.picked is not None:
        yield from blocks(source, item.origin, item.picked)


def _type_for(dtype: DataType, base: np.dtype[Any], cells: Iterator[Values], features: Features) -> DataType | None:
    if base.names:
        return _row_for(base, cells, features)
    longest = _Longest()
    for block in cells:
        longest.see(block.flat)
    if isinstance(dtype, _TEXT):
        wide = np.dtype(f"U{longest.chars}")
        return wide if Feature.UNICODE in features and longest.is_whole else None
    if Feature.FIXED_BYTES in features and longest.is_whole:
        return np.dtype(f"S{longest.nbytes}")
    return VlenString() if Feature.STRINGS in features and longest.is_text and longest.is_whole else None


def _row_for(base: np.dtype[Any], cells: Iterator[Values], features: Features) -> DataType | None:
    """Rows of the same fields, those that are objects as text: of UTF-8 bytes where there is no fixed-length text."""
    wide = Feature.UNICODE in features
    texts = "O" if wide else "OU"
    found = {name: _Longest() for name in base.names or () if base[name].kind in texts}
    for block in cells:
        for name, longest in found.items():
            longest.see(block[name].flat)
    if not found or not all(each.is_whole and each.is_text for each in found.values()):
        return None
    kinds = {name: f"U{each.chars}" if wide else f"S{each.nbytes}" for name, each in found.items()}
    row = np.dtype([(name, kinds.get(name, base[name])) for name in base.names or ()])
    return held_type(row, features)
