"""Moments in paths and URLs: ``at=`` behind the ``?`` says of which moment the version of a dataset is to be read."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from urllib.parse import unquote

from hyperslab.errors import Invalid
from hyperslab.stores.credentials import redact

_MOMENT = re.compile(r"[?&]at=([^?&#]*)(?=[&#]|$)")


def split_moment(text: str) -> tuple[str, datetime | None]:
    """Return a path or URL without the moment that it says, and the moment in UTC, None where it says none:
    ``kept.db?at=2026-11-01T00:00``. A ``+`` in it is that of a time zone. Invalid for what is no moment."""
    match = _MOMENT.search(text) if "at=" in text else None
    if match is None or ("#" in text[: match.start()] if "://" in text else os.path.lexists(text)):
        return text, None
    rest = text[match.end() :]
    if rest.startswith("&") and text[match.start()] == "?":
        rest = f"?{rest[1:]}"
    try:
        moment = datetime.fromisoformat(unquote(match[1]))
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        message, remedy = f"at={unquote(match[1])!r} is no moment", "write at=2024-01-31 or at=2024-01-31T12:00"
        raise Invalid(message, url=redact(text), remedy=remedy) from None
    return text[: match.start()] + rest, moment


def add_moment(url: str, moment: datetime) -> str:
    """Return a URL that says a moment in UTC, before the fragment."""
    text, mark, fragment = url.partition("#")
    return f"{text}{'&' if '?' in text else '?'}at={moment.replace(tzinfo=None).isoformat()}{mark}{fragment}"
