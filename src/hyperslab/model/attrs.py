"""Attributes: an ordered mapping of names to typed values.

A value is one of: ``str`` (text), ``np.str_`` (netCDF ``string``), ``bytes``, ``bool``, ``int``, ``float``, ``None``, a
NumPy scalar or 1-D array (which keep their dtype, byte order dropped), a list or dict of JSON values, a ``Link``-like
reference. Python's own numbers are JSON's; NumPy's are typed. Values of an enum, opaque or compound type have a dtype
that :func:`hyperslab.model.dtypes.tagged` tells the type of; one value of an enum or opaque type is a 0-d array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.model.dtypes import tag_of, without_tag

Attrs = Mapping[str, Any]


def equal(a: Any, b: Any) -> bool:
    """Whether two attribute values are the same in type, dtype and value; NaN equals NaN."""
    if isinstance(a, np.ndarray | np.generic) or isinstance(b, np.ndarray | np.generic):
        return _equal_arrays(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


def _equal_arrays(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    x, y = np.asarray(a), np.asarray(b)
    if tag_of(x.dtype) != tag_of(y.dtype):
        return False
    if x.dtype.kind == "T" or y.dtype.kind == "T":  # variable-length text has no byte order to drop
        return x.dtype == y.dtype and bool(np.array_equal(x, y))
    if x.dtype.newbyteorder("=") != y.dtype.newbyteorder("=") or x.shape != y.shape:
        return False
    return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fcmM"))


def untagged(value: Any) -> Any:
    """A value of a user type as plain NumPy has it: numbers, ``np.void`` cells; any other as it is."""
    if isinstance(value, np.ndarray | np.generic) and tag_of(value.dtype) is not None:
        return np.asarray(value).view(without_tag(value.dtype))[()]
    return value


def equal_attrs(a: Attrs, b: Attrs) -> bool:
    """Whether two sets of attributes hold the same names and values, whatever their order."""
    return set(a) == set(b) and all(equal(a[k], b[k]) for k in a)
