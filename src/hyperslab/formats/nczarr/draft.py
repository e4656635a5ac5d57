"""The draft dialect of 2018: the documents of a node to a spec and back. Pure.

::

    .zdataset     {"nczarr_version": "0.1-2018"}                     of the root
    .zgroup       {"zarr_format": 2}
    .zdims        {"x": 3, "t": {"size": 5, "unlimited": 1}}         see ``dimensions``
    .ztypedefs    {"o_t": {"class": "opaque", "size": 10}}           see ``user_types``
    .zattrs       {"title": "x"}            also read as ``.zattr``, and inside ``.zgroup``
    .zattr_type   {"title": "char"}         also read as ``.zattrs_type``
    a/.zarray     that of Zarr v2, with "dimensions": ["/y", "/x"], "typedef": "/o_t" for cells of a user type,
                  "nc_type": "char" for ``|u1`` that is text, "written": [2, 3] where a dimension grew beyond the array
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hyperslab.codecs.registry import try_chain
from hyperslab.errors import Unsupported
from hyperslab.formats.base import PROVENANCE
from hyperslab.formats.codec_kinds import with_array_to_bytes
from hyperslab.formats.documents import JsonMapping, JsonObject, object_or_empty, text_or_none
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.metadata_json.cells import bytes_to_base64, to_fill_cell
from hyperslab.formats.nczarr.attributes import (
    is_hidden,
    normalize_attributes,
    read_attributes,
    split_hidden,
    write_attributes,
)
from hyperslab.formats.nczarr.cells import (
    MAXIMUM,
    TEXT,
    fill_code,
    read_array,
    read_written,
    text_length,
    text_width,
    with_text_width,
    write_array,
    write_written,
)
from hyperslab.formats.nczarr.dimensions import (
    anonymous_name,
    new_qualified_name,
    qualified,
    read_draft_array_dimensions,
    read_draft_dimensions,
    shown_names,
    split_qualified,
    write_draft_dimensions,
)
from hyperslab.formats.nczarr.generation import Context, merge_provenance, read_provenance
from hyperslab.formats.nczarr.user_types import (
    Scope,
    dtype_in_bytes,
    read_types,
    same_type,
    text_lengths,
    unnamed_opaque,
    write_types,
)
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr2.document import DIMENSIONS, ZARRAY, ZATTRS, ZGROUP
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.dtypes import (
    Char,
    Compound,
    DataType,
    Enum,
    Extension,
    NumpyDType,
    Opaque,
    VlenString,
    describe,
    numpy_dtype,
)
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec, Codec, GroupSpec

DATASET, DIMS, TYPES, CODES = ".zdataset", ".zdims", ".ztypedefs", ".zattr_type"
EXTRAS = (ZATTRS, ".zattr", CODES, ".zattrs_type", DIMS, TYPES, DATASET)
"""The documents of a node beside ``.zgroup`` or ``.zarray``; ``.zattr`` and ``.zattrs_type`` are read, not written."""
VERSION = "0.1-2018"
_OWN = frozenset({"dimensions", "typedef", "nc_type", "written"})
_TEXT_DTYPES = frozenset({"|u1", "<u1", "|S1", ">S1", "<S1", "<U1", ">U1"})


def parse(docs: Docs, node: str, context: Context, problems: Problems) -> GroupSpec | ArraySpec:
    """Return the spec of a node; what is wrong goes to ``problems``."""
    stored = stored_attributes(docs)
    codes = docs.get(".zattrs_type", {}) | docs.get(CODES, {})
    if ZARRAY in docs:
        return _read_array(docs[ZARRAY], stored, codes, node, context, problems)
    return _read_group(docs, stored, codes, node, context, problems)


def stored_attributes(docs: Docs) -> JsonObject:
    """Return the attributes of a node wherever the draft lets them stand."""
    inside = docs.get(ZGROUP, {}).get(ZATTRS)
    return object_or_empty(inside) | docs.get(".zattr", {}) | docs.get(ZATTRS, {})


def _read_group(
    docs: Docs, stored: JsonObject, codes: JsonObject, node: str, context: Context, problems: Problems
) -> GroupSpec:
    doc = docs.get(ZGROUP, {})
    version = doc.get("zarr_format", 2)
    if not node and version != 2:
        problems.fatal("zarr_format", f"zarr_format is {shorten(version)}, not 2")
    if not node and DATASET in docs and "nczarr_version" not in docs[DATASET]:
        problems.fatal("nczarr_version", "nczarr_version is missing in .zdataset")
    types, no_types = read_types(docs.get(TYPES, {}), stored, Scope(node, context, {}), problems)
    dims, more = read_draft_dimensions(docs.get(DIMS, {}), problems)
    lengths = text_lengths({name: docs[TYPES][name] for name in types})
    kept = {DIMS: more, TYPES: no_types, DATASET: docs.get(DATASET, {})}
    shown = {name: value for name, value in stored.items() if name not in lengths or lengths[name] != value}
    plain, hidden = split_hidden(shown, codes)
    find = Scope(node, context, types).find
    return GroupSpec(
        attrs=read_attributes(plain, codes, lambda: context.texts(node), problems, find),
        dims=dims,
        types=types,
        layout={
            "zarr2": {key: value for key, value in doc.items() if key != ZATTRS},
            "arrays": None,
            "groups": None,
            "hidden": hidden,
            "kept": {name: part for name, part in kept.items() if part},
        },
    )


def _read_array(
    doc: JsonObject, stored: JsonObject, codes: JsonObject, node: str, context: Context, problems: Problems
) -> ArraySpec:
    group, _ = split(node)
    meaning, fill, known = _meaning(doc), doc.get("fill_value"), dtype_in_bytes(doc.get("dtype"))
    in_numpy = doc | ({"dtype": known} if "dtype" in doc else {})
    if known != doc.get("dtype"):
        problems.warn("bit-count dtype", f"dtype {doc['dtype']!r} counts bits; {known!r} is meant")
    if meaning == "char" and type(fill) is int and 0 < fill < 256:
        in_numpy["fill_value"] = bytes_to_base64(bytes([fill]))
    spec = read_array(in_numpy, problems, meaning=meaning, scalar=False, truncate=context.options.truncate)
    dimensions = read_draft_array_dimensions(doc, stored, spec.shape, group, context, problems)
    dtype, typedef = _cell_type(doc.get("typedef"), spec.dtype, context, problems)
    # without a code of its own the fill value is of the type of the cells
    codes = {FILL_VALUE: typedef or fill_code(dtype), **codes}
    plain, hidden = split_hidden(stored, codes, but={DIMENSIONS})
    return spec.evolve(
        dtype=dtype,
        dims=shown_names(dimensions, spec.shape, context),
        attrs=read_attributes(plain, codes, lambda: context.texts(node), problems, lambda fqn: _type_at(fqn, context)),
        problem=problems.undecodable_reason,
        layout={
            "zarr2": {key: value for key, value in doc.items() if key not in _OWN},
            "scalar": not spec.shape,
            "dimensions": dimensions,
            "typedef": typedef,
            "hidden": hidden,
            "written": read_written(doc.get("written"), spec.shape, problems),
            "kept": {},
        },
    )


def _meaning(doc: JsonMapping) -> Any:
    """Return what the cells are, characters or text; None where their dtype tells it."""
    dtype, value = text_or_none(doc.get("dtype")), doc.get("nc_type")
    if dtype is None:
        return None
    if dtype in _TEXT_DTYPES and value == "char":
        return "char"
    if dtype[1:] == "S1" and value != "string":
        return "char"
    return "string" if "S" in dtype else None


def _type_at(fqn: str, context: Context) -> Extension | None:
    """Return the type of a qualified name, in whichever group."""
    group, name = split_qualified(fqn)
    spec = context.group(group) if fqn.startswith("/") else None
    return None if spec is None else spec.types.get(name)


def _cell_type(value: Any, stored: DataType, context: Context, problems: Problems) -> tuple[DataType, str | None]:
    """Return the type of the cells, and its qualified name. One that nobody named is as it is stored, or
    opaque."""
    if isinstance(stored, np.dtype) and value is not None:
        kind = _type_at(value, context) if isinstance(value, str) else None
        if kind is None and context.group("") is None:
            pass  # a document that is looked at alone
        elif kind is None:
            problems.warn(
                "typedef", f"typedef: there is no type {shorten(value)}; the cells are read as they are stored"
            )
        elif same_type(numpy_dtype(kind), stored):
            if isinstance(kind, Compound | Enum) and kind.base != stored:
                kind = replace(kind, base=stored)
            return kind, value
        else:
            problems.undecodable(
                "typedef", f"typedef {value} is {describe(kind)} of {numpy_dtype(kind)}, but dtype is {stored}"
            )
    if isinstance(stored, np.dtype) and stored.kind == "V" and stored.names is None:
        return unnamed_opaque(stored.itemsize), None
    return stored, None


def render(spec: GroupSpec | ArraySpec, node: str, context: Context) -> Docs:
    """Return the documents of a node."""
    if spec.is_array:
        return _render_array(spec, split(node)[0], context)
    kept = spec.layout.get("kept", {})
    scope = Scope(node, context, spec.types)
    types = write_types(spec.types, scope)
    lengths: JsonObject = {name: (length, "int") for name, length in text_lengths(types).items()}
    hidden = spec.layout.get("hidden", {})
    if not node:
        provenance, _ = hidden.get(PROVENANCE, (None, None))
        hidden = {**hidden, PROVENANCE: (merge_provenance("draft", read_provenance({PROVENANCE: provenance})), "char")}
    attributes, codes = _write_attributes(spec.attrs, lengths | hidden, scope)
    parts = {
        DATASET: {} if node else {"nczarr_version": VERSION, **kept.get(DATASET, {})},
        DIMS: write_draft_dimensions(spec.dims, kept.get(DIMS, {}), node),
        TYPES: {name: provenance for name, provenance in kept.get(TYPES, {}).items() if name not in types} | types,
        CODES: codes,
    }
    return {name: doc for name, doc in parts.items() if doc} | {
        ZATTRS: attributes,
        ZGROUP: {**spec.layout.get("zarr2", {}), "zarr_format": 2},
    }


def _write_attributes(
    attrs: JsonMapping, hidden: Mapping[str, tuple[Any, Any]], scope: Scope
) -> tuple[JsonObject, JsonObject]:
    """Return ``.zattrs`` and ``.zattr_type``."""

    def type_name(kind: Extension) -> str:  # of one that nobody declares yet: the writer does so in this group
        return scope.name_of(kind) or qualified(scope.group, getattr(kind, "name", ""))

    stored, codes = write_attributes(attrs, draft=True, type_name=type_name)
    for name, (value, code) in hidden.items():
        stored[name] = value
        codes |= {} if code is None else {name: code}
    return stored, codes


def _render_array(spec: ArraySpec, group: str, context: Context) -> Docs:
    old = spec.layout.get("zarr2", {})
    scope = Scope(group, context)
    char = str(old.get("dtype")) if old.get("dtype") in (">S1", "|S1") else "|u1"
    doc = write_array(spec, char, scalar=False)
    if not old:
        doc.pop("dimension_separator", None)
    names = spec.layout.get("dimensions")
    if names is None:
        names = [
            new_qualified_name(name, size, group, context) for name, size in zip(spec.dims, spec.shape, strict=True)
        ]
    doc["dimensions"] = list(names)
    if (typedef := spec.layout.get("typedef") or _typedef(spec.dtype, scope)) is not None:
        doc["typedef"] = typedef
    if isinstance(spec.dtype, Char) and char == "|u1":
        doc["nc_type"] = "char"
    if text_length(spec) == 1:
        doc["nc_type"] = "string"
    doc |= write_written(spec)
    hidden = spec.layout.get("hidden", {})
    attributes, codes = _write_attributes(spec.attrs, hidden, scope)
    attributes[DIMENSIONS] = [split_qualified(name)[1] for name in names]
    return ({CODES: codes} if codes else {}) | {ZATTRS: attributes, ZARRAY: doc}


def _typedef(dtype: DataType, scope: Scope) -> str | None:
    """Return the qualified name of a user type: where it is declared, else in the array's own group; None without a
    name."""
    if not isinstance(dtype, Compound | Enum | Opaque) or not dtype.name:
        return None
    found = scope.name_of(dtype)
    if found is None and isinstance(dtype, Opaque) and dtype == unnamed_opaque(dtype.size):
        return None
    return found or qualified(scope.group, dtype.name)


def new_array(wish: ArraySpec, node: str, context: Context) -> ArraySpec:
    """Return a user's wish in this dialect's spelling; Unsupported names cells and codecs that it has not.

    ``layout`` has no dimensions yet: the writer knows where they are declared.
    """
    dtype = _draft_cell_type(wish.dtype)
    unseen = {name: value for name, value in wish.attrs.items() if is_hidden(name) and name != DIMENSIONS}
    values, codes = write_attributes(unseen, draft=True)
    layout: JsonObject = {"hidden": {name: (values[name], codes[name]) for name in unseen}}
    if "zarr2" in wish.layout:
        layout["zarr2"] = wish.layout["zarr2"]
    spec = wish.evolve(
        dtype=dtype,
        dims=tuple(name or anonymous_name(size, draft=True) for name, size in zip(wish.dims, wish.shape, strict=True)),
        codecs=with_array_to_bytes(
            [codec for codec in wish.codecs if codec.name not in (TEXT, "vlen-utf8")], Codec("bytes")
        ),
        fill_value=to_fill_cell(wish.fill_value, dtype),
        attrs=normalize_attributes({name: value for name, value in wish.attrs.items() if not is_hidden(name)}),
        indexes={},
        problem=None,
        layout=layout,
    )
    if isinstance(dtype, VlenString):
        spec = with_text_width(
            spec, text_width(wish, wish.attrs.get(MAXIMUM), context), truncate=context.options.truncate
        )
    problems = Problems(node)
    found = _read_array(render(spec, node, context)[ZARRAY], {}, {}, node, context, problems)
    problems.raise_if_fatal()
    try_chain(found)
    return found.evolve(
        dtype=spec.dtype,
        dims=spec.dims,
        attrs=spec.attrs,
        problem=None,
        layout=layout | {"zarr2": found.layout["zarr2"]},
    )


def _draft_cell_type(dtype: DataType) -> DataType:
    """Return the type as the draft has it; Unsupported names one that netCDF has no form of."""
    match dtype:
        case Char() | VlenString() | Opaque():
            return dtype
        case Enum() | Compound() if dtype.name and _has_draft_type(dtype.base):
            return dtype
        case np.dtype(kind="S", itemsize=1):
            return Char()
        case np.dtype(kind="V", names=None, type=np.void):
            return unnamed_opaque(dtype.itemsize)
        case np.dtype() if dtype.kind != "S" and _has_draft_type(dtype):
            return dtype
    is_text = isinstance(dtype, np.dtype) and dtype.kind in "SU"
    remedy = "give dtype=str" if is_text else "convert the cells to numbers or text first, or use format zarr2"
    raise Unsupported(f"format nczarr (dialect draft) has no cells of type {describe(dtype)}", remedy=remedy)


def _has_draft_type(dtype: NumpyDType) -> bool:
    base = dtype.base
    if base.fields is not None:
        return all(_has_draft_type(part) for part, *_ in base.fields.values())
    return base.kind in "iuS" or base.type is np.void or (base.kind == "f" and base.itemsize in (4, 8))
