"""From the labels of a dimension to the words of a schema: a scale, labels, regular times, or nothing. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from hyperslab.errors import SchemaError
from hyperslab.model.calendars import REAL, parse_moment, unit_length
from hyperslab.model.dims import CFTime, Coordinate, FloatLabels, Index, Labels, ScaleIndex, TimeScale
from hyperslab.model.schemas import DimensionSchema, TimeDimensionSchema
from hyperslab.model.schemas import Scale as ScaleSchema

Values = np.ndarray[Any, Any]
AnyDimension = DimensionSchema | TimeDimensionSchema

_GREGORIAN = datetime(1582, 10, 15, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEAR = 1e-6
_MOST = 10_000
"""Labels of one dimension that stand in a schema at the most."""


def dimension_schema(name: str, size: int | None, index: Index | None) -> AnyDimension:
    """A dimension with those of its labels that a schema can say: of numbers and times regular ones alone."""
    try:
        return _labelled(name, size, index) or DimensionSchema(name, size)
    except SchemaError:  # words that are no labels: blank ones, or some twice
        return DimensionSchema(name, size)


def _labelled(name: str, size: int | None, index: Index | None) -> AnyDimension | None:
    match index:
        case ScaleIndex(start=start, step=step):
            return DimensionSchema(name, size, scale=ScaleSchema(float(start), float(step)))
        case Labels(names=names):
            return _words(name, size, names)
        case FloatLabels(values=labels):
            return None if size is None or len(labels) > _MOST else DimensionSchema(name, size, labels=labels)
        case TimeScale(start=start, step=step):
            ends = np.array([start, start + step])
            micros = ends.astype("M8[us]")
            return _regular_times(name, size, micros.astype("i8")) if (micros == ends).all() else None
        case CFTime():
            return _counted(name, size, index)
        case Coordinate(values=values):
            return _coordinate(name, size, values)
    return None


def _words(name: str, size: int | None, names: tuple[str, ...]) -> DimensionSchema | None:
    return DimensionSchema(name, size, labels=names) if size is not None and len(names) <= _MOST else None


def _coordinate(name: str, size: int | None, values: Values) -> AnyDimension | None:
    if values.dtype.kind in "UTO":
        return _words(name, size, tuple(map(str, values))) if all(isinstance(word, str) for word in values) else None
    if values.size < 2:
        return None
    if values.dtype.kind == "M":
        micros = values.astype("M8[us]")
        ends = np.isnat(values).any() or (micros.astype(values.dtype) != values).any()
        return None if ends else _regular_times(name, size, micros.astype("i8"))
    if values.dtype.kind not in "iuf":
        return None
    regular = _regular(values.astype("f8"))
    return None if regular is None else DimensionSchema(name, size, scale=ScaleSchema(*regular))


def _regular(values: Values) -> tuple[float, float] | None:
    """Start and step of numbers that lie on a scale; the step in as few digits as tell all of them."""
    start, step = float(values[0]), float(values[-1] - values[0]) / (values.size - 1)
    if not (np.isfinite(values).all() and step):
        return None
    counts = np.arange(values.size)
    for digits in (6, 9, 12, 17):
        candidate = float(f"{step:.{digits}g}")
        if np.abs(start + counts * candidate - values).max() <= _NEAR * abs(step):
            return start, candidate
    return None


def _regular_times(name: str, size: int | None, micros: Values) -> TimeDimensionSchema | None:
    steps = np.diff(micros)
    if not steps[0] or (steps != steps[0]).any():
        return None
    return _times(name, size, int(micros[0]), int(steps[0]))


def _counted(name: str, size: int | None, index: CFTime) -> TimeDimensionSchema | None:
    """Times of a real calendar that lie on whole microseconds."""
    unit, moment = unit_length(index.unit, index.calendar), parse_moment(index.epoch)
    start = None if moment is None else moment.start(index.calendar)
    values = index.values
    if unit is None or start is None or start % 1000 or index.calendar not in REAL or values.size < 2:
        return None
    if not np.isfinite(values).all() or np.abs(values).max() * (unit / 1000) + abs(start / 1000) > 2**62:
        return None
    exact = values.astype("f8") * (unit / 1000) if values.dtype.kind == "f" or unit % 1000 else None
    micros = values.astype("i8") * (unit // 1000) if exact is None else np.rint(exact).astype("i8")
    return _regular_times(name, size, micros + start // 1000)


def _times(name: str, size: int | None, start: int, step: int) -> TimeDimensionSchema | None:
    try:
        first = _EPOCH + timedelta(microseconds=start)
        if first < _GREGORIAN:
            return None
        return TimeDimensionSchema(name, size, start_value=first, step=timedelta(microseconds=step))
    except OverflowError:
        return None
