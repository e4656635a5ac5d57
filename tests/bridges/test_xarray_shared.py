"""What several variables are made of is computed once, however they are stored."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import distributed
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from forked import cluster, pool


class Counted:
    """A function of blocks that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self._lock = threading.Lock()

    def __call__(self, block: np.ndarray) -> np.ndarray:
        with self._lock:
            self.calls += 1
        return block + 1

    def lazy(self) -> xr.Dataset:
        """Three variables over two blocks that they share."""
        shared = da.ones((4, 4), chunks=(2, 4)).map_blocks(self, dtype=float, meta=np.empty((0, 0)))
        dims = ("t", "x")
        return xr.Dataset({"a": (dims, shared), "b": (dims, shared * 2), "c": (dims, shared.rechunk((4, 2)))})


MODES: dict[str, Callable[[xr.Dataset, Path], Any]] = {
    "new": lambda lazy, place: lazy.hyperslab.save(place, mode="w"),
    "region": lambda lazy, place: lazy.hyperslab.save(place, region={"t": slice(0, 4)}),
    "r+": lambda lazy, place: lazy.hyperslab.save(place, mode="r+"),
    "a": lambda lazy, place: lazy.hyperslab.save(place, mode="a"),
    "anew": lambda lazy, place: lazy.hyperslab.save(place, mode="a", encoding={"a": {"dtype": "f4"}}),
    "append": lambda lazy, place: lazy.hyperslab.save(place, append_dim="t"),
    "later": lambda lazy, place: lazy.hyperslab.save(place, mode="w", compute=False).compute(),
}


@pytest.mark.covering
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("place", ["a.zarr", "a.nczarr", "a.nc", "a.zip"])
def test_shared_blocks_are_computed_once(tmp_path: Path, place: str, mode: str) -> None:
    if mode == "later" and place in ("a.nc", "a.zip"):
        pytest.skip("one file is complete when save returns")
    counted = Counted()
    counted.lazy().compute().hyperslab.save(tmp_path / place, unlimited_dims="t")
    counted.calls = 0
    MODES[mode](counted.lazy(), tmp_path / place)
    assert counted.calls == 2
    root = hs.open(tmp_path / place)
    for name, value in (("a", 2), ("b", 4), ("c", 2)):
        np.testing.assert_array_equal(root[name][:], np.full((8 if mode == "append" else 4, 4), value))


@pytest.mark.parametrize("mode", ["w", "a", "r+"])
@pytest.mark.parametrize("place", ["a.zarr", "a.nc"])
def test_blocks_that_nodes_of_a_tree_share_are_computed_once(tmp_path: Path, place: str, mode: Any) -> None:
    counted = Counted()

    def tree() -> xr.DataTree:
        lazy = counted.lazy()
        return xr.DataTree.from_dict({"/p": lazy[["a"]], "/q": lazy[["b"]], "/q/r": lazy[["c"]]})

    tree().compute().hyperslab.save(tmp_path / place)
    counted.calls = 0
    tree().hyperslab.save(tmp_path / place, mode=mode)
    assert counted.calls == 2
    assert hs.open(tmp_path / place)["q/b"][0, 0] == 4


@pytest.mark.parametrize("place", ["a.zarr", "a.nczarr", "a.nc"])
def test_a_new_variable_shares_blocks_with_rows(tmp_path: Path, place: str) -> None:
    """It is made beside the rows, or neither of them is."""
    counted = Counted()
    counted.lazy().compute().hyperslab.save(tmp_path / place, unlimited_dims="t")
    counted.calls = 0
    rows = counted.lazy()
    rows["sum"] = ("x", rows["a"].data.sum(axis=0))
    rows.hyperslab.save(tmp_path / place, append_dim="t")
    assert counted.calls == 2
    root = hs.open(tmp_path / place)
    assert root["a"].shape == (8, 4)
    assert root["sum"][:].tolist() == [8] * 4
    rows["again"] = (
        "x",
        rows["a"].data.sum(axis=0).map_blocks(lambda block: block / "", dtype=float, meta=np.empty(0)),
    )
    with pytest.raises(TypeError):
        rows.hyperslab.save(tmp_path / place, append_dim="t")
    root = hs.open(tmp_path / place)
    assert root["a"].shape == (8, 4)
    assert "again" not in root


def test_what_the_blocks_of_one_array_share_is_computed_once_when_it_is_appended(tmp_path: Path) -> None:
    counted = Counted()
    shared = da.ones((4, 4), chunks=(2, 4)).map_blocks(counted, dtype=float, meta=np.empty((0, 0)))
    with hs.create(tmp_path / "a.zarr") as root:
        array = root.create_array("a", shape=(0, 4), dtype="f8", chunks=(1, 4))
        array.append(shared - shared.sum(axis=0))
        assert counted.calls == 2
        np.testing.assert_array_equal(array[:], np.full((4, 4), 2 - 8))


def test_an_array_is_appended_to_itself(tmp_path: Path) -> None:
    with hs.create(tmp_path / "a.zarr") as root:
        array = root.create_array("a", data=np.arange(6.0), chunks=4)
        array.append(array.to_dask()[::-1])
        assert array[:].tolist() == [0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0]


