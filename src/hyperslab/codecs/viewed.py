"""An array -> array codec behind bytes, as Zarr v2 allows: the bytes are viewed as a flat array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.bounds import check_size
from hyperslab.codecs.config import Config
from hyperslab.codecs.memory import contiguous, flat_bytes, from_bytes
from hyperslab.errors import CorruptChunk, Invalid


class ViewedBytes:
    """``make``'s codec over bytes seen as a 1-D array of the dtype that parameter ``key`` names (none: booleans)."""

    def __init__(self, make: Callable[[Config, ChunkLayout], Any], config: Config, key: str | None) -> None:
        self._make = make
        self._config = config
        self._dtype = np.dtype(np.bool_) if key is None else read.dtype("filter", config, key)
        self._stored: np.dtype[Any] = make(config, ChunkLayout(self._dtype, (0,))).cells.numpy_dtype

    def encoded_size(self, size: int) -> int | None:
        """What the codec makes of so many cells."""
        count, rest = divmod(size, self._dtype.itemsize)
        return None if rest else self._codec(count).cells.nbytes

    def encode(self, data: Buffer) -> Buffer:
        """Bytes of the encoded array."""
        count, rest = divmod(len(data), self._dtype.itemsize)
        if rest:
            raise Invalid(f"{len(data)} bytes are no whole number of {self._dtype}", remedy="another order of filters")
        return flat_bytes(contiguous(self._codec(count).encode(from_bytes(data, self._dtype, (count,)))))

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Bytes of the decoded array."""
        if size is None and self._stored.itemsize and self._dtype.kind != "b":
            size = len(data) // self._stored.itemsize * self._dtype.itemsize
        elif size is None:
            size = 8 * (len(data) - 1) - (data[0] if len(data) else 0)
        if size < 0 or size % self._dtype.itemsize:
            raise CorruptChunk("a filter's bytes have a wrong size", expected=f"whole {self._dtype}", found=len(data))
        codec = self._codec(size // self._dtype.itemsize)
        check_size("filter", data, codec.cells.nbytes)
        out = codec.decode(from_bytes(data, self._stored, codec.cells.shape))
        return flat_bytes(contiguous(out))

    def _codec(self, count: int) -> Any:
        return self._make(self._config, ChunkLayout(self._dtype, (count,)))
