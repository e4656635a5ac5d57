"""dask.distributed: few connections whatever the number of chunks, and passwords that never travel.

Workers in two processes, the scheduler in this one; a server that lets anybody in, and one that asks who one is.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import dask.array as da
import distributed
import numpy as np
import pytest
import xarray as xr
from pymongo import MongoClient

import hyperslab as hs
from command_line import CliRunner
from forked import cluster
from hyperslab.cli import main
from hyperslab.errors import Invalid
from hyperslab.mongo import XarrayMongoDB
from servers.mongo import SECRET, Mongo

if TYPE_CHECKING:
    from pymongo.database import Database

WORKERS, THREADS = 2, 2
MODULE = "mongo_users_of_the_tests"
VARIABLE = "HYPERSLAB_TEST_MONGODB"


def cells(chunks: int) -> xr.DataArray:
    """One chunk for each row."""
    values = np.arange(chunks * 40.0).reshape(chunks, 40)
    return xr.DataArray(da.from_array(values, chunks=(1, 40)), dims=("y", "x"), name="t")


def created(database: Database[Any]) -> int:
    """The connections that were ever made to the server."""
    status = database.client.admin.command("serverStatus")["connections"]
    return int(status["totalCreated"])


@pytest.fixture(scope="module")
def workers() -> Iterator[distributed.Client]:
    with cluster(WORKERS, THREADS) as client:
        yield client


# -- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(0)
@pytest.mark.parametrize("layout", [pytest.param("compatible", marks=pytest.mark.soak), "extended"])
@pytest.mark.parametrize("chunks", [200, pytest.param(1000, marks=pytest.mark.soak)])
def test_connections_do_not_grow_with_chunks(
    workers: distributed.Client, mongo: Mongo, layout: Any, chunks: int
) -> None:
    """At most one for each thread and two that watch the server, in each process that takes part."""
    fresh = f"{mongo.url}/?appName={layout}{chunks}"  # no process has a client for it yet
    with MongoClient[Any](fresh) as client:
        database = client[mongo.database()]
        before = created(database)
        xdb = XarrayMongoDB(database, layout=layout)
        key, future = xdb.put(cells(chunks))
        assert workers.compute(future).result() is None
        xr.testing.assert_identical(workers.compute(xdb.get(key)).result(), cells(chunks).compute())
        grown = created(database) - before
        assert grown <= (WORKERS + 1) * (THREADS + 2)
        assert xdb.chunks.count_documents({}) == chunks


@pytest.mark.sampled(0)
@pytest.mark.parametrize("chunks", [50, pytest.param(500, marks=pytest.mark.soak)])
def test_connections_of_the_one_face(workers: distributed.Client, mongo: Mongo, chunks: int) -> None:
    name = mongo.database()
    url = f"{mongo.url}/{name}?appName=face{chunks}#t"
    wanted = cells(chunks).to_dataset()
    with MongoClient[Any](mongo.url) as client:
        before = created(client[name])
        wanted.hyperslab.save(url)
        np.testing.assert_array_equal(hs.open_group(url)["t"].to_dask().compute(), wanted["t"].to_numpy())
        with xr.open_dataset(url, engine="hyperslab", chunks={}) as read:
            assert read["t"].chunks == wanted["t"].chunks
            xr.testing.assert_identical(read.compute(), wanted.compute())
        grown = created(client[name]) - before
    assert grown <= (WORKERS + 1) * (THREADS + 2)


@pytest.mark.parametrize("layout", ["compatible", "extended"])
def test_tasks_that_are_tried_again(workers: distributed.Client, mongo: Mongo, tmp_path: Path, layout: Any) -> None:
    folder = str(tmp_path)

    def twice(block: Any, block_id: Any = ()) -> Any:
        try:
            Path(folder, "-".join(map(str, block_id))).touch(exist_ok=False)
        except FileExistsError:
            return block
        raise OSError("in vain")

    wanted = cells(20)
    with MongoClient[Any](mongo.url) as client:
        xdb = XarrayMongoDB(client[mongo.database()], layout=layout, chunk_size_bytes=100)
        key, future = xdb.put(wanted.copy(data=wanted.data.map_blocks(twice, dtype="f8")))
        assert workers.compute(future, retries=3).result() is None
        assert workers.compute(future, retries=3).result() is None
        assert xdb.chunks.count_documents({}) == 20 * 4
        xr.testing.assert_identical(xdb.get(key, load=True), wanted.compute())


# -- passwords --------------------------------------------------------------------------------------------------------


@contextmanager
def told(workers: distributed.Client, variable: str, value: str) -> Iterator[None]:
    """An environment variable here and in the workers."""
    os.environ[variable] = value
    workers.run(lambda: os.environ.__setitem__(variable, value))
    try:
        yield
    finally:
        del os.environ[variable]
        workers.run(lambda: os.environ.pop(variable) and None)


@pytest.fixture
def module(workers: distributed.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a function that gives the user, here and in the workers."""
    name = f"{MODULE}_{tmp_path.name}"
    code = f"def user():\n    return {{'username': 'admin', 'password': {SECRET!r}, 'authSource': 'admin'}}\n"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    workers.run(lambda: sys.path.insert(0, str(tmp_path)))
    return f"{name}:user"


