"""``transpose``: the axes of a chunk in another order."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.codecs.base import ChunkLayout, Values
from hyperslab.codecs.config import Config, only
from hyperslab.errors import Invalid


class Transpose:
    """Axis ``i`` of what is stored is axis ``order[i]`` of the chunk; ``"C"`` and ``"F"`` are accepted."""

    def __init__(self, config: Config, cells: ChunkLayout) -> None:
        only("transpose", config, "order")
        self._order = _order(config.get("order"), len(cells.shape))
        self._inverse = tuple(int(axis) for axis in np.argsort(self._order))
        self._cells = ChunkLayout(cells.dtype, tuple(cells.shape[axis] for axis in self._order), cells.fill_value)

    @property
    def cells(self) -> ChunkLayout:
        """The same cells, the shape permuted."""
        return self._cells

    def encode(self, array: Values) -> Values:
        """A view."""
        return array.transpose(self._order)

    def decode(self, array: Values) -> Values:
        """A view."""
        return array.transpose(self._inverse)


def _order(value: Any, ndim: int) -> tuple[int, ...]:
    if value in ("C", "F"):
        return tuple(range(ndim)) if value == "C" else tuple(reversed(range(ndim)))
    if (
        not isinstance(value, list | tuple)
        or not all(isinstance(axis, int) and not isinstance(axis, bool) for axis in value)
        or sorted(value) != list(range(ndim))
    ):
        raise Invalid(f"codec 'transpose': order={value!r}", remedy=f"a permutation of the axes 0 to {ndim - 1}")
    return tuple(value)
