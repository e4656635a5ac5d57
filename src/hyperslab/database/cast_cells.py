"""What ``update`` takes: cells of the array's type and shape, or what becomes such without loss; nothing else."""

from __future__ import annotations

import numpy as np

from hyperslab.errors import Invalid, SelectionError, WrongType
from hyperslab.model.cells import Values

# One number, of Python or NumPy, which stands for all cells.
_PLAIN = (bool, int, float, complex, np.number, np.bool_)


def as_cells(data: object, dtype: np.dtype[np.generic], shape: tuple[int, ...] | None, fill: object = 0) -> Values:
    """``data`` as cells of ``dtype``: of exactly ``shape``, or one number for all of them; ``fill`` where it is masked.
    A ``shape`` of None is any.

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
            cells = _cast_list(data, dtype)
        case _:
            remedy = (
                "give its values: np.asarray(...)"
                if hasattr(data, "__array__")
                else "give an array, a list or a number"
            )
            raise WrongType(f"data of the type {type(data).__name__} for cells of {dtype}", remedy=remedy)
    if shape is not None and cells.shape != shape and (cells.ndim or isinstance(data, list | tuple)):
        raise SelectionError(f"data of shape {cells.shape} for cells of shape {shape}", remedy="give one for each cell")
    return cells


def _number(value: object, dtype: np.dtype[np.generic]) -> Values:
    """Return one number as a cell, unchanged; floats may be rounded to a smaller type, and to nothing else."""
    given = np.asarray(value)
    if given.dtype.kind in "fc" and np.can_cast(given.dtype, dtype, "same_kind"):
        return _round(given, dtype)
    if given.dtype.kind != "f":
        return _numbers(given, dtype)
    with np.errstate(all="ignore"):
        cell = given.astype(dtype)
    if not np.isfinite(given) or int(cell) != value:
        raise WrongType(f"{value!r} for cells of {dtype}, which cannot hold it", remedy=f"give a value of {dtype}")
    return cell


def _cast_list(data: object, dtype: np.dtype[np.generic]) -> Values:
    try:
        given = np.asarray(data)
    except ValueError as error:
        raise SelectionError(f"the lists are of different lengths: {error}", remedy="give one value per cell") from None
    return _numbers(given, dtype) if given.size else np.empty(given.shape, dtype)


def _numbers(given: Values, dtype: np.dtype[np.generic]) -> Values:
    """Numbers of Python's, in an array of whatever type NumPy gave them."""
    kind = given.dtype.kind
    if kind in "fc" and np.can_cast(given.dtype, dtype, "same_kind"):
        return _round(given, dtype)
    if kind in "biu" and dtype.kind in "iu":
        limits = np.iinfo(dtype.str)
        if int(given.min()) >= limits.min and int(given.max()) <= limits.max:
            return given.astype(dtype)
    elif kind in "biu":
        return _cast_exactly(given, dtype)
    elif kind == "O" and all(type(value) is int for value in given.flat):  # beyond int64
        with np.errstate(all="ignore"):
            cells = given.astype(dtype) if dtype.kind in "fc" else np.empty(0)
        if cells.size and all(value == whole for value, whole in zip(cells.ravel().tolist(), given.flat, strict=True)):
            return cells
    said = f"values of {given.dtype}" if given.ndim else repr(given.item())
    raise WrongType(f"{said} for cells of {dtype}, which cannot hold all of it", remedy=f"give what {dtype} holds")


def _cast(given: Values, dtype: np.dtype[np.generic]) -> Values:
    """Return an array of the same type in any byte order, or of a type whose values the cells hold."""
    if given.dtype == dtype:
        return given
    if given.dtype.kind not in "biufc" or not np.can_cast(given.dtype, dtype, "safe"):
        raise WrongType(f"an array of {given.dtype} for cells of {dtype}", remedy=f"cast it to {dtype} first")
    return _cast_exactly(given, dtype)


def _cast_exactly(given: Values, dtype: np.dtype[np.generic]) -> Values:
    """Return a cast to a type that need not hold every whole number (int64 to float64): none of these may change."""
    cells = given.astype(dtype)
    if given.dtype.kind in "iu" and dtype.kind in "fc":
        with np.errstate(all="ignore"):
            back = cells.real.astype(given.dtype)
        if not np.array_equal(back, given) or not np.isfinite(cells).all():
            raise WrongType(f"whole numbers that {dtype} would round", remedy=f"cast them to {dtype} first")
    return cells


def _round(given: Values, dtype: np.dtype[np.generic]) -> Values:
    with np.errstate(all="ignore"):
        cells = given.astype(dtype)
    if (np.isinf(cells) & ~np.isinf(given)).any():
        raise WrongType(f"values beyond those of {dtype}", remedy="use a wider dtype")
    return cells
