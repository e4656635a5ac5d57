"""Data types as JSON.

- NumPy's: ``"<f4"``, and structured ones as lists of ``[name, type]`` or ``[name, type, shape]``. That is Zarr v2's
  spelling (its ``dtype``) and ours in ``_hyperslab``. Only plain types are read: never ``object``.
- Those that NumPy has no dtype for: ``{"type": "enum", "base": "|u1", "members": {…}, "name": …}``. A compound (or an
  array of any length) that has named types in its fields lists them under ``fields``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from hyperslab.errors import Unsupported
from hyperslab.model.dtypes import (
    Char,
    Compound,
    Enum,
    Extension,
    NumpyDType,
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

_PLAIN = re.compile(
    r"[<>|=]?(?:b1|[iu][1248]|f[248]|c8|c16)|[<>|=]?[mM]8(?:\[\d*(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)
_SIZED = re.compile(r"[<>|=]?([SUV])(\d{1,9})")
LARGEST = 1 << 28
"""The largest cell that is read, in bytes: a document that says more is refused before memory is taken."""


def dtype_to_json(dtype: np.dtype[np.generic]) -> Any:
    """Return the JSON spelling of a packed type, byte order included; TypeError for types that have none."""
    if dtype.names is not None and dtype.fields is not None:
        fields: list[list[object]] = []
        for name in dtype.names:
            cells = dtype.fields[name][0]
            base, shape = cells.subdtype or (cells, ())
            fields.append([name, dtype_to_json(base), *([list(shape)] if shape else [])])
        return fields
    if dtype.subdtype is None and dtype_from_json(dtype.str) == dtype:
        return dtype.str
    raise TypeError(f"{dtype} has no name in JSON")


def dtype_from_json(name: object) -> NumpyDType:
    """Return the type of a JSON spelling; TypeError says what is wrong with it."""
    match name:
        case str():
            return _simple(name)
        case list() if name:
            parts: list[Any] = []
            for field in name:
                if not isinstance(field, list) or len(field) not in (2, 3) or not isinstance(field[0], str):
                    raise TypeError(f"{field!r} is no field: [name, type] or [name, type, shape]")
                parts.append((field[0], dtype_from_json(field[1]), *map(field_shape, field[2:])))
            names = [part[0] for part in parts]
            if "" in names or len(set(names)) < len(names):
                raise TypeError(f"field names {names} are empty or occur twice")
            dtype = np.dtype(parts)
            if dtype.itemsize > LARGEST:
                raise TypeError(f"cells of this type have {dtype.itemsize} bytes")
            return dtype
    raise TypeError(f"{name!r} is no data type")


@lru_cache(maxsize=256)
def _simple(name: str) -> np.dtype[np.generic]:
    sized = _SIZED.fullmatch(name)
    if sized is None and _PLAIN.fullmatch(name) is None:
        raise TypeError(f"{name!r} is no data type that is known")
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name!r} is no data type: {error}") from None
    if not 0 < dtype.itemsize <= LARGEST:
        raise TypeError(f"cells of type {name!r} have {dtype.itemsize} bytes")
    return dtype


def field_shape(shape: object) -> tuple[int, ...]:
    """Return the shape of a field in JSON, a list of lengths or one; TypeError when it is none."""
    lengths = (shape,) if isinstance(shape, int) else tuple(shape) if isinstance(shape, list) else (None,)
    if not all(type(n) is int and 0 < n <= LARGEST for n in lengths) or len(lengths) > 32:
        raise TypeError(f"{shape!r:.80} is no shape of a field")
    if prod(lengths) > LARGEST:
        raise TypeError(f"a field of {prod(lengths)} cells")
    return lengths


def describe_type(dtype: Extension) -> dict[str, object]:
    """Return a type that plain Zarr has no name for, as JSON."""
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


def _fields(base: np.dtype[np.generic]) -> dict[str, object]:
    """Return the named types of fields."""
    found = {name: describe_type(kind) for name, kind in tagged_fields(base)}
    return {"fields": found} if found else {}


def _base(dtype: np.dtype[np.generic]) -> object:
    try:
        return dtype_to_json(dtype.newbyteorder("<"))
    except TypeError as error:
        raise Unsupported(f"Zarr has no cells of type {dtype}: {error}") from None


def _named(name: str) -> dict[str, str]:
    return {"name": name} if name else {}


def read_type(description: object) -> Extension | None:
    """Return the type of such a description; None when it makes no sense."""
    try:
        return _read_type(description)
    except (TypeError, KeyError, ValueError):
        return None


def _read_type(description: object) -> Extension | None:
    name = description.get("name", "") if isinstance(description, dict) else ""
    if not isinstance(name, str):
        return None
    match description:
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
            return VlenArray(_with_fields(dtype_from_json(base).newbyteorder("="), description), name)
        case {"type": "compound", "base": base}:
            compound = _with_fields(dtype_from_json(base).newbyteorder("="), description)
            return Compound(compound, name) if compound.names is not None else None
        case _:
            return None


def _with_fields(base: NumpyDType, description: Any) -> np.dtype[np.generic]:
    """Return the structured type with its fields tagged as the description says, where that fits."""
    found = description.get("fields")
    if base.names is None or not isinstance(found, dict):
        return base
    fields = []
    for name in base.names:
        dtype, kind = base[name], read_type(found.get(name))
        if kind is not None and numpy_dtype(kind) == dtype.base:
            plain = tagged(kind.base if isinstance(kind, Compound) else numpy_dtype(kind), kind)
            dtype = np.dtype((plain, dtype.shape)) if dtype.shape else plain
        fields.append((name, dtype))
    return np.dtype(fields)
