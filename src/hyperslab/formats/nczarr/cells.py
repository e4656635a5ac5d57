"""The cells of an NCZarr array: a ``.zarray`` of Zarr v2, and what its bytes mean in netCDF.

Both directions go through :mod:`hyperslab.formats.zarr2`; here is what NCZarr adds: true item sizes for
shuffle, text in cells of one width, scalars over shape ``[1]``, fill values and byte order as their writer meant them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import numpy as np

from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.codec_kinds import with_array_to_bytes
from hyperslab.formats.documents import JsonMapping, JsonObject
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.metadata_json.cells import to_fill_cell
from hyperslab.formats.metadata_json.dtypes import LARGEST, dtype_from_json
from hyperslab.formats.nczarr.attributes import MAXIMUM_TEXT, NUMBERS
from hyperslab.formats.nczarr.generation import Context, Generation
from hyperslab.formats.zarr2 import document
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.dtypes import Char, Compound, DataType, Enum, NumpyDType, Opaque, VlenString, describe, numpy_dtype
from hyperslab.model.spec import ArraySpec, Codec

TEXT = "fixed_utf8"
# bytes of a pointer to text, by which netcdf-c shuffles cells of text
_POINTER = 8
_SINGLE_BYTES = {"<i1": "|i1", ">i1": "|i1", "<u1": "|u1", ">u1": "|u1"}
Meaning = Literal["char", "string"] | None


Parsed = dict[tuple[int, Meaning, bool], ArraySpec]


def read_array_once(
    doc: JsonMapping, problems: Problems, *, meaning: Meaning, scalar: bool, truncate: bool, parsed: Parsed
) -> ArraySpec:
    """Return :func:`read_array`; a document without fault is parsed once however many arrays share it, and kept in
    ``parsed``."""
    place = (id(doc), meaning, scalar)
    known = parsed.get(place)
    if known is not None and known.layout["zarr2"] is doc:
        return known
    before = len(problems)
    spec = read_array(doc, problems, meaning=meaning, scalar=scalar, truncate=truncate)
    if len(problems) == before:
        parsed[place] = spec
    return spec


def read_array(
    doc: JsonMapping, problems: Problems, *, meaning: Meaning, scalar: bool, truncate: bool = False
) -> ArraySpec:
    """Return the spec of a ``.zarray``, without dimensions and attributes; ``layout["zarr2"]`` is the document as it
    is.

    ``meaning``: what the bytes are where the dtype does not tell. ``scalar``: a shape of ``[1]`` stands for ``()``.
    ``truncate``: text that is too long for a cell is cut when it is written.
    """
    mended = _with_item_sizes(doc, meaning, problems)
    if meaning == "char":
        mended = {**mended, "dtype": "|S1"}
    if scalar and doc.get("shape") == [1]:
        mended = {**mended, "shape": [], "chunks": []}
    spec = document.read_array(mended, {}, problems, document.Zarr2.sound)
    spec = spec.evolve(layout={"zarr2": doc, "scalar": scalar})
    if meaning == "char":
        return spec.evolve(dtype=Char())
    if meaning != "string" or not isinstance(spec.dtype, np.dtype) or spec.dtype.kind != "S":
        return spec
    fill = None
    if spec.fill_value is not None:
        try:
            fill = bytes(spec.fill_value).rstrip(b"\0").decode()
        except UnicodeDecodeError as error:
            problems.warn("fill_value", f"the fill value is no text: {error}")
    config = {"length": spec.dtype.itemsize} | ({"truncate": True} if truncate else {})
    return spec.evolve(dtype=VlenString(), fill_value=fill, codecs=(Codec(TEXT, config), *spec.codecs))


def _with_item_sizes(doc: JsonMapping, meaning: Meaning, problems: Problems) -> JsonMapping:
    """Return the document with the true size where a shuffle has an ``elementsize`` of 0 (as netcdf-c writes it)."""
    filters = doc.get("filters")
    if not isinstance(filters, list) or not any(map(_lacks_size, filters)):
        return doc
    try:
        dtype = dtype_from_json(doc.get("dtype"))
    except TypeError:
        return doc
    size = dtype.itemsize if meaning != "char" else 1
    if meaning == "string" and dtype.kind == "S":
        size = _POINTER  # netcdf-c shuffles text, too, by the size that it has in memory
    problems.warn("elementsize", f"shuffle has an elementsize of 0; {size}, the size of the cells, is meant")
    return with_item_size(doc, size)


def with_item_size(doc: JsonMapping, size: int) -> JsonObject:
    """Return the ``.zarray`` with this size where a shuffle has none."""
    filters = [value | {"elementsize": size} if _lacks_size(value) else value for value in doc["filters"]]
    return {**doc, "filters": filters}


def _lacks_size(value: object) -> bool:
    match value:
        case {"id": "shuffle", "elementsize": 0 | "0"}:
            return True
    return False


def write_array(spec: ArraySpec, char: str, *, scalar: bool) -> JsonObject:
    """Return ``.zarray`` of a spec, unknown keys of ``layout["zarr2"]`` kept. ``char``: the dtype that char cells get.

    ``scalar``: a 0-d array is written with the shape ``[1]``, as netcdf-c wants it.
    """
    old = spec.layout.get("zarr2", {})
    text, plain = text_length(spec), spec.evolve(dtype=numpy_dtype(spec.dtype), layout={})
    if text is not None:
        fill = None if spec.fill_value is None else np.bytes_(str(spec.fill_value).encode())
        plain = plain.evolve(dtype=np.dtype(f"S{text}"), fill_value=fill, codecs=spec.codecs[1:])
    if isinstance(spec.dtype, Char) and char == "|u1":
        code = None if spec.fill_value is None else np.uint8(ord(bytes(spec.fill_value) or b"\0"))
        plain = plain.evolve(dtype=np.dtype("u1"), fill_value=code)
    comparable = {**old, "dtype": numpy_dtype(plain.dtype).str} if isinstance(spec.dtype, Char) and old else old
    if scalar and old.get("shape") == [1]:
        comparable = {**comparable, "shape": [], "chunks": []}
    doc = document.render_array(plain, comparable)
    if "dtype" in doc:  # documents that are damaged lack it, and are written as they are
        doc["dtype"] = _SINGLE_BYTES.get(str(doc["dtype"]), doc["dtype"])
    if isinstance(spec.dtype, Char):
        doc["dtype"] = char
    if scalar and not spec.shape:
        doc |= {"shape": [1], "chunks": [1]}
    return doc


def read_written(value: object, shape: tuple[int, ...], problems: Problems) -> tuple[int, ...] | None:
    """Return ``written``: how far the array was given cells along each axis; None where that is all of it.

    Somebody who does not know of it made the array shorter: then all that is left was given.
    """
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != len(shape)
        or any(type(rows) is not int or rows < 0 for rows in value)
    ):
        problems.warn("written", f"written is {shorten(value)}, which are not {len(shape)} lengths; ignored")
        return None
    found = tuple(map(min, value, shape))
    if found != tuple(value):
        problems.warn("written", f"written is {shorten(value)}, which is more than the shape {list(shape)}")
    return None if found == shape else found


def write_written(spec: ArraySpec) -> dict[str, list[int]]:
    """Return the member ``written`` of an array's document, where there is one."""
    rows = spec.layout.get("written")
    return {} if rows is None or tuple(rows) == spec.shape else {"written": list(rows)}


