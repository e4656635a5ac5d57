"""Specs of groups and variables, parsed from the library's and h5py's handles, and the problems of what is left out.

Attributes are known as char or string by their HDF5 types, which netCDF4 does not tell.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.errors import Problem
from hyperslab.formats.base import NAME_PROBLEM, PROVENANCE, Feature
from hyperslab.formats.dimension_suffix import strip_suffix
from hyperslab.formats.hdf5.file import find_external_storage, find_table, iter_members
from hyperslab.formats.hdf5.filters import read_filters
from hyperslab.formats.hdf5.types import (
    BYTES_TYPE_NAMES,
    describe_hdf5_type,
    holds_references,
    is_bool,
    is_hdf5_bool,
    is_misread,
    is_representable,
    is_resizable,
)
from hyperslab.formats.netcdf import data_model
from hyperslab.formats.netcdf.data_model import INTERNAL_ATTRIBUTES
from hyperslab.formats.netcdf.open_file import NON_COORDINATE, OpenNetcdfFile
from hyperslab.model.cells import Values
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import (
    Char,
    Compound,
    DataType,
    Enum,
    Extension,
    NumpyDType,
    Opaque,
    VlenArray,
    VlenBytes,
    VlenString,
    numpy_dtype,
    packed,
    tagged,
)
from hyperslab.model.paths import child, is_name
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

if TYPE_CHECKING:
    import h5py

Kinds = Callable[["h5py.h5t.TypeID"], Extension | None]
"""Tells the named type that an HDF5 type is."""
_NO_VARIABLE = b"This is a netCDF dimension but not a netCDF variable"


def list_children(opened: OpenNetcdfFile, path: str) -> list[str]:
    """Return names of the variables, then of the groups, in the order of the file; those that lead to no node are left
    out."""
    group = opened.group(path)
    names = list(filter(is_name, group.variables))
    variables = [name for name in names if opened.variable(child(path, name)) is not None]
    stored = opened.hdf5_group(path) if opened.incomplete or len(variables) < len(names) else None
    if stored is not None:  # netCDF4 leaves out variables of some types
        for stored_name, node in _datasets(opened, stored):
            name = stored_name.removeprefix(NON_COORDINATE)
            if name not in variables and _hidden_type(opened, path, node) is not None:
                variables.append(name)
        places = {name.removeprefix(NON_COORDINATE): place for place, name in enumerate(stored)}
        variables.sort(key=lambda name: places.get(name, len(places)))
    return [*variables, *filter(is_name, group.groups)]


def _datasets(opened: OpenNetcdfFile, group: h5py.Group) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yield name and node of each dataset in an h5py group that is more than a dimension of netCDF."""
    from h5py import Dataset

    for name, node in iter_members(group, opened.outside):
        if (
            isinstance(node, Dataset)
            and node.shape is not None
            and not bytes(node.attrs.get("NAME", b"")).startswith(_NO_VARIABLE)
        ):
            yield name, node


def _hidden_type(opened: OpenNetcdfFile, group: str, stored: h5py.Dataset) -> DataType | None:
    """Return the type of the cells of an h5py dataset that netCDF4 does not show, None for any other."""
    from h5py import h5t

    handle = stored.id.get_type()
    match handle:
        case h5t.TypeEnumID() if is_hdf5_bool(handle):
            return np.dtype(bool)
        case h5t.TypeOpaqueID():
            return opened.types.find(group, handle) or Opaque(handle.get_size())
        case h5t.TypeCompoundID():
            return opened.types.find(group, handle) or opened.types.find_fields(group, handle)
        case _ if opened.scales is None and not is_misread(handle):
            return None
        case h5t.TypeIntegerID() | h5t.TypeFloatID():
            plain: NumpyDType = np.dtype(handle.dtype.str)  # h5py's own says "<" where NumPy says "="
            return plain if plain.char not in "gG" else None  # long doubles are of one machine
        case h5t.TypeEnumID():
            return opened.types.find(group, handle) or handle.get_super().dtype.newbyteorder("=")
        case h5t.TypeStringID():
            return VlenString() if handle.is_variable_str() or handle.get_size() > 1 else Char()
    return opened.types.find(group, handle)


def parse_group(opened: OpenNetcdfFile, path: str) -> GroupSpec:
    """Return the group at ``path``: its attributes, dimensions and types."""
    group = opened.group(path)
    dims = tuple(Dimension(name, len(dim), dim.isunlimited()) for name, dim in group.dimensions.items())
    attrs = parse_attributes(opened, path, group if opened.scales is None else None, opened.hdf5_group(path))
    return GroupSpec(attrs=_with_nuls(opened, None, attrs), dims=dims, types=_types(opened, path))


