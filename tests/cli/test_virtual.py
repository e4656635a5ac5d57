"""``hyperslab virtual``: references to files, by the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files of 40 rows each."""
    for number in range(2):
        cells = np.full((40, 500), number, "f4")
        labels = {"t": np.arange(40) + 40 * number}
        encoding = {"a": {"chunksizes": (4, 500), "zlib": True}}
        xr.Dataset({"a": (("t", "x"), cells)}, labels).to_netcdf(
            tmp_path / f"{number}.nc", unlimited_dims="t", encoding=encoding
        )
    return sorted(tmp_path.glob("*.nc"))


def test_a_pattern_and_a_list(files: list[Path], tmp_path: Path) -> None:
    run = CliRunner().invoke
    done = run(main, ["virtual", f"{tmp_path}/*.nc", f"{tmp_path}/all.json", "--along", "t"])
    assert done.exit_code == 0 and done.stdout == "" and "20 references to 2 files" in done.stderr
    done = run(main, ["virtual", *map(str, files), f"{tmp_path}/all.parquet", "--json", "--absolute"])
    report = json.loads(done.stdout)
    assert (report["references"], report["files"], report["format"]) == (20, 2, "parquet")
    for name in ("all.json", "all.parquet"):
        got = run(main, ["get", f"{tmp_path}/{name}", "a", "-s", "t=39..41", "-s", "x=0"])
        assert got.exit_code == 0, got.stderr
        assert [line.split()[-1] for line in got.stdout.splitlines()[1:]] == ["0.0", "1.0"]
        assert run(main, ["diff", f"{tmp_path}/{name}", f"{tmp_path}/all.json"]).exit_code == 0
    assert json.loads((tmp_path / "all.json").read_text())["refs"]["a/0.0"][0] == "0.nc"
    metadata = json.loads((tmp_path / "all.parquet" / ".zmetadata").read_text())
    assert list(metadata["hyperslab"]["files"]) == [str(file) for file in files]


def test_what_is_wrong_is_said(files: list[Path], tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert run(main, ["virtual", str(files[0]), f"{tmp_path}/all.nc4"]).exit_code != 0
    target = f"{tmp_path}/all.json"
    assert run(main, ["virtual", *map(str, files), target]).exit_code == 0
    again = run(main, ["virtual", *map(str, files), target])
    assert again.exit_code != 0 and "--overwrite" in again.stderr
    assert run(main, ["virtual", *map(str, files), target, "--overwrite"]).exit_code == 0
    files[1].write_bytes(files[0].read_bytes())
    got = run(main, ["get", target, "a", "-s", "t=79", "-s", "x=0"])
    assert got.exit_code != 0 and "1.nc has changed" in got.stderr
    assert hs.open(target)["a"][0, 0] == 0
