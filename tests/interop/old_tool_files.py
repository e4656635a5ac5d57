"""The files that tasks of nco and cdo are tried on: real ones, and those of one model that netCDF4 writes here."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

REAL = {"america.nc": "A1B_north_america.nc", "ostia.nc": "ostia_monthly.nc", "orca.nc": "orca2_votemper.nc"}
DAYS, LEVELS = 730, (850.0, 500.0, 250.0)
_EARTH = 6371229.0


@dataclass(frozen=True)
class Grid:
    """A globe of cells of ``15 / finer`` by ``10 / finer`` degrees."""

    finer: int = 1

    @property
    def half(self) -> tuple[float, float]:
        """Half the height and width of a cell, in degrees."""
        return 7.5 / self.finer, 5.0 / self.finer

    @property
    def latitudes(self) -> np.ndarray[Any, Any]:
        """The middles of the rows."""
        return np.arange(12 * self.finer) * 15.0 / self.finer - 90.0 + self.half[0]

    @property
    def longitudes(self) -> np.ndarray[Any, Any]:
        """The middles of the columns."""
        return np.arange(36 * self.finer) * 10.0 / self.finer

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return 12 * self.finer, 36 * self.finer


def make_files(folder: Path, finer: int = 1) -> None:
    """Write all of them into the folder, where nothing is to be changed; air.nc has 7.6 MB times ``finer`` squared."""
    grid = Grid(finer)
    import iris_sample_data

    for name, source in REAL.items():
        shutil.copyfile(Path(iris_sample_data.path) / source, folder / name)
    _write_air(grid, folder / "air.nc", slice(0, DAYS))
    _write_air(grid, folder / "classic.nc", slice(0, 20), model="NETCDF3_CLASSIC")
    _write_air(grid, folder / "year_2013.nc", slice(0, 365), levels=1)
    _write_air(grid, folder / "year_2014.nc", slice(365, DAYS), levels=1)
    _write_air(grid, folder / "air_plain.nc", slice(0, 5))
    _write_air(grid, folder / "air_groups.nc", slice(0, 5), group="model")
    _write_air(grid, folder / "changed.nc", slice(0, DAYS), warmer=1.0)
    _write_hourly(grid, folder / "hourly.nc")
    _write_packed(grid, folder / "packed.nc")
    _cut_orca(folder / "orca.nc", folder / "orca_cut.nc")
    for path in folder.iterdir():
        path.chmod(0o444)


def _put(
    file: Any, name: str, kind: str, dims: Sequence[str], cells: object, fill: object = None, **attrs: object
) -> None:
    variable = file.createVariable(name, kind, tuple(dims), fill_value=fill)
    variable.setncatts(attrs)
    variable[...] = cells


def _put_grid(grid: Grid, file: Any, times: np.ndarray[Any, Any], step: float, units: str) -> None:
    file.createDimension("time", None)
    (lat_half, lon_half), latitudes = grid.half, grid.latitudes
    file.createDimension("lat", grid.shape[0])
    file.createDimension("lon", grid.shape[1])
    file.createDimension("bnds", 2)
    clock = {"units": units, "calendar": "standard", "standard_name": "time", "axis": "T"}
    _put(file, "time", "f8", ["time"], times + step / 2, bounds="time_bnds", **clock)
    _put(file, "time_bnds", "f8", ["time", "bnds"], np.stack([times, times + step], 1))
    for name, at, half, long, axis in (
        ("lat", latitudes, lat_half, "latitude", "Y"),
        ("lon", grid.longitudes, lon_half, "longitude", "X"),
    ):
        unit = "degrees_north" if name == "lat" else "degrees_east"
        _put(file, name, "f8", [name], at, units=unit, standard_name=long, axis=axis, bounds=f"{name}_bnds")
        _put(file, f"{name}_bnds", "f8", [name, "bnds"], np.stack([at - half, at + half], 1))
    rows = np.diff(np.sin(np.radians(np.stack([latitudes - lat_half, latitudes + lat_half], 1))), axis=1)
    area = np.broadcast_to(_EARTH**2 * np.radians(2 * lon_half) * rows, grid.shape)
    _put(file, "area", "f8", ["lat", "lon"], area, units="m2", standard_name="cell_area")


def _write_air(
    grid: Grid,
    path: Path,
    days: slice,
    *,
    levels: int = 3,
    model: str = "NETCDF4",
    group: str = "",
    warmer: float = 0.0,
) -> None:
    """Write temperature on levels, two winds and a pressure with missing cells, daily from 2013 on."""
    random = np.random.default_rng(22)
    times = np.arange(float(DAYS))
    shape = (DAYS, 3, *grid.shape)
    warmth = (
        288.0 - 30.0 * np.sin(np.radians(grid.latitudes))[:, None] ** 2 - np.array([0.0, 30.0, 60.0])[:, None, None]
    )
    t = warmth + 10.0 * np.sin(times * 2 * np.pi / 365)[:, None, None, None] + random.normal(0.0, 3.0, shape) + warmer
    winds = random.normal(5.0, 8.0, (2, DAYS, *shape[2:]))
    pressure = np.ma.masked_where(random.random(winds[0].shape) < 0.02, random.normal(1000.0, 12.0, winds[0].shape))
    with netCDF4.Dataset(path, "w", format=model) as root:
        root.setncatts({"Conventions": "CF-1.8", "title": "made for tests", "history": "made"})
        file = root.createGroup(group) if group else root
        _put_grid(grid, file, times[days], 1.0, "days since 2013-01-01")
        file.createDimension("level", levels)
        height = {"units": "hPa", "standard_name": "air_pressure", "positive": "down", "axis": "Z"}
        _put(file, "level", "f8", ["level"], LEVELS[:levels], **height)
        field = ["time", "lat", "lon"]
        temperature = {"units": "K", "standard_name": "air_temperature", "long_name": "temperature"}
        about = {"cell_methods": "time: mean", "cell_measures": "area: area"}
        _put(file, "t", "f4", ["time", "level", "lat", "lon"], t[days, :levels], **temperature, **about)
        for name, wind, direction in zip("uv", winds, ("eastward", "northward"), strict=True):
            _put(file, name, "f4", field, wind[days], units="m s-1", standard_name=f"{direction}_wind")
        _put(
            file,
            "ps",
            "f4",
            field,
            pressure[days],
            np.float32(-9999),
            units="hPa",
            standard_name="surface_air_pressure",
            cell_measures="area: area",
        )


def _write_hourly(grid: Grid, path: Path) -> None:
    random = np.random.default_rng(23)
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions = "CF-1.8"
        _put_grid(grid, file, np.arange(240.0), 1.0, "hours since 2013-01-01")
        rain = random.gamma(2.0, 1.0, (240, *grid.shape))
        _put(file, "rain", "f4", ["time", "lat", "lon"], rain, units="mm h-1", standard_name="rainfall_rate")


def _write_packed(grid: Grid, path: Path) -> None:
    random = np.random.default_rng(24)
    with netCDF4.Dataset(path, "w") as file:
        file.Conventions = "CF-1.8"
        _put_grid(grid, file, np.arange(20.0), 1.0, "days since 2013-01-01")
        variable = file.createVariable("t", "i2", ("time", "lat", "lon"), fill_value=-32768)
        variable.setncatts({"units": "K", "scale_factor": np.float32(0.01), "add_offset": np.float32(280.0)})
        cells = np.ma.array(random.normal(280.0, 20.0, (20, *grid.shape)))
        cells[0, 0, :3] = np.ma.masked
        variable[...] = cells


def _cut_orca(source: Path, target: Path) -> None:
    """Write a part of a curved grid of the ocean, in which no longitude jumps, without time, which cdo takes for its
    first dimension."""
    with netCDF4.Dataset(source) as old, netCDF4.Dataset(target, "w") as new:
        new.Conventions = "CF-1.8"
        rows, columns = slice(85, 125), slice(105, 145)
        new.createDimension("y", 40)
        new.createDimension("x", 40)
        for name in ("nav_lat", "nav_lon"):
            unit = "degrees_north" if name == "nav_lat" else "degrees_east"
            long = "latitude" if name == "nav_lat" else "longitude"
            _put(new, name, "f4", ["y", "x"], old[name][rows, columns], units=unit, standard_name=long)
        water = {"units": "degC", "standard_name": "sea_water_potential_temperature", "coordinates": "nav_lat nav_lon"}
        _put(new, "votemper", "f4", ["y", "x"], old["votemper"][rows, columns], np.float32(1e20), **water)
