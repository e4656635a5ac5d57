"""The attribute ``_hyperslab``: what plain Zarr cannot say of a node; hidden at our face, absent when there is none.

``{"version": 1, "attrs": {name: code}, "hidden": {name: {"at": place, "value": …, "code": …}}, "dims": {name:
{"size": n, "unlimited": true}}, "dtype": description, "types": {name: description}, "indexes": {dimension: rule}}``,
each part only where it says something. ``"fill": "unwritten"`` says that Zarr v2's
fill value is only what unwritten cells read as, and no marker of missing cells. ``hidden`` holds attributes that a peer
would stumble over in plain sight. Others may edit or drop any of it: parts that make no sense are ignored.

The index of a dimension is a rule or labels, without its size, which the shape tells: ``{"scale": {"start": 90.0,
"step": -0.25}}``, ``{"labels": [texts or floats]}``, or ``{"times": {"start": "2023-01-01T00:00:00", "step": 3600,
"unit": "s"}}``. One that does not fit the shape is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.formats.documents import object_or_empty
from hyperslab.formats.metadata_json.attributes import Code, decode_attribute, decode_attrs, encode_attrs
from hyperslab.formats.metadata_json.dtypes import describe_type, read_type
from hyperslab.model.attrs import Attrs
from hyperslab.model.dims import Dimension, FloatLabels, Index, Labels, ScaleIndex, TimeScale
from hyperslab.model.dtypes import Char, Compound, DataType, Enum, Extension, Opaque, VlenArray, VlenBytes, numpy_dtype
from hyperslab.model.schemas.attributes import reads_extended

ATTRIBUTE = "_hyperslab"
VERSION = 1


@dataclass(frozen=True, slots=True)
class ExtendedMetadata:
    """The content of the attribute ``_hyperslab`` of one node, besides the types of attributes.

    ``types``: of the cells that compounds hold, by name. ``unwritten``: the fill value marks no missing cells.
    """

    dims: tuple[Dimension, ...] = ()
    dtype: DataType | None = None
    types: Mapping[str, Extension] = field(default_factory=dict)
    indexes: Mapping[str, object] = field(default_factory=dict)
    unwritten: bool = False


_NOTHING = ExtendedMetadata()


def read_attributes(stored: Mapping[str, Any]) -> tuple[dict[str, object], ExtendedMetadata]:
    """Return the typed attributes of a node as users see them, and the rest."""
    if ATTRIBUTE not in stored:
        return dict(stored), _NOTHING
    content = stored[ATTRIBUTE]
    plain = {name: value for name, value in stored.items() if name != ATTRIBUTE}
    if not isinstance(content, dict) or content.get("version") != VERSION:
        return plain, ExtendedMetadata()
    attrs = decode_attrs(plain, object_or_empty(content.get("attrs")))
    items = list(attrs.items())
    for name, entry in object_or_empty(content.get("hidden")).items():
        if isinstance(entry, dict) and name not in attrs:
            place = entry.get("at")
            at = place if type(place) is int and 0 <= place <= len(items) else len(items)
            items.insert(at, (name, decode_attribute(entry.get("value"), entry.get("code"))))
    attrs = dict(items)
    types = {name: read_type(description) for name, description in object_or_empty(content.get("types")).items()}
    readable = {name: found for name, found in types.items() if found is not None}
    dims = []
    for name, dim in object_or_empty(content.get("dims")).items():
        size = object_or_empty(dim).get("size")
        if type(size) is int and 0 <= size < 2**63:
            dims.append(Dimension(name, size, dim.get("unlimited") is True))
    described = content.get("dtype")
    dtype: DataType | None = None
    if not isinstance(described, str):
        dtype = read_type(described)
    elif described in _EXTENDED and reads_extended():
        dtype = np.dtype(_EXTENDED[described])
    return attrs, ExtendedMetadata(
        dims=tuple(dims),
        dtype=dtype,
        types=readable,
        indexes=object_or_empty(content.get("indexes")),
        unwritten=content.get("fill") == "unwritten",
    )


def write_attributes(
    attrs: Attrs,
    extended: ExtendedMetadata,
    spelled: Mapping[str, tuple[object, Code | None]] | None = None,
    hidden: Iterable[str] = (),
) -> dict[str, object]:
    """Return the attributes to store.

    ``spelled``: values that the format has encoded itself. ``hidden``: names of those that stand inside ``_hyperslab``.
    """
    if ATTRIBUTE in attrs:
        raise Invalid(f"the attribute name {ATTRIBUTE!r} is kept for hyperslab", remedy="choose another name")
    values, codes = encode_attrs(attrs, spelled)
    places = {name: place for place, name in enumerate(values)}
    moved = {
        name: {"at": places[name], "value": values.pop(name), "code": codes.pop(name, None)}
        for name in hidden
        if name in values
    }
    parts: dict[str, Any] = {
        "attrs": codes,
        "hidden": moved,
        "dims": {
            dim.name: ({"size": dim.size, "unlimited": True} if dim.unlimited else {"size": dim.size})
            for dim in extended.dims
        },
        "dtype": None if extended.dtype is None else _describe_dtype(extended.dtype),
        "types": {name: describe_type(kind) for name, kind in extended.types.items()},
        "indexes": extended.indexes,
        "fill": "unwritten" if extended.unwritten else None,
    }
    content = {name: part for name, part in parts.items() if part}
    return values | ({ATTRIBUTE: {"version": VERSION, **content}} if content else {})


_EXTENDED = {"float128": "g", "complex256": "G"}
"""Floats of 80 bits: cells that Zarr v3 has no name for and stores as bytes."""


def _describe_dtype(dtype: DataType) -> object:
    if isinstance(dtype, np.dtype):
        return next(name for name, code in _EXTENDED.items() if code == dtype.char)
    return describe_type(dtype)


def apply_described_type(stored: DataType, described: DataType | None) -> DataType:
    """Return the type that a description makes of the stored cells; the stored type itself where the two do not fit."""
    match stored:
        case VlenArray():
            return described if isinstance(described, VlenArray) and described.base == stored.base else stored
        case VlenBytes():
            return described if isinstance(described, VlenArray) else stored
    if not isinstance(stored, np.dtype):
        return stored
    match described:
        case np.dtype() if stored.kind == "V" and stored.names is None and stored.itemsize == described.itemsize:
            return described
        case Char() if stored == np.dtype("S1"):
            return described
        case Enum(base=base) if base == stored.newbyteorder("="):
            return replace(described, base=stored)
        case Opaque(size=size) if stored.kind == "V" and stored.names is None and stored.itemsize == size:
            return described
        case Compound(base=base) if base == stored.newbyteorder("="):
            return described if base == stored else replace(described, base=stored)
        case _:
            return stored


def type_to_describe(dtype: DataType) -> Extension | None:
    """Return the type itself where the dtype of the stored cells does not tell it, else None."""
    if isinstance(dtype, VlenArray):
        return dtype if dtype.name else None
    return dtype if isinstance(dtype, Char | Enum | Opaque | Compound) else None


def plain_type(dtype: DataType) -> DataType:
    """Return the type that the stored cells have without their description."""
    match dtype:
        case VlenArray(base=base):
            return VlenArray(base)
        case Char() | Enum() | Opaque() | Compound():
            return numpy_dtype(dtype)
        case _:
            return dtype


_UNITS = frozenset({"W", "D", "h", "m", "s", "ms", "us", "ns"})
_TIME = re.compile(r"-?\d{3,}-\d\d-\d\d(T\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?)?", re.ASCII)


def write_indexes(indexes: Mapping[str, Index], dims: Sequence[str | None]) -> dict[str, Any]:
    """Return the JSON of the indexes of these dimensions; those that list their values cell by cell are left out."""
    rules = {name: _to_json(indexes[name]) for name in dims if name is not None and name in indexes}
    return {name: rule for name, rule in rules.items() if rule is not None}


def read_indexes(rules: Mapping[str, object], dims: Sequence[str | None], shape: Sequence[int]) -> dict[str, Index]:
    """Return the indexes of an array's dimensions."""
    result: dict[str, Index] = {}
    for name, size in zip(dims, shape, strict=False):
        index = _from_json(rules.get(name), size) if name is not None else None
        if name is not None and index is not None:
            result[name] = index
    return result


