"""One wait for the journal for all chunks of a put, and what a server that is started anew meanwhile has lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.array
import numpy as np
import pytest
import xarray as xr
from pymongo import MongoClient, WriteConcern
from pymongo.database import Database
from pymongo.monitoring import CommandListener

import hyperslab as hs
from hyperslab.bridges.mongo import origin
from hyperslab.errors import NotFound, StorageError
from hyperslab.formats.mongo.server import current_writer, lone_process
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB

if TYPE_CHECKING:
    from servers.mongo import Mongo

CELLS = np.arange(24.0).reshape(4, 6)
LAYOUTS = ["compatible", "extended"]


class Writes(CommandListener):
    """Writes in their order: the collection, and whether each waits for the journal."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []

    def started(self, event: Any) -> None:
        if event.command_name in ("insert", "update"):
            collection = event.command[event.command_name].rpartition(".")[2]
            self.seen.append((collection, bool(event.command.get("writeConcern", {}).get("j"))))

    def succeeded(self, event: Any) -> None: ...

    def failed(self, event: Any) -> None: ...


def put(database: Database[Any], layout: Any, x: xr.DataArray, **options: Any) -> Any:
    """Store an object with documents of 20 bytes; its id."""
    objects = XarrayMongoDB(database, layout=layout, chunk_size_bytes=20, embed_threshold_bytes=0, **options)
    key, future = objects.put(x)
    if future is not None:
        future.compute(scheduler="sync")
    return key


def array(chunks: Any = (2, 3)) -> xr.DataArray:
    """An array of dask's, or of NumPy's."""
    return xr.DataArray(CELLS if chunks is None else dask.array.from_array(CELLS, chunks=chunks), dims=("y", "x"))


