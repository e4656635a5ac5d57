"""The names that attributes have in the documents of arrays, and their columns in an index, when the schema has others.

An attribute that is renamed, or removed from the schema, changes the collection's document alone: in the documents of
arrays, and in an index, it keeps the name and the place that it had first. So a collection of any size changes at one
stroke, and who still has the document of before reads and writes the same names. The document then lists all attributes
that there ever were, by these names, under ``"stored_attributes"``: ``{"name", "primary", "dtype"[, "default"],
"now"}``, where ``now`` is the name in the schema, null for one that was removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import TypeVar

from hyperslab.errors import SchemaError
from hyperslab.model.guessing import meant
from hyperslab.model.schemas.arrays import Record
from hyperslab.model.schemas.attributes import AttributeSchema

Value = TypeVar("Value")


@dataclass(frozen=True)
class StoredAttributes:
    """All attributes that a schema ever had, in the order in which they came. ``attributes``: each with the name that
    documents of arrays have for it; ``names``: its present name in the schema, None for one that was removed."""

    attributes: tuple[AttributeSchema, ...]
    names: tuple[str | None, ...]

    @classmethod
    def of(cls, attributes: Sequence[AttributeSchema]) -> StoredAttributes:
        """Return those of a schema that never changed."""
        return cls(tuple(attributes), tuple(each.name for each in attributes))

    @property
    def is_plain(self) -> bool:
        """Return True if documents of arrays have the names of the schema, and no others."""
        return self.names == tuple(each.name for each in self.attributes)

    @cached_property
    def present(self) -> tuple[AttributeSchema, ...]:
        """The attributes of the schema."""
        pairs = zip(self.attributes, self.names, strict=True)
        return tuple(replace(attribute, name=name) for attribute, name in pairs if name is not None)

    @cached_property
    def _stored_names(self) -> Mapping[str, str]:
        """The names in documents of arrays by those of the schema."""
        pairs = zip(self.attributes, self.names, strict=True)
        return {name: attribute.name for attribute, name in pairs if name is not None}

    @cached_property
    def known(self) -> frozenset[str]:
        """The names that documents of arrays have for attributes of any time."""
        return frozenset(each.name for each in self.attributes)

    # -- values -----------------------------------------------------------------------------------------------------

    def stored_name(self, name: str) -> str:
        """Return the name that documents of arrays have for an attribute of the schema."""
        return self._stored_names.get(name, name)

    def to_stored(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return values by the names that documents of arrays have."""
        return values if self.is_plain else {self.stored_name(name): value for name, value in values.items()}

    def to_present(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        """Return values of an array's document by the names of the schema, without those of attributes that were
        removed. Values of no known attribute stay, unless their name is that of another one by now."""
        if self.is_plain:
            return values
        found = {name: values[stored] for name, stored in self._stored_names.items() if stored in values}
        rest = {name: value for name, value in values.items() if name not in self.known and name not in found}
        return {**found, **rest}

    def record_to_stored(self, record: Record) -> Record:
        """Return a record by the names that documents of arrays have."""
        if self.is_plain:
            return record
        return Record(record.id, self.to_stored(record.primary), self.to_stored(record.custom))

    # -- changes ----------------------------------------------------------------------------------------------------

    def with_attribute(self, attribute: AttributeSchema) -> StoredAttributes:
        """Add an attribute at the end, under a name that no document of an array has yet."""
        names = (f"{attribute.name}.{number}" if number > 1 else attribute.name for number in count(1))
        stored = next(name for name in names if name not in self.known)
        return StoredAttributes((*self.attributes, replace(attribute, name=stored)), (*self.names, attribute.name))

    def without_attribute(self, name: str) -> StoredAttributes:
        """Remove an attribute from the schema. SchemaError for one that is primary, or not there."""
        if self._find(name).primary:
            remedy = "it is part of the key: make another collection"
            raise SchemaError(f"the attribute {name!r} is primary", remedy=remedy)
        return replace(self, names=tuple(None if each == name else each for each in self.names))

    def with_name(self, name: str, new_name: str) -> StoredAttributes:
        """Give an attribute another name in the schema. SchemaError for one that is not there, for a name that is taken
        and for what is no name."""
        new_name = replace(self._find(name), name=new_name).name
        if new_name in self.names:
            raise SchemaError(f"there is an attribute {new_name!r} already", remedy="choose another name")
        return replace(self, names=tuple(new_name if each == name else each for each in self.names))

    def _find(self, name: str) -> AttributeSchema:
        found = next((each for each in self.present if each.name == name), None)
        if found is None:
            names = [each.name for each in self.present]
            raise SchemaError(f"no attribute {name!r}", remedy=meant(str(name), names))
        return found

    def renamed_since(self, before: StoredAttributes) -> Mapping[str, str] | None:
        """Return by their names of before those that attributes have here, if these are attributes of before that were
        renamed, removed or joined by others with a default; None where they are not."""
        length = len(before.attributes)
        later = zip(self.attributes[length:], self.names[length:], strict=True)
        if self.attributes[:length] != before.attributes or not all(each.has_default for each, _ in later):
            return None
        pairs = list(zip(before.names, self.names, strict=False))
        if any(old is None and new is not None for old, new in pairs):
            return None
        return {old: new for old, new in pairs if old is not None and new is not None}

    # -- documents --------------------------------------------------------------------------------------------------

    def to_json(self) -> list[dict[str, object]]:
        """Return them as a collection's document has them."""
        pairs = zip(self.attributes, self.names, strict=True)
        return [{**attribute.as_dict, "now": name} for attribute, name in pairs]


def check_stored(
    stored: Sequence[tuple[AttributeSchema, object]], schema: Sequence[AttributeSchema]
) -> StoredAttributes:
    """Return the stored attributes of a document, each with its present name; SchemaError where they are not those of
    its schema."""
    names = tuple(name if isinstance(name, str) else None for _, name in stored)
    found = StoredAttributes(tuple(attribute for attribute, _ in stored), names)
    if len(found.known) < len(stored):
        raise SchemaError("two stored attributes have one name")
    if found.present != tuple(schema):
        raise SchemaError("the stored attributes are not those of the schema")
    return found
