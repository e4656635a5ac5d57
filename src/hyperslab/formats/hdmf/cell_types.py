"""Types of cells by Zarr's own type, ``zarr_dtype`` or ``_DTYPE``, and the codec of objects. Pure.

Zarr's own type counts; the type names of HDMF are for its readers. But Zarr v2 says ``|O`` of references, and of fields
of any length: their type follows from ``zarr_dtype`` and the one codec that makes bytes of them. Zarr's own format gets
such an array as one of text (``to_text_document``), which it cuts and compresses alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from hyperslab.codecs import reference_pickle
from hyperslab.codecs.pickled import fill_of_pickle
from hyperslab.codecs.vlen import JSON_ZERO, fill_of_json
from hyperslab.errors import FormatError, Invalid, Unsupported
from hyperslab.formats.documents import object_or_empty
from hyperslab.formats.format_errors import Problems
from hyperslab.formats.metadata_json.cells import base64_to_bytes, bytes_to_base64
from hyperslab.formats.metadata_json.dtypes import dtype_from_json, dtype_to_json
from hyperslab.formats.zarr3.dtypes import CORE
from hyperslab.model.dtypes import (
    Compound,
    DataType,
    Extension,
    NumpyDType,
    ObjectRef,
    RegionRef,
    VlenArray,
    VlenBytes,
    VlenString,
    describe,
    numpy_dtype,
    tagged,
    tagged_fields,
)
from hyperslab.model.spec import ArraySpec, Codec

ProfileName = Literal["v2", "v3"]
SCALAR, OBJECT, REGION = "scalar", "object", "region"
OBJECTS = {"v2": OBJECT, "v3": "object_reference"}
REGIONS = {"v2": REGION, "v3": "region_reference"}
_REFERENCES = frozenset({"object", "ref", "reference"})
_BYTES = frozenset({"bytes", "bytes_", "string_", "ascii"})
# What releases of hdmf-zarr and hdmf have written as type names; any other is reported, and ignored.
_KNOWN = frozenset(
    {"float", "double", "long", "int", "uint", "bool_", "text", "utf", "utf8", "utf-8", "str", "str_", "isodatetime"}
    | {"scalar", "object_reference", "region", "region_reference", "vlen-array", *CORE, *_REFERENCES, *_BYTES}
)
_SIZED = re.compile(r"(?:str|bytes|void)\d+|(?:datetime|timedelta)64(?:\[\w+\])?")
_FIELDS: dict[type, str] = {VlenString: "str_", VlenBytes: "bytes", ObjectRef: OBJECT, RegionRef: REGION}


def is_known_type_name(word: object) -> bool:
    """Return True for a word that some writer uses for a type, and for a list of fields with such types."""
    match word:
        case list():
            return bool(word) and all(map(_is_field, word))
        case str():
            return word in _KNOWN or _SIZED.fullmatch(word) is not None or _is_dtype(word)
    return False


def _is_field(entry: object) -> bool:
    match entry:
        case {"name": str(), "dtype": str() | dict()}:
            return True
    return False


def _is_dtype(word: str) -> bool:
    try:
        dtype_from_json(word)
    except TypeError:
        return False
    return True


def type_name_of(dtype: DataType, profile: ProfileName) -> object:
    """Return the name that `profile` gives to cells of a type; None for rows in v3, which has none for them."""
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
    if plain.names is None:
        return "bool_" if plain.kind == "b" and profile == "v2" else plain.name
    if profile == "v3":
        return None
    kinds = field_kinds(dtype)
    return [{"name": name, "dtype": _FIELDS.get(type(kinds.get(name))) or plain[name].name} for name in plain.names]


def field_kinds(dtype: DataType) -> dict[str, Extension]:
    """Return the types of the fields that NumPy has no type for, by name; none for cells without fields."""
    return dict(tagged_fields(dtype)) if isinstance(dtype, np.dtype) else {}


def _object_field_type(word: object, text_only: bool) -> Extension:
    """Return the type of an ``|O`` field by its entry in ``zarr_dtype``; without an entry it holds references.

    ``text_only``: its codec has no bytes.
    """
    name = word.get("reftype") if isinstance(word, dict) else word
    match name:
        case None:
            return ObjectRef()
        case str() if name in _REFERENCES:
            return ObjectRef()
        case "region":
            return RegionRef()
        case str() if name in _BYTES and not text_only:
            return VlenBytes()
    return VlenString()


# -- arrays of objects in profile v2 -----------------------------------------------------------------------------------

JSON2 = {
    "allow_nan": True,
    "check_circular": True,
    "encoding": "utf-8",
    "ensure_ascii": True,
    "indent": None,
    "separators": [",", ":"],
    "skipkeys": False,
    "sort_keys": True,
    "strict": True,
}
"""The default configuration of the codec in numcodecs."""
PICKLE = "reference_pickle"
HDMF_CODECS = frozenset(["utf8_bytes", "record_text", PICKLE, "reference_text"])
"""Codecs that make of stored text and pickles the cells of HDMF; no document may name them."""
CODECS = {"json2": Codec("json2", JSON2), "pickle": Codec(PICKLE, {"protocol": 5})}
_IDS = {"json2": "json2", "numcodecs.json2": "json2", "pickle": PICKLE}
_ZERO = {"json2": bytes_to_base64(JSON_ZERO), PICKLE: bytes_to_base64(reference_pickle.ZERO)}
"""The fill value of rows: the number 0 as each codec encodes it."""
_OBJECT_DTYPES = ("|O", "O", "object")
_TEXT = "vlen-utf8"


def parse_object_cells(doc: Mapping[str, object], word: object, problems: Problems) -> tuple[DataType, Codec] | None:
    """Parse ``.zarray`` and ``zarr_dtype`` to the type of the cells and the codec that makes bytes of them.

    None for an array that Zarr's own format reads, or refuses.
    """
    codec = _parse_object_codec(doc.get("filters"))
    dtype = doc.get("dtype")
    is_row = isinstance(dtype, list) and any(map(is_object_field, dtype))
    if codec is None or not (is_row or dtype in _OBJECT_DTYPES):
        return None
    try:
        kind = _parse_row(dtype, word, codec) if isinstance(dtype, list) else _parse_objects(word, codec)
    except TypeError as error:
        problems.undecodable("dtype", f"dtype: {error}")
        return None
    if kind is None:
        return None
    if codec.name == PICKLE and has_region_references(kind):
        problems.undecodable("pickle", "references to regions are never pickled")
    if not is_row and doc.get("fill_value") not in (0, None, ""):
        problems.warn("fill_value", "the fill value of objects is not 0; cells that were never written are empty")
    return kind, codec


def _parse_object_codec(filters: Any) -> Codec | None:
    """Return the codec of objects, which stands first among the filters (``pickle`` alone); None without one."""
    match filters:
        case [{"id": str(codec_id)} as first, *more] if codec_id in _IDS and not (more and _IDS[codec_id] == PICKLE):
            return Codec(_IDS[codec_id], {key: value for key, value in first.items() if key != "id"})
    return None


def _parse_objects(word: object, codec: Codec) -> DataType | None:
    """Return the type of ``|O`` cells; None for text in JSON, which Zarr's own format reads. hdmf-zarr up to 0.13
    stores rows without references as objects, whose fields ``zarr_dtype`` alone names."""
    if isinstance(word, list) and word and all(isinstance(entry, dict) for entry in word):
        return _parse_row([[entry.get("name"), _stored_field(entry.get("dtype"))] for entry in word], word, codec)
    if word == REGION:
        return RegionRef()
    if word == OBJECT or (word is None and codec.name == PICKLE):
        return ObjectRef()
    return VlenString() if codec.name == PICKLE else None


def is_object_field(field: Any) -> bool:
    """Return True if a field of a Zarr v2 dtype holds objects."""
    return isinstance(field, list) and len(field) > 1 and field[1] in _OBJECT_DTYPES


def _stored_field(word: object) -> str:
    """Return the dtype of a field that only its word tells: a number's, else ``|O``."""
    try:
        return np.dtype(word).str if isinstance(word, str) and np.dtype(word).kind in "biuf" else "|O"
    except TypeError:
        return "|O"


