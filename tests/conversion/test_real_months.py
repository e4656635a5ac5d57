"""Two years of real months, each in a file that netCDF4 wrote, whose times are counted from its own first day: joined,
virtual and copied they are one dataset, by every way that one may read it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import iris_sample_data
import netCDF4
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.stores.repository_buckets import usual_credentials
from old_peers import reads_zarr

MONTHS = 24
REAL = Path(iris_sample_data.path) / "ostia_monthly.nc"
"""Temperatures of the sea around the equator, a mean for each month from April 2006 on."""
NAME = "surface_temperature"
FORMS = ("joined", "all.json", "all.parquet", "repository", "copy.zarr")


def write_month(path: Path, number: int) -> None:
    """Write one time of the real file with all that belongs to it, counted in days from the first one of its month."""
    with netCDF4.Dataset(REAL) as source, netCDF4.Dataset(path, "w") as file:
        source.set_auto_maskandscale(False)
        file.set_auto_maskandscale(False)
        epoch = netCDF4.num2date(source["time"][number], source["time"].units).replace(day=1, hour=0, minute=0)
        units = f"hours since {epoch.strftime('%Y-%m-%d')}"
        earlier = netCDF4.date2num(epoch, source["time"].units)
        for name, dimension in source.dimensions.items():
            file.createDimension(name, None if name == "time" else len(dimension))
        for name, variable in source.variables.items():
            attrs = {key: variable.getncattr(key) for key in variable.ncattrs()}
            how: dict[str, Any] = {"zlib": True, "chunksizes": (1, 18, 432)} if name == NAME else {}
            made = file.createVariable(
                name, variable.dtype, variable.dimensions, fill_value=attrs.pop("_FillValue", None), **how
            )
            cells = variable[number : number + 1] if "time" in variable.dimensions else variable[...]
            if name in ("time", "time_bnds"):
                cells = cells - earlier
                attrs = attrs | {"units": units} if name == "time" else attrs
            made.setncatts(attrs)
            made[...] = cells


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the months, and with everything that is made of them."""
    folder = tmp_path_factory.mktemp("archive")
    (folder / "files").mkdir()
    for number in range(MONTHS):
        write_month(folder / "files" / f"{number:02d}.nc", number)
    files = f"{folder}/files/*.nc"
    for name in FORMS[1:4]:
        report = hs.virtual(files, target_of(folder, name), along="time", relative=False)
        assert (report.files, report.references) == (MONTHS, MONTHS)
    hs.convert(files, folder / "copy.zarr", along="time", verify=True)
    yield folder


def target_of(folder: Path, form: str) -> str:
    """What a user gives to ``hs.open`` and to the commands."""
    if form == "joined":
        return f"{folder}/files/*.nc"
    return f"icechunk+file://{folder}/repository" if form == "repository" else str(folder / form)


def allowed_of(folder: Path, form: str) -> dict[str, Any]:
    """The places that a repository of icechunk needs to be allowed."""
    return {"allow_external": str(folder / "files")} if form == "repository" else {}


@pytest.fixture(scope="module")
def real() -> xr.Dataset:
    """The same months in the one file that they come from, by xarray and netCDF4."""
    with xr.open_dataset(REAL, engine="netcdf4") as data:
        return data.isel(time=slice(0, MONTHS)).load()


def same(found: xr.Dataset, real: xr.Dataset) -> None:
    """Every variable has the cells of the real file, times the same dates."""
    assert sorted(found.variables) == sorted(real.variables)
    for name, variable in real.variables.items():
        assert found[name].dims == variable.dims
        np.testing.assert_array_equal(found[name].values, variable.values, err_msg=str(name))


@pytest.mark.parametrize("form", FORMS)
def test_by_hyperslab(archive: Path, real: xr.Dataset, form: str) -> None:
    root = hs.open(target_of(archive, form), **allowed_of(archive, form))
    array = root[NAME]
    with netCDF4.Dataset(REAL) as file:
        file.set_auto_mask(False)
        np.testing.assert_array_equal(array[...], file[NAME][:MONTHS])
    assert array.shape == (MONTHS, 18, 432) and array.units == "K"
    spring: dict[str, Any] = {"time": slice("2007-03-01", "2007-05-31"), "latitude": slice(-2.0, 2.0)}
    np.testing.assert_array_equal(array.decoded().sel(**spring), real[NAME].sel(**spring).values)
    np.testing.assert_array_equal(root["time"].decoded()[...], real.time.values)


@pytest.mark.parametrize("form", FORMS)
def test_by_the_engine_of_xarray(archive: Path, real: xr.Dataset, form: str) -> None:
    target = target_of(archive, form)
    place: Any = sorted((archive / "files").glob("*.nc")) if form == "joined" else target
    with xr.open_dataset(place, engine="hyperslab", **allowed_of(archive, form)) as found:
        same(found, real)


def test_by_fsspec(archive: Path, real: xr.Dataset) -> None:
    """JSON; Parquet needs fastparquet: tests/interop/test_virtual_peers.py."""
    storage = {"fo": str(archive / "all.json"), "remote_protocol": "file", "asynchronous": True}
    with xr.open_dataset(
        "reference://",
        engine="zarr",
        backend_kwargs={"consolidated": False, "storage_options": storage},
        chunks=None,
    ) as found:
        same(found, real)


@reads_zarr
@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in")
def test_by_icechunk(archive: Path, real: xr.Dataset) -> None:
    icechunk = pytest.importorskip("icechunk")
    storage = icechunk.local_filesystem_storage(str(archive / "repository"))
    access = {f"file://{archive}/files/": usual_credentials(icechunk, "file:///")}
    session = icechunk.Repository.open(storage, authorize_virtual_chunk_access=access).readonly_session("main")
    with xr.open_zarr(session.store, consolidated=False, chunks=None) as found:
        same(found, real)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize("form", FORMS)
def test_by_dask(archive: Path, real: xr.Dataset, form: str, scheduler: str) -> None:
    lazy = hs.open(target_of(archive, form), **allowed_of(archive, form))[NAME].to_dask()
    assert lazy.numblocks == ((1 if form == "copy.zarr" else MONTHS), 1, 1)
    settings = {"num_workers": 2, "multiprocessing.context": "spawn"}
    with dask.config.set(scheduler=scheduler, **settings):
        sums, cells = dask.compute(lazy.sum(axis=(1, 2), dtype="f8"), lazy[5:7])
    expected = real[NAME].fillna(np.float32(1e20)).values
    np.testing.assert_allclose(sums, expected.sum(axis=(1, 2), dtype="f8"))
    np.testing.assert_array_equal(cells, expected[5:7])


@pytest.mark.parametrize("form", FORMS[1:])
def test_by_commands(archive: Path, real: xr.Dataset, form: str) -> None:
    run = CliRunner().invoke
    target, places = target_of(archive, form), ["--allow-external", str(archive / "files")]
    is_repository = form == "repository"
    places, places_b = (places, ["--b-option", f"allow_external={archive}/files"]) if is_repository else ([], [])
    joined = target_of(archive, "joined")
    got = [
        run(main, ["get", place, NAME, "-s", "time=2007-04-16", "--json", *more])
        for place, more in ((joined, []), (target, places))
    ]
    assert [each.exit_code for each in got] == [0, 0], got[-1].output
    cells = [np.array(json.loads(each.stdout)["values"], "f4").ravel() for each in got]
    np.testing.assert_array_equal(cells[0], cells[1])
    differs = run(main, ["diff", joined, target, *places_b])
    assert (differs.exit_code, differs.stdout) == (0, ""), differs.output
    assert run(main, ["check", target, "--deep", *places]).exit_code == 0
