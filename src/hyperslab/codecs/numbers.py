"""Filters of numcodecs that change numbers: ``delta``, ``fixedscaleoffset``, ``astype``, ``quantize``, ``bitround``.

Each names the dtypes that it works in. As in numcodecs the cells' memory is *viewed* as the dtype to encode, byte order
included; what comes out has the encoded dtype in its own byte order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only
from hyperslab.codecs.memory import contiguous
from hyperslab.errors import Invalid

_MANTISSA = {2: 10, 4: 23, 8: 52}


class Filter:
    """array -> array with the same number of cells: from ``dtype`` to ``astype``."""

    def __init__(self, name: str, cells: ChunkLayout, dtype: np.dtype[Any], astype: np.dtype[Any], kinds: str) -> None:
        memory = cells.numpy_dtype
        if cells.nbytes is None or memory.itemsize != dtype.itemsize or memory.kind == "V":
            raise Invalid(f"codec {name!r} works on {dtype}, the cells are {memory}", remedy=f"dtype {memory.str!r}")
        if dtype.kind not in kinds or astype.kind not in kinds:
            raise Invalid(f"codec {name!r} cannot turn {dtype} into {astype}", remedy=f"dtypes of the kinds {kinds}")
        self._memory = memory
        self._dtype = dtype
        self._cells = ChunkLayout(astype, cells.shape)

    @property
    def cells(self) -> ChunkLayout:
        """The cells in the encoded dtype."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """Numbers as they are stored."""
        with np.errstate(all="ignore"):
            found = self.forward(contiguous(array).view(self._dtype))
            return found.astype(self._cells.numpy_dtype, copy=False)

    def decode(self, array: Values) -> Values:
        """Numbers as they were, as far as they can be restored."""
        with np.errstate(all="ignore"):
            found = self.backward(contiguous(array)).astype(self._dtype, copy=False)
        return contiguous(found).view(self._memory)

    def forward(self, array: Values) -> Values:
        """Cells of the dtype to encode -> numbers to be cast."""
        return array

    def backward(self, array: Values) -> Values:
        """Stored numbers -> numbers to be cast."""
        return array


class AsType(Filter):
    """Stored in another type, by NumPy's casts."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("astype", config, "encode_dtype", "decode_dtype")
        dtype = read.dtype("astype", config, "decode_dtype", cells.numpy_dtype.str)
        super().__init__("astype", cells, dtype, read.dtype("astype", config, "encode_dtype"), "biufcmMSU")


class Delta(Filter):
    """The first number, then differences, in C order."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("delta", config, "dtype", "astype")
        dtype = read.dtype("delta", config, "dtype", cells.numpy_dtype.str)
        super().__init__("delta", cells, dtype, read.dtype("delta", config, "astype", dtype.str), "iufc")

    def forward(self, array: Values) -> Values:
        """Differences; integers wrap around."""
        flat = array.reshape(-1)
        out = np.empty(flat.shape, self.cells.numpy_dtype)
        out[:1] = flat[:1]
        out[1:] = np.diff(flat)
        return out.reshape(array.shape)

    def backward(self, array: Values) -> Values:
        """Running sums."""
        out = np.empty(array.size, self._dtype)
        np.cumsum(array.reshape(-1), out=out)
        return out.reshape(array.shape)


class FixedScaleOffset(Filter):
    """round((x - offset) * scale), stored as ``astype``."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        name = "fixedscaleoffset"
        only(name, config, "offset", "scale", "dtype", "astype")
        dtype = read.dtype(name, config, "dtype", cells.numpy_dtype.str)
        super().__init__(name, cells, dtype, read.dtype(name, config, "astype", dtype.str), "iuf")
        self._offset = read.number(name, config, "offset")
        self._scale = read.number(name, config, "scale")
        if self._scale == 0:
            raise Invalid("codec 'fixedscaleoffset': scale=0", remedy="a scale other than zero")

    def forward(self, array: Values) -> Values:
        """Scaled whole numbers."""
        return np.asarray(np.around((array - self._offset) * self._scale))

    def backward(self, array: Values) -> Values:
        """x / scale + offset."""
        return np.asarray(array / self._scale + self._offset)


class Quantize(Filter):
    """Rounded to a power of two that keeps ``digits`` decimal digits; nothing to undo."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("quantize", config, "digits", "dtype", "astype")
        dtype = read.dtype("quantize", config, "dtype", cells.numpy_dtype.str)
        super().__init__("quantize", cells, dtype, read.dtype("quantize", config, "astype", dtype.str), "f")
        digits = read.integer("quantize", config, "digits", 0, -300, 300)
        # The least power of two that is finer than 10 ** -digits.
        self._scale = 2.0 ** math.ceil(math.log2(10.0**digits))

    def forward(self, array: Values) -> Values:
        """Rounded numbers."""
        return np.asarray(np.around(self._scale * array) / self._scale)


class BitRound(Filter):
    """Mantissas rounded to ``keepbits`` bits, ties to even; infinities and NaN stay; nothing to undo."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("bitround", config, "keepbits")
        dtype = cells.numpy_dtype
        if dtype.kind != "f" or dtype.itemsize not in _MANTISSA:
            raise read.unfit("bitround", "floats of 2, 4 or 8 bytes", dtype)
        super().__init__("bitround", cells, dtype, dtype, "f")
        bits = _MANTISSA[dtype.itemsize]
        if "keepbits" not in config:
            raise Invalid("codec 'bitround' needs keepbits", remedy=f"a whole number from 0 to {bits}")
        self._drop = bits - read.integer("bitround", config, "keepbits", bits, 0, bits)

    def forward(self, array: Values) -> Values:
        """Rounded numbers."""
        if self._drop == 0:
            return array
        native = array.astype(array.dtype.newbyteorder("="))
        bits = native.view(f"u{array.itemsize}")
        one = bits.dtype.type(1)
        drop = bits.dtype.type(self._drop)
        half = bits.dtype.type((1 << (self._drop - 1)) - 1)
        rounded = (bits + ((bits >> drop) & one) + half) >> drop << drop
        return np.where(np.isfinite(native), rounded.view(native.dtype), native)
