"""Files of each kind that CF knows become Zarr and netCDF again, whole and in part, and mean the same to xarray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from cf_files import FILES
from command_line import CliRunner
from hyperslab.cli import main
from old_peers import reads_zarr

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


@reads_zarr
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


def each_cell(dataset: Any, instances: Any, dim: str) -> Any:
    """Values of instances along ``dim`` for each cell of ``t``, by the variables that count or number its samples."""
    while dim not in dataset.t.dims:
        numbers = [each for each in dataset.variables.values() if each.attrs.get("instance_dimension") == dim]
        counts = [
            each for each in dataset.variables.values() if each.dims == (dim,) and "sample_dimension" in each.attrs
        ]
        if numbers:
            instances, dim = instances[numbers[0].values], numbers[0].dims[0]
        else:
            instances, dim = np.repeat(instances, counts[0].values), counts[0].attrs["sample_dimension"]
    return instances


def places_of(dataset: Any, kind: str) -> tuple[Any, Any]:
    """Longitudes from -180 on and latitudes of each cell of ``t``."""
    names = ("face_lon", "face_lat") if kind == "mesh" else ("lon", "lat")
    found = []
    for name in names:
        coordinate = dataset[name]
        if set(coordinate.dims) <= set(dataset.t.dims):
            found.append(coordinate.broadcast_like(dataset.t).transpose(*dataset.t.dims).values)
        else:
            found.append(each_cell(dataset, coordinate.values, coordinate.dims[0]))
    return (found[0] + 180.0) % 360.0 - 180.0, found[1]


BOX = (-26.0, 39.0, -0.5, 62.0)
IN_BOX = sorted(FILES.keys() - {"hybrid", "profile", "rotated_alone", "station", "trajectories_contiguous"})
"""Kinds whose cells have places in the box that a selection can take."""
RECTANGLES = ("curved", "rotated", "trajectories", "track_profiles")


@pytest.mark.parametrize("kind", IN_BOX)
def test_a_box_takes_the_cells_that_lie_in_it(kind: str, tmp_path: Path) -> None:
    FILES[kind](tmp_path / "a.nc")
    convert(tmp_path / "a.nc", tmp_path / "b.nc", "-v", "t", "--bbox", ",".join(map(str, BOX)))
    cells = []
    for name in ("a.nc", "b.nc"):
        with xarray.open_dataset(tmp_path / name) as dataset:
            east, north = places_of(dataset, kind)
            inside = (east >= BOX[0]) & (east <= BOX[2]) & (north >= BOX[1]) & (north <= BOX[3])
            cells.append((dataset.t.values[inside], dataset.t.size - np.count_nonzero(inside)))
    (wanted, before), (found, after) = cells
    assert wanted.size and np.array_equal(found, wanted, equal_nan=True)
    assert after < before if kind in ("curved", "rotated") else after == 0 or kind in RECTANGLES


def test_a_grid_that_its_mapping_alone_places_is_cut_as_one_with_places(tmp_path: Path) -> None:
    for kind in ("rotated", "rotated_alone"):
        FILES[kind](tmp_path / f"{kind}.nc")
        convert(tmp_path / f"{kind}.nc", tmp_path / f"{kind}_part.nc", "-v", "t", "--bbox", "-10,45,5,58")
    wanted, found = (xarray.load_dataset(tmp_path / f"{kind}_part.nc") for kind in ("rotated", "rotated_alone"))
    assert 1 < found.sizes["rlat"] < 10 and 1 < found.sizes["rlon"] < 13
    np.testing.assert_array_equal(found.t, wanted.t)


@pytest.mark.parametrize(
    ("kind", "instances", "number"),
    [
        ("stations_contiguous", "station", 1),
        ("stations_indexed", "station", 1),
        ("station_profiles_ragged", "station", 0),
        ("profiles_contiguous", "profile", 2),
        ("profiles_indexed", "profile", 2),
        ("trajectories_contiguous", "trajectory", 0),
        ("trajectories_indexed", "trajectory", 1),
        ("track_profiles_ragged", "trajectory", 1),
        ("stations", "station", 2),
    ],
)
def test_the_samples_of_one_instance(kind: str, instances: str, number: int, tmp_path: Path) -> None:
    FILES[kind](tmp_path / "a.nc")
    convert(tmp_path / "a.nc", tmp_path / "b.nc", "-v", "t", "-s", f"{instances}={number}..{number + 1}")
    with xarray.open_dataset(tmp_path / "a.nc") as wanted, xarray.open_dataset(tmp_path / "b.nc") as found:
        owners = each_cell(wanted, np.arange(wanted.sizes[instances]), instances)
        np.testing.assert_array_equal(found.t.values, wanted.t.values[owners == number])
        counts = [each for each in found.variables.values() if "sample_dimension" in each.attrs]
        assert all(each.values.sum() == found.t.size for each in counts)
