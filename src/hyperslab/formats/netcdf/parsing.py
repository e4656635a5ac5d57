"""From the library's groups and variables to specs. Attributes are told apart (char or string) by their HDF5 types."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hyperslab.formats.apart import shown
from hyperslab.formats.hdf5 import filters_of
from hyperslab.formats.netcdf import document
from hyperslab.formats.netcdf.confined import lies_elsewhere
from hyperslab.formats.netcdf.opened import NON_COORDINATE, OpenedFile
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
    VlenString,
    numpy_dtype,
    packed,
    tagged,
)
from hyperslab.model.paths import child
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

Kinds = Callable[[Any], Extension | None]
"""Tells the named type that an HDF5 type is."""
HIDDEN = frozenset(
    {"_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict", "_NCCOPY"}
    | {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"}
)


def children(opened: OpenedFile, path: str) -> list[str]:
    """Names of the variables, then of the groups, in the order of the file."""
    group = opened.group(path)
    variables = [name for name in group.variables if opened.variable(child(path, name)) is not None]
    if opened.incomplete:
        variables = _with_hidden(opened, path, variables)
    return [*variables, *group.groups]


def _with_hidden(opened: OpenedFile, path: str, variables: list[str]) -> list[str]:
    """The variables together with those of types that netCDF4 leaves out, in the order of the file."""
    from h5py import Dataset

    group = opened.hdf5_group(path)
    if group is None:
        return variables
    datasets = ((name.removeprefix(NON_COORDINATE), node) for name, node in group.items() if isinstance(node, Dataset))
    hidden = [name for name, node in datasets if name not in variables and _hidden_type(opened, path, node) is not None]
    stored = {name.removeprefix(NON_COORDINATE): place for place, name in enumerate(group)}
    return sorted([*variables, *hidden], key=lambda name: stored.get(name, len(stored)))


def _hidden_type(opened: OpenedFile, group: str, stored: Any) -> Extension | None:
    """The type of the cells of an h5py dataset that netCDF4 has no cells for, None for any other."""
    from h5py import h5t

    handle = stored.id.get_type()
    if not isinstance(handle, h5t.TypeOpaqueID | h5t.TypeCompoundID):
        return None
    kind = opened.types.find(group, handle)
    return Opaque(handle.get_size()) if kind is None and isinstance(handle, h5t.TypeOpaqueID) else kind


def group_spec(opened: OpenedFile, path: str) -> GroupSpec:
    """The group at ``path``: its attributes, dimensions and types."""
    group = opened.group(path)
    dims = tuple(Dimension(name, len(dim), dim.isunlimited()) for name, dim in group.dimensions.items())
    attrs = attributes(group, opened.hdf5_group(path), _kinds(opened, path))
    return GroupSpec(attrs=attrs, dims=dims, types=_types(opened, path))


def _kinds(opened: OpenedFile, group: str) -> Kinds | None:
    """What tells the named types of attributes as seen from a group, None where the file has no such types."""
    return partial(opened.types.find, group) if opened.types else None


def _types(opened: OpenedFile, path: str) -> dict[str, Extension]:
    """The named types of a group, in the order of the file where h5py tells it."""
    group = opened.group(path)
    known = {**group.cmptypes, **group.enumtypes, **group.vltypes}
    stored = opened.types.of(path)
    return stored | {name: _user_type(kind) for name, kind in known.items() if name not in stored}


def _user_type(kind: Any) -> Extension:
    """One of netCDF4's user types as ours."""
    if hasattr(kind, "enum_dict"):
        return Enum(np.dtype(kind.dtype), tuple((name, int(v)) for name, v in kind.enum_dict.items()), kind.name)
    if type(kind).__name__ == "VLType":
        is_bytes = kind.name == document.BYTES and kind.dtype == np.uint8
        return VlenBytes() if is_bytes else VlenArray(np.dtype(kind.dtype), kind.name)
    return Compound(packed(np.dtype(kind.dtype)), kind.name)


