"""A MongoDB server that is gone, stopped, full or that fails: a clear error each time, and nothing half for whole.

Under the one face it is a StorageError, of the command line exit code 7; the driver's own errors come through
``hyperslab.mongo``. What was acknowledged before is there afterwards.
"""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from bson import ObjectId
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

import hyperslab as hs
from command_line import CliRunner
from forked import cluster, pool
from hyperslab.cli import main
from hyperslab.errors import StorageError
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers.mongo import Mongo, running_mongod

SHORT = "serverSelectionTimeoutMS=200&connectTimeoutMS=200&socketTimeoutMS=300&heartbeatFrequencyMS=500"
IMPATIENT = "serverSelectionTimeoutMS=20&connectTimeoutMS=20"
"""Where nobody is to answer."""
LAYOUTS = ("compatible", "extended")
CELLS = np.arange(4000.0).reshape(40, 100)
OUT_OF_DISK_SPACE = 14031


def wanted() -> xr.Dataset:
    """Twenty chunks of two documents."""
    return xr.Dataset({"v": (("y", "x"), da.from_array(CELLS, chunks=(10, 20)))}, {"x": np.arange(100)})


def objects(client: MongoClient[Any], layout: Any = "compatible") -> XarrayMongoDB:
    return XarrayMongoDB(client["db"], layout=layout, chunk_size_bytes=1000)


def filled(server: Mongo, layout: Any) -> ObjectId:
    """An object under the name ``v``."""
    with MongoClient[Any](server.url) as client:
        key, future = objects(client, layout).put(wanted(), name="v")
        future.compute(scheduler="sync")
    return key


def check_commands(url: str) -> None:
    """Each of them ends with 7, and says of what it speaks."""
    for command in (["info", url], ["dump", url], ["check", url], ["db", "list", url.partition("#")[0]]):
        result = CliRunner().invoke(main, command)
        assert (result.exit_code, "mongodb://127.0.0.1" in result.stderr) == (7, True), result.output


def check_face(url: str) -> None:
    """Nothing can be opened nor saved."""
    actions: list[Callable[[], Any]] = [
        lambda: hs.open(url),
        lambda: hs.open(url.partition("#")[0])["v"],
        lambda: xr.open_dataset(url, engine="hyperslab"),
        lambda: hs.save(url.replace("#v", "#w"), wanted()),
        lambda: hs.create(url.replace("#v", "#w")),
    ]
    for action in actions:
        with pytest.raises(StorageError, match=r"mongodb://127\.0\.0\.1") as caught:
            action()
        assert isinstance(caught.value.__cause__, PyMongoError)


def check_objects(client: MongoClient[Any], key: ObjectId) -> None:
    """The errors are those of the driver."""
    xdb = objects(client)
    for action in (lambda: xdb.get(key), lambda: xdb.put(wanted().compute()), xdb.list, lambda: xdb.delete(key)):
        with pytest.raises(AutoReconnect):
            action()


# -- gone -------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(0)
def test_never_there() -> None:
    url = f"mongodb://127.0.0.1:9/db?{IMPATIENT}#v"
    check_face(url)
    check_commands(url)


@pytest.mark.soak
@pytest.mark.parametrize("layout", LAYOUTS)
def test_killed_between_two_reads(tmp_path: Path, layout: Any) -> None:
    """What is open goes on once the server is back."""
    with running_mongod(dbpath=tmp_path) as server:
        key = filled(server, layout)
        url = f"{server.url}/db?{SHORT}#v"
        array = hs.open_group(url)["v"]
        np.testing.assert_array_equal(array[:10], CELLS[:10])
        with MongoClient[Any](f"{server.url}/?{SHORT}") as client:
            lazy = objects(client, layout).get(key)
            read = xr.open_dataset(url, engine="hyperslab", chunks={})
            server.kill()
            actions: list[Callable[[], Any]] = [lambda: array[10:], lambda: read.load(scheduler="sync")]
            for action in actions:
                with pytest.raises(StorageError):
                    action()
            with pytest.raises(PyMongoError):
                lazy.compute(scheduler="sync")
            check_objects(client, key)
            with running_mongod(dbpath=tmp_path, port=server.port):
                np.testing.assert_array_equal(array[...], CELLS)
                xr.testing.assert_identical(lazy.compute(scheduler="sync"), wanted().compute())
                np.testing.assert_array_equal(read["v"].compute(scheduler="sync"), CELLS)


