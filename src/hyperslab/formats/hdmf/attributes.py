"""Attributes of HDMF documents: reserved names, links, references, and values that JSON lacks. Pure.

References are objects, bytes are text, NaN and infinities are bare tokens. Profile v2:
``{"value": {"source": …, "path": …, …}, "zarr_dtype": "object"}`` (``"region"``); profile v3: ``{"_REFERENCE": {…}}``.
What JSON does not say of a value's type rides in the mark ``_hyperslab``, in the codes of
:mod:`~hyperslab.formats.metadata_json.attributes`; ``utf-8:`` before a code means that its bytes
stand as text, not as base64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hyperslab.codecs.references import reference_of, spelled
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.documents import object_or_empty
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.hdmf.cell_types import OBJECT, REGION
from hyperslab.formats.metadata_json.attributes import Code, decode_attribute, encode_attribute
from hyperslab.formats.metadata_json.cells import SPECIAL, base64_to_bytes, bytes_to_base64
from hyperslab.formats.metadata_json.extended_metadata import ATTRIBUTE, VERSION
from hyperslab.model.attrs import Attrs
from hyperslab.model.dtypes import tag_of
from hyperslab.model.paths import check_name
from hyperslab.model.refs import Link, ObjectReference, RegionReference

# -- reserved names: they stand in documents, and never among the attributes that users see ----------------------------

SPECLOC = ".specloc"
"""At the root: the path of the group in which the specifications are."""
SPECIFICATIONS = "specifications"
"""That group's usual path."""
REFERENCE_FIELDS, REGION_FIELDS = "_REFERENCE_FIELDS", "_REGION_FIELDS"
RESERVED = ("zarr_link", "zarr_dtype", SPECLOC, "_LINKS", "_DTYPE", REFERENCE_FIELDS, REGION_FIELDS)
LAYOUT, LINKS, SPECLOC_PATH = "hdmf", "links", "specloc"
"""The part of a spec's ``layout`` that is this format's; in that of a group its links by name, and in that of the root
the path of the group of the specifications."""


@dataclass(frozen=True, slots=True)
class AttributeNames:
    """What one profile calls the links of a group and the type of an array."""

    profile: Literal["v2", "v3"]
    links: str
    dtype: str


V2_NAMES = AttributeNames("v2", "zarr_link", "zarr_dtype")
V3_NAMES = AttributeNames("v3", "_LINKS", "_DTYPE")


def split_reserved(stored: Mapping[str, Any]) -> tuple[dict[str, object], dict[str, object]]:
    """Split the attributes of a node into the reserved ones and the others."""
    own = {name: stored[name] for name in RESERVED if name in stored}
    return own, {name: value for name, value in stored.items() if name not in own}


def raise_if_reserved(attrs: Iterable[str]) -> None:
    """Raise Invalid for an attribute of users that bears a reserved name."""
    for name in attrs:
        if name in RESERVED:
            remedy = "choose another name; hyperslab writes this one itself for links, types and specifications"
            raise Invalid(f"the attribute name {name!r} is reserved in format hdmf", remedy=remedy)


Reference = ObjectReference | RegionReference
FILL = "_FillValue"
"""Spelled by Zarr's own formats, as xarray knows it."""
_TEXT = "utf-8:"
_REFERENCE = "_REFERENCE"
_REFERENCE_KEYS = frozenset({"source", "path", "object_id", "source_object_id", "region"})
ID_KEYS = ("object_id", "source_object_id")


# -- from documents -----------------------------------------------------------------------------------------------


