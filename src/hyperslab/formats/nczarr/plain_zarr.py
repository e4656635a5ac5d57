"""Plain Zarr as format ``nczarr`` reads it: the netCDF model of a store that says nothing of netCDF.

Dimensions are named by ``_ARRAY_DIMENSIONS``, others have names that nobody gave. ``|Sn`` is text, ``>S1`` characters,
``|Vn`` opaque. With ``native=False`` truth values are ``ubyte``, times text of ISO 8601, complex numbers
compounds ``_Complex`` and ``_ComplexFloat`` of the root, and structures compounds ``_compound1``, ``_compound2``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hyperslab.codecs.plain_cells import iso_texts
from hyperslab.formats.documents import JsonMapping, JsonObject, text_or_none
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.metadata_json.cells import bytes_to_base64, number_from_json
from hyperslab.formats.metadata_json.extended_metadata import ATTRIBUTE
from hyperslab.formats.metadata_json.extended_metadata import read_attributes as read_marked
from hyperslab.formats.nczarr.attributes import is_hidden, read_attributes, split_hidden
from hyperslab.formats.nczarr.cells import (
    fill_code,
    meant_fill_value,
    mend_byte_order,
    read_array,
)
from hyperslab.formats.nczarr.dimensions import SCALAR, anonymous_name, qualified, read_plain_names, split_qualified
from hyperslab.formats.nczarr.generation import Context
from hyperslab.formats.nczarr.user_types import unnamed_opaque
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr2 import document
from hyperslab.formats.zarr2.document import DIMENSIONS, ZARRAY, ZATTRS, ZGROUP
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.dtypes import Compound, VlenString
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

COMPLEX = {
    f"c{2 * size}": Compound(np.dtype([("r", f"<f{size}"), ("i", f"<f{size}")]), name)
    for size, name in ((8, "_Complex"), (4, "_ComplexFloat"))
}
"""The compounds that complex numbers are to netCDF, by their NumPy type."""


def parse(docs: Docs, node: str, context: Context, problems: Problems) -> GroupSpec | ArraySpec:
    """Return the spec of a node; what is wrong goes to ``problems``."""
    stored = docs.get(ZATTRS, {})
    if ZARRAY in docs:
        return _read_array(docs[ZARRAY], stored, node, context, problems)
    doc = docs.get(ZGROUP, {})
    if doc.get("zarr_format", 2) != 2:
        problems.fatal("zarr_format", f"zarr_format is {shorten(doc['zarr_format'])}, not 2")
    _, marks = read_marked(stored)
    complex_types = {kind.name: kind for kind in COMPLEX.values()} if not node and not context.options.native else {}
    return GroupSpec(
        attrs=_attributes(stored, None, node, context, problems),
        dims=marks.dims,
        types={**complex_types, **marks.types},
        layout={
            "zarr2": doc,
            "arrays": None,
            "groups": None,
            "hidden": split_hidden(stored, {}, but={DIMENSIONS})[1],
            "kept": {},
        },
    )


def _attributes(stored: JsonMapping, code: str | None, node: str, context: Context, problems: Problems) -> JsonObject:
    """Return the attributes that users see; types that only NumPy has stay with ``native=True``."""
    if ATTRIBUTE in stored:
        return {name: value for name, value in read_marked(stored)[0].items() if not is_hidden(name)}
    shown, _ = split_hidden(stored, {})
    attrs = read_attributes(shown, {FILL_VALUE: code}, lambda: context.texts(node), problems)
    return attrs | {name: value for name, value in shown.items() if context.options.native and isinstance(value, bool)}


def _read_array(doc: JsonObject, stored: JsonObject, node: str, context: Context, problems: Problems) -> ArraySpec:
    scalar = doc.get("shape") == [1] and stored.get(DIMENSIONS) in ([], [SCALAR])
    seen = doc if context.options.native else _without_native(doc)
    if ATTRIBUTE in stored:
        spec = document.read_array(seen, stored, problems)
    else:
        meaning = _meaning(doc, context)
        spec = read_array(seen, problems, meaning=meaning, scalar=scalar, truncate=context.options.truncate)
    names = read_plain_names(stored.get(DIMENSIONS), len(spec.shape), problems) if spec.shape else ()
    draft, group = context.options.dialect == "draft", split(node)[0]
    dims = [
        qualified("", anonymous_name(size, draft=draft)) if name is None else qualified(group, name)
        for name, size in zip(names, spec.shape, strict=True)
    ]
    spec = spec.evolve(attrs=_attributes(stored, fill_code(spec.dtype), node, context, problems))
    if ATTRIBUTE not in stored:
        spec = spec.evolve(fill_value=meant_fill_value(spec, spec.attrs, doc, context, problems))
        spec = mend_byte_order(spec, context, problems)
    spec = _as_netcdf_type(spec, doc, node, context)
    layout = {"zarr2": doc, "scalar": scalar or not spec.shape, "dimensions": tuple(dims), "typedef": None}
    layout |= {"hidden": split_hidden(stored, {}, but={DIMENSIONS})[1], "written": None, "kept": {}}
    return spec.evolve(
        dims=tuple(split_qualified(name)[1] for name in dims), problem=problems.undecodable_reason, layout=layout
    )


def _meaning(doc: JsonMapping, context: Context) -> Any:
    """Return what the cells are: characters, as netcdf-c writes them, or text; None where their dtype tells it."""
    dtype = text_or_none(doc.get("dtype"))
    if dtype is None:
        return None
    if dtype == ">S1" or (dtype == "<U1" and "netcdf" in context.provenance):
        return "char"
    return "string" if dtype[1:2] == "S" else None


def _without_native(doc: JsonObject) -> JsonObject:
    """Return the document with cells of types that netCDF has, over the same bytes."""
    dtype, fill = doc.get("dtype"), doc.get("fill_value")
    if dtype == "|b1":
        return doc | {"dtype": "|u1", "fill_value": int(fill) if isinstance(fill, bool) else fill}
    if not isinstance(dtype, str) or dtype[1:] not in COMPLEX:
        return doc
    # a complex number is two floats side by side: the bytes stay as they are
    part = f"{dtype[0]}f{int(dtype[2:]) // 2}"
    if fill is not None:
        try:
            fill = bytes_to_base64(np.array(number_from_json(fill, np.dtype(dtype)), dtype).tobytes())
        except (TypeError, OverflowError):
            return doc
    return doc | {"dtype": [["r", part], ["i", part]], "fill_value": fill}


def _as_netcdf_type(spec: ArraySpec, doc: JsonMapping, node: str, context: Context) -> ArraySpec:
    """Return the array with types as netCDF names them."""
    dtype = spec.dtype
    if not isinstance(dtype, np.dtype):
        return spec
    if dtype.kind == "V" and dtype.names is None:
        return spec.evolve(dtype=unnamed_opaque(dtype.itemsize))
    if context.options.native:
        return spec
    if dtype.kind in "mM":
        # An array of times becomes one of text; the attribute ``units`` is NumPy's code of the unit.
        unit, count = np.datetime_data(dtype)
        fill = None if spec.fill_value is None else str(iso_texts(np.asarray(spec.fill_value))[()])
        return spec.evolve(
            dtype=VlenString(),
            fill_value=fill,
            codecs=(Codec("iso_time", {"dtype": dtype.str}), *spec.codecs),
            attrs={**spec.attrs, "units": unit if count == 1 else f"{count}{unit}"},
        )
    if dtype.names is None:
        return spec
    value = doc.get("dtype")
    if isinstance(value, str):
        return spec.evolve(dtype=replace(COMPLEX[value[1:]], base=dtype))
    structured = list(context.structured())
    # netCDF names types: the first array with fields has _compound1, the next _compound2
    number = structured.index(node) + 1 if node in structured else 1
    return spec.evolve(dtype=Compound(dtype, f"_compound{number}"))
