"""A view of an array: the cells of one or two dimensions, reduced to the pixels that show them.

However large an array is, a view reads so many chunks and bytes at most: all cells of its range where that is within
the budget, else every so-many-th of a dimension. Nothing is left out without a word: the head of a view says what was
done, and which cells could not be read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from math import frexp, prod
from typing import Any

import numpy as np

from hyperslab.array import Array
from hyperslab.array.axis_roles import VERTICAL
from hyperslab.array.decoded import Decoded
from hyperslab.array.flags import Flags, find_flags
from hyperslab.array.plain_values import to_json_value
from hyperslab.chunks.grid import Axis, Coords
from hyperslab.errors import DAMAGE, HyperslabError, Invalid
from hyperslab.model.cells import Values
from hyperslab.model.dims import axis_names
from hyperslab.model.dtypes import describe, is_fixed
from hyperslab.web.axes import AxisLabels, ViewAxis, find_axis, find_position, group_spans, labels_of, parse_slice
from hyperslab.web.bounded_values import cut_text, flag_facts, public_text, shown_units
from hyperslab.web.reduction import BlockMeans
from hyperslab.web.waiting import StillWaiting, raise_if_gone

# Pixels along an axis, and in all: sums, counts and what is sent of so many take 40 MiB.
MOST_PIXELS, MOST_CELLS = 4096, 1 << 20
# Chunks, their decoded bytes, and the cells of them that a view reads, so that it takes a second or so. On a server
# each chunk is a request.
MOST_CHUNKS, MOST_REMOTE_CHUNKS, MOST_BYTES, MOST_CELLS_READ = 4096, 256, 256 << 20, 64 << 20
# How many times less a quick view reads, to be there within a tenth of a second.
_QUICKER = 16
# Cells that are read at a time.
_BOX_CELLS = 1 << 19
# Chunks of a large array that are listed to find out which of them were ever written, and seconds of that; along each
# axis so many are looked at before, since a dense array needs no list.
_MOST_LISTED, _LIST_SECONDS, _SAMPLE = 20_000, 0.5, 8
# Seconds after which the rest of a view is left out, as a gap.
_SECONDS = 20.0
# Cells of a last dimension that are the colours of a picture: red, green, blue, and opacity.
_MOST_BANDS = 4
# Gaps that are told one by one.
MOST_GAPS = 100
COMPLEX_PARTS: Mapping[str, Callable[[Values], Values]] = {
    "magnitude": np.abs,
    "real": np.real,
    "imag": np.imag,
    "phase": np.angle,
}
"""The real numbers that are shown of complex ones."""
# Floats of 32 bits tell 2**24 numbers apart: where cells are so close together for their size, they are sent without
# what they have in common, so that 2**12 steps are left to see.
_CLOSE = 2.0**-12
# The largest number that is sent as it is, and the smallest one: floats of 32 bits make zeros of what is below 1e-45,
# less exact ones below 1e-38, and infinities above 3e38.
_SMALLEST, _LARGEST = 2.0**-100, 2.0**127
Taker = Callable[[int, int, Values], None]
"""Takes cells that were read, with the numbers of the first one's row and column."""


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """The part of an array that a view shows: dimensions by name, a position for each of the others, ranges, and the
    size of the picture.

    ``envelope``: an image has the least, the mean and the greatest cell of each block, as a line has.
    ``positions``: not cells, but the longitudes and latitudes where they lie. ``quick``: few of the cells will do.
    ``part``: which real number of a complex one.
    """

    x: str | None
    y: str | None
    at: Mapping[str, int]
    x_range: str | None
    y_range: str | None
    width: int
    height: int
    field: str | None = None
    decoded: bool = True
    envelope: bool = False
    positions: bool = False
    quick: bool = False
    part: str = "magnitude"

    @property
    def layers(self) -> int:
        """Most layers of the view."""
        return 3 if self.envelope or self.y is None else 2 if self.positions else 1


