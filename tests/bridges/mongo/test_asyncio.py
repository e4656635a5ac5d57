"""The same for asyncio, on a database of pymongo's asynchronous client and of motor."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr
from bson import ObjectId
from pymongo import AsyncMongoClient

from hyperslab.errors import Invalid, WrongType
from hyperslab.mongo import DocumentNotFoundError, XarrayMongoDB, XarrayMongoDBAsyncIO

if TYPE_CHECKING:
    from servers.mongo import Mongo


@pytest.fixture(params=["pymongo", "motor"])
async def database(request: pytest.FixtureRequest, mongo: Mongo) -> AsyncIterator[Any]:
    client: Any
    if request.param == "pymongo":
        client = AsyncMongoClient(mongo.url)
    else:
        motor = pytest.importorskip("motor.motor_asyncio")
        client = motor.AsyncIOMotorClient(mongo.url)
    name = mongo.database()
    yield client[name]
    await client.drop_database(name)
    closed = client.close()
    if closed is not None:
        await closed


def sample() -> xr.Dataset:
    return xr.Dataset({"t": (("y", "x"), np.arange(12.0).reshape(3, 4))}, {"x": [1, 2, 3, 4]}).chunk({"x": 3, "y": 2})


async def test_put_and_get(database: Any) -> None:
    xdb = XarrayMongoDBAsyncIO(database, chunk_size_bytes=16, embed_threshold_bytes=0)
    assert xdb.meta.database is database
    key, future = await xdb.put(sample())
    assert (await xdb.meta.find_one({"_id": key}))["chunkSize"] == 16
    with pytest.raises(DocumentNotFoundError):
        await xdb.get(key, load=True)
    assert future.compute(scheduler="sync") is None
    xr.testing.assert_identical(await xdb.get(key, load=True), sample().compute())
    lazy = await xdb.get(key)
    assert lazy["t"].chunks == ((2, 1), (3, 1))
    xr.testing.assert_identical(lazy.compute(scheduler="threads"), sample().compute())
    with pytest.raises(DocumentNotFoundError):
        await xdb.get(ObjectId())
    await xdb.rename(key, "air")
    xr.testing.assert_identical(await xdb.get("air", load=True), sample().compute())
    with pytest.raises(DocumentNotFoundError, match=r"^water$"):
        await xdb.get("water")


async def test_sizes_and_collections_can_be_assigned(database: Any) -> None:
    xdb = XarrayMongoDBAsyncIO(database)
    xdb.chunk_size_bytes, xdb.embed_threshold_bytes = 7, 0
    xdb.meta, xdb.chunks = database["a"], database["b"]
    key, _ = await xdb.put(sample().compute())
    assert await database["b"].count_documents({"n": 1}) == 2
    assert (await database["a"].find_one({}))["_id"] == key
    assert (xdb.chunk_size_bytes, xdb.embed_threshold_bytes) == (7, 0)


async def test_every_other_method(database: Any) -> None:
    xdb = XarrayMongoDBAsyncIO(database, layout="extended")
    key, _ = await xdb.put(sample().compute(), name="n")
    await xdb.append("n", sample().compute(), "x", repeated="allow")
    turned = sample().compute().isel(x=slice(None, None, -1))
    with pytest.raises(Invalid, match="labels of 'x'"):
        await xdb.append("n", turned, "y")
    with pytest.raises(Invalid, match="labels of 'x'"):
        await xdb.update("n", turned, {"x": slice(0, 4)})
    await xdb.update("n", xr.Dataset({"t": (("y", "x"), [[-1.0]])}), {"y": slice(0, 1), "x": slice(0, 1)})
    assert (await xdb.get(key))["t"].values[0].tolist() == [-1, 1, 2, 3, 0, 1, 2, 3]
    new, _ = await xdb.replace("n", sample().compute())
    await xdb.rename(new, "m")
    copy = await xdb.copy("m", name="o")
    assert [each.name for each in await xdb.find(name="m")] == ["m"]
    assert await xdb.is_complete(copy)
    assert await xdb.resume(copy, sample().compute()) is None
    assert await xdb.check() == []
    assert (await xdb.collect_garbage(age=0)).documents == 0
    await xdb.delete("o")
    assert [each.id for each in await xdb.list()] == [new]
    assert "AsyncIO" in repr(xdb)


def test_each_class_has_its_kind_of_database(mongo: Mongo, client: Any) -> None:
    with pytest.raises(TypeError, match="XarrayMongoDB"):
        XarrayMongoDBAsyncIO(client["a"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(TypeError, match="AsyncIO"):
            XarrayMongoDB(AsyncMongoClient(mongo.url)["a"])  # type: ignore[arg-type]


async def test_a_copy_goes_to_a_database(database: Any) -> None:
    xdb = XarrayMongoDBAsyncIO(database)
    key, _ = await xdb.put(sample().compute())
    target: Any = "name of the copy"
    with pytest.raises(WrongType, match="name="):
        await xdb.copy(key, target)
    copy = await xdb.copy(key, XarrayMongoDBAsyncIO(database, "other"), name="there")
    assert [found.id for found in await XarrayMongoDBAsyncIO(database, "other").list()] == [copy]
