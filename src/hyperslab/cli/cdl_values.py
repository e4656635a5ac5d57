"""Names, types and values in CDL: the letters behind numbers, the point in floats, quoted text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from hyperslab.model.dtypes import (
    Char,
    Compound,
    DataType,
    Enum,
    ObjectRef,
    Opaque,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    tag_of,
)
from hyperslab.model.refs import ObjectReference, RegionReference
from hyperslab.model.spec import ArraySpec

_TYPES = {"i1": "byte", "i2": "short", "i4": "int", "i8": "int64"}
_TYPES |= {"u1": "ubyte", "u2": "ushort", "u4": "uint", "u8": "uint64", "f4": "float", "f8": "double"}
_LETTERS = {"i1": "b", "i2": "s", "i8": "LL", "u1": "UB", "u2": "US", "u4": "U", "u8": "ULL", "f4": "f"}
_SPECIAL = re.compile(r"[\s!\"#$%&'()*,:;<=>?\[\]\\^`{|}~]")
_CONTROLS = {chr(code): f"\\{code:03o}" for code in (*range(32), 127)}
_ESCAPES = _CONTROLS | {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
_ESCAPES |= {chr(0xDC00 + code): f"\\{code:03o}" for code in range(128, 256)}  # bytes that are no UTF-8
del _ESCAPES["\n"]
_BREAK = '\\n",\n\t\t\t"'


def name_text(name: str) -> str:
    """A name with a backslash before each special character, and before a leading digit."""
    text = _SPECIAL.sub(lambda match: "\\" + match.group(), name)
    return f"\\{text}" if text[:1].isdigit() else text


def type_name(dtype: DataType) -> str:
    """The CDL name of a type; NumPy's where CDL has none."""
    match dtype:
        case VlenString() | ObjectRef() | RegionRef():  # those are shown as paths
            return "string"
        case Char():
            return "char"
        case Enum(name=name) | Opaque(name=name) | VlenArray(name=name) | Compound(name=name):
            return name_text(name) or "opaque"
        case np.dtype() if (kind := tag_of(dtype)) is not None:
            return type_name(kind)
        case np.dtype(names=names) if names is not None:
            return f"compound {{{' '.join(f'{type_name(dtype[name])} {name_text(name)};' for name in names)}}}"
        case VlenBytes():  # shown as text
            return "string"
        case np.dtype():
            return _TYPES.get(dtype.str[1:], "char" if dtype.str[1:] == "S1" else str(dtype))
        case _:
            return str(dtype)


def number_text(value: Any, *, letter: bool) -> str:
    """A number as ncdump prints it: 7 digits of a float, 15 of a double, more where these are another number; in
    attributes a point and a ``letter``."""
    cell = np.asarray(value)
    if cell.dtype.kind == "f":
        single = cell.dtype.itemsize <= 4
        text = f"{float(cell):.7g}" if single else f"{float(cell):.15g}"
        if np.isfinite(cell) and not _is(text, cell):
            text = f"{float(cell):.9g}" if single else f"{float(cell):.17g}"
        if not np.isfinite(cell):
            text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[text]
            return f"{text}f" if single and letter else text
        if "." not in text and (letter or text == "-0"):
            mantissa, exponent, rest = text.partition("e")
            text = f"{mantissa}.{exponent}{rest}"
        return f"{text}f" if single and letter else text
    return f"{value}{_LETTERS.get(cell.dtype.str[1:], '') if letter else ''}"


def _is(text: str, cell: np.ndarray[Any, Any]) -> bool:
    with np.errstate(over="ignore"):
        return bool(cell.dtype.type(text) == cell)


def quoted(text: str, *, breaks: bool = False) -> str:
    """Text between double quotes; ``breaks`` starts a new line after each newline but the last."""
    escaped = "".join(_ESCAPES.get(letter, letter) for letter in text)
    last = escaped.endswith("\n")
    body = escaped[:-1] if last else escaped
    body = body.replace("\n", _BREAK if breaks else "\\n") + ("\\n" if last else "")
    return f'"{body}"'


def attribute_type(value: Any) -> str:
    """What stands before an attribute's name: the type, where its values alone do not tell it."""
    if isinstance(value, np.ndarray | np.generic):
        if isinstance(value, np.str_) or value.dtype.kind == "T":
            return "string "
        kind = tag_of(value.dtype)
        return "" if kind is None else f"{type_name(kind)} "
    if isinstance(value, ObjectReference | RegionReference):
        return "string "
    texts = isinstance(value, list | tuple) and bool(value) and all(isinstance(item, str) for item in value)
    return "string " if texts else ""


def attribute_text(value: Any) -> str:
    """An attribute's value: quoted text, numbers with their letters, JSON where CDL has no word for it."""
    if isinstance(value, np.ndarray | np.generic) and (kind := tag_of(value.dtype)) is not None:
        return ", ".join(_user_text(cell, kind) for cell in np.atleast_1d(np.asarray(value)))
    if isinstance(value, str):
        return quoted(str(value), breaks=True)
    if isinstance(value, ObjectReference | RegionReference):
        return quoted(str(value))
    if isinstance(value, bytes):
        return _quoted_bytes(value)
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
        return quoted(item) if isinstance(item, str) else _quoted_bytes(item)
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    if isinstance(item, np.void):
        return _user_text(item, item.dtype)
    return number_text(item, letter=True)


