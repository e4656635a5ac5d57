"""Data types: every fixed-size NumPy dtype as itself, and the kinds that NumPy has no dtype for.

``DataType`` is a closed family: ``np.dtype`` (all fixed-size kinds, either byte order, structured ones packed) or one
of the frozen values below. :func:`numpy_dtype` tells the dtype that cells have in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from hyperslab.errors import MissingLibrary, WrongType

SMALL = (
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
    "int2",
    "int4",
    "uint2",
    "uint4",
)
"""Numbers of a few bits, which the package ml_dtypes adds to NumPy."""


@dataclass(frozen=True, slots=True)
class VlenString:
    """Unicode text of any length; cells are ``np.dtypes.StringDType()``."""


@dataclass(frozen=True, slots=True)
class VlenBytes:
    """Bytes of any length; cells are ``object`` (``bytes``)."""


@dataclass(frozen=True, slots=True)
class Char:
    """One byte of text (netCDF ``char``); cells are ``S1``."""


@dataclass(frozen=True, slots=True)
class Enum:
    """An integer with named values (netCDF ``enum``); cells are ``base``."""

    base: NumpyDType
    members: tuple[tuple[str, int], ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Opaque:
    """``size`` uninterpreted bytes with a type name (netCDF ``opaque``); cells are ``V<size>``."""

    size: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class VlenArray:
    """A 1-D array of any length in each cell (netCDF ``vlen``); cells are ``object`` (``ndarray`` of ``base``)."""

    base: NumpyDType
    name: str = ""


@dataclass(frozen=True, slots=True)
class Compound:
    """A named structured type (netCDF ``compound``); cells are the packed structured ``base``."""

    base: NumpyDType
    name: str = ""


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A reference to a node in each cell; cells are ``object`` (``model.refs.ObjectReference``, None for none)."""


@dataclass(frozen=True, slots=True)
class RegionRef:
    """A reference to a region in each cell; cells are ``object`` (``model.refs.RegionReference``, None for none)."""


Extension = VlenString | VlenBytes | Char | Enum | Opaque | VlenArray | Compound | ObjectRef | RegionRef
NumpyDType = np.dtype
DataType = NumpyDType | Extension

_OBJECT = np.dtype(object)


def numpy_dtype(dtype: DataType) -> NumpyDType:
    """Return the dtype that cells of this type have in memory."""
    match dtype:
        case np.dtype():
            return dtype
        case VlenString():
            return np.dtypes.StringDType()
        case Char():
            return np.dtype("S1")
        case Enum(base=base):
            return base
        case Compound(base=base):
            return _plain(base)
        case Opaque(size=size):
            return np.dtype((np.void, size))
        case _:
            return _OBJECT


@lru_cache(maxsize=256)
def _plain(dtype: NumpyDType) -> NumpyDType:
    """Return the dtype without tags, also of its fields. Dtypes with and without tags are equal, and so is what this
    gives."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_plain(base), shape))
    if dtype.fields is None or dtype.names is None:
        return np.dtype(dtype.str) if tag_of(dtype) is not None else dtype
    if not any(tag_of(dtype[name].base) is not None for name in dtype.names):
        return without_tag(dtype)
    return np.dtype([(name, _plain(dtype[name])) for name in dtype.names])


_TAG = "hyperslab"


def tagged(dtype: NumpyDType, kind: Extension) -> NumpyDType:
    """Return the dtype with the type that its cells are of: for attributes and fields, whose values are plain NumPy
    arrays.

    The tag rides in NumPy's metadata of the dtype. It goes with arrays and ``np.void`` cells, their copies and pickles,
    not with the scalars of other kinds; dtypes with and without it are equal to NumPy.
    """
    return np.dtype(dtype, metadata={_TAG: kind})


def tag_of(dtype: NumpyDType) -> Extension | None:
    """Return the type that :func:`tagged` gave to the dtype."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    kind = metadata.get(_TAG)
    return kind if isinstance(kind, Extension) else None


