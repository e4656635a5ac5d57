"""Packed cells are decoded once, and nobody takes stored numbers for physical ones."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from command_line import run

PACKED = np.array([0, 100, -32767], "i2")
PHYSICAL = [270.0, 289.27, np.nan]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    packing = {"scale_factor": 0.1927, "add_offset": 270.0, "_FillValue": np.int16(-32767), "units": "K"}
    with hs.create(tmp_path / "s.nc") as root:
        root.create_array("time", data=np.arange(3), dims=("time",), attrs={"units": "days since 2000-01-01"})
        limits = {"valid_min": np.int16(-100), "valid_range": np.array([-100, 200], "i2")}
        root.create_array("t", data=PACKED, dims=("time",), attrs=packing | limits)
        root.create_array("when", data=np.arange(3), dims=("time",), attrs={"units": "hours since 2000-01-01"})
    return tmp_path / "s.nc"


@pytest.mark.parametrize("ending", [".nc", ".zarr"])
def test_decoded_cells_are_written_without_their_packing(tmp_path: Path, source: Path, ending: str) -> None:
    out = tmp_path / f"out{ending}"
    assert run("get", source, "t", "--decoded", "-o", out).exit_code == 0
    with hs.open(out) as root:
        np.testing.assert_allclose(root["t"][...], PHYSICAL)
        np.testing.assert_allclose(root["t"].decoded()[...], PHYSICAL)
        assert not {"scale_factor", "add_offset", "missing_value"} & set(root["t"].attrs)
        np.testing.assert_allclose(root["t"].attrs["valid_range"], [250.73, 308.54])
        np.testing.assert_allclose(root["t"].attrs["valid_min"], 250.73)
    engine: dict[str, Any] = {} if ending == ".nc" else {"engine": "zarr", "consolidated": False}
    with xr.open_dataset(out, **engine) as dataset:
        np.testing.assert_allclose(dataset["t"].values, PHYSICAL)
        assert dataset["time"].values[1] == np.datetime64("2000-01-02")


@pytest.mark.parametrize("ending", [".nc", ".zarr"])
def test_decoded_times_stay_times(tmp_path: Path, source: Path, ending: str) -> None:
    out = tmp_path / f"out{ending}"
    result = run("get", source, "when", "--decoded", "-o", out)
    assert result.exit_code == 0, result.stderr
    assert hs.open(out)["when"].decoded()[1] == np.datetime64("2000-01-01T01:00")


@pytest.mark.parametrize("ending", [".nc", ".zarr"])
def test_stored_cells_are_written_with_what_unpacks_them(tmp_path: Path, source: Path, ending: str) -> None:
    hs.convert(source, tmp_path / "s2.zarr", format="zarr2")
    text = (tmp_path / "s2.zarr/t/.zattrs").read_text()
    (tmp_path / "s2.zarr/t/.zattrs").write_text(
        json.dumps({name: value for name, value in json.loads(text).items() if name != "_FillValue"})
    )
    document = json.loads((tmp_path / "s2.zarr/t/.zarray").read_text())
    (tmp_path / "s2.zarr/t/.zarray").write_text(json.dumps(document | {"fill_value": -32767}))
    for place in (source, tmp_path / "s2.zarr"):
        out = tmp_path / f"out-{place.stem}{ending}"
        result = run("get", place, "t", "-o", out)
        assert result.exit_code == 0 and "packed" not in result.stderr
        assert hs.open(out)["t"][...].tolist() == PACKED.tolist()
        np.testing.assert_allclose(hs.open(out)["t"].decoded()[...], PHYSICAL)


def test_packed_numbers_that_are_printed_are_said_to_be_packed(tmp_path: Path, source: Path) -> None:
    for more in ([], ["--json"], ["-o", tmp_path / "t.csv"]):
        assert "--decoded" in run("get", source, "t", *more).stderr
    assert "packed" not in run("get", source, "t", "--decoded").stderr
    assert "packed" not in run("get", source, "time").stderr


@pytest.fixture
def pieces(tmp_path: Path) -> str:
    """Write two files that pack cells differently; return the pattern of both."""
    for number, scale in enumerate((0.5, 0.25)):
        with hs.create(tmp_path / f"piece{number}.nc") as root:
            attrs = {"units": "days since 2000-01-01"}
            root.create_array("time", data=np.arange(2) + 2 * number, dims=("time",), attrs=attrs)
            packing = {"scale_factor": scale, "add_offset": 270.0, "_FillValue": np.int16(-1), "units": "K"}
            root.create_array("t", data=np.array([4, -1], "i2"), dims=("time",), attrs=packing)
    return str(tmp_path / "piece*.nc")


def test_commands_join_what_is_packed_differently(tmp_path: Path, pieces: str) -> None:
    out = str(tmp_path / "out.nc")
    for command in (["stats"], ["get", "t"], ["info"], ["aggregate", out, "--how", "mean", "--over", "time"]):
        refused = run(command[0], pieces, *command[1:])
        assert refused.exit_code == 2 and "--packing decoded" in refused.stderr
        assert run(command[0], pieces, *command[1:], "--packing", "decoded").exit_code == 0
    assert "272" in run("get", pieces, "t", "--packing", "decoded", "-s", "time=0").output
    found = json.loads(run("stats", pieces, "t", "--packing", "decoded", "--json").output)["arrays"][0]["rows"][0]
    assert (found["cells"], found["missing"], found["min"], found["max"]) == (4, 2, 271.0, 272.0)
    with hs.open(out) as root:
        assert root["t"][...] == 271.5
    assert run("plot", pieces, "t", "--packing", "decoded", "-o", tmp_path / "t.png").exit_code == 0


def test_other_units_are_of_decoded_cells(tmp_path: Path, source: Path) -> None:
    """The stored numbers of packed cells are the same in every unit."""
    found = run("get", source, "t", "--units", "t=degC", "--json")
    assert found.exit_code == 0, found.stderr
    np.testing.assert_allclose(json.loads(found.output)["values"][:2], np.subtract(PHYSICAL[:2], 273.15))
    assert run("get", source, "t", "--units", "t=degC", "-o", tmp_path / "c.csv").exit_code == 0
    last = (tmp_path / "c.csv").read_text().splitlines()[2].split(",")[-1]
    assert float(last) == pytest.approx(289.27 - 273.15)
    assert run("get", source, "t", "--units", "t=degC", "-o", tmp_path / "c.nc").exit_code == 0
    with hs.open(tmp_path / "c.nc") as root:
        np.testing.assert_array_equal(root["t"][...], PACKED)
        np.testing.assert_allclose(root["t"].decoded()[...], np.subtract(PHYSICAL, 273.15))


def test_numbers_at_a_glance_are_in_other_units(source: Path) -> None:
    found = json.loads(run("stats", source, "t", "--units", "t=degC", "--json").output)["arrays"][0]
    assert found["units"] == "degC"
    assert found["rows"][0]["max"] == pytest.approx(289.27 - 273.15)
    other = run("stats", source, "t", "--units", "t=degC", "--scheduler", "tcp://127.0.0.1:1")
    assert other.exit_code == 8 and "--units" in other.stderr


def test_packing_of_one_dataset_changes_nothing(source: Path) -> None:
    """Also of the place of an array in one."""
    for place in ([source, "t"], [f"{source}/t"]):
        plain, found = run("get", *place), run("get", *place, "--packing", "decoded")
        assert (found.exit_code, found.stdout) == (0, plain.stdout), found.stderr
