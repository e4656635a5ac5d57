"""What is told of an object without reading it: a row that the server makes of its document, without embedded cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import prod
from typing import Any

from bson import ObjectId

from hyperslab.errors import HyperslabError
from hyperslab.formats.mongo.document import ARRAY, OURS
from hyperslab.formats.mongo.numbers import size_of
from hyperslab.formats.mongo.types import dtype_from_text


def _pairs(name: str) -> dict[str, Any]:
    """The fields of a sub-document as a list of ``{k, v}``: what they are called does not matter then."""
    return {"$cond": [{"$eq": [{"$type": name}, "object"]}, {"$objectToArray": name}, []]}


def _entries(part: str) -> dict[str, Any]:
    told = {field: f"$$one.v.{field}" for field in ("dims", "dtype", "shape")}
    return {"$map": {"input": _pairs(f"${part}"), "as": "one", "in": {"k": "$$one.k", "part": part, **told}}}


ROW: dict[str, Any] = {
    "name": 1,
    "attrs": _pairs("$attrs"),
    "variables": {"$concatArrays": [_entries("coords"), _entries("data_vars")]},
    "status": f"${OURS}.status",
}
"""A projection: ``attrs`` and ``variables`` as lists, in which names are values."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object: id, name (None: it has none), ``Dataset`` or ``DataArray``, sizes by dimension (None: not known),
    names of the variables, attributes, when it was made (UTC), bytes of its cells (None: not known), and ``status``
    (``writing`` while it is being made)."""

    id: ObjectId
    name: Any
    kind: str
    dims: Mapping[Any, int | None]
    variables: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    created: datetime | None = None
    nbytes: int | None = None
    status: str | None = None


def info_of(row: Mapping[str, Any]) -> ObjectInfo:
    """The object that a row tells of; what makes no sense in it is left out."""
    entries = row["variables"]
    data = [entry["k"] for entry in entries if entry["part"] == "data_vars"]
    dims: dict[Any, int | None] = {}
    sizes: list[int | None] = []
    for entry in entries:
        shape = _shape(entry)
        sizes.append(_nbytes(entry, shape))
        for dim, size in zip(entry.get("dims") or (), shape or (), strict=False):
            if isinstance(dim, str | int) and dims.get(dim) is None:
                dims[dim] = size
    id = row["_id"]
    return ObjectInfo(
        id,
        row.get("name"),
        "DataArray" if data == [ARRAY] else "Dataset",
        dims,
        tuple(entry["k"] for entry in entries),
        {pair["k"]: pair["v"] for pair in row["attrs"]},
        id.generation_time if isinstance(id, ObjectId) else None,
        None if None in sizes else sum(size for size in sizes if size is not None),
        row.get("status"),
    )


def _shape(entry: Mapping[str, Any]) -> list[int | None] | None:
    shape = entry.get("shape")
    if not isinstance(shape, list) or not isinstance(entry.get("dims"), list):
        return None
    try:
        return [size_of(size, "shape", entry["k"]) for size in shape]
    except HyperslabError:
        return None


def _nbytes(entry: Mapping[str, Any], shape: list[int | None] | None) -> int | None:
    if shape is None or None in shape:
        return None
    try:
        return dtype_from_text(entry.get("dtype"), entry["k"]).itemsize * prod(size or 0 for size in shape)
    except HyperslabError:
        return None
