"""Answers as JSON: facts of any kind, and errors with the class, message, node and remedy of our own errors."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

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
