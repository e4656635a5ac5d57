"""A real S3 server on a free port of the loopback: ``python moto_s3.py``; says the port, runs until stdin ends.

moto looks at If-Match and then stores, with nothing to hold other threads in between. S3 does both at one stroke, so
here one request that changes something is served at a time.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server


class Serialized:
    """A WSGI application that serves one changing request at a time."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            return self._application(environ, start_response)
        # Read before the lock is taken: a client that is slow to send, or stopped, holds up nobody else.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        with self._lock:
            return list(self._application(environ, start_response))


class Handler(MotoRequestHandler):
    """Keeps connections open, as S3 does; moto reads a body of the length that is told."""

    protocol_version = "HTTP/1.1"


def main() -> None:
    """Serve."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = Serialized(create_backend_app("s3"))  # moto's dispatcher looks through all services for each request
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
