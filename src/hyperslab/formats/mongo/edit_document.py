"""The arrays and groups of the one face as changes of an object's document. Pure; the way back is in ``spelling``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.auto import auto_chunks
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.mongo.attributes import encode_attrs
from hyperslab.formats.mongo.document import ARRAY, Meta, Variable, embed
from hyperslab.formats.mongo.groups import shown_dims, with_dims_apart
from hyperslab.formats.mongo.to_spec import COORDINATES, codes_of, cut_of, group_spec, named_in, ours_of
from hyperslab.formats.mongo.types import dtype_to_text
from hyperslab.model.coo import Coo
from hyperslab.model.dtypes import DataType, describe
from hyperslab.model.paths import split
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


def fits_whole(spec: ArraySpec, most: int) -> bool:
    """Return whether an array is to be stored in one piece: its only chunk is small, or there is nothing in it."""
    nbytes = spec.numpy_dtype.itemsize * prod(spec.shape)
    one = all(isinstance(cut, int) and cut >= n for cut, n in zip(spec.chunks, spec.shape, strict=True))
    return nbytes == 0 or (one and nbytes <= most)


def without_coordinates(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the places of variables say, and the field ``hyperslab`` where they do not."""
    return {name: value for name, value in attrs.items() if name != COORDINATES or not isinstance(value, str)}


def variable_of(name: str, spec: ArraySpec, old: Variable | None, codes: Mapping[str, Any], *, whole: bool) -> Variable:
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
        chunks=None if whole else tuple(map(_sizes, spec.shape, spec.chunks)),
        sparse=spec.sparse is not None,
        attrs=raw,
        units=units if isinstance(units, str) else None,
        fill=spec.fill_cell().astype(dtype).tobytes() if spec.sparse is not None else None,
    )


def _sizes(length: int, cut: int | tuple[int, ...]) -> tuple[int, ...]:
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


def ours_of_array(
    spec: ArraySpec, variable: Variable, old: Mapping[str, Any], before: Variable | None
) -> dict[str, Any]:
    """What the field ``hyperslab`` is to say of an array, of which it says ``old`` and that was ``before``."""
    values = without_coordinates(spec.attrs)
    if variable.units is not None and not spec.layout.get("attribute"):
        values.pop("units", None)
    codes = encode_attrs(values, variable.attrs, codes_of(old))[1]
    told = cut_of(variable, {}).chunks
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
        raw, codes = encode_attrs(values, meta.attrs, codes_of(meta.ours))
        said = spec.attrs.get(COORDINATES)
        said = said if isinstance(said, str) else None
        _put(ours, COORDINATES, said if said != shown or COORDINATES in meta.ours else None)
        _put(ours, "attr_types", codes or None)
        meta = replace(meta, attrs=raw)
    elif without_coordinates(spec.attrs):
        remedy = "set them on the array: a DataArray has those of its one array"
        raise Unsupported("format mongo holds no attributes beside those of a DataArray", remedy=remedy)
    _put(ours, "unlimited", [dim.name for dim in spec.dims if dim.unlimited] or None)
    return arranged(replace(meta, ours=ours))


