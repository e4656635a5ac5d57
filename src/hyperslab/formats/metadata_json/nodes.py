"""What is said of a group or an array in JSON, for formats whose files hold cells and little else. Pure.

Only what there is to say is in it. Of an array ``{"dims": ["time", null], "attrs": {"units": "K"}, "types": {},
"fill_value": -1.0}``; of a group ``attrs``, ``types`` and its declared dimensions, ``{"dims": {"time": {"size": 240,
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
    """``attrs`` and ``types``; Invalid or Unsupported for attributes that JSON cannot hold."""
    if not attrs:
        return {}
    values, codes = encode_attrs(attrs)
    return {"attrs": values} | ({"types": codes} if codes else {})


def group_to_json(spec: GroupSpec) -> dict[str, Any]:
    """What is said of a group. Errors as of :func:`attrs_to_json`."""
    dims = {dim.name: {"size": dim.size} | ({"unlimited": True} if dim.unlimited else {}) for dim in spec.dims}
    return attrs_to_json(spec.attrs) | ({"dims": dims} if dims else {})


def array_to_json(spec: ArraySpec) -> dict[str, Any]:
    """What is said of an array beyond its shape and dtype. Errors as of :func:`attrs_to_json`."""
    said: dict[str, Any] = {"dims": list(spec.dims)} if any(dim is not None for dim in spec.dims) else {}
    said |= attrs_to_json(spec.attrs)
    if spec.fill_value is not None:
        fill = spec.fill_cell()[()]
        said["fill_value"] = str(fill) if isinstance(fill, str) else cell_to_json(fill)
    return said


def node_to_json(spec: GroupSpec | ArraySpec) -> dict[str, Any]:
    """What is said of either. Errors as of :func:`attrs_to_json`."""
    return array_to_json(spec) if isinstance(spec, ArraySpec) else group_to_json(spec)


def node_from_json(said: Mapping[str, Any], array: ArraySpec | None) -> GroupSpec | ArraySpec:
    """``array``, which has the shape and dtype, or a group where it is None, with all that is said; FormatError."""
    return group_from_json(said) if array is None else array_from_json(said, array)


def attrs_from_json(said: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes; FormatError for what makes no sense."""
    try:
        return decode_attrs(get_object(said, "attrs"), get_object(said, "types"))
    except _WRONG as error:
        raise FormatError(f"the attributes make no sense: {error}") from error


def group_from_json(said: Mapping[str, Any]) -> GroupSpec:
    """The group; FormatError for what makes no sense."""
    try:
        dims = get_object(said, "dims")
        for name, dim in dims.items():
            if type(dim["size"]) is not int or dim["size"] < 0:
                raise TypeError(f"dimension {name!r} has no size")
        made = tuple(Dimension(name, dim["size"], dim.get("unlimited") is True) for name, dim in dims.items())
    except _WRONG as error:
        raise FormatError(f"what is said of the group makes no sense: {error}") from error
    return GroupSpec(attrs=attrs_from_json(said), dims=made)


def array_from_json(said: Mapping[str, Any], spec: ArraySpec) -> ArraySpec:
    """``spec``, which has the shape and dtype, with all that is said besides; FormatError for what makes no sense."""
    try:
        dims = said.get("dims") or [None] * len(spec.shape)
        if not isinstance(dims, list) or len(dims) != len(spec.shape):
            raise TypeError(f"dims {dims!r} for {len(spec.shape)} dimensions")
        if any(not isinstance(dim, str | None) for dim in dims):
            raise TypeError(f"dims {dims!r} are no names")
        fill = said.get("fill_value")
        if isinstance(spec.dtype, VlenString) and not isinstance(fill, str | None):
            raise TypeError(f"{fill!r} is no text")
        if fill is not None and not isinstance(spec.dtype, VlenString):
            fill = cell_from_json(fill, spec.numpy_dtype)
    except _WRONG as error:
        raise FormatError(f"what is said of the array makes no sense: {error}") from error
    return spec.evolve(dims=tuple(dims), attrs=attrs_from_json(said), fill_value=fill)


def get_object(said: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The JSON object under a name, an empty one where nothing is said; TypeError for anything else."""
    value = said.get(name, {})
    if not isinstance(value, dict):
        raise TypeError(f"{name} is no object")
    return value
