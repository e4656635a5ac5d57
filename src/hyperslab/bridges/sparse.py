"""sparse: arrays of the package ``sparse`` as :class:`~hyperslab.model.coo.Coo`, and back; nothing becomes dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.array.lazy_cells import is_sparse, is_sparse_in_blocks
from hyperslab.bridges.extras import library
from hyperslab.model.coo import Coo, Numbers


def to_coo(value: Any) -> Coo:
    """Return the cells that an array of the ``sparse`` package lists; its data is shared where it can be."""
    found = value.asformat("coo")
    return Coo(tuple(map(int, found.shape)), np.asarray(found.coords), np.asarray(found.data), fill_of(found))


def from_coo(cells: Coo) -> Any:
    """Return the cells as ``sparse.COO``, in C order, without those that are the fill value to the bit."""
    own = cells.canonical()
    how = {"has_duplicates": False, "sorted": True, "fill_value": own.fill[()]}
    return library("sparse").COO(own.coords, own.data, shape=own.shape, **how)


def fill_of(value: Any) -> Numbers:
    """Return the value of every cell that is not listed, 0-d; of a dask array the one that it declares of its blocks,
    which may have others."""
    said = getattr(value, "_meta", value)
    return np.asarray(said.fill_value, said.dtype).reshape(())


def meta(ndim: int, dtype: np.dtype, fill: Any = None) -> Any:
    """Return the empty ``sparse.COO`` by which a dask array declares the kind of its blocks (its ``meta``)."""
    cell = np.zeros((), dtype) if fill is None else np.asarray(fill, dtype)
    return from_coo(Coo((0,) * ndim, np.empty((ndim, 0), np.intp), np.empty(0, dtype), cell.reshape(())))


def dense(block: Any) -> Any:
    """Return a block as NumPy has it: for ``map_blocks`` over what may be sparse."""
    return block.todense() if is_sparse(block) else block


def densified(value: Any) -> Any:
    """Return the same cells, dense; a dask array stays lazy."""
    if not is_sparse_in_blocks(value):
        return dense(value)
    return value.map_blocks(dense, dtype=value.dtype, meta=np.empty((0,) * value.ndim, value.dtype))
