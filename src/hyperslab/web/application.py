"""Answers to requests: the page of the explorer, the losses of a dataset, its values as Zarr v3, and lists of
them. What the page asks for is answered by ``explorer``.

Values are read by threads of a pool, since reading blocks. Stored chunks in folders of this machine are read at once,
as servers of files do: to pass one on between threads takes longer than to read it (110 of 250 us for 44 KiB). A large
stored value is sent piece by piece, all pieces of one version; a client that is too late for the rest of it is cut off,
and never gets two versions for one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hyperslab.errors import HyperslabError, NotFound, Replaced
from hyperslab.stores.credentials import redact
from hyperslab.web.answers import HEADERS, PlainJson, answer, error_answer, link_to, render_list
from hyperslab.web.bounded_values import public_text
from hyperslab.web.explorer import Explorer
from hyperslab.web.guard import COOKIE, Admission
from hyperslab.web.page_files import PageFiles
from hyperslab.web.places import FoundDataset, FoundFolder, ServedPlace, find_open, find_place, split_path
from hyperslab.web.zarr_view import DOCUMENT, OpenState, Part, ServedValue, ZarrView

T = TypeVar("T")
# Bytes of a stored value that are read and sent at a time: so much a slow client holds of the server's memory.
PIECE = 2 << 20
_WHOLE = (0, PIECE)
# 19 digits are more bytes than any value has; longer numbers are no ranges.
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
_TAGS = re.compile(r'(?:W/)?"([^"]*)"')
_LOSSES = "losses"


class Application:
    """The pages and values of the ``places``; their reading is done by the threads of ``pool``."""

    def __init__(self, places: Mapping[str, ServedPlace], admission: Admission, pool: ThreadPoolExecutor) -> None:
        self._places = places
        self._admission = admission
        self._pool = pool
        self._explorer = Explorer(places, self._run)
        self._page = PageFiles(frames=admission.frames)
        zarr = Route("/zarr/{path:path}", self._zarr)
        routes = [Route("/", self._index), zarr, *self._explorer.routes, *self._page.routes]
        handlers: dict[Any, Callable[[Request, Any], Response]] = {HTTPException: _of_starlette, Exception: _of_defect}
        self.app = Starlette(routes=routes, exception_handlers=handlers)
        self.app.router.redirect_slashes = False

    def close(self) -> None:
        """Let go of what is open for the explorer."""
        self._explorer.close()

    async def _run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    async def _index(self, request: Request) -> Response:
        """Answer with the page. The token of the address goes into a cookie, and out of the address."""
        if self._admission.token and "token" in request.query_params:
            response: Response = RedirectResponse("./", 303, {"referrer-policy": "no-referrer"})
            name = f"{COOKIE}-{request.scope['server'][1]}"  # a browser has one jar for all ports of a host
            # "strict" would have a link with the token, in a page of another site, end at an error
            response.set_cookie(name, self._admission.cookie, httponly=True, samesite="lax")
            return response
        return await self._run(partial(self._page.index, request))

    async def _zarr(self, request: Request) -> Response:
        """Answer with a value of a dataset, its losses, or a list of what is there."""
        try:
            query = ValueQuery.of(request)
            parts = split_path(request.scope["raw_path"], 2)
            found = find_open(self._places, parts)
            at_hand = None if found is None else found.view.find_at_hand(found.key)
            if found is not None and at_hand is not None:
                with suppress(Replaced):
                    return self._value(found, query, at_hand)
            return await self._run(partial(self._answer, parts, query))
        except HyperslabError as error:
            return error_answer(error)

    def _answer(self, parts: list[str], query: ValueQuery) -> Response:
        """Return the answer for a path, by a thread of the pool."""
        if not parts:
            return self._places_page()
        found = find_place(self._places, parts)
        if isinstance(found, FoundFolder):
            return _folder_page(parts, found)
        if found.key == _LOSSES:
            return _losses(found.view)
        if not found.key:
            return _dataset_page(parts, len(found.view.paths()))
        return self._value(found, query)

    def _places_page(self) -> Response:
        links = [(f"{name} ({redact(place.where.url)})", link_to("zarr", name)) for name, place in self._places.items()]
        remark = "Each dataset is a Zarr v3 store under its address, for any reader of Zarr."
        return HTMLResponse(render_list("hyperslab", links, [remark]), headers={**HEADERS, "cache-control": "no-cache"})

    def _value(self, found: FoundDataset, query: ValueQuery, at_hand: OpenState | None = None) -> Response:
        """Return a value, a part of it, or the answer that the client has it already. ``at_hand`` as in ``read``."""
        wanted = None if query.is_head else query.part
        first = (0, 1) if query.is_head else _first_piece(wanted)
        value = found.view.read(found.key, first, query.known, at_hand)
        if value is not None and wanted is not None and query.only_if not in (None, value.tag):
            wanted = None  # the rest of another version is of no use to the client
            value = found.view.read(found.key, _WHOLE, query.known, at_hand)
        if value is None:
            raise NotFound("there is nothing under this key", node=found.key)
        is_json = found.key.rpartition("/")[2] == DOCUMENT
        sent = {
            "etag": f'"{value.tag}"',
            "cache-control": "no-cache",
            "accept-ranges": "bytes",
            "content-type": "application/json" if is_json else "application/octet-stream",
        }
        if value.data is None:
            return Response(None, 304, sent)
        if query.is_head:
            return Response(None, 200, {**sent, "content-length": str(value.size)})
        start, stop, status = 0, value.size, 200
        if wanted is not None:
            start, stop = bounds_of(wanted, value.size)
            if start >= stop:
                more = {"content_range": f"bytes */{value.size}"}
                return answer(416, "Invalid", "no byte of the value is in this range", remedy="ask for less", **more)
            status, sent["content-range"] = 206, f"bytes {start}-{stop - 1}/{value.size}"
        return ValueResponse(value, start, stop, status, sent, self._run)


@dataclass(frozen=True, slots=True)
class ValueQuery:
    """The request of a client for a value: a ``part`` of it, nothing where it has one of the ``known`` versions, a part
    ``only_if`` it is of that version, or no bytes at all (``is_head``)."""

    part: Part | None
    known: Sequence[str]
    only_if: str | None
    is_head: bool

    @classmethod
    def of(cls, request: Request) -> Self:
        """Read the headers of a request."""
        headers = request.headers
        condition = headers.get("if-range")
        tag = None if condition is None else _TAGS.fullmatch(condition)
        only_if = condition if tag is None else tag[1]
        known = _TAGS.findall(headers.get("if-none-match", ""))
        return cls(parse_range(headers.get("range", "")), known, only_if, request.method == "HEAD")


class ValueResponse(Response):
    """The bytes ``start <= i < stop`` of a value, sent piece by piece.

    What cannot be read on ends the connection: the client sees that bytes are missing.
    """

    def __init__(
        self,
        value: ServedValue,
        start: int,
        stop: int,
        status: int,
        headers: Mapping[str, str],
        run: Callable[[Callable[[], bytes | memoryview]], Awaitable[bytes | memoryview]],
    ) -> None:
        super().__init__(None, status, {**headers, "content-length": str(stop - start)})
        self._value = value
        self._start = start
        self._stop = stop
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head and all pieces."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        at, piece = self._start, self._value.data
        request = Request(scope, receive)
        assert piece is not None
        while True:
            at += len(piece)
            await send({"type": "http.response.body", "body": bytes(piece), "more_body": at < self._stop})
            if at >= self._stop or await request.is_disconnected():
                break
            piece = await self._run(partial(self._value.read_more, at, min(at + PIECE, self._stop)))


# -- ranges ------------------------------------------------------------------------------------------------------------


def parse_range(header: str) -> Part | None:
    """Return the one range that a header asks for, a negative start counting from the end; None for no range, for
    several, and for what is none: then the whole value is sent, as HTTP has it."""
    found = _RANGE.fullmatch(header.strip().replace(" ", ""))
    if found is None or found[1] == found[2] == "":
        return None
    if not found[1]:
        return -int(found[2]), 0
    start, last = int(found[1]), int(found[2] or 10**19)
    return (start, last + 1) if last >= start else None


def bounds_of(wanted: Part, size: int) -> Part:
    """Return the first byte of a range, and the one behind the last; equal where there is none."""
    start, stop = wanted
    if start < 0 or (start, stop) == (0, 0):
        return max(size + start, 0) if start else size, size
    return min(start, size), min(stop, size)


def _first_piece(wanted: Part | None) -> Part:
    """Return what is read at first of a value that is read piece by piece."""
    if wanted is None:
        return _WHOLE
    start, stop = wanted
    if start < 0:
        return start, min(start + PIECE, 0)
    return start, min(stop, start + PIECE)


# -- pages and errors --------------------------------------------------------------------------------------------------


def _losses(view: ZarrView) -> Response:
    losses = view.losses()
    facts = [{"node": loss.node, "feature": str(loss.feature), "message": public_text(loss.message)} for loss in losses]
    return PlainJson({"losses": facts}, headers={"cache-control": "no-cache"})


def _folder_page(parts: list[str], found: FoundFolder) -> Response:
    links = [(name, link_to("zarr", *parts, name)) for name in found.names]
    remarks = [] if found.is_whole else [f"These are the first {len(found.names)} names."]
    page = render_list("/".join(parts), links, remarks)
    return HTMLResponse(page, headers={**HEADERS, "cache-control": "no-cache"})


def _dataset_page(parts: list[str], arrays: int) -> Response:
    links = [(name, link_to("zarr", *parts, name)) for name in (DOCUMENT, _LOSSES)]
    page = render_list("/".join(parts), links, [f"A Zarr v3 store of {arrays} arrays: open the address of this page."])
    return HTMLResponse(page, headers={**HEADERS, "cache-control": "no-cache"})


def _of_starlette(request: Request, error: HTTPException) -> Response:
    remedy = "begin at the page: /"
    return answer(error.status_code, "NotFound" if error.status_code == 404 else "Invalid", error.detail, remedy=remedy)


def _of_defect(request: Request, error: Exception) -> Response:
    """Answer with a defect of our own, of which the client is told no more than that."""
    return answer(500, "Defect", "hyperslab failed here; the server's log has the reason")
