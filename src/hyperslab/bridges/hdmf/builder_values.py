"""Types, cells and attributes of builders as ours.

A type is what hdmf says of a dataset, else what its cells are. Attributes become plain JSON values and references that
need no mark of ours in a document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

import numpy as np
from hdmf.build import Builder, ReferenceBuilder
from hdmf.spec import DtypeSpec, RefSpec

from hyperslab.errors import Invalid, Unsupported
from hyperslab.model.dtypes import (
    DataType,
    ObjectRef,
    RegionRef,
    VlenBytes,
    VlenString,
    numpy_dtype,
    packed,
    tag_of,
    tagged,
)
from hyperslab.model.refs import ObjectReference, RegionReference

ReferenceMaker = Callable[[Any], ObjectReference | RegionReference | None]
"""Gives the reference that is stored for a builder."""

_TEXT, _BYTES = VlenString(), VlenBytes()
NAMES: dict[str, DataType] = {
    **{name: np.dtype(name) for name in ("float32", "float64", "int64", "int32", "int16", "int8", "bool")},
    **{name: np.dtype(name) for name in ("uint64", "uint32", "uint16", "uint8")},
    "float": np.dtype("f4"),
    "double": np.dtype("f8"),
    "long": np.dtype("i8"),
    "int": np.dtype("i4"),
    "short": np.dtype("i2"),
    "uint": np.dtype("u4"),
    "bool_": np.dtype("bool"),
    **dict.fromkeys(("text", "utf", "utf8", "utf-8"), _TEXT),
    **dict.fromkeys(("ascii", "str", "bytes", "string_", "isodatetime", "datetime"), _BYTES),
    **dict.fromkeys(("ref", "reference", "object"), ObjectRef()),
    "region": RegionRef(),
}
"""The words that a schema may have as ``dtype``, and those of peers."""


def parse_type(declared: Any) -> DataType | None:
    """Return our type for what hdmf says of a dataset's type; None where that leaves it to the cells."""
    match declared:
        case None:
            return None
        case list() | tuple():
            # A DtypeSpec is a dict, too.
            pairs = [(each["name"], each["dtype"]) for each in declared]
            return np.dtype([(name, _field(parse_type(dtype), name)) for name, dtype in pairs])
        case RefSpec():
            return NAMES[declared.reftype]
        case DtypeSpec():
            return parse_type(declared.dtype)
        case {"reftype": str(kind)}:
            return NAMES.get(kind)
        case str():
            return NAMES.get(declared)
        case _ if declared is str:
            return _TEXT
        case _ if declared is bytes:
            return _BYTES
        case _:
            return _of_numpy(np.dtype(declared))


def _of_numpy(dtype: np.dtype) -> DataType | None:
    if (kind := tag_of(dtype)) is not None:
        return kind
    if dtype.kind in "UT":
        return _TEXT
    if dtype.kind == "S":
        return _BYTES
    if dtype.names:
        fields: Any = dtype.fields
        return np.dtype([(name, _field(_of_numpy(fields[name][0]), name)) for name in dtype.names])
    if dtype.kind != "O":
        return dtype
    declared: Mapping[str, Any] = dtype.metadata or {}  # as h5py spells it
    if declared.get("vlen") in (str, bytes):
        return _TEXT if declared["vlen"] is str else _BYTES
    return None


def _field(dtype: DataType | None, name: str) -> np.dtype:
    if dtype is None:
        raise Unsupported(
            f"nothing says of which type the field {name!r} is", remedy="name a type of the schema language"
        )
    match dtype:
        case np.dtype():
            return dtype
        case VlenBytes():  # rows have no bytes of any length
            return tagged(np.dtype(object), _TEXT)
        case _:
            return tagged(np.dtype(object), dtype)


def infer_type(data: Any) -> DataType:
    """Infer the type of cells from the first one. Invalid where there is none, Unsupported for what is no cell."""
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype) and (known := _of_numpy(dtype)) is not None:
        return known
    cell = next(iterate_cells(data), None)
    match cell:
        case None:
            raise Invalid("cells of which neither a type nor one of them is known", remedy="give a NumPy array")
        case bytes():
            return _BYTES
        case str() | date():
            return _TEXT
        case RegionReference():
            return RegionRef()
        case Builder() | ReferenceBuilder() | ObjectReference():
            return ObjectRef()
    found = np.asarray(data)
    if found.dtype.hasobject:
        raise Unsupported(f"cells of the type {type(cell).__name__}", remedy="give numbers, text or references")
    return packed(found.dtype)


def iterate_cells(data: Any) -> Iterator[Any]:
    """Yield the cells of an array or of nested lists, in order; builders, which are mappings, are cells."""
    match data:
        case np.ndarray():
            yield from data.flat
        case str() | bytes() | dict():
            yield data
        case _ if not (hasattr(data, "__len__") or hasattr(data, "__iter__")):
            yield data
        case _ if getattr(data, "shape", None) == ():
            yield data[()]
        case _:
            for each in data:
                yield from iterate_cells(each)


