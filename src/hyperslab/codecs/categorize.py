"""``categorize``: words as numbers, 1 for the first label, 0 for a word that is no label (read back as ``""``)."""

from __future__ import annotations

import numpy as np

from hyperslab.codecs import config as read
from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.errors import CorruptChunk, Invalid
from hyperslab.model.dtypes import VlenString


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
