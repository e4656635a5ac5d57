"""The plan of a put: an xarray object as the documents it will be.

Whatever cannot be stored is refused here, before the first write.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from importlib import import_module
from math import isnan
from typing import Any, Literal

import bson
import numpy as np
import xarray as xr
from bson import ObjectId
from bson.errors import BSONError
from xarray.indexes import PandasMultiIndex

from hyperslab.array.lazy_cells import is_any_sparse, is_dask_array, is_sparse
from hyperslab.bridges import pint, sparse
from hyperslab.errors import Invalid, Unsupported, WrongType
from hyperslab.formats.mongo.bson_values import (
    MAX_DOCUMENT_BYTES,
    Document,
    MutableDocument,
    Sizes,
    check_document,
    check_levels,
    dtype_to_text,
    parse_byte_options,
    subdocument,
    to_little_endian,
)
from hyperslab.formats.mongo.chunk_documents import DENSE, SPARSE, DerivedIds, IdScheme, SaltedIds, encode_coo
from hyperslab.formats.mongo.document import ARRAY, DERIVED, Meta, Variable, choose_embedded, embed_cells, render_object
from hyperslab.formats.mongo.indexes import Index, parse_search_index
from hyperslab.formats.mongo.to_spec import variable_extension
from hyperslab.model.amounts import parse_retention
from hyperslab.model.coo import Coo, Numbers

# -- options ----------------------------------------------------------------------------------------------------------
# What a caller chooses of how objects are stored, and what a layout chooses of the rest.


Layout = Literal["compatible", "extended"]
ChunkIds = Literal["objectid", "derived"]
Commit = Literal["meta_first", "meta_last"]
Positional = Literal[False, True, "unique"]

COMPATIBLE: Mapping[str, Any] = {
    "chunk_size_bytes": 255 * 1024,
    "embed_threshold_bytes": 255 * 1024,
    "chunk_ids": "objectid",
    "positional_index": False,
    "verify": False,
    "read_index": True,
    "search_index": True,
    "commit": "meta_first",
}
_LAYOUTS: Mapping[str, Mapping[str, Any]] = {
    "compatible": COMPATIBLE,
    "extended": {
        **COMPATIBLE,
        "chunk_size_bytes": 1024 * 1024 - 1024,
        "chunk_ids": "derived",
        "positional_index": "unique",
        "verify": True,
        "commit": "meta_last",
    },
}
_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "chunk_ids": ("objectid", "derived"),
    "positional_index": (False, True, "unique"),
    "verify": (False, True),
    "read_index": (False, True),
    "commit": ("meta_first", "meta_last"),
    "durable": (False, True),
    "densify": (False, True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOptions:
    """The choices of a caller and, where there is none, of the layout."""

    chunk_size_bytes: int
    embed_threshold_bytes: int
    chunk_ids: ChunkIds
    positional_index: Positional
    verify: bool
    read_index: bool
    search_index: tuple[Index, ...]
    commit: Commit
    durable: bool = True
    densify: bool = False
    keep_versions: float | None = None
    """Seconds for which an object whose place another one takes is kept as an older version; -1: for ever."""

    @classmethod
    def of(cls, layout: str, **options: Any) -> PutOptions:
        """Return the choices of a layout but for the ``options`` that are not None. Invalid for an unknown one."""
        if layout not in _LAYOUTS:
            raise Invalid(f"layout={layout!r}", remedy=f"it is one of {', '.join(_LAYOUTS)}")
        chosen = {**_LAYOUTS[layout], **{name: value for name, value in options.items() if value is not None}}
        for name, choices in _CHOICES.items():
            if name in chosen and not any(chosen[name] is one or chosen[name] == one for one in choices):
                raise Invalid(f"{name}={chosen[name]!r}", remedy=f"it is one of {', '.join(map(repr, choices))}")
        sizes = "chunk_size_bytes", "embed_threshold_bytes"
        chosen |= zip(sizes, parse_byte_options(*(chosen[name] for name in sizes)), strict=True)
        chosen["keep_versions"] = parse_retention(chosen.get("keep_versions"))
        return cls(**{**chosen, "search_index": parse_search_index(chosen["search_index"])})


def options_for(meta: Meta, options: PutOptions) -> PutOptions:
    """Return the options by which new cells of an object are stored, so that they lie as those that it has."""
    ids = DERIVED if meta.has_derived_ids else options.chunk_ids
    size = meta.chunk_size or options.chunk_size_bytes  # 0: its document says none
    return replace(options, chunk_size_bytes=size, embed_threshold_bytes=0, chunk_ids=ids)


# -- names and attributes as BSON has them ----------------------------------------------------------------------------


_ATTR_REMEDY = (
    "store numbers, text, true and false, datetimes (datetime.datetime), bytes, lists and mappings of them, or None"
)
_DATES_REMEDY = "store it as text (isoformat() or str()), or a date as the datetime.datetime at its midnight"


def plain_attrs(attrs: Mapping[Hashable, Any], owner: str) -> MutableDocument:
    """Return the attributes of ``owner`` as they are stored; Unsupported names the one that cannot be.

    NumPy's scalars become Python's, its arrays of one dimension lists, tuples lists.
    """
    stored: MutableDocument = {}
    for name, value in attrs.items():
        what = f"attribute {name!r} of {owner}"
        check_levels(what, value)
        stored[_key(name, owner)] = plain = _plain(value, what)
        try:
            bson.encode({"value": plain})
        except (BSONError, OverflowError, TypeError, ValueError, RecursionError) as error:
            remedy = _DATES_REMEDY if _holds_date(value) else _ATTR_REMEDY
            raise Unsupported(f"{what} is {_describe(value)}, which BSON has no type for", remedy=remedy) from error
    return stored


def _key(name: Hashable, owner: str) -> str:
    if not _is_key(name):
        remedy = "names of attributes are text without NUL"
        raise Unsupported(f"{owner} has an attribute with the name {name!r}", remedy=remedy)
    return str(name)


def _holds_date(value: object) -> bool:
    if isinstance(value, Mapping | list | tuple):
        return any(map(_holds_date, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, date | time | timedelta) and not isinstance(value, datetime)


def _describe(value: object) -> str:
    return f"a {type(value).__name__}: {str(value)[:60]}"


def _plain(value: object, what: str) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in "bifuUS" or value.ndim > 1 or value.dtype == np.longdouble:
            raise Unsupported(f"{what} is {_describe(value)}, of type {value.dtype}", remedy=_ATTR_REMEDY)
        return value.tolist()
    if isinstance(value, Mapping):
        return {_key(name, what): _plain(inner, what) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, what) for inner in value]
    return value


def variable_name(name: Hashable) -> str:
    """Return a variable's name. Invalid for what is no text, or cannot be a key of a document."""
    if not _is_key(name):
        raise Invalid(f"a variable with the name {name!r}", remedy="names of variables are text without NUL")
    return str(name)


