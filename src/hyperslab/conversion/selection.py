"""Which cells of every array a selection by dimension means, the shape that is left, and the labels of those cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import product
from typing import Any, Literal

import numpy as np

from hyperslab.array import Array
from hyperslab.array.axis_roles import role_of
from hyperslab.array.indexes import read_index
from hyperslab.array.series import SECONDS, is_series_data
from hyperslab.chunks.boxes import Box
from hyperslab.conversion.bounding_box import (
    BoundingBox,
    BoxCells,
    add_samples,
    circle_of,
    find_box_cells,
    find_instances,
    find_nearest_cell,
    is_number,
    range_around,
    turn_labels,
)
from hyperslab.errors import HyperslabError, Invalid, LabelError, SelectionError, Unsupported, WrongType
from hyperslab.group.cf_variables import AxisSearch, NamedAxis, companions_of, names_in_attribute
from hyperslab.group.choice import are_dates, require_one_size
from hyperslab.group.coordinates import find_coordinate
from hyperslab.model.attrs import Attrs
from hyperslab.model.cells import Values
from hyperslab.model.dims import (
    CFTime,
    Coordinate,
    FloatLabels,
    Index,
    ScaleIndex,
    TimeScale,
    axis_names,
    index_cells,
    select_from_index,
)
from hyperslab.model.guessing import nearest
from hyperslab.model.paths import child, outward, split
from hyperslab.selection.circle import add_turns
from hyperslab.selection.label_query import span_text
from hyperslab.selection.labels import check_method, has_cells, refuse_empty_period, resolve_sel
from hyperslab.selection.positional import outer
from hyperslab.selection.region import Axis, PositionList, Range, Region

Distance = float | timedelta | np.timedelta64
Distances = Distance | tuple[Distance, ...]


@dataclass(frozen=True, slots=True)
class Select:
    """A selection by dimension, or by a word of CF that means one: ``isel`` by position, ``sel`` by label (slices of
    labels include their stop).

    ``box``: the cells that lie in it, in degrees. ``nearest``: a label that no cell has means its neighbour, none
    farther than the ``tolerance`` that fits the labels: a number, or a timedelta for times. ``typed``: by a person,
    whose whole numbers are dates where they look so and no cell has that position, and an error where else none has it;
    ``nearest`` leaves a period that has cells as it is, of which xarray takes the neighbour of its beginning.
    """

    isel: Mapping[str, object]
    sel: Mapping[str, object]
    nearest: bool = False
    tolerance: tuple[Distance, ...] = ()
    box: BoundingBox | None = None
    typed: bool = False

    @classmethod
    def of(
        cls,
        select: Mapping[str, Any] | Select | None,
        method: Literal["nearest"] | None = None,
        tolerance: Distances | None = None,
    ) -> Select:
        """Sort ``select`` by the kind of value: ints, slices of ints, arrays of ints and masks are positions, others
        labels; ``bbox`` is a box of four numbers: west, south, east, north. ``method`` and ``tolerance`` as of
        ``Array.sel``; a tuple has a tolerance for each kind of labels."""
        check_method(method, tolerance)
        if not isinstance(select, Select):
            chosen = {dim: list(value) if isinstance(value, tuple) else value for dim, value in (select or {}).items()}
            box = BoundingBox.of(chosen.pop(_BOX)) if np.shape(chosen.get(_BOX, ())) == (4,) else None
            isel = {dim: value for dim, value in chosen.items() if _is_position(value)}
            select = cls(isel, {dim: value for dim, value in chosen.items() if dim not in isel}, box=box)
        if method is None:
            return select
        limits = tolerance if isinstance(tolerance, tuple) else () if tolerance is None else (tolerance,)
        return replace(select, nearest=True, tolerance=limits)

    @property
    def dims(self) -> tuple[str, ...]:
        """Return every dimension that the selection names."""
        return (*self.isel, *self.sel)


def _is_position(value: object) -> bool:
    match value:
        case slice():
            bounds = [bound for bound in (value.start, value.stop) if bound is not None]
            return all(map(_is_position, bounds))
        case list() | tuple() | np.ndarray():
            return np.asarray(value).dtype.kind in "iub"
    return isinstance(value, int | np.integer)


@dataclass(frozen=True, slots=True, eq=False)
class ArraySelection:
    """The selected positions of each axis; the axes that remain (an int drops its axis), and their lengths; ``turns``:
    what is added to labels along an axis that the array has itself (f8, by cell)."""

    axes: tuple[Axis, ...]
    kept: tuple[int, ...]
    shape: tuple[int, ...]
    turns: Mapping[int, Values] = field(default_factory=dict, kw_only=True)

    def is_all(self, shape: tuple[int, ...]) -> bool:
        """Return True if every cell of an array of this shape is selected, in order."""
        return self.shape == shape and (0 in shape or self.axes == tuple(Range(0, length, 1) for length in shape))

    def region(self, box: Box) -> Region:
        """Return the region of the source that a box of the result comes from."""
        axes = list(self.axes)
        for number, part in zip(self.kept, box, strict=True):
            match axes[number]:
                case PositionList(positions):
                    axes[number] = PositionList(positions[part])
                case Range(start=start, step=step):
                    axes[number] = Range(start + part.start * step, part.stop - part.start, step)
        return Region(tuple(axes))


@dataclass(frozen=True, slots=True, eq=False)
class ShiftedSelection(ArraySelection):
    """The same of an array to whose cells along the first axis that is kept something is ``added``, as to longitudes,
    or to a single cell, such as where a series starts."""

    added: Values

    def shift(self, cells: Values, box: Box) -> Values:
        """Return cells of a box of the result with what is added to them."""
        added = self.added[box[0]] if box else self.added
        return np.asarray(cells + added.reshape((-1,) * bool(box) + (1,) * (cells.ndim - 1)), cells.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class DimensionCells:
    """The cells that are selected along a dimension: an int, slice or array of positions; and the whole turns by which
    its labels are ``shifted`` across the seam (f8, by cell)."""

    item: Any
    shifted: Values | None = None


class Selector:
    """A selection over arrays of one dataset: each word is looked up as a dimension of an array, then by CF.

    Positions of a dimension without a name of its own go by its place, too (:func:`.axis_names`); SelectionError for
    those of one that has several sizes.

    What one array tells of a dimension holds for others along it that cannot tell it: of ``station_name=KTOP`` all that
    runs along the stations. Invalid for a word that no array knows. ``notes``: what is to be said of it;
    ``arrays``: with those that tell which samples of instances are meant.
    """

    def __init__(self, arrays: Iterable[Array], select: Select) -> None:
        self._select = select
        self.arrays = list(arrays)
        self.notes: list[str] = []
        self._search = AxisSearch()
        self._found: dict[tuple[object, ...], DimensionCells] = {}
        self._shared: dict[tuple[str, int], dict[str, DimensionCells]] = {}
        self._own: dict[str, dict[str, DimensionCells]] = {}
        self._shifts: dict[str, Values] = {}
        self._kinds: set[bool] = set()
        self.notes += require_one_size(self.arrays, select.isel, typed=select.typed)
        unmet = set(select.dims)
        for array in self.arrays:
            unmet -= self._look_up(array)
            if select.nearest:
                unmet -= self._look_up_point(array)
        if unmet or select.box is not None:
            others = find_instances(self.arrays, None if unmet else self._search)
            unmet.difference_update(*map(self._look_up, others))
            self.arrays += others
        if unmet:
            raise self._unknown(min(unmet))
        self._look_up_samples()
        if select.box is not None:
            self._look_up_box(select.box)

    def check_tolerance(self) -> None:
        """Raise WrongType for a tolerance that fits none of the labels whose neighbours were looked for, Invalid where
        there are no such labels."""
        for limit in self._select.tolerance:
            if not self._kinds:
                label = "@10" if self._select.typed else "10.0"
                remedy = f"leave it out, or select by a label ({label}), which is no position and no range"
                raise Invalid(f"a tolerance of {span_text(limit)} and no label that it is for", remedy=remedy)
            if _is_duration(limit) not in self._kinds:
                wanted = "a timedelta (3h)" if self._kinds == {True} else "a number"
                raise WrongType(f"a tolerance of {span_text(limit)}", remedy=f"of these labels it is {wanted}")

    def key(self, array: Array) -> tuple[Any, ...]:
        """Return the positional key of an array, one entry per dimension, each to be taken for itself."""
        own, found = self._own.get(array.path, {}), []
        for place, dim, size in zip(axis_names(array.dims), array.dims, array.shape, strict=True):
            cells = None if place in array.dims else own.get(place)
            found.append(self._cells_along(array, dim, size) if cells is None and dim is not None else cells)
        return tuple(slice(None) if cells is None else cells.item for cells in found)

    def shifts(self, array: Array) -> dict[str, Values]:
        """Return by dimension what is added to the labels of an array."""
        found = {
            dim: self._cells_along(array, dim, size) for dim, size in zip(array.dims, array.shape, strict=True) if dim
        }
        return {dim: cells.shifted for dim, cells in found.items() if cells is not None and cells.shifted is not None}

    def pick(self, array: Array) -> ArraySelection:
        """Return the selected cells of an array."""
        with array._session.add_place_to_errors(array.path):
            key = self.key(array)
            selection = outer(key, array.shape)
            # one position drops its axis
            kept = tuple(axis for axis, item in enumerate(key) if isinstance(item, slice) or np.ndim(item))
            axes = selection.region.axes
            shifts = self.shifts(array)
            turns = {axis: shifts[dim] for axis, dim in enumerate(array.dims) if dim in shifts}
            if array.path in self._shifts and 0 in kept:
                added = _as_added(array, self._shifts[array.path], key[0])
                return ShiftedSelection(axes, kept, selection.shape, added, turns=turns)
            return ArraySelection(axes, kept, selection.shape, turns=turns)

    def _cells_along(self, array: Array, dim: str, size: int) -> DimensionCells | None:
        own = self._own.get(array.path, {}).get(dim)
        if own is not None:
            return own
        others = self._shared.get((dim, size), {})
        groups = (*outward(split(array.path)[0]), *others)  # where none on the way has them, those of any
        return next((others[group] for group in groups if group in others), None)

    def _look_up(self, array: Array) -> set[str]:
        """Find what each word means for an array; return those that it knows."""
        known, names = set(), {*array.dims, *axis_names(array.dims)}
        with array._session.add_place_to_errors(array.path):
            for mapping, is_label in ((self._select.isel, False), (self._select.sel, True)):
                for word, item in mapping.items():
                    axis = None if word in names else self._search.find_axis(array, word)
                    if word not in names and axis is None:
                        continue
                    known.add(word)
                    dim = word if axis is None else axis.dim
                    found = self._own.setdefault(array.path, {})
                    if dim in found:
                        raise Invalid(f"{dim!r} is selected twice, as {word} too", remedy="leave one of them out")
                    by_label = is_label or (self._select.typed and _is_typed_label(array, dim, word, item))
                    if by_label and axis is None and dim not in array.dims:
                        raise Invalid(f"{word} has no labels", remedy=f"give positions, such as {word}=0..10")
                    found[dim] = self._find(array, dim, word, item, axis) if by_label else DimensionCells(item)
                    if axis is not None:
                        self._share(array, dim, found[dim])
                        if not by_label and is_series_data(array._session, array.path):
                            self._note(f"{word}: whole numbers are samples along {dim}, and seconds as @10 or 10.0")
        return known

    def _look_up_point(self, array: Array) -> set[str]:
        """Find the cell nearest to a point on the curved grid of an array; return the two words that name the point."""
        items = {**self._select.isel, **self._select.sel}
        words = {word: float(item) for word, item in items.items() if is_number(item)}
        curved = {word: self._search.find_curved(array, word) for word in words}
        pair = {word: coordinate for word, coordinate in curved.items() if coordinate is not None}
        by_role = {role_of(*_named(coordinate)): word for word, coordinate in pair.items()}
        if not self._select.nearest or len(pair) != 2 or len(by_role) != 2:
            return set()
        (east, lon), (north, lat) = ((by_role[role], pair[by_role[role]]) for role in ("longitude", "latitude"))
        if {*lon.dims} != {*lat.dims} or not {*lon.dims} <= {*array.dims}:
            return set()
        point = f"{east}={words[east]:g} {north}={words[north]:g}"
        axes = list(zip(map(str, lon.dims), lon.shape, strict=True))
        if taken := next((dim for dim, _ in axes if dim in self._own.get(array.path, {})), None):
            raise Invalid(f"{taken!r} is selected twice, by {point} too", remedy="leave one of them out")
        if all(axis in self._shared for axis in axes):
            return {*pair}
        cell = find_nearest_cell(lon, lat, words[east], words[north])
        limit = min(
            (each for each in self._select.tolerance if not isinstance(each, timedelta | np.timedelta64)),
            default=np.inf,
        )
        self._kinds.add(False)
        if cell is None or cell.distance > limit:
            found = "all places are missing" if cell is None else f"the nearest is {cell}"
            raise LabelError(f"no cell at {point}", node=array.path, remedy=found)
        self._shared |= {axis: {"": DimensionCells(position)} for axis, position in cell.positions.items()}
        self._note(f"{point}: the nearest cell is {cell}")
        return {*pair}

    def _look_up_samples(self) -> None:
        """Find the samples of the instances that are chosen (CF 1.11, 9.3), such as the times of a station, where an
        array counts or numbers them."""
        chosen = {
            (dim, array.shape[array.dims.index(dim)]): cells.item
            for array in self.arrays
            for dim, cells in self._own.get(array.path, {}).items()
            if dim in array.dims
        }
        for along, item in chosen.items():
            positions = np.atleast_1d(np.arange(along[1])[item])
            mask = np.zeros(along[1], bool)
            mask[positions] = True
            if mask.all() and positions.size == along[1]:
                continue
            found = {along: BoxCells(positions)}
            add_samples(found, self.arrays, along, mask)
            for samples in found.keys() - {along}:
                if samples in chosen:
                    raise Invalid(f"{samples[0]!r} is selected twice, by {along[0]!r} too", remedy="leave one out")
                if (np.diff(positions) <= 0).any():
                    message = f"samples of {along[0]!r} in another order"
                    raise Unsupported(message, remedy="choose a range that ascends")
                self._shared[samples] = {"": DimensionCells(_as_slice(found[samples].positions))}
            if along not in found:
                self._keep_whole(*along)

    def _keep_whole(self, dim: str, size: int) -> None:
        """Leave a dimension as it is, and note it: its instances are numbered by an array of their samples."""
        self._shared.pop((dim, size), None)
        for array in self.arrays:
            if (dim, size) in zip(array.dims, array.shape, strict=True):
                self._own.get(array.path, {}).pop(dim, None)
        self.notes.append(f"all of {dim} stay, for their samples name them by number; only those chosen have samples")

    def _look_up_box(self, box: BoundingBox) -> None:
        """Find the cells in a box along all dimensions."""
        for (dim, size), groups in find_box_cells(self.arrays, box, self._search).items():
            for array in self.arrays:
                if dim in self._own.get(array.path, {}) and (dim, size) in zip(array.dims, array.shape, strict=True):
                    raise Invalid(f"{dim!r} is selected twice, by a box too", node=array.path, remedy="leave one out")
            self._shared[dim, size] = {
                group: DimensionCells(_as_slice(cells.positions), cells.shifted) for group, cells in groups.items()
            }
            for cells in groups.values():
                if cells.longitude is not None and cells.shifted is None and (np.diff(cells.positions) < 0).any():
                    first, last = cells.positions[0], cells.positions[-1]
                    span = f"{dim} {first} to {size - 1}, then 0 to {last}"
                    self._note(f"the box goes across the seam of /{cells.longitude.path}: {span}")
                elif cells.longitude is not None and cells.shifted is not None:
                    self._shift(cells.longitude, cells.shifted)
                    stored = np.asarray(cells.longitude[...])[cells.positions]
                    self._note_turns("the box", cells.longitude, cells.positions, stored, cells.shifted)

    def _shift(self, coordinate: Array, shifts: Values) -> None:
        for path in (coordinate.path, *_bounds_of(coordinate)):
            self._shifts[path] = shifts

    def _note_turns(self, word: str, coordinate: Array, positions: Values, stored: Values, shifts: Values) -> None:
        """Note that a range goes across the seam, or, where its cells follow one another, that they are counted
        otherwise."""
        labels = stored + shifts
        steps = np.diff(positions)
        if (steps > 0).any() and (steps < 0).any():
            note = f"{word} goes across the seam of /{coordinate.path}: {labels[0]:g} to {labels[-1]:g}"
        else:
            span = f"{stored[0]:g} to {stored[-1]:g} of /{coordinate.path}"
            note = f"{word}: {span} are counted as {labels[0]:g} to {labels[-1]:g}"
        self._note(note)

    def _note(self, note: str) -> None:
        self.notes += [note] if note not in self.notes else []

    def _share(self, array: Array, dim: str, cells: DimensionCells) -> None:
        """Have the cells hold for others along the dimension: in the group of the array, else in a group around it; of
        a series of NWB without a name of it for its timestamps."""
        if dim not in array.dims:
            self._own.setdefault(child(split(array.path)[0], "timestamps"), {})[dim] = cells
            return
        others = self._shared.setdefault((dim, array.shape[array.dims.index(dim)]), {})
        for group in outward(split(array.path)[0]):
            others.setdefault(group, cells)

    def _find(self, array: Array, dim: str, word: str, item: Any, axis: NamedAxis | None) -> DimensionCells:
        """Return the cells of labels along a dimension; those of arrays that have the same labels are looked for
        once."""
        if dim in array.spec.indexes or dim not in array.dims:
            return self._find_labels(array, dim, word, item, axis)
        place = None if axis is None else axis.coordinate.path
        size = array.shape[array.dims.index(dim)]
        key = (id(array._session), split(array.path)[0], dim, size, word, place)
        if key not in self._found:
            self._found[key] = self._find_labels(array, dim, word, item, axis)
        return self._found[key]

    def _find_labels(self, array: Array, dim: str, word: str, item: Any, axis: NamedAxis | None) -> DimensionCells:
        """Return the cells of labels along a dimension; of a range across the seam, note it and its shifts."""
        coordinate = _coordinate_of(array, dim) if axis is None else axis.coordinate
        if coordinate is not None and coordinate.dims[:1] == (dim,) and split(coordinate.path)[1] != dim:  # auxiliary
            index: Index | None = read_index(coordinate._session, coordinate.path, coordinate.spec)
        else:
            index = array._index_of(dim if dim in array.dims else SECONDS)
        circle = circle_of(dim, {}, index) if coordinate is None else circle_of(*_named(coordinate), index)
        shifts: Values | None = None
        if circle is not None:
            around = range_around(circle, item)
            if around is not None:
                item, shifts = around
        if shifts is None:
            lookup = _Lookup(array, dim, index, self._select)
            if lookup.is_near(item):
                self._kinds.add(lookup.has_times)
            turned = item if circle is None else turn_labels(circle, item)
            try:
                return DimensionCells(lookup.positions(turned))
            except LabelError as error:
                if circle is not None and is_number(turned) and turned != item and circle.spans(turned):
                    message = f"{word} {item} is counted as {turned:g} here: {error.message}"
                    raise LabelError(message, remedy=error.remedy) from error
            return DimensionCells(lookup.positions(item))  # else it is named as it is written
        shifts = shifts if shifts.any() else None
        if circle is not None and shifts is not None:
            if coordinate is not None:
                self._shift(coordinate, shifts)
            self._note_turns(word, coordinate or array, np.asarray(item), circle.labels[item], shifts)
        return DimensionCells(_as_slice(item), shifts)

    def _unknown(self, word: str) -> Invalid:
        if word == _BOX and not self._select.typed:
            value = {**self._select.isel, **self._select.sel}[word]
            return Invalid(f"a box of {value!r}", remedy="give four numbers: west, south, east and north in degrees")
        dims: dict[str, list[str]] = {}
        for array in self.arrays[:_LISTED]:
            for name in axis_names(array.dims):
                dims.setdefault(name, [])
            with suppress(HyperslabError):
                dims |= self._search.words_of_axes(array)
        names = sorted(dims)
        texts = [f"{name} ({', '.join(sorted(dims[name], key=str.lower))})" if dims[name] else name for name in names]
        curved = next(
            (found for each in self.arrays if (found := self._search.find_curved(each, word)) is not None), None
        )
        others = nearest(word, names) or f"there are {', '.join(texts[:_LISTED]) or 'none'}"
        return Invalid(f"no dimension {word!r}", remedy=others if curved is None else _about_curved(curved))


def _about_curved(coordinate: Array) -> str:
    """Return how cells are chosen by a coordinate that runs along two dimensions."""
    dims = " and ".join(map(str, coordinate.dims))
    point = "a longitude and a latitude with --nearest (method='nearest') choose the cell at a point"
    return f"/{coordinate.path} runs along {dims}: --bbox W,S,E,N (bbox=) chooses by it, {point}"


# Arrays and dimensions that an error lists.
_LISTED = 20
_BOX = "bbox"  # of four numbers; other values are labels of a dimension of this name


def _is_typed_label(array: Array, dim: str, word: str, item: Any) -> bool:
    """Return True for whole numbers that are labels: dates such as ``20200228``, and no positions of so long a
    dimension. SelectionError for another position beyond the cells: it is mostly a label, such as a year."""
    axes = zip(axis_names(array.dims), array.dims, array.shape, strict=True)
    sizes = [size for place, name, size in axes if dim in (place, name)]
    bounds = [item.start, item.stop] if isinstance(item, slice) else [item]
    if are_dates(item) and all(bound is None or bound >= max(sizes) for bound in bounds):
        return True
    forwards = not isinstance(item, slice) or item.step is None or item.step > 0
    for size, first in product(sizes, bounds[:1] if forwards else []):
        if first is not None and not -size <= first < size and (first > 0 or not isinstance(item, slice)):
            raise SelectionError(
                f"{word} has {size} positions, {first} is none of them",
                remedy=f"whole numbers are positions; write @{first} for the label {first}",
            )
    return False


def _coordinate_of(array: Array, dim: str) -> Array | None:
    """Return the array that has the labels of a dimension, beside those that the array may have itself; None without
    any."""
    coordinate = find_coordinate(array, dim)
    return coordinate if coordinate is not None and coordinate.shape == (array.shape[array.dims.index(dim)],) else None


def _named(coordinate: Array) -> tuple[str, Attrs]:
    """Return the name and the attributes of a coordinate."""
    return split(coordinate.path)[1], coordinate.spec.attrs


def _bounds_of(coordinate: Array) -> list[str]:
    """Return the paths of the bounds of a coordinate."""
    found = companions_of([coordinate], {})
    bounds = names_in_attribute("bounds", coordinate.spec.attrs.get("bounds"), coordinate.spec.attrs)
    return [other.path for other in found if split(other.path)[1] in bounds and other.shape[:1] == coordinate.shape]


def _as_slice(positions: Values) -> slice | Values:
    """Return positions that follow one another as a slice."""
    is_run = positions.size > 0 and (np.diff(positions) == 1).all()
    return slice(int(positions[0]), int(positions[-1]) + 1) if is_run else positions


def _as_added(array: Array, shifts: Values, item: Any) -> Values:
    """Return what is added to the cells of an array, as cells of its type; Invalid where these have no such labels."""
    kind = array.dtype
    if kind.kind in "iu":
        cells = np.asarray(array.oindex[(item,)]).astype("f8")
        moved = cells + shifts.reshape((-1,) + (1,) * (cells.ndim - 1))
        room = np.iinfo(kind)
        if moved.size and (moved.min() < room.min or moved.max() > room.max):
            message = f"cells of type {kind} have no label {moved.min():g} to {moved.max():g}"
            raise Invalid(message, node=array.path, remedy="select the range in degrees that the type has")
    return shifts.astype("i8" if kind.kind in "iu" else kind)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """The labels of a dimension of an array, and how they are looked up."""

    array: Array
    dim: str
    index: Index | None
    select: Select

    def positions(self, item: Any) -> Any:
        """Return the positions of labels; whole numbers are years or words where the labels are no numbers."""
        try:
            return self._positions(item)
        except LabelError:
            words = _as_words(item)
            if words == item or not isinstance(words, str | slice):
                raise
            with suppress(LabelError):
                return self._positions(words)
            raise

    def _positions(self, item: Any) -> Any:
        near = self.is_near(item) and not (self.select.typed and has_cells(item, self.dim, self.index))
        method: Literal["nearest"] | None = "nearest" if near else None
        limits = (limit for limit in self.select.tolerance if _is_duration(limit) == self.has_times)
        tolerance = next(limits, None) if near else None  # the one that fits the labels
        why = self.array._why_unlabelled
        found = resolve_sel({self.dim: item}, (self.dim,), lambda _: self.index, method, tolerance, why)[0]
        if self.select.typed:
            refuse_empty_period(found, item, self.dim)
        return found

    def is_near(self, item: object) -> bool:
        """Return True for a label that may mean its neighbour."""
        return self.select.nearest and not isinstance(item, slice)

    @property
    def has_times(self) -> bool:
        """Return True if the labels are times."""
        index = self.index
        is_stamps = isinstance(index, Coordinate) and index.values.dtype.kind == "M"
        return is_stamps or isinstance(index, CFTime | TimeScale)


def _is_duration(limit: Distance) -> bool:
    return isinstance(limit, timedelta | np.timedelta64)


def _as_words(item: object) -> object:
    if isinstance(item, slice):
        return slice(_as_words(item.start), _as_words(item.stop), item.step)
    return str(item) if isinstance(item, int) else item


def select_labels(indexes: Mapping[str, Index], dims: Sequence[str | None], picked: ArraySelection) -> dict[str, Index]:
    """Return the labels of the selected cells, by dimension, of an array that has labels itself."""
    found = {}
    for axis in picked.kept:
        name = dims[axis]
        if name is not None and name in indexes:
            positions = picked.axes[axis]
            if isinstance(positions, Range):
                start, count, step = positions
                index = select_from_index(indexes[name], range(start, start + count * step, step))
            else:
                index = select_from_index(indexes[name], positions.positions)
            found[name] = _add_turns(index, picked.turns[axis]) if axis in picked.turns else index
    return found


def _add_turns(index: Index, turns: Values) -> Index:
    """Return labels with whole turns added; names are no longitudes."""
    match index:
        case ScaleIndex(start=start) if (turns == turns[0]).all():
            return replace(index, start=start + float(turns[0]))
        case ScaleIndex(size=size):
            return Coordinate(index_cells(index, range(size))[0] + turns)
        case FloatLabels(values=labels):
            return FloatLabels(tuple((np.asarray(labels) + turns).tolist()))
        case Coordinate(values=cells) if cells.dtype.kind in "iuf":
            return replace(index, values=add_turns(cells, turns))
    return index