def _parse_row(fields: list[Any], word: object, codec: Codec) -> NumpyDType:
    entries = map(object_or_empty, word if isinstance(word, list) else [])
    words = {name: entry.get("dtype") for entry in entries if isinstance(name := entry.get("name"), str)}
    plain = dtype_from_json([[*field[:1], "|V8", *field[2:]] if is_object_field(field) else field for field in fields])
    parts = []
    for field in fields:
        name = field[0]
        if not is_object_field(field):
            parts.append((name, plain[name]))
            continue
        if len(field) > 2:
            raise TypeError(f"field {name!r} holds several objects")
        kind = _object_field_type(words.get(name), text_only=codec.name != PICKLE)
        parts.append((name, tagged(np.dtype(object), kind)))
    return np.dtype(parts)


def is_object(dtype: DataType) -> bool:
    """Return True if Zarr's own formats have no cells of this type but this one has: references, rows of any length."""
    match dtype:
        case ObjectRef() | RegionRef():
            return True
        case np.dtype():
            return bool(dtype.hasobject)
    return False


def raise_if_fill_value(value: object, dtype: DataType) -> None:
    """Raise Invalid for a fill value of object cells: unwritten ones are no reference, or rows of zeros."""
    empty = ArraySpec(shape=(), dtype=dtype, chunks=()).fill_cell()[()]
    chosen, default = (cell.item() if isinstance(cell, np.void) else cell for cell in (value, empty))
    if value is not None and (type(chosen) is not type(default) or chosen != default):
        raise Invalid("references, and rows with fields of any length, have no fill value", remedy="leave it out")


