"""Boxes of longitude and latitude: the cells of arrays whose places lie in one, on grids of one or two dimensions and
of discrete samples (CF 1.11, 5 and 9); and the cell nearest to a point on grids of two dimensions;
labels of longitudes by whole turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, TypeGuard

import numpy as np

from hyperslab.array import Array, cf
from hyperslab.array.attributes import with_missing
from hyperslab.array.axis_roles import RADIANS, role_of
from hyperslab.errors import Invalid, SelectionError, Unsupported
from hyperslab.group.cf_variables import AxisSearch, RotatedGrid, companions_of
from hyperslab.model.cells import Values
from hyperslab.model.dims import Coordinate, Index, ScaleIndex, index_cells
from hyperslab.model.paths import split
from hyperslab.selection.circle import Circle

# Degrees by which a place may lie outside: floats of 32 bits are about 1e-5 off at 180.
_SLACK = 1e-5
# Cells of a curved grid that are read at a time, beside their mask.
_CELLS_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class BoundingBox:
    """Degrees from ``west`` eastwards to ``east``, which may be less across the date line, and ``south`` to ``north``;
    the edges belong to it."""

    west: float
    south: float
    east: float
    north: float

    @classmethod
    def of(cls, degrees: Sequence[float]) -> BoundingBox:
        """Return the box of four numbers, in the order of the fields. Invalid for what is none."""
        numbers = [float(each) for each in degrees]
        if len(numbers) != 4 or not np.isfinite(numbers).all():
            raise Invalid(f"a box of {numbers}", remedy="give west, south, east and north in degrees")
        if not -90 - _SLACK <= numbers[1] <= numbers[3] <= 90 + _SLACK:
            message = f"a box from latitude {numbers[1]:g} to {numbers[3]:g}"
            raise Invalid(message, remedy="give south before north, in degrees from -90 to 90")
        return cls(*numbers)

    def __str__(self) -> str:
        return f"{self.west:g},{self.south:g},{self.east:g},{self.north:g}"

    @property
    def width(self) -> float:
        """Return the degrees from west to east, 360 at the most."""
        turn = 360.0 if self.east < self.west else 0.0
        return min(self.east + turn * ceil((self.west - self.east) / 360.0) - self.west, 360.0)

    def holds_longitude(self, degrees: Values) -> Values:
        """Return where longitudes lie in it, by whole turns; missing ones (NaN) nowhere."""
        away = (degrees - self.west) % 360.0
        return np.asarray((away <= self.width + _SLACK) | (away >= 360.0 - _SLACK))

    def holds_latitude(self, degrees: Values) -> Values:
        """Return where latitudes lie in it; missing ones (NaN) nowhere."""
        return np.asarray((degrees >= self.south - _SLACK) & (degrees <= self.north + _SLACK))


@dataclass(frozen=True, slots=True, eq=False)
class BoxCells:
    """The cells along a dimension that lie in a box: positions (int64), and whole turns that are added to the
    ``longitude`` of one dimension; of two where they go across its seam."""

    positions: Values
    shifted: Values | None = None
    longitude: Array | None = None


def as_degrees(coordinate: Array, cells: Values) -> Values:
    """Return stored longitudes or latitudes in degrees; missing ones are NaN."""
    attrs = dict(with_missing(coordinate._session, coordinate.spec))
    units = attrs.pop("units", None)
    degrees = np.asarray(cf.decode(cells, attrs), "f8")
    return np.asarray(np.degrees(degrees) if units in RADIANS else degrees)


def find_box_cells(
    arrays: Sequence[Array], box: BoundingBox, search: AxisSearch
) -> dict[tuple[str, int], dict[str, BoxCells]]:
    """Return the cells in a box along the dimensions of arrays of one dataset, by name and length of the dimension, for
    those in and below a group: "" for all of the dataset, others where groups have grids of their own.

    Of a grid of two dimensions, also one around another pole, the smallest rectangle that holds all, across the seam
    where the grid goes around; of grids along the same dimensions one that holds those of all. Invalid without any
    longitudes and latitudes, SelectionError where nothing lies in the box.
    """
    straight: dict[tuple[str, int], dict[str, BoxCells]] = {}
    rectangles: dict[tuple[str, str], dict[tuple[str, int], BoxCells]] = {}
    found: dict[tuple[str, int], BoxCells] = {}
    grids: dict[tuple[tuple[str, int], ...], list[Values]] = {}
    around: dict[tuple[str, int], Array | None] = {}
    seen: set[tuple[str, str]] = set()
    extents: list[tuple[Values, Values]] = []
    for array in arrays:
        with array._session.add_place_to_errors(array.path):
            pair = _find_pair(array, search)
            rotated = search.find_rotated_grid(array) if pair is None else None
            longitude, latitude = pair or (None, None) if rotated is None else (rotated.longitude, rotated.latitude)
            if longitude is None or latitude is None:
                continue
            paths = longitude.path, latitude.path
            if rotated is None and longitude.dims != latitude.dims and longitude.ndim == latitude.ndim == 1:
                if paths not in rectangles:
                    rectangles[paths] = _rectangle(longitude, latitude, box, extents)
                for (axis, cells), path in zip(rectangles[paths].items(), paths, strict=True):
                    for group in (split(array.path)[0], split(path)[0]):
                        straight.setdefault(axis, {}).setdefault(group, cells)
                continue
            if paths in seen:
                continue
            seen.add(paths)
            names, masks, whole = _find_on_grid(longitude, latitude, rotated, box, extents)
            before = grids.setdefault(tuple(names), [np.zeros(mask.size, bool) for mask in masks])
            grids[tuple(names)] = [old | new for old, new in zip(before, masks, strict=True)]
            for name, is_whole in zip(names, whole, strict=True):
                around[name] = longitude if is_whole and around.get(name, longitude) is not None else None
    if not seen and not rectangles:
        raise Invalid("no array has longitudes and latitudes", remedy="select by dimensions, with -s")
    for along, inside in grids.items():
        if len(along) == 1:
            found[along[0]] = BoxCells(np.flatnonzero(inside[0]))
            add_samples(found, arrays, along[0], inside[0])
        else:
            found |= {name: _arc(mask, around[name]) for name, mask in zip(along, inside, strict=True)}
    result = straight | {axis: {"": cells} for axis, cells in found.items()}
    if any(not cells.positions.size for groups in result.values() for cells in groups.values()) or not result:
        raise _empty(box, extents)
    return result


def _find_pair(array: Array, search: AxisSearch) -> tuple[Array, Array] | None:
    """Return longitude and latitude of the cells of an array: those of its dimensions, of both together, or of the
    instances that its samples are of."""
    axes = [search.find_axis(array, word) for word in ("longitude", "latitude")]
    places = search.find_places(array)
    if places is not None:
        return places.longitude, places.latitude
    if axes[0] is not None and axes[1] is not None and axes[0].dim != axes[1].dim:
        return axes[0].coordinate, axes[1].coordinate
    named = {role_of(split(each.path)[1], each.spec.attrs): each for each in search.find_auxiliary_coordinates(array)}
    longitude, latitude = named.get("longitude"), named.get("latitude")
    if longitude is None or latitude is None or longitude.ndim != 1 or longitude.dims != latitude.dims:
        return None
    return longitude, latitude


def _rectangle(
    longitude: Array, latitude: Array, box: BoundingBox, extents: list[tuple[Values, Values]]
) -> dict[tuple[str, int], BoxCells]:
    """Return the cells of coordinates of one dimension each; longitudes in the order of the axis, from west on where it
    rises."""
    east, north = (as_degrees(each, np.asarray(each[...])) for each in (longitude, latitude))
    extents.append((east, north))
    is_packed = bool({"scale_factor", "add_offset"} & set(longitude.spec.attrs)) or longitude.units in RADIANS
    circle = Circle.of(east)
    first, last = box.west, box.west + box.width
    shifted: Values | None = None
    if circle is not None and circle.is_whole:
        positions, shifted = circle.between(*((first, last) if circle.direction > 0 else (last, first)))
    else:
        positions = np.flatnonzero(box.holds_longitude(east))
        away = (east[positions] - box.west + _SLACK) % 360.0
        course = np.diff(east[np.isfinite(east)])
        if course.size and ((course > 0).all() or (course < 0).all()):
            order = np.argsort(away * np.sign(course[0]), kind="stable")
            positions, away = positions[order], away[order]
            shifted = 360.0 * np.round((box.west + away - east[positions]) / 360.0)
    if shifted is not None and (is_packed or not shifted.any()):
        shifted = None
    rows = np.flatnonzero(box.holds_latitude(north))
    return {
        (str(longitude.dims[0]), east.size): BoxCells(positions, shifted, longitude),
        (str(latitude.dims[0]), north.size): BoxCells(rows),
    }


_PlaceReader = Callable[[slice], tuple[Values, Values]]
"""Reads longitude and latitude, in degrees, of some rows of cells."""


def _reader_of(longitude: Array, latitude: Array) -> _PlaceReader:
    """Return what reads two coordinates along the same dimensions."""
    turned = latitude.dims != longitude.dims

    def read(rows: slice) -> tuple[Values, Values]:
        cells = latitude[:, rows].T if turned else latitude[rows]
        return as_degrees(longitude, np.asarray(longitude[rows])), as_degrees(latitude, np.asarray(cells))

    return read


def _reader_of_rotated(grid: RotatedGrid) -> _PlaceReader:
    """Return what computes the places of a grid around another pole."""
    east, north = (as_degrees(each, np.asarray(each[...])) for each in (grid.longitude, grid.latitude))
    if grid.dims[0] == grid.longitude.dims[0]:
        return lambda rows: grid.to_earth(east[rows], north)
    return lambda rows: grid.to_earth(east, north[rows])


def _find_on_grid(
    longitude: Array,
    latitude: Array,
    rotated: RotatedGrid | None,
    box: BoundingBox,
    extents: list[tuple[Values, Values]],
) -> tuple[list[tuple[str, int]], list[Values], list[bool]]:
    """Return names and lengths of the dimensions of coordinates that lie along the same ones, or of a grid around
    another pole; where along each some cell lies in the box; and which of them go around the earth."""
    if rotated is not None:
        sizes = {str(longitude.dims[0]): longitude.size, str(latitude.dims[0]): latitude.size}
        names = [(dim, sizes[dim]) for dim in rotated.dims]
        masks = _masks_in(tuple(size for _, size in names), _reader_of_rotated(rotated), box, extents)
        return names, masks, [False, False]
    names = [(str(dim), size) for dim, size in zip(longitude.dims, longitude.shape, strict=True)]
    masks = _masks_in(longitude.shape, _reader_of(longitude, latitude), box, extents)
    return names, masks, [longitude.ndim == 2 and _goes_around(longitude, axis) for axis in range(longitude.ndim)]


def _masks_in(
    shape: tuple[int, ...], read: _PlaceReader, box: BoundingBox, extents: list[tuple[Values, Values]]
) -> list[Values]:
    """Return where along each dimension of cells some cell lies in the box."""
    masks = [np.zeros(size, bool) for size in shape]
    for rows in _row_strips(shape):
        east, north = read(rows)
        extents.append((_limits(east), _limits(north)))
        inside = box.holds_longitude(east) & box.holds_latitude(north)
        if inside.ndim == 1:
            masks[0][rows] |= inside
        else:
            masks[0][rows] |= inside.any(axis=1)
            masks[1] |= inside.any(axis=0)
    return masks


def _row_strips(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield slices of rows that hold no more cells than are read at a time."""
    rows = max(_CELLS_AT_ONCE // max(int(np.prod(shape[1:])), 1), 1)
    yield from (slice(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows))


def _limits(degrees: Values) -> Values:
    known = degrees[np.isfinite(degrees)]
    return np.array([known.min(), known.max()]) if known.size else known


def _goes_around(longitude: Array, axis: int) -> bool:
    """Return True if the cells behind the last ones along an axis of a curved grid are the first ones: the way back is
    as short as a few steps, and all of them together go once around."""
    other = longitude.shape[1 - axis] // 2
    line = np.asarray(longitude[:, other] if axis == 0 else longitude[other])
    circle = Circle.of(as_degrees(longitude, line))
    return circle is not None and circle.is_whole


def _arc(mask: Values, around: Array | None) -> BoxCells:
    """Return the cells from the first to the last that is meant; of longitudes that go ``around`` the shortest way, and
    as they lie where that is as short."""
    inside = np.flatnonzero(mask)
    if inside.size == 0:
        return BoxCells(inside)
    gaps = np.diff(np.append(inside, inside[0] + mask.size))
    widest = int(gaps.argmax())
    if around is not None and gaps[widest] > gaps[-1]:
        count = mask.size - gaps[widest] + 1
        return BoxCells(np.asarray((inside[widest + 1] + np.arange(count)) % mask.size), None, around)
    return BoxCells(np.arange(inside[0], inside[-1] + 1))


@dataclass(frozen=True, slots=True)
class NearestCell:
    """The cell of a grid of two dimensions that is nearest to a point: its positions by name and length of the
    dimension, its place, and how far it is away, all in degrees."""

    positions: dict[tuple[str, int], int]
    longitude: float
    latitude: float
    distance: float

    def __str__(self) -> str:
        cell = " ".join(f"{dim}={position}" for (dim, _), position in self.positions.items())
        return f"{cell} at {self.longitude:g},{self.latitude:g}, {self.distance:g} degrees away"


def find_nearest_cell(longitude: Array, latitude: Array, east: float, north: float) -> NearestCell | None:
    """Return the cell whose place is the nearest on the sphere to a point in degrees, the first of several; None where
    all places are missing."""
    read = _reader_of(longitude, latitude)
    best: NearestCell | None = None
    for rows in _row_strips(longitude.shape):
        lon, lat = read(rows)
        if not lon.size:
            break
        # of the half angles' sines (haversine): exact for short distances, too
        steep = np.sin(np.radians(lat - north) / 2) ** 2
        flat = np.sin(np.radians(lon - east) / 2) ** 2 * np.cos(np.radians(lat)) * np.cos(np.radians(north))
        half = np.where(np.isfinite(steep + flat), steep + flat, np.inf)
        row, column = np.unravel_index(int(half.argmin()), half.shape)
        if not np.isfinite(half[row, column]):
            continue
        distance = float(np.degrees(2 * np.arcsin(np.sqrt(min(half[row, column], 1.0)))))
        if best is None or distance < best.distance:
            axes = zip(map(str, longitude.dims), longitude.shape, strict=True)
            positions = dict(zip(axes, (rows.start + int(row), int(column)), strict=True))
            best = NearestCell(positions, float(lon[row, column]), float(lat[row, column]), distance)
    return best


def find_instances(arrays: Sequence[Array], search: AxisSearch | None = None) -> list[Array]:
    """Return what counts or numbers the samples that arrays hold, and the variables of the instances, such as stations,
    which lie along none of their own dimensions; none of what is no discrete sample (CF 1.11, 9.3). With a ``search``
    only where places are those of instances."""
    dims = {dim for array in arrays for dim in array.dims}
    if search is not None:
        pairs = [_find_pair(array, search) for array in arrays]
        if all(pair is None or set(pair[0].dims) <= dims for pair in pairs):
            return []
    others = [array for array in companions_of(arrays, {}) if array.dims]
    is_counted = any({"sample_dimension", "instance_dimension"} & set(array.spec.attrs) for array in others)
    return others if is_counted and not all(set(array.dims) <= dims for array in others) else []


def add_samples(
    found: dict[tuple[str, int], BoxCells], arrays: Sequence[Array], instances: tuple[str, int], mask: Values
) -> None:
    """Add the samples of the chosen instances (CF 1.11, 9.3). Instances that an array numbers stay all, so that its
    numbers stay right; Unsupported where samples are chosen one by one that an array counts."""
    for array in arrays:
        attrs, dims = array.spec.attrs, array.dims
        counted, numbered = attrs.get("sample_dimension"), attrs.get("instance_dimension")
        if counted == instances[0] and dims:
            message = f"the samples along {counted!r} are counted by /{array.path}"
            raise Unsupported(message, remedy="choose whole instances, by -s, or the samples alone: --path … --alone")
        if dims != (instances[0],) and numbered != instances[0]:
            continue
        if isinstance(counted, str) and array.shape == (instances[1],):
            samples = np.repeat(mask, np.maximum(np.asarray(array[...]).astype("i8"), 0))
            found[counted, samples.size] = BoxCells(np.flatnonzero(samples))
        elif numbered == instances[0] and array.ndim == 1:
            numbers = np.asarray(array[...]).astype("i8")
            within = (numbers >= 0) & (numbers < mask.size)
            samples = np.where(within, mask[np.clip(numbers, 0, mask.size - 1)], False)
            chosen = (str(dims[0]), samples.size)
            found[chosen] = BoxCells(np.flatnonzero(samples))
            found.pop(instances, None)
            add_samples(found, arrays, chosen, samples)  # profiles of stations count samples themselves


def _empty(box: BoundingBox, extents: Sequence[tuple[Values, Values]]) -> SelectionError:
    texts = []
    for name, number in (("longitudes", 0), ("latitudes", 1)):
        known = np.concatenate([_limits(pair[number]) for pair in extents] or [np.zeros(0)])
        texts.append(f"{name} from {known.min():g} to {known.max():g}" if known.size else f"no {name}")
    return SelectionError(f"no cell lies in the box {box}", remedy=f"there are {' and '.join(texts)}")


# -- labels of longitudes, by whole turns as far as the labels that are stored do not tell -----------------------------


def circle_of(name: str, attrs: Mapping[str, Any], index: Index | None) -> Circle | None:
    """Return the circle of the labels of a longitude, by its name and attributes (CF 1.11, 4.2); None of others, and of
    packed ones, whose labels are those that are stored."""
    is_of_poles = attrs.get("standard_name") == "grid_longitude"  # around rotated poles
    if {"scale_factor", "add_offset"} & set(attrs) or not (is_of_poles or role_of(name, attrs) == "longitude"):
        return None
    if not isinstance(index, Coordinate | ScaleIndex):
        return None
    labels = index.values if isinstance(index, Coordinate) else index_cells(index, range(index.size))[0]
    if labels.dtype.kind not in "iuf":
        return None
    return Circle.of(labels.astype("f8"), 2 * np.pi if attrs.get("units") in RADIANS else 360.0)


def is_number(label: object) -> TypeGuard[float]:
    """Return True for a number that is no truth value."""
    return isinstance(label, int | float | np.integer | np.floating) and not isinstance(label, bool)


def range_around(circle: Circle, item: object) -> tuple[Values, Values] | None:
    """Return positions and shifts of a range that the labels as they are stored do not tell; None of anything else."""
    if not isinstance(item, slice) or not is_number(item.start) or not is_number(item.stop):
        return None
    step = 1 if item.step is None else item.step
    start, stop = (item.start, item.stop) if step > 0 else (item.stop, item.start)
    if not circle.needs_turns(float(start), float(stop)):
        return None
    positions, shifts = circle.between(float(start), float(stop))
    if not positions.size and not circle.is_whole:
        return None  # a region without such longitudes: an empty range, as of any axis
    return positions[::step], shifts[::step]


def turn_labels(circle: Circle, item: object) -> object:
    """Return labels by whole turns as near to a cell as they can be; of a range of a region without an end, its bound
    within the region where turns bring it there."""
    if is_number(item):
        return circle.turned(float(item))
    if isinstance(item, slice) and not circle.is_whole:
        bounds = [bound for bound in (item.start, item.stop) if bound is not None]
        if len(bounds) == 1 and is_number(bounds[0]):
            turned = circle.turned(float(bounds[0]))
            if circle.spans(turned):
                return slice(turned, None, item.step) if item.stop is None else slice(None, turned, item.step)
    if isinstance(item, list | tuple | np.ndarray) and np.asarray(item).dtype.kind in "iuf":
        return [circle.turned(float(label)) for label in np.asarray(item).reshape(-1)]
    return item
