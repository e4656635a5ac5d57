"""Text: ``base64``, ``utf8_bytes``, ``fixed_utf8``, and ``record_text`` for rows with text and references.

``base64`` is RFC 4648 with padding. ``utf8_bytes`` takes bytes for the text that they spell, for formats that store
bytes as text (HDMF on Zarr v3). ``fixed_utf8`` stores text as UTF-8 in cells of one width with NUL bytes behind, as
NCZarr does (dtype ``|Sn``).
"""

from __future__ import annotations

from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.codecs.base import ArrayToArray, Buffer, BytesToBytes, ChunkLayout
from hyperslab.codecs.buffers import check_size, damaged
from hyperslab.codecs.config import Config, only, require_type, unfit
from hyperslab.codecs.references import of_text, text_of
from hyperslab.errors import CorruptChunk, Invalid
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import Compound, NumpyDType, ObjectRef, RegionRef, VlenBytes, VlenString, tagged_fields
from hyperslab.model.spec import ArraySpec


class Base64(BytesToBytes):
    """Four characters for three bytes."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("base64", config)

    def encoded_size(self, size: int) -> int:
        """Return a third more."""
        return (size + 2) // 3 * 4

    def encode(self, data: Buffer) -> Buffer:
        """Return text without line breaks."""
        return b2a_base64(data, newline=False)

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the bytes; CorruptChunk at the first character that is not base64."""
        try:
            out = a2b_base64(data, strict_mode=True)
        except (Error, ValueError) as error:
            raise damaged("base64", error, size) from error
        check_size("base64", out, size)
        return out


class Utf8Bytes(ArrayToArray):
    """Cells of bytes to cells of text and back."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("utf8_bytes", config)
        require_type("utf8_bytes", "byte strings", cells.dtype, VlenBytes)
        self.cells = ChunkLayout(VlenString(), cells.shape, _text(cells.fill_value))

    def encode(self, array: Values) -> Values:
        """Return text; Invalid for a cell that is not UTF-8."""
        texts = [_text(cell) for cell in array.reshape(-1).tolist()]
        return np.array(texts, np.dtypes.StringDType()).reshape(array.shape)

    def decode(self, array: Values) -> Values:
        """Return bytes."""
        cells = [str(cell).encode() for cell in array.reshape(-1).tolist()]
        return np.fromiter(cells, object, len(cells)).reshape(array.shape)


def _text(cell: bytes | None) -> str:
    try:
        return "" if cell is None else str(memoryview(cell), "utf-8")
    except (TypeError, UnicodeDecodeError) as error:
        raise Invalid(f"these bytes are no UTF-8: {cell!r:.60}: {error}", remedy="use profile='v2'") from None


class FixedUtf8(ArrayToArray):
    """Text cells as ``length`` bytes each. Longer text is Invalid, or cut between characters with ``truncate``."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("fixed_utf8", config, "length", "truncate")
        require_type("fixed_utf8", "text", cells.dtype, VlenString)
        length = config.get("length")
        if type(length) is not int or not 0 < length < 2**28:
            raise Invalid(f"codec 'fixed_utf8': length={length!r}", remedy="a whole number of bytes")
        self._length = length
        self._truncate = bool(config.get("truncate"))
        fill = None if cells.fill_value is None else np.bytes_(str(cells.fill_value).encode()[:length])
        self.cells = ChunkLayout(np.dtype(f"S{length}"), cells.shape, fill)

    def encode(self, array: Values) -> Values:
        """Return the text as bytes; Invalid names the longest that does not fit."""
        encoded = [text.encode() for text in array.reshape(-1).tolist()]
        longest = max(encoded, key=len, default=b"")
        if len(longest) > self._length:
            if not self._truncate:
                shown = longest[:40].decode(errors="ignore")
                raise Invalid(
                    f"text of {len(longest)} bytes does not fit into cells of {self._length}: {shown!r}",
                    remedy=f"make the array with the attribute _nczarr_maxstrlen={len(longest)}, or truncate=True",
                )
            # Cut between characters: half a one at the end is no UTF-8, and is left out.
            encoded = [text[: self._length].decode(errors="ignore").encode() for text in encoded]
        return np.array(encoded, self.cells.numpy_dtype).reshape(array.shape)

    def decode(self, array: Values) -> Values:
        """Return the text; CorruptChunk where the bytes are no UTF-8."""
        try:
            texts = [cell.decode() for cell in array.reshape(-1).tolist()]
        except UnicodeDecodeError as error:
            raise CorruptChunk(f"fixed_utf8: {error}", expected="UTF-8", found=error.object[:20]) from None
        return np.array(texts, np.dtypes.StringDType()).reshape(array.shape)


# -- record_text: packed rows of fixed width, as HDMF on Zarr v3 stores them -------------------------------------------
# Text is UTF-32 in so many characters; references are spelled as :mod:`~hyperslab.codecs.references` does.


Kind = VlenString | ObjectRef | RegionRef


class RecordText(ArrayToArray):
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
        self.cells = ChunkLayout(stored, cells.shape)
        fill = ArraySpec(shape=(), dtype=base, chunks=(), fill_value=cells.fill_value).fill_cell()
        self.cells = ChunkLayout(stored, cells.shape, self.encode(fill)[()])

    def encode(self, array: Values) -> Values:
        """Return the packed rows; Invalid names a field that is too narrow for what is to be put there."""
        out = np.empty(array.shape, self.cells.numpy_dtype)
        for name in out.dtype.names or ():
            kind = self._kinds.get(name)
            if kind is None:
                out[name] = array[name]
            else:
                texts = [_field_text(cell, kind, name) for cell in array[name].reshape(-1).tolist()]
                _require_room(texts, name, self._widths[name])
                out[name] = np.array(texts, out.dtype[name]).reshape(array.shape)
        return out

    def decode(self, array: Values) -> Values:
        """Return the rows; CorruptChunk where a reference is spelled wrong."""
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


def _widths(widths: object, dtype: NumpyDType, wanted: set[str]) -> dict[str, int]:
    objects = {name for name in dtype.names or () if dtype[name].hasobject}
    if not isinstance(widths, Mapping) or set(widths) != wanted or objects != wanted:
        raise Invalid(
            f"codec 'record_text': widths={widths!r:.200}", remedy=f"the characters of {', '.join(sorted(wanted))}"
        )
    if not all(type(width) is int and 0 < width < 2**28 for width in widths.values()):
        raise Invalid(f"codec 'record_text': widths={widths!r:.200}", remedy="whole numbers of characters")
    return dict(widths)


def _field_text(cell: Any, kind: Kind, name: str) -> str:
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
