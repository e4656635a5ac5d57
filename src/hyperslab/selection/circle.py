"""Longitudes, of which whole turns mean the same place: the cells of a range across the seam of an axis, in the order
in which it runs, and what is added to their labels so that these go on. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from hyperslab.model.cells import Values

# A range meets a label that is off by this part of the smallest step, as labels of other axes are met.
_SLACK = 1e-6
# Steps that the two ends of an axis may lie apart, and may overlap by: grids of ocean models repeat two columns.
_MOST_APART, _MOST_REPEATED = 1.5, 2.5


@dataclass(frozen=True, slots=True, eq=False)
class Circle:
    """The ``labels`` of an axis (f8, in one direction) on a circle, where ``period`` is a full turn.

    ``course``: the same without the jump from 359 to 0 that they may have within. ``is_whole``: they go around once, so
    that the first follows upon the last; else they are those of a region.
    """

    labels: Values
    course: Values
    period: float
    is_whole: bool

    @classmethod
    def of(cls, labels: Values, period: float = 360.0) -> Circle | None:
        """Return the circle of an axis; None where its labels do not run in one direction, or more than once around."""
        cells = np.asarray(labels, "f8")
        if cells.ndim != 1 or cells.size < 2 or not np.isfinite(cells).all():
            return None
        course = np.unwrap(cells, period=period)
        steps = np.abs(np.diff(course))
        is_straight = bool((np.diff(course) > 0).all() or (np.diff(course) < 0).all())
        gap = period - abs(course[-1] - course[0])
        if not is_straight or gap < -_MOST_REPEATED * steps.min():
            return None
        return cls(cells, course, period, bool(gap <= _MOST_APART * steps.max()))

    @property
    def direction(self) -> int:
        """Return 1 where the labels ascend, else -1."""
        return 1 if self.course[-1] > self.course[0] else -1

    @property
    def slack(self) -> float:
        """Return how far a bound may be off a label that it includes."""
        return float(_SLACK * np.abs(np.diff(self.course)).min())

    def spans(self, label: float) -> bool:
        """Return True if a label lies between those of cells as they are stored, or upon one."""
        return bool(self.labels.min() - self.slack <= label <= self.labels.max() + self.slack)

    def needs_turns(self, start: float, stop: float) -> bool:
        """Return True if a range is to be looked for by whole turns; False where the labels as stored tell all.

        Around the globe, that is what does not lie within them. Of a region, it is what has no cell as it is written
        but would have by turns; a range against the direction of the axis counts as one across the seam where that is
        less than half of a turn, so that bounds that were interchanged stay an empty range. Of labels that descend, one
        that ascends is empty as of any axis: from west to east it would mean other cells than along the axis.
        """
        low, high = self.labels.min() - self.slack, self.labels.max() + self.slack
        is_sorted = bool(np.array_equal(self.labels - self.labels[0], self.course - self.course[0]))
        is_forward = (stop - start) * self.direction >= 0
        is_within = self.spans(start) and self.spans(stop)
        if is_sorted and self.direction < 0 and not is_forward:
            return False
        if self.is_whole:
            return not (is_sorted and is_forward and is_within)
        if is_forward:
            return not (is_sorted and min(start, stop) <= high and max(start, stop) >= low)
        return not (is_sorted and is_within) and ((stop - start) * self.direction) % self.period < self.period / 2

    def turned(self, label: float) -> float:
        """Return a label by whole turns as near to the label of a cell as it can be."""
        away = (self.labels - label + self.period / 2) % self.period - self.period / 2
        nearest = self.labels[np.abs(away).argmin()]
        return float(label + self.period * np.round((nearest - label) / self.period))

    def between(self, start: float, stop: float) -> tuple[Values, Values]:
        """Return the positions (int64) from ``start`` on to ``stop``, both included, in the direction of the axis, and
        what is added to the label of each (f8), whole turns. No place on earth comes twice."""
        width = (stop - start) * self.direction
        if width < 0:
            width += self.period * ceil(-width / self.period)
        away = ((self.course - start) * self.direction) % self.period
        away = np.where(away > self.period - self.slack, away - self.period, away)
        order = np.argsort(away, kind="stable")
        order = order[away[order] <= width + self.slack]
        order = order[np.diff(away[order], prepend=-np.inf) > self.slack]
        shifts = self.period * np.round((start + self.direction * away[order] - self.labels[order]) / self.period)
        return order.astype(np.int64), shifts


def add_turns(labels: Values, turns: Values) -> Values:
    """Return labels with whole turns added along their first dimension; whole numbers stay such, other types as they
    are."""
    added = turns.reshape((-1,) + (1,) * (labels.ndim - 1))
    return np.asarray(labels + added.astype("i8" if labels.dtype.kind in "iu" else labels.dtype))
