"""The cells of encoded variables into arrays, never more of what is lazy at a time than memory holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.array import Array
from hyperslab.bridges.sparse import is_sparse
from hyperslab.bridges.xarray.dtypes import hyperslab_dtype
from hyperslab.bridges.xarray.storable import text

_BLOCK = 64 << 20  # bytes of a lazy variable that are in memory at a time


@dataclass(frozen=True)
class Later:
    """A dask array that is still to be written: into the array at ``path`` of the dataset, or a region of it."""

    path: str
    variable: xr.Variable
    where: Any


def write_all(writes: Iterable[tuple[Any, xr.Variable, Any]], compute: bool) -> list[Later]:
    """Arrays, variables and the regions that they are for; gives the dask arrays that are left for later."""
    later = []
    for array, variable, where in writes:
        if not is_chunked_array(variable._data):
            _write_plain(array, variable, where)
        elif compute:
            write_chunked(array, variable, where)
        else:
            later.append(Later(array.path, variable, where))
    return later


def write_chunked(array: Array, variable: xr.Variable, where: Any, *, compute: bool = True) -> Any:
    """A dask array by blocks; with ``compute=False`` the Delayed that does it."""
    from hyperslab.bridges import dask

    return dask.write(array, cells_of(variable), region=None if where is ... else where, compute=compute)


def _write_plain(array: Array, variable: xr.Variable, where: Any) -> None:
    """In one piece what is in memory, else by rows of chunks."""
    if is_sparse(variable._data) or variable._in_memory or not variable.ndim or variable.nbytes <= _BLOCK:
        array[where] = cells_of(variable)
        return
    key = (slice(None),) * variable.ndim if where is ... else where
    first = key[0].indices(array.shape[0])[0]
    cut = array.grid.axes[0]
    row = max(variable.nbytes // max(variable.shape[0], 1), 1)
    step = max(cut.size_of(0), _BLOCK // row // cut.size_of(0) * cut.size_of(0))
    for start in range(0, variable.shape[0], step):
        stop = min(start + step, variable.shape[0])
        array[(slice(first + start, first + stop), *key[1:])] = cells_of(variable[start:stop])


def cells_of(variable: xr.Variable) -> Any:
    """The cells to be stored: in memory, sparse, or a dask array of them."""
    is_text = variable.dtype.kind == "O" and hyperslab_dtype(variable.dtype) is str
    if is_chunked_array(variable._data):
        return variable.data.map_blocks(text, dtype=object, meta=variable.data._meta) if is_text else variable.data
    if is_sparse(variable._data):
        return variable._data
    cells = np.asarray(variable.values)
    return text(cells) if is_text else cells
