"""The dtypes that documents name, as ``numpy.dtype.str`` spells them, and what is refused by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hyperslab.errors import Unsupported

_TEXT = re.compile(r"[<>|=]?(?:[biufc]\d{1,2}|[mM]8(?:\[\w{1,12}\])?|[SUV]\d{1,9})")
_REMEDY = "store numbers, times, or text of a fixed length (astype('U'))"
_DATES = "; dates of other calendars as the numbers that decode_times=False leaves"


def dtype_to_text(dtype: np.dtype[Any], name: str) -> str:
    """Return the dtype's name in a document; always little-endian.

    Unsupported for what has no bytes of its own, or fields, or a type that another package has registered.
    """
    is_registered = dtype.kind == "V" and dtype.type is not np.void  # as bfloat16, whose name says only how long it is
    if dtype.hasobject or dtype.kind == "T" or dtype.names is not None or dtype.subdtype is not None or is_registered:
        raise Unsupported(
            f"variable {name!r} has cells of type {dtype}", remedy=_REMEDY + (_DATES if dtype.hasobject else "")
        )
    return dtype.newbyteorder("<").str


def dtype_from_text(text: Any, name: str) -> np.dtype[Any]:
    """The dtype that a document names. Unsupported for object dtypes and whatever else is no plain NumPy dtype."""
    if isinstance(text, str) and _TEXT.fullmatch(text):
        try:
            return np.dtype(text)
        except TypeError:
            pass
    remedy = "its cells cannot be told from these documents; store it anew"
    raise Unsupported(f"variable {name!r} has cells of type {text!r}", remedy=remedy)


def little(cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The cells as they are stored: C order, little-endian, the padding of long doubles zeroed."""
    cells = np.ascontiguousarray(cells, cells.dtype.newbyteorder("<")).reshape(cells.shape)
    return _without_padding(cells) if cells.dtype.kind in "fc" and cells.dtype.itemsize in (16, 32) and _PADS else cells


_PADS = np.dtype(np.longdouble).itemsize == 16 and np.finfo(np.longdouble).nmant == 63


def _without_padding(cells: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """x87 numbers take 10 of 16 bytes; what lies in the others is whatever lay in memory."""
    if cells.dtype == np.dtype("<c16"):
        return cells
    cells = cells.copy()
    cells.reshape(-1).view(np.uint8).reshape(-1, 16)[:, 10:] = 0
    return cells
