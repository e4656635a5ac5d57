"""Three hundred requests of strangers: what is asked, and the statuses that are right for it.

0 is a connection that is ended without an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

from raw_requests import TOKEN, request

Case = tuple[bytes, set[int]]
DOCUMENT, CHUNK = "/zarr/a.zarr/zarr.json", "/zarr/a.zarr/x/c/0/0"
NO_NAME = {400, 404}

UPS = (
    "..",
    "%2e%2e",
    ".%2e",
    "%2E.",
    "..%2f..",
    "%2e%2e%2f",
    "..\\",
    "..%5c",
    "..%5C..",
    "%252e%252e",
    "%25%32%65%25%32%65",
    "....//",
    "...",
    "..;",
    ".%00.",
    "..%00",
    "%c0%ae%c0%ae",
    "%e0%80%ae%e0%80%ae",
    "%f0%80%80%ae",
    "%u002e%u002e",
    "\uff0e\uff0e",
    "%ef%bc%8e%ef%bc%8e",
    "..%c0%af..",
    "..%ef%bc%8f..",
)
ENDS = ("secret.zarr/zarr.json", "secret.txt", "")
UPWARD = [f"/zarr/inside/{up}/{end}" for up in UPS for end in ENDS]
UPWARD += [f"/zarr/inside/deeper/{up}/{up}/secret.zarr/x/zarr.json" for up in UPS]
UPWARD += (
    [f"/zarr/{up}" for up in UPS]
    + [f"/{up}/etc/passwd" for up in UPS]
    + [f"/api/browse/{up}/secret.zarr" for up in UPS[:8]]
)
SIDEWAYS = [
    "//etc/passwd",
    "/zarr//etc/passwd",
    "/zarr/inside//etc/passwd",
    "/zarr/inside/%2fetc%2fpasswd",
    "/zarr/%2fetc%2fpasswd/zarr.json",
    "/zarr/inside/file:%2f%2f/etc/passwd",
    "/zarr/inside/zip:%2f%2f%2fetc%2fpasswd",
    "/zarr/inside/C:%5cWindows",
    "/zarr/inside/~root/.bashrc",
    "/zarr/inside/$HOME",
    "/zarr/inside/out.zarr/zarr.json",
    "/zarr/inside/up/secret.zarr/zarr.json",
    "/zarr/inside/up/secret.txt",
    "/zarr/inside/loop",
    "/zarr/inside/loop/zarr.json",
    "/zarr/inside/.hidden.zarr/zarr.json",
    "/zarr/inside/%2ehidden.zarr/zarr.json",
    "/zarr/inside/notes.txt",
    "/zarr/inside/notes.txt/zarr.json",
    "/zarr/inside/a.zarr/../../secret.zarr/zarr.json",
    "/zarr/inside/a.zarr/x/../../../secret.zarr/zarr.json",
    "http://127.0.0.1/zarr/inside/../secret.txt",
    "/zarr/a.zarr/x/c/0/0/../../../../../secret.txt",
    "/zarr/inside/a.zarr%00.txt/zarr.json",
    "/zarr/a.zarr/x/c/3/%30%00",
    "/zarr/a.zarr/zarr.json%0d%0aX: y",
    "/zarr/inside/a.zarr/zarr.json%23",
    "/zarr/a.zarr/x/.zarray",
    "/zarr/a.zarr/losses/x",
    "/api/node/a.zarr?node=../../secret.zarr/x",
    "/api/node/a.zarr?node=/../x",
    "/api/node/a.zarr?node=%00",
    "/api/node/a.zarr?node=//etc/passwd",
    "/api/rows/inside/out.zarr?node=/x",
    "/api/view/inside/.hidden.zarr?node=/x",
    "/api/browse/inside/up",
    "/api/browse/inside/loop",
]
HOSTS = (
    "evil.example",
    "evil.example:80",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.example#localhost",
    "localhost@evil.example",
    "evil.example:80@localhost",
    "evil.example\\localhost",
    "localhost/evil",
    "localhost:80:80",
    "localhost:port",
    "[::1",
    "::1]",
    "[::1]evil.example",
    "[::2]",
    "1.2.3.4",
    "0.0.0.0",
    "0177.0.0.1.evil",
    "@",
    ":",
    ".",
    "localhost, evil.example",
    "evil.example localhost",
    "löcalhost",
)
ORIGINS = (
    "http://evil.example",
    "null",
    "http://localhost:1",
    "http://localhost.evil.example",
    "http://evil.example/localhost",
    "file://",
    "localhost",
    "http://evil.example, http://localhost",
    "é",
)
FETCHES = [(site, mode) for site in ("cross-site", "same-site") for mode in ("no-cors", "cors", "websocket", "x")]
TOKENS = ("letmei", "letmeinn", "LETMEIN", "letmein\x7f", "é", "a" * 9000, "null", "undefined", "%6cetmein", "let mein")
COOKIES = (
    "hyperslab=letmein",
    "hyperslab-1=letmein; hyperslab-2=",
    "=;;hyperslab",
    'hyperslab="\\154etmein"',
    "hyperslab=" + "\\" * 9000,
    "hyperslab=é",
)
METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "MKCOL", "COPY", "MOVE", "LOCK")
METHODS += ("UNLOCK", "BREW", "get", "Get", "GETS", "PRI", "X" * 300)
RANGES = (
    "bytes=0-,0-",
    "bytes=" + ",".join(["0-"] * 1300),
    "bytes=" + ",".join(f"{i}-{i}" for i in range(1000)),
    "bytes=5-0",
    "bytes=-",
    "bytes=--1",
    "bytes=+1-+2",
    "bytes=0x0-0x10",
    "bytes=1e3-",
    "bytes=²-³",
    "bytes=a-b",
    "bytes",
    "bytes=",
    "bytes: 0-1",
    "cells=0-1",
    "=0-1",
    "bytes=0-" + "9" * 5000,
    "bytes=" + "9" * 5000 + "-",
    "bytes=-" + "9" * 5000,
    "bytes=0-1\t,",
)
RANGES_OF_PARTS = (
    "bytes=0-0",
    "bytes=-1",
    "bytes=0-9999999999999999999",
    "bytes= 0 - 1 ",
    "bytes=-9999999999999999999",
)
RANGES_BEYOND = ("bytes=9999999999999999999-", "bytes=-0", "bytes=4294967296-4294967297", "bytes=1000000-")
NUMBERS = ("-1", "1e3", "0x10", "²", "9" * 19, "9" * 4000, "nan", "", " 1", "1 ", "1_0", "+1", "٣", "1,1", "1.0", "%00")
FIELDS = ("width", "height", "at", "x_range", "y_range", "decoded", "x", "y", "field")
GARBAGE = (
    b"",
    b"\r\n\r\n",
    b"\x00" * 100,
    b"\xff\xfe\x00\x01",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1",
    b"GET / HTTP/1.1\r\n",
    b"GET / HTTQ/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\nHost: localhost\n\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX\x00Y: z\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /\x01 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET ?token=letmein HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"A" * 100_000,
)


def ways_out() -> Iterator[Case]:
    """Paths that would lead out of the places."""
    for path in (*UPWARD, *SIDEWAYS):
        yield request(path), NO_NAME
    yield request("/zarr/inside/link.zarr/x/c/0/0"), {404, 500, 503}  # a link as a chunk


def hosts() -> Iterator[Case]:
    """Names of other hosts, and ports that are none."""
    for host in HOSTS:
        yield request(DOCUMENT, host=host), {400, 403}
    yield request(DOCUMENT, host=None), {400}
    yield request(DOCUMENT, host=""), {400, 403}
    for port in ("99999", "0", "", "00080"):  # no number of it is computed with
        yield request(f"/?token={TOKEN}", host=f"localhost:{port}"), {303}


def origins() -> Iterator[Case]:
    """Pages of other sites."""
    for origin in ORIGINS:
        yield request(DOCUMENT, f"Origin: {origin}"), {400, 403}
        yield request(DOCUMENT, f"Origin: {origin}", method="OPTIONS"), {400, 403}
    for site, mode in FETCHES:
        yield request(DOCUMENT, f"Sec-Fetch-Site: {site}", f"Sec-Fetch-Mode: {mode}"), {403}


def tokens() -> Iterator[Case]:
    """Tokens and cookies that are wrong."""
    for token in TOKENS:
        yield request(DOCUMENT, token=token), {400, 403}
        yield request(f"{DOCUMENT}?token={quote(token)}", token=""), {403, 414}
    for cookie in COOKIES:
        yield request(DOCUMENT, f"Cookie: {cookie}", token=""), {400, 403}
    yield request(DOCUMENT, f"Authorization: Basic {TOKEN}", token=""), {403}


def methods() -> Iterator[Case]:
    """Methods that change something, and bodies."""
    for method in METHODS:
        yield request(DOCUMENT, method=method), {400, 405}
        yield request(DOCUMENT, "Content-Length: 4", method=method, body="abcd"), {0, 400, 405}
    yield request(DOCUMENT, "Content-Length: 4", body="abcd"), {400}
    yield request(DOCUMENT, "Upgrade: websocket", "Connection: Upgrade"), {200}
    yield request(DOCUMENT, "Upgrade: h2c", "Connection: Upgrade"), {200}


def ranges_and_tags() -> Iterator[Case]:
    """Ranges and tags without end or sense."""
    for ranges in RANGES:
        yield request(CHUNK, f"Range: {ranges}"), {200, 400}
    for ranges in RANGES_OF_PARTS:
        yield request(CHUNK, f"Range: {ranges}"), {206}
        yield request("/zarr/inside/deeper/b.nc/x/c/0/0", f"Range: {ranges}"), {206}
    for ranges in RANGES_BEYOND:
        yield request(CHUNK, f"Range: {ranges}"), {416}
    for tags in ('"' * 8000, "W/" * 4000, ",".join(f'"{i}"' for i in range(1500)), "é", "*", '"\\"'):
        yield request(CHUNK, f"If-None-Match: {tags}"), {200, 400}
        yield request(CHUNK, f"If-Range: {tags}", "Range: bytes=0-1"), {200, 400}


def numbers() -> Iterator[Case]:
    """Numbers in queries and keys that are none."""
    for number in NUMBERS:
        text = quote(number, safe="%")
        for field in FIELDS[:5]:
            yield request(f"/api/view/a.zarr?node=/x&y=row&{field}={text}"), {200, 400, 414}
        yield request(f"/api/rows/a.zarr?node=/x&start={text}"), {200, 400, 414}
        yield request(f"/api/cell/a.zarr?node=/x&index={text}"), {200, 400, 414}
        yield request(f"/zarr/a.zarr/x/c/{text}/0"), {404, 414, 400}
    for field in FIELDS:
        yield request(f"/api/view/a.zarr?node=/x&{field}=a&{field}=b"), {400}


def sizes() -> Iterator[Case]:
    """What is too long."""
    for size in (5000, 30_000, 70_000):
        yield request(f"/{'a' * size}"), {0, 400, 414, 431}
        yield request(f"/?{'a' * size}"), {0, 400, 414, 431}
        yield request("/", f"X: {'a' * 4 * size}"), {0, 400, 431}
    yield request("/", *[f"X{i}: a" for i in range(9000)]), {0, 400, 431}
    yield request(f"/zarr/a.zarr/{'x/' * 2000}"), {404}
    yield request(f"/zarr/a.zarr/x/c/{'9' * 3000}/0"), {404}
    yield request(f"/api/browse/{'%41' * 1300}"), {404}
    yield request(f"/api/node/a.zarr?{'&' * 3000}"), {200}
    yield request(f"/api/node/a.zarr?{'node=&' * 600}"), {400}


def no_http() -> Iterator[Case]:
    """What is no request."""
    for data in GARBAGE:
        yield data, {0, 400, 403, 404, 405, 431, 501, 505}


KINDS: dict[str, Callable[[], Iterator[Case]]] = {
    "ways out": ways_out,
    "hosts": hosts,
    "origins": origins,
    "tokens": tokens,
    "methods": methods,
    "ranges": ranges_and_tags,
    "numbers": numbers,
    "sizes": sizes,
    "no HTTP": no_http,
}
