"""Dates without hyphens are labels of times where they are no positions; sizes of memory are text everywhere."""

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from command_line import run


@pytest.fixture
def days(tmp_path: Path) -> Path:
    with hs.create(tmp_path / "d.zarr") as root:
        attrs = {"units": "days since 2020-02-27"}
        root.create_array("time", data=np.arange(4), dims=("time",), attrs=attrs)
        root.create_array("year", data=np.array([20200227, 20200228]), dims=("year",))
        root.create_array("t", data=np.arange(8.0).reshape(4, 2), dims=("time", "year"))
    return tmp_path / "d.zarr"


@pytest.mark.parametrize(
    ("chosen", "cells"),
    [
        ("time=20200228", [2.0, 3.0]),
        ("time=@20200228", [2.0, 3.0]),
        ("time=20200228..20200229", [2.0, 3.0, 4.0, 5.0]),
        ("time=20200229..", [4.0, 5.0, 6.0, 7.0]),
        ("time=20200228T00..20200228T23", [2.0, 3.0]),
        ("year=20200228", [1.0, 3.0, 5.0, 7.0]),
    ],
)
def test_compact_dates_are_labels(days: Path, tmp_path: Path, chosen: str, cells: list[float]) -> None:
    result = run("get", days, "t", "-s", chosen, "-o", tmp_path / "t.npy")
    assert result.exit_code == 0, result.stderr
    assert np.load(tmp_path / "t.npy").ravel().tolist() == cells
    result = run("convert", days, tmp_path / "t.zarr", "-s", chosen)
    assert result.exit_code == 0, result.stderr
    assert hs.open(tmp_path / "t.zarr")["t"][...].ravel().tolist() == cells


def test_compact_dates_in_python(days: Path) -> None:
    array = hs.open(days)["t"]
    assert array.sel(time="20200228").tolist() == array.sel(time="2020-02-28").tolist() == [2.0, 3.0]


def test_positions_that_no_cell_has_are_refused_still(days: Path) -> None:
    assert run("get", days, "t", "-s", "time=7").exit_code == 2
    assert run("get", days, "t", "-s", "time=20201399").exit_code == 2


def test_memory_is_text_for_every_command(days: Path, tmp_path: Path) -> None:
    run("convert", days, tmp_path / "e.zarr")
    assert run("diff", days, tmp_path / "e.zarr", "--memory", "64MB").exit_code == 0
    refused = run("diff", days, tmp_path / "e.zarr", "--memory", "much")
    assert refused.exit_code == 2 and "--memory 1GB" in refused.stderr
    small = run("convert", days, tmp_path / "f.zarr", "--memory", "4B")
    assert small.exit_code != 0 and "--memory" in small.stderr and "memory_limit" not in small.stderr
