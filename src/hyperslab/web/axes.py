"""The dimensions of an array as a view has them: by name, a range of each, with the labels of what is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from hyperslab.array import Array, cf, times
from hyperslab.array.attributes import with_missing
from hyperslab.array.axis_roles import role_of
from hyperslab.array.plain_values import cell_text, to_json_value
from hyperslab.chunks.grid import Axis
from hyperslab.errors import HyperslabError, Invalid, SelectionError
from hyperslab.group.coordinates import find_labels
from hyperslab.model.cells import Values
from hyperslab.model.dims import axis_names, index_cells
from hyperslab.model.paths import child, split
from hyperslab.model.series import STARTING_TIME
from hyperslab.web.bounded_values import cut_text, public_text

# Decoded bytes of the chunks of a coordinate that are read for labels; of a longer one the ends alone are told.
_COORDINATE_BYTES = 16 << 20
# Letters of a label that is a word.
_LETTERS = 200


def find_axis(array: Array, name: str) -> int:
    """Return which dimension a name means; Invalid."""
    names = axis_names(array.dims)
    if name not in names:
        known = ", ".join(cut_text(each, 40)[0] for each in names[:20]) or "none"
        raise Invalid(
            f"there is no dimension {cut_text(name, 40)[0]!r}", node=array.path, url=array.url, remedy=f"take {known}"
        )
    return names.index(name)


def find_position(array: Array, name: str, place: int) -> int:
    """Return which dimension a name means, of which a position is chosen; Invalid where it has no such position."""
    axis = find_axis(array, name)
    if not 0 <= place < array.shape[axis]:
        raise Invalid(f"{name} has no position {place}", remedy=f"it has {array.shape[axis]}, from 0 on")
    return axis


# -- what is shown of an axis ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ViewAxis:
    """The positions ``start <= i < stop`` of dimension ``axis`` of the array, every ``step``-th of which is read, for
    at most ``pixels`` cells of the picture."""

    axis: int
    start: int
    stop: int
    pixels: int
    step: int = 1

    @property
    def positions(self) -> range:
        """The positions that are read."""
        return range(self.start, self.stop, self.step)

    @property
    def block(self) -> int:
        """How many of them become one cell of the picture."""
        return max(ceil(len(self.positions) / self.pixels), 1)

    @property
    def count(self) -> int:
        """Cells of the picture."""
        return ceil(len(self.positions) / self.block)

    @property
    def pixel_step(self) -> int:
        """Return the step of which one position is read for each cell of the picture."""
        return max(ceil((self.stop - self.start) / self.pixels), 1)

    def every(self, step: int) -> ViewAxis:
        """Return the same axis, of which every ``step``-th position is read."""
        return replace(self, step=min(step, self.stop - self.start))

    def chunks(self, cut: Axis) -> int:
        """Return how many chunks the positions lie in, at most."""
        read = self.positions
        return min(len(read), cut.find(read[-1]) - cut.find(read[0]) + 1)

    def spans(self, cut: Axis) -> list[range]:
        """Return the numbers of the positions that lie in one chunk together, chunk by chunk."""
        read, found, number = self.positions, [], 0
        while number < len(read):
            chunk = cut.find(read[number])
            end = cut.start(chunk) + cut.size_of(chunk)
            after = min(number + ceil((end - read[number]) / self.step), len(read))
            found.append(range(number, after))
            number = after
        return found

    def numbers_in(self, cut: Axis, chunk: int) -> range:
        """Return the numbers of the positions that lie in a chunk; none where it holds none of them."""
        start = cut.start(chunk)
        first = max(ceil((start - self.start) / self.step), 0)
        after = ceil((min(start + cut.size_of(chunk), self.stop) - self.start) / self.step)
        return range(first, max(after, first))

    def key(self, numbers: range) -> slice:
        """Return the positions with these numbers, as a key of the array."""
        first = self.start + numbers.start * self.step
        return slice(first, first + (len(numbers) - 1) * self.step + 1, self.step)

    def first_positions(self) -> range:
        """Return the first position of each cell of the picture."""
        return range(self.start, self.stop, self.step * self.block)

    def middle_positions(self) -> list[int]:
        """Return the position in the middle of each cell of the picture."""
        half = self.block // 2 * self.step
        return [min(first + half, self.stop - 1) for first in self.first_positions()]

    def range_of(self, numbers: range) -> list[int]:
        """Return the first position with these numbers, and the one behind the last."""
        key = self.key(numbers)
        return [key.start, key.stop]


def group_spans(spans: Sequence[range], most: int) -> list[list[range]]:
    """Return neighbouring spans together, of at most ``most`` positions where one has not more."""
    groups: list[list[range]] = []
    for span in spans:
        if groups and span.stop - groups[-1][0].start <= most:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups


# -- labels ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AxisLabels:
    """Labels of some positions: numbers, words, or times as text with their ``values`` as numbers. None where there
    are none, or the ``problem`` why. ``role``: what they mean in the world (``longitude`` …), ``series`` the seconds of
    a time series of HDMF."""

    path: str | None = None
    units: str | None = None
    calendar: str | None = None
    role: str | None = None
    labels: list[object] | None = None
    values: list[object] | None = None
    problem: str | None = None

    def as_json(self) -> dict[str, object]:
        """Return the same as JSON values."""
        return {
            "coordinate": self.path,
            "units": self.units,
            "calendar": self.calendar,
            "role": self.role,
            "labels": self.labels,
            "values": self.values,
            **({"problem": self.problem} if self.problem else {}),
        }


def labels_of(array: Array, axis: int, positions: range) -> AxisLabels:
    """Return the labels of positions of a dimension. Damage in a coordinate is told, and no error."""
    try:
        found = find_labels(array, axis)
        if found is None:
            return AxisLabels()
        if not isinstance(found, Array):
            cells, attrs = index_cells(found, positions)
            if array.dims[axis] not in array.spec.indexes:
                place = child(split(array.path)[0], STARTING_TIME)
                return AxisLabels(f"/{place}", "seconds", role="series", labels=to_json_value(cells))
            return _labels_of_cells(None, str(array.dims[axis]), cells, attrs)
        labels = _labels_of_coordinate(found, positions)
        is_series = found.name != array.dims[axis]
        return replace(labels, role="series", units=labels.units or "seconds") if is_series else labels
    except HyperslabError as error:
        return AxisLabels(problem=public_text(error.said))


def _labels_of_coordinate(coordinate: Array, positions: range) -> AxisLabels:
    """Return the labels that an array holds; the ends alone of one that costs too much."""
    path, attrs = f"/{coordinate.path}", with_missing(coordinate._session, coordinate.spec)
    name = split(coordinate.path)[1]
    if not positions:
        return _labels_of_cells(path, name, np.empty(0, coordinate.dtype), attrs)
    cut = coordinate.grid.axes[0]
    chunks = ViewAxis(0, positions.start, positions[-1] + 1, 1, positions.step).chunks(cut)
    if chunks > 2 and chunks * coordinate.grid.chunk_cells * coordinate.dtype.itemsize > _COORDINATE_BYTES:
        known = _labels_of_cells(path, name, np.empty(0, coordinate.dtype), attrs)
        return replace(known, labels=None, problem="the coordinate is too long to be read for its labels")
    cells = np.asarray(coordinate[positions.start : positions[-1] + 1 : positions.step])
    return _labels_of_cells(path, name, cells, attrs)


def _labels_of_cells(path: str | None, name: str, cells: Values, attrs: Mapping[str, Any]) -> AxisLabels:
    """Return the labels that cells of a coordinate of this name are by its attributes; as stored where these make no
    sense."""
    clock = times.clock(attrs)
    units = attrs.get("units")
    units = cut_text(units.rstrip("\0"))[0] if isinstance(units, str) else None
    known = AxisLabels(path, units, None if clock is None else clock.calendar, role_of(name, attrs))
    with suppress(HyperslabError):
        labels = _plain_labels(cf.decode(cells, attrs))
        is_counted = clock is not None and cells.dtype.kind in "iuf"
        return replace(known, labels=labels, values=to_json_value(cells) if is_counted else None)
    return replace(known, labels=_plain_labels(cells))


def _plain_labels(cells: Values) -> list[object]:
    """Return numbers as they are, and all else as text."""
    if cells.dtype.kind in "iuf":
        numbers: list[object] = to_json_value(cells)
        return numbers
    return [cut_text(cell_text(cell), _LETTERS)[0] for cell in cells]


def parse_slice(text: str | None, size: int) -> tuple[int, int]:
    """Return the positions that ``a:b`` means, all of them for None; SelectionError beyond the dimension."""
    if text is None:
        return 0, size
    first, mark, last = text.partition(":")
    start, stop = parse_number(first or "0", "a range"), parse_number(last or str(size), "a range")
    if not mark or not 0 <= start < stop <= size:
        remedy = f"give a:b with 0 <= a < b <= {size}"
        raise SelectionError(f"the range {cut_text(text, 40)[0]!r} holds no positions of {size}", remedy=remedy)
    return start, stop


def parse_number(text: str, what: str) -> int:
    """Return a whole number of at most 18 digits; Invalid for any other text."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Invalid(f"{cut_text(text, 40)[0]!r} is no number for {what}", remedy="give a whole number from 0 on")
    return int(text)