def _kinds(opened: OpenNetcdfFile, group: str) -> Kinds | None:
    """Return the function that finds the named types of attributes as seen from a group, None where the file has no
    such types."""
    return partial(opened.types.find, group) if opened.types else None


def _types(opened: OpenNetcdfFile, path: str) -> dict[str, Extension]:
    """Return the named types of a group, in the order of the file where h5py tells it."""
    group = opened.group(path)
    known = {**group.cmptypes, **group.enumtypes, **group.vltypes}
    stored = opened.types.of(path)
    types = stored | {name: _user_type(kind) for name, kind in known.items() if name not in stored}
    types = {name: kind for name, kind in types.items() if not is_bool(kind)}  # whose cells are booleans here
    if opened.scales is not None:  # netCDF4 has reasons not to open the file, one of which is such a type
        return types
    return {name: kind for name, kind in types.items() if data_model.type_problem(kind, "NETCDF4") is None}


def _user_type(kind: Any) -> Extension:
    """Return one of netCDF4's user types as a type of the model."""
    if hasattr(kind, "enum_dict"):
        return Enum(np.dtype(kind.dtype), tuple((name, int(v)) for name, v in kind.enum_dict.items()), kind.name)
    if type(kind).__name__ == "VLType":
        is_bytes = kind.name in BYTES_TYPE_NAMES and kind.dtype == np.uint8
        return VlenBytes() if is_bytes else VlenArray(np.dtype(kind.dtype), kind.name)
    return Compound(packed(np.dtype(kind.dtype)), kind.name)


def parse_array(opened: OpenNetcdfFile, path: str) -> ArraySpec:
    """Return the spec of the variable at ``path``; of one that netCDF4 has no cells for, as h5py sees it."""
    variable = opened.variable(path)
    stored = opened.hdf5_dataset(path)
    group = path.rpartition("/")[0]
    dtype: DataType | None
    extent: Sequence[tuple[str | None, int]]
    if variable is None:
        dtype = _hidden_type(opened, group, stored)
        if dtype is None:
            raise KeyError(path)
        extent, chunking = _hidden_extent(opened, stored), stored.chunks
    else:
        dtype = cell_type(variable)
        if stored is not None and isinstance(dtype, Enum | Compound | VlenArray):
            dtype = opened.types.find(group, stored.id.get_type()) or dtype
        dtype = np.dtype(bool) if is_bool(dtype) else dtype
        extent = _extent(opened, variable, stored)
        chunking = None if data_model.is_netcdf3(opened.model) else variable.chunking()
    dims, shape = tuple(name for name, _ in extent), tuple(size for _, size in extent)
    misread = None
    if variable is not None and shape != tuple(int(length) for length in variable.shape):
        misread = "its dimensions for others of the same name"
    elif variable is None and opened.scales is None and not data_model.is_h5py_only(dtype):
        misread = "its cells for those of another type"
    chunked = isinstance(chunking, list | tuple) and len(chunking) == len(shape) and bool(shape)
    chunks = (
        tuple(map(int, chunking or ())) if chunked else data_model.virtual_chunks(shape, numpy_dtype(dtype).itemsize)
    )
    return ArraySpec(
        shape=shape,
        dtype=dtype,
        dims=dims,
        chunks=chunks,
        codecs=_codecs(variable, stored) if chunked else (),
        fill_value=_fill_value(variable, stored, dtype),
        attrs=_with_nuls(opened, path, parse_attributes(opened, group, variable, stored)),
        problem=None if stored is None else find_external_storage(stored),
        layout=({} if chunked else {"contiguous": True})
        | ({} if misread is None else {MISREAD: misread})
        | ({data_model.NO_FILL: True} if _is_never_filled(opened, variable, stored) else {}),
    )


MISREAD = "misread"
"""In the layout of a variable: what the netCDF library takes for something else, and for what; h5py reads the cells."""


def _extent(opened: OpenNetcdfFile, variable: Any, stored: h5py.Dataset | None) -> list[tuple[str, int]]:
    """Return name and length of each dimension of a variable."""
    dims = list(variable.get_dims())
    is_repeated = not opened.repeated_dimensions.isdisjoint(dim.name for dim in dims)
    if is_repeated and stored is not None and stored.ndim == len(dims):
        # The library finds dimensions by their names, from the group outward. Where a name is declared again, the scale
        # that an axis is attached to tells which one is meant.
        for axis in range(len(dims)):
            scales = stored.dims[axis].values()
            owner, _, name = str(scales[0].name).lstrip("/").rpartition("/") if scales else ("", "", "")
            group = opened.group(owner) if name else None
            if group is not None:
                dims[axis] = group.dimensions.get(name.removeprefix(NON_COORDINATE)) or dims[axis]
    return [(_dimension_name(dim), len(dim)) for dim in dims]