@dataclass(eq=False)
class ReducedView:
    """A view that is being made: the array, its axes (columns last; a line has no rows), and what its cells are read
    from: the array, or it decoded."""

    array: Array
    axes: tuple[ViewAxis, ...]
    fixed: dict[int, int]
    field: str | None
    source: Array | Decoded
    is_quick: bool = False
    flags: Flags | None = None
    """Words that cells mean, which have no mean: of those that are shown every so-many-th is read, and no block."""
    part: str | None = None
    """Which real numbers of complex ones are shown; None of real ones."""
    written: tuple[Coords, ...] | None = None
    """Those of its chunks that were ever written, where these are known to be few: no other one is read."""

    @property
    def chunks(self) -> int:
        """Chunks that the view reads."""
        if self.written is not None:
            return len(self.written)
        cuts = self.array.grid.axes
        return prod(axis.chunks(cuts[axis.axis]) for axis in self.axes)

    @property
    def cells(self) -> int:
        """Cells that the view reads, at the most."""
        whole = prod(len(axis.positions) for axis in self.axes)
        return whole if self.written is None else min(whole, self.chunks * self.array.grid.chunk_cells)

    @property
    def chunk_nbytes(self) -> int:
        """Bytes of these chunks once they are decoded."""
        return self.chunks * self.array.grid.chunk_cells * self.array.dtype.itemsize

    def span_in(self, coords: Coords) -> tuple[range, range]:
        """Return the numbers of the rows and columns that lie in a chunk; of a line of one row."""
        cuts = self.array.grid.axes
        spans = [axis.numbers_in(cuts[axis.axis], coords[axis.axis]) for axis in self.axes]
        return (spans[0] if len(spans) == 2 else range(1)), spans[-1]

    @property
    def rows(self) -> ViewAxis:
        """The axis of rows; of a line one of a single position, which is none of the array's."""
        return self.axes[0] if len(self.axes) == 2 else ViewAxis(-1, 0, 1, 1)

    @property
    def columns(self) -> ViewAxis:
        """The axis of columns."""
        return self.axes[-1]

    def key(self, rows: range, columns: range) -> tuple[Any, ...]:
        """Return the key of the array for positions by their numbers."""
        key: dict[int, Any] = {**self.fixed, self.columns.axis: self.columns.key(columns)}
        if len(self.axes) == 2:
            key[self.rows.axis] = self.rows.key(rows)
        return tuple(key[axis] for axis in range(self.array.ndim))

    def read(self, rows: range, columns: range) -> Values:
        """Return cells as real numbers, rows by columns; missing ones are NaN where they are decoded."""
        key = self.key(rows, columns)
        cells = self.source[key] if self.field is None else self.array[(self.field, *key)]
        numbers = self.take_part(as_numbers(np.asarray(cells)))
        if len(self.axes) == 1:
            return numbers[np.newaxis]
        return numbers.T if self.rows.axis > self.columns.axis else numbers

    def fill_number(self) -> Values:
        """Return the fill value as an array of one number, NaN where it means missing."""
        fill = self.array.spec.fill_cell()
        cells = (fill if self.field is None else fill[self.field])[np.newaxis]
        return self.take_part(
            as_numbers(self.source.decode_cells(cells) if isinstance(self.source, Decoded) else cells)
        )

    def take_part(self, numbers: Values) -> Values:
        """Return the real numbers of complex ones that are shown, NaN of what is missing in either part."""
        if self.part is None:
            return numbers
        return np.where(np.isnan(numbers), np.nan, COMPLEX_PARTS[self.part](numbers))


def as_numbers(cells: Values) -> Values:
    """Return real cells as NumPy computes with them: times in seconds, missing ones as NaN."""
    if cells.dtype.kind in "mM":
        unit = np.dtype(f"{cells.dtype.kind}8[us]")
        return np.where(np.isnat(cells), np.nan, cells.astype(unit).astype("i8") / 1e6)
    return cells.astype("f4") if cells.dtype.kind == "V" else cells


