"""Rows of a ``DynamicTable`` by ``Group.read_table``."""

from __future__ import annotations

import numpy as np
import pytest

import hyperslab as hs
from hyperslab.errors import FormatError, Invalid
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