def _dimension_name(dim: Any) -> str:
    """Return the name of one of the library's dimensions without a suffix that tells it from others."""

    def is_visible(name: str) -> bool:
        group = dim.group()
        while group is not None and name not in group.dimensions:
            group = group.parent
        return group is not None

    return strip_suffix(dim.name, len(dim), is_visible)


def cell_type(variable: Any) -> DataType:
    """Return the type of a variable's cells; in netCDF-4 files with the byte order that they are stored in."""
    kind = variable.datatype
    if variable.dtype is str:
        return VlenString()
    if not isinstance(kind, np.dtype):
        return _user_type(kind)
    if kind == np.dtype("S1"):
        return Char()
    return kind.newbyteorder(">") if variable.endian() == "big" and kind.itemsize > 1 else kind


def _codecs(variable: Any, stored: h5py.Dataset | None) -> tuple[Codec, ...]:
    """Return the filters in their order; without h5py those that the library knows."""
    if stored is not None:
        return read_filters(stored)
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


def _fill_value(variable: Any, stored: h5py.Dataset | None, dtype: DataType) -> Any:
    """Return what unwritten cells read as; None: zero, or undefined."""
    base = numpy_dtype(dtype)
    if base.names is not None or base.kind not in "biufS":
        return None
    if stored is not None:
        plist = stored.id.get_create_plist()
        return (
            np.asarray(stored.fillvalue).astype(base.newbyteorder("="))[()] if plist.fill_value_defined() == 2 else None
        )
    fill = variable.get_fill_value() if not isinstance(dtype, Enum) else data_model.default_fill(dtype)
    return None if fill is None else np.asarray(fill).astype(base.newbyteorder("="))[()]


def _is_never_filled(opened: OpenNetcdfFile, variable: Any, stored: h5py.Dataset | None) -> bool:
    """Return True for a variable that was made without a fill value (netCDF-C's ``NC_NOFILL``), which netCDF-4 alone
    remembers."""
    if stored is not None:
        from h5py import h5d

        plist = stored.id.get_create_plist()
        return bool(
            plist.get_fill_time() == h5d.FILL_TIME_NEVER and plist.fill_value_defined() != h5d.FILL_VALUE_USER_DEFINED
        )
    is_number = isinstance(variable.datatype, np.dtype) and variable.dtype is not str
    return is_number and not data_model.is_netcdf3(opened.model) and variable.get_fill_value() is None


def _hidden_extent(opened: OpenNetcdfFile, stored: h5py.Dataset) -> list[tuple[str | None, int]]:
    """Return name and length of each dimension of an h5py dataset."""
    extent: list[tuple[str | None, int]] = []
    for axis, size in enumerate(stored.shape):
        if opened.scales is None:
            scales = stored.dims[axis].values()
            name = str(scales[0].name).rpartition("/")[2].removeprefix(NON_COORDINATE) if scales else None
            extent.append((name, size))
        elif (dim := opened.scales.axes[stored.name][axis]) is None:
            extent.append((None, size))
        else:
            extent.append((_dimension_name(dim), len(dim) if dim.isunlimited() else size))
    return extent


def parse_attributes(opened: OpenNetcdfFile, group: str, node: Any, stored: h5py.Dataset | None) -> dict[str, object]:
    """Return the attributes of a group or variable (``node`` None: h5py's alone), in order, with types as seen from
    ``group``; char is ``str``, string ``np.str_``. Those of a type that has no form here are left out."""
    kinds = _kinds(opened, group)
    names = None if node is None else _list_attributes(node, stored)
    if names is None and stored is not None:
        shown = [name for name in stored.attrs if name not in INTERNAL_ATTRIBUTES]
        found = {name: _from_hdf5(opened, stored, name, kinds) for name in shown}
    else:
        found = {name: _attribute(opened, node, stored, name, kinds) for name in names or ()}
        if stored is not None:  # netCDF4 leaves out values of types that no variable has
            in_order = [name for name in stored.attrs if name not in INTERNAL_ATTRIBUTES]
            bools = [name for name in in_order if name not in found and is_hdf5_bool(_type_of(stored, name))]
            if bools:
                found |= {name: _bools(stored, name) for name in bools}
                found = {name: found[name] for name in in_order if name in found}
    return {name: value for name, value in found.items() if value is not _ABSENT}


