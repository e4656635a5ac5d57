"""What a codec is: one step between cells and bytes, as NumPy arrays or buffers, with the size checked before decoding.

Three kinds (Zarr v3's words): array -> array (``delta``, ``transpose``), array -> bytes (``bytes``, ``vlen-utf8``,
``sharding_indexed``), bytes -> bytes (``zstd``, ``crc32c``). A codec is made for one :class:`ChunkLayout` (what goes in
when writing) and never changes. Decoding never allocates more than the cells need: a bytes codec is told the size to
expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, runtime_checkable

import numpy as np

from hyperslab.model.dtypes import DataType, is_fixed, numpy_dtype

Buffer = bytes | bytearray | memoryview
_FITS: dict[tuple[type, type], bool] = {}


def fits(codec: object, protocol: type) -> bool:
    """``isinstance`` of a Protocol, remembered by type: asking anew costs dozens of calls for every array opened."""
    key = (type(codec), protocol)
    if key not in _FITS:
        _FITS[key] = isinstance(codec, protocol)
    return _FITS[key]


Values = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """What a codec works on: the type of the cells, the chunk's shape, and the fill value."""

    dtype: DataType
    shape: tuple[int, ...]
    fill_value: Any = None

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The cells' dtype in memory."""
        return numpy_dtype(self.dtype)

    @property
    def nbytes(self) -> int | None:
        """Decoded bytes, None for variable-length cells."""
        return prod(self.shape) * self.numpy_dtype.itemsize if is_fixed(self.dtype) else None


@runtime_checkable
class ArrayCodec(Protocol):
    """array -> array. ``cells`` is what :meth:`encode` gives: dtype and shape may differ from what it takes."""

    @property
    def cells(self) -> ChunkLayout: ...
    def encode(self, array: Values) -> Values: ...
    def decode(self, array: Values) -> Values: ...


@runtime_checkable
class SerialCodec(Protocol):
    """array -> bytes. ``size`` is the encoded size where it is known, else None."""

    @property
    def size(self) -> int | None: ...
    def encode(self, array: Values) -> Buffer: ...
    def decode(self, data: Buffer) -> Values: ...


@runtime_checkable
class BytesCodec(Protocol):
    """bytes -> bytes. ``size`` given to decode is the exact decoded size where known; ``limit`` bounds it elsewhere."""

    def encoded_size(self, size: int) -> int | None:
        """The encoded size of ``size`` bytes where it is fixed (checksums, shuffle), else None."""
        ...

    def encode(self, data: Buffer) -> Buffer: ...
    def decode(self, data: Buffer, size: int | None) -> Buffer: ...


@runtime_checkable
class DecodesInto(BytesCodec, Protocol):
    """A bytes codec that can decode straight into the result."""

    def decode_into(self, data: Buffer, out: memoryview) -> None:
        """Decode exactly ``len(out)`` bytes into ``out``, else ``CorruptChunk``."""
        ...


@runtime_checkable
class FillsArray(SerialCodec, Protocol):
    """An array -> bytes codec that can decode straight into the result."""

    def decode_to(self, data: Buffer, out: Values) -> None:
        """Decode into ``out``, C-contiguous and of the cells' shape and dtype."""
        ...
