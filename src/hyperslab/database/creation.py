"""The records of arrays that are to be made, out of what users give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.errors import SchemaError
from hyperslab.formats.collection_document import CollectionDocument
from hyperslab.model.schemas import Record
from hyperslab.model.schemas.records import check_id, check_new, new_id

_REMEDY = "give (primary, custom), or one mapping of all attributes"


def new_record(document: CollectionDocument, primary: Any, custom: Any, id: str | None = None) -> Record:
    """The record of a new array; SchemaError for attributes that do not fit."""
    key, rest = check_new(document.schema, primary, custom, strict=document.strict)
    return Record(new_id() if id is None else check_id(id), key, rest)


def given_record(document: CollectionDocument, attributes: Any) -> Record:
    """The record of one of many: of a pair of primary and custom attributes, or of a mapping of all."""
    if isinstance(attributes, Mapping):
        known = {each.name for each in document.schema.primary_attributes}
        primary = {name: value for name, value in attributes.items() if name in known}
        custom = {name: value for name, value in attributes.items() if name not in known}
        return new_record(document, primary, custom)
    if isinstance(attributes, tuple | list) and len(attributes) in (1, 2):
        return new_record(document, *attributes, *(None,) * (2 - len(attributes)))
    raise SchemaError(f"{attributes!r} are no attributes of an array", remedy=_REMEDY)
