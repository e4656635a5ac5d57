"""Types of cells by the names that documents give them, fill values as text; attribute schemas and their values.

The names are a table of ours: NumPy 2 has removed some of them, and what they mean never depends on its version.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np

from hyperslab.errors import SchemaError
from hyperslab.model.cells import float_to_json
from hyperslab.model.schemas.dimensions import as_moment, get_utc, iso_text, require_name

# -- names of types of cells ------------------------------------------------------------------------------------------


_PREFIX = "numpy."


_NUMBER_TYPES = {np.dtype(code).type for code in "bhilqBHILQefdgFDG"}


# By NumPy's character: the name that DEKER writes.
_WRITTEN = {
    **{np.dtype(kind).char: kind for kind in ("int8", "int16", "int32", "uint8", "uint16", "uint32")},
    **{np.dtype(kind).char: kind for kind in ("float16", "float32", "float64", "complex64")},
    "q": "longlong",
    "Q": "ulonglong",
    "g": "float128",
    "D": "cfloat",
    "G": "clongfloat",
    np.dtype("int64").char: "int64",
    np.dtype("uint64").char: "uint",
}


# Every name that a document may have, with its type: the same on every platform.
_READ = {
    "int8": "i1",
    "byte": "i1",
    "int16": "i2",
    "short": "i2",
    "int32": "i4",
    "intc": "i4",
    "int64": "i8",
    "int": "i8",
    "int_": "i8",
    "intp": "i8",
    "longlong": "q",
    "uint8": "u1",
    "ubyte": "u1",
    "uint16": "u2",
    "ushort": "u2",
    "uint32": "u4",
    "uintc": "u4",
    "uint64": "u8",
    "uint": "u8",
    "uintp": "u8",
    "ulonglong": "Q",
    "float16": "f2",
    "float32": "f4",
    "float64": "f8",
    "float": "f8",
    "double": "f8",
    "float128": "g",
    "longfloat": "g",
    "longdouble": "g",
    "complex64": "c8",
    "singlecomplex": "c8",
    "complex128": "c16",
    "complex": "c16",
    "complex_": "c16",
    "cfloat": "c16",
    "cdouble": "c16",
    "complex256": "G",
    "clongfloat": "G",
    "longcomplex": "G",
    "clongdouble": "G",
}


_PYTHON = {int: "int64", float: "float64", complex: "complex128"}


_NUMBER = r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf(?:inity)?|nan)"


_COMPLEX = re.compile(rf"(?:(?P<real>{_NUMBER})(?=[+-]))?(?P<imag>{_NUMBER})j", re.IGNORECASE | re.ASCII)


_REAL = re.compile(_NUMBER, re.IGNORECASE | re.ASCII)


def is_numeric(kind: object) -> bool:
    """Return True if this is a NumPy scalar type of whole, real or complex numbers (no abstract one, no bool)."""
    return isinstance(kind, type) and kind in _NUMBER_TYPES


def require_dtype(kind: Any) -> np.dtype[np.generic]:
    """Return the native dtype of ``int``, ``float``, ``complex``, a NumPy scalar type or a dtype; SchemaError."""
    if isinstance(kind, type) and kind in _PYTHON:
        return np.dtype(_PYTHON[kind])
    cells = kind.type if isinstance(kind, np.dtype) else kind
    if is_numeric(cells):
        return np.dtype(cells)
    raise SchemaError(
        f"a dtype of {kind!r}",
        remedy="give int, float, complex, a NumPy type of numbers such as np.float32, or its dtype",
    )


def dtype_name(dtype: np.dtype[np.generic]) -> str:
    """Return ``numpy.<name>`` as collection documents have it."""
    return _PREFIX + _WRITTEN[dtype.char]


def dtype_of(name: object) -> np.dtype[np.generic]:
    """Return the type of a written name, its prefix optional; SchemaError for one that nobody writes."""
    code = _READ.get(name.removeprefix(_PREFIX)) if isinstance(name, str) else None
    if code is None:
        remedy = "write numpy.int64, say; of an attribute also int, float, complex, string, tuple or datetime"
        raise SchemaError(f"{name!r} is no name of a type of cells", remedy=remedy)
    return np.dtype(code)


def is_extended(dtype: np.dtype[np.generic]) -> bool:
    """Return True if cells of this type are floats of 80 bits, or pairs of them."""
    return dtype.char in "gG"


def reads_extended(cells: type[np.floating[Any]] = np.longdouble) -> bool:
    """Return True if a type of this platform, its long double, is the 80-bit float of x86 in 16 bytes."""
    return np.finfo(cells).nmant == 63 and np.dtype(cells).itemsize == 16


def default_fill(dtype: np.dtype[np.generic]) -> np.generic:
    """Return the fill value that is taken when none is given: the lowest whole number; NaN, and ``nan+0j``, for
    others."""
    if dtype.kind in "iu":
        return _cell(np.iinfo(dtype.str).min, dtype)
    return _cell(float("nan"), dtype)


def require_fill(value: object, dtype: np.dtype[np.generic]) -> np.generic:
    """Return a fill value in the type of the cells: the same number, or the nearest where they are floats;
    SchemaError."""
    if value is None:
        return default_fill(dtype)
    allowed = (int, float, complex, np.number)
    if isinstance(value, bool | np.timedelta64) or not isinstance(value, allowed):
        raise SchemaError(f"a fill value of {value!r}", remedy="give a number")
    kind = np.dtype(type(value)).kind if isinstance(value, np.generic) else type(value)
    if dtype.kind in "iu":
        return _whole_fill(value, dtype, is_complex=kind in ("c", complex))
    if dtype.kind == "f" and kind in ("c", complex):
        raise _no_fill(value, dtype)
    with np.errstate(over="ignore"):
        try:
            cell = _cell(value, dtype)
        except OverflowError:
            raise _no_fill(value, dtype) from None
    parts = (value.real, cell.real), (value.imag, cell.imag)
    if any(np.isinf(there) and abs(here) != np.inf for here, there in parts):  # a finite part has become infinite
        raise _no_fill(value, dtype)
    return cell if cell == cell else default_fill(dtype)


def _whole_fill(value: Any, dtype: np.dtype[np.generic], *, is_complex: bool) -> np.generic:
    limits = np.iinfo(dtype.str)
    if is_complex or value != value or value in (np.inf, -np.inf) or int(value) != value:
        raise _no_fill(value, dtype)
    if not limits.min <= int(value) <= limits.max:
        raise _no_fill(value, dtype)
    return _cell(int(value), dtype)


def _no_fill(value: object, dtype: np.dtype[np.generic]) -> SchemaError:
    return SchemaError(
        f"the fill value {value!r} is not one of the cells' type {dtype}",
        remedy="give one that the type can hold, or choose a wider type",
    )


def _cell(value: object, dtype: np.dtype[np.generic]) -> np.generic:
    cells = np.zeros(1, dtype)
    cells[0] = value
    made: np.generic = cells[0]
    return made


def fill_text(fill: np.generic) -> str | None:
    """Return a fill value as documents have it: its text; None for NaN."""
    return None if fill != fill else str(fill)


def fill_of(value: object, dtype: np.dtype[np.generic]) -> np.generic:
    """Return a fill value from a document: null, text or a number; SchemaError. Text is read with the type's own
    precision."""
    if value is None:
        return default_fill(dtype)
    if not isinstance(value, str):
        return require_fill(value, dtype)
    text = value.strip().removeprefix("(").removesuffix(")").strip()
    if dtype.kind in "iu":
        if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
            raise _no_fill(value, dtype)
        return require_fill(int(text), dtype)
    if dtype.kind == "f" and not _REAL.fullmatch(text):
        raise _no_fill(value, dtype)
    cell = _float(text, dtype) if dtype.kind == "f" else _complex(text, value, dtype)
    return cell if cell == cell else default_fill(dtype)


def _float(text: str, dtype: np.dtype[np.generic]) -> np.generic:
    """Return the number of a text, to the nearest one of the type; SchemaError beyond its largest."""
    silent = warnings.catch_warnings(action="ignore") if is_extended(dtype) else nullcontext()
    with np.errstate(over="ignore"), silent:  # NumPy warns of long doubles near zero
        cell = _cell(dtype.type(text), dtype)
    if np.isinf(cell) and "n" not in text.lower():
        raise _no_fill(text, dtype)
    return cell


def _complex(text: str, value: str, dtype: np.dtype[np.generic]) -> np.generic:
    part = np.zeros((), dtype).real.dtype
    pair = np.zeros(2, part)
    if _REAL.fullmatch(text):
        pair[0] = _float(text, part)
    elif found := _COMPLEX.fullmatch(text):
        pair[0] = _float(found["real"] or "0", part)
        pair[1] = _float(found["imag"], part)
    else:
        raise _no_fill(value, dtype)
    return _cell(pair.view(dtype)[0], dtype)


# -- attributes -------------------------------------------------------------------------------------------------------


_ATTRIBUTE_TYPE_NAMES: dict[type, str] = {
    int: "int",
    float: "float",
    complex: "complex",
    str: "string",
    tuple: "tuple",
    datetime: "datetime",
}


_ATTRIBUTE_TYPES = {name: kind for kind, name in _ATTRIBUTE_TYPE_NAMES.items()}


@dataclass(frozen=True, slots=True)
class AttributeSchema:
    """An attribute that each array of a collection has.

    ``dtype`` is ``int``, ``float``, ``complex``, ``str``, ``tuple``, ``datetime.datetime`` or a NumPy type of numbers.
    ``primary`` ones are the key of an array and never change; the values of others (custom ones) may. ``default``: what
    a custom one reads as in arrays that were made without it, None for unset; without a default (``...``) arrays that
    lack it are reported by checks.
    """

    name: str
    dtype: type[Any]
    primary: bool
    default: object = ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", require_name(self.name, "an attribute"))
        if not (isinstance(self.dtype, type) and self.dtype in _ATTRIBUTE_TYPE_NAMES) and not is_numeric(self.dtype):
            raise SchemaError(
                f"attribute {self.name!r} has the dtype {self.dtype!r}",
                remedy="choose int, float, complex, str, tuple, datetime.datetime or a NumPy type of numbers",
            )
        if not isinstance(self.primary, bool):
            raise SchemaError(f"attribute {self.name!r}: primary is {self.primary!r}", remedy="give True or False")
        if self.has_default and self.primary:
            remedy = "give its value with each array"
            raise SchemaError(f"the primary attribute {self.name!r} has a default", remedy=remedy)
        if self.unset_value is not None:
            made = convert_value(self, self.default)
            # One object for all NaN, so that equal schemas compare as equal.
            object.__setattr__(self, "default", math.nan if made != made else made)

    def __repr__(self) -> str:
        default = f", default={self.default!r}" if self.has_default else ""
        return f"AttributeSchema(name={self.name!r}, dtype={self.dtype!r}, primary={self.primary!r}{default})"

    @property
    def has_default(self) -> bool:
        """Return True if arrays may lack the attribute."""
        return self.default is not ...

    @property
    def unset_value(self) -> object:
        """The value in arrays that were made without it."""
        return self.default if self.has_default else None

    @property
    def as_dict(self) -> dict[str, object]:
        """The attribute as a collection document has it."""
        value = float_to_json(self.default) if isinstance(self.default, float) else value_to_json(self.default)
        default = {"default": value} if self.has_default else {}
        return {"name": self.name, "primary": self.primary, "dtype": type_name(self.dtype), **default}


def type_name(kind: type) -> str:
    """Return the name of an attribute's type in documents."""
    return _ATTRIBUTE_TYPE_NAMES[kind] if kind in _ATTRIBUTE_TYPE_NAMES else dtype_name(np.dtype(kind))


