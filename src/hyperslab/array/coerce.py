"""Arrays of the cells that a caller gives: tuples are rows, and NumPy never looks into references.

NumPy takes a tuple in a list for one more dimension unless it knows the fields, and reads the cells that a reference to
a region stands for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.array.references import as_cells, holds_references, reference_fields
from hyperslab.errors import Invalid
from hyperslab.model.cells import Values, as_type
from hyperslab.model.dtypes import DataType, NumpyDType, numpy_dtype


def to_array(value: Any, dtype: DataType | None) -> Values:
    """Return ``value`` as an array, as it is meant for cells of ``dtype`` where that is known; its own type stays, but
    for lists of rows. Invalid for what is no row."""
    plain = None if dtype is None else numpy_dtype(dtype)
    if plain is not None and plain.names is not None:
        return as_rows(value, plain) if isinstance(value, list | tuple) else np.asarray(value)
    if (dtype is not None and reference_fields(dtype)) or holds_references(value):
        return as_cells(value)
    return np.asarray(value)


def as_rows(value: object, dtype: NumpyDType) -> Values:
    """Return rows: an array of them, one as a tuple, or lists of those."""
    if isinstance(value, np.ndarray | np.void):
        rows = np.asarray(value)
        names = rows.dtype.names
        if names is None or dtype.names is None or len(names) != len(dtype.names):
            return rows.astype(dtype, casting="unsafe", copy=False)
        if names != dtype.names:
            fields: Any = rows.dtype.fields
            renamed: Any = {"names": dtype.names, "itemsize": rows.dtype.itemsize}
            renamed |= {"formats": [fields[name][0] for name in names], "offsets": [fields[name][1] for name in names]}
            rows = rows.view(np.dtype(renamed))
        return as_type(rows, dtype)
    try:
        return np.array(_spelled(value, dtype), dtype)
    except (TypeError, ValueError) as error:
        remedy = f"give tuples of {', '.join(dtype.names or ())}"
        raise Invalid(f"{type(value).__name__} is no row: {error}", remedy=remedy) from error


def has_fields(value: object) -> bool:
    """Return True if a value of NumPy has rows for cells."""
    return isinstance(value, np.ndarray | np.void) and value.dtype.names is not None


def _spelled(value: object, dtype: NumpyDType) -> object:
    """Return lists of rows with the chars of their text one by one: NumPy would give each of n chars the first one."""
    match value:
        case tuple() if dtype.names is not None and len(value) == len(dtype.names):
            return tuple(_spelled(part, dtype[name]) for part, name in zip(value, dtype.names, strict=True))
        case list():
            return [_spelled(part, dtype) for part in value]
        case str() | bytes() if dtype.base == np.dtype("S1") and len(dtype.shape) == 1:
            text = value.encode() if isinstance(value, str) else value
            return list(np.array([text], f"S{dtype.shape[0]}").view("S1"))
    return value
