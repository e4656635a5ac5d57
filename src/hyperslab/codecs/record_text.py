"""``record_text``: rows with text and references as packed rows of fixed width, as HDMF on Zarr v3 stores them.

Text is UTF-32 in so many characters; references are spelled as :mod:`~hyperslab.codecs.reference_text` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.codecs.reference_text import of_text, text_of
from hyperslab.errors import Invalid
from hyperslab.model.dtypes import Compound, ObjectRef, RegionRef, VlenString, tagged_fields
from hyperslab.model.spec import ArraySpec

Kind = VlenString | ObjectRef | RegionRef


class RecordText:
    """Rows in memory over packed rows; ``widths`` has the characters of each field that is text or a reference."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("record_text", config, "widths")
        base = cells.dtype.base if isinstance(cells.dtype, Compound) else cells.dtype
        if not isinstance(base, np.dtype) or base.names is None:
            raise unfit("record_text", "rows", cells.dtype)
        self._memory = base
        self._kinds: dict[str, Any] = {name: kind for name, kind in tagged_fields(base) if isinstance(kind, Kind)}
        self._widths = _widths(config.get("widths"), base, set(self._kinds))
        fields: Mapping[str, Any] = base.fields or {}
        stored = np.dtype(
            [(name, f"<U{self._widths[name]}" if name in self._kinds else fields[name][0]) for name in base.names]
        )
        self._cells = ChunkLayout(stored, cells.shape)
        fill = ArraySpec(shape=(), dtype=base, chunks=(), fill_value=cells.fill_value).fill_cell()
        self._cells = ChunkLayout(stored, cells.shape, self.encode(fill)[()])

    @property
    def cells(self) -> ChunkLayout:
        """Packed rows."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """The packed rows; Invalid names a field that is too narrow for what is to be put there."""
        out = np.empty(array.shape, self._cells.numpy_dtype)
        for name in out.dtype.names or ():
            kind = self._kinds.get(name)
            if kind is None:
                out[name] = array[name]
            else:
                texts = [_text(cell, kind, name) for cell in array[name].reshape(-1).tolist()]
                _require_room(texts, name, self._widths[name])
                out[name] = np.array(texts, out.dtype[name]).reshape(array.shape)
        return out

    def decode(self, array: Values) -> Values:
        """The rows; CorruptChunk where a reference is spelled wrong."""
        out = np.empty(array.shape, self._memory)
        for name in out.dtype.names or ():
            kind = self._kinds.get(name)
            if kind is None:
                out[name] = array[name]
            else:
                texts = array[name].reshape(-1).tolist()
                cells = texts if isinstance(kind, VlenString) else [of_text(text, kind) for text in texts]
                out[name] = np.fromiter(cells, object, len(cells)).reshape(array.shape)
        return out


def _widths(said: Any, dtype: np.dtype[Any], wanted: set[str]) -> dict[str, int]:
    objects = {name for name in dtype.names or () if dtype[name].hasobject}
    if not isinstance(said, Mapping) or set(said) != wanted or objects != wanted:
        raise Invalid(
            f"codec 'record_text': widths={said!r:.200}", remedy=f"the characters of {', '.join(sorted(wanted))}"
        )
    if not all(type(width) is int and 0 < width < 2**28 for width in said.values()):
        raise Invalid(f"codec 'record_text': widths={said!r:.200}", remedy="whole numbers of characters")
    return dict(said)


def _text(cell: Any, kind: Kind, name: str) -> str:
    if not isinstance(kind, VlenString):
        return text_of(cell, kind)
    if not (cell is None or isinstance(cell, str)):
        raise Invalid(f"{type(cell).__name__} does not fit the text field {name!r}")
    return cell or ""


def _require_room(texts: list[str], name: str, width: int) -> None:
    longest = max(texts, key=len, default="")
    if len(longest) > width:
        raise Invalid(
            f"{len(longest)} characters do not fit into the {width} of field {name!r}: {longest[:40]!r}",
            remedy="make the array anew with data=, whose longest text decides (there is room for 512 at least)",
        )
    if ending := next((text for text in texts if text.endswith("\0")), None):
        raise Invalid(f"text that ends with a NUL in field {name!r}: {ending[:40]!r}", remedy="remove the NUL")
