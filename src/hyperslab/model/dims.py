"""Dimensions, and the indexes that give their positions labels. Values only: ``selection.labels`` does the look-up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np

from hyperslab.model.calendars import calendar_name, parse_moment, unit_length
from hyperslab.model.cells import Values

T = TypeVar("T")
# Arrays of one size that a message names.
_SHOWN = 6
_UNITS = re.compile(r"\s*(\S.*?)\s+since\s+(\S.*?)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A named length; ``unlimited`` ones grow by ``append``."""

    name: str
    size: int
    unlimited: bool = False


MADE_UP = "phony_dim_"
"""How names begin that the netCDF library makes up for axes of HDF5 without one; behind it stands a number."""


def is_made_up(name: str) -> bool:
    """Return True for a name of a dimension that the netCDF library made up."""
    return name.startswith(MADE_UP)


def axis_names(dims: Iterable[str | None]) -> list[str]:
    """Return a name of its own for each dimension: those without one, or whose name another one has too, go by their
    place, such as ``dim_0`` (``dim_0_`` where another one is called so)."""
    known, names = list(dims), []
    for axis, dim in enumerate(known):
        name = dim if dim and known.count(dim) == 1 else f"dim_{axis}"
        while name != dim and name in known:
            name += "_"
        names.append(name)
    return names


def find_axis(dims: Iterable[str | None], word: str) -> int | None:
    """Return the axis of the dimension of this name, else of the one that goes by it as its place, such as ``dim_0``
    (:func:`axis_names`); None where there is none."""
    known = list(dims)
    return next((names.index(word) for names in (known, axis_names(known)) if word in names), None)


def values_of_axes(values: Mapping[str, T], dims: Sequence[str | None], default: T | None = None) -> list[T | None]:
    """Return the value of each dimension: by its place (:func:`axis_names`), else by its name, else ``default``."""
    places = zip(axis_names(dims), dims, strict=True)
    return [values.get(place, default if dim is None else values.get(dim, default)) for place, dim in places]


def sizes_by_dimension(
    arrays: Iterable[tuple[str, Sequence[str | None], Sequence[int]]],
) -> dict[str, dict[int, list[str]]]:
    """Return the arrays (name, dimensions, shape) by dimension and its size, sizes in order: a dimension has several
    among the levels of an image pyramid."""
    sizes: dict[str, dict[int, list[str]]] = {}
    for name, dims, shape in arrays:
        for dim, size in dict.fromkeys(zip(dims, shape, strict=True)):
            if dim is not None:
                sizes.setdefault(dim, {}).setdefault(size, []).append(name)
    return {dim: dict(sorted(by_size.items())) for dim, by_size in sizes.items()}


def show_sizes(by_size: Mapping[int, Sequence[str]]) -> str:
    """Return the sizes of a dimension with the first arrays that have them, in words."""
    texts = []
    for size, names in by_size.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        texts.append(f"{size} in {', '.join(names[:_SHOWN])}{more}")
    return "; ".join(texts)


@dataclass(frozen=True, slots=True)
class ScaleIndex:
    """Labels computed as ``start + i * step`` for ``size`` positions; nothing is stored.

    ``rate``: positions in one unit, where that number is exact and ``step`` rounds its reciprocal, as of samples in a
    second; labels are ``start + i / rate`` then.
    """

    start: float
    step: float
    size: int
    rate: float | None = None

    def labels(self, positions: Sequence[int] | Values) -> Values:
        """Return the labels of some positions, as f8."""
        if self.rate is not None:
            return self.start + np.asarray(positions, "f8") / self.rate
        return np.array([scale_value(self.start, self.step, int(place)) for place in positions], "f8")

    def take(self, positions: range) -> ScaleIndex:
        """Return the scale of positions that are equally far apart."""
        if positions.start == 0 and positions.step == 1:
            return replace(self, size=len(positions))
        stride = positions.step
        rate = None if self.rate is None else self.rate / stride
        step = self.step * stride if rate is not None else scale_value(0.0, self.step, stride)
        return ScaleIndex(float(self.labels([positions.start])[0]), step, len(positions), rate)


def scale_value(start: float, step: float, position: int) -> float:
    """Return ``start + position * step``, rounded to the decimals that the two are written with."""
    return round(start + position * step, max(_decimals(start), _decimals(step)))


@lru_cache(256)
def _decimals(number: float) -> int:
    exponent = Decimal(repr(number)).as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0


@dataclass(frozen=True, slots=True)
class Labels:
    """One word (or whole number used as a name) per position."""

    names: tuple[str, ...]
    positions: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places: dict[str, int] = {}
        for position, name in enumerate(self.names):
            places.setdefault(name, position)
        object.__setattr__(self, "positions", places)