def _is_key(name: object) -> bool:
    return isinstance(name, str) and "\0" not in name and _is_name(name)


def _is_name(name: object) -> bool:
    """Return True if an object or a dimension can have the name: text or a number, which comes back as it was."""
    match name:
        case str():
            try:
                name.encode()
            except UnicodeEncodeError:
                return False
            return True
        case int() | np.integer():
            return -(1 << 63) <= int(name) < 1 << 63
        case _:
            return isinstance(name, float)


def _native(name: object) -> Any:
    return name.item() if isinstance(name, np.generic) else name


# -- cells: NumPy's, sparse ones, or a dask array of either, with units set aside -------------------------------------


_ARRAY_REMEDY = "store arrays of NumPy, dask or sparse, or Quantities of them"


def block_cells(values: Any, name: str) -> Numbers | Coo:
    """Return an array, or a block of dask, as it is stored. Unsupported."""
    if is_sparse(values):
        return sparse.to_coo(values)
    if isinstance(values, np.ndarray | np.generic):
        return np.asarray(values)
    raise Unsupported(f"variable {name!r} is an array of {type(values).__module__}", remedy=_ARRAY_REMEDY)


def stored_size(cells: Numbers | Coo) -> int:
    """Return the bytes that they take in documents."""
    if isinstance(cells, Coo):
        _, data, places, _ = encode_coo(cells)
        return len(data) + len(places)
    return cells.nbytes


