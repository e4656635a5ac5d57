"""Answers as JSON (facts of any kind, errors with the class, message, node and remedy of our own errors), and pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse

from hyperslab import errors
from hyperslab.errors import HyperslabError
from hyperslab.stores.credentials import redact_text

STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.NotFound, 404),
    (errors.AlreadyExists, 409),
    (errors.Conflict, 503),
    (errors.ReadOnly, 403),
    (errors.WrongCredentials, 403),
    (errors.ExternalLinkRefused, 403),
    (errors.Invalid, 400),
    (errors.MemoryLimit, 503),
    (errors.FormatError, 500),
    (errors.CorruptChunk, 500),
    (errors.MissingChunks, 500),
    (errors.TilesFailed, 500),
    (errors.Unsupported, 500),
    (errors.StorageError, 503),
)
"""The status of each kind of error, the first that fits. What is damaged is never 404: a reader of Zarr would take it
for a chunk that was never written."""
RETRY_AFTER = "1"
"""Seconds after which a client may try again what was too much just now, or is being written."""


class PlainJson(JSONResponse):
    """JSON in ASCII: names in files may hold halves of surrogate pairs, which no encoding can write."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def answer(
    status: int, kind: str, message: str, *, node: str | None = None, remedy: str | None = None, **headers: str
) -> JSONResponse:
    """Return an error as JSON. ``headers``: with underscores for hyphens."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        more["retry-after"] = RETRY_AFTER
    facts = {"class": kind, "message": redact_text(message), "node": node, "remedy": remedy and redact_text(remedy)}
    return PlainJson({"error": facts}, status, {"cache-control": "no-store", **more})


def error_answer(error: HyperslabError) -> JSONResponse:
    """Return one of our errors as JSON."""
    status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
    return answer(status, type(error).__name__, error.said, node=error.node, remedy=error.remedy)


# -- plain HTML pages under /zarr/ -------------------------------------------------------------------------------------
# Lists of names with links, every text escaped, no script and no style.


_CONTROL = dict.fromkeys((*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
"""Characters that are not shown in a stranger's text: control characters, and those that turn the reading direction."""
HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}
"""Headers of each page: the browser loads nothing, and tells nobody the address."""


def link_to(*parts: str) -> str:
    """Return the path of a URL whose segments are ``parts``, whatever stands in them."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def render_list(title: str, links: Iterable[tuple[str, str]], remarks: Sequence[str] = ()) -> str:
    """Return a page with a list of links, each a text and the path that it leads to."""
    rows = "".join(f'<li><a href="{escape(path)}">{_text(text)}</a></li>\n' for text, path in links)
    return _render(title, f"<ul>\n{rows}</ul>", remarks)


def render_texts(title: str, texts: Sequence[str]) -> str:
    """Return a page of some texts."""
    return _render(title, "", texts)


def _render(title: str, more: str, remarks: Sequence[str]) -> str:
    notes = "".join(f"<p>{_text(remark)}</p>\n" for remark in remarks)
    name = _text(title)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}</title>'
    body = f"<h1>{name}</h1>\n{notes}{more}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _text(text: str) -> str:
    """Return a stranger's text as HTML: neither tags nor what turns the reading direction around."""
    printable = text.translate(_CONTROL).encode("utf-8", "replace").decode()
    return escape(printable)
