"""What a resumed conversion must agree with: the source's documents, its stored values by their stamps, the options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

import numpy as np

from hyperslab.conversion.walking import Item
from hyperslab.errors import HyperslabError, Invalid
from hyperslab.stores.base import Stamps
from hyperslab.stores.files import version_of
from hyperslab.stores.location import Location

JOURNAL = 1

_SAID = {
    "journal": "its journal is of another version",
    "version": "it was begun by another version of hyperslab",
    "source": "it had another source",
    "format": "the target had another format",
    "documents": "the source's documents, or the selected cells, are others",
    "values": "the source's files changed",
}


@cache
def installed() -> str:
    """The version of hyperslab that runs here."""
    return version("hyperslab")


def head_of(where: Location, items: Sequence[Item], format: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The order of a conversion, as its journal keeps it (JSON values)."""
    return {
        "journal": JOURNAL,
        "version": installed(),
        "source": where.url,
        "format": format,
        "options": {name: _said(value) for name, value in options.items()},
        "documents": digest([(item.path, item.node, item.picked) for item in items]),
        "values": digest(_stamps(where)),
    }


def _said(value: Any) -> str:
    """An option for the journal and for people: itself where it is short, else its digest."""
    text = repr(value)
    return text if len(text) < 200 else digest(value)


def agree(before: Mapping[str, Any], now: Mapping[str, Any], url: str) -> None:
    """Invalid, with every difference, unless the orders are the same."""
    reasons = [said for name, said in _SAID.items() if before.get(name) != now.get(name)]
    old = before.get("options") or {}
    changed = [name for name in {**now["options"], **old} if old.get(name) != now["options"].get(name)]
    reasons += [f"{name} was {old.get(name)}, not {now['options'].get(name)}" for name in changed]
    if reasons:
        remedy = "repeat the call that was interrupted, or convert without resume (--resume), which starts anew"
        raise Invalid(f"this conversion cannot be resumed: {'; '.join(reasons)}", url=url, remedy=remedy)


def _stamps(where: Location) -> Any:
    """Every stored value with its stamp; where stamps would cost a request each, the keys alone."""
    if where.is_file():
        return version_of(os.stat(where.target))
    remote = where.remote_file()
    if remote is not None:
        return remote.size, remote.stamp
    try:
        store = where.store(read_only=True)
        if isinstance(store, Stamps) and (where.path is not None or where.scheme == "memory"):
            return [(key, store.stamp(key)) for key in store.list()]
        return [(key, None) for key in store.list()]
    except HyperslabError:  # a web server lists nothing
        return None


def digest(value: Any) -> str:
    """The same text for equal values, in every process."""
    state = blake2b(digest_size=16)
    _feed(state, value)
    return state.hexdigest()


def _feed(state: Any, value: Any) -> None:
    """Each value by its type and length before its content, so that no two run into one another."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray | np.generic):
        _feed_cells(state, np.asarray(value))
    elif isinstance(value, Enum):
        _feed(state, value.name)
    elif is_dataclass(value) and not isinstance(value, type):
        state.update(f"({kind}:".encode())
        for field in fields(value):
            _feed(state, getattr(value, field.name))
    elif isinstance(value, Mapping):
        state.update(f"{{{len(value)}:".encode())
        for name, item in value.items():
            _feed(state, name)
            _feed(state, item)
    elif isinstance(value, list | tuple):
        state.update(f"[{len(value)}:".encode())
        for item in value:
            _feed(state, item)
    else:
        shown: Any = type(value).__repr__
        text = kind if shown is object.__repr__ else f"{kind} {value!r}"
        data = text.encode("utf-8", "surrogatepass")
        state.update(b"%d:%b" % (len(data), data))


def _feed_cells(state: Any, cells: np.ndarray[Any, Any]) -> None:
    _feed(state, f"{cells.dtype!r} {cells.shape}")
    if cells.dtype.hasobject or cells.dtype.kind == "T":
        _feed(state, cells.tolist())
    else:
        state.update(np.ascontiguousarray(cells).tobytes())
