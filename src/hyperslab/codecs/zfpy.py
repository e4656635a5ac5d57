"""``zfpy``: numbers compressed by zfp, mostly with loss (extra ``hyperslab[codecs]``).

zfp's decoder trusts its input: it reads past the end of a stream that is cut short. So the header must fit the cells
(https://zfp.readthedocs.io, file header), and the stream is padded to the most that a decoder may read.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hyperslab.codecs.base import Buffer, ChunkLayout, Values
from hyperslab.codecs.bounds import damaged
from hyperslab.codecs.config import Config, integer, number, only
from hyperslab.codecs.memory import contiguous
from hyperslab.errors import CorruptChunk, Invalid, MissingLibrary

_HEADER = 24
_RATE, _PRECISION, _ACCURACY, _REVERSIBLE = 2, 3, 4, 5


class Zfpy:
    """int32, int64, float32, float64 in 1 to 4 dimensions; ``mode`` 2 rate, 3 precision, 4 tolerance, 5 reversible."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("zfpy", config, "mode", "tolerance", "rate", "precision", "compression_kwargs")
        self._library = _load()
        self._dtype = cells.numpy_dtype
        known = self._dtype.name in ("int32", "int64", "float32", "float64") and self._dtype.isnative
        if not known or not 1 <= len(cells.shape) <= 4:
            raise Invalid(
                f"codec 'zfpy' works on native 32 and 64 bits in 1 to 4 dimensions, not on {self._dtype} {cells.shape}"
            )
        self._shape = cells.shape
        mode = integer("zfpy", config, "mode", _ACCURACY, _RATE, _REVERSIBLE)
        key = {_RATE: "rate", _PRECISION: "precision", _ACCURACY: "tolerance"}.get(mode)
        self._settings = {key: number("zfpy", config, key, -1)} if key else {}

    @property
    def size(self) -> int | None:
        """Unknown."""
        return None

    def encode(self, array: Values) -> Buffer:
        """One zfp stream with a full header."""
        native = contiguous(array).astype(self._dtype, copy=False)
        if native.size == 0:
            return b""
        compressed: bytes = self._library.compress_numpy(native, write_header=True, **self._settings)
        return compressed

    def decode(self, data: Buffer) -> Values:
        """The cells; CorruptChunk when the header speaks of another shape or type."""
        if prod(self._shape) == 0:
            return np.empty(self._shape, self._dtype)
        stream = bytes(data)
        self._check_header(stream)
        room = self._room()
        if len(stream) > room:
            raise CorruptChunk("zfpy: the chunk is too long", expected=f"at most {room} bytes", found=len(stream))
        try:
            out = self._library.decompress_numpy(stream.ljust(room, b"\0"))
        except (ValueError, RuntimeError) as error:
            raise damaged("zfpy", error) from error
        if out.shape != self._shape or out.dtype != self._dtype:
            raise CorruptChunk("zfpy: other cells", expected=(self._dtype, self._shape), found=(out.dtype, out.shape))
        return np.asarray(out.astype(self._dtype, copy=False))

    def _check_header(self, stream: bytes) -> None:
        if len(stream) < 12 or stream[:3] != b"zfp":
            raise CorruptChunk("zfpy: the chunk has no header", expected=b"zfp", found=stream[:3])
        try:
            header = self._library.header(stream.ljust(_HEADER, b"\0"))
        except (ValueError, RuntimeError) as error:
            raise damaged("zfpy", error) from error
        shape = tuple(header[axis] for axis in ("nw", "nz", "ny", "nx") if header[axis])
        if shape != self._shape or np.dtype(header["type"]) != self._dtype:
            found = (np.dtype(header["type"]), shape)
            raise CorruptChunk("zfpy: other cells", expected=(self._dtype, self._shape), found=found)
        limits = header["config"]["expert"]
        if limits["minbits"] > self._block_bits():
            raise CorruptChunk("zfpy: blocks are too long", expected=self._block_bits(), found=limits["minbits"])

    def _block_bits(self) -> int:
        """The most bits that one block of 4 ** ndim cells takes: exponent, flags, bit planes and group tests."""
        return 64 + (1 << 2 * len(self._shape)) * (8 * self._dtype.itemsize + 2)

    def _room(self) -> int:
        blocks = prod(-(-length // 4) for length in self._shape)
        return _HEADER + 64 + -(-blocks * self._block_bits() // 64) * 8


def _load() -> Any:
    try:
        import zfpy
    except ImportError as error:
        raise MissingLibrary("codec 'zfpy' needs the library zfpy", remedy="pip install 'hyperslab[codecs]'") from error
    return zfpy
