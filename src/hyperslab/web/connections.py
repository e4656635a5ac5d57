"""Connections: uvicorn with httptools, in a thread of its own, with bounds that uvicorn does not have.

Who opens a connection, or begins a request, and does not go on is cut off after some seconds, and so is who does not
read what is sent; there are never more connections than so many, of which those that do nothing give way to new ones.
Nothing is logged of requests: an address may hold the token.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import threading
from enum import Enum
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hyperslab.errors import Invalid, StorageError
from hyperslab.stores.system import most_files

# Seconds in which a client must have sent a request, once it has begun; and seconds for which a connection stays open
# between two requests.
_HEAD_SECONDS, _IDLE_SECONDS = 10.0, 30
# Seconds in which a client must have read so many bytes (17 KiB/s), or all there are: so long the server holds them.
_READ_SECONDS, _READ_BYTES = 30.0, 512 << 10
# Bytes of the head of a request: cookies of other servers on the machine are among it.
_HEAD_BYTES = 32 << 10
_MOST_CONNECTIONS = 1024
# Connections that may wait to be accepted, and that asyncio accepts before it makes the first of them known: these are
# not among the most yet, and take files.
_WAITING, _ACCEPTED_AT_ONCE = 256, 8
# Seconds that requests have to end when the server is closed.
_CLOSING_SECONDS = 3
# Counts the moments at which connections became idle: the clock of uvloop is the same for all that come at once.
_IDLE_MOMENTS = itertools.count()
# Whoever sends what is no HTTP could fill a log, where uvicorn has a line for each; defects are logged by the guard.
_NOBODY = logging.getLogger("hyperslab.web.connections")
_NOBODY.setLevel(logging.CRITICAL)


def most_connections() -> int:
    """Return how many connections are open at most: of the files that the process may open datasets need half."""
    most = most_files()
    return _MOST_CONNECTIONS if most is None else max(min(_MOST_CONNECTIONS, most // 2), 1)


class _Awaited(Enum):
    """Which part of a request has begun to come, and not ended."""

    NOTHING = 0
    HEAD = 1
    BODY = 2


class BoundedConnection(HttpToolsProtocol):
    """A connection of uvicorn that does not wait for the rest of a request forever, and takes no endless head."""

    _awaited = _Awaited.NOTHING
    _head_bytes = 0
    _deadline: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _idle_since = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _NOBODY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin; where there are too many, another one ends that does nothing."""
        super().connection_made(transport)
        self._idle_since = next(_IDLE_MOMENTS)
        if len(self.connections) > most_connections():
            idle = (each for each in self.connections if isinstance(each, BoundedConnection) and each.is_idle())
            longest = min(idle, key=lambda each: each._idle_since)
            self.connections.discard(longest)
            longest.transport.abort()
            if longest is self:
                return
        # asyncio does so where it knows that it is TCP, not of a socket that was made elsewhere. Without it
        # the last bytes of a value wait 40 ms for the client's acknowledgement of those before.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._set_deadline()

    def is_idle(self) -> bool:
        """Return True where no request is answered just now."""
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._awaited is _Awaited.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES:
                self.send_400_response("The head of the request is too long.")
        if self._awaited is not _Awaited.NOTHING or self.is_idle():
            self._set_deadline()
        else:
            self._clear_deadline()

    def on_message_begin(self) -> None:
        """Begin with a request."""
        super().on_message_begin()
        self._awaited, self._head_bytes = _Awaited.HEAD, 0

    def on_headers_complete(self) -> None:
        """Have a request answered, whose body may be still to come."""
        self._awaited = _Awaited.BODY
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End with a request."""
        self._awaited = _Awaited.NOTHING
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, of which a part may be here already."""
        self._idle_since = next(_IDLE_MOMENTS)
        super().on_response_complete()
        if self._awaited is not _Awaited.NOTHING:
            self._set_deadline()

    def pause_writing(self) -> None:
        """Wait for the client to read what was written, for some seconds."""
        super().pause_writing()
        self._watch()

    def _watch(self) -> None:
        """Look in some seconds whether the client goes on reading."""
        unread = self.transport.get_write_buffer_size()
        self._stuck = self.loop.call_later(_READ_SECONDS, self._look, unread)

    def _look(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < _READ_BYTES:
            self.transport.abort()
        else:
            self._watch()

    def resume_writing(self) -> None:
        """Go on: the client has read nearly all of it."""
        self._stop_watching()
        super().resume_writing()

    def _stop_watching(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._clear_deadline()
        self._stop_watching()
        super().connection_lost(exc)

    def _set_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(_HEAD_SECONDS, self._cut_off)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut_off(self) -> None:
        self._deadline = None
        if self.is_idle() or self._awaited is _Awaited.BODY:
            self.transport.abort()


class _Server(uvicorn.Server):
    """uvicorn, with more connections waiting than are accepted at once. ``begun``: it serves, and can be stopped."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.begun = threading.Event()

    async def main_loop(self) -> None:
        """Serve until it is stopped: uvicorn before 0.41 never ends when it is stopped before this."""
        self.begun.set()
        await super().main_loop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        for each in sockets or []:
            each.listen(_WAITING)


class HttpListener:
    """A running server at ``address``. Invalid, StorageError where nobody can listen there."""

    def __init__(self, app: ASGIApp, host: str, port: int, token: str) -> None:
        self.token = token
        self._socket = _listen(host, port)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            app,
            http=BoundedConnection,
            loop="auto",  # uvloop where it is installed: half of the processor's time per request
            backlog=_ACCEPTED_AT_ONCE,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # nobody is believed to be another client than it is
            server_header=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=_CLOSING_SECONDS,
        )
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, name="hyperslab_web_loop", daemon=True)
        # A thread that is joined is taken for ended when Ctrl-C ends the joining (bpo-45274).
        self._ended = threading.Event()
        self._thread.start()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._server.begun.set()
            self._ended.set()

    def wait(self) -> None:
        """Wait until the server is closed; Ctrl-C ends the waiting."""
        self._ended.wait()

    def close(self) -> None:
        """End all connections and the thread."""
        self._server.begun.wait()  # else uvicorn before 0.41 never ends
        self._server.should_exit = True
        self._ended.wait()
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens: who connects from now on is answered as soon as the server runs."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_WAITING)
    except OverflowError:
        raise Invalid(f"there is no port {port}", remedy="give a number up to 65535, 0 for any free one") from None
    except OSError as error:
        remedy = "choose another port (--port), 0 for any free one"
        raise StorageError(f"cannot listen at {host}:{port}: {error.strerror}", remedy=remedy) from error
