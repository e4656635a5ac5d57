"""A database of its own for each test, and the golden documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from hyperslab.mongo import XarrayMongoDB

sys.path.insert(0, str(Path(__file__).parents[2] / "formats" / "mongo"))
if TYPE_CHECKING:
    from servers.mongo import Mongo


@pytest.fixture(scope="session")
def client(mongo: Mongo) -> Iterator[MongoClient[Any]]:
    with MongoClient[Any](mongo.url) as client:
        yield client


@pytest.fixture(scope="session")
def guarded() -> Iterator[Mongo]:
    """A server that asks everybody who they are."""
    from servers.mongo import running_mongod

    with running_mongod(auth=True) as server:
        yield server


@pytest.fixture
def database(client: MongoClient[Any], mongo: Mongo) -> Iterator[Database[Any]]:
    name = mongo.database()
    yield client[name]
    client.drop_database(name)


@pytest.fixture
def replica(mongo_replica: Mongo) -> Iterator[Database[Any]]:
    """Of a replica set, which has transactions."""
    with MongoClient[Any](mongo_replica.url, directConnection=True) as client:
        name = mongo_replica.database()
        yield client[name]
        client.drop_database(name)


@pytest.fixture
def xdb(database: Database[Any]) -> XarrayMongoDB:
    return XarrayMongoDB(database)