def read_view(array: Array, query: ViewQuery, is_waiting: StillWaiting) -> tuple[dict[str, Any], Values]:
    """Return the head of a view, and its layers as floats of 32 bits: layers by rows by columns.

    Damaged chunks are gaps, and so is what is not read in time. Invalid, SelectionError; MemoryLimit for chunks that
    are too large, Conflict once nobody waits for it.
    """
    view = fit_view(open_view(array, query))
    rows, columns = view.rows, view.columns
    is_line = len(view.axes) == 1
    has_envelope = is_line or query.envelope
    size = len(rows.positions), len(columns.positions)
    means = BlockMeans(size, (rows.block, columns.block), envelope=has_envelope, is_sparse=view.written is not None)
    gaps = read_boxes(view, means.add, is_waiting)
    if view.written is not None:
        means.fill_rest(float(view.fill_number()[0]))
    layers = dict(means.layers())
    (first, *more) = layers.values()
    stack = np.stack([first, *more]) if more else first[np.newaxis]
    least, greatest = _ends(stack)
    cells, offset, factor = as_floats(stack, least or 0.0, greatest or 0.0)
    head = {
        "path": f"/{array.path}",
        "kind": "line" if is_line else "image",
        "layers": list(layers),
        "shape": [len(layers), columns.count] if is_line else [len(layers), rows.count, columns.count],
        "offset": offset,
        "factor": factor,
        "minimum": least,
        "maximum": greatest,
        "cell_minimum": to_json_value(means.least),
        "cell_maximum": to_json_value(means.greatest),
        "units": units_of(array, view),
        "decoded": query.decoded,
        "flags": flag_facts(view.flags),
        "part": view.part,
        "reduction": reduction_text(view.axes, array, has_envelope=has_envelope),
        "is_exact": all(axis.step == 1 for axis in view.axes),
        "x": axis_facts(array, columns),
        "y": None if is_line else axis_facts(array, rows),
        "at": [fixed_facts(array, axis, place) for axis, place in view.fixed.items()],
        "cost": {"chunks": view.chunks, "chunk_nbytes": view.chunk_nbytes},
        "gaps": gaps[:MOST_GAPS],
        "gap_count": len(gaps),
    }
    return head, cells


def as_floats(numbers: Values, least: float, greatest: float) -> tuple[Values, float, float]:
    """Return numbers as floats of 32 bits, an offset that is to be added to them, and a factor by which they are
    multiplied before; ``least`` and ``greatest`` are those of the finite ones."""
    offset, factor = 0.0, 1.0
    largest = max(abs(least), abs(greatest))
    if greatest - least < largest * _CLOSE:
        offset, largest = least, greatest - least
        numbers = numbers - offset
    if largest and not _SMALLEST <= largest <= _LARGEST:
        factor = 2.0 ** (frexp(largest)[1] - 1)
        numbers = numbers / factor
    with np.errstate(over="ignore"):
        return numbers.astype("<f4"), offset, factor


def pack_view(head: Mapping[str, Any], cells: Values) -> bytes:
    """Return the body of an answer: the length of the head (4 bytes, little-endian), the head as JSON, padded so that
    the cells behind it begin at a multiple of 4."""
    text = json.dumps(head, allow_nan=False, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 4)
    return b"".join([len(text).to_bytes(4, "little"), text, cells.tobytes()])


def choose_axes(array: Array, query: ViewQuery) -> ViewQuery:
    """Return the query with the last two dimensions of several cells as rows and columns, those before the few colours
    of a picture, and a vertical one as rows; where one has several, with that one alone, as a line."""
    names = axis_names(array.dims)
    long = [name for name, size in zip(names, array.shape, strict=True) if size > 1] or names[-1:]
    is_band = len(long) > 2 and 1 < array.shape[-1] <= _MOST_BANDS
    if is_band and _role_of(array, names[-1]) is None:
        long = long[:-1]
    y, x = [None, None, *long][-2:]
    if x is not None and y is not None and _role_of(array, x) in VERTICAL and _role_of(array, y) not in VERTICAL:
        x, y = y, x
    return replace(query, x=x, y=y)


def _role_of(array: Array, name: str) -> str | None:
    """Return the role of a dimension, of which no label is read."""
    return labels_of(array, find_axis(array, name), range(0)).role


# -- what is read ------------------------------------------------------------------------------------------------------


