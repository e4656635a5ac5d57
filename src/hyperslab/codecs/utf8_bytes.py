"""``utf8_bytes``: bytes as the text that they spell, for formats that store bytes as text (HDMF on Zarr v3)."""

from __future__ import annotations

import numpy as np

from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.errors import Invalid
from hyperslab.model.dtypes import VlenBytes, VlenString


class Utf8Bytes:
    """Cells of bytes to cells of text and back."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("utf8_bytes", config)
        if not isinstance(cells.dtype, VlenBytes):
            raise unfit("utf8_bytes", "byte strings", cells.dtype)
        self.cells = ChunkLayout(VlenString(), cells.shape, _text(cells.fill_value))

    def encode(self, array: Values) -> Values:
        """Text; Invalid for a cell that is not UTF-8."""
        texts = [_text(cell) for cell in array.reshape(-1).tolist()]
        return np.array(texts, np.dtypes.StringDType()).reshape(array.shape)

    def decode(self, array: Values) -> Values:
        """Bytes."""
        cells = [str(cell).encode() for cell in array.reshape(-1).tolist()]
        return np.fromiter(cells, object, len(cells)).reshape(array.shape)


def _text(cell: bytes | None) -> str:
    try:
        return "" if cell is None else str(memoryview(cell), "utf-8")
    except (TypeError, UnicodeDecodeError) as error:
        raise Invalid(f"these bytes are no UTF-8: {cell!r:.60}: {error}", remedy="use profile='v2'") from None
