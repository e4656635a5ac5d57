"""Labels -> positions along one dimension: numbers and times on a axis, and names.

Both kinds answer the same questions: `exact`, `chosen` (what ``sel`` means), `nearest`, `bound` (of a slice in ``[]``)
and `between` (a slice of ``sel``). ``LabelError`` names the neighbours of a label that no cell has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from hyperslab.errors import LabelError, SelectionError, WrongType
from hyperslab.model.cells import Values
from hyperslab.model.guessing import meant
from hyperslab.selection.coordinate_axes import ComputedAxis, CoordinateAxis, StoredAxis
from hyperslab.selection.label_query import LabelQuery, seek, span_of, span_text

Where = int | slice | Values
_NEAREST = 'sel(..., method="nearest") takes the closest cell'


@dataclass(frozen=True, slots=True)
class Lookup(ABC):
    """The labels of the dimension ``dim``."""

    dim: str

    @abstractmethod
    def exact(self, label: object) -> Where:
        """Return the position with this label; a slice or an array when several have it."""

    def chosen(self, label: object) -> Where:
        """Do the same for ``sel``: a date coarser than the coordinate's resolution selects the whole period."""
        return self.exact(label)

    @abstractmethod
    def nearest(self, label: object, tolerance: object) -> int:
        """Return the position with the closest label, within ``tolerance`` unless that is None."""

    @abstractmethod
    def bound(self, label: object, *, stop: bool) -> int:
        """Return the bound of a slice in ``[]``, which must be a label; one step past a computed scale may be a
        ``stop``."""

    @abstractmethod
    def stride(self, step: Any) -> int:
        """Turn a step of a slice in ``[]``, a distance of labels, into a number of cells."""

    def between(self, start: Any, stop: Any) -> tuple[int, int]:
        """Return the first position and the one after the last of the cells from ``start`` to ``stop``, both
        included."""
        low = 0 if start is None else self._edge(start, end=False)
        return low, self.size if stop is None else self._edge(stop, end=True)

    @property
    @abstractmethod
    def size(self) -> int:
        """Return the length of the dimension."""

    @property
    def positional(self) -> bool:
        """Return True if an int in ``sel`` is a position, since no label is a number."""
        return False

    @abstractmethod
    def _edge(self, label: object, *, end: bool) -> int:
        """Return a bound of ``sel``: before all cells that the label includes, or after them (``end``)."""