def _list_attributes(node: Any, stored: h5py.Dataset | None) -> list[str] | None:
    """Return the names of the attributes that netCDF4 shows; None where one of them keeps it from reading any."""
    hidden = INTERNAL_ATTRIBUTES if stored is not None else frozenset()
    try:
        return [name for name in node.ncattrs() if name not in hidden]
    except (AttributeError, RuntimeError):
        if stored is None or find_table(stored) is None:
            raise
        return None


_ABSENT = object()
# Attributes of CF that are one text each, in an array of one, too: writers of plain HDF5 make such of their lists.
_SINGLE_TEXTS = frozenset(
    {"units", "calendar", "standard_name", "long_name", "axis", "positive", "coordinates", "bounds", "grid_mapping"}
)


def _with_nuls(opened: OpenNetcdfFile, name: str | None, attrs: dict[str, Any]) -> dict[str, object]:
    """Return the attributes of a variable (None: of the file) with the NULs that the library takes out of netCDF-3."""
    texts = {} if opened.header is None else opened.header.texts.get(name, {})
    with_nuls = {key: data.decode("utf-8", "replace") for key, (_, data) in texts.items() if b"\0" in data != b"\0"}
    return attrs | with_nuls


def _attribute(opened: OpenNetcdfFile, node: Any, stored: h5py.Dataset | None, name: str, kinds: Kinds | None) -> Any:
    if kinds is not None and stored is not None and name in stored.attrs:
        kind = kinds(_type_of(stored, name))
        if kind is not None:
            return _bools(stored, name) if is_bool(kind) else _user_value(stored.attrs[name], kind)
    try:
        value = node.getncattr(name)
    except KeyError:
        return None if stored is None else _from_hdf5(opened, stored, name, kinds)
    match value:
        case np.ndarray() | np.generic() if value.dtype == np.int8 and stored is not None:
            return _bools(stored, name) if is_hdf5_bool(_type_of(stored, name)) else value
        case list():
            return np.array(value, np.dtypes.StringDType())
        case str():
            return _text(opened, value, stored, name)
        case bytes():  # the _FillValue of a char variable
            return value.decode("latin-1")
        case np.ndarray() | np.generic() if value.dtype.names is not None:
            return value.astype(packed(value.dtype))
    return value


def _text(opened: OpenNetcdfFile, value: str, stored: h5py.Dataset | None, name: str) -> str | Values:
    """Return text as it is stored: netCDF4 takes the NULs out of it, and one string in an array out of that.

    netCDF counts the chars of an attribute, so that a NUL at the end is one of them. In a file that netCDF did not
    write it ends the text, or pads it, which is what HDF5 has it for.
    """
    try:
        handle = None if stored is None else stored.attrs.get_id(name)
    except KeyError:
        handle = None
    if stored is None or handle is None:
        return str(value)
    kind = handle.get_type()
    if getattr(kind, "is_variable_str", bool)():
        is_array = handle.shape == (1,) and (
            is_resizable(handle) or not (opened.has_netcdf_texts or name in _SINGLE_TEXTS)
        )
        return np.array([value], np.dtypes.StringDType()) if is_array else np.str_(value)
    size = kind.get_size()
    if handle.shape or size == len(value.encode()):
        return str(value)
    cells = np.empty((), f"S{size}")
    handle.read(cells, mtype=kind)
    data = cells.tobytes()
    is_text = PROVENANCE in stored.file.attrs and data != b"\0"  # netCDF4 writes a NUL for an empty text
    return (data if is_text else data.rstrip(b"\0")).decode("utf-8", "replace")


def _type_of(stored: h5py.Dataset, name: str) -> h5py.h5t.TypeID:
    """Return the HDF5 type of an attribute's values."""
    return stored.attrs.get_id(name).get_type()


def _bools(stored: h5py.Dataset, name: str) -> bool | Values:
    """Return the booleans of an attribute."""
    value = stored.attrs[name]
    return value if isinstance(value, np.ndarray) else bool(value)


def _user_value(value: Any, kind: Extension) -> object:
    """Return values of a user type, tagged with it."""
    base = numpy_dtype(kind)
    values = np.asarray(value).reshape(-1)
    if isinstance(kind, VlenArray | VlenBytes):
        cells = np.empty(values.size, tagged(base, kind))
        for place, cell in enumerate(values):
            cells[place] = cell.tobytes() if isinstance(kind, VlenBytes) else cell.astype(kind.base)
    else:
        cells = values.astype(base).view(tagged(base, kind))
    if cells.size != 1:
        return cells
    return cells[0] if isinstance(kind, Compound) else cells.reshape(())


