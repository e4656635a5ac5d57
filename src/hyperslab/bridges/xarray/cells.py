"""The cells of encoded variables into arrays, never more of what is lazy at a time than memory holds."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.array import Array
from hyperslab.array.narrowing import require_fit
from hyperslab.bridges.sparse import is_sparse
from hyperslab.bridges.xarray.dtypes import hyperslab_dtype
from hyperslab.bridges.xarray.fitting import can_cast_text
from hyperslab.bridges.xarray.storable import text
from hyperslab.formats.base import Feature

_BLOCK = 64 << 20  # bytes of a lazy variable that are in memory at a time


@dataclass(frozen=True)
class Later:
    """A dask array that is still to be written: into an array, or a region of it."""

    array: Array
    variable: xr.Variable
    where: Any

    @property
    def write(self) -> tuple[Array, Any, Any]:
        """The target, the cells and the region, as the bridge to dask takes them."""
        return self.array, cells_of(self.variable, self.array.dtype), None if self.where is ... else self.where


def write_plain(writes: Iterable[tuple[Any, xr.Variable, Any]]) -> list[Later]:
    """Arrays, variables and the regions that they are for; gives the dask arrays that are left, for all at once."""
    later = []
    for array, variable, where in writes:
        if is_chunked_array(variable._data):
            later.append(Later(array, variable, where))
        else:
            _write_plain(array, variable, where)
    return later


def write_later(later: Iterable[Later]) -> None:
    """Dask arrays by blocks, together: what their graphs share is computed once."""
    if later := list(later):
        from hyperslab.bridges import dask

        dask.write_together([each.write for each in later])


def _write_plain(array: Array, variable: xr.Variable, where: Any) -> None:
    """In one piece what is in memory, else by rows of chunks."""
    if is_sparse(variable._data) or variable._in_memory or not variable.ndim or variable.nbytes <= _BLOCK:
        array[where] = cells_of(variable, array.dtype)
        return
    key = (slice(None),) * variable.ndim if where is ... else where
    first = key[0].indices(array.shape[0])[0]
    cut = array.grid.axes[0]
    row = max(variable.nbytes // max(variable.shape[0], 1), 1)
    step = max(cut.size_of(0), _BLOCK // row // cut.size_of(0) * cut.size_of(0))
    for start in range(0, variable.shape[0], step):
        stop = min(start + step, variable.shape[0])
        array[(slice(first + start, first + stop), *key[1:])] = cells_of(variable[start:stop], array.dtype)


def with_length(variable: xr.Variable, features: Container[Feature]) -> Any:
    """Return what ``create_array`` takes for the cells; text is as long as the longest where a format has no other.

    That of dask, and where some is missing, stays of any length, which such a format refuses.
    """
    dtype = hyperslab_dtype(variable.dtype)
    if dtype is not str or Feature.STRINGS in features or Feature.UNICODE not in features:
        return dtype
    if variable.dtype.kind == "U":
        return np.dtype(variable.dtype.str)
    cells = None if is_chunked_array(variable._data) else np.asarray(variable.values, object)
    if cells is None or not all(isinstance(each, str) for each in cells.flat):
        return dtype
    return cells.astype("U").dtype


def cells_of(variable: xr.Variable, stored: np.dtype) -> Any:
    """Return the cells to be stored as that dtype: in memory, sparse, or a dask array of them."""
    is_text = variable.dtype.kind == "O" and hyperslab_dtype(variable.dtype) is str
    if is_chunked_array(variable._data):
        data = variable.data.map_blocks(text, dtype=object, meta=variable.data._meta) if is_text else variable.data
        is_roomy = stored.kind not in "SU" or can_cast_text(variable.dtype, stored)
        return data if is_roomy else data.map_blocks(_held, stored, dtype=data.dtype, meta=data._meta)
    if is_sparse(variable._data):
        return variable._data
    cells = np.asarray(variable.values)
    return text(cells) if is_text else cells


def _held(cells: np.ndarray, stored: np.dtype) -> np.ndarray:
    require_fit(cells, stored)
    return cells
