"""Which requests are answered at all: those for our host, by who has the token, within the limits; nothing is written.

A page of another site may have the browser of a user ask a server on the user's machine. It cannot read what is
answered (no CORS), cannot come by a name of its own that leads to this machine (the Host header must be ours), and has
no token: the cookie is not sent with its requests.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hyperslab.web.answers import answer

_log = logging.getLogger("hyperslab.web")
_EXPOSED = "Accept-Ranges, Content-Length, Content-Range, ETag"
_ALLOWED = "Authorization, If-None-Match, If-Range, Range"


@dataclass(frozen=True)
class Limits:
    """What one client may take of the server, and all of them together.

    ``url``: bytes of path and query; ``head``: bytes of all headers. ``per_client``: requests at once of one address,
    those that wait among them; ``at_once``: requests that are worked on, whoever's. ``seconds``: until an answer
    begins; ``waiting``: until it is worked on.
    """

    url: int = 4096
    head: int = 16384
    per_client: int = 256
    at_once: int = 64
    seconds: float = 120.0
    waiting: float = 30.0


@dataclass(frozen=True)
class Admission:
    """Who is answered. ``host``: what the server listens at; ``token``: empty where nobody needs one; ``origins``: of
    the pages of other sites that may read what is answered, ``*`` for all."""

    host: str
    token: str = field(repr=False)
    origins: frozenset[str] = frozenset()

    @property
    def cookie(self) -> str:
        """What the cookie holds: made of the token, which is not in it."""
        return sha256(b"hyperslab cookie " + self.token.encode()).hexdigest()

    def is_our_host(self, header: str) -> bool:
        """Return True for a Host header that names this server: an address, or a name that is ours.

        Addresses are no danger: a name of another site is what leads a browser here.
        """
        name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
        name = name.strip("[]").rstrip(".").lower()
        if name in ("localhost", self.host.lower()):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return not is_loopback(self.host) and name in (socket.gethostname().lower(), socket.getfqdn().lower())
        return address.is_loopback or not is_loopback(self.host)

    def is_let_in(self, headers: dict[bytes, bytes], query: str) -> bool:
        """Return True for who has the token, in a header, a cookie or the query."""
        if not self.token:
            return True
        kind, _, value = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        candidates = [(value.strip(), self.token)] if kind.lower() == "bearer" else []
        if query:
            candidates += [(value, self.token) for value in parse_qs(query).get("token", [])[:1]]
        if b"cookie" in headers:
            candidates += [(value, self.cookie) for value in read_cookies(headers)]
        same = [hmac.compare_digest(given.encode(), wanted.encode()) for given, wanted in candidates]
        return True in same  # each was compared, in a time that does not tell how far it is right

    def allows_origin(self, origin: str) -> bool:
        """Return True for the pages of a site that may read what is answered."""
        return "*" in self.origins or origin in self.origins


COOKIE = "hyperslab"


def read_cookies(headers: dict[bytes, bytes]) -> Iterable[str]:
    """Return the values of our cookie; a browser has one of each server on a machine, whatever the port."""
    try:
        jar = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return []
    return [each.value for name, each in jar.items() if name.startswith(COOKIE)]


def is_loopback(host: str) -> bool:
    """Return True for a host that nobody reaches from elsewhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Guard:
    """An ASGI application that hands on to ``app`` what may be answered, and answers everything else itself."""

    def __init__(self, app: ASGIApp, admission: Admission, limits: Limits) -> None:
        self._app = app
        self._admission = admission
        self._limits = limits
        self._running: Counter[str] = Counter()
        self._room = asyncio.Semaphore(limits.at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        send = self._with_headers(send, origin)
        refusal = self._refuse(scope, headers, origin)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        client = (scope.get("client") or ("", 0))[0]
        if self._running[client] >= self._limits.per_client:
            await _too_many()(scope, receive, send)
            return
        self._running[client] += 1
        try:
            await self._serve(scope, receive, send)
        finally:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client]

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on within the limits of time and of requests at once, which end where the answer begins: how long a
        client may take to read it is the connection's affair."""
        begun = False

        async def begin(message: Message) -> None:
            nonlocal begun
            if not begun:
                begun = True
                limit.reschedule(None)
                self._room.release()
            await send(message)

        try:
            if self._room.locked():
                await asyncio.wait_for(self._room.acquire(), self._limits.waiting)
            else:  # nearly always, without a task of its own
                await self._room.acquire()
        except TimeoutError:
            await _too_many(503)(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._limits.seconds) as limit:
                await self._app(scope, receive, begin)
        except TimeoutError:
            await answer(503, "Timeout", "the request took too long", remedy="ask for less")(scope, receive, send)
        finally:
            if not begun:
                self._room.release()

    def _refuse(self, scope: Scope, headers: dict[bytes, bytes], origin: str) -> Response | None:
        """Return the answer to a request that is not handed on; None for one that is."""
        admission, limits = self._admission, self._limits
        query = scope.get("query_string", b"")
        if len(scope.get("raw_path") or b"") + len(query) > limits.url:
            return answer(414, "Invalid", f"the URL has more than {limits.url} bytes", remedy="ask for a shorter one")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > limits.head:
            return answer(431, "Invalid", f"the headers have more than {limits.head} bytes", remedy="send fewer")
        if not admission.is_our_host(headers.get(b"host", b"").decode("latin-1")):
            return answer(
                403, "WrongHost", "this server is not known by that name", remedy="use the URL that it printed"
            )
        is_foreign = bool(origin) and origin.partition("://")[2] != headers[b"host"].decode("latin-1")
        if is_foreign and not admission.allows_origin(origin):
            remedy = "start the server with --allow-origin of that site"
            return answer(403, "WrongOrigin", "pages of other sites may not read here", remedy=remedy)
        if scope["method"] == "OPTIONS" and is_foreign:
            return Response(status_code=204)  # what it allows is in the headers of each answer
        if scope["method"] not in ("GET", "HEAD"):
            return answer(405, "ReadOnly", "everything here is read-only", remedy="use GET or HEAD", allow="GET, HEAD")
        if not admission.is_let_in(headers, query.decode("latin-1")):
            remedy = "give the token that the server printed: ?token=..., or the header Authorization: Bearer ..."
            return answer(403, "WrongCredentials", "this takes the token of the server", remedy=remedy)
        return None

    def _with_headers(self, send: Send, origin: str) -> Send:
        """Return ``send`` with the headers that each answer has."""
        added = [(b"x-content-type-options", b"nosniff")]
        if origin and self._admission.allows_origin(origin):
            added += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-allow-methods", b"GET, HEAD"),
                (b"access-control-allow-headers", _ALLOWED.encode()),
                (b"access-control-expose-headers", _EXPOSED.encode()),
                (b"cross-origin-resource-policy", b"cross-origin"),
            ]
        else:
            added.append((b"cross-origin-resource-policy", b"same-origin"))
        if self._admission.origins:
            added.append((b"vary", b"Origin"))

        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers: list[Any] = [*message.get("headers", []), *added]
                message = {**message, "headers": headers}
            await send(message)

        return send_with


def _too_many(status: int = 429) -> Response:
    return answer(status, "Conflict", "too many requests at once", remedy="try again later, or with fewer at once")