def type_of(name: object) -> type:
    """Return the type of an attribute by its name in documents; SchemaError."""
    if isinstance(name, str) and name in _ATTRIBUTE_TYPES:
        return _ATTRIBUTE_TYPES[name]
    return dtype_of(name).type


def value_to_json(value: object, *, spaced: bool = False) -> object:
    """Return one value of an attribute as a JSON value. ``spaced``: datetimes with a space for T."""
    match value:
        case datetime():
            return str(get_utc(value)) if spaced else iso_text(value)
        case complex():
            return str(value)
    return [value_to_json(part) for part in value] if isinstance(value, tuple) else value


def convert_value(attribute: AttributeSchema, value: object) -> object:
    """Return a value of the attribute's type as a plain Python value; SchemaError names the attribute.

    NumPy numbers are taken by value, whole numbers for floats as well; never a bool. Times may be datetimes, dates, ISO
    texts or datetime64.
    """
    kind = attribute.dtype
    make = _MAKERS.get(kind)
    try:
        made = make(value) if make else _numpy_number(value, np.dtype(kind))
    except (TypeError, ValueError, OverflowError) as error:
        reason, remedy = (error.message, error.remedy) if isinstance(error, SchemaError) else (f"{error}", None)
        text = repr(value)
        shown = f"{text if len(text) <= 60 else text[:57] + '...'} of type {type(value).__name__}"
        raise SchemaError(
            f"attribute {attribute.name!r} takes {type_name(kind)}, not {shown} ({reason})",
            remedy=remedy or f"give a value of the type {type_name(kind)}",
        ) from None
    return made


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def _to_int(value: Any) -> int:
    if not _is_number(value, int, np.integer):
        raise TypeError("a whole number is needed")
    return int(value)


