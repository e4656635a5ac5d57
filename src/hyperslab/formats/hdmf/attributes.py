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
from typing import Any

import numpy as np

from hyperslab.codecs.references import reference_of, spelled
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.documents import object_or_empty
from hyperslab.formats.format_errors import Problems, shorten
from hyperslab.formats.hdmf.cell_types import OBJECT, REGION, ProfileName
from hyperslab.formats.metadata_json.attributes import Code, decode_attribute, encode_attribute
from hyperslab.formats.metadata_json.cells import SPECIAL, base64_to_bytes, bytes_to_base64
from hyperslab.formats.metadata_json.extended_metadata import ATTRIBUTE, VERSION
from hyperslab.model.attrs import FILL_VALUE, Attrs
from hyperslab.model.dtypes import tag_of
from hyperslab.model.paths import check_name
from hyperslab.model.refs import Link, ObjectReference, RegionReference

# -- reserved names: they stand in documents, and never among the attributes that users see ----------------------------

SPECLOC = ".specloc"
"""At the root: the path of the group in which the specifications are."""
SPECIFICATIONS = "specifications"
"""That group's usual path."""
V2_LINKS, V3_LINKS = "zarr_link", "_LINKS"
V2_DTYPE, V3_DTYPE = "zarr_dtype", "_DTYPE"
"""The attributes in which the profiles keep the links of a group and the type of an array."""
REFERENCE_FIELDS, REGION_FIELDS = "_REFERENCE_FIELDS", "_REGION_FIELDS"
RESERVED = (V2_LINKS, V2_DTYPE, SPECLOC, V3_LINKS, V3_DTYPE, REFERENCE_FIELDS, REGION_FIELDS)
LAYOUT, LINKS, SPECLOC_PATH = "hdmf", "links", "specloc"
"""The part of a spec's ``layout`` that is this format's; in that of a group its links by name, and in that of the root
the path of the group of the specifications."""


def split_reserved(stored: Mapping[str, Any]) -> tuple[dict[str, object], dict[str, object]]:
    """Split the attributes of a node into the reserved ones and the others."""
    own = {name: stored[name] for name in RESERVED if name in stored}
    return own, {name: value for name, value in stored.items() if name not in own}


Reference = ObjectReference | RegionReference
"""Spelled by Zarr's own formats, as xarray knows it."""
_TEXT = "utf-8:"
# The keys of a reference's object that its value tells; any other key of a stored object is kept.
_REFERENCE_KEYS = frozenset({"source", "path", "object_id", "source_object_id", "region"})
ID_KEYS = ("object_id", "source_object_id")


# -- from documents -----------------------------------------------------------------------------------------------


def read_attributes(
    attrs: Attrs, stored: Mapping[str, Any], profile: ProfileName, problems: Problems
) -> tuple[dict[str, object], dict[str, object]]:
    """Return the attributes as users see them, and the stored objects of those that are references, by name.

    ``attrs`` has been decoded by the mark in ``stored``. An object that spells no sound reference stays an object.
    """
    codes = object_or_empty(object_or_empty(stored.get(ATTRIBUTE)).get("attrs"))
    found: dict[str, Any] = {}
    stored_references: dict[str, Any] = {}
    for name, value in attrs.items():
        found[name] = value
        code = codes.get(name)
        if isinstance(code, str) and code.startswith(_TEXT):
            coded = _map_texts(value, lambda text: bytes_to_base64(text.encode(errors="surrogatepass")))
            decoded = decode_attribute(coded, code.removeprefix(_TEXT))
            found[name] = value if decoded is coded else decoded  # a value that does not fit its code stays
        elif (inner := reference_part(value, profile)) is not None:
            found[name] = _read_reference(name, value, inner, problems)
            if found[name] is not value:
                stored_references[name] = value
    return found, stored_references


def reference_part(value: object, profile: ProfileName) -> Any:
    """Return the object that spells a reference; None where the value is none in this profile."""
    match value:
        case {"_REFERENCE": inner, **rest} if profile == "v3" and not rest:
            return inner
        case {"value": inner, "zarr_dtype": "object" | "region"} if profile == "v2":
            return inner
    return None


def _read_reference(name: str, value: dict[str, object], inner: object, problems: Problems) -> object:
    try:
        if not isinstance(inner, dict):
            raise TypeError("it is no object")
        if value.get("zarr_dtype") == REGION and "region" not in inner:
            raise TypeError("it has no region")
        return reference_of(inner)
    except HyperslabError as error:
        reason = error.message
    except (TypeError, ValueError) as error:
        reason = str(error)
    problems.warn("reference", f"attribute {name!r} is no reference: {reason}")
    return value


def _map_texts(value: Any, change: Callable[[str], Any]) -> object:
    match value:
        case list():
            return [_map_texts(part, change) for part in value]
        case str():
            return change(value)
    return value


# -- to documents -------------------------------------------------------------------------------------------------