# -- cells of pandas' types, as cells of NumPy's that documents hold, and back -----------------------------------------
# Text of any length is stored as long as the longest, times with a zone as those of UTC, categories as their values.
# What it takes to have zones and categories back stands in ``pandas`` of what the field ``hyperslab`` says of the
# variable; others read the plain cells.


pd: Any = import_module("pandas")  # which comes with xarray, and without types
PANDAS_FIELD = "pandas"
_MISSING_REMEDY = "fill what is missing first: fillna()"


def as_numpy(name: str, variable: xr.Variable) -> tuple[xr.Variable, dict[str, Any] | None]:
    """Return the variable with cells of NumPy's, and the field ``pandas`` of it; None where it needs none.

    Unsupported for text or categories of which some are missing, and for zones and categories that have no name.
    """
    dtype, declared = variable.dtype, None
    if isinstance(dtype, pd.DatetimeTZDtype):
        zone = str(dtype.tz)
        try:
            is_known = pd.DatetimeTZDtype(dtype.unit, zone) == dtype
        except (TypeError, ValueError, KeyError):
            is_known = False
        if not is_known:
            message = f"variable {name!r} has the time zone {zone!r}, which has no name"
            raise Unsupported(message, remedy="tz_convert('UTC')")
        cells, declared = variable.data.tz_convert("UTC").tz_localize(None).to_numpy(), {"timezone": zone}
    elif isinstance(dtype, pd.CategoricalDtype):
        cells, declared = _category_values(name, variable.data, dtype)
    elif isinstance(dtype, np.dtype) and dtype.kind in "OT" and not is_dask_array(variable.data):
        cells = variable.values
    else:
        return variable, None
    if cells.dtype.kind in "OT":
        cells = _fixed_length(name, cells)
    return xr.Variable(variable.dims, cells, variable.attrs), declared


def _category_values(name: str, cells: Any, dtype: Any) -> tuple[Any, dict[str, Any]]:
    categories = dtype.categories.to_numpy()
    listed = categories.tolist()
    if not all(type(each) in (str, int, float, bool) for each in listed):
        remedy = "astype() it to the type of its categories"
        raise Unsupported(f"variable {name!r} has categories that are no text and no numbers", remedy=remedy)
    codes = np.asarray(cells.codes)
    if (codes < 0).any():
        raise Unsupported(f"variable {name!r} has missing categories", remedy=_MISSING_REMEDY)
    plain = categories if len(listed) else np.zeros(0, "U1")
    return plain[codes], {"categories": listed, "ordered": bool(dtype.ordered)}


def _fixed_length(name: str, cells: object) -> Any:
    """Return text as long as the longest; other objects stay, and are refused as such."""
    plain = np.asarray(cells, object)
    is_text = [isinstance(each, str) for each in plain.flat]
    if all(is_text):
        return plain.astype("U")
    others = [each for each, is_one in zip(plain.flat, is_text, strict=True) if not is_one]
    if any(is_text) and all(each is None or each is pd.NA or each != each for each in others):
        raise Unsupported(f"variable {name!r} has missing text", remedy=_MISSING_REMEDY)
    return cells


def pandas_description(meta: Meta, name: str) -> Mapping[str, Any]:
    """Return the field ``pandas`` of a variable, empty where it has none."""
    return subdocument(variable_extension(meta, name), PANDAS_FIELD)


