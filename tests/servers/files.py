"""A web server for the files of a folder, with Range and ETag, as any static host has them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

Spans = list[tuple[float, float]]
"""When each request began and was answered."""
_SILENCE = 0.01  # seconds before an answer that is timed, so that requests under way at once are seen to be


def _handler(folder: Path, spans: Spans | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            began = time.monotonic()
            if spans is not None:
                time.sleep(_SILENCE)
            self._find(body=body)
            if spans is not None:
                spans.append((began, time.monotonic()))

        def _find(self, *, body: bool) -> None:
            path = folder / unquote(self.path).lstrip("/")
            if not path.is_file():
                self._send(404, b"", {}, body=body)
                return
            data, status = path.read_bytes(), path.stat()
            tag = f'"{status.st_mtime_ns:x}-{len(data):x}"'
            headers = {"ETag": tag, "Last-Modified": self.date_time_string(status.st_mtime)}
            if self.headers.get("If-Match") not in (None, tag):
                self._send(412, b"", headers, body=body)
                return
            part = _part(self.headers.get("Range", ""), len(data))
            if part is None:
                self._send(200, data, headers, body=body)
            elif part.start >= len(data):
                self._send(416, b"", {"Content-Range": f"bytes */{len(data)}"}, body=body)
            else:
                said = {"Content-Range": f"bytes {part.start}-{part.stop - 1}/{len(data)}"}
                self._send(206, data[part], headers | said, body=body)

        def _send(self, status: int, data: bytes, headers: dict[str, str], *, body: bool) -> None:
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(data))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler


def _part(asked: str, size: int) -> slice | None:
    """The bytes that a Range header names; None when it names none."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", asked)
    if found is None:
        return None
    first, last = found.groups()
    if not first:
        return slice(max(size - int(last), 0), size)
    return slice(int(first), min(int(last) + 1, size) if last else size)


@contextmanager
def serving(folder: Path, spans: Spans | None = None, port: int = 0) -> Iterator[str]:
    """The URL of a server for the block; ``spans`` gets the time of each request. ``port``: 0 for one that is free."""
    with ThreadingHTTPServer(("127.0.0.1", port), _handler(folder, spans)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield "http://127.0.0.1" + (f":{server.server_address[1]}" if port != 80 else "")
        finally:
            server.shutdown()
            thread.join()


def round_trips(spans: Spans) -> int:
    """How many requests were made after the answer to the one before: those at once count as one."""
    count, end = 0, 0.0
    for began, answered in sorted(spans, key=lambda span: span[1]):
        if began >= end:
            count, end = count + 1, answered
    return count
