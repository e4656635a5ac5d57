"""Zarr v3's ``data_type`` and ``fill_value``: core names, zarr-python's extensions, structures, ml_dtypes.

In memory cells are in the machine's byte order; how they are stored is the codec ``bytes``' affair.
https://github.com/zarr-developers/zarr-extensions/tree/main/data-types
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hyperslab.errors import MissingLibrary, Unsupported
from hyperslab.formats.documents import JsonObject
from hyperslab.formats.metadata_json.cells import (
    base64_to_bytes,
    bytes_to_base64,
    cell_from_bits,
    float_from_json,
    int_from_json,
    number_from_json,
    number_to_json,
    raw_cell,
)
from hyperslab.formats.metadata_json.dtypes import LARGEST
from hyperslab.model.cells import float_to_json
from hyperslab.model.dtypes import (
    SMALL,
    DataType,
    NumpyDType,
    VlenArray,
    VlenBytes,
    VlenString,
    describe,
    numpy_dtype,
    small,
)
from hyperslab.model.schemas.attributes import is_extended, reads_extended

CORE = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
_CORE_TYPES = {name: np.dtype(name) for name in CORE}


_VARIABLE: dict[str, DataType] = {
    "string": VlenString(),
    "variable_length_bytes": VlenBytes(),
    "bytes": VlenBytes(),
}

_UNITS = ("generic", "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
_RAW = re.compile(r"r([1-9]\d{0,9})")
_SIZED = {"null_terminated_bytes": ("S", 1), "raw_bytes": ("V", 1), "fixed_length_utf32": ("U", 4)}
_TIMES = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
STRUCT, STRUCTURED = "struct", "structured"
"""Two spellings of rows. zarr-python 3.1 knows the second, older one alone; 3.4, which writes the first, reads both."""
# a bound on recursion: structures may lie in one another as deep as JSON goes
_DEPTH = 16


def read_dtype(value: object, depth: int = 0) -> DataType:
    """Return the type of a ``data_type``: a name, or an object with ``name`` and ``configuration``. TypeError says what
    is wrong with it, or which extra it needs."""
    match value:
        case str() as name:
            config: JsonObject = {}
        case {"name": str() as name, "configuration": dict() as config}:
            pass
        case {"name": str() as name, **rest} if "configuration" not in rest:
            config = {}
        case _:
            raise TypeError(f"{value!r} is no data_type: a name, or an object with name and configuration")
    if name in _CORE_TYPES:
        return _CORE_TYPES[name]
    if name in _VARIABLE:
        return _VARIABLE[name]
    if name in SMALL:
        try:
            return small(name)
        except MissingLibrary as error:
            raise TypeError(f"data_type {error.said}; {error.remedy}") from None
    return _read_parametrized(name, config, depth)


def _read_parametrized(name: str, config: JsonObject, depth: int) -> NumpyDType:
    """Return a type whose size, unit or fields its configuration (of ``r16`` the name) says."""
    if match := _RAW.fullmatch(name):
        bits = int(match[1])
        if bits % 8 or bits // 8 > LARGEST:
            raise TypeError(f"data_type 'r{bits}' is no whole number of bytes, or too large")
        return np.dtype(f"V{bits // 8}")
    if name in _SIZED:
        kind, unit = _SIZED[name]
        size = config.get("length_bytes")
        if type(size) is not int or not 0 < size <= LARGEST or size % unit:
            raise TypeError(f"data_type {name!r} has length_bytes {size!r}")
        return np.dtype(f"{kind}{size // unit}")
    if name in _TIMES:
        step, factor = config.get("unit"), config.get("scale_factor", 1)
        if step not in _UNITS or type(factor) is not int or not 0 < factor < 2**31:
            raise TypeError(f"data_type {name!r} has unit {step!r} and scale_factor {factor!r}")
        return np.dtype(_TIMES[name] if step == "generic" else f"{_TIMES[name]}[{factor}{step}]")
    if name in (STRUCT, STRUCTURED):
        return _read_structure(config.get("fields"), depth)
    raise TypeError(f"data_type {name!r} is not known")


def _read_structure(value: object, depth: int) -> NumpyDType:
    if not isinstance(value, list) or not value or depth > _DEPTH:
        raise TypeError(f"a structure with the fields {value!r}")
    fields = []
    for field in value:
        match field:
            case {"name": str(name), "data_type": inner} | [str(name), inner]:
                dtype = read_dtype(inner, depth + 1)
            case _:
                raise TypeError(f"{field!r} is no field of a structure")
        if not isinstance(dtype, np.dtype):
            raise TypeError(f"field {name!r} has cells of any length")
        fields.append((name, dtype))
    names = [name for name, _ in fields]
    if "" in names or len(set(names)) < len(names):
        raise TypeError(f"field names {names} are empty or occur twice")
    return np.dtype(fields)


def write_dtype(dtype: DataType, structure: str = STRUCTURED) -> object:
    """Return the ``data_type`` of a type, of rows in one of the two spellings; Unsupported when Zarr v3 has none."""
    match dtype:
        case VlenString():
            return "string"
        case VlenBytes() | VlenArray():
            return "variable_length_bytes"
        case _:
            value = _name_of(numpy_dtype(dtype), structure)
    if value is None:
        raise Unsupported(
            f"format zarr3 has no cells of type {describe(dtype)}", remedy="use another format, or convert the cells"
        )
    return value


def _name_of(dtype: NumpyDType, structure: str) -> object:
    if is_small(dtype) or dtype.name in CORE:
        return dtype.name
    if dtype.names is not None and dtype.fields is not None:
        pairs = [(name, _name_of(dtype.fields[name][0], structure)) for name in dtype.names]
        if any(inner is None for _, inner in pairs):
            return None
        fields = [[*pair] if structure == STRUCTURED else {"name": pair[0], "data_type": pair[1]} for pair in pairs]
        return {"name": structure, "configuration": {"fields": fields}}
    if dtype.subdtype is not None or not dtype.itemsize:
        return None
    if dtype.kind in "mM":
        unit, factor = np.datetime_data(dtype)
        name = "numpy.datetime64" if dtype.kind == "M" else "numpy.timedelta64"
        return {"name": name, "configuration": {"unit": unit, "scale_factor": factor}}
    kind = "V" if is_raw(dtype) else dtype.kind
    known = next((name for name, (code, _) in _SIZED.items() if code == kind), None)
    return None if known is None else {"name": known, "configuration": {"length_bytes": dtype.itemsize}}


def is_small(dtype: NumpyDType) -> bool:
    """Return True for the types of ml_dtypes."""
    return dtype.type.__module__.startswith("ml_dtypes") and dtype.name in SMALL


def is_raw(dtype: DataType) -> bool:
    """Return True for cells that are stored as bytes without a meaning: floats of 80 bits, of which the mark tells."""
    return isinstance(dtype, np.dtype) and dtype.isnative and is_extended(dtype) and reads_extended()


def has_byte_order(dtype: DataType) -> bool:
    """Return True for cells that are stored in a byte order: numbers, times and text of more than a byte."""
    if not isinstance(dtype, np.dtype):
        return False
    return (dtype.kind in "iufcmMU" and not is_raw(dtype) and dtype.itemsize > 1) or dtype.name == "bfloat16"


# -- fill_value -------------------------------------------------------------------------------------------------------
# Read strictly, for it is what every unwritten cell reads as.


def read_fill(value: object, dtype: DataType) -> object:
    """Return the fill value as a cell; TypeError or OverflowError when it does not fit the type."""
    match dtype:
        case VlenString():
            if not isinstance(value, str):
                raise TypeError(f"{value!r} is no text")
            return value
        case VlenBytes():
            return _bytes(value)
        case VlenArray(base=base):
            raw = _bytes(value)
            if len(raw) % base.itemsize:
                raise TypeError(f"{value!r} is no whole number of cells")
            return np.frombuffer(raw, base)
        case _:
            return _read_cell(value, numpy_dtype(dtype))


def _bytes(value: object) -> bytes:
    """Return the bytes of base64, or of a list of numbers from 0 to 255."""
    if isinstance(value, list) and all(type(n) is int and 0 <= n < 256 for n in value):
        return bytes(value)
    return base64_to_bytes(value)


def _read_cell(value: object, dtype: NumpyDType) -> object:
    if is_small(dtype):
        return _read_small(value, dtype)
    if dtype.names is not None and dtype.fields is not None:
        return _read_struct(value, dtype)
    if is_raw(dtype):
        return raw_cell(_bytes(value), dtype)
    match dtype.kind:
        case "U":
            if not isinstance(value, str) or len(value) > dtype.itemsize // 4:
                raise TypeError(f"{value!r} is no text of at most {dtype.itemsize // 4} characters")
            return np.str_(value)
        case "S":
            raw = _bytes(value)
            if len(raw) > dtype.itemsize:
                raise TypeError(f"{value!r} is longer than {dtype.itemsize} bytes")
            return np.bytes_(raw)
        case "V":
            return raw_cell(_bytes(value), dtype)
        case _:
            return number_from_json(value, dtype)


def _read_struct(value: object, dtype: NumpyDType) -> Any:
    """Return an object of fields, or base64 of the little-endian cell (the older spelling)."""
    if isinstance(value, str):
        return raw_cell(_bytes(value), dtype.newbyteorder("<")).astype(dtype)
    names = dtype.names or ()
    if not isinstance(value, dict) or set(value) != set(names):
        raise TypeError(f"{value!r} is no object with the fields {list(names)}")
    cell = np.zeros((), dtype)
    for name in names:
        cell[name] = _read_cell(value[name], cell.dtype[name])
    return cell[()]


def _read_small(value: object, dtype: NumpyDType) -> object:
    if isinstance(value, str) and value.startswith("0x"):
        return cell_from_bits(value[2:], dtype)
    if "int" in dtype.name:
        number: float = int_from_json(value)
    else:
        number = float_from_json(value)
    cell = dtype.type(number)
    if ("int" in dtype.name and int(cell) != number) or (number != number and cell == cell):
        raise OverflowError(f"{value!r} is no {dtype.name}")
    return cell


def write_fill(value: Any, dtype: DataType, data_type: object) -> object:
    """Return the JSON of a fill value of cells whose ``data_type`` is spelled so."""
    match data_type:
        case {"name": name} if name == STRUCTURED:
            cell = np.asarray(value, numpy_dtype(dtype))
            return bytes_to_base64(cell.astype(cell.dtype.newbyteorder("<")).tobytes())
    match dtype:
        case VlenString():
            return str(value)
        case VlenBytes():
            return bytes_to_base64(bytes(value))
        case VlenArray(base=base):
            return bytes_to_base64(np.asarray(value, base.newbyteorder("<")).tobytes())
        case _:
            return _write_cell(value, numpy_dtype(dtype))


def _write_cell(value: Any, dtype: NumpyDType) -> object:
    if is_small(dtype) and "int" in dtype.name:
        return int(value)
    if is_small(dtype):
        number, raw = float(value), np.asarray(value).tobytes()
        if number != number and raw != np.asarray(dtype.type(np.nan)).tobytes():
            return f"0x{raw[::-1].hex()}"
        return float_to_json(number)
    if dtype.names is not None:
        return {name: _write_cell(value[name], dtype[name]) for name in dtype.names}
    if is_raw(dtype):
        # floats of 80 bits in 16 bytes: zeros where there is only padding, so that equal values have equal bytes
        raw_cells = np.array([value], dtype).view(np.uint8).reshape(-1, 16)
        raw_cells[:, 10:] = 0
        return bytes_to_base64(raw_cells.tobytes())
    match dtype.kind:
        case "U":
            return str(value)
        case "S":
            return bytes_to_base64(bytes(value))
        case "V":
            return bytes_to_base64(np.asarray(value).tobytes())
        case _:
            return number_to_json(value, bits=True)
