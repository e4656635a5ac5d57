"""What cells are whose documents do not tell it any more: the first stored chunk is asked.

Zarr v2 says ``|O`` of text and references alike, and v3 has references as text; without ``zarr_dtype`` or ``_DTYPE``
they would be taken for text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.chunks.auto import longest_chunk
from hyperslab.codecs.base import ChunkLayout
from hyperslab.codecs.chain import build_chain
from hyperslab.codecs.pickled import read_pickled
from hyperslab.codecs.reference_text import of_text
from hyperslab.errors import HyperslabError
from hyperslab.formats.hdmf.dtype_words import OBJECT, OBJECTS, REGION
from hyperslab.formats.hdmf.objects import PICKLE
from hyperslab.formats.hdmf.survey import HDMFSurvey
from hyperslab.formats.zarr2.document import ARRAY
from hyperslab.model.dtypes import ObjectRef, VlenString
from hyperslab.model.paths import child
from hyperslab.model.refs import ObjectReference, path_within
from hyperslab.model.spec import ArraySpec

_OBJECT_DTYPES = ("|O", "O", "object")


def meant_word(survey: HDMFSurvey, path: str, spec: ArraySpec) -> Any:
    """Return the ``zarr_dtype`` or ``_DTYPE`` that the first stored chunk speaks of; None where it tells nothing."""
    try:
        if survey.profile.words.profile == "v3":
            return _word_of_texts(survey, path, spec)
        return _word_of_objects(survey.docs(path)[ARRAY], survey, path, spec)
    except (HyperslabError, ValueError, RecursionError):
        return None


def needs_word(survey: HDMFSurvey, path: str, spec: ArraySpec) -> bool:
    """Return whether the type of the cells is nowhere but in that word."""
    if survey.profile.words.profile == "v3":
        return isinstance(spec.dtype, VlenString)
    doc = survey.docs(path)[ARRAY]
    dtype = doc.get("dtype")
    filters = doc.get("filters")
    first = filters[0].get("id") if isinstance(filters, list) and filters and isinstance(filters[0], dict) else None
    fields = dtype if isinstance(dtype, list) else [[None, dtype]]
    return first in ("json2", "pickle") and any(_is_object(field) for field in fields)


def _is_object(field: Any) -> bool:
    return isinstance(field, list) and len(field) > 1 and field[1] in _OBJECT_DTYPES


def _word_of_objects(doc: Mapping[str, Any], survey: HDMFSurvey, path: str, spec: ArraySpec) -> Any:
    fields = doc["dtype"] if isinstance(doc["dtype"], list) else None
    columns = _columns(survey, path, spec, 1 if fields is None else len(fields))
    if columns is None:
        return None
    if fields is None:
        return _kind(columns[0])
    pairs = zip(fields, columns, strict=True)
    words = [_kind(column) if _is_object(field) else str(field[1]) for field, column in pairs]
    if None in words:
        return None
    named = zip(fields, ("str_" if word == "str" else word for word in words), strict=True)
    return [{"name": field[0], "dtype": word} for field, word in named]


def _kind(values: Sequence[Any]) -> str | None:
    """Return what values of JSON or of a pickle are together; those that were never written say nothing."""
    found = {_kind_of_value(value) for value in values if value is not None and not (value == 0 and value is not False)}
    return found.pop() if len(found) == 1 else None


def _kind_of_value(value: Any) -> str | None:
    if isinstance(value, str):
        return "str"
    if isinstance(value, ObjectReference):
        return OBJECT
    if isinstance(value, dict) and isinstance(value.get("path"), str):
        return OBJECT if value.get("region") is None else REGION
    return None


def _columns(survey: HDMFSurvey, path: str, spec: ArraySpec, count: int) -> list[list[Any]] | None:
    """Return the plain values of the first stored chunk, by field."""
    keys = (place for place in survey.store.list(path) if not place[len(child(path, "")) :].startswith("."))
    data = next((found for place in sorted(keys) if (found := survey.store.get(place)) is not None), None)
    if data is None:
        return None
    shape = longest_chunk(spec.chunks)
    raw = bytes(build_chain(spec.codecs, ChunkLayout(spec.dtype, shape, spec.fill_value)).unpack(data))
    if any(codec.name == PICKLE for codec in spec.codecs):
        values = 1
        for length in shape:
            values *= length
        return list(map(list, read_pickled(raw, values * count).columns))
    items = json.loads(raw)[:-2]
    for _ in shape[1:]:
        items = [cell for item in items for cell in item]
    if count == 1:
        return [items]
    rows = [item for item in items if isinstance(item, list) and len(item) == count]
    return [list(column) for column in zip(*rows, strict=True)] or None


def _word_of_texts(survey: HDMFSurvey, path: str, spec: ArraySpec) -> str | None:
    """Return references where each text of the first chunk is one, and leads to a node of the dataset."""
    source = survey.documents.chunks_as(path, spec)
    block = next((found for coords in source.grid if (found := source.read(coords)) is not None), None)
    texts = [] if block is None else [text for text in block.reshape(-1).tolist() if text]
    if not texts:
        return None
    for text in texts:
        reference = of_text(text, ObjectRef())
        if not isinstance(reference, ObjectReference) or survey.find(path_within(reference), []) is None:
            return "str"
    return OBJECTS["v3"]
