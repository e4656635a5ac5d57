"""The place of a node in a file, an archive or a root of collections: the commands that read take it as it is typed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from command_line import run
from hyperslab.database import ArraySchema, Client, DimensionSchema


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


@pytest.mark.parametrize("form", ["zarr2", "zarr3", "nczarr", "hdmf"])
def test_a_node_in_a_folder_that_is_not_there_is_named(tmp_path: Path, form: str) -> None:
    with hs.create(tmp_path / "x.zarr", form) as root:
        root.create_array("g/t", data=np.arange(4))
    for command in ("info", "get", "tree", "dump", "plan", "check", "repair"):
        done = run(command, tmp_path / "x.zarr/g/tt")
        assert (done.exit_code, done.stdout) == (3, "")
        assert f"there is no /g/tt [{tmp_path}/x.zarr node=/g/tt]; did you mean 't'?" in done.output
        assert "there is nothing" in run(command, tmp_path / "y.zarr/t").output


def test_a_node_that_only_a_link_leads_to(tmp_path: Path) -> None:
    with hs.create(tmp_path / "x.zarr", "hdmf") as root:
        root.create_array("g/t", data=np.arange(4))
        root.create_link("also", "/g")
    assert run("get", tmp_path / "x.zarr/also/t", "-s", "dim_0=2").output == "2\n"


@pytest.mark.parametrize("name", ["x.nc", "x.zip", "x.zarr"])
def test_info_of_a_group_begins_with_its_place(tmp_path: Path, name: str) -> None:
    with hs.create(tmp_path / name) as root:
        root.create_array("g/h/t", data=np.arange(4))
    whole = run("info", tmp_path / name).stdout.partition(": ")[0]
    assert whole.endswith(str(tmp_path / name))
    for place in ("g", "g/h", "g/h/t"):
        assert run("info", tmp_path / name / place).stdout.startswith(f"{whole}/{place}: ")


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
