"""Changes of an object's document: its arrays and groups, as the one face sees them, made, changed and removed. Pure.

The way back is in ``to_spec``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.auto import auto_chunks
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.dimension_suffix import add_suffix
from hyperslab.formats.mongo.bson_values import dtype_to_text, encode_attrs
from hyperslab.formats.mongo.document import ARRAY, Meta, Variable, embed_cells
from hyperslab.formats.mongo.to_spec import (
    COORDINATES,
    GROUPS,
    attr_codes,
    group_spec,
    inner_groups,
    original_dims,
    split_names,
    variable_chunks,
    variable_extension,
)
from hyperslab.model.coo import Coo
from hyperslab.model.dtypes import DataType, describe
from hyperslab.model.paths import outward, split
from hyperslab.model.spec import ArraySpec, GroupSpec

_KINDS = "biufcmMUSV"


def check_type(dtype: DataType) -> np.dtype[Any]:
    """The dtype of cells that documents hold; Unsupported names the others."""
    if not isinstance(dtype, np.dtype) or dtype.kind not in _KINDS or dtype.names or dtype.subdtype:
        remedy = "store numbers, times, or text of a fixed length (astype('U'))"
        raise Unsupported(f"format mongo has no cells of type {describe(dtype)}", remedy=remedy)
    if dtype.newbyteorder("<") != dtype:
        remedy = "cast them: astype(dtype.newbyteorder('='))"
        raise Unsupported(f"format mongo stores little-endian cells alone, not {describe(dtype)}", remedy=remedy)
    dtype_to_text(dtype, "")
    return dtype


def new_array(spec: ArraySpec) -> ArraySpec:
    """A user's wish as documents hold it; codecs are left to the server. Unsupported."""
    check_type(spec.dtype)
    for asked in ("shards", "checksum"):
        if spec.layout.get(asked):
            raise Unsupported(f"format mongo has no {asked}", remedy=f"leave {asked}= out")
    encode_attrs(spec.attrs, {}, {})
    layout = {name: value for name, value in spec.layout.items() if name in ("units", "attribute")}
    return spec.evolve(codecs=(), indexes={}, layout=layout)


def fits_one_piece(spec: ArraySpec, most: int) -> bool:
    """Return whether an array is to be stored in one piece: its only chunk is small, or there is nothing in it."""
    nbytes = spec.numpy_dtype.itemsize * prod(spec.shape)
    one = all(isinstance(cut, int) and cut >= n for cut, n in zip(spec.chunks, spec.shape, strict=True))
    return nbytes == 0 or (one and nbytes <= most)


