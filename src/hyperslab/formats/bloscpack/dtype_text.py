"""Data types as bloscpack, Blaze and bcolz spell them: text and JSON lists to NumPy types and back. Pure.

Read are ``<f8``, ``'<f8'`` (quotes inside the text, as bloscpack writes it), ``float64``, ``datetime64[ns]``, the
``descr`` of a structure as text (``[('u', '<u2'), ('v', '<f4', (3,))]``) or as JSON lists. Fields without a name are
padding (``numpy.lib.format``, ``descr_to_dtype``). Object cells are pickles: never read.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np

from hyperslab.errors import FormatError, Unsupported
from hyperslab.formats.bloscpack.metadata import read_literal
from hyperslab.formats.metadata_json.dtypes import LARGEST, dtype_from_json, field_shape

_LONG = re.compile(r"bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)|(?:datetime|timedelta)64(?:\[\w+\])?")
_SHORT = re.compile(r"[<>|=]?(?:[a-zA-Z?]\d*(?:\[\w+\])?)")
_QUOTED = re.compile(f"'({_SHORT.pattern})'")
_OBJECTS = re.compile(r"[<>|=]?(?:O\d*|object)")
_EXOTIC = re.compile(r"[<>|=]?(?:f12|f16|c24|c32|g|G)|float(?:96|128)|complex(?:192|256)")
_PADDING = re.compile(r"\|?V\d{1,9}")


def read_dtype(said: Any) -> np.dtype[Any]:
    """The type of the cells as they lie in the file, padding included.

    TypeError says what is wrong; Unsupported for object cells and for floats of more than 8 bytes.
    """
    if isinstance(said, str):
        text = said.strip()
        if _SHORT.fullmatch(text) or _LONG.fullmatch(text) or _OBJECTS.fullmatch(text) or _EXOTIC.fullmatch(text):
            return _simple(text)
        if quoted := _QUOTED.fullmatch(text):  # a literal as bloscpack writes it, without asking Python's parser
            return _simple(quoted[1])
        try:
            said = read_literal(text)
        except FormatError:
            raise TypeError(f"{text[:80]!r} is no data type") from None
        if isinstance(said, str):
            return _simple(said)
    if isinstance(said, list) and said:
        return _structured(said)
    raise TypeError(f"{said!r:.80} is no data type")


def write_dtype(dtype: np.dtype[Any]) -> str:
    """The text of a type: ``repr`` of its ``str`` or, for a structure, of its ``descr`` (bloscpack 0.16)."""
    return repr(dtype.str if dtype.names is None else dtype.descr)


def long_name(dtype: np.dtype[Any]) -> str:
    """Return the text of a type in the specification's words: ``float64``, ``>f8``, ``|S5``, the ``descr`` of a
    structure."""
    return str(dtype) if dtype.names is None else str(np.lib.format.dtype_to_descr(dtype))


def _simple(text: str) -> np.dtype[Any]:
    if _OBJECTS.fullmatch(text):
        raise Unsupported("object cells are pickles, which run code when they are read", remedy="read it where it is")
    if _EXOTIC.fullmatch(text):
        raise Unsupported(f"cells of type {text!r}, which differ from machine to machine", remedy="store them as f8")
    if _LONG.fullmatch(text):
        try:
            return np.dtype(text)
        except TypeError as error:
            raise TypeError(f"{text!r} is no data type: {error}") from None
    return dtype_from_json(text.replace("?", "b1"))


def _structured(said: list[Any]) -> np.dtype[Any]:
    names: dict[str, np.dtype[Any]] = {}
    offsets, size = [], 0
    for field in said:
        if not isinstance(field, list) or len(field) not in (2, 3):
            raise TypeError(f"{field!r:.80} is no field: (name, type) or (name, type, shape)")
        name = _name(field[0])
        if name == "" and len(field) == 2 and isinstance(field[1], str) and _PADDING.fullmatch(field[1]):
            size += int(field[1].lstrip("|V"))
        else:
            if not name or name in names:
                raise TypeError(f"field {name!r} has no name of its own")
            dtype = read_dtype(field[1])
            names[name] = dtype if len(field) == 2 else _repeated(dtype, field[2])
            offsets.append(size)
            size += names[name].itemsize
        if size > LARGEST:
            raise TypeError(f"cells of this type have {size} bytes or more")
    if not names:
        raise TypeError("a structure without fields")
    return np.dtype({"names": [*names], "formats": [*names.values()], "offsets": offsets, "itemsize": size})


def _name(said: Any) -> str:
    """The name of a field, which may stand behind a title."""
    if isinstance(said, list) and len(said) == 2:
        said = said[1]
    if not isinstance(said, str):
        raise TypeError(f"{said!r:.80} is no name of a field")
    return said


def _repeated(dtype: np.dtype[Any], shape: Any) -> np.dtype[Any]:
    lengths = field_shape(shape)
    if prod(lengths) * dtype.itemsize > LARGEST:
        raise TypeError(f"a field of {prod(lengths)} cells of {dtype.itemsize} bytes")
    return np.dtype((dtype, lengths))
