"""Passwords stay in the process that was given them; other processes ask their environment."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr
from pymongo import AsyncMongoClient, MongoClient

from forked import pool
from hyperslab.errors import Invalid
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB, XarrayMongoDBAsyncIO

if TYPE_CHECKING:
    from servers.mongo import Mongo


@pytest.fixture(scope="module")
def writer(guarded: Mongo) -> str:
    return guarded.user("writer", {"role": "readWrite", "db": "shared"})


def sample(count: int = 4) -> xr.DataArray:
    return xr.DataArray(da.arange(count, chunks=1), dims="x", name="n")


@pytest.fixture
def owner(writer: str) -> Iterator[MongoClient[Any]]:
    with MongoClient[Any](writer) as client:
        yield client
        for name in client["shared"].list_collection_names():
            client["shared"].drop_collection(name)


def test_tasks_that_cannot_travel_are_told_of_before_any_is_sent(owner: MongoClient[Any]) -> None:
    xdb = XarrayMongoDB(owner["shared"])
    key, future = xdb.put(sample())
    for thing in (future, xdb.get(key)):
        with pytest.raises(Invalid, match="uri_env"):
            pickle.dumps(thing)
    future.compute(scheduler="threads")
    with dask.config.set(scheduler="processes"):
        with pytest.raises(Invalid, match="credentials='module:function'"):
            xdb.put(sample())
        with pytest.raises(Invalid, match="credentials='module:function'"):
            xdb.get(key)
    assert xdb.meta.count_documents({}) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"credentials": "secrets_of_tests:given"},
        pytest.param({"uri_env": "CANARY_URI"}, marks=pytest.mark.soak),
    ],
)
def test_processes_ask_for_their_password(
    owner: MongoClient[Any], writer: str, given: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    from servers.mongo import SECRET

    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("CANARY_URI", writer)
    monkeypatch.setenv("CANARY", SECRET)
    monkeypatch.syspath_prepend(Path(__file__).parent)
    xdb = XarrayMongoDB(owner["shared"], **given)
    key, future = xdb.put(sample())
    graph = cloudpickle.dumps(future) + cloudpickle.dumps(dict(future.dask)) + repr(dict(future.dask)).encode()
    with pool(1) as processes:
        future.compute(scheduler="processes", pool=processes)
        read = xdb.get(key)
        graph += cloudpickle.dumps(read) + repr(dict(read.data.dask)).encode() + repr(xdb).encode()
        assert read.compute(scheduler="processes", pool=processes).values.tolist() == [0, 1, 2, 3]
    assert SECRET.encode() not in graph
    assert SECRET not in caplog.text


def test_a_reader_needs_no_right_to_make_an_index(guarded: Mongo, owner: MongoClient[Any]) -> None:
    key, _ = XarrayMongoDB(owner["shared"]).put(xr.DataArray(np.arange(3)))
    owner["shared"]["xarray.chunks"].drop()
    with MongoClient[Any](guarded.user("reader", {"role": "read", "db": "shared"})) as client:
        reader = XarrayMongoDB(client["shared"])
        assert reader.get(key).values.tolist() == [0, 1, 2]
        with pytest.raises(DocumentNotFoundError):
            reader.get("nothing")


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (
            "mongodb://u:p%40ss@h1:1,h2:2/db?replicaSet=r&authSource=admin",
            "mongodb://h1:1,h2:2/db?replicaSet=r&authSource=admin",
        ),
        ("mongodb://u:pass@[::1]:5", "mongodb://[::1]:5/"),
        (
            "mongodb://h/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:pass",
            "mongodb://h/?authMechanism=MONGODB-AWS",
        ),
    ],
)
def test_what_travels_of_a_connection_string(uri: str, shown: str) -> None:
    with MongoClient[Any](uri, connect=False) as client:
        origin = XarrayMongoDB(client["shared"], uri=uri, uri_env="NAME")._origin()
        assert origin.uri == shown
        assert b"pass" not in pickle.dumps(origin)
        assert "pass" not in repr(origin)
        with pytest.raises(Invalid, match="uri_env"):
            pickle.dumps(XarrayMongoDB(client["shared"], uri=uri)._origin())


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("uri", "options", "shown", "settings"),
    [
        (
            "mongodb://u:p%40ss@h1:1,h2:2/db?replicaSet=r&authSource=admin",
            {},
            "mongodb://h1:1,h2:2/",
            {"replicaSet": "r"},
        ),
        (
            "mongodb://h1:1",
            {"username": "u", "password": "pass", "appname": "a", "directConnection": True},
            "mongodb://h1:1/",
            {"appname": "a", "directConnection": True},
        ),
        ("[::1]:5", {"username": "u", "password": "pass", "authSource": "x"}, "mongodb://[::1]:5/", {}),
    ],
)
def test_what_travels_of_a_client(uri: str, options: Any, shown: str, settings: Any) -> None:
    with MongoClient[Any](uri, connect=False, serverSelectionTimeoutMS=500, **options) as client:
        xdb = XarrayMongoDB(client["shared"], uri_env="NAME")
        origin = xdb._origin()
        assert (origin.uri, origin.address.settings) == (shown, {"serverSelectionTimeoutMS": 500, **settings})
        assert b"pass" not in pickle.dumps(origin)
        assert "pass" not in repr(origin)
        with pytest.raises(Invalid, match="uri_env"):  # the server cannot be asked whether there is a password
            pickle.dumps(XarrayMongoDB(client["shared"])._origin())


async def test_a_client_of_asyncio_that_has_a_password_says_so(writer: str, owner: MongoClient[Any]) -> None:
    key, _ = XarrayMongoDB(owner["shared"]).put(xr.DataArray(np.arange(3)))
    async with AsyncMongoClient[Any](writer) as client:
        with pytest.raises(Invalid, match="uri="):
            await XarrayMongoDBAsyncIO(client["shared"]).get(key)
        xdb = XarrayMongoDBAsyncIO(client["shared"], uri=writer)
        assert (await xdb.get(key)).values.tolist() == [0, 1, 2]
