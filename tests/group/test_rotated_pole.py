"""Grids around another pole, in longitude and latitude, by distances on the sphere; mappings that say no pole."""

from __future__ import annotations

import numpy as np
import pytest

from hyperslab.group.cf_variables import RotatedPole

MAPPING = {
    "grid_mapping_name": "rotated_latitude_longitude",
    "grid_north_pole_latitude": 37.5,
    "grid_north_pole_longitude": 177.5,
}


def test_the_poles_lie_where_the_mapping_says() -> None:
    pole = RotatedPole.of(MAPPING)
    assert pole == RotatedPole(37.5, 177.5, 0.0)
    assert np.allclose(pole.to_earth(np.array(0.0), np.array(90.0)), (177.5, 37.5))
    assert np.allclose(pole.to_earth(np.array(0.0), np.array(0.0)), (-2.5, 52.5)), "the grid's middle"
    assert np.allclose(pole.to_earth(np.array(0.0), np.array(37.5))[1], 90.0), "the true pole"


def test_distances_stay() -> None:
    random = np.random.default_rng(5)
    east, north = random.uniform(-180, 180, 100), random.uniform(-89, 89, 100)

    def points(longitude: np.ndarray, latitude: np.ndarray) -> np.ndarray:
        lon, lat = np.radians(longitude), np.radians(latitude)
        return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])

    before, after = points(east, north), points(*RotatedPole(39.25, -162.0, 12.0).to_earth(east, north))
    assert np.allclose(before.T @ before, after.T @ after)


def test_a_turned_grid_has_the_true_pole_at_its_turn() -> None:
    pole = RotatedPole.of(MAPPING | {"north_pole_grid_longitude": 30.0})
    assert pole is not None and np.allclose(pole.to_earth(np.array(30.0), np.array(37.5))[1], 90.0)


def test_a_pole_that_is_the_earths_moves_no_latitude() -> None:
    east, north = RotatedPole(90.0, 180.0).to_earth(np.array([-170.0, 0.0, 90.0]), np.array([-50.0, 0.0, 50.0]))
    assert np.allclose(east, [-170.0, 0.0, 90.0]) and np.allclose(north, [-50.0, 0.0, 50.0])


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        MAPPING | {"grid_mapping_name": "latitude_longitude"},
        {"grid_mapping_name": "rotated_latitude_longitude"},
        MAPPING | {"grid_north_pole_latitude": "north"},
        MAPPING | {"grid_north_pole_latitude": float("nan")},
        MAPPING | {"grid_north_pole_latitude": np.array([1.0, 2.0])},
    ],
)
def test_other_mappings_say_none(attrs: dict[str, object]) -> None:
    assert RotatedPole.of(attrs) is None