@pytest.mark.parametrize("round_", [0, *(pytest.param(number, marks=pytest.mark.soak) for number in range(1, 10))])
def test_killed_while_reading(tmp_path: Path, round_: int) -> None:
    """Every read gives the right cells, or an error."""
    with running_mongod(dbpath=tmp_path) as server:
        key = filled(server, LAYOUTS[round_ % 2])
        url = f"{server.url}/db?{SHORT}#v"
        outcomes: list[Any] = []

        def read(by: Callable[[], Any]) -> None:
            while not outcomes or not isinstance(outcomes[-1], Exception):
                try:
                    outcomes.append(bool((np.asarray(by()) == CELLS).all()))
                except Exception as error:
                    outcomes.append(error)

        with MongoClient[Any](f"{server.url}/?{SHORT}") as client:
            xdb, array = objects(client), hs.open_group(url, cache_bytes=0)["v"]
            threads = [
                threading.Thread(target=read, args=(by,))
                for by in (lambda: array[...], lambda: xdb.get(key, load=True)["v"])
            ]
            for thread in threads:
                thread.start()
            while len(outcomes) < 10 + round_:
                pass
            server.kill()
            for thread in threads:
                thread.join()
    failures = [each for each in outcomes if isinstance(each, Exception)]
    assert failures
    assert all(isinstance(each, StorageError | PyMongoError) for each in failures), failures
    assert all(each for each in outcomes if not isinstance(each, Exception))


# -- stopped ----------------------------------------------------------------------------------------------------------


@contextmanager
def stopped(server: Mongo) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.go_on()


@pytest.mark.sampled(0)
@pytest.mark.parametrize("layout", ["extended", pytest.param("compatible", marks=pytest.mark.soak)])
def test_stopped(layout: Any) -> None:
    """It keeps its connections and answers nobody; a put that it did not answer can be resumed."""
    with running_mongod() as server, MongoClient[Any](f"{server.url}/?{SHORT}") as client:
        key = filled(server, layout)
        url = f"{server.url}/db?{SHORT}#v"
        array = hs.open_group(url)["v"]
        xdb = objects(client, layout)
        other, future = xdb.put(wanted())
        with stopped(server):
            with pytest.raises(StorageError):
                _ = array[...]
            check_face(url)
            assert CliRunner().invoke(main, ["info", url]).exit_code == 7
            check_objects(client, key)
            with pytest.raises(PyMongoError):
                future.compute(scheduler="sync")
        np.testing.assert_array_equal(array[...], CELLS)
        if layout == "compatible":
            assert not xdb.is_complete(other)
        with pytest.raises(DocumentNotFoundError):
            xdb.get(other, load=True)
        xdb.resume(other, wanted()).compute(scheduler="sync")
        xr.testing.assert_identical(xdb.get(other, load=True), wanted().compute())
        with pytest.raises(hs.errors.NotFound):
            hs.open(url.replace("#v", "#w"))
        assert client["db"]["xarray.meta"].count_documents({"name": "v"}) == 1


@pytest.mark.soak
def test_stopped_for_one_who_said_nothing_of_time() -> None:
    """The driver and we give up by ourselves, in a minute or so."""
    with running_mongod() as server:
        filled(server, "compatible")
        array = hs.open_group(f"{server.url}/db#v", cache_bytes=0)["v"]
        np.testing.assert_array_equal(array[...], CELLS)
        with stopped(server):
            with pytest.raises(StorageError):
                _ = array[...]
            with pytest.raises(StorageError):
                hs.open(f"{server.url}/db#v")
        np.testing.assert_array_equal(array[...], CELLS)


