"""Attributes as HDMF's documents spell them: references as objects, bytes as text, NaN and infinities as bare tokens.

Profile v2: ``{"value": {"source": …, "path": …, …}, "zarr_dtype": "object"}`` (``"region"``); profile v3:
``{"_REFERENCE": {…}}``. What JSON does not say of a value's type rides in the mark ``_hyperslab``, in the codes of
:mod:`~hyperslab.formats.metadata_json.attributes`; ``utf-8:`` before a code means that its bytes stand as text, not as
base64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hyperslab.codecs.reference_json import reference_of, spelled
from hyperslab.errors import HyperslabError, Invalid, Unsupported
from hyperslab.formats.format_errors import Problems, brief
from hyperslab.formats.hdmf.cell_types import OBJECT, REGION
from hyperslab.formats.metadata_json.attributes import Code, decode, encode
from hyperslab.formats.metadata_json.cells import SPECIAL, base64_to_bytes, bytes_to_base64
from hyperslab.formats.metadata_json.extended_metadata import MARK, VERSION
from hyperslab.model.attrs import Attrs
from hyperslab.model.dtypes import tag_of
from hyperslab.model.paths import check_name
from hyperslab.model.refs import Link, ObjectReference, RegionReference

# -- ------------------------------------------------------------------------------------------------------------------
# The reserved attributes of both profiles: they stand in documents, and never among the attributes that users see.


SPECLOC = ".specloc"
"""At the root: the path of the group in which the specifications are."""
SPECIFICATIONS = "specifications"
"""That group's usual path."""
REFERENCE_FIELDS, REGION_FIELDS = "_REFERENCE_FIELDS", "_REGION_FIELDS"
RESERVED = ("zarr_link", "zarr_dtype", SPECLOC, "_LINKS", "_DTYPE", REFERENCE_FIELDS, REGION_FIELDS)
OWN, LINKS, PLACE = "hdmf", "links", "specloc"
"""The part of a spec's ``layout`` that is this format's; in that of a group its links by name, and in that of the root
the path of the group of the specifications."""


@dataclass(frozen=True, slots=True)
class Words:
    """What one profile calls the links of a group and the type of an array."""

    profile: Literal["v2", "v3"]
    links: str
    dtype: str


V2 = Words("v2", "zarr_link", "zarr_dtype")
V3 = Words("v3", "_LINKS", "_DTYPE")