def read_attributes(
    attrs: Attrs, stored: Mapping[str, Any], attribute_names: AttributeNames, problems: Problems
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the attributes as users see them, and the stored objects of those that are references, by name.

    ``attrs`` has been decoded by the mark in ``stored``. An object that spells no sound reference stays an object.
    """
    mark = stored.get(ATTRIBUTE)
    codes = mark.get("attrs") if isinstance(mark, dict) else None
    codes = object_or_empty(codes)
    found: dict[str, Any] = {}
    stored_references: dict[str, Any] = {}
    for name, value in attrs.items():
        code = codes.get(name)
        if isinstance(code, str) and code.startswith(_TEXT):
            found[name] = _decode_text(value, code.removeprefix(_TEXT))
        elif isinstance(value, dict) and (inner := reference_part(value, attribute_names)) is not None:
            found[name] = _read_reference(name, value, inner, problems)
            if found[name] is not value:
                stored_references[name] = value
        else:
            found[name] = value
    return found, stored_references


def reference_part(value: Mapping[str, object], attribute_names: AttributeNames) -> Any:
    """Return the object that spells a reference; None where the value is none in this profile."""
    if attribute_names.profile == "v3":
        return value[_REFERENCE] if set(value) == {_REFERENCE} else None
    return value["value"] if value.get("zarr_dtype") in (OBJECT, REGION) and "value" in value else None


def _read_reference(name: str, value: dict[str, object], inner: object, problems: Problems) -> object:
    try:
        if not isinstance(inner, dict):
            raise TypeError("it is no object")
        if (value.get("zarr_dtype") == REGION) and "region" not in inner:
            raise TypeError("it has no region")
        return reference_of(inner)
    except (HyperslabError, TypeError, ValueError) as error:
        said = error.message if isinstance(error, HyperslabError) else error
        problems.warn("reference", f"attribute {name!r} is no reference: {said}")
        return value


def _decode_text(value: object, code: str) -> object:
    """Decode bytes that are stored as text; return the value as it is where it does not fit its code."""
    coded = _map_texts(value, lambda text: bytes_to_base64(text.encode(errors="surrogatepass")))
    found = decode_attribute(coded, code)
    return value if found is coded else found


def _map_texts(value: Any, change: Callable[[str], Any]) -> object:
    if isinstance(value, list):
        return [_map_texts(part, change) for part in value]
    return change(value) if isinstance(value, str) else value


# -- to documents -------------------------------------------------------------------------------------------------


def write_attributes(
    attrs: Attrs, stored_references: Mapping[str, object], attribute_names: AttributeNames, *, regions: bool
) -> tuple[dict[str, object], dict[str, tuple[object, Code | None]]]:
    """Split attributes into those that Zarr's own format spells, and those that are encoded here, with their codes.

    ``spellings``: what stood in the document for references. ``regions``: new references to regions may be written.
    """
    plain: dict[str, Any] = {}
    encoded: dict[str, tuple[object, Code | None]] = {}
    for name, value in attrs.items():
        if isinstance(value, Reference):
            encoded[name] = _write_reference(name, value, stored_references.get(name), attribute_names, regions), None
        elif name in (FILL, ATTRIBUTE) or (said := _encode_value(name, value)) is None:
            plain[name] = value
        else:
            encoded[name] = said
    return plain, encoded


def _write_reference(
    name: str, value: Reference, old: Any, attribute_names: AttributeNames, regions: bool
) -> dict[str, object]:
    inner = reference_part(old, attribute_names) if isinstance(old, dict) else None
    inner = object_or_empty(inner)
    if inner and _known_documents(reference_of(inner), value):
        return dict(old)
    if isinstance(value, RegionReference) and attribute_names.profile == "v2" and not regions:
        raise Unsupported(
            f"attribute {name!r} is a region reference, which hdmf-zarr of Zarr v2 cannot open a dataset with",
            remedy="region_attributes=True if only hyperslab is to read it, profile='v3', or store it in an array",
        )
    said = {key: kept for key, kept in inner.items() if key not in _REFERENCE_KEYS}
    said |= spelled(value, scalar_as_one=attribute_names.profile == "v2")
    if attribute_names.profile == "v2":
        return {"value": said, "zarr_dtype": REGION if isinstance(value, RegionReference) else OBJECT}
    return {_REFERENCE: {key: part for key, part in said.items() if key not in ID_KEYS or part is not None}}


def _known_documents(a: Reference, b: Reference) -> bool:
    return a == b and all(getattr(a, name) == getattr(b, name) for name in ID_KEYS)


def _encode_value(name: str, value: Any) -> tuple[object, Code | None] | None:
    """Encode UTF-8 bytes as text and floats that JSON lacks as bare tokens; return None for all other values."""
    typed = isinstance(value, np.ndarray | np.generic)
    if typed and tag_of(value.dtype) is not None:
        return None
    kind = value.dtype.kind if typed else ""
    if isinstance(value, bytes | bytearray) or kind == "S":
        said, code = encode_attribute(name, value)
        try:
            return _map_texts(said, lambda text: base64_to_bytes(text).decode()), f"{_TEXT}{code}"
        except UnicodeDecodeError:
            return None
    match value:
        case float() if kind == "" and not math.isfinite(value):
            return value, None
        case list() | tuple() | dict():
            said, code = encode_attribute(name, value)
            return None if code is None else (decode_attribute(said, code), None)
    if kind in ("f", "c"):
        said, code = encode_attribute(name, value)
        return (_map_texts(said, SPECIAL.__getitem__), code) if not np.isfinite(value).all() else None
    return None


def merge_attributes(
    stored: Mapping[str, Any], encoded: Mapping[str, tuple[object, Code | None]], order: Attrs
) -> dict[str, object]:
    """Merge the attributes that were encoded here into those of a document, in the order of `order`; the mark last."""
    values = {name: value for name, value in stored.items() if name not in order and name != ATTRIBUTE}
    values |= {
        name: encoded[name][0] if name in encoded else stored[name]
        for name in order
        if name in encoded or name in stored
    }
    codes = {name: code for name, (_, code) in encoded.items() if code is not None}
    return values | add_extended_metadata({ATTRIBUTE: stored[ATTRIBUTE]} if ATTRIBUTE in stored else {}, attrs=codes)


def add_extended_metadata(stored: Mapping[str, Any], **parts: Any) -> dict[str, object]:
    """Add `parts` to the mark ``_hyperslab`` of stored attributes; the codes of attributes are merged."""
    said = {name: part for name, part in parts.items() if part}
    if not said:
        return dict(stored)
    mark = {"version": VERSION, **stored.get(ATTRIBUTE, {})}
    for name, part in said.items():
        mark[name] = {**mark.get(name, {}), **part} if isinstance(part, dict) and name == "attrs" else part
    return {name: value for name, value in stored.items() if name != ATTRIBUTE} | {ATTRIBUTE: mark}


# -- links: a list of objects with a name each (``zarr_link``, ``_LINKS``) ---------------------------------------------

_LINK_KEYS = ("name", "source", "path", "object_id", "source_object_id")


def read_links(said: object, word: str, problems: Problems) -> tuple[dict[str, Link], list[object]]:
    """Return the links by name, and the entries that are no links: these are kept as they stand."""
    if not isinstance(said, list):
        problems.warn("links", f"{word} is {shorten(said)}, not a list of links")
        return {}, [said]
    links: dict[str, Link] = {}
    others = []
    for entry in said:
        reason = _fault(entry, links)
        if reason is None:
            links[entry["name"]] = _read_link(entry)
        else:
            others.append(entry)
            problems.warn("links", f"{word}: {shorten(entry)} is no link: {reason}")
    return links, others


def _fault(entry: object, links: Mapping[str, Link]) -> str | None:
    if not isinstance(entry, dict):
        return "it is not an object"
    if missing := [key for key in _LINK_KEYS[:3] if not isinstance(entry.get(key), str)]:
        return f"it has no text {missing[0]!r}"
    if not all(isinstance(entry.get(key), str | None) for key in _LINK_KEYS[3:]):
        return "an object_id is no text"
    try:
        check_name(entry["name"])
    except Invalid as error:
        return error.message
    return "another link has this name" if entry["name"] in links else None


def _read_link(entry: Mapping[str, Any]) -> Link:
    path = entry["path"]
    return Link(
        target=path if path.startswith("/") else f"/{path}",
        source=entry["source"] or ".",
        object_id=entry.get("object_id"),
        source_object_id=entry.get("source_object_id"),
        layout={key: value for key, value in entry.items() if key not in _LINK_KEYS},
    )


def write_links(links: Mapping[str, Link], others: Iterable[object], profile: Literal["v2", "v3"]) -> list[object]:
    """Return the list of links for a document. Profile v2 always has the two object ids, v3 where they are known."""
    return [*(_write_link(name, link, profile) for name, link in links.items()), *others]


def _write_link(name: str, link: Link, profile: str) -> dict[str, object]:
    check_name(name)
    ids = {"object_id": link.object_id, "source_object_id": link.source_object_id}
    if profile == "v3":
        ids = {key: value for key, value in ids.items() if value is not None}
    return {"name": name, "source": link.source, "path": link.target, **ids, **link.layout}
