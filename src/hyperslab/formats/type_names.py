"""The types that NumPy has no dtype for, as JSON: ``{"type": "enum", "base": "|u1", "members": {…}, "name": …}``.

A compound (or an array of any length) of named types in its fields tells them under ``fields``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.errors import Unsupported
from hyperslab.formats.dtype_names import LARGEST, dtype_from_json, dtype_to_json
from hyperslab.model.dtypes import (
    Char,
    Compound,
    Enum,
    Extension,
    ObjectRef,
    Opaque,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    describe,
    numpy_dtype,
    tagged,
    tagged_fields,
)


def describe_type(dtype: Extension) -> dict[str, Any]:
    """A type that plain Zarr has no name for, as JSON."""
    match dtype:
        case VlenString():
            return {"type": "string"}
        case VlenBytes():
            return {"type": "bytes"}
        case Char():
            return {"type": "char"}
        case Enum(base=base, members=members, name=name):
            return {"type": "enum", "base": _base(base), "members": dict(members)} | _named(name)
        case Opaque(size=size, name=name):
            return {"type": "opaque", "size": size} | _named(name)
        case VlenArray(base=base, name=name):
            return {"type": "vlen", "base": _base(base)} | _fields(base) | _named(name)
        case Compound(base=base, name=name):
            return {"type": "compound", "base": _base(base)} | _fields(base) | _named(name)
        case ObjectRef() | RegionRef():
            raise Unsupported(f"Zarr has no cells of type {describe(dtype)}")


def _fields(base: np.dtype[Any]) -> dict[str, Any]:
    """The named types of fields."""
    found = {name: describe_type(kind) for name, kind in tagged_fields(base)}
    return {"fields": found} if found else {}


def _base(dtype: np.dtype[Any]) -> Any:
    try:
        return dtype_to_json(dtype.newbyteorder("<"))
    except TypeError as error:
        raise Unsupported(f"Zarr has no cells of type {dtype}: {error}") from None


def _named(name: str) -> dict[str, str]:
    return {"name": name} if name else {}


def read_type(said: Any) -> Extension | None:
    """The type of such a description; None when it makes no sense."""
    try:
        return _read_type(said)
    except (TypeError, KeyError, ValueError):
        return None


def _read_type(said: Any) -> Extension | None:
    name = said.get("name", "") if isinstance(said, dict) else ""
    if not isinstance(name, str):
        return None
    match said:
        case {"type": "string"}:
            return VlenString()
        case {"type": "bytes"}:
            return VlenBytes()
        case {"type": "char"}:
            return Char()
        case {"type": "enum", "base": base, "members": dict() as members} if all(
            type(n) is int for n in members.values()
        ):
            integer = dtype_from_json(base).newbyteorder("=")
            return Enum(integer, tuple(members.items()), name) if integer.kind in "iu" else None
        case {"type": "opaque", "size": int() as size} if 0 < size <= LARGEST:
            return Opaque(size, name)
        case {"type": "vlen", "base": base}:
            return VlenArray(_with_fields(dtype_from_json(base).newbyteorder("="), said), name)
        case {"type": "compound", "base": base}:
            compound = _with_fields(dtype_from_json(base).newbyteorder("="), said)
            return Compound(compound, name) if compound.names is not None else None
        case _:
            return None


def _with_fields(base: np.dtype[Any], said: Mapping[str, Any]) -> np.dtype[Any]:
    """The structured type with its fields tagged as the description says, where that fits."""
    found = said.get("fields")
    if base.names is None or not isinstance(found, dict):
        return base
    kinds = {name: read_type(described) for name, described in found.items()}
    return np.dtype([(name, _as_tagged(base[name], kinds.get(name))) for name in base.names])


def _as_tagged(dtype: np.dtype[Any], kind: Extension | None) -> np.dtype[Any]:
    if kind is None or numpy_dtype(kind) != dtype.base:
        return dtype
    plain = tagged(kind.base if isinstance(kind, Compound) else numpy_dtype(kind), kind)
    return np.dtype((plain, dtype.shape)) if dtype.shape else plain
