"""Which requests are answered at all: those for our host, by who has the token, within the limits; nothing is written.

A page of another site may have the browser of a user ask a server on the user's machine. It cannot read what is
answered (no CORS), cannot load it as an image or a script (what the browser says of where a request comes from), cannot
come by a name of its own that leads to this machine (the Host header must be ours), and has no token: the cookie is not
sent with its requests.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import socket
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hyperslab.errors import HyperslabError, Invalid
from hyperslab.web.answers import HEADERS, answer, render_texts
from hyperslab.web.bounded_values import public_text
from hyperslab.web.page_files import is_of_page

_log = logging.getLogger("hyperslab.web")
_EXPOSED = "Accept-Ranges, Content-Length, Content-Range, ETag"
_ALLOWED = "Authorization, If-None-Match, If-Range, Range"
# Seconds for which a browser need not ask again what a page of an allowed site may send.
_PREFLIGHT_SECONDS = b"600"
# Bytes of a body up to which its request counts no longer than until it is handed over.
_SMALL_BODY = 64 << 10
# Host headers: a name or an address (IPv6 in brackets), and a port.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:@/\\\[\]]+)(?::\d{0,5})?", re.IGNORECASE)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._~-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?")
# What a token may be made of: it stands in headers and in addresses.
_TOKEN = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")


@dataclass(frozen=True)
class Limits:
    """Limits of what one client may take of the server, and all of them together.

    ``url``: bytes of path and query; ``head``: bytes of all headers. ``per_client``: requests at once of one address,
    those that wait among them; ``at_once``: requests that are worked on, whoever's. ``seconds``: until an answer
    begins; ``waiting``: until it is worked on. ``unread``: bytes that one address has yet to read of its answers,
    before it may ask for more; ``unread_by_all``: the same of all addresses.
    """

    url: int = 4096
    head: int = 16384
    per_client: int = 256
    at_once: int = 64
    seconds: float = 120.0
    waiting: float = 30.0
    unread: int = 128 << 20
    unread_by_all: int = 512 << 20


@dataclass(frozen=True)
class Admission:
    """The rules of who is answered. ``host``: what the server listens at; ``token``: empty where nobody needs one;
    ``origins``: of the pages of other sites that may read what is answered, ``*`` for all; ``names``: those that are
    ours.

    ``frames``: pages of other sites may show ours in a frame, as notebooks do, also by the name of a proxy. Its files
    need no token then: the page has one in its address, and sends it along with all that it asks. What comes with a
    query needs one.
    """

    host: str
    token: str = field(repr=False)
    origins: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset({"localhost"})
    frames: bool = False

    @classmethod
    def of(cls, host: str, token: str, allow_origin: str | Iterable[str], *, frames: bool = False) -> Admission:
        """Return who is answered by a server; Invalid for what is no host, token or origin."""
        if not host:
            raise Invalid("an empty host", remedy="0.0.0.0 is every address of this machine, 127.0.0.1 nobody else's")
        if not token and not is_loopback(host):
            remedy = "leave token= (--token) out, or listen at 127.0.0.1"
            raise Invalid("without a token everybody who reaches this machine could read", remedy=remedy)
        if _TOKEN.fullmatch(token) is None:
            raise Invalid(
                "a token with letters beyond ASCII, or with spaces around it", remedy="leave it out, for a random one"
            )
        sites = [allow_origin] if isinstance(allow_origin, str) else allow_origin
        origins = frozenset(site if site == "*" else parse_origin(site) for site in sites)
        return cls(host, token, origins, our_names(host, origins), frames)

    @property
    def cookie(self) -> str:
        """The value of the cookie: made of the token, which is not in it."""
        return sha256(b"hyperslab cookie " + self.token.encode()).hexdigest()

    def is_our_host(self, header: str) -> bool:
        """Return True for a Host header that names this server: an address, or a name that is ours.

        Addresses are no danger: a name of another site is what leads a browser here.
        """
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = found[1].strip("[]").rstrip(".").lower()
        if name in self.names or "*" in self.origins or self.frames:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
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
            candidates += [(value, self.cookie) for value in read_cookies(headers[b"cookie"].decode("latin-1"))]
        same = [hmac.compare_digest(found.encode(), wanted.encode()) for found, wanted in candidates]
        return True in same  # each was compared, in a time that does not tell how far it is right

    def allows_origin(self, origin: str) -> bool:
        """Return True for the pages of a site that may read what is answered."""
        return "*" in self.origins or origin in self.origins

    def is_from_elsewhere(self, headers: dict[bytes, bytes]) -> bool:
        """Return True for a request by a page of another site that may not read here."""
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin:
            is_ours = origin.partition("://")[2] == headers.get(b"host", b"").decode("latin-1")
            return not is_ours and not self.allows_origin(origin)
        # what a page has loaded as an image or a script has no origin; to follow a link from there is fine
        is_loaded = headers.get(b"sec-fetch-mode") not in (None, b"navigate")
        is_foreign = headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site")
        return is_loaded and is_foreign and "*" not in self.origins


COOKIE = "hyperslab"


def read_cookies(header: str) -> list[str]:
    """Return the values of our cookies; a browser has those of every server on a machine, whatever the port."""
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return [value for name, _, value in pairs if name.startswith(COOKIE)]


def parse_origin(text: str) -> str:
    """Return the origin of a site's pages, as browsers spell it; Invalid."""
    origin = text.strip().rstrip("/").lower()
    if _ORIGIN.fullmatch(origin) is None:
        raise Invalid(f"{text!r} is no origin", remedy="give a site without a path, such as https://site.example")
    return origin


