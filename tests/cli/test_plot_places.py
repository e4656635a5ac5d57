"""Pictures of each kind of file that CF knows: points and ways on a map, profiles downwards, grids with other poles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
from matplotlib.collections import PathCollection, QuadMesh

import hyperslab as hs
from cf_files import FILES
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.cli.arguments import find_array, find_cells, parse_selections
from hyperslab.cli.commands import plot

Draw = Callable[..., tuple[plot.Picture, Any, Any]]


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """Return a function that draws a part of a file of a kind: the picture, its axes in matplotlib, and the file."""

    def drawn(kind: str, *selections: str, path: str = "t") -> tuple[plot.Picture, Any, Any]:
        place = tmp_path / f"{kind}.nc"
        FILES[kind](place)
        with hs.open(place) as root:
            array = find_array(root, path)
            key, _ = plot.thin_key(array, find_cells([array], parse_selections(selections)).key(array))
            picture = plot.compose(root, array, key)
        with netCDF4.Dataset(place) as file:
            found = {name: file[name][...] for name in file.variables}
        return picture, plot.draw(picture, "viridis").axes[0], found

    return drawn


def points_of(axes: Any) -> np.ndarray:
    """Return the places of the points that were drawn."""
    (found,) = (child for child in axes.get_children() if isinstance(child, PathCollection))
    return np.asarray(found.get_offsets())


@pytest.mark.parametrize(
    ("kind", "selections"),
    [
        ("points", ()),
        ("trajectory", ()),
        ("trajectories_contiguous", ()),
        ("trajectories_indexed", ()),
    ],
)
def test_samples_stand_on_the_map(draw: Draw, kind: str, selections: tuple[str, ...]) -> None:
    picture, axes, found = draw(kind, *selections)
    assert np.allclose(points_of(axes), np.stack([found["lon"], found["lat"]], 1))
    assert np.array_equal(picture.cells, found["t"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("longitude (degrees_east)", "latitude (degrees_north)")


def test_one_way_of_several_and_all_of_them(draw: Draw) -> None:
    _, axes, found = draw("trajectories", "trajectory=1")
    there = ~np.ma.getmaskarray(found["t"])[1]
    drawn = points_of(axes)
    assert np.allclose(drawn[~np.ma.getmaskarray(drawn).any(axis=1)][: there.sum(), 0], found["lon"][1][there])
    _, axes, found = draw("trajectories")
    assert points_of(axes).shape == (30, 2)


def test_profiles_along_a_way_at_one_depth(draw: Draw) -> None:
    _, axes, found = draw("track_profiles", "trajectory=0", "z=0")
    assert np.allclose(points_of(axes), np.stack([found["lon"][0], found["lat"][0]], 1))


def test_stations_at_one_time(draw: Draw) -> None:
    picture, axes, found = draw("stations", "time=0")
    assert np.allclose(points_of(axes), np.stack([found["lon"], found["lat"]], 1))
    assert picture.subtitle == "time = 2013-01-01"


@pytest.mark.parametrize(("path", "kind"), [("t", "face"), ("height", "node")])
def test_a_mesh_stands_at_its_faces_or_nodes(draw: Draw, path: str, kind: str) -> None:
    _, axes, found = draw("mesh", path=path)
    drawn = points_of(axes)
    assert np.allclose((drawn[:, 0] - found[f"{kind}_lon"]) % 360.0 % 360.0, 0.0)
    assert np.allclose(drawn[:, 1], found[f"{kind}_lat"])
    assert np.ptp(drawn[:, 0]) <= 40.0, "what lies on both sides of 0 stays together"


@pytest.mark.parametrize(
    ("kind", "selections", "depths"),
    [
        ("profile", (), np.arange(8) * 25.0),
        ("profiles", ("profile=2",), np.arange(8) * 25.0),
        ("profiles_incomplete", ("profile=0",), np.arange(8) * 25.0),
        ("station_profiles", ("station=1", "profile=2"), np.arange(6) * 25.0),
        ("station_profiles_orthogonal", ("station=1", "time=2"), np.arange(6) * 25.0),
        ("track_profiles", ("trajectory=1", "profile=2"), np.arange(6) * 25.0),
    ],
)
def test_profiles_go_down(draw: Draw, kind: str, selections: tuple[str, ...], depths: np.ndarray) -> None:
    picture, axes, _ = draw(kind, *selections)
    (line,) = axes.get_lines()
    assert np.array_equal(line.get_ydata(), depths)
    assert np.array_equal(line.get_xdata(), picture.cells)
    assert axes.yaxis_inverted()
    assert axes.get_ylabel() == "depth (m)"


def test_profiles_one_behind_the_other_are_no_line(draw: Draw) -> None:
    _, axes, found = draw("profiles_contiguous")
    (line,) = axes.get_lines()
    assert np.array_equal(line.get_ydata(), found["depth"]) and axes.yaxis_inverted()
    assert line.get_linestyle() == "None" and line.get_marker() == "o"


def test_samples_of_a_station_stand_at_their_times(draw: Draw) -> None:
    picture, axes, _ = draw("stations_incomplete", "station=0")
    (line,) = axes.get_lines()
    assert picture.axes[0].calendar == "standard"
    assert np.allclose(np.diff(line.get_xdata()), 3600.0)


@pytest.mark.parametrize("kind", ["rotated", "rotated_alone"])
def test_a_grid_around_another_pole_lies_on_the_earth(draw: Draw, kind: str) -> None:
    _, _, found = draw("rotated")
    picture, axes, _ = draw(kind)
    rows, columns = picture.axes
    assert np.allclose(rows.at, found["lat"]) and np.allclose(columns.at, found["lon"])
    mesh = next(child for child in axes.get_children() if isinstance(child, QuadMesh))
    assert np.array_equal(mesh.get_array(), picture.cells)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("longitude (degrees_east)", "latitude (degrees_north)")


def test_a_curved_grid_lies_on_the_earth(draw: Draw) -> None:
    picture, _, found = draw("curved", "time=1")
    rows, columns = picture.axes
    assert np.allclose(rows.at, found["lat"])
    assert np.allclose((columns.at - found["lon"] + 180.0) % 360.0, 180.0)


def test_hybrid_levels_go_down(draw: Draw) -> None:
    picture, axes, found = draw("hybrid", "time=0", "lat=0")
    assert np.array_equal(picture.axes[0].at, found["lev"]) and axes.yaxis_inverted()


@pytest.mark.parametrize("kind", FILES)
def test_every_kind_is_drawn_into_a_file(kind: str, tmp_path: Path) -> None:
    FILES[kind](tmp_path / "a.nc")
    with hs.open(tmp_path / "a.nc") as root:
        long = root["t"].dims[: max(root["t"].ndim - 2, 0)]
    chosen = [word for dim in long for word in ("-s", f"{dim}=0")]
    done = CliRunner().invoke(main, ["plot", str(tmp_path / "a.nc"), "t", *chosen, "-o", str(tmp_path / "a.png")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
