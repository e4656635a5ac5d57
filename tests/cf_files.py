"""Small files of each kind that the CF conventions know (CF 1.11: chapters 4 and 5, appendices D and H) and of a UGRID
mesh, by netCDF4. ``FILES``: by their name what writes each; the data variable is ``t`` in all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

FILL = np.float32(-999.0)
_TIME = {"units": "hours since 2013-01-01", "standard_name": "time", "calendar": "standard"}
_LAT = {"units": "degrees_north", "standard_name": "latitude"}
_LON = {"units": "degrees_east", "standard_name": "longitude"}
_DEPTH = {"units": "m", "standard_name": "depth", "positive": "down", "axis": "Z"}
_DATA = {"units": "degC", "standard_name": "sea_water_temperature", "long_name": "temperature"}
_PLACES = "time lat lon"


def _open(path: Path, feature: str = "", **sizes: int | None) -> Any:
    file = netCDF4.Dataset(path, "w")
    file.setncatts({"Conventions": "CF-1.11", **({"featureType": feature} if feature else {}), "title": "example"})
    for name, size in sizes.items():
        file.createDimension(name, size)
    return file


def _put(
    file: Any, name: str, dims: str, cells: object, kind: str = "f8", fill: object = None, **attrs: object
) -> None:
    variable = file.createVariable(name, kind, dims.split(), fill_value=fill)
    variable.setncatts(attrs)
    variable[...] = cells


def _put_data(file: Any, dims: str, coordinates: str, *, holes: object = None, **attrs: object) -> None:
    """Write ``t``, warm at the surface and cold below, missing where ``holes`` are true."""
    shape = tuple(file.dimensions[dim].size for dim in dims.split())
    cells = np.linspace(20.0, 4.0, int(np.prod(shape))).reshape(shape)
    found = np.ma.masked_where(np.zeros(shape, bool) if holes is None else holes, cells)
    _put(file, "t", dims, found, "f4", FILL, **_DATA, coordinates=coordinates, **attrs)


def _put_names(file: Any, dim: str, name: str, role: str) -> None:
    """Write names of instances as text of ``char``, which all versions of netCDF have."""
    size = file.dimensions[dim].size
    file.createDimension("name_length", 8)
    texts = np.array([f"{name}_{number}" for number in range(size)], "S8")
    _put(file, name, f"{dim} name_length", netCDF4.stringtochar(texts), "S1", cf_role=role, long_name=f"{name} name")


def _put_track(file: Any, dims: str, shape: Sequence[int]) -> None:
    """Write a way over the Atlantic, across the meridian of Greenwich, in hours."""
    part = np.linspace(0.0, 1.0, int(np.prod(shape))).reshape(shape)
    _put(file, "time", dims, part * 48, **_TIME)
    _put(file, "lat", dims, 35.0 + 20.0 * part + np.sin(part * 12), **_LAT)
    _put(file, "lon", dims, -20.0 + 35.0 * part, **_LON)


def _put_stations(file: Any) -> None:
    _put(file, "lat", "station", [60.1, 63.9, 51.5], **_LAT)
    _put(file, "lon", "station", [-1.2, -22.6, 0.1], **_LON)
    _put_names(file, "station", "station_name", "timeseries_id")


def _put_casts(file: Any) -> None:
    """Write place and time of three profiles."""
    _put(file, "lat", "profile", [40.0, 42.0, 45.0], **_LAT)
    _put(file, "lon", "profile", [-30.0, -28.0, -25.0], **_LON)
    _put(file, "time", "profile", [0.0, 6.0, 12.0], **_TIME)


def write_points(path: Path) -> None:
    """Write points without an order (H.1)."""
    with _open(path, "point", obs=12) as file:
        _put_track(file, "obs", [12])
        _put_data(file, "obs", _PLACES)


def write_stations(path: Path) -> None:
    """Write time series that share their times (H.2.1, orthogonal)."""
    with _open(path, "timeSeries", station=3, time=10) as file:
        _put(file, "time", "time", np.arange(10.0), **_TIME)
        _put_stations(file)
        _put_data(file, "station time", "lat lon station_name")


def write_stations_incomplete(path: Path) -> None:
    """Write time series of their own times (H.2.2, incomplete)."""
    with _open(path, "timeSeries", station=3, obs=10) as file:
        holes = np.arange(10) >= np.array([[10], [6], [8]])
        times = np.ma.masked_where(holes, np.arange(10.0) + np.array([[0.0], [0.5], [0.25]]))
        _put(file, "time", "station obs", times, fill=-1.0, **_TIME)
        _put_stations(file)
        _put_data(file, "station obs", "time lat lon station_name", holes=holes)


def write_stations_contiguous(path: Path) -> None:
    """Write time series one behind the other (H.2.4, contiguous ragged)."""
    with _open(path, "timeSeries", station=3, obs=20) as file:
        _put(file, "row_size", "station", [10, 4, 6], "i4", sample_dimension="obs", long_name="observations")
        _put(file, "time", "obs", [*range(10), *range(4), *range(6)], **_TIME)
        _put_stations(file)
        _put_data(file, "obs", "time lat lon station_name")


def write_stations_indexed(path: Path) -> None:
    """Write time series mixed as they came in (H.2.5, indexed ragged)."""
    with _open(path, "timeSeries", station=3, obs=20) as file:
        _put(file, "station_index", "obs", np.arange(20) % 3, "i4", instance_dimension="station")
        _put(file, "time", "obs", np.arange(20.0) / 3, **_TIME)
        _put_stations(file)
        _put_data(file, "obs", "time lat lon station_name")


def write_station(path: Path) -> None:
    """Write one time series, whose place are scalars (H.2.3)."""
    with _open(path, "timeSeries", time=10) as file:
        _put(file, "time", "time", np.arange(10.0), **_TIME)
        _put(file, "lat", "", 60.1, **_LAT)
        _put(file, "lon", "", -1.2, **_LON)
        _put_data(file, "time", "lat lon")


def write_trajectories(path: Path) -> None:
    """Write ways of one length or shorter (H.4.1, incomplete)."""
    with _open(path, "trajectory", trajectory=2, obs=15) as file:
        _put_track(file, "trajectory obs", [2, 15])
        _put_names(file, "trajectory", "ship", "trajectory_id")
        _put_data(file, "trajectory obs", _PLACES, holes=np.arange(15) >= np.array([[15], [11]]))


def write_trajectory(path: Path) -> None:
    """Write one way (H.4.2)."""
    with _open(path, "trajectory", time=30) as file:
        part = np.linspace(0.0, 1.0, 30)
        _put(file, "time", "time", part * 48, **_TIME)
        _put(file, "lat", "time", 35.0 + 20.0 * part + np.sin(part * 12), **_LAT)
        _put(file, "lon", "time", -20.0 + 35.0 * part, **_LON)
        _put_data(file, "time", "lat lon")


def write_trajectories_contiguous(path: Path) -> None:
    """Write ways one behind the other (H.4.3)."""
    with _open(path, "trajectory", trajectory=2, obs=30) as file:
        _put(file, "row_size", "trajectory", [18, 12], "i4", sample_dimension="obs")
        _put_track(file, "obs", [30])
        _put_names(file, "trajectory", "ship", "trajectory_id")
        _put_data(file, "obs", _PLACES)


def write_trajectories_indexed(path: Path) -> None:
    """Write ways mixed (H.4.4)."""
    with _open(path, "trajectory", trajectory=2, obs=30) as file:
        _put(file, "ship_index", "obs", np.arange(30) % 2, "i4", instance_dimension="trajectory")
        _put_track(file, "obs", [30])
        _put_names(file, "trajectory", "ship", "trajectory_id")
        _put_data(file, "obs", _PLACES)


def write_profiles(path: Path) -> None:
    """Write profiles at the same depths (H.3.1, orthogonal)."""
    with _open(path, "profile", profile=3, z=8) as file:
        _put(file, "z", "z", np.arange(8) * 25.0, **_DEPTH)
        _put_casts(file)
        _put_names(file, "profile", "cast", "profile_id")
        _put_data(file, "profile z", _PLACES)


def write_profiles_incomplete(path: Path) -> None:
    """Write profiles at depths of their own (H.3.2, incomplete)."""
    with _open(path, "profile", profile=3, level=8) as file:
        holes = np.arange(8) >= np.array([[8], [5], [7]])
        depths = np.ma.masked_where(holes, np.arange(8) * np.array([[25.0], [40.0], [30.0]]))
        _put(file, "depth", "profile level", depths, fill=-1.0, **_DEPTH)
        _put_casts(file)
        _put_names(file, "profile", "cast", "profile_id")
        _put_data(file, "profile level", "time lat lon depth", holes=holes)


def write_profile(path: Path) -> None:
    """Write one profile (H.3.3)."""
    with _open(path, "profile", z=8) as file:
        _put(file, "z", "z", np.arange(8) * 25.0, **_DEPTH)
        _put(file, "time", "", 3.0, **_TIME)
        _put(file, "lat", "", 40.0, **_LAT)
        _put(file, "lon", "", -30.0, **_LON)
        _put_data(file, "z", _PLACES)


def write_profiles_contiguous(path: Path) -> None:
    """Write profiles one behind the other (H.3.4)."""
    with _open(path, "profile", profile=3, obs=20) as file:
        _put(file, "row_size", "profile", [8, 5, 7], "i4", sample_dimension="obs")
        _put(file, "depth", "obs", np.concatenate([np.arange(size) * 25.0 for size in (8, 5, 7)]), **_DEPTH)
        _put_casts(file)
        _put_names(file, "profile", "cast", "profile_id")
        _put_data(file, "obs", "time lat lon depth")


def write_profiles_indexed(path: Path) -> None:
    """Write profiles mixed (H.3.5)."""
    with _open(path, "profile", profile=3, obs=21) as file:
        _put(file, "cast_index", "obs", np.arange(21) % 3, "i4", instance_dimension="profile")
        _put(file, "depth", "obs", np.arange(21) // 3 * 25.0, **_DEPTH)
        _put_casts(file)
        _put_names(file, "profile", "cast", "profile_id")
        _put_data(file, "obs", "time lat lon depth")


def write_station_profiles(path: Path) -> None:
    """Write time series of profiles at stations (H.5.1, incomplete in none)."""
    with _open(path, "timeSeriesProfile", station=3, profile=4, z=6) as file:
        _put(file, "z", "station profile z", np.broadcast_to(np.arange(6) * 25.0, (3, 4, 6)), **_DEPTH)
        _put(file, "time", "station profile", np.broadcast_to(np.arange(4.0), (3, 4)), **_TIME)
        _put_stations(file)
        _put_data(file, "station profile z", "time lat lon z station_name")


def write_station_profiles_orthogonal(path: Path) -> None:
    """Write time series of profiles that share times and depths (H.5.2)."""
    with _open(path, "timeSeriesProfile", station=3, time=4, z=6) as file:
        _put(file, "z", "z", np.arange(6) * 25.0, **_DEPTH)
        _put(file, "time", "time", np.arange(4.0), **_TIME)
        _put_stations(file)
        _put_data(file, "station time z", "lat lon station_name")


def write_station_profiles_ragged(path: Path) -> None:
    """Write profiles one behind the other, each with the number of its station (H.5.3)."""
    with _open(path, "timeSeriesProfile", station=3, profile=5, obs=25) as file:
        _put(file, "row_size", "profile", [5] * 5, "i4", sample_dimension="obs")
        _put(file, "station_index", "profile", [0, 1, 2, 0, 1], "i4", instance_dimension="station")
        _put(file, "z", "obs", np.arange(25) % 5 * 25.0, **_DEPTH)
        _put(file, "time", "profile", np.arange(5.0), **_TIME)
        _put_stations(file)
        _put_data(file, "obs", "time lat lon z station_name")


def write_track_profiles(path: Path) -> None:
    """Write profiles along ways (H.6.1)."""
    with _open(path, "trajectoryProfile", trajectory=2, profile=5, z=6) as file:
        _put(file, "z", "trajectory profile z", np.broadcast_to(np.arange(6) * 25.0, (2, 5, 6)), **_DEPTH)
        _put_track(file, "trajectory profile", [2, 5])
        _put_names(file, "trajectory", "ship", "trajectory_id")
        _put_data(file, "trajectory profile z", "time lat lon z")


def write_track_profiles_ragged(path: Path) -> None:
    """Write profiles one behind the other, each with the number of its way (H.6.3)."""
    with _open(path, "trajectoryProfile", trajectory=2, profile=5, obs=25) as file:
        _put(file, "row_size", "profile", [5] * 5, "i4", sample_dimension="obs")
        _put(file, "ship_index", "profile", [0, 0, 1, 1, 1], "i4", instance_dimension="trajectory")
        _put(file, "z", "obs", np.arange(25) % 5 * 25.0, **_DEPTH)
        _put_track(file, "profile", [5])
        _put_names(file, "trajectory", "ship", "trajectory_id")
        _put_data(file, "obs", "time lat lon z")


def write_mesh(path: Path) -> None:
    """Write a UGRID mesh of triangles around 0° E, with cells on faces, and ``height`` on nodes."""
    across, along = np.meshgrid(np.arange(-20.0, 21.0, 5.0), np.arange(40.0, 61.0, 5.0))
    number = np.arange(across.size).reshape(across.shape)
    lower, right, upper, both = number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]
    faces = np.concatenate([np.stack([lower, right, upper], -1), np.stack([right, both, upper], -1)]).reshape(-1, 3)
    nodes = np.stack([across.ravel() % 360.0, along.ravel()])
    middles = np.stack([across.ravel()[faces].mean(1) % 360.0, along.ravel()[faces].mean(1)])
    with _open(path, node=across.size, face=len(faces), corner=3) as file:
        topology = {
            "cf_role": "mesh_topology",
            "topology_dimension": np.int32(2),
            "node_coordinates": "node_lon node_lat",
            "face_coordinates": "face_lon face_lat",
            "face_node_connectivity": "face_nodes",
        }
        _put(file, "mesh", "", 0, "i4", **topology)
        _put(file, "face_nodes", "face corner", faces, "i4", cf_role="face_node_connectivity", start_index=np.int32(0))
        for kind, (east, north) in (("node", nodes), ("face", middles)):
            _put(file, f"{kind}_lon", kind, east, **_LON)
            _put(file, f"{kind}_lat", kind, north, **_LAT)
        _put(file, "t", "face", middles[1] - 30.0, "f4", FILL, **_DATA, mesh="mesh", location="face")
        _put(file, "height", "node", nodes[1] * 10.0, "f4", mesh="mesh", location="node", units="m")


def _put_rotated(file: Any) -> tuple[Any, Any]:
    """Write the axes of a grid with a rotated pole, and the mapping; return longitudes and latitudes of its cells."""
    rows, columns = np.linspace(-9.0, 9.0, 10), np.linspace(-12.0, 12.0, 13)
    _put(file, "rlat", "rlat", rows, units="degrees", standard_name="grid_latitude", axis="Y")
    _put(file, "rlon", "rlon", columns, units="degrees", standard_name="grid_longitude", axis="X")
    pole = {"grid_north_pole_latitude": 37.5, "grid_north_pole_longitude": 177.5}
    _put(file, "crs", "", 0, "i4", grid_mapping_name="rotated_latitude_longitude", **pole)
    east, north = np.meshgrid(np.radians(columns), np.radians(rows))
    tilt = np.radians(90.0 - 37.5)  # the grid's equator crosses 0 there, on the meridian against that of its pole
    x, y, z = np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)
    x, z = np.cos(tilt) * x - np.sin(tilt) * z, np.sin(tilt) * x + np.cos(tilt) * z
    return np.degrees(np.arctan2(y, x)) + 177.5 - 180.0, np.degrees(np.arcsin(z))


def write_rotated(path: Path) -> None:
    """Write a grid with a rotated pole, with longitudes and latitudes of its cells (5.6, appendix F)."""
    with _open(path, rlat=10, rlon=13) as file:
        longitudes, latitudes = _put_rotated(file)
        _put(file, "lat", "rlat rlon", latitudes, **_LAT)
        _put(file, "lon", "rlat rlon", longitudes, **_LON)
        _put_data(file, "rlat rlon", "lat lon", grid_mapping="crs")


def write_rotated_alone(path: Path) -> None:
    """Write a grid with a rotated pole of which the mapping alone says where the cells lie."""
    with _open(path, rlat=10, rlon=13) as file:
        _put_rotated(file)
        shape = (10, 13)
        cells = np.linspace(20.0, 4.0, 130).reshape(shape)
        _put(file, "t", "rlat rlon", cells, "f4", FILL, **_DATA, grid_mapping="crs")


def write_curved(path: Path) -> None:
    """Write a grid whose longitudes and latitudes have two dimensions (5.2)."""
    with _open(path, time=2, y=8, x=10) as file:
        along, across = np.meshgrid(np.linspace(0.0, 1.0, 8), np.linspace(0.0, 1.0, 10), indexing="ij")
        _put(file, "time", "time", [0.0, 24.0], **_TIME)
        _put(file, "lat", "y x", 40.0 + 20.0 * along + 5.0 * across, **_LAT)
        _put(file, "lon", "y x", (-20.0 + 40.0 * across - 8.0 * along) % 360.0, **_LON)
        _put_data(file, "time y x", "lat lon")


def write_hybrid(path: Path) -> None:
    """Write levels of a hybrid pressure coordinate with bounds and all their terms (4.3.3, appendix D)."""
    with _open(path, time=2, lev=5, lat=4, lon=6, bnds=2) as file:
        edges = np.linspace(0.0, 1.0, 6)
        middles, bounds = (edges[1:] + edges[:-1]) / 2, np.stack([edges[:-1], edges[1:]], 1)
        names = {"units": "1", "standard_name": "atmosphere_hybrid_sigma_pressure_coordinate", "positive": "down"}
        _put(file, "time", "time", [0.0, 24.0], **_TIME)
        _put(file, "lev", "lev", middles, **names, axis="Z", bounds="lev_bnds", formula_terms="a: a b: b ps: ps p0: p0")
        _put(file, "lev_bnds", "lev bnds", bounds, formula_terms="a: a_bnds b: b_bnds ps: ps p0: p0")
        for name, cells, corners in (("a", (1 - middles) / 10, (1 - bounds) / 10), ("b", middles, bounds)):
            _put(file, name, "lev", cells, bounds=f"{name}_bnds")
            _put(file, f"{name}_bnds", "lev bnds", corners)
        _put(file, "p0", "", 1e5, units="Pa")
        _put(file, "ps", "time lat lon", 1e5 + np.arange(48.0).reshape(2, 4, 6), units="Pa")
        _put(file, "lat", "lat", [-45.0, -15.0, 15.0, 45.0], **_LAT)
        _put(file, "lon", "lon", np.arange(6) * 60.0, **_LON)
        shape = (2, 5, 4, 6)
        cells = np.linspace(20.0, 4.0, 240).reshape(shape)
        _put(file, "t", "time lev lat lon", cells, "f4", FILL, **_DATA)


FILES: dict[str, Callable[[Path], None]] = {
    name.removeprefix("write_"): write for name, write in sorted(globals().items()) if name.startswith("write_")
}
