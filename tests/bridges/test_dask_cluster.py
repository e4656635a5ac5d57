"""dask.distributed: workers in two processes, and a scheduler in this one; killed workers; a real S3 server."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from distributed.diagnostics.plugin import SchedulerPlugin

import hyperslab as hs
from forked import cluster
from hyperslab.bridges.dask import write
from hyperslab.chunks.settings import Settings
from hyperslab.errors import Invalid, NotFound, Unsupported
from hyperslab.stores import MemoryStore
from servers.s3 import SECRET

CELLS = np.arange(140, dtype="i4").reshape(10, 14)
OTHER = -CELLS - 1


@pytest.fixture(scope="module")
def client():
    with cluster() as client:
        yield client


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "netcdf"])
def test_reading(client, tmp_path, format):
    path = tmp_path / ("a.nc" if format == "netcdf" else "a.zarr")
    with hs.create(path, format) as root:
        root.create_array("t", data=CELLS, chunks=(3, 4))
        root.create_array("s", data=np.array(["a", "é", ""], object), dtype=str, chunks=1)
    root = hs.open(path)
    lazy = root["t"].to_dask()
    np.testing.assert_array_equal(lazy, CELLS)
    np.testing.assert_array_equal((lazy[::-2, 3:] + 1).sum(0), (CELLS[::-2, 3:] + 1).sum(0))
    assert root["s"].to_dask().compute().tolist() == ["a", "é", ""]
    np.testing.assert_array_equal((lazy + lazy.persist()).compute(), 2 * CELLS)


def test_writing(client, tmp_path):
    root = hs.create(tmp_path / "a.zarr")
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    array[...] = da.from_array(OTHER, chunks=(4, 5))
    np.testing.assert_array_equal(array[...], OTHER)
    array[::-1, 3:] = da.from_array(CELLS[:, 3:], chunks=2)
    np.testing.assert_array_equal(array[::-1, 3:], CELLS[:, 3:])
    root["u"] = array.to_dask() + 1
    np.testing.assert_array_equal(root["u"][...], array[...] + 1)
    numbers = da.arange(100, chunks=9)
    root["v"] = numbers[numbers % 3 == 0]
    np.testing.assert_array_equal(root["v"][...], np.arange(0, 100, 3))
    later = write(array, da.from_array(OTHER, chunks=3), compute=False)
    client.compute(later).result()
    np.testing.assert_array_equal(array[...], OTHER)


@pytest.mark.sampled(0)
def test_each_change_is_seen(client, tmp_path):
    """Workers keep datasets open; what a graph was made of later is never older there."""
    root = hs.create(tmp_path / "a.zarr")
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    wanted = CELLS
    for turn in range(5):
        kept = array.to_dask().persist()
        np.testing.assert_array_equal(kept, wanted)
        array.append(CELLS + turn)
        wanted = np.concatenate([wanted, CELLS + turn])
        np.testing.assert_array_equal(array.to_dask(), wanted)
        array[0] = da.full(14, turn, chunks=5)
        wanted[0] = turn
        np.testing.assert_array_equal(array.to_dask(), wanted)
        np.testing.assert_array_equal(hs.open(tmp_path / "a.zarr")["t"].to_dask(), wanted)


@pytest.mark.sampled(0)
def test_one_open_dataset_per_process(client, tmp_path):
    root = hs.create(tmp_path / "a.zarr")
    cells = np.arange(400)
    array = root.create_array("t", data=cells, chunks=4)

    def opened():
        from hyperslab.array.session import _REGISTER

        found = [session.reader for origin, session in _REGISTER._open.items() if origin.where.path == str(path)]
        return len(found), len({id(reader) for reader in found})

    path = tmp_path / "a.zarr"
    for _ in range(3):
        array[...] = da.from_array(cells, chunks=4)
        np.testing.assert_array_equal(array.to_dask(), cells)
    assert set(client.run(opened).values()) <= {(0, 0), (1, 1)}
    assert (1, 1) in client.run(opened).values()


def test_blocks_of_many_processes_that_share_chunks(client, tmp_path):
    array = hs.create(tmp_path / "a.zarr").create_array("t", shape=(40, 6), dtype="i8", chunks=(40, 6))
    cells = np.arange(240).reshape(40, 6)
    array[...] = da.from_array(cells, chunks=(1, 6))
    np.testing.assert_array_equal(array[...], cells)


def test_handles_in_tasks_of_users(client, tmp_path):
    root = hs.create(tmp_path / "a.zarr")
    array = root.create_array("t", data=CELLS, chunks=(3, 4), dims=("y", "x"))
    assert client.submit(lambda group: list(group), root).result() == ["t"]
    assert client.submit(lambda view: view.read().tolist(), array.lazy[1:3]).result() == CELLS[1:3].tolist()
    client.submit(lambda array: array.isel(y=0).sum(), client.submit(lambda array: array, array)).result()
    client.submit(lambda array: array.__setitem__(0, 5), array).result()
    assert (array[0] == 5).all()


def test_a_task_reads_by_one_thread(client):
    """The scheduler has given every core its task."""
    assert client.submit(lambda: Settings().threads).result() == 1
    assert client.submit(lambda: Settings(workers=3).threads).result() == 3
    assert set(client.run(lambda: Settings().threads).values()) == {Settings().threads}


# -- what cannot travel -----------------------------------------------------------------------------------------------


class Graphs(SchedulerPlugin):
    """Counts what the scheduler is given to do; the tasks of earlier tests, which are forgotten late, do not count."""

    count = 0

    def update_graph(self, *arguments: object, **more: object) -> None:
        self.count += 1


def graphs_of(client):
    """Return how many graphs of tasks the scheduler has been given since it was first asked."""
    if not client.run_on_scheduler(lambda dask_scheduler: "graphs" in dask_scheduler.plugins):
        client.register_plugin(Graphs(), name="graphs")
    return client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["graphs"].count)


def test_a_graph_that_is_computed_is_counted(client):
    before = graphs_of(client)
    da.ones(3).sum().compute()
    assert graphs_of(client) == before + 1


@pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")
def test_stores_are_refused_before_a_task_is_sent(client, tmp_path):
    array = hs.create(MemoryStore()).create_array("t", data=CELLS)
    with hs.create(tmp_path / "a.nc") as root:
        file = root.create_array("t", data=CELLS)
        before = graphs_of(client)
        for target in (array, file):
            with pytest.raises(Unsupported):
                target.to_dask()
        with pytest.raises(Unsupported):
            array[...] = da.from_array(OTHER, chunks=5)
        assert graphs_of(client) == before
    with dask.config.set(scheduler="threads"):
        np.testing.assert_array_equal(array.to_dask(), CELLS)


@pytest.mark.parametrize("place", ["a.nc", "a.zip", "a.b2nd", "a.blp"])
def test_this_process_writes_the_one_file_that_workers_compute(client, tmp_path, place):
    """New, in a region and behind the last row."""
    kind = xr.Dataset if place in ("a.nc", "a.zip") else xr.DataArray
    cells = da.from_array(OTHER, chunks=5)
    rows = tuple(f"d{axis}" for axis in range(OTHER.ndim))
    lazy = xr.DataArray(cells, dims=rows, name="t")
    lazy = lazy.to_dataset().assign(u=lazy * 2) if kind is xr.Dataset else lazy
    options = {"unlimited_dims": rows[0]} if place == "a.nc" else {}
    lazy.hyperslab.save(tmp_path / place, **options)
    (lazy + 1).hyperslab.save(tmp_path / place, region={rows[0]: slice(0, len(OTHER))})
    lazy.hyperslab.save(tmp_path / place, append_dim=rows[0])
    stored = xr.open_dataset(tmp_path / place, engine="hyperslab")
    np.testing.assert_array_equal(stored["t"], np.concatenate([OTHER + 1, OTHER]))
    if kind is xr.Dataset:
        np.testing.assert_array_equal(stored["u"], np.concatenate([OTHER * 2 + 1, OTHER * 2]))


def test_what_workers_cannot_open_is_an_error_of_the_task(client, tmp_path):
    """The workers live on, and the error is ours."""
    array = hs.create("memory://not there").create_array("t", data=CELLS)
    with pytest.raises(Unsupported, match="memory"):
        array.to_dask().compute()
    lazy = hs.create(tmp_path / "a.zarr").create_array("t", data=CELLS).to_dask()
    (tmp_path / "a.zarr").rename(tmp_path / "b.zarr")
    with pytest.raises(NotFound, match=r"a\.zarr"):
        lazy.compute()
    MemoryStore.forget("not there")


def test_secrets_are_refused_before_a_task_is_sent(client, s3):
    root = hs.create(f"s3://{s3.bucket()}/a.zarr", storage_options=s3.options)
    array = root.create_array("t", data=CELLS, chunks=(3, 4))
    before = graphs_of(client)
    for call in (array.to_dask, lambda: array.__setitem__(..., da.from_array(OTHER, chunks=5))):
        with pytest.raises(Invalid, match=r"secret_access_key.*module:function") as caught:
            call()
        assert SECRET not in str(caught.value)
    assert graphs_of(client) == before


def test_workers_call_for_their_own_credentials(client, s3, tmp_path, monkeypatch):
    """On a real server that wants them; blocks that share chunks and shards lose nothing there either."""
    import cloudpickle

    (tmp_path / "keys_of_the_test.py").write_text(
        f"def keys():\n    return {{'access_key_id': 'tester', 'secret_access_key': {SECRET!r}}}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    client.run(lambda: sys.path.insert(0, str(tmp_path)))
    options = {"endpoint": s3.endpoint, "region": "us-east-1", "credentials": "keys_of_the_test:keys"}
    root = hs.create(f"s3://{s3.bucket()}/a.zarr", storage_options=options)
    for layout in ({"chunks": (3, 4)}, {"chunks": (2, 2), "shards": (6, 8)}):
        array = root.create_array("t", data=CELLS, **layout)
        assert SECRET.encode() not in cloudpickle.dumps(array.to_dask())
        np.testing.assert_array_equal(array.to_dask(), CELLS)
        array[...] = da.from_array(OTHER, chunks=(4, 5))
        np.testing.assert_array_equal(array[...], OTHER)
        del root["t"]


# -- killed workers ---------------------------------------------------------------------------------------------------


def slowly(cells, chunks):
    """Blocks that take a while, so that a kill comes in time."""
    return da.from_array(cells, chunks=chunks).map_blocks(
        lambda block: (time.sleep(0.03), block)[1], dtype=cells.dtype, meta=cells[:0]
    )


def written(array, wanted):
    """Rows that are new, when every chunk of one row is old or new."""
    rows = array[...]
    assert all((row == 0).all() or (row == new).all() for row, new in zip(rows, wanted, strict=True))
    return int((rows != 0).any(axis=1).sum())


def wait_for(condition):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def pids(client, killed=()):
    """The processes of the two workers, none of which is one that was killed."""
    found = []

    def started():
        try:
            found[:] = client.run(os.getpid).values()
        except OSError:  # one that is just being killed
            return False
        return len(set(found) - set(killed)) == 2

    wait_for(started)
    return found


@pytest.fixture
def mortal():
    """Workers of which some will be killed."""
    with dask.config.set({"distributed.scheduler.allowed-failures": 10}), cluster() as client:
        yield client


def test_a_killed_worker_s_blocks_are_written_by_another(mortal, tmp_path):
    cells = np.arange(1, 120 * 500 + 1).reshape(120, 500)
    array = hs.create(tmp_path / "a.zarr").create_array("t", shape=cells.shape, dtype="i8", chunks=(1, 500))
    future = mortal.compute(write(array, slowly(cells, (1, 500)), compute=False))
    victim = pids(mortal)[0]
    wait_for(lambda: written(array, cells) > 10)
    os.kill(victim, signal.SIGKILL)
    future.result(timeout=120)
    np.testing.assert_array_equal(array[...], cells)


@pytest.mark.sampled(0)
def test_all_workers_killed(mortal, tmp_path):
    """What was being written is old or new, nothing is held, and the same write can be made again."""
    cells = np.arange(1, 120 * 500 + 1).reshape(120, 500)
    array = hs.create(tmp_path / "a.zarr").create_array("t", shape=cells.shape, dtype="i8", chunks=(1, 500))
    victims = []
    for turn in range(3):
        data = slowly(cells, ((7, 13) * 6, (500,)) if turn % 2 else (1, 500))
        victims = pids(mortal, victims)
        before = written(array, cells)
        future = mortal.compute(write(array, data, compute=False))
        wait_for(lambda before=before: written(array, cells) > before or before == len(cells))
        for victim in victims:
            with suppress(ProcessLookupError):  # the cluster has given it up already
                os.kill(victim, signal.SIGKILL)
        future.cancel()
        assert written(array, cells) >= before
    with dask.config.set(scheduler="threads"):  # a cluster that lost all its workers may take minutes to have some
        array[...] = da.from_array(cells, chunks=(7, 100))
    np.testing.assert_array_equal(array[...], cells)
