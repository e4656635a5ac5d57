"""Files of each kind that CF knows become Zarr and netCDF again, whole and in part, and mean the same to xarray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cf_files import FILES
from hyperslab.cli import main

xarray = pytest.importorskip("xarray")

PARTS = {
    "curved": {"time": (1, 2), "y": (2, 6), "x": (0, 5)},
    "hybrid": {"time": (0, 1), "lev": (1, 4), "lat": (1, 3)},
    "mesh": {"face": (10, 30)},
    "points": {"obs": (3, 9)},
    "profile": {"z": (2, 6)},
    "profiles": {"profile": (1, 3), "z": (0, 4)},
    "profiles_incomplete": {"profile": (1, 2), "level": (0, 4)},
    "rotated": {"rlat": (2, 7), "rlon": (3, 9)},
    "rotated_alone": {"rlat": (2, 7)},
    "station": {"time": (2, 5)},
    "station_profiles": {"station": (1, 3), "profile": (0, 2)},
    "station_profiles_orthogonal": {"station": (1, 3), "time": (0, 2), "z": (3, 6)},
    "stations": {"station": (0, 2), "time": (4, 8)},
    "stations_incomplete": {"station": (1, 3), "obs": (0, 6)},
    "track_profiles": {"trajectory": (1, 2), "z": (0, 3)},
    "trajectories": {"trajectory": (0, 1), "obs": (5, 10)},
    "trajectory": {"time": (5, 10)},
}
"""Parts of the kinds whose samples are not counted or numbered: first and last position, the last excluded."""


def convert(*words: str | Path) -> str:
    """Run the command; return what it says."""
    done = CliRunner().invoke(main, ["convert", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.output


def open_netcdf(place: Path) -> Any:
    """Return what xarray reads: with all that attributes name as coordinates."""
    return xarray.open_dataset(place, engine="netcdf4", decode_coords="all")


def expected(place: Path) -> Any:
    """Return the file without what does not belong to ``t``."""
    return open_netcdf(place).drop_vars("height", errors="ignore")


@pytest.mark.parametrize("kind", FILES)
def test_a_variable_keeps_its_meaning_through_zarr_and_back(kind: str, tmp_path: Path) -> None:
    FILES[kind](tmp_path / "a.nc")
    convert(tmp_path / "a.nc", tmp_path / "b.zarr", "-v", "t", "--verify")
    convert(tmp_path / "b.zarr", tmp_path / "c.nc", "--verify")
    with open_netcdf(tmp_path / "c.nc") as found, expected(tmp_path / "a.nc") as wanted:
        xarray.testing.assert_identical(found.load(), wanted.load())
    with xarray.open_zarr(tmp_path / "b.zarr", decode_coords="all") as found, expected(tmp_path / "a.nc") as wanted:
        xarray.testing.assert_allclose(found.load(), wanted.load())
        assert set(found.coords) == set(wanted.coords)


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_takes_what_belongs_to_it_along(kind: str, tmp_path: Path) -> None:
    FILES[kind](tmp_path / "a.nc")
    chosen = [word for dim, (first, last) in PARTS[kind].items() for word in ("-s", f"{dim}={first}..{last}")]
    convert(tmp_path / "a.nc", tmp_path / "b.nc", "-v", "t", *chosen)
    part = {dim: slice(*ends) for dim, ends in PARTS[kind].items()}
    with open_netcdf(tmp_path / "b.nc") as found, expected(tmp_path / "a.nc") as wanted:
        xarray.testing.assert_identical(found.load(), wanted.isel(part).load())
