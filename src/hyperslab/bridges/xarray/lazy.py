"""Cells of an array that xarray reads when it needs them."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from hyperslab.array import Array
from hyperslab.array.references import REFERENCES, as_cells
from hyperslab.bridges.xarray.dtypes import as_xarray, xarray_dtype


class LazyCells(BackendArray):
    """An ``Array`` behind xarray's explicit indexers; it pickles as the array does, and threads may share it."""

    __slots__ = ("_source", "dtype", "shape")

    def __init__(self, array: Array) -> None:
        self._source = array
        self.shape = array.shape
        self.dtype = xarray_dtype(array.data_type)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        kind = indexing.IndexingSupport.VECTORIZED
        return indexing.explicit_indexing_adapter(key, self.shape, kind, self._reader(key))

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """The same in a thread, for ``Dataset.load_async``."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _reader(self, key: indexing.ExplicitIndexer) -> Any:
        # Not ``array[key]``, which goes on with what takes its place: the other variables are of the old one.
        array = self._source
        taken: Any = array.vindex if isinstance(key, indexing.VectorizedIndexer) else array.oindex
        return lambda raw: as_xarray(_as_array(taken[raw], array.dtype), self.dtype)


def _as_array(cells: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return the cells; a single reference to a region is not read, and a single cell of any length is one object."""
    if isinstance(cells, REFERENCES):
        return as_cells(cells)
    if dtype.kind == "O" and isinstance(cells, np.ndarray) and cells.dtype != object:
        alone = np.empty((), object)
        alone[()] = cells
        return alone
    return np.asarray(cells, dtype)
