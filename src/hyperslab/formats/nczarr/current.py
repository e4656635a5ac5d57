"""The documents that netcdf-c writes from 4.9.3 on: everything that Zarr does not know lies in ``.zattrs``.

``_nczarr_superblock`` (root), ``_nczarr_group`` (dimensions, names of arrays and groups), ``_nczarr_array``
(qualified names of dimensions) and ``_nczarr_attr`` (the types of the attributes). Both directions are pure. What
netcdf-c and users do not see is kept in ``layout`` and written again; what is damaged is read without it, and noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hyperslab.codecs.registry import try_chain
from hyperslab.errors import Invalid, Unsupported
from hyperslab.formats.base import PROVENANCE
from hyperslab.formats.documents import JsonMapping, JsonObject, object_or_empty
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.metadata_json.cells import text_from_json, to_fill_cell
from hyperslab.formats.nczarr.attributes import is_hidden, read_attributes, split_hidden, write_attributes
from hyperslab.formats.nczarr.cells import (
    MAXIMUM,
    Meaning,
    fill_code,
    meant_fill_value,
    mend_byte_order,
    netcdf_cell_type,
    read_array_once,
    read_written,
    with_codec_chain,
    write_array,
    write_written,
)
from hyperslab.formats.nczarr.dimensions import (
    SCALAR,
    XARRAY,
    anonymous_name,
    qualified,
    read_array_dimensions,
    read_group_dimensions,
    short_names,
    shown_names,
    write_group_dimensions,
)
from hyperslab.formats.nczarr.generation import (
    ARRAY,
    GROUP,
    SUPERBLOCK,
    TYPES,
    Context,
    merge_provenance,
    read_provenance,
    to_current_documents,
)
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.model.attrs import FILL_VALUE
from hyperslab.model.dtypes import Char, VlenString, describe
from hyperslab.model.paths import split
from hyperslab.model.spec import ArraySpec, GroupSpec

_MADE = frozenset({XARRAY, SUPERBLOCK, GROUP, ARRAY, TYPES})
_JSON = "|J0"
_KNOWN = {
    SUPERBLOCK: frozenset[str](),
    GROUP: frozenset({"dimensions", "arrays", "groups"}),
    ARRAY: frozenset({"dimension_references", "scalar", "storage", "nc_type", "written"}),
    TYPES: frozenset({"types"}),
}
_CHARS = {"netcdf": ">S1", "zarr": "|S1"}
_OF_DRAFT = frozenset({"dimensions", "typedef", "nc_type", "written"})


# -- reading ----------------------------------------------------------------------------------------------------------


def parse(docs: Docs, node: str, context: Context, problems: Problems) -> GroupSpec | ArraySpec:
    """Return the spec of a node, also of an older generation; what is wrong with its documents goes to ``problems``."""
    if context.generation.is_older:
        docs = to_current_documents(docs)
    stored = docs.get(".zattrs", {})
    if ".zarray" in docs:
        return _parse_array(docs[".zarray"], stored, node, context, problems)
    doc = docs.get(".zgroup", {})
    if "zarr_format" not in doc:
        problems.warn("zarr_format", "zarr_format is missing; 2 is assumed")
    elif doc["zarr_format"] != 2:
        problems.fatal("zarr_format", f"zarr_format is {shorten(doc['zarr_format'])}, not 2")
    own, kept = _own(stored, GROUP, problems), _kept(stored)
    codes = _codes(stored)
    visible, hidden = split_hidden(stored, codes, but=_MADE)
    layout = {
        "zarr2": doc,
        "arrays": _names(own, "arrays", problems),
        "groups": _names(own, "groups", problems),
        "hidden": hidden,
        "kept": kept,
    }
    attrs = _attributes(stored, visible, codes, node, context, problems)
    return GroupSpec(attrs=attrs, dims=read_group_dimensions(own.get("dimensions", {}), problems), layout=layout)


def _own(stored: JsonMapping, key: str, problems: Problems) -> JsonObject:
    """Return one of NCZarr's own objects in ``.zattrs``."""
    value = stored.get(key, {})
    if isinstance(value, dict):
        return value
    problems.warn("nczarr", f"{key} is {shorten(value)}, not an object; ignored")
    return {}


def _kept(stored: JsonMapping) -> JsonObject:
    """Return what the own objects hold that is not known here."""
    kept = {}
    for key, known in _KNOWN.items():
        value = stored.get(key)
        if isinstance(value, dict) and not known.issuperset(value):
            kept[key] = {name: value[name] for name in value if name not in known}
    return kept


def _names(own: JsonMapping, key: str, problems: Problems) -> tuple[str, ...] | None:
    value = own.get(key)
    if value is None:
        return None
    # as fast as can be: a batch of new arrays asks this of a long list for each
    if isinstance(value, list) and set(map(type, value)) <= {str} and "" not in value and "/" not in "".join(value):
        return tuple(value)
    problems.warn("nczarr", f"{key} is {shorten(value)}, not a list of names; ignored")
    return None