def without_tag(dtype: NumpyDType) -> NumpyDType:
    """Return the dtype itself; that of a structured one's fields stay tagged."""
    if tag_of(dtype) is None:
        return dtype
    fields: Mapping[str, Any] = dtype.fields or {}
    names = dtype.names
    return np.dtype(dtype.str) if names is None else np.dtype([(name, fields[name][0]) for name in names])


def tagged_fields(dtype: NumpyDType) -> Iterator[tuple[str, Extension]]:
    """Yield the fields of a structured dtype whose cells are of a tagged type, by name."""
    fields: Mapping[str, Any] = dtype.fields or {}
    for name in dtype.names or ():
        if (kind := tag_of(fields[name][0].base)) is not None:
            yield name, kind


def is_fixed(dtype: DataType) -> bool:
    """Return True if every cell takes the same number of bytes, so that a chunk's decoded size is known."""
    if isinstance(dtype, np.dtype):
        return not dtype.hasobject
    return not isinstance(dtype, VlenString | VlenBytes | VlenArray | ObjectRef | RegionRef)


def describe(dtype: DataType) -> str:
    """Return a short name for people: ``float32``, ``>i2``, ``string``, ``enum<uint8>`` …"""
    match dtype:
        case np.dtype(names=names) if names is not None and dtype.hasobject:
            fields = (f"{name}: {describe(tag_of(dtype[name]) or dtype[name])}" for name in names)
            return f"rows of {', '.join(fields)}"
        case np.dtype():
            return str(dtype)
        case VlenString() | VlenBytes() | Char():
            return {VlenString: "string", VlenBytes: "bytes", Char: "char"}[type(dtype)]
        case Enum(base=base, name=name):
            return f"enum<{base}> {name}".rstrip()
        case Opaque(size=size, name=name):
            return f"opaque({size}) {name}".rstrip()
        case VlenArray(base=base, name=name):
            return f"vlen<{base}> {name}".rstrip()
        case Compound(base=base, name=name):
            return f"compound {name or base}"
        case ObjectRef() | RegionRef():
            return "object reference" if isinstance(dtype, ObjectRef) else "region reference"


_WORDS: dict[str | type, DataType] = {
    **dict.fromkeys((str, "string", "str"), VlenString()),
    **dict.fromkeys((bytes, "bytes"), VlenBytes()),
    "object reference": ObjectRef(),
    "region reference": RegionRef(),
}


def as_data_type(value: Any) -> DataType:
    """Return what users pass as ``dtype=``: our types, anything NumPy takes, ``str`` (variable-length text), ``bytes``,
    ``"object reference"`` and ``"region reference"``.

    An aligned structured dtype is packed, for no format stores padding. WrongType for anything else.
    """
    if isinstance(value, Extension):
        return value
    if isinstance(value, str | type) and value in _WORDS:
        return _WORDS[value]
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError, SyntaxError) as error:
        if isinstance(value, str) and value in SMALL:
            return small(value)
        remedy = "give a NumPy dtype such as 'f4' or 'datetime64[s]', or str or bytes for text and bytes of any length"
        raise WrongType(f"{value!r} is no dtype", remedy=remedy) from error
    return VlenString() if dtype.kind in "T" else packed(dtype)


def small(name: str) -> NumpyDType:
    """Return the dtype of one of :data:`SMALL`; MissingLibrary where ml_dtypes is not installed, or too old for it."""
    try:
        dtype: NumpyDType = np.dtype(getattr(import_module("ml_dtypes"), name))
        return dtype
    except (ImportError, AttributeError):
        raise MissingLibrary(f"{name!r} needs ml_dtypes", remedy="pip install 'hyperslab[dtypes]'") from None


def packed(dtype: NumpyDType) -> NumpyDType:
    """Return the same fields without padding between them; tags stay."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((packed(base), shape))
    if dtype.fields is None or dtype.names is None:
        return dtype
    fields: Mapping[str, Any] = dtype.fields
    return with_tag_of(dtype, np.dtype([(name, packed(fields[name][0])) for name in dtype.names]))


def with_tag_of(source: NumpyDType, dtype: NumpyDType) -> NumpyDType:
    """Return the dtype with the tag that ``source`` has, if any."""
    kind = tag_of(source)
    return dtype if kind is None else tagged(dtype, kind)
