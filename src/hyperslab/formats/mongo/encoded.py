"""Whether MongoDB takes the document of an object: asked before anything is sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson

from hyperslab.errors import Unsupported

MOST_BYTES = 16 << 20
"""What a document of MongoDB holds at most."""
MOST_LEVELS = 180
"""Of mappings and lists within each other, the document itself included."""
_LARGE = "embed less, make larger chunks, or store large attributes as arrays"
_DEEP = "store what is nested so deeply as text"


def check_document(doc: Mapping[str, Any]) -> None:
    """Unsupported for a document that is too large or too deep, or whose text cannot be encoded."""
    try:
        _check_levels(doc)
        size = len(bson.encode(doc))
    except UnicodeEncodeError as error:
        message = f"MongoDB holds no text such as {error.object[:60]!r}"
        raise Unsupported(message, remedy="leave out what UTF-8 cannot encode") from error
    if size > MOST_BYTES:
        message = f"the document of the object would have {size} bytes, and may have {MOST_BYTES}"
        raise Unsupported(message, remedy=_LARGE)


def _check_levels(doc: Mapping[str, Any]) -> None:
    level: list[tuple[str, Any]] = [("", doc)]
    for _ in range(MOST_LEVELS):
        level = [pair for path, value in level for pair in _inner(path, value)]
        if not level:
            return
    where = ".".join(level[0][0].split(".")[1:5])
    raise Unsupported(f"{where}… is nested in more than {MOST_LEVELS} levels", remedy=_DEEP)


def _inner(path: str, value: Any) -> list[tuple[str, Any]]:
    """The mappings and lists in one of them, each with its path."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    return [(f"{path}.{name}", each) for name, each in pairs if isinstance(each, Mapping | list)]
