"""HDMF stores as plain values, as the children tell theirs: what hyperslab sees in them, and where two differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import hyperslab as hs
from hyperslab.model.refs import ObjectReference, RegionReference

SPECIFICATIONS = "specifications"
NO_ATTRIBUTES = {"_ARRAY_DIMENSIONS", "_hyperslab"}
"""Names of dimensions, and what Zarr has no word for, which hdmf-zarr shows as attributes."""


def seen(group: hs.Group) -> dict[str, Any]:
    """A group with all below it, specifications left out; links and references are followed for what they lead to."""
    links = dict(group.links())
    arrays = {name: array for name, array in group.arrays() if name not in links}
    groups = {name: below for name, below in group.groups() if group.path or name != SPECIFICATIONS}
    return {
        "attributes": {name: plain(value) for name, value in group.attrs.items()},
        "groups": {name: seen(below) for name, below in groups.items()},
        "datasets": {name: _array(array) for name, array in arrays.items()},
        "links": {name: _target(group[name], link.target) for name, link in links.items()},
    }


def _array(array: hs.Array) -> dict[str, Any]:
    attributes = {name: plain(value) for name, value in array.attrs.items()}
    return {"attributes": attributes, "value": plain(array[...])}


def plain(value: Any) -> Any:
    """A value as JSON."""
    match value:
        case ObjectReference():
            return _target(value.resolve(), value.path)
        case RegionReference():
            return {"$region": value.path, "cells": plain(value.read())}
        case bytes():
            return {"$bytes": value.decode("latin-1")}
        case float() if not np.isfinite(value):
            return {"$float": str(float(value))}
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case list() | tuple():
            return [plain(part) for part in value]
        case dict():
            return {name: plain(part) for name, part in value.items()}
    return value


def _target(node: hs.Group | hs.Array, path: str) -> dict[str, Any]:
    return {"$ref": path, "object_id": node.attrs.get("object_id")}


def differences(found: Any, wanted: Any, where: str = "", *, text: bool = False) -> Iterator[str]:
    """Where two trees differ. A list of one element is its element. ``text``: bytes are text (profile v3 has none)."""
    found, wanted = (_simple(value, text) for value in (found, wanted))
    if found != wanted and isinstance(found, dict) and "$error" in found:
        yield f"{where}: {found['$error']:.90}"
    elif isinstance(found, dict) and isinstance(wanted, dict):
        for name in sorted(found.keys() ^ wanted.keys()):
            yield f"{where}/{name}: only {'found' if name in found else 'wanted'}"
        for name in sorted(found.keys() & wanted.keys()):
            yield from differences(found[name], wanted[name], f"{where}/{name}", text=text)
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
            yield from differences(one, other, f"{where}[{i}]", text=text)
    elif found != wanted:
        yield f"{where}: {found!r:.90} is not {wanted!r:.90}"


def _simple(value: Any, text: bool) -> Any:
    if isinstance(value, list) and len(value) == 1:
        return _simple(value[0], text)
    if text and isinstance(value, dict) and value.keys() == {"$bytes"}:
        return value["$bytes"]
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if name not in NO_ATTRIBUTES}
    return value


def seen_by_zarr(group: hs.Group) -> dict[str, Any]:
    """The cells of every array below as readers of Zarr see them: references are the paths that they lead to."""
    found = {}
    linked = {name for name, _ in group.links()}
    for name, array in group.arrays():
        if name not in linked:
            found[f"/{array.path}"] = cell(array[...])
    for name, below in group.groups():
        if group.path or name != SPECIFICATIONS:
            found |= seen_by_zarr(below)
    return found


def cell(value: Any) -> Any:
    """Cells as JSON."""
    match value:
        case ObjectReference():
            return value.path
        case np.ndarray() | np.generic():
            return cell(value.tolist())
        case list() | tuple():
            return [cell(part) for part in value]
        case bytes():
            return value.decode("latin-1")
    return "nan" if value != value else value
