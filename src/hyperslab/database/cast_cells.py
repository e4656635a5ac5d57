"""Data for ``update`` as cells: of the array's type and shape, or what becomes such without loss; nothing else."""

from __future__ import annotations

import numpy as np

from hyperslab.errors import Invalid, SelectionError, WrongType
from hyperslab.model.cells import Values

# One number, of Python or NumPy, which stands for all cells.
_PLAIN = (bool, int, float, complex, np.number, np.bool_)


def as_cells(data: object, dtype: np.dtype[np.generic], shape: tuple[int, ...] | None, fill: object = 0) -> Values:
    """Return ``data`` as cells of ``dtype``: of exactly ``shape``, or one number for all of them; ``fill`` where it is
    masked. A ``shape`` of None is any.

    An array is cast where its type is held by the other; numbers of Python's, alone or in lists, also where they are
    rounded to a smaller float. WrongType (a TypeError) for what would lose something, SelectionError (an IndexError)
    for another shape, Invalid for None. NaN is a number like any other of floats.
    """
    if data is None:
        raise Invalid("None is no data", remedy="give cells, or clear() them")
    if isinstance(data, _PLAIN):
        return _number(data, dtype)
    match data:
        case np.ma.MaskedArray():
            cells = np.where(np.ma.getmaskarray(data), dtype.type(fill), _cast(data.filled(0), dtype))
        case np.ndarray():
            cells = _cast(data, dtype)
        case list() | tuple():
            try:
                values = np.asarray(data)
            except ValueError as error:
                message, remedy = f"the lists are of different lengths: {error}", "give one value per cell"
                raise SelectionError(message, remedy=remedy) from None
            cells = _numbers(values, dtype) if values.size else np.empty(values.shape, dtype)
        case _:
            is_array = hasattr(data, "__array__")
            remedy = "give its values: np.asarray(...)" if is_array else "give an array, a list or a number"
            raise WrongType(f"data of the type {type(data).__name__} for cells of {dtype}", remedy=remedy)
    if shape is not None and cells.shape != shape and (cells.ndim or isinstance(data, list | tuple)):
        raise SelectionError(f"data of shape {cells.shape} for cells of shape {shape}", remedy="give one for each cell")
    return cells


def _number(value: object, dtype: np.dtype[np.generic]) -> Values:
    """Return one number as a cell, unchanged; floats may be rounded to a smaller type, and to nothing else."""
    values = np.asarray(value)
    if values.dtype.kind in "fc" and np.can_cast(values.dtype, dtype, "same_kind"):
        return _round(values, dtype)
    if values.dtype.kind != "f":
        return _numbers(values, dtype)
    with np.errstate(all="ignore"):
        cell = values.astype(dtype)
    if not np.isfinite(values) or int(cell) != value:
        raise WrongType(f"{value!r} for cells of {dtype}, which cannot hold it", remedy=f"give a value of {dtype}")
    return cell


def _numbers(values: Values, dtype: np.dtype[np.generic]) -> Values:
    """Return numbers of Python's in an array of whatever type NumPy gave them."""
    kind = values.dtype.kind
    if kind in "fc" and np.can_cast(values.dtype, dtype, "same_kind"):
        return _round(values, dtype)
    if kind in "biu" and dtype.kind in "iu":
        limits = np.iinfo(dtype.str)
        if int(values.min()) >= limits.min and int(values.max()) <= limits.max:
            return values.astype(dtype)
    elif kind in "biu":
        return _cast_exactly(values, dtype)
    elif kind == "O" and all(type(value) is int for value in values.flat):  # beyond int64
        with np.errstate(all="ignore"):
            cells = values.astype(dtype) if dtype.kind in "fc" else np.empty(0)
        if cells.size and all(value == whole for value, whole in zip(cells.ravel().tolist(), values.flat, strict=True)):
            return cells
    what = f"values of {values.dtype}" if values.ndim else repr(values.item())
    raise WrongType(f"{what} for cells of {dtype}, which cannot hold all of it", remedy=f"give what {dtype} holds")


def _cast(values: Values, dtype: np.dtype[np.generic]) -> Values:
    """Return an array of the same type in any byte order, or of a type whose values the cells hold."""
    if values.dtype == dtype:
        return values
    if values.dtype.kind not in "biufc" or not np.can_cast(values.dtype, dtype, "safe"):
        raise WrongType(f"an array of {values.dtype} for cells of {dtype}", remedy=f"cast it to {dtype} first")
    return _cast_exactly(values, dtype)


def _cast_exactly(values: Values, dtype: np.dtype[np.generic]) -> Values:
    """Return a cast to a type that need not hold every whole number (int64 to float64): none of these may change."""
    cells = values.astype(dtype)
    if values.dtype.kind in "iu" and dtype.kind in "fc":
        with np.errstate(all="ignore"):
            back = cells.real.astype(values.dtype)
        if not np.array_equal(back, values) or not np.isfinite(cells).all():
            raise WrongType(f"whole numbers that {dtype} would round", remedy=f"cast them to {dtype} first")
    return cells


def _round(values: Values, dtype: np.dtype[np.generic]) -> Values:
    with np.errstate(all="ignore"):
        cells = values.astype(dtype)
    if (np.isinf(cells) & ~np.isinf(values)).any():
        raise WrongType(f"values beyond those of {dtype}", remedy="use a wider dtype")
    return cells
