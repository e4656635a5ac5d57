"""Attributes as HDMF's documents spell them: references as objects, bytes as text, NaN and infinities as bare tokens.

Profile v2: ``{"value": {"source": …, "path": …, …}, "zarr_dtype": "object"}`` (``"region"``); profile v3:
``{"_REFERENCE": {…}}``. What JSON does not say of a value's type rides in the mark ``_hyperslab``, in the codes of
:mod:`~hyperslab.formats.typed_attrs`; ``utf-8:`` before a code means that its bytes stand as text, not as base64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hyperslab.codecs.reference_json import reference_of, spelled
from hyperslab.errors import HyperslabError, Unsupported
from hyperslab.formats.cells_json import SPECIAL, base64_to_bytes, bytes_to_base64
from hyperslab.formats.extended_metadata import MARK, VERSION
from hyperslab.formats.faults import Faults
from hyperslab.formats.hdmf.attribute_names import Words
from hyperslab.formats.hdmf.dtype_words import OBJECT, REGION
from hyperslab.formats.typed_attrs import Code, decode, encode
from hyperslab.model.attrs import Attrs
from hyperslab.model.dtypes import tag_of
from hyperslab.model.refs import ObjectReference, RegionReference

Reference = ObjectReference | RegionReference
FILL = "_FillValue"
"""Spelled by Zarr's own formats, as xarray knows it."""
_TEXT = "utf-8:"
_REFERENCE = "_REFERENCE"
_KEYS = frozenset({"source", "path", "object_id", "source_object_id", "region"})
_IDS = ("object_id", "source_object_id")


# -- from documents -----------------------------------------------------------------------------------------------


def read_values(
    attrs: Attrs, stored: Mapping[str, Any], words: Words, faults: Faults
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
            found[name] = _read_reference(name, value, inner, faults)
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


def _read_reference(name: str, value: dict[str, Any], inner: Any, faults: Faults) -> Any:
    try:
        if not isinstance(inner, dict):
            raise TypeError("it is no object")
        if (value.get("zarr_dtype") == REGION) and "region" not in inner:
            raise TypeError("it has no region")
        return reference_of(inner)
    except (HyperslabError, TypeError, ValueError) as error:
        said = error.message if isinstance(error, HyperslabError) else error
        faults.note("reference", f"attribute {name!r} is no reference: {said}")
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
    said = {key: kept for key, kept in inner.items() if key not in _KEYS}
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