def _codes(stored: JsonMapping) -> JsonObject:
    return object_or_empty(object_or_empty(stored.get(TYPES)).get("types"))


def _attributes(
    stored: JsonMapping, visible: JsonMapping, codes: JsonMapping, node: str, context: Context, problems: Problems
) -> JsonObject:
    """Return the attributes that users see, ``visible``, by their types, ``codes``."""
    content = stored.get(TYPES, {})
    if not isinstance(content, dict) or not isinstance(content.get("types", {}), dict):
        problems.warn("nczarr", f"{TYPES} is {shorten(content)}, which tells no types; they are guessed")
    return read_attributes(visible, codes, lambda: context.texts(node), problems)


def _parse_array(doc: JsonMapping, stored: JsonMapping, node: str, context: Context, problems: Problems) -> ArraySpec:
    own = _own(stored, ARRAY, problems)
    # a shape of [1] stands for a scalar where one of the generations says so
    is_scalar = own.get("scalar") or own.get("storage") == "scalar" or stored.get(XARRAY) in ([], [SCALAR])
    spec = read_array_once(
        doc,
        problems,
        meaning=_meaning(doc, own, context),
        scalar=bool(is_scalar) and not own.get("dimension_references"),
        truncate=context.options.truncate,
        parsed=context.parsed,
    )
    codes = _codes(stored)
    visible, hidden = split_hidden(stored, codes, but=_MADE)
    code = fill_code(spec.dtype)
    # nothing in the document can change the type of the fill value
    fixed = codes if code is None else {**codes, FILL_VALUE: code}
    attrs = _attributes(stored, visible, fixed, node, context, problems)
    if isinstance(spec.dtype, Char) and attrs.get(FILL_VALUE) == "":  # how netcdf-c spells the char NUL
        attrs[FILL_VALUE] = "\0"
    fill = meant_fill_value(spec, attrs, doc, context, problems)
    spec = mend_byte_order(spec, context, problems)
    dimensions = read_array_dimensions(
        own.get("dimension_references"), stored.get(XARRAY), spec.shape, node, context, problems
    )
    layout = {
        **spec.layout,
        "dimensions": dimensions,
        "typedef": None,
        "hidden": hidden,
        "written": read_written(own.get("written"), spec.shape, problems),
        "kept": _kept(stored),
    }
    return spec.evolve(attrs=attrs, fill_value=fill, dims=shown_names(dimensions, spec.shape, context), layout=layout)


def _meaning(doc: JsonMapping, own: JsonMapping, context: Context) -> Meaning:
    """Return what bytes are: char, string or numbers."""
    dtype = doc.get("dtype")
    if dtype == ">S1" or (dtype == "|S1" and own.get("nc_type") == "char"):
        return "char"
    if context.generation.is_older and dtype in ("<U1", ">U1", "|U1"):
        return "char"
    return "string"


# -- writing ----------------------------------------------------------------------------------------------------------


def render(spec: GroupSpec | ArraySpec, node: str, context: Context) -> Docs:
    """Return the documents of a node; Unsupported and Invalid name what NCZarr cannot hold."""
    if spec.is_array:
        return _render_array(spec, node, context)
    if spec.types:
        name = next(iter(spec.types))
        message = f"the current dialect of NCZarr has no user types such as {name!r}"
        raise Unsupported(message, remedy="use dialect='draft'")
    group: JsonObject = {"dimensions": write_group_dimensions(spec.dims)}
    group |= {key: list(spec.layout.get(key) or ()) for key in ("arrays", "groups")}
    own: JsonObject = {GROUP: _with_kept(spec, GROUP, group)}
    attrs, hidden = dict(spec.attrs), dict(spec.layout.get("hidden", {}))
    if not node:
        content, _ = hidden.pop(PROVENANCE, (None, None))
        content = attrs.pop(PROVENANCE, content)
        hidden[PROVENANCE] = (merge_provenance("2.0.0", read_provenance({PROVENANCE: content})), ">S1")
        own[SUPERBLOCK] = _with_kept(spec, SUPERBLOCK, {"version": "2.0.0"})
    old = {key: value for key, value in spec.layout.get("zarr2", {}).items() if key != "zarr_format"}
    return {".zattrs": _document(spec, attrs, hidden, {}, own), ".zgroup": {"zarr_format": 2, **old}}


def _with_kept(spec: GroupSpec | ArraySpec, key: str, value: JsonObject) -> JsonObject:
    """Return one of NCZarr's own objects, with what another writer put into it beside."""
    return value | dict(spec.layout.get("kept", {}).get(key, {}))


def _document(
    spec: GroupSpec | ArraySpec,
    attrs: JsonMapping,
    hidden: Mapping[str, tuple[Any, Any]],
    untyped: JsonMapping,
    own: JsonMapping,
) -> JsonObject:
    """Return ``.zattrs``: attributes, hidden ones, those without a type, NCZarr's own, and last the types of all.

    An attribute whose name is hidden is written, and hidden from then on.
    """
    if taken := [name for name in attrs if name in _MADE]:
        raise Invalid(f"attribute {taken[0]!r}: NCZarr has one of this name of its own", remedy="choose another name")
    values, codes = write_attributes(attrs, draft=False)
    for name, (value, code) in hidden.items():
        if name not in attrs:
            values[name] = value
            codes |= {} if code is None else {name: code}
    types = {**codes, **dict.fromkeys([*own, TYPES], _JSON)}
    return {**values, **untyped, **own, TYPES: _with_kept(spec, TYPES, {"types": types})}


