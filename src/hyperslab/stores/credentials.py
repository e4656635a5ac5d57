"""Secrets: ``credentials="module:function"`` in storage options, and texts that show none.

The name of the function travels with a pickled dataset, what it gives never does. It is called without arguments when
a store is opened and gives a mapping of storage options, which take the place of those that were given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from hyperslab.errors import Invalid

OPTION = "credentials"

_NAME = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)")
_REMEDY = "give the name of an importable function, as credentials='module:function'"


def function_option(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the option alone when it has the form of a function's name, else nothing."""
    name = options.get(OPTION)
    return {OPTION: name} if isinstance(name, str) and _NAME.fullmatch(name) else {}


def resolve(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with what the named function gives in place of its name; Invalid, without any value in the
    message.

    What the function raises itself is raised as it is.
    """
    if OPTION not in options:
        return dict(options)
    match = _NAME.fullmatch(options[OPTION]) if isinstance(options[OPTION], str) else None
    if match is None:
        raise Invalid("the storage option credentials is no name of a function", remedy=_REMEDY)
    try:
        function = getattr(import_module(match[1]), match[2], None)
    except ImportError:
        function = None
    if not callable(function):
        raise Invalid("the storage option credentials names no function of this process", remedy=_REMEDY)
    credentials = function()
    if not isinstance(credentials, Mapping):
        raise Invalid(
            f"credentials: {match[0]} gives a {type(credentials).__name__}",
            remedy="it must give a mapping of storage options",
        )
    return {**{name: value for name, value in options.items() if name != OPTION}, **credentials}


# -- texts without secrets -----------------------------------------------------------------------------------------


HIDDEN = "***"

_SECRET = re.compile(r"sig|secret|token|key|pass|pwd|cred|sas|session|cookie|auth(?!source|mech)", re.IGNORECASE)
_SECRET_IN_QUERY = re.compile(r"jwt|code|ticket|policy|hmac|hdn\w*", re.IGNORECASE)
"""More names of parameters of URLs that are tickets to a file; names of options speak of other things so."""
_VALUE = re.compile(r"([?&#;])([^=&#;]*)=([^&#;]*)")
_HEADER_NAME = re.compile(r"[\w-]+")
_HEADER_VALUE = re.compile(r"(?:basic|bearer|digest|negotiate) ", re.IGNORECASE)

_URL_IN_TEXT = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_VALUE_IN_TEXT = re.compile(r"([?&#;])([^\s=?&#;'\"<>]*)=([^\s&#;'\"<>]*)")
_HEADER_IN_TEXT = re.compile(r"([\w-]*(?:authorization|cookie|token)['\"]?\s*:\s*)[^\r\n]+", re.IGNORECASE)


def redact(url: str) -> str:
    """Return the URL without user and password, and without the values of query parameters whose names speak of
    secrets.

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


def redact_text(text: str) -> str:
    """Return what another library says, with every URL, query and header in it redacted as by :func:`redact`."""
    text = _URL_IN_TEXT.sub(lambda found: redact(found[0]), text)
    return _HEADER_IN_TEXT.sub(rf"\1{HIDDEN}", _VALUE_IN_TEXT.sub(_hide, text))


def _hide(match: re.Match[str]) -> str:
    mark, name, value = match.groups()
    is_secret = _SECRET.search(name) or _SECRET_IN_QUERY.fullmatch(name)
    return f"{mark}{name}={HIDDEN if is_secret else value}"


def plain_options(options: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the options without secrets, those within options and lists too: no names that speak of them (also as the
    first of a pair in a list), no URLs or headers that hold some. What is true or false is no secret."""
    return {name: _plain(value) for name, value in options.items() if not _is_secret(name, value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return plain_options(value)
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value if not _is_secret(*_named(item)))
    return value


def _named(item: Any) -> tuple[Any, Any]:
    """Return name and value of an item of a list, which may be a header."""
    if isinstance(item, list | tuple) and len(item) == 2 and _HEADER_NAME.fullmatch(_text(item[0])):
        return item[0], item[1]
    return "", item


def _is_secret(name: Any, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    text = _text(value)
    return bool(_SECRET.search(_text(name)) or callable(value) or redact(text) != text or _HEADER_VALUE.match(text))


def _text(value: Any) -> str:
    """Return a name or a value of a header as text, which may be bytes; ``""`` for anything else."""
    return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""
