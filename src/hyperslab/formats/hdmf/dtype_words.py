"""What ``zarr_dtype`` and ``_DTYPE`` say of the cells of an array, for peers: Zarr's own type counts. Pure."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hyperslab.formats.dtype_names import dtype_from_json
from hyperslab.formats.zarr3.dtypes import CORE
from hyperslab.model.dtypes import (
    DataType,
    Extension,
    ObjectRef,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    numpy_dtype,
    tagged_fields,
)

SCALAR, OBJECT, REGION = "scalar", "object", "region"
OBJECTS = {"v2": OBJECT, "v3": "object_reference"}
REGIONS = {"v2": REGION, "v3": "region_reference"}
_REFERENCES = frozenset({"object", "ref", "reference"})
_BYTES = frozenset({"bytes", "bytes_", "string_", "ascii"})
_KNOWN = frozenset(
    {"float", "double", "long", "int", "uint", "bool_", "text", "utf", "utf8", "utf-8", "str", "str_", "isodatetime"}
    | {"scalar", "object_reference", "region", "region_reference", "vlen-array", *CORE, *_REFERENCES, *_BYTES}
)
_SIZED = re.compile(r"(?:str|bytes|void)\d+|(?:datetime|timedelta)64(?:\[\w+\])?")
_FIELDS: dict[type, str] = {VlenString: "str_", VlenBytes: "bytes", ObjectRef: OBJECT, RegionRef: REGION}


def is_known(word: Any) -> bool:
    """Return whether it is a word that some writer uses for a type."""
    if isinstance(word, list):
        return bool(word) and all(isinstance(field, dict) and is_field(field) for field in word)
    if not isinstance(word, str):
        return False
    if word in _KNOWN or _SIZED.fullmatch(word):
        return True
    try:
        dtype_from_json(word)
    except TypeError:
        return False
    return True


def is_field(said: dict[str, Any]) -> bool:
    """Return whether it names a field and its type."""
    return isinstance(said.get("name"), str) and isinstance(said.get("dtype"), str | dict)


def word_of(dtype: DataType, profile: str) -> Any:
    """The word for cells of a type; None for rows in profile v3, which has none."""
    match dtype:
        case VlenString():
            return "str"
        case VlenBytes():
            return "bytes" if profile == "v2" else "str"
        case ObjectRef():
            return OBJECTS[profile]
        case RegionRef():
            return REGIONS[profile]
        case VlenArray():
            return "vlen-array"
    plain = numpy_dtype(dtype)
    if plain.names is not None:
        return _row(dtype if isinstance(dtype, np.dtype) else plain) if profile == "v2" else None
    return "bool_" if plain.kind == "b" and profile == "v2" else plain.name


def _row(dtype: np.dtype[Any]) -> list[dict[str, str]]:
    kinds = dict(tagged_fields(dtype))
    return [{"name": name, "dtype": _field(dtype[name], kinds.get(name))} for name in dtype.names or ()]


def _field(dtype: np.dtype[Any], kind: Extension | None) -> str:
    return _FIELDS.get(type(kind)) or dtype.name


def kind_of_field(word: Any, said_as_text: bool) -> Extension:
    """The type of an ``|O`` field by the entry of ``zarr_dtype`` that names it; None: none does, it holds references.

    ``said_as_text``: its codec knows no bytes.
    """
    name = word.get("reftype") if isinstance(word, dict) else word
    if name is None or (isinstance(name, str) and name in _REFERENCES):
        return ObjectRef()
    if name == REGION:
        return RegionRef()
    return VlenBytes() if isinstance(name, str) and name in _BYTES and not said_as_text else VlenString()