@pytest.mark.parametrize("chunks", [(2, 3), None])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_chunks_share_one_wait_for_the_journal(mongo: Mongo, database: Database[Any], layout: str, chunks: Any) -> None:
    """A write that waits follows the last chunk, and all that makes the object whole follows that."""
    writes = Writes()
    with MongoClient[Any](mongo.url, event_listeners=[writes]) as client:
        key = put(client[database.name], layout, array(chunks))
    last = max(place for place, (collection, _) in enumerate(writes.seen) if collection == "chunks")
    assert {waits for collection, waits in writes.seen if collection == "chunks"} == {False}
    assert {waits for collection, waits in writes.seen if collection == "meta"} == {True}
    assert len(writes.seen[last + 1 :]) >= 2  # the wait, and the document or the end of its mark
    np.testing.assert_array_equal(XarrayMongoDB(database).get(key, load=True), CELLS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_chunk_waits_in_a_replica_set(mongo_replica: Mongo, replica: Database[Any], layout: str) -> None:
    """Another member may take over meanwhile, which does not have what only this one had acknowledged."""
    writes = Writes()
    with MongoClient[Any](mongo_replica.url, directConnection=True, event_listeners=[writes]) as client:
        put(client[replica.name], layout, array())
    assert {waits for collection, waits in writes.seen if collection == "chunks"} == {True}


def test_each_chunk_waits_where_the_server_is_not_known(
    mongo: Mongo, database: Database[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a router, whose wait at the end would be that of one of its servers alone."""
    monkeypatch.setattr(origin, "lone_process", lambda database: None)
    writes = Writes()
    with MongoClient[Any](mongo.url, event_listeners=[writes]) as client:
        put(client[database.name], "compatible", array())
    assert {waits for collection, waits in writes.seen if collection == "chunks"} == {True}


def test_a_primary_is_known_by_its_election(replica: Database[Any], database: Database[Any]) -> None:
    assert current_writer(replica) is not None
    assert current_writer(replica) == current_writer(replica)
    assert lone_process(replica) is None
    assert lone_process(database) == current_writer(database) is not None


def test_nothing_waits_that_is_not_to_be_durable(mongo: Mongo, database: Database[Any]) -> None:
    writes = Writes()
    with MongoClient[Any](mongo.url, event_listeners=[writes]) as client:
        put(client[database.name], "compatible", array(), durable=False)
    assert {waits for _, waits in writes.seen} == {False}


class RestartedServer:
    """A server that is killed and started anew, at the same port, when it is told to."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.server = self._start(None)

    def _start(self, port: int | None) -> Mongo:
        from servers.mongo import running_mongod

        return self._stack.enter_context(running_mongod(dbpath=self._folder, port=port))

    def restart(self) -> None:
        self.server.kill()
        self.server = self._start(self.server.port)


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[RestartedServer]:
    with ExitStack() as stack:
        yield RestartedServer(tmp_path, stack)


def restart_within(
    restarted: RestartedServer, client: MongoClient[Any], *, waits: bool, has_lost: bool
) -> Callable[[Any], Any]:
    """Return a function of blocks, which it gives back: at the third one the server is started anew.

    ``waits``: after a write that waits for the journal, and so has all before it written there. ``has_lost``: the
    chunks are gone then.
    """
    database = client["restarted"]
    blocks = iter(range(100))

    def compute(block: Any) -> Any:
        if block.size and next(blocks) == 2:
            if waits:
                database["others"].with_options(write_concern=WriteConcern(j=True)).insert_one({})
            restarted.restart()
            client.admin.command("ping")
            if has_lost:
                database["xarray.chunks"].delete_many({})
        return block

    return compute


@pytest.mark.sampled(20)
@pytest.mark.parametrize("has_lost", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_server_has_lost_is_missed(restarted: RestartedServer, layout: Any, has_lost: bool) -> None:
    """It is killed while blocks are stored. Chunks that it had not written to its journal by then would be missing,
    and nobody had told so: the driver connects anew by itself."""
    with MongoClient[Any](restarted.server.url) as client:
        database = client["restarted"]
        compute = restart_within(restarted, client, waits=not has_lost, has_lost=has_lost)
        x = xr.DataArray(dask.array.from_array(CELLS, chunks=(2, 3)).map_blocks(compute, dtype=float), dims=("y", "x"))
        objects = XarrayMongoDB(
            database, layout=layout, chunk_size_bytes=20, embed_threshold_bytes=0, verify=False, read_index=False
        )
        key, future = objects.put(x)
        if not has_lost:
            future.compute(scheduler="sync")
            np.testing.assert_array_equal(objects.get(key, load=True), CELLS)
            return
        with pytest.raises(DocumentNotFoundError):
            future.compute(scheduler="sync")
        with pytest.raises(DocumentNotFoundError):
            objects.get(key, load=True)
        objects.resume(key, x).compute(scheduler="sync")
        np.testing.assert_array_equal(objects.get(key, load=True), CELLS)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("has_lost", [True, False])
def test_what_a_server_has_lost_of_an_object_that_is_saved(restarted: RestartedServer, has_lost: bool) -> None:
    """It has no name then, rather than fill values in place of cells."""
    with MongoClient[Any](restarted.server.url) as client:
        database = client["restarted"]
        compute = restart_within(restarted, client, waits=True, has_lost=has_lost)
        cells = dask.array.from_array(CELLS, chunks=(2, 3)).map_blocks(compute, dtype=float, meta=np.empty((0, 0)))
        x = xr.Dataset({"v": (("y", "x"), cells)})
        place = f"{restarted.server.url}/restarted#saved"
        with dask.config.set(scheduler="sync"):
            if has_lost:
                with pytest.raises(StorageError, match="started anew"):
                    hs.save(place, x, workers=1)
                with pytest.raises(NotFound):
                    hs.open(place)
                assert database["xarray.meta"].count_documents({}) == database["xarray.chunks"].count_documents({}) == 0
            hs.save(place, x, workers=1)
        np.testing.assert_array_equal(hs.open_group(place)["v"][...], CELLS)
