"""NumPy's scalars in pickles as plain values, made of their bytes by a closed list of types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperslab.errors import UnsafePickle

_TYPES = re.compile(r"[iu][1248]|f[248]|b1|U\d{1,6}|S\d{1,6}")
_ORDERS = ("<", ">", "|", "=")


@dataclass(frozen=True, slots=True)
class ScalarLayout:
    """What a pickle says of a dtype: its code (``i4``), the order of its bytes, its fields and their places."""

    code: str
    order: Any
    fields: tuple[tuple[ScalarLayout, int], ...]


def scalar_of(layout: ScalarLayout, data: Any) -> Any:
    """Return the plain value that these bytes are, of a row a tuple; UnsafePickle for all other types and lengths."""
    if type(data) is not bytes or layout.order not in _ORDERS:
        raise UnsafePickle("a pickled scalar without its bytes")
    if layout.fields:
        return tuple(_field(kind, at, data) for kind, at in layout.fields)
    if _TYPES.fullmatch(layout.code) is None:
        raise UnsafePickle(f"a pickled scalar of type {layout.code[:20]}")
    dtype = np.dtype(("" if layout.order == "|" else layout.order) + layout.code)
    if dtype.itemsize != len(data):
        raise UnsafePickle(f"a pickled {layout.code} of {len(data)} bytes")
    try:
        return np.frombuffer(data, dtype)[0].item() if data else dtype.type().item()
    except (ValueError, OverflowError) as error:  # text that is no Unicode
        raise UnsafePickle(f"a pickled {layout.code}: {error}") from None


def _field(kind: ScalarLayout, at: int, data: bytes) -> Any:
    length = _TYPES.fullmatch(kind.code) and np.dtype(kind.code).itemsize
    if not length or not 0 <= at <= len(data) - length:
        raise UnsafePickle("a pickled row with a field outside of it, or of an unknown type")
    return scalar_of(kind, data[at : at + length])