# -- full, and failing ------------------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_file_may_grow(tmp_path: Path, layout: Any) -> None:
    """The server gives up, as it does on a full disk; all that it had acknowledged is there once there is room."""
    there = {}
    with running_mongod(dbpath=tmp_path) as server, MongoClient[Any](f"{server.url}/?{SHORT}") as client:
        xdb = objects(client, layout)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (3 << 20, resource.RLIM_INFINITY))
        with pytest.raises(PyMongoError):
            for number in range(1000):
                key = ObjectId()
                cells = xr.DataArray(np.random.default_rng(number).standard_normal(1 << 16), attrs={"number": number})
                xdb.put(cells, _id=key)
                there[key] = cells
        server.process.wait()
        with pytest.raises(StorageError):
            list(hs.open_group(f"{server.url}/db?{SHORT}"))
    with running_mongod(dbpath=tmp_path, port=server.port), MongoClient[Any](server.url) as client:
        xdb = objects(client, layout)
        for known, expected in there.items():
            xr.testing.assert_identical(xdb.get(known), expected)
        try:
            complete = xdb.is_complete(key)
        except DocumentNotFoundError:
            complete = False
        if not complete:
            with pytest.raises(DocumentNotFoundError):
                xdb.get(key)
            xdb.resume(key, cells)
        xr.testing.assert_identical(xdb.get(key), cells)


@pytest.fixture(scope="module")
def frail() -> Iterator[Mongo]:
    """A server that fails when it is told to."""
    with running_mongod(settings=("enableTestCommands=1",)) as server:
        yield server


@contextmanager
def failing(server: Mongo, commands: list[str], mode: Any = "alwaysOn", **how: Any) -> Iterator[int]:
    """These commands fail, for everybody; gives how many ever did before."""
    with MongoClient[Any](server.url) as client:
        data = {"failCommands": commands, **how}
        before = client.admin.command("configureFailPoint", "failCommand", mode=mode, data=data)["count"]
        try:
            yield before
        finally:
            client.admin.command("configureFailPoint", "failCommand", mode="off")


@pytest.mark.sampled(20)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("skip", [0, 1, 2, 7])
def test_no_space_for_a_write(frail: Mongo, layout: Any, skip: int) -> None:
    """The one after the first, the second …: an error that says so, nothing found by name, nothing whole."""
    with MongoClient[Any](frail.url) as client:
        client.drop_database("db")
        xdb = objects(client, layout)
        key = ObjectId()
        with (
            failing(frail, ["insert"], {"skip": skip}, errorCode=OUT_OF_DISK_SPACE),
            pytest.raises(OperationFailure) as caught,
        ):
            xdb.put(wanted(), _id=key)[1].compute(scheduler="sync")
        assert caught.value.code == OUT_OF_DISK_SPACE
        with pytest.raises(DocumentNotFoundError):
            xdb.get(key, load=True)
        future = xdb.resume(key, wanted()) if skip or layout == "extended" else xdb.put(wanted(), _id=key)[1]
        future.compute(scheduler="sync")
        xr.testing.assert_identical(xdb.get(key, load=True), wanted().compute())
        url = f"{frail.url}/db?{SHORT}#w"
        with (
            failing(frail, ["insert"], {"skip": skip}, errorCode=OUT_OF_DISK_SPACE),
            pytest.raises(StorageError, match="mongodb://"),
        ):
            hs.save(url, wanted())
        assert client["db"]["xarray.meta"].count_documents({"_id": {"$ne": key}}) == 0
        assert client["db"]["xarray.chunks"].count_documents({"meta_id": {"$ne": key}}) == 0
        with pytest.raises(hs.errors.NotFound):
            hs.open(url)


# -- failing while others store ---------------------------------------------------------------------------------------

HELD = {"namespace": "db.xarray.chunks", "blockConnection": True, "blockTimeMS": 700}
"""Not failing, but late."""


def two_blocks(url: str, before: int, cells: np.ndarray[Any, Any]) -> Any:
    """A block that is stored, and one that cannot be computed as soon as the server has the first one in hand."""

    def block(part: Any, block_id: Any = ()) -> Any:
        if block_id[-1]:
            with MongoClient[Any](url) as client:
                client.admin.command("waitForFailPoint", "failCommand", timesEntered=before + 1, maxTimeMS=60_000)
            raise OSError("no such cells")
        return part

    half = cells.shape[1] // 2
    return da.from_array(cells, chunks=(-1, half)).map_blocks(block, dtype=cells.dtype, meta=np.empty((0, 0)))


