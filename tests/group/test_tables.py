"""Rows of a ``DynamicTable`` by ``Group.read_table``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import BrokenLink, FormatError, Invalid
from hyperslab.stores.memory import MemoryStore


def test_rows_of_a_table() -> None:
    with hs.create(MemoryStore(), "zarr3") as root:
        units = root.create_group("units", {"colnames": ["times", "waves", "depth", "gone"]})
        units.create_array("id", data=np.arange(3))
        units.create_array("times", data=np.arange(200_000) / 2, chunks=(1000,))
        units.create_array("times_index", data=np.array([2, 2, 200_000]))
        units.create_array("waves", data=np.arange(16).reshape(8, 2))
        units.create_array("waves_index", data=np.array([1, 3, 6, 8]))
        units.create_array("waves_index_index", data=np.array([2, 3, 4]))
        units.create_array("depth", data=np.arange(3, dtype="i2"), attrs={"scale_factor": 0.5})
        found = units.read_table()
        assert list(found) == ["id", "times", "waves", "depth"]
        assert [each.tolist() if len(each) < 9 else len(each) for each in map(np.asarray, found["times"])] == [
            [0.0, 0.5],
            [],
            199_998,
        ]
        assert [[np.asarray(part).tolist() for part in row] for row in found["waves"]] == [
            [[[0, 1]], [[2, 3], [4, 5]]],
            [[[6, 7], [8, 9], [10, 11]]],
            [[[12, 13], [14, 15]]],
        ]
        assert found["depth"].tolist() == [0.0, 0.5, 1.0]
        some = units.read_table(1, 2)
        assert (some["id"].tolist(), len(some["times"]), len(some["times"][0])) == ([1], 1, 0)
        units["times_index"][...] = [5, 2, 9]
        with pytest.raises(FormatError, match="times_index"):
            units.read_table()
        with pytest.raises(Invalid, match="DynamicTable"):
            root.read_table()


def make_table(place: Path) -> None:
    """Make a table of three rows in a dataset of Zarr v2, of which one column is ragged."""
    with hs.create(place, "zarr2") as root:
        table = root.create_group("table", {"colnames": ["v", "r"]})
        table.create_array("id", data=np.arange(3))
        table.create_array("v", data=np.arange(3) * 10)
        table.create_array("r", data=np.arange(6))
        table.create_array("r_index", data=np.array([1, 3, 6]))


@pytest.mark.parametrize("name", ["v", "r", "r_index"])
def test_a_column_that_cannot_be_opened_is_an_error(tmp_path: Path, name: str) -> None:
    """A ragged column without its index would have other rows, and one that is left out is not missed."""
    make_table(tmp_path / "a.zarr")
    (tmp_path / "a.zarr" / ".zmetadata").unlink(missing_ok=True)
    (tmp_path / "a.zarr" / "table" / name / ".zarray").write_text("{")
    with hs.open(tmp_path / "a.zarr") as root, pytest.raises(FormatError, match=name):
        root["table"].read_table()


def test_a_column_behind_a_link_to_nothing() -> None:
    with hs.create(MemoryStore(), "hdmf") as root:
        table = root.create_group("table", {"colnames": ["r", "/elsewhere", ".."]})
        table.create_array("id", data=np.arange(3))
        table.create_array("r", data=np.arange(3))
        assert list(table.read_table()) == ["id", "r"]
        table.create_link("r_index", "/gone")
        with pytest.raises(BrokenLink):
            table.read_table()


def test_rows_are_those_of_a_slice(tmp_path: Path) -> None:
    make_table(tmp_path / "a.zarr")
    ragged = [[0], [1, 2], [3, 4, 5]]
    with hs.open(tmp_path / "a.zarr") as root:
        for bounds in ((-2,), (0, -1), (1, 9), (-9, 2), (2, 1), (7,)):
            found = root["table"].read_table(*bounds)
            wanted = slice(*bounds) if len(bounds) == 2 else slice(bounds[0], None)
            assert np.asarray(found["v"]).tolist() == [0, 10, 20][wanted], bounds
            assert [np.asarray(row).tolist() for row in found["r"]] == ragged[wanted], bounds


def test_all_columns_of_a_wide_table() -> None:
    with hs.create(MemoryStore()) as root:
        table = root.create_group("table", {"colnames": [f"c{number}" for number in range(310)]})
        for number in range(310):
            table.create_array(f"c{number}", data=np.array([number]))
        assert [cells.tolist() for cells in table.read_table().values()] == [[number] for number in range(310)]
