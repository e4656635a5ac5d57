"""Real data through xarray on every place and under every scheduler of dask: identical to the source."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dask.multiprocessing
import iris_sample_data
import numpy as np
import pytest
import xarray as xr
from xarray.testing import assert_identical

import hyperslab as hs
from forked import cluster as forked_cluster
from forked import pool
from servers.s3 import S3

FILES = sorted(Path(iris_sample_data.path).rglob("*.nc"))
NAMES = ("hybrid_height", "vlstr_type")
"""Files of the suite: of many variables, and of text."""


@pytest.fixture(scope="module")
def environment(s3: S3) -> Iterator[None]:
    """What a worker takes its credentials from: they are not sent to it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
        patch.setenv("AWS_ACCESS_KEY_ID", "tester")
        patch.setenv("AWS_SECRET_ACCESS_KEY", s3.options["secret_access_key"])
        patch.setenv("AWS_REGION", "us-east-1")
        yield


@pytest.fixture(scope="module")
def cluster(environment: None) -> Iterator[Any]:
    with forked_cluster(threads=1) as client:
        yield client


def opened(url: str, **options: Any) -> xr.Dataset:
    return xr.open_dataset(url, engine="hyperslab", **options)


@pytest.fixture(scope="module")
def processes(environment: None) -> Iterator[Any]:
    """dask's scheduler of processes, which are started once and not anew for each compute."""
    with pool() as started:
        yield partial(dask.multiprocessing.get, pool=started)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("decode", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["decoded", "stored"])
@pytest.mark.parametrize(
    "file",
    [path if path.stem in NAMES else pytest.param(path, marks=pytest.mark.soak) for path in FILES],
    ids=lambda path: path.stem,
)
def test_identical(tmp_path: Path, s3: S3, cluster: Any, processes: Any, file: Path, decode: bool) -> None:
    places = [str(tmp_path / "a.zarr"), str(tmp_path / "a.zip"), f"s3://{s3.bucket()}/a.zarr"]
    with xr.open_dataset(file, decode_cf=decode) as source:
        for url in places:
            source.hyperslab.save(url, chunks={dim: -(-max(size, 1) // 2) for dim, size in source.sizes.items()})
            assert_identical(opened(url, decode_cf=decode), source)
            lazy = opened(url, decode_cf=decode, chunks={})
            assert_identical(lazy.compute(scheduler="threads"), source)
            assert_identical(lazy.compute(scheduler=processes), source)
            assert_identical(lazy.compute(scheduler=cluster), source)


@pytest.mark.sampled(0)
def test_a_pool_of_its_own(tmp_path: Path) -> None:
    """``scheduler="processes"``, as users write it."""
    with xr.open_dataset(FILES[0]) as whole:
        source = whole.isel(time=slice(4))  # each step is a chunk
        source.hyperslab.save(tmp_path / "a.zarr")
        lazy = opened(str(tmp_path / "a.zarr"), chunks={})
        assert_identical(lazy.compute(scheduler="processes", num_workers=1), source)


@pytest.mark.sampled(0)
def test_trees(tmp_path: Path, s3: S3, cluster: Any, processes: Any) -> None:
    with xr.open_dataset(FILES[0]) as whole:
        source = whole.isel(time=slice(6))  # each step is a chunk
        tree = xr.DataTree.from_dict({"/a": source, "/b/c": source.isel(time=slice(-3, None)), "/": xr.Dataset()})
        for url in (str(tmp_path / "a.zarr"), str(tmp_path / "a.zip"), f"s3://{s3.bucket()}/a.zarr"):
            tree.hyperslab.save(url)
            assert_identical(xr.open_datatree(url, engine="hyperslab"), tree)
            lazy = xr.open_datatree(url, engine="hyperslab", chunks={})
            assert_identical(lazy.compute(scheduler="threads"), tree)
            assert_identical(lazy.compute(scheduler=processes), tree)
            assert_identical(lazy.compute(scheduler=cluster), tree)


@pytest.mark.sampled(0)
def test_dask_arrays_are_written_by_the_workers(s3: S3, cluster: Any) -> None:
    with xr.open_dataset(FILES[0], chunks={"time": 20}) as source:
        url = f"s3://{s3.bucket()}/a.zarr"
        source.hyperslab.save(url, chunks={"time": 7})
        assert hs.open(url)["air_temperature"].chunks[0] == 7
        assert_identical(opened(url).load(), source.compute())


@pytest.mark.sampled(0)
def test_appending_in_a_bucket(s3: S3, cluster: Any) -> None:
    """Two workers append at the same time: all rows are there, and each worker's in order."""
    url = f"s3://{s3.bucket()}/a.zarr"
    xr.Dataset({"a": ("x", np.zeros(0)), "b": ("x", np.zeros(0))}).hyperslab.save(url, chunks={"x": 4})
    done = [cluster.submit(_append, url, number) for number in (1, 2)]
    assert cluster.gather(done) == [3, 3]
    got = opened(url).load()
    np.testing.assert_array_equal(got["a"], -got["b"])
    assert sorted(got["a"].values[::3].tolist()) == [10, 11, 12, 20, 21, 22]


def _append(url: str, number: int) -> int:
    for turn in range(3):
        rows = np.full(3, number * 10.0 + turn)
        xr.Dataset({"a": ("x", rows), "b": ("x", -rows)}).hyperslab.save(url, append_dim="x")
    return 3
