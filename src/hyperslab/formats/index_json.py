"""Indexes of dimensions as the attribute ``_hyperslab`` keeps them: rules and labels, but no sizes: the shape tells.

``{"scale": {"start": 90.0, "step": -0.25}}``, ``{"labels": [texts or floats]}``, or ``{"times": {"start":
"2023-01-01T00:00:00", "step": 3600, "unit": "s"}}``. What makes no sense, or does not fit the shape, is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from hyperslab.model.dims import FloatLabels, Index, Labels, ScaleIndex, TimeScale

_STEPS: dict[str, Callable[[int], np.timedelta64]] = {
    "W": lambda count: np.timedelta64(count, "W"),
    "D": lambda count: np.timedelta64(count, "D"),
    "h": lambda count: np.timedelta64(count, "h"),
    "m": lambda count: np.timedelta64(count, "m"),
    "s": lambda count: np.timedelta64(count, "s"),
    "ms": lambda count: np.timedelta64(count, "ms"),
    "us": lambda count: np.timedelta64(count, "us"),
    "ns": lambda count: np.timedelta64(count, "ns"),
}
_TIME = re.compile(r"-?\d{3,}-\d\d-\d\d(T\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?)?", re.ASCII)


def write_indexes(indexes: Mapping[str, Index], dims: Sequence[str | None]) -> dict[str, Any]:
    """The JSON of the indexes of these dimensions; those that list their values cell by cell are left out."""
    said = {name: _to_json(indexes[name]) for name in dims if name is not None and name in indexes}
    return {name: rule for name, rule in said.items() if rule is not None}


def read_indexes(said: Mapping[str, Any], dims: Sequence[str | None], shape: Sequence[int]) -> dict[str, Index]:
    """The indexes of an array's dimensions."""
    found: dict[str, Index] = {}
    for name, size in zip(dims, shape, strict=False):
        index = _from_json(said.get(name), size) if name is not None else None
        if name is not None and index is not None:
            found[name] = index
    return found


def _to_json(index: Index) -> dict[str, Any] | None:
    match index:
        case ScaleIndex(start=start, step=step):
            return {"scale": {"start": float(start), "step": float(step)}}
        case Labels(names=names):
            return {"labels": list(names)}
        case FloatLabels(values=values):
            return {"labels": list(values)}
        case TimeScale(start=first, step=step):
            unit, count = np.datetime_data(step.dtype)
            length = int(step.astype("i8")) * count
            return {"times": {"start": str(first), "step": length, "unit": unit}} if unit in _STEPS else None
        case _:
            return None


def _from_json(said: Any, size: int) -> Index | None:
    match said:
        case {"scale": {"start": int() | float() as start, "step": int() | float() as step}}:
            return ScaleIndex(float(start), float(step), size) if step and isfinite(start) and isfinite(step) else None
        case {"labels": list() as labels} if len(labels) == size:
            return _labels(labels)
        case {"times": {"start": str() as start, "step": int() as step, "unit": str() as unit}} if (
            step and unit in _STEPS
        ):
            return _times(start, step, unit, size)
        case _:
            return None


def _labels(labels: list[Any]) -> Index | None:
    kinds = set(map(type, labels))
    if kinds == {str}:
        return Labels(tuple(labels))
    if kinds and kinds <= {int, float} and len(set(labels)) == len(labels):
        return FloatLabels(tuple(map(float, labels)))
    return None


def _times(start: str, step: int, unit: str, size: int) -> Index | None:
    if not _TIME.fullmatch(start):
        return None
    try:
        first, pace = np.datetime64(start), _STEPS[unit](step)
    except (ValueError, OverflowError):
        return None
    return None if np.isnat(pace) else TimeScale(first, pace, size)
