"""NumPy data types as JSON: ``"<f4"``, and structured ones as lists of ``[name, type]`` or ``[name, type, shape]``.

That is Zarr v2's spelling (its ``dtype``) and ours in ``_hyperslab``. Only plain types are read: never ``object``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

_PLAIN = re.compile(
    r"[<>|=]?(?:b1|[iu][1248]|f[248]|c8|c16)|[<>|=]?[mM]8(?:\[\d*(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)
_SIZED = re.compile(r"[<>|=]?([SUV])(\d{1,9})")
LARGEST = 1 << 28
"""The largest cell, in bytes."""


def dtype_to_json(dtype: np.dtype[Any]) -> Any:
    """The JSON spelling of a packed type, byte order included; TypeError for types that have none."""
    if dtype.names is not None and dtype.fields is not None:
        return [_field(name, dtype.fields[name][0]) for name in dtype.names]
    if dtype.subdtype is None and dtype_from_json(dtype.str) == dtype:
        return dtype.str
    raise TypeError(f"{dtype} has no name in JSON")


def _field(name: str, dtype: np.dtype[Any]) -> list[Any]:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [name, dtype_to_json(base), list(shape)]
    return [name, dtype_to_json(dtype)]


def dtype_from_json(name: Any) -> np.dtype[Any]:
    """The type of a JSON spelling; TypeError says what is wrong with it."""
    if isinstance(name, str):
        return _simple(name)
    if isinstance(name, list) and name:
        return _structured(name)
    raise TypeError(f"{name!r} is no data type")


@lru_cache(maxsize=256)
def _simple(name: str) -> np.dtype[Any]:
    sized = _SIZED.fullmatch(name)
    if sized is None and _PLAIN.fullmatch(name) is None:
        raise TypeError(f"{name!r} is no data type that is known")
    try:
        dtype = np.dtype(name)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name!r} is no data type: {error}") from None
    if not 0 < dtype.itemsize <= LARGEST:
        raise TypeError(f"cells of type {name!r} have {dtype.itemsize} bytes")
    return dtype


def _structured(fields: list[Any]) -> np.dtype[Any]:
    parts: list[Any] = []
    for field in fields:
        if not isinstance(field, list) or len(field) not in (2, 3) or not isinstance(field[0], str):
            raise TypeError(f"{field!r} is no field: [name, type] or [name, type, shape]")
        parts.append((field[0], dtype_from_json(field[1]), *map(field_shape, field[2:])))
    names = [part[0] for part in parts]
    if "" in names or len(set(names)) < len(names):
        raise TypeError(f"field names {names} are empty or occur twice")
    dtype = np.dtype(parts)
    if dtype.itemsize > LARGEST:
        raise TypeError(f"cells of this type have {dtype.itemsize} bytes")
    return dtype


def field_shape(shape: Any) -> tuple[int, ...]:
    """The shape of a field in JSON, a list of lengths or one; TypeError when it is none."""
    lengths = (shape,) if isinstance(shape, int) else tuple(shape) if isinstance(shape, list) else (None,)
    if not all(type(n) is int and 0 < n <= LARGEST for n in lengths) or len(lengths) > 32:
        raise TypeError(f"{shape!r:.80} is no shape of a field")
    if prod(lengths) > LARGEST:
        raise TypeError(f"a field of {prod(lengths)} cells")
    return lengths
