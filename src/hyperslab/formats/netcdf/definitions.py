"""Making groups, dimensions, types, variables and attributes in a netCDF file, in the order that netCDF keeps."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperslab.chunks.auto import longest_chunk
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.hdf5.types import BOOL, Place, is_hdf5_bool, is_resizable
from hyperslab.formats.netcdf import data_model
from hyperslab.formats.netcdf.data_model import Storage
from hyperslab.formats.netcdf.open_file import NON_COORDINATE
from hyperslab.formats.netcdf.parser import MISREAD
from hyperslab.formats.netcdf.working_copy import WorkingCopy
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.cells import Values
from hyperslab.model.dims import Dimension
from hyperslab.model.dtypes import (
    Char,
    Compound,
    Enum,
    Extension,
    NumpyDType,
    Opaque,
    VlenArray,
    VlenBytes,
    VlenString,
    tag_of,
)
from hyperslab.model.paths import child, outward
from hyperslab.model.spec import ArraySpec, GroupSpec

if TYPE_CHECKING:
    import h5py

# Names that an attribute and a variable have until they are renamed (_set, define_dimension): netCDF itself would take
# them for something else under their own names.
_TEMPORARY_FILL = "_FillValu_"
_TEMPORARY_NAME = "_hyperslab_for_now"


def find_group(dataset: Any, path: str) -> Any:
    """Return the library's group at ``path``."""
    return dataset[f"/{path}"] if path else dataset


def define_dimension(work: WorkingCopy, group: str, dim: Dimension) -> None:
    """Make a new dimension; an unlimited one begins with length 0."""
    parent = find_group(work.netcdf(), group)
    size = None if dim.unlimited else dim.size
    if dim.name not in parent.variables or data_model.is_netcdf3(str(work.model)):
        parent.createDimension(dim.name, size)
        return
    if work.model != "NETCDF4":
        remedy = "make what runs along the dimension before that variable, or give one of them another name"
        raise Invalid(f"a variable is called {dim.name!r} as the new dimension", remedy=remedy)
    # in HDF5 a dimension and a variable that runs along others share their names: the library stores the variable
    # under another one, but only where it gets its name after the dimension
    parent.renameVariable(dim.name, _TEMPORARY_NAME)
    parent.createDimension(dim.name, size)
    parent.renameVariable(_TEMPORARY_NAME, dim.name)


def rename_variable(work: WorkingCopy, path: str, name: str) -> None:
    """Give a variable another name in its group."""
    parent, _, old = path.rpartition("/")
    find_group(work.netcdf(), parent).renameVariable(old, name)


def rename_dimension(work: WorkingCopy, old: str, new: str) -> None:
    """Give a dimension of a netCDF-3 file another name."""
    work.netcdf().renameDimension(old, new)


def define_type(work: WorkingCopy, group: str, name: str, kind: Extension) -> None:
    """Make a named type; those that netCDF4 cannot make through h5py."""
    match kind:
        case Enum(base=base, members=members):
            find_group(work.netcdf(), group).createEnumType(base, name, dict(members))
        case VlenArray(base=base):
            find_group(work.netcdf(), group).createVLType(base, name)
        case VlenBytes():
            find_group(work.netcdf(), group).createVLType(np.dtype("u1"), name)
        case Compound(base=base) if data_model.is_h5py_only(kind):
            if _holds_bools(base):  # netCDF-C opens no file with an enum in rows that has no name
                define_bools(work)
            _define_hidden_compound(work.hdf5(), group, name, base)
        case Compound(base=base):
            _define_compound(find_group(work.netcdf(), group), name, base)
        case Opaque(size=size):
            file = work.hdf5()
            from h5py import h5t

            opaque = h5t.create(h5t.OPAQUE, size)
            opaque.set_tag(b"")
            opaque.commit(file[f"/{group}"].id, name.encode())


def define_bools(work: WorkingCopy) -> Place:
    """Return where the type of booleans is declared: in the root, where it is made if it is not there yet.

    h5py would store booleans by the same enum without a name. netCDF-C takes such cells since 4.9.3 and shows a file
    with them empty before.
    """
    root = work.netcdf()
    for name, kind in root.enumtypes.items():
        if kind.dtype == BOOL.base and tuple(kind.enum_dict.items()) == BOOL.members:
            return "", str(name)
    taken = {*root.variables, *root.groups, *root.enumtypes, *root.cmptypes, *root.vltypes}
    names = itertools.chain([BOOL.name], (f"{BOOL.name}_{number}" for number in itertools.count(2)))
    name = next(name for name in names if name not in taken)
    root.createEnumType(BOOL.base, name, dict(BOOL.members))
    return "", name


