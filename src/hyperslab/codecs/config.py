"""Reading a codec's configuration: JSON values in, checked Python values out, every complaint names the codec.

Numbers may be spelled as strings (netCDF-C 4.9.3 writes ``{"id": "zlib", "level": "4"}``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import numpy as np

from hyperslab.errors import Invalid
from hyperslab.model.dtypes import DataType, NumpyDType, describe

Config = Mapping[str, Any]
Kind = TypeVar("Kind")


def only(codec: str, config: Config, *known: str) -> None:
    """Refuse keys that the codec does not have: what they ask for would be silently ignored."""
    unknown = sorted(set(config) - set(known))
    if unknown:
        names = ", ".join(known) or "none"
        raise Invalid(f"codec {codec!r} has no parameter {', '.join(unknown)}", remedy=f"its parameters: {names}")


def unfit(codec: str, kinds: str, dtype: DataType) -> Invalid:
    """Return the error of a codec that is to store cells of another type than ``kinds``."""
    message = f"codec {codec!r} works on {kinds}, not on {describe(dtype)}"
    return Invalid(message, remedy="choose another codec for these cells")


def require_type(codec: str, words: str, dtype: DataType, kind: type[Kind]) -> Kind:
    """Return the type of cells that a codec works on; Invalid for one of another kind, which ``words`` name."""
    if not isinstance(dtype, kind):
        raise unfit(codec, words, dtype)
    return dtype


def integer(codec: str, config: Config, key: str, default: int | None, low: int, high: int) -> int:
    """Return a whole number between ``low`` and ``high``; ``default`` where it is absent or null (required when that is
    None)."""
    value = config.get(key)
    if value is None and default is not None:
        return default
    if value is None:
        raise Invalid(f"codec {codec!r} needs {key}", remedy=f"a whole number from {low} to {high}")
    number = _number(value)
    if number is None or number != int(number) or not low <= number <= high:
        raise Invalid(f"codec {codec!r}: {key}={value!r}", remedy=f"it is a whole number from {low} to {high}")
    return int(number)


def number(codec: str, config: Config, key: str, default: float | None = None) -> int | float:
    """Return a finite number; ``default`` where it is absent (required when that is None)."""
    value = config.get(key, default)
    found = _number(value)
    if found is None:
        raise Invalid(f"codec {codec!r}: {key}={value!r}", remedy="it is a number")
    return found


def flag(codec: str, config: Config, key: str, default: bool) -> bool:
    """Return the parameter ``key``, which is true or false; ``default`` where it is missing."""
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, bool | int) or value not in (0, 1):
        raise Invalid(f"codec {codec!r}: {key}={value!r}", remedy="it is true or false")
    return bool(value)


def choice(codec: str, config: Config, key: str, default: str, words: Collection[str]) -> str:
    """Return one of some words."""
    value = config.get(key)
    value = default if value is None else value
    if value not in words:
        raise Invalid(f"codec {codec!r}: {key}={value!r}", remedy=f"it is one of {', '.join(sorted(words))}")
    return str(value)


def dtype(codec: str, config: Config, key: str, default: Any = None) -> NumpyDType:
    """Return a NumPy dtype of fixed size, spelled as NumPy or Zarr v2 does, with or without byte order."""
    value = config.get(key)
    value = default if value is None else value
    try:
        if value is None or (isinstance(value, str) and "," in value):
            raise TypeError(value)
        found = np.dtype(value)
    except (TypeError, ValueError, SyntaxError) as error:
        raise Invalid(f"codec {codec!r}: {key}={value!r}", remedy="it is a dtype such as '<f4'") from error
    if found.hasobject or found.itemsize == 0 or found.subdtype is not None:
        raise Invalid(f"codec {codec!r}: {key}={value!r}", remedy="it is a dtype of fixed size, not an object")
    return found


def _number(value: object) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value) if set(value) & set(".eEnN") else int(value)
        except ValueError:
            return None
    return value if isinstance(value, int) or (isinstance(value, float) and np.isfinite(value)) else None
