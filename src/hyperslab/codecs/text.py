"""Bytes as text and text as bytes of one width: ``base64``, ``utf8_bytes`` and ``fixed_utf8``.

``base64`` is RFC 4648 with padding. ``utf8_bytes`` takes bytes for the text that they spell, for formats that store
bytes as text (HDMF on Zarr v3). ``fixed_utf8`` stores text as UTF-8 in cells of one width with NUL bytes behind, as
NCZarr does (dtype ``|Sn``).
"""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64

import numpy as np

from hyperslab.codecs.base import Buffer, ChunkLayout, Values
from hyperslab.codecs.bounds import check_size, damaged
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.errors import CorruptChunk, Invalid
from hyperslab.model.dtypes import VlenBytes, VlenString


class Base64:
    """Four characters for three bytes."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("base64", config)

    def encoded_size(self, size: int) -> int:
        """A third more."""
        return (size + 2) // 3 * 4

    def encode(self, data: Buffer) -> Buffer:
        """Text without line breaks."""
        return b2a_base64(data, newline=False)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """The bytes; CorruptChunk at the first character that is not base64."""
        try:
            out = a2b_base64(data, strict_mode=True)
        except (Error, ValueError) as error:
            raise damaged("base64", error, size) from error
        check_size("base64", out, size)
        return out


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