def _holds_bools(dtype: NumpyDType) -> bool:
    return dtype.base.kind == "b" or any(_holds_bools(dtype.base[name]) for name in dtype.base.names or ())


def _define_compound(group: Any, name: str, base: NumpyDType) -> None:
    """Make a compound, after the structured types of its fields (``<name>_<field>`` unless one is there)."""
    fields: Mapping[str, Any] = base.fields or {}
    for field in base.names or ():
        inner = fields[field][0].base
        if inner.names is not None and not _has_compound(group, inner):
            _define_compound(group, f"{name}_{field}", inner)
    group.createCompoundType(base, name)


def _has_compound(group: Any, base: NumpyDType) -> bool:
    while group is not None:
        if any(data_model.chars_as_arrays(np.dtype(kind.dtype)) == base for kind in group.cmptypes.values()):
            return True
        group = group.parent
    return False


def _define_hidden_compound(file: h5py.File, group: str, name: str, base: NumpyDType) -> None:
    """Make a compound whose fields are of tag types that lie in its group or further out."""
    from h5py import h5t

    fields: Mapping[str, Any] = base.fields or {}
    parts = {}
    for field in base.names or ():
        dtype = fields[field][0]
        tag = tag_of(dtype.base)
        inner = h5t.py_create(dtype.base) if tag is None else _nearest(file, group, data_model.type_name(tag)).id
        parts[field] = h5t.array_create(inner, dtype.shape) if dtype.shape else inner
    kind = h5t.create(h5t.COMPOUND, sum(part.get_size() for part in parts.values()))
    offset = 0  # not that of NumPy's packed fields: compounds that netCDF4 makes have the gaps that C has
    for field, part in parts.items():
        kind.insert(field.encode(), offset, part)
        offset += part.get_size()
    kind.commit(file[f"/{group}"].id, name.encode())


def _nearest(file: h5py.File, group: str, name: str) -> Any:
    """Return the committed type of this name in a group or further out."""
    return next(file[f"/{above}"][name] for above in outward(group) if name in file[f"/{above}"])


def define_variable(
    work: WorkingCopy, path: str, spec: ArraySpec, dims: tuple[Place, ...], kind: Place | None, storage: Storage | None
) -> None:
    """Make a variable without attributes, but for a leading ``_FillValue``; ``storage`` is None in netCDF-3.

    Unwritten cells read as the spec's fill value where the library can fill with it (:func:`library_fills`); those of
    a variable that is never filled are undefined.
    """
    if data_model.is_h5py_only(spec.dtype):
        _define_hidden_variable(work, path, spec, dims, kind, storage)
        return
    dataset = work.netcdf()
    parent, _, name = path.rpartition("/")
    arguments = {} if storage is None or not spec.shape else storage.arguments()
    base = spec.numpy_dtype
    if base.byteorder == ">":
        arguments["endian"] = "big"
    fill, is_leading = library_fill(spec), has_leading_fill(spec)
    if is_leading:
        fill = spec.fill_cell()[()]
    elif storage is not None and data_model.is_never_filled(spec):
        fill = False  # which netCDF4 takes for NC_NOFILL
    if base.kind == "b":
        kind, fill = define_bools(work), np.int8(spec.fill_cell()[()])
    scales = tuple(find_group(dataset, owner).dimensions[dim] for owner, dim in dims)
    cell_type: Any = str if isinstance(spec.dtype, VlenString) else base
    if kind is not None and cell_type is not str:
        owner = find_group(dataset, kind[0])
        cell_type = {**owner.enumtypes, **owner.cmptypes, **owner.vltypes}[kind[1]]
    variable = find_group(dataset, parent).createVariable(name, cell_type, scales, fill_value=fill, **arguments)
    if not is_leading and FILL_VALUE in variable.ncattrs():
        variable.delncattr(FILL_VALUE)
    without_conversion(variable)


def has_leading_fill(spec: ArraySpec) -> bool:
    """Return True if the first attribute is a ``_FillValue`` that is the fill value: then the library makes both as
    one.
    """
    if spec.numpy_dtype.kind not in "iuf" or next(iter(spec.attrs), None) != FILL_VALUE or spec.fill_value is None:
        return False
    fill = spec.fill_cell()
    return fill.tobytes() == np.asarray(spec.attrs[FILL_VALUE]).astype(fill.dtype).tobytes()


