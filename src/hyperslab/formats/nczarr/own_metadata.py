"""NCZarr's own metadata in the documents of each generation.

It is read as netcdf-c spells it today; what is changed stays where it stood, under the names of its generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hyperslab.formats.documents import JsonMapping, JsonObject, object_or_empty, text_or_none
from hyperslab.formats.nczarr.dimensions import SCALAR, XARRAY, dimensions_by_name, short_names, write_group_dimensions
from hyperslab.formats.nczarr.generation import (
    ARRAY,
    GROUP,
    NEW_NAMES,
    OBJECTS,
    TYPES,
    Generation,
    to_current_documents,
)
from hyperslab.formats.zarr.dialect import Docs
from hyperslab.formats.zarr2.document import ZARRAY, ZATTRS, ZGROUP
from hyperslab.model.cells import float_to_json
from hyperslab.model.dims import Dimension

_DRAFT_WORDS = {"dimension_references": (ZARRAY, "dimensions"), "written": (ZARRAY, "written")}
_OLDER_NAMES = {new: old for old, new in NEW_NAMES.items()}
_OLDER_PLACES = {GROUP: ZGROUP, ARRAY: ZARRAY, TYPES: ZATTRS}
_V1_PLACES = {kind: place for place, kind in OBJECTS.items()}
_TEXT = frozenset({"char", ">S1", "<S1", "<U1", ">U1", "|U1"})


def own_metadata(docs: Docs, generation: Generation, kind: str) -> JsonObject | None:
    """Return the object ``kind`` (``_nczarr_group`` …) in today's words; None where there is none."""
    if generation is Generation.DRAFT:
        return {word: docs[name][key] for word, (name, key) in _DRAFT_WORDS.items() if key in docs.get(name, {})}
    value = to_current_documents(docs).get(ZATTRS, {}).get(kind)
    return value if isinstance(value, dict) else None


def with_own_metadata(docs: Docs, generation: Generation, kind: str, changes: JsonMapping) -> Docs:
    """Return the documents with members of the object ``kind`` changed; one that becomes None goes."""
    if generation is Generation.DRAFT:
        doc = _changed(docs[ZARRAY], {_DRAFT_WORDS[word][1]: value for word, value in changes.items()})
        return docs | {ZARRAY: doc}
    if not generation.is_older:
        attributes = docs.get(ZATTRS, {})
        return docs | {ZATTRS: {**attributes, kind: _changed(attributes.get(kind), changes)}}
    named = {_OLDER_NAMES.get(word, word): value for word, value in changes.items()}
    if generation is Generation.V1:
        return docs | {_V1_PLACES[kind]: _changed(docs.get(_V1_PLACES[kind]), named)}
    doc = docs.get(_OLDER_PLACES[kind], {})
    usual = kind.upper() if generation is Generation.V2A else kind
    key = next((key for key in doc if key.lower() == kind), usual)
    return docs | {_OLDER_PLACES[kind]: {**doc, key: _changed(doc.get(key), named)}}


def _changed(content: object, changes: JsonMapping) -> JsonObject:
    whole = {**object_or_empty(content), **changes}
    return {name: value for name, value in whole.items() if value is not None}


def read_references(docs: Docs, generation: Generation) -> Any:
    """Return the qualified names of an array's dimensions as they are stored; None where nothing is."""
    return (own_metadata(docs, generation, ARRAY) or {}).get("dimension_references")


def with_references(docs: Docs, generation: Generation, names: Sequence[str]) -> Docs:
    """Return the array on these dimensions, for readers of Zarr too."""
    plain: list[str] = list(short_names(names))
    if not names and docs.get(ZARRAY, {}).get("shape") == [1]:
        plain = [SCALAR]
    changed = with_own_metadata(docs, generation, ARRAY, {"dimension_references": list(names)})
    if XARRAY not in docs.get(ZATTRS, {}) and generation.is_older:
        return changed
    return changed | {ZATTRS: {**changed.get(ZATTRS, {}), XARRAY: plain}}


def with_dimensions(docs: Docs, generation: Generation, dims: Iterable[Dimension]) -> Docs:
    """Return the group with these dimensions declared, in place of those of the same names."""
    entries = write_group_dimensions(dims)
    if generation is Generation.DRAFT:
        return docs | {".zdims": {**docs.get(".zdims", {}), **entries}}
    value = dimensions_by_name((own_metadata(docs, generation, GROUP) or {}).get("dimensions"))
    return with_own_metadata(docs, generation, GROUP, {"dimensions": {**object_or_empty(value), **entries}})


def with_shape(docs: Docs, generation: Generation, shape: Sequence[int], rows: Sequence[int]) -> Docs:
    """Return the array of another shape, which was given cells as far as ``rows``."""
    changed = docs | {ZARRAY: {**docs[ZARRAY], "shape": list(shape)}}
    if generation.is_older:
        return changed
    return with_own_metadata(changed, generation, ARRAY, {"written": None if list(rows) == list(shape) else list(rows)})


def with_quoted_text(docs: Docs, generation: Generation, texts: Callable[[], Mapping[str, str]]) -> Docs:
    """Return the documents as they can be written: characters that stand without quotes get them as
    ``texts`` spells them, numbers that JSON lacks are text."""
    if ZATTRS not in docs:
        return docs
    if generation is Generation.DRAFT:
        codes = docs.get(".zattr_type", {})
    else:
        codes = object_or_empty((own_metadata(docs, generation, TYPES) or {}).get("types"))
    attributes = {}
    for name, value in docs[ZATTRS].items():
        code = codes.get(name)
        bare = text_or_none(code) in _TEXT and not isinstance(value, str)
        text = texts().get(name) if bare else None
        attributes[name] = _finite(value) if text is None else text
    return docs | {ZATTRS: attributes}


def _finite(value: object) -> object:
    match value:
        case float():
            return float_to_json(value)
        case list():
            return [_finite(item) for item in value]
        case dict():
            return {name: _finite(item) for name, item in value.items()}
    return value
