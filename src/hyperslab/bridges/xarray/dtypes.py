"""Convert the model's data types to xarray's, and back: text and bytes of any length are objects of a marked dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.model.dtypes import DataType, Enum, ObjectRef, RegionRef, VlenBytes, VlenString, numpy_dtype

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
