"""HTTP: the stored chunks of an array by eight clients, from `hyperslab serve`, servers of files, and xpublish."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import hyperslab as hs
from benchmarks.harness import OURS, Contender, Row, Target
from benchmarks.layouts import field

TITLE = "HTTP: stored chunks by eight clients"
_CLIENTS = 8
_BOUND = (
    "Python, once per request, in one thread (about 120 us of the processor): 19 % open, read and look at the value, a "
    "seventh are waiting for sockets, an eighth the two writes, the rest finding the value, the guard, starlette and "
    "uvicorn. An empty application of uvicorn with uvloop takes 22 us. nginx has the kernel send the file."
)
_NGINX = """\
daemon off; worker_processes auto; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 512; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""
_XPUBLISH = """\
import sys, xarray, xpublish
dataset = xarray.open_zarr(sys.argv[1], chunks={})
for variable in dataset.variables.values():
    variable.encoding = {}
xpublish.Rest({"a": dataset}).serve(host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
"""


def rows(folder: Path, side: int) -> Iterator[Row]:
    """Per chunk size: every chunk of the array once; then those of the same array out of a netCDF file."""
    for cells in (512, 128):
        size = min(side, 4096 if cells > 128 else 2048)
        place = folder / f"{cells}.zarr"
        values = field((size, size))
        for path in (place, place.with_suffix(".nc")):
            with hs.create(path) as root:
                root.create_array("t", data=values, chunks=(cells, cells), dims=("y", "x"), codec="zstd:3")
        count = range(size // cells)
        keys = [f"t/c/{row}/{column}" for row in count for column in count]
        stored = sum((place / key).stat().st_size for key in keys)
        title = f"{len(keys)} chunks of {stored // len(keys) >> 10} KiB"
        with ExitStack() as stack:
            theirs = Contender("xpublish", _reading(_xpublish(place, stack), keys, "/datasets/a/zarr/"))
            contenders = [
                Contender(OURS, _reading(_ours(place, stack), keys, f"/zarr/{place.name}/")),
                Contender("nginx", _reading(_nginx(folder, stack), keys, f"/{place.name}/")),
                Contender("http.server", _reading(_files(folder, stack), keys, f"/{place.name}/")),
                theirs,
            ]
            targets = [Target(name, factor, _BOUND) for name, factor in (("nginx", 0.8), ("xpublish", 5.0))]
            yield Row(title, contenders, lambda name, got, wanted=stored: name == "xpublish" or got == wanted, targets)
            encoded = Contender(OURS, _reading(_ours(place.with_suffix(".nc"), stack), keys, f"/zarr/{cells}.nc/"))
            targets = [Target("xpublish", 5.0, _BOUND)]
            yield Row(f"{title}, out of netCDF, kept", [encoded, theirs], lambda _, got: got > 0, targets)


# -- clients -----------------------------------------------------------------------------------------------------------


def _reading(start: Callable[[], int], keys: Sequence[str], above: str) -> Callable[[], int]:
    """Read all keys by some clients, each with a connection that stays; returns the bytes of all bodies. The server is
    started when it is first asked."""
    ports: list[int] = []

    def read() -> int:
        if not ports:
            ports.append(start())
        with ThreadPoolExecutor(_CLIENTS) as pool:
            paths = [above + key for key in keys]
            shares = [paths[number::_CLIENTS] for number in range(_CLIENTS)]
            return sum(pool.map(lambda share: _read_by_one(ports[0], share), shares))

    return read


def _read_by_one(port: int, paths: Sequence[str]) -> int:
    total, buffer = 0, bytearray(4 << 20)
    view = memoryview(buffer)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for path in paths:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            total += _read_answer(connection, buffer, view)
    return total


def _read_answer(connection: socket.socket, buffer: bytearray, view: memoryview) -> int:
    """Bytes of the body of one answer."""
    got, end = 0, -1
    while end < 0:
        more = connection.recv_into(view[got:])
        if not more:
            raise ConnectionError("the server ended the connection")
        got += more
        end = buffer.find(b"\r\n\r\n", 0, got)
    head = bytes(view[:end]).lower()
    if not head.startswith(b"http/1.1 200"):
        raise ConnectionError(head.partition(b"\r\n")[0].decode())
    (length,) = (int(line.split()[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    left = length - (got - end - 4)
    while left:
        more = connection.recv_into(view, min(left, len(view)))
        if not more:
            raise ConnectionError("the server ended the connection")
        left -= more
    return length


# -- servers -----------------------------------------------------------------------------------------------------------


def _ours(place: Path, stack: ExitStack) -> Callable[[], int]:
    def start() -> int:
        command = [sys.executable, "-m", "hyperslab", "serve", str(place), "--json", "--token", ""]
        process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(process.terminate)
        text = ""
        while not text.endswith("}\n") or text.count("{") != text.count("}"):
            assert process.stdout is not None
            text += process.stdout.readline()
        return int(json.loads(text)["url"].rstrip("/").rpartition(":")[2])

    return start


def _nginx(root: Path, stack: ExitStack) -> Callable[[], int]:
    def start() -> int:
        program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
        if program is None:
            raise FileNotFoundError("it is not installed (apt-get install nginx-light)")
        port, folder = _free_port(), root / f"nginx-{time.monotonic_ns()}"
        folder.mkdir()
        user = "user root;\n" if root.owner() == "root" else ""
        (folder / "conf").write_text(user + _NGINX.format(folder=folder, port=port, root=root))
        return _started([program, "-c", str(folder / "conf"), "-e", str(folder / "error")], port, stack)

    return start


def _files(root: Path, stack: ExitStack) -> Callable[[], int]:
    def start() -> int:
        port = _free_port()
        served = ["--directory", str(root), "--bind", "127.0.0.1", "--protocol", "HTTP/1.1"]
        return _started([sys.executable, "-m", "http.server", str(port), *served], port, stack)

    return start


def _xpublish(place: Path, stack: ExitStack) -> Callable[[], int]:
    def start() -> int:
        port = _free_port()
        return _started([sys.executable, "-W", "ignore", "-c", _XPUBLISH, str(place), str(port)], port, stack)

    return start


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _started(command: list[str], port: int, stack: ExitStack) -> int:
    """The port, once a server listens there; RuntimeError when it has ended."""
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = stack.enter_context(subprocess.Popen(command, **quiet))
    stack.callback(process.terminate)
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} has ended")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return port
        time.sleep(0.05)
    raise RuntimeError("nobody listens there after 30 s")