def as_pandas(cells: object, declared: Mapping[str, Any]) -> Any:
    """Return the cells in the type that they had. Values that are no category, as others may have stored them, become
    one."""
    if not isinstance(cells, np.ndarray) or cells.ndim != 1:
        return cells
    if isinstance(zone := declared.get("timezone"), str) and cells.dtype.kind == "M":
        return pd.DatetimeIndex(cells).tz_localize("UTC").tz_convert(zone)  # an array of them would become objects
    if isinstance(categories := declared.get("categories"), list):
        known = dict.fromkeys([*categories, *cells.tolist()])
        return pd.Categorical(cells.tolist(), categories=pd.Index([*known]), ordered=bool(declared.get("ordered")))
    return cells


# -- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PutPlan:
    """The document of an object, the cells that are stored whole, and dask arrays, whose blocks are; ``ids`` of all."""

    meta: Meta
    whole: Mapping[str, Numbers | Coo]
    lazy: Document
    ids: IdScheme

    @property
    def cells(self) -> MutableDocument:
        """The cells of all variables."""
        inside = {name: variable.embedded for name, variable in self.meta.variables.items() if variable.embedded}
        embedded = {name: each.coo() if each.sparse else each.block() for name, each in inside.items()}
        return {**embedded, **self.whole, **self.lazy}


def plan_put(x: Any, options: PutOptions, *, name: Any = None, id: ObjectId | None = None) -> PutPlan:
    """Return the plan for a Dataset or DataArray. WrongType for anything else; Unsupported and Invalid name the
    variable.
    """
    coords, data_vars, attrs = _names_and_attrs(x)
    variables: dict[str, Variable] = {}
    cells: MutableDocument = {}
    pandas_types: MutableDocument = {}
    # In the order of the object: that of a DataArray are its coordinates and then its data.
    is_array = isinstance(x, xr.DataArray)
    sources = {**{name: x.coords[name].variable for name in coords}, ARRAY: x.variable} if is_array else x.variables
    for label, source in sources.items():
        key = str(label)
        variable, declared = as_numpy(key, source)
        variables[key], cells[key] = _variable(key, variable, densify=options.densify)
        pandas_types |= {} if declared is None else {key: {PANDAS_FIELD: declared}}
    whole = {key: value for key, value in cells.items() if not is_dask_array(value)}
    inside = choose_embedded({key: stored_size(value) for key, value in whole.items()}, options.embed_threshold_bytes)
    variables |= {key: replace(variables[key], embedded=embed_cells(key, whole[key])) for key in inside}
    called = x.name if name is None and is_array else name
    if called is not None and not _is_name(called):
        raise Invalid(f"an object with the name {called!r}", remedy="give text or a number: rename()")
    meta = Meta(
        id=id or ObjectId(),
        coords={key: variables[key] for key in coords},
        data_vars={key: variables[key] for key in data_vars},
        chunk_size=options.chunk_size_bytes,
        attrs=plain_attrs(attrs, "the object"),
        name=_native(called),
        extension={"variables": pandas_types} if pandas_types else {},
    )
    outside = {key: value for key, value in whole.items() if key not in inside}
    _check_sizes(meta, options.chunk_size_bytes, outside)
    ids = DerivedIds(meta.id) if options.chunk_ids == "derived" else SaltedIds()
    return PutPlan(meta, outside, {key: value for key, value in cells.items() if key not in whole}, ids)


def _names_and_attrs(x: object) -> tuple[list[str], list[str], Mapping[Any, Any]]:
    """Return names of coordinates and of data, and attributes of the object."""
    if isinstance(x, xr.DataArray):
        coords, data_vars = [variable_name(name) for name in x.coords], [ARRAY]
        if ARRAY in coords:
            raise Invalid(f"a coordinate with the name {ARRAY!r}", remedy="rename it: the data is stored by that name")
    elif isinstance(x, xr.Dataset):
        coords, data_vars = [[variable_name(name) for name in part] for part in (x.coords, x.data_vars)]
        if data_vars == [ARRAY]:
            remedy = "rename it, or store the DataArray: what has this name alone comes back as one"
            raise Invalid(f"the only data variable has the name {ARRAY!r}", remedy=remedy)
    else:
        raise WrongType(f"a {type(x).__name__} cannot be stored", remedy="give a Dataset or a DataArray")
    for name, index in x.xindexes.items():
        if isinstance(index, PandasMultiIndex):
            raise Unsupported(f"{name!r} is a MultiIndex", remedy=f"store its levels: reset_index({name!r})")
    return coords, data_vars, x.attrs


