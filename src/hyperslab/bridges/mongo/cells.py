"""The cells of an xarray variable: NumPy's, sparse ones, or a dask array of either, with units set aside."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.bridges import pint, sparse
from hyperslab.bridges.dask import is_dask_array
from hyperslab.errors import Unsupported
from hyperslab.formats.mongo.segments import encode_coo
from hyperslab.formats.mongo.types import dtype_to_text
from hyperslab.model.coo import Coo, Numbers

_REMEDY = "store arrays of NumPy, dask or sparse, or Quantities of them"


def cells_of(data: Any, name: str, *, densify: bool = False) -> tuple[Numbers | Coo | Any, str | None]:
    """What is to be stored of a variable's data, and its units; a dask array stays one.

    Unsupported for cells that have no bytes of their own, or fields, and for arrays of other libraries.
    """
    values, units = pint.plain(data)
    if not isinstance(getattr(values, "dtype", None), np.dtype):
        raise Unsupported(f"variable {name!r} is of the pandas dtype {values.dtype}", remedy="astype() it to NumPy's")
    dtype_to_text(values.dtype, name)
    if is_dask_array(values):
        if pint.is_quantity(getattr(values, "_meta", None)):
            remedy = "make it a Quantity of a dask array: Quantity(array.map_blocks(lambda block: block.m), units)"
            raise Unsupported(f"variable {name!r} is a dask array of Quantities", remedy=remedy)
        return (sparse.densified(values) if densify else values), units
    return plain_cells(values, name, densify=densify), units


def plain_cells(values: Any, name: str, *, densify: bool = False) -> Numbers | Coo:
    """An array, or a block of dask, as it is stored. Unsupported."""
    if sparse.is_sparse(values):
        return values.todense() if densify else sparse.to_coo(values)
    if isinstance(values, np.ndarray | np.generic):
        return np.asarray(values)
    raise Unsupported(f"variable {name!r} is an array of {type(values).__module__}", remedy=_REMEDY)


def stored_size(cells: Numbers | Coo) -> int:
    """The bytes that they take in documents."""
    if isinstance(cells, Coo):
        _, data, places, _ = encode_coo(cells)
        return len(data) + len(places)
    return cells.nbytes
