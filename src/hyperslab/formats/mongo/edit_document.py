"""Changes of an object's document: its arrays and groups, as a hyperslab dataset, made, changed and removed. Pure.

The way back is in ``to_spec``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.auto import auto_chunks
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.dimension_suffix import add_suffix
from hyperslab.formats.mongo.bson_values import Document, MutableDocument, dtype_to_text, encode_attrs, subdocument
from hyperslab.formats.mongo.chunk_documents import AssembledChunk, count_documents
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


def check_type(dtype: DataType) -> np.dtype:
    """Return the dtype of cells that documents hold; Unsupported names the others."""
    if not isinstance(dtype, np.dtype) or dtype.kind not in _KINDS or dtype.names or dtype.subdtype:
        remedy = "store numbers, times, or text of a fixed length (astype('U'))"
        raise Unsupported(f"format mongo has no cells of type {describe(dtype)}", remedy=remedy)
    if dtype.newbyteorder("<") != dtype:
        remedy = "cast them: astype(dtype.newbyteorder('='))"
        raise Unsupported(f"format mongo stores little-endian cells alone, not {describe(dtype)}", remedy=remedy)
    dtype_to_text(dtype, "")
    return dtype


def new_array(spec: ArraySpec) -> ArraySpec:
    """Return the spec of a new array as documents hold it; codecs are left to the server. Unsupported."""
    check_type(spec.dtype)
    for option in ("shards", "checksum"):
        if spec.layout.get(option):
            raise Unsupported(f"format mongo has no {option}", remedy=f"leave {option}= out")
    encode_attrs(spec.attrs, {}, {})
    layout = {name: value for name, value in spec.layout.items() if name in ("units", "attribute")}
    return spec.evolve(codecs=(), indexes={}, layout=layout)


def fits_one_piece(spec: ArraySpec, most: int) -> bool:
    """Return True if an array is to be stored in one piece: its only chunk is small, or there is nothing in it."""
    nbytes = spec.numpy_dtype.itemsize * prod(spec.shape)
    one = all(isinstance(cut, int) and cut >= n for cut, n in zip(spec.chunks, spec.shape, strict=True))
    return nbytes == 0 or (one and nbytes <= most)


def without_coordinates(attrs: Document) -> MutableDocument:
    """Return the attributes without what the places of variables say, and the field ``hyperslab`` where they do not."""
    return {name: value for name, value in attrs.items() if name != COORDINATES or not isinstance(value, str)}


def make_variable(name: str, spec: ArraySpec, old: Variable | None, codes: Document, *, whole: bool) -> Variable:
    """Return the entry of an array. ``old``, ``codes``: what is stored under its name. Unsupported."""
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


def array_extension(spec: ArraySpec, variable: Variable, old: Document, before: Variable | None) -> MutableDocument:
    """Return what the field ``hyperslab`` says of an array, given what it said (``old``) of the array as it was
    ``before``.
    """
    values = without_coordinates(spec.attrs)
    if variable.units is not None and not spec.layout.get("attribute"):
        values.pop("units", None)
    codes = encode_attrs(values, variable.attrs, attr_codes(old))[1]
    derived = variable_chunks(variable, {}).chunks
    complete = "fill_value" in old and before is not None and before.shape == spec.shape
    found: MutableDocument = {"fill_value" if complete else "fill": spec.fill_cell().astype(variable.dtype).tobytes()}
    if derived != spec.chunks:
        found["chunks"] = [cut if isinstance(cut, int) else list(cut) for cut in spec.chunks]
    if codes:
        found["attr_types"] = codes
    if "pandas" in old and before is not None and before.dtype == variable.dtype:
        found["pandas"] = old["pandas"]
    if isinstance(spec.attrs.get(COORDINATES), str):
        found[COORDINATES] = spec.attrs[COORDINATES]
    return found


def _with_root_group(meta: Meta, spec: GroupSpec) -> Meta:
    """Return the object with other attributes and unlimited dimensions."""
    extension = dict(meta.extension)
    if not meta.is_array:
        shown = group_spec(meta).attrs.get(COORDINATES)
        values = without_coordinates(spec.attrs)
        raw, codes = encode_attrs(values, meta.attrs, attr_codes(meta.extension))
        declared = spec.attrs.get(COORDINATES)
        declared = declared if isinstance(declared, str) else None
        _set_or_remove(extension, COORDINATES, declared if declared != shown or COORDINATES in meta.extension else None)
        _set_or_remove(extension, "attr_types", codes or None)
        meta = replace(meta, attrs=raw)
    elif without_coordinates(spec.attrs):
        remedy = "set them on the array: a DataArray has those of its one array"
        raise Unsupported("format mongo holds no attributes beside those of a DataArray", remedy=remedy)
    _set_or_remove(extension, "unlimited", [dim.name for dim in spec.dims if dim.unlimited] or None)
    return sort_coordinates(replace(meta, extension=extension))


def _set_or_remove(extension: MutableDocument, name: str, value: object) -> None:
    if value is None:
        extension.pop(name, None)
    else:
        extension[name] = value


def with_array(meta: Meta, name: str, spec: ArraySpec, *, whole: bool) -> Meta:
    """Return the object with an array made or changed; its cells are left alone. Invalid, Unsupported."""
    old = meta.variables.get(name)
    declared = variable_extension(meta, name)
    if meta.is_array and name == ARRAY:
        return _with_data_array(meta, spec, whole=whole)
    if name == ARRAY or (meta.is_array and old is None and spec.dims != (name,)):
        remedy = "give another name, or save a Dataset under a name of its own"
        raise Unsupported(f"format mongo has no array {name!r} here: a DataArray holds one", remedy=remedy)
    if old is None:
        _check_lengths(meta, name, spec)
    variable = _keep_embedded(make_variable(name, spec, old, attr_codes(declared), whole=whole), old, spec)
    changed = with_variable(meta, name, variable, array_extension(spec, variable, declared, old))
    return sort_coordinates(with_distinct_dims(meta, changed, name))


def _keep_embedded(variable: Variable, old: Variable | None, spec: ArraySpec) -> Variable:
    """Return the entry with the cells that stand in the document, cut off or filled up, if it stays in one piece."""
    if old is None or old.embedded is None or variable.chunks is not None:
        return variable
    if old.embedded.shape == variable.shape and old.embedded.dtype == variable.dtype:
        return replace(variable, embedded=old.embedded, dtype=old.dtype)
    fill = spec.fill_cell().astype(variable.dtype)
    block = np.full(spec.shape, fill, variable.dtype)
    old.embedded.read_common(block)
    return replace(variable, embedded=embed_cells("", Coo.of_dense(block, fill) if variable.sparse else block))


def _with_data_array(meta: Meta, spec: ArraySpec, *, whole: bool) -> Meta:
    """Return the object with the one array of a DataArray changed, whose attributes are those of the object."""
    variable = make_variable(ARRAY, spec.evolve(attrs={}), None, {}, whole=whole)
    attrs, units = without_coordinates(spec.attrs), spec.layout.get("units")
    if units is not None and not spec.layout.get("attribute"):
        units = attrs.pop("units", None)  # the document's own, which the attribute shows
    raw, codes = encode_attrs(attrs, meta.attrs, attr_codes(meta.extension))
    extension = dict(meta.extension)
    _set_or_remove(extension, "attr_types", codes or None)
    entry = array_extension(spec.evolve(attrs={}), variable, variable_extension(meta, ARRAY), meta.variables[ARRAY])
    variable = _keep_embedded(replace(variable, units=units), meta.variables[ARRAY], spec)
    return with_variable(replace(meta, attrs=raw, extension=extension), ARRAY, variable, entry)


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


def with_variables(meta: Meta, changed: Mapping[str, Variable]) -> Meta:
    """Return the object with these variables in the place of those of the same names; new ones are data."""
    coords = {name: changed.get(name, variable) for name, variable in meta.coords.items()}
    data = {name: variable for name, variable in changed.items() if name not in coords}
    return replace(meta, coords=coords, data_vars={**meta.data_vars, **data})


def with_variable(meta: Meta, name: str, variable: Variable, extension: Document) -> Meta:
    """Return the object with a variable in its place, or behind the others, and what is ours of it."""
    declared = {**_variable_extensions(meta), name: dict(extension)}
    meta = with_variables(meta, {name: variable})
    return sort_coordinates(replace(meta, extension={**meta.extension, "variables": declared}))


def with_extension(meta: Meta, name: str, **values: Any) -> Meta:
    """Return the object with other values in what is ours of a variable; None takes one away."""
    entry = {key: value for key, value in {**variable_extension(meta, name), **values}.items() if value is not None}
    return replace(meta, extension={**meta.extension, "variables": {**_variable_extensions(meta), name: entry}})


def without_variable(meta: Meta, name: str) -> Meta:
    """Return the object without a variable."""
    parts = (meta.coords, meta.data_vars, _variable_extensions(meta))
    coords, data, declared = ({each: value for each, value in part.items() if each != name} for part in parts)
    return replace(meta, coords=coords, data_vars=data, extension={**meta.extension, "variables": declared})


def _variable_extensions(meta: Meta) -> MutableDocument:
    return dict(subdocument(meta.extension, "variables"))


def sort_coordinates(meta: Meta) -> Meta:
    """Return the object with the variables among the coordinates that are some by their names, or because another one
    names them.
    """
    declared = {name for entry in _variable_extensions(meta).values() for name in split_names(entry.get(COORDINATES))}
    declared |= set(split_names(meta.extension.get(COORDINATES)))
    moved = [
        name for name, one in meta.data_vars.items() if name != ARRAY and (one.dims == (name,) or name in declared)
    ]
    coords = {**meta.coords, **{name: meta.data_vars[name] for name in moved}}
    return replace(meta, coords=coords, data_vars={k: v for k, v in meta.data_vars.items() if k not in moved})


def auto_chunk_lengths(shape: tuple[int, ...], itemsize: int, most: int) -> tuple[int, ...]:
    """Return chunk lengths such that a chunk is at most ``most`` bytes, of equal cuts of the longest axes."""
    chunks = list(auto_chunks(shape, itemsize))
    while chunks and max(itemsize, 1) * int(np.prod(chunks, dtype=object)) > most and max(chunks) > 1:
        longest = chunks.index(max(chunks))
        chunks[longest] = -(-chunks[longest] // 2)
    return tuple(chunks)


# -- groups -----------------------------------------------------------------------------------------------------------


def with_group(meta: Meta, path: str, spec: GroupSpec) -> Meta:
    """Return the object with a group made or changed. Unsupported, Invalid."""
    if not path:
        return _with_root_group(meta, spec)
    meta = with_parent_groups(meta, f"{path}/-")
    known = inner_groups(meta)
    old = subdocument(known, path)
    raw, codes = encode_attrs(spec.attrs, subdocument(old, "attrs"), attr_codes(old))
    free = [dim.name for dim in spec.dims if dim.unlimited]
    parts = (("attrs", raw), ("attr_types", codes), ("unlimited", free))
    return _with_groups(meta, {**known, path: {name: value for name, value in parts if value}})


def with_parent_groups(meta: Meta, path: str) -> Meta:
    """Return the object with the groups that a node at ``path`` lies in."""
    wanted = [group for group in outward(split(path)[0]) if group]
    if wanted and meta.is_array:
        remedy = "save a Dataset under a name of its own"
        raise Unsupported("format mongo has no groups in a DataArray, which holds one array", remedy=remedy)
    known = inner_groups(meta)
    if taken := [group for group in wanted if group not in known and group in meta.variables]:
        raise Invalid(f"/{taken[0]} is an array and holds no other nodes", remedy="give another name")
    missing: MutableDocument = {group: {} for group in reversed(wanted) if group not in known}
    return _with_groups(meta, {**known, **missing}) if missing else meta


def without_group(meta: Meta, path: str) -> Meta:
    """Return the object without the groups at and below a path; their arrays are not looked at."""
    left = {group: declared for group, declared in inner_groups(meta).items() if not f"{group}/".startswith(f"{path}/")}
    return _with_groups(meta, left)


def _with_groups(meta: Meta, groups: Document) -> Meta:
    rest = {name: value for name, value in meta.extension.items() if name != GROUPS}
    return replace(meta, extension={**rest, GROUPS: dict(groups)} if groups else rest)


def with_distinct_dims(before: Meta, meta: Meta, changed: str) -> Meta:
    """Return the object after an array was ``changed``, with one name for each length of a dimension that has several:
    the plain name is that of the outermost array, coordinates first, others are ``name@length``."""
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

    def with_stored_dims(name: str, each: Variable) -> Variable:
        pairs = zip(dims.get(name, ()), each.shape, strict=True)
        stored = tuple(dim if size in (None, plain[dim]) else add_suffix(dim, size or 0) for dim, size in pairs)
        return replace(each, dims=stored)

    return with_variables(meta, {name: with_stored_dims(name, each) for name, each in meta.variables.items()})


# -- what is known of a new object once all is written ----------------------------------------------------------------


def count_variable_documents(variable: Variable, chunk_size: int) -> int:
    """Return how many documents the chunks of a dense array take, each cut for itself."""
    chunks = Counter({1: 1})  # by their number of cells, along the axes so far
    for axis in variable.chunks or ():
        longer = Counter[int]()
        for length, (cells, times) in product(axis, chunks.items()):
            longer[cells * (length or 0)] += times
        chunks = longer
    return sum(times * count_documents((cells,), variable.dtype, chunk_size) for cells, times in chunks.items())


def with_embedded_cells(meta: Meta, cells: Mapping[str, AssembledChunk]) -> Meta:
    """Return the object with the cells of these arrays in its document, where all bytes stand in one field."""
    for name, chunk in cells.items():
        is_one = len(chunk.segments) == 1
        embedded = chunk if is_one else embed_cells(name, chunk.coo() if chunk.sparse else chunk.block())
        variable = replace(meta.variables[name], embedded=embedded)
        meta = with_variable(meta, name, variable, variable_extension(meta, name))
    return meta


def with_complete_arrays(meta: Meta, complete: list[str]) -> Meta:
    """Return the object with these arrays known to be complete: a chunk that is not there is lost from now on."""
    for name in complete:
        entry = variable_extension(meta, name)
        meta = with_extension(meta, name, fill=None, fill_value=entry.get("fill", entry.get("fill_value")))
    return meta
