"""``enum_members``: whole numbers that must be members of an enumeration to be written; any is read."""

from __future__ import annotations

import numpy as np

from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only, unfit
from hyperslab.errors import Invalid
from hyperslab.model.dtypes import Enum


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
