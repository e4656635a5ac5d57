"""A part that is written as a dataset of its own speaks of no variables that it leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hyperslab as hs
from hyperslab.cli import main


@pytest.mark.parametrize("ending", [".nc", ".zarr"])
def test_attributes_that_name_other_variables(tmp_path: Path, ending: str) -> None:
    with hs.create(tmp_path / "air.zarr") as root:
        root.create_array("lat", data=np.array([50.0, 45.0]), dims=("lat",), attrs={"bounds": "lat_bnds", "units": "m"})
        root.create_array("lat_bnds", data=np.zeros((2, 2)), dims=("lat", "two"))
        root.create_array("height", data=np.float64(2.0))
        about = {"coordinates": "height lat", "cell_measures": "area: cells", "grid_mapping": "crs", "units": "K"}
        root.create_array("t", data=np.arange(2.0), dims=("lat",), attrs=about)
    out = tmp_path / f"out{ending}"
    result = CliRunner().invoke(main, ["get", str(tmp_path / "air.zarr"), "t", "-o", str(out)])
    assert result.exit_code == 0, result.stderr
    with hs.open(out) as root:
        assert {name: value for name, value in root["t"].attrs.items() if name != "_FillValue"} == {
            "coordinates": "lat",
            "units": "K",
        }
        assert {name: value for name, value in root["lat"].attrs.items() if name != "_FillValue"} == {"units": "m"}