def _variable(name: str, variable: xr.Variable, *, densify: bool) -> tuple[Variable, Any]:
    """Return the entry of a variable, and its cells without units; a dask array stays one.

    Unsupported for cells that have no bytes of their own, or fields, and for arrays of other libraries.
    """
    if not isinstance(variable.dtype, np.dtype):
        raise Unsupported(f"variable {name!r} is of the pandas dtype {variable.dtype}", remedy="astype() it to NumPy's")
    cells, units = pint.plain(variable.data)
    dtype_to_text(cells.dtype, name)
    is_lazy = is_dask_array(cells)
    if is_lazy and pint.is_quantity(cells._meta):
        remedy = "make it a Quantity of a dask array: Quantity(array.map_blocks(lambda block: block.m), units)"
        raise Unsupported(f"variable {name!r} is a dask array of Quantities", remedy=remedy)
    if densify:
        cells = sparse.densified(cells)
    is_listed = is_any_sparse(cells)
    fill = to_little_endian(sparse.fill_of(cells)).tobytes() if is_listed else None
    chunks = tuple(map(_sizes, cells.chunks)) if is_lazy else None
    cells = cells if is_lazy else block_cells(cells, name)
    for dim in variable.dims:
        if not _is_name(dim):
            raise Invalid(f"{name!r} has a dimension with the name {dim!r}", remedy="give text or numbers")
    declared = Variable(
        dims=tuple(map(_native, variable.dims)),
        dtype=cells.dtype.newbyteorder("<"),
        shape=_sizes(cells.shape),
        chunks=chunks,
        sparse=is_listed,
        attrs={} if name == ARRAY else plain_attrs(variable.attrs, f"variable {name!r}"),
        units=units,
        fill=fill,
    )
    return declared, cells


def _sizes(sizes: Any) -> Sizes:
    return tuple(None if isnan(size) else int(size) for size in sizes)


# -- sizes of documents -----------------------------------------------------------------------------------------------


def _check_sizes(meta: Meta, chunk_size: int, whole: Mapping[str, Numbers | Coo]) -> None:
    """Raise Unsupported or Invalid where a document would be none that a server takes."""
    check_document(render_object(meta))
    for name, variable in meta.variables.items():
        if variable.embedded is None:
            most = min(chunk_size, stored_size(whole[name])) if name in whole else chunk_size
            if (size := _largest_document(name, variable, most)) > MAX_DOCUMENT_BYTES:
                message = f"a document of {name!r} would have {size} bytes, and may have {MAX_DOCUMENT_BYTES}"
                raise Invalid(message, remedy=f"chunk_size_bytes={chunk_size} is too much: take less")


def _largest_document(name: str, variable: Variable, payload: int) -> int:
    """Return the bytes of a document of this variable that holds ``payload`` bytes of cells."""
    unknown = 1 << 62
    doc: MutableDocument = {
        "_id": ObjectId(),
        "meta_id": ObjectId(),
        "name": name,
        "chunk": None if variable.chunks is None else [unknown] * len(variable.chunks),
        "n": 1 << 31,
        "dtype": dtype_to_text(variable.dtype, name),
        "shape": [unknown if size is None else size for size in variable.shape],
        "type": SPARSE if variable.sparse else DENSE,
    }
    if variable.sparse:
        doc |= {"nnz": unknown, "fill_value": variable.fill or b"", "sparse_data": b"", "sparse_coords": b""}
    else:
        doc["data"] = b""
    return len(bson.encode(doc)) + payload