def write_attributes(
    attrs: Attrs, stored_references: Mapping[str, object], profile: ProfileName, *, regions: bool
) -> tuple[dict[str, object], dict[str, tuple[object, Code | None]]]:
    """Split attributes into those that Zarr's own format spells, and those that are encoded here, with their codes.

    ``stored_references``: what stood in the document for references. ``regions``: new references to regions may be
    written.
    """
    plain: dict[str, Any] = {}
    encoded: dict[str, tuple[object, Code | None]] = {}
    for name, value in attrs.items():
        if isinstance(value, Reference):
            encoded[name] = _write_reference(name, value, stored_references.get(name), profile, regions), None
        elif name in (FILL_VALUE, ATTRIBUTE) or (pair := _encode_value(name, value)) is None:
            plain[name] = value
        else:
            encoded[name] = pair
    return plain, encoded


def _write_reference(name: str, value: Reference, old: Any, profile: ProfileName, regions: bool) -> dict[str, object]:
    inner = object_or_empty(reference_part(old, profile))
    if inner:
        known = reference_of(inner)
        if known == value and all(getattr(known, each) == getattr(value, each) for each in ID_KEYS):
            return dict(old)
    word = REGION if isinstance(value, RegionReference) else OBJECT
    if word == REGION and profile == "v2" and not regions:
        raise Unsupported(
            f"attribute {name!r} is a region reference, which hdmf-zarr of Zarr v2 cannot open a dataset with",
            remedy="region_attributes=True if only hyperslab is to read it, profile='v3', or store it in an array",
        )
    entry = {key: kept for key, kept in inner.items() if key not in _REFERENCE_KEYS}
    entry |= spelled(value, scalar_as_one=profile == "v2")
    if profile == "v2":
        return {"value": entry, "zarr_dtype": word}
    return {"_REFERENCE": {key: part for key, part in entry.items() if key not in ID_KEYS or part is not None}}


def _encode_value(name: str, value: Any) -> tuple[object, Code | None] | None:
    """Encode UTF-8 bytes as text and floats that JSON lacks as bare tokens; return None for all other values."""
    kind = ""
    match value:
        case float() if not isinstance(value, np.generic):
            return None if math.isfinite(value) else (value, None)
        case list() | tuple() | dict():
            stored, code = encode_attribute(name, value)
            return None if code is None else (decode_attribute(stored, code), None)
        case bytes() | bytearray():
            kind = "S"
        case np.ndarray() | np.generic() if tag_of(value.dtype) is None:
            kind = value.dtype.kind
    if kind == "S":
        stored, code = encode_attribute(name, value)
        try:
            return _map_texts(stored, lambda text: base64_to_bytes(text).decode()), f"{_TEXT}{code}"
        except UnicodeDecodeError:
            return None
    if kind in ("f", "c") and not np.isfinite(value).all():
        stored, code = encode_attribute(name, value)
        return _map_texts(stored, SPECIAL.__getitem__), code
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
    new = {name: part for name, part in parts.items() if part}
    if not new:
        return dict(stored)
    mark = {"version": VERSION, **stored.get(ATTRIBUTE, {})}
    for name, part in new.items():
        mark[name] = {**mark.get(name, {}), **part} if name == "attrs" else part
    return {name: value for name, value in stored.items() if name != ATTRIBUTE} | {ATTRIBUTE: mark}


# -- links: a list of objects with a name each (``zarr_link``, ``_LINKS``) ---------------------------------------------

_LINK_KEYS = ("name", "source", "path", *ID_KEYS)


def read_links(entries: object, word: str, problems: Problems) -> tuple[dict[str, Link], list[object]]:
    """Return the links by name, and the entries that are no links: these are kept as they stand."""
    if not isinstance(entries, list):
        problems.warn("links", f"{word} is {shorten(entries)}, not a list of links")
        return {}, [entries]
    links: dict[str, Link] = {}
    others = []
    for entry in entries:
        if (fault := _link_fault(entry, links)) is not None:
            others.append(entry)
            problems.warn("links", f"{word}: {shorten(entry)} is no link: {fault}")
            continue
        links[entry["name"]] = Link(
            target=entry["path"] if entry["path"].startswith("/") else f"/{entry['path']}",
            source=entry["source"] or ".",
            object_id=entry.get("object_id"),
            source_object_id=entry.get("source_object_id"),
            layout={key: value for key, value in entry.items() if key not in _LINK_KEYS},
        )
    return links, others


def _link_fault(entry: object, links: Mapping[str, Link]) -> str | None:
    """Return why an entry is no link beside those read before it; None for a sound one."""
    if not isinstance(entry, dict):
        return "it is not an object"
    if missing := [key for key in _LINK_KEYS[:3] if not isinstance(entry.get(key), str)]:
        return f"it has no text {missing[0]!r}"
    if not all(isinstance(entry.get(key), str | None) for key in ID_KEYS):
        return "an object_id is no text"
    try:
        check_name(entry["name"])
    except Invalid as error:
        return error.message
    return "another link has this name" if entry["name"] in links else None


def write_links(links: Mapping[str, Link], others: Iterable[object], profile: ProfileName) -> list[object]:
    """Return the list of links for a document. Profile v2 always has the two object ids, v3 where they are known."""
    entries: list[object] = []
    for name, link in links.items():
        check_name(name)
        ids = {"object_id": link.object_id, "source_object_id": link.source_object_id}
        if profile == "v3":
            ids = {key: value for key, value in ids.items() if value is not None}
        entries.append({"name": name, "source": link.source, "path": link.target, **ids, **link.layout})
    return [*entries, *others]
