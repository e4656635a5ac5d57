"""The attribute ``_hyperslab``: what plain Zarr cannot say of a node; hidden at our face, absent when there is none.

``{"version": 1, "attrs": {name: code}, "hidden": {name: {"at": place, "value": …, "code": …}}, "dims": {name:
{"size": n, "unlimited": true}}, "dtype": description, "types": {name: description}, "indexes": {dimension: rule}}``,
each part only where it says something (:mod:`.index_marks` has the rules). ``"fill": "unwritten"`` says that Zarr v2's
fill value is only what unwritten cells read as, and no marker of missing cells. ``hidden`` holds attributes that a peer
would stumble over in plain sight. Others may edit or drop any of it: parts that make no sense are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.formats.type_names import describe_type, read_type
from hyperslab.formats.typed_attrs import Code, decode, decode_attrs, encode_attrs
from hyperslab.model.attrs import Attrs
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import (
    Char,
    Compound,
    DataType,
    Enum,
    Extension,
    Opaque,
    VlenArray,
    VlenBytes,
    numpy_dtype,
)
from hyperslab.model.schemas.dtype_names import reads_extended

MARK = "_hyperslab"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ExtendedMetadata:
    """What the attribute ``_hyperslab`` of one node says, besides the types of attributes."""

    dims: tuple[Dimension, ...] = ()
    dtype: DataType | None = None
    types: Mapping[str, Extension] = field(default_factory=dict)
    indexes: Mapping[str, Any] = field(default_factory=dict)
    unwritten: bool = False


def read_attributes(stored: Mapping[str, Any]) -> tuple[dict[str, Any], ExtendedMetadata]:
    """The typed attributes of a node as users see them, and the marks."""
    if MARK not in stored:
        return dict(stored), ExtendedMetadata()
    mark = stored[MARK]
    plain = {name: value for name, value in stored.items() if name != MARK}
    if not isinstance(mark, dict) or mark.get("version") != VERSION:
        return plain, ExtendedMetadata()
    attrs = decode_attrs(plain, _mapping(mark, "attrs"))
    attrs = _with_hidden(attrs, _mapping(mark, "hidden"))
    types = {name: read_type(said) for name, said in _mapping(mark, "types").items()}
    known = {name: found for name, found in types.items() if found is not None}
    dims, dtype = _dims(_mapping(mark, "dims")), _read_dtype(mark.get("dtype"))
    return attrs, ExtendedMetadata(dims, dtype, known, _mapping(mark, "indexes"), mark.get("fill") == "unwritten")


def write_attributes(
    attrs: Attrs,
    marks: ExtendedMetadata,
    spelled: Mapping[str, tuple[Any, Code | None]] | None = None,
    hidden: Iterable[str] = (),
) -> dict[str, Any]:
    """The attributes to store: those ``spelled`` by the format as they are, those ``hidden`` inside the mark."""
    if MARK in attrs:
        raise Invalid(f"the attribute name {MARK!r} is kept for hyperslab", remedy="choose another name")
    values, codes = encode_attrs(attrs, spelled)
    places = {name: place for place, name in enumerate(values)}
    apart = {
        name: {"at": places[name], "value": values.pop(name), "code": codes.pop(name, None)}
        for name in hidden
        if name in values
    }
    parts: dict[str, Any] = {
        "attrs": codes,
        "hidden": apart,
        "dims": {dim.name: _dim_to_json(dim) for dim in marks.dims},
        "dtype": None if marks.dtype is None else _describe_dtype(marks.dtype),
        "types": {name: describe_type(said) for name, said in marks.types.items()},
        "indexes": marks.indexes,
        "fill": "unwritten" if marks.unwritten else None,
    }
    said = {name: part for name, part in parts.items() if part}
    return values | ({MARK: {"version": VERSION, **said}} if said else {})


def _with_hidden(attrs: dict[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes with hidden ones at their places, unless another has taken the name since."""
    items = list(attrs.items())
    for name, said in hidden.items():
        if isinstance(said, dict) and name not in attrs:
            place = said.get("at")
            at = place if type(place) is int and 0 <= place <= len(items) else len(items)
            items.insert(at, (name, decode(said.get("value"), said.get("code"))))
    return dict(items)


def _mapping(mark: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = mark.get(name)
    return part if isinstance(part, dict) else {}


def _dim_to_json(dim: Dimension) -> dict[str, Any]:
    return {"size": dim.size, "unlimited": True} if dim.unlimited else {"size": dim.size}


def _dims(said: Mapping[str, Any]) -> tuple[Dimension, ...]:
    dims = []
    for name, dim in said.items():
        size = dim.get("size") if isinstance(dim, dict) else None
        if type(size) is int and 0 <= size < 2**63:
            dims.append(Dimension(name, size, dim.get("unlimited") is True))
    return tuple(dims)


_EXTENDED = {"float128": "g", "complex256": "G"}
"""Floats of 80 bits: cells that Zarr v3 has no name for and stores as bytes."""


def _read_dtype(said: Any) -> DataType | None:
    if isinstance(said, str):
        return np.dtype(_EXTENDED[said]) if said in _EXTENDED and reads_extended() else None
    return read_type(said)


def _describe_dtype(dtype: DataType) -> Any:
    if isinstance(dtype, np.dtype):
        return next(name for name, code in _EXTENDED.items() if code == dtype.char)
    return describe_type(dtype)


def marked_type(stored: DataType, said: DataType | None) -> DataType:
    """The type that a mark makes of the stored cells; the stored type itself where the two do not fit."""
    if isinstance(stored, VlenArray):
        return said if isinstance(said, VlenArray) and said.base == stored.base else stored
    if isinstance(stored, VlenBytes):
        return said if isinstance(said, VlenArray) else stored
    if not isinstance(stored, np.dtype):
        return stored
    match said:
        case np.dtype() if stored.kind == "V" and stored.names is None and stored.itemsize == said.itemsize:
            return said
        case Char() if stored == np.dtype("S1"):
            return said
        case Enum(base=base) if base == stored.newbyteorder("="):
            return replace(said, base=stored)
        case Opaque(size=size) if stored.kind == "V" and stored.names is None and stored.itemsize == size:
            return said
        case Compound(base=base) if base == stored.newbyteorder("="):
            return said if base == stored else replace(said, base=stored)
        case _:
            return stored


def needs_mark(dtype: DataType) -> Extension | None:
    """The type itself where plain cells do not tell it."""
    if isinstance(dtype, VlenArray):
        return dtype if dtype.name else None
    return dtype if isinstance(dtype, Char | Enum | Opaque | Compound) else None


def plain_type(dtype: DataType) -> DataType:
    """The type that the stored cells have without their mark."""
    match dtype:
        case VlenArray(base=base):
            return VlenArray(base)
        case Char() | Enum() | Opaque() | Compound():
            return numpy_dtype(dtype)
        case _:
            return dtype
