"""The place of a node in a file, an archive or a root of collections: the commands that read take it as it is typed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hyperslab as hs
from hyperslab.cli import main
from hyperslab.database import ArraySchema, Client, DimensionSchema


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("name", ["x.nc", "x.zip", "x.zarr"])
def test_a_node_in_a_file(tmp_path: Path, name: str) -> None:
    with hs.create(tmp_path / name) as root:
        root.create_array("g/t", data=np.arange(4), dims=["time"])
    assert "time: 4" in run("info", tmp_path / name / "g").output
    assert run("get", tmp_path / name / "g/t", "-s", "time=2").stdout == "2\n"


def test_a_node_in_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with hs.create(tmp_path / "x.nc") as root:
        root.create_array("t", data=np.arange(4))
    for command in ("info", "get", "check"):
        assert f"no /tt [{tmp_path}/x.nc node=/tt]; did you mean 't'?" in run(command, tmp_path / "x.nc/tt").output


def test_a_collection_and_an_array_of_it(tmp_path: Path) -> None:
    with Client(tmp_path / "w.db") as client:
        collection = client.create_collection("weather", ArraySchema([DimensionSchema("x", 4)], dtype=float))
        array = collection.create()
        array[:].update(np.arange(4.0))
    assert "x: 4" in run("info", tmp_path / "w.db/weather").output
    assert run("get", tmp_path / f"w.db/weather/{array.id}", "-s", "x=2").stdout == "2.0\n"


def test_a_selection_that_fails_names_the_dataset_and_the_array(tmp_path: Path) -> None:
    with hs.create(tmp_path / "x.zarr") as root:
        root.create_array("t", data=np.arange(4), dims=["time"])
    place = rf"[{tmp_path}/x.zarr node=/t]; "
    for wrong in ("tim=1", "time=9", "time=2020-01-01"):
        assert place in run("get", tmp_path / "x.zarr", "t", "-s", wrong).output
    array = hs.open_group(tmp_path / "x.zarr")["t"]
    wrongs = (lambda: array[9], lambda: array["2020"], lambda: array.sel(tim=1), lambda: array.isel(time=9))
    for wrong_key in (*wrongs, lambda: array.oindex[9], lambda: array.lazy[9], lambda: array.plan(9)):
        with pytest.raises(IndexError) as raised:
            wrong_key()
        assert place in str(raised.value)
