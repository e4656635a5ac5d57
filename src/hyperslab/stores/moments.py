"""Moments in paths and URLs: ``at=`` behind the ``?`` says of which moment the version of a dataset is to be read.

A repository of icechunk has versions with names, too: tags, branches, snapshots."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from urllib.parse import unquote

from hyperslab.errors import Invalid
from hyperslab.stores.credentials import redact

_MOMENT = re.compile(r"[?&]at=([^?&#]*)(?=[&#]|$)")


_NAMES = "icechunk+"
"""The beginning of the URL of a repository, whose versions have names."""


def split_moment(text: str) -> tuple[str, datetime | str | None]:
    """Return a path or URL without the moment that it says, and the moment in UTC, None where it says none:
    ``kept.db?at=2026-11-01T00:00``. A ``+`` in it is that of a time zone. Of a repository what is no moment is a name;
    of anything else Invalid."""
    match = _MOMENT.search(text) if "at=" in text else None
    if match is None or ("#" in text[: match.start()] if "://" in text else os.path.lexists(text)):
        return text, None
    rest = text[match.end() :]
    if rest.startswith("&") and text[match.start()] == "?":
        rest = f"?{rest[1:]}"
    said = unquote(match[1])
    try:
        moment = datetime.fromisoformat(said)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        if said and text.lower().startswith(_NAMES):
            return text[: match.start()] + rest, said
        message, remedy = f"at={said!r} is no moment", "write at=2024-01-31 or at=2024-01-31T12:00"
        raise Invalid(message, url=redact(text), remedy=remedy) from None
    return text[: match.start()] + rest, moment


def add_moment(url: str, moment: datetime) -> str:
    """Return a URL that says a moment in UTC, before the fragment."""
    text, mark, fragment = url.partition("#")
    return f"{text}{'&' if '?' in text else '?'}at={moment.replace(tzinfo=None).isoformat()}{mark}{fragment}"