def split(stored: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reserved attributes of a node, and the others."""
    own = {name: stored[name] for name in RESERVED if name in stored}
    return own, {name: value for name, value in stored.items() if name not in own}


def refuse_reserved(attrs: Iterable[str]) -> None:
    """Invalid for an attribute of users that bears a reserved name."""
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
_IDS = ("object_id", "source_object_id")


# -- from documents -----------------------------------------------------------------------------------------------


def read_values(
    attrs: Attrs, stored: Mapping[str, Any], words: Words, problems: Problems
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes as users see them, and what stands in the document for those that are references.

    ``attrs`` has been decoded by the mark in ``stored``. An object that spells no sound reference stays an object.
    """
    mark = stored.get(MARK)
    codes = mark.get("attrs") if isinstance(mark, dict) else None
    codes = codes if isinstance(codes, dict) else {}
    found: dict[str, Any] = {}
    spellings: dict[str, Any] = {}
    for name, value in attrs.items():
        code = codes.get(name)
        if isinstance(code, str) and code.startswith(_TEXT):
            found[name] = _from_text(value, code.removeprefix(_TEXT))
        elif isinstance(value, dict) and (inner := inner_of(value, words)) is not None:
            found[name] = _read_reference(name, value, inner, problems)
            if found[name] is not value:
                spellings[name] = value
        else:
            found[name] = value
    return found, spellings


def inner_of(value: Mapping[str, Any], words: Words) -> Any:
    """The object that spells a reference, where the value is one in this profile."""
    if words.profile == "v3":
        return value[_REFERENCE] if set(value) == {_REFERENCE} else None
    return value["value"] if value.get("zarr_dtype") in (OBJECT, REGION) and "value" in value else None


def _read_reference(name: str, value: dict[str, Any], inner: Any, problems: Problems) -> Any:
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


def _from_text(value: Any, code: str) -> Any:
    """Bytes that stand as text; the value as it is where it does not fit its code."""
    coded = _mapped(value, lambda text: bytes_to_base64(text.encode(errors="surrogatepass")))
    found = decode(coded, code)
    return value if found is coded else found


def _mapped(value: Any, change: Callable[[str], Any]) -> Any:
    if isinstance(value, list):
        return [_mapped(part, change) for part in value]
    return change(value) if isinstance(value, str) else value


# -- to documents -------------------------------------------------------------------------------------------------


def write_values(
    attrs: Attrs, spellings: Mapping[str, Any], words: Words, *, regions: bool
) -> tuple[dict[str, Any], dict[str, tuple[Any, Code | None]]]:
    """The attributes that Zarr's own format is to spell, and the others with their codes.

    ``spellings``: what stood in the document for references. ``regions``: new references to regions may be written.
    """
    plain: dict[str, Any] = {}
    apart: dict[str, tuple[Any, Code | None]] = {}
    for name, value in attrs.items():
        if isinstance(value, Reference):
            apart[name] = _write_reference(name, value, spellings.get(name), words, regions), None
        elif name in (FILL, MARK) or (said := _spelled_here(name, value)) is None:
            plain[name] = value
        else:
            apart[name] = said
    return plain, apart


def _write_reference(name: str, value: Reference, old: Any, words: Words, regions: bool) -> dict[str, Any]:
    inner = inner_of(old, words) if isinstance(old, dict) else None
    inner = inner if isinstance(inner, dict) else {}
    if inner and _same(reference_of(inner), value):
        return dict(old)
    if isinstance(value, RegionReference) and words.profile == "v2" and not regions:
        raise Unsupported(
            f"attribute {name!r} is a region reference, which hdmf-zarr of Zarr v2 cannot open a dataset with",
            remedy="region_attributes=True if only hyperslab is to read it, profile='v3', or store it in an array",
        )
    said = {key: kept for key, kept in inner.items() if key not in _REFERENCE_KEYS}
    said |= spelled(value, scalar_as_one=words.profile == "v2")
    if words.profile == "v2":
        return {"value": said, "zarr_dtype": REGION if isinstance(value, RegionReference) else OBJECT}
    return {_REFERENCE: {key: part for key, part in said.items() if key not in _IDS or part is not None}}


def _same(a: Reference, b: Reference) -> bool:
    return a == b and all(getattr(a, name) == getattr(b, name) for name in _IDS)


def _spelled_here(name: str, value: Any) -> tuple[Any, Code | None] | None:
    """Bytes that are UTF-8 as text, floats that JSON lacks as themselves; None for all other values."""
    typed = isinstance(value, np.ndarray | np.generic)
    if typed and tag_of(value.dtype) is not None:
        return None
    kind = value.dtype.kind if typed else ""
    if isinstance(value, bytes | bytearray) or kind == "S":
        said, code = encode(name, value)
        try:
            return _mapped(said, lambda text: base64_to_bytes(text).decode()), f"{_TEXT}{code}"
        except UnicodeDecodeError:
            return None
    if isinstance(value, float) and kind == "" and not math.isfinite(value):
        return value, None
    if isinstance(value, list | tuple | dict):
        said, code = encode(name, value)
        return None if code is None else (decode(said, code), None)
    if kind in ("f", "c"):
        said, code = encode(name, value)
        return (_mapped(said, SPECIAL.__getitem__), code) if not np.isfinite(value).all() else None
    return None


def with_apart(stored: Mapping[str, Any], apart: Mapping[str, tuple[Any, Code | None]], order: Attrs) -> dict[str, Any]:
    """The attributes of a document with those that were spelled here, in the order of the attributes; the mark last."""
    values = {name: value for name, value in stored.items() if name not in order and name != MARK}
    values |= {
        name: apart[name][0] if name in apart else stored[name] for name in order if name in apart or name in stored
    }
    codes = {name: code for name, (_, code) in apart.items() if code is not None}
    return values | marked({MARK: stored[MARK]} if MARK in stored else {}, attrs=codes)


def marked(stored: Mapping[str, Any], **parts: Any) -> dict[str, Any]:
    """The attributes with more said in the mark; objects are joined with what it says there."""
    said = {name: part for name, part in parts.items() if part}
    if not said:
        return dict(stored)
    mark = {"version": VERSION, **stored.get(MARK, {})}
    for name, part in said.items():
        mark[name] = {**mark.get(name, {}), **part} if isinstance(part, dict) and name == "attrs" else part
    return {name: value for name, value in stored.items() if name != MARK} | {MARK: mark}


# -- ------------------------------------------------------------------------------------------------------------------
# Links as a group's document has them: a list of objects with a name each (``zarr_link``, ``_LINKS``). Pure.


_LINK_KEYS = ("name", "source", "path", "object_id", "source_object_id")


def read_links(said: Any, word: str, problems: Problems) -> tuple[dict[str, Link], list[Any]]:
    """The links by name, and the entries that are none: they are kept as they stand."""
    if not isinstance(said, list):
        problems.warn("links", f"{word} is {brief(said)}, not a list of links")
        return {}, [said]
    links: dict[str, Link] = {}
    others = []
    for entry in said:
        reason = _fault(entry, links)
        if reason is None:
            links[entry["name"]] = _read_link(entry)
        else:
            others.append(entry)
            problems.warn("links", f"{word}: {brief(entry)} is no link: {reason}")
    return links, others


def _fault(entry: Any, links: Mapping[str, Link]) -> str | None:
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


def write_links(links: Mapping[str, Link], others: Iterable[Any], profile: Literal["v2", "v3"]) -> list[Any]:
    """The list of a document. Profile v2 names the two object ids always, v3 where they are known."""
    return [*(_write_link(name, link, profile) for name, link in links.items()), *others]


def _write_link(name: str, link: Link, profile: str) -> dict[str, Any]:
    check_name(name)
    ids = {"object_id": link.object_id, "source_object_id": link.source_object_id}
    if profile == "v3":
        ids = {key: value for key, value in ids.items() if value is not None}
    return {"name": name, "source": link.source, "path": link.target, **ids, **link.layout}
