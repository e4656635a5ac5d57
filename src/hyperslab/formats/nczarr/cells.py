"""The cells of an NCZarr array: a ``.zarray`` of Zarr v2, and what its bytes mean in netCDF.

Both directions go through :mod:`hyperslab.formats.zarr2`; here is what NCZarr adds. Numbers are the rules of the
reference: true item sizes for shuffle (3.6), text in cells of one width (3.7, 4.7), scalars over shape ``[1]`` (3.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.metadata_json.dtypes import dtype_from_json
from hyperslab.formats.zarr2 import document
from hyperslab.model.dtypes import Char, DataType, Enum, VlenString, numpy_dtype
from hyperslab.model.spec import ArraySpec, Codec

TEXT = "fixed_utf8"
_POINTER = 8
_SINGLE_BYTES = {"<i1": "|i1", ">i1": "|i1", "<u1": "|u1", ">u1": "|u1"}
Meaning = Literal["char", "string"] | None


Parsed = dict[tuple[int, Meaning, bool], ArraySpec]


def read_once(
    doc: Mapping[str, Any], problems: Problems, *, meaning: Meaning, scalar: bool, parsed: Parsed
) -> ArraySpec:
    """:func:`read_array`; a document without fault is parsed once however many arrays share it, and kept in
    ``parsed``."""
    place = (id(doc), meaning, scalar)
    found = parsed.get(place)
    if found is not None and found.layout["zarr2"] is doc:
        return found
    before = len(problems)
    spec = read_array(doc, problems, meaning=meaning, scalar=scalar)
    if len(problems) == before:
        parsed[place] = spec
    return spec


def read_array(doc: Mapping[str, Any], problems: Problems, *, meaning: Meaning, scalar: bool) -> ArraySpec:
    """The spec of a ``.zarray``, without dimensions and attributes; ``layout["zarr2"]`` is the document as it is.

    ``meaning``: what the bytes are where the dtype does not tell. ``scalar``: a shape of ``[1]`` stands for ``()``.
    """
    mended = _with_item_sizes(doc, meaning, problems)
    if meaning == "char":
        mended = {**mended, "dtype": "|S1"}
    if scalar and doc.get("shape") == [1]:
        mended = {**mended, "shape": [], "chunks": []}
    spec = document.read_array(mended, {}, problems).evolve(layout={"zarr2": doc, "scalar": scalar})
    if meaning == "char":
        return spec.evolve(dtype=Char())
    if meaning == "string" and isinstance(spec.dtype, np.dtype) and spec.dtype.kind == "S":
        return _as_text(spec, spec.dtype.itemsize, problems)
    return spec


def _as_text(spec: ArraySpec, length: int, problems: Problems) -> ArraySpec:
    fill = None
    if spec.fill_value is not None:
        try:
            fill = bytes(spec.fill_value).rstrip(b"\0").decode()
        except UnicodeDecodeError as error:
            problems.warn("fill_value", f"the fill value is no text: {error}")
    return spec.evolve(dtype=VlenString(), fill_value=fill, codecs=(Codec(TEXT, {"length": length}), *spec.codecs))


def _with_item_sizes(doc: Mapping[str, Any], meaning: Meaning, problems: Problems) -> Mapping[str, Any]:
    """The document with the true size where a shuffle has an ``elementsize`` of 0 (as netcdf-c writes it)."""
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


def with_item_size(doc: Mapping[str, Any], size: int) -> dict[str, Any]:
    """The ``.zarray`` with this size where a shuffle has none."""
    filters = [said | {"elementsize": size} if _lacks_size(said) else said for said in doc["filters"]]
    return {**doc, "filters": filters}


def _lacks_size(said: Any) -> bool:
    return isinstance(said, dict) and said.get("id") == "shuffle" and said.get("elementsize") in (0, "0")


def write_array(spec: ArraySpec, char: str, *, scalar: bool) -> dict[str, Any]:
    """``.zarray`` of a spec, unknown keys of ``layout["zarr2"]`` kept. ``char``: the dtype that char cells get.

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
    comparable = {**old, "dtype": plain_name(plain.dtype)} if isinstance(spec.dtype, Char) and old else old
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


def read_rows(said: Any, shape: tuple[int, ...], problems: Problems) -> tuple[int, ...] | None:
    """``written``: how far the array was given cells along each axis; None where that is all of it.

    Somebody who does not know of it made the array shorter: then all that is left was given.
    """
    if said is None:
        return None
    if not isinstance(said, list) or len(said) != len(shape) or any(type(rows) is not int or rows < 0 for rows in said):
        problems.warn("written", f"written is {brief(said)}, which are not {len(shape)} lengths; ignored")
        return None
    found = tuple(map(min, said, shape))
    if found != tuple(said):
        problems.warn("written", f"written is {brief(said)}, which is more than the shape {list(shape)}")
    return None if found == shape else found


def write_rows(spec: ArraySpec) -> dict[str, list[int]]:
    """The member ``written`` of an array's document, where there is one."""
    rows = spec.layout.get("written")
    return {} if rows is None or tuple(rows) == spec.shape else {"written": list(rows)}


def plain_name(dtype: DataType) -> str:
    """NumPy's name of a plain type."""
    return numpy_dtype(dtype).str


def text_length(spec: ArraySpec) -> int | None:
    """The width of text cells, None where the cells are no text."""
    if spec.codecs and spec.codecs[0].name == TEXT:
        return int(spec.codecs[0].config["length"])
    return None


def guarded(spec: ArraySpec) -> ArraySpec:
    """The array for writing: cells of an enumeration are checked to be members of it (R37)."""
    return spec.evolve(codecs=(Codec("enum_members"), *spec.codecs)) if isinstance(spec.dtype, Enum) else spec


def with_text(spec: ArraySpec, length: int, *, truncate: bool = False) -> ArraySpec:
    """The array of text with cells of this width, in place of any other that it had."""
    rest = tuple(codec for codec in spec.codecs if codec.name not in (TEXT, "vlen-utf8"))
    config = {"length": length} | ({"truncate": True} if truncate else {})
    return spec.evolve(codecs=(Codec(TEXT, config), *rest))