def text_length(spec: ArraySpec) -> int | None:
    """Return the width of text cells, None where the cells are no text."""
    if spec.codecs and spec.codecs[0].name == TEXT:
        return int(spec.codecs[0].config["length"])
    return None


def with_member_check(spec: ArraySpec) -> ArraySpec:
    """Return the array for writing: cells of an enumeration are checked to be members of it."""
    return spec.evolve(codecs=(Codec("enum_members"), *spec.codecs)) if isinstance(spec.dtype, Enum) else spec


def with_text_width(spec: ArraySpec, length: int, *, truncate: bool = False) -> ArraySpec:
    """Return the array of text with cells of this width, in place of any other that it had."""
    rest = tuple(codec for codec in spec.codecs if codec.name not in (TEXT, "vlen-utf8"))
    config = {"length": length} | ({"truncate": True} if truncate else {})
    return spec.evolve(codecs=(Codec(TEXT, config), *rest))


# -- fill values and byte order that netcdf-c wrote otherwise than it meant -------------------------------------------


# netCDF's fill value of doubles, as netcdf-c wrote it with 6 digits, and as it is
SIX_DIGITS, FILL_DOUBLE = 9.96921e36, 9.969209968386869e36
# versions of netcdf-c that stored cells of big-endian types in little-endian order
_ALL_SWAPPED = re.compile(r"4\.9\.[012]\b.*")
_SWAPPED_IN_DEVELOPMENT = re.compile(r"4\.9\.3-dev.*")


def fill_code(dtype: DataType) -> str | None:
    """Return the type code of ``_FillValue``, which is of the type of the cells; None where it says nothing."""
    match dtype:
        case np.dtype(kind="i" | "u" | "f"):
            return _little_endian(dtype)
        case Char():
            return ">S1"
        case VlenString():
            return "string"
        case _:
            return None


@lru_cache(64)  # this is asked for each array
def _little_endian(dtype: NumpyDType) -> str:
    return dtype.newbyteorder("<").str


