"""A real S3 server on a free port of the loopback: ``python -m benchmarks.counting_s3``.

It says the port, then answers each line of its input with the number of requests so far, and the seconds that it spent
on those that list keys, until the input ends. moto walks over all keys of a bucket for each list; S3 does not.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server


class Counting:
    """A WSGI application that counts the requests to another one, and times those that list keys."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._next = count(1).__next__
        self.requests, self.listing = 0, 0.0

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.requests = self._next()
        if "list-type" not in environ["QUERY_STRING"]:
            return self._application(environ, start_response)
        begun = time.perf_counter()
        answer = [*self._application(environ, start_response)]
        self.listing += time.perf_counter() - begun
        return answer


class Handler(MotoRequestHandler):
    """Keeps connections open, as S3 does."""

    protocol_version = "HTTP/1.1"


def main() -> None:
    """Serve."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = Counting(create_backend_app("s3"))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for _ in sys.stdin:
        print(application.requests, application.listing, flush=True)


if __name__ == "__main__":
    main()
