"""A real HTTP proxy before a server, which does harm to the answers that a test chooses."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

Fault = str | None
"""``503``, ``403``, ``reset`` (no answer), ``lost`` (served, but no answer), ``truncate``, ``break`` (reset within the
body), ``hang``; ``unquoted``: lists have ETags without quotes, as those of rclone's server; None: none."""

_BODIES = {
    "503": b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
    "403": b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
}


class Proxy(ThreadingHTTPServer):
    """``choose(method, path)`` says what harm is done to a request; ``seen`` are all of them."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream).netloc
        self.choose: Callable[[str, str], Fault] = lambda method, path: None
        self.seen: list[tuple[str, str]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def times(self, count: int, fault: Fault, methods: tuple[str, ...] = ("GET",)) -> None:
        """Do this harm to the next ``count`` requests of these methods."""
        left = [fault] * count
        lock = threading.Lock()

        def choose(method: str, path: str) -> Fault:
            with lock:
                return left.pop() if left and method in methods else None

        self.choose = choose

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path))
        fault = self.server.choose(self.command, self.path)
        if fault == "hang":
            self.server.over.wait(60)
        if fault in ("hang", "reset"):
            return self._reset()
        if fault in _BODIES:
            return self._answer(int(fault), [("Content-Length", str(len(_BODIES[fault])))], _BODIES[fault])
        upstream = HTTPConnection(self.server.upstream)
        upstream.request(self.command, self.path, body, {**self.headers, "Connection": "close"})
        response = upstream.getresponse()
        data = response.read()
        upstream.close()
        if fault == "lost":
            return self._reset()
        if fault == "unquoted":
            data = re.sub(b'<ETag>"(.*?)"</ETag>', rb"<ETag>\1</ETag>", data)
            fault = None
        kept = ("connection", "transfer-encoding", "content-length")
        headers = [(name, value) for name, value in response.getheaders() if name.lower() not in kept]
        length = response.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        self._answer(response.status, [*headers, ("Content-Length", length or "0")], data, fault)
        return None

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, fault: Fault = None) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(data[: len(data) // 2] if fault else data)
        if fault == "truncate":
            self.close_connection = True
        elif fault:
            self._reset()

    def _reset(self) -> None:
        """End the connection with a reset."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
        self.wfile = open("/dev/null", "wb")  # noqa: SIM115


@contextmanager
def faulty(upstream: str) -> Iterator[Proxy]:
    """A proxy for the block."""
    with Proxy(upstream) as proxy:
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.over.set()
            proxy.shutdown()
