"""The meaning of a coordinate by the CF conventions (CF 1.11, 4): longitude, latitude, time, up or down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.array import times

EAST = ("degrees_east", "degree_east", "degree_E", "degrees_E", "degreeE", "degreesE")
NORTH = ("degrees_north", "degree_north", "degree_N", "degrees_N", "degreeN", "degreesN")
RADIANS = ("radian", "radians", "rad")
# Units that point downwards where the attribute ``positive`` says nothing (CF 1.11, 4.3.1).
# UDUNITS takes plurals, too; ECMWF writes "millibars".
PRESSURE = (
    *("Pa", "pascal", "pascals", "hPa", "hectopascal", "hectopascals", "kPa", "mb", "mbar", "millibar", "millibars"),
    *("bar", "bars", "dbar", "decibar", "decibars"),
)
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
}
# Vertical coordinates that say neither ``positive`` nor units of pressure, by the direction in which they grow
# (CF 1.11, 4.3 and appendix D). Sigma is 1 at the ground and 0 at the top of the atmosphere; that of an ocean is 0 at
# the surface and -1 at the ground.
_DOWN = (
    *("depth", "depth_below_geoid", "depth_below_sea_floor", "air_pressure", "sea_water_pressure"),
    *("atmosphere_sigma_coordinate", "atmosphere_hybrid_sigma_pressure_coordinate"),
)
_UP = (
    *("height", "altitude", "geopotential_height", "height_above_mean_sea_level", "height_above_reference_ellipsoid"),
    *("height_above_geopotential_datum", "model_level_number", "atmosphere_ln_pressure_coordinate"),
    *("atmosphere_hybrid_height_coordinate", "atmosphere_sleve_coordinate", "ocean_sigma_coordinate"),
    *("ocean_s_coordinate", "ocean_s_coordinate_g1", "ocean_s_coordinate_g2", "ocean_sigma_z_coordinate"),
    "ocean_double_sigma_coordinate",
)
_STANDARD |= dict.fromkeys(_DOWN, "down") | dict.fromkeys(_UP, "up")
VERTICAL = ("up", "down")


def role_of(name: str, attrs: Mapping[str, Any]) -> str | None:
    """Return ``longitude``, ``latitude``, ``x`` and ``y`` (of a plane), ``time``; of a vertical axis (``VERTICAL``)
    ``up`` or ``down``, where its numbers grow; None for others."""
    units = str(attrs.get("units", ""))
    standard = _STANDARD.get(str(attrs.get("standard_name", "")))
    positive = str(attrs.get("positive", "")).lower()
    if positive in VERTICAL:
        return positive
    if units in EAST or units in NORTH:
        return "longitude" if units in EAST else "latitude"
    if standard is not None:
        return standard
    if times.clock(attrs) is not None:
        return "time"
    if units in PRESSURE:
        return "down"
    if str(attrs.get("axis", "")).upper() == "Z":
        return "up"
    is_plain = not {"standard_name", "axis"} & set(attrs) and units in ("", "degrees", "degree")
    return _NAMES.get(name.lower()) if is_plain else None