def needs_text_stand_in(spec: ArraySpec) -> bool:
    """Return True for an array that Zarr's own format gets as one of text."""
    return is_object(spec.dtype) or any(codec.name == PICKLE for codec in spec.codecs)


def unwrap_row(dtype: DataType) -> DataType:
    """Return the structured type of a named one with fields of any length; other types as they are."""
    return dtype.base if isinstance(dtype, Compound) and dtype.base.hasobject else dtype


def has_region_references(dtype: DataType) -> bool:
    """Return True if cells or fields of them are references to regions."""
    return any(isinstance(kind, RegionRef) for kind in (dtype, *field_kinds(dtype).values()))


def is_same_type(a: DataType, b: DataType) -> bool:
    """Return True if two types are the same, the types of their fields too."""
    return type(a) is type(b) and a == b and field_kinds(a) == field_kinds(b)


def to_text_document(doc: Mapping[str, Any]) -> dict[str, object]:
    """Return the ``.zarray`` of an array of objects as that of an array of text."""
    filters = [{"id": _TEXT}, *doc["filters"][1:]]
    # Lists of JSON follow no order, whatever the document says.
    order = "C" if _IDS.get(doc["filters"][0].get("id")) == "json2" else doc.get("order", "C")
    return {**doc, "dtype": "|O", "fill_value": 0, "filters": filters, "order": order}


def to_text_array(spec: ArraySpec, layout: Mapping[str, object]) -> ArraySpec:
    """Return an array of objects as an array of text."""
    codecs = tuple(Codec(_TEXT) if codec.name in _ZERO else codec for codec in spec.codecs)
    return spec.evolve(dtype=VlenString(), fill_value="", codecs=codecs, layout=layout)


def from_text_array(spec: ArraySpec, dtype: DataType, object_codec: Codec) -> ArraySpec:
    """Return an array of text as the array of objects that it stands for. Unwritten ones are no reference, or zeros."""
    codecs = tuple(object_codec if codec.name == _TEXT else codec for codec in spec.codecs)
    return spec.evolve(dtype=dtype, fill_value=None, codecs=codecs)


def describe_object_array(spec: ArraySpec) -> dict[str, object]:
    """Return ``dtype`` and ``fill_value`` of an array of objects; Unsupported for a field that HDMF has no type for."""
    codec = find_object_codec(spec)
    if not isinstance(spec.dtype, np.dtype):
        return {"dtype": "|O", "fill_value": 0}
    kinds = field_kinds(spec.dtype)
    fields = []
    for name in spec.dtype.names or ():
        field = spec.dtype[name]
        fields.append([name, "|O"] if field.hasobject else dtype_to_json(np.dtype([(name, field)]))[0])
        if field.hasobject:
            check_field(name, kinds.get(name), bytes_too=codec.name == PICKLE)
    return {"dtype": fields, "fill_value": _ZERO[codec.name]}


def check_field(name: str, kind: Extension | None, *, bytes_too: bool) -> None:
    """Raise Unsupported for a field of a type that rows cannot hold."""
    if isinstance(kind, VlenString | ObjectRef | RegionRef) or (bytes_too and isinstance(kind, VlenBytes)):
        return
    what = "objects" if kind is None else describe(kind)
    raise Unsupported(f"format hdmf has no field {name!r} of {what}", remedy="text, references or numbers")


def find_object_codec(spec: ArraySpec) -> Codec:
    """Return the codec that encodes the objects of an array; Unsupported without one."""
    found = next((codec for codec in spec.codecs if codec.name in _ZERO), None)
    if found is None:
        raise Unsupported(f"cells of type {describe(spec.dtype)} without codec json2", remedy="leave the codecs out")
    return found


def check_fill_value(spec: ArraySpec) -> None:
    """Read the fill value of rows, which is an encoded number: UnsafePickle or FormatError when it is anything else.

    Called when their cells are touched, so that the dataset opens all the same; nothing of it is run.
    """
    doc = spec.layout.get("zarr2", {})
    is_row = is_object(spec.dtype) and spec.numpy_dtype.names is not None
    if not is_row or doc.get("fill_value") in (None, 0):
        return
    try:
        raw = base64_to_bytes(doc["fill_value"])
        found = fill_of_pickle(raw) if find_object_codec(spec).name == PICKLE else fill_of_json(raw)
    except TypeError as error:
        raise FormatError(f"the fill value of rows: {error}") from None
    if found not in (0, None, ""):
        raise FormatError(f"the fill value of rows is {found!r:.60}, not 0")
