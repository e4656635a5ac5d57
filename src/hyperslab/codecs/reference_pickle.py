"""``reference_pickle``: references, text and rows of them as the pickles of hdmf-zarr up to 0.13, without pickling.

Nothing in the data is run (:mod:`~hyperslab.codecs.pickled`), nothing but the operations of old peers is written.
"""

from __future__ import annotations

from math import prod

from hyperslab.codecs import config as read
from hyperslab.codecs.base import Buffer, Cells, Values
from hyperslab.codecs.config import Config, only
from hyperslab.codecs.pickle_writing import pickled
from hyperslab.codecs.pickled import read_pickled
from hyperslab.codecs.plain_cells import PlainCells
from hyperslab.errors import CorruptChunk


class ReferencePickle:
    """A chunk is one pickled NumPy array of objects, or of rows. ``protocol``: of the pickles that are written."""

    def __init__(self, config: Config, cells: Cells) -> None:
        only("reference_pickle", config, "protocol")
        self._protocol = 4 if 0 <= read.integer("reference_pickle", config, "protocol", 5, -1, 5) < 5 else 5
        self._plain = PlainCells("reference_pickle", cells.dtype, objects=False)
        if not self._plain.stored.hasobject:
            raise read.unfit("reference_pickle", "objects and rows of them", cells.dtype)
        self._shape = cells.shape
        self._stored = cells.shape or (1,)

    @property
    def size(self) -> int | None:
        """Unknown."""
        return None

    def encode(self, array: Values) -> Buffer:
        """The pickle; Invalid for a cell that is not of its type."""
        return pickled(self._plain.columns(array), self._plain.stored, self._stored, self._protocol)

    def decode(self, data: Buffer) -> Values:
        """The cells; UnsafePickle for anything but an array of references and plain values, CorruptChunk for an array
        of another shape or with other fields."""
        fields = self._plain.names
        found = read_pickled(bytes(data), prod(self._stored) * len(fields or "1"))
        if found.shape not in (self._shape, self._stored):
            raise CorruptChunk("reference_pickle: wrong shape", expected=self._stored, found=str(found.shape)[:80])
        if found.fields != fields:
            raise CorruptChunk("reference_pickle: other fields", expected=fields, found=str(found.fields)[:80])
        return self._plain.cells(found.columns, self._shape)