def _to_json(index: Index) -> dict[str, object] | None:
    match index:
        case ScaleIndex(start=start, step=step):
            return {"scale": {"start": float(start), "step": float(step)}}
        case Labels(names=names):
            return {"labels": list(names)}
        case FloatLabels(values=values):
            return {"labels": list(values)}
        case TimeScale(start=first, step=step):
            unit, count = np.datetime_data(step.dtype)
            length = int(step.astype("i8")) * count
            return {"times": {"start": str(first), "step": length, "unit": unit}} if unit in _UNITS else None
        case _:
            return None


def _from_json(rule: object, size: int) -> Index | None:
    match rule:
        case {"scale": {"start": int() | float() as start, "step": int() | float() as step}}:
            return ScaleIndex(float(start), float(step), size) if step and isfinite(start) and isfinite(step) else None
        case {"labels": list() as labels} if len(labels) == size:
            kinds = set(map(type, labels))
            if kinds == {str}:
                return Labels(tuple(labels))
            if kinds and kinds <= {int, float} and len(set(labels)) == len(labels):
                return FloatLabels(tuple(map(float, labels)))
            return None
        case {"times": {"start": str() as start, "step": int() as step, "unit": str() as unit}} if (
            step and unit in _UNITS
        ):
            if not _TIME.fullmatch(start):
                return None
            try:
                first = np.datetime64(start)
                pace: Any = np.array(step, f"m8[{unit}]")[()]
            except (ValueError, OverflowError):
                return None
            return None if np.isnat(pace) else TimeScale(first, pace, size)
        case _:
            return None
