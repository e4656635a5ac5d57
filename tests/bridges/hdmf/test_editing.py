"""Files that are edited and exported as pynwb's tutorials do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pynwb
import pytest
from hdmf.common import DynamicTable, VectorData, get_manager

import hyperslab as hs
from hyperslab.hdmf import HyperslabIO


def made(cells: Any) -> DynamicTable:
    column = VectorData(name="x", description="cells", data=cells)
    return DynamicTable(name="table", description="of numbers", columns=[column])


@pytest.mark.parametrize("axis", [None, 0])
def test_data_that_are_resized(axis: int | None, tmp_path: Path) -> None:
    table = made(np.arange(12.0).reshape(6, 2))
    with HyperslabIO(tmp_path / "a.zarr", "w", manager=get_manager()) as io:
        io.write(table)
    with HyperslabIO(tmp_path / "a.zarr", "r+") as io:
        data = io.read()["x"].data
        data.resize((8, 2) if axis is None else 8, axis)
        data[6:] = [[1, 2], [3, 4]]
        assert data.shape == (8, 2)
    assert hs.open(tmp_path / "a.zarr")["x"][5:].tolist() == [[10, 11], [1, 2], [3, 4]]


def test_a_file_without_types_of_nwb_gets_no_schemas_of_nwb(tmp_path: Path) -> None:
    assert pynwb.__version__
    table = made([1, 2])
    with HyperslabIO(tmp_path / "a.zarr", "w", manager=get_manager()) as io:
        io.write(table)
    with HyperslabIO(tmp_path / "a.zarr") as source, HyperslabIO(tmp_path / "b.zarr", "w") as io:
        io.export(source)
    for name in ("a.zarr", "b.zarr"):
        assert {"hdmf-common"} <= set(hs.open(tmp_path / name).specifications) <= {"hdmf-common", "hdmf-experimental"}
        with HyperslabIO(tmp_path / name) as io:
            assert list(io.read()["x"].data) == [1, 2]
