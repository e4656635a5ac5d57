"""Clients that stall, say nothing or do not read: they are cut off, and hold bounded memory; others are answered."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hostile_requests import DOCUMENT, GARBAGE
from raw_requests import TOKEN, ServerProcess, port_of, request, send, server_process

import hyperslab as hs
from hyperslab.stores.location import Location
from hyperslab.web import connections, zarr_view
from hyperslab.web.guard import Limits
from hyperslab.web.server import start_server

CELLS = np.arange(4000, dtype="i4").reshape(40, 100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two datasets."""
    inside = tmp_path_factory.mktemp("stalling") / "inside"
    (inside / "deeper").mkdir(parents=True)
    for place in (inside / "a.zarr", inside / "deeper" / "b.nc"):
        with hs.create(place) as root:
            root.create_array("x", data=CELLS, chunks=(10, 100), dims=("row", "column"))
    return inside


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Any]:
    with hs.serve(folder, folder / "a.zarr", token=TOKEN) as running:
        yield running


@pytest.fixture(scope="module")
def process(folder: Path) -> Iterator[ServerProcess]:
    """A server in a process that may have few files open; in the end it is an error when it has written anything."""
    with server_process(folder, files=128) as running:
        yield running


# -- sockets that stall ------------------------------------------------------------------------------------------------


