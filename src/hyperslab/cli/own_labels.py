"""The labels that an array has by itself, as the coordinate array that a dataset of it would have."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab import api
from hyperslab.array import Array
from hyperslab.model.dims import CFTime, Coordinate, FloatLabels, Index, Labels, ScaleIndex, TimeScale, scale_value
from hyperslab.stores.memory import MemoryStore

_UNITS = (("hours", 3_600_000_000), ("minutes", 60_000_000), ("seconds", 1_000_000), ("microseconds", 1))


def own_coordinate(array: Array, dim: str) -> Array | None:
    """A coordinate of a dimension whose labels the array's own documents tell; None where they tell none.

    Times are numbers as the CF conventions have them, so that any file can hold them.
    """
    index = array.spec.indexes.get(dim)
    if index is None:
        return None
    values, attrs = _cells(index)
    with api.create(MemoryStore(), "zarr3") as root:
        return root.create_array(dim, data=values, dims=(dim,), attrs=attrs)


def _cells(index: Index) -> tuple[Any, dict[str, str]]:
    match index:
        case ScaleIndex(start=start, step=step, size=size):
            return np.array([scale_value(start, step, place) for place in range(size)], "f8"), {}
        case FloatLabels(values=labels):
            return np.array(labels, "f8"), {}
        case Labels(names=names):
            return np.array(names, np.dtypes.StringDType()), {}
        case TimeScale(start=start, step=step, size=size):
            return _times(start, step, size)
        case CFTime(values=values, unit=unit, epoch=epoch, calendar=calendar):
            return values, {"units": f"{unit} since {epoch}", "calendar": calendar}
        case Coordinate(values=values):
            return values, {}


def _times(start: np.datetime64, step: np.timedelta64, size: int) -> tuple[Any, dict[str, str]]:
    micros = int(step.astype("m8[us]").astype("i8"))
    unit, length = next((unit, length) for unit, length in _UNITS if micros % length == 0)
    epoch = str(start.astype("M8[us]")).removesuffix(".000000").replace("T", " ")
    return np.arange(size) * (micros // length), {"units": f"{unit} since {epoch}", "calendar": "proleptic_gregorian"}
