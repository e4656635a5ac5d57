"""Array.remove against numpy.delete: any place, grid, format and axis; labels, refusals, memory, crashes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab as hs
from examples import at_most
from hyperslab.array import growth
from hyperslab.errors import Invalid, ReadOnly, SelectionError, Unsupported, WrongType
from hyperslab.stores.memory import MemoryStore

FORMATS = ["zarr2", "zarr3", "sharded", "b2nd"]


def made(root: Any, values: np.ndarray[Any, Any], cut: tuple[int, ...], kind: str) -> Any:
    more: dict[str, Any] = {"shards": tuple(3 * length for length in cut)} if kind == "sharded" else {}
    return root.create_array("v", data=values, chunks=cut, fill_value=-1, **more)


@st.composite
def ranges(draw: st.DrawFn, length: int) -> Any:
    if length and draw(st.booleans()):
        return draw(st.integers(-length, length - 1))
    bounds = st.none() | st.integers(-length - 2, length + 2)
    return slice(draw(bounds), draw(bounds), draw(st.sampled_from([None, 1, -1])))


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=at_most(12, 25))
@given(data=st.data())
def test_it_is_delete_of_numpy(kind: str, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
    cut = tuple(data.draw(st.lists(st.integers(1, 4), min_size=len(shape), max_size=len(shape))))
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    budget = growth._BUDGET
    with TemporaryDirectory() as folder:
        place: Any = Path(folder) / "a.b2nd" if kind == "b2nd" else MemoryStore()
        with hs.create(place, "zarr3" if kind == "sharded" else kind) as root:
            array = made(root, values, cut, kind)
            try:
                growth._BUDGET = data.draw(st.sampled_from([1, 100, budget]))
                for _ in range(2):
                    axis = data.draw(st.integers(0, len(shape) - 1))
                    where = data.draw(ranges(values.shape[axis]))
                    array.remove(where, axis)
                    values = np.delete(values, where, axis)
                    assert np.array_equal(array[...], values)
            finally:
                growth._BUDGET = budget
            grown = tuple(length + 3 for length in values.shape)
            array.resize(grown)
            expected = np.full(grown, -1, "i4")
            expected[tuple(map(slice, values.shape))] = values
            assert np.array_equal(array[...], expected)


def test_of_varying_chunks() -> None:
    with hs.create(MemoryStore(), "zarr3") as root:
        array = root.create_array("v", data=np.arange(12), chunks=((2, 5, 1, 4),))
        array.remove(slice(1, 6))
        assert array[...].tolist() == [0, *range(6, 12)]
        array.append([50, 51, 52, 53, 54, 55])
        assert array[...].tolist() == [0, *range(6, 12), 50, 51, 52, 53, 54, 55]


def test_labels_and_names(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        array = root.create_array("v", data=np.arange(20).reshape(2, 10), dims=("y", "x"))
        root.create_array("x", data=np.arange(10) * 0.5, dims=("x",))
        array.remove(slice(1.0, 2.5), dim="x")
        assert array[0].tolist() == [0, 1, 6, 7, 8, 9]
        root["x"].remove(slice(1.0, 2.5))
        array.remove(4.5, "x")
        assert array[1].tolist() == [10, 11, 16, 17, 18]
        array.remove(-1, "y")
        assert array[...].tolist() == [[0, 1, 6, 7, 8]]
    assert hs.open_array(tmp_path / "a.zarr", path="v").shape == (1, 5)


def test_what_is_no_range(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        array = root.create_array("v", data=np.arange(10), dims=("x",))
        with pytest.raises(SelectionError, match="no position 10"):
            array.remove(10)
        with pytest.raises(Invalid, match="step of 2"):
            array.remove(slice(0, 9, 2))
        for where in ([1, 2], True, None, np.array([True] * 10), slice("a", None)):
            with pytest.raises((WrongType, Invalid)):
                array.remove(where)
        with pytest.raises(Invalid, match="no axis 1"):
            array.remove(0, 1)
        with pytest.raises(Invalid, match="no dimension 'y'"):
            array.remove(0, "y")
        assert array[...].tolist() == list(range(10))
    with pytest.raises(ReadOnly):
        hs.open_array(tmp_path / "a.zarr", path="v").remove(0)


def test_netcdf_is_refused_before_anything_changes(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.nc") as root:
        root.create_array("v", data=np.arange(10), dims=("x",))
    with hs.open_group(tmp_path / "a.nc", "r+") as root:
        with pytest.raises(Unsupported, match="never shorter"):
            root["v"].remove(0)
        assert root["v"][...].tolist() == list(range(10))


def test_memory_is_bounded(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr", durable=False) as root:
        array = root.create_array("v", shape=(400, 50_000), dtype="f8", chunks=(10, 5000))
        for row in range(0, 400, 40):
            array[row : row + 40] = row
        tracemalloc.start()
        array.remove(slice(5, 105))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert array.shape == (300, 50_000)
        assert array[:, 7].tolist() == [0.0] * 5 + [float(row // 40 * 40) for row in range(105, 400)]
        assert peak < array.nbytes // 2
        assert len([name for name in (tmp_path / "a.zarr" / "v").rglob("*") if name.is_file()]) < 30 * 10 + 10


def test_a_crash_loses_nothing_that_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        array = root.create_array("v", data=np.arange(100), chunks=(10,))
        monkeypatch.setattr(growth, "_BUDGET", 1)
        writes = iter(range(4))
        write = growth.CellAccess.write

        def failing(self: Any, *given: Any) -> None:
            if next(writes, None) is None:
                raise KeyboardInterrupt
            write(self, *given)

        monkeypatch.setattr(growth.CellAccess, "write", failing)
        with pytest.raises(KeyboardInterrupt):
            array.remove(slice(0, 15))
    with hs.open_group(tmp_path / "a.zarr") as root:
        assert set(range(15, 100)) <= set(root["v"][...].tolist())
        assert root["v"].shape == (100,)
