"""Labels of rows that are to be appended: which of them are there already, if they go on in order, and if the rows have
the labels that are stored along the other dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.cells import Values, equal_labels

Repeated = Literal["error", "allow", "overwrite"]
"""The outcome for rows whose labels are there: an error, a second row of the same label, or the row in the place of the
one that is there."""

CHOICES: tuple[Repeated, ...] = ("error", "allow", "overwrite")


def show_label(label: object) -> str:
    """Return the text of a label for messages, a time no longer than it must be."""
    return str(np.datetime_as_string(label, unit="auto")) if isinstance(label, np.datetime64) else str(label)


def find_repeated(
    name: str,
    stored: Values,
    labels: Values,
    repeated: Repeated,
    show: Callable[[object], str] = show_label,
    *,
    choices: tuple[Repeated, ...] = CHOICES,
    others: str = "say repeated='overwrite' or 'allow' (--repeated), which keeps both",
) -> Values:
    """Return for each label of new rows along the dimension ``name`` its position among those that are stored, -1 where
    it is not there. ``show``: the text of a label, for messages. Invalid where one is and ``repeated`` says that this
    is an error, with ``others`` to do than to leave the rows out; for rows that repeat a label among themselves where
    no stored one does, unless that is allowed; and for what is none of the ``choices``."""
    if repeated not in choices:
        raise Invalid(f"repeated={repeated!r}", remedy=f"give one of {', '.join(choices)}")
    places = _positions(stored, labels)
    there = np.flatnonzero(places >= 0)
    if there.size and repeated == "error":
        more = f", and {there.size - 1} more of the {places.size} that come" if there.size > 1 else ""
        remedy = f"leave these rows out, or {others}"
        raise Invalid(f"{name!r} has the label {show(labels[there[0]])} already{more}", remedy=remedy)
    twice = _find_repeats(labels) if repeated != "allow" else labels[:0]
    if twice.size and not _find_repeats(stored).size:
        more = f", and {twice.size - 1} more" if twice.size > 1 else ""
        remedy = "leave all but one of these rows out, or say repeated='allow' (--repeated allow), which keeps all"
        raise Invalid(f"the rows that come repeat the label {show(twice[0])} of {name!r}{more}", remedy=remedy)
    return places


def _find_repeats(labels: Values) -> Values:
    """Return the labels that stand behind an equal one; none of labels that cannot be compared."""
    try:
        ordered = labels[np.argsort(labels, kind="stable")]
        return np.asarray(ordered[1:][np.asarray(ordered[1:] == ordered[:-1], bool)])
    except TypeError:
        return labels[:0]


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


def check_order(
    name: str,
    stored: Values,
    labels: Values,
    *,
    are_times: bool,
    show: Callable[[object], str] = show_label,
) -> None:
    """Raise Invalid where the labels of new rows would not go on as the stored ones of the dimension ``name`` rise or
    fall: rows that are out of order are found by no range.

    A single stored label has no direction: times rise from it. Other numbers may go on either way, as levels and
    latitudes do, but rows that are in order must stay so; names, and numbers that are none, are in any order.
    """
    is_ordered = are_times or all(each.dtype.kind in "iufmM" for each in (stored, labels))
    if not is_ordered or not len(stored) or not len(labels):
        return
    ways: Sequence[_Way] = [way for way in _WAYS if _is_sorted(stored, way)]
    if len(ways) > 1:
        ways = _ways_from_one(labels, are_times=are_times)
    if not ways or any(_goes_on(stored, labels, way) for way in ways):
        return
    first, last, end = (show(label) for label in (labels[0], labels[-1], stored[-1]))
    span = f"{first} to {last}" if len(labels) > 1 else first
    remedy = (
        "sort the rows; for a late piece remove the rows after it, append it, and append these again; "
        "repeated='allow' (--repeated allow) puts it behind"
    )
    if any(_goes_on(labels, stored, way) for way in ways):
        remedy = f"all of them come before: are target and source the wrong way round? Else {remedy}"
    raise Invalid(f"{name!r} would no longer be sorted: {span} behind {end}", remedy=remedy)


_Way = Callable[[Values, Values], Values]
_WAYS: tuple[_Way, _Way] = (np.less_equal, np.greater_equal)


def _ways_from_one(labels: Values, *, are_times: bool) -> Sequence[_Way]:
    """Return the ways in which labels may go on from a single one; none where they may do as they like."""
    if are_times:
        return _WAYS[:1]
    return [way for way in _WAYS if labels.dtype.kind in "iufm" and _is_sorted(labels, way)]


def _goes_on(before: Values, behind: Values, way: _Way) -> bool:
    """Return True if all labels rise, or fall, those ``behind`` from the last one ``before`` on."""
    return all(_is_sorted(each, way) for each in (before, behind)) and _is_in_order(before[-1:], behind[:1], way)


def _is_sorted(labels: Values, way: _Way) -> bool:
    """Return True if all labels rise, or fall; False where one is missing, or they cannot be compared."""
    return bool(np.all(labels == labels)) and _is_in_order(labels[:-1], labels[1:], way)


def _is_in_order(before: Values, behind: Values, way: _Way) -> bool:
    """Return True if each label is in order with the one behind it; False where the two cannot be compared."""
    try:
        return bool(np.all(way(before, behind)))
    except TypeError:
        return False


_SELECT_ROWS = "select or reindex what is to be appended, so that the labels are the stored ones"


def check_other_labels(
    name: str, stored: Values, labels: Values, dims: Sequence[str], *, remedy: str = _SELECT_ROWS
) -> None:
    """Raise Invalid unless cells have the labels that are stored in the coordinate ``name``, which does not change:
    they would be cells of another grid. ``dims``: the dimensions of the coordinate. Floats that are no labels of one
    dimension are compared as they would be stored. ``remedy``: what to do, unless the labels are the stored ones in
    reverse order."""
    if list(dims) != [name] and stored.dtype.kind == labels.dtype.kind == "f":
        labels = labels.astype(stored.dtype)
    if equal_labels(stored, labels):
        return
    if not dims:
        remedy = "give it the dimension that grows, or leave it out of what is to be appended (convert -x, drop_vars)"
    for axis, dim in enumerate(dims):
        if equal_labels(stored, np.flip(labels, axis)):
            remedy = f"they run the other way: turn the cells round (isel, convert -s {dim}=::-1)"
    raise Invalid(f"the labels of {name!r} are not those that are stored", remedy=remedy)
