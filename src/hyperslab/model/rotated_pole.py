"""Grids whose pole is another place of the earth (CF 1.11, appendix F, Rotated pole): their cells in longitude and
latitude."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.model.cells import Values


@dataclass(frozen=True)
class RotatedPole:
    """The north pole of a grid in degrees of the earth, and the ``turn``: the grid's longitude of the true pole."""

    latitude: float
    longitude: float
    turn: float = 0.0

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> RotatedPole | None:
        """Return the pole that a grid mapping says; None where it says none, or no numbers."""
        if attrs.get("grid_mapping_name") != "rotated_latitude_longitude":
            return None
        names = ("grid_north_pole_latitude", "grid_north_pole_longitude", "north_pole_grid_longitude")
        try:
            found = [
                float(np.asarray(attrs.get(name, default)))
                for name, default in zip(names, (None, None, 0.0), strict=True)
            ]
        except (TypeError, ValueError):
            return None
        return cls(*found) if np.isfinite(found).all() else None

    def to_earth(self, longitude: Values, latitude: Values) -> tuple[Values, Values]:
        """Return longitude and latitude, in degrees from -180 to 180, of places of the grid, whose arrays broadcast."""
        tilt = np.radians(self.latitude)
        east, north = np.radians(np.asarray(longitude, "f8") - self.turn), np.radians(np.asarray(latitude, "f8"))
        # the point of the unit sphere, with x where the meridian of the true pole crosses the grid's equator
        x, y, z = np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)
        around = np.degrees(np.arctan2(y, np.sin(tilt) * x - np.cos(tilt) * z)) + 180.0 + self.longitude
        up = np.degrees(np.arcsin(np.clip(np.cos(tilt) * x + np.sin(tilt) * z, -1.0, 1.0)))
        return (around + 180.0) % 360.0 - 180.0, up
