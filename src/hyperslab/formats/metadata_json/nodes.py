"""The metadata of a group or an array as a JSON object, for formats whose files hold cells and little else.

Parts that are empty are left out. Of an array ``{"dims": ["time", null], "attrs": {"units": "K"}, "types": {},
"fill_value": -1.0}``; of
a group ``attrs``, ``types`` and its declared dimensions, ``{"dims": {"time": {"size": 240,
"unlimited": true}}}``. ``types`` holds codes for attributes whose type JSON does not say (``attributes``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.errors import FormatError
from hyperslab.formats.metadata_json.attributes import decode_attrs, encode_attrs
from hyperslab.formats.metadata_json.cells import cell_from_json, cell_to_json
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import VlenString
from hyperslab.model.spec import ArraySpec, GroupSpec

_WRONG = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)


def attrs_to_json(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``attrs`` and ``types``; Invalid or Unsupported for attributes that JSON cannot hold."""
    if not attrs:
        return {}
    values, codes = encode_attrs(attrs)
    return {"attrs": values} | ({"types": codes} if codes else {})


def group_to_json(spec: GroupSpec) -> dict[str, Any]:
    """Return the JSON object of a group. Errors as of :func:`attrs_to_json`."""
    dims = {dim.name: {"size": dim.size} | ({"unlimited": True} if dim.unlimited else {}) for dim in spec.dims}
    return attrs_to_json(spec.attrs) | ({"dims": dims} if dims else {})


def array_to_json(spec: ArraySpec) -> dict[str, Any]:
    """Return the JSON object of an array, without its shape and dtype. Errors as of :func:`attrs_to_json`."""
    doc: dict[str, Any] = {"dims": list(spec.dims)} if any(dim is not None for dim in spec.dims) else {}
    doc |= attrs_to_json(spec.attrs)
    if spec.fill_value is not None:
        fill = spec.fill_cell()[()]
        doc["fill_value"] = str(fill) if isinstance(fill, str) else cell_to_json(fill)
    return doc


def node_to_json(spec: GroupSpec | ArraySpec) -> dict[str, Any]:
    """Return the JSON object of either. Errors as of :func:`attrs_to_json`."""
    return array_to_json(spec) if spec.is_array else group_to_json(spec)


def node_from_json(doc: Mapping[str, object], array: ArraySpec | None) -> GroupSpec | ArraySpec:
    """Return a group where ``array`` is None, else ``array``, which has the shape and dtype, with its other metadata.

    FormatError for what makes no sense.
    """
    return group_from_json(doc) if array is None else array_from_json(doc, array)


def attrs_from_json(doc: Mapping[str, object]) -> dict[str, Any]:
    """Return the attributes; FormatError for what makes no sense."""
    try:
        return decode_attrs(get_object(doc, "attrs"), get_object(doc, "types"))
    except _WRONG as error:
        raise FormatError(f"the attributes make no sense: {error}") from error


def group_from_json(doc: Mapping[str, object]) -> GroupSpec:
    """Return the group; FormatError for what makes no sense."""
    try:
        dims = get_object(doc, "dims")
        for name, dim in dims.items():
            if type(dim["size"]) is not int or dim["size"] < 0:
                raise TypeError(f"dimension {name!r} has no size")
        made = tuple(Dimension(name, dim["size"], dim.get("unlimited") is True) for name, dim in dims.items())
    except _WRONG as error:
        raise FormatError(f"what is said of the group makes no sense: {error}") from error
    return GroupSpec(attrs=attrs_from_json(doc), dims=made)


def array_from_json(doc: Mapping[str, object], spec: ArraySpec) -> ArraySpec:
    """Return ``spec``, which has the shape and dtype, with the rest; FormatError for what makes no sense."""
    try:
        dims = doc.get("dims") or [None] * len(spec.shape)
        if not isinstance(dims, list) or len(dims) != len(spec.shape):
            raise TypeError(f"dims {dims!r} for {len(spec.shape)} dimensions")
        if any(not isinstance(dim, str | None) for dim in dims):
            raise TypeError(f"dims {dims!r} are no names")
        fill = doc.get("fill_value")
        if isinstance(spec.dtype, VlenString) and not isinstance(fill, str | None):
            raise TypeError(f"{fill!r} is no text")
        if fill is not None and not isinstance(spec.dtype, VlenString):
            fill = cell_from_json(fill, spec.numpy_dtype)
    except _WRONG as error:
        raise FormatError(f"what is said of the array makes no sense: {error}") from error
    return spec.evolve(dims=tuple(dims), attrs=attrs_from_json(doc), fill_value=fill)


def get_object(doc: Mapping[str, object], name: str) -> dict[str, Any]:
    """Return the JSON object under a name, an empty one where there is none; TypeError for anything else."""
    value = doc.get(name, {})
    if not isinstance(value, dict):
        raise TypeError(f"{name} is no object")
    return value