def inserted(client: MongoClient[Any]) -> int:
    """The documents that were ever stored."""
    return int(client.admin.command("serverStatus")["metrics"]["document"]["inserted"])


def wait_for_documents(client: MongoClient[Any], count: int) -> None:
    latest = time.monotonic() + 60
    while inserted(client) < count:
        assert time.monotonic() < latest


@contextmanager
def under(scheduler: str) -> Iterator[None]:
    """Two tasks at once: in threads, in processes of the caller's, on a cluster."""
    if scheduler == "cluster":
        with cluster(threads=1):
            yield
    elif scheduler == "processes":
        with pool() as processes, dask.config.set(scheduler=scheduler, pool=processes, chunksize=1):
            yield
    else:
        with ThreadPoolExecutor(2) as threads, dask.config.set(scheduler=scheduler, pool=threads):
            yield


@pytest.mark.sampled(20)
@pytest.mark.parametrize("scheduler", ["threads", "processes", "cluster"])
def test_saving_fails_while_a_chunk_is_being_stored(frail: Mongo, scheduler: str) -> None:
    """What was in hand when another block failed does not come after what is cleared away."""
    with MongoClient[Any](frail.url) as client, under(scheduler):
        client.drop_database("db")
        before = inserted(client)
        with failing(frail, ["insert"], {"times": 1}, **HELD) as times:
            dataset = xr.Dataset({"v": (("y", "x"), two_blocks(frail.url, times, CELLS))})
            with pytest.raises(OSError, match="no such cells"):
                hs.save(f"{frail.url}/db#w", dataset)
            wait_for_documents(client, before + 2)
        assert client["db"]["xarray.meta"].count_documents({}) == 0
        assert client["db"]["xarray.chunks"].count_documents({}) == 0


@pytest.mark.parametrize(
    "scheduler", ["threads", *(pytest.param(each, marks=pytest.mark.soak) for each in ("processes", "cluster"))]
)
def test_appending_fails_while_a_chunk_is_being_stored(frail: Mongo, scheduler: str) -> None:
    """The object is what it was, and nothing lies behind its end."""
    with MongoClient[Any](frail.url) as client, under(scheduler):
        client.drop_database("db")
        xdb = XarrayMongoDB(client["db"])
        wanted = xr.Dataset({"v": (("y", "x"), da.from_array(CELLS, chunks=(-1, 50)))})
        key, future = xdb.put(wanted)
        future.compute(scheduler="sync")
        before = inserted(client)
        with failing(frail, ["insert"], {"times": 1}, **HELD) as times:
            more = xr.Dataset({"v": (("y", "x"), two_blocks(frail.url, times, CELLS))})
            with pytest.raises(OSError, match="no such cells"):
                xdb.append(key, more, "y")
            wait_for_documents(client, before + 1)
        assert client["db"]["xarray.chunks"].count_documents({}) == 2
        xr.testing.assert_identical(xdb.get(key, load=True), wanted.compute())


# -- reading what fails -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [{"closeConnection": True}, *(pytest.param({"errorCode": code}, marks=pytest.mark.soak) for code in (11600, 189))],
)
def test_reads_that_fail_once_are_repeated(frail: Mongo, how: dict[str, Any]) -> None:
    """A connection that breaks, a server that shuts down, a primary that steps down."""
    quick = "heartbeatFrequencyMS=500"
    with MongoClient[Any](f"{frail.url}/?{quick}") as client:
        client.drop_database("db")
        key = filled(frail, "compatible")
        array = hs.open_group(f"{frail.url}/db?{quick}#v")["v"]
        with failing(frail, ["find"], {"times": 1}, **how):
            np.testing.assert_array_equal(array[...], CELLS)
        with failing(frail, ["find"], {"times": 1}, **how):
            xr.testing.assert_identical(objects(client).get(key, load=True), wanted().compute())
        with failing(frail, ["find"], **how):
            with pytest.raises(StorageError):
                hs.open(f"{frail.url}/db?{SHORT}#v")
            with pytest.raises(PyMongoError):
                objects(client).get(key)