def without_conversion(variable: Any) -> Any:
    """Return the variable, made to give its cells as they are stored."""
    variable.set_auto_maskandscale(False)
    variable.set_auto_chartostring(False)
    return variable


def library_fill(spec: ArraySpec) -> object:
    """Return the ``fill_value`` argument: None for netCDF's default."""
    if isinstance(spec.dtype, Compound | VlenArray | VlenBytes | VlenString):
        return None
    default = data_model.default_fill(spec.dtype)
    fill = spec.fill_cell()
    if default is not None and fill.tobytes() == np.asarray(default, fill.dtype).tobytes():
        return None
    return None if isinstance(spec.dtype, Char) and not fill[()] else fill[()]


def library_fills(spec: ArraySpec, model: str) -> bool:
    """Return True if unwritten cells read as the fill value by themselves; else all cells are written when they come
    to be.
    """
    cell = spec.fill_cell()
    match spec.dtype:
        case Compound() | Opaque():
            return not any(cell.tobytes())
        case VlenString():
            return str(cell[()]) == ""
        case VlenArray() | VlenBytes():
            return not len(cell[()])
    if not data_model.is_netcdf3(model):
        return True
    fills_with = spec.attrs.get(FILL_VALUE, data_model.default_fill(spec.dtype))
    return np.asarray(0 if fills_with is None else fills_with).astype(cell.dtype).tobytes() == cell.tobytes()


def _define_hidden_variable(
    work: WorkingCopy, path: str, spec: ArraySpec, dims: tuple[Place, ...], kind: Place | None, storage: Storage | None
) -> None:
    if kind is None or storage is None:
        raise TypeError("such cells have a named type and lie in netCDF-4 files")
    unlimited = [bool(find_group(work.netcdf(), owner).dimensions[dim].isunlimited()) for owner, dim in dims]
    file = work.hdf5()
    parent, _, name = path.rpartition("/")
    shape = tuple(0 if free else length for length, free in zip(spec.shape, unlimited, strict=True))
    dataset = file[f"/{parent}"].create_dataset(
        name,
        shape=shape,
        maxshape=tuple(None if free else length for length, free in zip(shape, unlimited, strict=True)),
        chunks=storage.chunks,
        dtype=file[f"/{kind[0]}"][kind[1]],
        track_order=True,
    )
    for axis, (owner, dim) in enumerate(dims):
        dataset.dims[axis].attach_scale(file[f"/{owner}"][dim])


def set_attributes(
    work: WorkingCopy, path: str, spec: ArraySpec | GroupSpec, attrs: Mapping[str, Any], types: Mapping[str, Place]
) -> None:
    """Add these attributes, in this order; ``types`` tells where the types of those lie that have one of a user."""
    for name, value in attrs.items():
        if _is_h5py_only(spec) or name in types:
            _set_through_hdf5(work, path, name, value, types.get(name))
        else:
            _set(_node(work, path, spec), name, value)


def remove_attributes(work: WorkingCopy, path: str, spec: ArraySpec | GroupSpec, names: list[str]) -> None:
    """Take attributes away."""
    for name in names:
        if _is_h5py_only(spec) or data_model.is_h5py_only_value(spec.attrs[name]):
            del _hdf5_node(work.hdf5(), path).attrs[name]
        else:
            _node(work, path, spec).delncattr(name)


def _is_h5py_only(spec: ArraySpec | GroupSpec) -> bool:
    return spec.is_array and data_model.is_h5py_only(spec.dtype)


def is_out_of_reach(work: WorkingCopy, path: str, spec: ArraySpec) -> bool:
    """Return True for a variable that netCDF4 does not show, or whose cells it cannot read."""
    return MISREAD in spec.layout or path in work.unreadable or _is_h5py_only(spec)


