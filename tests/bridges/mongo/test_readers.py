"""Users who may only read: they get all there is, make nothing, and are told clearly what they may not do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from pymongo import MongoClient, monitoring
from pymongo.database import Database
from pymongo.errors import OperationFailure

import hyperslab as hs
from hyperslab.errors import NotFound, ReadOnly, WrongCredentials
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB

sys.path.insert(0, str(Path(__file__).parents[2]))
from servers.mongo import SECRET, Mongo, running_mongod

LAYOUTS = ("compatible", "extended")
READS = {"ping", "find", "aggregate", "getMore", "saslStart", "saslContinue"}


class Commands(monitoring.CommandListener):
    """The names of the commands that were sent."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, event: Any) -> None:
        """A command was sent."""
        self.names.append(event.command_name)

    def succeeded(self, event: Any) -> None:
        """Not of interest."""

    def failed(self, event: Any) -> None:
        """Not of interest."""


@pytest.fixture(scope="module")
def guarded() -> Iterator[Mongo]:
    with running_mongod(auth=True) as server:
        yield server


@pytest.fixture
def admin(guarded: Mongo) -> Iterator[Database[Any]]:
    with MongoClient[Any](guarded.admin) as client:
        yield client[guarded.database()]


@pytest.fixture
def reader(guarded: Mongo, admin: Database[Any]) -> str:
    """The URL of a user who may read this database alone."""
    return guarded.user(f"reader-{admin.name}", {"role": "read", "db": admin.name})


def wanted() -> xr.Dataset:
    cells = np.arange(600.0).reshape(20, 30)
    return xr.Dataset({"v": (("y", "x"), da.from_array(cells, chunks=(5, 10)))}, {"x": np.arange(30)}, {"title": "one"})


def state(database: Database[Any]) -> dict[str, Any]:
    """Collections with their indexes and documents."""
    return {
        name: (sorted(database[name].index_information()), list(database[name].find().sort("_id")))
        for name in database.list_collection_names()
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_that_reads(admin: Database[Any], reader: str, layout: Any) -> None:
    writer = XarrayMongoDB(admin, layout=layout, embed_threshold_bytes=0, chunk_size_bytes=100)
    key, future = writer.put(wanted(), name="one")
    future.compute(scheduler="sync")
    before = state(admin)
    with MongoClient[Any](reader) as client:
        xdb = XarrayMongoDB(client[admin.name], layout=layout)
        for load in (None, True, False, ["v"]):
            xr.testing.assert_identical(xdb.get(key, load=load).compute(scheduler="sync"), wanted().compute())
        assert [info.id for info in xdb.find({"title": "one"})] == [info.id for info in xdb.list()] == [key]
        assert xdb.is_complete(key)
    url = reader.replace("/?", f"/{admin.name}?") + "#one"
    np.testing.assert_array_equal(hs.open_group(url)["v"][3:7, 8], wanted()["v"][3:7, 8])
    with xr.open_dataset(url, engine="hyperslab") as read:
        xr.testing.assert_identical(read.load(), wanted().compute())
    assert state(admin) == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_made_where_nothing_is(admin: Database[Any], reader: str, layout: Any) -> None:
    with MongoClient[Any](reader) as client:
        xdb = XarrayMongoDB(client[admin.name], layout=layout)
        with pytest.raises(DocumentNotFoundError):
            xdb.get("none")
        assert xdb.list() == []
    with pytest.raises(NotFound):
        hs.open(reader.replace("/?", f"/{admin.name}?") + "#none")
    assert admin.list_collection_names() == []


def test_writing_is_refused_and_leaves_all_as_it_was(admin: Database[Any], reader: str) -> None:
    key, future = XarrayMongoDB(admin).put(wanted(), name="one")
    future.compute(scheduler="sync")
    before = state(admin)
    url = reader.replace("/?", f"/{admin.name}?")
    eager = wanted().compute()
    with MongoClient[Any](reader) as client:
        xdb = XarrayMongoDB(client[admin.name])
        for change in (
            lambda: xdb.put(wanted()),
            lambda: xdb.put(eager),
            lambda: xdb.delete(key),
            lambda: xdb.rename(key, "two"),
            lambda: xdb.update(key, eager, {}),
            lambda: xdb.append(key, eager, "y"),
            lambda: xdb.replace("one", eager),
            lambda: xdb.copy(key, name="three"),
        ):
            with pytest.raises(OperationFailure, match="not authorized"):
                change()
            assert state(admin) == before
    for change in (
        lambda: hs.save(f"{url}#two", eager),
        lambda: hs.save(f"{url}#one", eager, mode="w"),
        lambda: hs.open_group(f"{url}#one", "r+")["v"].__setitem__(..., 1.0),
        lambda: hs.open_group(f"{url}#one", "r+").attrs.update(title="two"),
        lambda: hs.create(f"{url}#three"),
    ):
        with pytest.raises(ReadOnly, match="not authorized") as caught:
            change()
        assert SECRET not in str(caught.value)
        assert state(admin) == before


@pytest.mark.parametrize(("known", "mode"), [("admin:wrong-1", "r"), ("nobody:wrong-2", "r+"), ("admin:wrong-3", "x")])
def test_a_wrong_password_is_an_error_of_its_own(guarded: Mongo, admin: Database[Any], known: str, mode: str) -> None:
    """Each with a user of its own: a driver's client that was refused waits 10 s before it asks again."""
    url = guarded.url.replace("//", f"//{known}@") + f"/{admin.name}?authSource=admin#one"
    with pytest.raises(WrongCredentials, match="user and password") as caught:
        hs.open(url, mode)
    assert not isinstance(caught.value, ReadOnly)
    assert isinstance(caught.value, PermissionError)
    assert "wrong-" not in str(caught.value)


def test_the_one_face_reads_by_commands_that_read(admin: Database[Any], guarded: Mongo) -> None:
    """Whoever may make indexes makes none either behind ``open`` and the engine of xarray."""
    XarrayMongoDB(admin).put(wanted(), name="one")[1].compute(scheduler="sync")
    before = state(admin)
    commands = Commands()
    options = {"event_listeners": [commands]}
    url = guarded.admin.replace("/?", f"/{admin.name}?")
    assert list(hs.open_group(url, storage_options=options)) == [str(before["xarray.meta"][1][0]["_id"])]
    np.testing.assert_array_equal(hs.open_group(f"{url}#one", storage_options=options)["v"][0, 0], 0.0)
    with xr.open_dataset(f"{url}#one", engine="hyperslab", storage_options=options) as read:
        read.load()
    assert set(commands.names) <= READS
    assert "find" in commands.names
    assert state(admin) == before
