"""Names and attributes as BSON has them: what it does not have is refused before anything is written."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

import bson
import numpy as np
from bson.errors import BSONError

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.mongo.document_limits import check_levels

_REMEDY = (
    "store numbers, text, true and false, datetimes (datetime.datetime), bytes, lists and mappings of them, or None"
)
_DATES = "store it as text (isoformat() or str()), or a date as the datetime.datetime at its midnight"


def attributes(attrs: Mapping[Hashable, Any], owner: str) -> dict[str, Any]:
    """The attributes of ``owner`` as they are stored; Unsupported names the one that cannot be.

    NumPy's scalars become Python's, its arrays of one dimension lists, tuples lists.
    """
    return {_key(name, owner): _stored(value, f"attribute {name!r} of {owner}") for name, value in attrs.items()}


def _key(name: Hashable, owner: str) -> str:
    if not isinstance(name, str) or "\0" in name or not _is_text(name):
        remedy = "names of attributes are text without NUL"
        raise Unsupported(f"{owner} has an attribute with the name {name!r}", remedy=remedy)
    return str(name)


def _stored(value: Any, what: str) -> Any:
    check_levels(what, value)
    plain = _plain(value, what)
    try:
        bson.encode({"value": plain})
    except (BSONError, OverflowError, TypeError, ValueError, RecursionError) as error:
        remedy = _DATES if _holds_date(value) else _REMEDY
        raise Unsupported(f"{what} is {_said(value)}, which BSON has no type for", remedy=remedy) from error
    return plain


def _holds_date(value: Any) -> bool:
    if isinstance(value, Mapping | list | tuple):
        return any(map(_holds_date, value.values() if isinstance(value, Mapping) else value))
    return isinstance(value, date | time | timedelta) and not isinstance(value, datetime)


def _said(value: Any) -> str:
    return f"a {type(value).__name__}: {str(value)[:60]}"


def _plain(value: Any, what: str) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in "bifuUS" or value.ndim > 1 or value.dtype == np.longdouble:
            raise Unsupported(f"{what} is {_said(value)}, of type {value.dtype}", remedy=_REMEDY)
        return value.tolist()
    if isinstance(value, Mapping):
        return {_key(name, what): _plain(inner, what) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, what) for inner in value]
    return value


def variable_name(name: Hashable) -> str:
    """A variable's name. Invalid for what is no text, or cannot be a key of a document."""
    if not isinstance(name, str) or "\0" in name or not _is_text(name):
        raise Invalid(f"a variable with the name {name!r}", remedy="names of variables are text without NUL")
    return str(name)


def dimension_names(dims: tuple[Hashable, ...], variable: str) -> tuple[Hashable, ...]:
    """The names of a variable's dimensions: text or numbers, which come back as they were. Invalid."""
    for dim in dims:
        if not _is_name(dim):
            raise Invalid(f"{variable!r} has a dimension with the name {dim!r}", remedy="give text or numbers")
    return tuple(_native(dim) for dim in dims)


def object_name(name: Any) -> Any:
    """The name of an object: text, a number, or None. Invalid for others, which would come back as something else."""
    if name is not None and not _is_name(name):
        raise Invalid(f"an object with the name {name!r}", remedy="give text or a number: rename()")
    return _native(name)


def _is_name(name: Any) -> bool:
    if isinstance(name, str):
        return _is_text(name)
    return isinstance(name, float) or (isinstance(name, int | np.integer) and -(1 << 63) <= int(name) < 1 << 63)


def _native(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