@dataclass(frozen=True, slots=True)
class NumberLabels(Lookup):
    """Labels that are numbers or times."""

    axis: CoordinateAxis

    @property
    def size(self) -> int:
        return self.axis.size

    def exact(self, label: object) -> Where:
        query = seek(label, self.axis.calendar, self.dim)
        return _together(self.axis.same(self._required(label, query)))

    def chosen(self, label: object) -> Where:
        if self.axis.calendar is None or not isinstance(label, str | bytes):
            return self.exact(label)
        query = seek(label, self.axis.calendar, self.dim)
        if query.resolution >= self.axis.resolution():
            return _together(self.axis.same(self._required(label, query)))
        axis = self.axis
        if not axis.trend:
            inside = [i for i in range(axis.size) if query.first <= axis.at(i) < query.stop]
            return np.array(inside, np.int64)
        low = self._border(query, far=axis.trend < 0, end=False)
        high = self._border(query, far=axis.trend > 0, end=True)
        if low == high and low in (0, axis.size):
            raise self._missing(label, query)
        return slice(low, high)

    def nearest(self, label: object, tolerance: object) -> int:
        axis = self.axis
        if not axis.trend:
            remedy = "the nearest cell is found in sorted labels alone: give a label that a cell has, or a position"
            raise LabelError(f"{self.dim} is not sorted", remedy=remedy)
        number = seek(label, axis.calendar, self.dim).first
        if not axis.size:
            raise LabelError(f"{self.dim} has no cells", remedy="append some first")
        place = axis.nearest(number)
        if len(axis.same(place)) > 1:
            shown = axis.show(place)
            exact = f"{shown}T00:00:00" if axis.calendar is not None and "T" not in shown else shown  # a date is a day
            remedy = f"{self.dim}={exact} without a method takes all of them"
            raise LabelError(f"{self.dim} {shown} stands at several positions", remedy=remedy)
        if tolerance is not None and abs(axis.at(place) - number) > span_of(tolerance, axis.calendar):
            message = f"{self.dim} {label} is further than {span_text(tolerance)} from its neighbour {axis.show(place)}"
            raise LabelError(message, remedy="give a larger tolerance, or that label")
        return place

    def bound(self, label: object, *, stop: bool) -> int:
        axis, query = self.axis, seek(label, self.axis.calendar, self.dim)
        place = self._find(query)
        if place is not None:
            return int(axis.same(place)[0])
        if stop and isinstance(axis, ComputedAxis):
            end = axis.at(axis.size)
            if abs(end - query.first) <= self._tolerance(axis.size, query):
                return axis.size
        raise self._missing(label, query, f"sel({self.dim}=slice(...)) takes the cells within the range, its end too")

    def between(self, start: Any, stop: Any) -> tuple[int, int]:
        low, high = Lookup.between(self, start, stop)
        is_range = start is not None or stop is not None
        # xarray takes them, as it takes all that lies between two labels that are not sorted
        if is_range and not self.axis.trend and self.axis.has_missing(low, high):
            message = (
                f"{self.dim} has cells without a label (NaN) between {low} and {high}, which no range is known to hold"
            )
            raise LabelError(message, remedy="select by position, with isel")
        return low, high

    def stride(self, step: Any) -> int:
        axis = self.axis
        distance = span_of(step, axis.calendar)
        cells = round(distance / axis.step) if isinstance(axis, ComputedAxis) else 0
        if not isinstance(axis, ComputedAxis) or not cells or abs(cells * axis.step - distance) > 1e-6 * abs(axis.step):
            raise SelectionError(f"{self.dim} has no step of which {step} is a multiple", remedy="give an int")
        return cells

    def _edge(self, label: object, *, end: bool) -> int:
        axis, query = self.axis, seek(label, self.axis.calendar, self.dim)
        if axis.trend:
            far = query.stop is not None and end == (axis.trend > 0)
            return self._border(query, far=far, end=end)
        place = self._find(query)
        if place is None:
            remedy = "a range goes from one label that a cell has to another there; give such, or positions"
            raise LabelError(f"{self.dim} is not sorted, and no cell is at {label}", remedy=remedy)
        places = axis.same(place)
        if not isinstance(_together(places), int | slice):
            raise _scattered(self.dim, label)
        return int(places[-1]) + 1 if end else int(places[0])

    def _border(self, query: LabelQuery, *, far: bool, end: bool) -> int:
        """Return where a sorted coordinate is cut at the near edge of a period, which belongs to it, or the ``far``
        one."""
        edge = query._replace(first=query.stop) if far else query
        place = self._find(edge)
        if place is None or (far and 4 * abs(self.axis.at(place) - query.stop) > query.stop - query.first):
            return self.axis.rank(edge.first)
        places = self.axis.same(place)
        return int(places[-1]) + 1 if end != far else int(places[0])

    def _required(self, label: object, query: LabelQuery) -> int:
        place = self._find(query)
        if place is None:
            raise self._missing(label, query)
        return place

    def _find(self, query: LabelQuery) -> int | None:
        """Return the position of ``query.first`` within the tolerance of floats."""
        if not self.axis.size:
            return None
        place = self.axis.nearest(query.first)
        off = abs(self.axis.at(place) - query.first)
        return place if not off or off <= self._tolerance(place, query) else None

    def _tolerance(self, place: int, query: LabelQuery) -> float:
        """Return how far a float may be off: 1e-6 of a step or 4 spacings of the coarser float type, at most 0.25
        step."""
        axis, gap = self.axis, self.axis.gap(place)
        step = 0.0 if gap == inf else 1e-6 * gap
        if axis.calendar is None:
            slack = 4 * axis.spacing(query.first, query.grain or axis.grain)
        elif query.grain is not None:
            slack = max(4 * axis.slack, 1000.0, 4 * CoordinateAxis.spacing(axis, query.first, query.grain))
        else:
            slack, step = 4 * axis.slack, 0.0
        return float(min(max(step, slack), 0.25 * gap))

    def _missing(self, label: object, query: LabelQuery, remedy: str = _NEAREST) -> LabelError:
        """Return the error of a label that no cell has. ``remedy``: of a bound of a slice, which has no nearest."""
        axis, shown, number = self.axis, f"{self.dim} {label}", query.first
        if not axis.size:
            return LabelError(f"{shown} is not there: the dimension has no cells", remedy="append some first")
        if not axis.trend:
            closest = axis.show(axis.nearest(number))
            message = f"{shown} is not there; the closest is {closest}"
            return LabelError(message, remedy=f"{self.dim} is not sorted: give a label that a cell has, or a position")
        place = axis.rank(number)
        begins = axis.trend > 0 and place < axis.size and query.stop is not None and axis.at(place) < query.stop
        if begins and query.resolution < axis.resolution():  # a period, such as a year, without its beginning
            remedy = f"sel(...) takes {label!r} for the whole period"
        if place == 0:
            return LabelError(f"{shown} lies beyond the first cell, {axis.show(0)}", remedy=remedy)
        if place == axis.size:
            return LabelError(f"{shown} lies beyond the last cell, {axis.show(place - 1)}", remedy=remedy)
        return LabelError(f"{shown} lies between {axis.show(place - 1)} and {axis.show(place)}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class FloatNames(NumberLabels):
    """Labels that are floats, each the name of a cell: a float is one of them within 4 spacings, or none."""

    axis: StoredAxis

    def _find(self, query: LabelQuery) -> int | None:
        """Return the position of the label itself, else of the only one within 4 spacings of the coarser float type."""
        distance = np.abs(self.axis.values - query.first)
        slack = 4 * self.axis.spacing(query.first, query.grain or self.axis.grain)
        places = np.flatnonzero(distance == 0) if not distance.all() else np.flatnonzero(distance <= slack)
        return int(places[0]) if len(places) == 1 else None


@dataclass(frozen=True, slots=True)
class Names(Lookup):
    """Labels that are words."""

    names: tuple[str, ...]
    trend: int
    positional: bool = False
    """An int in ``sel`` is a position: the names are the dimension's own, not a coordinate's."""

    @property
    def size(self) -> int:
        return len(self.names)

    def exact(self, label: object) -> Where:
        return _together(self._places(label))

    def nearest(self, label: object, tolerance: object) -> int:
        raise LabelError(f"{self.dim} has names, which have no nearest one", remedy="leave the method out")

    def bound(self, label: object, *, stop: bool) -> int:
        return int(self._places(label)[0])

    def stride(self, step: Any) -> int:
        raise WrongType(f"a slice step of {step!r}", remedy=f"{self.dim} has names: the step is an int")

    def _edge(self, label: object, *, end: bool) -> int:
        name = self._word(label)
        if name not in self.names and self.trend > 0:
            return bisect_right(self.names, name) if end else bisect_left(self.names, name)
        places = self._places(label)
        if not isinstance(_together(places), int | slice):
            raise _scattered(self.dim, name)
        return int(places[-1]) + 1 if end else int(places[0])

    def _places(self, label: object) -> Values:
        name = self._word(label)
        places = np.array([place for place, known in enumerate(self.names) if known == name], np.int64)
        if not places.size:
            raise LabelError(f"{self.dim} has no {name!r}", remedy=meant(name, self.names))
        return places

    def _word(self, label: Any) -> str:
        if isinstance(label, np.ndarray) and not label.ndim:
            label = label[()]
        if not isinstance(label, str | bytes):
            raise LabelError(f"{self.dim} has names, {label!r} is none", remedy="give text, or a position to isel")
        return label.decode("utf-8", "replace") if isinstance(label, bytes) else str(label)


def _together(places: Values) -> Where:
    if len(places) == 1:
        return int(places[0])
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == len(places) else places


def _scattered(dim: str, label: object) -> LabelError:
    """Return the error of a bound of a slice that is several places, with others between them."""
    message = f"{dim} {label} stands at several positions of an unsorted coordinate"
    return LabelError(message, remedy="slice by position, with isel")
