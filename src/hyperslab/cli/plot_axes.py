"""Axes of a picture: where cells stand (numbers, dates, words, positions, curved grids), their edges, ticks of dates.

Places in time are instants of :mod:`hyperslab.model.calendars` in seconds, as floats: exact to some microseconds, which
no picture shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hyperslab.array import Array, cf, times
from hyperslab.array.axis_roles import RADIANS, VERTICAL, role_of
from hyperslab.array.plain_values import cell_text
from hyperslab.conversion.labelled_part import LabelledAxis, LabelledPart
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.group import Group
from hyperslab.group.cf_variables import CellPlaces, find_auxiliary_coordinates, find_places, find_rotated_grid
from hyperslab.model.calendars import DAY, REAL, Moment, calendar_name, date_of, iso_text, parse_moment, unit_length
from hyperslab.model.cells import Values
from hyperslab.model.paths import child, split


@dataclass(frozen=True, eq=False, kw_only=True)
class Axis:
    """Cells stand ``at`` places: of a ``calendar`` seconds since 1970-01-01 (as its instants), of ``words`` 0, 1, 2 …
    Of a curved grid they are those of every cell of the image, in two dimensions.

    ``bounds`` are the stored edges of contiguous cells, one more than cells. ``vertical``: up or down in the world.
    ``down``: upright it grows downwards. ``has_labels``: False where cells stand at their positions. ``circle``:
    degrees of longitude, where 360 is 0; ``limit``: no edge lies beyond it or its negative.
    """

    dim: str
    title: str
    at: Values
    units: str = ""
    calendar: str | None = None
    words: tuple[str, ...] = ()
    bounds: Values | None = None
    vertical: bool = False
    down: bool = False
    has_labels: bool = True
    circle: bool = False
    limit: float = np.inf

    @property
    def label(self) -> str:
        """Return ``latitude (degrees_north)``; of dates the calendar unless it is the usual one."""
        units = f"{self.calendar} calendar" if self.calendar not in (None, *REAL) else self.units
        return f"{self.title} ({units})" if units else self.title

    def sorted(self) -> tuple[Axis, Values] | None:
        """Return the axis with its cells side by side and their order; None where some stand at no place or at the same
        one.

        Longitudes are cut at their widest gap: 350, 355, 0, 5 become -10, -5, 0, 5.
        """
        at = _wrap_longitudes(self.at) if self.circle else self.at
        steps = np.diff(at)
        order = np.arange(at.size) if (steps < 0).all() else np.argsort(at, kind="stable")
        if not np.isfinite(at).all() or not (np.diff(at[order]) != 0).all():
            return None
        if np.array_equal(at, self.at) and (np.diff(order) == 1).all():
            return self, order
        return replace(self, at=at[order], bounds=None), order

    def edges(self) -> Values:
        """Return the edges of the cells: as stored, else half way to the neighbours. Of a curved grid the corners of
        all cells."""
        if self.bounds is not None:
            return self.bounds
        found = self.at
        for axis in range(found.ndim):  # half way to the neighbours along each
            at = np.moveaxis(found, axis, 0)
            halves = np.diff(at, axis=0) / 2
            found = np.concatenate([at[:1] - halves[:1], at[:-1] + halves, at[-1:] + halves[-1:]])
            found = np.moveaxis(found, 0, axis)
        limit = self.limit if np.abs(self.at).max() <= self.limit else np.inf
        return np.asarray(np.clip(found, -limit, limit))

    def by_position(self, positions: Values) -> Axis:
        """Return the same dimension drawn by position."""
        return _by_position(self.dim, positions)


def axis_of(root: Group | Array, part: LabelledPart, number: int, item: object, positions: Values) -> Axis:
    """Return the axis of dimension ``number`` of the part; ``item`` is its key, ``positions`` those of its cells."""
    dim = part.dims[number]
    found = part.coordinates.get(dim)
    if found is None:
        return _by_position(dim, positions)
    title = title_of(found.array, dim) if found.head == dim else found.head
    if found.labels.dtype.kind in "TUS" or isinstance(found.labels[0], str | bytes):
        words = tuple(map(cell_text, found.labels))
        return Axis(dim=dim, title=title, at=np.arange(float(len(words))), words=words)
    try:
        scale = NumberScale.of(found.array)
        at = scale.places(found.cells)
    except HyperslabError:  # neither numbers nor words, or attributes that make no sense
        return _by_position(dim, positions)
    attrs = found.array.attrs
    units = "" if scale.calendar or found.array.units in (None, "1") else str(found.array.units)
    role = role_of(dim, attrs)
    return Axis(
        dim=dim,
        title=title,
        at=at,
        units=units,
        calendar=scale.calendar,
        bounds=_bounds(root, found, item, scale, at),
        vertical=role in VERTICAL,
        down=role == "down",
        circle=role == "longitude" and units not in RADIANS,
        limit=_limit_of(role, units),
    )


def _by_position(dim: str, positions: Values) -> Axis:
    """Return the axis of cells without labels: rows of an image or matrix, of which the first one stands at the top."""
    return Axis(dim=dim, title=f"{dim} (position)", at=positions.astype("f8"), down=True, has_labels=False)


def _wrap_longitudes(degrees: Values) -> Values:
    """Return longitudes within the shortest arc that holds them; as they are where that is no shorter."""
    around = np.sort(degrees % 360.0)
    gaps = np.diff(np.append(around, around[:1] + 360.0))
    widest = int(gaps.argmax())
    if not np.isfinite(degrees).all() or np.ptp(degrees) <= 360.0 - gaps[widest] + 1e-3:
        return degrees
    first = around[(widest + 1) % around.size]
    found = degrees % 360.0
    return np.where(found >= first, found - 360.0, found) if widest + 1 < around.size else found


def title_of(array: Array, otherwise: str) -> str:
    """Return the long or standard name of an array as people write it, else its name."""
    attrs = array.attrs
    name = next((attrs[key] for key in ("long_name", "standard_name") if isinstance(attrs.get(key), str)), "")
    return str(name).replace("_", " ").strip() or array.name or otherwise


@dataclass(frozen=True)
class NumberScale:
    """Makes places of stored cells: unpacked by CF, times ``factor`` plus ``start`` where they count time."""

    attrs: dict[str, Any]
    calendar: str | None = None
    factor: float = 1.0
    start: float = 0.0

    @classmethod
    def of(cls, coordinate: Array) -> NumberScale:
        """Return the scale of a coordinate. Unsupported for cells that are no numbers."""
        if coordinate.dtype.kind == "M":
            return cls({}, "proleptic_gregorian")
        if coordinate.dtype.kind not in "iuf":
            raise Unsupported(f"cells of type {coordinate.dtype} are no places")
        attrs = dict(coordinate.attrs)
        clock = times.clock(attrs)
        attrs.pop("units", None)
        calendar = calendar_name(clock.calendar) if clock else None
        length = unit_length(clock.unit, calendar) if clock and calendar else None
        moment = parse_moment(clock.epoch) if clock else None
        start = moment.start(calendar) if moment and calendar else None
        if calendar is None or length is None or start is None:
            return cls(attrs)
        return cls(attrs, calendar, length / 1e9, start / 1e9)

    def places(self, cells: Values) -> Values:
        """Return the places of stored cells; missing ones are NaN."""
        if cells.dtype.kind == "M":
            return np.where(np.isnat(cells), np.nan, cells.astype("M8[us]").astype("i8") / 1e6)
        unpacked = cf.apply(cf.decoding(cells.dtype, self.attrs), cells)
        return np.asarray(unpacked, "f8") * self.factor + self.start


def _bounds(root: Group | Array, found: LabelledAxis, item: object, scale: NumberScale, at: Values) -> Values | None:
    """Return the edges that the array named by the attribute ``bounds`` holds, if they leave no gap (CF 1.11, 7.1)."""
    name = found.array.attrs.get("bounds")
    if not isinstance(name, str) or isinstance(root, Array):
        return None
    try:
        array = root.get(child(split(found.array.path)[0], name))
        if not isinstance(array, Array) or array.shape != (*found.array.shape, 2) or array.dtype.kind not in "iuf":
            return None
        pairs = scale.places(np.asarray(array.oindex[(item, slice(None))]))
    except HyperslabError:
        return None
    pairs = np.sort(pairs, axis=1)[:, :: -1 if (np.diff(at) < 0).all() else 1]
    edges = np.append(pairs[:, 0], pairs[-1:, 1])
    steps = np.diff(edges)
    side_by_side = bool(np.array_equal(pairs[1:, 0], pairs[:-1, 1]) and ((steps > 0).all() or (steps < 0).all()))
    around = bool(((pairs.min(axis=1) <= at) & (at <= pairs.max(axis=1))).all())
    return edges if side_by_side and around else None


def _limit_of(role: str | None, units: str) -> float:
    """Return the number beyond which no edge of a cell lies."""
    return 90.0 if role == "latitude" and units not in RADIANS else np.inf


def curved_axes(root: Group | Array, array: Array, kept: dict[str, object]) -> tuple[Axis, Axis] | None:
    """Return the axes of rows and columns, ``at`` places of every cell. ``kept``: the two dimensions with their keys.

    None where there are no such coordinates, or some cells have no place.
    """
    places = None if isinstance(root, Array) else find_places(array, beside=True, plane=True)
    if places is not None and set(places.dims) == set(kept) and not places.feature:
        return _grid_axes(places, kept)
    grid = find_rotated_grid(array)
    if grid is None or set(grid.dims) != set(kept):
        return None
    labels = [
        _read_places(coordinate, {dim: kept[dim] for dim in coordinate.dims if dim})
        for coordinate in (grid.longitude, grid.latitude)
    ]
    if any(found is None for found in labels):
        return None
    longitude, latitude = grid.to_earth(*(found.at for found in labels if found is not None))
    rows = Axis(dim=grid.dims[0], title="latitude", at=latitude, units="degrees_north", limit=90.0)
    columns = Axis(dim=grid.dims[1], title="longitude", at=longitude, units="degrees_east", circle=True)
    return rows, _unwrapped(columns)


def is_turned(part: LabelledPart, dims: Iterable[str]) -> bool:
    """Return True if the labels of dimensions are those of a grid around another pole, which no map knows."""
    names = [part.coordinates[dim].array.attrs.get("standard_name") for dim in dims if dim in part.coordinates]
    return set(names) == {"grid_latitude", "grid_longitude"}


def _grid_axes(places: CellPlaces, kept: dict[str, object]) -> tuple[Axis, Axis] | None:
    """Return the axes of a curved grid; None where a cell has no place."""
    axes = []
    for dim, coordinate in zip(kept, (places.latitude, places.longitude), strict=True):
        found = _read_places(coordinate, kept)
        if found is None or not np.isfinite(found.at).all():
            return None
        at = found.at if coordinate.dims == tuple(kept) else found.at.T
        axes.append(_unwrapped(replace(found, dim=dim, at=at)))
    return axes[0], axes[1]


def point_axes(array: Array, kept: dict[str, object]) -> tuple[Axis, Axis] | None:
    """Return the latitudes and longitudes, in the shape of the part, of cells that form no grid: samples of
    trajectories, stations, faces of a mesh. ``kept``: all dimensions, with an int where one position was chosen.

    None where the cells of the part are no such points, or they share one place.
    """
    places = find_places(array)
    left = {dim for dim, item in kept.items() if not isinstance(item, int)}
    if places is None or not left <= set(places.dims) or not (places.feature or len(places.dims) == 1):
        return None
    axes = []
    for coordinate in (places.latitude, places.longitude):
        found = _read_places(coordinate, kept)
        if found is None or not np.isfinite(found.at).any():
            return None
        dims = [dim for dim in coordinate.dims if dim in left]
        turned = len(dims) > 1 and dims != [dim for dim in kept if dim in left]
        axes.append(replace(found, at=found.at.T if turned else found.at))
    latitude, longitude = axes
    if longitude.circle:
        at = longitude.at.copy()
        is_somewhere = np.isfinite(at)
        at[is_somewhere] = _wrap_longitudes(at[is_somewhere] % 360.0)
        longitude = replace(longitude, at=at - 360.0 * np.round(np.nanmedian(at) / 360.0))
    return latitude, longitude


def auxiliary_axis(array: Array, kept: dict[str, object], dim: str) -> Axis | None:
    """Return the axis of the only dimension that is left, by a coordinate of another name along it: the depth or height
    of a profile, else its times. ``kept``: all dimensions with their keys. None without any."""
    others = []
    for coordinate in find_auxiliary_coordinates(array):
        role = role_of(coordinate.name, coordinate.attrs)
        is_along = dim in coordinate.dims and set(coordinate.dims) <= set(kept)
        if is_along and role in (*VERTICAL, "time"):
            found = _read_places(coordinate, kept)
            if found is not None and np.isfinite(found.at).any():
                others.append(replace(found, dim=dim))
    return max(others, key=lambda axis: axis.vertical, default=None)


def _read_places(coordinate: Array, kept: dict[str, object]) -> Axis | None:
    """Return places of a coordinate at the keys of its dimensions, as an axis; None where its cells are no numbers."""
    role, units = role_of(coordinate.name, coordinate.attrs), str(coordinate.units or "")
    try:
        scale = NumberScale.of(coordinate)
        at = scale.places(np.asarray(coordinate.oindex[tuple(kept[str(dim)] for dim in coordinate.dims)]))
    except (HyperslabError, KeyError):
        return None
    return Axis(
        dim=str(coordinate.dims[0]) if coordinate.dims else "",
        title=title_of(coordinate, coordinate.name),
        at=at,
        units="" if scale.calendar or units == "1" else units,
        calendar=scale.calendar,
        vertical=role in VERTICAL,
        down=role == "down",
        circle=role == "longitude" and units not in RADIANS,
        limit=_limit_of(role, units),
    )


def _unwrapped(axis: Axis) -> Axis:
    """Return longitudes of a grid that go on beyond 180 or 360 where the neighbours do, the middle one within 180 of
    zero."""
    if not axis.circle:
        return axis
    at = np.unwrap(axis.at, period=360.0, axis=1)
    at += (np.unwrap(at[:, 0], period=360.0) - at[:, 0])[:, None]
    return replace(axis, at=np.asarray(at - 360.0 * np.round(np.median(at) / 360.0)))


def mask_torn_cells(cells: Any, columns: Axis) -> object:
    """Return the cells without those that reach over half of the globe, as they do beside a pole: masked."""
    edges = columns.edges()
    corners = np.stack([edges[:-1, :-1], edges[1:, :-1], edges[:-1, 1:], edges[1:, 1:]])
    torn = np.ptp(corners, axis=0) > 180.0
    return np.ma.masked_where(torn, cells) if columns.circle else cells


# Nanoseconds, which instants of calendars count.
SECOND = 10**9
# Ticks of an axis: more dates would run into one another.
MOST_TICKS = 7

_YEARS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_MONTHS = (1, 2, 3, 6)
_DAYS = (1, 2, 5, 10)
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200)

Tick = tuple[float, str]


def date_ticks(first: float, last: float, calendar: str) -> list[Tick]:
    """Return place and text of the few ticks from ``first`` to ``last``; none where these are less than 2 s apart."""
    low, high = round(min(first, last) * SECOND), round(max(first, last) * SECOND)
    for kind in (_clock_ticks, _day_ticks, _month_ticks, _year_ticks):
        found = kind(low, high, calendar)
        if found:
            return [(instant / SECOND, text) for instant, text in found]
    return []


def date_text(place: float, calendar: str) -> str:
    """Return one place as ISO 8601 text, to the second."""
    return iso_text(round(place) * SECOND, calendar)


def _clock_ticks(low: int, high: int, calendar: str) -> list[tuple[int, str]]:
    """Return times of day; the date stands below the first one of each day."""
    for step in (seconds * SECOND for seconds in _SECONDS):
        if (high - low) // step < MOST_TICKS:
            instants = range(-(-low // step) * step, high + 1, step)
            found: list[tuple[int, str]] = []
            for before, instant in zip((None, *instants), instants, strict=False):
                date, _, clock = iso_text(instant, calendar).partition("T")
                text = (clock or "00:00:00")[: 8 if step < 60 * SECOND else 5]
                new_day = before is None or before // DAY != instant // DAY
                found.append((instant, f"{text}\n{date}" if new_day else text))
            return found if len(found) > 1 else []
    return []


def _day_ticks(low: int, high: int, calendar: str) -> list[tuple[int, str]]:
    """Return midnights of days 1, 1 + step … of each month (of steps over 1 those not close to the next month)."""
    for step in _DAYS:
        if (high - low) // (step * DAY) >= 2 * MOST_TICKS:
            continue
        found = []
        for number in range(low // DAY, high // DAY + 1):
            day = date_of(number, calendar)[2]
            is_tick = (day - 1) % step == 0 and (step == 1 or day + step // 2 <= 29)
            if is_tick and low <= number * DAY <= high:
                found.append(number * DAY)
        if 1 < len(found) <= MOST_TICKS:
            return [(instant, iso_text(instant, calendar)) for instant in found]
    return []


def _month_ticks(low: int, high: int, calendar: str) -> list[tuple[int, str]]:
    first, last = date_of(low // DAY, calendar)[0], date_of(high // DAY, calendar)[0]
    if last - first > MOST_TICKS:
        return []
    for step in _MONTHS:
        months = [(year, number) for year in range(first, last + 1) for number in range(1, 13, step)]
        found = _inside(low, high, [(Moment(year, number), calendar) for year, number in months])
        if 1 < len(found) <= MOST_TICKS:
            return [(instant, iso_text(instant, calendar)[:-3]) for instant in found]
    return []


def _year_ticks(low: int, high: int, calendar: str) -> list[tuple[int, str]]:
    first, last = date_of(low // DAY, calendar)[0], date_of(high // DAY, calendar)[0]
    steps = (unit * thousand for thousand in (1000**power for power in range(8)) for unit in _YEARS)
    step = next((step for step in steps if (last - first) // step < MOST_TICKS), None)
    if step is None:
        return []
    years = range(-(-first // step) * step, last + 1, step)
    found = _inside(low, high, [(Moment(year), calendar) for year in years])
    return [(instant, iso_text(instant, calendar)[:-6]) for instant in found]


def _inside(low: int, high: int, moments: list[tuple[Moment, str]]) -> list[int]:
    starts = [moment.start(calendar) for moment, calendar in moments]
    return [start for start in starts if start is not None and low <= start <= high]
