"""A region: a range or points per axis, the one thing that the planner understands; and how it becomes NumPy's result.

A region has a *canonical* array: one axis per array axis, in order, of the counts. Axes that run together (vectorised
indexing) are ``coupled``: they are all :class:`PositionList` of one length N, and the canonical array is then of shape
``(N, *counts of the other axes)``. A :class:`Selection` adds what makes the canonical array NumPy's.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.cells import Values
from hyperslab.model.dtypes import NumpyDType

_count = attrgetter("count")


class Range(NamedTuple):
    """The positions ``start + i * step`` for ``i < count``; all are valid, ``step`` may be negative but never zero."""

    start: int
    count: int  # type: ignore[assignment]  # in place of tuple.count, for which such a tuple has no use
    step: int

    @property
    def positions(self) -> Values:
        """All positions, in order."""
        return self.start + self.step * np.arange(self.count, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class PositionList:
    """Any positions ``0 <= p < length`` as a 1-D int64 array, in any order, repeats allowed."""

    positions: Values

    @property
    def count(self) -> int:
        """How many positions."""
        return len(self.positions)


Axis = Range | PositionList


class Region(NamedTuple):
    """An :data:`Axis` per dimension, and the ``coupled`` ones among them.

    ``void`` is True only for a 0-d array of which nothing is selected: its canonical shape is ``(0,)``, not ``()``.
    """

    axes: tuple[Axis, ...]
    coupled: tuple[int, ...] = ()
    void: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The canonical shape; a 0 in it means that there is nothing to do."""
        if self.void:
            return (0,)
        counts = tuple(map(_count, self.axes))
        if not self.coupled:
            return counts
        others = [count for i, count in enumerate(counts) if i not in self.coupled]
        return (counts[self.coupled[0]], *others)


class Selection(NamedTuple):
    """A region and the way from its canonical array to the result of ``shape``.

    Without ``middle`` that is one reshape. With it: reshape to ``middle``, repeat the axes of length 1 that are longer
    in ``stretch`` (views only: a new axis that was indexed), put the axes in ``order``. ``scalar`` is True where NumPy
    gives a scalar in place of a 0-d array.
    """

    region: Region
    shape: tuple[int, ...]
    scalar: bool = False
    middle: tuple[int, ...] | None = None
    order: tuple[int, ...] = ()
    stretch: tuple[int, ...] | None = None

    def finish(self, canonical: Values) -> Values:
        """Return the result, a view of ``canonical`` (a copy only where a new axis was repeated)."""
        if self.middle is None:
            return canonical.reshape(self.shape)
        array = canonical.reshape(self.middle)
        if self.stretch is not None:
            array = np.broadcast_to(array, self.stretch).copy()
        return array.transpose(self.order)

    def spread(self, value: object, dtype: NumpyDType | None = None) -> Values:
        """Return ``value`` in canonical layout, broadcast and cast to ``dtype`` as NumPy's assignment does.

        A view of ``value`` where its strides allow. ``Invalid`` (a ValueError) when it does not broadcast.
        """
        if dtype is not None and dtype.hasobject and self.scalar and not isinstance(value, np.ndarray):
            cell = np.empty((), dtype)
            cell[()] = value
            array = cell
        else:
            array = np.asarray(value, dtype)
        while array.ndim > len(self.shape) and array.shape[0] == 1:
            array = array[0, ...]  # not a scalar, as text would become
        if array.shape != self.shape:
            try:
                array = np.broadcast_to(array, self.shape)
            except ValueError:
                raise no_broadcast(array.shape, self.shape) from None
        if self.middle is None:
            return array.reshape(self.region.shape)
        array = array.transpose(np.argsort(self.order))
        if self.stretch is not None:
            grown = zip(self.middle, self.stretch, strict=True)
            array = array[tuple(slice(None) if have == want else slice(-1, None) for have, want in grown)]
        return array.reshape(self.region.shape)


def no_broadcast(shape: tuple[int, ...], selected: tuple[int, ...]) -> Invalid:
    """Return the error of a value that is to be stored in cells of another shape."""
    message = f"a value of shape {shape} does not broadcast to the selected {selected}"
    return Invalid(message, remedy="select as many cells as there are")