def meant_fill_value(
    spec: ArraySpec, attrs: JsonMapping, doc: JsonMapping, context: Context, problems: Problems
) -> object:
    """Return the fill value that its writer meant."""
    value, attribute = doc.get("fill_value"), attrs.get(FILL_VALUE)
    if value == SIX_DIGITS and spec.dtype in (np.dtype("<f8"), np.dtype(">f8")) and "netcdf" in context.provenance:
        problems.warn("fill_value", f"fill_value {value} has 6 digits; {FILL_DOUBLE}, netCDF's fill value, is meant")
        return np.float64(FILL_DOUBLE)
    if isinstance(spec.dtype, VlenString):  # null is empty to netcdf-c, whatever the attribute says
        is_literal = isinstance(attribute, str) and value == attribute
        return value if is_literal else spec.fill_value
    if value is not None or attribute is None:
        return spec.fill_value
    try:
        fill = to_fill_cell(attribute, spec.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        problems.warn("fill_value", f"{FILL_VALUE} {shorten(attribute)} is no cell: {error}")
        return spec.fill_value
    problems.warn("fill_value", f"fill_value is null; {FILL_VALUE} {shorten(attribute)} is meant")
    return fill


def mend_byte_order(spec: ArraySpec, context: Context, problems: Problems) -> ArraySpec:
    """Return the array with cells of a big-endian dtype read in the order that they were written in."""
    if not isinstance(spec.dtype, np.dtype) or not spec.dtype.str.startswith(">"):
        return spec
    order = context.options.byteorder
    if order == "stored" or (order == "auto" and not _writes_swapped(context)):
        return spec
    if order == "auto":
        writer = f"netcdf-c {context.provenance['netcdf']}"
        message = (
            f"{writer} wrote cells of {spec.dtype.str} in little-endian order; byteorder='stored' reads them as is"
        )
        problems.warn("byte-order", message)
    little = Codec("bytes", {"endian": "little"})
    return spec.evolve(codecs=tuple(little if codec.name == "bytes" else codec for codec in spec.codecs))


def _writes_swapped(context: Context) -> bool:
    """Return True for a dataset of a version of netcdf-c that stores big-endian cells in little-endian order."""
    version = context.provenance.get("netcdf", "")
    if context.generation is Generation.V2B and _SWAPPED_IN_DEVELOPMENT.fullmatch(version):
        return True
    return context.generation in (Generation.V2A, Generation.V2B) and bool(_ALL_SWAPPED.fullmatch(version))


# -- new arrays of the current dialect --------------------------------------------------------------------------------


MAXIMUM, DEFAULT_MAXIMUM = "_nczarr_maxstrlen", "_nczarr_default_maxstrlen"


def netcdf_cell_type(dtype: DataType) -> DataType:
    """Return the type as netCDF has it: single bytes are chars; Unsupported where it has none without user types."""
    match dtype:
        case Char() | VlenString():
            return dtype
        case np.dtype() if dtype == np.dtype("S1"):
            return Char()
        case np.dtype() if dtype.newbyteorder("=").str[1:] in NUMBERS and dtype.names is None:
            return dtype
        case Enum() | Opaque() | Compound() | np.dtype(kind="V"):
            remedy = "dialect='draft' has user types"
        case np.dtype(kind="S" | "U"):
            remedy = "give dtype=str, and the attribute _nczarr_maxstrlen where text is longer than 128 bytes"
        case _:
            remedy = "convert the cells first, or use format zarr2"
    message = f"format nczarr (dialect current) has no cells of type {describe(dtype)}"
    raise Unsupported(message, remedy=remedy)


def with_codec_chain(spec: ArraySpec, width: object, context: Context) -> ArraySpec:
    """Return the array with a whole chain of codecs; ``width``: of text, where the wish names one."""
    # netcdf-c takes cells in Fortran's order for those in C's, shuffles text by another size than Zarr's readers,
    # and opens no dataset with a scalar under Blosc
    dropped = {"transpose", "vlen-utf8"}
    dropped |= {"shuffle"} if isinstance(spec.dtype, VlenString) else set()
    dropped |= set() if spec.shape else {"blosc"}
    codecs = [codec for codec in spec.codecs if codec.name not in dropped]
    whole = spec.evolve(codecs=with_array_to_bytes(codecs, Codec("bytes")))
    if not isinstance(spec.dtype, VlenString):
        return whole
    return with_text_width(whole, text_width(spec, width, context), truncate=context.options.truncate)


def text_width(spec: ArraySpec, wish: object, context: Context) -> int:
    """Return the bytes of a cell of text: those of the wish, those of its codec, else what the dataset has for
    all."""
    if wish is not None:
        width = np.asarray(wish)
        if width.size != 1 or width.dtype.kind not in "iu" or not 0 < int(width.reshape(())) < LARGEST:
            raise Invalid(f"{MAXIMUM}={wish!r}", remedy="a whole number of bytes")
        return int(width.reshape(()))
    root = context.group("")
    usual, _ = ({} if root is None else root.layout.get("hidden", {})).get(DEFAULT_MAXIMUM, (None, None))
    is_width = type(usual) is int and 0 < usual < LARGEST
    return text_length(spec) or (usual if is_width else MAXIMUM_TEXT)
