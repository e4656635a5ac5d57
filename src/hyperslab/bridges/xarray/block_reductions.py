"""Means, sums and deviations of dask arrays, by dask's own functions: in a block of which no cell is missing by those
that look for none.

What ``skipna=True`` of xarray asks of dask copies each block, with zeros for what is missing, and counts the cells of
it once more. For a block of 4 MB of floats that takes 0.85 ns a cell of a mean, and 0.3 where none is missing, which
the least of its cells tells in 0.05; of a deviation 2.2 to 8 ns, and 1.1.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from hyperslab.bridges.extras import library

Cells = NDArray[Any]
Sums = Mapping[str, Cells]
"""What is known of a part of the cells: ``n`` of them, or their weight, and their ``total``."""

# A result of at most so many bytes is one block: the mean of each of 730 fields was written by 146 calls, 0.1 s.
_FEW_BYTES = 1 << 20


def can_reduce(variable: xr.Variable, how: str, weights: xr.Variable | None = None) -> bool:
    """Return True for a dask array of floats, and a number that is reduced here."""
    if variable.dtype.kind != "f" or variable.chunks is None:
        return False
    if weights is not None:
        return how in ("mean", "sum") and set(weights.dims) <= set(variable.dims)
    return how in ("mean", "sum", "std")


def reduce_blocks(
    variable: xr.Variable, how: str, dims: Sequence[str], weights: xr.Variable | None = None
) -> xr.Variable:
    """Return the mean, sum or standard deviation of the cells that are there, in double precision: NaN where none is.

    ``weights``: of a mean or sum; their dimensions are among those of the variable.
    """
    generic, reduction = library("dask.array.reductions"), library("dask.array").reduction
    axes = tuple(variable.dims.index(dim) for dim in dims)
    data: Any = variable._data
    aggregate: Any
    options: dict[str, Any] = {"axis": axes, "dtype": np.dtype("f8"), "concatenate": False}
    if weights is None and all(len(data.chunks[axis]) == 1 for axis in axes):
        # sums that are put together with no others would be copied for it, 0.5 ns a cell
        one = partial(_reduce_block, how=how, axes=axes)
        meta = np.empty((0,) * (variable.ndim - len(axes)))
        found = library("dask.array").map_blocks(one, data, drop_axis=axes, dtype=meta.dtype, meta=meta)
    elif how == "std":
        combine = partial(generic.moment_combine, sum=np.nansum)
        aggregate = partial(generic.moment_agg, sum=np.sum)
        found = np.sqrt(reduction(data, _moments_of_block, aggregate, combine=combine, **options))
    else:
        aggregate = generic.mean_agg if how == "mean" else _total
        chunk: Any = _sums_of_block
        if weights is not None:
            data, chunk = _weighted_blocks(variable, axes, weights), _sums_as_they_are
        found = reduction(data, chunk, aggregate, combine=generic.mean_combine, **options)
    return xr.Variable(tuple(dim for dim in variable.dims if dim not in dims), _as_few_blocks(found))


def _weighted_blocks(variable: xr.Variable, axes: tuple[int, ...], weights: xr.Variable) -> Any:
    """Return a dask array of the sums of each block, whose weights are no longer than they are: dask itself would
    repeat them for every field."""
    array, data = library("dask.array"), cast(Any, variable._data)
    places = tuple(map(variable.dims.index, weights.dims))
    cuts = tuple(data.chunks[place] for place in places)
    every = tuple(range(variable.ndim))
    return array.blockwise(
        partial(_weighted_sums, dims=variable.dims, weight_dims=weights.dims, axes=axes),
        every,
        data,
        every,
        array.asarray(weights._data).rechunk(cuts),
        places,
        adjust_chunks=dict.fromkeys(axes, lambda size: 1),
        dtype=np.dtype("f8"),
        meta=np.empty((0,) * variable.ndim),
    )


def _as_few_blocks(found: Any) -> Any:
    """Return a small result as one block, which is written at one stroke."""
    return found.rechunk(-1) if found.nbytes <= _FEW_BYTES else found


def _has_missing(cells: Cells) -> bool:
    """Return True if one of the cells is NaN, which the least of them is then."""
    return bool(cells.size) and bool(np.isnan(np.min(cells)))


def _reduce_block(cells: Cells, how: str, axes: tuple[int, ...]) -> Cells:
    """Return what xarray makes of the only block along these axes."""
    dims = [str(axis) for axis in range(cells.ndim)]
    skips = not cells.size or _has_missing(cells)
    options = {"min_count": 1} if how == "sum" and skips else {}
    # np.nanvar takes the mean off in the type of the cells, whatever is asked for
    variable: Any = xr.Variable(dims, cells.astype("f8") if how == "std" and skips else cells)
    found = getattr(variable, how)([dims[axis] for axis in axes], skipna=skips, dtype=np.dtype("f8"), **options)
    return np.asarray(found.values)


def _missing_functions(cells: Cells) -> dict[str, Any]:
    """Return the functions of dask that a block asks for: those for missing cells only where there are any."""
    generic = library("dask.array.reductions")
    if _has_missing(cells):
        return {"sum": generic.chunk.nansum, "numel": generic.nannumel}
    return {}


def _sums_of_block(cells: Cells, dtype: np.dtype[Any], computing_meta: bool = False, **options: Any) -> Sums | Cells:
    if computing_meta:
        return cells
    generic = library("dask.array.reductions")
    found: Sums = generic.mean_chunk(cells, dtype=dtype, **_missing_functions(cells), **options)
    return found


def _moments_of_block(cells: Cells, dtype: np.dtype[Any], computing_meta: bool = False, **options: Any) -> Sums | Cells:
    if computing_meta:
        return cells
    generic = library("dask.array.reductions")
    if _has_missing(cells):
        found: Sums = generic.moment_chunk(cells, dtype=dtype, **_missing_functions(cells), **options)
        return found
    # as moment_chunk has it, but that np.var squares the differences where they are: 1.5 ns a cell in place of 4.5
    n = generic.numel(cells, **options)
    squares = np.var(cells, dtype=dtype, **options) * n
    return {"n": n, "total": np.sum(cells, dtype=dtype, **options), "M": squares[..., np.newaxis]}


def _weighted_sums(
    cells: Cells, weights: Cells, dims: Sequence[Hashable], weight_dims: Sequence[Hashable], axes: tuple[int, ...]
) -> Sums:
    """Return the weighted total of a block, as ``Weighted`` of xarray computes it, and the weight of its cells."""
    there: Any = xr.Variable(dims, cells)
    weighing = xr.Variable(weight_dims, weights)
    vanishing = [dims[axis] for axis in axes]
    if _has_missing(cells):
        n = xr.dot(there.notnull(), weighing, dim=vanishing)
        there = there.fillna(0)
    else:
        repeats = prod(there.sizes[dim] for dim in vanishing if dim not in weight_dims)
        n = repeats * weighing.sum([dim for dim in weight_dims if dim in vanishing], skipna=False)
    total = xr.dot(there.astype("f8"), weighing, dim=vanishing)
    kept = {dim: 1 if dim in vanishing else size for dim, size in there.sizes.items()}
    return {name: each.set_dims(kept).transpose(*dims).values for name, each in (("n", n), ("total", total))}


def _sums_as_they_are(sums: Sums, computing_meta: bool = False, **_: Any) -> Sums:
    return sums


def _total(
    pairs: Any, axis: tuple[int, ...], dtype: np.dtype[Any], computing_meta: bool = False, **options: Any
) -> Any:
    """Return the totals, NaN where no cell is there."""
    generic = library("dask.array.reductions")
    found = generic.mean_combine(pairs, axis=axis, dtype=dtype, computing_meta=computing_meta, **options)
    return found if computing_meta else np.where(found["n"] != 0, found["total"], np.nan).astype(dtype, copy=False)
