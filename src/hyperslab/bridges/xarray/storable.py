"""Find what no format can hold before anything is written: Invalid names the variable and what to do; the model's data
types as xarray's, and back: text and bytes of any length are objects of a marked dtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.errors import Invalid
from hyperslab.model.dtypes import DataType, Enum, ObjectRef, RegionRef, VlenBytes, VlenString, numpy_dtype
from hyperslab.model.guessing import meant

_REMEDIES = {
    "CategoricalDtype": "astype(str) it, or store its codes with the attributes flag_values and flag_meanings",
    "DatetimeTZDtype": "store times in UTC: tz_convert('UTC').tz_localize(None), and the zone as an attribute",
    "PeriodDtype": "store to_timestamp() of it",
    "IntervalDtype": "store its left and right ends as two variables",
}
_BYTES = np.dtype("O", metadata={"element_type": bytes})


def check_storable(datasets: Iterable[xr.Dataset]) -> None:
    """Raise Invalid for names that no dataset can have, cells of pandas' types and a MultiIndex."""
    for dataset in datasets:
        _check_attributes("the dataset", dataset)
        for name, variable in dataset.variables.items():
            _check_names(name, variable)
            _check_attributes(repr(name), variable)
            if not isinstance(variable.dtype, np.dtype):
                remedy = _REMEDIES.get(type(variable.dtype).__name__, "astype() it to a dtype of NumPy")
                raise Invalid(f"{name!r} is of the pandas dtype {variable.dtype}", remedy=remedy)
            if any(np.isnan(size) for size in variable.shape):
                remedy = f"call compute_chunk_sizes() of its data, ds[{name!r}].data, first"
                raise Invalid(f"{name!r} has a length that dask does not know yet", remedy=remedy)
            if name in dataset.xindexes and variable.dims == (name,) and variable.to_index().nlevels > 1:
                raise Invalid(f"{name!r} is a MultiIndex", remedy=f"store its levels: reset_index({name!r})")


def check_chunks(datasets: Iterable[xr.Dataset], chunks: Any, what: str = "chunks") -> None:
    """Raise Invalid where chunks, or ``what`` else, are chosen for a dimension that none of the datasets has."""
    dims = {dim: None for dataset in datasets for dim in dataset.dims}
    unknown = [dim for dim in chunks if dim not in dims] if isinstance(chunks, Mapping) else []
    if unknown and dims:
        raise Invalid(f"{what} for a dimension {unknown[0]!r}", remedy=meant(unknown[0], dims))


def _check_names(name: Any, variable: xr.Variable) -> None:
    if not isinstance(name, str):
        raise Invalid(f"a variable named {name!r}", remedy="rename it: names are text")
    if not name:
        raise Invalid("a variable whose name is empty", remedy="rename it: a name has one character at least")
    if "/" in name:
        raise Invalid(f"a variable named {name!r}", remedy="a slash makes groups: rename it, or use a DataTree")
    odd = [dim for dim in variable.dims if not isinstance(dim, str)]
    if odd:
        raise Invalid(f"{name!r} has a dimension named {odd[0]!r}", remedy="rename it: names are text")


def _check_attributes(owner: str, of: xr.Dataset | xr.Variable) -> None:
    odd = [name for name in of.attrs if not isinstance(name, str)]
    if odd:
        raise Invalid(f"{owner} has an attribute named {odd[0]!r}", remedy="rename it: names are text")


def typed(name: str, variable: xr.Variable) -> xr.Variable:
    """Return a variable of objects as one of what they are: text, bytes or numbers. Invalid for others and mixtures.

    Those of dask are taken for text, which is seen to when a block is written.
    """
    if variable.dtype.kind != "O" or variable.dtype.metadata or is_chunked_array(variable._data):
        return variable
    cells = np.asarray(variable.values)
    missing = _missing(cells)
    there = cells[~missing]
    kinds = {str if issubclass(kind, str) else kind for kind in set(map(type, there.ravel()))}
    if len(kinds) > 1:
        words = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise Invalid(f"{name!r} holds objects of several types: {words}", remedy="astype() them to one")
    if not kinds and cells.size and variable.encoding.get("dtype") is not str:  # of which nobody knows what it was
        return xr.Variable(variable.dims, np.full(cells.shape, np.nan), variable.attrs, variable.encoding)
    if kinds <= {str}:
        return variable
    if isinstance(there.flat[0], bytes):
        result = np.where(missing, b"", cells).astype(_BYTES)  # missing ones are empty
        return xr.Variable(variable.dims, result, variable.attrs, variable.encoding)
    values = np.array(there.tolist()) if isinstance(there.flat[0], complex | float | int | np.generic) else there
    if values.dtype.kind not in "biufc":
        remedy = "store numbers, text, bytes or NumPy's times"
        raise Invalid(f"{name!r} holds objects of type {type(there.flat[0]).__name__}", remedy=remedy)
    dtype = values.dtype if not missing.any() or values.dtype.kind in "fc" else np.dtype(float)
    result = np.full(cells.shape, np.nan if missing.any() else 0, dtype)  # missing ones are NaN
    result[~missing] = values
    return xr.Variable(variable.dims, result, variable.attrs, variable.encoding)


def _missing(cells: np.ndarray) -> np.ndarray:
    """Return a mask of the objects that are None, NaN or NaT."""
    return np.asarray(xr.Variable([f"axis_{axis}" for axis in range(cells.ndim)], cells).isnull().values)


def text(cells: np.ndarray) -> np.ndarray:
    """Return objects that are to be text; missing ones are empty, as xarray's own writers make them."""
    cells = np.asarray(cells, object)  # of no dimensions, dask before 2025 has the text itself
    plain = np.where(_missing(cells), "", cells)
    other = next((cell for cell in plain.flat if not isinstance(cell, str)), None)
    if other is not None:
        raise Invalid(f"an object of type {type(other).__name__} among text", remedy="astype() the variable first")
    return plain


# -- data types --------------------------------------------------------------------------------------------------------

_ELEMENT = "element_type"  # the key in a dtype's metadata by which xarray tells objects apart


def xarray_dtype(dtype: DataType) -> np.dtype:
    """Return the dtype that xarray's own engines give such cells."""
    match dtype:
        case VlenString() | ObjectRef() | RegionRef():  # references are shown as paths
            return np.dtype("O", metadata={_ELEMENT: str})
        case VlenBytes():
            return np.dtype("O", metadata={_ELEMENT: bytes})
        case Enum(base=base, members=members, name=name):
            return np.dtype(base, metadata={"enum": dict(members), "enum_name": name})
        case _:
            return numpy_dtype(dtype)


def as_xarray(cells: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return cells in that dtype, without a copy where they are in it; references as the paths that they lead to."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    if metadata.get(_ELEMENT) is str and cells.dtype == object:
        return np.array(["" if cell is None else str(cell) for cell in cells.flat], dtype).reshape(cells.shape)
    return cells if cells.dtype == dtype else cells.astype(dtype)


def hyperslab_dtype(dtype: np.dtype) -> Any:
    """Return what ``create_array`` takes for cells of an encoded variable; text of any kind gets no length."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    element = metadata.get(_ELEMENT)
    if element is bytes:
        return VlenBytes()
    if dtype.kind in "OUT" or element is str:
        return str
    if enum := metadata.get("enum"):
        members = tuple((str(key), int(value)) for key, value in enum.items())
        return Enum(np.dtype(dtype.str), members, metadata.get("enum_name", ""))
    if dtype.kind == "V" and dtype.type is not np.void:  # as bfloat16, which dtype.str does not name
        return dtype
    return np.dtype(dtype.descr if dtype.names else dtype.str)
