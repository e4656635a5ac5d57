"""Values of documents: sizes, names of dtypes, attributes, and the limits that MongoDB sets. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import bson
import numpy as np
from bson.errors import BSONError
from pymongo.collection import Collection

from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.metadata_json import attributes
from hyperslab.formats.mongo.errors import CorruptDocument
from hyperslab.model.amounts import is_whole_number
from hyperslab.model.attrs import Attrs, equal, find_deep
from hyperslab.model.coo import Numbers

Document = Mapping[str, Any]
"""A document, or a part of one, as it is read; also a query, which is a document too."""
MutableDocument = dict[str, Any]
"""A document in the making; a stage of an aggregation."""
DocumentCollection = Collection[MutableDocument]
"""A collection of documents, as the driver gives it."""


def subdocument(doc: Document | None, field: str) -> Document:
    """Return the document in a field of another; an empty one where no document stands there."""
    found = None if doc is None else doc.get(field)
    return found if isinstance(found, Mapping) else {}


class Collections(NamedTuple):
    """The two collections of a prefix: documents of objects, and documents of their chunks."""

    meta: DocumentCollection
    chunks: DocumentCollection


# -- sizes and indices ------------------------------------------------------------------------------------------------
# int32, int64, or a double that is whole (as other drivers write them); NaN for a size that nobody knows.


Sizes = tuple[int | None, ...]


def parse_index(value: object, field: str, name: str) -> int:
    """Return a whole number of at least 0. CorruptDocument."""
    size = parse_size(value, field, name)
    if size is None:
        raise CorruptDocument(f"{field} of {name!r}", expected="a whole number", found=value)
    return size


def parse_size(value: object, field: str, name: str) -> int | None:
    """Return a size, None for an unknown one. CorruptDocument."""
    if isinstance(value, float) and value != value:
        return None
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if type(whole) is bool or not isinstance(whole, int) or not 0 <= whole < 1 << 63:
        raise CorruptDocument(f"{field} of {name!r}", expected="a whole number of at least 0", found=value)
    return int(whole)


def parse_sizes(value: object, field: str, name: str) -> Sizes:
    """Return a list of sizes. CorruptDocument."""
    if not isinstance(value, list):
        raise CorruptDocument(f"{field} of {name!r}", expected="a list of sizes", found=value)
    return tuple(parse_size(size, field, name) for size in value)


# -- names of dtypes --------------------------------------------------------------------------------------------------
# A document names a dtype as ``numpy.dtype.str`` spells it; what has no bytes of its own is refused by name.


_TEXT = re.compile(r"[<>|=]?(?:[biufc]\d{1,2}|[mM]8(?:\[\w{1,12}\])?|[SUV]\d{1,9})")
_DTYPE_REMEDY = "store numbers, times, or text of a fixed length (astype('U'))"
_DATES_REMEDY = "; dates of other calendars as the numbers that decode_times=False leaves"


def dtype_to_text(dtype: np.dtype, name: str) -> str:
    """Return the dtype's name in a document; always little-endian.

    Unsupported for what has no bytes of its own, or fields, or a type that another package has registered.
    """
    is_registered = dtype.kind == "V" and dtype.type is not np.void  # as bfloat16, whose name says only how long it is
    if dtype.hasobject or dtype.kind == "T" or dtype.names is not None or dtype.subdtype is not None or is_registered:
        raise Unsupported(
            f"variable {name!r} has cells of type {dtype}",
            remedy=_DTYPE_REMEDY + (_DATES_REMEDY if dtype.hasobject else ""),
        )
    return dtype.newbyteorder("<").str


def dtype_from_text(text: object, name: str) -> np.dtype:
    """Return the dtype that a document names. Unsupported for object dtypes, and all that are not plain
    NumPy dtypes.
    """
    if isinstance(text, str) and _TEXT.fullmatch(text):
        try:
            return np.dtype(text)
        except TypeError:
            pass
    remedy = "its cells cannot be told from these documents; store it anew"
    raise Unsupported(f"variable {name!r} has cells of type {text!r}", remedy=remedy)


def to_little_endian(cells: Numbers) -> Numbers:
    """Return the cells as they are stored: C order, little-endian, the padding of long doubles zeroed."""
    cells = np.ascontiguousarray(cells, cells.dtype.newbyteorder("<")).reshape(cells.shape)
    if _PADS and cells.dtype in _LONG_DOUBLES:
        # x87 numbers take 10 of 16 bytes; what lies in the others is whatever lay in memory.
        cells = cells.copy()
        cells.reshape(-1).view(np.uint8).reshape(-1, 16)[:, 10:] = 0
    return cells


def little_endian_bytes(cells: Numbers) -> bytes:
    """Return the bytes of the cells as they are stored, by one copy where nothing of them changes.

    A contiguous array in between costs more than its copy: of a put of 256 MiB whose blocks lie apart in the array,
    100,000 page faults were its own, which took as long as all else that the client does.
    """
    is_stored_so = cells.dtype == cells.dtype.newbyteorder("<") and not (_PADS and cells.dtype in _LONG_DOUBLES)
    return cells.tobytes() if is_stored_so else to_little_endian(cells).tobytes()


_LONG_DOUBLES = np.dtype("<g"), np.dtype("<G")
_PADS = np.dtype(np.longdouble).itemsize == 16 and np.finfo(np.longdouble).nmant == 63


# -- limits of a document ---------------------------------------------------------------------------------------------
# Checked before anything is sent: a document that the server refuses would leave half an object behind.


MAX_DOCUMENT_BYTES = 16 << 20
"""The most bytes of a document of MongoDB."""
# A chunk document says what the chunk is besides, in a few hundred bytes and the name of the variable; the document of
# an object has all its other variables and attributes, for which there is 1 MiB.
LARGEST_CHUNK_SIZE = MAX_DOCUMENT_BYTES - (64 << 10)
MOST_EMBEDDED = MAX_DOCUMENT_BYTES - (1 << 20)
# The server parses 200 levels, and keeps 20 of them for what it wraps stored documents in.
MAX_DEPTH = 180
"""Levels of mappings and lists within each other, the document itself included."""
_LARGE = "embed less, make larger chunks, or store large attributes as arrays"
_NAMES = "give names without NUL, and values that BSON has a type for"
_DEEP = "store what is nested so deeply as text"


def check_document(doc: Document) -> None:
    """Raise Unsupported for a document that is too large or too deep, or whose text cannot be encoded."""
    check_levels(None, doc)
    try:
        size = len(bson.encode(doc))
    except BSONError as error:
        raise Unsupported(f"no document of MongoDB can be this one: {error}", remedy=_NAMES) from error
    except UnicodeEncodeError as error:
        message = f"MongoDB holds no text such as {error.object[:60]!r}"
        raise Unsupported(message, remedy="leave out what UTF-8 cannot encode") from error
    if size > MAX_DOCUMENT_BYTES:
        message = f"the document of the object would have {size} bytes, and may have {MAX_DOCUMENT_BYTES}"
        raise Unsupported(message, remedy=_LARGE)


def parse_byte_options(chunk_size: object, threshold: object) -> tuple[int, int]:
    """Return ``chunk_size_bytes`` and ``embed_threshold_bytes`` as Python's integers, for BSON knows none of NumPy's;
    of the latter no more than a document has room for. Invalid."""
    if not is_whole_number(chunk_size) or not 1 <= chunk_size <= LARGEST_CHUNK_SIZE:
        remedy = f"give a whole number of bytes from 1 to {LARGEST_CHUNK_SIZE}; the best are 1 to 2 MiB"
        raise Invalid(f"chunk_size_bytes={chunk_size!r}", remedy=remedy)
    if not is_whole_number(threshold) or threshold < 0:
        raise Invalid(f"embed_threshold_bytes={threshold!r}", remedy="give a whole number of bytes from 0 on")
    return int(chunk_size), min(int(threshold), MOST_EMBEDDED)


def check_levels(what: str | None, value: object) -> None:
    """Raise Unsupported for a value that is nested so deeply that no document holds it, or in itself.

    ``what``: the value in the message; None names the part of it that lies too deep. Nothing recurses.
    """
    if isinstance(value, Mapping | list | tuple) and (deep := find_deep(value, MAX_DEPTH)) is not None:
        raise Unsupported(f"{what or deep} is nested in more than {MAX_DEPTH} levels", remedy=_DEEP)


# -- attributes -------------------------------------------------------------------------------------------------------
# Text, bool, int64, float, bytes, None, lists and mappings of these are stored as they are, dates as BSON's own.
# NumPy's scalars and arrays become numbers and lists, and their types stand in ``attr_types`` of the field
# ``hyperslab`` (with the codes of ``metadata_json.attributes``).


Codes = Document
_ATTR_REMEDY = "give text, bytes, numbers below 2**63, NumPy scalars and arrays, or lists and mappings of those"


def encode_attrs(attrs: Attrs, raw: Document, codes: Codes) -> tuple[MutableDocument, MutableDocument]:
    """Return BSON values and codes. What reads as before keeps the value that is stored (``raw``, ``codes``), whatever
    its BSON type. Unsupported names an attribute that BSON cannot hold."""
    before = decode_attrs(raw, codes)
    values: MutableDocument = {}
    kept: MutableDocument = {}
    for name, value in attrs.items():
        if name in before and equal(before[name], value):
            values[name], code = raw[name], codes.get(name)
        else:
            values[name], code = encode_attr(name, value)
        if code is not None:
            kept[name] = code
    return values, kept


def decode_attrs(raw: Document, codes: Codes) -> MutableDocument:
    """Return typed values by name."""
    return {name: decode_attr(value, codes.get(name)) for name, value in raw.items()}


def encode_attr(name: str, value: object) -> tuple[Any, Any]:
    """Return one value for BSON, and its code where it needs one. Unsupported names the attribute."""
    if "\0" in name:
        raise Unsupported(f"format mongo holds no attribute {name!r}", remedy="leave NUL out of its name")
    check_levels(f"attribute {name!r}", value)
    if isinstance(value, np.datetime64) and value.dtype == "M8[ms]" and isinstance(date := value.item(), datetime):
        return date, None
    if isinstance(value, np.ndarray | np.generic | complex):
        array = np.asarray(value)
        try:
            stored, code = attributes.encode_attribute(name, value)
        except HyperslabError as error:
            raise Unsupported(f"format mongo: {error.message}", remedy=_ATTR_REMEDY) from None
        if array.dtype.kind == "u" and array.dtype.itemsize == 8:
            return _large_as_text(array.tolist()), code
        return (array.astype("f8").tolist() if array.dtype.kind == "f" else stored), code
    return _plain(name, value), None


def _large_as_text(numbers: Any) -> Any:
    """Return whole numbers, in lists of lists, with those that BSON does not hold as text."""
    if isinstance(numbers, list):
        return [_large_as_text(number) for number in numbers]
    return numbers if numbers < 1 << 63 else str(numbers)


def _plain(name: str, value: object) -> Any:
    match value:
        case None | bool() | float() | bytes():
            return value
        case str():
            return str(value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return int(value)
        case bytearray():
            return bytes(value)
        case list() | tuple():
            return [_plain(name, part) for part in value]
        case dict() if all(isinstance(key, str) and "\0" not in key for key in value):
            return {key: _plain(name, part) for key, part in value.items()}
        case np.ndarray() | np.generic():
            return _plain(name, value.tolist())
        case _:
            shown = repr(value) if isinstance(value, int) else f"type {type(value).__name__}"
            raise Unsupported(f"format mongo holds no attribute {name!r} of {shown}", remedy=_ATTR_REMEDY)


def decode_attr(value: object, code: object = None) -> Any:
    """Return the typed value; what no attribute can be (ids, expressions) as text."""
    if code is not None:
        return attributes.decode_attribute(_numbers(value, code), code)
    match value:
        case None | bool() | str() | bytes() | float():
            return value
        case int():
            return int(value)
        case datetime():
            return np.datetime64(value.replace(tzinfo=None), "ms")
        case list():
            return [_decode_inner(part) for part in value]
        case dict():
            return {key: _decode_inner(part) for key, part in value.items()}
        case _:
            return str(value)


def _decode_inner(value: object) -> Any:
    """Return a value within lists and mappings, where dates are text, as JSON has them."""
    return value.isoformat() if isinstance(value, datetime) else decode_attr(value)


def _numbers(value: object, code: object) -> Any:
    """Return a stored value as ``metadata_json.attributes`` has it."""
    if isinstance(value, list):
        return [_numbers(part, code) for part in value]
    if isinstance(code, str) and isinstance(value, str) and code.partition("[")[0].endswith("u8") and value.isdigit():
        return int(value)
    return int(value) if is_whole_number(value) else value
