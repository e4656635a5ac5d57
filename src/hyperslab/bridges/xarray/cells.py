"""Write the cells of encoded variables into arrays, never more of what is lazy at a time than memory holds."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from xarray.namedarray.pycompat import is_chunked_array

from hyperslab.array import Array
from hyperslab.array.lazy_cells import is_sparse
from hyperslab.array.narrowing import require_fit
from hyperslab.bridges.xarray.fitting import can_cast_text
from hyperslab.bridges.xarray.storable import hyperslab_dtype, text
from hyperslab.chunks.sparse_io import slabs
from hyperslab.formats.base import Feature

# Bytes of a lazy variable that are in memory at a time.
_BLOCK = 64 << 20


@dataclass(frozen=True)
class DelayedWrite:
    """A dask array that is still to be written: into an array, or a region of it."""

    array: Array
    variable: xr.Variable
    where: Any

    @property
    def arguments(self) -> tuple[Array, Any, Any]:
        """Return the target, the cells and the region, as the bridge to dask takes them."""
        return self.array, cells_of(self.variable, self.array.dtype), None if self.where is ... else self.where


def write_now(writes: Iterable[tuple[Array, xr.Variable, Any]]) -> list[DelayedWrite]:
    """Write variables into arrays, or regions of them; return the dask arrays that are left, for all at once."""
    delayed = []
    for array, variable, where in writes:
        if is_chunked_array(variable._data):
            delayed.append(DelayedWrite(array, variable, where))
        elif is_sparse(variable._data) or variable._in_memory or not variable.ndim or variable.nbytes <= _BLOCK:
            array[where] = cells_of(variable, array.dtype)
        else:
            _write_in_slabs(array, variable, where)
    return delayed


def write_delayed(delayed: Iterable[DelayedWrite]) -> None:
    """Write dask arrays by blocks, together: what their graphs share is computed once."""
    if writes := [each.arguments for each in delayed]:
        from hyperslab.bridges import dask

        dask.write_together(writes)


def _write_in_slabs(array: Array, variable: xr.Variable, where: Any) -> None:
    """Write a lazy variable in parts of whole chunks (shards), of which none is read and written twice."""
    key = (slice(None),) * variable.ndim if where is ... else where
    starts = [part.indices(length)[0] for part, length in zip(key, array.shape, strict=True)]
    box = tuple(slice(start, start + size) for start, size in zip(starts, variable.shape, strict=True))
    for part in slabs(array.grid, box, _BLOCK // max(variable.dtype.itemsize, 1)):
        own = tuple(slice(cut.start - start, cut.stop - start) for cut, start in zip(part, starts, strict=True))
        array[part] = cells_of(variable[own], array.dtype)


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
        return data if is_roomy else data.map_blocks(_check_block, stored, dtype=data.dtype, meta=data._meta)
    if is_sparse(variable._data):
        return variable._data
    cells = np.asarray(variable.values)
    return text(cells) if is_text else cells


def _check_block(cells: np.ndarray, stored: np.dtype) -> np.ndarray:
    require_fit(cells, stored)
    return cells
