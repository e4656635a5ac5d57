"""Attributes: an ordered mapping of names to typed values.

A value is one of: ``str`` (text), ``np.str_`` (netCDF ``string``), ``bytes``, ``bool``, ``int``, ``float``, ``None``, a
NumPy scalar or 1-D array (which keep their dtype, byte order dropped), a list or dict of JSON values, a ``Link``-like
reference. Python's own numbers are JSON's; NumPy's are typed. Values of an enum, opaque, compound or vlen type
have a dtype that :func:`hyperslab.model.dtypes.tagged` tells the type of; one value of such a type, but for a compound,
is a 0-d array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.dtypes import tag_of, without_tag

Attrs = Mapping[str, Any]
FILL_VALUE = "_FillValue"
"""The attribute that says which cell means missing (netCDF, CF); an array's fill value is what unwritten cells read
as."""
MOST_LEVELS = 64
"""Of lists and mappings within each other in an attribute. Documents are read to 100 levels, their own among them."""


def equal(a: Any, b: Any) -> bool:
    """Return True if two attribute values are the same in type, dtype and value; NaN equals NaN."""
    if isinstance(a, np.ndarray | np.generic) or isinstance(b, np.ndarray | np.generic):
        if type(a) is not type(b):
            return False
        x, y = np.asarray(a), np.asarray(b)
        if tag_of(x.dtype) != tag_of(y.dtype):
            return False
        if x.dtype == object and y.dtype == object:
            pairs = zip(x.reshape(-1), y.reshape(-1), strict=False)
            return x.shape == y.shape and all(equal(one, other) for one, other in pairs)
        if x.dtype.kind == "T" or y.dtype.kind == "T":  # variable-length text has no byte order to drop
            return x.dtype == y.dtype and bool(np.array_equal(x, y))
        if x.dtype.newbyteorder("=") != y.dtype.newbyteorder("=") or x.shape != y.shape:
            return False
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fcmM"))
    match a:
        case dict() if isinstance(b, dict):
            return list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
        case list() | tuple() if isinstance(b, list | tuple):
            return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
        case float() if isinstance(b, float):
            return a == b or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


def untagged(value: object) -> object:
    """Return a value of a user type as plain NumPy has it: numbers, ``np.void`` cells; any other as it is."""
    if isinstance(value, np.ndarray | np.generic) and tag_of(value.dtype) is not None:
        plain = np.asarray(value)
        return plain.astype(object) if plain.dtype.hasobject else plain.view(without_tag(value.dtype))[()]
    return value


def equal_attrs(a: Attrs, b: Attrs) -> bool:
    """Return True if two sets of attributes hold the same names and values, whatever their order."""
    return set(a) == set(b) and all(equal(a[k], b[k]) for k in a)


def find_deep(value: object, most: int) -> str | None:
    """Return the first parts of the path of what lies in more than so many lists and mappings, or in itself; None where
    nothing does. Nothing recurses."""
    level: list[tuple[str, Any]] = [("", value)]
    for _ in range(most):
        inner = (pair for path, each in level for pair in _inner(path, each))
        level = list({id(each): (path, each) for path, each in inner}.values())
        if not level:
            return None
    return ".".join(level[0][0].split(".")[1:5]) + "…"


def _inner(path: str, value: Any) -> list[tuple[str, object]]:
    """Return the mappings and lists in one of them, each with its path."""
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
    return [(f"{path}.{name}", each) for name, each in pairs if isinstance(each, Mapping | list | tuple)]


def check_levels(attrs: Mapping[Any, Any]) -> None:
    """Raise Invalid, with the name of the attribute, where one is nested so deeply that no format writes it."""
    for name, value in attrs.items():
        if isinstance(value, Mapping | list | tuple) and find_deep(value, MOST_LEVELS) is not None:
            message = f"attribute {name!r} is nested in more than {MOST_LEVELS} levels"
            raise Invalid(message, remedy="store what is nested so deeply as text")
