"""Moments in paths and URLs: ``at=`` behind the ``?`` says of which moment the version of a dataset is to be read.

A repository of icechunk has versions with names, too: tags, branches, snapshots."""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime
from urllib.parse import unquote

import numpy as np

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
        moment = parse_moment(said)
    except ValueError:
        if said and text.lower().startswith(_NAMES):
            return text[: match.start()] + rest, said
        message, remedy = f"at={said!r} is no moment", "write at=2024-01-31 or at=2024-01-31T12:00"
        raise Invalid(message, url=redact(text), remedy=remedy) from None
    return text[: match.start()] + rest, moment


def parse_moment(value: object) -> datetime:
    """Return a moment in UTC: of ISO 8601 text or a datetime (UTC, unless it says otherwise), a date (its midnight) or
    a datetime64. ValueError."""
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise ValueError(f"{value!r} is no moment")
    try:
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError(f"{value!r} has no time in UTC") from error


def add_moment(url: str, moment: datetime) -> str:
    """Return a URL that says a moment in UTC, before the fragment."""
    text, mark, fragment = url.partition("#")
    return f"{text}{'&' if '?' in text else '?'}at={moment.replace(tzinfo=None).isoformat()}{mark}{fragment}"
