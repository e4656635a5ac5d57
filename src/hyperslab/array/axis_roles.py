"""What a coordinate means in the world by the CF conventions (CF 1.11, 4): longitude, latitude, time, up or down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.array import times

EAST = ("degrees_east", "degree_east", "degree_E", "degrees_E", "degreeE", "degreesE")
NORTH = ("degrees_north", "degree_north", "degree_N", "degrees_N", "degreeN", "degreesN")
RADIANS = ("radian", "radians", "rad")
# Units that point downwards where the attribute ``positive`` says nothing (CF 1.11, 4.3.1).
PRESSURE = ("Pa", "hPa", "kPa", "mbar", "millibar", "bar", "dbar", "decibar")
# Names that say it where no attribute does.
_NAMES = {"lon": "longitude", "longitude": "longitude", "lat": "latitude", "latitude": "latitude"}
_STANDARD = {
    "longitude": "longitude",
    "latitude": "latitude",
    "projection_x_coordinate": "x",
    "projection_y_coordinate": "y",
    "grid_longitude": "x",
    "grid_latitude": "y",
    "time": "time",
    "depth": "down",
}


def role_of(name: str, attrs: Mapping[str, Any]) -> str | None:
    """Return ``longitude``, ``latitude``, ``x`` and ``y`` (of a plane), ``time``, ``up``, ``down``; None for others."""
    units = str(attrs.get("units", ""))
    standard = _STANDARD.get(str(attrs.get("standard_name", "")))
    positive = str(attrs.get("positive", "")).lower()
    if positive in ("up", "down"):
        return positive
    if units in EAST or units in NORTH:
        return "longitude" if units in EAST else "latitude"
    if standard is not None:
        return standard
    if times.clock(attrs) is not None:
        return "time"
    if units in PRESSURE:
        return "down"
    is_plain = not {"standard_name", "axis"} & set(attrs) and units in ("", "degrees", "degree")
    return _NAMES.get(name.lower()) if is_plain else None