def find_variable(work: WorkingCopy, path: str, spec: ArraySpec) -> Any:
    """Return the library's variable at ``path``, with its cells as stored; h5py's dataset where netCDF4 has none.

    CorruptChunk for a variable with chunks that end the process when the library decodes them, Unsupported for one that
    it takes for another.
    """
    if MISREAD in spec.layout:
        message = f"the netCDF library takes {spec.layout[MISREAD]}"
        raise Unsupported(message, node=path, remedy="convert it to a new file")
    if path in work.unreadable:
        raise work.unreadable[path]
    if _is_h5py_only(spec):
        return _hdf5_node(work.hdf5(), path)
    variable = without_conversion(_node(work, path, spec))
    is_chunked = not data_model.is_netcdf3(str(work.model)) and not spec.layout.get("contiguous")
    # A variable that is called like a dimension of its group, and runs along another one first, is stored under another
    # name: netCDF-C 4.10, told of a cache, opens the dimension in its place, and writes the cells there.
    is_shadowed = variable.name in variable.group().dimensions and variable.dimensions[:1] != (variable.name,)
    if is_chunked and not is_shadowed:
        cache = work.cache_bytes(prod(longest_chunk(spec.chunks)) * spec.numpy_dtype.itemsize)
        if variable.get_var_chunk_cache()[0] != cache:
            variable.set_var_chunk_cache(cache)
    return variable


def _node(work: WorkingCopy, path: str, spec: ArraySpec | GroupSpec) -> Any:
    """Return the library's group or variable at ``path``."""
    if spec.is_group:
        return find_group(work.netcdf(), path)
    parent, _, name = path.rpartition("/")
    return find_group(work.netcdf(), parent).variables[name]


def _hdf5_node(file: h5py.File, path: str) -> h5py.Dataset | h5py.Group:
    """Return h5py's group or dataset at ``path``; a variable that only shares a dimension's name is stored with a
    prefix."""
    parent, _, name = path.rpartition("/")
    hidden = f"/{parent}/{NON_COORDINATE}{name}" if parent else f"/{NON_COORDINATE}{name}"
    return file[hidden] if hidden in file else file[f"/{path}"]


def _set(node: Any, name: str, value: Any) -> None:
    """Write one attribute. ``_FillValue`` gets its name last: the library takes it for the fill value of a variable,
    which it is only when nothing else was said."""
    key = _TEMPORARY_FILL if name == FILL_VALUE else name
    match value:
        case np.str_():
            node.setncattr_string(key, str(value))
        case str() if key != name:
            node.setncattr(key, value.encode("latin-1", "replace"))
        case str():
            # netCDF4 leaves out the NULs at the end of a text: blanks keep their places until write_nuls.
            text = value.encode()
            node.setncattr(key, text.rstrip(b"\0").ljust(len(text), b" "))
        case np.ndarray() if value.dtype.kind == "T":
            node.setncattr_string(key, [str(item) for item in value])
        case np.ndarray():
            # a file holds no byte order of attributes, and netCDF4 1.7.3 stores swapped bytes as other numbers
            node.setncattr(key, value.astype(value.dtype.newbyteorder("="), copy=False))
        case _:
            node.setncattr(key, value)
    if key != name:
        # Bytes: of a text, netCDF4 1.7.5 frees the encoded name before it is used, and other threads may write there.
        node.renameAttribute(key.encode(), name)


def write_nuls(work: WorkingCopy, path: str, is_group: bool, texts: Mapping[str, bytes]) -> None:
    """Write the bytes of attributes of chars that are as long already. h5py comes last: what netCDF4 defines in a file
    that it opens again keeps no order of attributes."""
    if data_model.is_netcdf3(work.model):
        places = work.header().texts[path or None]
        work.patch({places[name][0]: data for name, data in texts.items()})
        return
    file = work.hdf5()
    attrs = (file[f"/{path}"] if is_group else _hdf5_node(file, path)).attrs
    for name, data in texts.items():
        handle = attrs.get_id(name)
        handle.write(np.frombuffer(data, f"S{len(data)}").reshape(handle.shape), mtype=handle.get_type())


def remove_names(
    work: WorkingCopy, dims: Collection[Place], types: Collection[str], along: Mapping[str, tuple[Place, ...]]
) -> None:
    """Take out of a file what netCDF adds to HDF5: the scales that ``dims`` are stored as, unless they are arrays, and
    the names of types of booleans other than ``types``. ``along``: the dimensions of each array.

    netCDF-C numbers axes without a scale in the order of the file, and calls them by that.
    """
    from h5py import Datatype

    file = work.hdf5()
    for path, places in along.items():
        axes = [axis for axis, place in enumerate(places) if place in dims]
        node = _hdf5_node(file, path)
        if len(axes) == node.ndim:
            node.attrs.pop("DIMENSION_LIST", None)
        for axis in axes if "DIMENSION_LIST" in node.attrs else ():
            for scale in node.dims[axis].values():
                node.dims[axis].detach_scale(scale)
        if axes:
            node.attrs.pop("_Netcdf4Coordinates", None)
    for group, name in dims:
        path = child(group, name)
        if path in file and path not in along:
            del file[path]
    declared = {name: node for name, node in file.items() if name not in types and isinstance(node, Datatype)}
    for name, node in declared.items():
        if is_hdf5_bool(node.id):
            del file[name]


