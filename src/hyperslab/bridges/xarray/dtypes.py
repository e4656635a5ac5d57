"""The model's data types in xarray's words, and back: text and bytes of any length are objects with a marked dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.model.dtypes import DataType, Enum, ObjectRef, RegionRef, VlenBytes, VlenString, numpy_dtype

_ELEMENT = "element_type"  # the key in a dtype's metadata by which xarray tells objects apart


def xarray_dtype(dtype: DataType) -> np.dtype:
    """The dtype that xarray's own engines give such cells."""
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
    """Cells in that dtype, without a copy where they are in it; references as the paths that they lead to."""
    said: Mapping[str, Any] = dtype.metadata or {}
    if said.get(_ELEMENT) is str and cells.dtype == object:
        return np.array(["" if cell is None else str(cell) for cell in cells.flat], dtype).reshape(cells.shape)
    return cells if cells.dtype == dtype else cells.astype(dtype)


def hyperslab_dtype(dtype: np.dtype) -> Any:
    """What ``create_array`` takes for cells of an encoded variable; text of any kind gets no length."""
    said: Mapping[str, Any] = dtype.metadata or {}
    element = said.get(_ELEMENT)
    if dtype.kind in "UT" or element is str:
        return str
    if element is bytes:
        return VlenBytes()
    if dtype.kind == "O":
        return str
    if enum := said.get("enum"):
        members = tuple((str(key), int(value)) for key, value in enum.items())
        return Enum(np.dtype(dtype.str), members, said.get("enum_name", ""))
    if dtype.kind == "V" and dtype.type is not np.void:  # as bfloat16, which dtype.str does not name
        return dtype
    return np.dtype(dtype.descr if dtype.names else dtype.str)
