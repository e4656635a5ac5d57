"""``bytes``: the cells as they lie in memory, C order, packed, in a byte order of one's choice."""

from __future__ import annotations

from hyperslab.codecs.base import Buffer, ChunkLayout, Values
from hyperslab.codecs.bounds import check_size
from hyperslab.codecs.config import Config, choice, only
from hyperslab.codecs.memory import contiguous, flat_bytes, from_bytes, misordered, reverse
from hyperslab.errors import Unsupported
from hyperslab.model.dtypes import describe


class Bytes:
    """Cells of fixed size; ``endian`` says how they are stored, without it they are stored as in memory.

    Types of less than a byte (``int4``, ``float4_e2m1fn``) take one byte per cell, as in memory.
    """

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
        self._size = cells.nbytes
        endian = choice("bytes", config, "endian", "", ("", "little", "big"))
        self._places = misordered(dtype, endian) if endian else []

    @property
    def size(self) -> int:
        """Encoded bytes."""
        return self._size

    @property
    def as_in_memory(self) -> bool:
        """Return whether the stored bytes are exactly the cells in memory."""
        return not self._places

    def encode(self, array: Values) -> Buffer:
        """The cells' bytes; a view of ``array`` where nothing has to change."""
        array = contiguous(array)
        if self._places:
            array = array.copy()
            reverse(array, self._places)
        return flat_bytes(array)

    def decode(self, data: Buffer) -> Values:
        """The cells; a view of ``data`` where nothing has to change."""
        check_size("bytes", data, self._size)
        array = from_bytes(data, self._dtype, self._shape)
        if self._places:
            array = array.copy()
            reverse(array, self._places)
        return array

    def decode_to(self, data: Buffer, out: Values) -> None:
        """The cells, into ``out``."""
        check_size("bytes", data, self._size)
        flat_bytes(out)[:] = data
        if self._places:
            reverse(out, self._places)

    def settle(self, out: Values) -> None:
        """Turn stored bytes that were decoded straight into ``out`` into cells, in place."""
        reverse(out, self._places)
