"""From the library's groups and variables to specs. Attributes are told apart (char or string) by their HDF5 types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

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
)
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

_HIDDEN = frozenset(
    {"_NCProperties", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict", "_NCCOPY"}
    | {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"}
)


def children(opened: OpenedFile, path: str) -> list[str]:
    """Names of the variables, then of the groups, in the order of the file."""
    group = opened.group(path)
    variables = list(group.variables)
    if opened.incomplete:
        variables = _with_opaque(opened, path, variables)
    return [*variables, *group.groups]


def _with_opaque(opened: OpenedFile, path: str, variables: list[str]) -> list[str]:
    """The variables together with those of opaque type, which netCDF4 leaves out, in the order of the file."""
    group = opened.hdf5_group(path)
    if group is None:
        return variables
    opaque = [name for name, node in group.items() if hasattr(node, "shape") and _is_opaque(node)]
    stored = {name.removeprefix(NON_COORDINATE): place for place, name in enumerate(group)}
    named = [*variables, *(name for name in opaque if name not in variables)]
    return sorted(named, key=lambda name: stored.get(name, len(stored)))


def _is_opaque(node: Any) -> bool:
    from h5py import Dataset, Datatype, h5t

    kind = node.id.get_type() if isinstance(node, Dataset) else node.id if isinstance(node, Datatype) else None
    return isinstance(kind, h5t.TypeOpaqueID)


def group_spec(opened: OpenedFile, path: str) -> GroupSpec:
    """The group at ``path``: its attributes, dimensions and types."""
    group = opened.group(path)
    dims = tuple(Dimension(name, len(dim), dim.isunlimited()) for name, dim in group.dimensions.items())
    attrs = attributes(group, opened.hdf5_group(path))
    return GroupSpec(attrs=attrs, dims=dims, types=dict(_types(opened, path)))


def _types(opened: OpenedFile, path: str) -> Iterator[tuple[str, Extension]]:
    """The named types of a group, in the order of the file as far as h5py tells it."""
    group = opened.group(path)
    known = {**group.cmptypes, **group.enumtypes, **group.vltypes}
    found: dict[str, Extension] = {name: _user_type(kind) for name, kind in known.items()}
    stored = opened.hdf5_group(path)
    if stored is None:
        yield from found.items()
        return
    from h5py import Datatype

    for name in stored:
        if name in found:
            yield name, found[name]
        elif stored.get(name, getclass=True) is Datatype and _is_opaque(stored[name]):
            yield name, Opaque(stored[name].id.get_size(), name)


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
        return _opaque_spec(opened, path, stored)
    dtype = cell_type(variable)
    shape = tuple(int(length) for length in variable.shape)
    chunking = None if document.is_netcdf3(opened.model) else variable.chunking()
    chunked = isinstance(chunking, list | tuple) and len(chunking) == len(shape) and bool(shape)
    chunks = tuple(map(int, chunking or ())) if chunked else document.virtual_chunks(shape, numpy_dtype(dtype).itemsize)
    return ArraySpec(
        shape=shape,
        dtype=dtype,
        dims=tuple(variable.dimensions),
        chunks=chunks,
        codecs=_codecs(variable, stored) if chunked else (),
        fill_value=_fill_value(variable, stored, dtype),
        attrs=attributes(variable, stored),
        problem=None if stored is None else lies_elsewhere(stored),
        layout={} if chunked else {"contiguous": True},
    )


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


def _opaque_spec(opened: OpenedFile, path: str, stored: Any) -> ArraySpec:
    """A variable of opaque type, as h5py sees it."""
    kind = stored.id.get_type()
    name = ""
    if kind.committed():
        name = _type_name(opened, path, kind)
    dims = tuple(_scale_name(stored, axis) for axis in range(stored.ndim))
    shape = stored.shape
    chunks = stored.chunks or document.virtual_chunks(shape, kind.get_size())
    return ArraySpec(
        shape=shape,
        dtype=Opaque(kind.get_size(), name),
        dims=dims,
        chunks=chunks,
        codecs=filters_of(stored) if stored.chunks else (),
        attrs=attributes(None, stored),
        problem=lies_elsewhere(stored),
        layout={} if stored.chunks else {"contiguous": True},
    )


def _type_name(opened: OpenedFile, path: str, kind: Any) -> str:
    """The name under which a committed type lies in one of the groups above ``path``."""
    parent = path
    while parent:
        parent = parent.rpartition("/")[0]
        group = opened.hdf5_group(parent)
        for name in group:
            node = group.get(name)
            if _is_opaque(node) and not hasattr(node, "shape") and node.id == kind:
                return str(name)
    return ""


def _scale_name(stored: Any, axis: int) -> str | None:
    scales = stored.dims[axis].values()
    return str(scales[0].name).rpartition("/")[2].removeprefix(NON_COORDINATE) if scales else None


def attributes(node: Any, stored: Any) -> dict[str, Any]:
    """The attributes of a group or variable (None: h5py's alone), in order; char is ``str``, string ``np.str_``."""
    if node is None:
        names = [name for name in stored.attrs if name not in _HIDDEN]
        return {name: _from_hdf5(stored, name) for name in names}
    hidden = _HIDDEN if stored is not None else frozenset()
    return {name: _attribute(node, stored, name) for name in node.ncattrs() if name not in hidden}


def _attribute(node: Any, stored: Any, name: str) -> Any:
    try:
        value = node.getncattr(name)
    except KeyError:
        return None if stored is None else _from_hdf5(stored, name)
    if isinstance(value, list):
        return np.array(value, np.dtypes.StringDType())
    if isinstance(value, str):
        return np.str_(value) if stored is not None and _is_string(stored, name) else str(value)
    if isinstance(value, bytes):  # the _FillValue of a char variable
        return value.decode("latin-1")
    if isinstance(value, np.ndarray | np.generic) and value.dtype.names is not None:
        return value.astype(packed(value.dtype))
    return value


def _is_string(stored: Any, name: str) -> bool:
    """Whether the attribute is an NC_STRING: a variable-length string in HDF5."""
    if name not in stored.attrs:
        return False
    kind = stored.attrs.get_id(name).get_type()
    return bool(getattr(kind, "is_variable_str", bool)())


def _from_hdf5(stored: Any, name: str) -> Any:
    """An attribute that netCDF4 cannot read (of opaque type, say), through h5py."""
    value = stored.attrs[name]
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return np.str_(value) if _is_string(stored, name) else value
    return value
