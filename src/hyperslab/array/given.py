"""What a caller gives as cells, as an array: tuples are rows, and NumPy never looks into references.

NumPy takes a tuple in a list for one more dimension unless it knows the fields, and reads the cells that a reference to
a region stands for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hyperslab.array.references import as_cells, holds_references, reference_fields
from hyperslab.errors import Invalid
from hyperslab.model.dtypes import DataType, numpy_dtype

Values = np.ndarray[Any, Any]


def as_given(value: Any, dtype: DataType | None) -> Values:
    """``value`` as an array, as it is meant for cells of ``dtype`` where that is known; its own type stays, but for
    lists of rows. Invalid for what is no row."""
    plain = None if dtype is None else numpy_dtype(dtype)
    if plain is not None and plain.names is not None:
        return as_rows(value, plain) if isinstance(value, list | tuple) else np.asarray(value)
    if (dtype is not None and reference_fields(dtype)) or holds_references(value):
        return as_cells(value)
    return np.asarray(value)


def as_rows(value: Any, dtype: np.dtype[Any]) -> Values:
    """Rows: an array of them, one as a tuple, or lists of those."""
    if isinstance(value, np.ndarray | np.void):
        return np.asarray(value).astype(dtype, casting="unsafe", copy=False)
    try:
        return np.array(value, dtype)
    except (TypeError, ValueError) as error:
        remedy = f"give tuples of {', '.join(dtype.names or ())}"
        raise Invalid(f"{type(value).__name__} is no row: {error}", remedy=remedy) from error


def as_fields(value: Any, names: list[str], dtype: np.dtype[Any]) -> Values:
    """Rows of some fields alone."""
    if not isinstance(value, list | tuple):
        return np.asarray(value)
    return as_rows(value, np.dtype([(name, dtype[name]) for name in names]))