def check_secret(*things: Any) -> None:
    """None of these holds the password: in text, pickled, nor in any task of their graphs."""
    for thing in things:
        assert SECRET not in repr(thing) + str(thing)
        assert SECRET.encode() not in cloudpickle.dumps(thing)
        for task in dict(getattr(thing, "__dask_graph__", dict)() or {}).values():
            assert SECRET not in repr(task)
            assert SECRET.encode() not in cloudpickle.dumps(task)


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("how", "layout"),
    [
        ("uri_env", "compatible"),
        ("credentials", "extended"),
        pytest.param("uri_env", "extended", marks=pytest.mark.soak),
        pytest.param("credentials", "compatible", marks=pytest.mark.soak),
    ],
)
def test_users_do_not_travel(
    workers: distributed.Client, guarded: Mongo, module: str, caplog: pytest.LogCaptureFixture, how: str, layout: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    chosen: Any = {"uri_env": VARIABLE} if how == "uri_env" else {"credentials": module}
    with told(workers, VARIABLE, guarded.admin), MongoClient[Any](guarded.admin) as client:
        xdb = XarrayMongoDB(client[guarded.database()], layout=layout, **chosen)
        key, future = xdb.put(cells(30))
        check_secret(future)
        assert future.compute() is None
        lazy = xdb.get(key)
        check_secret(lazy, lazy.data, lazy.to_dataset())
        xr.testing.assert_identical(lazy.compute(), cells(30).compute())
        assert SECRET not in repr(xdb)
    assert SECRET not in caplog.text


def test_a_user_without_a_name_for_it_is_refused_at_once(workers: distributed.Client, guarded: Mongo) -> None:
    """Nothing is written, and no task is sent."""
    with MongoClient[Any](guarded.admin) as client:
        database = client[guarded.database()]
        xdb = XarrayMongoDB(database)
        with pytest.raises(Invalid, match="uri_env") as caught:
            xdb.put(cells(3))
        assert SECRET not in str(caught.value)
        assert database.list_collection_names() == []
        key = xdb.put(cells(3).compute())[0]
        xdb.chunk_size_bytes, xdb.embed_threshold_bytes = 100, 0
        key = xdb.put(cells(3).compute())[0]
        with pytest.raises(Invalid, match="credentials"):
            xdb.get(key, load=False)
        with pytest.raises(Invalid, match="uri_env"):
            pickle.dumps(xdb._origin())
        xr.testing.assert_identical(xdb.get(key), cells(3).compute())


@pytest.mark.parametrize("how", ["uri_env", "credentials"])
def test_users_of_the_one_face_do_not_travel(
    workers: distributed.Client, guarded: Mongo, module: str, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"{guarded.url}/{guarded.database()}#t"
    options = {"uri_env": VARIABLE} if how == "uri_env" else {"credentials": module}
    wanted = cells(30).to_dataset()
    with told(workers, VARIABLE, guarded.admin):
        wanted.hyperslab.save(url, storage_options=options)
        lazy = hs.open_group(url, storage_options=options)["t"].to_dask()
        read = xr.open_dataset(url, engine="hyperslab", chunks={}, storage_options=options)
        check_secret(lazy, read, hs.open(url, storage_options=options))
        np.testing.assert_array_equal(lazy.compute(), wanted["t"].to_numpy())
        xr.testing.assert_identical(read.compute(), wanted.compute())
        read.close()
    assert SECRET not in caplog.text


def test_a_password_in_a_url_does_not_travel_nor_show(
    workers: distributed.Client, guarded: Mongo, caplog: pytest.LogCaptureFixture
) -> None:
    """Under the one face it is refused before a task is sent, too."""
    caplog.set_level(logging.DEBUG)
    url = guarded.admin.replace("/?", f"/{guarded.database()}?") + "#t"
    hs.save(url, cells(3).to_dataset().compute())
    root = hs.open_group(url)
    texts = [repr(root), str(root), root.url]
    with pytest.raises(Invalid, match="credentials") as caught:
        root["t"].to_dask()
    with pytest.raises(Invalid) as saving:
        cells(3).to_dataset().hyperslab.save(url.replace("#t", "#u"))
    with MongoClient[Any](guarded.admin) as client:
        assert client[url.rpartition("/")[2].partition("?")[0]]["xarray.meta"].count_documents({}) == 1
    with pytest.raises(hs.HyperslabError) as wrong:
        hs.open(url.replace(SECRET, SECRET + "x"))
    texts += [str(each.value) for each in (caught, saving, wrong)] + [
        repr(each.value) for each in (caught, saving, wrong)
    ]
    runner = CliRunner()
    for command in (["info", url], ["dump", url], ["check", url], ["db", "list", url], ["info", url + "-none"]):
        result = runner.invoke(main, command)
        texts += [result.output, str(result.exception)]
    assert [text for text in texts if SECRET in text] == []
    assert SECRET not in caplog.text
