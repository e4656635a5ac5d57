"""Start and stop a real MongoDB server, and make databases and users in it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from pymongo import MongoClient
from pymongo.database import Database

from hyperslab.testing.mongod import start

SECRET = "canary-password"
_PATIENCE = 60.0
_KEPT = {"w": "majority", "j": True}


@dataclass(frozen=True)
class Mongo:
    """A running server, with its log and data in ``dbpath``; ``auth``: it asks everybody who they are."""

    port: int
    process: subprocess.Popen[bytes]
    dbpath: Path
    auth: bool = False

    @property
    def url(self) -> str:
        """The server, and no user."""
        return f"mongodb://127.0.0.1:{self.port}"

    @property
    def admin(self) -> str:
        """The server, and a user who may do everything where there are users."""
        return self._url_of("admin") if self.auth else self.url

    def _url_of(self, user: str) -> str:
        return f"mongodb://{user}:{SECRET}@127.0.0.1:{self.port}/?authSource=admin"

    def user(self, name: str, *roles: str | dict[str, str]) -> str:
        """The URL of a new user with these roles, such as ``{"role": "read", "db": "test-1f"}``."""
        with MongoClient[Any](self.admin) as client:
            client.admin.command("createUser", name, pwd=SECRET, roles=list(roles), writeConcern=_KEPT)
        return self._url_of(name)

    def database(self) -> str:
        """The name of a new database."""
        return f"test-{uuid4().hex[:12]}"

    def kill(self) -> None:
        """End it without a chance to tidy up (SIGKILL)."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """It keeps its connections and answers nobody (SIGSTOP)."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def go_on(self) -> None:
        """After ``stop`` (SIGCONT)."""
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def running_mongod(
    *,
    replica_set: bool = False,
    auth: bool = False,
    dbpath: Path | None = None,
    port: int | None = None,
    settings: tuple[str, ...] = (),
) -> Iterator[Mongo]:
    """A server for the block, of one member where it is a ``replica_set``; to be started by a thread that lives on.

    One that was killed comes back with its ``dbpath`` and ``port``, and the same other arguments. ``settings``: of the
    server, as ``name=value``.
    """
    with TemporaryDirectory(prefix="mongod-", ignore_cleanup_errors=True) as folder:
        home = dbpath or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        is_new = not any(home.iterdir())
        process, port = start(home, port=port, settings=settings, arguments=_arguments(home, replica_set, auth))
        server = Mongo(port, process, home, auth)
        try:
            _prepare(server, is_new, replica_set)
            yield server
        finally:
            if dbpath:
                _ask_to_end(server)
            server.kill()


def _arguments(home: Path, replica_set: bool, auth: bool) -> list[str]:
    found: list[str] = []
    if replica_set:
        found += ["--replSet", "rs0", "--oplogSize", "200"]
    if auth and replica_set:
        key = home / "members.key"
        key.touch(mode=0o600)
        key.write_text("canarykey")
        found += ["--keyFile", str(key)]
    elif auth:
        found += ["--auth"]
    return found


def _prepare(server: Mongo, is_new: bool, replica_set: bool) -> None:
    """Make the replica set and the first user, which a new server lets anybody on this machine do; wait until it takes
    writes."""
    with MongoClient[Any](server.url, directConnection=True) as client:
        if is_new and replica_set:
            members = [{"_id": 0, "host": f"127.0.0.1:{server.port}"}]
            client.admin.command("replSetInitiate", {"_id": "rs0", "members": members})
        latest = time.monotonic() + _PATIENCE
        while not client.admin.command("hello")["isWritablePrimary"]:
            if time.monotonic() > latest:
                raise RuntimeError(f"mongod takes no writes; a replica set knows itself by its first port: {server}")
            time.sleep(0.05)
        if is_new and server.auth:
            client.admin.command("createUser", "admin", pwd=SECRET, roles=["root"], writeConcern=_KEPT)


def _ask_to_end(server: Mongo) -> None:
    """End it with its data written."""
    server.go_on()
    server.process.terminate()
    server.process.wait(60)


@dataclass(frozen=True)
class Work:
    """What the server did for one ``command``: ``keys`` and ``documents`` that it examined, the ``plan`` that it chose,
    and whether it ``sorts`` by itself."""

    command: dict[str, Any]
    keys: int
    documents: int
    plan: str
    sorts: bool


@contextmanager
def watched_work(database: Database[Any], collection: str) -> Iterator[list[Work]]:
    """What the server does in a collection during the block, by its own profiler; there is all of it at the end."""
    found: list[Work] = []
    database.command("profile", 2)
    try:
        yield found
    finally:
        database.command("profile", 0)
    for op in database["system.profile"].find({"ns": f"{database.name}.{collection}"}).sort("ts", 1):
        counts = op.get("keysExamined", 0), op.get("docsExamined", 0)
        found.append(Work(op["command"], *counts, op.get("planSummary", ""), op.get("hasSortStage", False)))
    database.drop_collection("system.profile")
