"""What a format cuts otherwise than asked is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hyperslab as hs
from hyperslab.cli import main

ASKED = {"t": 6, "y": 6, "x": 10}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("t", data=np.arange(24), dims=["t"])
        root.create_array("v", data=np.zeros((24, 30, 40), "f4"), dims=["t", "y", "x"])
    return tmp_path / "a.zarr"


@pytest.mark.parametrize("format", ["bloscpack", "blaze"])
def test_rows_are_told(source: Path, tmp_path: Path, format: str) -> None:
    report = hs.convert(source, tmp_path / "target", format, path="v", chunks=ASKED)
    target = hs.open(tmp_path / "target")
    assert isinstance(target, hs.Array)
    cut = " x ".join(map(str, target.chunks))
    assert report.recut == (f"/v has chunks of {cut} (asked: t=6,y=6,x=10)",)
    assert f"cut otherwise: {report.recut[0]}" in str(report)


def test_what_is_cut_as_asked_is_not(source: Path, tmp_path: Path) -> None:
    for format in ("zarr3", "netcdf", "b2nd"):
        assert not hs.convert(source, tmp_path / format, format, path="v", chunks=ASKED).recut
    assert not hs.convert(source, tmp_path / "longer.blp", path="v", chunks={"t": 100}).recut
    assert not hs.convert(source, tmp_path / "as-it-suits.blp", path="v").recut


def test_the_closing_line(source: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["convert", str(source), str(tmp_path / "b.blp"), "--path", "v", "--chunks", "x=10"]
    )
    first, companions, second = done.output.splitlines()
    assert companions == "with them: t"
    assert "(bloscpack): 2 arrays, 1 group, " in first
    assert "112.7 KiB of cells in" in first
    assert second.startswith("cut otherwise: /v has chunks of ")