def our_names(host: str, origins: Iterable[str]) -> frozenset[str]:
    """Return the names by which requests may come, beside addresses: what the server listens at, those of its machine
    where others reach it, and those of sites whose pages may read anyway (a proxy before it has one)."""
    names = {"localhost", host.lower()}
    if not is_loopback(host):  # once, and not for each request: a name server may take seconds
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    sites = (_ORIGIN.fullmatch(origin) for origin in origins)
    return frozenset(names | {site[1].strip("[]") for site in sites if site is not None})


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
        self._unread: Counter[str] = Counter()
        self._room = asyncio.Semaphore(limits.at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        send = self._with_headers(send, headers.get(b"origin", b"").decode("latin-1"))
        client = (scope.get("client") or ("", 0))[0]
        refusal = self._refuse(scope, headers) or self._refuse_more(client)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self._running[client] += 1
        try:
            await self._serve(scope, receive, send, client)
        except HyperslabError as error:  # of a value that cannot be read on: the client sees that bytes are missing
            _log.info("an answer ended early: %s", public_text(error.said))
            raise
        except Exception:
            _log.exception("there was no answer to %r", scope["path"])
            raise
        finally:
            self._running[client] -= 1
            if not self._running[client]:
                del self._running[client], self._unread[client]

    async def _serve(self, scope: Scope, receive: Receive, send: Send, client: str) -> None:
        """Hand on within the limits of time and of requests at once, which end where the answer begins: how long a
        client may take to read it is the connection's affair."""
        begun, unread = False, 0

        async def hand_over(message: Message) -> None:
            nonlocal unread
            size = len(message.get("body", b""))
            self._unread[client] += size
            try:
                await send(message)  # which waits until what was handed over before is on its way
            finally:
                self._unread[client] -= unread
                unread = size

        async def begin(message: Message) -> None:
            nonlocal begun
            if not begun:
                begun = True
                limit.reschedule(None)
                self._room.release()
            if len(message.get("body", b"")) > _SMALL_BODY and not message.get("more_body"):
                await hand_over({**message, "more_body": True})
                message = {"type": "http.response.body", "body": b""}  # the request counts until the client has it all
            await hand_over(message)

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
            if begun:
                raise
            await answer(503, "Timeout", "the request took too long", remedy="ask for less")(scope, receive, send)
        finally:
            self._unread[client] -= unread
            if not begun:
                self._room.release()

    def _refuse_more(self, client: str) -> Response | None:
        """Return the answer to a client that has too much under way already, or while all have."""
        limits = self._limits
        if self._running[client] >= limits.per_client or self._unread[client] >= limits.unread:
            return _too_many()
        return _too_many(503) if sum(self._unread.values()) >= limits.unread_by_all else None

    def _refuse(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        """Return the answer to a request that is not handed on; None for one that is."""
        admission, limits = self._admission, self._limits
        query = scope.get("query_string", b"")
        if len(scope.get("raw_path") or b"") + len(query) > limits.url:
            return answer(414, "Invalid", f"the URL has more than {limits.url} bytes", remedy="ask for a shorter one")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > limits.head:
            return answer(431, "Invalid", f"the headers have more than {limits.head} bytes", remedy="send fewer")
        if sum(name == b"host" for name, _ in scope["headers"]) != 1 or not headers[b"host"]:
            return answer(400, "Invalid", "a request names one host", remedy="send one Host header")
        if not admission.is_our_host(headers[b"host"].decode("latin-1")):
            remedy = "use the URL that it printed; behind a proxy see --allow-origin"
            return answer(403, "WrongHost", "this server is not known by that name", remedy=remedy)
        if admission.is_from_elsewhere(headers):
            remedy = "start the server with --allow-origin of that site"
            return answer(403, "WrongOrigin", "pages of other sites may not read here", remedy=remedy)
        if scope["method"] == "OPTIONS" and b"origin" in headers and admission.origins:
            return Response(status_code=204)  # what it allows is in the headers of each answer
        if scope["method"] not in ("GET", "HEAD"):
            close = {"allow": "GET, HEAD", "connection": "close"}  # whatever body is still to come
            return answer(405, "ReadOnly", "everything here is read-only", remedy="use GET or HEAD", **close)
        if b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0":
            return answer(400, "Invalid", "a request with a body", remedy="leave it out", connection="close")
        # a query may hold a token, for which the page gives the cookie that opens everything
        is_open = admission.frames and not query and is_of_page(scope["path"])
        if not (is_open or admission.is_let_in(headers, query.decode("latin-1"))):
            remedy = "open the address that the server printed, or send the header Authorization: Bearer TOKEN"
            if is_of_browser(headers):
                return _page_without_token()
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
                (b"access-control-max-age", _PREFLIGHT_SECONDS),
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


def is_of_browser(headers: dict[bytes, bytes]) -> bool:
    """Return True for a request by who typed an address or followed a link: an answer is shown to a person."""
    if b"sec-fetch-mode" in headers:
        return headers[b"sec-fetch-mode"] == b"navigate"
    return b"text/html" in headers.get(b"accept", b"")


def _page_without_token() -> Response:
    """Return the page for a person who has no token, or a wrong one."""
    texts = [
        "This server shows its datasets to who has its token.",
        "Open the address that hyperslab serve printed when it was started: it ends with ?token=… and is needed once "
        "for each browser. A server that was started anew has another token, unless --token names one.",
        "Did another person start it? Ask them for that address. In a notebook, run the cell anew.",
    ]
    headers = {**HEADERS, "cache-control": "no-store"}
    return HTMLResponse(render_texts("hyperslab: a token is needed", texts), 403, headers)


def _too_many(status: int = 429) -> Response:
    return answer(status, "Conflict", "too many requests at once", remedy="try again later, or with fewer at once")