def without_coordinates(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the places of variables say, and the field ``hyperslab`` where they do not."""
    return {name: value for name, value in attrs.items() if name != COORDINATES or not isinstance(value, str)}


def make_variable(
    name: str, spec: ArraySpec, old: Variable | None, codes: Mapping[str, Any], *, whole: bool
) -> Variable:
    """The entry of an array. ``old``, ``codes``: what is stored under its name. Unsupported names an attribute."""
    dtype = check_type(spec.dtype).newbyteorder("<")
    values = without_coordinates(spec.attrs)
    units = spec.layout.get("units")
    if units is not None and not spec.layout.get("attribute"):
        units = values.pop("units", None)  # the document's own, which the attribute shows
    plain = name.replace("/", ".")  # a name with a slash would be none of a dimension in netCDF
    raw, _ = encode_attrs(values, old.attrs if old is not None else {}, codes)
    return Variable(
        dims=tuple(f"{plain}_dim_{axis}" if dim is None else dim for axis, dim in enumerate(spec.dims)),
        dtype=dtype,
        shape=spec.shape,
        chunks=None if whole else tuple(map(_axis_sizes, spec.shape, spec.chunks)),
        sparse=spec.sparse is not None,
        attrs=raw,
        units=units if isinstance(units, str) else None,
        fill=spec.fill_cell().astype(dtype).tobytes() if spec.sparse is not None else None,
    )


def _axis_sizes(length: int, cut: int | tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(cut, int):
        whole, rest = divmod(length, cut)
        return (cut,) * whole + ((rest,) if rest or not whole else ())
    sizes = []
    left = length
    for size in cut:
        if left <= 0:
            break
        sizes.append(min(size, left))
        left -= size
    return tuple(sizes) or (0,)


def array_extension(
    spec: ArraySpec, variable: Variable, old: Mapping[str, Any], before: Variable | None
) -> dict[str, Any]:
    """What the field ``hyperslab`` is to say of an array, of which it says ``old`` and that was ``before``."""
    values = without_coordinates(spec.attrs)
    if variable.units is not None and not spec.layout.get("attribute"):
        values.pop("units", None)
    codes = encode_attrs(values, variable.attrs, attr_codes(old))[1]
    told = variable_chunks(variable, {}).chunks
    complete = "fill_value" in old and before is not None and before.shape == spec.shape
    found: dict[str, Any] = {"fill_value" if complete else "fill": spec.fill_cell().astype(variable.dtype).tobytes()}
    if told != spec.chunks:
        found["chunks"] = [cut if isinstance(cut, int) else list(cut) for cut in spec.chunks]
    if codes:
        found["attr_types"] = codes
    if "pandas" in old and before is not None and before.dtype == variable.dtype:
        found["pandas"] = old["pandas"]
    if isinstance(spec.attrs.get(COORDINATES), str):
        found[COORDINATES] = spec.attrs[COORDINATES]
    return found


def with_group(meta: Meta, spec: GroupSpec) -> Meta:
    """The object with other attributes and unlimited dimensions."""
    ours = dict(meta.ours)
    if not meta.is_array:
        shown = group_spec(meta).attrs.get(COORDINATES)
        values = without_coordinates(spec.attrs)
        raw, codes = encode_attrs(values, meta.attrs, attr_codes(meta.ours))
        said = spec.attrs.get(COORDINATES)
        said = said if isinstance(said, str) else None
        _set_or_remove(ours, COORDINATES, said if said != shown or COORDINATES in meta.ours else None)
        _set_or_remove(ours, "attr_types", codes or None)
        meta = replace(meta, attrs=raw)
    elif without_coordinates(spec.attrs):
        remedy = "set them on the array: a DataArray has those of its one array"
        raise Unsupported("format mongo holds no attributes beside those of a DataArray", remedy=remedy)
    _set_or_remove(ours, "unlimited", [dim.name for dim in spec.dims if dim.unlimited] or None)
    return sort_coordinates(replace(meta, ours=ours))


def _set_or_remove(ours: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        ours.pop(name, None)
    else:
        ours[name] = value


def with_array(meta: Meta, name: str, spec: ArraySpec, *, whole: bool) -> Meta:
    """The object with an array made or changed; its cells are left alone. Invalid, Unsupported."""
    old = meta.variables.get(name)
    said = variable_extension(meta, name)
    if meta.is_array and name == ARRAY:
        return _with_data_array(meta, spec, whole=whole)
    if name == ARRAY or (meta.is_array and old is None and spec.dims != (name,)):
        remedy = "give another name, or save a Dataset under a name of its own"
        raise Unsupported(f"format mongo has no array {name!r} here: a DataArray holds one", remedy=remedy)
    if old is None:
        _check_lengths(meta, name, spec)
    variable = _keep_embedded(make_variable(name, spec, old, attr_codes(said), whole=whole), old, spec)
    changed = with_variable(meta, name, variable, array_extension(spec, variable, said, old))
    return sort_coordinates(with_distinct_dims(meta, changed, name))


def _keep_embedded(variable: Variable, old: Variable | None, spec: ArraySpec) -> Variable:
    """An array in one piece keeps the cells that stand in the document, cut off or filled up."""
    if old is None or old.embedded is None or variable.chunks is not None:
        return variable
    if old.embedded.shape == variable.shape and old.embedded.dtype == variable.dtype:
        return replace(variable, embedded=old.embedded, dtype=old.dtype)
    fill = spec.fill_cell().astype(variable.dtype)
    block = np.full(spec.shape, fill, variable.dtype)
    old.embedded.read_common(block)
    return replace(variable, embedded=embed_cells("", Coo.of_dense(block, fill) if variable.sparse else block))


def _with_data_array(meta: Meta, spec: ArraySpec, *, whole: bool) -> Meta:
    """A DataArray, whose attributes are those of its one array."""
    variable = make_variable(ARRAY, spec.evolve(attrs={}), None, {}, whole=whole)
    units = {"units": spec.layout["units"]} if "units" in spec.layout else {}
    shown = spec.attrs if spec.layout.get("attribute") else {k: v for k, v in spec.attrs.items() if k not in units}
    kept = without_coordinates(shown)
    raw, codes = encode_attrs(kept, meta.attrs, attr_codes(meta.ours))
    if units and not spec.layout.get("attribute"):
        units = {"units": spec.attrs["units"]} if "units" in spec.attrs else {}
    ours = dict(meta.ours)
    _set_or_remove(ours, "attr_types", codes or None)
    entry = array_extension(spec.evolve(attrs={}), variable, variable_extension(meta, ARRAY), meta.variables[ARRAY])
    variable = _keep_embedded(replace(variable, units=units.get("units")), meta.variables[ARRAY], spec)
    return with_variable(replace(meta, attrs=raw, ours=ours), ARRAY, variable, entry)


def _check_lengths(meta: Meta, name: str, spec: ArraySpec) -> None:
    """Raise Invalid where the arrays of the group have other lengths along a dimension, unless the object's own
    dimension of that name has this one: of several lengths in one group all but the first are stored as
    ``name@length``."""
    group = split(name)[0]
    plain: dict[str, int | None] = {}
    known: dict[str, dict[int | None, str]] = {}
    for other, each in meta.variables.items():
        plain |= {str(dim): size for dim, size in zip(each.dims, each.shape, strict=True)}
        for dim, size in zip(original_dims(meta, each), each.shape, strict=True) if split(other)[0] == group else ():
            known.setdefault(dim, {})[size] = other
    for axis, size in zip(spec.dims, spec.shape, strict=True):
        lengths = known.get(axis, {}) if axis is not None else {}
        if lengths and size not in lengths and size != plain.get(str(axis)):
            length, holder = next(iter(lengths.items()))
            message = f"{axis!r} has {size} cells, in {holder!r} it has {length}"
            raise Invalid(message, remedy="arrays of one group share their dimensions: give it another name")


def with_variable(meta: Meta, name: str, variable: Variable, ours: Mapping[str, Any]) -> Meta:
    """The object with a variable in its place, or behind the others, and what is ours of it."""
    coords, data = dict(meta.coords), dict(meta.data_vars)
    (coords if name in coords else data)[name] = variable
    said = {**_variable_extensions(meta), name: dict(ours)}
    return sort_coordinates(replace(meta, coords=coords, data_vars=data, ours={**meta.ours, "variables": said}))


def with_extension(meta: Meta, name: str, **values: Any) -> Meta:
    """The object with other values in what is ours of a variable; None takes one away."""
    entry = {key: value for key, value in {**variable_extension(meta, name), **values}.items() if value is not None}
    return replace(meta, ours={**meta.ours, "variables": {**_variable_extensions(meta), name: entry}})


def without_variable(meta: Meta, name: str) -> Meta:
    """The object without a variable."""
    coords, data = dict(meta.coords), dict(meta.data_vars)
    (coords if name in coords else data).pop(name)
    said = {each: entry for each, entry in _variable_extensions(meta).items() if each != name}
    return replace(meta, coords=coords, data_vars=data, ours={**meta.ours, "variables": said})


def _variable_extensions(meta: Meta) -> dict[str, Any]:
    said = meta.ours.get("variables")
    return dict(said) if isinstance(said, Mapping) else {}


def sort_coordinates(meta: Meta) -> Meta:
    """The variables that are coordinates by their names, or because another one names them, among the coordinates."""
    said = {name for entry in _variable_extensions(meta).values() for name in split_names(entry.get(COORDINATES))}
    said |= set(split_names(meta.ours.get(COORDINATES)))
    moved = [name for name, one in meta.data_vars.items() if name != ARRAY and (one.dims == (name,) or name in said)]
    coords = {**meta.coords, **{name: meta.data_vars[name] for name in moved}}
    return replace(meta, coords=coords, data_vars={k: v for k, v in meta.data_vars.items() if k not in moved})


def auto_chunk_lengths(shape: tuple[int, ...], itemsize: int, most: int) -> tuple[int, ...]:
    """Chunk lengths such that a chunk is at most ``most`` bytes, of equal cuts of the longest axes."""
    chunks = list(auto_chunks(shape, itemsize))
    while chunks and max(itemsize, 1) * int(np.prod(chunks, dtype=object)) > most and max(chunks) > 1:
        longest = chunks.index(max(chunks))
        chunks[longest] = -(-chunks[longest] // 2)
    return tuple(chunks)


# -- groups -----------------------------------------------------------------------------------------------------------


def with_inner_group(meta: Meta, path: str, spec: GroupSpec) -> Meta:
    """The object with a group below the root made or changed. Unsupported, Invalid."""
    meta = with_parent_groups(meta, f"{path}/-")
    known = inner_groups(meta)
    old = known[path] if isinstance(known[path], Mapping) else {}
    raw, codes = encode_attrs(spec.attrs, old.get("attrs") or {}, old.get("attr_types") or {})
    free = [dim.name for dim in spec.dims if dim.unlimited]
    parts = (("attrs", raw), ("attr_types", codes), ("unlimited", free))
    return _with_groups(meta, {**known, path: {name: value for name, value in parts if value}})


def with_parent_groups(meta: Meta, path: str) -> Meta:
    """The object with the groups that a node at ``path`` lies in."""
    wanted = [group for group in outward(split(path)[0]) if group]
    if wanted and meta.is_array:
        remedy = "save a Dataset under a name of its own"
        raise Unsupported("format mongo has no groups in a DataArray, which holds one array", remedy=remedy)
    known = inner_groups(meta)
    if taken := [group for group in wanted if group not in known and group in meta.variables]:
        raise Invalid(f"/{taken[0]} is an array and holds no other nodes", remedy="give another name")
    missing: dict[str, Any] = {group: {} for group in reversed(wanted) if group not in known}
    return _with_groups(meta, {**known, **missing}) if missing else meta


def without_group(meta: Meta, path: str) -> Meta:
    """The object without the groups at and below a path; their arrays are not looked at."""
    left = {group: said for group, said in inner_groups(meta).items() if not f"{group}/".startswith(f"{path}/")}
    return _with_groups(meta, left)


def _with_groups(meta: Meta, groups: Mapping[str, Any]) -> Meta:
    rest = {name: value for name, value in meta.ours.items() if name != GROUPS}
    return replace(meta, ours={**rest, GROUPS: dict(groups)} if groups else rest)


def with_distinct_dims(before: Meta, meta: Meta, changed: str) -> Meta:
    """Return the object after an array was ``changed``, with each name of a dimension that has several lengths in it
    told apart: the plain name is that of the outermost array, coordinates first, others are ``name@length``."""
    if not inner_groups(meta):
        return meta
    dims = {
        name: original_dims(meta if name == changed or name not in before.variables else before, each)
        for name, each in meta.variables.items()
        if each.problem is None
    }
    plain: dict[str, int | None] = {}
    for name in sorted(dims, key=lambda name: (name.count("/"), dims[name] != (split(name)[1],))):
        for dim, size in zip(dims[name], meta.variables[name].shape, strict=True):
            plain.setdefault(dim, size)

    def stored(name: str, each: Variable) -> Variable:
        pairs = zip(dims.get(name, ()), each.shape, strict=True)
        told = tuple(dim if size in (None, plain[dim]) else add_suffix(dim, size or 0) for dim, size in pairs)
        return replace(each, dims=told)

    parts = ({name: stored(name, each) for name, each in part.items()} for part in (meta.coords, meta.data_vars))
    coords, data_vars = parts
    return replace(meta, coords=coords, data_vars=data_vars)