@dataclass(frozen=True, slots=True)
class FloatLabels:
    """One float per position, used as a name: nothing lies between two of them. No two are equal."""

    values: tuple[float, ...]

    @property
    def size(self) -> int:
        """How many positions there are."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class TimeScale:
    """UTC times ``start + i * step`` for ``size`` positions, as datetime64 and timedelta64."""

    start: np.datetime64
    step: np.timedelta64
    size: int


@dataclass(frozen=True, eq=False)
class CFTime:
    """Numbers counted in ``unit`` since ``epoch`` of a CF ``calendar``: ``values[i] unit since epoch``.

    Labels are ISO strings, datetimes or cftime objects of that calendar; the cells stay as stored (CF 1.11, 4.4).
    """

    values: Values
    unit: str
    epoch: str
    calendar: str

    @cached_property
    def trend(self) -> int:
        """1 when the values never fall, -1 when they never rise, else 0."""
        return _trend(self.values)


def split_units(units: str) -> tuple[str, str] | None:
    """Return unit and epoch of units of time, ``<unit> since <epoch>``; None for what is no such text."""
    match = _UNITS.fullmatch(units)
    return None if match is None else (match[1], match[2])


def cf_time(values: Values, units: str, calendar: str | None) -> CFTime | None:
    """Return the index of numbers with units ``<unit> since <epoch>`` (CF 1.11, section 4.4); None when they are no
    times."""
    match = _UNITS.fullmatch(units)  # not by split_units: this is on the way to one cell
    name = calendar_name(calendar)
    if match is None or name is None or values.ndim != 1 or values.dtype.kind not in "iuf":
        return None
    epoch = parse_moment(match[2])
    if epoch is None or epoch.start(name) is None or unit_length(match[1], name) is None:
        return None
    return CFTime(values, match[1], match[2], name)


@dataclass(frozen=True, eq=False)
class Coordinate:
    """A plain 1-D coordinate array (numbers, datetime64 or text); need not be sorted or regular."""

    values: Values

    @cached_property
    def trend(self) -> int:
        """1 when the values never fall, -1 when they never rise, else 0."""
        return _trend(self.values)


def fitted(index: Index, size: int) -> Index | None:
    """Return the index of a dimension that has another size now: a rule goes on, a list is cut; None where it is too
    short."""
    match index:
        case ScaleIndex() | TimeScale():
            return replace(index, size=size)
        case Labels(names=names):
            return Labels(names[:size]) if size <= len(names) else None
        case FloatLabels(values=labels):
            return FloatLabels(labels[:size]) if size <= len(labels) else None
        case CFTime(values=values):
            return replace(index, values=values[:size]) if size <= values.size else None
        case Coordinate(values=values):
            return Coordinate(values[:size]) if size <= values.size else None


def select_from_index(index: Index, positions: range | Values) -> Index:
    """Return the labels of some positions (int64); a regular scale stays a scale where the positions are a range."""
    match index:
        case ScaleIndex() if isinstance(positions, range):
            return index.take(positions)
        case ScaleIndex():
            return Coordinate(index.labels(positions))
        case TimeScale(start=first, step=pace) if isinstance(positions, range):
            return TimeScale(first + positions.start * pace, pace * positions.step, len(positions))
        case TimeScale(start=first, step=pace):
            return Coordinate(first + np.asarray(positions) * pace)
        case Labels(names=names):
            return Labels(tuple(names[place] for place in positions))
        case FloatLabels(values=labels):
            return FloatLabels(tuple(labels[place] for place in positions))
        case CFTime() | Coordinate():
            return replace(index, values=index.values[np.asarray(positions, "i8")])


Index = ScaleIndex | Labels | FloatLabels | TimeScale | CFTime | Coordinate

# Microseconds of the units that CF times are counted in: of those that divide the step the longest is taken.
_LENGTHS = (("hours", 3_600_000_000), ("minutes", 60_000_000), ("seconds", 1_000_000), ("microseconds", 1))


def index_cells(index: Index, positions: Sequence[int]) -> tuple[Values, dict[str, str]]:
    """Return the labels of some positions as the cells and attributes of a coordinate array.

    Times are numbers as the CF conventions have them, so that any file can hold them.
    """
    match index:
        case ScaleIndex():
            return index.labels(positions), {}
        case FloatLabels(values=labels):
            return np.array([labels[place] for place in positions], "f8"), {}
        case Labels(names=names):
            return np.array([names[place] for place in positions], np.dtypes.StringDType()), {}
        case TimeScale(start=first, step=pace):
            micros = int(pace.astype("m8[us]").astype("i8"))
            unit, length = next((unit, length) for unit, length in _LENGTHS if micros % length == 0)
            epoch = str(first.astype("M8[us]")).removesuffix(".000000").replace("T", " ")
            attrs = {"units": f"{unit} since {epoch}", "calendar": "proleptic_gregorian"}
            return np.asarray(positions, "i8") * (micros // length), attrs
        case CFTime(values=counts, unit=unit, epoch=epoch, calendar=calendar):
            return counts[np.asarray(positions, "i8")], {"units": f"{unit} since {epoch}", "calendar": calendar}
        case Coordinate(values=cells):
            return cells[np.asarray(positions, "i8")], {}


def _trend(values: Values) -> int:
    if values.size < 2:
        return 1 if np.all(values == values) else 0
    if np.all(values[:-1] <= values[1:]):
        return 1
    return -1 if np.all(values[:-1] >= values[1:]) else 0
