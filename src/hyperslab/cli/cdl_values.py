"""Names, types and values in CDL: the letters behind numbers, the point in floats, quoted text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from hyperslab.model.dtypes import Char, Compound, DataType, Enum, Opaque, VlenArray, VlenString
from hyperslab.model.spec import ArraySpec

_TYPES = {"i1": "byte", "i2": "short", "i4": "int", "i8": "int64"}
_TYPES |= {"u1": "ubyte", "u2": "ushort", "u4": "uint", "u8": "uint64", "f4": "float", "f8": "double"}
_LETTERS = {"i1": "b", "i2": "s", "i8": "LL", "u1": "UB", "u2": "US", "u4": "U", "u8": "ULL", "f4": "f"}
_SPECIAL = re.compile(r"[\s!\"#$%&'()*,:;<=>?\[\]\\^`{|}~]")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\0": "\\000"}
_BREAK = '\\n",\n\t\t\t"'


def name_text(name: str) -> str:
    """A name with a backslash before each special character, and before a leading digit."""
    text = _SPECIAL.sub(lambda match: "\\" + match.group(), name)
    return f"\\{text}" if text[:1].isdigit() else text


def type_name(dtype: DataType) -> str:
    """The CDL name of a type; NumPy's where CDL has none."""
    match dtype:
        case VlenString():
            return "string"
        case Char():
            return "char"
        case Enum(name=name) | Opaque(name=name) | VlenArray(name=name) | Compound(name=name):
            return name_text(name) or "opaque"
        case np.dtype():
            return _TYPES.get(dtype.str[1:], "char" if dtype.str[1:] == "S1" else str(dtype))
        case _:
            return str(dtype)


def number_text(value: Any, *, letter: bool) -> str:
    """A number as ncdump prints it: 7 digits of a float, 15 of a double, in attributes a point and a ``letter``."""
    cell = np.asarray(value)
    if cell.dtype.kind == "f":
        single = cell.dtype.itemsize <= 4
        text = f"{float(cell):.7g}" if single else f"{float(cell):.15g}"
        if not np.isfinite(cell):
            text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text]
            return f"{text}f" if single and letter else text
        if letter and "." not in text:
            mantissa, exponent, rest = text.partition("e")
            text = f"{mantissa}.{exponent}{rest}"
        return f"{text}f" if single and letter else text
    return f"{value}{_LETTERS.get(cell.dtype.str[1:], '') if letter else ''}"


def quoted(text: str, *, breaks: bool = False) -> str:
    """Text between double quotes; ``breaks`` starts a new line after each newline but the last."""
    escaped = "".join(_ESCAPES.get(letter, letter) for letter in text)
    last = escaped.endswith("\n")
    body = escaped[:-1] if last else escaped
    body = body.replace("\n", _BREAK if breaks else "\\n") + ("\\n" if last else "")
    return f'"{body}"'


def attribute_text(value: Any) -> str:
    """An attribute's value: quoted text, numbers with their letters, JSON where CDL has no word for it."""
    if isinstance(value, str):
        return quoted(str(value), breaks=True)
    if isinstance(value, bytes):
        return quoted(value.decode("utf-8", "backslashreplace"), breaks=True)
    if isinstance(value, bool) or value is None or isinstance(value, dict):
        return quoted(json.dumps(value, default=str))
    if isinstance(value, int) and not -(2**31) <= value < 2**31:
        value = np.int64(value)
    values = list(value) if isinstance(value, np.ndarray | list | tuple) and np.ndim(value) else [value]
    if any(isinstance(item, list | dict | None.__class__) for item in values):
        return quoted(json.dumps(value, default=str))
    return ", ".join(_item_text(item) for item in values)


def _item_text(item: Any) -> str:
    if isinstance(item, str | bytes):
        return quoted(item if isinstance(item, str) else item.decode("utf-8", "backslashreplace"))
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    if isinstance(item, np.void):
        return _cell(item, None)
    return number_text(item, letter=True)


def cell_texts(row: Any, spec: ArraySpec) -> Iterator[str]:
    """The cells of one row; a row of ``char`` is one string. Cells equal to ``_FillValue`` are ``_``."""
    if isinstance(spec.dtype, Char):
        yield quoted(b"".join(row.tolist()).rstrip(b"\0").decode("utf-8", "backslashreplace"))
        return
    missing = spec.attrs.get("_FillValue")
    if isinstance(spec.dtype, Enum):
        names = {number: name_text(name) for name, number in spec.dtype.members}
        yield from (names.get(int(cell), str(cell)) for cell in row)
        return
    text = partial(number_text, letter=False) if row.dtype.kind in "iuf" else partial(_cell, spec=spec)
    for cell in row:
        yield "_" if missing is not None and _equal(cell, missing) else text(cell)


def _equal(cell: Any, missing: Any) -> bool:
    try:
        return bool(cell == missing) or bool(cell != cell and missing != missing)
    except (TypeError, ValueError):
        return False


def _cell(cell: Any, spec: ArraySpec | None) -> str:
    """A cell that is no plain number."""
    if isinstance(cell, str | bytes):
        return _item_text(cell)
    if isinstance(cell, np.void) and cell.dtype.names:
        return "{" + ", ".join(_cell(cell[name], None) for name in cell.dtype.names) + "}"
    if isinstance(cell, np.void):
        return f"0X{cell.tobytes().hex().upper()}"
    if isinstance(cell, np.ndarray):
        return "{" + ", ".join(_cell(item, None) for item in cell.reshape(-1)) + "}"
    if isinstance(cell, np.integer | np.floating):
        return number_text(cell, letter=False)
    return quoted(str(cell))
