"""``shuffle``: the first bytes of all elements, then the second bytes, and so on (HDF5's and numcodecs' shuffle)."""

from __future__ import annotations

import numpy as np

from hyperslab.codecs.base import Buffer, ChunkLayout
from hyperslab.codecs.bounds import check_size
from hyperslab.codecs.config import Config, integer, only


class Shuffle:
    """Bytes regrouped by their place in elements of ``elementsize`` bytes (0, as netCDF-C writes: the cells' size).

    Bytes after the last whole element stay where they are, as in HDF5.
    """

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("shuffle", config, "elementsize")
        itemsize = cells.numpy_dtype.itemsize if cells.nbytes is not None else 1
        default = 4 if "elementsize" not in config else 0
        self._width = integer("shuffle", config, "elementsize", default, 0, 2**31 - 1) or max(itemsize, 1)

    def encoded_size(self, size: int) -> int:
        """The same."""
        return size

    def encode(self, data: Buffer) -> Buffer:
        """Shuffled bytes."""
        whole = len(data) // self._width * self._width
        if self._width == 1 or whole == 0:
            return data
        source = np.frombuffer(data, np.uint8)
        out = np.empty(len(data), np.uint8)
        out[:whole].reshape(self._width, -1)[...] = source[:whole].reshape(-1, self._width).T
        out[whole:] = source[whole:]
        return out.data

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """The bytes in their order."""
        check_size("shuffle", data, size)
        if self._width == 1 or len(data) < self._width:
            return data
        out = np.empty(len(data), np.uint8).data
        self.decode_into(data, out)
        return out

    def decode_into(self, data: Buffer, out: memoryview) -> None:
        """The bytes in their order, into ``out``."""
        check_size("shuffle", data, len(out))
        whole = len(data) // self._width * self._width
        if self._width == 1 or whole == 0:
            out[:] = data
            return
        source = np.frombuffer(data, np.uint8)
        target = np.frombuffer(out, np.uint8)
        planes = source[:whole].reshape(self._width, -1)
        elements = target[:whole].reshape(-1, self._width)
        if self._width > planes.shape[1]:
            elements[...] = planes.T
        else:
            for place in range(self._width):
                elements[:, place] = planes[place]
        target[whole:] = source[whole:]
