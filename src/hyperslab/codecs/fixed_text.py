"""``fixed_utf8``: text as UTF-8 in cells of one width, NUL bytes behind; how NCZarr stores strings (dtype ``|Sn``)."""

from __future__ import annotations

import numpy as np

from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.errors import CorruptChunk, Invalid
from hyperslab.model.dtypes import VlenString


class FixedUtf8:
    """Text cells as ``length`` bytes each. Longer text is Invalid, or cut between characters with ``truncate``."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("fixed_utf8", config, "length", "truncate")
        if not isinstance(cells.dtype, VlenString):
            raise unfit("fixed_utf8", "text", cells.dtype)
        length = config.get("length")
        if type(length) is not int or not 0 < length < 2**28:
            raise Invalid(f"codec 'fixed_utf8': length={length!r}", remedy="a whole number of bytes")
        self._length = length
        self._truncate = bool(config.get("truncate"))
        fill = None if cells.fill_value is None else np.bytes_(str(cells.fill_value).encode()[:length])
        self._cells = ChunkLayout(np.dtype(f"S{length}"), cells.shape, fill)

    @property
    def cells(self) -> ChunkLayout:
        """Bytes of one width."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """The text as bytes; Invalid names the longest that does not fit."""
        encoded = [text.encode() for text in array.reshape(-1).tolist()]
        longest = max(encoded, key=len, default=b"")
        if len(longest) > self._length:
            if not self._truncate:
                shown = longest[:40].decode(errors="ignore")
                raise Invalid(
                    f"text of {len(longest)} bytes does not fit into cells of {self._length}: {shown!r}",
                    remedy=f"make the array with the attribute _nczarr_maxstrlen={len(longest)}, or truncate=True",
                )
            encoded = [_cut(text, self._length) for text in encoded]
        return np.array(encoded, self._cells.numpy_dtype).reshape(array.shape)

    def decode(self, array: Values) -> Values:
        """The text; CorruptChunk where the bytes are no UTF-8."""
        try:
            texts = [cell.decode() for cell in array.reshape(-1).tolist()]
        except UnicodeDecodeError as error:
            raise CorruptChunk(f"fixed_utf8: {error}", expected="UTF-8", found=error.object[:20]) from None
        return np.array(texts, np.dtypes.StringDType()).reshape(array.shape)


def _cut(text: bytes, length: int) -> bytes:
    """The text up to so many bytes, without half a character at the end."""
    return text[:length].decode(errors="ignore").encode() if len(text) > length else text