def array_spec(opened: OpenedFile, path: str) -> ArraySpec:
    """The variable at ``path``."""
    variable = opened.variable(path)
    stored = opened.hdf5_dataset(path)
    if variable is None:
        return _hidden_spec(opened, path, stored)
    group = path.rpartition("/")[0]
    dtype = cell_type(variable)
    if stored is not None and isinstance(dtype, Enum | Compound | VlenArray):
        dtype = opened.types.find(group, stored.id.get_type()) or dtype
    shape = tuple(int(length) for length in variable.shape)
    chunking = None if document.is_netcdf3(opened.model) else variable.chunking()
    chunked = isinstance(chunking, list | tuple) and len(chunking) == len(shape) and bool(shape)
    chunks = tuple(map(int, chunking or ())) if chunked else document.virtual_chunks(shape, numpy_dtype(dtype).itemsize)
    return ArraySpec(
        shape=shape,
        dtype=dtype,
        dims=tuple(_dimension_name(dim) for dim in variable.get_dims()),
        chunks=chunks,
        codecs=_codecs(variable, stored) if chunked else (),
        fill_value=_fill_value(variable, stored, dtype),
        attrs=attributes(variable, stored, _kinds(opened, group)),
        problem=None if stored is None else lies_elsewhere(stored),
        layout={} if chunked else {"contiguous": True},
    )


def _dimension_name(dim: Any) -> str:
    """The name of one of the library's dimensions as it was given."""
    return shown(dim.name, len(dim), lambda name: _is_seen(dim.group(), name))


def _is_seen(group: Any, name: str) -> bool:
    while group is not None and name not in group.dimensions:
        group = group.parent
    return group is not None


def cell_type(variable: Any) -> DataType:
    """The type of a variable's cells; in netCDF-4 files with the byte order that they are stored in."""
    kind = variable.datatype
    if variable.dtype is str:
        return VlenString()
    if not isinstance(kind, np.dtype):
        return _user_type(kind)
    if kind == np.dtype("S1"):
        return Char()
    return kind.newbyteorder(">") if variable.endian() == "big" and kind.itemsize > 1 else kind


def _codecs(variable: Any, stored: Any) -> tuple[Codec, ...]:
    """The filters in their order; without h5py as far as the library tells."""
    if stored is not None:
        return filters_of(stored)
    filters = variable.filters() or {}
    level = int(filters.get("complevel", 0))
    found = [Codec("fletcher32")] if filters.get("fletcher32") else []
    if filters.get("shuffle"):
        found.append(Codec("shuffle", {"elementsize": variable.dtype.itemsize}))
    names = {"zlib": "zlib", "zstd": "zstd", "bzip2": "bz2"}
    found += [Codec(ours, {"level": level}) for theirs, ours in names.items() if filters.get(theirs)]
    if blosc := filters.get("blosc"):
        name = str(blosc["compressor"]).removeprefix("blosc_").replace("blosc", "blosclz")
        config = {"cname": name, "clevel": level, "shuffle": int(blosc["shuffle"]), "blocksize": 0}
        found.append(Codec("blosc", config))
    if filters.get("szip"):
        found.append(Codec("hdf5_filter", {"number": 4, "values": []}))
    return tuple(found)


def _fill_value(variable: Any, stored: Any, dtype: DataType) -> Any:
    """What unwritten cells read as; None: zero, or undefined."""
    base = numpy_dtype(dtype)
    if base.names is not None or base.kind not in "iufS":
        return None
    if stored is not None:
        plist = stored.id.get_create_plist()
        return (
            np.asarray(stored.fillvalue).astype(base.newbyteorder("="))[()] if plist.fill_value_defined() == 2 else None
        )
    fill = variable.get_fill_value() if not isinstance(dtype, Enum) else document.default_fill(dtype)
    return None if fill is None else np.asarray(fill).astype(base.newbyteorder("="))[()]


