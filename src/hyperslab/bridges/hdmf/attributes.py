"""Attributes of builders as plain JSON values and references, which need no mark of ours in a document."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np
from hdmf.build import Builder, ReferenceBuilder

from hyperslab.bridges.hdmf.types import Refer
from hyperslab.errors import Unsupported
from hyperslab.model.refs import ObjectReference, RegionReference


def plain(attributes: Mapping[str, Any], refer: Refer) -> dict[str, Any]:
    """The attributes of a builder as they are stored. Unsupported names the one that JSON cannot hold."""
    found = {}
    for name, value in attributes.items():
        try:
            found[name] = _plain(value, refer)
        except TypeError:
            remedy = "give numbers, text, lists of these, or a reference"
            message = f"attribute {name!r} is a {type(value).__name__}, which JSON cannot hold"
            raise Unsupported(message, remedy=remedy) from None
    return found


def _plain(value: Any, refer: Refer) -> Any:
    match value:
        case bool() | int() | float() | None:
            return value.item() if isinstance(value, np.generic) else value
        case str():
            return str(value)
        case bytes():
            return value.decode("utf-8")
        case Builder() | ReferenceBuilder() | ObjectReference() | RegionReference():
            return refer(value)
        case np.ndarray() | np.generic():
            return _plain(value.tolist(), refer)
        case list() | tuple() | set() | frozenset():
            return [_plain(each, refer) for each in value]
        case dict():
            return {str(key): _plain(each, refer) for key, each in value.items()}
        case date():
            return value.isoformat()
    if type(value).__name__ == "Empty":  # h5py's word for no value
        return "" if value.dtype.kind in "OSU" else None
    raise TypeError(type(value))