def write_string_shapes(work: WorkingCopy, path: str, spec: ArraySpec | GroupSpec) -> None:
    """Store the strings among the attributes of a node by their shapes: netCDF4 writes one string as an array of one.

    HDF5 changes the dataspace of no attribute, and orders attributes as they are made: those behind are made anew, too.
    """
    from h5py import h5a, h5s

    shapes = data_model.shapes_of_one_string(spec.attrs)
    if not shapes:
        return
    node = work.hdf5()[f"/{path}"] if spec.is_group else _hdf5_node(work.hdf5(), path)
    names = list(spec.attrs)
    wrong = [name for name, shape in shapes.items() if _string_shape(node, name) != shape]
    moved = names[min(map(names.index, wrong)) :] if wrong else []
    # An array of one string that may get longer is an array; netCDF-C's own, which mean the string, may not.
    spaces = {
        name: h5s.create_simple((1,), (h5s.UNLIMITED,)) if shapes[name] else h5s.create(h5s.SCALAR) for name in shapes
    }
    attributes = [(name, *_stored_attribute(node, name)) for name in moved]
    for name in moved:
        h5a.delete(node.id, name.encode())
    for name, kind, space, cells in attributes:
        handle = h5a.create(node.id, name.encode(), kind, spaces.get(name, space))
        if cells.size:
            handle.write(cells.reshape(handle.shape), mtype=None if cells.dtype.hasobject else kind)


def _string_shape(node: h5py.Dataset | h5py.Group, name: str) -> tuple[int, ...] | None:
    """Return the shape of a string, () or (1,), as it is to be stored; None where it is not stored so."""
    handle = node.attrs.get_id(name)
    return handle.shape if not handle.shape or is_resizable(handle) else None


def _stored_attribute(node: h5py.Dataset | h5py.Group, name: str) -> tuple[h5py.h5t.TypeID, h5py.h5s.SpaceID, Values]:
    """Return type, dataspace and cells of an attribute: Python's objects where they have any length, else the bytes as
    they are stored."""
    handle = node.attrs.get_id(name)
    kind, space = handle.get_type(), handle.get_space()
    has_objects = handle.dtype.hasobject
    cells = np.empty(handle.shape or (), handle.dtype if has_objects else f"V{kind.get_size()}")
    if space.get_simple_extent_npoints():
        handle.read(cells, mtype=None if has_objects else kind)
    return kind, space, cells


def _set_through_hdf5(work: WorkingCopy, path: str, name: str, value: object, kind: Place | None) -> None:
    """Write an attribute of a user type, or of a variable that netCDF4 does not show."""
    from h5py import Empty, string_dtype

    file = work.hdf5()
    attrs = _hdf5_node(file, path).attrs
    cells = np.asarray(value)
    if kind is not None:
        cells, committed = np.atleast_1d(cells) if cells.dtype.kind != "b" else cells, file[f"/{kind[0]}"][kind[1]]
        if cells.dtype.hasobject:
            attrs.create(name, cells.astype(object), shape=cells.shape, dtype=committed)
        else:
            # The bytes are stored as they are: netCDF's chars are text of HDF5 that ends with a NUL, and HDF5, asked to
            # convert, has no room for one.
            attrs.create(name, shape=cells.shape, dtype=committed, data=np.zeros(cells.shape, committed.dtype))
            attrs.get_id(name).write(cells.astype(committed.dtype), mtype=committed.id)
    elif cells.dtype.kind in "UT" and (cells.dtype.kind == "T" or isinstance(value, np.str_)):
        attrs.create(name, [str(item) for item in cells.reshape(-1)], dtype=string_dtype())
    elif isinstance(value, str):
        attrs.create(name, np.bytes_(value.encode()) if value else Empty("S1"))
    else:
        attrs.create(name, cells.reshape(-1))
