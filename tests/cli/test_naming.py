"""What is said of a path that leads to no array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from command_line import CliRunner
from hyperslab.cli import main
from hyperslab.database import ArraySchema, AttributeSchema, Client, DimensionSchema


def told(*arguments: object) -> str:
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code in (2, 3, 8), done.output
    return done.stderr.strip()


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("air", "/a.zarr node=/air]; there are air/wind"),
        ("air/wnd", "; did you mean 'air/wind'?"),
        ("aire/wind", "; did you mean 'air/wind'?"),
        ("aire/zzz", "; did you mean 'air'?"),
        ("air/wind/wind", "; take /air/wind itself: it is an array, with nothing below it"),
        ("zzz", "; there are " + ", ".join(["air/wind", *(f"n{number:02}" for number in range(9))]) + ", …"),
    ],
)
def test_in_a_tree(tmp_path: Path, path: str, remedy: str) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("air/wind", shape=(2,), dtype="i4")
        for number in range(12):
            root.create_array(f"n{number:02}", shape=(), dtype="i4")
    assert told("get", tmp_path / "a.zarr", path).endswith(remedy)
    if path != "air":
        assert told("convert", tmp_path / "a.zarr", tmp_path / "b.zarr", "--path", path).endswith(remedy)
        np.save(tmp_path / "rows.npy", np.arange(2))
        assert told("append", tmp_path / "a.zarr", tmp_path / "rows.npy", "--path", path).endswith(remedy)


def test_in_a_database(tmp_path: Path) -> None:
    place = tmp_path / "a.db"
    schema = ArraySchema([DimensionSchema("x", 2)], float, [AttributeSchema("k", int, True)])
    with Client(str(place)) as client:
        air = client.create_collection("air", schema)
        for number in range(4):
            air.create({"k": number})
    assert told("get", place, "airr").endswith("did you mean 'air'?")
    for path in ("air", "air/air"):
        said = told("get", place, path)
        assert said.count("air/") <= 5
        assert said.endswith(f", …; see hyperslab db arrays {place} air")
    assert told("get", place).endswith(f", …; see hyperslab db list {place}")


def test_a_format(tmp_path: Path) -> None:
    hs.create(tmp_path / "a.zarr")
    assert told("info", tmp_path / "a.zarr", "--format", "zaar3").endswith("did you mean 'zarr3'?")
