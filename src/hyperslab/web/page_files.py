"""The files of the explorer's page: under an address that holds their version, so that browsers keep them for good."""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hyperslab.web.answers import answer

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
"""The files that are served: their endings, with what a browser is told that they are."""
_INDEX = "index.html"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors "
)
"""The content policy of the page: all is loaded from here, no script or style that stands in a document."""
_FOLDER = "/page/"
_KEPT = "private, max-age=31536000, immutable"
_GZIP = re.compile(r"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q\s*=\s*(?!0(?:\.0*)?\s*(?:,|$))[\d.]+\s*)?(?:,|$)", re.IGNORECASE)


def is_of_page(path: str) -> bool:
    """Return True for the path of the page or of a file of it, in which nothing of anybody's data is."""
    return path == "/" or (path.startswith(_FOLDER) and ".." not in path)


class PageFiles:
    """The page and its files, as they were when the server began. ``frames``: pages of other sites may show it."""

    def __init__(self, *, frames: bool) -> None:
        policy = _POLICY + ("*" if frames else "'none'")
        self._headers = {"referrer-policy": "no-referrer", "content-security-policy": policy, "vary": "Accept-Encoding"}
        self._files = dict(_read_folder(files("hyperslab.web") / "page", ""))
        digest = sha256()
        for name, data in sorted(self._files.items()):
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
        self.version = digest.hexdigest()[:16]
        index = self._files.pop(_INDEX)
        self._index = index.replace(b'="page/', f'="page/{self.version}/'.encode())

    @property
    def routes(self) -> list[Route]:
        """The route of the files."""
        return [Route(f"{_FOLDER}{{version}}/{{name:path}}", self._answer)]

    def index(self, request: Request) -> Response:
        """Return the page itself, whose files have the present version."""
        return self._response(request, self._index, ".html", "no-cache")

    async def _answer(self, request: Request) -> Response:
        name = request.path_params["name"]
        data = self._files.get(name)
        if data is None or request.path_params["version"] != self.version:
            return answer(404, "NotFound", "the page has no such file in this version", remedy="load the page anew")
        return self._response(request, data, name[name.rindex(".") :], _KEPT)

    def _response(self, request: Request, data: bytes, ending: str, caching: str) -> Response:
        """Return a file, compressed for those who take that; nothing where the client has it."""
        tag = f'"{sha256(data).hexdigest()[:32]}"'
        sent = {**self._headers, "etag": tag, "cache-control": caching, "content-type": _KINDS[ending]}
        if tag in request.headers.get("if-none-match", ""):
            return Response(None, 304, sent)
        if _GZIP.search(request.headers.get("accept-encoding", "")):
            return Response(_compressed(data), 200, {**sent, "content-encoding": "gzip"})
        return Response(data, 200, sent)


def _read_folder(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    """Return name and bytes of the files that are served, of the folders in it too."""
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            found += _read_folder(entry, f"{name}/")
        elif name.endswith(tuple(_KINDS)):
            found.append((name, entry.read_bytes()))
    return found


@lru_cache(maxsize=128)  # as many as the page has files, and more
def _compressed(data: bytes) -> bytes:
    """Return a file by gzip, without the time in it."""
    return gzip.compress(data, 9, mtime=0)