# -- in other processes -----------------------------------------------------------------------------------------------


class Noted:
    """A function of blocks whose calls are files in a folder, whichever process makes them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def __call__(self, block: np.ndarray) -> np.ndarray:
        (self._folder / uuid4().hex).touch()
        return block + 1

    def lazy(self) -> xr.Dataset:
        """Three variables of one array: itself, what is made of it, and itself once more.

        Each call names its blocks anew: a cluster may still hold blocks of that name from the computation before.
        """
        ones = da.ones((4, 4), chunks=(2, 4))
        shared = ones.map_blocks(self, dtype=float, meta=np.empty((0, 0)), name=uuid4().hex)
        dims = ("t", "x")
        return xr.Dataset({"a": (dims, shared), "b": (dims, shared * 2), "c": (dims, shared)})

    def calls(self) -> int:
        """How many there were since this was asked last."""
        found = list(self._folder.iterdir())
        for each in found:
            each.unlink()
        return len(found)


@pytest.fixture(scope="module")
def processes() -> Iterator[Any]:
    with pool(1) as started:
        yield partial(dask.multiprocessing.get, pool=started)


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    with cluster(1) as started:
        yield started


PLACES = ["a.zarr", "a.nczarr", "a.nc", "a.zip"]


def in_other_processes(folder: Path, scheduler: Any) -> None:
    """Save as new and append in every format, by tasks in other processes."""
    noted = Noted(folder / "calls")
    with dask.config.set(scheduler=scheduler):
        for place in PLACES:
            noted.lazy().hyperslab.save(folder / place, unlimited_dims="t")
            assert noted.calls() == 2, place
            noted.lazy().hyperslab.save(folder / place, append_dim="t")
            assert noted.calls() == 2, place
            root = hs.open(folder / place)
            for name, value in (("a", 2), ("b", 4), ("c", 2)):
                np.testing.assert_array_equal(root[name][:], np.full((8, 4), value), err_msg=f"{place} {name}")


def test_shared_blocks_are_computed_once_by_processes(tmp_path: Path, processes: Any) -> None:
    in_other_processes(tmp_path, processes)


def test_shared_blocks_are_computed_once_by_a_cluster(tmp_path: Path, client: distributed.Client) -> None:
    in_other_processes(tmp_path, client)


def test_one_array_is_computed_once_by_processes(tmp_path: Path, processes: Any) -> None:
    """A file that holds one array, whose blocks share what they are made of."""
    noted = Noted(tmp_path / "calls")
    shared = noted.lazy()["a"].data
    for place in ("a.blp", "a.b2nd"):
        with dask.config.set(scheduler=processes):
            xr.DataArray(shared - shared.sum(axis=0), dims=("t", "x"), name="a").hyperslab.save(tmp_path / place)
        assert noted.calls() == 2, place
        np.testing.assert_array_equal(hs.open(tmp_path / place)[:], np.full((4, 4), 2 - 8))


def dies(block: np.ndarray, chunk: Path, block_info: Any = None) -> np.ndarray:
    """End the process with the second block, once the chunk of the first is stored."""
    if block_info and block_info[0]["chunk-location"][0]:
        while not chunk.exists():
            time.sleep(0.001)
        os._exit(9)
    return block


def append_and_die(place: Path, chunk: Path) -> None:
    ones = da.ones((4, 4), chunks=(2, 4))
    shared = ones.map_blocks(dies, chunk, dtype=float, meta=np.empty((0, 0)))
    with dask.config.set(scheduler="threads", num_workers=2):
        xr.Dataset({"a": (("t", "x"), shared), "b": (("t", "x"), shared * 2)}).hyperslab.save(place, append_dim="t")


@pytest.mark.parametrize(("place", "chunk"), [("a.zarr", "a/c/2/0"), ("a.nczarr", "a/2.0")])
def test_rows_of_a_process_that_died_are_never_data(tmp_path: Path, place: str, chunk: str) -> None:
    """Rows of the first block are stored, of the second none; the next append has the place of both."""
    first = xr.Dataset({name: (("t", "x"), np.zeros((4, 4))) for name in "ab"})
    first.hyperslab.save(tmp_path / place, unlimited_dims="t", chunks={"t": 2})
    with pool(1) as started, pytest.raises(BrokenProcessPool):
        started.submit(append_and_die, tmp_path / place, tmp_path / place / chunk).result()
    root = hs.open(tmp_path / place, "r+")
    assert [root[name].shape for name in "ab"] == [(4, 4)] * 2
    root["a"].append(np.full((1, 4), 5.0))
    if place == "a.nczarr":  # whose arrays are all as long as the dimension
        np.testing.assert_array_equal(hs.open(tmp_path / place)["b"][4], root["b"].fill_value)
    root["b"].append(np.full((1, 4), 6.0))
    found = hs.open(tmp_path / place)
    assert found["a"][:, 0].tolist() == [0, 0, 0, 0, 5]
    assert found["b"][:, 0].tolist() == [0, 0, 0, 0, 6]
