"""Attribute schemas, and the values that attributes may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np

from hyperslab.errors import SchemaError
from hyperslab.model.schemas.dimensions import check_name
from hyperslab.model.schemas.dtype_names import dtype_name, dtype_of, is_numeric
from hyperslab.model.schemas.times import as_moment

_NAMES: dict[type, str] = {
    int: "int",
    float: "float",
    complex: "complex",
    str: "string",
    tuple: "tuple",
    datetime: "datetime",
}
_TYPES = {name: kind for kind, name in _NAMES.items()}


@dataclass(frozen=True, slots=True)
class AttributeSchema:
    """An attribute that each array of a collection has.

    ``dtype`` is ``int``, ``float``, ``complex``, ``str``, ``tuple``, ``datetime.datetime`` or a NumPy type of numbers.
    ``primary`` ones are the key of an array and never change; the values of others (custom ones) may.
    """

    name: str
    dtype: type[Any]
    primary: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", check_name(self.name, "an attribute"))
        if not (isinstance(self.dtype, type) and self.dtype in _NAMES) and not is_numeric(self.dtype):
            raise SchemaError(
                f"attribute {self.name!r} has the dtype {self.dtype!r}",
                remedy="choose int, float, complex, str, tuple, datetime.datetime or a NumPy type of numbers",
            )
        if not isinstance(self.primary, bool):
            raise SchemaError(f"attribute {self.name!r}: primary is {self.primary!r}", remedy="give True or False")

    @property
    def as_dict(self) -> dict[str, Any]:
        """The attribute as a collection document has it."""
        return {"name": self.name, "primary": self.primary, "dtype": type_name(self.dtype)}


def type_name(kind: type) -> str:
    """The name of an attribute's type in documents."""
    return _NAMES[kind] if kind in _NAMES else dtype_name(np.dtype(kind))


def type_of(name: Any) -> type:
    """The type of an attribute by its name in documents; SchemaError."""
    if isinstance(name, str) and name in _TYPES:
        return _TYPES[name]
    return dtype_of(name).type


def checked_value(attribute: AttributeSchema, value: Any) -> Any:
    """A value of the attribute's type as a plain Python value; SchemaError names the attribute.

    NumPy numbers are taken by value, whole numbers for floats as well; never a bool. Times may be datetimes, dates, ISO
    texts or datetime64.
    """
    kind = attribute.dtype
    make = _MAKERS.get(kind)
    try:
        made = make(value) if make else _numpy_number(value, np.dtype(kind))
    except (TypeError, ValueError, OverflowError) as error:
        said, remedy = (error.message, error.remedy) if isinstance(error, SchemaError) else (f"{error}", None)
        raise SchemaError(
            f"attribute {attribute.name!r} takes {type_name(kind)}, not {_shown(value)} ({said})",
            remedy=remedy or f"give a value of the type {type_name(kind)}",
        ) from None
    return made


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} of type {type(value).__name__}"


def _is_number(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def _int(value: Any) -> int:
    if not _is_number(value, int, np.integer):
        raise TypeError("a whole number is needed")
    return int(value)


def _float(value: Any) -> float:
    if not _is_number(value, int, float, np.integer, np.floating):
        raise TypeError("a float is needed")
    number = float(value)
    if isinstance(value, int | np.integer) and int(number) != value:
        raise ValueError("no float is equal to it")
    return number


def _complex(value: Any) -> complex:
    if not _is_number(value, complex, np.complexfloating):
        raise TypeError("a complex number is needed")
    return complex(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text is needed")
    return str(value)


def _moment(value: Any) -> datetime:
    if not isinstance(value, date | str | np.datetime64):
        raise TypeError("a datetime, a date, ISO 8601 text or a datetime64 is needed")
    return as_moment(value)


def _tuple(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise TypeError("a tuple is needed")
    return tuple(_member(part) for part in value)


def _member(value: Any) -> Any:
    if isinstance(value, tuple):
        return _tuple(value)
    if isinstance(value, str) and _spells_complex(value):
        raise TypeError(f"inside a tuple the text {value!r} cannot be told from the complex number")
    for kinds, make in _MEMBERS:
        if _is_number(value, *kinds):
            return make(value)
    raise TypeError(f"a tuple holds texts, numbers, datetimes and tuples, not {type(value).__name__}")


def with_complex(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a stored tuple with the numbers for the texts inside it that spell complex numbers."""
    return tuple(map(_with_complex, value))


def _with_complex(member: Any) -> Any:
    if isinstance(member, tuple):
        return with_complex(member)
    return complex(member) if isinstance(member, str) and _spells_complex(member) else member


def _spells_complex(text: str) -> bool:
    """Return True when ``text`` is what Python makes of a complex number."""
    if not text.endswith(("j", "j)")):
        return False
    try:
        return str(complex(text)) == text
    except ValueError:
        return False


_MEMBERS: tuple[tuple[tuple[type, ...], Callable[[Any], Any]], ...] = (
    ((str,), _text),
    ((int, np.integer), _int),
    ((float, np.floating), _float),
    ((complex, np.complexfloating), _complex),
    ((datetime,), _moment),
)
_MAKERS: dict[type, Callable[[Any], Any]] = {
    int: _int,
    float: _float,
    complex: _complex,
    str: _text,
    tuple: _tuple,
    datetime: _moment,
}


def _numpy_number(value: Any, dtype: np.dtype[Any]) -> Any:
    """A value of a NumPy type: whole numbers within its limits, others rounded to it, as plain Python numbers."""
    if dtype.kind in "iu":
        number, limits = _int(value), np.iinfo(dtype)
        if not limits.min <= number <= limits.max:
            raise OverflowError(f"it is beyond {limits.min} to {limits.max}")
        return number
    made = _float(value) if dtype.kind == "f" else _complex(value)
    with np.errstate(over="ignore"):
        rounded = dtype.type(made)
    if np.isinf(rounded) and not np.isinf(made):
        raise OverflowError("it is beyond the largest number of the type")
    return float(rounded) if dtype.kind == "f" else complex(rounded)