def open_view(array: Array, query: ViewQuery) -> ReducedView:
    """Return the view that is asked for, with all of its cells; Invalid, SelectionError."""
    with array._session.add_place_to_errors(array.path):
        source = _source_of(array, query)
        if not array.ndim:
            raise Invalid("an array without dimensions has one cell", remedy="ask for the cell")
        if 0 in array.shape or max(array.shape) >= 2**63:
            raise Invalid("the array has no cells, or more than can be counted", remedy="look at another one")
        if not (1 <= query.width <= MOST_PIXELS and 1 <= query.height <= MOST_PIXELS):
            raise Invalid("a picture of this size", remedy=f"width and height are from 1 to {MOST_PIXELS}")
        if query.y is not None and query.width * query.height * query.layers > MOST_CELLS:
            raise Invalid("a picture of so many pixels", remedy=f"ask for at most {MOST_CELLS // query.layers:,}")
        names = axis_names(array.dims)
        x = find_axis(array, names[-1] if query.x is None else query.x)
        axes = [ViewAxis(x, *parse_slice(query.x_range, array.shape[x]), query.width)]
        if query.y is not None:
            y = find_axis(array, query.y)
            if x == y:
                raise Invalid("rows and columns are the same dimension", remedy="choose two")
            axes.insert(0, ViewAxis(y, *parse_slice(query.y_range, array.shape[y]), query.height))
        shown = {axis.axis for axis in axes}
        fixed = {axis: 0 for axis in range(array.ndim) if axis not in shown}
        for name, place in query.at.items():
            axis = find_position(array, name, place)
            if axis in fixed:
                fixed[axis] = place
    flags = find_flags(array.spec.attrs) if query.field is None and isinstance(source, Decoded) else None
    return ReducedView(array, tuple(axes), fixed, query.field, source, query.quick, flags, _part_of(array, query))


def _source_of(array: Array, query: ViewQuery) -> Array | Decoded:
    """Return what cells are read from: the array where they are shown as stored, else it decoded; Invalid for what is
    no real number.

    Times stay numbers of their unit: dates have no mean.
    """
    dtype = array.dtype
    if query.field is not None:
        if query.field not in (dtype.names or ()):
            raise Invalid(f"there is no field {cut_text(query.field, 40)[0]!r}", remedy="take one of its type")
        dtype = dtype[query.field]
        if dtype.subdtype is not None:
            raise Invalid("a field of several numbers per cell", remedy="ask for rows")
    is_small = dtype.kind == "V" and dtype.type is not np.void  # the floats of ml_dtypes
    if (not is_fixed(array.data_type) and query.field is None) or not (dtype.kind in "biufcmM" or is_small):
        raise Invalid(f"cells of type {describe(array.data_type)} are no real numbers", remedy="ask for rows")
    is_stored = not query.decoded or query.field is not None or is_small
    return array if is_stored else Decoded(array, dates=False)


def _part_of(array: Array, query: ViewQuery) -> str | None:
    """Return the part of complex numbers that is shown, None of real ones; Invalid."""
    if query.part not in COMPLEX_PARTS:
        parts = ", ".join(COMPLEX_PARTS)
        raise Invalid(f"complex numbers have no {cut_text(query.part, 40)[0]!r}", remedy=f"take one of {parts}")
    dtype = array.dtype if query.field is None else array.dtype[query.field]
    return query.part if dtype.kind == "c" else None


def fit_view(view: ReducedView) -> ReducedView:
    """Return the view with steps so that what it reads is within the budget: of the axes that can be read whole as
    many as possible, of the others one position for each pixel, or fewer. Chunks that were never written cost
    nothing."""
    factor = 1
    written: Sequence[Coords] | None = None
    while True:
        finest = [axis.pixel_step if view.flags else 1 for axis in view.axes]
        wanted = [sorted({least, axis.pixel_step * factor}) for axis, least in zip(view.axes, finest, strict=True)]
        trials = [tuple(map(ViewAxis.every, view.axes, steps)) for steps in product(*wanted)]
        trials.sort(key=lambda axes: -prod(len(axis.positions) for axis in axes))
        for number, axes in enumerate(trials):
            tried = replace(view, axes=axes)
            if is_within_budget(tried):
                return tried
            if factor == 1 and number == 0:
                written = list_written(tried)
            if written is not None:
                tried = replace(tried, written=tuple(coords for coords in written if all(tried.span_in(coords))))
                if is_within_budget(tried):
                    return tried
        factor *= 2


