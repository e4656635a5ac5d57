"""What of a URL and of options may be shown: everything but names of users, passwords, keys, tokens and signatures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

_SECRET = re.compile(r"sig|secret|token|key|pass|pwd|cred|sas|session|auth(?!source|mech)", re.IGNORECASE)
_VALUE = re.compile(r"([?&#;])([^=&#;]*)=([^&#;]*)")


def redact(url: str) -> str:
    """The URL without user and password, and without the values of query parameters whose names speak of secrets.

    Where a password holds ``@``, ``/`` or ``?`` that should have been escaped, more is hidden rather than less.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    _, colon, port = authority.rpartition(":")
    if "@" in authority or (colon and not port.isdigit() and "@" in rest):
        rest = f"{HIDDEN}@{rest.rpartition('@')[2]}"
    return f"{scheme}://{_VALUE.sub(_hide, rest)}"


def _hide(match: re.Match[str]) -> str:
    mark, name, value = match.groups()
    return f"{mark}{name}={HIDDEN if _SECRET.search(name) else value}"


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without secrets, those within options too: no names that speak of them, no URLs that hold some.

    What is true or false is no secret.
    """
    plain: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            plain[name] = plain_options(value)
        elif isinstance(value, str) and redact(value) != value:
            continue
        elif isinstance(value, bool) or not (_SECRET.search(name) or callable(value)):
            plain[name] = value
    return plain