def stalled(address: str, data: bytes, drip: bytes = b"", every: float = 0.05, seconds: float = 5) -> float:
    """Seconds until the server ends a connection that sends these bytes, then ``drip`` again and again."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port_of(address)), timeout=seconds) as connection:
        connection.sendall(data)
        connection.settimeout(every if drip else seconds)
        while time.monotonic() - began < seconds:
            try:
                if not connection.recv(1 << 16):
                    return time.monotonic() - began
            except TimeoutError:
                with suppress(OSError):
                    connection.sendall(drip)
            except OSError:
                return time.monotonic() - began
    return seconds


@pytest.mark.parametrize(
    ("data", "drip"),
    {
        "nothing": (b"", b""),
        "a head, letter by letter": (b"GET / HT", b"a"),
        "headers without end": (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n"),
        "a body that is due": (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n", b"a"),
        "chunks of a body": (b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        "a second request": (request(DOCUMENT).replace(b"Connection: close\r\n", b"") + b"GET /", b"a"),
    }.values(),
    ids=str,
)
def test_who_stalls_is_cut_off(server: Any, monkeypatch: pytest.MonkeyPatch, data: bytes, drip: bytes) -> None:
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.3)
    assert stalled(server.address, data, drip) < 4


def test_who_reads_slowly_but_reads_is_not_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_READ_SECONDS", 1.0)
    monkeypatch.setattr("hyperslab.web.application.PIECE", 24 << 20)
    with hs.create(tmp_path / "a.zarr") as root:
        root.create_array("x", data=np.ones(24 << 20, "u1"), chunks=(24 << 20,), codec=None)
    with (
        hs.serve(tmp_path / "a.zarr", token="") as server,
        socket.create_connection(("127.0.0.1", port_of(server.address)), timeout=10) as connection,
    ):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        connection.sendall(request("/zarr/a.zarr/x/c/0", token=""))
        got = 0
        while more := connection.recv(1 << 20, socket.MSG_WAITALL):  # more than a second for all
            got += len(more)
            time.sleep(0.06)
        assert got > 24 << 20


def test_those_that_say_nothing_give_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_MOST_CONNECTIONS", 20)
    with hs.serve(folder / "a.zarr", token=TOKEN) as server, ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(socket.create_connection(("127.0.0.1", port_of(server.address)), timeout=5))
        for _ in range(5):
            assert send(server.address, request(DOCUMENT)).status == 200


def test_few_files_are_enough(process: ServerProcess) -> None:
    with ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(socket.create_connection(("127.0.0.1", port_of(process.address)), timeout=5))
        for name in ("a.zarr", "deeper/b.nc"):
            assert send(process.address, request(f"/zarr/inside/{name}/x/c/0/0")).status == 200


def test_nothing_is_said_of_requests(process: ServerProcess) -> None:
    for data in (*GARBAGE[:12], request("/", "Upgrade: websocket", "Connection: Upgrade")):
        send(process.address, data, ends=True)
    assert send(process.address, request("/")).status == 200


# -- memory of those who do not read -----------------------------------------------------------------------------------


def test_chunks_that_nobody_reads_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperslab.web.server.CACHE_BYTES", 8 << 20)
    monkeypatch.setattr(zarr_view, "_SENT_SHARE", 2)
    cells = np.random.default_rng(0).integers(0, 255, (8, 6 << 20), "u1")
    with hs.create(tmp_path / "a.zarr", "zarr2") as root:
        root.create_array("x", data=cells, chunks=(1, 6 << 20), codec="shuffle+zlib:1")
    with hs.serve(tmp_path / "a.zarr", token="") as server:
        heads = []
        with ExitStack() as stack:
            for row in range(8):
                connection = socket.create_connection(("127.0.0.1", port_of(server.address)), timeout=20)
                stack.enter_context(connection).setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
                connection.sendall(request(f"/zarr/a.zarr/x/c/{row}/0", token=""))
                heads.append(connection.recv(12))
            statuses = [int(head.split()[1]) for head in heads]
            assert statuses == [200, 200, 200, 503, 503, 503, 503, 503]
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            found = httpx.get(f"{server.address}/zarr/a.zarr/x/c/7/0")
            if found.status_code == 200:
                break
            time.sleep(0.1)
        assert found.status_code == 200


def test_who_has_much_to_read_may_not_ask_for_more(folder: Path) -> None:
    limits = Limits(unread=3 << 20, unread_by_all=9 << 20)
    with hs.create(folder.parent / "large.zarr") as root:
        root.create_array("x", data=np.random.default_rng(0).random((1024, 1024)), chunks=(512, 512))
    query = "node=/x&y=dim_0&width=1024&height=1024"
    where = Location.of(folder.parent / "large.zarr")
    with start_server([where], token="", limits=limits) as server, ExitStack() as stack:
        statuses = []
        for _ in range(4):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port_of(server.address)), 20))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
            connection.sendall(request(f"/api/view/large.zarr?{query}", token=""))
            statuses.append(int(connection.recv(12).split()[1]))
        assert (statuses[0], statuses[-1]) == (200, 429)
        stack.close()
        deadline = time.monotonic() + 10
        while (found := httpx.get(f"{server.address}/zarr/large.zarr/zarr.json")).status_code == 429:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert found.status_code == 200


def test_chunks_that_are_none_take_bounded_memory() -> None:
    chunks = zarr_view.EncodedChunks(100_000, at_once=1)
    for number in range(10_000):
        assert chunks.get_or_make(str(number), lambda: None) is None
    assert (len(chunks._values) < 300, chunks.nbytes <= 100_000) == (True, True)
    chunks.forget("9999")
    chunks.forget("9999")
    assert chunks.nbytes <= 100_000 - zarr_view._ENTRY_BYTES


def test_a_value_of_an_older_version_ends_early(process: ServerProcess, folder: Path) -> None:
    cells = np.random.default_rng(0).integers(0, 255, 24 << 20, "u1")
    place = folder / "large.zarr"
    with hs.create(place, durable=False) as root:
        root.create_array("x", data=cells, chunks=cells.shape, codec=None)
    asked = request("/zarr/inside/large.zarr/x/c/0")
    with socket.create_connection(("127.0.0.1", port_of(process.address)), timeout=10) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        connection.sendall(asked)
        got = len(connection.recv(1 << 16))
        with hs.open(place, "r+", durable=False) as root:
            root["x"][...] = 1
        with suppress(ConnectionResetError):
            while more := connection.recv(1 << 20):
                got += len(more)
    assert got < 24 << 20
    assert send(process.address, asked).body == (place / "x" / "c" / "0").read_bytes()
