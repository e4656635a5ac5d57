"""What a codec is: one step between cells and bytes, as NumPy arrays or buffers, with the size checked before decoding.

Three kinds (Zarr v3's words): array -> array (``delta``, ``transpose``), array -> bytes (``bytes``, ``vlen-utf8``,
``sharding_indexed``), bytes -> bytes (``zstd``, ``crc32c``). A codec is made for one :class:`ChunkLayout` (what goes in
when writing) and never changes. Decoding never allocates more than the cells need: a bytes codec is told the size to
expect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from hyperslab.chunks.engine import EngineEncoder
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import DataType, NumpyDType, is_fixed, numpy_dtype

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ChunkLayout:
    """What a codec works on: the type of the cells, the chunk's shape, and the fill value."""

    dtype: DataType
    shape: tuple[int, ...]
    fill_value: Any = None

    @property
    def numpy_dtype(self) -> NumpyDType:
        """The cells' dtype in memory."""
        dtype = self.dtype
        return dtype if isinstance(dtype, np.dtype) else numpy_dtype(dtype)

    @property
    def nbytes(self) -> int | None:
        """Decoded bytes, None for variable-length cells."""
        return prod(self.shape) * self.numpy_dtype.itemsize if is_fixed(self.dtype) else None


class ArrayToArray(ABC):
    """array -> array. ``cells``: what :meth:`encode` gives; dtype and shape may differ from what it takes."""

    __slots__ = ()
    cells: ChunkLayout

    @abstractmethod
    def encode(self, array: Values) -> Values:
        """Return the array as it is handed on to the bytes."""

    @abstractmethod
    def decode(self, array: Values) -> Values:
        """Return the array that was encoded; ``CorruptChunk``."""


class ArrayToBytes(ABC):
    """array -> bytes. ``can_fill_array``: True if :meth:`decode_to` makes no array besides. ``size``: the encoded size
    where it is the same for every chunk, else None."""

    __slots__ = ()
    can_fill_array: ClassVar[bool] = False
    size: int | None = None

    @abstractmethod
    def encode(self, array: Values) -> Buffer:
        """Return the bytes of the array."""

    @abstractmethod
    def decode(self, data: Buffer) -> Values:
        """Return the array; ``CorruptChunk``."""

    def decode_to(self, data: Buffer, out: Values) -> None:
        """Decode into ``out``, C-contiguous and of the cells' shape and dtype."""
        out[...] = self.decode(data)


class BytesToBytes(ABC):
    """bytes -> bytes. ``can_decode_into``: True if :meth:`decode_into` makes no bytes besides.

    ``engine_name``: the name by which the engine in C decodes it (``chunks/engine.py``); None where it does not.
    """

    __slots__ = ()
    can_decode_into: ClassVar[bool] = False
    engine_name: str | None = None
    most_uncached: int = 0
    """Bytes of the cells of a chunk up to which the engine in C decodes it sooner than Python finds it in the cache
    (``UNCOMPRESSED_UNCACHED`` in ``chunks/engine.py``)."""

    def engine_encoder(self, size: int) -> EngineEncoder | None:
        """Return how the engine in C encodes chunks of ``size`` bytes; None where it does not."""
        return None

    def most_for_engine(self, size: int, *, shuffled: bool) -> int | None:
        """Return the stored bytes beyond which Python decodes a chunk of ``size`` bytes sooner than the engine in C,
        None where it never does; ``shuffled``: the bytes of its items are regrouped."""
        return None

    def encoded_size(self, size: int) -> int | None:
        """Return the encoded size of ``size`` bytes where it is fixed (checksums, shuffle), else None."""
        return None

    @abstractmethod
    def encode(self, data: Buffer) -> Buffer:
        """Return the encoded bytes."""

    @abstractmethod
    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the decoded bytes, exactly ``size`` where it is known, and never more than the cells take."""

    def decode_into(self, data: Buffer, out: memoryview) -> None:
        """Decode exactly ``len(out)`` bytes into ``out``, else ``CorruptChunk``."""
        out[:] = self.decode(data, len(out))