def _render_array(spec: ArraySpec, node: str, context: Context) -> Docs:
    scalar = not spec.shape and spec.layout.get("scalar", True)
    char = spec.layout.get("zarr2", {}).get("dtype")
    char = char if char in _CHARS.values() else _CHARS[context.options.char_encoding]
    doc = write_array(spec, char, scalar=scalar)
    if isinstance(spec.dtype, Char | VlenString):
        doc["fill_value"] = _text_fill(doc["fill_value"], spec.fill_value, str(doc["dtype"]))
    references = spec.layout.get("dimensions")
    if references is None:
        group = split(node)[0]
        references = [
            qualified("", anonymous_name(size, draft=False)) if name is None else qualified(group, name)
            for name, size in zip(spec.dims, spec.shape, strict=True)
        ]
    references = list(references)
    own: JsonObject = {"dimension_references": references}
    if scalar:
        own["scalar"] = 1
    own["storage"] = "chunked"
    if isinstance(spec.dtype, Char) and char == "|S1":
        own["nc_type"] = "char"
    own |= write_written(spec)
    hidden = spec.layout.get("hidden", {})
    untyped = {XARRAY: [SCALAR] if scalar else list(short_names(references))}
    stored = _document(spec, _with_fill(spec), hidden, untyped, {ARRAY: _with_kept(spec, ARRAY, own)})
    return {".zattrs": stored, ".zarray": doc}


def _text_fill(value: object, fill: Any, char: str | None) -> object:
    """Return ``""`` for NUL bytes and a char as itself, as netcdf-c has them; else base64, as Zarr readers want."""
    if fill is None:
        return None
    raw = fill.encode() if isinstance(fill, str) else bytes(fill)
    if not raw.strip(b"\0"):
        return ""
    return raw.decode() if char == ">S1" and raw.isascii() and raw.decode().isprintable() else value


def _with_fill(spec: ArraySpec) -> JsonObject:
    """Return the attributes, ``_FillValue`` of the type of the cells; Invalid where it cannot be."""
    attrs = dict(spec.attrs)
    code = fill_code(spec.dtype)
    if FILL_VALUE not in attrs or code is None:
        return attrs
    value = attrs[FILL_VALUE]
    try:
        if not isinstance(spec.dtype, Char | VlenString):
            attrs[FILL_VALUE] = to_fill_cell(np.asarray(value).reshape(()), spec.dtype)
            return attrs
        text = text_from_json(value.decode("latin-1") if isinstance(value, bytes) else value)
        is_string = isinstance(spec.dtype, VlenString)
        attrs[FILL_VALUE] = np.str_(text) if is_string else "" if text == "\0" else str(text)
    except (TypeError, ValueError, OverflowError):
        message = f"{FILL_VALUE}={shorten(value)} is no cell of type {describe(spec.dtype)}"
        raise Invalid(message, remedy="netCDF wants a _FillValue of the type of the cells") from None
    return attrs


# -- new arrays -------------------------------------------------------------------------------------------------------


def new_array(wish: ArraySpec, node: str, context: Context) -> ArraySpec:
    """Return a user's wish as it will be read back; what cannot be written is Invalid or Unsupported now.

    Text gets cells of ``_nczarr_maxstrlen`` bytes: among the attributes of the wish, else of those of the root, else
    128. ``dims`` are those of the wish: nobody has resolved them yet.
    """
    dtype = netcdf_cell_type(wish.dtype)
    hidden = {name: wish.attrs[name] for name in wish.attrs if is_hidden(name) and name not in _MADE}
    values, codes = write_attributes(hidden, draft=False)
    layout: JsonObject = {"hidden": {name: (values[name], codes[name]) for name in hidden}}
    if "zarr2" in wish.layout:
        layout["zarr2"] = {key: value for key, value in wish.layout["zarr2"].items() if key not in _OF_DRAFT}
    # the wish goes through its documents and back: what netcdf-c could not read is told now, not with the first chunk
    spec = wish.evolve(
        dtype=dtype,
        attrs={name: value for name, value in wish.attrs.items() if name not in hidden},
        fill_value=to_fill_cell(wish.fill_value, dtype),
        indexes={},
        problem=None,
        layout=layout,
    )
    docs = render(with_codec_chain(spec, hidden.get(MAXIMUM), context), node, context)
    alone, problems = Context(generation=context.generation, options=context.options), Problems(node)
    found = parse(docs, node, alone, problems)
    problems.raise_if_fatal()
    if not found.is_array:
        raise TypeError("no array")
    try_chain(found)
    unresolved = {key: value for key, value in found.layout.items() if key != "dimensions"}
    return found.evolve(dims=wish.dims, layout=unresolved)
