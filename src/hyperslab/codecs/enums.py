"""Cells of which only some values are allowed: ``categorize`` and ``enum_members``.

``categorize`` stores words as numbers: 1 for the first label, 0 for a word that is no label, which is read back as
``""``. ``enum_members`` lets only members of an enumeration be written, and any whole number be read.
"""

from __future__ import annotations

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.errors import CorruptChunk, Invalid
from hyperslab.model.dtypes import Enum, VlenString


class Categorize:
    """Text cells, of variable or fixed length, as integers of ``astype``."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("categorize", config, "labels", "dtype", "astype")
        if not (isinstance(cells.dtype, VlenString) or cells.numpy_dtype.kind == "U"):
            raise unfit("categorize", "text", cells.dtype)
        labels = config.get("labels")
        if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
            raise Invalid(f"codec 'categorize': labels={labels!r}", remedy="a list of words")
        astype = read.dtype("categorize", config, "astype", "u1")
        if astype.kind not in "iu" or len(labels) > np.iinfo(astype).max:
            raise Invalid(f"codec 'categorize': {len(labels)} labels in {astype}", remedy="a larger integer as astype")
        self._text = cells.numpy_dtype
        self._words = np.array(["", *labels], self._text)
        self._places = {label: place for place, label in enumerate(labels, 1)}
        self._cells = ChunkLayout(astype, cells.shape)

    @property
    def cells(self) -> ChunkLayout:
        """Integers."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """The place of each word among the labels."""
        places = [self._places.get(word, 0) for word in array.reshape(-1).tolist()]
        return np.array(places, self._cells.numpy_dtype).reshape(array.shape)

    def decode(self, array: Values) -> Values:
        """The words; CorruptChunk for a number that is no label."""
        if array.size and (int(array.max()) >= len(self._words) or int(array.min()) < 0):
            found = (int(array.min()), int(array.max()))
            raise CorruptChunk("categorize: no such label", expected=f"0 to {len(self._words) - 1}", found=found)
        return self._words[array]


class EnumMembers:
    """The cells as they are. What is no member of their type, nor the fill value, is Invalid when it is encoded."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("enum_members", config)
        if not isinstance(cells.dtype, Enum):
            raise unfit("enum_members", "enumerations", cells.dtype)
        self._kind = cells.dtype
        self._cells = ChunkLayout(cells.numpy_dtype, cells.shape, cells.fill_value)
        fill = 0 if cells.fill_value is None else int(cells.fill_value)
        self._allowed = np.array([*dict(cells.dtype.members).values(), fill], cells.numpy_dtype)

    @property
    def cells(self) -> ChunkLayout:
        """The whole numbers."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """The same cells; Invalid names one that is no member."""
        wrong = array[~np.isin(array, self._allowed)]
        if wrong.size:
            members = ", ".join(f"{name} = {value}" for name, value in self._kind.members[:20])
            raise Invalid(f"{wrong.flat[0]} is no member of enum {self._kind.name}", remedy=f"it has {members}")
        return array

    def decode(self, array: Values) -> Values:
        """The same cells."""
        return array
