"""The limits of netCDF's data models, as pure functions over specs: nothing here needs the netCDF library.

The models are netCDF's own names: ``NETCDF4`` (the enhanced model in HDF5), ``NETCDF4_CLASSIC``, and the three classic
files ``NETCDF3_CLASSIC``, ``NETCDF3_64BIT_OFFSET``, ``NETCDF3_64BIT_DATA`` (CDF-5). ``HDF5`` is ``NETCDF4`` without
what netCDF adds to HDF5: dimensions have no names, and the type of booleans has none. Rules and default fill values are
those of the NetCDF Users Guide and ``netcdf.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from hyperslab.chunks.auto import longest_chunk, whole_chunks
from hyperslab.errors import Problem, Unsupported
from hyperslab.formats.base import PROVENANCE, Feature
from hyperslab.formats.hdf5.types import BYTES_TYPE_NAME
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.cells import Values, number_cell
from hyperslab.model.dims import MADE_UP, is_made_up
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
    describe,
    is_fixed,
    tag_of,
    tagged,
)
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

INTERNAL_ATTRIBUTES = frozenset(
    {PROVENANCE, "_NCCOPY", "_Netcdf4Coordinates", "_Netcdf4Dimid", "_nc3_strict"}
    | {"CLASS", "DIMENSION_LABELS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST"}
)
"""Attributes that the library stores in netCDF-4 files for itself, and does not show."""
_RESERVED = INTERNAL_ATTRIBUTES | {
    *("_Format", "_IsNetcdf4", "_SuperblockVersion"),
    *("_ARRAY_DIMENSIONS", "_Codecs", "_nczarr_attr", "_nczarr_group"),
}
"""Attributes that the library keeps for itself in netCDF-4 files: it refuses them, or they would not be shown."""
NO_FILL = "no_fill"
"""In the layout of a variable: nothing is written to cells before they are written (netCDF-C's ``NC_NOFILL``)."""
_QUANTIZED = "_Quantize"
PLAIN = "HDF5"
MODELS = ("NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA", PLAIN)
_ENHANCED = ("NETCDF4", PLAIN)

FEATURES = frozenset(
    {
        Feature.GROUPS,
        Feature.ARRAYS,
        Feature.DIMENSIONS,
        Feature.UNLIMITED,
        Feature.ATTRIBUTES,
        Feature.TYPED_ATTRIBUTES,
        Feature.STRINGS,
        Feature.VLEN,
        Feature.STRUCTURED,
        Feature.SUBARRAYS,
        Feature.USER_TYPES,
        Feature.BOOLEAN,
        Feature.CHAR,
        Feature.BIG_ENDIAN,
        Feature.SCALARS,
        Feature.CHUNKS,
        Feature.CODECS,
        Feature.CHECKSUMS,
        Feature.UNITS,
    }
)

_CLASSIC = frozenset({"i1", "i2", "i4", "f4", "f8"})
_ATOMIC = _CLASSIC | {"u1", "u2", "u4", "u8", "i8"}
# NC_FILL_BYTE and the others of netcdf.h.
_FLOAT_FILL = 9.9692099683868690e36
_FILLS: Mapping[str, int | float] = {
    "i1": -127,
    "u1": 255,
    "i2": -32767,
    "u2": 65535,
    "i4": -2147483647,
    "u4": 4294967295,
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
    "f4": _FLOAT_FILL,
    "f8": _FLOAT_FILL,
}
_VIRTUAL_BYTES = 8 << 20  # of one chunk of the grid that is laid over cells in one piece


def is_netcdf3(model: str) -> bool:
    """Return True if the model is one of the three classic files, which know neither chunks nor codecs."""
    return model.startswith("NETCDF3")


def library_model(model: str) -> str:
    """Return the library's name of the model that a file is made in."""
    return "NETCDF4" if model == PLAIN else model


def number_types(model: str) -> frozenset[str]:
    """Return the number types that cells and attributes may have, as NumPy codes without byte order."""
    return _CLASSIC if model in ("NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET") else _ATOMIC


def default_fill(dtype: DataType) -> object:
    """Return what cells of this type read as where nothing was written and no ``_FillValue`` says otherwise; None for
    zero."""
    base = dtype.base if isinstance(dtype, Enum) else dtype
    if isinstance(base, np.dtype) and _type_code(base) in _FILLS:
        return np.array(_FILLS[_type_code(base)]).astype(base)[()]
    return None


def virtual_chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return a grid for cells that lie in one piece: whole trailing axes, cut along the first ones, up to 8 MiB per
    chunk."""
    chunks = list(whole_chunks(shape))
    for axis in range(len(chunks)):
        row = max(itemsize, 1) * prod(chunks[axis + 1 :])
        chunks[axis] = max(1, min(chunks[axis], _VIRTUAL_BYTES // row))
        if row <= _VIRTUAL_BYTES:
            break
    return tuple(chunks)


def find_problems(spec: ArraySpec | GroupSpec, node: str = "", model: str = "NETCDF4") -> list[Problem]:
    """Return everything of a spec that a file of this model cannot hold; ``node`` is its path. Empty: all can be
    written."""
    problems = list(_array_problems(spec, node, model) if spec.is_array else _group_problems(spec, node, model))
    for name, value in spec.attrs.items():
        is_char_fill = name == FILL_VALUE and value == "\0" if isinstance(value, str) else False
        reason = None if is_char_fill else attribute_problem(value, model)
        if not is_netcdf3(model):
            reason = _name_problem(name, value) or reason
        if not reason and name == FILL_VALUE and spec.is_array:
            reason = _fill_problem(value, spec.dtype)
        if reason:
            problems.append(Problem(node, "attribute", f"the attribute {name!r} is {reason}"))
    return problems


def _name_problem(name: str, value: Any) -> str | None:
    """Return why the netCDF library has no room for an attribute of this name in netCDF-4, or None."""
    if name == PROVENANCE:
        return "what the netCDF library says of the file itself; leave it out of the source"
    if name in _RESERVED:
        return "one that the netCDF library keeps for itself; rename it, or leave it out of the source"
    if name.startswith(_QUANTIZED) and (np.size(value) != 1 or np.asarray(value).dtype.kind not in "iuf"):
        return "no number, as which the netCDF library reads it of any variable"  # its process dies of others
    return None


def _group_problems(spec: GroupSpec, node: str, model: str) -> Iterator[Problem]:
    enhanced = model in _ENHANCED
    if node and not enhanced:
        yield Problem(node, "group", f"{model} has no groups")
    if not enhanced and sum(dim.unlimited for dim in spec.dims) > 1:
        yield Problem(node, "unlimited", f"{model} has one unlimited dimension at most")
    if model == PLAIN:
        yield from _names_lost(node, [dim.name for dim in spec.dims])
    for name, kind in spec.types.items():
        if not enhanced:
            yield Problem(node, "type", f"{model} has no user types such as {name!r}")
        elif reason := type_problem(kind, model):
            yield Problem(node, "type", f"the type {name!r}: {reason}")


def _array_problems(spec: ArraySpec, node: str, model: str) -> Iterator[Problem]:
    if reason := type_problem(spec.dtype, model):
        yield Problem(node, "dtype", reason)
    if any(isinstance(cut, tuple) for cut in spec.chunks):
        yield Problem(node, "chunks", "netCDF has one chunk size per dimension")
    if spec.inner_chunks is not None:
        yield Problem(node, "shards", "netCDF has no shards")
    if spec.sparse is not None:
        yield Problem(node, "sparse", "netCDF has no sparse arrays")
    if model == PLAIN:
        yield from _names_lost(node, spec.dims)


def _names_lost(node: str, dims: Iterable[str | None]) -> Iterator[Problem]:
    named = [name for name in dims if name is not None and not is_made_up(name)]
    if named:
        yield Problem(node, "dimensions", f"the model {PLAIN} has no names of dimensions such as {named[0]!r}")


def type_problem(dtype: DataType, model: str) -> str | None:
    """Return why cells of this type cannot be stored, or None."""
    match dtype:
        case Char():
            return None
        case np.dtype() if dtype.names is None and dtype.subdtype is None:
            is_known = _type_code(dtype) in number_types(model) or dtype == np.dtype("S1")
            is_known |= dtype.kind == "b" and model in _ENHANCED  # as the enum that h5py has
            return None if is_known else _no_cells(model, dtype)
        case _ if model not in _ENHANCED:
            return _no_cells(model, dtype)
        case np.dtype() | Compound():
            base = dtype if isinstance(dtype, np.dtype) else dtype.base
            return _field_problem(base)
        case Enum(base=base):
            return None if base.kind in "iu" else f"an enum of {base} in netCDF counts in whole numbers"
        case VlenArray(base=base):
            return None if _type_code(base) in _ATOMIC else f"netCDF has no variable-length arrays of {base}"
        case VlenString() | VlenBytes() | Opaque():
            return None
        case _:
            return _no_cells(model, dtype)


def _no_cells(model: str, dtype: DataType) -> str:
    return f"format netcdf (model {model}) has no cells of type {describe(dtype)}"


def is_h5py_only(dtype: DataType) -> bool:
    """Return True if netCDF4 shows no variable of this type, so that h5py reads and writes it."""
    return isinstance(dtype, Opaque) or (isinstance(dtype, Compound) and _has_hidden_field(dtype.base))


def _has_hidden_field(base: NumpyDType) -> bool:
    fields: Mapping[str, Any] = base.fields or {}
    inner = [fields[name][0].base for name in base.names or ()]
    return any(kind.kind == "b" or isinstance(tag_of(kind), Enum | Opaque) or _has_hidden_field(kind) for kind in inner)


def _field_problem(dtype: NumpyDType) -> str | None:
    """Return why this type of a structured cell or of its fields cannot be stored; fixed-length bytes become char
    arrays."""
    base = dtype.base
    if base.fields is None or base.names is None:
        is_known = base.kind in "Sb" or _type_code(base) in _ATOMIC or isinstance(tag_of(base), Opaque)
        return None if is_known else f"format netcdf has no compound with a field of {base}"
    if dtype.subdtype is not None:
        return "netCDF4 writes no compound with a field that is an array of structures"
    return next((reason for name in base.names if (reason := _field_problem(base.fields[name][0]))), None)


def attribute_problem(value: object, model: str) -> str | None:
    """Return what an attribute value is that netCDF has no attribute for, or None."""
    if _is_string(value):
        if any("\0" in text for text in np.asarray(value).reshape(-1).tolist()):
            return "a string with a NUL, and netCDF ends strings there"
        return None if model in _ENHANCED else f"a string, and {model} has only char"
    match value:
        case str():
            return "a lone NUL, which is how netCDF has an empty text" if value == "\0" else None
        case np.ndarray() | np.generic():
            return _typed_problem(np.asarray(value), model)
    if value is None or (isinstance(value, bool) and model not in _ENHANCED):
        return f"{value!r}, which {model} has no type for; use the int8 0 or 1, or text"
    match value:
        case bool():
            return None
        case int():
            return _integer_problem(value, model)
        case float():
            return None
        case list() | tuple():
            return _list_problem(list(value), model)
    return f"of type {type(value).__name__}, which netCDF has no attribute for; json.dumps() makes text of it"


def _typed_problem(value: Values, model: str) -> str | None:
    if value.ndim > 1:
        return f"an array of {value.ndim} dimensions, and netCDF attributes have one"
    if (kind := tag_of(value.dtype)) is not None and model not in _ENHANCED:
        return f"of type {describe(kind)}, and {model} has no user types"
    if isinstance(kind, VlenArray | VlenBytes):
        return type_problem(kind, model)
    if value.dtype.names is not None:
        return _field_problem(value.dtype) if model in _ENHANCED else f"structured, and {model} has no user types"
    if value.dtype.kind == "V":
        return None if model in _ENHANCED else f"opaque, and {model} has no user types"
    return (
        None
        if _type_code(value.dtype) in number_types(model) or (value.dtype.kind == "b" and model in _ENHANCED)
        else f"of type {value.dtype}, which {model} has no attribute for"
    )


def _integer_problem(value: int, model: str) -> str | None:
    low, high = (-(2**63), 2**64 - 1) if "i8" in number_types(model) else (-(2**31), 2**31 - 1)
    return None if low <= value <= high else f"{value}, which no integer type of {model} holds"


def _list_problem(values: list[Any], model: str) -> str | None:
    if not values:
        return "an empty list, which has no type; use an empty NumPy array"
    if all(isinstance(item, str) for item in values):
        return attribute_problem(np.str_(), model)
    if all(isinstance(item, bool | np.bool_) for item in values):
        return attribute_problem(True, model)
    numbers = (int, float, np.integer, np.floating)
    if not all(isinstance(item, numbers) and not isinstance(item, bool) for item in values):
        return "a list of other things than numbers or text; json.dumps() makes text of it"
    if any(isinstance(item, float) for item in values):
        return None
    return next((reason for item in values if (reason := _integer_problem(int(item), model))), None)


def is_h5py_only_value(value: Any) -> bool:
    """Return True if an attribute's value is of a type that netCDF4 cannot write: structured or of a user."""
    typed = isinstance(value, np.ndarray | np.generic)
    return is_bool_value(value) or (typed and (value.dtype.kind == "V" or tag_of(value.dtype) is not None))


def is_bool_value(value: object) -> bool:
    """Return True for a boolean, or an array of them, as :func:`to_netcdf_value` makes them."""
    return isinstance(value, bool) or (isinstance(value, np.ndarray) and value.dtype.kind == "b")


def texts_that_end_with_nul(attrs: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the attributes whose last chars netCDF4 would not write, by name."""
    texts = {name: value.encode() for name, value in attrs.items() if name != FILL_VALUE and isinstance(value, str)}
    return {name: data for name, data in texts.items() if data.endswith(b"\0")}


def shapes_of_one_string(attrs: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the attributes that netCDF4 writes as an array of one string, by name: () or (1,)."""
    return {name: np.shape(value) for name, value in attrs.items() if _is_string(value) and np.size(value) == 1}


def _is_string(value: object) -> bool:
    return isinstance(value, np.str_) or (isinstance(value, np.ndarray) and value.dtype.kind == "T")


def to_netcdf_value(value: Any, model: str) -> str | np.str_ | bool | Values | np.generic:
    """Return the value as netCDF will give it back: text, ``np.str_``, a boolean, a typed scalar or a 1-D array.
    Checked before."""
    match value:
        case bool() | np.bool_():
            return bool(value)
        case np.ndarray(dtype=np.dtype(kind="b")):
            return value if value.ndim else bool(value)
        case list() | tuple() if all(isinstance(item, bool | np.bool_) for item in value):
            return np.array(value, bool)
        case np.ndarray() if value.size != 1 or (value.dtype.kind == "T" and value.ndim):
            return value
        case np.ndarray() if isinstance(tag_of(value.dtype), Enum | Opaque | VlenArray | VlenBytes):
            return value.reshape(())
        case np.ndarray():
            cell = value.reshape(-1)[0]
            return np.str_(cell) if value.dtype.kind == "T" else cell
        case str() | np.generic():
            return value
        case list() | tuple() if isinstance(value[0], str):
            return to_netcdf_value(np.array(value, np.dtypes.StringDType()), model)
    values = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(item, float | np.floating) for item in values):
        return to_netcdf_value(np.array(values, np.float64), model)
    kinds = ("i4",) if "i8" not in number_types(model) else ("i4", "u4", "i8", "u8")
    kind = next(k for k in kinds if all(np.iinfo(k).min <= item <= np.iinfo(k).max for item in values))
    return to_netcdf_value(np.array(values, kind), model)


def to_netcdf_type(dtype: DataType, name: str, model: str = "NETCDF4") -> DataType:
    """Return the type in netCDF's terms: plain structured and void types get the name ``<name>_t``, ``S1`` is char.

    Only plain numbers of netCDF-4 keep a byte order.
    """
    own_name = getattr(dtype, "name", "") or f"{name}_t"
    match dtype:
        case np.dtype() if dtype.names is not None:
            return Compound(chars_as_arrays(dtype), f"{name}_t")
        case np.dtype() if dtype.kind == "V":
            return Opaque(dtype.itemsize, f"{name}_t")
        case np.dtype() if dtype == np.dtype("S1"):
            return Char()
        case np.dtype() if is_netcdf3(model):
            return dtype.newbyteorder("=")
        case Compound(base=base):
            return Compound(chars_as_arrays(base), own_name)
        case Enum(base=base, members=members):
            return Enum(base.newbyteorder("="), members, own_name)
        case Opaque(size=size):
            return Opaque(size, own_name)
        case VlenArray(base=base):
            return VlenArray(base.newbyteorder("="), own_name)
    return dtype


def chars_as_arrays(dtype: NumpyDType) -> NumpyDType:
    """Return a structured type whose ``S<n>`` fields are arrays of n chars, packed; bytes of cells and tags stay the
    same."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((chars_as_arrays(base), shape))
    if dtype.kind == "S" and dtype.itemsize > 1:
        return np.dtype(("S1", (dtype.itemsize,)))
    if dtype.fields is None or dtype.names is None:
        return dtype.newbyteorder("=")
    fields = np.dtype([(name, chars_as_arrays(dtype.fields[name][0])) for name in dtype.names])
    kind = tag_of(dtype)
    return tagged(fields, replace(kind, base=fields)) if isinstance(kind, Compound) else fields


def to_netcdf_dims(spec: ArraySpec, model: str = "NETCDF4") -> tuple[str, ...]:
    """Return a name for each dimension: its own, or ``dim_<length>`` (numbered where an array has several of that
    length), of which the model HDF5 takes another that is not stored."""
    names: list[str] = []
    word = MADE_UP if model == PLAIN else "dim_"
    for dim, size in zip(spec.dims, spec.shape, strict=True):
        name, number = dim or f"{word}{size}", 2
        while dim is None and name in names:
            name, number = f"{word}{size}_{number}", number + 1
        names.append(name)
    return tuple(names)


def to_netcdf_attrs(spec: ArraySpec | GroupSpec, model: str) -> dict[str, Any]:
    """Return the attributes as netCDF will give them back; an array's ``_FillValue`` has the type of its cells."""
    attrs: dict[str, Any] = {name: to_netcdf_value(value, model) for name, value in spec.attrs.items()}
    if spec.is_array and FILL_VALUE in attrs:
        value, dtype = attrs[FILL_VALUE], spec.dtype
        match dtype:
            case Enum():
                attrs[FILL_VALUE] = np.array(
                    np.asarray(value).reshape(-1)[0], tagged(dtype.base.newbyteorder("="), dtype)
                )
            case np.dtype() if dtype.kind in "iuf":
                attrs[FILL_VALUE] = np.asarray(value).reshape(-1)[0].astype(dtype.newbyteorder("="))
            case VlenString() if isinstance(value, str):
                attrs[FILL_VALUE] = np.str_(value)
    return attrs


def _fill_problem(value: object, dtype: DataType) -> str | None:
    """Return why this cannot be the ``_FillValue`` of such cells, which netCDF wants to have their type."""
    base = dtype.base if isinstance(dtype, Enum) else dtype
    if isinstance(base, np.dtype) and base.kind in "iuf":
        fill = np.asarray(value)
        try:
            number_cell(value, base)
        except OverflowError:
            return f"{fill.reshape(-1)[0]}, which {base} does not hold"
        except TypeError:
            return f"no {base}, and netCDF wants a _FillValue of the type of the cells"
        # other formats take a boolean, as 0 or 1
        return f"no {base}, and netCDF wants a _FillValue of the type of the cells" if fill.dtype.kind == "b" else None
    if isinstance(dtype, VlenString | Char) or dtype == np.dtype("S1"):
        return None if isinstance(value, str) else "no text, and netCDF wants a _FillValue of the type of the cells"
    return None


def to_netcdf_spec(spec: ArraySpec, name: str, model: str) -> ArraySpec:
    """Return the array ``name`` as netCDF will give it back: named dimensions and types, typed attributes, and
    a fill value where netCDF has one (zero when none is given) and the variable is not one that is never filled, which
    netCDF-4 alone remembers."""
    regular = spec.evolve(
        dtype=to_netcdf_type(spec.dtype, name, model),
        dims=to_netcdf_dims(spec, model),
        attrs=to_netcdf_attrs(spec, model),
    )
    if regular.numpy_dtype.kind not in "biufS" or (is_never_filled(regular) and not is_netcdf3(model)):
        return regular
    layout = {key: value for key, value in regular.layout.items() if key != NO_FILL}
    return regular.evolve(fill_value=regular.fill_cell()[()], layout=layout)


def is_never_filled(spec: ArraySpec) -> bool:
    """Return True for a variable whose cells are undefined until they are written."""
    return NO_FILL in spec.layout and spec.fill_value is None


def type_name(dtype: DataType) -> str:
    """Return the name of a regular type in the file, empty for types that need none."""
    if isinstance(dtype, VlenBytes):
        return BYTES_TYPE_NAME
    return dtype.name if isinstance(dtype, Enum | Opaque | VlenArray | Compound) else ""


def named_type(kind: Extension, name: str) -> DataType:
    """Return a type of a group under the name that it has there."""
    match kind:
        case Enum() | Opaque() | VlenArray() | Compound():
            return to_netcdf_type(replace(kind, name=name), name)
    return kind


def _type_code(dtype: NumpyDType) -> str:
    return dtype.newbyteorder("=").str[1:]


# -- Chunks and filters of a new variable ------------------------------------------------------------------------------
# The arguments of createVariable, and the codecs that they amount to. HDF5 applies a checksum first, then the byte
# shuffle, then one compressor; netCDF knows no other order. The Blosc filter that comes with netCDF4 fails on chunks
# that do not get smaller, so what was in Blosc is written with zlib or zstd.

_COMPRESSORS = {"zlib": "zlib", "gzip": "zlib", "zstd": "zstd", "bz2": "bzip2"}
# Any checksum becomes HDF5's own; what HDF5 does by itself needs no filter.
_CHECKSUMS = frozenset({"fletcher32", "crc32c", "crc32", "adler32"})
_SERIALIZERS = frozenset({"bytes", "vlen-utf8", "vlen-array", "vlen-bytes"})
# The levels that the filters take; others are cut to these.
_LEVELS = {"zlib": (1, 9), "gzip": (1, 9), "bz2": (1, 9), "zstd": (1, 22)}


@dataclass(frozen=True, slots=True)
class Storage:
    """``chunks`` None: in one piece. ``compressor`` is one of netCDF's, under our name."""

    chunks: tuple[int, ...] | None
    checksum: bool = False
    shuffle: bool = False
    compressor: Codec | None = None

    def only_with(self, has_filter: Callable[[str], bool]) -> Storage:
        """Return the storage with ``zlib`` in the place of a compressor that the library has not."""
        if self.compressor is None or has_filter(self.compressor.name):
            return self
        return replace(self, compressor=_compressor("zlib", self.compressor.config["level"]))

    def arguments(self) -> dict[str, object]:
        """Return the keyword arguments of ``createVariable``."""
        if self.chunks is None:
            return {"contiguous": True}
        keywords: dict[str, Any] = {"chunksizes": self.chunks, "fletcher32": self.checksum}
        if self.compressor is None:
            return keywords
        name, level = _COMPRESSORS[self.compressor.name], self.compressor.config["level"]
        return keywords | {"compression": name, "complevel": level, "shuffle": self.shuffle}

    def codecs(self, itemsize: int) -> tuple[Codec, ...]:
        """Return the codecs that a reader of the file will find."""
        found = [Codec("fletcher32")] if self.checksum else []
        found += [Codec("shuffle", {"elementsize": itemsize})] if self.shuffle else []
        return (*found, self.compressor) if self.compressor is not None else tuple(found)


def plan_storage(spec: ArraySpec, unlimited: tuple[bool, ...]) -> Storage:
    """Return where the cells of ``spec`` go: chunks are cut to the length of limited dimensions; what lay in one piece
    does so again where it can. Unsupported names a codec that netCDF does not have."""
    chunks = tuple(
        cut if free else max(1, min(cut, length))
        for cut, length, free in zip(longest_chunk(spec.chunks), spec.shape, unlimited, strict=True)
    )
    checksum, shuffle, compressor = _plan_filters(spec)
    bare = compressor is None and not checksum and not any(unlimited)
    if not spec.shape or (bare and spec.layout.get("contiguous")):
        return Storage(None)
    return Storage(chunks, checksum, shuffle, compressor)


def _plan_filters(spec: ArraySpec) -> tuple[bool, bool, Codec | None]:
    checksum = shuffle = False
    compressor: Codec | None = None
    for codec in spec.codecs:
        if codec.name in _CHECKSUMS:
            checksum = True
        elif codec.name == "shuffle":
            shuffle = True
        elif codec.name in _COMPRESSORS:
            compressor = _compressor(codec.name, codec.config.get("level"))
        elif codec.name == "blosc":
            shuffle = codec.config.get("shuffle", 1) not in (0, "noshuffle")
            name = "zstd" if codec.config.get("cname") == "zstd" else "zlib"
            compressor = _compressor(name, codec.config.get("clevel"))
        elif codec.name == "hdf5_filter":
            compressor, shuffle = _compressor("zlib", None), True
        elif codec.name not in _SERIALIZERS:
            raise Unsupported(f"netCDF has no codec {codec.name!r}", remedy="use zlib, zstd, bz2 or fletcher32")
    if not is_fixed(spec.dtype) or is_h5py_only(spec.dtype):
        return False, False, None
    shuffled = shuffle and compressor is not None and compressor.name == "zlib"
    return checksum, shuffled, compressor


def _compressor(name: str, wish: object) -> Codec | None:
    """Return the compressor under netCDF's name for it, with a level that it takes; None for level 0 (store)."""
    level = wish if isinstance(wish, int) else 4
    if level == 0 and name != "zstd":
        return None
    low, high = _LEVELS[name]
    return Codec("zlib" if name == "gzip" else name, {"level": max(low, min(high, level or 3))})
