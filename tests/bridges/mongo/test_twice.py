"""Every chunk computed twice, and more: by retries, by processes at the same time, by workers in place of killed ones.

There is one document for each segment afterwards, and the cells are those that were put.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import dask.array as da
import numpy as np
import pytest
import sparse
import xarray as xr
from pymongo.database import Database

from hyperslab.mongo import XarrayMongoDB
from programs import side_by_side

SIZE = 500
CHILD = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    future = pickle.load(file)
print("ready", flush=True)
sys.stdin.readline()
future.compute(scheduler="threads", num_workers=2)
print("done", flush=True)
"""


def dense(number: int = 0) -> xr.Dataset:
    """Ten by ten chunks of two documents each."""
    cells = np.random.default_rng(number).standard_normal((100, 100))
    return xr.Dataset({"v": (("y", "x"), cells)}, {"x": np.arange(100)}).chunk({"y": 10, "x": 10})


def spread() -> xr.Dataset:
    """The same of sparse arrays; some chunks hold one document, some more."""
    cells = np.where(dense()["v"] > 1, dense()["v"], 0.0)
    lazy = da.from_array(cells, chunks=(10, 10)).map_blocks(
        sparse.COO.from_numpy, meta=sparse.COO.from_numpy(cells[:0])
    )
    return xr.Dataset({"v": (("y", "x"), lazy)})


def check(xdb: XarrayMongoDB, key: Any, wanted: xr.Dataset) -> None:
    """Each segment is there once, and the cells are these."""
    ids = {name: f"${name}" for name in ("meta_id", "name", "chunk", "n")}
    kinds = len(list(xdb.chunks.aggregate([{"$group": {"_id": ids}}])))
    assert xdb.chunks.count_documents({}) == kinds
    assert xdb.meta.count_documents({}) == 1
    assert xdb.is_complete(key)
    found, expected = (each.load(scheduler="sync") for each in (xdb.get(key, load=True), wanted.copy()))
    for each in (found, expected):
        if hasattr(each["v"].data, "todense"):
            each["v"].data = each["v"].data.todense()
    xr.testing.assert_identical(found, expected)


def objects(database: Database[Any], layout: Any) -> XarrayMongoDB:
    return XarrayMongoDB(database, layout=layout, chunk_size_bytes=SIZE)


@pytest.mark.parametrize(
    ("layout", "x"),
    [
        ("compatible", dense),
        pytest.param("extended", spread, marks=pytest.mark.soak),
        pytest.param("compatible", spread, marks=pytest.mark.soak),
        pytest.param("extended", dense, marks=pytest.mark.soak),
    ],
)
def test_in_processes_at_the_same_time(database: Database[Any], tmp_path: Path, layout: Any, x: Any) -> None:
    """Three of them, one of which is killed while it writes."""
    xdb = objects(database, layout)
    key, future = xdb.put(x())
    pickled = tmp_path / "future"
    pickled.write_bytes(cloudpickle.dumps(future))
    with side_by_side(CHILD, *[(pickled,)] * 3) as children:
        assert [child.stdout.readline() for child in children] == ["ready\n"] * 3
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        while xdb.chunks.estimated_document_count() < 20:
            assert children[0].poll() is None
        children[0].kill()
        assert [child.communicate()[0] for child in children][1:] == ["done\n"] * 2
    check(xdb, key, x())


def once_in_vain(block: Any, folder: str, block_id: Any = ()) -> Any:
    """The block, when it is asked for a second time."""
    try:
        Path(folder, "-".join(map(str, block_id))).touch(exist_ok=False)
    except FileExistsError:
        return block
    raise OSError("in vain")


@pytest.mark.parametrize("layout", ["compatible", "extended"])
def test_when_tasks_before_failed(database: Database[Any], tmp_path: Path, layout: Any) -> None:
    """Computing breaks off at each chunk in turn, and begins again."""
    xdb = objects(database, layout)
    wanted = dense().isel(x=slice(0, 20), y=slice(0, 30))
    lazy = wanted.copy(data={"v": wanted["v"].data.map_blocks(once_in_vain, folder=str(tmp_path), dtype="f8")})
    key, future = xdb.put(lazy)
    failures = 0
    while True:
        try:
            future.compute(scheduler="sync")
            break
        except OSError:
            failures += 1
            assert not (layout == "compatible" and xdb.is_complete(key))
    assert failures == 6
    check(xdb, key, wanted)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("x", [dense, spread])
@pytest.mark.parametrize("layout", ["compatible", "extended"])
def test_every_task_is_done_twice_at_once(database: Database[Any], layout: Any, x: Any) -> None:
    """By two schedulers side by side."""
    xdb = objects(database, layout)
    key, future = xdb.put(x())
    again = pickle.loads(cloudpickle.dumps(future))
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(each.compute, scheduler="threads", num_workers=4) for each in (future, again)]
        assert [each.result() for each in both] == [None, None]
    check(xdb, key, x())
