"""True if MongoDB takes the document of an object: asked before anything is sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson
from bson.errors import BSONError

from hyperslab.errors import Unsupported
from hyperslab.model.attrs import find_deep

MOST_BYTES = 16 << 20
"""What a document of MongoDB holds at most."""
MOST_LEVELS = 180
"""Of mappings and lists within each other, the document itself included."""
_LARGE = "embed less, make larger chunks, or store large attributes as arrays"
_NAMES = "give names without NUL, and values that BSON has a type for"
_DEEP = "store what is nested so deeply as text"


def check_document(doc: Mapping[str, Any]) -> None:
    """Unsupported for a document that is too large or too deep, or whose text cannot be encoded."""
    try:
        _check_levels(doc)
        size = len(bson.encode(doc))
    except BSONError as error:
        raise Unsupported(f"no document of MongoDB can be this one: {error}", remedy=_NAMES) from error
    except UnicodeEncodeError as error:
        message = f"MongoDB holds no text such as {error.object[:60]!r}"
        raise Unsupported(message, remedy="leave out what UTF-8 cannot encode") from error
    if size > MOST_BYTES:
        message = f"the document of the object would have {size} bytes, and may have {MOST_BYTES}"
        raise Unsupported(message, remedy=_LARGE)


def _check_levels(doc: Mapping[str, Any]) -> None:
    where = find_deep(doc, MOST_LEVELS)
    if where is not None:
        raise Unsupported(f"{where} is nested in more than {MOST_LEVELS} levels", remedy=_DEEP)


def check_levels(what: str, value: Any) -> None:
    """Raise Unsupported for a value that is nested so deeply that no document holds it, or in itself; nothing
    recurses."""
    if isinstance(value, Mapping | list | tuple) and find_deep(value, MOST_LEVELS) is not None:
        raise Unsupported(f"{what} is nested in more than {MOST_LEVELS} levels", remedy=_DEEP)
