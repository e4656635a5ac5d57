"""Labels of points, of dimensions that an array labels itself: scalar coordinates of what is converted."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.database import ArraySchema, Client, DimensionSchema, Scale, TimeDimensionSchema

CELLS = np.arange(24.0).reshape(2, 3, 4)
START = datetime(2023, 5, 1, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A database of two collections, whose arrays have their labels themselves."""
    days = TimeDimensionSchema("day", 2, START, timedelta(days=1))
    dims = [days, DimensionSchema("lat", 3, scale=Scale(60.0, -2.5)), DimensionSchema("gas", 4, labels=tuple("abcd"))]
    with Client(tmp_path / "store.db") as client:
        for name in ("one", "two"):
            client.create_collection(name, ArraySchema(dims, float)).create({})[:].update(CELLS)
    return tmp_path / "store.db"


def data_of(root: hs.Group, group: str) -> hs.Array:
    """The only array of a group that is no scalar."""
    return next(node for _, node in root[group].items() if isinstance(node, hs.Array) and node.ndim)


@pytest.mark.parametrize("name", ["a.zarr", "a.nc"])
def test_labels_of_points_become_scalar_coordinates(store: Path, tmp_path: Path, name: str) -> None:
    chosen = {"day": "2023-05-02", "lat": 57.5, "gas": "c"}
    report = hs.convert(store, tmp_path / name, select=chosen, allow_loss=True, verify=True)
    assert not any("labels" in str(loss) for loss in report.losses)
    with hs.open(tmp_path / name) as root:
        for group in ("one", "two"):
            found = {key: node for key, node in root[group].items() if key in chosen}
            assert found["lat"][()] == 57.5 and found["gas"][()] == "c"
            assert str(found["day"].decoded()[()])[:10] == "2023-05-02"
            assert all(node.shape == () for node in found.values())
            values = next(node for key, node in root[group].items() if key not in chosen)
            assert values[()] == CELLS[1, 1, 2]
            assert values.attrs["coordinates"] == "day lat gas"


def test_a_point_by_its_position_has_its_label_too(store: Path, tmp_path: Path) -> None:
    hs.convert(store, tmp_path / "a.zarr", select={"lat": -1})
    with hs.open(tmp_path / "a.zarr") as root:
        assert root["one/lat"][()] == 55.0
        values = data_of(root, "one")
        assert values.attrs["coordinates"] == "lat" and values.dims == ("day", "gas")
        np.testing.assert_array_equal(values[...], CELLS[:, 2])
        np.testing.assert_array_equal(values.sel(gas="b"), CELLS[:, 2, 1])  # the others keep their labels


def test_a_label_gives_way_to_another_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Client(tmp_path / "store.db") as client:
        made = client.create_collection("one", ArraySchema([DimensionSchema("x", 3, labels=tuple("abc"))], float))
        array = made.create({})
        array[:].update(np.arange(3.0))
        name = array.id
    hs.convert(tmp_path / "store.db", tmp_path / "c.zarr", path=f"one/{name}")
    hs.convert(tmp_path / "c.zarr", tmp_path / "d.zarr", select={"x": "b"})
    with hs.open(tmp_path / "d.zarr") as root:
        assert root["x"][()] == "b"
    with hs.open(tmp_path / "c.zarr", mode="r+") as root:
        root.create_array("x", data=np.arange(5.0), dims=("other",))
    with caplog.at_level(logging.WARNING, "hyperslab"):
        hs.convert(tmp_path / "c.zarr", tmp_path / "e.zarr", select={"x": "b"})
    assert "the label b of x is left out" in caplog.text
    with hs.open(tmp_path / "e.zarr") as root:
        np.testing.assert_array_equal(root["x"][...], np.arange(5.0))
        assert "coordinates" not in root[name].attrs
