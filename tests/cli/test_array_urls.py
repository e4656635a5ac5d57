"""The URL of an array keeps the labels of its group; info tells units and the dimensions of groups below."""

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "nczarr"])
def test_an_arrays_url_keeps_its_labels(tmp_path: Path, format: str) -> None:
    with hs.create(tmp_path / "era.zarr", format=format) as root:
        root.create_array("lat", data=np.array([10.0, 20.0, 30.0]), dims=("lat",), units="degrees_north")
        root.create_array("t", data=np.arange(3.0), dims=("lat",), units="K")
    command = ["get", str(tmp_path / "era.zarr/t"), "-s", "lat=20.0..30.0"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.split() == ["lat", "t", "20.0", "1.0", "30.0", "2.0"]


def test_info_tells_units_and_dimensions_of_groups(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", data=np.arange(3.0), dims=("lat",), units="K")
        root.create_array("g/v", data=np.zeros((2, 3)), dims=("level", "lat"))
    said = CliRunner().invoke(main, ["info", str(tmp_path / "a.zarr")]).stdout
    assert "units: /t K" in said
    assert "dimensions: lat: 3, g/level: 2" in said
    said = CliRunner().invoke(main, ["info", str(tmp_path / "a.zarr/g/v")]).stdout.splitlines()
    assert said[0].startswith(f"{tmp_path / 'a.zarr/g/v'}: zarr3, ")
    assert said[1] == "dimensions: level: 2, lat: 3"
    assert said[3].startswith("/g/v ") and len(said) == 4
    with hs.open(tmp_path / "a.zarr", mode="r+") as root:
        for number in range(20):
            root.create_array(f"g{number}/v", data=np.zeros(1), dims=("x",))
    said = CliRunner().invoke(main, ["info", str(tmp_path / "a.zarr")]).stdout.splitlines()
    assert said[1].startswith("dimensions: lat: 3, g/level: 2, g0/x: 1, ")
    assert said[1].endswith(", … (10 more, below)") and said[1].count("/x") == 10