def _hidden_spec(opened: OpenedFile, path: str, stored: Any) -> ArraySpec:
    """A variable of a type that netCDF4 has no cells for, as h5py sees it."""
    group = path.rpartition("/")[0]
    dtype = _hidden_type(opened, group, stored)
    if dtype is None:
        raise KeyError(path)
    shape = stored.shape
    return ArraySpec(
        shape=shape,
        dtype=dtype,
        dims=tuple(_scale_name(stored, axis) for axis in range(stored.ndim)),
        chunks=stored.chunks or document.virtual_chunks(shape, numpy_dtype(dtype).itemsize),
        codecs=filters_of(stored) if stored.chunks else (),
        attrs=attributes(None, stored, _kinds(opened, group)),
        problem=lies_elsewhere(stored),
        layout={} if stored.chunks else {"contiguous": True},
    )


def _scale_name(stored: Any, axis: int) -> str | None:
    scales = stored.dims[axis].values()
    return str(scales[0].name).rpartition("/")[2].removeprefix(NON_COORDINATE) if scales else None


def attributes(node: Any, stored: Any, kinds: Kinds | None) -> dict[str, Any]:
    """The attributes of a group or variable (None: h5py's alone), in order; char is ``str``, string ``np.str_``."""
    if node is None:
        names = [name for name in stored.attrs if name not in HIDDEN]
        return {name: _from_hdf5(stored, name, kinds) for name in names}
    hidden = HIDDEN if stored is not None else frozenset()
    return {name: _attribute(node, stored, name, kinds) for name in node.ncattrs() if name not in hidden}


def _attribute(node: Any, stored: Any, name: str, kinds: Kinds | None) -> Any:
    if kinds is not None and name in stored.attrs and (kind := kinds(_type_of(stored, name))) is not None:
        return _user_value(stored.attrs[name], kind)
    try:
        value = node.getncattr(name)
    except KeyError:
        return None if stored is None else _from_hdf5(stored, name, kinds)
    if isinstance(value, list):
        return np.array(value, np.dtypes.StringDType())
    if isinstance(value, str):
        return np.str_(value) if stored is not None and _is_string(stored, name) else str(value)
    if isinstance(value, bytes):  # the _FillValue of a char variable
        return value.decode("latin-1")
    if isinstance(value, np.ndarray | np.generic) and value.dtype.names is not None:
        return value.astype(packed(value.dtype))
    return value


def _type_of(stored: Any, name: str) -> Any:
    """The HDF5 type of an attribute's values."""
    return stored.attrs.get_id(name).get_type()


def _user_value(value: Any, kind: Extension) -> Any:
    """Values of an enum, opaque or compound type, tagged with it; those of other types as h5py gives them."""
    if not isinstance(kind, Enum | Opaque | Compound):
        return value
    base = numpy_dtype(kind)
    cells = np.asarray(value).reshape(-1).astype(base).view(tagged(base, kind))
    if cells.size != 1:
        return cells
    return cells[0] if isinstance(kind, Compound) else cells.reshape(())


def _is_string(stored: Any, name: str) -> bool:
    """Whether the attribute is an NC_STRING: a variable-length string in HDF5."""
    if name not in stored.attrs:
        return False
    return bool(getattr(_type_of(stored, name), "is_variable_str", bool)())


def _from_hdf5(stored: Any, name: str, kinds: Kinds | None) -> Any:
    """An attribute that netCDF4 cannot read (of opaque type, say), through h5py."""
    from h5py import Empty

    if kinds is not None and (kind := kinds(_type_of(stored, name))) is not None:
        return _user_value(stored.attrs[name], kind)
    value = stored.attrs[name]
    if isinstance(value, Empty):
        return "" if value.dtype.kind == "S" else np.empty(0, value.dtype)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return np.array([str(item) for item in value.reshape(-1)], np.dtypes.StringDType())
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return np.str_(value) if _is_string(stored, name) else value
    return value
