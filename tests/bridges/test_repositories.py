"""Workers of a cluster write into a repository: what they changed is merged, and becomes one commit or nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
import pytest
import xarray as xr

import hyperslab as hs
from forked import cluster
from hyperslab.errors import Invalid
from servers.s3 import S3

CELLS = np.arange(500 * 4, dtype="i4").reshape(500, 4)


@pytest.fixture(scope="module")
def client() -> Iterator[distributed.Client]:
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), cluster() as client:
        yield client


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"icechunk+file://{tmp_path}/r"


def messages(url: str) -> list[str]:
    return [each.message for each in hs.history(url)]


def test_saving_is_one_commit(client: distributed.Client, url: str) -> None:
    lazy = da.from_array(CELLS, chunks=(1, 4))
    hs.save(url, xr.Dataset({"t": (("time", "x"), lazy)}), chunks={"time": 1})
    hs.save(url, xr.Dataset({"t": (("time", "x"), da.from_array(CELLS[:7], chunks=3))}), append_dim="time")
    with hs.open(url, "r+") as root:
        root["t"][10:20] = da.zeros((10, 4), chunks=(3, 4), dtype="i4")
        root["t"][::-5] = da.ones((102, 4), chunks=(25, 4), dtype="i4")
    wanted = np.concatenate([CELLS, CELLS[:7]])
    wanted[10:20] = 0
    wanted[::-5] = 1
    assert messages(url) == [
        "write /t, 102 chunks",
        "write /t, 10 chunks",
        "append along time",
        "save",
        "Repository initialized",
    ]
    np.testing.assert_array_equal(hs.open(url)["t"][...], wanted)
    lazy_again = hs.open(url, at=hs.history(url)[3].id).to_xarray(chunks={})
    np.testing.assert_array_equal(lazy_again["t"].compute(), CELLS)


def test_appending_to_an_array(client: distributed.Client, url: str) -> None:
    with hs.create(url) as root:
        array = root.create_array("t", data=CELLS[:100], chunks=(10, 4))
        array.append(da.from_array(CELLS[100:], chunks=(50, 4)))
    np.testing.assert_array_equal(hs.open(url)["t"][...], CELLS)
    assert messages(url)[:2] == ["write /t, 40 chunks", "write /t, 10 chunks"]


def test_converting_is_one_commit(client: distributed.Client, url: str, tmp_path: Path) -> None:
    source = tmp_path / "source.zarr"
    with hs.create(source) as root:
        root.create_array("g/t", data=CELLS, chunks=(1, 4), shards=False, dims=("time", "x"))
        root.create_array("s", data=CELLS[:50], chunks=(10, 4))
    report = hs.convert(source, url, scheduler=client, verify=True, memory="64kB")
    assert report.verified is not None
    assert messages(url) == ["convert source.zarr", "Repository initialized"]
    assert hs.diff(source, url) == []


def test_readers_on_workers_see_the_version_that_was_opened(client: distributed.Client, url: str) -> None:
    with hs.commit(url, "begin") as root:
        root.create_array("t", data=CELLS, chunks=(100, 4))
    lazy = hs.open(url)["t"].to_dask()
    with hs.commit(url, "zeros") as root:
        root["t"][...] = 0
    np.testing.assert_array_equal(lazy.compute(), CELLS)


def die_once(block: Any, flag: str, block_info: Any = None) -> Any:
    """End the worker that computes a block in the middle, the first time."""
    if block_info and block_info[0]["chunk-location"][0] == 250 and not os.path.exists(flag):
        Path(flag).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_worker_that_dies_leaves_nothing(client: distributed.Client, url: str, tmp_path: Path) -> None:
    with hs.commit(url, "begin") as root:
        root.create_array("t", data=np.zeros_like(CELLS), chunks=(1, 4))
    flag = str(tmp_path / "died")
    lazy = da.from_array(CELLS, chunks=(1, 4)).map_blocks(die_once, flag=flag, dtype="i4", meta=np.empty((0, 0), "i4"))
    with hs.open(url, "r+") as root:
        with pytest.raises(distributed.KilledWorker):
            root["t"][...] = lazy
        assert messages(url)[0] == "begin"
        assert not hs.open(url)["t"][...].any() and not root["t"][...].any()
        client.wait_for_workers(2)
        root["t"][...] = lazy
    assert messages(url)[:2] == ["write /t, 500 chunks", "begin"]
    np.testing.assert_array_equal(hs.open(url)["t"][...], CELLS)


def test_secrets_stay_here(client: distributed.Client, s3: S3, tmp_path: Path) -> None:
    place = s3.repository()
    url, options = place["url"], place["storage_options"]
    with pytest.raises(Invalid, match="secrets are not sent to other processes"):
        hs.save(url, xr.Dataset({"t": (("x",), da.ones(4, chunks=2))}), storage_options=options)
    hs.save(tmp_path / "a.zarr", np.arange(4))
    with pytest.raises(Invalid, match=r"secrets \(.*secret_access_key.*\) are not sent to other processes"):
        hs.convert(tmp_path / "a.zarr", url, scheduler=client, storage_options=(None, options))
