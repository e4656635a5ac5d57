"""Where the bytes of cells lie in a chunk: ``bytes`` (their order), ``transpose`` (of axes), ``shuffle`` (by place)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.codecs import libblosc2
from hyperslab.codecs.base import ArrayToArray, ArrayToBytes, Buffer, BytesToBytes, ChunkLayout
from hyperslab.codecs.buffers import check_size, contiguous, flat_bytes, from_bytes, misordered, reverse, wrong_size
from hyperslab.codecs.config import Config, choice, integer, only
from hyperslab.errors import Invalid, Unsupported
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import describe

# -- bytes: the cells as they lie in memory, C order, packed, in a byte order of one's choice --------------------------


class Bytes(ArrayToBytes):
    """Cells of fixed size; ``endian`` says how they are stored, without it they are stored as in memory.

    Types of less than a byte (``int4``, ``float4_e2m1fn``) take one byte per cell, as in memory.
    """

    can_fill_array = True

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("bytes", config, "endian")
        dtype = cells.numpy_dtype
        if cells.nbytes is None or dtype.hasobject:
            raise Unsupported(
                f"codec 'bytes' cannot hold cells of type {describe(cells.dtype)}",
                remedy="cells of variable length need a codec such as vlen-utf8, vlen-bytes or vlen-array",
            )
        self._dtype = dtype
        self._shape = cells.shape
        self.size: int = cells.nbytes
        endian = choice("bytes", config, "endian", "", ("", "little", "big"))
        self._places = misordered(dtype, endian) if endian else []
        widths = {width for _, width in self._places}
        width = widths.pop() if len(widths) == 1 else 0
        whole = len(self._places) * width == dtype.itemsize
        self.swap = 0 if not self._places else width if whole and width in (2, 4, 8) else None
        """Bytes of each number in a cell, which is stored the other way round: 0 for none, None where they differ."""

    @property
    def as_in_memory(self) -> bool:
        """Return True if the stored bytes are exactly the cells in memory."""
        return not self._places

    def encode(self, array: Values) -> Buffer:
        """Return the cells' bytes; a view of ``array`` where nothing has to change."""
        array = contiguous(array)
        if self._places:
            array = array.copy()
            reverse(array, self._places)
        return flat_bytes(array)

    def decode(self, data: Buffer) -> Values:
        """Return the cells; a view of ``data`` where nothing has to change."""
        check_size("bytes", data, self.size)
        array = from_bytes(data, self._dtype, self._shape)
        if self._places:
            array = array.copy()
            reverse(array, self._places)
        return array

    def decode_to(self, data: Buffer, out: Values) -> None:
        check_size("bytes", data, self.size)
        flat_bytes(out)[:] = data
        if self._places:
            reverse(out, self._places)

    def settle(self, out: Values) -> None:
        """Turn stored bytes that were decoded straight into ``out`` into cells, in place."""
        reverse(out, self._places)


# -- transpose: the axes of a chunk in another order -------------------------------------------------------------------


class Transpose(ArrayToArray):
    """Axis ``i`` of what is stored is axis ``order[i]`` of the chunk; ``"C"`` and ``"F"`` are accepted."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("transpose", config, "order")
        self.order = _order(config.get("order"), len(cells.shape))
        self._inverse = tuple(int(axis) for axis in np.argsort(self.order))
        self.cells = ChunkLayout(cells.dtype, tuple(cells.shape[axis] for axis in self.order), cells.fill_value)

    def encode(self, array: Values) -> Values:
        """Return a view."""
        return array.transpose(self.order)

    def decode(self, array: Values) -> Values:
        """Return a view."""
        return array.transpose(self._inverse)


def _order(value: Any, ndim: int) -> tuple[int, ...]:
    if value in ("C", "F"):
        return tuple(range(ndim)) if value == "C" else tuple(reversed(range(ndim)))
    if (
        not isinstance(value, list | tuple)
        or not all(map(is_whole_number, value))
        or sorted(value) != list(range(ndim))
    ):
        raise Invalid(f"codec 'transpose': order={value!r}", remedy=f"a permutation of the axes 0 to {ndim - 1}")
    return tuple(value)


# -- shuffle: the first bytes of all elements, then the second bytes, and so on (HDF5's and numcodecs') ----------------


class Shuffle(BytesToBytes):
    """Bytes regrouped by their place in elements of ``elementsize`` bytes (0, as netCDF-C writes: the cells' size).

    Bytes after the last whole element stay where they are, as in HDF5.
    """

    can_decode_into = True

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("shuffle", config, "elementsize")
        itemsize = cells.numpy_dtype.itemsize if cells.nbytes is not None else 1
        default = 4 if "elementsize" not in config else 0
        self.width = integer("shuffle", config, "elementsize", default, 0, 2**31 - 1) or max(itemsize, 1)
        """Bytes of an element."""
        # Beyond these NumPy shuffles, which takes five times as long.
        self._most_for_library = libblosc2.MOST_BYTES_SHUFFLED if self.width <= libblosc2.MOST_SHUFFLED else 0

    def encoded_size(self, size: int) -> int:
        """Return the same."""
        return size

    def encode(self, data: Buffer) -> Buffer:
        """Return shuffled bytes."""
        whole = len(data) // self.width * self.width
        if self.width == 1 or whole == 0:
            return data
        out = np.empty(len(data), np.uint8)
        library = libblosc2.load_library() if len(data) <= self._most_for_library else None
        if library is not None and library.shuffle(self.width, data, out.data) == len(data):
            return out.data
        source = np.frombuffer(data, np.uint8)
        out[:whole].reshape(self.width, -1)[...] = source[:whole].reshape(-1, self.width).T
        out[whole:] = source[whole:]
        return out.data

    def decode(self, data: Buffer, size: int | None) -> Buffer:
        """Return the bytes in their order."""
        check_size("shuffle", data, size)
        if self.width == 1 or len(data) < self.width:
            return data
        out = np.empty(len(data), np.uint8).data
        self.decode_into(data, out)
        return out

    def decode_into(self, data: Buffer, out: memoryview) -> None:
        """Put the bytes in their order into ``out``."""
        if len(data) != len(out):
            wrong_size("shuffle", len(out), len(data))
        whole = len(data) // self.width * self.width
        if self.width == 1 or whole == 0:
            out[:] = data
            return
        library = libblosc2.load_library() if len(data) <= self._most_for_library else None
        if library is not None and library.unshuffle(self.width, data, out) == len(data):
            return
        source = np.frombuffer(data, np.uint8)
        target = np.frombuffer(out, np.uint8)
        planes = source[:whole].reshape(self.width, -1)
        elements = target[:whole].reshape(-1, self.width)
        if self.width > planes.shape[1]:
            elements[...] = planes.T
        else:
            for place in range(self.width):
                elements[:, place] = planes[place]
        target[whole:] = source[whole:]