def _to_float(value: Any) -> float:
    if not _is_number(value, int, float, np.integer, np.floating):
        raise TypeError("a float is needed")
    number = float(value)
    if isinstance(value, int | np.integer) and int(number) != value:
        raise ValueError("no float is equal to it")
    return number


def _to_complex(value: Any) -> complex:
    if not _is_number(value, complex, np.complexfloating):
        raise TypeError("a complex number is needed")
    return complex(value)


def _to_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("text is needed")
    return str(value)


def _to_datetime(value: object) -> datetime:
    if not isinstance(value, date | str | np.datetime64):
        raise TypeError("a datetime, a date, ISO 8601 text or a datetime64 is needed")
    return as_moment(value)


def _to_tuple(value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise TypeError("a tuple is needed")
    return tuple(_to_tuple_member(part) for part in value)


def _to_tuple_member(value: object) -> object:
    match value:
        case tuple():
            return _to_tuple(value)
        case str() if _spells_complex(value):
            raise TypeError(f"inside a tuple the text {value!r} cannot be told from the complex number")
    for kinds, make in _MEMBERS:
        if _is_number(value, *kinds):
            return make(value)
    raise TypeError(f"a tuple holds texts, numbers, datetimes and tuples, not {type(value).__name__}")


def with_complex(value: tuple[object, ...]) -> tuple[object, ...]:
    """Return a stored tuple with the numbers for the texts inside it that spell complex numbers."""

    def with_number(member: object) -> object:
        match member:
            case tuple():
                return with_complex(member)
            case str() if _spells_complex(member):
                return complex(member)
        return member

    return tuple(map(with_number, value))


def _spells_complex(text: str) -> bool:
    """Return True when ``text`` is what Python makes of a complex number."""
    if not text.endswith(("j", "j)")):
        return False
    try:
        return str(complex(text)) == text
    except ValueError:
        return False


_MEMBERS: tuple[tuple[tuple[type, ...], Callable[[object], object]], ...] = (
    ((str,), _to_text),
    ((int, np.integer), _to_int),
    ((float, np.floating), _to_float),
    ((complex, np.complexfloating), _to_complex),
    ((datetime,), _to_datetime),
)


_MAKERS: dict[type, Callable[[object], object]] = {
    int: _to_int,
    float: _to_float,
    complex: _to_complex,
    str: _to_text,
    tuple: _to_tuple,
    datetime: _to_datetime,
}


def _numpy_number(value: object, dtype: np.dtype[np.generic]) -> object:
    """Return a value of a NumPy type: whole numbers within its limits, others rounded to it, as plain Python
    numbers."""
    if dtype.kind in "iu":
        number, limits = _to_int(value), np.iinfo(dtype.str)
        if not limits.min <= number <= limits.max:
            raise OverflowError(f"it is beyond {limits.min} to {limits.max}")
        return number
    made = _to_float(value) if dtype.kind == "f" else _to_complex(value)
    with np.errstate(over="ignore"):
        rounded = dtype.type(made)
    if np.isinf(rounded) and not np.isinf(made):
        raise OverflowError("it is beyond the largest number of the type")
    return float(rounded) if dtype.kind == "f" else complex(rounded)