def as_cells(data: Any, dtype: DataType, refer: ReferenceMaker) -> np.ndarray:
    """Return the data as an array of the type's cells. Invalid for nested lists of different lengths."""
    match dtype:
        case ObjectRef() | RegionRef():
            return _each(_objects(data), refer)
        case VlenString():
            return _texts(data)
        case VlenBytes():
            return _each(_objects(data), _bytes)
        case np.dtype() if dtype.hasobject:
            return _rows(data, dtype, refer)
        case _:
            return _numbers(data, numpy_dtype(dtype))


def _numbers(data: Any, dtype: np.dtype) -> np.ndarray:
    try:
        if dtype.names is not None and not hasattr(data, "dtype"):
            data = [tuple(row) for row in data]
        return np.asarray(data, dtype)
    except ValueError as error:
        raise Invalid(f"cells that are no array of {dtype}: {error}", remedy="give lists of one length") from error


def _texts(data: Any) -> np.ndarray:
    if isinstance(data, np.ndarray) and data.dtype.kind in "UT":
        return data.astype(np.dtypes.StringDType())
    return _each(_objects(data), _text).astype(np.dtypes.StringDType())


def _text(cell: Any) -> str:
    match cell:
        case str():
            return cell
        case bytes():
            return cell.decode("utf-8")
        case date():
            return cell.isoformat()
    raise Unsupported(f"a {type(cell).__name__} among cells of text", remedy="give text")


def _bytes(cell: Any) -> bytes:
    return bytes(cell) if isinstance(cell, bytes) else _text(cell).encode("utf-8")


def _objects(data: Any) -> np.ndarray:
    """Return the cells as objects: mappings, which builders are, stay whole, and so do references."""
    if isinstance(data, np.ndarray):
        return data.astype(object)
    shape = _shape(data)
    found = np.empty(shape, object)
    flat = found.reshape(-1)
    place = -1
    for place, cell in enumerate(iterate_cells(data)):
        if place == flat.size:
            break
        flat[place] = cell
    if place + 1 != flat.size:
        raise Invalid("nested lists of different lengths", remedy="give lists of one length, or an index column")
    return found


def _shape(data: Any) -> tuple[int, ...]:
    if (shape := getattr(data, "shape", None)) is not None:
        return tuple(shape)
    if isinstance(data, str | bytes | dict) or not hasattr(data, "__len__"):
        return ()
    return (len(data), *(_shape(data[0]) if len(data) else ()))


def _each(found: np.ndarray, change: Callable[[Any], Any]) -> np.ndarray:
    result = np.empty(found.shape, object)
    flat = result.reshape(-1)
    for place, cell in enumerate(found.reshape(-1)):
        flat[place] = None if cell is None else change(cell)
    return result


def _rows(data: Any, dtype: np.dtype, refer: ReferenceMaker) -> np.ndarray:
    """Return rows with text and references among their fields."""
    fields: Any = dtype.fields
    changes = [_change(tag_of(fields[name][0]), refer) for name in dtype.names or ()]
    scalar = isinstance(data, np.void | tuple) or getattr(data, "shape", None) == ()
    rows = [data[()] if isinstance(data, np.ndarray) else data] if scalar else list(data)
    result = np.empty(len(rows), dtype)
    for place, row in enumerate(rows):
        result[place] = tuple(change(cell) for change, cell in zip(changes, row, strict=True))
    return result.reshape(()) if scalar else result


def _change(kind: Any, refer: ReferenceMaker) -> Callable[[Any], Any]:
    match kind:
        case None:
            return lambda cell: cell
        case VlenString():
            return _text
        case _:
            return lambda cell: None if cell is None else refer(cell)


# -- attributes --------------------------------------------------------------------------------------------------------


def plain_attributes(attributes: Mapping[str, Any], refer: ReferenceMaker) -> dict[str, Any]:
    """Return the attributes of a builder as they are stored. Unsupported names the one that JSON cannot hold."""
    found = {}
    for name, value in attributes.items():
        try:
            found[name] = _plain(value, refer)
        except TypeError:
            remedy = "give numbers, text, lists of these, or a reference"
            message = f"attribute {name!r} is a {type(value).__name__}, which JSON cannot hold"
            raise Unsupported(message, remedy=remedy) from None
    return found


def _plain(value: Any, refer: ReferenceMaker) -> Any:
    match value:
        case np.ndarray() | np.generic():
            return _plain(value.tolist(), refer)
        case bool() | int() | float() | None:
            return value
        case str():
            return str(value)
        case bytes():
            return value.decode("utf-8")
        case Builder() | ReferenceBuilder() | ObjectReference() | RegionReference():
            return refer(value)
        case list() | tuple() | set() | frozenset():
            return [_plain(each, refer) for each in value]
        case dict():
            return {str(key): _plain(each, refer) for key, each in value.items()}
        case date():
            return value.isoformat()
    if type(value).__name__ == "Empty":  # h5py's word for no value
        return "" if value.dtype.kind in "OSU" else None
    raise TypeError(type(value))