def _is_string(stored: h5py.Dataset, name: str) -> bool:
    """Return True if the attribute is an NC_STRING: a variable-length string in HDF5."""
    if name not in stored.attrs:
        return False
    return bool(getattr(_type_of(stored, name), "is_variable_str", bool)())


def _from_hdf5(opened: OpenNetcdfFile, stored: h5py.Dataset, name: str, kinds: Kinds | None) -> Any:
    """Return an attribute that netCDF4 cannot read (of opaque type, say), through h5py."""
    from h5py import Empty

    handle = _type_of(stored, name)
    if is_hdf5_bool(handle):
        return _bools(stored, name)
    if kinds is not None and (kind := kinds(handle)) is not None:
        return _user_value(stored.attrs[name], kind)
    if not is_representable(handle):
        return _ABSENT
    value = stored.attrs[name]
    match value:
        case Empty():
            return "" if value.dtype.kind == "S" else np.empty(0, value.dtype)
        case np.ndarray() if value.dtype == object and _is_string(stored, name) and value.size != 1:
            return np.array([str(item) for item in value.reshape(-1)], np.dtypes.StringDType())
        case np.ndarray() if value.size == 1:
            value = value.reshape(-1)[0]
    match value:
        case bytes():
            return _text(opened, value.decode("utf-8", "replace"), stored, name)
        case str():
            return _text(opened, value, stored, name)
    return value


# -- What is left out --------------------------------------------------------------------------------------------------
# References, which netCDF has no type for, and rows with fields of any length. Files of NWB are full of references:
# in cells, in fields of rows and in attributes.


def find_omissions(opened: OpenNetcdfFile, path: str, spec: GroupSpec | ArraySpec) -> Iterator[Problem]:
    """Return the attributes and types of a node that ``spec`` lacks, and the datasets right below it that are no
    variables."""
    is_group = spec.is_group
    if is_group:
        yield from _find_bad_names(opened, path)
    stored = opened.hdf5_group(path) if is_group else opened.hdf5_dataset(path)
    if stored is None:
        return
    group = path if is_group else path.rpartition("/")[0]
    for name in stored.attrs:
        if name not in spec.attrs and name not in INTERNAL_ATTRIBUTES:
            yield _omission(opened, path, group, f"the attribute {name!r}", stored.attrs.get_id(name).get_type())
    if not spec.is_group:
        return
    for name, node in _datasets(opened, stored):
        shown = name.removeprefix(NON_COORDINATE)
        if opened.variable(child(path, shown)) is None and shown not in list_children(opened, path):
            yield _omission(opened, child(path, shown), group, "the array", node.id.get_type())
    if opened.limit is not None:
        yield from _find_what_has_no_cells(opened, path, stored)
    for name, handle in opened.types.unread(path).items():
        if name not in spec.types:
            message = f"the type {name!r}, {describe_hdf5_type(handle)}, which is not read here, is left out"
            yield Problem(path, Feature.USER_TYPES, message)


def _find_what_has_no_cells(opened: OpenNetcdfFile, path: str, stored: h5py.Group) -> Iterator[Problem]:
    """Return arrays of HDF5's null dataspace and links that lead nowhere, right below a group of an h5py file."""
    from h5py import Dataset

    for name, node in iter_members(stored, opened.outside):
        if node is None:
            yield Problem(child(path, name), Feature.LINKS, "the link, which leads nowhere, is left out")
        elif isinstance(node, Dataset) and node.shape is None:
            message = "the array without cells (of HDF5's null dataspace) is left out"
            yield Problem(child(path, name), Feature.ARRAYS, message)


def _find_bad_names(opened: OpenNetcdfFile, path: str) -> Iterator[Problem]:
    """Return variables and groups whose names lead to no node: netCDF-3 takes any text for one, the empty one too."""
    group = opened.group(path)
    for what, names in (("variable", group.variables), ("group", group.groups)):
        for name in itertools.filterfalse(is_name, names):
            message = (
                f"the {what} {name!r} is left out: a name is not empty, '.' or '..', and holds no slash or backslash"
            )
            yield Problem(path, NAME_PROBLEM, message)


def _omission(opened: OpenNetcdfFile, node: str, group: str, what: str, kind: h5py.h5t.TypeID) -> Problem:
    text = opened.types.describe(group, kind)
    if holds_references(kind):
        words = f"of HDF5 references, which netCDF does not know, is left out ({text})"
        return Problem(node, Feature.REFERENCES, f"{what} {words}")
    return Problem(node, Feature.USER_TYPES, f"{what} of a type that is not read here is left out ({text})")
