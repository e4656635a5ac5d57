"""Every netCDF file of iris-sample-data through Zarr v2, Zarr v3 and sharded Zarr v3, and back: nothing may change.

netCDF4 and xarray are black boxes here: they read the files before and after.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import netCDF4
import numpy as np
import pytest
import xarray

import hyperslab as hs
from hyperslab.conversion.pipeline import convert
from programs import COMMAND, ran

pytestmark = pytest.mark.sampled(2)

_SPEC = find_spec("iris_sample_data")
FILES = sorted(Path(str(_SPEC.origin)).parent.glob("sample_data/*.nc")) if _SPEC else []
ROUTES: dict[str, dict[str, Any]] = {
    "zarr2": {"format": "zarr2"},
    "zarr3": {"format": "zarr3"},
    "sharded": {"format": "zarr3", "shards": "auto", "chunks": "auto"},
}
A1B = next((path for path in FILES if path.name == "A1B_north_america.nc"), None)


def test_the_sample_data_is_there() -> None:
    assert len(FILES) == 12


def _raw(path: Path) -> netCDF4.Dataset:
    """Open a copy of the file: HDF5 2.2.0 ends the process, tests later, where a file with text was open twice."""
    with TemporaryDirectory() as folder:
        dataset = netCDF4.Dataset(shutil.copy(path, folder))
    dataset.set_auto_maskandscale(False)
    dataset.set_auto_chartostring(False)
    return dataset


def _groups(group: Any) -> Iterator[Any]:
    yield group
    for child in group.groups.values():
        yield from _groups(child)


def _attributes(node: Any) -> list[tuple[str, str, Any]]:
    found = []
    for name in node.ncattrs():
        value = node.getncattr(name)
        kind = str(value.dtype) if isinstance(value, np.ndarray | np.generic) else type(value).__name__
        found.append((name, kind, np.asarray(value).tolist()))
    return sorted(found, key=lambda entry: entry[0])


def _same_bits(a: Any, b: Any) -> bool:
    a, b = np.ma.getdata(a), np.ma.getdata(b)
    if a.dtype == object:
        return bool(a.shape == b.shape and all(np.array_equal(x, y) for x, y in zip(a.flat, b.flat, strict=True)))
    return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())


def _assert_same_file(before: Path, after: Path) -> None:
    with _raw(before) as old, _raw(after) as new:
        for a, b in zip(_groups(old), _groups(new), strict=True):
            assert a.path == b.path
            assert _attributes(a) == _attributes(b)
            dims = [(dim.name, dim.size, dim.isunlimited()) for dim in a.dimensions.values()]
            assert dims == [(dim.name, dim.size, dim.isunlimited()) for dim in b.dimensions.values()]
            assert sorted(a.variables) == sorted(b.variables)
            for name, variable in a.variables.items():
                twin = b.variables[name]
                assert (variable.dtype, variable.dimensions) == (twin.dtype, twin.dimensions), name
                assert _attributes(variable) == _attributes(twin), name
                assert _same_bits(variable[...], twin[...]), name


@pytest.mark.sampled(20)
@pytest.mark.covering
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_there_and_back(path: Path, route: str, tmp_path: Path) -> None:
    there, back = tmp_path / "there.zarr", tmp_path / "back.nc"
    first = convert(path, there, verify=True, **ROUTES[route])
    assert not first.losses
    assert first.verified is not None and first.verified.cells > 0
    with _raw(path) as source, hs.open(there) as root:
        for group in _groups(source):
            for name, variable in group.variables.items():
                array = root[f"{group.path}/{name}"]
                assert array.dims == variable.dimensions
                cells = np.asarray(array[...]) if variable.dtype is not str else np.asarray(array[...]).astype(object)
                assert _same_bits(variable[...], cells), name
    second = convert(there, back, verify=True)
    assert not second.losses
    _assert_same_file(path, back)


def _hyperslab(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return ran(COMMAND, *arguments, folder=cwd)


def _by_netcdf4(path: Path) -> np.ndarray[Any, Any]:
    """The same cells, found by netCDF4 and cftime."""
    with _raw(path) as dataset:
        time = dataset["time"]
        dates = netCDF4.num2date(time[...], time.units, time.calendar)
        assert time.calendar == "360_day"
        chosen = [i for i, date in enumerate(dates) if 1900 <= date.year <= 1910]
        latitude = int(np.flatnonzero(dataset["latitude"][...] == 50.0)[0])
        longitude = int(np.flatnonzero(dataset["longitude"][...] == 260.625)[0])
        cells: np.ndarray[Any, Any] = dataset["air_temperature"][chosen, latitude, longitude]
        return cells


def test_the_show_on_the_command_line(tmp_path: Path) -> None:
    assert A1B is not None
    made = _hyperslab("convert", str(A1B), "a1b.zarr", "--verify", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    place = ["-s", "latitude=50.0", "-s", "time=1900-01..1910-12"]
    got = _hyperslab("get", "a1b.zarr", "air_temperature", *place, "-s", "longitude=260.625", "--json", cwd=tmp_path)
    assert got.returncode == 0, got.stderr
    document = json.loads(got.stdout)
    wanted = _by_netcdf4(A1B)
    assert len(wanted) == 11
    assert np.asarray(document["values"], "f4").tobytes() == wanted.tobytes()
    assert document["coordinates"]["time"][0].startswith("1900-")
    wrong = _hyperslab("get", "a1b.zarr", "air_temperature", *place, "-s", "longitude=260.0", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "258.75" in wrong.stderr and "260.625" in wrong.stderr


def test_the_show_is_what_xarray_reads(tmp_path: Path) -> None:
    assert A1B is not None
    convert(A1B, tmp_path / "a1b.zarr")
    with xarray.open_dataset(A1B) as dataset, hs.open(tmp_path / "a1b.zarr") as root:
        there = dataset.air_temperature.sel(latitude=50.0, longitude=260.625, time=slice("1900-01", "1910-12"))
        ours = root["air_temperature"].sel(latitude=50.0, longitude=260.625, time=slice("1900-01", "1910-12"))
        assert np.array_equal(ours, there.values)


def test_a_selection_is_what_netcdf4_reads(tmp_path: Path) -> None:
    assert A1B is not None
    chosen = {"latitude": slice(40.0, 50.0), "longitude": 260.625, "time": slice(40, 60, 2)}
    convert(A1B, tmp_path / "part.nc", select=chosen, verify=True)
    with _raw(A1B) as source, _raw(tmp_path / "part.nc") as part:
        latitudes = source["latitude"][...]
        rows = np.flatnonzero((latitudes >= 40) & (latitudes <= 50))
        column = int(np.flatnonzero(source["longitude"][...] == 260.625)[0])
        wanted = source["air_temperature"][40:60:2, rows, column]
        assert part["air_temperature"].dimensions == ("time", "latitude")
        assert part["air_temperature"][...].tobytes() == wanted.tobytes()
        assert part["longitude"].dimensions == () and part["longitude"][...] == 260.625
        assert part["latitude"][...].tolist() == latitudes[rows].tolist()
