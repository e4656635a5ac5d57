"""Requests as bytes, which no client of HTTP would write, and what a server makes of them; a server in a process of its
own, of which the memory is measured."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

TOKEN = "letmein"


@dataclass(frozen=True)
class Outcome:
    """The status of an answer, 0 where the server ended the connection without one, and its body."""

    status: int
    head: str
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error that the body tells."""
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found

    @property
    def headers(self) -> dict[str, str]:
        """The headers, by their names in lower case."""
        pairs = (line.partition(":") for line in self.head.split("\r\n")[1:])
        return {name.lower(): value.strip() for name, _, value in pairs}


def port_of(address: str) -> int:
    """The port of a server's address."""
    return int(address.rpartition(":")[2])


def request(
    target: str, *headers: str, method: str = "GET", host: str | None = "localhost", token: str = TOKEN, body: str = ""
) -> bytes:
    """A request; ``host`` None for none. Text beyond ASCII is written as UTF-8."""
    lines = [f"{method} {target} HTTP/1.1", *([] if host is None else [f"Host: {host}"])]
    lines += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, *headers, "Connection: close", "", body]).encode("utf-8", "surrogatepass")


def send(address: str, data: bytes, *, ends: bool = False) -> Outcome:
    """What a server answers to some bytes; ``ends``: behind them the client ends its side, since they are no whole
    request."""
    answer = b""
    connection = socket.create_connection(("127.0.0.1", port_of(address)), timeout=20)
    with connection, suppress(ConnectionResetError, BrokenPipeError):
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        while more := connection.recv(1 << 16):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    found = Outcome(int(head.split()[1]) if head else 0, head.decode("latin-1"), body)
    length = int(found.headers.get("content-length", len(body)))
    return replace(found, body=body[:length])  # behind it may be the answer to what came behind the request


@dataclass(frozen=True)
class ServerProcess:
    """A server in a process of its own."""

    address: str
    process: subprocess.Popen[str]

    def peak(self) -> int:
        """The most bytes of memory that it had at a time."""
        with open(f"/proc/{self.process.pid}/status") as status:
            (line,) = (line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) << 10


@contextmanager
def server_process(*places: object, files: int | None = None, says: str = "") -> Iterator[ServerProcess]:
    """A server of places without a token; it may have so many ``files`` open. It may say nothing but where it is, and
    a warning that ``says`` so."""
    command = [sys.executable, "-m", "hyperslab", "serve", *map(str, places), "--json", "--token", ""]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        try:
            text = ""
            while not text.endswith("}\n") or text.count("{") != text.count("}"):
                line = process.stdout.readline()
                assert line, "the server has ended"
                text += line
            yield ServerProcess(json.loads(text)["url"].rstrip("/"), process)
            process.send_signal(2)
            out, errors = process.communicate(timeout=300)  # what is read is read to its end
            is_quiet = not errors or (says and says in errors and "Traceback" not in errors)
            assert (process.returncode, out, is_quiet) == (0, "", True), errors
        finally:
            process.kill()