def _most_chunks(array: Array) -> int:
    """Return how many chunks of an array a view reads at the most."""
    return MOST_CHUNKS if array._cells.source.traits.concurrency is None else MOST_REMOTE_CHUNKS


def is_within_budget(view: ReducedView) -> bool:
    """Return True where a view reads few enough chunks, bytes and cells, or a single chunk."""
    count, less = view.chunks, _QUICKER if view.is_quick else 1
    is_small = view.chunk_nbytes <= MOST_BYTES // less and view.cells <= MOST_CELLS_READ // less
    return count <= 1 or (count <= _most_chunks(view.array) // less and is_small)


def list_written(view: ReducedView) -> list[Coords] | None:
    """Return the chunks at hand that were ever written and that a view of every cell has cells in; None where they are
    many, or where nothing tells which they are, such as the index of a shard that is damaged."""
    source, cuts = view.array._cells.source, view.array.grid.axes
    is_uniform = not (isinstance(view.source, Decoded) and view.source.has_channels)  # else the fill value is no number
    if source.traits.concurrency is not None or not source.traits.lists_chunks or not is_uniform:
        return None
    here = {axis: cuts[axis].find(place) for axis, place in view.fixed.items()}
    some = {axis.axis: _some_chunks(axis, cuts[axis.axis]) for axis in view.axes}
    sample = product(*(some.get(axis, [here.get(axis, 0)]) for axis in range(len(cuts))))
    found: list[Coords] = []
    deadline = time.monotonic() + _LIST_SECONDS
    with suppress(*DAMAGE):
        sizes = [source.stored_sizes([coords]) for coords in sample]
        if None in sizes or 2 * sum(map(bool, sizes)) > len(sizes):
            return None
        for number, coords in enumerate(source.stored_coords()):
            if number > _MOST_LISTED or len(found) > MOST_CHUNKS or time.monotonic() > deadline:
                return None
            if all(coords[axis] == chunk for axis, chunk in here.items()) and all(view.span_in(coords)):
                found.append(coords)
        return found
    return None


def _some_chunks(axis: ViewAxis, cut: Axis) -> list[int]:
    """Return some chunks along an axis, evenly spread."""
    read = axis.positions
    return sorted({cut.find(read[number * (len(read) - 1) // (_SAMPLE - 1)]) for number in range(_SAMPLE)})


def _boxes(view: ReducedView) -> Iterator[tuple[list[range], list[range]]]:
    """Yield the parts that are read at a time, as the spans of whole chunks that they are made of."""
    if view.written is not None:
        for coords in view.written:
            rows_in, columns_in = view.span_in(coords)
            yield [rows_in], [columns_in]
        return
    cuts = view.array.grid.axes
    columns = view.columns.spans(cuts[view.columns.axis])
    rows = view.rows.spans(cuts[view.rows.axis]) if len(view.axes) == 2 else [range(1)]
    tallest = max(map(len, rows))
    column_groups = group_spans(columns, max(_BOX_CELLS // tallest, 1))
    widest = max(group[-1].stop - group[0].start for group in column_groups)
    for row_group in group_spans(rows, max(_BOX_CELLS // widest, 1)):
        for column_group in column_groups:
            yield row_group, column_group


def read_boxes(view: ReducedView, take: Taker, is_waiting: StillWaiting) -> list[dict[str, object]]:
    """Read all boxes, those with damage once more chunk by chunk; returns the gaps."""
    deadline = time.monotonic() + _SECONDS
    gaps: list[dict[str, object]] = []

    def leave_out(rows: range, columns: range, kind: str, message: str) -> None:
        """Add a gap; the cells in it are missing, and not the fill value where that stands for all that is not read."""
        if view.written is not None:
            take(rows.start, columns.start, np.full((len(rows), len(columns)), np.nan))
        gaps.append(_gap(view, rows, columns, kind, message))

    def read(rows: range, columns: range) -> HyperslabError | None:
        """Read a box; returns what is wrong with it."""
        raise_if_gone(is_waiting)
        if time.monotonic() > deadline:
            leave_out(rows, columns, "Timeout", f"this was not read within {_SECONDS:g} seconds")
            return None
        try:
            take(rows.start, columns.start, view.read(rows, columns))
        except DAMAGE as error:
            return error
        return None

    for row_group, column_group in _boxes(view):
        error = read(*(range(group[0].start, group[-1].stop) for group in (row_group, column_group)))
        parts = [] if error is None else list(product(row_group, column_group))
        for part in parts:
            error = read(*part) if len(parts) > 1 else error
            if error is not None:
                leave_out(*part, type(error).__name__, error.said)
    return gaps


def _gap(view: ReducedView, rows: range, columns: range, kind: str, message: str) -> dict[str, object]:
    """Return what is told of cells that could not be read."""
    y = view.rows.range_of(rows) if len(view.axes) == 2 else None
    facts = {"class": kind, "message": public_text(message, 500)}
    return {"x": view.columns.range_of(columns), "y": y, "error": facts}


# -- what is told ------------------------------------------------------------------------------------------------------


def reduction_text(axes: tuple[ViewAxis, ...], array: Array, *, has_envelope: bool) -> str:
    """Return in words what was done: ``mean of 16 x 16 cells``, ``every 8th of time``."""
    names = [cut_text(axis_names(array.dims)[axis.axis], 60)[0] for axis in axes]
    blocks = [axis.block for axis in axes]
    texts = []
    if prod(blocks) > 1:
        what = "minimum, mean and maximum" if has_envelope else "mean"
        texts.append(f"{what} of {' x '.join(map(str, blocks))} cells")
    texts += [f"every {_ordinal(axis.step)} of {name}" for axis, name in zip(axes, names, strict=True) if axis.step > 1]
    return ", ".join(texts) or "every cell"


def _ordinal(number: int) -> str:
    last = number % 10 if number % 100 not in (11, 12, 13) else 0
    ending = {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    return f"{number:,}{ending}"


def _ends(cells: Values) -> tuple[float | None, float | None]:
    """Return the least and the greatest cell that is finite."""
    finite = cells[np.isfinite(cells)]
    return (float(finite.min()), float(finite.max())) if finite.size else (None, None)


def units_of(array: Array, view: ReducedView) -> str | None:
    """Return the units of the cells that a view shows: those of the attributes, or what times are counted in; None of
    packed cells as they are stored, since the attributes speak of decoded ones."""
    kinds = {"m": "seconds", "M": "seconds since 1970-01-01"}
    dtype = array.dtype if view.field is None else array.dtype[view.field]
    if dtype.kind in kinds:
        return kinds[dtype.kind]
    if view.part == "phase":
        return "radians"
    if view.field is not None:
        return None
    decoded, stored = shown_units(array)
    return decoded if isinstance(view.source, Decoded) else stored


def axis_facts(array: Array, axis: ViewAxis, *, labelled: bool = True) -> dict[str, object]:
    """Return which positions an axis of the picture shows, and the label of the first one of each of its cells."""
    labels = labels_of(array, axis.axis, axis.first_positions()) if labelled else AxisLabels()
    return {
        "dim": axis_names(array.dims)[axis.axis],
        "size": array.shape[axis.axis],
        "start": axis.start,
        "stop": axis.stop,
        "step": axis.step,
        "block": axis.block,
        "count": axis.count,
        **labels.as_json(),
    }


def fixed_facts(array: Array, axis: int, place: int) -> dict[str, object]:
    """Return the one position of a dimension that is not shown, with its label."""
    labels = labels_of(array, axis, range(place, place + 1))
    return {
        "dim": axis_names(array.dims)[axis],
        "size": array.shape[axis],
        "index": place,
        "label": labels.labels[0] if labels.labels else None,
        "units": labels.units,
    }
