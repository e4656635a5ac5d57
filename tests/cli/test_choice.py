"""-v, -x and --where: which variables the commands take, and what comes along."""

from __future__ import annotations

import json
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray as xr
from click.testing import Result

import hyperslab as hs
from command_line import run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Temperature and wind over time, latitude and longitude with bounds, heights in a group, one variable apart."""
    with netCDF4.Dataset(tmp_path / "model.nc", "w") as file:
        file.Conventions = "CF-1.8"
        for name, size in (("time", None), ("lat", 3), ("lon", 4), ("two", 2), ("station", 5)):
            file.createDimension(name, size)
        lat = file.createVariable("lat", "f8", ("lat",))
        lat.units, lat.bounds, lat[:] = "degrees_north", "lat_bnds", [10, 20, 30]
        file.createVariable("lat_bnds", "f8", ("lat", "two"))[:] = [[5, 15], [15, 25], [25, 35]]
        lon = file.createVariable("lon", "f8", ("lon",))
        lon.units, lon[:] = "degrees_east", [0, 90, 180, 270]
        time = file.createVariable("time", "i4", ("time",))
        time.units = "days since 2000-01-01"
        file.createVariable("crs", "i4", ()).grid_mapping_name = "latitude_longitude"
        for number, (name, units, standard) in enumerate(
            (("t", "K", "air_temperature"), ("u", "m s-1", "eastward_wind"), ("v", "m s-1", "northward_wind"))
        ):
            cells = file.createVariable(name, "f4", ("time", "lat", "lon"))
            cells.units, cells.standard_name, cells.grid_mapping = units, standard, "crs"
            cells[:] = np.arange(24).reshape(2, 3, 4) + 100 * number
        time[:] = [0, 1]
        file.createVariable("rain", "f4", ("station",))[:] = np.arange(5)
        ocean = file.createGroup("ocean")
        ocean.createDimension("depth", 2)
        ocean.createVariable("t", "f4", ("depth",))[:] = [1, 2]
        ocean.createVariable("salt", "f4", ("depth",)).level = 3
    return tmp_path / "model.nc"


def convert(model: Path, *options: str) -> tuple[set[str], Result]:
    """The paths of the arrays that a conversion gives, and what it says."""
    target = model.with_suffix(".zarr")
    result = run("convert", model, target, "--verify", *options)
    assert result.exit_code == 0, result.stderr
    with hs.open(target) as root:
        found = {name for name, _ in root.arrays()} | {f"{g}/{n}" for g, sub in root.groups() for n, _ in sub.arrays()}
    return found, result


GRID = {"time", "lat", "lat_bnds", "lon", "crs"}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["-v", "u,v"], {"u", "v"} | GRID),
        (["-v", "u", "-v", "v"], {"u", "v"} | GRID),
        (["-v", "t"], {"t", "ocean/t"} | GRID),
        (["-v", "/t"], {"t"} | GRID),
        (["-v", "ocean/*"], {"ocean/t", "ocean/salt"}),
        (["-v", "**/s*"], {"ocean/salt"}),
        (["-v", "[uv]"], {"u", "v"} | GRID),
        (["-v", "u", "--alone"], {"u"}),
        (["-x", "u,v,ocean/**"], {"t", "rain"} | GRID),
        (["-v", "u", "-x", "crs"], {"u"} | GRID - {"crs"}),
        (["--where", "units=K"], {"t"} | GRID),
        (["--where", "standard_name~=*_wind"], {"u", "v"} | GRID),
        (["--where", "standard_name~=*_wind", "-x", "v"], {"u"} | GRID),
        (["--where", "level=3"], {"ocean/salt"}),
        (["--where", "level>=2.5", "--where", "or", "--where", "units=K"], {"t", "ocean/salt"} | GRID),
        (["-v", "rain"], {"rain"}),
    ],
)
def test_what_is_converted(model: Path, options: list[str], wanted: set[str]) -> None:
    found, result = convert(model, *options)
    assert found == wanted
    companions = wanted & GRID - set(options)
    told = next((line for line in result.stderr.splitlines() if line.startswith("with them: ")), "with them: ")
    if "-x" in options and "-v" not in options and "--where" not in options:
        assert told == "with them: "  # nothing is left of which it could be said
    else:
        assert set(told.removeprefix("with them: ").split(", ")) - {""} == companions


def test_the_dimensions_of_others_stay_behind(model: Path) -> None:
    convert(model, "-v", "t")
    with hs.open(model.with_suffix(".zarr")) as root:
        assert set(root.dims) == {"time", "lat", "lon", "two"} and root.dims["time"].unlimited
        assert root.attrs["Conventions"] == "CF-1.8"


def test_what_is_chosen_is_what_xarray_drops_to(model: Path) -> None:
    convert(model, "-v", "/t", "-s", "lat=10.0..20.0")
    with (
        xr.open_dataset(model, engine="netcdf4") as whole,
        xr.open_dataset(model.with_suffix(".zarr"), engine="hyperslab") as part,
    ):
        xr.testing.assert_identical(whole[["t", "lat_bnds", "crs"]].sel(lat=slice(10, 20)).load(), part.load())


def test_a_target_of_one_array(model: Path) -> None:
    target = model.with_suffix(".b2nd")
    assert run("convert", model, target, "--allow-loss", "-v", "u").exit_code == 0
    with hs.open_array(target) as array:
        assert array.name == "u" and array.shape == (2, 3, 4)


def test_python_has_the_same(model: Path) -> None:
    report = hs.convert(model, model.with_suffix(".zarr"), variables="[uv]", exclude=["u"], where={"units": "m s-1"})
    assert report.arrays == 6 and set(report.companions) == GRID
    report = hs.convert(model, model.with_suffix(".2.zarr"), variables=["t", "rain"], alone=True)
    assert report.arrays == 3 and report.companions == ()


def test_unknown_names_are_answered_with_near_ones(model: Path) -> None:
    target = model.with_suffix(".zarr")
    for options, said in (
        (["-v", "rian"], "no variable is named 'rian'"),
        (["-v", "rian"], "did you mean 'rain'?"),
        (["-x", "q*"], "no variable is named 'q*'"),
        (["-v", "ocean"], "'ocean' is a group: write ocean/** for all in it"),
        (["--where", "units=C"], "values of 'units': K, days since 2000-01-01"),
        (["--where", "unit=K"], "did you mean 'units'?"),
        (["-v", "t", "-x", "t"], "no variable is chosen"),
    ):
        result = run("convert", model, target, *options)
        assert result.exit_code == 3 and said in result.stderr, result.stderr
    assert run("convert", model, target, "--where", "units").exit_code == 2
    assert not target.exists()


def test_variables_that_cannot_be_read_hinder_no_others(model: Path) -> None:
    source = model.with_suffix(".zarr")
    hs.convert(model, source, variables=["u", "v"])
    (source / "v" / "zarr.json").write_text("{")
    (source / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    result = run("convert", source, model.with_suffix(".2.zarr"), "-v", "u")
    assert result.exit_code == 0, result.stderr
    assert run("convert", source, model.with_suffix(".3.zarr"), "-v", "v").exit_code == 5


def test_get_of_several(model: Path) -> None:
    result = run("get", model, "-v", "u,v", "-s", "time=0", "-s", "lat=20.0")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["lon", "u", "v"],
        *([str(lon), str(104.0 + number), str(204.0 + number)] for number, lon in enumerate((0.0, 90.0, 180.0, 270.0))),
    ]
    other = run("get", model, "-v", "u,rain", "-s", "time=0", "-s", "lat=0", "-s", "station=2").stdout
    assert other.splitlines()[0].split() == ["lon", "u"] and other.splitlines()[-1].split() == ["rain", "2.0"]
    whole = json.loads(run("get", model, "-v", "*", "-x", "ocean/**", "-s", "time=1", "--json").stdout)
    assert [each["path"] for each in whole["arrays"]] == ["lat_bnds", "crs", "t", "u", "v", "rain"]
    assert run("get", model, "-v", "u,v", "-s", "depth=0").exit_code == 2
    assert run("get", model, "ocean", "-v", "t").stdout.splitlines()[0].split() == ["depth", "t"]
    assert run("get", model, "u", "-v", "t").exit_code == 2


@pytest.mark.parametrize("ending", [".nc", ".zarr"])
def test_several_in_one_dataset(model: Path, ending: str) -> None:
    out = model.with_name(f"part{ending}")
    result = run("get", model, "-v", "u,v", "-s", "lat=10.0..20.0", "-o", out)
    assert result.exit_code == 0 and "32 cells of /u, /v" in result.stderr, result.stderr
    with hs.open(out) as part, hs.open(model) as whole:
        for name in "uv":
            assert np.array_equal(part[name][...], whole[name][:, :2])
            assert part[name].attrs["units"] == "m s-1"
        assert np.array_equal(part["lat"][...], [10, 20])


def test_arrays_of_one_name_are_told_apart_in_a_table(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        for group in ("a", "b"):
            root.create_group(group).create_array("t", data=[1.0], dims=("x",))
    assert run("get", str(tmp_path / "a.nc"), "-v", "t").stdout.split() == ["x", "a/t", "b/t", "0", "1.0", "1.0"]


def test_several_in_other_files(model: Path) -> None:
    table, text = model.with_name("part.csv"), model.with_name("part.json")
    assert run("get", model, "-v", "u,v", "-s", "time=0", "-o", table).exit_code == 0
    assert table.read_text().splitlines()[:2] == ["lat,lon,u,v", "10.0,0.0,100.0,200.0"]
    assert run("get", model, "-v", "u,v", "-o", text).exit_code == 0
    assert len(json.loads(text.read_text())["arrays"]) == 2
    for name, options in (("part.npy", ["-v", "u,v"]), ("q.csv", ["-v", "u,rain"]), ("q.nc", ["-v", "t"])):
        result = run("get", model, *options, "-o", model.with_name(name))
        assert result.exit_code == 2 and not model.with_name(name).exists(), result.stderr


def test_info_dump_and_diff(model: Path) -> None:
    facts = json.loads(run("info", model, "--where", "units=K", "--json").stdout)
    assert [array["path"] for array in facts["arrays"]] == ["t"]
    text = run("dump", model, "-v", "rain").stdout
    assert " rain = 0, 1, 2, 3, 4 ;" in text and "float u(time, lat, lon) ;" in text and " u =" not in text
    other = model.with_name("other.zarr")
    hs.convert(model, other)
    with hs.open(other, "r+") as root:
        root["rain"][1] = 7
        root["u"].attrs["units"] = "km h-1"
        root.attrs["title"] = "changed"
    assert run("diff", model, other).stdout.count("\n") == 3
    for options, problems in (
        (["-v", "t"], 0),
        (["-v", "rain"], 1),
        (["-x", "rain"], 1),
        (["--where", "units~=m*"], 1),
    ):
        result = run("diff", model, other, *options)
        assert result.stdout.count("\n") == problems and result.exit_code == bool(problems), result.stdout
    assert run("diff", model, other, "-v", "rian").exit_code == 3
    with hs.open(other, "r+") as root:
        del root["rain"]
    assert "only A has this node" in run("diff", model, other, "-v", "rain,u").stdout
    assert run("diff", model, other, "-v", "v").exit_code == 0


def test_minus_v_is_verbose_where_it_names_nothing(model: Path) -> None:
    for command, options in (("check", ["-v"]), ("check", ["-V"]), ("tree", ["-v"]), ("info", ["-V", "-v", "t"])):
        assert run(command, model, *options).exit_code == 0
    assert run("-v", "info", model).exit_code == 0
    assert "-V, --verbose" in run("get", "--help").stdout and "-V, -v, --verbose" in run("check", "--help").stdout


def test_what_variables_name_is_not_one_to_choose_from(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("t", data=[[1.0, 2.0]], dims=("y", "x"), attrs={"coordinates": "lat", "grid_mapping": "crs"})
        root.create_array("lat", data=[[5.0, 6.0]], dims=("y", "x"), attrs={"bounds": "lat_bnds"})
        root.create_array("lat_bnds", data=np.zeros((1, 2, 4)), dims=("y", "x", "nv"))
        root.create_array("crs", data=np.int32(0))
    assert run("get", str(tmp_path / "a.nc"), "-s", "y=0", "-s", "x=1").stdout.split()[-1] == "2.0"
    with hs.open_group(tmp_path / "a.nc", mode="r+") as root:
        root.create_array("u", data=[[1.0, 2.0]], dims=("y", "x"))
    assert "several arrays" in run("get", str(tmp_path / "a.nc")).stderr