def _put(ours: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        ours.pop(name, None)
    else:
        ours[name] = value


def with_array(meta: Meta, name: str, spec: ArraySpec, *, whole: bool) -> Meta:
    """The object with an array made or changed; its cells are left alone. Invalid, Unsupported."""
    old = meta.variables.get(name)
    said = ours_of(meta, name)
    if meta.is_array and name == ARRAY:
        return _with_main(meta, spec, whole=whole)
    if name == ARRAY or (meta.is_array and old is None and spec.dims != (name,)):
        remedy = "give another name, or save a Dataset under a name of its own"
        raise Unsupported(f"format mongo has no array {name!r} here: a DataArray holds one", remedy=remedy)
    if old is None:
        _check_lengths(meta, name, spec)
    variable = _with_cells(variable_of(name, spec, old, codes_of(said), whole=whole), old, spec)
    changed = with_variable(meta, name, variable, ours_of_array(spec, variable, said, old))
    return arranged(with_dims_apart(meta, changed, name))


def _with_cells(variable: Variable, old: Variable | None, spec: ArraySpec) -> Variable:
    """An array in one piece keeps the cells that stand in the document, cut off or filled up."""
    if old is None or old.embedded is None or variable.chunks is not None:
        return variable
    if old.embedded.shape == variable.shape and old.embedded.dtype == variable.dtype:
        return replace(variable, embedded=old.embedded, dtype=old.dtype)
    fill = spec.fill_cell().astype(variable.dtype)
    block = np.full(spec.shape, fill, variable.dtype)
    old.embedded.read_common(block)
    return replace(variable, embedded=embed("", Coo.of_dense(block, fill) if variable.sparse else block))


def _with_main(meta: Meta, spec: ArraySpec, *, whole: bool) -> Meta:
    """A DataArray, whose attributes are those of its one array."""
    variable = variable_of(ARRAY, spec.evolve(attrs={}), None, {}, whole=whole)
    units = {"units": spec.layout["units"]} if "units" in spec.layout else {}
    shown = spec.attrs if spec.layout.get("attribute") else {k: v for k, v in spec.attrs.items() if k not in units}
    kept = without_coordinates(shown)
    raw, codes = encode_attrs(kept, meta.attrs, codes_of(meta.ours))
    if units and not spec.layout.get("attribute"):
        units = {"units": spec.attrs["units"]} if "units" in spec.attrs else {}
    ours = dict(meta.ours)
    _put(ours, "attr_types", codes or None)
    entry = ours_of_array(spec.evolve(attrs={}), variable, ours_of(meta, ARRAY), meta.variables[ARRAY])
    variable = _with_cells(replace(variable, units=units.get("units")), meta.variables[ARRAY], spec)
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
        for dim, size in zip(shown_dims(meta, each), each.shape, strict=True) if split(other)[0] == group else ():
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
    said = {**_said_of_all(meta), name: dict(ours)}
    return arranged(replace(meta, coords=coords, data_vars=data, ours={**meta.ours, "variables": said}))


def with_ours(meta: Meta, name: str, **values: Any) -> Meta:
    """The object with other values in what is ours of a variable; None takes one away."""
    entry = {key: value for key, value in {**ours_of(meta, name), **values}.items() if value is not None}
    return replace(meta, ours={**meta.ours, "variables": {**_said_of_all(meta), name: entry}})


def without_variable(meta: Meta, name: str) -> Meta:
    """The object without a variable."""
    coords, data = dict(meta.coords), dict(meta.data_vars)
    (coords if name in coords else data).pop(name)
    said = {each: entry for each, entry in _said_of_all(meta).items() if each != name}
    return replace(meta, coords=coords, data_vars=data, ours={**meta.ours, "variables": said})


def _said_of_all(meta: Meta) -> dict[str, Any]:
    said = meta.ours.get("variables")
    return dict(said) if isinstance(said, Mapping) else {}


def arranged(meta: Meta) -> Meta:
    """The variables that are coordinates by their names, or because another one names them, among the coordinates."""
    said = {name for entry in _said_of_all(meta).values() for name in named_in(entry.get(COORDINATES))}
    said |= set(named_in(meta.ours.get(COORDINATES)))
    moved = [name for name, one in meta.data_vars.items() if name != ARRAY and (one.dims == (name,) or name in said)]
    coords = {**meta.coords, **{name: meta.data_vars[name] for name in moved}}
    return replace(meta, coords=coords, data_vars={k: v for k, v in meta.data_vars.items() if k not in moved})


def fitting_chunks(shape: tuple[int, ...], itemsize: int, most: int) -> tuple[int, ...]:
    """Chunk lengths such that a chunk is at most ``most`` bytes, of equal cuts of the longest axes."""
    chunks = list(auto_chunks(shape, itemsize))
    while chunks and max(itemsize, 1) * int(np.prod(chunks, dtype=object)) > most and max(chunks) > 1:
        longest = chunks.index(max(chunks))
        chunks[longest] = -(-chunks[longest] // 2)
    return tuple(chunks)