def _quoted_bytes(data: bytes) -> str:
    return quoted(data.decode("utf-8", "surrogateescape"))


def cell_texts(row: Any, spec: ArraySpec) -> Iterator[str]:
    """The cells of one row; a row of ``char`` is one string. Cells equal to ``_FillValue`` are ``_``."""
    missing = spec.attrs.get("_FillValue")
    if isinstance(spec.dtype, Char):
        text = row.tobytes()
        yield _quoted_bytes(text if missing is not None else text.rstrip(b"\0"))
        return
    if is_plain_number(spec):
        yield from number_texts(row, spec)
        return
    kind = spec.numpy_dtype if isinstance(spec.dtype, VlenString) else spec.dtype
    for cell in row:
        yield "_" if missing is not None and _equal(cell, missing) else _user_text(cell, kind)


def is_plain_number(spec: ArraySpec) -> bool:
    """Return whether cells are whole numbers, or floats of 4 or 8 bytes, and no user's type."""
    dtype = spec.dtype
    return isinstance(dtype, np.dtype) and (dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize in (4, 8)))


def number_texts(cells: np.ndarray[Any, Any], spec: ArraySpec) -> list[str]:
    """Return many numbers as :func:`number_text` prints each, by one format for all; where ``_FillValue`` is, ``_``."""
    missing = spec.attrs.get("_FillValue")
    texts = _float_texts(cells) if cells.dtype.kind == "f" else list(map(str, cells.tolist()))
    if missing is not None:
        for place in np.flatnonzero(
            [_equal(cell, missing) for cell in cells] if np.ndim(missing) else cells == missing
        ):
            texts[place] = "_"
        if cells.dtype.kind == "f" and not np.ndim(missing) and missing != missing:
            for place in np.flatnonzero(np.isnan(cells)):
                texts[place] = "_"
    return texts


def _float_texts(cells: np.ndarray[Any, Any]) -> list[str]:
    """Return finite numbers by few digits, those that these do not tell by more, the special ones by their names."""
    few, many = ("%.7g", "%.9g") if cells.dtype.itemsize == 4 else ("%.15g", "%.17g")
    finite = np.isfinite(cells)
    plain = np.where(finite, cells, 0)
    texts = _formatted(plain, few)
    with np.errstate(over="ignore"):
        told = np.array(list(map(float, texts))).astype(cells.dtype.newbyteorder("="))
    wrong = np.flatnonzero(told != plain)
    for place, text in zip(wrong.tolist(), _formatted(plain[wrong], many), strict=True):
        texts[place] = text
    special = ~finite | ((cells == 0) & np.signbit(cells))
    for place in np.flatnonzero(special).tolist():
        texts[place] = number_text(cells[place], letter=False)
    return texts


def _formatted(cells: np.ndarray[Any, Any], form: str) -> list[str]:
    return (f"{form} " * cells.size % tuple(cells.tolist())).split()


def _equal(cell: Any, missing: Any) -> bool:
    if isinstance(cell, str | bytes):  # ncgen takes no _ for text
        return False
    try:
        return bool(cell == missing) or bool(cell != cell and missing != missing)
    except (TypeError, ValueError):
        return False


def _user_text(cell: Any, kind: Any) -> str:
    """A cell of any type; ``kind`` is ours or NumPy's, whose fields may be tagged."""
    match kind:
        case Enum(members=members):
            names = {number: name for name, number in members}
            return name_text(names[int(cell)]) if int(cell) in names else str(int(cell))
        case Compound(base=base):
            return _structure_text(cell, base)
        case VlenArray(base=base):
            return "{" + ", ".join(_user_text(item, tag_of(base) or base) for item in np.atleast_1d(cell)) + "}"
    if isinstance(cell, np.void):
        return _structure_text(cell, cell.dtype) if cell.dtype.names else f"0X{cell.tobytes().hex().upper()}"
    if isinstance(cell, np.integer | np.floating):
        return number_text(cell, letter=False)
    if isinstance(cell, bytes):
        return _quoted_bytes(cell or b"\0")
    if isinstance(cell, np.ndarray):
        return "{" + ", ".join(_user_text(item, cell.dtype) for item in cell.reshape(-1)) + "}"
    return quoted("" if cell is None else str(cell))


def _structure_text(cell: Any, base: np.dtype[Any]) -> str:
    return "{" + ", ".join(_field_text(cell[name], base[name]) for name in base.names or ()) + "}"


def _field_text(value: Any, dtype: np.dtype[Any]) -> str:
    """A field; an array of chars is a string per row."""
    kind: DataType = tag_of(dtype.base) or dtype.base
    if not dtype.shape:
        return _user_text(value, kind)
    if dtype.base == np.dtype("S1"):
        rows = np.ascontiguousarray(value).reshape(-1, dtype.shape[-1])
        return "{" + ", ".join(_quoted_bytes(row.tobytes().rstrip(b"\0")) for row in rows) + "}"
    return "{" + ", ".join(_user_text(item, kind) for item in value.reshape(-1)) + "}"
