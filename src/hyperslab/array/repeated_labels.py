"""Labels of rows that are to be appended, and which of them are there already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.cells import Values

Repeated = Literal["error", "allow", "overwrite"]
"""The outcome for rows whose labels are there: an error, a second row of the same label, or the row in the place of the
one that is there."""

CHOICES: tuple[Repeated, ...] = ("error", "allow", "overwrite")


def find_repeated(
    name: str,
    stored: Values,
    labels: Values,
    repeated: Repeated,
    show: Callable[[object], str] = str,
    *,
    choices: tuple[Repeated, ...] = CHOICES,
    others: str = "say repeated='overwrite' or 'allow' (--repeated), which keeps both",
) -> Values:
    """Return for each label of new rows along the dimension ``name`` its position among those that are stored, -1 where
    it is not there. ``show``: the text of a label, for messages. Invalid where one is and ``repeated`` says that this
    is an error, with ``others`` to do than to leave the rows out; and for what is none of the ``choices``."""
    if repeated not in choices:
        raise Invalid(f"repeated={repeated!r}", remedy=f"give one of {', '.join(choices)}")
    places = _positions(stored, labels)
    there = np.flatnonzero(places >= 0)
    if there.size and repeated == "error":
        more = f", and {there.size - 1} more of the {places.size} that come" if there.size > 1 else ""
        remedy = f"leave these rows out, or {others}"
        raise Invalid(f"{name!r} has the label {show(labels[there[0]])} already{more}", remedy=remedy)
    return places


def _positions(stored: Values, labels: Values) -> Values:
    """Return where labels are stored, -1 for one that is not; for all where the two cannot be compared."""
    absent = np.full(len(labels), -1, np.intp)
    if not len(stored) or not len(labels):
        return absent
    try:
        order = np.argsort(stored, kind="stable")
        places = order[np.minimum(np.searchsorted(stored, labels, sorter=order), len(stored) - 1)]
        return np.where(stored[places] == labels, places, absent)
    except TypeError:
        return absent


def repeated_runs(places: Values) -> Iterator[tuple[slice, slice]]:
    """Yield for rows that are there already which rows these are, and the positions that they go to: runs of both."""
    there = np.flatnonzero(places >= 0)
    is_cut = (np.diff(there) != 1) | (np.diff(places[there]) != 1)
    for run in np.split(there, np.flatnonzero(is_cut) + 1):
        if run.size:
            first, last = int(run[0]), int(run[-1])
            yield slice(first, last + 1), slice(int(places[first]), int(places[last]) + 1)
